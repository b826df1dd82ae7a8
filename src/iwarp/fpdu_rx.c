/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/crc.h"

enum { RX_SPANS = 16 };

void rx_init(struct iwarp_stream *s)
{
	struct rx *rx = &s->rx;

	rx->deadline_ns = UINT64_MAX;
	for (int i = 0; i < RDMAP_QN_COUNT; i++)
		rx->msn[i] = 1; /* RFC 5041 section 5.1 */
}

static uint32_t rx_available(const struct rx *rx)
{
	return rx->end - rx->start;
}

/*
 * Bytes of an FPDU needed to know where its payload goes. The first DDP byte says whether it is
 * tagged.
 */
static uint32_t header_bytes_due(const struct rx *rx)
{
	bool is_tagged = rx->segment.is_tagged;

	if (rx->stage == RX_HEADER && rx_available(rx) > MPA_HEADER_BYTES)
		is_tagged = ddp_is_tagged(rx->bytes[rx->start + MPA_HEADER_BYTES]);
	return MPA_HEADER_BYTES + (is_tagged ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES);
}

static void rx_consume(struct rx *rx, uint32_t n)
{
	rx->start += n;
	rx->position += n;
}

/* ---- One FPDU ------------------------------------------------------------------------------- */

static bool crc_is_good(const struct iwarp_stream *s, uint32_t crc, const uint8_t *trailer)
{
	return !s->terms.has_crc || crc32c_end(crc) == mpa_crc_decode(trailer);
}

/* A valid FPDU has arrived: a responder may send from now on (RFC 5044 section 7.1.2). */
static void fpdu_arrived(struct iwarp_stream *s)
{
	s->counts.fpdus_in++;
	if (s->rx.has_fpdu)
		return;
	s->rx.has_fpdu = true;
	if (s->tx.is_held) {
		s->tx.is_held = false;
		tx_fill(s);
	}
	stream_attention(s);
}

/* Copies payload from our buffer to its destination. */
static enum rx_result place(struct iwarp_stream *s, const uint8_t *from, uint32_t length)
{
	/* Bound: each iteration places some bytes. */
	while (length > 0) {
		struct mem_span spans[RX_SPANS];
		uint32_t count, left = length;
		enum rx_result r = rdmap_rx_spans(s, spans, RX_SPANS, &count);

		if (r != RX_OK)
			return r;
		for (uint32_t i = 0; i < count && length > 0; i++) {
			uint32_t n = spans[i].length < length ? (uint32_t)spans[i].length : length;

			spans[i].length = n;
			if (!mem_span_write(&spans[i], from))
				return rdmap_rx_gone(s, WEFT_R_MEMORY_GONE);
			from += n;
			length -= n;
			s->rx.placed += n;
			s->counts.payload_copied += n;
		}
		CHECK(length < left);
	}
	return RX_OK;
}

/* Handles an FPDU that lies in the buffer as a whole, without framing and with its CRC checked. */
static enum rx_result whole_ulpdu(struct iwarp_stream *s, uint64_t now_ns, const uint8_t *ulpdu,
				  uint32_t ulpdu_bytes)
{
	struct rx_segment *seg = &s->rx.segment;
	enum rx_result r = rdmap_rx_header(s, ulpdu, ulpdu_bytes);
	const uint8_t *payload = ulpdu + seg->header_bytes;

	if (r != RX_OK)
		return r;
	if (rdmap_rx_is_placed(seg)) {
		r = rdmap_rx_open(s, now_ns);
		if (r == RX_OK)
			r = place(s, payload, seg->bytes);
	}
	return r == RX_OK ? rdmap_rx_deliver(s, now_ns, payload) : r;
}

static enum rx_result bad_crc(struct iwarp_stream *s)
{
	stream_refuse(s, WEFT_R_MPA_CRC, NULL);
	return RX_REFUSED;
}

static enum rx_result rx_whole(struct iwarp_stream *s, uint64_t now_ns, uint32_t ulpdu_bytes)
{
	struct rx *rx = &s->rx;
	uint32_t fpdu_bytes = mpa_fpdu_bytes(ulpdu_bytes), covered = fpdu_bytes - MPA_CRC_BYTES;
	const uint8_t *fpdu = rx->bytes + rx->start;
	enum rx_result r;

	/* A message that waited for a receive comes here again; its CRC is checked already. */
	if (!rx->is_checked) {
		if (s->terms.has_crc &&
		    !crc_is_good(s, crc32c_add(CRC32C_BEGIN, fpdu, covered), fpdu + covered))
			return bad_crc(s);
		rx->is_checked = true;
		fpdu_arrived(s);
	}
	r = whole_ulpdu(s, now_ns, fpdu + MPA_HEADER_BYTES, ulpdu_bytes);
	if (r != RX_OK)
		return r;
	rx->is_checked = false;
	rx_consume(rx, fpdu_bytes);
	rx->is_bulk = false;
	rx->since_large += fpdu_bytes;
	return RX_OK;
}

/* The header of a large FPDU has arrived: its payload is placed as it comes. */
static enum rx_result rx_begin(struct iwarp_stream *s, uint64_t now_ns, uint32_t ulpdu_bytes)
{
	struct rx *rx = &s->rx;
	const uint8_t *fpdu = rx->bytes + rx->start;
	enum rx_result r = rdmap_rx_header(s, fpdu + MPA_HEADER_BYTES, ulpdu_bytes);
	struct mem_span first;
	uint32_t header_bytes, count;

	if (r != RX_OK)
		return r;
	if (!rdmap_rx_is_placed(&rx->segment)) {
		/* No message without placed payload is that long. */
		stream_refuse(s, WEFT_R_RDMAP_BODY, &rx->segment);
		return RX_REFUSED;
	}
	r = rdmap_rx_open(s, now_ns);
	if (r == RX_OK) /* refuse bad memory before the payload comes */
		r = rdmap_rx_spans(s, &first, 1, &count);
	if (r != RX_OK)
		return r;
	header_bytes = MPA_HEADER_BYTES + rx->segment.header_bytes;
	if (s->terms.has_crc)
		rx->crc = crc32c_add(CRC32C_BEGIN, fpdu, header_bytes);
	rx_consume(rx, header_bytes);
	rx->stage = RX_PAYLOAD;
	rx->has_large = true;
	rx->between = rx->since_large;
	rx->since_large = 0;
	rx->ahead = RX_BYTES;
	return RX_OK;
}

/* Takes payload that was received into the buffer, behind its header. */
static enum rx_result rx_payload(struct iwarp_stream *s)
{
	struct rx *rx = &s->rx;
	uint32_t left = rx->segment.bytes - rx->placed, n = rx_available(rx);
	const uint8_t *from = rx->bytes + rx->start;
	enum rx_result r;

	n = n < left ? n : left;
	r = place(s, from, n);
	n = left - (rx->segment.bytes - rx->placed); /* less, if the next page is away */
	if (s->terms.has_crc)
		rx->crc = crc32c_add(rx->crc, from, n);
	rx_consume(rx, n);
	if (r != RX_OK)
		return r;
	if (rx->placed == rx->segment.bytes)
		rx->stage = RX_TRAILER;
	return RX_OK;
}

static enum rx_result rx_trailer(struct iwarp_stream *s, uint64_t now_ns)
{
	struct rx *rx = &s->rx;
	uint32_t pad = mpa_pad(rx->segment.ulpdu_bytes);
	const uint8_t *trailer = rx->bytes + rx->start;
	enum rx_result r;

	if (s->terms.has_crc && !crc_is_good(s, crc32c_add(rx->crc, trailer, pad), trailer + pad))
		return bad_crc(s);
	fpdu_arrived(s);
	rx_consume(rx, pad + MPA_CRC_BYTES);
	rx->stage = RX_HEADER;
	rx->is_bulk = true;
	r = rdmap_rx_deliver(s, now_ns, NULL);
	CHECK(r != RX_BLOCKED);
	return r;
}

/* ---- Markers -------------------------------------------------------------------------------- */

/* RFC 5044 section 4.3: checks the markers of the FPDU in the buffer and removes them. */
static bool unmark(struct iwarp_stream *s, uint32_t raw_bytes)
{
	struct rx *rx = &s->rx;
	uint8_t *fpdu = rx->bytes + rx->start;
	uint32_t in = 0, out = 0;

	while (in < raw_bytes) {
		uint32_t n = mpa_marker_distance(rx->position + in);

		if (n == 0) {
			struct rd r = rd_of(fpdu + in, MPA_MARKER_BYTES);
			uint16_t back;

			if (mpa_marker_decode(&back, &r) != MPA_OK ||
			    back != mpa_marker_back(rx->position, in))
				return false;
			in += MPA_MARKER_BYTES;
			n = MPA_MARKER_EVERY - MPA_MARKER_BYTES;
		}
		n = n < raw_bytes - in ? n : raw_bytes - in;
		memmove(fpdu + out, fpdu + in, n);
		in += n;
		out += n;
	}
	return true;
}

/*
 * Reads the length field of the FPDU that begins at start; a marker may come first. False: it is
 * incomplete.
 */
static bool marked_length(const struct rx *rx, uint32_t *ulpdu_bytes)
{
	uint32_t at = mpa_marker_front(rx->position);
	struct rd r = rd_of(rx->bytes + rx->start + at, MPA_HEADER_BYTES);

	if (rx_available(rx) < at + MPA_HEADER_BYTES)
		return false;
	*ulpdu_bytes = rd_u16(&r);
	return true;
}

/* With markers an FPDU passes through the buffer as a whole. False: it is incomplete. */
static bool rx_marked(struct iwarp_stream *s, uint64_t now_ns, enum rx_result *result)
{
	struct rx *rx = &s->rx;
	uint32_t ulpdu_bytes, raw_bytes, covered;
	uint8_t *fpdu = rx->bytes + rx->start;

	*result = RX_REFUSED;
	if (rx->is_checked) /* it has waited; its markers are removed */
		ulpdu_bytes = rx->segment.ulpdu_bytes;
	else if (!marked_length(rx, &ulpdu_bytes))
		return false;
	raw_bytes = mpa_marked_bytes(rx->position, mpa_fpdu_bytes(ulpdu_bytes));
	if (rx_available(rx) < raw_bytes)
		return false;
	covered = raw_bytes - MPA_CRC_BYTES;
	if (!rx->is_checked) {
		if (s->terms.has_crc &&
		    !crc_is_good(s, crc32c_add(CRC32C_BEGIN, fpdu, covered), fpdu + covered)) {
			*result = bad_crc(s);
			return true;
		}
		if (!unmark(s, raw_bytes)) {
			stream_refuse(s, WEFT_R_MPA_MARKER, NULL);
			return true;
		}
		rx->is_checked = true;
		fpdu_arrived(s);
	}
	*result = whole_ulpdu(s, now_ns, fpdu + MPA_HEADER_BYTES, ulpdu_bytes);
	if (*result == RX_OK) {
		rx->is_checked = false;
		rx_consume(rx, raw_bytes);
	}
	return true;
}

/* ---- The buffer ----------------------------------------------------------------------------- */

/* One step. False: more bytes are needed. */
static bool rx_step(struct iwarp_stream *s, uint64_t now_ns, enum rx_result *result)
{
	struct rx *rx = &s->rx;
	uint32_t available = rx_available(rx), ulpdu_bytes, pad;
	struct rd r = rd_of(rx->bytes + rx->start, available);

	switch (rx->stage) {
	case RX_HEADER:
		if (s->terms.takes_markers)
			return rx_marked(s, now_ns, result);
		ulpdu_bytes = rd_u16(&r);
		if (r.is_short)
			return false;
		if (available >= mpa_fpdu_bytes(ulpdu_bytes)) {
			*result = rx_whole(s, now_ns, ulpdu_bytes);
			return true;
		}
		if (mpa_fpdu_bytes(ulpdu_bytes) <= RX_WHOLE_MAX || available < header_bytes_due(rx))
			return false;
		*result = rx_begin(s, now_ns, ulpdu_bytes);
		return true;
	case RX_PAYLOAD:
		if (available == 0 && rx->placed < rx->segment.bytes)
			return false;
		*result = rx_payload(s);
		return true;
	case RX_TRAILER:
		pad = mpa_pad(rx->segment.ulpdu_bytes);
		if (available < pad + MPA_CRC_BYTES)
			return false;
		*result = rx_trailer(s, now_ns);
		return true;
	}
	return false;
}

void rx_process(struct iwarp_stream *s, uint64_t now_ns)
{
	enum rx_result result = RX_OK;

	/* Bound: each step consumes bytes of the buffer, or ends the loop. */
	while (s->state == STREAM_OPEN && result == RX_OK) {
		if (!rx_step(s, now_ns, &result))
			break;
	}
	if (result == RX_BLOCKED)
		s->rx.is_blocked = true;
	if (s->state != STREAM_OPEN) {
		s->rx.start = 0;
		s->rx.end = 0;
	}
}

/*
 * Without a CRC, payload of large FPDUs is received where it belongs. With one it passes through
 * our buffer: the program may change the memory before a CRC of what is there could be computed,
 * for example clear a flag as soon as it sees it.
 */
static bool is_in_place(const struct iwarp_stream *s)
{
	return s->rx.stage == RX_PAYLOAD && !s->terms.has_crc;
}

/* How many bytes to read beyond those that are due now. */
static uint32_t read_ahead(const struct iwarp_stream *s)
{
	const struct rx *rx = &s->rx;
	uint32_t next = header_bytes_due(rx);
	uint32_t available = rx_available(rx), room = rx->size - rx->end;

	if (s->terms.has_crc)
		return room;
	if (rx->end < rx->ahead && rx->ahead < rx->size)
		room = rx->ahead - rx->end;
	if (rx->stage != RX_HEADER)
		next += mpa_pad(rx->segment.ulpdu_bytes) + MPA_CRC_BYTES + rx->between;
	else if (!rx->is_bulk)
		return room;
	/*
	 * Expect another large FPDU, behind as many small ones as the last time. Read only up to
	 * its header, so that its payload can be received in place.
	 */
	return available < next && next - available < room ? next - available : room;
}

bool iwarp_wants(const struct iwarp_stream *s)
{
	return s->state < STREAM_CLOSED && !s->is_peer_done &&
	       !(s->state == STREAM_OPEN && s->rx.is_blocked);
}

void iwarp_want(struct iwarp_stream *s, uint64_t now_ns, struct span_list *l)
{
	struct rx *rx = &s->rx;

	(void)now_ns;
	l->count = 0;
	l->length = 0;
	l->may_go = false;
	if (!iwarp_wants(s))
		return;
	if (s->state != STREAM_OPEN) { /* read and discard, to see the peer's FIN */
		span_list_add(l, rx->bytes, rx->size);
		return;
	}
	if (rx->start > 0) {
		memmove(rx->bytes, rx->bytes + rx->start, rx_available(rx));
		rx->end -= rx->start;
		rx->start = 0;
	}
	if (is_in_place(s)) {
		struct mem_span spans[RX_SPANS];
		enum rx_result r;
		uint32_t count;

		r = rdmap_rx_spans(s, spans, RX_SPANS, &count);
		rx->is_blocked = r == RX_BLOCKED;
		if (r != RX_OK)
			return;
		for (uint32_t i = 0; i < count; i++) {
			span_list_add(l, spans[i].bytes, spans[i].length);
			l->may_go |= mem_span_may_go(&spans[i]);
		}
		if (l->length < rx->segment.bytes - rx->placed)
			return;
	}
	span_list_add(l, rx->bytes + rx->end, read_ahead(s));
}

/* Accounts for the bytes that were received in place. */
static size_t got_in_place(struct rx *rx, size_t n)
{
	uint32_t left = rx->segment.bytes - rx->placed;
	size_t placed = n < left ? n : left;

	rx->placed += (uint32_t)placed;
	rx->position += placed;
	return placed;
}

void iwarp_sink_gone(struct iwarp_stream *s)
{
	(void)rdmap_rx_gone(s, WEFT_R_MEMORY_GONE);
}

/* The read was full, and what it held goes through the buffer: read more at a time. */
static void rx_grow(struct iwarp_stream *s)
{
	struct rx *rx = &s->rx;

	if (rx->ahead < rx->size) {
		rx->ahead = 2 * rx->ahead < rx->size ? 2 * rx->ahead : rx->size;
	} else if (!s->buffers && !s->terms.takes_markers && s->state == STREAM_OPEN) {
		s->is_cramped = true;
		stream_attention(s);
	}
}

void iwarp_got(struct iwarp_stream *s, uint64_t now_ns, const struct span_list *l, size_t n)
{
	struct rx *rx = &s->rx;
	bool is_full;

	CHECK(n <= l->length);
	s->counts.bytes_in += n;
	if (s->state != STREAM_OPEN)
		return; /* discarded */
	if (is_in_place(s))
		n -= got_in_place(rx, n);
	rx->end += (uint32_t)n;
	is_full = rx->end >= rx->ahead || rx->end == rx->size;
	rx->has_large = false;
	rx_process(s, now_ns);
	if (is_full && (!rx->has_large || s->terms.has_crc))
		rx_grow(s);
}
