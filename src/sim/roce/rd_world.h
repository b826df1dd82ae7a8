/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of reliable datagrams: rd_actor.c draws what happens, rd_judge.c knows what must come of
 * it; rd_world.c has it on a network, near_rd.c between processes of one host.
 */
#pragma once

#include "sim/roce/roce_judge.h"

enum {
	RD_NODES = 3,
	RD_QPS = 2,
	RD_ACTORS = RD_NODES * RD_QPS,
	RD_DEPTH = 4,
	RD_OPS = 60, /* of each */
	RD_SLOT = 9000,
	RD_AREA = RD_SLOT * RD_DEPTH,
	RD_RECEIVES = 8,
	RD_LIVES = 8,
	RD_DOMAIN = 3,	       /* of all queue pairs and contexts */
	RD_OF_SOURCE = 1000000 /* number of bytes that are read, and the actor's */
};

/* Of an actor's memory. A node's begins with the word that is added to. */
enum {
	RD_AT_LOCAL = 0,
	RD_AT_SOURCE = RD_AREA,
	RD_AT_RECEIVE = 2 * RD_AREA,
	RD_AT_TARGET = RD_AT_RECEIVE + RD_RECEIVES * RD_SLOT, /* one for each actor */
	RD_ACTOR_BYTES = RD_AT_TARGET + RD_ACTORS * RD_AREA,
	RD_GAP = 64, /* between registered memories */
	RD_NODE_BYTES = RD_GAP + RD_QPS * (RD_ACTOR_BYTES + RD_GAP)
};

struct rd_world;

struct rd_op {
	enum weft_opcode opcode;
	uint32_t number, bytes, to;
	uint32_t epoch, generation; /* of the other's node, and of the way to it */
	bool is_used, is_bad;
};

/* A queue pair of an actor: the first request of its life. */
struct rd_life {
	uint32_t qp_number, first;
};

/* A queue pair and its consumer. */
struct rd_actor {
	uint32_t index;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	struct rd_life lives[RD_LIVES]; /* the latest is the queue pair's */
	uint32_t life_count;
	uint32_t tag;
	struct rd_op ops[RD_DEPTH];
	uint32_t begun, ended;
	bool is_posted[RD_RECEIVES];
	uint32_t posted, received; /* receives */
	uint32_t got;		   /* of those that took a message */
	bool is_stopped;	   /* a request has failed: the rest is flushed */
	/* By the other's index: Sends that ended well; those that came, and the latest. */
	uint32_t sent_to[RD_ACTORS], came_from[RD_ACTORS], latest_from[RD_ACTORS];
	bool was_reset, is_resetting;
	/* By the other's index and the slot: bytes of a Write that a reset cut off may be there. */
	uint32_t may_have_written[RD_ACTORS][RD_DEPTH];
};

static inline uint32_t rd_qp_number(const struct rd_actor *a)
{
	return a->lives[a->life_count - 1].qp_number;
}

/* Between two nodes, in both directions: a context at each for the other. */
struct rd_way {
	uint32_t generation;
	bool is_broken; /* requests may fail: a node has ended, or broken a rule */
};

struct rd_net {
	/* The context at one node for another; NULL: none now. */
	struct ib_ee *(*ee)(struct rd_world *rd, int at, int to);
	/* Makes a queue pair operational. */
	void (*attach)(struct rd_world *rd, int node, struct weft_qp *qp,
		       const struct ib_config *k);
};

struct rd_world {
	struct prng prng;
	const struct rd_net *net;
	struct roce_node *nodes[RD_NODES]; /* the latest of each */
	uint32_t epochs[RD_NODES];
	struct rd_way ways[RD_NODES][RD_NODES]; /* by the lower node, and the higher */
	uint32_t word_tags[RD_NODES];
	struct rd_actor actors[RD_ACTORS];
	struct roce_adds adds[RD_NODES];
	/* Perhaps carried out, and the consumer was not told: by node, and by actor. */
	uint32_t lost_adds[RD_NODES], lost_sends[RD_ACTORS];
	uint32_t resets_left;
};

static inline struct rd_world *rd_world_of(const struct roce_world *w)
{
	return w->state;
}

static inline int rd_node_of(uint32_t actor)
{
	return (int)(actor / RD_QPS);
}

static inline struct roce_node *rd_roce_of(struct rd_world *rd, uint32_t actor)
{
	return rd->nodes[rd_node_of(actor)];
}

static inline struct rd_way *rd_way_of(struct rd_world *rd, int a, int b)
{
	return a < b ? &rd->ways[a][b] : &rd->ways[b][a];
}

/* What a Send begins with. */
struct rd_letter {
	uint32_t from, number;
};

static inline uint32_t rd_local_of(const struct rd_actor *a, uint32_t slot)
{
	return a->at + RD_AT_LOCAL + slot * RD_SLOT;
}

/* Where an actor writes at its peer. */
static inline uint32_t rd_target_of(const struct rd_actor *peer, const struct rd_actor *a,
				    uint32_t slot)
{
	return peer->at + RD_AT_TARGET + a->index * RD_AREA + slot * RD_SLOT;
}

/* ---- What happens --------------------------------------------------------------------------- */

/* What two nodes agree on for their contexts. */
struct ib_ee_config rd_draw_ee(struct prng *p);

/* The word of a node; its actors, which begin anew each time. */
void rd_word_begin(struct rd_world *rd, int node);
void rd_actors_begin(struct rd_world *rd, int node);

/* A turn of an actor. */
void rd_actor_act(struct roce_world *w, struct rd_actor *a);

/* Its requests have all ended, and well unless they had to fail. */
bool rd_is_done(const struct rd_actor *a);

/* ---- The judge ------------------------------------------------------------------------------ */

/* Takes all completions of a node. True: there were some. */
bool rd_judge_poll(struct roce_world *w, int node);

/* A node has ended: what is under way may be carried out, or not, and its memory is gone. */
void rd_judge_lost(struct rd_world *rd, int node);

/* All has come to rest, as far as a node knows. */
void rd_judge_node(struct roce_world *w, int node);
