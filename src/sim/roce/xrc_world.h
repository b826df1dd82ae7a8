/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of XRC (IBA annex A14): xrc_actor.c draws what happens, xrc_judge.c knows what must come
 * of it; xrc_world.c has it on a network, near_xrc.c between two adapters of one host. Of two nodes
 * each has some processes: a protection domain with memory, a shared receive queue and its
 * completion queue. An initiator of one node reaches all processes of the other through one
 * connection. Processes end and begin anew while it works; requests name queues that are gone,
 * never were, or are of another domain, or memory of another process.
 */
#pragma once

#include "sim/roce/roce_judge.h"

enum {
	XRC_CONNS = 3,	   /* the initiator of the nth is at node n % 2 */
	XRC_PROCESSES = 4, /* of each node; the last of them is of another domain */
	XRC_DEPTH = 8,
	XRC_OPS = 60, /* of each connection */
	XRC_SLOT = 5100,
	XRC_RECEIVES = 8,
	XRC_OF_SOURCE = 1000000, /* number of the bytes that are read, and the process's */
	XRC_OF_CONN = 1000	 /* numbers of bytes: so many for each connection */
};

/* Of a process's memory: see XRC_NODE_BYTES for where that is. */
enum {
	XRC_AT_WORD = 0,
	XRC_AT_SOURCE = ROCE_WORD_BYTES,
	XRC_AT_RECEIVE = XRC_AT_SOURCE + XRC_SLOT,
	XRC_AT_TARGET = XRC_AT_RECEIVE + XRC_RECEIVES * XRC_SLOT, /* slots for each connection */
	XRC_PROCESS_BYTES = XRC_AT_TARGET + XRC_CONNS * XRC_DEPTH * XRC_SLOT
};

/* Of a node's memory: that of each connection's initiator, and that of its processes. */
enum {
	XRC_GAP = 64, /* between registered memories */
	XRC_CONN_BYTES = XRC_DEPTH * XRC_SLOT,
	XRC_CONN_STEP = XRC_CONN_BYTES + XRC_GAP,
	XRC_AT_PROCESSES = (XRC_GAP + XRC_CONNS * XRC_CONN_STEP + 7) / 8 * 8,
	XRC_PROCESS_STEP = (XRC_PROCESS_BYTES + XRC_GAP + 7) / 8 * 8, /* words are aligned */
	XRC_NODE_BYTES = XRC_AT_PROCESSES + XRC_PROCESSES * XRC_PROCESS_STEP
};

enum xrc_state {
	XRC_QUEUED,
	XRC_DONE,    /* it ended well: carried out, once */
	XRC_UNDONE,  /* it ended otherwise, and was not carried out */
	XRC_PERHAPS, /* carried out or not, while the target's queue pair lives */
	XRC_SETTLED  /* that has ended */
};

enum xrc_fault {
	XRC_GOOD,
	XRC_NO_QUEUE, /* it names no queue of the target's domain */
	XRC_NO_RIGHT  /* it names the memory of a process other than the queue's */
};

struct xrc_op {
	enum weft_opcode opcode;
	uint32_t number, bytes;
	uint32_t to, epoch; /* the process, and which of its lives */
	enum xrc_fault fault;
	enum xrc_state state;
	bool is_received;
	bool is_untold; /* its target's node has ended, perhaps before it took the receive */
};

struct xrc_process {
	uint32_t index;
	uint32_t at; /* of its memory */
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_srq *srq; /* NULL: it has ended */
	uint32_t srq_number;  /* or of its former life */
	uint32_t tag;
	uint32_t epoch;
	bool is_posted[XRC_RECEIVES];
	uint32_t posted, received;
	uint32_t next[XRC_CONNS]; /* the lowest number that may come by each connection */
	struct roce_adds adds;
	uint32_t lost_adds; /* perhaps carried out */
};

struct xrc_conn {
	uint32_t index;
	uint32_t at;		/* of its memory, at the initiator's node */
	struct weft_qp *qps[2]; /* by node; NULL: it is gone */
	uint32_t numbers[2];	/* theirs, or of those before */
	uint32_t tag;
	struct xrc_op ops[XRC_OPS];
	uint32_t begun, ended, resets_left;
	uint32_t settled;	/* requests whose target's queue pair has ended */
	bool is_broken;		/* a request has failed: the rest is flushed */
	bool is_cut;		/* and it is not known what of it was carried out */
	bool is_resetting;	/* by its own consumer */
	const bool *is_excused; /* requests may fail without a cause of their own */
};

struct xrc_world {
	struct prng prng;
	struct roce_node *nodes[2]; /* the latest of each */
	struct xrc_process processes[2][XRC_PROCESSES];
	struct xrc_conn conns[XRC_CONNS];
};

static inline struct xrc_world *xrc_world_of(const struct roce_world *w)
{
	return w->state;
}

/* The nodes of both ends of a connection. */
static inline int xrc_from(const struct xrc_conn *c)
{
	return (int)(c->index % 2);
}

static inline int xrc_to(const struct xrc_conn *c)
{
	return !xrc_from(c);
}

static inline uint32_t xrc_local_at(const struct xrc_conn *c, const struct xrc_op *op)
{
	return c->at + op->number % XRC_DEPTH * XRC_SLOT;
}

static inline uint32_t xrc_target_at(const struct xrc_process *p, const struct xrc_conn *c,
				     const struct xrc_op *op)
{
	return p->at + XRC_AT_TARGET + (c->index * XRC_DEPTH + op->number % XRC_DEPTH) * XRC_SLOT;
}

/* ---- What happens --------------------------------------------------------------------------- */

/* A process of a node begins, or begins anew; it ends, and with it its objects. */
void xrc_process_begin(struct xrc_world *x, int node, struct xrc_process *p);
void xrc_process_end(struct roce_world *w, int node, struct xrc_process *p);

/* Its objects alone. False: something keeps them. */
bool xrc_process_drop(struct roce_node *n, struct xrc_process *p);

/* It posts receives. */
void xrc_process_act(struct roce_world *w, int node, struct xrc_process *p);

/* Its turn to end or begin has come. */
bool xrc_process_is_over(struct xrc_world *x, const struct xrc_process *p);

/* The queue pair of one end. */
void xrc_conn_make(struct xrc_world *x, struct xrc_conn *c, int node);

/* In the middle of whatever it does. The target is told of it later. */
bool xrc_conn_wants_reset(struct xrc_world *x, const struct xrc_conn *c);
void xrc_conn_reset(struct roce_world *w, struct xrc_conn *c);

/* Whether it may have another request; and one that is drawn is posted. */
bool xrc_conn_wants_request(const struct roce_world *w, const struct xrc_conn *c);
void xrc_conn_begin(struct roce_world *w, struct xrc_conn *c);

/* ---- The judge ------------------------------------------------------------------------------ */

enum { XRC_LETTER_BYTES = 8 }; /* which a Send begins with */

/* The initiator's consumer writes the bytes that it is about to send. */
void xrc_judge_fill(struct roce_world *w, const struct xrc_conn *c, const struct xrc_op *op);

/* Takes all completions of a node. True: there were some. */
bool xrc_judge_poll(struct roce_world *w, int node);

/* A process ends: what lies in its memory is right, and stays. */
void xrc_judge_death(struct roce_world *w, int node, struct xrc_process *p);

/* The target's queue pair has ended, and all that it brought was taken. */
void xrc_judge_broken(struct roce_world *w, struct xrc_conn *c);

/* The initiator's node has ended: nothing is known of the requests that are under way. */
void xrc_judge_lost(struct roce_world *w, struct xrc_conn *c);

/* All has come to rest: what the connections did, and the memory of a node. */
void xrc_judge_conns(struct roce_world *w);
void xrc_judge_node(struct roce_world *w, int node);
