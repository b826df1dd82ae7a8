/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An Ethernet frame in a buffer of the caller's, without its check sequence, and what it leaves to
 * its receiver: a checksum, segmentation.
 */
#pragma once

#include <weft/reason.h>

#include "wire/virtio_net.h"

enum {
	LAN_HEADER_BYTES = 14,
	LAN_FRAME_MAX = 65535, /* a packet of 65521 bytes and the header */
	LAN_MTU_MAX = LAN_FRAME_MAX - LAN_HEADER_BYTES,
	LAN_MTU_MIN = 68, /* RFC 791 */
	LAN_MAC_BYTES = 6,
	LAN_VLAN_BYTES = 4,
};

/* What of a frame a port completes by itself, or its peer does. */
enum lan_offload {
	LAN_CSUM = 1 << 0,
	LAN_TSO4 = 1 << 1,
	LAN_TSO6 = 1 << 2,
	LAN_TSO_ECN = 1 << 3,
	LAN_USO = 1 << 4,
};

struct lan_frame {
	uint8_t *bytes;
	uint32_t room;
	uint32_t length;
	struct virtio_net net;
	/*
	 * To be sent: its last bytes, if they are not in `bytes` but here. There is room for them
	 * nevertheless.
	 */
	const uint8_t *rest;
	uint32_t rest_length;
};

/*
 * The length, and a virtio-net header that says nothing which cannot be: no more than the offsets
 * lie in the frame. Unknown flags are cleared.
 */
enum weft_reason lan_frame_check(struct lan_frame *f);

/* Which of enum lan_offload the receiver of the frame must have; 0: the frame is complete. */
uint32_t lan_frame_needs(const struct lan_frame *f);
