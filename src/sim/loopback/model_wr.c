/* SPDX-License-Identifier: BSD-2-Clause */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "sim/loopback/model.h"

/* The required outcome of a request, with all checks in the required order. */
enum verdict {
	FINE,
	BAD_LOCAL,    /* the requester may not use a local segment */
	BAD_BIND,     /* Bind or Invalidate is not allowed */
	BAD_REGISTER, /* registration is not allowed */
	NO_TARGET,
	NO_RECEIVE,
	BAD_REMOTE,  /* the target must refuse */
	BAD_RECEIVE, /* the target may not use its receive's memory */
	TOO_LONG     /* longer than the receive */
};

static const enum weft_status statuses[] = {
	[FINE] = WEFT_SUCCESS,
	[BAD_LOCAL] = WEFT_ERR_LOCAL_ACCESS,
	[BAD_BIND] = WEFT_ERR_BIND,
	[BAD_REGISTER] = WEFT_ERR_REGISTER,
	[NO_TARGET] = WEFT_ERR_PEER_GONE,
	[NO_RECEIVE] = WEFT_ERR_RECEIVER_NOT_READY,
	[BAD_REMOTE] = WEFT_ERR_REMOTE_ACCESS,
	[BAD_RECEIVE] = WEFT_ERR_REMOTE_OPERATION,
	[TOO_LONG] = WEFT_ERR_REMOTE_REQUEST,
};

static bool is_acknowledged(const struct model_qp *qp)
{
	return qp->service == WEFT_RC || qp->service == WEFT_RD;
}

static bool is_send(enum weft_opcode op)
{
	return op <= WEFT_OP_SEND_INVALIDATE || op == WEFT_OP_REGISTER_SEND;
}

static bool is_atomic(enum weft_opcode op)
{
	return op == WEFT_OP_COMPARE_SWAP || op == WEFT_OP_FETCH_ADD;
}

static struct model_qp *target_of(struct model *m, const struct model_qp *qp,
				  const struct model_send *send)
{
	bool is_connected = qp->service == WEFT_RC || qp->service == WEFT_UC;
	struct model_qp *t = model_qp_find(m, is_connected ? qp->peer : send->wr.dest_qp_number);

	if (!t || t->service != qp->service || t->state < WEFT_QPS_RTR || t->state > WEFT_QPS_SQE)
		return NULL;
	return is_connected && t->peer != qp->number ? NULL : t;
}

static struct weft_sge remote_range(const struct model_send *send)
{
	return (struct weft_sge){
		.addr = send->wr.remote_addr,
		.length = (uint32_t)send->length,
		.tag = send->wr.remote_tag,
	};
}

static bool may_local(struct model *m, const struct model_qp *qp, const struct model_send *send)
{
	enum model_access_kind kind = MODEL_LOCAL_READ;

	if (send->wr.opcode == WEFT_OP_READ)
		kind = MODEL_SINK;
	else if (is_atomic(send->wr.opcode))
		kind = MODEL_LOCAL_WRITE;
	if (send->wr.flags & WEFT_INLINE)
		return true;
	for (uint32_t i = 0; i < send->wr.sge_count; i++) {
		if (!model_may(m, qp, &send->sges[i], kind))
			return false;
	}
	return true;
}

static bool may_remote(struct model *m, const struct model_qp *target,
		       const struct model_send *send)
{
	struct weft_sge range = remote_range(send);
	enum model_access_kind kind = MODEL_REMOTE_WRITE;
	uint32_t right = WEFT_REMOTE_WRITE;

	if (send->wr.opcode == WEFT_OP_READ) {
		kind = MODEL_REMOTE_READ;
		right = WEFT_REMOTE_READ;
	} else if (is_atomic(send->wr.opcode)) {
		kind = MODEL_REMOTE_ATOMIC;
		right = WEFT_REMOTE_ATOMIC;
	}
	return (target->remote_rights & right) && model_may(m, target, &range, kind);
}

static enum verdict judge_receive(struct model *m, struct model_qp *target,
				  const struct model_send *send, const struct model_recv *recv)
{
	uint64_t room = 0;

	if (send->wr.opcode == WEFT_OP_SEND_INVALIDATE &&
	    !model_can_invalidate(m, target->process, target->number, send->wr.invalidate_tag))
		return BAD_REMOTE;
	for (uint32_t i = 0; i < recv->sge_count; i++) {
		if (!model_may(m, target, &recv->sges[i], MODEL_LOCAL_WRITE))
			return BAD_RECEIVE;
		room += recv->sges[i].length;
	}
	return send->length > room ? TOO_LONG : FINE;
}

static enum verdict judge_message(struct model *m, struct model_qp *target,
				  const struct model_send *send)
{
	struct model_recv_queue *q = model_recvs(m, target);
	const struct model_recv *recv = &q->wrs[q->head];

	if (m->pending.is_set)
		recv = &m->pending.recv;
	else if (q->count == 0)
		return NO_RECEIVE;
	if (send->wr.opcode == WEFT_OP_WRITE_IMM)
		return may_remote(m, target, send) ? FINE : BAD_REMOTE;
	return judge_receive(m, target, send, recv);
}

static enum verdict judge_local(struct model *m, const struct model_qp *qp,
				const struct model_send *send)
{
	switch (send->wr.opcode) {
	case WEFT_OP_BIND:
		return model_can_bind(m, qp->process, &send->wr.bind) ? FINE : BAD_BIND;
	case WEFT_OP_INVALIDATE:
		return model_can_invalidate(m, qp->process, qp->number, send->wr.invalidate_tag)
			       ? FINE
			       : BAD_BIND;
	case WEFT_OP_REGISTER:
		return send->is_made ? FINE : BAD_REGISTER;
	default:
		return FINE;
	}
}

static enum verdict judge(struct model *m, struct model_qp *qp, const struct model_send *send,
			  struct model_qp **target)
{
	enum weft_opcode op = send->wr.opcode;

	*target = NULL;
	if (op >= WEFT_OP_BIND && op != WEFT_OP_REGISTER_SEND)
		return judge_local(m, qp, send);
	if (op == WEFT_OP_REGISTER_SEND && !send->is_made)
		return BAD_REGISTER;
	if (!may_local(m, qp, send))
		return BAD_LOCAL;
	*target = target_of(m, qp, send);
	if (!*target)
		return NO_TARGET;
	if (is_send(op) || op == WEFT_OP_WRITE_IMM)
		return judge_message(m, *target, send);
	return may_remote(m, *target, send) ? FINE : BAD_REMOTE;
}

/* ---- What a request that is fine does ------------------------------------------------------- */

/* Byte number i of the requester's data. */
static uint8_t *local_byte(struct model *m, struct model_send *send, uint64_t i)
{
	uint32_t s = 0;

	if (send->wr.flags & WEFT_INLINE)
		return &send->inline_data[i];
	while (i >= send->sges[s].length)
		i -= send->sges[s++].length;
	return model_byte(m, &send->sges[s], i);
}

static uint8_t *recv_byte(struct model *m, const struct model_recv *recv, uint64_t i)
{
	uint32_t s = 0;

	while (i >= recv->sges[s].length)
		i -= recv->sges[s++].length;
	return model_byte(m, &recv->sges[s], i);
}

static void do_atomic(struct model *m, struct model_send *send)
{
	struct weft_sge range = remote_range(send);
	uint64_t old, new;
	uint8_t *word = model_byte(m, &range, 0);

	memcpy(&old, word, sizeof(old));
	new = old + send->wr.compare_add;
	if (send->wr.opcode == WEFT_OP_COMPARE_SWAP)
		new = old == send->wr.compare_add ? send->wr.swap : old;
	memcpy(word, &new, sizeof(new));
	for (uint32_t i = 0; i < sizeof(old); i++)
		*local_byte(m, send, i) = ((const uint8_t *)&old)[i];
}

static void do_rdma(struct model *m, struct model_send *send)
{
	struct weft_sge range = remote_range(send);

	if (is_atomic(send->wr.opcode)) {
		do_atomic(m, send);
	} else {
		for (uint64_t i = 0; i < send->length; i++) {
			uint8_t *remote = model_byte(m, &range, i);
			uint8_t *local = local_byte(m, send, i);

			if (send->wr.opcode == WEFT_OP_READ)
				*local = *remote;
			else
				*remote = *local;
		}
	}
	m->bytes += send->length;
	if (send->length > 0)
		model_touch(m, range.tag);
	for (uint32_t i = 0; send->wr.opcode == WEFT_OP_READ && i < send->wr.sge_count; i++) {
		if (send->sges[i].length > 0)
			model_touch(m, send->sges[i].tag);
	}
}

static void do_message(struct model *m, struct model_send *send)
{
	for (uint64_t i = 0; i < send->length; i++)
		*recv_byte(m, &m->pending.recv, i) = *local_byte(m, send, i);
	m->bytes += send->length;
	if (send->wr.opcode == WEFT_OP_SEND_INVALIDATE)
		model_invalidate(m, send->wr.invalidate_tag);
}

static void carry_out(struct model *m, struct model_qp *qp, struct model_send *send)
{
	switch (send->wr.opcode) {
	case WEFT_OP_BIND:
		model_bind(m, &send->wr.bind, send->wr.bind.is_qp_bound ? qp->number : 0);
		return;
	case WEFT_OP_INVALIDATE:
		model_invalidate(m, send->wr.invalidate_tag);
		return;
	case WEFT_OP_REGISTER:
	case WEFT_OP_DELAY:
		return;
	default:
		break;
	}
	if (is_send(send->wr.opcode))
		do_message(m, send);
	else
		do_rdma(m, send);
}

/* The receive that ended with this request must be the right one, with the right status. */
static void check_pending(struct model *m, const struct model_qp *target,
			  const struct model_send *send, enum verdict verdict)
{
	bool needs_receive = is_send(send->wr.opcode) || send->wr.opcode == WEFT_OP_WRITE_IMM;
	enum weft_status status = WEFT_SUCCESS;
	bool is_due = verdict == BAD_RECEIVE || verdict == TOO_LONG ||
		      (verdict == FINE && needs_receive);

	if (verdict == BAD_RECEIVE)
		status = WEFT_ERR_LOCAL_ACCESS;
	else if (verdict == TOO_LONG)
		status = WEFT_ERR_LOCAL_LENGTH;
	if (m->pending.is_set != is_due)
		model_fail(m, "request %" PRIu64 " %s a receive", send->wr.id,
			   is_due ? "did not end" : "should not have ended");
	else if (is_due && (&m->qps[m->pending.qp] != target || m->pending.status != status))
		model_fail(m, "request %" PRIu64 " ended the wrong receive, or in the wrong way",
			   send->wr.id);
	else if (is_due && verdict == FINE && m->pending.byte_count != send->length)
		model_fail(m, "receive %" PRIu64 " tells a wrong length", m->pending.recv.id);
}

uint32_t model_byte_count(const struct model_send *send)
{
	if (send->wr.opcode == WEFT_OP_READ || is_atomic(send->wr.opcode))
		return (uint32_t)send->length;
	return 0;
}

/* Sets what the receive's completion must say about the message. */
static void complete_pending(struct model *m, const struct model_qp *qp,
			     const struct model_send *send)
{
	struct weft_completion *c = m->pending.owed;

	if (!m->pending.is_set || !c)
		return;
	c->src_qp_number = qp->number;
	if (c->status != WEFT_SUCCESS)
		return;
	c->byte_count = (uint32_t)send->length;
	if (send->wr.opcode == WEFT_OP_WRITE_IMM)
		c->opcode = WEFT_OP_RECV_WRITE_IMM;
	if (send->wr.opcode == WEFT_OP_WRITE_IMM || send->wr.opcode == WEFT_OP_SEND_IMM) {
		c->has_imm = true;
		c->imm = send->wr.imm;
	}
	if (send->wr.opcode == WEFT_OP_SEND_INVALIDATE) {
		c->has_invalidated = true;
		c->invalidated_tag = send->wr.invalidate_tag;
	}
}

/* SQR-06: the state after a failure. */
static enum weft_qp_state state_after(const struct model_qp *qp, enum verdict verdict)
{
	if (verdict == BAD_LOCAL || verdict == BAD_BIND || verdict == BAD_REGISTER)
		return qp->on_failure == WEFT_FAIL_DRAIN ? WEFT_QPS_SQE : WEFT_QPS_ERROR;
	return qp->service == WEFT_RC ? WEFT_QPS_ERROR : WEFT_QPS_SQE;
}

/* Was there a valid reason to refuse the registration? */
static bool is_register_refusable(struct model *m, const struct model_qp *qp,
				  const struct model_send *send, enum weft_reason reason)
{
	const struct model_tag *t = model_tag_find(m, send->wr.reg.tag);

	if (!qp->is_register_enabled || !t || t->kind != MODEL_TAG_RESERVED ||
	    t->process != qp->process)
		return true;
	return !model_can_register(m, qp->process, &send->wr.reg.region) ||
	       (reason == WEFT_R_SQR_SPACE && m->is_tight);
}

void model_retired(struct model *m, struct model_qp *qp, enum weft_status status,
		   enum weft_reason reason)
{
	struct model_send *send = &qp->sends[qp->head];
	struct model_qp *target;
	enum verdict verdict = judge(m, qp, send, &target);
	enum weft_status due = statuses[verdict];
	bool is_lossy = !is_acknowledged(qp) && verdict >= NO_TARGET;

	if (is_lossy)
		due = WEFT_SUCCESS;
	if (m->is_dropped != is_lossy)
		model_fail(m, "request %" PRIu64 " was%s dropped", send->wr.id,
			   m->is_dropped ? "" : " not");
	if (status != due)
		model_fail(m, "request %" PRIu64 " (%s) on QP %u ended with %s (%s), due was %s",
			   send->wr.id, weft_opcode_name(send->wr.opcode), qp->number,
			   weft_status_name(status), weft_reason_name(reason),
			   weft_status_name(due));
	if (verdict == BAD_REGISTER && !is_register_refusable(m, qp, send, reason))
		model_fail(m, "request %" PRIu64 " was refused its registration: %s", send->wr.id,
			   weft_reason_name(reason));
	check_pending(m, target, send, verdict);
	complete_pending(m, qp, send);
	if (status != WEFT_SUCCESS)
		qp->state_due = state_after(qp, verdict);
	if (verdict == FINE && !m->failure[0]) {
		carry_out(m, qp, send);
		m->succeeded++;
	}
	m->pending.is_set = false;
	m->is_dropped = false;
}
