/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"
#include "verbs/commands.h"
#include "verbs/qp.h"

#include <stdlib.h>

#include "base/check.h"

_Static_assert(sizeof(struct send_wqe) == 64, "one cache line, its data apart");
_Static_assert(WEFT_REASON_COUNT <= UINT16_MAX, "a reason fits its field");

static size_t round_up(size_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

int send_queue_init(struct send_queue *q, const struct weft_qp_options *options, bool is_privileged)
{
	size_t data = sizeof(struct weft_bind);

	*q = (struct send_queue){
		.max = options->send_max,
		.sges_max = options->sges_max,
		.inline_max = options->inline_max_bytes,
	};
	if (data < q->sges_max * sizeof(struct weft_sge))
		data = q->sges_max * sizeof(struct weft_sge);
	if (data < q->inline_max)
		data = q->inline_max;
	q->slot_bytes = sizeof(struct send_wqe) + round_up(data);
	if (options->service == WEFT_ISCSI) {
		q->header_at = q->slot_bytes;
		q->slot_bytes += WEFT_ISCSI_BHS_BYTES;
	} else if (is_privileged) {
		q->register_at = q->slot_bytes;
		q->slot_bytes += round_up(sizeof(struct weft_region_options));
	}
	q->slots = malloc(q->max * q->slot_bytes);
	return q->slots ? 0 : -1;
}

void send_queue_fini(struct send_queue *q)
{
	free(q->slots);
	*q = (struct send_queue){ 0 };
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Ends a wait, whatever it was for. */
static void send_queue_unwait(struct weft_qp *qp)
{
	timer_queue_cancel(&qp->adapter->timers, &qp->timer);
	if (qp->sq.wait == SEND_BLOCKED)
		list_remove(&qp->sender_link);
	qp->sq.wait = SEND_RUNNING;
	qp->sq.is_expired = false;
}

/*
 * Whether the end of a request makes work beyond its completion: it failed, or others wait for it.
 * An iSCSI queue pair sends by itself what there is room for now.
 */
static bool has_more(const struct weft_qp *qp)
{
	const struct send_queue *q = &qp->sq;

	return q->begun < q->count || q->is_stopped || qp->is_draining || qp->service == WEFT_ISCSI;
}

void send_queue_end(struct weft_qp *qp, struct send_wqe *wqe, const struct outcome *out)
{
	CHECK(wqe->state == WQE_BEGUN);
	wqe->state = WQE_ENDED;
	wqe->status = (uint8_t)out->status;
	wqe->reason = (uint16_t)out->reason;
	wqe->is_local = out->is_local;
	wqe->byte_count = out->byte_count;
	qp->sq.flying -= opcode_is_carried(wqe->opcode);
	qp->sq.reads -= wqe_is_read(wqe);
	if (out->status != WEFT_SUCCESS)
		qp->sq.is_stopped = true;
	if (qp->sq.is_worked)
		return;
	send_queue_settle(qp);
	if (has_more(qp))
		qp_ready(qp);
}

static void complete(struct weft_qp *qp, const struct send_wqe *wqe)
{
	const struct weft_completion completion = {
		.id = wqe->id,
		.status = (enum weft_status)wqe->status,
		.opcode = (enum weft_opcode)wqe->opcode,
		.reason = (enum weft_reason)wqe->reason,
		.qp_number = qp->number,
		.byte_count = wqe->byte_count,
	};

	if (qp_fault_drawn(qp, FAULT_WC_DELAY) && cq_hold(qp->send_cq))
		qp_fault_made(qp, FAULT_WC_DELAY);
	if (!cq_push(qp->send_cq, &completion, false))
		qp_fail_later(qp, WEFT_R_CQ_OVERRUN);
}

static bool has_immediate(const struct send_wqe *wqe)
{
	return wqe->opcode == WEFT_OP_WRITE_IMM || wqe->opcode == WEFT_OP_SEND_IMM;
}

/* Takes the oldest request off the queue, with one completion if one is due. */
static void send_queue_retire(struct weft_qp *qp)
{
	struct send_queue *q = &qp->sq;
	struct send_wqe *wqe = send_queue_at(q, q->head);
	bool is_good = wqe->status == WEFT_SUCCESS;

	CHECK(q->begun > 0 && wqe->state == WQE_ENDED);
	if (wqe->opcode == WEFT_OP_BIND && wqe->status == WEFT_ERR_FLUSHED)
		mem_window_forget(&qp->adapter->mem, wqe_bind(wqe));
	if (wqe->opcode == WEFT_OP_ISCSI_COMMAND && !is_good)
		commands_end(qp, commands_find(qp, wqe->command_id));
	if (wqe->is_registered && !is_good)
		mem_region_unregister_reserved(&qp->adapter->mem, qp->pd->number,
					       wqe->register_tag);
	q->head = send_queue_slot(q, 1);
	q->begun--;
	q->count--;
	trace_add(qp->adapter->trace, (struct trace_event){
					      .kind = TRACE_SEND_RETIRED,
					      .who = qp->number,
					      .a = wqe->id,
					      .b = (uint64_t)wqe->opcode << 8 | wqe->status,
					      .reason = wqe->reason,
				      });
	if (is_good && has_immediate(wqe))
		trace_add(qp->adapter->trace, (struct trace_event){
						      .kind = TRACE_IMMEDIATE_OUT,
						      .who = qp->number,
						      .a = wqe->imm,
						      .b = wqe->length,
					      });
	if (!is_good || (wqe->flags & WEFT_SIGNALLED) || qp->is_every_send_signalled)
		complete(qp, wqe);
}

void send_queue_flush(struct weft_qp *qp)
{
	struct send_queue *q = &qp->sq;

	if (q->wait != SEND_RUNNING)
		send_queue_unwait(qp);
	q->begun = q->count;
	q->flying = 0;
	q->reads = 0;
	while (q->count > 0) {
		struct send_wqe *wqe = send_queue_at(q, q->head);

		if (wqe->state != WQE_ENDED) {
			wqe->state = WQE_ENDED;
			wqe->status = WEFT_ERR_FLUSHED;
			wqe->reason = WEFT_R_FLUSHED;
			wqe->byte_count = 0;
		}
		send_queue_retire(qp);
	}
	q->is_stopped = false;
}

void send_queue_settle(struct weft_qp *qp)
{
	const struct send_queue *q = &qp->sq;

	if (q->is_worked)
		return;
	while (q->begun > 0) {
		const struct send_wqe *wqe = send_queue_at(q, q->head);

		/* What failed ends more than itself: when the queue is worked on. */
		if (wqe->state != WQE_ENDED || wqe->status != WEFT_SUCCESS)
			return;
		send_queue_retire(qp);
	}
}

/*
 * SQR-06. A request that failed on this side alone leaves the stream whole, so the consumer's
 * choice applies. One that the other side refused ends a reliable connection; the other services
 * share no state with a peer that could be lost.
 */
static void send_queue_failed(struct weft_qp *qp, enum weft_reason reason, bool is_local)
{
	bool is_drained = qp->service != WEFT_RC && qp->service != WEFT_ISCSI;

	if (is_local)
		is_drained = qp->on_failure == WEFT_FAIL_DRAIN;
	if (!is_drained) {
		qp_fail(qp, reason);
		return;
	}
	qp_record(qp, reason);
	qp->is_draining = false;
	qp_state_move(qp, WEFT_QPS_SQE, reason);
	qp->events.state = WEFT_QPS_SQE;
	event_raise(&qp->adapter->events, &qp->events, WEFT_EVENT_QP_ERROR, reason);
	send_queue_flush(qp);
}

/* Retires what has ended, up to and including the first failure. False: there was one. */
static bool send_queue_reap(struct weft_qp *qp)
{
	struct send_queue *q = &qp->sq;

	while (q->begun > 0) {
		const struct send_wqe *wqe = send_queue_at(q, q->head);
		enum weft_reason reason = (enum weft_reason)wqe->reason;
		bool is_failed = wqe->status != WEFT_SUCCESS, is_local = wqe->is_local;

		if (wqe->state != WQE_ENDED)
			return true;
		send_queue_retire(qp);
		if (is_failed) {
			send_queue_failed(qp, reason, is_local);
			return false;
		}
	}
	return true;
}

/* ---- Beginnings ----------------------------------------------------------------------------- */

static void end_locally(struct weft_qp *qp, struct send_wqe *wqe, enum weft_status status,
			enum weft_reason reason)
{
	const struct outcome out = {
		.status = reason == WEFT_OK ? WEFT_SUCCESS : status,
		.reason = reason,
		.is_local = true,
	};

	send_queue_end(qp, wqe, &out);
}

/* SQR-04: the checks in their order, the first of them here. */
static enum weft_reason run_register(struct weft_qp *qp, struct send_wqe *wqe)
{
	const struct mem_owner owner = pd_owner(qp->pd);

	if (!qp->is_register_enabled)
		return WEFT_R_SQR_DISABLED;
	return mem_region_register_reserved(&qp->adapter->mem, &owner, wqe_region(&qp->sq, wqe),
					    wqe->register_tag);
}

/* Waits in the given way until woken or until the time is over. True when it is over. */
static bool send_queue_wait(struct weft_qp *qp, enum send_wait wait, uint64_t now_ns,
			    uint64_t time_ns)
{
	struct send_queue *q = &qp->sq;

	if (q->wait != wait) {
		q->wait = wait;
		timer_queue_set(&qp->adapter->timers, &qp->timer, deadline_after(now_ns, time_ns));
		return time_ns == 0;
	}
	return q->is_expired;
}

/* The operations that need no peer. False: it waits. */
static bool run_local(struct weft_qp *qp, struct send_wqe *wqe, uint64_t now_ns)
{
	struct mem_table *mem = &qp->adapter->mem;
	const struct weft_bind *bind = wqe_bind(wqe);
	enum weft_reason r = WEFT_OK;

	switch (wqe->opcode) {
	case WEFT_OP_BIND:
		r = mem_window_bind(mem, qp->pd->number, bind->is_qp_bound ? qp->number : 0, bind);
		break;
	case WEFT_OP_INVALIDATE:
		r = mem_invalidate(mem, qp->pd->number, qp->number, wqe->invalidate_tag);
		break;
	case WEFT_OP_REGISTER:
		end_locally(qp, wqe, WEFT_ERR_REGISTER, run_register(qp, wqe));
		return true;
	case WEFT_OP_DELAY:
		if (!send_queue_wait(qp, SEND_DELAYED, now_ns, wqe->operand))
			return false;
		break;
	default:
		CHECK(false);
	}
	end_locally(qp, wqe, WEFT_ERR_BIND, r);
	return true;
}

/* Those that the transport carries. False: it waits. */
static bool run_wire(struct weft_qp *qp, struct send_wqe *wqe, uint64_t now_ns)
{
	static const struct outcome not_ready = {
		.status = WEFT_ERR_RECEIVER_NOT_READY,
		.reason = WEFT_R_RECEIVER_NOT_READY,
	};

	if (wqe->opcode == WEFT_OP_REGISTER_SEND && !wqe->is_registered) {
		enum weft_reason r = run_register(qp, wqe);

		if (r != WEFT_OK) {
			end_locally(qp, wqe, WEFT_ERR_REGISTER, r);
			return true;
		}
		wqe->is_registered = true;
	}
	switch (qp->transport->issue(qp, wqe)) {
	case ISSUE_BEGUN:
		return true;
	case ISSUE_NO_ROOM:
		qp->sq.wait = SEND_FULL;
		return false;
	case ISSUE_NO_RECEIVE:
		break;
	}
	if (!send_queue_wait(qp, SEND_BLOCKED, now_ns, qp->receiver_wait_ns))
		return false;
	send_queue_end(qp, wqe, &not_ready);
	return true;
}

/* A fault on purpose that was drawn for this request. False: it waits. */
static bool run_fault(struct weft_qp *qp, struct send_wqe *wqe, uint64_t now_ns)
{
	static const struct outcome failed = {
		.status = WEFT_ERR_REMOTE_OPERATION,
		.reason = WEFT_R_FAULT_INJECTED,
	};

	if (wqe->is_held_up) {
		if (!wqe->is_holding)
			qp_fault_made(qp, FAULT_RNR);
		wqe->is_holding = true; /* the wait may begin anew */
		if (!send_queue_wait(qp, SEND_DELAYED, now_ns, qp->adapter->faults->rnr_ns))
			return false;
		send_queue_unwait(qp);
		wqe->is_held_up = false;
	}
	if (wqe->is_doomed) {
		qp_fault_made(qp, FAULT_QP_ERROR);
		send_queue_end(qp, wqe, &failed);
	}
	return true;
}

/*
 * Whether a request may begin while earlier ones are in flight. A fence waits for what is answered;
 * QP-02 bounds all that is in flight, and the depth that was agreed what is answered; what takes
 * memory away waits for requests that may still use it.
 */
static bool may_begin(const struct weft_qp *qp, const struct send_wqe *wqe)
{
	const struct send_queue *q = &qp->sq;

	if ((wqe->flags & WEFT_FENCE) && q->reads > 0)
		return false;
	if (wqe->opcode == WEFT_OP_BIND || wqe->opcode == WEFT_OP_INVALIDATE)
		return q->begun == 0;
	if (opcode_is_carried(wqe->opcode) && q->flying >= qp->outstanding_max)
		return false;
	return !wqe_is_read(wqe) || q->reads < qp->reads_max;
}

/* False: it waits. */
static bool run_request(struct weft_qp *qp, struct send_wqe *wqe, uint64_t now_ns)
{
	if (wqe->is_held_up || wqe->is_doomed) {
		if (!run_fault(qp, wqe, now_ns))
			return false;
		if (wqe->state == WQE_ENDED)
			return true;
	}
	return opcode_is_carried(wqe->opcode) ? run_wire(qp, wqe, now_ns)
					      : run_local(qp, wqe, now_ns);
}

/* Begins the next request. False: it waits. */
static bool run_next(struct weft_qp *qp, uint64_t now_ns)
{
	struct send_queue *q = &qp->sq;
	struct send_wqe *wqe = send_queue_at(q, send_queue_slot(q, q->begun));

	/* Whatever it is, it counts as begun while it is worked on, so that it can end. */
	wqe->state = WQE_BEGUN;
	q->begun++;
	q->flying += opcode_is_carried(wqe->opcode);
	q->reads += wqe_is_read(wqe);
	if (run_request(qp, wqe, now_ns))
		return true;
	wqe->state = WQE_QUEUED;
	q->begun--;
	q->flying -= opcode_is_carried(wqe->opcode);
	q->reads -= wqe_is_read(wqe);
	return false;
}

static bool has_next(const struct weft_qp *qp)
{
	const struct send_queue *q = &qp->sq;
	/* While the queue drains, only what had begun to wait goes on. */
	bool is_running = qp->state == WEFT_QPS_RTS ||
			  (qp->state == WEFT_QPS_SQD &&
			   (q->wait == SEND_DELAYED || q->wait == SEND_BLOCKED));

	return is_running && !q->is_stopped && q->begun < q->count &&
	       may_begin(qp, send_queue_at(q, send_queue_slot(q, q->begun)));
}

static void run_all(struct weft_qp *qp, uint64_t now_ns)
{
	/* Bound: every round begins a request, or leaves. */
	for (bool has_worked = false;; has_worked = true) {
		bool is_well = send_queue_reap(qp);

		if (qp->failing != WEFT_OK) {
			qp_fail(qp, qp->failing);
			return;
		}
		if (!is_well || !has_next(qp))
			return;
		if (!run_next(qp, now_ns)) {
			/* The work before it took time: the wait begins anew, by a fresh clock. */
			if (has_worked && qp->sq.wait != SEND_FULL) {
				send_queue_unwait(qp);
				qp_ready(qp);
			}
			return;
		}
		if (qp->sq.wait != SEND_RUNNING)
			send_queue_unwait(qp);
	}
}

void send_queue_run(struct weft_qp *qp, uint64_t now_ns)
{
	qp->sq.is_worked = true;
	run_all(qp, now_ns);
	qp->sq.is_worked = false;
}
