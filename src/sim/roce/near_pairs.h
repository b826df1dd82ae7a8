/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections between two nodes of one host (near_world.h): each pair is a connection after the
 * other. Both ends are made anew when the connection has had its life, or broke as a process ended.
 * They learn of each other as by a connection manager that loses nothing. What they do while they
 * are connected is the service's.
 */
#pragma once

#include "sim/roce/near_world.h"
#include "sim/roce/roce_pair.h"

enum { NW_PAIRS_MAX = 3 };

enum nw_phase {
	NW_DOWN, /* until the other end is, too */
	NW_MADE, /* has a queue pair, and waits for that of the other end */
	NW_UP
};

/* One end of a pair's connection, of one process. */
struct nw_end {
	enum nw_phase phase;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t qp_number, tag;
	bool is_open; /* its memory: no longer as soon as a call has ended its registration */
	struct near_node *peer;
	uint32_t near_number;  /* of the way to it */
	uint32_t begun, ended; /* requests */
};

/* A connection after the other. */
struct nw_pair {
	uint32_t generation;
	bool is_ending;	 /* no new requests */
	bool is_excused; /* requests may fail: a process ended or broke a rule, or memory went */
	uint64_t excused_ns;
	bool is_told; /* a process was killed that had the other's ring: requests end at once */
	struct ib_wire_options wire;
	uint32_t ended[2]; /* requests of its connections before */
	bool is_done;
};

struct nw_service {
	uint32_t pairs, end_bytes;
	uint32_t more_bytes; /* of a process's memory, behind those of its ends */
	uint32_t qps_max;    /* see struct near_program */
	uint32_t ops;	     /* of an end, of all its connections */
	uint64_t tick_ns;    /* so often an end that is over looks whether all has come; 0: never */
	/* The end of a pair. */
	struct nw_end *(*end)(struct nw_process *p, uint32_t pair);
	void (*draw)(struct prng *prng, struct ib_wire_options *wire);
	/* Makes its memory, region and queue pair; at is set. */
	void (*make)(struct nw_process *p, struct nw_end *e);
	/* What it does while it is up. True: more without being woken. */
	bool (*work)(struct nw_process *p, struct nw_end *e, uint32_t pair);
	/* All requests of both have ended. Whether what they sent has come. */
	bool (*has_come)(const struct nw_process *p, struct nw_end *e, struct nw_end *other);
	/* Its connection ends. other: of the peer's, unless that broke; else NULL. */
	void (*judge)(struct nw_process *p, struct nw_end *e, struct nw_end *other);
	/* Its queue pair goes, whatever the reason; NULL: the judge keeps none. */
	void (*forget)(struct nw_process *p, struct nw_end *e);
	/* A completion. */
	void (*sent)(struct nw_process *p, struct nw_end *e, const struct weft_completion *c);
	void (*came)(struct nw_process *p, struct nw_end *e, const struct weft_completion *c);
	/* Of a process that has more than its connections; NULL: it has not. */
	const struct nw_more *more;
};

/* As those of struct near_program. */
struct nw_more {
	void (*begin)(struct nw_process *p);
	bool (*work)(struct nw_process *p);
	bool (*poll)(struct nw_process *p); /* instead of sent() and came() */
	void (*ended)(struct nw_process *p);
	void (*drop)(struct nw_process *p); /* its connections have gone */
	void (*judge)(struct near_world *w);
};

/* The state of such a scenario. */
struct nw_pairs {
	struct near_world near;
	const struct nw_service *service;
	struct near_program program;
	struct nw_pair pairs[NW_PAIRS_MAX];
};

enum { NW_GAP = 64 }; /* between the memories of ends */

static inline struct nw_pairs *nw_pairs_of(const struct nw_process *p)
{
	return CONTAINER_OF(p->world, struct nw_pairs, near);
}

static inline uint32_t nw_in_flight(const struct nw_end *e)
{
	return e->begun - e->ended;
}

/* The process that has the other node now; NULL: none. */
static inline struct nw_process *nw_other(const struct nw_process *p)
{
	return p->world->nodes[!nw_node_of(p)].now;
}

/* From now on requests of the pair may fail; the other does not look at once. */
void nw_pair_excuse(struct nw_pairs *w, struct nw_pair *pair);
void nw_excuse(struct nw_pairs *w, struct nw_pair *pair);

/*
 * A scenario is opened with a service and the size of a process's state. Or it has this among its
 * state.
 */
int nw_pairs_open(struct roce_world *w, const struct nw_service *service, size_t process_bytes);
int nw_pairs_init(struct nw_pairs *pairs, struct roce_world *w, const struct nw_service *service,
		  size_t process_bytes);
