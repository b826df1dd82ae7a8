/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: a send queue, a receive queue, a state, and the transport that carries the requests.
 *
 *	qp.c          creation, attributes, states
 *	post.c        checks work requests and turns them into work queue elements
 *	commands.c    the same of iSCSI, and the commands in progress
 *	send_queue.c  the order of the send queue: local operations, waits, completions, failures
 */
#pragma once

#include "verbs/cq.h"
#include "verbs/pd.h"
#include "verbs/recv_queue.h"
#include "verbs/send_queue.h"

struct weft_qp;

enum issue {
	ISSUE_BEGUN = 0,  /* send_queue_end() ends it, or has ended it */
	ISSUE_NO_RECEIVE, /* the peer has no receive; the queue pair waits at the peer's queue */
	ISSUE_NO_ROOM	  /* not now; the transport calls qp_ready() when there is room */
};

/* Carries requests to the peer. */
struct transport {
	/* Whether the protocol has a message for this request; called when it is posted. */
	enum weft_reason (*check)(const struct weft_qp *qp, const struct weft_send_wr *wr);

	/* Begins the next request of the send queue. */
	enum issue (*issue)(struct weft_qp *qp, struct send_wqe *wqe);

	/* The queue pair was made ready; its send queue runs after this. */
	void (*advance)(struct weft_qp *qp, uint64_t now_ns);

	/*
	 * Detaches the queue pair from its stream, which must not touch it any more.
	 * WEFT_R_PEER_GONE: orderly; another reason: an error of this side, reported to the peer.
	 */
	void (*down)(struct weft_qp *qp, enum weft_reason why);

	/* The peer's rights have changed; NULL: they are looked at when it needs them. */
	void (*rights_changed)(struct weft_qp *qp);
};

/*
 * Counters of a queue pair's present or last connection. The transport counts, unless its streams
 * have counters of their own.
 */
struct qp_tally {
	bool is_begun;
	uint64_t messages_in, messages_out; /* retransmissions are not counted */
	uint64_t payload_in, payload_out;   /* of these */
	uint64_t copied;		    /* see struct ib_counts */
	uint64_t packets_in, packets_out, bytes_in, bytes_out;
	uint64_t resent, timeouts, naks_in, naks_out, rnrs_in, rnrs_out, duplicates;
};

/* The two ends of a queue pair's connection, kept after it has ended; for messages to users. */
struct qp_ends {
	struct weft_address local, peer; /* family 0: unknown, or no single peer */
	uint32_t peer_number;		 /* of the peer's queue pair; 0: iWARP has none */
	const char *peer_words;		 /* the reason the peer gave for its end, or NULL */
};

struct weft_qp {
	/* Fixed at creation. */
	struct adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_srq *srq; /* or NULL */
	enum weft_qp_service service;
	bool is_xrc;
	uint32_t xrc_domain;
	uint32_t number, outstanding_max;
	bool is_every_send_signalled;
	/* Attributes. */
	uint32_t remote_rights;
	bool is_register_enabled;
	enum weft_failure on_failure;
	uint32_t reads_max; /* ORD: Reads and atomics in flight on this stream */
	uint64_t receiver_wait_ns;
	/* Its transport: from creation on, or set by qp_attach() while a stream exists. */
	const struct transport *transport, *transport_at_first;
	void *stream; /* the transport's own */
	void *link;   /* the driver's: its present, last or next connection */
	/* State. */
	enum weft_qp_state state;
	enum weft_reason reason;  /* first error; WEFT_OK while none */
	enum weft_reason failing; /* fails for this reason at the next advance; WEFT_OK: no */
	bool is_draining;	  /* SQD was requested, and the drained event is still due */
	bool is_xrc_cut;  /* the SRQ below was destroyed while a message was arriving in it */
	uint32_t xrc_srq; /* number of the SRQ that the peer's latest request named; or 0 */
	uint32_t peer;	  /* number of the connected queue pair, 0: none */
	struct send_queue sq;
	struct commands *commands;   /* of WEFT_ISCSI, else NULL */
	struct recv_queue rq;	     /* unused with an srq */
	struct mem_passed passed[2]; /* the latest access to a source; any other: see qp_access() */
	struct recv_wqe *recv;	     /* claimed for the message that is arriving, or NULL */
	struct timer timer;	     /* for waits of the send queue */
	struct list ready_link, sender_link, absent_link;
	struct event_source events;
	struct fault_dice *dice; /* NULL: no faults are injected */
	struct qp_tally tally;
	struct qp_ends ends;
};

enum weft_reason qp_create(struct weft_pd *pd, const struct weft_qp_options *options,
			   const struct transport *transport, struct weft_qp **qp);
void qp_destroy(struct weft_qp *qp);
enum weft_reason qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr, uint32_t fields);
void qp_query(const struct weft_qp *qp, struct weft_qp_attr *attr);
enum weft_reason qp_connect(struct weft_qp *qp, struct weft_qp *peer);

/* Ends the stream in an orderly way: queued requests are flushed and the state becomes Error. */
enum weft_reason qp_disconnect(struct weft_qp *qp);

enum weft_reason qp_post_send(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
			      uint32_t *posted);
enum weft_reason qp_post_send_all(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count);
enum weft_reason qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t count,
			      uint32_t *posted);

/* ---- For transports and the rest of this room ----------------------------------------------- */

static inline bool qp_is_connected_service(const struct weft_qp *qp)
{
	return qp->service == WEFT_RC || qp->service == WEFT_UC || qp->service == WEFT_ISCSI;
}

static inline bool qp_is_acknowledged(const struct weft_qp *qp)
{
	return qp->service == WEFT_RC || qp->service == WEFT_RD;
}

/* Whether the queue pair accepts incoming messages. */
static inline bool qp_is_receiving(const struct weft_qp *qp)
{
	return qp->state >= WEFT_QPS_RTR && qp->state <= WEFT_QPS_SQE;
}

/* The queue pair's SRQ: its own, or (XRC) the SRQ that the request named; or NULL. */
static inline struct weft_srq *qp_srq(const struct weft_qp *qp)
{
	return qp->is_xrc ? id_table_find(&qp->adapter->srqs, qp->xrc_srq) : qp->srq;
}

/* The receive queue of an XRC queue pair itself is always empty. */
static inline struct recv_queue *qp_recv_queue(struct weft_qp *qp)
{
	struct weft_srq *srq = qp_srq(qp);

	return srq ? &srq->queue : &qp->rq;
}

/* XRC: a request of the peer names an SRQ to receive it. False: that SRQ cannot serve it. */
bool qp_xrc_name(struct weft_qp *qp, uint32_t srq_number);

/* The protection domain for the peer's accesses: its own, or (XRC) that of the named SRQ. */
static inline uint32_t qp_peer_pd(const struct weft_qp *qp)
{
	const struct weft_srq *srq = qp->is_xrc ? qp_srq(qp) : NULL;

	return srq ? srq->pd->number : qp->pd->number;
}

static inline bool qp_has_receive(struct weft_qp *qp)
{
	return qp->recv || qp_recv_queue(qp)->posted > 0;
}

/*
 * The access check for this queue pair. Sets number and domain in *access, unless it has a domain.
 * A range without pages raises the fault event (RKEY-08d).
 */
enum weft_reason qp_access(struct weft_qp *qp, struct mem_access *access, struct mem_grant *grant);

/* A range of a scatter/gather list. */
struct stretch {
	const struct weft_sge *sges;
	uint32_t count;
	enum mem_kind kind;
	uint64_t offset, length;
	bool is_ahead; /* for the check: on-demand pages need not be present yet */
	bool is_again; /* it was sent before: a tag that the peer retired still names it (AMB-39) */
	bool can_wait; /* see struct mem_access */
};

/* The checks of LOC-02 on all segments of a list, before any is used (LOC-06). */
enum weft_reason qp_segments_check(struct weft_qp *qp, const struct stretch *all);

/*
 * Takes the spans of a stretch, and checks its segments again: at most max, their number in *count;
 * they may end before the stretch does.
 */
enum weft_reason qp_segments_spans(struct weft_qp *qp, const struct stretch *stretch,
				   struct mem_span *spans, uint32_t max, uint32_t *count);

/* The whole list of a request, with the kind of its access; that of the claimed receive. */
struct stretch request_stretch(struct send_wqe *wqe);
struct stretch qp_recv_stretch(const struct weft_qp *qp);

/*
 * LOC-06: checks the list of a request that begins. False: the request has failed, and ended.
 * can_wait: the transport can wait for missing pages, and begins without them.
 */
bool request_check(struct weft_qp *qp, struct send_wqe *wqe, bool can_wait);

/*
 * SEND-09: after WEFT_R_SPACE_UNMAPPED, whether a pager brings all that is missing of a list; and
 * waits for it: the queue pair becomes ready when memory has changed.
 */
bool qp_segments_will_come(struct weft_qp *qp, const struct stretch *all);
void qp_await_memory(struct weft_qp *qp);

/* Draws a fault that is injected later, by qp_fault_made(). */
static inline bool qp_fault_drawn(struct weft_qp *qp, enum fault fault)
{
	return qp->dice && fault_falls(qp->adapter->faults, qp->dice, fault);
}

static inline void qp_fault_made(struct weft_qp *qp, enum fault fault)
{
	adapter_fault_made(qp->adapter, fault, qp->number);
}

/* Draws a fault that is injected here; counts and traces it. */
static inline bool qp_fault_falls(struct weft_qp *qp, enum fault fault)
{
	return qp->dice && adapter_fault_falls(qp->adapter, qp->dice, fault, qp->number);
}

/* The only function that changes the state. */
void qp_state_move(struct weft_qp *qp, enum weft_qp_state to, enum weft_reason reason);

/*
 * Attaches a stream to a queue pair in RESET or INIT. qp_attach: it becomes operational (RTS).
 * qp_attach_receiving: it only receives (RTR), until qp_start().
 */
void qp_attach(struct weft_qp *qp, const struct transport *transport, void *stream);
void qp_attach_receiving(struct weft_qp *qp, const struct transport *transport, void *stream);
void qp_start(struct weft_qp *qp);

/* The queue pair may be able to make progress. */
void qp_ready(struct weft_qp *qp);

/* Moves to Error at once: flushes both queues, and tells the transport. */
void qp_fail(struct weft_qp *qp, enum weft_reason reason);

/* The same at the next advance: for callers inside the progress of a send queue. */
void qp_fail_later(struct weft_qp *qp, enum weft_reason reason);

/* Remembers the first error, so that a later failure reports it. */
void qp_record(struct weft_qp *qp, enum weft_reason reason);

/* RKEY-09: a peer's access was refused: traces it, and raises an event. */
void qp_refused(struct weft_qp *qp, enum weft_reason reason, uint64_t addr, uint32_t tag);

/* Makes every queue pair ready that waits for a receive of this queue. */
void qp_wake_senders(struct recv_queue *q);

/* Makes this queue pair wait for a receive in the queue. */
void qp_await_receive(struct weft_qp *qp, struct recv_queue *q);

void qp_timer_expired(struct weft_qp *qp);
void qp_advance(struct weft_qp *qp, uint64_t now_ns);

/* Claims the oldest receive for a message that begins to arrive. */
void qp_recv_claim(struct weft_qp *qp);

/* Ends the claimed receive with one completion. */
void qp_recv_retire(struct weft_qp *qp, struct weft_completion *completion, bool is_solicited);
void qp_recv_flush(struct weft_qp *qp);

/* Ends a request; it is retired after all before it. */
void send_queue_end(struct weft_qp *qp, struct send_wqe *wqe, const struct outcome *out);
void send_queue_flush(struct weft_qp *qp);

/*
 * Retires requests that ended successfully, now. Called before a receive completes: its message may
 * be the peer's answer to these requests, and the consumer then expects them to be complete.
 */
void send_queue_settle(struct weft_qp *qp);

/* Retires requests that have ended, and begins those that can begin. */
void send_queue_run(struct weft_qp *qp, uint64_t now_ns);
