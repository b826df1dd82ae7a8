/* SPDX-License-Identifier: BSD-2-Clause */
#include "loopback/request.h"

#include "base/check.h"

static void request_failed(struct request *req, enum weft_status status, enum weft_reason reason)
{
	req->out.status = status;
	req->out.reason = reason;
}

/* An unacknowledged message is lost without a word to the requester; the adapter counts it. */
static void request_dropped(struct request *req, enum weft_reason reason)
{
	struct adapter *a = req->qp->adapter;

	a->messages_dropped++;
	trace_add(a->trace, (struct trace_event){
				    .kind = TRACE_DROPPED,
				    .who = req->qp->number,
				    .a = req->wqe->id,
				    .reason = (uint16_t)reason,
			    });
}

/* RKEY-09: the target refuses. It tells its own consumer, and the requester if that is due. */
static void request_refused(struct request *req, enum weft_reason reason, uint32_t tag)
{
	struct weft_qp *target = req->target;

	qp_refused(target, reason, req->wqe->remote_addr, tag);
	if (!qp_is_acknowledged(req->qp)) {
		request_dropped(req, reason);
		return;
	}
	if (target->service == WEFT_RC)
		qp_record(target, reason);
	request_failed(req, WEFT_ERR_REMOTE_ACCESS, reason);
}

/* Checks a list of segments for a queue pair, all of them before any is used (LOC-06). */
static enum weft_reason open_segments(struct weft_qp *qp, const struct weft_sge *segments,
				      uint32_t count, enum mem_kind kind, struct mem_vec *vec)
{
	mem_vec_init(vec);
	for (uint32_t i = 0; i < count; i++) {
		struct mem_access access = {
			.addr = segments[i].addr,
			.length = segments[i].length,
			.tag = segments[i].tag,
			.kind = kind,
		};
		struct mem_grant grant;
		enum weft_reason r = qp_access(qp, &access, &grant);

		if (r != WEFT_OK)
			return r;
		mem_vec_add(vec, &grant);
	}
	return WEFT_OK;
}

bool request_open_local(struct request *req)
{
	struct send_wqe *wqe = req->wqe;
	enum weft_opcode opcode = (enum weft_opcode)wqe->opcode;
	enum mem_kind kind = MEM_LOCAL_READ;
	enum weft_reason r;

	if (wqe->flags & WEFT_INLINE) {
		struct mem_grant grant = mem_grant_of(wqe_inline(wqe), wqe->length);

		mem_vec_init(&req->local);
		mem_vec_add(&req->local, &grant);
		return true;
	}
	if (opcode == WEFT_OP_READ)
		kind = MEM_READ_SINK;
	else if (opcode == WEFT_OP_COMPARE_SWAP || opcode == WEFT_OP_FETCH_ADD)
		kind = MEM_LOCAL_WRITE;
	r = open_segments(req->qp, wqe_segments(wqe), wqe->sge_count, kind, &req->local);
	if (r == WEFT_OK)
		return true;
	request_failed(req, WEFT_ERR_LOCAL_ACCESS, r);
	req->out.is_local = true;
	return false;
}

void request_no_target(struct request *req)
{
	enum weft_reason reason = req->qp->service == WEFT_RC ? WEFT_R_PEER_GONE
							      : WEFT_R_PEER_UNKNOWN;

	if (qp_is_acknowledged(req->qp))
		request_failed(req, WEFT_ERR_PEER_GONE, reason);
	else
		request_dropped(req, reason);
}

/* ---- Memory operations ---------------------------------------------------------------------- */

/* The target's check of the remote range. False: refused, and the request has ended. */
static bool open_remote(struct request *req, enum mem_kind kind, enum weft_right right,
			struct mem_vec *vec)
{
	struct send_wqe *wqe = req->wqe;
	struct weft_qp *target = req->target;
	struct mem_access access = {
		.addr = wqe->remote_addr,
		.length = req->wqe->length,
		.tag = wqe->remote_tag,
		.kind = kind,
	};
	struct mem_grant grant;
	enum weft_reason r = WEFT_OK;

	if (!(target->remote_rights & right))
		r = WEFT_R_QP_REMOTE_RIGHTS;
	if (r == WEFT_OK)
		r = qp_access(target, &access, &grant);
	if (r != WEFT_OK) {
		request_refused(req, r, wqe->remote_tag);
		return false;
	}
	mem_vec_init(vec);
	mem_vec_add(vec, &grant);
	return true;
}

/*
 * False: one side has gone since it was looked at. Then the request has ended if that is its own,
 * and *is_remote if it is the other's.
 */
static bool move_bytes(struct request *req, struct mem_vec *to, struct mem_vec *from,
		       uint64_t length, bool *is_remote)
{
	enum mem_gone gone = mem_vec_copy(to, from, length);
	const struct mem_vec *lost = gone == MEM_TO_GONE ? to : from;

	if (gone == MEM_NONE_GONE) {
		req->qp->adapter->bytes_moved += length;
		return true;
	}
	*is_remote = lost != &req->local;
	if (!*is_remote) {
		request_failed(req, WEFT_ERR_LOCAL_ACCESS, WEFT_R_MEMORY_GONE);
		req->out.is_local = true;
	}
	return false;
}

/* The same of a memory operation. */
static bool move_remote(struct request *req, struct mem_vec *to, struct mem_vec *from,
			uint64_t length)
{
	bool is_remote;

	if (move_bytes(req, to, from, length, &is_remote))
		return true;
	if (is_remote)
		request_refused(req, WEFT_R_MEMORY_GONE, req->wqe->remote_tag);
	return false;
}

/* A message of no bytes touches nothing, so it uses up no touch either. */
static void end_touch(struct request *req)
{
	if (req->wqe->length > 0)
		mem_touch_message(&req->target->adapter->mem, req->wqe->remote_tag);
}

/*
 * AMB-04: a Read's response is a message to its sinks, and the one touch of theirs if that is all.
 */
static void touch_sinks(struct request *req)
{
	struct send_wqe *wqe = req->wqe;

	for (uint32_t i = 0; i < wqe->sge_count; i++) {
		const struct weft_sge *sink = &wqe_segments(wqe)[i];

		if (sink->length > 0)
			mem_touch_message(&req->qp->adapter->mem, sink->tag);
	}
}

void request_write(struct request *req)
{
	struct mem_vec remote;

	if (!open_remote(req, MEM_REMOTE_WRITE, WEFT_REMOTE_WRITE, &remote))
		return;
	if (move_remote(req, &remote, &req->local, req->wqe->length))
		end_touch(req);
}

void request_read(struct request *req)
{
	struct mem_vec remote;

	if (!open_remote(req, MEM_REMOTE_READ, WEFT_REMOTE_READ, &remote))
		return;
	if (!move_remote(req, &req->local, &remote, req->wqe->length))
		return;
	req->out.byte_count = (uint32_t)req->wqe->length;
	end_touch(req);
	touch_sinks(req);
}

void request_atomic(struct request *req)
{
	struct send_wqe *wqe = req->wqe;
	struct mem_vec remote, old_vec;
	struct mem_grant old_grant;
	const struct mem_atomic op = {
		.is_add = wqe->opcode == WEFT_OP_FETCH_ADD,
		.add = wqe->operand,
		.swap = { wqe->operand, UINT64_MAX, wqe->swap, UINT64_MAX },
	};
	uint64_t old;

	if (!open_remote(req, MEM_REMOTE_ATOMIC, WEFT_REMOTE_ATOMIC, &remote))
		return;
	if (!mem_atomic_run(&op, &remote.grants[0], &old)) {
		request_refused(req, WEFT_R_MEMORY_GONE, wqe->remote_tag);
		return;
	}
	old_grant = mem_grant_of(&old, sizeof(old));
	mem_vec_init(&old_vec);
	mem_vec_add(&old_vec, &old_grant);
	if (!move_remote(req, &req->local, &old_vec, sizeof(old)))
		return;
	req->out.byte_count = sizeof(old);
	end_touch(req);
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* Whether the target has a receive. If not, the message waits for one, or is lost. */
static bool has_receive(struct request *req, bool *is_waiting)
{
	struct recv_queue *q = qp_recv_queue(req->target);

	*is_waiting = false;
	if (q->posted > 0)
		return true;
	if (!qp_is_acknowledged(req->qp)) {
		request_dropped(req, WEFT_R_RECEIVER_NOT_READY);
		return false;
	}
	*is_waiting = true;
	qp_await_receive(req->qp, q);
	return false;
}

/* The receive at the head of the target's queue is at fault: it ends, and the message with it. */
static void receive_failed(struct request *req, enum weft_status status, enum weft_reason reason)
{
	struct weft_qp *target = req->target;
	struct weft_completion completion = {
		.status = status,
		.opcode = WEFT_OP_RECV,
		.reason = reason,
		.src_qp_number = req->qp->number,
	};

	qp_recv_retire(target, &completion, false);
	if (target->service == WEFT_RC)
		qp_record(target, reason);
	else if (target->service != WEFT_RD)
		qp_fail_later(target, reason);
	if (!qp_is_acknowledged(req->qp))
		request_dropped(req, reason);
	else if (status == WEFT_ERR_LOCAL_LENGTH)
		request_failed(req, WEFT_ERR_REMOTE_REQUEST, reason);
	else
		request_failed(req, WEFT_ERR_REMOTE_OPERATION, WEFT_R_PEER_RECEIVE);
}

/* Places the message by the receive's scatter list. False: that failed, and so has the request. */
static bool place_message(struct request *req)
{
	struct weft_qp *target = req->target;
	struct mem_vec to;
	enum weft_reason r;
	bool is_remote;

	qp_recv_claim(target);
	r = open_segments(target, target->recv->sges, target->recv->sge_count, MEM_LOCAL_WRITE,
			  &to);
	if (r != WEFT_OK) {
		receive_failed(req, WEFT_ERR_LOCAL_ACCESS, r);
		return false;
	}
	if (req->wqe->length > to.length) {
		receive_failed(req, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
		return false;
	}
	if (move_bytes(req, &to, &req->local, req->wqe->length, &is_remote))
		return true;
	if (is_remote) {
		receive_failed(req, WEFT_ERR_LOCAL_ACCESS, WEFT_R_MEMORY_GONE);
	} else {
		recv_queue_return(qp_recv_queue(target), target->recv);
		target->recv = NULL;
	}
	return false;
}

bool request_send(struct request *req)
{
	struct send_wqe *wqe = req->wqe;
	struct weft_qp *target = req->target;
	struct mem_table *mem = &target->adapter->mem;
	bool is_waiting, is_invalidate = wqe->opcode == WEFT_OP_SEND_INVALIDATE;
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV,
		.src_qp_number = req->qp->number,
		.byte_count = (uint32_t)req->wqe->length,
		.has_imm = wqe->opcode == WEFT_OP_SEND_IMM,
		.imm = wqe->opcode == WEFT_OP_SEND_IMM ? wqe->imm : 0,
		.has_invalidated = is_invalidate,
		.invalidated_tag = is_invalidate ? wqe->invalidate_tag : 0,
	};
	enum weft_reason r = WEFT_OK;

	if (!has_receive(req, &is_waiting))
		return !is_waiting;
	if (is_invalidate)
		r = mem_invalidate_check(mem, target->pd->number, target->number,
					 wqe->invalidate_tag);
	if (r != WEFT_OK) {
		request_refused(req, r, wqe->invalidate_tag); /* SQR-10 */
		return true;
	}
	if (!place_message(req))
		return true;
	if (is_invalidate) { /* SQR-09: before the consumer sees the completion */
		r = mem_invalidate(mem, target->pd->number, target->number, wqe->invalidate_tag);
		CHECK(r == WEFT_OK);
	}
	qp_recv_retire(target, &completion, wqe->flags & WEFT_SOLICITED);
	return true;
}

bool request_write_imm(struct request *req)
{
	struct send_wqe *wqe = req->wqe;
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV_WRITE_IMM,
		.src_qp_number = req->qp->number,
		.byte_count = (uint32_t)req->wqe->length,
		.has_imm = true,
		.imm = wqe->imm,
	};
	struct mem_vec remote;
	bool is_waiting;

	if (!has_receive(req, &is_waiting))
		return !is_waiting;
	if (!open_remote(req, MEM_REMOTE_WRITE, WEFT_REMOTE_WRITE, &remote))
		return true;
	if (!move_remote(req, &remote, &req->local, req->wqe->length))
		return true;
	end_touch(req);
	qp_recv_claim(req->target);
	qp_recv_retire(req->target, &completion, wqe->flags & WEFT_SOLICITED);
	return true;
}
