/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two hosts and an I/O unit of a split network card in virtual time: the real core of each end
 * (push/push.h) over real adapters on a simulated wire. RoCE loses, duplicates, reorders and
 * corrupts packets; TCP under iWARP delays, chops, cuts, resets and corrupts. Any process may stop
 * at any of its acts, as by kill -9, and comes back; connections end in order, or without notice.
 *
 *	card_world.c	the world: what the seed draws, the loop, faults, the phases
 *	card_net.c	adapters, wires, connections
 *	card_node.c	processes: what is posted, what completes, what their links say
 *	card_work.c	consumers: packets, elements, pools, configuration
 *	card_judge.c	model: which end may write which element when; what messages may say
 *	card_packets.c	model: what every packet has in it, their order, all memory
 *	card_words.c	its events in words
 *
 * The judges stand outside the core. They see what the consumers ask for, the acts that are pulled,
 * the messages as they leave and arrive, and the memory of all.
 */
#pragma once

#include "push/push.h"
#include "sim/roce/ib_node.h"
#include "sim/world/sim_trace.h"
#include "sim/world/tcp_link.h"

enum {
	CDW_HOSTS = 2,
	CDW_NODES = CDW_HOSTS + 1, /* node 0 is the unit */
	CDW_ENDS = 2 * CDW_HOSTS,  /* 2 * host + side: side 0 is the host's, 1 the unit's */
	CDW_QPS = 2,		   /* of an end: Send mode has one for each channel */
	CDW_POOLS_MAX = 300,
	CDW_ELEMENTS_MAX = 1024, /* of an end */
	CDW_SENDS = 6,
	CDW_RECEIVES = 48,
	CDW_PACKETS = 24, /* of an end, that are not over */
	CDW_LOG = 16384,  /* latest packets of an end that the model knows */
	CDW_PACKET_BYTES = 66 * 1024,
	CDW_POOL_BYTES = 768 * 1024, /* of an end, for all of its pools */
	/* An end's memory. */
	CDW_AT_MESSAGES = 0,
	CDW_AT_RECEIVES = CDW_AT_MESSAGES + CDW_SENDS * PUSH_MSG_BYTES_MAX,
	CDW_AT_PACKETS = CDW_AT_RECEIVES + CDW_RECEIVES * CDW_PACKET_BYTES,
	CDW_AT_POOLS = CDW_AT_PACKETS + CDW_PACKETS * CDW_PACKET_BYTES,
	CDW_END_BYTES = CDW_AT_POOLS + CDW_POOL_BYTES,
	CDW_CONNS = 64,
	CDW_FAILURE_BYTES = 256
};

#define CDW_NONE UINT32_MAX

/* The kind of a work request, in the lowest bits of its id. HOSTILE: the caller's. */
enum { CDW_WORK_RECEIVE, CDW_WORK_ACT, CDW_WORK_HOSTILE, CDW_WORK_BITS = 2 };

enum cdw_event {
	CDW_TURN,    /* node: a deadline of its cores, or something has arrived */
	CDW_ARRIVED, /* node: a packet of RoCE */
	CDW_LEFT,    /* node: an end whose peer has hung up; arg: serial of the connection */
	CDW_ACT,     /* node: its consumer does something */
	CDW_DIAL,    /* node: a host dials the unit */
	CDW_START,   /* node: comes back */
	CDW_FAULT,
	CDW_PHASE,
	CDW_TCP /* node: end; the first of enum tcp_event */
};

/* Kinds of trace events; who = node, but for those of an end. */
enum cdw_trace {
	CDW_TRACE_STARTED = SIM_TRACE_SCENARIO + 96,
	CDW_TRACE_STOPPED,
	CDW_TRACE_DIALLED, /* who = end, as of all below */
	CDW_TRACE_OPEN,
	CDW_TRACE_LOST,	     /* reason */
	CDW_TRACE_SENT,	     /* a message: a = function, b = bytes */
	CDW_TRACE_WROTE,     /* a = pool << 32 | element, b = bytes */
	CDW_TRACE_CAME,	     /* a packet: a = number, b = bytes */
	CDW_TRACE_RETURNED,  /* a = pool, b = element */
	CDW_TRACE_POOL,	     /* a = pool, b = elements << 32 | bytes: its consumer opens it */
	CDW_TRACE_CLOSING,   /* a = pool */
	CDW_TRACE_RELEASING, /* a = pool of the other end */
	CDW_TRACE_CLOSED,    /* a = pool; reason */
	CDW_TRACE_ENDING,
	CDW_TRACE_PHASE, /* a = phase */
	CDW_TRACE_END
};

enum cdw_wire { CDW_ROCE, CDW_IWARP };

enum cdw_model { CDW_PUSH_PUSH, CDW_PUSH_PULL, CDW_PULL_PULL }; /* AMB-28 */

enum cdw_phase {
	CDW_RUN,
	CDW_REST, /* no more faults or packets: what is under way must arrive */
	CDW_IDLE, /* nothing is under way: nothing may be said but pings */
	CDW_CLOSE,
	CDW_OVER
};

/* What a caller may fix; the seed draws the rest. */
struct cdw_choice {
	bool has_wire, has_mode, has_model;
	enum cdw_wire wire;
	enum push_mode mode;
	enum cdw_model model;
	bool is_calm;	 /* no faults */
	bool is_hostile; /* the caller plays an end that breaks the rules: refusals are counted */
	bool is_plain;	 /* nor anything else that would make two models differ but the model */
};

/* Parameters that each run draws from its seed. */
struct cdw_limits {
	enum cdw_wire wire;
	enum push_mode mode;
	enum cdw_model model;
	bool is_calm, is_plain, is_hostile;
	struct sim_faults faults;
	uint32_t pipe_bytes, corrupt_ppm;
	uint32_t mtu_bytes; /* of packets of RoCE */
	uint8_t timeout_code;
	uint64_t run_ns, gap_ns, fault_gap_ns, away_ns;
	uint32_t burst;
	uint32_t kill_weight, reset_weight, leave_weight, step_ppm;
	uint32_t end_weight; /* an orderly end */
	/* The card. */
	uint64_t features;
	uint16_t mtu;
	uint32_t inline_bytes, writes, pulls, pools;
	uint32_t pool_bytes, packet_bytes; /* memory of a pool; the longest packet */
	uint32_t hold_percent;		   /* returns that a consumer leaves for later */
	uint32_t pool_weight;		   /* pools that open and close, among acts */
	bool has_immediate;
	uint64_t ping_after_ns;
};

/* ---- The model ------------------------------------------------------------------------------ */

/* Whose turn it is with an element. */
enum cdw_turn {
	CDW_TARGETS,	/* not granted yet, or returned and not told */
	CDW_INITIATORS, /* may be written */
	CDW_WRITTEN,	/* a Write was pulled */
	CDW_CONSUMERS,	/* its packet was told */
	CDW_ON_ITS_WAY	/* the message that returns it was pulled, and has not arrived */
};

struct cdw_element {
	enum cdw_turn turn;
	bool is_under_way; /* its Write has not completed at the initiator */
	bool is_untold;	   /* written without immediate data, and not in a message yet */
	uint64_t number;   /* of the packet */
	uint32_t bytes;
};

/* A pool of an end, by its index. */
struct cdw_pool {
	bool is_used;
	uint32_t elements, element_bytes, at; /* at: in the end's memory */
	struct cdw_element *elements_of;
	bool is_registered, is_told, is_known; /* known: the message has arrived */
	uint32_t handle;
	/* The initiator has promised to stop; the target knows. */
	bool is_ended, is_end_known;
	uint64_t flush, release; /* contexts of the requests; 0: none */
};

struct cdw_packet {
	uint64_t sent_ns;
	uint32_t length;
	bool is_void; /* it was over before it was sent */
};

/* What an end has done, for the judges, since its connection began. */
struct cdw_book {
	struct cdw_pool *pools;	    /* CDW_POOLS_MAX */
	struct cdw_packet *packets; /* CDW_LOG, by number */
	uint64_t sent, came;	    /* packets: that it sent; the next one to come to it */
	uint64_t well, voids;	    /* of those that it sent: ended well; were not sent */
	uint64_t got;		    /* packets that came to it */
	uint64_t messages;	    /* but for pings */
	uint64_t untold;	    /* its Writes that it owes an indication of */
};

/* ---- Processes ------------------------------------------------------------------------------ */

enum cdw_end_state { CDW_FREE, CDW_CONNECTING, CDW_UP, CDW_DYING };

struct card_world;

struct cdw_kept {
	uint32_t pool, element;
	uint64_t number;
	uint32_t bytes;
};

struct cdw_end {
	struct card_world *world;
	uint32_t index, node;
	enum cdw_end_state state;
	uint32_t serial; /* of the connection */
	struct weft_qp *qps[CDW_QPS];
	struct push_link *link;
	struct push_config config;
	uint32_t base, tag;	  /* its memory in that of its node, and its region */
	uint8_t *shadow;	  /* what its pools must have in them */
	uint32_t sends, receives; /* that are posted */
	bool is_begun, is_open;
	bool is_ended_well; /* it has asked for an orderly end, and had it */
	bool is_asking;
	uint64_t slots[CDW_PACKETS];  /* number + 1 of the packet there; 0: free */
	uint32_t writes[CDW_PACKETS]; /* pool << 16 | element of each act under way */
	uint32_t busy;		      /* slots that are not free */
	struct cdw_kept kept[CDW_ELEMENTS_MAX];
	uint32_t kept_count;
	bool slot_used[CDW_POOLS_MAX]; /* of memory of pools */
	struct cdw_book book;
};

struct cdw_node {
	struct card_world *world;
	uint32_t index;
	bool is_up, is_stopping;
	uint32_t acts_left; /* stops after so many; 0: does not */
	struct adapter adapter;
	struct ib_node ib;
	struct list attention; /* streams of iWARP */
	struct weft_space *space;
	struct weft_pd *pds[CDW_HOSTS]; /* of the unit one for each host (PUSH-05) */
	struct weft_cq *cq;
	struct ib_conn *conns[CDW_CONNS]; /* of RoCE; they outlive their queue pairs */
	uint32_t conn_count;
	uint8_t *memory;
	struct world_alarm turn;
	uint32_t incarnation;
};

struct card_world {
	struct world world;
	struct cdw_limits limits;
	enum cdw_phase phase;
	uint64_t phase_ns;
	struct cdw_node nodes[CDW_NODES];
	struct cdw_end ends[CDW_ENDS];
	struct sim_datagram pipes[CDW_ENDS]; /* RoCE: out of the end's node */
	struct tcp_link links[CDW_HOSTS];
	uint32_t serials;
	uint64_t steps;
	bool is_over;
	/* How much was judged, and what was met. */
	uint64_t came[2]; /* packets: to hosts, to the unit */
	uint64_t packets, bytes, refused, writes, immediates, messages[PUSH_FUNCTION_COUNT];
	enum weft_reason refused_for; /* the last one */
	uint64_t dials, opens, breaks, orderly, stops, resets, waits, latency_ns;
	uint64_t corruptions;
	struct sim_datagram_counts wire;
	char failure[CDW_FAILURE_BYTES];
};

/* The seed draws what `choice` does not fix; NULL: it fixes nothing. 0, or -1: out of memory. */
int card_world_open(struct card_world *w, uint64_t seed, const struct cdw_choice *choice);

/* Runs one event. False: the run is over, or a check failed. */
bool card_world_step(struct card_world *w);

/* The failed check in words; empty: none failed. */
const char *card_world_failure(const struct card_world *w);
void card_world_close(struct card_world *w);

/* Formats a trace event; false: it is of another kind. */
bool card_world_words(const struct trace_event *e, char *text, size_t size);

/* ---- Among the files of the scenario -------------------------------------------------------- */

static inline uint32_t cdw_draw(struct card_world *w, uint32_t below)
{
	return prng_below(&w->world.prng, below);
}

static inline struct cdw_end *cdw_peer(struct cdw_end *e)
{
	return &e->world->ends[e->index ^ 1];
}

static inline struct cdw_node *cdw_node_of(const struct cdw_end *e)
{
	return &e->world->nodes[e->node];
}

static inline bool cdw_is_unit(const struct cdw_end *e)
{
	return e->index & 1;
}

/* The byte of the end's memory: for the world, and as its adapter knows it. */
static inline uint8_t *cdw_at(const struct cdw_end *e, uint32_t offset)
{
	return cdw_node_of(e)->memory + e->base + offset;
}

static inline uint64_t cdw_addr(const struct cdw_end *e, uint32_t offset)
{
	return ((uint64_t)(e->node + 1) << 40) + e->base + offset;
}

/* Records the first failure, in words. */
void cdw_fail(struct card_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cdw_trace(struct card_world *w, enum cdw_trace kind, uint32_t who, uint64_t a, uint64_t b);
void cdw_trace_reason(const struct cdw_end *e, enum cdw_trace kind, uint64_t a,
		      enum weft_reason reason);

/* card_net.c */
int cdw_net_open(struct card_world *w);
void cdw_net_close(struct card_world *w);
void cdw_net_calm(struct card_world *w);

/* The adapter of a process, and its end without notice. */
int cdw_adapter_open(struct cdw_node *n);
void cdw_adapter_close(struct cdw_node *n);

/* Makes both ends of a host's connection, if both can be. False: not now. */
bool cdw_connect(struct card_world *w, uint32_t host);
bool cdw_is_connected(const struct cdw_end *e);

/* The end's queue pairs fail. They go; the process of the end has died (kill). */
void cdw_hang_up(struct cdw_end *e);
void cdw_qps_drop(struct cdw_end *e);
void cdw_cut_off(struct cdw_end *e, bool is_reset);

/* Lets a node's adapter and wires move what they can. True: something moved. */
bool cdw_net_move(struct cdw_node *n);
uint64_t cdw_net_due(struct cdw_node *n);
void cdw_net_event(struct card_world *w, const struct world_event *event);

/* card_node.c */
int cdw_node_start(struct cdw_node *n);
void cdw_node_stop(struct cdw_node *n);
int cdw_end_begin(struct cdw_end *e);
void cdw_end_over(struct cdw_end *e, enum weft_reason reason);
void cdw_node_turn(struct cdw_node *n);

/* card_work.c */
void cdw_act(struct cdw_node *n);
void cdw_pools_begin(struct cdw_end *e);
void cdw_event(struct cdw_end *e, const struct push_event *event);

/* card_judge.c */
int cdw_book_open(struct cdw_end *e);
void cdw_book_close(struct cdw_end *e);
void cdw_book_begin(struct cdw_end *e);
struct cdw_element *cdw_element_of(struct cdw_end *target, uint32_t pool, uint32_t element);

void cdw_judge_opened(struct cdw_end *e, uint32_t pool, const struct push_pool_config *c);
void cdw_judge_registered(struct cdw_end *e, uint32_t pool, uint32_t handle);
void cdw_judge_deregister(struct cdw_end *e, uint32_t pool, uint32_t handle);
void cdw_judge_closed(struct cdw_end *e, uint32_t pool);
void cdw_judge_write(struct cdw_end *e, const struct push_act *act);
void cdw_judge_write_done(struct cdw_end *e, uint32_t act);
void cdw_judge_returned(struct cdw_end *e, const struct cdw_kept *k);

/* A message leaves the end; it has arrived there. */
void cdw_judge_said(struct cdw_end *e, const uint8_t *bytes, size_t length);
void cdw_judge_heard(struct cdw_end *e, const uint8_t *bytes, size_t length);

/* card_packets.c */
void cdw_packet_fill(struct cdw_end *e, uint32_t slot, uint64_t number, uint32_t length);
void cdw_packet_came(struct cdw_end *e, const struct push_event *event);
void cdw_packet_judge_kept(struct cdw_end *e, const struct cdw_kept *k);

/* What is in the pool's memory now may be there; all of a node's memory. */
void cdw_pool_accept(struct cdw_end *e, const struct cdw_pool *p);
void cdw_memory_judge(struct cdw_node *n);
