/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/crc.h"

enum {
	TX_SPANS = 16,
	HEADER_MAX = MPA_HEADER_BYTES + DDP_HEADER_MAX + RDMAP_ATOMIC_REQUEST_BYTES,
	TRAILER_MAX = 3 + MPA_CRC_BYTES,
	MARKERS_MAX = 6, /* markers in an FPDU of TX_MARKED_MAX */
	FPDU_MAX = HEADER_MAX + TX_COPY_MAX + TRAILER_MAX + MARKERS_MAX * MPA_MARKER_BYTES
};

_Static_assert((int)TX_BYTES >= 2 * (int)FPDU_MAX && (int)TX_FPDUS >= 2 &&
		       (int)LENT_TX_BYTES >= 2 * (int)FPDU_MAX + (int)TX_PAYLOAD_MAX,
	       "there is always room for one FPDU, after tx_prune() for a Terminate too");

void tx_await_page(struct iwarp_stream *s)
{
	s->tx.is_absent = true;
	qp_await_memory(s->qp);
}

/*
 * A Read response with a CRC is sent from a copy: its memory may change at any time, even between
 * our CRC and the kernel's copy, and the peer would refuse the frame.
 */
static bool needs_snapshot(const struct iwarp_stream *s, const struct tx_message *m)
{
	return s->terms.has_crc && m->source == TX_RESPONSE;
}

/*
 * The payload of the message's next FPDU: FPDUs of a message have equal size, except for rounding.
 */
static uint32_t piece_bytes(const struct iwarp_stream *s)
{
	const struct tx_message *m = &s->tx.message;
	uint32_t max = s->terms.sends_markers ? TX_MARKED_MAX : TX_PAYLOAD_MAX;
	uint32_t left = m->length - m->offset, pieces, piece;

	if (needs_snapshot(s, m) && !s->buffers)
		max = TX_COPY_MAX;
	if (left <= max)
		return left;
	pieces = (m->length - 1) / max + 1;
	piece = (m->length / pieces + 64) / 64 * 64;
	return piece < max ? piece : max;
}

bool tx_has_room(const struct iwarp_stream *s)
{
	const struct tx *tx = &s->tx;
	uint32_t bytes = FPDU_MAX;

	if (tx->has_message && s->buffers && needs_snapshot(s, &tx->message))
		bytes += piece_bytes(s);
	return tx->count < tx->fpdus_max && tx->used + bytes <= tx->size && tx->ready < TX_BATCH;
}

static struct tx_fpdu *fpdu_at(struct tx *tx, uint32_t n)
{
	n += tx->first;
	return &tx->fpdus[n < tx->fpdus_max ? n : n - tx->fpdus_max];
}

/* Bytes of an FPDU in tx.bytes up to its trailer: the header, and the payload if it was copied. */
static uint32_t front_bytes(const struct tx_fpdu *f)
{
	return f->header_bytes + (f->source == TX_COPY ? f->payload_bytes : 0);
}

static uint32_t outer_payload(const struct tx_fpdu *f)
{
	return f->source == TX_COPY ? 0 : f->payload_bytes;
}

/* Bytes of tx.bytes that the FPDU uses. */
static uint32_t own_bytes(const struct tx_fpdu *f)
{
	return front_bytes(f) + f->trailer_bytes + f->marker_count * (uint32_t)MPA_MARKER_BYTES;
}

static uint32_t whole_bytes(const struct tx_fpdu *f)
{
	return f->header_bytes + f->payload_bytes + f->trailer_bytes +
	       f->marker_count * (uint32_t)MPA_MARKER_BYTES;
}

/* ---- Spans ---------------------------------------------------------------------------------- */

/* Walks over the bytes of an FPDU in wire order, markers included. */
struct walk {
	struct iwarp_stream *s;
	const struct tx_fpdu *f;
	struct span_list *list;		 /* lists the bytes; NULL: computes the CRC */
	uint32_t crc;			 /* of the bytes so far */
	uint32_t skip;			 /* bytes that were sent already */
	uint32_t at;			 /* position in the FPDU */
	uint32_t markers;		 /* passed so far */
	bool is_full;			 /* the list has no room */
	const struct mem_paging *paging; /* of payload that may be unmapped; NULL: it stays */
	bool is_gone;			 /* before its CRC was computed */
};

static void walk_bytes(struct walk *w, uint8_t *bytes, size_t length)
{
	size_t skip = w->skip < length ? w->skip : length;

	w->at += (uint32_t)length;
	w->skip -= (uint32_t)skip;
	if (!w->list)
		w->is_gone |= !mem_crc32c(w->paging, &w->crc, bytes, length);
	else if (!w->is_full)
		w->is_full = !span_list_add(w->list, bytes + skip, length - skip);
}

/* RFC 5044 section 4.3: a marker wherever the stream's position is a multiple of 512. */
static void walk_marked(struct walk *w, uint8_t *bytes, size_t length)
{
	const struct tx_fpdu *f = w->f;
	uint8_t *marker = w->s->tx.bytes + f->at + front_bytes(f) + f->trailer_bytes;

	if (!w->s->terms.sends_markers) {
		walk_bytes(w, bytes, length);
		return;
	}
	while (length > 0 && !w->is_full) {
		size_t n = mpa_marker_distance(f->phase + w->at);

		if (n == 0) {
			walk_bytes(w, marker + MPA_MARKER_BYTES * w->markers++, MPA_MARKER_BYTES);
			n = MPA_MARKER_EVERY - MPA_MARKER_BYTES;
		}
		n = n < length ? n : length;
		walk_bytes(w, bytes, n);
		bytes += n;
		length -= n;
	}
}

/* The payload in the consumer's memory, looked up and checked again each time. */
static enum weft_reason walk_payload(struct walk *w)
{
	uint32_t done = 0;

	/* Bound: each iteration passes some bytes. */
	while (done < outer_payload(w->f) && !w->is_full) {
		struct mem_span spans[TX_SPANS];
		uint32_t count = TX_SPANS, before = done;
		enum weft_reason r = rdmap_tx_spans(w->s, w->f, done, spans, &count);

		if (r != WEFT_OK)
			return r;
		for (uint32_t i = 0; i < count && !w->is_full; i++) {
			if (w->s->tx.is_doubtful && !mem_span_is_there(&spans[i]))
				return WEFT_R_MEMORY_GONE;
			w->paging = mem_span_may_go(&spans[i]) ? spans[i].paging : NULL;
			if (w->list)
				w->list->may_go |= w->paging != NULL;
			walk_marked(w, spans[i].bytes, spans[i].length);
			done += (uint32_t)spans[i].length;
		}
		w->paging = NULL;
		if (w->is_gone)
			return WEFT_R_MEMORY_GONE;
		CHECK(done > before);
	}
	return WEFT_OK;
}

/* Walks over the whole FPDU, or, for the CRC, over all bytes before the CRC. */
static enum weft_reason walk_fpdu(struct walk *w)
{
	const struct tx_fpdu *f = w->f;
	uint8_t *front = w->s->tx.bytes + f->at, *trailer = front + front_bytes(f);
	uint32_t pad = f->trailer_bytes - MPA_CRC_BYTES;
	enum weft_reason r;

	if (outer_payload(f) == 0 && f->marker_count == 0) { /* it is contiguous */
		walk_bytes(w, front, whole_bytes(f) - (w->list ? 0 : MPA_CRC_BYTES));
		return WEFT_OK;
	}
	walk_marked(w, front, front_bytes(f));
	r = walk_payload(w);
	if (r != WEFT_OK)
		return r;
	if (w->list) {
		walk_marked(w, trailer, f->trailer_bytes);
		return WEFT_OK;
	}
	walk_marked(w, trailer, pad);
	/* The CRC covers a marker between pad and CRC. */
	if (w->markers < f->marker_count)
		walk_bytes(w, trailer + f->trailer_bytes + MPA_MARKER_BYTES * w->markers,
			   MPA_MARKER_BYTES);
	return WEFT_OK;
}

/* ---- Cutting -------------------------------------------------------------------------------- */

static void encode_header(struct iwarp_stream *s, struct tx_fpdu *f, bool is_last)
{
	const struct tx_message *m = &s->tx.message;
	struct wr w = wr_of(s->tx.bytes + f->at, HEADER_MAX);
	uint32_t ddp_bytes = m->is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;

	wr_u16(&w, (uint16_t)(ddp_bytes + m->body_bytes + f->payload_bytes));
	if (m->is_tagged)
		ddp_tagged_encode(
			&(struct ddp_tagged){
				.is_last = is_last,
				.ulp = rdmap_control_encode(m->opcode),
				.stag = m->stag,
				.to = m->to + m->offset,
			},
			&w);
	else
		ddp_untagged_encode(
			&(struct ddp_untagged){
				.is_last = is_last,
				.ulp = rdmap_control_encode(m->opcode),
				.ulp32 = m->ulp32,
				.qn = m->qn,
				.msn = m->msn,
				.mo = m->offset,
			},
			&w);
	wr_bytes(&w, m->body, m->body_bytes);
	CHECK(!w.is_short);
	f->header_bytes = (uint8_t)(MPA_HEADER_BYTES + ddp_bytes + m->body_bytes);
}

/* RFC 5044 section 4.3: writes the markers of the FPDU. */
static void encode_markers(struct iwarp_stream *s, struct tx_fpdu *f)
{
	uint32_t bytes = f->header_bytes + f->payload_bytes + f->trailer_bytes;
	struct wr w = wr_of(s->tx.bytes + f->at + front_bytes(f) + f->trailer_bytes,
			    MARKERS_MAX * MPA_MARKER_BYTES);
	uint32_t at = mpa_marker_distance(f->phase);

	if (!s->terms.sends_markers)
		return;
	f->marker_count = (uint8_t)mpa_marker_count(f->phase, bytes);
	for (uint32_t i = 0; i < f->marker_count; i++, at += MPA_MARKER_EVERY)
		mpa_marker_encode((uint16_t)mpa_marker_back(f->phase, at), &w);
	CHECK(!w.is_short);
}

/*
 * Copies a payload behind its header: a snapshot, or a small one, as the kernel sends one range
 * much faster than three. The memory need not be looked up again.
 */
static enum weft_reason take_snapshot(struct iwarp_stream *s, struct tx_fpdu *f)
{
	uint8_t *to = s->tx.bytes + f->at + f->header_bytes;
	struct mem_span spans[TX_SPANS];
	uint32_t done = 0;

	/* Bound: each iteration copies some bytes. */
	while (done < f->payload_bytes) {
		uint32_t count = TX_SPANS, before = done;
		enum weft_reason r = rdmap_tx_spans(s, f, done, spans, &count);

		if (r != WEFT_OK)
			return r;
		for (uint32_t i = 0; i < count; i++) {
			if (!mem_span_read(&spans[i], to + done))
				return WEFT_R_MEMORY_GONE;
			done += (uint32_t)spans[i].length;
		}
		CHECK(done > before);
	}
	s->counts.payload_copied += done;
	f->source = TX_COPY;
	return WEFT_OK;
}

static void end_piece(struct iwarp_stream *s, struct tx_fpdu *f, bool is_last)
{
	struct tx *tx = &s->tx;
	struct tx_message *m = &tx->message;

	f->ends = is_last && !m->has_immediate ? (uint8_t)m->ends : TX_NOTHING;
	tx->used = f->at + own_bytes(f);
	tx->phase = (tx->phase + whole_bytes(f)) % MPA_MARKER_EVERY;
	tx->ready += f->payload_bytes;
	tx->count++;
	m->offset += f->payload_bytes;
	s->counts.fpdus_out++;
	s->counts.payload_out += f->payload_bytes;
	if (is_last) {
		tx->has_message = false;
		s->counts.messages_out++;
	}
	stream_attention(s);
}

/*
 * The payload of an FPDU is missing: its request fails, if it is of one; the stream ends. The peer
 * learns for which Read a page is gone.
 */
static void source_gone(struct iwarp_stream *s, uint8_t source, uint32_t slot, enum weft_reason r)
{
	enum weft_reason reason = mem_gone_reason(r, WEFT_R_SOURCE_GONE);

	if (source == TX_RESPONSE && r == WEFT_R_MEMORY_GONE && s->state == STREAM_OPEN) {
		readq_refuse(s, slot, r);
		return;
	}
	if (source == TX_REQUEST && s->state == STREAM_OPEN)
		send_queue_end(
			s->qp, send_queue_at(&s->qp->sq, slot),
			&(struct outcome){ .status = WEFT_ERR_LOCAL_ACCESS, .reason = reason });
	stream_refuse(s, reason, NULL);
}

bool tx_cut(struct iwarp_stream *s)
{
	struct tx *tx = &s->tx;
	const struct tx_message *m = &tx->message;
	struct tx_fpdu *f = fpdu_at(tx, tx->count);
	struct walk sum = { .s = s, .f = f, .crc = CRC32C_BEGIN };
	uint32_t pad, ulpdu_bytes;
	bool is_last;
	enum weft_reason r = WEFT_OK;

	*f = (struct tx_fpdu){
		.payload_bytes = piece_bytes(s),
		.offset = m->offset,
		.slot = m->slot,
		.at = tx->used,
		.phase = (uint16_t)tx->phase,
		.source = (uint8_t)m->source,
	};
	is_last = m->offset + f->payload_bytes == m->length;
	s->is_cramped |= !s->buffers && !is_last && needs_snapshot(s, m);
	encode_header(s, f, is_last);
	if (f->source != TX_NOTHING && (f->payload_bytes <= TX_COPY_MAX || needs_snapshot(s, m)))
		r = take_snapshot(s, f);
	ulpdu_bytes = f->header_bytes - MPA_HEADER_BYTES + f->payload_bytes;
	pad = mpa_pad(ulpdu_bytes);
	f->trailer_bytes = (uint8_t)(pad + MPA_CRC_BYTES);
	memset(tx->bytes + f->at + front_bytes(f), 0, f->trailer_bytes);
	encode_markers(s, f);
	if (s->terms.has_crc && r == WEFT_OK) {
		r = walk_fpdu(&sum);
		mpa_crc_encode(crc32c_end(sum.crc), tx->bytes + f->at + front_bytes(f) + pad);
	}
	if (r == WEFT_R_SPACE_UNMAPPED) {
		tx_await_page(s);
		return false;
	}
	if (r != WEFT_OK) {
		if (tx->count > 0) /* what was cut before is correct: send it first */
			return false;
		if (m->source == TX_RESPONSE)
			readq_refuse(s, m->slot, r);
		else
			source_gone(s, (uint8_t)m->source, m->slot, r);
		return false;
	}
	end_piece(s, f, is_last);
	return true;
}

/* ---- Going out ------------------------------------------------------------------------------ */

/* Restores the list to an earlier state. */
static void list_cut_back(struct span_list *l, const struct span_list *was)
{
	l->count = was->count;
	l->length = was->length;
	if (l->count > 0)
		l->spans[l->count - 1].length = was->spans[0].length;
}

/* The list's length, count and last span, for list_cut_back(). */
static void list_note(const struct span_list *l, struct span_list *was)
{
	was->count = l->count;
	was->length = l->length;
	was->spans[0] = l->spans[l->count - (l->count > 0)];
}

void iwarp_have(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l)
{
	struct tx *tx = &s->tx;
	struct walk w = { .s = s, .list = l };
	struct span_list was;
	enum weft_reason r;

	l->count = 0;
	l->length = 0;
	l->may_go = false;
	stream_close_wait(s, now_ns);
	if (s->state >= STREAM_CLOSED || tx->is_held)
		return;
	for (uint32_t n = 0; n < tx->count && !w.is_full; n++) {
		list_note(l, &was);
		w.f = fpdu_at(tx, n);
		w.skip = n == 0 ? tx->taken : 0;
		w.at = 0;
		w.markers = 0;
		r = walk_fpdu(&w);
		if (r == WEFT_R_SPACE_UNMAPPED)
			tx_await_page(s);
		if (r != WEFT_OK) {
			list_cut_back(l, &was);
			if (n == 0 && r != WEFT_R_SPACE_UNMAPPED)
				source_gone(s, w.f->source, w.f->slot, r);
			return; /* send the FPDUs before it first */
		}
	}
}

/* The list may hold FPDUs whose payload is there, before the one whose payload is not. */
void iwarp_source_gone(struct iwarp_stream *s)
{
	const struct tx_fpdu *f = fpdu_at(&s->tx, 0);

	if (s->tx.is_doubtful)
		source_gone(s, f->source, f->slot, WEFT_R_MEMORY_GONE);
	s->tx.is_doubtful = true;
}

void iwarp_sent(struct iwarp_stream *s, uint64_t now_ns, size_t n)
{
	struct tx *tx = &s->tx;

	(void)now_ns;
	s->counts.bytes_out += n;
	tx->is_doubtful = false;
	while (n > 0) {
		const struct tx_fpdu *f = fpdu_at(tx, 0);
		uint32_t left;

		CHECK(tx->count > 0);
		left = whole_bytes(f) - tx->taken;
		if (n < left) {
			tx->taken += (uint32_t)n;
			break;
		}
		n -= left;
		tx->taken = 0;
		tx->ready -= f->payload_bytes;
		rdmap_tx_taken(s, f);
		tx->first = tx->first + 1 < tx->fpdus_max ? tx->first + 1 : 0;
		tx->count--;
	}
	if (tx->count == 0)
		tx->used = 0;
	tx_fill(s);
}

bool tx_prune(struct iwarp_stream *s)
{
	struct tx *tx = &s->tx;
	struct tx_fpdu *f = fpdu_at(tx, 0);

	tx->ready = 0;
	if (tx->count == 0)
		return true;
	tx->phase = f->phase;
	if (tx->taken == 0) {
		tx->count = 0;
		tx->used = 0;
		return true;
	}
	/*
	 * Half of the FPDU is sent. The rest may follow if it lies in our buffer; moved to the
	 * front, it leaves room for a Terminate.
	 */
	tx->count = 1;
	tx->phase = (f->phase + whole_bytes(f)) % MPA_MARKER_EVERY;
	f->ends = TX_NOTHING;
	tx->used = own_bytes(f);
	memmove(tx->bytes, tx->bytes + f->at, tx->used);
	f->at = 0;
	return outer_payload(f) == 0;
}
