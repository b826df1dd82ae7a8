/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of ERF, the only form in which Wireshark reads frames of InfiniBand: in a capture of link
 * type 197 each packet is this header and the frame.
 */
#pragma once

#include <stdint.h>

enum { ERF_BYTES = 16 };

/* time_ns: since 1970. lost: frames since the record before it, of which there is none. */
void erf_infiniband_encode(uint64_t time_ns, uint32_t frame_bytes, uint64_t lost,
			   uint8_t bytes[ERF_BYTES]);
