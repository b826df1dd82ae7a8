/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "sim/iwarp/iwarp_world.h"

static bool is_message(const struct iw_wr *wr)
{
	return wr->opcode == WEFT_OP_SEND || wr->opcode == WEFT_OP_SEND_INVALIDATE ||
	       wr->opcode == WEFT_OP_WRITE_IMM;
}

static bool is_answered(const struct iw_wr *wr)
{
	return wr->opcode == WEFT_OP_READ || wr->opcode == WEFT_OP_COMPARE_SWAP ||
	       wr->opcode == WEFT_OP_FETCH_ADD;
}

static bool is_corrupted(struct iwarp_world *w, uint32_t end)
{
	return iw_tcp(w, end)->is_corrupted || iw_tcp(w, end ^ 1)->is_corrupted;
}

/* ---- Reasons -------------------------------------------------------------------------------- */

void iw_allow(struct iwarp_world *w, uint32_t end, enum weft_reason reason)
{
	w->ends[end].reasons[reason / 64] |= UINT64_C(1) << reason % 64;
}

void iw_allow_end(struct iwarp_world *w, uint32_t end)
{
	/*
	 * An end that cannot close its half of the stream cleanly resets it; a responder that has
	 * received nothing yet just closes.
	 */
	for (uint32_t k = 0; k < 2; k++) {
		iw_allow(w, end ^ k, WEFT_R_STREAM_LOST);
		iw_allow(w, end ^ k, WEFT_R_STREAM_CUT);
		iw_allow(w, end ^ k, WEFT_R_PEER_GONE);
	}
}

static bool is_allowed(struct iwarp_world *w, uint32_t end, enum weft_reason reason)
{
	return is_corrupted(w, end) || (w->ends[end].reasons[reason / 64] >> reason % 64 & 1) != 0;
}

/* ---- What has taken effect ------------------------------------------------------------------ */

/* All bytes of the Write must be in place, except those that a later Write is changing. */
static void settle_write(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	uint32_t p = w->ends[end ^ 1].process;
	struct iw_process *to = &w->processes[p];
	struct iw_slot *s = &to->slots[wr->remote];
	struct iw_part part = { s->offset + wr->at, wr->length };

	if (wr->length == 0)
		return;
	if (wr->is_dead) {
		if (!wr->was_whole)
			iw_fail(w, "Write %u was not whole when its target closed, but went on",
				(uint32_t)wr->id);
		return;
	}
	w->bytes += wr->length;
	if (s->is_tainted) {
		iw_shadow_sync(to, part.offset, part.length);
		return;
	}
	for (uint32_t i = 0; i < wr->length; i++)
		to->shadow[part.offset + i] = iw_pattern(wr->key, i);
	if (!iw_equals(to, &part, wr->key, 0))
		iw_memory_judge(w, p);
}

/* A slot that a message should have closed must be closed. */
static void settle_closed(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	uint32_t p = w->ends[end ^ 1].process;
	struct iw_slot *s = &w->processes[p].slots[wr->remote];

	s->is_moving = false;
	if (s->tag != wr->remote_tag)
		return;
	if (iw_slot_is_reached(w, p, s))
		iw_fail(w, "request %u went by, but tag 0x%08x is still open", (uint32_t)wr->id,
			s->tag);
	iw_slot_closed(w, p, s);
}

static void settle_one(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	const struct iw_slot *s = NULL;

	/* A request with an answer may still be refused. */
	if (wr->is_unsent || (wr->is_forbidden && is_answered(wr)))
		return;
	if (wr->is_forbidden) {
		/* A Read may wait for earlier answers; its completion tells. */
		if (wr->opcode != WEFT_OP_READ)
			iw_fail(w, "%s %u was let through, but is forbidden",
				weft_opcode_name(wr->opcode), (uint32_t)wr->id);
		return;
	}
	if (wr->remote == IW_NONE)
		return;
	s = &iw_owner(w, end ^ 1)->slots[wr->remote];
	if (wr->opcode == WEFT_OP_WRITE || wr->opcode == WEFT_OP_WRITE_IMM)
		settle_write(w, end, wr);
	/* A request with an answer has arrived, but takes effect with its answer. */
	if (wr->opcode == WEFT_OP_SEND_INVALIDATE ||
	    (s->is_one_touch && wr->length > 0 && s->tag == wr->remote_tag && !is_answered(wr)))
		settle_closed(w, end, wr);
}

/* All requests of the end's log before n must have taken effect at the peer: checks that. */
static void iw_log_settle(struct iwarp_world *w, uint32_t end, uint32_t n)
{
	struct iw_end *e = &w->ends[end];

	while (e->settled < n && !w->failure[0])
		settle_one(w, end, &e->log[e->settled++]);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static bool status_fits(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr,
			enum weft_status status)
{
	switch (status) {
	case WEFT_SUCCESS:
		return !wr->is_doomed && !(wr->is_forbidden && is_answered(wr));
	case WEFT_ERR_FLUSHED:
		return !w->limits.is_honest;
	case WEFT_ERR_LOCAL_ACCESS:
		return wr->is_doomed || wr->is_local_bad;
	case WEFT_ERR_BIND:
		return wr->is_doomed;
	case WEFT_ERR_REMOTE_ACCESS:
	case WEFT_ERR_REMOTE_OPERATION:
	case WEFT_ERR_REMOTE_REQUEST:
		return is_answered(wr) &&
		       (wr->is_forbidden || wr->is_pulled || is_corrupted(w, end));
	default:
		return false;
	}
}

static void judge_atomic(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	const struct iw_process *proc = iw_owner(w, end);
	struct iw_word *word;
	uint8_t bytes[sizeof(uint64_t)];
	uint64_t old, nth;
	uint32_t at = 0;

	for (uint32_t i = 0; i < wr->part_count; i++) {
		memcpy(bytes + at, proc->shadow + wr->parts[i].offset, wr->parts[i].length);
		at += wr->parts[i].length;
	}
	memcpy(&old, bytes, sizeof(old));
	if (wr->word == IW_NONE) {
		if (old != wr->expected)
			iw_fail(w, "atomic %u gave back 0x%llx, due was 0x%llx", (uint32_t)wr->id,
				(unsigned long long)old, (unsigned long long)wr->expected);
		return;
	}
	if (wr->birth != iw_owner(w, end ^ 1)->births)
		return; /* the word is gone with its process */
	word = &iw_owner(w, end ^ 1)->words[wr->word];
	nth = old - word->first;
	if (nth >= word->posted || (word->seen[nth / 8] >> nth % 8 & 1))
		iw_fail(w, "atomic %u gave back a value that was given before, or never was",
			(uint32_t)wr->id);
	else
		word->seen[nth / 8] |= (uint8_t)(1U << nth % 8);
	word->done++;
}

/* The answer must be in its place, and nowhere else. */
static void judge_answer(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	struct iw_process *proc = iw_owner(w, end);
	uint32_t at = 0;

	for (uint32_t i = 0; i < wr->part_count; i++) {
		const struct iw_part *part = &wr->parts[i];

		if (wr->opcode == WEFT_OP_READ && !proc->slots[wr->slot].is_tainted &&
		    !iw_equals(proc, part, wr->key, wr->at + at))
			iw_fail(w, "Read %u brought wrong bytes", (uint32_t)wr->id);
		iw_shadow_sync(proc, part->offset, part->length);
		at += part->length;
	}
	w->bytes += at;
	if (wr->opcode != WEFT_OP_READ)
		judge_atomic(w, end, wr);
}

/* A bind or an invalidation on the end's own queue. */
static void local_ended(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	struct iw_slot *s;

	if (wr->opcode != WEFT_OP_BIND && wr->opcode != WEFT_OP_INVALIDATE)
		return;
	s = &iw_owner(w, end)->slots[wr->slot];
	s->is_moving = false;
	if (wr->is_dropped)
		return;
	if (wr->opcode == WEFT_OP_INVALIDATE) {
		if (iw_slot_is_reached(w, w->ends[end].process, s))
			iw_fail(w, "tag 0x%08x was invalidated, but is still open", s->tag);
		iw_slot_closed(w, w->ends[end].process, s);
		return;
	}
	s->tag = wr->remote_tag;
	s->window = wr->remote_tag;
	s->start = wr->expected;
	s->is_one_touch = wr->at & 1;
	s->is_qp_bound = wr->at & 2;
	s->is_spent = false;
}

/* The peer has answered the request. If the peer has died since, that was checked then. */
static void settle_answer(struct iwarp_world *w, uint32_t end, const struct iw_wr *wr)
{
	const struct iw_slot *s = &iw_owner(w, end ^ 1)->slots[wr->remote];

	iw_log_settle(w, end, w->ends[end].ended);
	if (!w->ends[end ^ 1].is_frozen && wr->opcode == WEFT_OP_READ && s->is_one_touch &&
	    wr->length > 0 && s->tag == wr->remote_tag)
		settle_closed(w, end, wr);
}

static void request_ended(struct iwarp_world *w, uint32_t end, enum weft_status status)
{
	struct iw_end *e = &w->ends[end];
	struct iw_wr *wr = &e->log[e->ended];
	struct iw_process *proc = iw_owner(w, end);

	w->requests++;
	w->succeeded += status == WEFT_SUCCESS;
	wr->is_ended = true;
	wr->is_dropped = status != WEFT_SUCCESS;
	wr->status = status;
	if (!status_fits(w, end, wr, status))
		iw_fail(w, "%s %u of end %u ended with %s", weft_opcode_name(wr->opcode),
			(uint32_t)wr->id, end, weft_status_name(status));
	if (is_answered(wr) && wr->is_dropped && wr->length > 0) {
		/* A part of the answer may have arrived. */
		iw_memory_judge(w, e->process);
		for (uint32_t i = 0; i < wr->part_count; i++)
			iw_shadow_sync(proc, wr->parts[i].offset, wr->parts[i].length);
	}
	if (is_answered(wr) && !wr->is_dropped && wr->opcode != WEFT_OP_READ &&
	    wr->word == IW_NONE && !w->ends[end ^ 1].is_frozen)
		e->word_now = wr->after;
	e->ended++;
	if (wr->slot != IW_NONE) {
		CHECK(proc->slots[wr->slot].users > 0);
		proc->slots[wr->slot].users--;
	}
	local_ended(w, end, wr);
	if (is_answered(wr) && !wr->is_dropped) {
		judge_answer(w, end, wr);
		settle_answer(w, end, wr);
	}
}

static void send_completed(struct iwarp_world *w, uint32_t end, const struct weft_completion *c)
{
	struct iw_end *e = &w->ends[end];
	const struct iw_wr *wr;

	while (e->ended < e->posted && e->log[e->ended].id != c->id) {
		if (e->log[e->ended].is_signalled) {
			iw_fail(w, "request %u ended before %u", (uint32_t)c->id,
				(uint32_t)e->log[e->ended].id);
			return;
		}
		request_ended(w, end, WEFT_SUCCESS);
	}
	if (e->ended == e->posted) {
		iw_fail(w, "request %u ended, but was not posted or ended before", (uint32_t)c->id);
		return;
	}
	wr = &e->log[e->ended];
	if (c->opcode != wr->opcode || (c->status == WEFT_SUCCESS && !wr->is_signalled) ||
	    (c->status == WEFT_SUCCESS) != (c->reason == WEFT_OK) ||
	    (c->status == WEFT_SUCCESS && is_answered(wr) && c->byte_count != wr->length))
		iw_fail(w, "the completion of request %u is not like it", (uint32_t)c->id);
	request_ended(w, end, c->status);
}

void iw_judge_log_over(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end];

	while (e->ended < e->posted && !w->failure[0]) {
		if (e->log[e->ended].is_signalled)
			iw_fail(w, "request %u has no completion", (uint32_t)e->log[e->ended].id);
		request_ended(w, end, WEFT_SUCCESS);
	}
	if (e->recvs.count > 0)
		iw_fail(w, "receive %u has no completion",
			(uint32_t)e->recvs.recvs[e->recvs.first].id);
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* The peer's message that must arrive next; NULL: none was posted. */
static struct iw_wr *message_next(struct iw_end *from)
{
	while (from->received < from->posted) {
		struct iw_wr *wr = &from->log[from->received];

		if (is_message(wr) && !wr->is_unsent)
			return wr;
		from->received++;
	}
	return NULL;
}

static void judge_payload(struct iwarp_world *w, uint32_t end, const struct iw_recv *recv,
			  const struct iw_wr *wr)
{
	struct iw_process *proc = iw_owner(w, end);
	uint32_t at = 0;

	if (wr->opcode == WEFT_OP_WRITE_IMM)
		return;
	for (uint32_t i = 0; i < recv->part_count && at < wr->length; i++) {
		struct iw_part part = recv->parts[i];

		if (part.length > wr->length - at)
			part.length = wr->length - at;
		if (!iw_equals(proc, &part, wr->key, at))
			iw_fail(w, "receive %u has not the bytes of Send %u", (uint32_t)recv->id,
				(uint32_t)wr->id);
		iw_shadow_sync(proc, part.offset, part.length);
		at += part.length;
	}
	if (at < wr->length)
		iw_fail(w, "receive %u took more than it has room for", (uint32_t)recv->id);
	w->bytes += at;
}

static void message_received(struct iwarp_world *w, uint32_t end, const struct iw_recv *recv,
			     const struct weft_completion *c)
{
	struct iw_end *from = &w->ends[end ^ 1];
	const struct iw_wr *wr = message_next(from);
	bool has_imm, has_invalidated;

	if (!wr) {
		iw_fail(w, "receive %u has a message that was never sent", (uint32_t)c->id);
		return;
	}
	has_imm = wr->opcode == WEFT_OP_WRITE_IMM;
	has_invalidated = wr->opcode == WEFT_OP_SEND_INVALIDATE;
	if (c->opcode != (has_imm ? WEFT_OP_RECV_WRITE_IMM : WEFT_OP_RECV) ||
	    c->has_imm != has_imm || (has_imm && c->imm != wr->imm) ||
	    c->has_invalidated != has_invalidated ||
	    (has_invalidated && c->invalidated_tag != wr->remote_tag) ||
	    c->byte_count != wr->length)
		iw_fail(w, "receive %u (%u bytes) is not like %s %u (%u bytes)", (uint32_t)c->id,
			c->byte_count, weft_opcode_name(wr->opcode), (uint32_t)wr->id, wr->length);
	judge_payload(w, end, recv, wr);
	if (wr->flags & WEFT_SOLICITED)
		iw_owner(w, end)->has_news = true;
	w->received++;
	from->received++;
	iw_log_settle(w, end ^ 1, from->received);
}

/* A receive that ended without a message. */
static void receive_failed(struct iwarp_world *w, uint32_t end, const struct iw_recv *recv,
			   const struct weft_completion *c)
{
	const struct iw_wr *wr = message_next(&w->ends[end ^ 1]);
	bool is_fit = false, is_touched = true;

	switch (c->status) {
	case WEFT_ERR_FLUSHED:
		is_fit = !w->limits.is_honest;
		/* Only the oldest receive can have been in use. */
		is_touched = w->ends[end].has_srq || !w->ends[end].is_flushing;
		w->ends[end].is_flushing = true;
		break;
	case WEFT_ERR_LOCAL_LENGTH:
		is_fit = is_corrupted(w, end) || (wr && wr->length > recv->room);
		break;
	case WEFT_ERR_LOCAL_ACCESS:
		is_fit = recv->is_local_bad;
		break;
	default:
		break;
	}
	if (!is_fit)
		iw_fail(w, "receive %u of end %u ended with %s", (uint32_t)c->id, end,
			weft_status_name(c->status));
	for (uint32_t i = 0; i < recv->part_count && is_touched && !recv->is_dead; i++)
		iw_shadow_sync(iw_owner(w, end), recv->parts[i].offset, recv->parts[i].length);
}

static void recv_completed(struct iwarp_world *w, uint32_t end, const struct weft_completion *c)
{
	struct iw_process *proc = iw_owner(w, end);
	struct iw_recv_queue *q = w->ends[end].has_srq ? &proc->srq_recvs : &w->ends[end].recvs;
	uint32_t n = 0;
	struct iw_recv recv;

	/*
	 * Receives of a queue pair's own queue end in order; shared ones in the order of their
	 * messages.
	 */
	while (n < q->count && q->recvs[(q->first + n) % IW_RECVS].id != c->id)
		n++;
	if (n == q->count || (n > 0 && !w->ends[end].has_srq)) {
		iw_fail(w, "receive %u ended, but it is not its turn", (uint32_t)c->id);
		return;
	}
	recv = q->recvs[(q->first + n) % IW_RECVS];
	for (; n > 0; n--)
		q->recvs[(q->first + n) % IW_RECVS] = q->recvs[(q->first + n - 1) % IW_RECVS];
	q->first = (q->first + 1) % IW_RECVS;
	q->count--;
	proc->slots[recv.slot].users--;
	if (c->status == WEFT_SUCCESS)
		message_received(w, end, &recv, c);
	else
		receive_failed(w, end, &recv, c);
}

static void completed(struct iwarp_world *w, uint32_t p, const struct weft_completion *c)
{
	uint32_t end = iw_end_next(w, p, IW_NONE);

	while (end != IW_NONE && w->ends[end].qp_number != c->qp_number)
		end = iw_end_next(w, p, end);
	if (c->status != WEFT_SUCCESS)
		w->processes[p].has_news = true;
	if (end == IW_NONE)
		iw_fail(w, "process %u: a completion of an unknown queue pair", p);
	else if (c->opcode >= WEFT_OP_RECV)
		recv_completed(w, end, c);
	else
		send_completed(w, end, c);
}

/* An armed queue must have notified if, and only if, a solicited or failed completion came. */
static void judge_arm(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	if (proc->is_armed && proc->has_news != (proc->cq->arm == CQ_UNARMED))
		iw_fail(w, "process %u: its completion queue has %srung", p,
			proc->has_news ? "not " : "");
	proc->is_armed = proc->is_armed || iw_draw(w, 8) == 0;
	proc->has_news = false;
	if (proc->is_armed)
		CHECK(cq_arm(proc->cq, WEFT_ARM_SOLICITED) == WEFT_OK);
}

void iw_poll(struct iwarp_world *w, uint32_t p)
{
	struct weft_completion c;
	uint32_t count = 1;

	while (count > 0 && !w->failure[0]) {
		if (cq_poll(w->processes[p].cq, &c, 1, &count) != WEFT_OK)
			iw_fail(w, "process %u: a completion was lost", p);
		if (count > 0)
			completed(w, p, &c);
	}
	if (!w->failure[0])
		judge_arm(w, p);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* It is unknown whether messages that open or close the slot arrived: take its real state. */
static void freeze_slot(struct iwarp_world *w, uint32_t end, uint32_t i)
{
	const struct iw_end *e = &w->ends[end];
	struct iw_slot *s = &iw_owner(w, end)->slots[i];
	bool is_own = false;

	for (uint32_t n = e->ended; n < e->posted; n++)
		is_own = is_own || e->log[n].slot == i;
	s->is_spent = false;
	s->is_moving = s->is_moving && is_own;
	if (s->tag && !iw_slot_is_reached(w, e->process, s))
		iw_slot_closed(w, e->process, s);
}

/* Nothing more can arrive from the peer. */
static void freeze(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end], *from = &w->ends[end ^ 1];
	struct iw_process *proc = iw_owner(w, end);

	iw_memory_judge(w, e->process);
	e->is_frozen = true;
	from->settled = from->posted;
	for (uint32_t i = 0; i < proc->slot_count; i++) {
		const struct iw_slot *s = &proc->slots[i];

		if (s->end != end)
			continue;
		if (s->kind == IW_TARGET)
			iw_shadow_sync(proc, s->offset, s->size);
		if (s->kind == IW_WORD) {
			from->word_now = iw_word_read(proc, s->offset);
			from->word_next = from->word_now;
		}
	}
	for (uint32_t i = 0; i < proc->slot_count; i++) {
		const struct iw_slot *s = &proc->slots[i];

		if (s->end == end && (s->kind == IW_TARGET || s->kind == IW_SOURCE))
			freeze_slot(w, end, i);
	}
}

/* The peer's Terminate names the refused request: a Read or atomic must have ended with it. */
static void judge_refused(struct iwarp_world *w, uint32_t end, enum weft_reason reason)
{
	const struct iw_end *e = &w->ends[end];
	uint32_t n = 0;

	if ((reason != WEFT_R_PEER_RIGHTS && reason != WEFT_R_PEER_RECEIVE) ||
	    w->limits.has_pulling || is_corrupted(w, end))
		return;
	while (n < e->posted && (!e->log[n].is_forbidden || e->log[n].is_unsent))
		n++;
	/* Requests without an answer are refused on arrival, and so maybe before it. */
	for (uint32_t k = n; k < e->posted; k++) {
		if (e->log[k].is_forbidden && !is_answered(&e->log[k]))
			return;
	}
	if (n < e->posted && is_answered(&e->log[n]) && e->log[n].is_ended &&
	    e->log[n].status == WEFT_ERR_FLUSHED)
		iw_fail(w, "%s %u was refused, but its completion does not say so",
			weft_opcode_name(e->log[n].opcode), (uint32_t)e->log[n].id);
}

static void end_died(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end];
	const struct weft_qp *qp = iw_tcp(w, end)->qp;

	iw_poll(w, e->process);
	w->deaths++;
	e->is_live = false;
	if (w->limits.is_honest)
		iw_fail(w, "end %u died (%s) although nothing was done to it", end,
			qp ? weft_reason_name(qp->reason) : "left");
	else if (qp && qp->state == WEFT_QPS_ERROR && !is_allowed(w, end, qp->reason))
		iw_fail(w, "end %u died of %s, which was not done to it", end,
			weft_reason_name(qp->reason));
	else if ((!qp || qp->state != WEFT_QPS_ERROR) && !e->is_left)
		iw_fail(w, "end %u is gone, but its owner did not close it", end);
	if (qp)
		judge_refused(w, end, qp->reason);
	freeze(w, end);
}

void iw_judge_ends(struct iwarp_world *w, uint32_t p)
{
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE && !w->failure[0];
	     end = iw_end_next(w, p, end)) {
		struct iw_end *e = &w->ends[end];
		const struct tcp_end *t = iw_tcp(w, end);
		bool is_up = t->qp && t->qp->state >= WEFT_QPS_RTR && t->qp->state <= WEFT_QPS_SQE;

		if (e->is_live && !is_up)
			end_died(w, end);
		else if (!e->is_live && is_up)
			e->is_live = true;
		else if (!e->is_live && t->was_stream && !e->is_frozen && !is_up) {
			/* The connection began and ended in one step. */
			end_died(w, end);
		}
	}
}

static void quiet_end(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end];
	const struct weft_qp *qp = iw_tcp(w, end)->qp;

	if (qp->sq.count > 0) {
		iw_fail(w, "end %u still has %u requests: %s %u", end, qp->sq.count,
			weft_opcode_name(e->log[e->ended].opcode), (uint32_t)e->log[e->ended].id);
		return;
	}
	while (e->ended < e->posted && !w->failure[0]) {
		if (e->log[e->ended].is_signalled)
			iw_fail(w, "request %u has no completion", (uint32_t)e->log[e->ended].id);
		request_ended(w, end, WEFT_SUCCESS);
	}
	iw_log_settle(w, end, e->posted);
	if (!w->failure[0] && message_next(e))
		iw_fail(w, "Send %u was never received", (uint32_t)message_next(e)->id);
}

void iw_judge_quiet(struct iwarp_world *w)
{
	for (uint32_t p = 0; p < w->limits.process_count; p++) {
		iw_poll(w, p);
		iw_memory_judge(w, p);
	}
	for (uint32_t end = 0; end < 2 * w->limits.link_count && !w->failure[0]; end++) {
		bool is_live = w->ends[end].is_live;

		if (is_live != w->ends[end ^ 1].is_live)
			iw_fail(w, "of link %u only one end has died", end / 2);
		else if (is_live)
			quiet_end(w, end);
		else if (!tcp_link_is_over(&w->links[end / 2]))
			iw_fail(w, "link %u neither lives nor ends", end / 2);
		else if (w->limits.is_honest && w->links[end / 2].ends[0].phase != TCP_IDLE)
			iw_fail(w, "link %u could not be set up", end / 2);
	}
	for (uint32_t p = 0; p < w->limits.process_count; p++)
		iw_memory_judge(w, p);
}
