/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A workload on a topology in virtual time: endnodes send messages to each other through the engine
 * that a live fabric has (fabric/fabric.h), with cables that take the time that their rates and
 * lengths take. What comes of it is a report: how long messages took, how much links carried, how
 * often frames waited for credit, what was dropped, and whether the fabric is in a deadlock.
 *
 * Messages come into being at times that do not depend on how fast the fabric is; one that has to
 * wait at its sender has its time count from then. The same topology and configuration, the same
 * history.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/reason.h>

#include "fabric/fabric.h"
#include "fabric/setup.h"

enum fabric_load_kind {
	FABRIC_LOAD_ALL_TO_ALL,	 /* each endnode to all others in turn */
	FABRIC_LOAD_INCAST,	 /* all to the first one */
	FABRIC_LOAD_PERMUTATION, /* each to one other, and none gets messages of two */
	/*
	 * Each eighth endnode is an I/O unit, the others read and write blocks there: a command,
	 * data, which the unit fetches or sends, and for a write a completion.
	 */
	FABRIC_LOAD_STORAGE
};

enum {
	FABRIC_LOAD_SLOTS = 512,
	FABRIC_LOAD_PROBE_BYTES = 48,
	FABRIC_LOAD_PRIORITY = 1, /* level and lane of probes */
	FABRIC_LOAD_TEXT_BYTES = 4096
};

struct fabric_load_cfg {
	enum fabric_load_kind kind;
	enum fabric_routing routing;
	uint64_t seed;
	uint32_t messages; /* that each sender sends, or a host asks for */
	uint32_t bytes;	   /* of each, up to 1 MiB; its frames have 4096 at most */
	/* How much of the link of an endnode that gets most would be filled, beyond 100 too. */
	uint32_t load_percent;
	uint32_t lanes;	    /* 1, 2, 4, 8 or 15 */
	uint32_t run_flits; /* 0: a lane keeps a link for a whole frame */
	/*
	 * Besides, each sender sends so many messages of 48 bytes to where its others go, spread
	 * over the same time, by a lane of high priority.
	 */
	uint32_t probes;
	uint32_t mbps; /* of cables, where the topology does not tell their rates */
	bool is_cut_through;
	void (*memory_told)(void *at, size_t bytes); /* as in struct fabric_cfg */
};

/* In slots of an eighth of a power of 2. */
struct fabric_load_times {
	uint64_t count, sum_ns, least_ns, most_ns;
	uint64_t slots[FABRIC_LOAD_SLOTS];
};

/* One direction of a cable. */
struct fabric_load_line {
	uint32_t node, port, to_node, to_port;
	uint64_t flits, waits;
	double share; /* of what it could have carried */
};

struct fabric_load_report {
	uint32_t endnodes, senders, mbps; /* of the fastest cables */
	uint64_t ns;			  /* when the last message came */
	uint64_t expected, came;	  /* messages, and probes */
	uint64_t bytes;			  /* of payload that came */
	uint64_t frames, flits;		  /* that crossed links */
	uint64_t waits;
	uint64_t discards, relay_errors, others; /* dropped frames, by the counter that has them */
	struct fabric_load_times times, probes;
	struct fabric_load_line *lines; /* of both ends of each cable, by its number */
	uint32_t line_count;
	char deadlock[FABRIC_LOAD_TEXT_BYTES]; /* what was seen when nothing moved; "" */
};

struct fabric_load;

/* WEFT_R_TOPOLOGY_LIMIT: too few endnodes, or too many LIDs. On error *l is NULL. */
enum weft_reason fabric_load_open(struct fabric_load **l, const struct topology *t,
				  const struct fabric_load_cfg *cfg);
void fabric_load_close(struct fabric_load *own_l);

/* What happens next. False: all is over. */
bool fabric_load_step(struct fabric_load *l);

/* So far. It lives until the next step, or the end. */
const struct fabric_load_report *fabric_load_report(struct fabric_load *l);

/* A time than which so many in a thousand were not longer; a slot's end. */
uint64_t fabric_load_quantile(const struct fabric_load_times *t, uint32_t per_thousand);

/* Where a slot begins. */
uint64_t fabric_load_slot_ns(uint32_t slot);
