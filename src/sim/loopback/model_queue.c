/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>

#include "base/check.h"
#include "sim/loopback/model.h"

struct model_qp *model_qp_find(struct model *m, uint32_t number)
{
	for (uint32_t i = 0; i < MODEL_QPS; i++) {
		if (m->qps[i].is_open && m->qps[i].number == number)
			return &m->qps[i];
	}
	return NULL;
}

bool model_is_bind_queued(const struct model *m, uint32_t tag)
{
	for (uint32_t i = 0; i < MODEL_QPS; i++) {
		const struct model_qp *qp = &m->qps[i];

		for (uint32_t k = 0; qp->is_open && k < qp->count; k++) {
			const struct weft_send_wr *wr = &qp->sends[(qp->head + k) % MODEL_QUEUE].wr;

			if (wr->opcode == WEFT_OP_BIND &&
			    weft_tag_index(wr->bind.window_tag) == weft_tag_index(tag))
				return true;
		}
	}
	return false;
}

struct model_recv_queue *model_recvs(struct model *m, struct model_qp *qp)
{
	return qp->has_srq ? &m->processes[qp->process].srq : &qp->recvs;
}

struct model_send *model_send_slot(struct model_qp *qp)
{
	return qp->count < MODEL_QUEUE ? &qp->sends[(qp->head + qp->count) % MODEL_QUEUE] : NULL;
}

void model_posted_send(struct model_qp *qp)
{
	CHECK(qp->count < MODEL_QUEUE);
	qp->count++;
}

void model_posted_recv(struct model *m, struct model_recv_queue *q, const struct model_recv *recv)
{
	if (q->count == MODEL_QUEUE) {
		model_fail(m, "a receive queue took more than it holds");
		return;
	}
	q->wrs[(q->head + q->count++) % MODEL_QUEUE] = *recv;
}

/* Records an owed completion. NULL: the queue is full, and a completion is lost. */
static struct weft_completion *owe(struct model *m, uint32_t process,
				   const struct weft_completion *completion)
{
	struct model_cq *cq = &m->processes[process].cq;
	struct weft_completion *owed = &cq->owed[(cq->head + cq->count) % MODEL_CQ];

	if (cq->count == cq->max) {
		cq->lost++;
		cq->is_overrun = true;
		return NULL;
	}
	cq->count++;
	*owed = *completion;
	return owed;
}

static bool is_same(const struct weft_completion *a, const struct weft_completion *b)
{
	return a->id == b->id && a->status == b->status && a->opcode == b->opcode &&
	       a->reason == b->reason && a->qp_number == b->qp_number &&
	       a->src_qp_number == b->src_qp_number && a->byte_count == b->byte_count &&
	       a->has_imm == b->has_imm && a->imm == b->imm &&
	       a->has_invalidated == b->has_invalidated && a->invalidated_tag == b->invalidated_tag;
}

void model_polled(struct model *m, uint32_t process, const struct weft_completion *got)
{
	struct model_cq *cq = &m->processes[process].cq;
	const struct weft_completion *owed = &cq->owed[cq->head];

	if (cq->count == 0) {
		model_fail(m,
			   "process %u got a completion of request %" PRIu64 " that it is not owed",
			   process, got->id);
		return;
	}
	cq->head = (cq->head + 1) % MODEL_CQ;
	cq->count--;
	if (!is_same(got, owed))
		model_fail(m,
			   "process %u got the completion of request %" PRIu64
			   " (%s, %s, %u bytes) where that of %" PRIu64
			   " (%s, %s, %u bytes) was due",
			   process, got->id, weft_opcode_name(got->opcode),
			   weft_status_name(got->status), got->byte_count, owed->id,
			   weft_opcode_name(owed->opcode), weft_status_name(owed->status),
			   owed->byte_count);
	if ((got->status == WEFT_SUCCESS) != (got->reason == WEFT_OK))
		model_fail(m, "request %" PRIu64 " ended with %s but gives reason %s", got->id,
			   weft_status_name(got->status), weft_reason_name(got->reason));
}

static bool may_flush(const struct model_qp *qp, bool is_send)
{
	return qp->is_stopping || qp->state == WEFT_QPS_ERROR ||
	       (is_send && qp->state == WEFT_QPS_SQE);
}

/* Undoes a registration whose message failed, unless windows hold it; its tag can be used again. */
static void undo_register(struct model *m, const struct model_send *send)
{
	struct model_tag *t = model_tag_find(m, send->wr.reg.tag);

	if (!send->is_made || !t || !t->is_valid || model_region_has_windows(m, t))
		return;
	t->is_valid = false;
	t->kind = MODEL_TAG_RESERVED;
}

static void send_retired(struct model *m, struct model_qp *qp, const struct trace_event *e)
{
	const struct model_send *send = &qp->sends[qp->head];
	enum weft_status status = (enum weft_status)(e->b & 0xff);
	bool is_signalled;

	if (qp->state_due != WEFT_QPS_RESET)
		model_fail(m, "QP %u should have gone to %s", qp->number,
			   weft_qp_state_name(qp->state_due));
	if (qp->count == 0 || send->wr.id != e->a) {
		model_fail(m, "QP %u ended request %" PRIu64 " out of order", qp->number, e->a);
		return;
	}
	m->retired++;
	if (status == WEFT_ERR_FLUSHED) {
		if (!may_flush(qp, true))
			model_fail(m, "QP %u flushed request %" PRIu64 " while in %s", qp->number,
				   e->a, weft_qp_state_name(qp->state));
	} else {
		model_retired(m, qp, status, (enum weft_reason)e->reason);
	}
	if (status != WEFT_SUCCESS)
		undo_register(m, send);
	is_signalled = (send->wr.flags & WEFT_SIGNALLED) || qp->is_every_send_signalled;
	if (is_signalled || status != WEFT_SUCCESS)
		owe(m, qp->process,
		    &(struct weft_completion){
			    .id = e->a,
			    .qp_number = qp->number,
			    .status = status,
			    .opcode = send->wr.opcode,
			    .reason = (enum weft_reason)e->reason,
			    .byte_count = status == WEFT_SUCCESS ? model_byte_count(send) : 0,
		    });
	qp->head = (qp->head + 1) % MODEL_QUEUE;
	qp->count--;
}

static void recv_retired(struct model *m, struct model_qp *qp, const struct trace_event *e)
{
	struct model_recv_queue *q = model_recvs(m, qp);
	enum weft_status status = (enum weft_status)(e->b & 0xff);
	struct weft_completion *owed;

	if (q->count == 0 || q->wrs[q->head].id != e->a) {
		model_fail(m, "QP %u ended receive %" PRIu64 " out of order", qp->number, e->a);
		return;
	}
	m->retired++;
	owed = owe(m, qp->process,
		   &(struct weft_completion){
			   .id = e->a,
			   .qp_number = qp->number,
			   .status = status,
			   .opcode = WEFT_OP_RECV,
			   .reason = (enum weft_reason)e->reason,
		   });
	if (status == WEFT_ERR_FLUSHED) {
		if (!may_flush(qp, false))
			model_fail(m, "QP %u flushed receive %" PRIu64 " while in %s", qp->number,
				   e->a, weft_qp_state_name(qp->state));
	} else {
		if (m->pending.is_set)
			model_fail(m, "two receives ended for one request");
		m->pending = (struct model_pending){
			.is_set = true,
			.qp = (uint32_t)(qp - m->qps),
			.status = status,
			.byte_count = (uint32_t)(e->b >> 8),
			.recv = q->wrs[q->head],
			.owed = owed,
		};
	}
	q->head = (q->head + 1) % MODEL_QUEUE;
	q->count--;
}

/* A send queue has registered a region under a tag reserved for it. */
static void tag_made(struct model *m, const struct trace_event *e)
{
	struct model_tag *t = model_tag_find(m, (uint32_t)e->a);

	if (!t || t->kind != MODEL_TAG_RESERVED)
		return;
	for (uint32_t i = 0; i < MODEL_QPS; i++) {
		struct model_qp *qp = &m->qps[i];
		struct model_send *send = &qp->sends[qp->head];

		if (!qp->is_open || qp->count == 0 || qp->process != t->process ||
		    send->wr.reg.tag != t->tag ||
		    (send->wr.opcode != WEFT_OP_REGISTER &&
		     send->wr.opcode != WEFT_OP_REGISTER_SEND))
			continue;
		if (!qp->is_register_enabled ||
		    !model_can_register(m, qp->process, &send->wr.reg.region))
			model_fail(m, "QP %u registered what it may not", qp->number);
		else
			model_register(t, &send->wr.reg.region);
		send->is_made = true;
		return;
	}
	model_fail(m, "tag 0x%08x was made valid by no request", t->tag);
}

void model_observe(struct model *m, const struct trace_event *e)
{
	struct model_qp *qp = model_qp_find(m, e->who);

	switch (e->kind) {
	case TRACE_QP_STATE:
		if (!qp)
			return;
		qp->state = (enum weft_qp_state)e->b;
		if (qp->state_due != WEFT_QPS_RESET && qp->state != qp->state_due)
			model_fail(m, "QP %u went to %s where %s was due", e->who,
				   weft_qp_state_name(qp->state),
				   weft_qp_state_name(qp->state_due));
		qp->state_due = WEFT_QPS_RESET;
		if (e->b >= WEFT_QPS_SQE && e->reason == WEFT_OK)
			model_fail(m, "QP %u went to %s without a reason", e->who,
				   weft_qp_state_name(qp->state));
		return;
	case TRACE_SEND_RETIRED:
	case TRACE_RECV_RETIRED:
		if (!qp)
			model_fail(m, "a request ended on QP %u, which does not exist", e->who);
		else if (e->kind == TRACE_SEND_RETIRED)
			send_retired(m, qp, e);
		else
			recv_retired(m, qp, e);
		return;
	case TRACE_DROPPED:
		m->is_dropped = true;
		return;
	case TRACE_REFUSED:
		m->refused++;
		return;
	case TRACE_TAG_MADE:
		tag_made(m, e);
		return;
	default:
		return;
	}
}
