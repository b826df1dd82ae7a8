/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random traffic on a random fabric: endnodes on switches that form a tree, cables that damage,
 * lose and delay flits, receivers that are slow, and in some worlds cables that are pulled. The
 * judge stands outside: every frame comes once, whole and in the order of its sender and level;
 * only a pulled cable loses any, and no more than it says; at the end no buffer holds anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/fabric/fabric_net.h"

enum { FABRIC_WORLD_ENDS = 8, FABRIC_WORLD_LEVELS = 3, FABRIC_FAILURE_BYTES = 200 };

/* Frames of one level from one endnode to another. */
struct fabric_flow {
	uint32_t posted, next; /* the lowest number that may come */
};

struct fabric_world {
	struct fabric_net net;
	uint64_t seed;
	struct prng prng; /* of the scenario */
	struct sim_faults faults;
	uint32_t ends, switches, frames_max;
	struct fabric_flow flows[FABRIC_WORLD_ENDS][FABRIC_WORLD_ENDS][FABRIC_WORLD_LEVELS];
	uint64_t steps;
	uint64_t posted, delivered, bytes;
	uint64_t flits, resent, waits; /* known at the end */
	char failure[FABRIC_FAILURE_BYTES];
};

/* 0, or -1 when memory is short. */
int fabric_world_open(struct fabric_world *w, uint64_t seed);
bool fabric_world_step(struct fabric_world *w);
const char *fabric_world_failure(const struct fabric_world *w);
void fabric_world_close(struct fabric_world *w);
