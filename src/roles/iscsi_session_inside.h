/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of weft_iscsi_session: the core of a session (iscsi/initiator/initiator.h) on an
 * adapter of its own, by a port. One lock guards all of a session; it is released while a thread
 * sleeps. Ports and the adapter are below it.
 *
 *	iscsi_session.c		life, memory, queries
 *	iscsi_session_turn.c	connections, what happens, sleeping
 *	iscsi_session_job.c	requests of the program, and the commands that they become
 *	iscsi_session_ask.c	the calls for requests
 *	iscsi_session_unit.c	the first questions to the unit
 *	iscsi_account.c		names and secrets
 *	iscsi_port_qp.c		the port on a queue pair in iSCSI mode
 *	iscsi_port_iser.c	the port on RDMA
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <weft/iscsi.h>

#include "base/list.h"
#include "iscsi/initiator/initiator.h"
#include "iscsi/initiator/url.h"
#include "roles/rdma_end.h"
#include "scsi/ask.h"

enum {
	SESSION_PART_SGES = WEFT_SGES_MAX,
	SESSION_SGES_MAX = 64,
	SESSION_WAYS_MAX = 8,
	SESSION_ZERO_BYTES = 1 << 20
};

/* ---- Ports ---------------------------------------------------------------------------------- */

/* A way to the portal that may lead there. */
struct session_way {
	enum rdma_wire wire; /* of iSER */
	struct weft_address to;
};

struct session_port {
	const struct iscsi_port_calls *(*calls)(void);
	uint32_t sges_max; /* of a command */
	uint32_t bytes_max;
	bool is_strict;		/* the adapter lets peers reach windows only */
	uint32_t region_rights; /* of memory of requests, besides local ones */
	/* Once: makes *port. What it has left after a refusal, close() takes back. */
	enum weft_reason (*open)(struct weft_iscsi_session *s);
	void (*close)(struct weft_iscsi_session *s);
	/* Begins to connect. The result is an event. */
	enum weft_reason (*dial)(struct weft_iscsi_session *s, const struct session_way *way);
	/* What the core is given as its port. */
	void *(*core_port)(struct weft_iscsi_session *s);
	/* The connection stands: posts receives. */
	enum weft_reason (*up)(struct weft_iscsi_session *s);
	void (*completed)(struct weft_iscsi_session *s, const struct weft_completion *c);
	bool (*event)(struct weft_iscsi_session *s, const struct weft_event *e);
	/* After calls of the core, before requests end; may be NULL. */
	void (*settle)(struct weft_iscsi_session *s);
	/* Posts what the core has queued; true: there was something. */
	bool (*work)(struct weft_iscsi_session *s);
	bool (*is_closing)(struct weft_iscsi_session *s);
	/* Ends the connection at once: the port touches no memory any more. */
	void (*end)(struct weft_iscsi_session *s);
};

extern const struct session_port session_port_qp, session_port_iser;

/* ---- Requests ------------------------------------------------------------------------------- */

/* Memory of a command, for the port: iscsi_request.memory. */
struct session_memory {
	struct weft_sge sges[SESSION_PART_SGES];
	uint32_t count;
};

/* A thread that waits for the end of its own request. */
struct session_waiter {
	struct weft_iscsi_result ended;
	bool has_ended;
};

/* A request of the program. */
struct session_job {
	struct list link; /* free, waiting to send more, or ended */
	struct weft_iscsi_request ask;
	struct weft_sge sges[SESSION_SGES_MAX];
	uint32_t sge_at, sge_offset; /* what was not given to a command yet */
	uint64_t at;		     /* bytes that were */
	uint32_t out;		     /* commands under way */
	bool is_out;		     /* lent to the session */
	bool has_begun;
	bool is_syncing, has_synced; /* FUA of a unit without: a flush follows */
	uint64_t covers;	     /* writes that ended before the flush */
	uint32_t losses;	     /* of the session, when it began */
	uint64_t deadline_ns;
	struct session_waiter *waiter;
	struct weft_iscsi_result ended;
};

/* A command of it. */
struct session_part {
	struct list link; /* free, or waiting until the unit is less busy */
	struct iscsi_request request;
	struct session_job *job;
	struct session_memory memory;
	uint32_t attempts;
	uint8_t *bounce; /* else NULL; of a read its bytes go to the program's at the end */
	uint32_t sge_first, sge_first_offset;
	uint8_t parameters[SCSI_UNMAP_BYTES];
};

/* ---- The session ---------------------------------------------------------------------------- */

enum session_link { LINK_NONE, LINK_DIALLING, LINK_UP };

struct session_account {
	char user[CHAP_NAME_MAX + 1], password[CHAP_SECRET_MAX + 1];
	char target_user[CHAP_NAME_MAX + 1], target_password[CHAP_SECRET_MAX + 1];
};

struct weft_iscsi_session {
	pthread_mutex_t lock; /* guards everything here */
	pthread_cond_t news;
	pid_t process;
	const volatile bool *mark; /* false in the child of a fork; NULL: the pid tells */
	bool is_discovery;

	/* What it was opened with. */
	struct iscsi_url url;
	struct iscsi_name initiator;
	struct session_account account;
	struct chap_account peer;
	struct chap_config chap;
	struct iscsi_initiator_config config;
	uint64_t timeout_ns, retry_ns, alive_ns;
	char why[WEFT_ISCSI_WHY_MAX];

	/* Memory that was added. */
	uint32_t *added, added_count;

	/* The adapter, and the connection. */
	const struct session_port *port;
	void *port_state;
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	uint32_t process_tag; /* all memory of the process */
	struct weft_qp *qp;
	enum session_link link;
	bool was_up; /* ever */
	struct session_way ways[SESSION_WAYS_MAX];
	uint32_t way_count, way_at;
	struct weft_address portal; /* of the connection */
	enum weft_reason link_reason;

	/* The session. */
	struct iscsi_initiator *core;
	uint64_t now_ns, give_up_ns;
	bool has_ended;
	enum weft_reason reason; /* why the connection was lost last, or why it is over */
	uint16_t login_status;
	uint64_t reconnects;

	/* Requests. */
	uint32_t job_count, part_count, jobs_out;
	struct session_job *jobs;
	struct session_part *parts;
	struct list free_jobs, hungry_jobs, ended_jobs, free_parts, later_parts;
	uint64_t later_ns;
	uint8_t *zeroes;
	/* Writes that ended well and are perhaps not durable: a count of all, and how many are. */
	uint64_t writes, durable;
	bool has_lost;
	uint32_t losses;

	const struct iscsi_request *found; /* discovery: the answer */

	/* The unit. */
	struct weft_iscsi_info unit;
	struct scsi_block_limits limits;
	uint64_t commands_read, read_bytes, written_bytes, retries;

	/* Threads, and the program's own loop. */
	bool has_sleeper;
	uint32_t waiters;
	uint64_t asleep_until_ns;
	int wake;			 /* eventfd */
	int poll_fd, timer_fd, ready_fd; /* -1: weft_iscsi_session_fd() was not called */
	uint64_t timer_ns;
	bool is_ready, is_armed;
};

/* ---- iscsi_session.c ------------------------------------------------------------------------ */

/* Opens a session, up to its login. */
enum weft_reason session_open(const char *url, const struct weft_iscsi_options *options,
			      bool is_discovery, struct weft_iscsi_session **out);

/* Ends it, in good order if it can be. */
void session_discard(struct weft_iscsi_session *s);

/* Writes a sentence, if there is none yet. */
void session_why(struct weft_iscsi_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Takes the lock. WEFT_R_ISCSI_ENDED, unlocked: the session belongs to another process. */
enum weft_reason session_enter(struct weft_iscsi_session *s);
void session_leave(struct weft_iscsi_session *s);

/* ---- iscsi_session_turn.c ------------------------------------------------------------------- */

/* Does all that can be done now. */
void session_turn(struct weft_iscsi_session *s);

/* Sleeps until something may have happened, at most until until_ns. */
void session_sleep(struct weft_iscsi_session *s, uint64_t until_ns);

/* Other threads, and the descriptor, learn that there is something. */
void session_tell(struct weft_iscsi_session *s);

/* Takes what the core has to say: requests that ended, then events. */
void session_settle(struct weft_iscsi_session *s);

/* Ends the connection, if there is one. */
void session_link_end(struct weft_iscsi_session *s, enum weft_reason reason);

/* A PDU came by the port. */
void session_take(struct weft_iscsi_session *s, const struct iscsi_received *r);

/* The descriptor of the session becomes ready when it should. */
void session_arm(struct weft_iscsi_session *s);

/* ---- iscsi_session_job.c -------------------------------------------------------------------- */

enum weft_reason session_jobs_open(struct weft_iscsi_session *s, uint32_t requests_max);
void session_jobs_close(struct weft_iscsi_session *s);

/* Begins a request whose fields are set. */
void session_job_begin(struct weft_iscsi_session *s, struct session_job *j);

/* A command that the core returned. */
void session_part_done(struct weft_iscsi_session *s, struct iscsi_request *r);

/* Sends commands for requests that have more. */
void session_jobs_feed(struct weft_iscsi_session *s);

/* Sends again what the unit was too busy for. */
void session_jobs_retry(struct weft_iscsi_session *s);

/* The unit was reset. */
void session_unit_reset(struct weft_iscsi_session *s);

/* ---- iscsi_session_ask.c -------------------------------------------------------------------- */

/* Asks, with the lock held, and waits. */
enum weft_reason session_do(struct weft_iscsi_session *s, const struct weft_iscsi_request *ask,
			    struct weft_iscsi_result *ended);

/* ---- iscsi_session_unit.c ------------------------------------------------------------------- */

/* Asks the unit what it is, unless that is skipped. */
enum weft_reason session_unit_open(struct weft_iscsi_session *s, bool is_skipped);

/* ---- iscsi_account.c ------------------------------------------------------------------------ */

/* Names and secrets of URL, options, file and environment. */
enum weft_reason session_account_open(struct weft_iscsi_session *s,
				      const struct weft_iscsi_options *o);
void session_account_wipe(struct weft_iscsi_session *s);
