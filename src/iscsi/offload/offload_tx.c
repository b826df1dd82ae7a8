/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/offload/offload_inside.h"

#include "base/check.h"

static uint64_t cookie_of(enum tx_cookie kind, uint32_t low)
{
	return (uint64_t)kind << 32 | low;
}

static uint32_t least32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* ---- PDUs ----------------------------------------------------------------------------------- */

/* Whether there is room for any PDU, and not too much waits already. */
static bool has_room(const struct iscsi_offload *s)
{
	uint64_t ahead = s->tx.queued - iscsi_framing_counts(s->framing)->bytes_out;

	return ahead < TX_BATCH && iscsi_framing_has_room(s->framing, WEFT_ISCSI_AHS_MAX);
}

/* The bytes of a PDU that was given to the framing. */
static uint32_t whole_bytes(const struct iscsi_offload *s, uint32_t header_bytes,
			    uint32_t data_bytes)
{
	uint32_t bytes = header_bytes + data_bytes + iscsi_pad(data_bytes);

	bytes += s->terms.has_header_digest ? ISCSI_DIGEST_BYTES : 0;
	return bytes + (s->terms.has_data_digest && data_bytes > 0 ? ISCSI_DIGEST_BYTES : 0);
}

/*
 * Gives a PDU to the framing, which has room. WEFT_R_SPACE_UNMAPPED: a page of its data is brought,
 * and then it is tried again.
 */
static enum weft_reason put(struct iscsi_offload *s, const struct iscsi_framing_pdu *p,
			    uint32_t header_bytes)
{
	enum weft_reason r = iscsi_framing_send(s->framing, p);

	s->tx.is_absent = r == WEFT_R_SPACE_UNMAPPED;
	if (r != WEFT_OK)
		return r;
	s->tx.queued += whole_bytes(s, header_bytes, p->pdu->data_bytes);
	offload_attention(s);
	return WEFT_OK;
}

/* ---- Data-Out ------------------------------------------------------------------------------- */

/* Makes the next PDU of the burst. False: none was made, and none can be now. */
static bool cut_burst(struct iscsi_offload *s)
{
	struct burst *b = &s->tx.now;
	struct command *c = commands_find(s->qp, b->command_id);
	uint32_t n = least32(b->left, s->terms.send_bytes_max);
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_DATA_OUT,
		.is_final = n == b->left,
		.data_bytes = n,
		.lun = b->lun,
		.ttt = b->ttt,
		.exp_stat_sn = s->rx.exp_stat_sn,
		.data_sn = b->data_sn,
		.offset = b->offset,
	};
	bool is_last = pdu.is_final && b->ttt == ISCSI_TAG_NONE;
	enum weft_reason r;

	if (!c) { /* it was answered before all of its data had left */
		s->tx.has_burst = false;
		return true;
	}
	pdu.itt = c->tag;
	r = put(s,
		&(struct iscsi_framing_pdu){
			.pdu = &pdu,
			.cookie = cookie_of(is_last ? TX_COOKIE_LAST : TX_COOKIE_PART, c->id),
			.data_at = b->offset,
		},
		ISCSI_BHS_BYTES);
	if (r != WEFT_OK && r != WEFT_R_SPACE_UNMAPPED)
		offload_abort(s, r);
	if (r != WEFT_OK)
		return false;
	b->offset += n;
	b->left -= n;
	b->data_sn++;
	s->tx.has_burst = b->left > 0;
	s->counts.data_outs++;
	s->counts.bytes_sent += n;
	return true;
}

/* False: no room for the next PDU of a burst. */
static bool cut_all(struct iscsi_offload *s)
{
	while (s->tx.has_burst) {
		if (s->tx.is_absent || !has_room(s) || !cut_burst(s))
			return false;
	}
	return true;
}

bool offload_tx_can_answer(const struct iscsi_offload *s)
{
	return s->tx.count < s->tx.r2ts_max;
}

void offload_tx_answer(struct iscsi_offload *s, const struct burst *r2t)
{
	struct offload_tx *tx = &s->tx;

	CHECK(offload_tx_can_answer(s));
	tx->r2ts[(tx->first + tx->count++) % tx->r2ts_max] = *r2t;
}

static void next_answer(struct offload_tx *tx)
{
	tx->now = tx->r2ts[tx->first];
	tx->first = (tx->first + 1) % tx->r2ts_max;
	tx->count--;
	tx->has_burst = true;
	tx->was_r2t = true;
}

static bool can_issue(const struct iscsi_offload *s)
{
	return !s->tx.has_burst && !s->tx.is_absent && has_room(s);
}

void offload_tx_fill(struct iscsi_offload *s)
{
	struct offload_tx *tx = &s->tx;

	if (s->state != OFFLOAD_OPEN || !s->qp)
		return;
	/* Bound: each iteration cuts a burst, or ends the loop. */
	while (cut_all(s)) {
		/* Answers and requests take turns if both are due. */
		bool is_turn_over = tx->was_r2t && s->qp->sq.wait == SEND_FULL &&
				    !iscsi_framing_is_sent(s->framing);

		if (tx->count == 0 || is_turn_over || !has_room(s))
			break;
		next_answer(tx);
	}
	if (s->state != OFFLOAD_OPEN)
		return;
	if (s->rx.is_crowded && offload_tx_can_answer(s))
		qp_ready(s->qp);
	if (can_issue(s) && s->qp->sq.wait == SEND_FULL)
		qp_ready(s->qp);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static enum issue end_locally(struct weft_qp *qp, struct send_wqe *wqe, enum weft_status status,
			      enum weft_reason reason)
{
	const struct outcome out = { .status = status, .reason = reason, .is_local = true };

	send_queue_end(qp, wqe, &out);
	return ISSUE_BEGUN;
}

/* ISCSI-01d: is its memory valid? */
static enum weft_reason check_segments(struct weft_qp *qp, const struct command *c)
{
	const struct stretch all = {
		.sges = c->sges,
		.count = c->sge_count,
		.kind = c->way == MEM_WAY_IN ? MEM_LOCAL_WRITE : MEM_LOCAL_READ,
	};
	enum weft_reason r = qp_segments_check(qp, &all);

	return r == WEFT_R_SPACE_UNMAPPED && qp_segments_will_come(qp, &all) ? WEFT_OK : r;
}

/* RFC 7143 section 13.14: what goes with a command, and right behind it. */
static void plan_data(const struct iscsi_offload *s, const struct command *c, uint32_t *immediate,
		      uint32_t *unsolicited)
{
	const struct weft_iscsi_terms *t = &s->terms;
	uint32_t first = c->way == MEM_WAY_OUT ? least32(c->length, t->first_burst_bytes) : 0;

	*immediate = t->is_immediate_off ? 0 : least32(first, t->send_bytes_max);
	*unsolicited = t->is_unsolicited_on ? first - *immediate : 0;
}

/* ISCSI-01g: the command itself. */
static enum weft_reason send_command(struct iscsi_offload *s, const struct command *c)
{
	struct iscsi_pdu pdu = c->header.pdu;
	uint32_t immediate, unsolicited;
	enum weft_reason r;

	plan_data(s, c, &immediate, &unsolicited);
	pdu.itt = c->tag;
	pdu.exp_stat_sn = s->rx.exp_stat_sn;
	pdu.data_bytes = immediate;
	pdu.is_final = unsolicited == 0;
	r = put(s,
		&(struct iscsi_framing_pdu){
			.pdu = &pdu,
			.cookie = cookie_of(pdu.is_final ? TX_COOKIE_LAST : TX_COOKIE_PART, c->id),
		},
		c->header.length);
	if (r != WEFT_OK)
		return r;
	s->counts.commands++;
	if (c->way == MEM_WAY_IN && c->length >= ISCSI_FRAMING_BULK_BYTES)
		iscsi_framing_expect_data(s->framing);
	s->counts.bytes_sent += immediate;
	if (unsolicited > 0) {
		s->tx.has_burst = true;
		s->tx.now = (struct burst){
			.command_id = c->id,
			.ttt = ISCSI_TAG_NONE,
			.lun = pdu.lun,
			.offset = immediate,
			.left = unsolicited,
		};
	}
	return WEFT_OK;
}

static enum issue issue_command(struct iscsi_offload *s, struct send_wqe *wqe)
{
	struct weft_qp *qp = s->qp;
	struct command *c = commands_find(qp, wqe->command_id);
	enum weft_reason r;

	if (c->tag == 0) { /* else it has waited for a page since */
		r = check_segments(qp, c);
		if (r != WEFT_OK)
			return end_locally(qp, wqe, WEFT_ERR_LOCAL_ACCESS, r);
		r = commands_register(qp, c);
		if (r != WEFT_OK)
			return end_locally(qp, wqe, WEFT_ERR_REGISTER, r);
	}
	r = send_command(s, c);
	if (r == WEFT_R_SPACE_UNMAPPED)
		return ISSUE_NO_ROOM;
	if (r != WEFT_OK)
		return end_locally(qp, wqe, WEFT_ERR_LOCAL_ACCESS, r);
	(void)cut_all(s);
	return ISSUE_BEGUN;
}

static enum issue issue_control(struct iscsi_offload *s, struct send_wqe *wqe)
{
	struct weft_qp *qp = s->qp;
	uint32_t slot = send_queue_index(&qp->sq, wqe);
	struct iscsi_pdu pdu;
	enum weft_reason r = iscsi_decode(&pdu, ISCSI_INITIATOR,
					  rd_of(wqe_header(&qp->sq, wqe), ISCSI_BHS_BYTES),
					  ISCSI_DATA_MAX);

	CHECK(r == WEFT_OK); /* when it was posted */
	if (!request_check(qp, wqe, true))
		return ISSUE_BEGUN;
	pdu.exp_stat_sn = s->rx.exp_stat_sn;
	r = put(s,
		&(struct iscsi_framing_pdu){
			.pdu = &pdu,
			.cookie = cookie_of(TX_COOKIE_CONTROL, slot | TX_SLOT_BIT),
		},
		ISCSI_BHS_BYTES);
	if (r == WEFT_R_SPACE_UNMAPPED)
		return ISSUE_NO_ROOM;
	if (r != WEFT_OK)
		return end_locally(qp, wqe, WEFT_ERR_LOCAL_ACCESS, r);
	s->counts.controls_out++;
	return ISSUE_BEGUN;
}

enum issue offload_tx_issue(struct weft_qp *qp, struct send_wqe *wqe)
{
	struct iscsi_offload *s = qp->stream;

	if (!can_issue(s))
		return ISSUE_NO_ROOM;
	s->tx.was_r2t = false;
	return wqe->opcode == WEFT_OP_ISCSI_COMMAND ? issue_command(s, wqe) : issue_control(s, wqe);
}

/* ---- The framing's calls -------------------------------------------------------------------- */

static enum weft_reason source_of_control(struct iscsi_offload *s, uint32_t slot, uint64_t at,
					  struct mem_span *spans, uint32_t *count)
{
	struct send_wqe *wqe = send_queue_at(&s->qp->sq, slot);
	struct stretch part;

	if (wqe->flags & WEFT_INLINE) {
		/* The slot is ours, and sending only reads it: the cast is safe. */
		spans[0] = (struct mem_span){
			.bytes = (uint8_t *)(uintptr_t)wqe_inline(wqe) + at,
			.length = wqe->length - at,
		};
		*count = 1;
		return WEFT_OK;
	}
	part = request_stretch(wqe);
	part.offset = at;
	part.length = wqe->length - at;
	return offload_list_spans(s, part, spans, count);
}

enum weft_reason offload_tx_source(void *owner, uint64_t cookie, uint64_t data_at,
				   struct mem_span *spans, uint32_t *count)
{
	struct iscsi_offload *s = owner;
	uint32_t low = (uint32_t)cookie;
	const struct command *c;
	enum weft_reason r;

	if (cookie >> 32 == TX_COOKIE_CONTROL) {
		r = source_of_control(s, low & ~TX_SLOT_BIT, data_at, spans, count);
	} else {
		c = commands_find(s->qp, low);
		CHECK(c); /* else it was voided: offload_command_over() */
		r = offload_spans(s, c,
				  &(struct stretch){
					  .kind = MEM_R2T,
					  .offset = data_at,
					  .length = c->length - data_at,
				  },
				  spans, count);
	}
	s->tx.is_absent |= r == WEFT_R_SPACE_UNMAPPED;
	return r;
}

void offload_tx_taken(void *owner, uint64_t cookie)
{
	static const struct outcome good = { .status = WEFT_SUCCESS };
	struct iscsi_offload *s = owner;
	struct weft_qp *qp = s->qp;
	uint32_t low = (uint32_t)cookie;
	struct command *c;

	switch ((enum tx_cookie)(cookie >> 32)) {
	case TX_COOKIE_CONTROL:
		send_queue_end(qp, send_queue_at(&qp->sq, low & ~TX_SLOT_BIT), &good);
		return;
	case TX_COOKIE_LAST:
		c = commands_find(qp, low);
		if (!c || !c->is_posted)
			return; /* it is over already */
		c->is_posted = false;
		send_queue_end(qp, send_queue_at(&qp->sq, c->wqe_slot), &good);
		return;
	case TX_COOKIE_PART:
		return;
	}
}
