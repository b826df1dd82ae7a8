/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators and a target of iSCSI in virtual time: each initiator is a session
 * (iscsi/initiator/initiator.h) on a queue pair in iSCSI mode (iscsi/offload/offload.h) with an
 * adapter and memory of its own; the target is a node (iscsi/target/target.h) with SCSI units on
 * simulated disks. Connections delay, chop, clog, cut, reset and corrupt; either side stops without
 * notice and comes again.
 *
 *	iscsi_world.c	the world: what the seed draws, the loop, faults, the phases
 *	iscsi_link.c	a TCP connection between an initiator and the target
 *	iscsi_relay.c	what passes on it: whole PDUs, reordered as the rules allow
 *	iscsi_wire.c	the judge of every PDU: numbers, order, limits
 *	iscsi_keys.c	what the text of a login says
 *	iscsi_host.c	an initiator's process: its queue pair as a port of its session
 *	iscsi_asks.c	requests, and the judge of their ends and of their memory
 *	iscsi_target.c	the target's process, its units, and the judge of what devices are asked
 *	iscsi_blocks.c	the judge of blocks: which values a read may bring
 *	iscsi_words.c	its events in words
 *	iscsi_iser.h	all of it by iSER
 *
 * The judges stand outside the cores. Time in judgements is w->tick, which counts the begins and
 * ends of requests: it orders those of one instant.
 */
#pragma once

#include "iscsi/initiator/initiator.h"
#include "iscsi/offload/offload.h"
#include "iscsi/target/target.h"
#include "sim/world/sim_disk.h"
#include "sim/world/sim_trace.h"
#include "sim/world/stream.h"
#include "sim/world/tcp_link.h"
#include "verbs/verbs.h"

enum {
	ISW_HOSTS = 3,
	ISW_UNITS = 2,
	ISW_BLOCKS = 32, /* of a unit */
	ISW_BLOCK_BYTES = 512,
	ISW_VALUES = 96, /* values of a block between two power failures */
	ISW_ASKS = 8,	 /* requests of a host at a time */
	ISW_LINKS = 10,
	ISW_RECEIVES = 16,
	ISW_RECEIVE_BYTES = 8192 + 256,
	ISW_CONTROLS = 40,
	ISW_TEXT_BYTES = 8192,
	ISW_GUARD_BYTES = 64, /* around memory of requests */
	ISW_ASK_BYTES = ISW_BLOCKS * ISW_BLOCK_BYTES + 2 * ISW_GUARD_BYTES,
	ISW_PDUS = 6, /* that a relay holds */
	ISW_PDU_BYTES = 8192 + 512,
	ISW_TASKS = 48, /* that the judge of a connection knows of */
	ISW_MANAGES = 40,
	ISW_UNDER_WAY = 128,
	ISW_FAILURE_BYTES = 256,
	ISW_NONE = UINT32_MAX
};

#define ISW_TARGET_NAME "iqn.2020-01.org.example:disk"

enum isw_trace {
	ISW_TRACE_STARTED = SIM_TRACE_SCENARIO + 32, /* a host: incarnation */
	ISW_TRACE_STOPPED,
	ISW_TRACE_TARGET_STARTED,
	ISW_TRACE_TARGET_STOPPED, /* a: as by a power failure */
	ISW_TRACE_CONNECTED,	  /* a = link, b = portal */
	ISW_TRACE_LOGIN,
	ISW_TRACE_LOST,
	ISW_TRACE_OVER,	     /* a session */
	ISW_TRACE_ASKED,     /* a = kind, b = serial */
	ISW_TRACE_ENDED,     /* a = status, b = serial; and a reason */
	ISW_TRACE_PASSED,    /* a PDU: a = opcode, b = tag */
	ISW_TRACE_OVERTAKEN, /* a PDU by another: a = opcode, b = tag */
	ISW_TRACE_PHASE,
	ISW_TRACE_END
};

/* Parameters that each run draws from its seed. */
struct isw_limits {
	uint32_t hosts, units, asks; /* asks: of each host */
	bool is_calm;		     /* no faults: nothing may fail */
	bool is_private; /* a host writes to blocks of its own, and commands may be sent again */
	uint32_t blocks_max; /* of a request */
	uint32_t hot_blocks; /* 0, or all requests go to so many */
	uint64_t gap_ns, fault_gap_ns, away_ns;
	uint32_t weight_reset, weight_close, weight_cut, weight_kill, weight_power, weight_leave,
		weight_stick, weight_sick, weight_device;
	uint32_t corrupt_ppm, overtake_ppm, redirect_ppm, device_ppm;
	struct sim_faults faults;
	uint32_t pipe_bytes;
	/* The initiators. */
	struct iscsi_params wishes[ISW_HOSTS];
	uint32_t depth, tags_max, sges;
	enum weft_failure on_failure;
	struct iscsi_recovery recovery;
	uint64_t command_ns, task_ns, ping_after_ns, ping_ns, reconnect_ns;
	/* The target. */
	struct iscsi_params target_wish;
	uint32_t window, sessions;
	uint64_t target_ping_ns, device_ns, delay_ns;
};

/* ---- Blocks --------------------------------------------------------------------------------- */

enum isw_value_state {
	ISW_VALUE_ACTIVE, /* its write has not ended */
	ISW_VALUE_SURE,	  /* its write was acknowledged, or it was read */
	ISW_VALUE_MAYBE,  /* its write ended without an answer, or was cut short */
	ISW_VALUE_VOID,	  /* its write was refused: it is never there */
	ISW_VALUE_REST	  /* what may have been left by a power failure */
};

/*
 * All requests that wrote or read one value of a block. In a linearizable history they take effect
 * with no other value in between; so they do at times that overlap [low, high] if low < high, or at
 * one time between the two if not (Gibbons and Korach, Testing shared memories).
 */
struct isw_value {
	uint64_t serial;
	enum isw_value_state state;
	uint32_t host;
	uint64_t begin, end; /* of its write; end UINT64_MAX: it may still take effect */
	uint64_t low, high;  /* the first end and the last begin of all its requests */
	uint64_t taken_by;   /* serial of the COMPARE AND WRITE that replaced it; 0: none */
	bool is_read, is_durable;
};

struct isw_block {
	struct isw_value values[ISW_VALUES];
	uint32_t count;
	uint64_t since; /* the last power failure */
	bool is_open;	/* which of the values of state REST it is was not seen yet */
};

/* ---- Wire ----------------------------------------------------------------------------------- */

struct isw_keys {
	bool has_header_digest, has_data_digest, is_r2t_needed, has_immediate;
	uint32_t burst, first_burst, r2ts, recv[2]; /* recv: by enum iscsi_side */
};

struct isw_task {
	bool is_used, is_over;
	uint32_t itt;
	bool is_read, is_write;
	uint64_t lun, order;
	uint32_t expected, sent, got; /* bytes; got: by Data-In */
	uint32_t data_in_sn, r2t_sn, data_out_sn;
	uint32_t ttt, r2t_at, r2t_end, burst_got, r2ts, asked; /* of the R2T that is answered */
	struct {
		uint32_t ttt, at, end;
	} open[8]; /* R2Ts without all of their data */
};

/* A task management function without its answer. */
struct isw_manage {
	uint8_t function; /* 0: none */
	uint32_t itt, ref_itt;
	uint64_t lun, order;
};

struct isw_wire {
	struct isw_keys keys;
	bool is_full, has_cmd_sn, has_stat_sn, has_window;
	uint32_t cmd_sn, stat_sn, exp_cmd_sn, max_cmd_sn;
	uint64_t login_bytes; /* of the target, to the last PDU without a digest */
	struct isw_task tasks[ISW_TASKS];
	struct isw_manage manages[ISW_MANAGES];
	uint64_t order;
};

struct isw_pdu {
	uint32_t length, sent;
	bool can_wait; /* others may overtake it */
	uint32_t itt;
	uint8_t bytes[ISW_PDU_BYTES];
};

/* ---- Connections ---------------------------------------------------------------------------- */

struct iscsi_world;

struct isw_end {
	struct sim_stream out;
	struct isw_pdu in; /* it comes from this end, and is not whole yet */
	struct isw_pdu pdus[ISW_PDUS];
	uint32_t order[ISW_PDUS], count; /* of those that are whole */
	bool is_used;			 /* the core at this end has not left */
	bool is_held; /* the only PDU waits for one that may overtake it, until: */
	struct world_alarm hold;
	bool is_blocked, is_readable, is_closing, is_closed;
	bool is_corrupted; /* a bit was flipped on the way to this end */
};

/* ends[ISCSI_INITIATOR] and ends[ISCSI_TARGET]. */
struct isw_link {
	struct iscsi_world *world;
	uint32_t id, host, portal;
	bool has_pipes, is_silent; /* silent: one end has gone without a word */
	struct isw_end ends[2];
	struct iscsi_offload *stream;
	struct iscsi_connection *connection;
	struct world_alarm due; /* of the stream */
	struct isw_wire wire;
	/* By iSER, instead of ends, stream, due and wire. */
	struct tcp_link tcp;
	struct isw_iser_end *far; /* the target's queue pair; NULL: none, and no connection */
};

/* ---- Requests ------------------------------------------------------------------------------- */

enum isw_kind {
	ISW_READ,
	ISW_WRITE,
	ISW_FLUSH,
	ISW_COMPARE,  /* COMPARE AND WRITE of a block */
	ISW_REGISTER, /* a key for persistent reservations */
	ISW_KEYS,     /* reads their generation */
	ISW_READY,
	ISW_INQUIRY,
	ISW_ABORT,
	ISW_RESET,
	ISW_PING,
	ISW_KINDS
};

struct isw_ask {
	struct iscsi_request request;
	bool is_used;
	enum isw_kind kind;
	uint64_t serial, begin, expected; /* expected: serial of COMPARE AND WRITE */
	uint32_t host, unit, lba, blocks, slot;
	uint32_t command_id, cmd_sn;
	bool is_fua;
	uint32_t life; /* of the target, when it began */
	uint32_t sent, generation;
	struct weft_sge sges[3];
	uint32_t sge_count, in_bytes; /* in_bytes: that may change */
	uint8_t *memory;	      /* ISW_ASK_BYTES */
	uint8_t *copy;		      /* of it */
};

struct isw_control {
	bool is_flushed; /* to be sent again */
	bool is_used;
	uint8_t bhs[ISCSI_BHS_BYTES];
	uint32_t bytes;
};

struct isw_host {
	struct iscsi_world *world;
	uint32_t index, life;
	bool is_up;
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp; /* NULL: no connection */
	struct isw_link *link;
	struct list attention;
	struct isw_iser_host *iser; /* NULL: by TCP */
	uint32_t region;
	uint8_t *arena;
	struct iscsi_initiator *session;
	char name[48];
	bool is_begun, is_closing, is_dialling, is_resuming;
	bool is_refused; /* since it last went on: */
	uint32_t refused_sn;
	uint32_t dial; /* counts: an answer to a former one is late */
	struct isw_control controls[ISW_CONTROLS];
	struct isw_ask asks[ISW_ASKS];
	struct isw_ask *by_slot[ISW_ASKS];
	uint32_t asks_left;
	bool is_ended;
	struct world_alarm due;
	/* Writes that ended without an answer: they take effect before the next success. */
	uint64_t open_writes[64];
	uint32_t open_count;
	uint64_t seen[ISW_UNITS][ISW_BLOCKS]; /* what it knows of blocks */
};

/* ---- The target ----------------------------------------------------------------------------- */

struct isw_probe {
	struct store store;
	struct store *below;
	struct iscsi_world *world;
	uint32_t unit;
	/* What the device has, and since when. */
	struct {
		const struct store_request *request;
		uint64_t tick;
	} under_way[ISW_UNDER_WAY];
};

struct isw_unit {
	struct sim_disk disk;
	struct isw_probe probe;
	struct store *fault, *delay; /* NULL: none */
	struct isw_block blocks[ISW_BLOCKS];
	/* Of registrations, since the target started. */
	uint32_t registered, maybe_registered, generation;
};

/* A write, as long as the judge of devices needs it. */
struct isw_written {
	uint64_t serial;
	uint32_t host, unit, lba, blocks;
	uint64_t begin, end; /* end: 0, it is under way */
	bool is_void, is_sure, is_repeatable;
	bool is_closed; /* it ended without an answer, and its host was served again */
	uint32_t times; /* that a device was asked for its first block */
};

enum { ISW_WRITTEN = 4096 };

enum isw_phase {
	ISW_RUN,
	ISW_REST,  /* no more faults */
	ISW_AUDIT, /* all blocks are read */
	ISW_POWER, /* and once more after a power failure */
	ISW_LEAVE, /* all log out */
	ISW_OVER
};

struct iscsi_world {
	struct world world;
	bool is_iser;
	struct isw_limits limits;
	struct isw_host hosts[ISW_HOSTS];
	struct isw_link links[ISW_LINKS];
	struct isw_unit units[ISW_UNITS];
	struct scsi_target *scsi;
	struct iscsi_node *node;	     /* NULL: the target is down */
	bool is_leaving;		     /* the node ends in order */
	struct isw_iser_target *iser_target; /* with the node */
	uint32_t target_life;
	struct world_alarm target_due;
	enum isw_phase phase;
	uint64_t phase_ns;
	uint32_t audited; /* units */
	uint64_t tick, serial, steps;
	struct isw_written written[ISW_WRITTEN];
	/* how much was checked */
	uint64_t requests, succeeded, bytes, pdus, overtaken, logins, losses, stops, corruptions,
		refusals;
	char failure[ISW_FAILURE_BYTES];
};

/* 0, or -1: out of memory. */
int iscsi_world_open(struct iscsi_world *w, uint64_t seed, bool is_iser);

/* Runs one event. False: the run is over, or a check failed. */
bool iscsi_world_step(struct iscsi_world *w);

/* The failed check in words; empty: none failed. */
const char *iscsi_world_failure(const struct iscsi_world *w);
void iscsi_world_close(struct iscsi_world *w);

/* An event in words. False: it is none of this world. */
bool iscsi_world_words(const struct trace_event *e, char *text, size_t size);

/* ---- Among the files of the world ------------------------------------------------------------ */

enum isw_event {
	ISW_EV_ASK,	 /* node: host */
	ISW_EV_HOST_DUE, /* node: host */
	ISW_EV_DIAL,	 /* node: host, arg: which attempt */
	ISW_EV_START,	 /* node: host */
	ISW_EV_TARGET_DUE,
	ISW_EV_TARGET_START,
	ISW_EV_FAULT,
	ISW_EV_PHASE,
	ISW_EV_LINK_DUE, /* node: link */
	ISW_EV_HOLD,	 /* node: 2 * link + side */
	ISW_EV_READABLE, /* node: 2 * link + side of the receiver */
	ISW_EV_WRITABLE, /* node: 2 * link + side of the sender */
	ISW_EV_TCP	 /* the first of enum tcp_event */
};

static inline uint32_t isw_draw(struct iscsi_world *w, uint32_t below)
{
	return prng_below(&w->world.prng, below);
}

static inline bool isw_chance(struct iscsi_world *w, uint32_t ppm)
{
	return prng_chance(&w->world.prng, ppm);
}

static inline uint64_t isw_draw_ns(struct iscsi_world *w, uint64_t below)
{
	return prng_next(&w->world.prng) % (below > 0 ? below : 1);
}

/* Records the first failed check, in words. */
void isw_fail(struct iscsi_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void isw_trace(struct iscsi_world *w, enum isw_trace kind, uint32_t who, uint64_t a, uint64_t b);

/* iscsi_link.c */

/* A connection of a host to a portal of the target. NULL: there can be none now. */
struct isw_link *isw_link_dial(struct iscsi_world *w, uint32_t host, uint32_t portal);
bool isw_link_is_free(const struct isw_link *l);
/* Moves what can be moved at this end. */
void isw_link_serve(struct isw_link *l, enum iscsi_side side);
/* The network resets it; or nothing passes any more. */
void isw_link_reset(struct isw_link *l);
void isw_link_cut(struct isw_link *l);
/* One direction of it ends, or loses all. */
void isw_link_close(struct isw_link *l, uint32_t side);
void isw_link_calm(struct isw_link *l);
/* The process at this end has gone; as: 0 the end of its stream, 1 a reset, 2 silence. */
void isw_link_leave(struct isw_link *l, enum iscsi_side side, uint32_t as);
void isw_link_fini(struct isw_link *l);

/* iscsi_relay.c */

/* Takes what the core at this end sends; how many of the bytes. */
size_t isw_relay_take(struct isw_link *l, enum iscsi_side side, const uint8_t *bytes,
		      size_t length);
/* Passes on what the pipe takes. */
void isw_relay_pass(struct isw_link *l, enum iscsi_side side);

/* iscsi_wire.c */
void isw_wire_begin(struct isw_wire *wire);
/* Judges a whole PDU, and says whether others may overtake it. */
bool isw_wire_take(struct isw_link *l, enum iscsi_side side, const struct isw_pdu *p);

/* iscsi_keys.c */
void isw_keys_init(struct isw_keys *k);
void isw_keys_take(struct isw_keys *k, enum iscsi_side side, const uint8_t *text, uint32_t length);

/* iscsi_host.c: 0, or -1: out of memory. */
int isw_host_start(struct iscsi_world *w, uint32_t host);
void isw_host_stop(struct isw_host *h);
/* Lets it do all that it can. True: something has changed. */
bool isw_host_run(struct isw_host *h);
void isw_host_dialled(struct isw_host *h, uint64_t dial);
/* Its connection is over: the stream is gone. */
void isw_host_hung_up(struct isw_host *h);

/* iscsi_asks.c */
void isw_asks_begin(struct isw_host *h, uint8_t *memory, uint8_t *copies);
/* Asks for something drawn; or for the blocks of an audit. */
void isw_ask(struct isw_host *h);
void isw_ask_audit(struct isw_host *h, uint32_t unit);
void isw_ask_ended(struct isw_host *h, struct isw_ask *a);
/* The process has gone, with what it had asked for. */
void isw_asks_lost(struct isw_host *h);
uint32_t isw_asks_open(const struct isw_host *h);
/* No byte has changed since they ended. */
void isw_asks_judge_memory(struct isw_host *h);

/* iscsi_target.c: 0, or -1: out of memory. */
int isw_units_open(struct iscsi_world *w);
void isw_units_close(struct iscsi_world *w);
int isw_target_start(struct iscsi_world *w);
/* As by a power failure, or in order. */
void isw_target_stop(struct iscsi_world *w, bool is_power);
bool isw_target_run(struct iscsi_world *w);
/* The unit was reset: of what its device had before, nothing is under way. */
void isw_judge_reset(struct iscsi_world *w, const struct isw_ask *a);
/* A host has logged in: it has one session. */
void isw_judge_login(struct iscsi_world *w, const struct isw_host *h);
uint32_t isw_portal_of(const char *local);

/* iscsi_blocks.c */
void isw_stamp(uint8_t *bytes, uint64_t serial, uint32_t unit, uint32_t lba);
/* What a block has: its serial number, 0 if it was never written. False: it is no block. */
bool isw_stamp_read(const uint8_t *bytes, uint32_t unit, uint32_t lba, uint64_t *serial);
void isw_blocks_open(struct iscsi_world *w);
bool isw_block_has_room(const struct iscsi_world *w, uint32_t unit, uint32_t lba, uint32_t blocks);
void isw_write_begin(struct iscsi_world *w, const struct isw_ask *a);

enum isw_end_of_write { ISW_WRITE_SURE, ISW_WRITE_VOID, ISW_WRITE_CUT, ISW_WRITE_OPEN };

void isw_write_end(struct iscsi_world *w, const struct isw_ask *a, enum isw_end_of_write how);
void isw_read_end(struct iscsi_world *w, const struct isw_ask *a, uint32_t lba, uint64_t serial);
void isw_compare_end(struct iscsi_world *w, const struct isw_ask *a);
void isw_flush_end(struct iscsi_world *w, const struct isw_ask *a);
/* A host's write without an answer takes effect before now, if ever. */
void isw_write_close(struct iscsi_world *w, uint64_t serial);
void isw_power_failed(struct iscsi_world *w);
struct isw_written *isw_written_find(struct iscsi_world *w, uint64_t serial);
