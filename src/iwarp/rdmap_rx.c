/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"
#include "iwarp/stream.h"

#include <string.h>

#include "base/check.h"

static enum rx_result refuse(struct iwarp_stream *s, enum weft_reason reason)
{
	stream_refuse(s, reason, &s->rx.segment);
	return RX_REFUSED;
}

/* The peer has no right to what it asked for: the consumer is notified too (RKEY-09). */
static enum rx_result refuse_access(struct iwarp_stream *s, enum weft_reason reason)
{
	const struct rx_segment *seg = &s->rx.segment;

	qp_refused(s->qp, reason, seg->to, seg->is_tagged ? seg->stag : seg->ulp32);
	return refuse(s, reason);
}

/* ---- Headers -------------------------------------------------------------------------------- */

static enum weft_reason decode_ddp(struct rx_segment *seg, const uint8_t *ulpdu)
{
	struct rd r = rd_of(ulpdu, seg->ulpdu_bytes);
	struct ddp_tagged tagged;
	struct ddp_untagged untagged;
	enum ddp_err err;
	uint8_t ulp;

	if (seg->is_tagged) {
		err = ddp_tagged_decode(&tagged, &r);
		if (err != DDP_OK)
			return err == DDP_ERR_VERSION ? WEFT_R_DDP_VERSION : WEFT_R_RDMAP_BODY;
		seg->is_last = tagged.is_last;
		seg->stag = tagged.stag;
		seg->to = tagged.to;
		ulp = tagged.ulp;
	} else {
		err = ddp_untagged_decode(&untagged, &r);
		if (err != DDP_OK)
			return err == DDP_ERR_VERSION ? WEFT_R_DDP_VERSION : WEFT_R_RDMAP_BODY;
		seg->is_last = untagged.is_last;
		seg->qn = untagged.qn;
		seg->msn = untagged.msn;
		seg->mo = untagged.mo;
		seg->ulp32 = untagged.ulp32;
		ulp = untagged.ulp;
	}
	switch (rdmap_control_decode(ulp, seg->is_tagged, seg->qn, &seg->opcode)) {
	case RDMAP_OK:
		return WEFT_OK;
	case RDMAP_ERR_QUEUE:
		return WEFT_R_DDP_QUEUE;
	case RDMAP_ERR_VERSION:
		return WEFT_R_RDMAP_VERSION;
	default:
		return WEFT_R_RDMAP_OPCODE;
	}
}

enum rx_result rdmap_rx_header(struct iwarp_stream *s, const uint8_t *ulpdu, uint32_t ulpdu_bytes)
{
	struct rx_segment *seg = &s->rx.segment;
	enum weft_reason r;

	s->rx.placed = 0;
	s->rx.first = s->rx.position;
	seg->ulpdu_bytes = ulpdu_bytes;
	seg->is_last = false;
	seg->has_read = false;
	seg->stag = seg->qn = seg->msn = seg->mo = seg->ulp32 = 0;
	seg->to = 0;
	seg->bytes = 0;
	seg->is_tagged = ulpdu_bytes > 0 && ddp_is_tagged(ulpdu[0]);
	seg->header_bytes = seg->is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
	if (ulpdu_bytes < seg->header_bytes) {
		seg->header_bytes = 0; /* no complete header to report */
		return refuse(s, WEFT_R_RDMAP_BODY);
	}
	memcpy(seg->header, ulpdu, seg->header_bytes);
	seg->bytes = ulpdu_bytes - seg->header_bytes;
	r = decode_ddp(seg, ulpdu);
	return r == WEFT_OK ? RX_OK : refuse(s, r);
}

bool rdmap_rx_is_placed(const struct rx_segment *seg)
{
	switch (seg->opcode) {
	case RDMAP_WRITE:
	case RDMAP_READ_RESPONSE:
	case RDMAP_SEND:
	case RDMAP_SEND_INVALIDATE:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INVALIDATE:
		return true;
	default:
		return false;
	}
}

static bool is_invalidate(enum rdmap_opcode opcode)
{
	return opcode == RDMAP_SEND_INVALIDATE || opcode == RDMAP_SEND_SE_INVALIDATE;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* RFC 5041 section 5.4: untagged segments come in order, because TCP keeps it. */
static enum rx_result check_order(struct iwarp_stream *s, uint32_t offset_due)
{
	const struct rx_segment *seg = &s->rx.segment;

	if (seg->msn != s->rx.msn[seg->qn])
		return refuse(s, WEFT_R_DDP_MSN);
	return seg->mo == offset_due ? RX_OK : refuse(s, WEFT_R_DDP_OFFSET);
}

/*
 * Claims a receive for a new message. RX_BLOCKED: there is none yet; when the time is over, the
 * stream is refused.
 */
static enum rx_result claim_receive(struct iwarp_stream *s, uint64_t now_ns)
{
	struct weft_qp *qp = s->qp;
	uint64_t wait_ns = qp->receiver_wait_ns;

	if (qp->recv)
		return RX_OK;
	if (qp_has_receive(qp)) {
		qp_recv_claim(qp);
		return RX_OK;
	}
	if (wait_ns == 0)
		return refuse(s, WEFT_R_RECEIVER_NOT_READY);
	qp_await_receive(qp, qp_recv_queue(qp));
	s->rx.deadline_ns = deadline_after(now_ns, wait_ns);
	stream_attention(s);
	return RX_BLOCKED;
}

/* The receive is invalid, too short for the message, or missing: completes it in error. */
static void end_receive(struct iwarp_stream *s, enum weft_status status, enum weft_reason reason)
{
	struct weft_completion completion = {
		.status = status,
		.opcode = WEFT_OP_RECV,
		.reason = reason,
	};

	qp_recv_retire(s->qp, &completion, false);
	qp_record(s->qp, reason);
}

static enum rx_result fail_receive(struct iwarp_stream *s, enum weft_status status,
				   enum weft_reason reason)
{
	end_receive(s, status, reason);
	return refuse(s, status == WEFT_ERR_LOCAL_LENGTH ? reason : WEFT_R_PEER_RECEIVE);
}

/* VMM-09: pages are being brought in; meanwhile the stream is not read. */
static enum rx_result await_page(struct iwarp_stream *s)
{
	s->rx.is_absent = true;
	qp_await_memory(s->qp);
	stream_attention(s);
	return RX_BLOCKED;
}

/* LOC-06: all of a list, but that pages which a pager brings are waited for when they are used. */
static enum weft_reason list_check(struct weft_qp *qp, const struct stretch *all)
{
	enum weft_reason r = qp_segments_check(qp, all);

	return r == WEFT_R_SPACE_UNMAPPED && qp_segments_will_come(qp, all) ? WEFT_OK : r;
}

/* RFC 6581 section 9: a ready-to-receive Send is not delivered to the consumer. */
static bool is_rtr_send(const struct iwarp_stream *s)
{
	const struct rx_segment *seg = &s->rx.segment;

	return s->terms.rtr == IWARP_RTR_SEND && !s->terms.is_initiator && seg->msn == 1 &&
	       seg->bytes == 0 && seg->is_last && seg->opcode == RDMAP_SEND;
}

/* IWARP-11, LOC-02, SQR-10. */
static enum rx_result open_send(struct iwarp_stream *s, uint64_t now_ns)
{
	struct rx *rx = &s->rx;
	const struct rx_segment *seg = &rx->segment;
	struct weft_qp *qp = s->qp;
	enum rx_result result = check_order(s, rx->send_bytes);
	struct stretch all;
	uint64_t room = 0;
	enum weft_reason r = WEFT_OK;

	if (result != RX_OK || is_rtr_send(s))
		return result;
	/* If a receive is claimed, this segment continues a message. */
	if (qp->recv && seg->opcode != rx->send_opcode)
		return refuse(s, WEFT_R_RDMAP_OPCODE);
	result = claim_receive(s, now_ns);
	if (result != RX_OK)
		return result;
	if (is_invalidate(seg->opcode))
		r = mem_invalidate_check(&s->adapter->mem, qp->pd->number, qp->number, seg->ulp32);
	if (r != WEFT_OK)
		return refuse_access(s, r);
	all = qp_recv_stretch(qp);
	r = list_check(qp, &all);
	if (r != WEFT_OK)
		return fail_receive(s, WEFT_ERR_LOCAL_ACCESS, r);
	for (uint32_t i = 0; i < all.count; i++)
		room += all.sges[i].length;
	if ((uint64_t)rx->send_bytes + seg->bytes > room)
		return fail_receive(s, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
	rx->send_opcode = seg->opcode;
	return RX_OK;
}

static enum weft_reason write_access(struct iwarp_stream *s, struct mem_grant *grant)
{
	const struct rx_segment *seg = &s->rx.segment;
	struct mem_access access = {
		.addr = seg->to + s->rx.placed,
		.length = seg->bytes - s->rx.placed,
		.tag = seg->stag,
		.kind = MEM_REMOTE_WRITE,
		.can_wait = true,
	};

	return qp_access(s->qp, &access, grant);
}

/* IWARP-09, the check of the queue pair's rights; the tag is checked when bytes are placed. */
static enum rx_result open_write(struct iwarp_stream *s)
{
	/* RFC 5041 section 5.2: a message of no bytes is not checked. */
	if (s->rx.segment.bytes > 0 && !(s->qp->remote_rights & WEFT_REMOTE_WRITE))
		return refuse_access(s, WEFT_R_QP_REMOTE_RIGHTS);
	return RX_OK;
}

static struct stretch sink_stretch(struct send_wqe *wqe)
{
	return (struct stretch){
		.sges = wqe_segments(wqe),
		.count = wqe->sge_count,
		.kind = MEM_READ_SINK,
	};
}

/*
 * Its region, or the mapping below, went while the response was on its way. The Read ends by that;
 * the peer is told what its response met.
 */
static enum rx_result refuse_sink(struct iwarp_stream *s, enum weft_reason r)
{
	readq_answered(s, &(struct outcome){ .status = WEFT_ERR_LOCAL_ACCESS,
					     .reason = WEFT_R_SINK_GONE });
	return refuse_access(s, r);
}

/*
 * RFC 5040 section 5.4: responses come in the order of the requests and name their sink. In a
 * response of no bytes Linux names none.
 */
static enum rx_result open_response(struct iwarp_stream *s)
{
	const struct rx_segment *seg = &s->rx.segment;
	struct send_wqe *wqe = readq_oldest(s);
	uint32_t have = s->reads.out_bytes;
	const struct weft_sge *sink;
	struct stretch all;
	enum weft_reason r;

	if (s->reads.is_rtr_pending)
		return seg->bytes == 0 && seg->is_last ? RX_OK : refuse(s, WEFT_R_RDMAP_RESPONSE);
	if (!wqe || wqe->opcode != WEFT_OP_READ || seg->bytes > wqe->length - have ||
	    seg->is_last != (seg->bytes == wqe->length - have))
		return refuse(s, WEFT_R_RDMAP_RESPONSE);
	if (wqe->length == 0)
		return RX_OK;
	sink = wqe_segments(wqe);
	if (seg->stag != sink->tag || seg->to != sink->addr + have)
		return refuse(s, WEFT_R_RDMAP_RESPONSE);
	all = sink_stretch(wqe);
	r = list_check(s->qp, &all);
	if (r == WEFT_R_MEMORY_GONE)
		return rdmap_rx_gone(s, r);
	return r == WEFT_OK ? RX_OK : refuse_sink(s, r);
}

enum rx_result rdmap_rx_open(struct iwarp_stream *s, uint64_t now_ns)
{
	switch (s->rx.segment.opcode) {
	case RDMAP_WRITE:
		return open_write(s);
	case RDMAP_READ_RESPONSE:
		return open_response(s);
	default:
		return open_send(s, now_ns);
	}
}

enum rx_result rdmap_rx_gone(struct iwarp_stream *s, enum weft_reason r)
{
	enum weft_reason reason = mem_gone_reason(r, WEFT_R_SINK_GONE);

	switch (s->rx.segment.opcode) {
	case RDMAP_WRITE:
		return refuse_access(s, reason);
	case RDMAP_READ_RESPONSE:
	case RDMAP_ATOMIC_RESPONSE:
		readq_answered(
			s, &(struct outcome){ .status = WEFT_ERR_LOCAL_ACCESS, .reason = reason });
		break;
	default:
		end_receive(s, WEFT_ERR_LOCAL_ACCESS, reason);
	}
	return refuse(s, reason);
}

enum weft_reason stream_spans(struct iwarp_stream *s, const struct stretch *list,
			      struct mem_span *spans, uint32_t max, uint32_t *count)
{
	struct stretch part = *list;
	enum weft_reason r;

	part.can_wait = true;
	r = qp_segments_spans(s->qp, &part, spans, max, count);
	return r == WEFT_R_SPACE_UNMAPPED && !qp_segments_will_come(s->qp, list)
		       ? WEFT_R_SPACE_MAPPING
		       : r;
}

enum rx_result rdmap_rx_spans(struct iwarp_stream *s, struct mem_span *spans, uint32_t max,
			      uint32_t *count)
{
	const struct rx_segment *seg = &s->rx.segment;
	uint32_t placed = s->rx.placed, left = seg->bytes - placed;
	bool will_come = false;
	struct mem_grant grant;
	struct stretch part;
	enum weft_reason r;

	if (seg->opcode == RDMAP_WRITE) {
		r = write_access(s, &grant);
		if (r == WEFT_OK)
			*count = mem_grant_spans(&grant, spans, max);
		else if (r == WEFT_R_SPACE_UNMAPPED)
			will_come = mem_grant_will_come(&grant);
	} else {
		if (seg->opcode == RDMAP_READ_RESPONSE) {
			part = sink_stretch(readq_oldest(s));
			part.offset = s->reads.out_bytes + placed;
		} else {
			part = qp_recv_stretch(s->qp);
			part.offset = seg->mo + placed;
		}
		part.length = left;
		r = stream_spans(s, &part, spans, max, count);
		will_come = r == WEFT_R_SPACE_UNMAPPED;
	}
	if (r == WEFT_OK)
		return RX_OK;
	if (will_come)
		return await_page(s);
	return seg->opcode == RDMAP_WRITE ? refuse_access(s, r) : rdmap_rx_gone(s, r);
}

/* ---- Delivery ------------------------------------------------------------------------------- */

/* SQR-09: the tag is invalidated before the consumer sees the completion. */
static enum rx_result deliver_send(struct iwarp_stream *s)
{
	struct rx *rx = &s->rx;
	const struct rx_segment *seg = &rx->segment;
	struct weft_qp *qp = s->qp;
	struct weft_completion completion = { .opcode = WEFT_OP_RECV };
	bool is_solicited = seg->opcode == RDMAP_SEND_SE || seg->opcode == RDMAP_SEND_SE_INVALIDATE;

	rx->send_bytes += seg->bytes;
	if (!seg->is_last)
		return RX_OK;
	completion.byte_count = rx->send_bytes;
	rx->send_bytes = 0;
	rx->msn[RDMAP_QN_SEND]++;
	if (is_rtr_send(s))
		return RX_OK;
	if (is_invalidate(seg->opcode)) {
		enum weft_reason r = mem_invalidate(&s->adapter->mem, qp->pd->number, qp->number,
						    seg->ulp32);

		if (r != WEFT_OK)
			return refuse_access(s, r);
		completion.has_invalidated = true;
		completion.invalidated_tag = seg->ulp32;
	}
	s->counts.messages_in++;
	qp_recv_retire(qp, &completion, is_solicited);
	return RX_OK;
}

/* TOUCH-05 in order: the last segment of the first message closes a one-touch entry. */
static enum rx_result deliver_write(struct iwarp_stream *s)
{
	struct rx *rx = &s->rx;
	const struct rx_segment *seg = &rx->segment;
	/* The segment ends with the FPDU's CRC; TCP has delivered exactly up to there. */
	uint64_t end = rx->first + mpa_fpdu_bytes(seg->ulpdu_bytes);
	const struct touch_stream touch = {
		.end_sn = (uint32_t)(end - 1),
		.expected_sn = (uint32_t)rx->first,
		.next_sn = (uint32_t)end,
		.qp = s->qp->number,
	};
	enum weft_reason r = WEFT_OK;
	bool is_placed;

	if (rx->is_write_whole)
		rx->write_bytes = 0;
	rx->write_bytes += seg->bytes;
	rx->is_write_whole = seg->is_last;
	s->counts.messages_in += seg->is_last;
	if (seg->bytes > 0)
		r = mem_touch_segment(&s->adapter->mem, seg->stag, seg->is_last, &touch,
				      &is_placed);
	return r == WEFT_OK ? RX_OK : refuse_access(s, r);
}

static enum rx_result deliver_response(struct iwarp_stream *s)
{
	const struct rx_segment *seg = &s->rx.segment;
	struct send_wqe *wqe = readq_oldest(s);
	struct outcome out = { .status = WEFT_SUCCESS };

	if (s->reads.is_rtr_pending) {
		s->reads.is_rtr_pending = false;
		tx_fill(s);
		return RX_OK;
	}
	s->reads.out_bytes += seg->bytes;
	if (!seg->is_last)
		return RX_OK;
	s->counts.messages_in++;
	out.byte_count = wqe->length;
	/* AMB-04: the response is a message to its sink, and so uses up a one-touch sink. */
	if (wqe->length > 0)
		mem_touch_message(&s->adapter->mem, wqe_segments(wqe)->tag);
	readq_answered(s, &out);
	return RX_OK;
}

static enum rx_result deliver_atomic(struct iwarp_stream *s, const uint8_t *body)
{
	const struct rx_segment *seg = &s->rx.segment;
	struct rd r = rd_of(body, seg->bytes);
	struct outcome out = { .status = WEFT_SUCCESS, .byte_count = sizeof(uint64_t) };
	struct send_wqe *wqe = readq_oldest(s);
	struct rdmap_atomic_response answer;
	struct mem_span spans[sizeof(answer.original)];
	struct stretch all;
	uint32_t count;
	enum weft_reason reason;
	enum rx_result result = check_order(s, 0);

	if (result != RX_OK)
		return result;
	if (rdmap_atomic_response_decode(&answer, &r) != RDMAP_OK || r.at != r.end || !seg->is_last)
		return refuse(s, WEFT_R_RDMAP_BODY);
	if (!wqe || wqe->opcode == WEFT_OP_READ || s->reads.is_rtr_pending ||
	    answer.id != s->reads.atomic_answered)
		return refuse(s, WEFT_R_RDMAP_RESPONSE);
	all = sink_stretch(wqe);
	all.kind = MEM_LOCAL_WRITE;
	all.length = sizeof(answer.original);
	reason = stream_spans(s, &all, spans, sizeof(answer.original), &count);
	if (reason == WEFT_R_SPACE_UNMAPPED)
		return await_page(s);
	if (reason != WEFT_OK)
		return rdmap_rx_gone(s, reason);
	for (uint32_t i = 0, at = 0; i < count; at += (uint32_t)spans[i++].length) {
		if (!mem_span_write(&spans[i], (const uint8_t *)&answer.original + at))
			return rdmap_rx_gone(s, WEFT_R_MEMORY_GONE);
	}
	s->reads.atomic_answered++;
	s->rx.msn[RDMAP_QN_ATOMIC_RESPONSE]++;
	s->counts.messages_in++;
	readq_answered(s, &out);
	return RX_OK;
}

/*
 * RFC 7306 section 6: consumes a receive like a Send. The immediate data of verbs is the first 32
 * bits.
 */
static enum rx_result deliver_immediate(struct iwarp_stream *s, uint64_t now_ns,
					const uint8_t *body)
{
	struct rx *rx = &s->rx;
	const struct rx_segment *seg = &rx->segment;
	struct rd r = rd_of(body, seg->bytes);
	struct weft_completion completion = {
		.opcode = WEFT_OP_RECV_WRITE_IMM,
		.byte_count = (uint32_t)rx->write_bytes,
		.has_imm = true,
		.imm = rd_u32(&r),
	};
	enum rx_result result = check_order(s, 0);

	if (result != RX_OK)
		return result;
	if (seg->bytes != RDMAP_IMMEDIATE_BYTES || !seg->is_last)
		return refuse(s, WEFT_R_RDMAP_BODY);
	if (s->qp->recv) /* a Send is incomplete */
		return refuse(s, WEFT_R_RDMAP_OPCODE);
	result = claim_receive(s, now_ns);
	if (result != RX_OK)
		return result;
	rx->msn[RDMAP_QN_SEND]++;
	rx->write_bytes = 0;
	s->counts.messages_in++;
	qp_recv_retire(s->qp, &completion, seg->opcode == RDMAP_IMMEDIATE_SE);
	return RX_OK;
}

static enum rx_result deliver_terminate(struct iwarp_stream *s, const uint8_t *body)
{
	const struct rx_segment *seg = &s->rx.segment;
	struct rd r = rd_of(body, seg->bytes);
	struct rdmap_terminate t;

	if (rdmap_terminate_decode_any(&t, &r) != RDMAP_OK)
		return refuse(s, WEFT_R_RDMAP_BODY);
	s->counts.messages_in++;
	stream_terminated(s, &t);
	return RX_REFUSED;
}

static enum rx_result deliver(struct iwarp_stream *s, uint64_t now_ns, const uint8_t *body)
{
	const struct rx_segment *seg = &s->rx.segment;

	switch (seg->opcode) {
	case RDMAP_WRITE:
		s->counts.payload_in += seg->bytes;
		return deliver_write(s);
	case RDMAP_READ_RESPONSE:
		s->counts.payload_in += seg->bytes;
		return deliver_response(s);
	case RDMAP_READ_REQUEST:
	case RDMAP_ATOMIC_REQUEST:
		return readq_request(s, body);
	case RDMAP_ATOMIC_RESPONSE:
		return deliver_atomic(s, body);
	case RDMAP_IMMEDIATE:
	case RDMAP_IMMEDIATE_SE:
		return deliver_immediate(s, now_ns, body);
	case RDMAP_TERMINATE:
		return deliver_terminate(s, body);
	default:
		s->counts.payload_in += seg->bytes;
		return deliver_send(s);
	}
}

enum rx_result rdmap_rx_deliver(struct iwarp_stream *s, uint64_t now_ns, const uint8_t *body)
{
	enum rdmap_opcode opcode = s->rx.segment.opcode;
	bool is_request = opcode != RDMAP_READ_RESPONSE && opcode != RDMAP_ATOMIC_RESPONSE &&
			  opcode != RDMAP_TERMINATE;
	enum rx_result r = deliver(s, now_ns, body);

	/* One that waits for a receive comes again. */
	s->counts.requests_in += is_request && r != RX_BLOCKED;
	return r;
}
