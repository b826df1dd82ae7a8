/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of the connection manager: cm_world.c has the network and the consumers, cm_judge.c knows
 * what the agents must tell them.
 */
#pragma once

#include "cm/ib_cm.h"
#include "sim/roce/roce_world.h"

enum { CM_SIDES = 2, CM_LEGS_MAX = 512, CM_FLIGHTS_MAX = 512 };

/* One end of a cm_id, as its consumer knows it. */
struct cm_leg {
	uint32_t id, qpn, peer_qpn;
	bool is_active, is_sidr;
	bool is_established, is_ended, is_released;
	bool is_left;	    /* by reject(), answer() or forget() */
	uint64_t decide_ns; /* when the consumer does its next; UINT64_MAX: never */
};

struct cm_flight {
	uint64_t at_ns;
	uint8_t to, from; /* sides */
	uint8_t bytes[MAD_BYTES];
	bool is_used;
};

struct cm_side {
	struct ib_cm *cm;
	struct cm_leg legs[CM_LEGS_MAX];
	uint32_t leg_count;
};

/* What is done when the time that was given has passed. */
enum cm_phase {
	CM_ASKING,  /* the next request is begun */
	CM_RESTING, /* nothing moves: both ends must agree */
	CM_PARTING, /* ends whose peer crashed are forgotten */
	CM_ENDING   /* nothing may be left */
};

struct cm_world {
	struct roce_world *roce;
	struct world world; /* its clock, trace and draws; its queue of events is not used */
	struct cm_side sides[CM_SIDES];
	struct cm_flight flights[CM_FLIGHTS_MAX];
	uint32_t loss, doubling, slow; /* chances in a million */
	uint32_t requests, asked, crash_at, qpn_next, rounds;
	enum cm_phase phase;
	uint64_t until_ns;
	bool had_crash;
};

/* ---- The judge ------------------------------------------------------------------------------ */

/* Fails the world with these words unless it is so. */
bool cm_must(struct cm_world *w, bool is_so, const char *words);

/* The event ends a cm_id: once, and as it may. */
void cm_judge_ended(struct cm_world *w, struct cm_leg *l, const struct ib_cm_event *e);

/* The agent takes this end for connected. */
bool cm_is_connected(struct cm_side *s, const struct cm_leg *l);

/* Nothing moves: an end that takes itself for connected has a peer that does. */
void cm_judge_agreement(struct cm_world *w);

/* All have disconnected, and nothing moves: nothing is left. */
void cm_judge_end(struct cm_world *w);
