/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp.h"

#include <stdlib.h>

#include "base/check.h"

int send_queue_init(struct send_queue *q, const struct weft_qp_options *options)
{
	*q = (struct send_queue){
		.max = options->send_max,
		.segments_max = options->segments_max,
		.inline_max = options->inline_max_bytes,
	};
	q->wqes = calloc(q->max, sizeof(*q->wqes));
	q->segments = calloc((size_t)q->max * q->segments_max, sizeof(*q->segments));
	q->inline_data = calloc(q->max, q->inline_max);
	if (q->wqes && q->segments && q->inline_data)
		return 0;
	send_queue_fini(q);
	return -1;
}

void send_queue_fini(struct send_queue *q)
{
	free(q->wqes);
	free(q->segments);
	free(q->inline_data);
	*q = (struct send_queue){ 0 };
}

void send_queue_unwait(struct weft_qp *qp)
{
	timer_queue_cancel(&qp->adapter->timers, &qp->timer);
	list_remove(&qp->sender_link);
	qp->sq.wait = SEND_RUNNING;
	qp->sq.is_expired = false;
}

void send_queue_retire(struct weft_qp *qp, const struct outcome *out)
{
	struct send_queue *q = &qp->sq;
	const struct weft_send_wr *wr = &q->wqes[q->head].wr;
	bool is_signalled = (wr->flags & WEFT_SIGNALLED) || qp->is_every_send_signalled;
	const struct weft_completion completion = {
		.id = wr->id,
		.status = out->status,
		.opcode = wr->opcode,
		.reason = out->reason,
		.qp_number = qp->number,
		.byte_count = out->byte_count,
	};

	CHECK(q->count > 0);
	if (wr->opcode == WEFT_OP_BIND && out->status == WEFT_ERR_FLUSHED)
		mem_window_forget(&qp->adapter->mem, &wr->bind);
	if (q->wqes[q->head].is_registered && out->status != WEFT_SUCCESS)
		mem_region_unregister_reserved(&qp->adapter->mem, qp->pd->number, wr->reg.tag);
	if (q->wait != SEND_RUNNING)
		send_queue_unwait(qp);
	q->head = q->head + 1 < q->max ? q->head + 1 : 0;
	q->count--;
	trace_add(qp->adapter->trace,
		  (struct trace_event){
			  .kind = TRACE_SEND_RETIRED,
			  .who = qp->number,
			  .a = completion.id,
			  .b = (uint64_t)completion.opcode << 8 | completion.status,
			  .reason = (uint16_t)completion.reason,
		  });
	if ((is_signalled || out->status != WEFT_SUCCESS) &&
	    !cq_push(qp->send_cq, &completion, false))
		qp_fail_later(qp, WEFT_R_CQ_OVERRUN);
}

void send_queue_flush(struct weft_qp *qp)
{
	const struct outcome flushed = { .status = WEFT_ERR_FLUSHED, .reason = WEFT_R_FLUSHED };

	while (qp->sq.count > 0)
		send_queue_retire(qp, &flushed);
}

static void fail_locally(struct outcome *out, enum weft_status status, enum weft_reason reason)
{
	if (reason == WEFT_OK)
		return;
	out->status = status;
	out->reason = reason;
	out->is_local = true;
}

/* SQR-04: the checks in their order, the first of them here. */
static enum weft_reason run_register(struct weft_qp *qp, struct send_wqe *wqe)
{
	const struct mem_owner owner = pd_owner(qp->pd);

	if (!qp->is_register_enabled)
		return WEFT_R_SQR_DISABLED;
	return mem_region_register_reserved(&qp->adapter->mem, &owner, &wqe->wr.reg.region,
					    wqe->wr.reg.tag);
}

/* Waits in the given way until woken or until the time is over. True when it is over. */
static bool send_queue_wait(struct weft_qp *qp, enum send_wait wait, uint64_t now_ns,
			    uint64_t time_ns)
{
	struct send_queue *q = &qp->sq;

	if (q->wait != wait) {
		uint64_t deadline = now_ns + time_ns < now_ns ? UINT64_MAX : now_ns + time_ns;

		q->wait = wait;
		timer_queue_set(&qp->adapter->timers, &qp->timer, deadline);
		return time_ns == 0;
	}
	return q->is_expired;
}

/* The operations that need no peer. */
static bool run_local(struct weft_qp *qp, struct send_wqe *wqe, uint64_t now_ns,
		      struct outcome *out)
{
	struct mem_table *mem = &qp->adapter->mem;
	const struct weft_send_wr *wr = &wqe->wr;
	enum weft_reason r;

	switch (wr->opcode) {
	case WEFT_OP_BIND:
		r = mem_window_bind(mem, qp->pd->number, wr->bind.is_qp_bound ? qp->number : 0,
				    &wr->bind);
		fail_locally(out, WEFT_ERR_BIND, r);
		return true;
	case WEFT_OP_INVALIDATE:
		r = mem_invalidate(mem, qp->pd->number, qp->number, wr->invalidate_tag);
		fail_locally(out, WEFT_ERR_BIND, r);
		return true;
	case WEFT_OP_REGISTER:
		fail_locally(out, WEFT_ERR_REGISTER, run_register(qp, wqe));
		return true;
	case WEFT_OP_DELAY:
		return send_queue_wait(qp, SEND_DELAYED, now_ns, wr->delay_ns);
	default:
		CHECK(false);
	}
	return true;
}

/* Works on the head of the queue. False: it waits. */
static bool run_head(struct weft_qp *qp, uint64_t now_ns, struct outcome *out)
{
	struct send_wqe *wqe = &qp->sq.wqes[qp->sq.head];
	enum weft_opcode opcode = wqe->wr.opcode;

	if (opcode >= WEFT_OP_BIND && opcode != WEFT_OP_REGISTER_SEND)
		return run_local(qp, wqe, now_ns, out);
	if (opcode == WEFT_OP_REGISTER_SEND && !wqe->is_registered) {
		fail_locally(out, WEFT_ERR_REGISTER, run_register(qp, wqe));
		if (out->status != WEFT_SUCCESS)
			return true;
		wqe->is_registered = true;
	}
	if (qp->transport->execute(qp, wqe, out))
		return true;
	if (!send_queue_wait(qp, SEND_BLOCKED, now_ns, qp->receiver_wait_ns))
		return false;
	*out = (struct outcome){
		.status = WEFT_ERR_RECEIVER_NOT_READY,
		.reason = WEFT_R_RECEIVER_NOT_READY,
	};
	return true;
}

/*
 * SQR-06. A request that failed on this side alone leaves the stream whole, so the consumer's
 * choice applies. One that the other side refused ends a reliable connection; the other services
 * share no state with a peer that could be lost.
 */
static void send_queue_failed(struct weft_qp *qp, const struct outcome *out)
{
	bool is_drained = qp->service != WEFT_RC;

	if (out->is_local)
		is_drained = qp->on_failure == WEFT_FAIL_DRAIN;
	if (!is_drained) {
		qp_fail(qp, out->reason);
		return;
	}
	qp_record(qp, out->reason);
	qp->is_draining = false;
	qp_state_move(qp, WEFT_QPS_SQE, out->reason);
	event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_QP_ERROR, out->reason);
	send_queue_flush(qp);
}

void send_queue_run(struct weft_qp *qp, uint64_t now_ns)
{
	/* Bound: every round retires a request, or leaves. */
	for (bool has_worked = false;; has_worked = true) {
		struct outcome out = { .status = WEFT_SUCCESS };
		bool is_running = qp->state == WEFT_QPS_RTS ||
				  (qp->state == WEFT_QPS_SQD && qp->sq.wait != SEND_RUNNING);

		if (qp->failing != WEFT_OK) {
			qp_fail(qp, qp->failing);
			return;
		}
		if (!is_running || qp->sq.count == 0)
			return;
		if (!run_head(qp, now_ns, &out)) {
			/* The work before it took time: the wait begins anew, by a fresh clock. */
			if (has_worked) {
				send_queue_unwait(qp);
				qp_ready(qp);
			}
			return;
		}
		send_queue_retire(qp, &out);
		if (out.status != WEFT_SUCCESS) {
			send_queue_failed(qp, &out);
			return;
		}
	}
}
