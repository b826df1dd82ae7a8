/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of reliable datagrams: rd_world.c draws what happens, rd_judge.c knows what must come of
 * it.
 */
#pragma once

#include "sim/roce/roce_judge.h"
#include "sim/roce/roce_mesh.h"

enum {
	RD_NODES = ROCE_MESH_NODES,
	RD_QPS = 2,
	RD_ACTORS = RD_NODES * RD_QPS,
	RD_DEPTH = 4,
	RD_OPS = 60, /* of each */
	RD_SLOT = 9000,
	RD_AREA = RD_SLOT * RD_DEPTH,
	RD_RECEIVES = 8,
	RD_OF_SOURCE = 1000000 /* number of bytes that are read, and the actor's */
};

/* Of an actor's memory. A node's begins with the word that is added to. */
enum {
	RD_AT_LOCAL = 0,
	RD_AT_SOURCE = RD_AREA,
	RD_AT_RECEIVE = 2 * RD_AREA,
	RD_AT_TARGET = RD_AT_RECEIVE + RD_RECEIVES * RD_SLOT, /* one for each actor */
	RD_ACTOR_BYTES = RD_AT_TARGET + RD_ACTORS * RD_AREA
};

struct rd_op {
	enum weft_opcode opcode;
	uint32_t number, bytes, to;
	bool is_used, is_bad;
};

/* A queue pair and its consumer. */
struct rd_actor {
	uint32_t index;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
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

struct rd_world {
	struct prng prng;
	struct roce_mesh mesh;
	uint32_t word_tags[RD_NODES];
	struct rd_actor actors[RD_ACTORS];
	struct roce_adds adds[RD_NODES];
	uint32_t lost_adds, lost_sends; /* perhaps carried out, and the consumer was not told */
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
	return &rd->mesh.nodes[rd_node_of(actor)];
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

/* ---- The judge ------------------------------------------------------------------------------ */

/* Takes all completions of a node. */
void rd_judge_poll(struct roce_world *w, int node);

/* All has come to rest. */
void rd_judge_end(struct roce_world *w);
