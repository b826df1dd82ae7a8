/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "iscsi/framing/framing_inside.h"

enum { TRAILER_MAX = ISCSI_PAD_MAX + ISCSI_DIGEST_BYTES };

static struct tx_pdu *pdu_at(struct framing_tx *tx, uint32_t n)
{
	n += tx->first;
	return &tx->pdus[n < tx->pdus_max ? n : n - tx->pdus_max];
}

static uint32_t whole_bytes(const struct tx_pdu *p)
{
	return p->front_bytes + p->data_bytes + p->trailer_bytes;
}

/* ---- Room ----------------------------------------------------------------------------------- */

/* Finds a stretch of the ring behind the last one. False: there is none. */
static bool find_room(const struct framing_tx *tx, uint32_t bytes, uint32_t *at)
{
	uint32_t begin = tx->count > 0 ? tx->pdus[tx->first].at : 0;
	uint32_t end = tx->count > 0 ? tx->end : 0;

	if (tx->count == tx->pdus_max)
		return false;
	*at = end;
	if (tx->count > 0 && end <= begin) /* the stretches have gone round */
		return begin - end >= bytes;
	if (tx->size - end >= bytes)
		return true;
	*at = 0;
	return begin >= bytes;
}

static uint32_t room_bytes(uint32_t more)
{
	return ISCSI_BHS_BYTES + ISCSI_DIGEST_BYTES + more + TRAILER_MAX;
}

bool iscsi_framing_has_room(const struct iscsi_framing *f, uint32_t bytes)
{
	uint32_t at;

	return find_room(&f->tx, room_bytes(bytes), &at);
}

/* ---- Encoding ------------------------------------------------------------------------------- */

/* The CRC of data that source() has. */
static enum weft_reason source_crc(struct iscsi_framing *f, const struct tx_pdu *p, uint32_t *crc)
{
	uint32_t done = 0;

	/* Bound: each iteration adds some bytes. */
	while (done < p->data_bytes) {
		struct mem_span spans[FRAMING_SPANS];
		uint32_t count = FRAMING_SPANS;
		enum weft_reason reason = f->calls->source(f->owner, p->cookie, p->data_at + done,
							   spans, &count);

		if (reason != WEFT_OK)
			return reason;
		framing_cut(spans, &count, p->data_bytes - done);
		CHECK(count > 0);
		for (uint32_t i = 0; i < count; i++) {
			const struct mem_span *s = &spans[i];

			if (!mem_crc32c(mem_span_may_go(s) ? s->paging : NULL, crc, s->bytes,
					(size_t)s->length))
				return WEFT_R_MEMORY_GONE;
			done += (uint32_t)s->length;
		}
	}
	return WEFT_OK;
}

static void put_digest(struct wr *w, uint32_t digest)
{
	uint8_t bytes[ISCSI_DIGEST_BYTES];

	iscsi_digest_encode(digest, bytes);
	wr_bytes(w, bytes, sizeof(bytes));
}

enum weft_reason iscsi_framing_send(struct iscsi_framing *f, const struct iscsi_framing_pdu *p)
{
	static const uint8_t zeros[ISCSI_PAD_MAX];
	struct framing_tx *tx = &f->tx;
	struct tx_pdu *t = pdu_at(tx, tx->count);
	uint32_t length = p->pdu->data_bytes;
	uint32_t crc = CRC32C_BEGIN, at;
	enum weft_reason reason = WEFT_OK;
	struct wr w;

	CHECK(find_room(tx, room_bytes(iscsi_ahs_bytes(p->pdu) + (p->copy ? length : 0)), &at));
	w = wr_of(tx->bytes + at, tx->size - at);
	iscsi_encode(p->pdu, &w);
	if (f->terms.has_header_digest)
		put_digest(&w,
			   iscsi_header_digest(tx->bytes + at, (size_t)(w.at - tx->bytes - at)));
	if (p->copy)
		wr_bytes(&w, p->copy, length);
	*t = (struct tx_pdu){ .cookie = p->cookie, .data_at = p->data_at, .at = at };
	t->front_bytes = (uint32_t)(w.at - tx->bytes) - at;
	t->data_bytes = p->copy ? 0 : length;
	wr_bytes(&w, zeros, iscsi_pad(length));
	if (f->terms.has_data_digest && length > 0) {
		if (p->copy)
			crc = crc32c_add(crc, p->copy, length);
		else
			reason = source_crc(f, t, &crc);
		put_digest(&w, iscsi_data_digest(crc, length));
	}
	CHECK(!w.is_short);
	if (reason != WEFT_OK)
		return reason;
	t->trailer_bytes = (uint32_t)(w.at - tx->bytes) - at - t->front_bytes;
	tx->end = at + t->front_bytes + t->trailer_bytes;
	tx->count++;
	f->counts.pdus_out++;
	f->counts.data_out += length;
	f->counts.data_copied += p->copy ? length : 0;
	return WEFT_OK;
}

/* ---- Data that is taken back ---------------------------------------------------------------- */

/* Sending only reads them: the cast is safe. */
static void zero_span(struct mem_span *span)
{
	static const uint8_t zeros[4096];

	*span = (struct mem_span){ .bytes = (uint8_t *)(uintptr_t)zeros, .length = sizeof(zeros) };
}

/* The digest of what was sent of its data, and of zeroes behind that. */
static enum weft_reason void_digest(struct iscsi_framing *f, struct tx_pdu *p, uint32_t sent)
{
	struct tx_pdu whole = *p;
	uint32_t crc = CRC32C_BEGIN, left = p->data_bytes - sent;
	enum weft_reason reason;

	whole.data_bytes = sent;
	reason = source_crc(f, &whole, &crc);
	while (left > 0) {
		struct mem_span zeros;

		zero_span(&zeros);
		zeros.length = zeros.length < left ? zeros.length : left;
		crc = crc32c_add(crc, zeros.bytes, (size_t)zeros.length);
		left -= (uint32_t)zeros.length;
	}
	iscsi_digest_encode(iscsi_data_digest(crc, p->data_bytes),
			    f->tx.bytes + p->at + p->front_bytes + p->trailer_bytes -
				    ISCSI_DIGEST_BYTES);
	return reason;
}

enum weft_reason iscsi_framing_void(struct iscsi_framing *f, uint32_t cookie)
{
	enum weft_reason reason = WEFT_OK;

	for (uint32_t n = 0; n < f->tx.count && reason == WEFT_OK; n++) {
		struct tx_pdu *p = pdu_at(&f->tx, n);
		uint32_t taken = n == 0 ? f->tx.taken : 0, sent = 0;

		if ((uint32_t)p->cookie != cookie || p->data_bytes == 0 || p->is_void)
			continue;
		if (taken > p->front_bytes)
			sent = taken - p->front_bytes;
		if (sent >= p->data_bytes)
			continue;
		/* Padding has no length of its own: with a digest, there is more than that. */
		if (p->trailer_bytes >= ISCSI_DIGEST_BYTES)
			reason = void_digest(f, p, sent);
		p->is_void = reason == WEFT_OK;
	}
	return reason;
}

/* ---- Going out ------------------------------------------------------------------------------ */

/* Lists bytes from *skip on, which it counts down. False: the list is full. */
static bool list_bytes(struct span_list *l, uint8_t *bytes, uint64_t length, uint64_t *skip)
{
	uint64_t n = *skip < length ? *skip : length;

	*skip -= n;
	return span_list_add(l, bytes + n, (size_t)(length - n));
}

static enum weft_reason source_spans(struct iscsi_framing *f, const struct tx_pdu *p, uint64_t done,
				     struct mem_span *spans, uint32_t *count)
{
	if (!p->is_void)
		return f->calls->source(f->owner, p->cookie, p->data_at + done, spans, count);
	zero_span(spans);
	*count = 1;
	return WEFT_OK;
}

/* Lists data that source() has, from *skip on. False: the list is full, or the data is not here. */
static bool list_data(struct iscsi_framing *f, const struct tx_pdu *p, struct span_list *l,
		      uint64_t *skip)
{
	uint64_t done = *skip < p->data_bytes ? *skip : p->data_bytes;

	*skip -= done;
	/* Bound: each iteration lists some bytes. */
	while (done < p->data_bytes) {
		struct mem_span spans[FRAMING_SPANS];
		uint32_t count = FRAMING_SPANS;
		enum weft_reason reason = source_spans(f, p, done, spans, &count);

		if (reason == WEFT_OK)
			framing_cut(spans, &count, p->data_bytes - done);
		for (uint32_t i = 0; reason == WEFT_OK && i < count; i++) {
			if (f->tx.is_doubtful && !mem_span_is_there(&spans[i])) {
				reason = WEFT_R_MEMORY_GONE;
				break;
			}
			if (!span_list_add(l, spans[i].bytes, (size_t)spans[i].length))
				return false;
			l->may_go |= mem_span_may_go(&spans[i]);
			done += spans[i].length;
		}
		/* What is before it goes first. */
		if (reason != WEFT_OK && reason != WEFT_R_SPACE_UNMAPPED && l->length == 0)
			framing_end(f, reason);
		if (reason != WEFT_OK)
			return false;
	}
	return true;
}

void iscsi_framing_have(struct iscsi_framing *f, uint64_t now_ns, struct span_list *l)
{
	struct framing_tx *tx = &f->tx;
	bool has_room = true;

	(void)now_ns;
	l->count = 0;
	l->length = 0;
	l->may_go = false;
	for (uint32_t n = 0; n < tx->count && has_room; n++) {
		struct tx_pdu *p = pdu_at(tx, n);
		uint64_t skip = n == 0 ? tx->taken : 0;
		uint8_t *bytes = tx->bytes + p->at;

		has_room = list_bytes(l, bytes, p->front_bytes, &skip) &&
			   list_data(f, p, l, &skip) &&
			   list_bytes(l, bytes + p->front_bytes, p->trailer_bytes, &skip);
	}
}

void iscsi_framing_sent(struct iscsi_framing *f, uint64_t now_ns, size_t n)
{
	struct framing_tx *tx = &f->tx;

	(void)now_ns;
	f->counts.bytes_out += n;
	tx->is_doubtful = false;
	while (n > 0) {
		const struct tx_pdu *p = pdu_at(tx, 0);
		uint64_t cookie = p->cookie;
		uint32_t left = whole_bytes(p) - tx->taken;

		CHECK(tx->count > 0);
		if (n < left) {
			tx->taken += (uint32_t)n;
			return;
		}
		n -= left;
		tx->taken = 0;
		tx->first = tx->first + 1 < tx->pdus_max ? tx->first + 1 : 0;
		tx->count--;
		if (cookie)
			f->calls->taken(f->owner, cookie);
	}
}

void iscsi_framing_source_gone(struct iscsi_framing *f)
{
	if (f->tx.is_doubtful)
		framing_end(f, WEFT_R_MEMORY_GONE);
	f->tx.is_doubtful = true;
}

bool iscsi_framing_is_sent(const struct iscsi_framing *f)
{
	return f->tx.count == 0;
}
