/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of RoCE: adapters, each with a port of the InfiniBand transport (ib_node.h), on a network
 * that delays, loses, duplicates, reorders and corrupts packets, stands still and is cut. Their
 * consumers post random work, and judges outside the cores know what must come of it.
 *
 *	rc_world.c   reliable connections between two nodes: Sends, Writes, Reads, atomics; the same
 *	             with runs of packets
 *	near_world.c the same services between processes of a host, by shared memory
 *	uc_world.c   unreliable connections between two nodes
 *	rd_world.c   reliable datagrams between all queue pairs of three nodes; refusals and resets
 *	ud_world.c   unreliable datagrams between queue pairs of three nodes, and to groups
 *	xrc_world.c  XRC: connections of two nodes to shared receive queues of many processes
 *	cm_world.c   two agents of the connection manager and their consumers; crashes
 *
 * What a seed draws in one of these scenarios is fixed: seeds that once failed are kept as tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/world/datagram.h"

enum { ROCE_FAILURE_BYTES = 256, ROCE_TRACE_EVENTS = 1 << 16 };

enum roce_scenario_id {
	ROCE_RC,
	ROCE_UC,
	ROCE_RD,
	ROCE_CM,
	ROCE_DRAWN, /* of those above a seed draws one: what it draws is fixed, too */
	ROCE_UD = ROCE_DRAWN,
	ROCE_XRC,
	ROCE_RUNS,
	ROCE_NEAR,
	ROCE_NEAR_UC,
	ROCE_NEAR_UD,
	ROCE_NEAR_XRC,
	ROCE_NEAR_RD,
	ROCE_SCENARIOS,
	ROCE_ANY = ROCE_SCENARIOS /* the seed draws which */
};

struct near_world;

struct roce_world {
	uint64_t seed;
	const struct roce_scenario *scenario;
	void *state;		 /* of the scenario */
	struct near_world *near; /* a part of it, if packets go by the near path */
	bool is_over;
	/* How much was judged. */
	uint64_t requests, succeeded, refused, bytes;
	struct sim_datagram_counts packets; /* what became of them, when the world is over */
	char failure[ROCE_FAILURE_BYTES];
};

/* 0, or -1 when memory is short. */
int roce_world_open(struct roce_world *w, uint64_t seed, enum roce_scenario_id scenario);

/* The next thing happens. False when the world has come to its end, or something was wrong. */
bool roce_world_step(struct roce_world *w);

/* What was wrong; empty: nothing. */
const char *roce_world_failure(const struct roce_world *w);
void roce_world_close(struct roce_world *w);
struct world *roce_world_clock(struct roce_world *w);

/* ---- Among the files of the scenarios -------------------------------------------------------- */

struct roce_scenario {
	size_t state_bytes;
	/* The state is all zero. 0, or -1 when memory is short. */
	int (*open)(struct roce_world *w);
	/* False: all has come to rest, was judged, and its objects are gone. */
	bool (*step)(struct roce_world *w);
	/* After a failure the cores are in doubt: their objects are left, only memory is freed. */
	void (*close)(struct roce_world *w);
	struct world *(*clock)(struct roce_world *w);
};

extern const struct roce_scenario roce_rc, roce_uc, roce_rd, roce_cm, roce_ud, roce_xrc, roce_runs,
	roce_near, roce_near_uc, roce_near_ud, roce_near_xrc, roce_near_rd;

/* Records the first failure, in words. */
void roce_fail(struct roce_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool roce_has_failed(const struct roce_world *w)
{
	return w->failure[0] != 0;
}

/* Adds what became of a pipe's packets to the world's sums. */
void roce_count_packets(struct roce_world *w, const struct sim_datagram *pipe);
