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

/* Its link is down; every service level has lane 0. 0, or -1 when memory is short. */
int fabric_end_init(struct fabric_end *e, const struct fabric_link_cfg *cfg);
void fabric_end_fini(struct fabric_end *e);

/*
 * A whole frame of the owner, whose lane (but for 15, of management) and VCRC are set here. False:
 * there is no room now.
 */
bool fabric_end_post(struct fabric_end *e, uint8_t *bytes, uint32_t length);

/* Hands frames to the link; call it when a frame was posted, or the link has sent something. */
void fabric_end_forward(struct fabric_end *e);

/* The next frame that has come, lane 15 first. Returns its length; 0: there is none. */
uint32_t fabric_end_take(struct fabric_end *e, uint8_t bytes[IBA_FRAME_MAX]);
