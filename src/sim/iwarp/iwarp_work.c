/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/check.h"
#include "sim/iwarp/iwarp_world.h"

enum { DRAWS = 8, GAP = 16 };

/* An end of the process that can be posted to; IW_NONE: none found soon. */
static uint32_t draw_end(struct iwarp_world *w, uint32_t p)
{
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint32_t end = iw_draw(w, 2 * w->limits.link_count);
		const struct weft_qp *qp = iw_tcp(w, end)->qp;
		bool is_fit = qp && (qp->state == WEFT_QPS_RTS || qp->state == WEFT_QPS_SQD);

		/* Now and then to an end in Error: the request must be flushed. */
		if (!w->limits.is_honest && qp && qp->state == WEFT_QPS_ERROR)
			is_fit = iw_draw(w, 8) == 0;
		if (w->ends[end].process == p && is_fit && w->ends[end].posted + 1 < IW_LOG)
			return end;
	}
	return IW_NONE;
}

static uint32_t draw_length(struct iwarp_world *w)
{
	static const uint32_t below[] = { 1, 17, 160, 1200, 3000 };
	uint32_t max = w->limits.length_max, k = iw_draw(w, 8);
	uint32_t bound = k < 5 && below[k] <= max ? below[k] : max + 1;

	return iw_draw(w, bound);
}

/* Cuts a length into at most `max` parts of the slot, with gaps between them. */
static uint32_t draw_parts(struct iwarp_world *w, const struct iw_slot *s, uint32_t length,
			   uint32_t max, struct iw_part *parts)
{
	uint32_t count = 1 + iw_draw(w, max), slack = s->size - length, at = s->offset;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t gap = iw_draw(w, (slack < GAP ? slack : GAP) + 1);

		slack -= gap;
		parts[i].offset = at + gap;
		parts[i].length = i + 1 == count ? length : iw_draw(w, length + 1);
		length -= parts[i].length;
		at = parts[i].offset + parts[i].length;
	}
	return count;
}

/* ---- Posting -------------------------------------------------------------------------------- */

struct posting {
	uint32_t end;
	struct iw_wr *wr; /* the next entry of the log */
	struct weft_send_wr request;
	struct weft_sge sges[IW_PARTS];
	uint8_t inline_data[IW_INLINE];
};

static struct posting begin(struct iwarp_world *w, uint32_t end, enum weft_opcode opcode)
{
	struct posting p = { .end = end, .wr = &w->ends[end].log[w->ends[end].posted] };

	CHECK(w->ends[end].posted < IW_LOG);
	*p.wr = (struct iw_wr){
		.id = w->id_next++,
		.opcode = opcode,
		.slot = IW_NONE,
		.remote = IW_NONE,
		.word = IW_NONE,
		.birth = iw_owner(w, end ^ 1)->births,
		.key = prng_next(&w->world.prng),
		.flags = iw_draw(w, 4) > 0 ? WEFT_SIGNALLED : 0,
	};
	if (iw_draw(w, 8) == 0)
		p.wr->flags |= WEFT_FENCE;
	p.request.opcode = opcode;
	p.request.id = p.wr->id;
	return p;
}

/* Fills the source of a Send or Write. False: no slot. */
static bool with_source(struct iwarp_world *w, struct posting *p, uint32_t length)
{
	struct iw_slot *s = iw_slot_draw(w, p->end, IW_SENDBUF);
	struct iw_wr *wr = p->wr;
	uint32_t at = 0;

	wr->length = length;
	if (length <= IW_INLINE && iw_draw(w, 3) == 0) {
		wr->flags |= WEFT_INLINE;
		return true;
	}
	if (!s)
		return length == 0;
	wr->slot = (uint32_t)(s - iw_owner(w, p->end)->slots);
	wr->part_count = draw_parts(w, s, length, IW_PARTS, wr->parts);
	for (uint32_t i = 0; i < wr->part_count; i++) {
		iw_fill(w, w->ends[p->end].process, &wr->parts[i], wr->key, at);
		at += wr->parts[i].length;
	}
	return true;
}

/* The destination of the answer; a Read has a single one. */
static bool with_sink(struct iwarp_world *w, struct posting *p, uint32_t length)
{
	struct iw_slot *s = iw_slot_draw(w, p->end, IW_SINK);
	bool is_read = p->wr->opcode == WEFT_OP_READ;

	if (!s)
		return false;
	p->wr->length = length;
	p->wr->slot = (uint32_t)(s - iw_owner(w, p->end)->slots);
	p->wr->part_count = draw_parts(w, s, length, is_read ? 1 : IW_PARTS, p->wr->parts);
	return true;
}

static void segments_make(struct iwarp_world *w, struct posting *p)
{
	const struct iw_process *proc = iw_owner(w, p->end);
	const struct iw_slot *s = p->wr->slot == IW_NONE ? NULL : &proc->slots[p->wr->slot];
	bool is_window = p->wr->opcode == WEFT_OP_READ && w->limits.policy == WEFT_POLICY_STRICT;

	p->request.sges = p->sges;
	if (p->wr->flags & WEFT_INLINE) {
		for (uint32_t i = 0; i < p->wr->length; i++)
			p->inline_data[i] = iw_pattern(p->wr->key, i);
		p->sges[0] = (struct weft_sge){ .addr = (uintptr_t)p->inline_data,
						.length = p->wr->length };
		p->request.sge_count = 1;
		return;
	}
	p->request.sge_count = p->wr->part_count;
	for (uint32_t i = 0; i < p->wr->part_count; i++)
		p->sges[i] = (struct weft_sge){
			.addr = (is_window ? s->start : s->base) + p->wr->parts[i].offset -
				s->offset,
			.length = p->wr->parts[i].length,
			.tag = is_window ? s->tag : s->region,
		};
}

/* True: the request was accepted. */
static bool post(struct iwarp_world *w, struct posting *p)
{
	struct iw_end *e = &w->ends[p->end];
	struct tcp_end *t = iw_tcp(w, p->end);
	struct iw_wr *wr = p->wr;
	uint32_t posted;
	enum weft_reason r;

	if (wr->opcode < WEFT_OP_BIND && !wr->is_doomed)
		segments_make(w, p);
	p->request.flags = wr->flags;
	r = qp_post_send(t->qp, &p->request, 1, &posted);
	if (r == WEFT_R_QUEUE_FULL || (r == WEFT_R_READS_NONE && t->terms.ord == 0))
		return false;
	if (r != WEFT_OK) {
		iw_fail(w, "%s was refused: %s", weft_opcode_name(wr->opcode), weft_reason_name(r));
		return false;
	}
	wr->is_signalled = (wr->flags & WEFT_SIGNALLED) || t->qp->is_every_send_signalled;
	if (wr->slot != IW_NONE)
		iw_owner(w, p->end)->slots[wr->slot].users++;
	e->posted++;
	w->forbidden += wr->is_forbidden;
	if (w->ends[p->end ^ 1].is_frozen)
		e->settled = e->posted;
	return true;
}

/* ---- The peer's memory ---------------------------------------------------------------------- */

/* A slot of the peer that may be used now; NULL: none. */
static struct iw_slot *draw_remote(struct iwarp_world *w, uint32_t end, enum iw_kind kind)
{
	struct iw_process *peer = iw_owner(w, end ^ 1);
	uint32_t first = iw_draw(w, peer->slot_count);

	for (uint32_t i = 0; i < peer->slot_count; i++) {
		struct iw_slot *s = &peer->slots[(first + i) % peer->slot_count];

		if (s->kind == kind && s->end == (end ^ 1) && s->tag && !s->is_moving &&
		    !s->is_spent)
			return s;
	}
	return NULL;
}

static void aim(struct iwarp_world *w, struct posting *p, const struct iw_slot *s, uint32_t at)
{
	p->wr->remote = (uint32_t)(s - iw_owner(w, p->end ^ 1)->slots);
	p->wr->remote_tag = s->tag;
	p->wr->at = at;
	p->request.remote_tag = s->tag;
	p->request.remote_addr = s->start + at;
}

/* May the peer have a request to the slot in flight? */
static bool is_awaited(const struct iwarp_world *w, uint32_t end, uint32_t slot)
{
	const struct iw_end *from = &w->ends[end ^ 1];

	for (uint32_t n = 0; n < from->posted; n++) {
		const struct iw_wr *wr = &from->log[n];
		bool is_unanswered = wr->opcode == WEFT_OP_READ && !wr->is_ended;

		if (wr->remote == slot && (n >= from->settled || is_unanswered))
			return true;
	}
	return false;
}

/* Can posted requests still arrive? */
static bool is_connected(const struct iwarp_world *w, uint32_t end)
{
	return w->ends[end].is_live && !w->ends[end ^ 1].is_frozen;
}

/* How an access is wrong. */
enum wrong { WRONG_OLD, WRONG_END, WRONG_RIGHT, WRONG_SPENT, WRONG_WRAP, WRONGS };

static void wrong_access(struct iwarp_world *w, uint32_t end, bool is_read, enum wrong how);

/* The effect of a message on a one-touch slot. */
static void touch(struct iwarp_world *w, uint32_t end, struct iw_slot *s, const struct iw_wr *wr)
{
	bool is_read = wr->opcode == WEFT_OP_READ;

	if (!s->is_one_touch || wr->length == 0 || wr->is_forbidden || !is_connected(w, end))
		return;
	s->is_spent = true;
	/* A second access right behind it must find the slot closed. */
	if (iw_mischief(w) && w->ends[end].posted + 1 < IW_LOG)
		wrong_access(w, end, is_read, WRONG_SPENT);
}

/*
 * May the request be posted? One that the peer's queue pair denies only on purpose; the peer must
 * then refuse it.
 */
static bool may_ask(struct iwarp_world *w, struct posting *p, uint32_t right)
{
	if (!(w->ends[p->end ^ 1].lacks & right) || p->wr->length == 0)
		return true;
	p->wr->is_forbidden = true;
	iw_allow_end(w, p->end);
	iw_allow(w, p->end ^ 1, WEFT_R_QP_REMOTE_RIGHTS);
	iw_allow(w, p->end, WEFT_R_PEER_RIGHTS);
	return iw_mischief(w);
}

/* ---- Right ---------------------------------------------------------------------------------- */

void iw_act_send(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p);
	struct iw_slot *s = NULL;
	struct posting post_it;

	if (end == IW_NONE)
		return;
	if (iw_draw(w, 5) == 0)
		s = draw_remote(w, end, IW_TARGET);
	/* Prefer a slot with Reads in flight, to exercise the fence. */
	for (uint32_t i = 0; i < 4 && !s && iw_draw(w, 2) == 0; i++) {
		s = draw_remote(w, end, IW_SOURCE);
		if (s && !is_awaited(w, end ^ 1, (uint32_t)(s - iw_owner(w, end ^ 1)->slots)))
			s = NULL;
	}
	if (s && !s->window)
		s = NULL; /* peers cannot invalidate regions */
	post_it = begin(w, end, s ? WEFT_OP_SEND_INVALIDATE : WEFT_OP_SEND);
	if (!with_source(w, &post_it, draw_length(w)))
		return;
	if (iw_draw(w, 3) == 0)
		post_it.wr->flags |= WEFT_SOLICITED;
	if (s) {
		aim(w, &post_it, s, 0);
		post_it.wr->flags |= WEFT_FENCE; /* earlier Reads may still need it */
		post_it.request.invalidate_tag = s->tag;
	}
	if (post(w, &post_it) && s)
		s->is_moving = is_connected(w, end);
}

void iw_act_write(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p), length = draw_length(w);
	struct iw_slot *s = end == IW_NONE ? NULL : draw_remote(w, end, IW_TARGET);
	bool has_imm = iw_draw(w, 3) == 0;
	struct posting post_it;

	if (!s)
		return;
	post_it = begin(w, end, has_imm ? WEFT_OP_WRITE_IMM : WEFT_OP_WRITE);
	if (!with_source(w, &post_it, length))
		return;
	aim(w, &post_it, s, iw_draw(w, s->size - length + 1));
	if (has_imm) {
		post_it.wr->imm = (uint32_t)prng_next(&w->world.prng);
		post_it.request.imm = post_it.wr->imm;
		if (iw_draw(w, 3) == 0)
			post_it.wr->flags |= WEFT_SOLICITED;
	}
	if (may_ask(w, &post_it, WEFT_REMOTE_WRITE) && post(w, &post_it))
		touch(w, end, s, post_it.wr);
}

bool iw_wake(struct iwarp_world *w, uint32_t end)
{
	struct posting post_it = begin(w, end, WEFT_OP_WRITE);

	return post(w, &post_it);
}

void iw_act_read(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p), length = draw_length(w);
	struct iw_slot *s = end == IW_NONE ? NULL : draw_remote(w, end, IW_SOURCE);
	struct posting post_it;

	if (!s)
		return;
	post_it = begin(w, end, WEFT_OP_READ);
	if (!with_sink(w, &post_it, length))
		return;
	aim(w, &post_it, s, iw_draw(w, s->size - length + 1));
	post_it.wr->key = s->key;
	if (may_ask(w, &post_it, WEFT_REMOTE_READ) && post(w, &post_it))
		touch(w, end, s, post_it.wr);
}

/* The slot of words that all peers share: the last of its process. */
static struct iw_slot *draw_words(struct iwarp_world *w, uint32_t end, struct iw_wr *wr)
{
	struct iw_process *peer = iw_owner(w, end ^ 1);
	struct iw_slot *s = &peer->slots[peer->slot_count - 1];

	if (iw_draw(w, 2) == 0)
		return draw_remote(w, end, IW_WORD);
	wr->word = iw_draw(w, IW_WORDS);
	return s->tag && peer->words[wr->word].posted < IW_OLDS ? s : NULL;
}

/* An atomic on the end's own word: the old value is known in advance. */
static void draw_atomic(struct iwarp_world *w, struct posting *p)
{
	const struct iw_end *e = &w->ends[p->end];
	struct iw_wr *wr = p->wr;
	bool is_swap = wr->opcode == WEFT_OP_COMPARE_SWAP, is_equal = iw_draw(w, 4) > 0;

	wr->expected = e->word_next;
	wr->after = prng_next(&w->world.prng);
	if (is_swap) {
		p->request.compare_add = is_equal ? wr->expected : ~wr->expected;
		p->request.swap = wr->after;
		wr->after = is_equal ? wr->after : wr->expected;
	} else {
		p->request.compare_add = wr->after - wr->expected;
	}
}

void iw_act_atomic(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p);
	bool is_swap = iw_draw(w, 2) == 0;
	struct iw_slot *s;
	struct posting post_it;

	if (end == IW_NONE)
		return;
	post_it = begin(w, end, is_swap ? WEFT_OP_COMPARE_SWAP : WEFT_OP_FETCH_ADD);
	s = draw_words(w, end, post_it.wr);
	if (!s || !with_sink(w, &post_it, 8))
		return;
	if (post_it.wr->word != IW_NONE) {
		post_it.wr->opcode = WEFT_OP_FETCH_ADD;
		post_it.request.opcode = WEFT_OP_FETCH_ADD;
		post_it.request.compare_add = 1;
		aim(w, &post_it, s, 8 * post_it.wr->word);
	} else {
		draw_atomic(w, &post_it);
		aim(w, &post_it, s, 0);
	}
	if (!may_ask(w, &post_it, WEFT_REMOTE_ATOMIC) || !post(w, &post_it) ||
	    post_it.wr->is_forbidden)
		return;
	if (post_it.wr->word != IW_NONE)
		iw_owner(w, end ^ 1)->words[post_it.wr->word].posted++;
	else
		w->ends[end].word_next = post_it.wr->after;
}

/* A window that the end's own queue may bind or invalidate; NULL: none. */
static struct iw_slot *draw_window(struct iwarp_world *w, uint32_t end)
{
	struct iw_process *proc = iw_owner(w, end);
	uint32_t first = iw_draw(w, proc->slot_count);

	for (uint32_t i = 0; i < proc->slot_count; i++) {
		uint32_t k = (first + i) % proc->slot_count;
		struct iw_slot *s = &proc->slots[k];

		if (s->end == end && s->kind != IW_WORD && s->window && s->region &&
		    !s->is_moving && !s->is_spent && !(s->tag && is_awaited(w, end, k)))
			return s;
	}
	return NULL;
}

void iw_act_bind(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];
	uint32_t end = draw_end(w, p);
	struct iw_slot *s = end == IW_NONE ? NULL : draw_window(w, end);
	struct posting post_it;
	struct weft_bind *bind = &post_it.request.bind;

	if (!s)
		return;
	post_it = begin(w, end, s->tag ? WEFT_OP_INVALIDATE : WEFT_OP_BIND);
	post_it.wr->slot = (uint32_t)(s - proc->slots);
	post_it.request.invalidate_tag = s->tag;
	if (!s->tag) {
		*bind = (struct weft_bind){
			.window_tag = s->window,
			.region_tag = s->region,
			.addr = s->base,
			.length = s->size,
			.rights = s->kind == IW_SOURCE ? WEFT_REMOTE_READ : WEFT_REMOTE_WRITE,
			.is_zero_based = iw_draw(w, 4) == 0,
			.is_one_touch = s->kind != IW_SINK && iw_draw(w, 3) == 0,
			.is_qp_bound = iw_draw(w, 2) == 0,
		};
		post_it.wr->expected = bind->is_zero_based ? 0 : s->base;
		post_it.wr->at = bind->is_one_touch | bind->is_qp_bound << 1;
	}
	if (!post(w, &post_it))
		return;
	post_it.wr->remote_tag = bind->tag;
	s->window_next = bind->tag;
	s->is_moving = true;
}

/* ---- Wrong ---------------------------------------------------------------------------------- */

static void allow_both(struct iwarp_world *w, uint32_t end, enum weft_reason there,
		       enum weft_reason here)
{
	iw_allow_end(w, end);
	iw_allow(w, end ^ 1, there);
	iw_allow(w, end, here);
}

static void allow_tag(struct iwarp_world *w, uint32_t end)
{
	allow_both(w, end, WEFT_R_TAG_INVALID, WEFT_R_TAG_INVALID);
	for (uint32_t r = WEFT_R_TAG_INDEX; r <= WEFT_R_TAG_INSTANCE; r++)
		iw_allow(w, end ^ 1, (enum weft_reason)r);
	iw_allow(w, end, WEFT_R_TAG_PD);
	if (w->ends[end ^ 1].lacks) {
		iw_allow(w, end ^ 1, WEFT_R_QP_REMOTE_RIGHTS);
		iw_allow(w, end, WEFT_R_PEER_RIGHTS);
	}
}

/* Uses a window that is bound to another queue pair. */
static void wrong_window(struct iwarp_world *w, uint32_t end)
{
	struct iw_process *peer = iw_owner(w, end ^ 1);
	const struct iw_slot *s = &peer->slots[iw_draw(w, peer->slot_count)];
	struct posting p = begin(w, end, s->kind == IW_SOURCE ? WEFT_OP_READ : WEFT_OP_WRITE);
	bool is_fit = s->kind == IW_SOURCE ? with_sink(w, &p, 8) : with_source(w, &p, 8);

	if (!is_fit || s->end == (end ^ 1) || !s->is_qp_bound || s->is_moving)
		return;
	aim(w, &p, s, 0);
	p.wr->is_forbidden = true;
	if (post(w, &p))
		allow_tag(w, end);
}

/* A slot of the peer on which this error can be made; NULL: none. */
static struct iw_slot *draw_wrong(struct iwarp_world *w, uint32_t end, bool is_read, enum wrong how)
{
	struct iw_process *peer = iw_owner(w, end ^ 1);
	uint32_t first = iw_draw(w, peer->slot_count);
	enum iw_kind kind = is_read != (how == WRONG_RIGHT) ? IW_SOURCE : IW_TARGET;

	for (uint32_t i = 0; i < peer->slot_count; i++) {
		struct iw_slot *s = &peer->slots[(first + i) % peer->slot_count];
		bool is_fit = how == WRONG_OLD ? s->old_tag != 0
					       : s->tag && s->is_spent == (how == WRONG_SPENT);

		if (s->kind == kind && s->end == (end ^ 1) && !s->is_moving && is_fit)
			return s;
	}
	return NULL;
}

static void allow_wrong(struct iwarp_world *w, uint32_t end, bool is_read, enum wrong how)
{
	enum weft_reason right = is_read ? WEFT_R_RIGHT_REMOTE_READ : WEFT_R_RIGHT_REMOTE_WRITE;

	allow_tag(w, end);
	if (how == WRONG_END || how == WRONG_WRAP)
		allow_both(w, end, WEFT_R_RANGE_BOUNDS, WEFT_R_RANGE_BOUNDS);
	if (how == WRONG_WRAP)
		allow_both(w, end, WEFT_R_RANGE_WRAP, WEFT_R_RANGE_WRAP);
	if (how == WRONG_RIGHT)
		allow_both(w, end, right, WEFT_R_PEER_RIGHTS);
	if (how == WRONG_SPENT)
		allow_both(w, end, WEFT_R_TOUCH_SECOND, WEFT_R_TAG_INVALID);
}

/* Posts a Write or Read that the peer must refuse. */
static void wrong_access(struct iwarp_world *w, uint32_t end, bool is_read, enum wrong how)
{
	struct posting p = begin(w, end, is_read ? WEFT_OP_READ : WEFT_OP_WRITE);
	uint32_t length = 1 + iw_draw(w, w->limits.length_max);
	struct iw_slot *s = draw_wrong(w, end, is_read, how);

	if (!s || !(is_read ? with_sink(w, &p, length) : with_source(w, &p, length)))
		return;
	aim(w, &p, s, how == WRONG_END ? s->size - length + 1 + iw_draw(w, length) : 0);
	p.wr->is_forbidden = true;
	p.wr->is_partial = how == WRONG_END;
	if (how == WRONG_OLD)
		p.request.remote_tag = s->old_tag;
	p.wr->remote_tag = p.request.remote_tag;
	if (how == WRONG_WRAP)
		p.request.remote_addr = UINT64_MAX - iw_draw(w, length);
	if (post(w, &p))
		allow_wrong(w, end, is_read, how);
}

static void wrong_atomic(struct iwarp_world *w, uint32_t end)
{
	struct posting p = begin(w, end, WEFT_OP_FETCH_ADD);
	struct iw_process *peer = iw_owner(w, end ^ 1);
	struct iw_slot *s = &peer->slots[peer->slot_count - 1];

	if (!s->tag || !with_sink(w, &p, 8))
		return;
	aim(w, &p, s, 1 + iw_draw(w, 7));
	p.wr->is_forbidden = true;
	p.request.compare_add = prng_next(&w->world.prng);
	if (!post(w, &p))
		return;
	allow_tag(w, end);
	allow_both(w, end, WEFT_R_ATOMIC_ALIGN, WEFT_R_PEER_RECEIVE);
}

/* Posts a Send that tries to invalidate a tag it may not. */
static void wrong_invalidate(struct iwarp_world *w, uint32_t end)
{
	struct posting p = begin(w, end, WEFT_OP_SEND_INVALIDATE);
	struct iw_process *peer = iw_owner(w, end ^ 1);
	const struct iw_slot *s = &peer->slots[iw_draw(w, peer->slot_count)];
	bool is_region = iw_draw(w, 2) == 0;
	uint32_t tag = is_region ? s->region : s->old_tag;

	if (!tag || !with_source(w, &p, draw_length(w)))
		return;
	p.wr->is_forbidden = true;
	p.wr->remote_tag = tag;
	p.request.invalidate_tag = tag;
	if (!post(w, &p))
		return;
	allow_tag(w, end);
	allow_both(w, end, WEFT_R_INVALIDATE_REGION, WEFT_R_PEER_INVALIDATE);
	iw_allow(w, end ^ 1, WEFT_R_RECEIVE_TOO_SHORT);
	iw_allow(w, end, WEFT_R_RECEIVE_TOO_SHORT);
}

/* Posts a request that must fail locally. */
static void wrong_local(struct iwarp_world *w, uint32_t end)
{
	struct posting p = begin(w, end, WEFT_OP_SEND);
	const struct iw_slot *s = iw_slot_draw(w, end, iw_draw(w, 2) ? IW_RECVBUF : IW_SENDBUF);

	if (!s)
		return;
	p.wr->is_doomed = true;
	p.request.sges = p.sges;
	p.request.sge_count = 1;
	p.sges[0] = (struct weft_sge){ .addr = s->base, .length = 8, .tag = s->region };
	if (s->kind == IW_SENDBUF)
		p.sges[0].addr = s->base + s->size - iw_draw(w, 8);
	if (!post(w, &p))
		return;
	allow_both(w, end, WEFT_R_PEER_TERMINATED, WEFT_R_RIGHT_LOCAL_READ);
	iw_allow(w, end, WEFT_R_RANGE_BOUNDS);
	for (uint32_t r = WEFT_R_TAG_INDEX; r <= WEFT_R_TAG_INSTANCE; r++)
		iw_allow(w, end, (enum weft_reason)r);
}

void iw_act_wrong(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p);

	if (end == IW_NONE || !iw_mischief(w))
		return;
	switch (iw_draw(w, 7)) {
	case 6:
		wrong_window(w, end);
		break;
	case 0:
	case 1:
		wrong_access(w, end, false, (enum wrong)iw_draw(w, WRONGS));
		break;
	case 2:
		wrong_access(w, end, true, (enum wrong)iw_draw(w, WRONGS));
		break;
	case 3:
		wrong_atomic(w, end);
		break;
	case 4:
		wrong_invalidate(w, end);
		break;
	default:
		wrong_local(w, end);
	}
}

void iw_act_pull(struct iwarp_world *w, uint32_t p)
{
	struct iw_process *proc = &w->processes[p];

	if (!w->limits.has_pulling)
		return;
	iw_poll(w, p);
	if (!w->failure[0])
		iw_slot_pull(w, p, &proc->slots[iw_draw(w, proc->slot_count)]);
}

/* The send queue pauses by itself. */
void iw_act_delay(struct iwarp_world *w, uint32_t p)
{
	uint32_t end = draw_end(w, p);
	struct posting post_it;

	if (end == IW_NONE)
		return;
	post_it = begin(w, end, WEFT_OP_DELAY);
	post_it.request.delay_ns = iw_draw(w, 100000);
	post(w, &post_it);
}

/* ---- States --------------------------------------------------------------------------------- */

/* Requests flushed in SQE were never sent: the connection continues without them. */
static void forget_unsent(struct iwarp_world *w, uint32_t end)
{
	struct iw_end *e = &w->ends[end];
	bool has_word = false;

	e->is_awake = false;
	for (uint32_t n = e->settled; n < e->posted; n++) {
		struct iw_wr *wr = &e->log[n];

		if (!wr->is_dropped || wr->is_unsent)
			continue;
		wr->is_unsent = true;
		if (wr->remote == IW_NONE)
			continue;
		if (wr->word != IW_NONE)
			iw_owner(w, end ^ 1)->words[wr->word].unsent++;
		else if (wr->opcode == WEFT_OP_COMPARE_SWAP || wr->opcode == WEFT_OP_FETCH_ADD)
			has_word = true;
		iw_owner(w, end ^ 1)->slots[wr->remote].is_spent = false;
		if (wr->opcode == WEFT_OP_SEND_INVALIDATE)
			iw_owner(w, end ^ 1)->slots[wr->remote].is_moving = false;
	}
	e->word_next = e->word_now;
	for (uint32_t n = e->settled; n < e->posted && has_word; n++) {
		if (e->log[n].word == IW_NONE && !e->log[n].is_unsent &&
		    (e->log[n].opcode == WEFT_OP_COMPARE_SWAP ||
		     e->log[n].opcode == WEFT_OP_FETCH_ADD))
			e->word_next = e->log[n].after;
	}
}

void iw_resume(struct iwarp_world *w, uint32_t end)
{
	static const struct weft_qp_attr attr = { .state = WEFT_QPS_RTS };
	struct weft_qp *qp = iw_tcp(w, end)->qp;

	if (!qp || (qp->state != WEFT_QPS_SQE && qp->state != WEFT_QPS_SQD))
		return;
	if (qp->state == WEFT_QPS_SQE) {
		iw_poll(w, w->ends[end].process);
		forget_unsent(w, end);
	}
	CHECK(qp_modify(qp, &attr, WEFT_QP_STATE) == WEFT_OK);
}

void iw_act_state(struct iwarp_world *w, uint32_t p)
{
	static const struct weft_qp_attr attr = { .state = WEFT_QPS_SQD };
	uint32_t end = iw_draw(w, 2 * w->limits.link_count);
	struct weft_qp *qp = iw_tcp(w, end)->qp;

	if (w->ends[end].process != p || !qp || !w->ends[end].is_live)
		return;
	if (qp->state == WEFT_QPS_RTS)
		CHECK(qp_modify(qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	else
		iw_resume(w, end);
}

/* ---- Receives ------------------------------------------------------------------------------- */

void iw_receive_one(struct iwarp_world *w, uint32_t end)
{
	struct iw_process *proc = iw_owner(w, end);
	struct iw_end *e = &w->ends[end];
	struct weft_qp *qp = iw_tcp(w, end)->qp;
	struct iw_recv_queue *q = e->has_srq ? &proc->srq_recvs : &e->recvs;
	struct iw_slot *s = iw_slot_draw(w, end, IW_RECVBUF);
	struct iw_recv *recv = &q->recvs[(q->first + q->count) % IW_RECVS];
	struct weft_sge sges[IW_PARTS];
	struct weft_recv_wr wr = { .sges = sges };
	uint32_t posted;
	enum weft_reason r;

	if (!s || q->count == IW_RECVS || !qp || qp->state == WEFT_QPS_RESET)
		return;
	*recv = (struct iw_recv){ .id = w->id_next++,
				  .slot = (uint32_t)(s - proc->slots),
				  .room = w->limits.length_max };
	if (!w->is_quiet && iw_mischief(w))
		recv->room = iw_draw(w, 64); /* maybe too small */
	recv->part_count = draw_parts(w, s, recv->room, IW_PARTS, recv->parts);
	wr.id = recv->id;
	wr.sge_count = recv->part_count;
	for (uint32_t i = 0; i < recv->part_count; i++)
		sges[i] = (struct weft_sge){
			.addr = s->base + recv->parts[i].offset - s->offset,
			.length = recv->parts[i].length,
			.tag = s->region,
		};
	if (e->has_srq)
		r = srq_post(proc->srq, &wr, 1, &posted);
	else
		r = qp_post_recv(qp, &wr, 1, &posted);
	if (r != WEFT_OK) {
		iw_fail(w, "a receive was refused: %s", weft_reason_name(r));
		return;
	}
	s->users++;
	q->count++;
}

void iw_receive_all(struct iwarp_world *w, uint32_t p)
{
	for (uint32_t end = iw_end_next(w, p, IW_NONE); end != IW_NONE;
	     end = iw_end_next(w, p, end)) {
		if (!w->ends[end].is_live || (w->is_quiet && w->ends[end].is_stubborn))
			continue;
		for (uint32_t i = 0; i < IW_RECVS && !w->failure[0]; i++)
			iw_receive_one(w, end);
	}
}
