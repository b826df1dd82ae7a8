/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which lane of a link is next (IBA 7.6.9): lane 15 before all others; then two tables of lanes
 * with weights, that of high priority and that of low. A weight counts flits. Low priority gets its
 * turn when nothing of high priority is ready, or has had its limit.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FABRIC_ARBITER_ENTRIES = 64, FABRIC_LIMIT_NONE = 255, FABRIC_LIMIT_UNIT = 47 };

struct fabric_turns {
	uint8_t lanes[FABRIC_ARBITER_ENTRIES], weights[FABRIC_ARBITER_ENTRIES];
	uint32_t at;   /* the entry whose turn it is */
	uint32_t used; /* of its weight */
};

struct fabric_arbiter {
	uint32_t high_used; /* flits since low priority had its turn, while it was ready */
	uint32_t high_lanes, low_lanes; /* a bit for each lane that a table has */
	uint8_t high_limit;		/* in units of 4096 bytes; FABRIC_LIMIT_NONE: no limit */
	bool is_high;			/* the table that had the last turn */
	struct fabric_turns high, low;
};

/* All lanes in turn, at low priority. */
void fabric_arbiter_init(struct fabric_arbiter *a);

/* To be called when a table was written. */
void fabric_arbiter_settle(struct fabric_arbiter *a);

/* Takes over the tables and the limit of another one; turns go on where they are. */
void fabric_arbiter_copy(struct fabric_arbiter *a, const struct fabric_arbiter *from);

/* One of the lanes whose bits are set, or -1 if no table has any of them. It sends a flit. */
int fabric_arbiter_pick(struct fabric_arbiter *a, uint32_t ready);

/* Of further flits of the lane that was picked: how many it may send in the same turn. */
uint32_t fabric_arbiter_more(struct fabric_arbiter *a, uint32_t ready, int lane, uint32_t flits);
