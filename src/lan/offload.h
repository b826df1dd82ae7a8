/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completes in software what a frame leaves to its receiver: a checksum, segmentation of TCP and
 * UDP over IPv4 and IPv6, behind up to two VLAN tags. And tells flows apart.
 */
#pragma once

#include <stdbool.h>

#include "lan/frame.h"

enum {
	LAN_HEADERS_MAX = 256, /* of the frames that can be cut */
	/* No stack cuts one packet into more; a smaller gso_size is an attack. */
	LAN_SEGMENTS_MAX = 2048,
};

/* The frame has passed lan_frame_check(). Completes its checksum, in place. */
void lan_checksum(struct lan_frame *f);

/*
 * A number for the flow of a frame of 14 bytes at least: of its addresses and ports; of a fragment,
 * and of what has no ports, its addresses; of what is no IP, those of its stations. What is not in
 * `bytes`, or behind the longest headers, is not looked at.
 */
uint32_t lan_flow(const struct lan_frame *f);

/* A frame that is being cut. The frame's bytes are the owner's, and stay while it is. */
struct lan_cut {
	const uint8_t *bytes;
	uint32_t length;
	bool is_ipv6, is_tcp, is_ecn;
	uint32_t ip, l4, payload; /* offsets */
	uint32_t size;		  /* of the payload of each but the last */
	uint32_t at;		  /* the next byte of the payload */
	uint32_t index;
};

/* The frame has passed lan_frame_check() and has a gso_type. Its headers must agree with that. */
enum weft_reason lan_cut_begin(struct lan_cut *c, const struct lan_frame *f);

/* How long the next segment is; 0: there is none. */
uint32_t lan_cut_want(const struct lan_cut *c);

/* Writes it; to has lan_cut_want() bytes. */
void lan_cut_next(struct lan_cut *c, uint8_t *to);
