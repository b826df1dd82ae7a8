/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the parts of an initiator's session share: initiator.c (connections, login, logout),
 * initiator_requests.c (requests and their sending), initiator_tasks.c (task management and time
 * limits), initiator_take.c (what the target sends).
 */
#pragma once

#include "base/check.h"
#include "iscsi/initiator/initiator.h"
#include "wire/iscsi_sn.h"

enum {
	SESSION_ANSWERS_MAX = 16,  /* NOP-Outs that wait for room in the port */
	SESSION_CONTROLS_MAX = 32, /* control PDUs without an answer */
	SESSION_TIMERS = 8	   /* of the session itself */
};

_Static_assert(SESSION_CONTROLS_MAX * 4 <= ISCSI_PORT_TAGS_MIN, "tags come again late");

enum request_state {
	REQUEST_NONE,
	REQUEST_WAITING,
	REQUEST_SENT,
	REQUEST_REFUSED, /* the port did not send it: waits for iscsi_initiator_ready() */
	REQUEST_DONE,
};

struct session_answer {
	uint64_t lun;
	uint32_t ttt;
};

struct session_address {
	char text[ISCSI_ADDRESS_MAX];
	uint8_t length;
};

struct iscsi_initiator {
	struct iscsi_initiator_config config;
	enum iscsi_initiator_state state;
	struct iscsi_initiator_counts counts;

	/* The connection. */
	const struct iscsi_port_calls *calls;
	void *port;
	bool has_port;	      /* from iscsi_initiator_begin() to iscsi_initiator_lost() */
	enum weft_reason why; /* the connection ends; the first reason counts */
	uint64_t heard_ns;    /* when the last PDU came */
	uint32_t exp_stat_sn;
	bool has_stat_sn;
	uint32_t tag_next; /* for control PDUs, counted from 0 */
	bool is_paused;	   /* the port refused a command; no command until it is ready */
	uint32_t refused_sn;
	bool has_abandoned; /* task management that was given up: its answer may still come */
	uint32_t abandoned_itt;
	struct session_answer answers[SESSION_ANSWERS_MAX];
	uint32_t answer_count;

	/* The login. */
	struct iscsi_login login;
	bool has_login; /* begun and not yet wiped */
	struct span text_in, text_out;
	struct iscsi_params params;
	uint16_t login_status;

	/* The window, of the session. */
	struct iscsi_window window;
	uint32_t cmd_sn;
	uint64_t order;

	/* Requests. */
	struct list waiting, sent;	     /* commands */
	struct list controls, controls_sent; /* the others */
	uint32_t controls_out;
	bool has_text; /* one Text Request at a time (section 6.2) */
	struct list done;
	uint32_t requests;
	struct iscsi_request **slots;
	uint32_t *free_slots, free_count;
	struct iscsi_request own_ping, own_task, own_text;

	/* Recovery. */
	bool is_last;	       /* no connection follows this one: */
	enum weft_reason last; /* ... and why the session then ends; WEFT_OK: logged out */
	bool is_logout_due;
	uint32_t logout_itt;
	bool is_moved;
	uint32_t attempts, redirects; /* in a row */
	uint64_t pause_ns;	      /* before the next connection */
	struct session_address home, address;

	/* Time. */
	struct timer_queue timers;
	struct timer timer; /* of the state */
	struct timer ping;

	/* Events not taken. */
	uint32_t events; /* 1 << enum iscsi_event_kind */
	enum weft_reason lost_reason;
	uint64_t event_lun;
	uint8_t event_sense_bytes;
	uint8_t event_sense[ISCSI_SENSE_MAX];
};

/* ---- initiator.c ---------------------------------------------------------------------------- */

void session_move(struct iscsi_initiator *i, enum iscsi_initiator_state to);
bool session_is_full(const struct iscsi_initiator *i);
void session_event(struct iscsi_initiator *i, enum iscsi_event_kind kind);

/* Closes the connection for this reason, unless it closes already. */
void session_close(struct iscsi_initiator *i, enum weft_reason reason);

/* The login has something to say, or is over. */
void session_login_step(struct iscsi_initiator *i, uint64_t now_ns);

/* The connection is to be logged out: when the commands under way have ended, or at the limit. */
void session_drain(struct iscsi_initiator *i, uint64_t limit_ns, uint64_t now_ns);

/* ---- initiator_requests.c ------------------------------------------------------------------- */

/* A request of the session itself: iscsi_initiator_next_done() does not return it. */
bool session_is_own(const struct iscsi_initiator *i, const struct iscsi_request *r);

/* Sends what may be sent. */
void session_send(struct iscsi_initiator *i, uint64_t now_ns);

/* The request has ended; its slot is free. */
void session_end_request(struct iscsi_initiator *i, struct iscsi_request *r,
			 enum weft_reason reason);

/* A command without a response: it waits to be sent again, or ends. */
void session_repeat(struct iscsi_initiator *i, struct iscsi_request *r, enum weft_reason reason);

/* Puts a request that was sent at the head of its line. */
void session_wait_again(struct iscsi_initiator *i, struct iscsi_request *r);

/* What was sent on a connection that is gone. */
void session_requests_lost(struct iscsi_initiator *i, enum weft_reason reason);

/* The session is over: whatever waits ends. */
void session_requests_end(struct iscsi_initiator *i, enum weft_reason reason);

/* Whether a command may be carried out twice: its effect is the same as once. */
bool session_is_repeatable(const struct iscsi_request *r);

bool session_send_control(struct iscsi_initiator *i, struct iscsi_pdu *pdu, const uint8_t *data,
			  uint32_t data_bytes);
uint32_t session_tag(struct iscsi_initiator *i);

/* Puts a request of the session itself in line. */
void session_ask(struct iscsi_initiator *i, struct iscsi_request *own,
		 enum iscsi_request_kind kind);

/* ---- initiator_tasks.c ---------------------------------------------------------------------- */

/* Sends a task management request. False: not now. */
bool session_send_task(struct iscsi_initiator *i, struct iscsi_request *r);
void session_take_task(struct iscsi_initiator *i, struct iscsi_request *r, uint8_t response,
		       uint64_t now_ns);

/* The time limit of a request has passed. */
void session_overdue(struct iscsi_initiator *i, struct iscsi_request *r, uint64_t now_ns);

/* Of the session's silence timer. */
void session_ping_due(struct iscsi_initiator *i, uint64_t now_ns);
