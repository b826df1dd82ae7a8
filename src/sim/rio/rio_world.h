/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated cluster of directed I/O: requesters, an owner and I/O units with devices. Each runs
 * the real core (rio/) on simulated connections in virtual time. Any process may stop at any step,
 * as by kill -9, and come back with the same keys. Connections break with data in flight; messages
 * are late, or never arrive on a connection that stays up; I/O units and the owner hang. A model
 * outside the cores knows every request, and judges every outcome, every byte and every memory
 * access.
 *
 *	rio_world.c      the world: parameters drawn from the seed, the loop, faults, the end
 *	rio_net.c        connections: messages, Reads and Writes in flight, and windows
 *	rio_nodes.c      processes: their input, handshakes and dialling, stopping and starting
 *	rio_roles.c      carries out the acts of the three roles' cores
 *	rio_devices.c    devices of I/O units, with a spy in front of each
 *	rio_asks.c       what requesters ask for
 *	rio_values.c     model: the values that each block may have
 *	rio_model.c      model: data that is read, requests to devices, memory accesses
 *	rio_order.c      model: permitted connections, and the order of events
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
	RW_OWNERS_MAX = 2, /* with the same key */
	RW_NODES_MAX = RW_OWNERS_MAX + RW_REQUESTERS_MAX + RW_UNITS_MAX,
	RW_UNIT_DEVICES = 2,
	RW_DEVICES_MAX = RW_UNITS_MAX * RW_UNIT_DEVICES,
	RW_DEVICE_DISKS = 2,
	RW_CONNS_MAX = 256,
	RW_FLIGHTS_MAX = 8192,
	RW_ASKS_MAX = 1024,
	RW_TRANSACTIONS_MAX = 8192,
	RW_RULES_MAX = 16,
	RW_ASK_TRANSACTIONS = 8, /* at most, per ask */
	RW_FRAGMENTS = 640,	 /* at most, per transaction */
	/* A requester's memory. */
	RW_WINDOWS = 1024, /* that its core may hold open */
	RW_CELL = 64,
	RW_CELLS = 8192,
	RW_ARENA = RW_CELL * RW_CELLS,
	RW_SHARED = 16, /* pieces of memory that other requesters may name, each used once */
	RW_SHARED_BYTES = 8192,
	RW_WINDOWS_ALL = 1 + RW_SHARED + RW_WINDOWS,
	RW_LISTS = 3,
	RW_UNDER_WAY = 64, /* tracked requests at a device */
	RW_TROUBLED = 16,  /* recently failed writes */
	RW_FAILURE_BYTES = 256
};

#define RW_NONE UINT32_MAX

enum rw_event {
	RW_EV_TURN,	/* node: processes its input */
	RW_EV_TRANSMIT, /* arg: the flight is sent */
	RW_EV_ARRIVE,	/* arg: the flight arrives, or its response does */
	RW_EV_DIALLED,	/* arg: a connection request arrives */
	RW_EV_ANSWERED, /* arg: the answer arrives */
	RW_EV_NOTICE,	/* arg: an end learns that its peer is gone */
	RW_EV_BURY,	/* arg: requests on a dead end are flushed */
	RW_EV_ASK,	/* node: a requester acts */
	RW_EV_FAULT,
	RW_EV_START, /* node: restarts */
	RW_EV_PHASE
};

/*
 * Longer than any wait may last: a process still waiting then waits for an event that never comes.
 */
static const uint64_t rw_patient_ns = UINT64_C(60) * 1000 * 1000 * 1000;

/* Kinds of trace events; who = node. */
enum rw_trace {
	RW_TRACE_STOPPED = SIM_TRACE_SCENARIO,
	RW_TRACE_STARTED,
	RW_TRACE_HUNG,	  /* a = until */
	RW_TRACE_BROKEN,  /* a = connection */
	RW_TRACE_CLOGGED, /* a = node: nothing arrives there any more */
	RW_TRACE_APART,	  /* a = node: no traffic either way, b = until */
	RW_TRACE_STUCK,	  /* a = device, b = until */
	RW_TRACE_SICK,	  /* as above */
	RW_TRACE_MET,	  /* a = node: handshake done */
	RW_TRACE_PARTED,  /* a = node, reason */
	RW_TRACE_MESSAGE, /* a = node, b = type << 32 | bytes */
	RW_TRACE_WROTE,	  /* a = node whose memory was accessed, b = bytes */
	RW_TRACE_READ,	  /* as above */
	RW_TRACE_BARRED,  /* as above: refused */
	RW_TRACE_ASKED,	  /* a = ask, b = transactions */
	RW_TRACE_ENDED,	  /* a = ask, b = bytes, reason */
	RW_TRACE_DECIDED, /* a = note's kind, b = request, reason */
	RW_TRACE_STORED,  /* a = device << 8 | operation, b = offset */
	RW_TRACE_PHASE,	  /* a = phase */
	RW_TRACE_END
};

/* ---- Connections ---------------------------------------------------------------------------- */

enum rw_end_state {
	RW_END_GONE = 0,   /* gone, or never used */
	RW_END_CONNECTING, /* initiator only */
	RW_END_GREETING,
	RW_END_UP,
	RW_END_DYING, /* requests are flushed, then its node is told */
};

/* An end's number is 2 * connection + side; the initiator is side 0. */
struct rw_end {
	enum rw_end_state state;
	uint32_t node;
	enum weft_reason reason;	 /* why it is dying */
	bool is_known_to_role, was_lost; /* the role knows the end; knows that it failed */
	uint32_t dial;			 /* index in its node's dials, or RW_NONE */
	uint32_t number;		 /* for the owner's use */
	struct platform peer;
	uint64_t deadline_ns; /* of the handshake */
	struct rio_handshake handshake;
	struct list flights; /* sent from here and not completed, in order */
	uint64_t transmit_ns, arrival_ns;
};

struct rw_conn {
	uint32_t serial; /* counts uses of this slot */
	bool is_data;
	bool is_clogged;  /* nothing arrives any more */
	uint64_t term;	  /* the owner's term */
	uint32_t meeting; /* requester's meeting with an owner, by rw_node.meetings; 0: none yet */
	uint32_t to;	  /* the responder's node */
	uint8_t words[RIO_DATA_BYTES]; /* private data: the request's, then the answer's */
	enum weft_reason answer;
	struct rw_end ends[2];
};

enum rw_flight_kind { RW_MESSAGE, RW_WRITE, RW_READ };

/* A message, Read or Write in flight; a Read's response too. */
struct rw_flight {
	struct list link; /* in its end's flights or in free_flights */
	enum rw_flight_kind kind;
	uint32_t end, serial;
	uint32_t id;	/* the role's id */
	uint8_t *bytes; /* Read or Write: the sender's memory */
	uint8_t *data;	/* a copy, once sent */
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

/* Input that a node processes at its next turn. */
struct rw_input {
	struct list link;
	enum rw_input_kind kind;
	uint32_t end, serial, id;
	enum weft_reason reason;
	uint8_t *bytes; /* owned by the input */
	size_t length;
};

/* Memory that peers may access. */
struct rw_window {
	uint32_t handle; /* never reused */
	bool is_open, is_written, is_control;
	struct platform only; /* the platform that may access it; unit 0: any on such connections */
	uint64_t address;
	uint32_t length;
	uint8_t *bytes;
};

/* ---- Nodes ---------------------------------------------------------------------------------- */

struct rw_dial {
	uint32_t node, end; /* the peer; RW_NONE: no end at present */
	uint64_t next_ns, wait_ns;
};

struct rw_node {
	struct rio_identity self;
	bool is_up, is_stopping;
	uint32_t incarnation;
	uint64_t hung_since_ns, hung_until_ns;
	uint32_t acts_left; /* stops after so many acts; 0: does not */
	struct list input;  /* struct rw_input */
	struct world_alarm turn;
	struct rw_dial dials[RW_UNITS_MAX];
	uint32_t dial_count;
	struct rw_window windows[RW_WINDOWS_ALL]; /* lists, shared memory, the core's windows */
	uint8_t *lists;
	/* By role. */
	struct rio_owner *owner;
	struct rio_iounit *unit;
	struct rio_requester *requester;
	uint32_t owner_end; /* requester, I/O unit */
	uint32_t meetings;  /* with owners, in all incarnations */
	uint64_t term;	    /* owner: its own; others: the highest they have met */
	/* For the model: peers with which its owner permits data connections. */
	bool is_let[RW_NODES_MAX];
	uint8_t *buffers; /* I/O unit */
	uint8_t *arena;	  /* requester */
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

/* A request at a device. transaction RW_NONE: it may belong to several. */
struct rw_under_way {
	const struct store_request *request;
	uint32_t transaction;
};

/* A value that a block may hold: a transaction's data. *_seq are times of the model's clock. */
struct rw_value {
	uint32_t writer;   /* RW_NONE: initial zeroes */
	uint64_t zero_seq; /* when the initial zeroes were there first */
	uint64_t cut_seq;  /* when its I/O unit stopped after it; 0: it has not */
	uint64_t sure_seq; /* since when it was certainly there; 0: not certain */
	uint64_t gone_seq; /* requests that begin later cannot see it; 0: they may */
	uint32_t last;	   /* the last transaction that saw it; RW_NONE: none */
};

struct rw_block {
	struct rw_value *values;
	uint32_t count, room;
};

enum rw_device_kind { RW_DISK, RW_MEMORY, RW_STRIPE, RW_MIRROR };

struct rw_device {
	enum rw_device_kind kind;
	uint32_t node, number;
	uint32_t owner_number; /* the owner's first number for it */
	uint32_t block_bytes;
	uint64_t size_bytes;
	struct sim_disk disks[RW_DEVICE_DISKS];
	uint32_t disk_count;
	uint8_t *memory;
	uint64_t delay_ns;
	uint32_t error, torn; /* rates of the fault filter */
	/* While its I/O unit is up; from bottom to top. */
	struct store *layers[4];
	uint32_t layer_count;
	struct rw_spy spy;
	/* For the model: possible values of its blocks; its requests in progress. */
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
	RW_OPEN,  /* may take effect, or has */
	RW_DONE,  /* has taken effect */
	RW_MAYBE, /* has, will, or will never */
	RW_NEVER  /* must not take effect, and must never be seen */
};

struct rw_segment {
	uint32_t node, incarnation; /* whose memory it is */
	uint8_t *bytes;		    /* valid while that incarnation lives */
	uint32_t length;
};

struct rw_transaction {
	struct sgl_transaction is;
	uint32_t ask;
	uint32_t device; /* RW_NONE: a device that does not exist */
	enum rw_fate fate;
	bool is_durable;      /* done, and flushed since or with FUA */
	bool is_excused;      /* its requester has flushed it, or was told that it may be lost */
	bool is_settled;      /* the same for certain: the loss must not be reported again */
	uint64_t excused_seq; /* when it was told; 0: it was not */
	bool is_immediate;
	struct rw_segment *sges;
	uint32_t sge_count;
	uint32_t cell, cells; /* in the requester's arena */
};

struct rw_ask {
	uint32_t node, incarnation;
	uint32_t meeting;   /* the requester's meeting with an owner */
	uint32_t commanded; /* its I/O unit's meeting with an owner; 0: not commanded yet */
	uint64_t id;
	uint64_t command_id; /* the command: id, end and the end's serial */
	uint32_t command_end, command_serial;
	uint32_t unit_life; /* incarnation of the commanded I/O unit; 0: none */
	/*
	 * When it was asked for; when its requester knew of its end or stopped; when its owner
	 * knew; 0: not yet.
	 */
	uint64_t asked_seq, reported_seq, over_seq;
	uint64_t asked_ns, timeout_ns;
	uint32_t first, count;	 /* transactions */
	bool is_with_owner;	 /* an owner has received it */
	bool is_over;		 /* it has ended, or its requester has stopped */
	bool is_wrong, is_right; /* must fail; must succeed unless a fault strikes */
	bool is_cancelled, is_audit;
	uint32_t reason;
};

/* What a handle was given out for. */
struct rw_handle {
	uint32_t node, incarnation;
	uint32_t ask; /* RW_NONE: lists, shared memory */
};

enum rw_phase {
	RW_RUN,
	RW_REST,  /* no more faults: all requests must end */
	RW_CUT,	  /* all I/O units stopped at once and restarted */
	RW_AUDIT, /* everything is read */
	RW_FILL,  /* everything is written */
	RW_CUT_AGAIN,
	RW_AUDIT_AGAIN,
	RW_OVER
};

/* Parameters that each run draws from its seed. */
struct rw_limits {
	uint32_t requesters, units, asks;
	uint64_t delay_ns, gap_ns; /* per packet; between asks */
	uint64_t timeout_ns, grace_ns;
	uint64_t run_ns;
	uint64_t fault_gap_ns;
	uint32_t stop_weight[3]; /* owner, requesters, I/O units */
	uint32_t break_weight, hang_weight, clog_weight, stick_weight, part_weight, sick_weight;
	uint64_t hang_ns, away_ns, stuck_ns, part_ns, sick_ns; /* upper bounds */
	uint64_t alive_ns; /* a peer silent for longer counts as gone */
	uint32_t stuck_ppm;
	uint32_t again_ppm;  /* a failed ask is repeated, maybe by another requester */
	uint32_t step_ppm;   /* an incarnation stops at one of its acts */
	uint32_t expose_ppm; /* a window cannot be bound */
	bool is_calm;	     /* no faults */
	uint32_t mischief_ppm;
	uint32_t hot_blocks; /* contended blocks per device; 0: no contention */
	uint32_t owner_requests, owner_lists, owner_list_max;
	uint32_t commands, pieces, piece_bytes, moves, unit_list_max;
};

/* Hazards beyond the ordinary faults, and the property that each one tests. */
enum rw_hazard {
	RW_HAZARD_LATE =
		1 << 0, /* stuck devices: a failed write takes no effect after its failure */
	RW_HAZARD_FLUSH = 1 << 1,  /* a flush fails after an I/O unit lost unflushed writes */
	RW_HAZARD_MIRROR = 1 << 2, /* members of mirrors fail and return: a block has one value */
	RW_HAZARD_OWNERS = 1 << 3, /* two owners with the same key */
	RW_HAZARD_APART = 1 << 4,  /* any two nodes are partitioned for a while */
	RW_HAZARDS_ALL = (1 << 5) - 1
};

struct rio_world {
	struct world world;
	uint32_t hazards;
	struct rw_limits limits;
	enum rw_phase phase;
	uint64_t phase_ns;	  /* start of the phase */
	uint64_t longest_hang_ns; /* of any node so far */
	uint32_t audit_device;
	uint64_t audit_at;
	uint32_t audit_ask;
	struct rw_node nodes[RW_NODES_MAX]; /* owner, requesters, I/O units, second owner */
	uint32_t node_count, owner_count;
	uint64_t terms; /* owners' terms so far: one per incarnation */
	struct rio_known known[RW_NODES_MAX];
	struct rw_device devices[RW_DEVICES_MAX];
	uint32_t device_count;
	struct rio_policy *policy;
	struct rw_rule rules[RW_RULES_MAX];
	uint32_t rule_count;
	bool shares[RW_NODES_MAX][RW_NODES_MAX]; /* [requester][owner of the memory] */
	struct rw_conn conns[RW_CONNS_MAX];
	uint32_t conn_count; /* those after it were never used */
	struct rw_flight *flights;
	struct list free_flights;
	struct rw_ask asks[RW_ASKS_MAX];
	uint32_t ask_count;
	struct rw_transaction *transactions;
	uint32_t transaction_count;
	/* The latest writes that failed, or whose requester stopped. */
	uint32_t troubled[RW_TROUBLED], troubled_count;
	uint64_t apart_until_ns[RW_NODES_MAX][RW_NODES_MAX];
	struct rw_handle *handles;
	uint32_t handle_count, handle_room;
	uint64_t seq; /* the model's clock */
	/* Statistics. */
	uint64_t ended_well, ended_badly, refused, payload_bytes, owner_bytes, stops;
	char failure[RW_FAILURE_BYTES];
	bool is_over;
};

/* The seed picks some of the given hazards (enum rw_hazard). 0, or -1: out of memory. */
int rio_world_open(struct rio_world *w, uint64_t seed, uint32_t hazards);

/* Runs one event. False: the run is over, or a check failed. */
bool rio_world_step(struct rio_world *w);

/* The failed check in words; empty: none failed. */
const char *rio_world_failure(const struct rio_world *w);
void rio_world_close(struct rio_world *w);

/* Formats a trace event; false: it is of another kind. */
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

/* Node 0; the second owner comes after all other nodes. */
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

/* Connects to node `to`; returns the end, or RW_NONE: too many connections. */
uint32_t rw_dial(struct rio_world *w, uint32_t from, uint32_t to, const struct rio_bytes *question);

/* The responder's answer to the initiator. */
void rw_answer(struct rio_world *w, uint32_t end, enum weft_reason reason,
	       const struct rio_bytes *answer);

/* The end failed or was closed; its node is told when all requests on it are flushed. */
void rw_end_fail(struct rio_world *w, uint32_t end, enum weft_reason reason);

/* The end's node has stopped, or has been told. */
void rw_end_forget(struct rio_world *w, uint32_t end);
void rw_say(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* A Read or Write by the end's node. Refused: it has not started. */
enum weft_reason rw_move(struct rio_world *w, uint32_t end, const struct rw_flight *move);

/* The node's data end with this peer that is not dying; or RW_NONE. */
uint32_t rw_data_end(struct rio_world *w, uint32_t node, struct platform peer);

/* Clogs for good a data connection with a Read in progress. */
void rw_clog_one(struct rio_world *w);

/* Partitions two nodes for a while; each notices in its own time. */
void rw_part_two(struct rio_world *w);

/* Ends the faults: breaks clogged connections, which no process can detect. */
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

/* Sets the node's alarm to its next deadline. */
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
/* Writes the device's name; returns its length. */
uint32_t rw_device_name(const struct rw_device *d, uint8_t name[RIO_DEVICE_NAME_MAX]);
void rw_devices_start(struct rio_world *w, uint32_t node);
void rw_devices_stop(struct rio_world *w, uint32_t node);

/* Makes a random disk stuck for a while; makes a member of a mirror fail; ends the failures. */
void rw_devices_stick(struct rio_world *w);
void rw_devices_sicken(struct rio_world *w);
void rw_devices_heal(struct rio_world *w);

/* rio_asks.c */
void rw_ask_act(struct rio_world *w, uint32_t node);

bool rw_has_offer(const struct rio_world *w, uint32_t node, uint32_t device);

/* The incarnation of the device's I/O unit that the requester knows; 0: it is not offered. */
uint32_t rw_offered_life(const struct rio_world *w, uint32_t node, uint32_t device);

/* An ask that must succeed: reads or writes a part of a device. False: it could not be made. */
bool rw_ask_audit(struct rio_world *w, const struct sgl_transaction *is, uint32_t device);
void rw_ask_ended(struct rio_world *w, uint32_t node, const struct rio_ended *ended);

/* rio_model.c */
enum { RW_WORD = 8 };

void rw_policy_draw(struct rio_world *w);
bool rw_is_allowed(const struct rio_world *w, uint32_t node, uint32_t device,
		   const struct sgl_transaction *is);

/* Writes the transaction's word for this place of the device. */
void rw_word_put(uint8_t *at, const struct rio_world *w, uint32_t transaction, uint64_t offset);
void rw_model_asked(struct rio_world *w, uint32_t ask);
void rw_model_ended(struct rio_world *w, uint32_t ask);

/* The owner knows that the ask has ended, or the owner's state is lost. */
void rw_model_over(struct rio_world *w, struct rw_ask *a);

/* The requester has stopped. */
void rw_model_lost(struct rio_world *w, uint32_t node);

/* An I/O unit has stopped. */
void rw_model_cut(struct rio_world *w, uint32_t node);

/* A request to a device; returns its transaction, RW_NONE: it may belong to several. */
uint32_t rw_model_stored(struct rio_world *w, uint32_t device, const struct store_request *r);

/* A memory access by node was refused. */
void rw_model_barred(struct rio_world *w, uint32_t node, const struct rw_flight *f);

/* A message to or from the owner: it must contain no payload. */
void rw_model_message(struct rio_world *w, const uint8_t *bytes, size_t length);

/* rio_values.c */
int rw_values_open(struct rio_world *w);
void rw_values_close(struct rio_world *w);
void rw_values_asked(struct rio_world *w, uint32_t transaction);

/* The transaction was acknowledged; or a flush in the ask failed because writes may be lost. */
void rw_values_done(struct rio_world *w, uint32_t transaction);
void rw_values_loss_reported(struct rio_world *w, const struct rw_ask *a);

/* Must a flush of the ask fail because acknowledged unflushed writes may be lost? */
bool rw_values_is_loss_due(const struct rio_world *w, const struct rw_ask *a);

/* The device's I/O unit has stopped. */
void rw_values_cut(struct rio_world *w, uint32_t device);

/* A read returned the writer's data (RW_NONE: zeroes). False: that value cannot be there. */
bool rw_values_read(struct rio_world *w, uint32_t read, uint64_t offset, uint32_t writer);

/* rio_order.c */

/* The node has met or lost its owner. */
void rw_order_owner(struct rio_world *w, uint32_t node);

/* The node of this end has met the owner at the other end. */
void rw_order_met(struct rio_world *w, uint32_t end);

/* An owner has received a message on this end. */
void rw_order_got(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* An owner sends a message on its end; a node receives it on its own end. */
void rw_order_said(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);
void rw_order_heard(struct rio_world *w, uint32_t end, const uint8_t *bytes, size_t length);

/* An owner logs that a request has ended. */
void rw_order_noted(struct rio_world *w, const struct rio_note *note);

/* An owner's end is gone: requests received on it have ended, or never will. */
void rw_order_parted(struct rio_world *w, uint32_t end);

/* The node's turn is over. */
void rw_order_turned(struct rio_world *w, uint32_t node);

/* A device starts or completes a request. */
void rw_order_begun(struct rio_world *w, uint32_t device, struct rw_under_way begun);
void rw_order_done(struct rio_world *w, uint32_t device, const struct store_request *r);
