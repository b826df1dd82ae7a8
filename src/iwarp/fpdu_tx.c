/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/crc.h"

enum {
	TX_SPANS = 16,
	HEADER_MAX = MPA_HEADER_BYTES + DDP_HEADER_MAX + RDMAP_ATOMIC_REQUEST_BYTES,
	TRAILER_MAX = 3 + MPA_CRC_BYTES,
	MARKERS_MAX = 6, /* of an FPDU of TX_MARKED_MAX */
	FPDU_MAX = HEADER_MAX + TX_COPY_MAX + TRAILER_MAX + MARKERS_MAX * MPA_MARKER_BYTES
};

_Static_assert((int)TX_BYTES >= 2 * (int)FPDU_MAX && (int)TX_FPDUS >= 2,
	       "there is always room for one FPDU, after tx_prune() for a Terminate too");

bool tx_has_room(const struct iwarp_stream *s)
{
	const struct tx *tx = &s->tx;

	return tx->count < tx->fpdus_max && tx->used + FPDU_MAX <= tx->size && tx->ready < TX_BATCH;
}

static struct tx_fpdu *fpdu_at(struct tx *tx, uint32_t n)
{
	n += tx->first;
	return &tx->fpdus[n < tx->fpdus_max ? n : n - tx->fpdus_max];
}

/* What of an FPDU lies in tx.bytes before its payload, and the payload if that is a copy. */
static uint32_t front_bytes(const struct tx_fpdu *f)
{
	return f->header_bytes + (f->source == TX_COPY ? f->payload_bytes : 0);
}

static uint32_t outer_payload(const struct tx_fpdu *f)
{
	return f->source == TX_COPY ? 0 : f->payload_bytes;
}

/* What it takes of tx.bytes. */
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

/* Walks over the bytes of an FPDU as they go out, markers included. */
struct walk {
	struct iwarp_stream *s;
	const struct tx_fpdu *f;
	struct span_list *list;		 /* where the bytes are listed; or NULL: */
	uint32_t crc;			 /* they are summed */
	uint32_t skip;			 /* bytes that have gone out already */
	uint32_t at;			 /* position in the FPDU */
	uint32_t markers;		 /* passed */
	bool is_full;			 /* the list takes no more */
	const struct mem_paging *paging; /* of payload that may go; NULL: it stays */
	bool is_gone;			 /* before it was summed */
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

/* The payload where it lies, found and checked anew each time. */
static enum weft_reason walk_payload(struct walk *w)
{
	uint32_t done = 0;

	/* Bound: every round passes something. */
	while (done < outer_payload(w->f) && !w->is_full) {
		struct mem_span spans[TX_SPANS];
		uint32_t count = TX_SPANS, before = done;
		enum weft_reason r = rdmap_tx_spans(w->s, w->f, done, spans, &count);

		if (r != WEFT_OK)
			return r;
		for (uint32_t i = 0; i < count && !w->is_full; i++) {
			w->paging = mem_span_may_go(&spans[i]) ? spans[i].paging : NULL;
			if (w->list)
				w->list->may_go |= w->paging != NULL;
			walk_marked(w, spans[i].bytes, spans[i].length);
			done += (uint32_t)spans[i].length;
		}
		w->paging = NULL;
		if (w->is_gone)
			return WEFT_R_SPACE_MAPPING;
		CHECK(done > before);
	}
	return WEFT_OK;
}

/* All of it, or for the CRC all that comes before the CRC itself. */
static enum weft_reason walk_fpdu(struct walk *w)
{
	const struct tx_fpdu *f = w->f;
	uint8_t *front = w->s->tx.bytes + f->at, *trailer = front + front_bytes(f);
	uint32_t pad = f->trailer_bytes - MPA_CRC_BYTES;
	enum weft_reason r;

	if (outer_payload(f) == 0 && f->marker_count == 0) { /* it lies in one stretch */
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
	/* A marker between pad and CRC is still before the CRC. */
	if (w->markers < f->marker_count)
		walk_bytes(w, trailer + f->trailer_bytes + MPA_MARKER_BYTES * w->markers,
			   MPA_MARKER_BYTES);
	return WEFT_OK;
}

/* ---- Cutting -------------------------------------------------------------------------------- */

/* How much of the message goes into its next FPDU: as much as in the others. */
static uint32_t piece_bytes(const struct iwarp_stream *s)
{
	const struct tx_message *m = &s->tx.message;
	uint32_t max = s->terms.sends_markers ? TX_MARKED_MAX : TX_PAYLOAD_MAX;
	uint32_t left = m->length - m->offset, pieces, piece;

	if (left <= max)
		return left;
	pieces = (m->length - 1) / max + 1;
	piece = (m->length / pieces + 64) / 64 * 64;
	return piece < max ? piece : max;
}

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

/* RFC 5044 section 4.3: writes the markers that fall into the FPDU. */
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
 * A small payload is copied behind its header: the kernel takes one stretch of memory much faster
 * than three, and what is copied is not looked up again. For a Read's answer it is also a snapshot:
 * its owner may change that memory at any time, between our CRC of it and the kernel's copy too.
 * For a large answer with a CRC that is the owner's care (docs/iwarp.md).
 */
static enum weft_reason take_snapshot(struct iwarp_stream *s, struct tx_fpdu *f)
{
	uint8_t *to = s->tx.bytes + f->at + f->header_bytes;
	struct mem_span spans[TX_SPANS];
	uint32_t done = 0;

	/* Bound: every round copies something. */
	while (done < f->payload_bytes) {
		uint32_t count = TX_SPANS, before = done;
		enum weft_reason r = rdmap_tx_spans(s, f, done, spans, &count);

		if (r != WEFT_OK)
			return r;
		for (uint32_t i = 0; i < count; i++) {
			if (!mem_span_read(&spans[i], to + done))
				return WEFT_R_SPACE_MAPPING;
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
		.at = (uint16_t)tx->used,
		.phase = (uint16_t)tx->phase,
		.source = (uint8_t)m->source,
	};
	is_last = m->offset + f->payload_bytes == m->length;
	encode_header(s, f, is_last);
	if (f->source != TX_NOTHING && f->payload_bytes <= TX_COPY_MAX)
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
	if (r != WEFT_OK) {
		stream_refuse(s, WEFT_R_SOURCE_GONE, NULL);
		return false;
	}
	end_piece(s, f, is_last);
	return true;
}

/* ---- Going out ------------------------------------------------------------------------------ */

/* Takes back what was listed since the list was like this. */
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
		if (walk_fpdu(&w) != WEFT_OK) {
			list_cut_back(l, &was);
			if (n == 0)
				stream_refuse(s, WEFT_R_SOURCE_GONE, NULL);
			return; /* what is before it goes first */
		}
	}
}

void iwarp_sent(struct iwarp_stream *s, uint64_t now_ns, size_t n)
{
	struct tx *tx = &s->tx;

	(void)now_ns;
	s->counts.bytes_out += n;
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
	/* Half gone: its rest may go if it is ours alone. At the front it leaves room behind it. */
	tx->count = 1;
	tx->phase = (f->phase + whole_bytes(f)) % MPA_MARKER_EVERY;
	f->ends = TX_NOTHING;
	tx->used = own_bytes(f);
	memmove(tx->bytes, tx->bytes + f->at, tx->used);
	f->at = 0;
	return outer_payload(f) == 0;
}
