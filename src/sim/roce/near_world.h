/* SPDX-License-Identifier: BSD-2-Clause */
/* A world of two nodes on one host: near_world.c has its processes, near_ends.c their work. */
#pragma once

#include "sim/roce/near_node.h"
#include "sim/roce/roce_judge.h"
#include "sim/roce/roce_pair.h"

enum {
	NW_PAIRS = 3,
	NW_DEPTH = 4,
	NW_OPS = 40, /* of an end, of all its connections */
	NW_SLOT = 20000,
	NW_AREA = NW_SLOT * NW_DEPTH,
	NW_INSTANCES = 6 /* processes of a node, one after the other */
};

/* Of an end's memory. */
enum {
	NW_AT_LOCAL = 0,
	NW_AT_TARGET = NW_AREA,
	NW_AT_RECEIVE = 2 * NW_AREA,
	NW_AT_SOURCE = 3 * NW_AREA, /* all Reads are of this */
	NW_AT_WORD = NW_AT_SOURCE + NW_SLOT,
	NW_END_BYTES = NW_AT_WORD + 64,
	NW_GAP = 64,
	NW_NODE_BYTES = NW_GAP + NW_PAIRS * (NW_END_BYTES + NW_GAP)
};

enum nw_phase {
	NW_DOWN, /* until the other end is, too */
	NW_MADE, /* has a queue pair, and waits for that of the other end */
	NW_UP
};

struct nw_op {
	enum weft_opcode opcode;
	uint32_t number, bytes, order;
	bool is_used;
};

/* One end of a pair's connection, of one process. */
struct nw_end {
	enum nw_phase phase;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t qp_number, tag;
	bool is_open; /* its memory: no longer as soon as a call has ended its registration */
	struct near_node *peer;
	struct nw_op ops[NW_DEPTH];
	uint32_t send_orders[2 * NW_OPS]; /* by the number of a Send: which request it was */
	uint32_t begun, ended, sent, received, posted;
	uint32_t depth, life; /* requests in flight, and of this connection */
	struct roce_adds adds;
};

/* A connection after the other. */
struct nw_pair {
	uint32_t generation;
	bool is_ending;	 /* no new requests */
	bool is_excused; /* requests may fail: a process ended or broke a rule, or memory went */
	uint64_t excused_ns;
	struct ib_wire_options wire;
	uint32_t ended[2]; /* requests of its connections before */
	bool is_done;
};

/* What a process is of its node. */
struct nw_process {
	struct near_world *world;
	struct near_node *near;
	struct nw_end ends[NW_PAIRS];
	bool is_shut; /* near_set_packets_only() has returned */
	bool is_finished;
};

struct near_world {
	struct roce_world *judged;
	struct world world;
	struct prng prng;
	struct near_kernel kernel;
	struct sim_datagram pipes[2];
	struct nw_pair pairs[NW_PAIRS];
	struct nw_process *now[2]; /* NULL: none, until one is born */
	struct nw_process *all[2 * NW_INSTANCES];
	uint32_t count, instances[2];
	uint32_t drop_ppm, shut_ppm, leave_ppm;
	bool takes_runs[2];
	bool is_busy[2]; /* its program does other things most of the time */
	bool is_gone[2]; /* no other process will be born */
};

/* ---- near_ends.c ---------------------------------------------------------------------------- */

/* All that an end does in a turn of its process. True: it will do more without being woken. */
bool nw_end_work(struct nw_process *p, uint32_t pair);

/* Takes completions. True: there were some. */
bool nw_poll(struct nw_process *p);

/* Ends the queue pair and the region, whatever is in flight. */
void nw_end_drop(struct nw_process *p, uint32_t pair);

/* From now on its requests may fail. */
void nw_excuse(struct near_world *w, uint32_t pair);
