/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port of an endnode: frames of its owner leave by the lane of their service level, and those of
 * others are checked before the owner gets them. A frame that does not fit waits at the owner
 * (FAB-13); one that is damaged is never delivered (FAB-07).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "fabric/link.h"

struct fabric_end {
	struct fabric_link link;
	struct fabric_lane out[FLIT_LANES];
	uint8_t lane_of[FLIT_LANES]; /* by service level */
	uint64_t refused;	     /* frames that had come, and were none */
};

/* Its link is down; every service level has lane 0. */
void fabric_end_init(struct fabric_end *e, const struct fabric_link_cfg *cfg,
		     struct fabric_pool *pool);

/*
 * A whole frame of the owner, whose lane (but for 15, of management) and VCRC are set here. False:
 * there is no room now.
 */
bool fabric_end_post(struct fabric_end *e, uint8_t *bytes, uint32_t length);

/* A frame whose lane is known, and whose VCRC does not matter. */
bool fabric_end_put(struct fabric_end *e, uint8_t lane, const uint8_t *bytes, uint32_t length);

/* Hands the next frame of a lane to the link; call it when one was put, or the link has sent. */
void fabric_end_freed(struct fabric_end *e, uint8_t lane);

/* All lanes. */
void fabric_end_forward(struct fabric_end *e);

/* The next frame that has come, lane 15 first, which stays until it is passed; NULL: none. */
struct fabric_frame *fabric_end_next(struct fabric_end *e);

/* Takes it. Both CRCs are checked. Returns its length; 0: there is none. */
uint32_t fabric_end_take(struct fabric_end *e, uint8_t bytes[IBA_FRAME_MAX]);
