/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: a send queue, a receive queue, a state, and the transport that carries the requests.
 *
 *	qp.c          creation, attributes, states
 *	post.c        what a work request must look like to become a work queue element
 *	send_queue.c  the order of the send queue: local operations, waits, completions, failures
 */
#pragma once

#include "verbs/cq.h"
#include "verbs/pd.h"
#include "verbs/recv_queue.h"

struct weft_qp;

struct send_wqe {
	struct weft_send_wr wr;	    /* segments point into the queue's own memory */
	uint64_t length;	    /* of all segments */
	const uint8_t *inline_data; /* instead of segments, or NULL */
	bool is_registered;	    /* the first half of REGISTER_SEND is done */
};

/* How a request ended. */
struct outcome {
	enum weft_status status;
	enum weft_reason reason;
	uint32_t byte_count;
	bool is_local; /* it failed here, before anything was sent */
};

/* Who carries requests to the peer. Given at creation, by service. */
struct transport {
	/*
	 * Carries out the request at the head of the send queue. False: not possible now; the queue
	 * pair has put itself where it will be woken.
	 */
	bool (*execute)(struct weft_qp *qp, struct send_wqe *wqe, struct outcome *out);

	/* The queue pair has left its operational states: end the stream, tell the peer why. */
	void (*down)(struct weft_qp *qp, enum weft_reason for_peer);
};

enum send_wait {
	SEND_RUNNING = 0,
	SEND_DELAYED, /* the head is a Delay whose time has not come */
	SEND_BLOCKED  /* the head waits for the peer's receive */
};

struct send_queue {
	struct send_wqe *wqes;
	struct weft_segment *segments;
	uint8_t *inline_data;
	uint32_t max, segments_max, inline_max, head, count;
	enum send_wait wait;
	bool is_expired; /* the wait's time has passed */
};

struct weft_qp {
	/* Fixed at creation. */
	struct adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *send_cq, *recv_cq;
	struct weft_srq *srq; /* or NULL */
	const struct transport *transport;
	enum weft_service service;
	uint32_t number, outstanding_max;
	bool is_every_send_signalled;
	/* Attributes. */
	uint32_t remote_rights;
	bool is_register_enabled;
	enum weft_failure on_failure;
	uint64_t receiver_wait_ns;
	/* State. */
	enum weft_qp_state state;
	enum weft_reason reason;  /* first error; WEFT_OK while none */
	enum weft_reason failing; /* to be failed for this at the next advance; WEFT_OK: not */
	bool is_draining;	  /* SQD was asked for and the drained event is due */
	uint32_t peer;		  /* number of the connected queue pair, 0: none */
	struct send_queue sq;
	struct recv_queue rq; /* unused with an srq */
	struct timer timer;   /* of the send queue's wait */
	struct list ready_link, sender_link;
	struct event_source events;
};

enum weft_reason qp_create(struct weft_pd *pd, const struct weft_qp_options *options,
			   const struct transport *transport, struct weft_qp **qp);
void qp_destroy(struct weft_qp *qp);
enum weft_reason qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr, uint32_t fields);
void qp_query(const struct weft_qp *qp, struct weft_qp_attr *attr);
enum weft_reason qp_connect(struct weft_qp *qp, struct weft_qp *peer);

enum weft_reason qp_post_send(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
			      uint32_t *posted);
enum weft_reason qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t count,
			      uint32_t *posted);

/* ---- For transports and the rest of this room ----------------------------------------------- */

static inline bool qp_is_connected_service(const struct weft_qp *qp)
{
	return qp->service == WEFT_RC || qp->service == WEFT_UC;
}

static inline bool qp_is_acknowledged(const struct weft_qp *qp)
{
	return qp->service == WEFT_RC || qp->service == WEFT_RD;
}

/* Whether incoming messages are served. */
static inline bool qp_is_receiving(const struct weft_qp *qp)
{
	return qp->state >= WEFT_QPS_RTR && qp->state <= WEFT_QPS_SQE;
}

static inline struct recv_queue *qp_recv_queue(struct weft_qp *qp)
{
	return qp->srq ? &qp->srq->queue : &qp->rq;
}

/*
 * The access check for this queue pair, whose number and domain are put into *access. Meeting a
 * segment without pages raises the fault event (RKEY-08d).
 */
enum weft_reason qp_access(struct weft_qp *qp, struct mem_access *access, struct mem_grant *grant);

/* The one function that changes the state. */
void qp_state_move(struct weft_qp *qp, enum weft_qp_state to, enum weft_reason reason);

/* The send queue may be able to move. */
void qp_ready(struct weft_qp *qp);

/* To Error at once: everything queued is flushed, the transport is told. */
void qp_fail(struct weft_qp *qp, enum weft_reason reason);

/* The same at the next advance: for use while some send queue is being worked on. */
void qp_fail_later(struct weft_qp *qp, enum weft_reason reason);

/* Remembers the first error, so that a later failure reports it. */
void qp_record(struct weft_qp *qp, enum weft_reason reason);

/* Every queue pair that waits for a receive of this queue may try again. */
void qp_wake_senders(struct recv_queue *q);

void qp_timer_expired(struct weft_qp *qp);
void qp_advance(struct weft_qp *qp, uint64_t now_ns);

/* Ends the oldest send request, or receive, with one completion. */
void send_queue_retire(struct weft_qp *qp, const struct outcome *out);
void qp_recv_retire(struct weft_qp *qp, struct weft_completion *completion, bool is_solicited);
void send_queue_flush(struct weft_qp *qp);
void qp_recv_flush(struct weft_qp *qp);

/* Runs the send queue until it is empty, waits, or fails. */
void send_queue_run(struct weft_qp *qp, uint64_t now_ns);

/* Ends a wait, whatever it was for. */
void send_queue_unwait(struct weft_qp *qp);

/* 0, or -1 when memory is short. */
int send_queue_init(struct send_queue *q, const struct weft_qp_options *options);
void send_queue_fini(struct send_queue *q);
