/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp.h"

#include <stdlib.h>

#include "base/check.h"
#include "verbs/commands.h"

enum {
	TO_RESET = 1 << WEFT_QPS_RESET,
	TO_INIT = 1 << WEFT_QPS_INIT,
	TO_RTR = 1 << WEFT_QPS_RTR,
	TO_RTS = 1 << WEFT_QPS_RTS,
	TO_SQD = 1 << WEFT_QPS_SQD,
	TO_SQE = 1 << WEFT_QPS_SQE,
	TO_ERROR = 1 << WEFT_QPS_ERROR,
};

/*
 * QP-14. asked: moves that the consumer may ask for. The adapter itself moves all but RESET to
 * ERROR and the operational ones to SQE.
 */
static const struct {
	const char *name;
	uint32_t asked;
	uint32_t by_adapter;
} states[WEFT_QPS_COUNT] = {
	[WEFT_QPS_RESET] = { "RESET", TO_RESET | TO_INIT | TO_ERROR, 0 },
	[WEFT_QPS_INIT] = { "INIT", TO_RESET | TO_INIT | TO_RTR | TO_ERROR, TO_ERROR },
	[WEFT_QPS_RTR] = { "RTR", TO_RESET | TO_RTS | TO_ERROR, TO_ERROR },
	[WEFT_QPS_RTS] = { "RTS", TO_RESET | TO_RTS | TO_SQD | TO_ERROR, TO_SQE | TO_ERROR },
	[WEFT_QPS_SQD] = { "SQD", TO_RESET | TO_RTS | TO_SQD | TO_ERROR, TO_SQE | TO_ERROR },
	[WEFT_QPS_SQE] = { "SQE", TO_RESET | TO_RTS | TO_ERROR, TO_ERROR },
	[WEFT_QPS_ERROR] = { "ERROR", TO_RESET | TO_ERROR, TO_ERROR },
};

enum {
	SEND_DEFAULT = 64,
	SEGMENTS_DEFAULT = 4,
	INLINE_DEFAULT = 64,
};

static const uint64_t receiver_wait_default_ns = 1000000000;

const char *weft_qp_state_name(enum weft_qp_state state)
{
	return (unsigned int)state < WEFT_QPS_COUNT ? states[state].name : "unknown";
}

void qp_state_move(struct weft_qp *qp, enum weft_qp_state to, enum weft_reason reason)
{
	CHECK((states[qp->state].asked | states[qp->state].by_adapter) & 1U << to);
	trace_add(qp->adapter->trace, (struct trace_event){
					      .kind = TRACE_QP_STATE,
					      .who = qp->number,
					      .a = qp->state,
					      .b = to,
					      .reason = (uint16_t)reason,
				      });
	qp->state = to;
}

/* ---- Creation ------------------------------------------------------------------------------- */

static enum weft_reason options_check(const struct weft_pd *pd, struct weft_qp_options *o)
{
	if (!o->send_cq || !o->recv_cq)
		return WEFT_R_NULL_ARGUMENT;
	if (o->send_cq->adapter != pd->adapter || o->recv_cq->adapter != pd->adapter ||
	    (o->srq && o->srq->adapter != pd->adapter))
		return WEFT_R_BAD_ARGUMENT;
	if (o->srq && o->srq->pd != pd)
		return WEFT_R_TAG_PD;
	if (o->is_xrc ? o->srq || o->service != WEFT_RC : o->xrc_domain != 0)
		return WEFT_R_BAD_ARGUMENT;
	if (o->srq && o->srq->xrc_domain)
		return WEFT_R_BAD_ARGUMENT;
	o->send_max = o->send_max ? o->send_max : SEND_DEFAULT;
	o->recv_max = o->recv_max ? o->recv_max : SEND_DEFAULT;
	o->sges_max = o->sges_max ? o->sges_max : SEGMENTS_DEFAULT;
	o->inline_max_bytes = o->inline_max_bytes ? o->inline_max_bytes : INLINE_DEFAULT;
	o->outstanding_max = o->outstanding_max ? o->outstanding_max : o->send_max;
	if ((unsigned int)o->service >= WEFT_SERVICE_COUNT || o->send_max > WEFT_QUEUE_MAX ||
	    o->recv_max > WEFT_QUEUE_MAX || o->sges_max > WEFT_SGES_MAX ||
	    o->inline_max_bytes > WEFT_INLINE_MAX || o->outstanding_max > WEFT_QUEUE_MAX)
		return WEFT_R_BAD_ARGUMENT;
	if (o->service == WEFT_ISCSI && o->outstanding_max > ID_SLOTS_MAX)
		return WEFT_R_BAD_ARGUMENT;
	return WEFT_OK;
}

static void qp_free(struct weft_qp *qp)
{
	send_queue_fini(&qp->sq);
	recv_queue_fini(&qp->rq);
	commands_destroy(qp->commands);
	free(qp->dice);
	free(qp);
}

/* False: memory is short. */
static bool get_dice(struct adapter *a, struct weft_qp *qp)
{
	if (!a->faults)
		return true;
	qp->dice = calloc(1, sizeof(*qp->dice));
	if (qp->dice)
		fault_dice_init(qp->dice, a->faults, ++a->qps_made);
	return qp->dice;
}

static struct weft_qp *qp_alloc(struct weft_pd *pd, const struct weft_qp_options *o)
{
	struct weft_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	list_init(&qp->ready_link);
	list_init(&qp->sender_link);
	list_init(&qp->absent_link);
	list_init(&qp->rq.senders);
	if (o->service == WEFT_ISCSI)
		qp->commands = commands_create(o->outstanding_max, o->sges_max);
	if ((o->service == WEFT_ISCSI && !qp->commands) || !get_dice(pd->adapter, qp) ||
	    send_queue_init(&qp->sq, o, pd->is_privileged) < 0 ||
	    (!o->srq && recv_queue_init(&qp->rq, o->recv_max, o->sges_max) < 0)) {
		qp_free(qp);
		return NULL;
	}
	return qp;
}

enum weft_reason qp_create(struct weft_pd *pd, const struct weft_qp_options *options,
			   const struct transport *transport, struct weft_qp **qp)
{
	struct weft_qp_options o = *options;
	enum weft_reason r = options_check(pd, &o);
	struct weft_qp *q;

	if (r != WEFT_OK)
		return r;
	q = qp_alloc(pd, &o);
	if (!q)
		return WEFT_R_NO_MEMORY;
	q->number = id_table_add(&pd->adapter->qps, q);
	if (q->number == 0) {
		qp_free(q);
		return WEFT_R_LIMIT;
	}
	q->adapter = pd->adapter;
	q->pd = pd;
	q->send_cq = o.send_cq;
	q->recv_cq = o.recv_cq;
	q->srq = o.srq;
	q->transport = transport;
	q->transport_at_first = transport;
	q->service = o.service;
	q->is_xrc = o.is_xrc;
	q->xrc_domain = o.xrc_domain;
	q->outstanding_max = o.outstanding_max;
	q->reads_max = o.outstanding_max;
	q->is_every_send_signalled = o.is_every_send_signalled;
	q->remote_rights = q->adapter->inbound_rights;
	q->receiver_wait_ns = receiver_wait_default_ns;
	event_source_init(&q->events, q->number, o.context);
	pd->users++;
	q->send_cq->users++;
	q->recv_cq->users++;
	if (q->srq)
		q->srq->users++;
	*qp = q;
	return WEFT_OK;
}

/* The end of the stream, if there is one; requests are flushed next. */
static void qp_leave_stream(struct weft_qp *qp, enum weft_reason why)
{
	qp->transport->down(qp, why);
	qp->transport = qp->transport_at_first;
	qp->stream = NULL;
	if (qp->commands)
		commands_end_all(qp);
	qp->reads_max = qp->outstanding_max;
}

/* Ends the stream and ends every request with a completion: before RESET and before destruction. */
static void qp_stop(struct weft_qp *qp)
{
	if (qp_is_receiving(qp))
		qp_leave_stream(qp, WEFT_R_PEER_GONE);
	send_queue_flush(qp);
	qp_recv_flush(qp);
	/* What was opened to this stream's peer is not for the next one. */
	mem_qp_gone(&qp->adapter->mem, qp->number);
	qp_wake_senders(qp_recv_queue(qp));
	list_remove(&qp->ready_link);
	list_remove(&qp->absent_link);
	qp->peer = 0;
	qp->failing = WEFT_OK;
	qp->reason = WEFT_OK;
	qp->is_draining = false;
	qp->is_xrc_cut = false;
	/* What happened to this stream is not the next one's. */
	event_clear(&qp->events);
}

void qp_destroy(struct weft_qp *qp)
{
	qp_stop(qp);
	id_table_remove(&qp->adapter->qps, qp->number);
	list_remove(&qp->events.link);
	qp->pd->users--;
	qp->send_cq->users--;
	qp->recv_cq->users--;
	if (qp->srq)
		qp->srq->users--;
	qp_free(qp);
}

/* ---- Attributes ----------------------------------------------------------------------------- */

static enum weft_reason modify_check(const struct weft_qp *qp, const struct weft_qp_attr *attr,
				     uint32_t fields)
{
	const uint32_t known = WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS | WEFT_QP_REGISTER |
			       WEFT_QP_ON_FAILURE | WEFT_QP_RECEIVER_WAIT;

	if (fields & ~known)
		return WEFT_R_BAD_ARGUMENT;
	if (fields & WEFT_QP_STATE) {
		if ((unsigned int)attr->state >= WEFT_QPS_COUNT ||
		    !(states[qp->state].asked & 1U << attr->state))
			return WEFT_R_QP_STATE;
		if (attr->state == WEFT_QPS_RTR && qp_is_connected_service(qp) && qp->peer == 0)
			return WEFT_R_QP_UNCONNECTED;
	}
	if ((fields & WEFT_QP_REMOTE_RIGHTS) &&
	    (attr->remote_rights & ~(uint32_t)MEM_REMOTE_RIGHTS))
		return WEFT_R_REG_RIGHTS;
	if ((fields & WEFT_QP_REGISTER) && attr->is_register_enabled && !qp->pd->is_privileged)
		return WEFT_R_SQR_PRIVILEGE;
	if ((fields & WEFT_QP_ON_FAILURE) && (unsigned int)attr->on_failure > WEFT_FAIL_DRAIN)
		return WEFT_R_BAD_ARGUMENT;
	return WEFT_OK;
}

static void qp_modify_state(struct weft_qp *qp, enum weft_qp_state to)
{
	enum weft_qp_state from = qp->state;

	if (to == WEFT_QPS_ERROR) {
		if (from != WEFT_QPS_ERROR)
			qp_fail(qp, WEFT_R_FLUSHED);
		return;
	}
	if (to == WEFT_QPS_RESET)
		qp_stop(qp);
	qp_state_move(qp, to, WEFT_OK);
	if (to == WEFT_QPS_SQD && from != WEFT_QPS_SQD)
		qp->is_draining = true;
	if (to == WEFT_QPS_RTS) {
		qp->is_draining = false;
		qp->reason = WEFT_OK;
	}
	qp_ready(qp);
}

static void set_remote_rights(struct weft_qp *qp, uint32_t rights)
{
	qp->remote_rights = rights & qp->adapter->inbound_rights;
	if (qp->transport && qp->transport->rights_changed)
		qp->transport->rights_changed(qp);
}

enum weft_reason qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr, uint32_t fields)
{
	enum weft_reason r = modify_check(qp, attr, fields);

	if (r != WEFT_OK)
		return r;
	if (fields & WEFT_QP_REMOTE_RIGHTS)
		set_remote_rights(qp, attr->remote_rights);
	if (fields & WEFT_QP_REGISTER)
		qp->is_register_enabled = attr->is_register_enabled;
	if (fields & WEFT_QP_ON_FAILURE)
		qp->on_failure = attr->on_failure;
	if (fields & WEFT_QP_RECEIVER_WAIT)
		qp->receiver_wait_ns = attr->receiver_wait_ns;
	if (fields & WEFT_QP_STATE)
		qp_modify_state(qp, attr->state);
	return WEFT_OK;
}

void qp_query(const struct weft_qp *qp, struct weft_qp_attr *attr)
{
	*attr = (struct weft_qp_attr){
		.state = qp->state,
		.remote_rights = qp->remote_rights,
		.is_register_enabled = qp->is_register_enabled,
		.on_failure = qp->on_failure,
		.receiver_wait_ns = qp->receiver_wait_ns,
		.service = qp->service,
		.send_max = qp->sq.max,
		.recv_max = qp->rq.max,
		.sges_max = qp->sq.sges_max,
		.inline_max_bytes = qp->sq.inline_max,
		.outstanding_max = qp->outstanding_max,
		.peer_number = qp->peer,
		.reason = qp->reason,
		.send_queued = qp->sq.count,
		.recv_queued = qp->srq ? qp->recv != NULL : qp->rq.used,
	};
}

static void qp_become_receiving(struct weft_qp *qp)
{
	if (qp->state == WEFT_QPS_RESET)
		qp_state_move(qp, WEFT_QPS_INIT, WEFT_OK);
	qp_state_move(qp, WEFT_QPS_RTR, WEFT_OK);
}

static void qp_become_operational(struct weft_qp *qp)
{
	qp_become_receiving(qp);
	qp_state_move(qp, WEFT_QPS_RTS, WEFT_OK);
}

enum weft_reason qp_connect(struct weft_qp *qp, struct weft_qp *peer)
{
	if (qp == peer || qp->adapter != peer->adapter || qp->service != peer->service ||
	    qp->is_xrc || peer->is_xrc)
		return WEFT_R_BAD_ARGUMENT;
	if (qp->service == WEFT_ISCSI)
		return WEFT_R_BAD_ARGUMENT; /* its peer is a target */
	if (!qp_is_connected_service(qp) || qp->peer != 0 || peer->peer != 0)
		return WEFT_R_QP_CONNECTED;
	if (qp->state > WEFT_QPS_INIT || peer->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	qp->peer = peer->number;
	peer->peer = qp->number;
	qp_become_operational(qp);
	qp_become_operational(peer);
	return WEFT_OK;
}

void qp_attach_receiving(struct weft_qp *qp, const struct transport *transport, void *stream)
{
	CHECK(qp->state <= WEFT_QPS_INIT && !qp->stream);
	qp->tally = (struct qp_tally){ 0 };
	qp->transport = transport;
	qp->stream = stream;
	qp_become_receiving(qp);
}

void qp_start(struct weft_qp *qp)
{
	CHECK(qp->state == WEFT_QPS_RTR);
	qp_modify_state(qp, WEFT_QPS_RTS);
}

void qp_attach(struct weft_qp *qp, const struct transport *transport, void *stream)
{
	qp_attach_receiving(qp, transport, stream);
	qp_start(qp);
}

/* ---- Progress and failure ------------------------------------------------------------------- */

void qp_ready(struct weft_qp *qp)
{
	if (!list_is_linked(&qp->ready_link))
		list_add_tail(&qp->adapter->ready, &qp->ready_link);
}

void qp_record(struct weft_qp *qp, enum weft_reason reason)
{
	if (qp->reason == WEFT_OK)
		qp->reason = reason;
}

/* To Error: the peer is told as the stream ends, then all that is queued is flushed. */
static void qp_end(struct weft_qp *qp, enum weft_reason reason, enum weft_reason why)
{
	bool was_receiving = qp_is_receiving(qp);

	qp_record(qp, reason);
	qp->failing = WEFT_OK;
	qp->is_draining = false;
	qp_state_move(qp, WEFT_QPS_ERROR, qp->reason);
	qp->events.state = WEFT_QPS_ERROR;
	event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_QP_ERROR, qp->reason);
	if (was_receiving)
		qp_leave_stream(qp, why);
	send_queue_flush(qp);
	qp_recv_flush(qp);
	/* Queue pairs that wait for a receive of this one notice the state when they try again. */
	qp_wake_senders(qp_recv_queue(qp));
}

void qp_fail(struct weft_qp *qp, enum weft_reason reason)
{
	qp_end(qp, reason, WEFT_R_PEER_TERMINATED);
}

enum weft_reason qp_disconnect(struct weft_qp *qp)
{
	if (!qp_is_receiving(qp))
		return WEFT_R_QP_UNCONNECTED;
	qp_end(qp, WEFT_R_FLUSHED, WEFT_R_PEER_GONE);
	return WEFT_OK;
}

void qp_fail_later(struct weft_qp *qp, enum weft_reason reason)
{
	if (qp->state == WEFT_QPS_ERROR || qp->state == WEFT_QPS_RESET || qp->failing != WEFT_OK)
		return;
	qp->failing = reason;
	qp_ready(qp);
}

void qp_timer_expired(struct weft_qp *qp)
{
	qp->sq.is_expired = true;
	qp_ready(qp);
}

void qp_wake_senders(struct recv_queue *q)
{
	while (!list_is_empty(&q->senders))
		qp_ready(CONTAINER_OF(list_pop(&q->senders), struct weft_qp, sender_link));
}

void qp_await_receive(struct weft_qp *qp, struct recv_queue *q)
{
	if (!list_is_linked(&qp->sender_link))
		list_add_tail(&q->senders, &qp->sender_link);
}

void qp_refused(struct weft_qp *qp, enum weft_reason reason, uint64_t addr, uint32_t tag)
{
	trace_add(qp->adapter->trace, (struct trace_event){
					      .kind = TRACE_REFUSED,
					      .who = qp->number,
					      .a = addr,
					      .b = tag,
					      .reason = (uint16_t)reason,
				      });
	event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_QP_REFUSED, reason);
}

/* A request has begun, though nothing of it was done yet. */
static bool is_waiting(const struct send_queue *q)
{
	return q->wait == SEND_DELAYED || q->wait == SEND_BLOCKED;
}

void qp_advance(struct weft_qp *qp, uint64_t now_ns)
{
	qp->transport->advance(qp, now_ns);
	send_queue_run(qp, now_ns);
	if (qp->state == WEFT_QPS_ERROR) {
		/* Requests posted in Error are flushed (QP-14). */
		send_queue_flush(qp);
		qp_recv_flush(qp);
	} else if (qp->state == WEFT_QPS_SQE) {
		send_queue_flush(qp);
	} else if (qp->is_draining && qp->sq.begun == 0 && !is_waiting(&qp->sq)) {
		qp->is_draining = false;
		event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_QP_DRAINED, WEFT_OK);
	}
}

enum weft_reason qp_access(struct weft_qp *qp, struct mem_access *access, struct mem_grant *grant)
{
	struct mem_table *mem = &qp->adapter->mem;
	/* The domain of an XRC queue pair is that of the receive queue that its peer names. */
	struct mem_passed *passed = access->pd == 0 && !qp->is_xrc && access->kind < MEM_BIND
					    ? &qp->passed[access->kind != MEM_LOCAL_READ]
					    : NULL;
	enum weft_reason r;

	if (passed && mem_access_again(mem, passed, access, grant))
		return WEFT_OK;
	if (access->pd == 0)
		access->pd = qp_peer_pd(qp);
	access->qp = qp->number;
	r = mem_access_check(mem, access, grant);
	if (r == WEFT_OK && passed && access->length > 0 && access->kind != MEM_REMOTE_ATOMIC)
		*passed = (struct mem_passed){ access->tag, access->kind, mem->changes };
	/* The latest address: an access that waits for another page is tried again with it. */
	if (r == WEFT_R_SPACE_UNMAPPED && !mem_grant_is_paging(grant)) {
		grant->space->paging->events_raised += !(qp->events.pending &
							 1U << WEFT_EVENT_FAULT);
		qp->events.addr = mem_space_fault(grant->space, grant->origin, grant->length);
		event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_FAULT, r);
	}
	return r;
}

bool qp_xrc_name(struct weft_qp *qp, uint32_t srq_number)
{
	const struct weft_srq *srq = id_table_find(&qp->adapter->srqs, srq_number);

	/* While a message has a receive of one queue, no other is named. */
	if (!srq || srq->xrc_domain != qp->xrc_domain || qp->xrc_domain == 0 || qp->is_xrc_cut ||
	    (qp->recv && srq_number != qp->xrc_srq))
		return false;
	qp->xrc_srq = srq_number;
	return true;
}

void qp_recv_claim(struct weft_qp *qp)
{
	struct weft_srq *srq = qp_srq(qp);

	CHECK(!qp->recv);
	qp->recv = recv_queue_claim(qp_recv_queue(qp));
	if (!srq)
		return;
	srq_taken(srq);
	srq->users += qp->is_xrc; /* which has to be told if it goes before */
}

void qp_recv_retire(struct weft_qp *qp, struct weft_completion *completion, bool is_solicited)
{
	struct weft_srq *srq = qp_srq(qp);
	struct weft_cq *cq = qp->is_xrc ? srq->xrc_cq : qp->recv_cq;

	CHECK(qp->recv);
	send_queue_settle(qp);
	if (qp->is_xrc)
		srq->users--;
	completion->id = qp->recv->id;
	completion->qp_number = qp->number;
	recv_queue_release(qp_recv_queue(qp), qp->recv);
	qp->recv = NULL;
	trace_add(qp->adapter->trace,
		  (struct trace_event){
			  .kind = TRACE_RECV_RETIRED,
			  .who = qp->number,
			  .a = completion->id,
			  .b = (uint64_t)completion->byte_count << 8 | completion->status,
			  .reason = (uint16_t)completion->reason,
		  });
	if (completion->has_imm)
		trace_add(qp->adapter->trace, (struct trace_event){
						      .kind = TRACE_IMMEDIATE_IN,
						      .who = qp->number,
						      .a = completion->imm,
						      .b = completion->byte_count,
					      });
	if (qp_fault_drawn(qp, FAULT_WC_DELAY_RECV) && cq_hold(cq))
		qp_fault_made(qp, FAULT_WC_DELAY_RECV);
	if (!cq_push(cq, completion, is_solicited))
		qp_fail_later(qp, WEFT_R_CQ_OVERRUN);
}

void qp_recv_flush(struct weft_qp *qp)
{
	struct weft_completion flushed = {
		.status = WEFT_ERR_FLUSHED,
		.opcode = WEFT_OP_RECV,
		.reason = WEFT_R_FLUSHED,
	};

	if (qp->recv)
		qp_recv_retire(qp, &flushed, false);
	/* A shared queue's receives serve the other queue pairs. */
	while (!qp->srq && !qp->is_xrc && qp->rq.posted > 0) {
		qp_recv_claim(qp);
		qp_recv_retire(qp, &flushed, false);
	}
}

enum weft_reason qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs, uint32_t count,
			      uint32_t *posted)
{
	enum weft_reason r = WEFT_OK;

	*posted = 0;
	if (qp->srq || qp->is_xrc)
		return WEFT_R_QUEUE_SHARED;
	if (qp->state == WEFT_QPS_RESET)
		return WEFT_R_WR_STATE;
	for (uint32_t i = 0; i < count && r == WEFT_OK; i++) {
		r = recv_queue_post(&qp->rq, &wrs[i]);
		*posted += r == WEFT_OK;
	}
	qp_wake_senders(&qp->rq);
	if (qp->state == WEFT_QPS_ERROR)
		qp_ready(qp);
	return r;
}
