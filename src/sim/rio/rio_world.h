/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A world of directed I/O: requesters, an owner and I/O units with devices, each the real core
 * (rio/), on simulated connections in virtual time. Any of them may stop at any step, as by kill
 * -9, and come back with the same keys; connections break with anything under way; messages are
 * late, or never come over a connection that stays; an I/O unit or the owner hangs. Outside the
 * cores stands a model that knows who asked for what, and judges every end, every byte and every
 * access.
 *
 *	rio_world.c      the world: what the seed draws, the loop, faults, the end
 *	rio_net.c        connections: messages, Reads and Writes on their way, and windows
 *	rio_nodes.c      processes: their mail, greetings and dialling, stopping and starting
 *	rio_roles.c      what the cores of the three roles want done
 *	rio_devices.c    what I/O units have for devices, and a spy before each of them
 *	rio_asks.c       what requesters ask for
 *	rio_values.c     the judge: which values each block may have
 *	rio_model.c      the judge: what is read, what devices are asked for, whose memory is used
 *	rio_order.c      the judge: who may be connected, and what comes before what
 */
#pragma once

#include "rio/iounit.h"
#include "rio/owner.h"
#include "rio/requester.h"
#include "sim/world/sim_disk.h"
#include "sim/world/sim_trace.h"
#include "sim/world/world.h"

enum {
	RW_REQUESTERS_MAX = 4,
	RW_UNITS_MAX = 3,
	RW_OWNERS_MAX = 2, /* with one key */
	RW_NODES_MAX = RW_OWNERS_MAX + RW_REQUESTERS_MAX + RW_UNITS_MAX,
	RW_UNIT_DEVICES = 2,
	RW_DEVICES_MAX = RW_UNITS_MAX * RW_UNIT_DEVICES,
	RW_DEVICE_DISKS = 2,
	RW_CONNS_MAX = 256,
	RW_FLIGHTS_MAX = 8192,
	RW_ASKS_MAX = 1024,
	RW_TRANSACTIONS_MAX = 8192,
	RW_RULES_MAX = 16,
	RW_ASK_TRANSACTIONS = 8, /* most of an ask */
	RW_FRAGMENTS = 640,	 /* most of a transaction */
	/* A requester's memory. */
	RW_WINDOWS = 1024, /* that its core may have open */
	RW_CELL = 64,
	RW_CELLS = 8192,
	RW_ARENA = RW_CELL * RW_CELLS,
	RW_SHARED = 16, /* pieces of memory that others may name, each used once */
	RW_SHARED_BYTES = 8192,
	RW_WINDOWS_ALL = 1 + RW_SHARED + RW_WINDOWS,
	RW_LISTS = 3,
	RW_UNDER_WAY = 64, /* at a device, that are looked at */
	RW_TROUBLED = 16,  /* writes that failed lately */
	RW_FAILURE_BYTES = 256
};

#define RW_NONE UINT32_MAX

enum rw_event {
	RW_EV_TURN,	/* node: it looks what has come */
	RW_EV_TRANSMIT, /* arg: the flight leaves */
	RW_EV_ARRIVE,	/* arg: the flight is there, or back */
	RW_EV_DIALLED,	/* arg: a connection is asked for there */
	RW_EV_ANSWERED, /* arg: and the answer is here */
	RW_EV_NOTICE,	/* arg: an end learns that the other one is gone */
	RW_EV_BURY,	/* arg: what was under way over the end comes back */
	RW_EV_ASK,	/* node: a requester does something */
	RW_EV_FAULT,
	RW_EV_START, /* node: it comes back */
	RW_EV_PHASE
};

/* Who waits that long for an end waits for something that does not come. */
static const uint64_t rw_patient_ns = UINT64_C(60) * 1000 * 1000 * 1000;

/* In the trace; who = node. */
enum rw_trace {
	RW_TRACE_STOPPED = SIM_TRACE_SCENARIO,
	RW_TRACE_STARTED,
	RW_TRACE_HUNG,	  /* a = until */
	RW_TRACE_BROKEN,  /* a = connection */
	RW_TRACE_CLOGGED, /* a = node: nothing gets there any more */
	RW_TRACE_APART,	  /* a = node: nothing gets to or fro, b = until */
	RW_TRACE_STUCK,	  /* a = device, b = until */
	RW_TRACE_SICK,	  /* the same */
	RW_TRACE_MET,	  /* a = node: they have greeted */
	RW_TRACE_PARTED,  /* a = node, reason */
	RW_TRACE_MESSAGE, /* a = node, b = type << 32 | bytes */
	RW_TRACE_WROTE,	  /* a = node whose memory it was, b = bytes */
	RW_TRACE_READ,	  /* the same */
	RW_TRACE_BARRED,  /* the same: it was refused */
	RW_TRACE_ASKED,	  /* a = ask, b = transactions */
	RW_TRACE_ENDED,	  /* a = ask, b = bytes, reason */
	RW_TRACE_DECIDED, /* a = note's kind, b = request, reason */
	RW_TRACE_STORED,  /* a = device << 8 | operation, b = offset */
	RW_TRACE_PHASE,	  /* a = phase */
	RW_TRACE_END
};

/* ---- Connections ---------------------------------------------------------------------------- */

enum rw_end_state {
	RW_END_GONE = 0,   /* or never there */
	RW_END_CONNECTING, /* who dials */
	RW_END_GREETING,
	RW_END_UP,
	RW_END_DYING, /* what is under way comes back, then its node is told */
};

/* Ends are named 2 * connection + side; who dials is side 0. */
struct rw_end {
	enum rw_end_state state;
	uint32_t node;
	enum weft_reason reason;	 /* why it dies */
	bool is_known_to_role, was_lost; /* its role knows of it; and that it is no good any more */
	uint32_t dial;			 /* of its node; RW_NONE */
	uint32_t number;		 /* the owner's */
	struct platform peer;
	uint64_t deadline_ns; /* of the greeting */
	struct rio_handshake cm_id;
	struct list flights; /* whose end this side awaits, in order */
	uint64_t transmit_ns, arrival_ns;
};

struct rw_conn {
	uint32_t serial; /* of the use of this slot */
	bool is_data;
	bool is_clogged;	       /* nothing arrives any more */
	uint64_t term;		       /* of its owner, in that life */
	uint32_t meeting;	       /* of a requester with an owner: which one; 0: none yet */
	uint32_t to;		       /* the node that was dialled */
	uint8_t words[RIO_DATA_BYTES]; /* private data: the question, then the answer */
	enum weft_reason answer;
	struct rw_end ends[2];
};

enum rw_flight_kind { RW_MESSAGE, RW_WRITE, RW_READ };

/* A message, Read or Write on its way; of a Read, also its response. */
struct rw_flight {
	struct list link; /* of its end's, or of the free ones */
	enum rw_flight_kind kind;
	uint32_t end, serial;
	uint32_t id;	/* of the role */
	uint8_t *bytes; /* of a move: the sender's */
	uint8_t *data;	/* its own copy, once it has left */
	uint32_t length, handle;
	uint64_t remote;
	bool is_linked, is_ready, is_back, has_event;
};

enum rw_input_kind {
	RW_INPUT_ACCEPT,
	RW_INPUT_ASKED,
	RW_INPUT_CONNECTED,
	RW_INPUT_MESSAGE,
	RW_INPUT_MOVED,
	RW_INPUT_GONE
};

/* What a node will find at its next turn. */
struct rw_input {
	struct list link;
	enum rw_input_kind kind;
	uint32_t end, serial, id;
	enum weft_reason reason;
	uint8_t *bytes; /* its own */
	size_t length;
};

/* Memory that others may reach. */
struct rw_window {
	uint32_t handle; /* never used twice */
	bool is_open, is_written, is_control;
	struct platform only; /* who may reach it; unit 0: all on such connections */
	uint64_t address;
	uint32_t length;
	uint8_t *bytes;
};

/* ---- Nodes ---------------------------------------------------------------------------------- */

struct rw_dial {
	uint32_t node, end; /* whom; RW_NONE: no end at present */
	uint64_t next_ns, wait_ns;
};

struct rw_node {
	struct rio_identity self;
	bool is_up, is_stopping;
	uint32_t incarnation;
	uint64_t hung_since_ns, hung_until_ns;
	uint32_t acts_left; /* until it stops; 0: it does not by itself */
	struct list input;  /* struct rw_input */
	struct world_alarm turn;
	struct rw_dial dials[RW_UNITS_MAX];
	uint32_t dial_count;
	struct rw_window windows[RW_WINDOWS_ALL]; /* lists, shared, those of the core */
	uint8_t *lists;
	/* Of its role. */
	struct rio_owner *owner;
	struct rio_iounit *unit;
	struct rio_requester *requester;
	uint32_t owner_end; /* of a requester or an I/O unit */
	uint32_t meetings;  /* with an owner, in all lives */
	uint64_t term;	    /* of an owner: its life's; of others: the highest that they have met */
	/* The model's: with whom its owner has let it have data connections. */
	bool is_let[RW_NODES_MAX];
	uint8_t *buffers; /* of an I/O unit */
	uint8_t *arena;	  /* of a requester */
	uint8_t cells[RW_CELLS];
	uint32_t shared_used;
	uint32_t asks_left;
};

struct rw_spy {
	struct store store;
	struct rio_world *world;
	struct store *below;
	uint32_t device;
};

/* A request that a device has; its transaction, RW_NONE: it may be of several. */
struct rw_under_way {
	const struct store_request *request;
	uint32_t transaction;
};

/* What a block may hold: a transaction's data. Moments are numbers of the model's clock. */
struct rw_value {
	uint32_t writer;   /* RW_NONE: zeroes that nobody wrote */
	uint64_t zero_seq; /* since when there are those */
	uint64_t cut_seq;  /* its I/O unit has stopped since; 0: it has not */
	uint64_t sure_seq; /* since when it is known to have been there; 0: it is not */
	uint64_t gone_seq; /* what begins later cannot see it; 0: it may */
	uint32_t last;	   /* the last transaction that it was there for; RW_NONE: none */
};

struct rw_block {
	struct rw_value *values;
	uint32_t count, room;
};

enum rw_device_kind { RW_DISK, RW_MEMORY, RW_STRIPE, RW_MIRROR };

struct rw_device {
	enum rw_device_kind kind;
	uint32_t node, number;
	uint32_t owner_number; /* the owner's first */
	uint32_t block_bytes;
	uint64_t size_bytes;
	struct sim_disk disks[RW_DEVICE_DISKS];
	uint32_t disk_count;
	uint8_t *memory;
	uint64_t delay_ns;
	uint32_t error, torn; /* of a fault filter */
	/* While its I/O unit is up, from below. */
	struct store *layers[4];
	uint32_t layer_count;
	struct rw_spy spy;
	/* The model's: what its blocks may hold; what it works on. */
	struct rw_block *blocks;
	uint32_t block_count;
	struct rw_under_way under_way[RW_UNDER_WAY];
	uint32_t under_way_count;
};

/* ---- The model ------------------------------------------------------------------------------ */

struct rw_rule {
	uint32_t requester, device; /* node, device; RW_NONE: any */
	uint32_t operations;
	uint64_t first, length; /* length 0: to the end */
};

enum rw_fate {
	RW_OPEN,  /* it may happen, or have happened */
	RW_DONE,  /* it has */
	RW_MAYBE, /* it has, will, or will not */
	RW_NEVER  /* it must not, and must never be seen */
};

struct rw_segment {
	uint32_t node, incarnation; /* whose memory */
	uint8_t *bytes;		    /* good as long as that incarnation is */
	uint32_t length;
};

struct rw_transaction {
	struct sgl_transaction is;
	uint32_t ask;
	uint32_t device; /* RW_NONE: one that is not there */
	enum rw_fate fate;
	bool is_durable;      /* it was done, and flushed since or FUA */
	bool is_excused;      /* its requester has flushed it, or knows that it may be gone */
	bool is_settled;      /* the same, without doubt: its loss is not to be reported again */
	uint64_t excused_seq; /* when it was told so; 0: it was not */
	bool is_immediate;
	struct rw_segment *sges;
	uint32_t sge_count;
	uint32_t cell, cells; /* of the requester's arena */
};

struct rw_ask {
	uint32_t node, incarnation;
	uint32_t meeting;   /* which connection with an owner */
	uint32_t commanded; /* which connection of its I/O unit with an owner; 0: not yet */
	uint64_t id;
	uint64_t command_id; /* and the connection's end, and its serial, that it went over */
	uint32_t command_end, command_serial;
	uint32_t unit_life; /* incarnation of the I/O unit that it was commanded to; 0: none */
	/* When it was asked for, its requester knew of its end or stopped, its owner knew; 0: not
	 * yet. */
	uint64_t asked_seq, reported_seq, over_seq;
	uint64_t asked_ns, timeout_ns;
	uint32_t first, count;	 /* transactions */
	bool is_with_owner;	 /* an owner has got it, at some time */
	bool is_over;		 /* it has ended, or its requester is gone */
	bool is_wrong, is_right; /* must fail; must end well if nothing goes wrong */
	bool is_cancelled, is_audit;
	uint32_t reason;
};

/* To whom a handle was given. */
struct rw_handle {
	uint32_t node, incarnation;
	uint32_t ask; /* RW_NONE: lists, shared memory */
};

enum rw_phase {
	RW_RUN,
	RW_REST,  /* no more faults: everything must come to an end */
	RW_CUT,	  /* all I/O units have stopped at once, and are back */
	RW_AUDIT, /* everything is read */
	RW_FILL,  /* everything is written */
	RW_CUT_AGAIN,
	RW_AUDIT_AGAIN,
	RW_OVER
};

/* What each run draws from its seed. */
struct rw_limits {
	uint32_t requesters, units, asks;
	uint64_t delay_ns, gap_ns; /* of packets; between asks */
	uint64_t timeout_ns, grace_ns;
	uint64_t run_ns;
	uint64_t fault_gap_ns;
	uint32_t stop_weight[3]; /* of owner, requesters, I/O units */
	uint32_t break_weight, hang_weight, clog_weight, stick_weight, part_weight, sick_weight;
	uint64_t hang_ns, away_ns, stuck_ns, part_ns, sick_ns; /* at most */
	uint64_t alive_ns; /* at most so long nothing is heard of another before it is gone */
	uint32_t stuck_ppm;
	uint32_t again_ppm;  /* what failed is asked for again, also by others */
	uint32_t step_ppm;   /* an incarnation stops at one of its acts */
	uint32_t expose_ppm; /* a window cannot be opened */
	bool is_calm;	     /* nothing goes wrong */
	uint32_t mischief_ppm;
	uint32_t hot_blocks; /* of each device, that all want; 0: they want any */
	uint32_t owner_requests, owner_lists, owner_list_max;
	uint32_t commands, pieces, piece_bytes, moves, unit_list_max;
};

/* What makes life hard, beyond what goes wrong in every world, and what is held then. */
enum rw_hazard {
	RW_HAZARD_LATE = 1 << 0,   /* devices are stuck; a failed write comes no later than known */
	RW_HAZARD_FLUSH = 1 << 1,  /* a flush fails after an I/O unit forgot what was not flushed */
	RW_HAZARD_MIRROR = 1 << 2, /* members of mirrors fail and come back: there is one value */
	RW_HAZARD_OWNERS = 1 << 3, /* there are two owners with one key */
	RW_HAZARD_APART = 1 << 4,  /* any two nodes are apart for a while */
	RW_HAZARDS_ALL = (1 << 5) - 1
};

struct rio_world {
	struct world world;
	uint32_t hazards;
	struct rw_limits limits;
	enum rw_phase phase;
	uint64_t phase_ns;	  /* when it began */
	uint64_t longest_hang_ns; /* of a node, so far */
	uint32_t audit_device;
	uint64_t audit_at;
	uint32_t audit_ask;
	struct rw_node nodes[RW_NODES_MAX]; /* the owner, requesters, I/O units, the second owner */
	uint32_t node_count, owner_count;
	uint64_t terms; /* of owners, so far: one for each life */
	struct rio_known known[RW_NODES_MAX];
	struct rw_device devices[RW_DEVICES_MAX];
	uint32_t device_count;
	struct rio_policy *policy;
	struct rw_rule rules[RW_RULES_MAX];
	uint32_t rule_count;
	bool shares[RW_NODES_MAX][RW_NODES_MAX]; /* [who][whose] */
	struct rw_conn conns[RW_CONNS_MAX];
	struct rw_flight *flights;
	struct list free_flights;
	struct rw_ask asks[RW_ASKS_MAX];
	uint32_t ask_count;
	struct rw_transaction *transactions;
	uint32_t transaction_count;
	/* Writes that failed, or whose requester stopped: the latest of them. */
	uint32_t troubled[RW_TROUBLED], troubled_count;
	uint64_t apart_until_ns[RW_NODES_MAX][RW_NODES_MAX];
	struct rw_handle *handles;
	uint32_t handle_count, handle_room;
	uint64_t seq; /* the model's clock */
	/* For people. */
	uint64_t ended_well, ended_badly, refused, payload_bytes, owner_bytes, stops;
	char failure[RW_FAILURE_BYTES];
	bool is_over;
};

/* Of the hazards (enum rw_hazard) some, as the seed draws. 0, or -1 when memory is short. */
int rio_world_open(struct rio_world *w, uint64_t seed, uint32_t hazards);

/* One event. False when the world has come to its end, or something was wrong. */
bool rio_world_step(struct rio_world *w);

/* What was wrong; empty: nothing. */
const char *rio_world_failure(const struct rio_world *w);
void rio_world_close(struct rio_world *w);

/* An event of its trace in words; false: it is of another kind. */
bool rio_world_words(const struct trace_event *e, char *text, size_t size);

/* ---- Among the files of the scenario -------------------------------------------------------- */

static inline uint32_t rw_draw(struct rio_world *w, uint32_t below)
{
	return prng_below(&w->world.prng, below);
}

static inline bool rw_chance(struct rio_world *w, uint32_t ppm)
{
	return prng_chance(&w->world.prng, ppm);
}

static inline uint64_t rw_draw_ns(struct rio_world *w, uint64_t most_ns)
{
	return prng_next(&w->world.prng) % (most_ns + 1);
}

/* The first and, behind all others, the second. */
static inline bool rw_is_owner(const struct rio_world *w, uint32_t node)
{
	return node == 0 || node > w->limits.requesters + w->limits.units;
}

static inline bool rw_is_requester(const struct rio_world *w, uint32_t node)
{
	return node > 0 && node <= w->limits.requesters;
}

static inline bool rw_is_unit(const struct rio_world *w, uint32_t node)
{
	return node > w->limits.requesters && !rw_is_owner(w, node);
}

/* Records the first failure, in words. */
void rw_fail(struct rio_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rw_trace(struct rio_world *w, enum rw_trace kind, uint32_t node, uint64_t a, uint64_t b);
void rw_trace_reason(struct rio_world *w, struct trace_event e, uint32_t reason);

/* rio_net.c */
struct rw_end *rw_end_of(struct rio_world *w, uint32_t end);
struct rw_conn *rw_conn_of(struct rio_world *w, uint32_t end);

/* Connects to that node; the end, or RW_NONE: there are too many. */
uint32_t rw_dial(struct rio_world *w, uint32_t from, uint32_t to, const struct rio_bytes *question);

/* The other side's answer to whoever dialled. */
void rw_answer(struct rio_world *w, uint32_t end, enum weft_reason reason,
	       const struct rio_bytes *answer);

/* The end is broken, or hung up; its node is told when all under way has come back. */
void rw_end_fail(struct rio_world *w, uint32_t end, enum weft_reason reason);

/* Its node is no more, or knows of it now. */
void rw_end_forget(struct rio_world *w, uint32_t end);
void rw_say(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* A Read or Write of that end's node. Refused: it has not begun. */
enum weft_reason rw_move(struct rio_world *w, uint32_t end, const struct rw_flight *move);

/* A data end of the node with that peer, that is not dying; RW_NONE. */
uint32_t rw_data_end(struct rio_world *w, uint32_t node, struct platform peer);

/* A data connection over which something is read is clogged, for good. */
void rw_clog_one(struct rio_world *w);

/* Nothing gets from one node to the other, for a while; each learns of it at its own time. */
void rw_part_two(struct rio_world *w);

/* No more faults: those that nobody can notice break. */
void rw_clogs_end(struct rio_world *w);
bool rw_net_event(struct rio_world *w, const struct world_event *e);
int rw_net_open(struct rio_world *w);
void rw_net_close(struct rio_world *w);
uint32_t rw_handle_new(struct rio_world *w, uint32_t node, uint32_t ask);

/* rio_nodes.c */
uint32_t rw_node_of(const struct rio_world *w, struct platform platform);
void rw_input(struct rio_world *w, uint32_t node, const struct rw_input *input);
void rw_node_start(struct rio_world *w, uint32_t node);
void rw_node_stop(struct rio_world *w, uint32_t node);
void rw_node_turn(struct rio_world *w, uint32_t node);

/* It will look when something is due. */
void rw_node_wake(struct rio_world *w, uint32_t node);

/* rio_roles.c */
void rw_role_open(struct rio_world *w, uint32_t node);
void rw_role_close(struct rio_world *w, uint32_t node);
enum weft_reason rw_role_came(struct rio_world *w, uint32_t end);
enum weft_reason rw_role_message(struct rio_world *w, uint32_t end, const struct rw_input *input);
void rw_role_moved(struct rio_world *w, uint32_t node, const struct rw_input *input);
void rw_role_gone(struct rio_world *w, uint32_t end);
void rw_role_asked(struct rio_world *w, uint32_t end);
void rw_role_work(struct rio_world *w, uint32_t node);
uint64_t rw_role_due(struct rio_world *w, uint32_t node);

/* rio_devices.c */
int rw_devices_draw(struct rio_world *w);
void rw_devices_close(struct rio_world *w);
/* What it is called; says how long that is. */
uint32_t rw_device_name(const struct rw_device *d, uint8_t name[RIO_DEVICE_NAME_MAX]);
void rw_devices_start(struct rio_world *w, uint32_t node);
void rw_devices_stop(struct rio_world *w, uint32_t node);

/* One of all disks is stuck for a while; of a mirror one fails. */
void rw_devices_stick(struct rio_world *w);
void rw_devices_sicken(struct rio_world *w);
void rw_devices_heal(struct rio_world *w);

/* rio_asks.c */
void rw_ask_act(struct rio_world *w, uint32_t node);

bool rw_has_offer(const struct rio_world *w, uint32_t node, uint32_t device);

/* The life of the device's I/O unit that the requester knows of; 0: it is not offered. */
uint32_t rw_offered_life(const struct rio_world *w, uint32_t node, uint32_t device);

/* One that must go well: reads or writes so much of a device. False: it could not be asked. */
bool rw_ask_audit(struct rio_world *w, const struct sgl_transaction *is, uint32_t device);
void rw_ask_ended(struct rio_world *w, uint32_t node, const struct rio_ended *ended);

/* rio_model.c */
enum { RW_WORD = 8 };

void rw_policy_draw(struct rio_world *w);
bool rw_is_allowed(const struct rio_world *w, uint32_t node, uint32_t device,
		   const struct sgl_transaction *is);

/* The word of a transaction's data at that place of the device. */
void rw_word_put(uint8_t *at, const struct rio_world *w, uint32_t transaction, uint64_t offset);
void rw_model_asked(struct rio_world *w, uint32_t ask);
void rw_model_ended(struct rio_world *w, uint32_t ask);

/* Its owner knows that it has ended, or what it knew is lost. */
void rw_model_over(struct rio_world *w, struct rw_ask *a);

/* Its requester has stopped. */
void rw_model_lost(struct rio_world *w, uint32_t node);

/* An I/O unit has stopped. */
void rw_model_cut(struct rio_world *w, uint32_t node);

/* A device is asked for something: the transaction; RW_NONE: it may be of several. */
uint32_t rw_model_stored(struct rio_world *w, uint32_t device, const struct store_request *r);

/* Somebody's access to memory was refused. */
void rw_model_barred(struct rio_world *w, uint32_t node, const struct rw_flight *f);

/* A message to the owner, or of it: there is no payload in it. */
void rw_model_message(struct rio_world *w, const uint8_t *bytes, size_t length);

/* rio_values.c */
int rw_values_open(struct rio_world *w);
void rw_values_close(struct rio_world *w);
void rw_values_asked(struct rio_world *w, uint32_t transaction);

/* It was acknowledged; or a flush in it failed, for writes that may be lost. */
void rw_values_done(struct rio_world *w, uint32_t transaction);
void rw_values_loss_reported(struct rio_world *w, const struct rw_ask *a);

/* Should a flush of it fail, because something acknowledged and not flushed may be gone? */
bool rw_values_is_loss_due(const struct rio_world *w, const struct rw_ask *a);

/* The device's I/O unit has stopped. */
void rw_values_cut(struct rio_world *w, uint32_t device);

/* A read has seen that transaction's data there, RW_NONE: zeroes. False: it cannot be there. */
bool rw_values_read(struct rio_world *w, uint32_t read, uint64_t offset, uint32_t writer);

/* rio_order.c */

/* The node has met its owner, or lost it. */
void rw_order_owner(struct rio_world *w, uint32_t node);

/* A node has met the owner at the other end. */
void rw_order_met(struct rio_world *w, uint32_t end);

/* An owner has got a message over that end. */
void rw_order_got(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* An owner says something over that end of its own; a node hears it over that end of its own. */
void rw_order_said(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);
void rw_order_heard(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* An owner writes down that a request has ended. */
void rw_order_noted(struct rio_world *w, const struct rio_note *note);

/* An end of the owner's is no more: what came over it has ended, or never will. */
void rw_order_parted(struct rio_world *w, uint32_t end);

/* It has had its turn. */
void rw_order_turned(struct rio_world *w, uint32_t node);

/* A device begins with a request, or is done with it. */
void rw_order_begun(struct rio_world *w, uint32_t device, struct rw_under_way begun);
void rw_order_done(struct rio_world *w, uint32_t device, const struct store_request *r);
