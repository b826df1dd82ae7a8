/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * iSCSI targets (RFC 7143) as a core: a node with targets, their sessions and connections. SCSI is
 * behind it (scsi/scsi.h); a datamover (target_mover.h) moves data and PDUs, of which TCP is here.
 * Error recovery level 0, one connection per session.
 *
 * The owner moves the bytes of each TCP connection, as of a stream of iWARP:
 *
 *	iscsi_node_accept()		a TCP connection came
 *	iscsi_connection_want(), got()	where to receive; how much arrived there
 *	iscsi_connection_have(), sent()	what to send; how much was sent
 *	iscsi_connection_action()	what to do with the TCP connection
 *	iscsi_node_run()		tasks go on whose devices have done something
 *	iscsi_node_due(), expire()	the next deadline
 *
 * A connection that may have something new for its owner (bytes to send, an action, room to
 * receive) is on a list; iscsi_node_attend() takes it from there. So after any call:
 *
 *	while ((c = iscsi_node_attend(node)))
 *		send what have() lists, receive if wants(), do what action() says
 *
 * Hostile initiators: every limit is in the configuration. A PDU that section 11 of the RFC
 * forbids ends its session (section 7.6); one that may not come now is rejected or ends its
 * connection. Half-open logins have a deadline, and give way to new ones, the oldest first. So do
 * unfinished text negotiations of sessions, among themselves: they have a share of their own.
 */
#pragma once

#include "base/span.h"
#include "iscsi/login/login.h"
#include "scsi/scsi.h"

struct iscsi_node;
struct iscsi_connection;

enum { ISCSI_PORTAL_MAX = 63, ISCSI_TARGET_NONE = UINT16_MAX };

/* ---- Decisions of the owner ----------------------------------------------------------------- */

/* Who is at the other end of a connection. */
struct iscsi_peer {
	const char *peer, *local; /* as given to iscsi_node_accept() */
	bool is_rdma;		  /* by iSER */
	struct word initiator;	  /* its name, normalised; of length 0: not known yet */
	struct word account;	  /* that CHAP proved; of length 0: none */
};

struct iscsi_admission {
	uint16_t status;		/* enum iscsi_login_status; 0: the login goes on */
	struct word address;		/* with ISCSI_STATUS_MOVED_...: where to */
	const struct chap_config *chap; /* borrowed until the login ends; NULL: none */
	bool allows_none;		/* with chap: the initiator may do without */
};

enum iscsi_note_kind {
	ISCSI_NOTE_LOGIN,   /* a session began */
	ISCSI_NOTE_REFUSED, /* a login was refused, or gave up */
	ISCSI_NOTE_END	    /* a session ended */
};

/* For people: what happened to a connection, and why. */
struct iscsi_note {
	enum iscsi_note_kind kind;
	struct iscsi_peer peer;
	uint16_t target; /* or ISCSI_TARGET_NONE: unknown, or a discovery session: */
	bool is_discovery;
	enum weft_reason reason; /* WEFT_OK: a logout, or the login */
	uint16_t status;	 /* of the login */
};

/* The calls must not call the node. */
struct iscsi_node_calls {
	/* May this initiator log in, and how? target: ISCSI_TARGET_NONE for a discovery session. */
	void (*admit)(void *owner, const struct iscsi_peer *peer, uint16_t target,
		      struct iscsi_admission *answer);
	/*
	 * May SendTargets tell this initiator of the target? If so, appends where it is, by
	 * iscsi_text_put(w, "TargetAddress", "host:port,tag"), perhaps several times. Without one
	 * the initiator takes the address that it asked.
	 */
	bool (*tell)(void *owner, const struct iscsi_peer *peer, uint16_t target, struct wr *w);
	void (*note)(void *owner, const struct iscsi_note *note);
};

/* ---- The node ------------------------------------------------------------------------------- */

struct iscsi_node_config {
	uint32_t targets_max, sessions_max;
	uint32_t connections_max; /* also those that have not logged in; at least sessions_max */
	uint32_t texts_max;	  /* logins, and text negotiations of sessions: at most half */
	uint32_t tasks_max;	  /* of all sessions: windows, and ISCSI_EXTRAS_MAX for each */
	uint32_t window_max;	  /* commands that a session may have outstanding */
	uint64_t memory_bytes;	  /* for data of tasks; a multiple of ISCSI_MEMORY_UNIT */
	uint64_t login_wait_ns;	  /* of a whole login, from accept() on */
	uint64_t ping_after_ns;	  /* of silence: a NOP-In; UINT64_MAX: never */
	uint64_t ping_wait_ns;	  /* for its answer, else the connection is lost */
	const struct iscsi_node_calls *calls;
	void *owner;
};

enum {
	ISCSI_MEMORY_UNIT = 1 << 20,
	ISCSI_TRANSFER_MAX = 16 << 20,
	/* Immediate requests of a session at a time: commands, and functions besides. */
	ISCSI_EXTRA_COMMANDS_MAX = 16,
	ISCSI_EXTRA_FUNCTIONS_MAX = 8,
	ISCSI_EXTRAS_MAX = ISCSI_EXTRA_COMMANDS_MAX + ISCSI_EXTRA_FUNCTIONS_MAX
};

/* A configuration for a node with so many sessions. */
void iscsi_node_config_init(struct iscsi_node_config *c, uint32_t sessions_max);

/* WEFT_R_BAD_ARGUMENT, WEFT_R_NO_MEMORY. */
enum weft_reason iscsi_node_create(const struct iscsi_node_config *c, struct iscsi_node **out);

/* Destroys a node with no connection left and no task in progress: see iscsi_node_is_idle(). */
void iscsi_node_destroy(struct iscsi_node *node);

struct iscsi_target_config {
	struct word name, alias;  /* copied */
	struct scsi_target *scsi; /* borrowed; with as many nexuses as sessions_max */
	uint16_t portal_group_tag;
	struct iscsi_params wish; /* see iscsi_target_wish_init() */
};

/* The default wishes: large bursts, immediate data, digests if the initiator asks for them. */
void iscsi_target_wish_init(struct iscsi_params *wish);

/*
 * WEFT_R_ISCSI_NAME; WEFT_R_LIMIT; WEFT_R_BAD_ARGUMENT: a second one of the name, or wishes that
 * this target cannot do. *out numbers them from 0.
 */
enum weft_reason iscsi_target_add(struct iscsi_node *node, const struct iscsi_target_config *c,
				  uint16_t *out);

/* Takes the results of devices. Call it when one may have completed something. */
void iscsi_node_run(struct iscsi_node *node, uint64_t now_ns);

/* UINT64_MAX: no deadline. The devices' deadlines are among them. */
uint64_t iscsi_node_due(const struct iscsi_node *node);
void iscsi_node_expire(struct iscsi_node *node, uint64_t now_ns);

/*
 * An orderly end: logins are refused; initiators are asked to log out, and sessions that
 * remain after wait_ns are dropped, with their tasks.
 */
void iscsi_node_end(struct iscsi_node *node, uint64_t now_ns, uint64_t wait_ns);

/* No session, no connection, no task. */
bool iscsi_node_is_idle(const struct iscsi_node *node);

/* ---- Connections ---------------------------------------------------------------------------- */

struct iscsi_accept {
	const char *peer, *local;	   /* for people, and for admit() and tell(); copied */
	uint8_t random[CHAP_RANDOM_BYTES]; /* fresh, see chap.h */
	void *owner;			   /* returned by iscsi_connection_owner() */
};

/*
 * A TCP connection came. WEFT_R_LIMIT: there are too many, all logged in; WEFT_R_ISCSI_ENDING. If
 * it takes the place of a half-open one, the action of that is to close.
 */
enum weft_reason iscsi_node_accept(struct iscsi_node *node, const struct iscsi_accept *a,
				   uint64_t now_ns, struct iscsi_connection **out);

/* The TCP connection is closed: what is left of it ends. */
void iscsi_connection_destroy(struct iscsi_connection *c, uint64_t now_ns);

void *iscsi_connection_owner(const struct iscsi_connection *c);

/* The next connection that may have something new; NULL: none. */
struct iscsi_connection *iscsi_node_attend(struct iscsi_node *node);

/* As iwarp_want() and so on. */
void iscsi_connection_want(struct iscsi_connection *c, uint64_t now_ns, struct span_list *l);
bool iscsi_connection_wants(const struct iscsi_connection *c);
void iscsi_connection_got(struct iscsi_connection *c, uint64_t now_ns, const struct span_list *l,
			  size_t n);
void iscsi_connection_have(struct iscsi_connection *c, uint64_t now_ns, struct span_list *l);
void iscsi_connection_sent(struct iscsi_connection *c, uint64_t now_ns, size_t n);

/* The peer closed its direction; or the connection was reset or lost. */
void iscsi_connection_eof(struct iscsi_connection *c, uint64_t now_ns);

enum iscsi_action {
	ISCSI_ACTION_NONE = 0,
	ISCSI_ACTION_CLOSE, /* close the TCP connection, then iscsi_connection_destroy() */
	ISCSI_ACTION_ABORT  /* the same with a reset */
};

enum iscsi_action iscsi_connection_action(const struct iscsi_connection *c);

/* ---- Looking -------------------------------------------------------------------------------- */

struct iscsi_node_counts {
	uint64_t accepted, logins, refused, evicted; /* the last: unfinished, gave way */
	uint64_t commands, busy; /* the last: answered BUSY as there was no memory for their data */
	uint64_t rejects;
	uint32_t sessions, connections, texts, tasks;
	uint64_t memory_used, memory_bytes;
};

void iscsi_node_counts(const struct iscsi_node *node, struct iscsi_node_counts *counts);

struct iscsi_session_counts {
	uint64_t commands, reads, writes; /* SCSI commands; of these with data that way */
	uint64_t bytes_read, bytes_written;
	uint64_t failed; /* commands that ended with another status than GOOD */
	uint64_t r2ts, task_functions, pings;
};

/* A session and its connection, or a connection that logs in. */
struct iscsi_view {
	const char *peer, *local;
	const char *initiator; /* "" before its login */
	const char *state;     /* "login", "open", "logging out" or "closing" */
	uint16_t target, tsih, cid;
	uint8_t isid[ISCSI_ISID_BYTES];
	bool is_discovery;
	const struct iscsi_params *params; /* NULL before the login's end */
	uint32_t tasks;			   /* in progress */
	uint32_t window;		   /* further commands that the initiator may send */
	uint64_t memory_bytes;		   /* for data of its tasks */
	uint64_t begin_ns, heard_ns;	   /* accept(); the last byte that came */
	struct iscsi_session_counts counts;
	uint64_t bytes_in, bytes_out;
};

/* Begin with *at = 0. False: there are no more. Valid until the next call that is not this one. */
bool iscsi_node_view(const struct iscsi_node *node, uint32_t *at, struct iscsi_view *v);
