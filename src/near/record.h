/* SPDX-License-Identifier: BSD-2-Clause */
/* In front of each packet in a ring: what IP and UDP headers tell of it. */
#pragma once

#include "near/ring.h"
#include "wire/inet.h"

struct near_record {
	uint32_t bytes; /* of the packet */
	uint8_t is_ipv6, traffic_class, hop_limit;
	uint8_t has_icrc;
	struct inet_end from, to;
	uint16_t ipv4_id; /* for which its ICRC is valid */
	uint16_t run;	  /* see struct ib_in */
};

enum {
	NEAR_RECORD_BYTES = (sizeof(struct near_record) + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN
};
