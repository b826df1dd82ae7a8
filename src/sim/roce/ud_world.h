/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of unreliable datagrams: ud_actor.c draws what happens, ud_judge.c knows what may come of
 * it. Queue pairs of three nodes send to each other and to multicast groups, which they join and
 * leave; they change their Q_Keys, are reset, and destroy address handles that requests still name.
 * ud_world.c has them on a network, near_ud.c in processes of one host.
 */
#pragma once

#include "sim/roce/roce_node.h"

enum {
	UD_NODES = 3,
	UD_QPS = 2,
	UD_ACTORS = UD_NODES * UD_QPS,
	UD_OPS = 60, /* of each actor */
	UD_DEPTH = 8,
	UD_RECEIVES = 64,
	UD_HANDLES = 4,
	UD_GROUPS = 2,
	UD_MTU_MAX = 4096,
	UD_ROUTE = 40, /* ahead of every datagram that is received */
	UD_ROOM = UD_ROUTE + UD_MTU_MAX
};

/* Of an actor's memory. */
enum {
	UD_AT_LOCAL = 0,
	UD_AT_RECEIVE = UD_OPS * UD_MTU_MAX,
	UD_ACTOR_BYTES = UD_AT_RECEIVE + UD_RECEIVES * UD_ROOM
};

/* What a datagram is for. */
enum ud_to {
	UD_TO_ACTOR, /* by the number of its queue pair and the address of its node */
	UD_TO_GROUP,
	UD_TO_STRAY /* a queue pair that is not there: no actor gets it */
};

enum ud_state {
	UD_QUEUED,
	UD_SENT,
	UD_UNSENT, /* it failed, or was flushed: no actor gets it */
	UD_PERHAPS /* its process ended before it did */
};

struct ud_op {
	enum weft_opcode opcode; /* or DELAY, which sends nothing */
	uint32_t number, bytes;
	enum ud_to to;
	uint32_t target;	   /* actor or group */
	uint32_t from_qp, dest_qp; /* numbers of queue pairs */
	bool is_ipv6;
	uint16_t p_key; /* of its sender */
	uint32_t q_key;
	bool is_key_own;     /* the key is what the sender's own is when it is sent */
	uint32_t handle;     /* serial number of its address handle */
	bool is_handle_gone; /* before the request came to its turn */
	enum ud_state state;
	uint64_t posted_ns;
	uint32_t got[UD_ACTORS]; /* copies */
};

struct ud_handle {
	struct weft_ah *ah;
	enum ud_to to;
	uint32_t target, serial, mtu_bytes;
	int node; /* of the address, unless that is a group's */
	bool is_ipv6;
};

/* A queue pair and its consumer. */
struct ud_actor {
	uint32_t index;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t qp_number, tag;
	uint32_t q_key;
	uint16_t p_key;
	bool is_rich; /* it always has receives, and all of them are large enough */
	struct ud_handle handles[UD_HANDLES];
	struct ud_op ops[UD_OPS];
	uint32_t begun, ended;
	uint32_t posted, received;    /* receives, which end in order */
	uint32_t rooms[UD_RECEIVES];  /* bytes of each */
	bool is_member[UD_GROUPS][2]; /* by group and IP version */
	bool is_stopped;	      /* a request has failed: the rest is flushed */
	bool is_resetting;
	uint32_t resets_left;
	/*
	 * What was posted until then may have found it without a receive, or with another key; in
	 * the group, as no member of it.
	 */
	uint64_t excuse_ns;
	uint64_t group_excuse_ns[UD_GROUPS][2];
	uint32_t copies_from[UD_NODES]; /* beyond the first of each datagram */
};

struct ud_world;

/* What an actor needs of its network. */
struct ud_net {
	/* Makes a queue pair of a node operational. */
	void (*attach)(struct ud_world *ud, int node, struct weft_qp *qp,
		       const struct ib_config *k);
	/* An address handle was made at a node; its datagrams are for one node. */
	void (*address)(struct ud_world *ud, int node, struct weft_ah *ah);
	/* How many packets were doubled on the way between two nodes. */
	uint64_t (*doubled)(struct ud_world *ud, int from, int to);
};

/* The state of such a scenario begins with it. */
struct ud_world {
	struct prng prng;
	const struct world *clock;
	const struct ud_net *net;
	struct roce_node *nodes[UD_NODES]; /* those that live, or lived last */
	struct ud_actor actors[UD_ACTORS];
	uint32_t mtu_bytes, serial;
	bool is_one_host; /* the number of a queue pair tells its node, whatever the address */
	bool are_long;	  /* datagrams: all fill a packet */
	bool is_lossless;
	/* What was posted until then may have been lost on that way. */
	uint64_t way_excuse_ns[UD_NODES][UD_NODES];
};

static inline struct ud_world *ud_world_of(const struct roce_world *w)
{
	return w->state;
}

static inline int ud_node_of(uint32_t actor)
{
	return (int)(actor / UD_QPS);
}

static inline struct roce_node *ud_roce_of(struct ud_world *ud, uint32_t actor)
{
	return ud->nodes[ud_node_of(actor)];
}

static inline bool ud_is_done(const struct ud_actor *a)
{
	return a->ended == UD_OPS && !a->is_stopped;
}

/* ---- ud_actor.c ----------------------------------------------------------------------------- */

enum { UD_GAP = 64, UD_NODE_BYTES = UD_GAP + UD_QPS * (UD_ACTOR_BYTES + UD_GAP) };

/* At its node: for the first time, or in a new process, where it goes on with its requests. */
void ud_actor_open(struct ud_world *ud, uint32_t index);

/* Whatever it may do now. */
void ud_actor_act(struct roce_world *w, struct ud_actor *a);

/* Its handles, queue pair and region go. */
void ud_actor_drop(struct roce_node *n, struct ud_actor *a);

/* Its process has ended, with what was under way: it gets nothing until it is opened again. */
void ud_actor_lose(struct ud_actor *a);

/* ---- The judge ------------------------------------------------------------------------------ */

/* The consumer fills a datagram that it is about to send; it knows the actor and the number. */
void ud_judge_fill(struct roce_world *w, const struct ud_actor *a, const struct ud_op *op);

/* The immediate of a datagram, which names it too. */
uint32_t ud_judge_imm(const struct ud_actor *a, const struct ud_op *op);

/* Takes all completions of a node. True: there were some. */
bool ud_judge_poll(struct roce_world *w, int node);

/* All has come to rest: what had to come has. */
void ud_judge_end(struct roce_world *w);
