/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of the target share:
 *
 *	target.c	  the node: creation, connections, deadlines, views
 *	target_login.c	  logins, and what comes of them
 *	target_session.c  sessions: begin, end, reinstatement, the window of commands
 *	target_conn.c	  PDUs of a connection: order, dispatch, NOP, Logout, Reject, its end
 *	target_task.c	  SCSI commands from their PDU to their status
 *	target_data.c	  data that an initiator sends
 *	target_manage.c   task management
 *	target_text.c	  text negotiations in the full feature phase, SendTargets
 *	target_tcp.c	  the datamover of TCP
 *	target_iser.c	  that of iSER
 */
#pragma once

#include "base/list.h"
#include "base/timer_queue.h"
#include "iscsi/target/pool.h"
#include "iscsi/target/target.h"
#include "iscsi/target/target_mover.h"
#include "wire/iscsi_sn.h"

enum {
	TASK_BUCKETS = 64,
	TASK_SPANS =
		24, /* 16 blocks of 1 MiB, and the rest of a transfer in 8 of decreasing size */
	TEXT_IN_BYTES = ISCSI_TEXT_MIN,
	TEXT_OUT_BYTES = 64 * 1024,
	TEXT_PIECE_BYTES = 2048, /* of text in a PDU to an initiator: copied into the ring */
	TEXT_EXCHANGES_MAX = 64,
	RESERVE_PART = 8, /* one in so many bytes is kept for data that comes unasked */
	SENSE_BYTES_MAX = ISCSI_SENSE_HEADER_BYTES + SCSI_SENSE_MAX
};

/* SAM-5 table 33, besides those of scsi.h. */
enum { TARGET_BUSY = 0x08 };

/* ---- Tasks ---------------------------------------------------------------------------------- */

enum target_task_kind {
	TASK_SCSI,
	TASK_MANAGE,
	TASK_PING,
	TASK_NUMBER /* is left of a command that was aborted before its CmdSN was the next */
};

enum target_task_state {
	TASK_FREE = 0,
	TASK_COLLECTING, /* waits for order, memory, or data of the initiator */
	TASK_READY,	 /* waits for tasks before it to be submitted */
	TASK_RUNNING,	 /* SCSI has it */
	TASK_PUTTING,	 /* data and status go out */
	TASK_ENDING,	 /* aborted: waits for SCSI, or for its last PDU to be sent */
	TASK_STATES
};

/* Why a task ends without SCSI. */
enum target_task_fault {
	FAULT_NONE = 0,
	FAULT_BUSY,	   /* there was no memory for data that came unasked */
	FAULT_UNSOLICITED, /* data came unasked that must not (sense 0C/0C) */
	FAULT_DIGEST	   /* a data segment was damaged (sense 47/05) */
};

struct target_task {
	struct list link; /* of the session, in the order of arrival */
	struct target_task *next_by_itt;
	/* node->starved, session->greedy, session->held (by CmdSN) or connection->out */
	struct list wait;
	enum target_task_kind kind;
	enum target_task_state state;
	struct target_session *session;
	uint32_t itt, cmd_sn;
	uint64_t lun, order; /* as on the wire; in order of arrival */
	uint64_t held_ns;    /* since then its memory waits for the initiator */
	bool is_immediate, is_read, is_write, is_counted /* in session->in_flight */;
	bool is_extra;	   /* its slot is none of the session's window */
	bool is_ordered;   /* its CmdSN has come */
	bool is_submitted; /* SCSI has it */
	bool is_cut;	   /* its connection is gone, while the session goes on */
	enum target_task_fault fault;
	uint32_t expected;	/* Expected Data Transfer Length */
	uint32_t read_expected; /* of the other direction, of a bidirectional command */

	uint32_t needed; /* of it: what the command can move */
	uint32_t room;	 /* memory that it needs: more if more may come unasked */

	/* Data from the initiator. */
	uint32_t received;
	uint32_t data_sn;	       /* expected next, of this sequence */
	bool is_unsolicited, is_asked; /* Data-Out comes unasked; get_data() was called */
	uint32_t asked_from;	       /* the first byte that is solicited */

	/* TCP: PDUs of it in the ring; R2TSNs sent and answered; Data-In queued. */
	uint32_t pdus, r2t_sent, r2t_done;
	uint32_t put, put_sn;
	bool has_status_out; /* its status is in the ring */

	/* iSER: memory of the initiator; what the owner has posted of it, and Reads begun. */
	bool has_remote;
	uint32_t remote_tag, posted, read;
	uint64_t remote_addr;

	/* TASK_MANAGE */
	uint8_t function, result;
	struct target_task *aborted; /* of ABORT TASK, as long as it has this order: */
	uint64_t aborted_order;

	/* Not cleared when the slot is used again. */
	uint32_t span_count;
	struct span spans[TASK_SPANS];
	struct store_loan loan; /* of its data, which is then there instead */
	struct scsi_task scsi;
};

/* ---- Sessions ------------------------------------------------------------------------------- */

struct target_session {
	struct list link; /* node->sessions, or node->zombies */
	struct iscsi_node *node;
	struct iscsi_connection *connection; /* NULL: ended, its last tasks are at devices */
	uint16_t tsih, cid, target;
	bool is_discovery;
	uint8_t isid[ISCSI_ISID_BYTES];
	struct iscsi_name initiator;
	char account[CHAP_NAME_MAX + 1];
	uint32_t nexus;
	uint32_t window, in_flight; /* slots; tasks whose status is not sent */
	uint32_t exp_cmd_sn;
	uint32_t slots, extras; /* tasks of the window, and others */
	uint32_t ordered_count, cut_count;
	uint64_t memory_bytes;
	struct list tasks, held;
	struct list greedy; /* tasks that wait for memory because the session has its share */
	struct list wait;   /* node->greedy */
	struct target_task *by_itt[TASK_BUCKETS];
	struct iscsi_params params;
	struct iscsi_session_counts counts;
};

/* A login, or a text negotiation. */
struct target_text {
	struct list link;		     /* node->texts_free, or ->texts_open: a session's */
	struct iscsi_connection *connection; /* that has it */
	struct iscsi_login login;
	struct iscsi_negotiation keys;
	struct iscsi_text_in in;
	uint32_t itt, ttt, exchanges;
	uint32_t out_bytes, out_sent;
	uint8_t stage[TEXT_IN_BYTES]; /* the data segment that comes */
	uint8_t in_bytes[TEXT_IN_BYTES];
	uint8_t out[TEXT_OUT_BYTES];
};

/* ---- Connections ---------------------------------------------------------------------------- */

enum target_conn_state {
	CONN_LOGIN = 0,
	CONN_OPEN,
	CONN_LEAVING, /* the last PDU goes out: then close */
	CONN_CLOSED,  /* to be closed and destroyed by its owner */
	CONN_STATES
};

struct iscsi_connection {
	struct iscsi_node *node;
	struct list link, attention, half_open; /* node->connections, ->attention, ->half_open */
	enum target_conn_state state;
	enum iscsi_action action;
	char peer[ISCSI_PORTAL_MAX + 1], local[ISCSI_PORTAL_MAX + 1];
	uint8_t random[CHAP_RANDOM_BYTES];
	void *owner;
	const struct target_mover *mover;
	struct iscsi_framing *framing; /* of the mover of TCP */
	struct target_iser *iser;      /* of the mover of iSER */
	struct target_session *session;
	struct target_text *text;
	uint16_t target;   /* of the login: */
	bool is_discovery; /* it asked for a discovery session */
	struct iscsi_name initiator;
	enum weft_reason reason; /* why it ends */
	uint32_t stat_sn;
	struct iscsi_params params;
	uint64_t begin_ns, heard_ns;
	struct timer timer; /* login, ping, or the end */
	uint64_t end_ns;
	uint32_t ping_ttt;
	bool is_pinging, is_logged_in;
	bool is_waiting; /* a PDU waits for a slot or for room: see target_conn_wait() */
	/* The PDU that comes. */
	struct target_task *arriving; /* whose data it has, or which it begins */
	bool has_begun;		      /* the command at hand has its task, or is passed over */
	struct list out;	      /* TCP: tasks with something to send */
};

/* ---- The node ------------------------------------------------------------------------------- */

struct target_entry {
	struct iscsi_name name;
	char alias[ISCSI_SIMPLE_MAX + 1];
	struct scsi_target *scsi;
	uint16_t portal_group_tag;
	struct iscsi_params wish;
};

struct iscsi_node {
	struct iscsi_node_config config;
	struct target_entry *targets;
	uint32_t target_count;
	struct list connections, sessions, zombies, attention, half_open;
	struct list starved; /* tasks that wait for memory */
	struct list greedy;  /* sessions whose tasks wait for that of their own session */
	uint64_t hungry_ns;  /* when to look who holds it; UINT64_MAX: none starves */
	uint32_t connection_count, session_count, zombie_count;
	uint32_t open_count;				   /* connections that are not closed */
	uint32_t ready_count, manage_count, waiting_count; /* what target_node_settle() looks for */
	struct target_task *tasks;
	uint32_t *free_tasks; /* as base/free_list.h */
	uint32_t task_count, unpromised;
	uint64_t order_next;
	struct target_text *texts;
	struct list texts_free, texts_open;
	uint32_t texts_used, texts_open_count, texts_touched;
	struct pool *pool;
	struct timer_queue timers;
	uint16_t tsih_last;
	bool is_ending;
	bool has_freed;	 /* a slot, memory or a zombie: what waits for them may go on */
	uint64_t now_ns; /* of the call at hand */
	struct iscsi_node_counts counts;
};

/* ---- target.c ------------------------------------------------------------------------------- */

void target_attention(struct iscsi_connection *c);
struct iscsi_peer target_peer(const struct iscsi_connection *c);
void target_note(struct iscsi_connection *c, enum iscsi_note_kind kind, uint16_t status);

/* A task is put on the list of starved ones. */
void target_node_starve(struct iscsi_node *node, struct target_task *t);

/* At the end of every call from outside: what waits for what was freed meanwhile tries again. */
void target_node_settle(struct iscsi_node *node);

/*
 * Gives the connection a text of the node. If there is none for it, the oldest half-open login
 * gives way; or, if sessions have their share, the session that has had one for longest.
 */
void target_text_get(struct iscsi_connection *c);
void target_text_put(struct iscsi_connection *c);

/* ---- target_login.c ------------------------------------------------------------------------- */

void target_login_begin(struct iscsi_connection *c);
void target_login_take(struct iscsi_connection *c, const struct iscsi_arrival *a);
void target_login_expire(struct iscsi_connection *c);

/* ---- target_session.c ----------------------------------------------------------------------- */

/* What a login of this query finds; the session, or NULL. */
struct target_session *target_session_find(struct iscsi_node *node, uint16_t target,
					   const struct iscsi_login_query *q);

/* The login of c has succeeded. WEFT_R_LIMIT, WEFT_R_NO_MEMORY: there is no session for it. */
enum weft_reason target_session_begin(struct iscsi_connection *c);

/* The connection is gone for c->reason: ends its session. */
void target_session_end(struct target_session *s);

/* A task of an ended session is gone: when all are, so is the session. */
void target_session_reap(struct target_session *s);

uint16_t target_session_tsih(struct iscsi_node *node);
uint32_t target_session_max_cmd_sn(const struct target_session *s);

/* No task of an earlier session of this initiator's port is at a device. */
bool target_session_is_clear(const struct target_session *s);

static inline struct scsi_target *target_session_scsi(const struct target_session *s)
{
	return s->node->targets[s->target].scsi;
}

/* ---- target_conn.c -------------------------------------------------------------------------- */

/* For movers. */
enum iscsi_place target_conn_place(struct iscsi_connection *c, const struct iscsi_arrival *a);
enum weft_reason target_conn_sink(struct iscsi_connection *c, uint32_t offset,
				  struct mem_span *spans, uint32_t *count);
enum iscsi_take target_conn_take(struct iscsi_connection *c, const struct iscsi_arrival *a);

/* Sends a control PDU: fills in what every PDU of a target has, and counts StatSN. */
void target_conn_send(struct iscsi_connection *c, struct iscsi_pdu *p, const uint8_t *data);
/* StatSN, if it has one, ExpCmdSN and MaxCmdSN. */
void target_conn_number(struct iscsi_connection *c, struct iscsi_pdu *p, bool counts);

void target_conn_reject(struct iscsi_connection *c, const struct iscsi_arrival *a,
			enum iscsi_reject_reason why);

/* The command with ExpCmdSN has come: so have those behind it that were held. */
void target_conn_advance(struct target_session *s);

/*
 * A command that has not come counts as come, if its CmdSN is in the window. Returns what a
 * function answers, enum iscsi_task_result: ISCSI_TASK_REJECTED if no slot can remember it.
 */
uint8_t target_conn_skip(struct target_session *s, uint32_t itt, uint32_t cmd_sn);

/* Ends the connection and its session now, for this reason. */
void target_conn_end(struct iscsi_connection *c, enum weft_reason reason);
/* The same once all PDUs are sent. */
void target_conn_leave(struct iscsi_connection *c, enum weft_reason reason);
/* All is sent: closes a connection that waited for that. */
void target_conn_sent(struct iscsi_connection *c);
void target_conn_expire(struct iscsi_connection *c);
/* Whether a PDU of it waits. */
void target_conn_wait(struct iscsi_connection *c, bool is_waiting);
void target_conn_arm(struct iscsi_connection *c, uint64_t deadline_ns);
void target_conn_ask_to_leave(struct iscsi_connection *c, uint64_t wait_ns);

/* ---- target_task.c -------------------------------------------------------------------------- */

/* A slot; NULL: none is free now. Those of an immediate command are extra. */
struct target_task *target_task_get(struct target_session *s, enum target_task_kind kind,
				    uint32_t itt, bool is_extra);
/* It has left SCSI and the mover. */
void target_task_free(struct target_task *t);

/* Begins the task of a SCSI Command. NULL: no slot is free. */
struct target_task *target_task_begin(struct target_session *s, const struct iscsi_pdu *p);
struct target_task *target_task_find(struct target_session *s, uint32_t itt);

/* Its memory, all or none. */
bool target_task_take_memory(struct target_task *t, uint64_t reserve);
/* Memory from this byte on. */
uint32_t target_task_spans(const struct target_task *t, uint64_t at, struct mem_span *spans,
			   uint32_t max);

/* Goes on with a task that collects, as far as it can. */
void target_task_step(struct target_task *t);
/* Its CmdSN has come. */
void target_task_order(struct target_task *t);
/* All data that get_data() asked for is in place. */
void target_task_arrived(struct target_task *t);
/* SCSI is done with it. */
void target_task_done(struct target_task *t);
/* The status is encoded: the initiator may send another command. */
void target_task_told(struct target_task *t);
/* The mover is done with it. */
void target_task_put(struct target_task *t);

/* Tasks that waited for others try again. */
void target_task_kick(struct target_session *s);
void target_task_abort(struct target_task *t);

/* GOOD, all expected data: no SCSI Response is needed. */
bool target_task_is_plain(const struct target_task *t);
/* The last PDU of a task: its SCSI Response, with data in sense; or that of its kind. */
void target_task_status(const struct target_task *t, struct iscsi_pdu *p,
			uint8_t sense[SENSE_BYTES_MAX]);

/* ---- target_data.c -------------------------------------------------------------------------- */

/* What a command announces, and may: sets t->fault if not. */
void target_data_announce(struct target_task *t, const struct iscsi_pdu *p);
/* Where its immediate data belongs. */
enum iscsi_place target_data_immediate(struct target_task *t);
/* A Data-Out came, before and after its data. */
enum iscsi_place target_data_place(struct iscsi_connection *c, const struct iscsi_arrival *a);
void target_data_take(struct iscsi_connection *c, const struct iscsi_arrival *a);

/* ---- target_manage.c ------------------------------------------------------------------------ */

void target_manage_take(struct iscsi_connection *c, const struct iscsi_arrival *a);
/* A task has ended: functions that waited for it may be complete. */
void target_manage_check(struct iscsi_node *node);

/* ---- target_text.c -------------------------------------------------------------------------- */

enum iscsi_place target_text_place(struct iscsi_connection *c, const struct iscsi_arrival *a);
void target_text_take(struct iscsi_connection *c, const struct iscsi_arrival *a);

/* ---- target_tcp.c --------------------------------------------------------------------------- */

enum weft_reason target_tcp_begin(struct iscsi_connection *c);

/* Encodes what tasks have to send, as far as there is room. */
void target_tcp_fill(struct iscsi_connection *c);

/* The Target Transfer Tag of an R2T of the task; never ISCSI_TAG_NONE. */
uint32_t target_task_ttt(const struct target_task *t, uint32_t r2t_sn);

/* ---- target_iser.c -------------------------------------------------------------------------- */

enum weft_reason target_iser_begin(struct iscsi_connection *c);
