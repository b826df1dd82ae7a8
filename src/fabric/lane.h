/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffer of a virtual lane: a ring of blocks, a flit each, and the frames in them. A frame
 * stays where it came in until every output that has it has sent it, and the next node has
 * acknowledged it; only then does the sender get credit for its blocks. So a link that sends again
 * needs no copy.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/flit.h"
#include "wire/iba_frame.h"

enum { FABRIC_FRAME_FLITS = (IBA_FRAME_MAX + FLIT_DATA - 1) / FLIT_DATA };

struct fabric_lane;

struct fabric_frame {
	struct fabric_lane *lane;
	uint32_t first; /* block */
	uint32_t flits, bytes;
	uint32_t references; /* outputs that have it */
	uint64_t pending;    /* outputs that it waits for, once it was routed */
	uint8_t out_lane;    /* on which it leaves, then */
	bool is_whole;
	bool is_routed;
	bool is_passed; /* no more outputs get it */
};

struct fabric_lane {
	uint32_t blocks_max; /* 0: the port has no such lane */
	uint8_t *blocks;
	struct fabric_frame *frames; /* as many */
	/* They only grow, and count modulo 2^32. */
	uint32_t block_begin, block_end;
	uint32_t frame_begin, frame_head, frame_end; /* oldest; next to leave; next to come */
};

/* At least FABRIC_FRAME_FLITS blocks. 0, or -1 when memory is short. */
int fabric_lane_init(struct fabric_lane *l, uint32_t blocks);
void fabric_lane_fini(struct fabric_lane *l);

static inline uint32_t fabric_lane_room(const struct fabric_lane *l)
{
	return l->blocks_max - (l->block_end - l->block_begin);
}

/*
 * Adds a flit, for which there is room. False: it does not continue the frame before it, or begin
 * one, or the frame is longer than any.
 */
bool fabric_lane_add(struct fabric_lane *l, const struct flit *f);

/* Takes back a frame whose rest does not come. */
void fabric_lane_cut(struct fabric_lane *l);

/* The next whole frame that waits for its outputs; NULL: none. */
struct fabric_frame *fabric_lane_head(struct fabric_lane *l);

/* The head needs no more outputs; without a reference it is gone. */
void fabric_lane_pass(struct fabric_lane *l);

/* Gives a reference back. */
void fabric_frame_put(struct fabric_frame *f);

/* The bytes of a flit of it; returns their number. */
uint32_t fabric_frame_flit(const struct fabric_frame *f, uint32_t index, const uint8_t **data);

/* All of it, to room for f->bytes. */
void fabric_frame_copy(const struct fabric_frame *f, uint8_t *to);

/* Its local route header. False: it has none that is right. */
bool fabric_frame_lrh(const struct fabric_frame *f, struct iba_lrh *h);

/* Writes the lane on which it leaves into that, and the VCRC anew. */
void fabric_frame_set_lane(struct fabric_frame *f, uint8_t lane);
