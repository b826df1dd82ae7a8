/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An initiator's session with a target (RFC 7143), or with a discovery service: login, the command
 * window, SCSI commands, task management, NOP, text, logout, and error recovery level 0. It has
 * one connection at a time, through a port: a table of calls that sends PDUs and moves data. A
 * queue pair in iSCSI mode is one port, iSER another. Not here: sockets, and what a CDB asks for.
 *
 *	iscsi_initiator_create()
 *	for (;;) {
 *		iscsi_initiator_event()		ISCSI_EVENT_CONNECT: connect to the address, then
 *		iscsi_initiator_begin()		the connection stands: the login begins
 *		iscsi_initiator_take()		for every PDU that the port received
 *		iscsi_initiator_submit(), iscsi_initiator_next_done()
 *		iscsi_initiator_expire()	when iscsi_initiator_due() has passed
 *		iscsi_initiator_lost()		the connection is gone, or could not be made
 *	}
 *
 * A lost connection ends the session at the target. With recovery, the session logs in again with
 * the same ISID after Time2Wait (session reinstatement, section 6.3.5), and commands without a
 * response are sent again if they may be; else they end with the reason. A request ends exactly
 * once, and only when the port touches its memory no more.
 *
 * Calls of a port must not call the session. Events and completions are pulled, never called back.
 */
#pragma once

#include <weft/reason.h>

#include "base/list.h"
#include "base/timer_queue.h"
#include "iscsi/login/login.h"
#include "wire/iscsi.h"

struct iscsi_initiator;

enum {
	ISCSI_SENSE_MAX = 252,
	ISCSI_DEPTH_MAX = 4096,
};

/* ---- Requests ------------------------------------------------------------------------------- */

enum iscsi_request_kind {
	ISCSI_REQUEST_COMMAND,
	ISCSI_REQUEST_TASK, /* task management */
	ISCSI_REQUEST_PING, /* NOP-Out, answered by NOP-In */
	ISCSI_REQUEST_TEXT, /* SendTargets */
	ISCSI_REQUEST_KINDS
};

enum iscsi_data_direction { ISCSI_NO_DATA, ISCSI_READ, ISCSI_WRITE };

/*
 * A request belongs to the caller, and is lent to the session from iscsi_initiator_submit() until
 * iscsi_initiator_next_done() returns it.
 */
struct iscsi_request {
	/* Set by the caller, constant while in progress. */
	enum iscsi_request_kind kind;
	uint64_t lun;	     /* the eight bytes of the PDU, the first is the highest */
	uint64_t timeout_ns; /* 0: that of the session */
	void *user;	     /* for the caller alone */
	/* Commands */
	uint8_t cdb[ISCSI_CDB_BYTES];
	uint8_t attr;	   /* enum iscsi_attr */
	bool is_immediate; /* goes ahead of the window (section 4.2.2.1) */
	enum iscsi_data_direction direction;
	uint32_t expected_bytes; /* Expected Data Transfer Length; 0 without data */
	const void *memory;	 /* where the data is: the port knows of what kind this is */
	/* Task management; ISCSI_ABORT_TASK ends `task`, a command in progress. */
	uint8_t function; /* enum iscsi_task_function */
	struct iscsi_request *task;
	/* Text */
	struct word send_targets; /* value of SendTargets: "All", a name, or none */
	struct span text;	  /* room for the whole answer */

	/* Set by the session at the end. */
	enum weft_reason reason; /* WEFT_OK: the target answered, see below */
	uint8_t response;	 /* of a SCSI or Task Management Response; reason of a Reject */
	uint8_t status;		 /* SAM-5 */
	bool is_overflow, is_underflow;
	uint32_t residual;
	uint64_t login;	     /* which login of the session was the last when it was answered */
	uint32_t text_bytes; /* of the answer; for iscsi_portals_init() */
	uint8_t sense_bytes;
	uint8_t sense[ISCSI_SENSE_MAX];

	/* For the session while in progress. */
	struct list link;
	struct timer timer;
	uint64_t order; /* of sending */
	uint32_t slot, cmd_sn, itt, ttt;
	uint32_t retries;
	uint64_t moved_bytes; /* data of Data-In PDUs */
	uint8_t state;
	bool is_overdue;
};

/* ---- Ports ---------------------------------------------------------------------------------- */

/* A SCSI Command for a port. */
struct iscsi_port_command {
	/*
	 * Encoded; complete but for the ITT and DataSegmentLength. ExpStatSN is right unless the
	 * port counts StatSN itself.
	 */
	const uint8_t *bhs;
	const struct iscsi_request *request; /* direction, expected_bytes, memory */
	uint32_t slot; /* how the session names the command; below depth, free again at its end */
};

struct iscsi_port_calls {
	/*
	 * Control PDUs have ITTs from this range, in which the port gives commands none. At least
	 * ISCSI_PORT_TAGS_MIN.
	 */
	uint32_t tag_first, tag_count;
	bool shows_data; /* iscsi_initiator_take() has the header of every Data-In */

	/*
	 * Sends a PDU other than a SCSI Command; bhs is complete, with the length of the data.
	 * The port copies both. False: no room now, offered again by iscsi_initiator_ready().
	 */
	bool (*send_control)(void *port, const uint8_t bhs[ISCSI_BHS_BYTES], const uint8_t *data,
			     uint32_t data_bytes);
	/* Sends a command and moves its data until forget() or its response. False: as above. */
	bool (*send_command)(void *port, const struct iscsi_port_command *c);
	/* The ITT that a command has. False: the port has not sent it yet. */
	bool (*tag)(void *port, uint32_t slot, uint32_t *itt);
	/*
	 * The command ended without a response (aborted, rejected): from now on the port neither
	 * touches its memory nor tells of it. False: it cannot, and the session closes.
	 */
	bool (*forget)(void *port, uint32_t slot);
	/* The outcome of the login or of a later negotiation: holds from the next PDU on. */
	void (*agreed)(void *port, const struct iscsi_params *p);
	/*
	 * Ends the connection. Once the port touches no memory of commands any more, its owner
	 * calls iscsi_initiator_lost(), exactly once for each iscsi_initiator_begin().
	 */
	void (*close)(void *port);
};

enum { ISCSI_PORT_TAGS_MIN = 128 };

/* A PDU that a port received. */
struct iscsi_received {
	const uint8_t *header; /* BHS, and AHS if any */
	uint32_t header_bytes;
	const uint8_t *data; /* the data segment; NULL if the port placed it */
	uint32_t data_bytes;
	bool has_slot; /* Response or data of this command, of send_command() */
	uint32_t slot;
	enum weft_reason reason; /* WEFT_OK; else which check refused it: no data was moved */
};

/* ---- The session ---------------------------------------------------------------------------- */

struct iscsi_recovery {
	uint32_t reconnects_max; /* in a row without a login; 0: a lost connection is the end */
	uint32_t retries_max;	 /* how often a command is sent again at most; 0: it fails */
	uint32_t redirects_max;	 /* in a row without a login; 0: ISCSI_REDIRECTS_MAX */
};

enum { ISCSI_REDIRECTS_MAX = 4 };

struct iscsi_initiator_limits {
	uint32_t depth;	       /* commands at the target at most: to ISCSI_DEPTH_MAX */
	uint32_t requests_max; /* of all kinds, waiting or under way; at least depth */
	/* 0: see iscsi_initiator_limits_init(). */
	uint64_t login_ns;   /* a whole login */
	uint64_t command_ns; /* a request, from its submission; then the command is aborted */
	uint64_t task_ns;    /* an answer to task management; then the next step (see below) */
	uint64_t logout_ns;
	uint64_t ping_after_ns; /* silence of the target after which it is asked by NOP-Out */
	uint64_t ping_ns;	/* its answer; then the connection is closed */
	uint64_t reconnect_ns;	/* more for each further attempt to connect, after Time2Wait */
};

/*
 * A command that is not answered in time is aborted; if task management is not answered, the
 * logical unit is reset; if that is not answered, the connection is closed.
 */
void iscsi_initiator_limits_init(struct iscsi_initiator_limits *l);

struct iscsi_initiator_config {
	/* Borrowed as long as the session is. */
	struct word initiator_name, initiator_alias;
	struct word target_name;	/* not of a discovery session */
	const struct chap_config *chap; /* NULL: no authentication */
	bool allows_none;		/* with chap: the target may do without */
	bool is_discovery, needs_rdma;
	uint8_t isid[ISCSI_ISID_BYTES];
	int32_t portal_group_tag; /* that the target must have; negative: any */
	struct iscsi_params wish; /* begin with iscsi_params_init() */
	struct iscsi_initiator_limits limits;
	struct iscsi_recovery recovery;
};

/* WEFT_R_ISCSI_NAME, WEFT_R_BAD_ARGUMENT (limits), WEFT_R_NO_MEMORY. The first event is CONNECT. */
enum weft_reason iscsi_initiator_create(const struct iscsi_initiator_config *c,
					struct iscsi_initiator **out);

/* Of a session without a connection. Requests that were not returned are simply left. */
void iscsi_initiator_destroy(struct iscsi_initiator *i);

/*
 * A connection stands. random: fresh and not to be foreseen, for CHAP. Only after
 * ISCSI_EVENT_CONNECT.
 */
void iscsi_initiator_begin(struct iscsi_initiator *i, const struct iscsi_port_calls *calls,
			   void *port, const uint8_t random[CHAP_RANDOM_BYTES], uint64_t now_ns);

/* A PDU came. Hostile bytes end the connection for a reason, nothing else. */
void iscsi_initiator_take(struct iscsi_initiator *i, const struct iscsi_received *r,
			  uint64_t now_ns);

/* The port has room again. */
void iscsi_initiator_ready(struct iscsi_initiator *i, uint64_t now_ns);

/*
 * The port could not send this command, and sends no command behind it either: the owner reports
 * those next, in order, with WEFT_OK: they are sent again. This one ends with the reason.
 */
void iscsi_initiator_refused(struct iscsi_initiator *i, uint32_t slot, enum weft_reason reason,
			     uint64_t now_ns);

/*
 * The connection is gone: after close(), or by itself; or it could not be made. The port touches
 * no memory of commands any more.
 */
void iscsi_initiator_lost(struct iscsi_initiator *i, enum weft_reason reason, uint64_t now_ns);

/*
 * Lends a request. WEFT_R_QUEUE_FULL: there are requests_max. WEFT_R_ISCSI_ENDED: the session has
 * ended or logs out. WEFT_R_BAD_ARGUMENT: a kind or field that cannot be. The caller keeps what is
 * refused. Before a login, and between two, requests wait.
 */
enum weft_reason iscsi_initiator_submit(struct iscsi_initiator *i, struct iscsi_request *r,
					uint64_t now_ns);

/* Takes a request that ended; NULL: none at present. */
struct iscsi_request *iscsi_initiator_next_done(struct iscsi_initiator *i);

/* Ends the session in order: waits for the requests under way, logs out, closes. */
void iscsi_initiator_logout(struct iscsi_initiator *i, uint64_t now_ns);

/* Ends it at once: closes the connection; requests end with the reason. */
void iscsi_initiator_end(struct iscsi_initiator *i, enum weft_reason reason, uint64_t now_ns);

uint64_t iscsi_initiator_due(const struct iscsi_initiator *i);
void iscsi_initiator_expire(struct iscsi_initiator *i, uint64_t now_ns);

enum iscsi_event_kind {
	ISCSI_EVENT_CONNECT, /* connect to `address`, then iscsi_initiator_begin() or _lost() */
	ISCSI_EVENT_LOGIN,   /* the full feature phase began */
	ISCSI_EVENT_LOST,    /* a connection was lost for `reason`; the session goes on */
	/*
	 * An asynchronous SCSI event of `lun`, or a unit attention after which a command was sent
	 * again; with sense data.
	 */
	ISCSI_EVENT_SCSI,
	ISCSI_EVENT_ENDED, /* the session ended; for `reason`, WEFT_OK after a logout. The last. */
	ISCSI_EVENT_KINDS
};

struct iscsi_event {
	enum iscsi_event_kind kind;
	enum weft_reason reason;
	uint16_t login_status; /* LOST, ENDED: of a login that the target refused */
	struct word address;   /* CONNECT: TargetAddress of a redirection; none: the first */
	uint64_t lun;
	const uint8_t *sense; /* SCSI: until the next call */
	uint8_t sense_bytes;
};

/* Takes the next event. False: none. Of several of one kind the last is reported. */
bool iscsi_initiator_event(struct iscsi_initiator *i, struct iscsi_event *e);

struct iscsi_initiator_counts {
	uint64_t commands, control; /* sent */
	uint64_t retries, timeouts, aborts, resets;
	uint64_t logins, losses, redirects;
	uint64_t waits; /* the window or the port was full */
	uint64_t nops_answered, rejects, asyncs;
};

const struct iscsi_initiator_counts *iscsi_initiator_counts(const struct iscsi_initiator *i);

enum iscsi_initiator_state {
	ISCSI_SESSION_WANTING,	  /* a connection; the event is not taken */
	ISCSI_SESSION_CONNECTING, /* its owner connects */
	ISCSI_SESSION_LOGIN,
	ISCSI_SESSION_FULL,	/* full feature phase */
	ISCSI_SESSION_DRAINING, /* full feature phase before a logout: no command is sent */
	ISCSI_SESSION_LOGOUT,	/* a Logout Request is out */
	ISCSI_SESSION_CLOSING,	/* the port was told to close */
	ISCSI_SESSION_PAUSING,	/* Time2Wait before the next connection */
	ISCSI_SESSION_ENDED,
	ISCSI_SESSION_STATES
};

enum iscsi_initiator_state iscsi_initiator_state(const struct iscsi_initiator *i);

/* What was agreed upon in the last login. */
const struct iscsi_params *iscsi_initiator_params(const struct iscsi_initiator *i);

/* ---- What SendTargets answers (section 4.3, appendix C) ------------------------------------- */

/* Both point into the text. */
struct iscsi_portal {
	struct word target;
	struct word address; /* of TargetAddress; none: the address of the discovery session */
};

struct iscsi_portals {
	struct rd rest;
	struct word target;
	bool has_address; /* of this target */
	enum weft_reason reason;
};

void iscsi_portals_init(struct iscsi_portals *p, const struct iscsi_request *text);

/*
 * The next portal of a target; a target without any is reported once. False: no more, or p->reason
 * says why the text is none.
 */
bool iscsi_portals_next(struct iscsi_portals *p, struct iscsi_portal *portal);

/*
 * TargetAddress: domainname[:port][,portal-group-tag], IPv6 in brackets (section 13.8).
 * WEFT_R_ISCSI_VALUE: it is none.
 */
struct iscsi_address {
	struct word host;	  /* without brackets */
	uint16_t port;		  /* ISCSI_TCP_PORT if the address names none */
	int32_t portal_group_tag; /* negative: the address names none */
};

enum weft_reason iscsi_address_parse(struct word address, struct iscsi_address *a);
