/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <string.h>

#include "base/check.h"

/* ---- What goes next ------------------------------------------------------------------------- */

/* The message behind a Write with immediate (RFC 7306 section 6). */
static void begin_immediate(struct iwarp_stream *s, const struct send_wqe *wqe)
{
	struct tx_message *m = &s->tx.message;
	struct wr w = wr_of(m->body, sizeof(m->body));

	*m = (struct tx_message){
		.ends = TX_REQUEST,
		.opcode = wqe->flags & WEFT_SOLICITED ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE,
		.slot = m->slot,
		.qn = RDMAP_QN_SEND,
		.msn = ++s->tx.msn[RDMAP_QN_SEND],
		.body_bytes = RDMAP_IMMEDIATE_BYTES,
	};
	wr_u32(&w, wqe->imm);
	wr_u32(&w, 0);
	s->tx.has_message = true;
}

/* Cuts the current message into FPDUs while there is room. False: no room for its next FPDU. */
static bool cut_message(struct iwarp_stream *s)
{
	struct tx *tx = &s->tx;

	while (tx->has_message) {
		if (!tx_has_room(s) || !tx_cut(s))
			return false;
		if (!tx->has_message && tx->message.has_immediate)
			begin_immediate(s, send_queue_at(&s->qp->sq, tx->message.slot));
	}
	return true;
}

void tx_fill(struct iwarp_stream *s)
{
	struct tx *tx = &s->tx;

	if (s->state != STREAM_OPEN || tx->is_held)
		return;
	/* Bound: each iteration cuts an FPDU, or ends the loop. */
	while (cut_message(s)) {
		/*
		 * Responses and requests take turns if both are due. If no request comes, as in
		 * SQD, its turn lasts only while other FPDUs are queued.
		 */
		bool is_turn_over = tx->was_response && s->qp->sq.wait == SEND_FULL &&
				    tx->count > 0;

		if (!readq_has_next(s) || is_turn_over || !tx_has_room(s))
			break;
		if (!readq_answer(s))
			return;
		tx->has_message = true;
		tx->was_response = true;
	}
	if (s->state == STREAM_OPEN && !tx->has_message && s->qp->sq.wait == SEND_FULL &&
	    tx_has_room(s))
		qp_ready(s->qp);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void begin_send(struct iwarp_stream *s, const struct send_wqe *wqe)
{
	struct tx_message *m = &s->tx.message;
	bool is_solicited = wqe->flags & WEFT_SOLICITED;

	m->opcode = is_solicited ? RDMAP_SEND_SE : RDMAP_SEND;
	if (wqe->opcode == WEFT_OP_SEND_INVALIDATE) {
		m->opcode = is_solicited ? RDMAP_SEND_SE_INVALIDATE : RDMAP_SEND_INVALIDATE;
		m->ulp32 = wqe->invalidate_tag;
	}
	m->qn = RDMAP_QN_SEND;
	m->msn = ++s->tx.msn[RDMAP_QN_SEND];
}

static void begin_write(struct iwarp_stream *s, const struct send_wqe *wqe)
{
	struct tx_message *m = &s->tx.message;

	m->opcode = RDMAP_WRITE;
	m->is_tagged = true;
	m->has_immediate = wqe->opcode == WEFT_OP_WRITE_IMM;
	m->stag = wqe->remote_tag;
	m->to = wqe->remote_addr;
}

/* A request that has a body instead of payload, and gets a response. */
static struct wr begin_request(struct iwarp_stream *s, enum rdmap_opcode opcode, uint32_t bytes)
{
	struct tx_message *m = &s->tx.message;

	m->opcode = opcode;
	m->source = TX_NOTHING;
	m->ends = TX_NOTHING;
	m->length = 0;
	m->qn = RDMAP_QN_REQUEST;
	m->msn = ++s->tx.msn[RDMAP_QN_REQUEST];
	m->body_bytes = bytes;
	return wr_of(m->body, sizeof(m->body));
}

static void begin_read(struct iwarp_stream *s, struct send_wqe *wqe)
{
	struct rdmap_read_request request = {
		.size = wqe->length,
		.source_stag = wqe->remote_tag,
		.source_to = wqe->remote_addr,
	};
	struct wr w = begin_request(s, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);

	if (wqe->sge_count > 0) {
		request.sink_stag = wqe_segments(wqe)->tag;
		request.sink_to = wqe_segments(wqe)->addr;
	}
	rdmap_read_request_encode(&request, &w);
	readq_sent(s, wqe);
}

/* RFC 7306 section 5: one field of 64 bits; all bits are compared and swapped. */
static void begin_atomic(struct iwarp_stream *s, struct send_wqe *wqe)
{
	bool is_swap = wqe->opcode == WEFT_OP_COMPARE_SWAP;
	const struct rdmap_atomic_request request = {
		.opcode = is_swap ? RDMAP_COMPARE_SWAP : RDMAP_FETCH_ADD,
		.id = s->reads.atomic_sent++,
		.stag = wqe->remote_tag,
		.to = wqe->remote_addr,
		.add_swap = is_swap ? wqe->swap : wqe->operand,
		.add_swap_mask = is_swap ? UINT64_MAX : 0,
		.compare = is_swap ? wqe->operand : 0,
		.compare_mask = UINT64_MAX,
	};
	struct wr w = begin_request(s, RDMAP_ATOMIC_REQUEST, RDMAP_ATOMIC_REQUEST_BYTES);

	rdmap_atomic_request_encode(&request, &w);
	readq_sent(s, wqe);
}

static void begin_message(struct iwarp_stream *s, struct send_wqe *wqe)
{
	s->tx.message = (struct tx_message){
		.source = TX_REQUEST,
		.ends = TX_REQUEST,
		.slot = send_queue_index(&s->qp->sq, wqe),
		.length = wqe->length,
	};
	switch (wqe->opcode) {
	case WEFT_OP_WRITE:
	case WEFT_OP_WRITE_IMM:
		begin_write(s, wqe);
		break;
	case WEFT_OP_READ:
		begin_read(s, wqe);
		break;
	case WEFT_OP_COMPARE_SWAP:
	case WEFT_OP_FETCH_ADD:
		begin_atomic(s, wqe);
		break;
	default:
		begin_send(s, wqe);
	}
	s->tx.has_message = true;
	s->tx.was_response = false;
}

enum issue rdmap_tx_issue(struct weft_qp *qp, struct send_wqe *wqe)
{
	struct iwarp_stream *s = qp->stream;

	if (s->tx.is_held || s->tx.has_message || !tx_has_room(s)) {
		s->is_cramped |= !s->tx.has_message && s->tx.ready < TX_BATCH && !s->buffers;
		return ISSUE_NO_ROOM;
	}
	/* The ready-to-receive Read counts against the peer's limit of outstanding Reads. */
	if (s->reads.is_rtr_pending && wqe_is_read(wqe) && qp->sq.reads >= s->terms.ord)
		return ISSUE_NO_ROOM;
	if (!request_check(qp, wqe, true))
		return ISSUE_BEGUN;
	if (wqe->flags & WEFT_INLINE)
		s->counts.payload_copied += wqe->length; /* copied when it was posted */
	begin_message(s, wqe);
	cut_message(s);
	return ISSUE_BEGUN;
}

/* ---- Messages of our own -------------------------------------------------------------------- */

void rdmap_tx_rtr(struct iwarp_stream *s)
{
	static const struct rdmap_read_request nothing;
	struct wr w;

	if (!s->terms.is_initiator)
		return;
	s->tx.message = (struct tx_message){ 0 };
	switch (s->terms.rtr) {
	case IWARP_RTR_NONE:
		return;
	case IWARP_RTR_SEND:
		s->tx.message.opcode = RDMAP_SEND;
		s->tx.message.qn = RDMAP_QN_SEND;
		s->tx.message.msn = ++s->tx.msn[RDMAP_QN_SEND];
		break;
	case IWARP_RTR_WRITE:
		s->tx.message.opcode = RDMAP_WRITE;
		s->tx.message.is_tagged = true;
		break;
	case IWARP_RTR_READ:
		w = begin_request(s, RDMAP_READ_REQUEST, RDMAP_READ_REQUEST_BYTES);
		rdmap_read_request_encode(&nothing, &w);
		s->reads.is_rtr_pending = true;
		break;
	}
	s->tx.has_message = true;
	cut_message(s);
}

void rdmap_tx_terminate(struct iwarp_stream *s, const struct rdmap_terminate *t)
{
	struct tx_message *m = &s->tx.message;
	struct wr w = wr_of(m->body, sizeof(m->body));

	*m = (struct tx_message){
		.opcode = RDMAP_TERMINATE,
		.qn = RDMAP_QN_TERMINATE,
		.msn = ++s->tx.msn[RDMAP_QN_TERMINATE],
	};
	rdmap_terminate_encode(t, &w);
	CHECK(!w.is_short);
	m->body_bytes = (uint32_t)(w.at - m->body);
	s->tx.has_message = true;
	CHECK(tx_has_room(s)); /* tx_prune() has made room */
	tx_cut(s);
}

/* ---- Payload on its way --------------------------------------------------------------------- */

enum weft_reason rdmap_tx_spans(struct iwarp_stream *s, const struct tx_fpdu *f, uint32_t offset,
				struct mem_span *spans, uint32_t *count)
{
	struct send_wqe *wqe;
	struct stretch part;
	struct mem_grant grant;
	enum weft_reason r;

	if (f->source == TX_RESPONSE) {
		part.offset = f->offset + offset;
		part.length = f->payload_bytes - offset;
		r = readq_access(s, f->slot, &part, &grant);
		if (r != WEFT_OK)
			return r == WEFT_R_SPACE_UNMAPPED && !mem_grant_will_come(&grant)
				       ? WEFT_R_SPACE_MAPPING
				       : r;
		*count = mem_grant_spans(&grant, spans, *count);
		return WEFT_OK;
	}
	wqe = send_queue_at(&s->qp->sq, f->slot);
	if (wqe->flags & WEFT_INLINE) {
		/* The slot is ours, and sending only reads it: the cast is safe. */
		spans[0] = (struct mem_span){
			.bytes = (uint8_t *)(uintptr_t)wqe_inline(wqe) + f->offset + offset,
			.length = f->payload_bytes - offset,
		};
		*count = 1;
		return WEFT_OK;
	}
	part = request_stretch(wqe);
	part.offset = f->offset + offset;
	part.length = f->payload_bytes - offset;
	return stream_spans(s, &part, spans, *count, count);
}

void rdmap_tx_taken(struct iwarp_stream *s, const struct tx_fpdu *f)
{
	static const struct outcome good = { .status = WEFT_SUCCESS };

	if (f->ends == TX_REQUEST)
		send_queue_end(s->qp, send_queue_at(&s->qp->sq, f->slot), &good);
	else if (f->ends == TX_RESPONSE)
		readq_taken(s);
}
