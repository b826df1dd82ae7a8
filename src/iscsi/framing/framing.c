/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "iscsi/framing/framing_inside.h"

enum {
	RECV_BYTES_DEFAULT = 8192,
	BULK_PDUS = 8 /* for so many PDUs after one, another is expected */
};

/* ---- Creation ------------------------------------------------------------------------------- */

enum weft_reason iscsi_framing_create(const struct iscsi_framing_config *c,
				      struct iscsi_framing **out)
{
	uint32_t rx_bytes = c->rx_bytes ? c->rx_bytes : ISCSI_FRAMING_RX_BYTES;
	uint32_t tx_bytes = c->tx_bytes ? c->tx_bytes : ISCSI_FRAMING_TX_BYTES;
	uint32_t pdus_max = c->tx_pdus_max ? c->tx_pdus_max : ISCSI_FRAMING_TX_PDUS;
	struct iscsi_framing *f;

	if (rx_bytes < ISCSI_FRAMING_RX_MIN || tx_bytes < ISCSI_FRAMING_TX_MIN)
		return WEFT_R_BAD_ARGUMENT;
	f = calloc(1, sizeof(*f));
	if (!f)
		return WEFT_R_NO_MEMORY;
	f->side = c->side;
	f->calls = c->calls;
	f->owner = c->owner;
	f->terms.recv_bytes_max = RECV_BYTES_DEFAULT;
	f->rx.bytes = malloc(rx_bytes);
	f->rx.size = rx_bytes;
	f->rx.since_bulk = BULK_PDUS;
	f->tx.bytes = malloc(tx_bytes);
	f->tx.size = tx_bytes;
	f->tx.pdus = calloc(pdus_max, sizeof(*f->tx.pdus));
	f->tx.pdus_max = pdus_max;
	if (!f->rx.bytes || !f->tx.bytes || !f->tx.pdus) {
		iscsi_framing_destroy(f);
		return WEFT_R_NO_MEMORY;
	}
	*out = f;
	return WEFT_OK;
}

void iscsi_framing_destroy(struct iscsi_framing *f)
{
	free(f->rx.bytes);
	free(f->tx.bytes);
	free(f->tx.pdus);
	free(f);
}

void iscsi_framing_set(struct iscsi_framing *f, const struct iscsi_framing_terms *t)
{
	f->terms = *t;
}

uint32_t iscsi_framing_buffer_bytes(const struct iscsi_framing *f)
{
	return f->rx.size - ISCSI_PAD_MAX - ISCSI_DIGEST_BYTES;
}

enum weft_reason iscsi_framing_reason(const struct iscsi_framing *f)
{
	return f->reason;
}

const struct iscsi_framing_counts *iscsi_framing_counts(const struct iscsi_framing *f)
{
	return &f->counts;
}

void framing_end(struct iscsi_framing *f, enum weft_reason reason)
{
	if (!f->is_ended)
		f->reason = reason;
	f->is_ended = true;
}

void framing_cut(struct mem_span *spans, uint32_t *count, uint64_t length)
{
	uint32_t n = 0;

	for (; n < *count && length > 0; n++) {
		if (spans[n].length > length)
			spans[n].length = length;
		length -= spans[n].length;
	}
	*count = n;
}

/* ---- One PDU -------------------------------------------------------------------------------- */

static uint32_t available(const struct framing_rx *rx)
{
	return rx->end - rx->start;
}

static const uint8_t *front(const struct framing_rx *rx)
{
	return rx->bytes + rx->start;
}

static uint32_t data_bytes(const struct framing_rx *rx)
{
	return rx->pdu.pdu.data_bytes;
}

/* Bytes of the header with its digest, as far as they are known. */
static uint32_t header_due(const struct iscsi_framing *f)
{
	uint32_t bytes = ISCSI_BHS_BYTES;

	if (f->rx.stage == RX_HEADER && available(&f->rx) >= ISCSI_BHS_BYTES)
		bytes = iscsi_header_bytes(front(&f->rx));
	return bytes + (f->terms.has_header_digest ? ISCSI_DIGEST_BYTES : 0);
}

/* Padding and data digest of the PDU at hand. */
static uint32_t trailer_due(const struct framing_rx *rx)
{
	return iscsi_pad(data_bytes(rx)) + (rx->has_data_digest ? ISCSI_DIGEST_BYTES : 0);
}

/* False: more bytes are needed; as of the other steps. */
static bool rx_header(struct iscsi_framing *f)
{
	struct framing_rx *rx = &f->rx;
	enum iscsi_side peer = f->side == ISCSI_TARGET ? ISCSI_INITIATOR : ISCSI_TARGET;
	struct iscsi_arrival *a = &rx->pdu;
	uint32_t due = header_due(f), bytes;

	if (available(rx) < ISCSI_BHS_BYTES || available(rx) < due)
		return false;
	bytes = iscsi_header_bytes(front(rx));
	if (f->terms.has_header_digest) {
		enum weft_reason reason = iscsi_header_check(front(rx), bytes, front(rx) + bytes);

		if (reason != WEFT_OK) {
			framing_end(f, reason);
			return true;
		}
	}
	memcpy(rx->header, front(rx), bytes);
	rx->start += due;
	*a = (struct iscsi_arrival){ .header = rx->header, .header_bytes = bytes };
	a->reason = iscsi_decode(&a->pdu, peer, rd_of(rx->header, bytes), f->terms.recv_bytes_max);
	a->pdu.data_bytes = iscsi_data_bytes(rx->header);
	rx->has_data_digest = f->terms.has_data_digest;
	rx->placed = 0;
	rx->crc = CRC32C_BEGIN;
	rx->stage = data_bytes(rx) > 0 ? RX_PLACE : RX_TAKE;
	f->counts.pdus_in++;
	return true;
}

static bool rx_place(struct iscsi_framing *f, uint64_t now_ns)
{
	struct framing_rx *rx = &f->rx;

	rx->place = f->calls->place(f->owner, &rx->pdu, now_ns);
	if (rx->place == ISCSI_PLACE_END)
		framing_end(f, WEFT_OK);
	rx->is_blocked = rx->place == ISCSI_PLACE_WAIT;
	if (f->is_ended || rx->is_blocked)
		return false;
	if (rx->pdu.reason != WEFT_OK)
		rx->place = ISCSI_PLACE_SKIP;
	if (rx->place == ISCSI_PLACE_BUFFER)
		CHECK(data_bytes(rx) <= iscsi_framing_buffer_bytes(f));
	if (rx->place == ISCSI_PLACE_MEMORY && data_bytes(rx) >= ISCSI_FRAMING_BULK_BYTES)
		rx->since_bulk = 0;
	rx->stage = RX_DATA;
	return true;
}

/* Asks the owner for memory of what is still to come. False: not now, or never. */
static bool rx_sink(struct iscsi_framing *f)
{
	struct framing_rx *rx = &f->rx;
	enum weft_reason reason;

	rx->span_count = FRAMING_SPANS;
	reason = f->calls->sink(f->owner, rx->placed, rx->spans, &rx->span_count);
	if (reason == WEFT_R_SPACE_UNMAPPED)
		rx->is_blocked = true;
	else if (reason != WEFT_OK)
		framing_end(f, reason);
	if (reason != WEFT_OK)
		return false;
	framing_cut(rx->spans, &rx->span_count, data_bytes(rx) - rx->placed);
	CHECK(rx->span_count > 0);
	return true;
}

/* Copies n bytes that were read with the header to where they belong. */
static bool rx_copy(struct iscsi_framing *f, uint32_t n)
{
	struct framing_rx *rx = &f->rx;

	/* Bound: each iteration places some bytes. */
	while (n > 0) {
		if (!rx_sink(f))
			return false;
		for (uint32_t i = 0; i < rx->span_count && n > 0; i++) {
			struct mem_span *s = &rx->spans[i];

			s->length = s->length < n ? s->length : n;
			if (!mem_span_write(s, front(rx))) {
				framing_end(f, WEFT_R_MEMORY_GONE);
				return false;
			}
			rx->start += (uint32_t)s->length;
			rx->placed += (uint32_t)s->length;
			n -= (uint32_t)s->length;
			f->counts.data_copied += s->length;
		}
	}
	return true;
}

static bool rx_data(struct iscsi_framing *f)
{
	struct framing_rx *rx = &f->rx;
	uint32_t left = data_bytes(rx) - rx->placed, n = available(rx), before = rx->placed;
	const uint8_t *from = front(rx);
	bool is_placed = true;

	n = n < left ? n : left;
	if (rx->place == ISCSI_PLACE_BUFFER) {
		/* It stays in the buffer with its trailer, until the owner has it. */
		if (available(rx) < left + trailer_due(rx))
			return false;
		rx->pdu.data = from;
		rx->placed += n;
		f->counts.data_copied += n;
	} else if (n == 0 && left > 0) {
		return false;
	} else if (rx->place == ISCSI_PLACE_MEMORY) {
		is_placed = rx_copy(f, n);
	} else {
		rx->start += n;
		rx->placed += n;
	}
	n = rx->placed - before;
	if (rx->has_data_digest)
		rx->crc = crc32c_add(rx->crc, from, n);
	f->counts.data_in += n;
	if (rx->placed == data_bytes(rx))
		rx->stage = RX_TRAILER;
	return is_placed;
}

static bool rx_trailer(struct iscsi_framing *f)
{
	struct framing_rx *rx = &f->rx;
	uint32_t pad = iscsi_pad(data_bytes(rx));
	const uint8_t *trailer = front(rx) + (rx->pdu.data ? data_bytes(rx) : 0);

	if (!rx->pdu.data && available(rx) < trailer_due(rx))
		return false;
	if (rx->has_data_digest && rx->pdu.reason == WEFT_OK)
		rx->pdu.reason = iscsi_data_check(crc32c_add(rx->crc, trailer, pad), trailer + pad);
	if (!rx->pdu.data)
		rx->start += trailer_due(rx);
	rx->stage = RX_TAKE;
	return true;
}

static bool rx_take(struct iscsi_framing *f, uint64_t now_ns)
{
	struct framing_rx *rx = &f->rx;
	enum iscsi_take take = f->calls->take(f->owner, &rx->pdu, now_ns);

	rx->is_blocked = take == ISCSI_TAKE_WAIT;
	if (rx->is_blocked)
		return false;
	if (rx->pdu.data)
		rx->start += data_bytes(rx) + trailer_due(rx);
	rx->stage = RX_HEADER;
	rx->since_bulk += rx->since_bulk < BULK_PDUS;
	if (take == ISCSI_TAKE_END)
		framing_end(f, WEFT_OK);
	return true;
}

static void rx_process(struct iscsi_framing *f, uint64_t now_ns)
{
	struct framing_rx *rx = &f->rx;
	bool is_moving = true;

	/* Bound: each step consumes bytes, or is of a PDU that did. */
	while (is_moving && !f->is_ended) {
		switch (rx->stage) {
		case RX_HEADER:
			is_moving = rx_header(f);
			break;
		case RX_PLACE:
			is_moving = rx_place(f, now_ns);
			break;
		case RX_DATA:
			is_moving = rx_data(f);
			break;
		case RX_TRAILER:
			is_moving = rx_trailer(f);
			break;
		case RX_TAKE:
			is_moving = rx_take(f, now_ns);
			break;
		}
	}
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

bool iscsi_framing_wants(const struct iscsi_framing *f)
{
	return !f->is_ended && !f->rx.is_blocked;
}

static bool is_in_place(const struct framing_rx *rx)
{
	return rx->stage == RX_DATA && rx->place == ISCSI_PLACE_MEMORY;
}

/*
 * How many bytes to read into the buffer. After a large data segment another is expected: then only
 * up to the end of the next header, so that what follows can be received in place.
 */
static uint32_t read_ahead(const struct iscsi_framing *f)
{
	const struct framing_rx *rx = &f->rx;
	uint32_t room = rx->size - rx->end, due = header_due(f);

	if (rx->since_bulk == BULK_PDUS || (rx->stage == RX_DATA && !is_in_place(rx)))
		return room;
	if (rx->stage == RX_DATA || rx->stage == RX_TRAILER)
		due += trailer_due(rx);
	if (due <= available(rx))
		return room;
	return due - available(rx) < room ? due - available(rx) : room;
}

void iscsi_framing_want(struct iscsi_framing *f, uint64_t now_ns, struct span_list *l)
{
	struct framing_rx *rx = &f->rx;

	(void)now_ns;
	l->count = 0;
	l->length = 0;
	l->may_go = false;
	rx->span_count = 0;
	if (!iscsi_framing_wants(f))
		return;
	if (rx->start > 0) {
		memmove(rx->bytes, front(rx), available(rx));
		rx->end -= rx->start;
		rx->start = 0;
	}
	if (is_in_place(rx)) {
		if (!rx_sink(f))
			return;
		for (uint32_t i = 0; i < rx->span_count; i++) {
			(void)span_list_add(l, rx->spans[i].bytes, rx->spans[i].length);
			l->may_go |= mem_span_may_go(&rx->spans[i]);
		}
		if (l->length < data_bytes(rx) - rx->placed)
			return;
	}
	(void)span_list_add(l, rx->bytes + rx->end, read_ahead(f));
}

void iscsi_framing_expect_data(struct iscsi_framing *f)
{
	f->rx.since_bulk = 0;
}

/* Takes note of bytes that were received in place: how many. */
static size_t got_in_place(struct iscsi_framing *f, size_t n)
{
	struct framing_rx *rx = &f->rx;
	size_t all = 0;

	for (uint32_t i = 0; i < rx->span_count && all < n; i++) {
		struct mem_span *s = &rx->spans[i];
		size_t piece = s->length < n - all ? (size_t)s->length : n - all;
		const struct mem_paging *paging = mem_span_may_go(s) ? s->paging : NULL;

		if (rx->has_data_digest && !mem_crc32c(paging, &rx->crc, s->bytes, piece))
			framing_end(f, WEFT_R_MEMORY_GONE);
		all += piece;
	}
	rx->placed += (uint32_t)all;
	f->counts.data_in += all;
	return all;
}

void iscsi_framing_got(struct iscsi_framing *f, uint64_t now_ns, const struct span_list *l,
		       size_t n)
{
	struct framing_rx *rx = &f->rx;

	CHECK(n <= l->length);
	f->counts.bytes_in += n;
	if (f->is_ended)
		return;
	if (is_in_place(rx))
		n -= got_in_place(f, n);
	rx->span_count = 0;
	rx->end += (uint32_t)n;
	rx_process(f, now_ns);
}

void iscsi_framing_sink_gone(struct iscsi_framing *f)
{
	framing_end(f, WEFT_R_MEMORY_GONE);
}

void iscsi_framing_resume(struct iscsi_framing *f, uint64_t now_ns)
{
	if (!f->rx.is_blocked)
		return;
	f->rx.is_blocked = false;
	rx_process(f, now_ns);
}

bool iscsi_framing_is_amid(const struct iscsi_framing *f)
{
	return f->rx.stage != RX_HEADER || available(&f->rx) > 0;
}
