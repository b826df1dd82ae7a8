/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the engine (fabric/fabric.h) share. Only they include this.
 *
 *   fabric.c        life of a fabric, what its callers look at
 *   engine_line.c   cables: runs of flits that leave, are under way, are damaged and arrive
 *   engine_trunk.c  cables to another process
 *   engine_ahead.c  fetching memory in time
 *   engine_relay.c  nodes: where frames go, and wait
 *   engine_router.c frames between subnets
 *   engine_knot.c   deadlocks
 *   engine_crossing.c  frames that cross where nothing waits
 *   engine_agent.c  frames of the agents of nodes, and of the owners of ports
 *
 * Ends of cables are numbered: those of cable c are 2c and 2c + 1. What has to be looked at again
 * is on lists, ends with something to send and nodes whose agents have something: the engine works
 * these off before time goes on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/prng.h"
#include "fabric/fabric.h"
#include "fabric/lane.h"
#include "fabric/link.h"
#include "fabric/node.h"
#include "fabric/switch.h"
#include "fabric/wheel.h"

enum {
	ENGINE_NONE = UINT32_MAX,
	ENGINE_HOPS_MAX = 64,
	ENGINE_FOUND = 1024,
	ENGINE_SILENCES_MAX = 16
};

enum engine_timer {
	ENGINE_FLIGHT, /* a run of a frame arrives */
	ENGINE_ACK,    /* an acknowledgement does */
	ENGINE_FREE,   /* a line has sent its run */
	ENGINE_LINK,   /* a link's deadline */
	ENGINE_AGE,    /* a frame may be too old */
	ENGINE_NODE    /* that of a node's agents */
};

/* Lanes of a fabric: `owner` of struct fabric_lane is the node. */
enum engine_lane {
	ENGINE_IN,    /* of a link */
	ENGINE_AGENT, /* of what a node's agents send */
	ENGINE_POST,  /* of what the owner of a port has posted */
	ENGINE_LOCAL  /* of what the owner gets that came by no link */
};

/* A run under way, to an end: a cache line, and the limits of an acknowledgement. */
struct engine_flight {
	_Alignas(FABRIC_LINE_BYTES) struct wheel_timer timer;
	uint32_t life;		/* of the link */
	uint32_t tail_after_ns; /* it arrives, its last flit does */
	struct fabric_run run;
};

_Static_assert(offsetof(struct engine_flight, run.limits) <= FABRIC_LINE_BYTES,
	       "what each run under way has is no cache line");

/* One end of a cable, in cache lines as struct fabric_link is. */
struct engine_end {
	_Alignas(FABRIC_LINE_BYTES) struct fabric_link link;
	uint32_t node, port;
	uint32_t next_marked; /* end with something to send */
	uint32_t life;	      /* counts how often the link went up */
	bool is_marked;
	bool is_away;	       /* in another process */
	bool is_lossy;	       /* what it sends may be damaged, or was since the link is up */
	bool is_trunks;	       /* the other end is in another process, or this one */
	bool is_before_ca;     /* the other end is an endnode's */
	uint32_t local_errors; /* damaged flits that good ones have not made up for */
	uint32_t silences;     /* deadlines in a row at which the other end had not answered */
	uint64_t one_in_bits;  /* the cable damages, in both directions */
	/* Out. */
	uint64_t flit_x16;	   /* time of a flit, in 1/16 ns */
	uint64_t idle_x16;	   /* since when, or when again, nothing is on the line */
	uint64_t overruns_settled; /* in the counter of its port */
	struct wheel_timer free, due;
	struct wheel_timer age;
	uint64_t errors_settled, losses_settled; /* in the counters of its port */
};

_Static_assert(offsetof(struct engine_end, free) - offsetof(struct engine_end, node) ==
		       FABRIC_LINE_BYTES,
	       "what each frame needs of an end is no cache line");

/* The owner of an endnode's or router's port, or of port 0 of a switch. */
struct engine_owner {
	uint32_t node, port;
	struct engine_owner *next_ready;
	bool is_ready;
	bool wants_room; /* one of its lanes is full */
	struct fabric_lane *peeked;
	struct fabric_lane local;
	struct fabric_lane posts[FLIT_LANES];
};

/* A quarter of a cache line. */
struct engine_port {
	uint32_t end; /* ENGINE_NONE: there is no cable */
	/* As the agents have it: engine_port_look(). */
	uint16_t open_bytes; /* data that is no longer passes unseen; 0: none does */
	uint8_t lanes;	     /* of data, in use */
	uint8_t changes;     /* enum fabric_change, for the caller */
	struct engine_owner *owner;
};

_Static_assert(sizeof(struct engine_port) == FABRIC_LINE_BYTES / 4, "a port has another size");

struct engine_node {
	struct fabric_node agents;
	struct engine_port *ports; /* ports[0] is of a switch */
	struct fabric_lane lane;   /* ENGINE_AGENT */
	struct wheel_timer due;
	uint32_t next_marked;
	bool is_away;	  /* in another process */
	bool is_marked;	  /* its agents may have something to send, or to say */
	uint64_t changed; /* a bit for each port with changes */
};

/* Which port has a GUID, as it was found once. */
struct engine_found {
	uint64_t guid;
	uint32_t node, port;
};

struct engine_cable {
	bool is_cut;
	bool is_away; /* neither end is here */
	/* Of a trunk: */
	bool is_trunk, is_joined;
	uint8_t here;		       /* which of its ends is here: 0 or 1 */
	bool owes_link, has_more;      /* to the other process: its state; runs, perhaps */
	bool peer_wants;	       /* a link, at the other end */
	bool peer_damages;	       /* what leaves here, on its way */
	uint32_t life;		       /* counts how often this end began anew */
	uint32_t peer_life, peer_seen; /* what the other end has told last; 0: nothing */
};

struct fabric {
	struct fabric_cfg cfg;
	uint64_t now_ns;
	struct wheel *wheel;
	struct prng prng;
	uint32_t node_count, cable_count, owner_count;
	struct engine_node *nodes;
	struct engine_port *ports; /* of all nodes */
	struct engine_cable *cables;
	struct engine_end *ends;
	struct engine_owner *owners;
	struct fabric_store store;
	struct fabric_pool pool;
	struct wheel_timer *flights; /* unused */
	/* Lists: first and last. */
	uint32_t ends_marked[2], nodes_marked[2];
	struct engine_owner *ready_first, *ready_last;
	uint32_t change_at; /* the node that is looked at next for changes */
	uint32_t change_count;
	bool is_large; /* its state is in no cache: later events are looked at, too */
	struct engine_found found[ENGINE_FOUND];
	uint8_t scratch[IBA_FRAME_MAX], transit[IBA_FRAME_MAX];
	void (*seen)(void *of, const struct fabric_seen *frame); /* or NULL */
	void *seen_of;
};

/* ---- fabric.c ------------------------------------------------------------------------------- */

void engine_mark_end(struct fabric *f, uint32_t end);
void engine_mark_node(struct fabric *f, uint32_t node);

/* The end that a lane of a link is of. */
static inline struct engine_end *engine_end_with(struct fabric_lane *in)
{
	return CONTAINER_OF(in - in->number, struct engine_end, link.in[0]);
}

/* What the agents have set of ports is taken over. */
void engine_ports_learn(struct engine_node *n);

static inline const struct engine_port *engine_port_look(struct engine_node *n, uint32_t port)
{
	if (n->agents.stale)
		engine_ports_learn(n);
	return &n->ports[port];
}

static inline bool engine_is_switch(const struct engine_node *n)
{
	return n->agents.cfg.type == SM_NODE_SWITCH;
}

/* ---- engine_line.c -------------------------------------------------------------------------- */

/* Marks an end at which something has come or was freed, if it has anything to send for it. */
void engine_line_stir(struct fabric *f, uint32_t end);

/* Sends what the end can send now. */
void engine_line_send(struct fabric *f, uint32_t end);
void engine_line_arrive(struct fabric *f, struct engine_flight *own_flight);
void engine_line_expire(struct fabric *f, uint32_t end);
void engine_line_age(struct fabric *f, uint32_t end);

/* The next run that leaves by an end now; when it is on its way, tell so. False: none does. */
bool engine_line_next(struct fabric *f, uint32_t end, struct fabric_run *r);
void engine_line_sent(struct fabric *f, uint32_t end, const struct fabric_run *r);

/* No more leaves now: sets what wakes the end. */
void engine_line_rest(struct fabric *f, uint32_t end);

/* One bit in so many is wrong: whether a flit is damaged; and what a run of them tells. */
bool engine_line_damages(struct fabric *f, uint64_t one_in_bits);
void engine_line_damaged(struct fabric *f, uint32_t end, uint32_t flits, uint32_t damaged);

/* A damaged flit comes. What it says does not matter, as its CRC tells. */
void engine_line_spoil(struct fabric *f, uint32_t end);

void engine_end_up(struct fabric *f, uint32_t end);
void engine_end_down(struct fabric *f, uint32_t end);

/* Frames that wait for a link that is down are dropped. */
void engine_waiting_drop(struct fabric *f, uint32_t end);

/* Lifetimes as IBA writes them; UINT64_MAX: endless. */
uint64_t engine_life_ns(uint8_t code);

/* Up if it may be and can be; else down. A link that is up begins anew. */
void engine_link_renew(struct fabric *f, uint32_t cable);

/* ---- engine_trunk.c ------------------------------------------------------------------------- */

/* The end of a trunk that is here, begins anew. */
void engine_trunk_renew(struct fabric *f, uint32_t cable);

/* ---- engine_ahead.c ------------------------------------------------------------------------- */

/* What the timers after one that has expired need comes nearer. */
void engine_look_ahead(const struct fabric *f);

/* What owners need that are told next. */
void engine_fetch_ready(const struct fabric *f);

/* What an owner needs to look at a frame that has come. */
void engine_fetch_came(const struct fabric *f, const struct engine_owner *o,
		       const struct fabric_frame *fr);

/* ---- engine_relay.c ------------------------------------------------------------------------- */

/* Of management: of lane 15, or for a QP that a node's agents have. */
bool engine_is_for_agents(const uint8_t *bytes, uint32_t length, const struct iba_lrh *h);

/* A frame gets what its header says; those that share its bytes have it from there. */
void engine_head_put(struct fabric_frame *fr, const struct iba_lrh *h);

/* Of a frame that came by a link, and has its head: what is asked of it in a node. */
struct iba_lrh engine_head_of(const struct fabric_frame *fr);

/*
 * The lane on which data leaves that came by a port: that which its level has at the first of its
 * outputs. False: it has none there; that is counted.
 */
bool engine_lane_choose(struct engine_node *n, uint32_t port, uint64_t outputs, uint8_t level,
			uint8_t *lane);

/* Frames at the head of a lane go on. */
void engine_relay(struct fabric *f, struct fabric_lane *in);

/* A frame has come on a lane of an end, or a part of one. */
void engine_relay_arrived(struct fabric *f, uint32_t end, uint32_t lane);

/* A lane of an end may have another frame, or its link is down: what waits for it goes on. */
void engine_relay_freed(struct fabric *f, uint32_t end, uint32_t lane);

/* ---- engine_router.c ------------------------------------------------------------------------ */

/* Frames at a router's port go on to other subnets, as far as there is room; or to its owner. */
void engine_router_relay(struct fabric *f, struct fabric_lane *in);

/* A port of it has room again. */
void engine_router_resume(struct fabric *f, uint32_t node);

/* ---- engine_agent.c ------------------------------------------------------------------------- */

/* A copy of a frame that came by a port goes to the node's agents. True: it is for the owner. */
bool engine_agent_recv(struct fabric *f, uint32_t node, uint32_t port,
		       const struct fabric_frame *frame);

/* What the agents of a node have to send, and have changed. */
void engine_agent_work(struct fabric *f, uint32_t node);

/* A lane of an owner's, which was full, has room again. */
void engine_owner_room(struct fabric *f, struct fabric_lane *lane);

/* A frame has come for the owner. */
void engine_owner_tell(struct fabric *f, struct engine_owner *o);

/* The arbitration tables of the port of an end. */
void engine_arbiter_set(struct fabric *f, uint32_t end);

/* What links have counted is added to a node's counters, which its agents tell of. */
void engine_counts_settle(struct fabric *f, uint32_t node);
