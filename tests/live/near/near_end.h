/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process that is one end of connections to another one, and to a new one each time its partner
 * is killed. What it is told, and what it reports, is in memory that it shares with the test.
 */
#pragma once

#include <stdatomic.h>

#include "live/near/near_world.h"

enum { NEAR_CONNECTIONS = 6, NEAR_ENDS = 2 };

/* How long at most an end needs for what is measured here when its peer has been killed. */
#define NEAR_BOUND_NS (UINT64_C(2) * 1000000000)

enum near_traffic {
	NEAR_IDLE,
	NEAR_DIRECT, /* Writes and Reads of up to a packet, one at a time */
	NEAR_SMALL,  /* requests of every kind of up to a packet */
	NEAR_LARGE,  /* Sends, Writes and Reads of many packets */
	NEAR_MIXED,
	NEAR_TRAFFICS
};

enum near_drive {
	NEAR_POLLS,  /* all the time */
	NEAR_WAITS,  /* in weft_cq_wait() where nothing is to be done */
	NEAR_DRIVES, /* the same, and weft's own thread rests */
	NEAR_DRIVE_COUNT
};

/* When the survivor ends a region that is not used, of which it unmaps the memory. */
enum near_ending { NEAR_UNMAP_FIRST, NEAR_DEREGISTER_FIRST, NEAR_ENDING_LATER, NEAR_ENDINGS };

/* Of a round; written while both ends rest. */
struct near_plan {
	uint64_t seed;
	bool has_timeouts; /* else requests end by that of the peer long before */
	bool is_quiet;	   /* the survivor makes no progress from before the kill until its end */
	enum near_ending ending;
	enum near_traffic traffic[NEAR_CONNECTIONS];
	uint8_t requesters[NEAR_CONNECTIONS]; /* a bit for each end */
	uint8_t depth[NEAR_CONNECTIONS];      /* requests at a time */
};

/* In order, in each round. */
enum near_stage {
	NEAR_BEGINS,
	NEAR_HAS_CARDS,
	NEAR_IS_CONNECTED,
	NEAR_IS_QUIET,
	NEAR_RESTS,
	NEAR_STAGES
};

/* Written by the end's process. */
struct near_account {
	atomic_uint stage;     /* near_stage_of() */
	atomic_uint completed; /* requests, in this round */
	uint32_t numbers[NEAR_CONNECTIONS], tag;
	uint64_t addr;
	/* When its peer was killed, the longest ever: until all requests ended, and of a call. */
	uint64_t drain_ns, unmap_ns, deregister_ns;
	uint64_t succeeded, failed, direct;
};

struct near_stand {
	struct near_plan plan;
	atomic_uint round;	/* the plan is that of this round; from 1 on */
	atomic_bool is_killing; /* an end may be dead */
	atomic_bool is_over;	/* it is */
	struct near_account ends[NEAR_ENDS];
};

static inline unsigned int near_stage_of(unsigned int round, enum near_stage stage)
{
	return round * NEAR_STAGES + stage;
}

/* In a child of the test. */
_Noreturn void near_end_run(struct near_stand *stand, uint32_t own, enum near_drive drive);
