/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host with a few nodes, whose packets go by the real near path: its rings, its messages and its
 * access to the memory of other processes, on a simulated kernel (near_kernel.h) that lets another
 * process run between any two steps. A node is a process after the other: they are stopped, refuse
 * rings, break rules, end, are killed at any step, and others have their slots later. What a
 * process does is its program:
 *
 *	near_pairs.c  connections between two nodes, one after the other, of
 *	near_rc.c     RC
 *	near_uc.c     UC
 *	near_xrc.c    XRC, and the programs whose shared queues it reaches
 *	near_rd.c     reliable datagrams, and the contexts of three nodes
 *	near_ud.c     datagrams between queue pairs of three nodes, and to groups
 */
#pragma once

#include "sim/roce/near_node.h"

enum { NW_INSTANCES = 6 }; /* processes of a node, one after the other */

struct near_world;

/* A process, and what its program keeps of it. */
struct nw_process {
	struct near_world *world;
	struct near_node *near;
	void *state;	  /* the program's, all zero when it begins */
	bool is_shut;	  /* near_set_packets_only() has returned */
	bool is_finished; /* it has done all that it was to do */
};

struct near_program {
	uint32_t nodes, memory_bytes;
	uint32_t qps_max;     /* of a process. The eighth part is for those that it makes */
	size_t process_bytes; /* of its state */
	/* A process begins. Not within it. */
	void (*begin)(struct nw_process *p);
	/* What it does in a turn, and then with completions. True: more without being woken. */
	bool (*work)(struct nw_process *p);
	bool (*poll)(struct nw_process *p);
	/* When it is to have a turn, if nothing wakes it before. */
	uint64_t (*due)(const struct nw_process *p);
	bool (*is_finished)(const struct nw_process *p);
	/* Ends all its objects, whatever is in flight; also when it was killed, from outside. */
	void (*drop)(struct nw_process *p);
	/* It has ended before it was finished, or is about to; it broke a rule. */
	void (*ended)(struct nw_process *p);
	void (*broke)(struct nw_process *p);
	/* Another one accesses its memory at this offset now: whether it may. NULL: never. */
	bool (*is_open)(const struct nw_process *p, uint64_t at, uint64_t bytes);
	/* All have ended. NULL: each was judged before. */
	void (*judge)(struct near_world *w);
};

struct nw_node {
	struct nw_process *now; /* NULL: none, until one is born */
	uint32_t instances;
	bool takes_runs;
	bool is_busy; /* its program does other things most of the time */
	bool is_gone; /* no other process will be born */
};

struct near_world {
	struct roce_world *judged;
	const struct near_program *program;
	struct world world;
	struct prng prng;
	struct near_kernel kernel;
	struct sim_datagram pipes[NEAR_NODES_MAX][NEAR_NODES_MAX]; /* from, to */
	bool is_lossless;					   /* all of them are */
	struct nw_node nodes[NEAR_NODES_MAX];
	struct nw_process *all[NEAR_NODES_MAX * NW_INSTANCES];
	uint32_t count;
	uint32_t drop_ppm, shut_ppm, leave_ppm;
};

/* It becomes judged->near. 0, or -1 when memory is short. */
int near_world_open(struct near_world *w, struct roce_world *judged,
		    const struct near_program *program);

/* Those of a scenario (roce_world.h). */
bool near_world_step(struct roce_world *judged);
void near_world_close(struct roce_world *judged);
struct world *near_world_clock(struct roce_world *judged);

static inline uint32_t nw_node_of(const struct nw_process *p)
{
	return p->near->process.node;
}

/* All processes, or all others, look whether there is something for them. */
void nw_poke_all(struct near_world *w);
void nw_poke_others(struct nw_process *p);

/* Whether packets are on their way to processes that live. */
bool nw_is_flowing(const struct near_world *w);
