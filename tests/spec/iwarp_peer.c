/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's side: FPDUs that it sends, and a reader for those of the core. */
#include "iwarp_peer.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"

/* ---- The peer's bytes ----------------------------------------------------------------------- */

void peer_bytes(struct iwarp_bed *b, const void *bytes, size_t length)
{
	pipe_put(&b->in, bytes, length);
	b->in_position += length;
}

/* RFC 5044 section 4.3, from the peer's side: at is where the length field is. */
static void put_marked(struct iwarp_bed *b, const uint8_t *bytes, size_t length, uint64_t *at)
{
	for (size_t i = 0; i < length; i++) {
		if (b->terms.takes_markers && b->in_position % MPA_MARKER_EVERY == 0) {
			bool is_between = b->in_position == *at;
			uint8_t marker[MPA_MARKER_BYTES];
			struct wr w = wr_of(marker, sizeof(marker));

			mpa_marker_encode((uint16_t)(is_between ? 0 : b->in_position - *at), &w);
			marker[3] ^= b->is_marker_bad ? 4 : 0;
			peer_bytes(b, marker, sizeof(marker));
			*at += is_between ? sizeof(marker) : 0;
		}
		peer_bytes(b, &bytes[i], 1);
	}
}

void peer_ulpdu(struct iwarp_bed *b, const uint8_t *ulpdu, uint32_t length)
{
	static const uint8_t zeros[4];
	size_t from = b->in.length;
	uint64_t at = b->in_position;
	uint8_t head[2] = { (uint8_t)(length >> 8), (uint8_t)length };
	uint8_t crc[MPA_CRC_BYTES];
	uint32_t sum;

	b->ulpdu_bytes = length;
	b->header_bytes = length > 0 && ddp_is_tagged(ulpdu[0]) ? 14 : 18;
	memcpy(b->header, ulpdu, length < b->header_bytes ? length : b->header_bytes);
	put_marked(b, head, sizeof(head), &at);
	put_marked(b, ulpdu, length, &at);
	put_marked(b, zeros, mpa_pad(length), &at);
	if (b->terms.takes_markers && b->in_position % MPA_MARKER_EVERY == 0) {
		/* Between pad and CRC: before the CRC, and in it. */
		struct wr w = wr_of(crc, sizeof(crc));

		mpa_marker_encode((uint16_t)(b->in_position - at), &w);
		peer_bytes(b, crc, sizeof(crc));
	}
	sum = crc32c_end(crc32c_add(CRC32C_BEGIN, b->in.bytes + from, b->in.length - from));
	mpa_crc_encode(b->terms.has_crc ? sum ^ (b->is_crc_bad ? 0x100 : 0) : 0, crc);
	peer_bytes(b, crc, sizeof(crc));
	b->is_crc_bad = false;
	b->is_marker_bad = false;
}

static void put_segment(struct iwarp_bed *b, const uint8_t *header, size_t header_bytes,
			const void *payload, uint32_t length)
{
	uint8_t *ulpdu = malloc(header_bytes + length);

	REQUIRE(ulpdu);
	memcpy(ulpdu, header, header_bytes);
	if (length > 0)
		memcpy(ulpdu + header_bytes, payload, length);
	peer_ulpdu(b, ulpdu, (uint32_t)header_bytes + length);
	free(ulpdu);
}

void peer_tagged(struct iwarp_bed *b, const struct ddp_tagged *h, const void *payload,
		 uint32_t length)
{
	uint8_t header[DDP_TAGGED_BYTES];
	struct wr w = wr_of(header, sizeof(header));

	ddp_tagged_encode(h, &w);
	put_segment(b, header, sizeof(header), payload, length);
}

void peer_untagged(struct iwarp_bed *b, const struct ddp_untagged *h, const void *payload,
		   uint32_t length)
{
	uint8_t header[DDP_UNTAGGED_BYTES];
	struct wr w = wr_of(header, sizeof(header));

	ddp_untagged_encode(h, &w);
	put_segment(b, header, sizeof(header), payload, length);
}

void peer_send(struct iwarp_bed *b, enum rdmap_opcode opcode, uint32_t ulp32, const void *payload,
	       uint32_t length)
{
	struct ddp_untagged h = untagged(opcode, RDMAP_QN_SEND, ++b->msn[RDMAP_QN_SEND]);

	h.ulp32 = ulp32;
	peer_untagged(b, &h, payload, length);
}

void peer_write(struct iwarp_bed *b, uint32_t tag, uint64_t to, const void *payload,
		uint32_t length)
{
	const struct ddp_tagged h = tagged(RDMAP_WRITE, tag, to);

	peer_tagged(b, &h, payload, length);
}

void peer_response(struct iwarp_bed *b, uint32_t tag, uint64_t to, const void *payload,
		   uint32_t length)
{
	const struct ddp_tagged h = tagged(RDMAP_READ_RESPONSE, tag, to);

	peer_tagged(b, &h, payload, length);
}

void peer_read(struct iwarp_bed *b, uint32_t tag, uint64_t from, uint32_t length)
{
	struct ddp_untagged h = untagged(RDMAP_READ_REQUEST, RDMAP_QN_REQUEST,
					 ++b->msn[RDMAP_QN_REQUEST]);
	uint8_t body[RDMAP_READ_REQUEST_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	b->read = (struct rdmap_read_request){
		.sink_stag = 0x51000000 + h.msn,
		.sink_to = 0x1111111100000000 + h.msn,
		.size = length,
		.source_stag = tag,
		.source_to = from,
	};
	rdmap_read_request_encode(&b->read, &w);
	peer_untagged(b, &h, body, sizeof(body));
}

void peer_atomic(struct iwarp_bed *b, const struct rdmap_atomic_request *request)
{
	struct ddp_untagged h = untagged(RDMAP_ATOMIC_REQUEST, RDMAP_QN_REQUEST,
					 ++b->msn[RDMAP_QN_REQUEST]);
	uint8_t body[RDMAP_ATOMIC_REQUEST_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	rdmap_atomic_request_encode(request, &w);
	peer_untagged(b, &h, body, sizeof(body));
}

void peer_atomic_response(struct iwarp_bed *b, uint32_t id, uint64_t original)
{
	const struct rdmap_atomic_response answer = { id, original };
	struct ddp_untagged h = untagged(RDMAP_ATOMIC_RESPONSE, RDMAP_QN_ATOMIC_RESPONSE,
					 ++b->msn[RDMAP_QN_ATOMIC_RESPONSE]);
	uint8_t body[RDMAP_ATOMIC_RESPONSE_BYTES];
	struct wr w = wr_of(body, sizeof(body));

	rdmap_atomic_response_encode(&answer, &w);
	peer_untagged(b, &h, body, sizeof(body));
}

void peer_terminate(struct iwarp_bed *b, const struct rdmap_terminate *t)
{
	struct ddp_untagged h = untagged(RDMAP_TERMINATE, RDMAP_QN_TERMINATE,
					 ++b->msn[RDMAP_QN_TERMINATE]);
	uint8_t body[64];
	struct wr w = wr_of(body, sizeof(body));

	rdmap_terminate_encode(t, &w);
	peer_untagged(b, &h, body, (uint32_t)(w.at - body));
}

/* ---- What the core sent --------------------------------------------------------------------- */

/* Reads the core's bytes one after the other, past markers, which it checks. */
struct reader {
	struct iwarp_bed *b;
	size_t at, first; /* first: of the FPDU's length field */
	uint32_t crc;
	bool is_short;
};

static uint8_t next_raw(struct reader *r)
{
	const struct pipe *out = &r->b->out;
	uint8_t byte;

	if (r->at == out->length) {
		r->is_short = true;
		return 0;
	}
	byte = out->bytes[r->at++];
	r->crc = crc32c_add(r->crc, &byte, 1);
	return byte;
}

static void skip_marker(struct reader *r)
{
	uint8_t marker[MPA_MARKER_BYTES];
	struct rd rd = rd_of(marker, sizeof(marker));
	bool is_between = r->at == r->first;
	size_t back = is_between ? 0 : r->at - r->first;
	uint16_t fpdu_pointer = 0;

	if (!r->b->terms.sends_markers || r->at % MPA_MARKER_EVERY != 0)
		return;
	for (size_t i = 0; i < sizeof(marker); i++)
		marker[i] = next_raw(r);
	if (r->is_short)
		return;
	REQUIRE(mpa_marker_decode(&fpdu_pointer, &rd) == MPA_OK);
	REQUIRE(fpdu_pointer == back);
	r->first = is_between ? r->at : r->first;
}

static uint8_t next_byte(struct reader *r)
{
	skip_marker(r);
	return next_raw(r);
}

static uint32_t next_crc(struct reader *r)
{
	uint8_t bytes[MPA_CRC_BYTES];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = next_raw(r);
	return mpa_crc_decode(bytes);
}

static void decode_frame(struct frame *f, uint32_t length)
{
	struct rd rd = rd_of(f->ulpdu, length);
	uint8_t ulp;

	f->is_tagged = ddp_is_tagged(f->ulpdu[0]);
	if (f->is_tagged) {
		REQUIRE(ddp_tagged_decode(&f->t, &rd) == DDP_OK);
		ulp = f->t.ulp;
	} else {
		REQUIRE(ddp_untagged_decode(&f->u, &rd) == DDP_OK);
		ulp = f->u.ulp;
	}
	REQUIRE(rdmap_control_decode(ulp, f->is_tagged, f->u.qn, &f->opcode) == RDMAP_OK);
	f->payload = rd.at;
	f->bytes = (uint32_t)(rd.end - rd.at);
}

const struct frame *peer_next(struct iwarp_bed *b)
{
	static struct frame f;
	struct reader r = { .b = b, .at = b->out.at, .first = b->out.at, .crc = CRC32C_BEGIN };
	uint32_t length, sum, sent;

	f.u = (struct ddp_untagged){ 0 };
	f.t = (struct ddp_tagged){ 0 };
	length = (uint32_t)next_byte(&r) << 8;
	length |= next_byte(&r);
	for (uint32_t i = 0; i < length && !r.is_short; i++)
		f.ulpdu[i] = next_byte(&r);
	for (uint32_t i = 0; i < mpa_pad(length); i++)
		REQUIRE(next_byte(&r) == 0);
	skip_marker(&r);
	sum = crc32c_end(r.crc);
	sent = next_crc(&r);
	if (r.is_short)
		return NULL;
	if (b->terms.has_crc)
		REQUIRE(sum == sent);
	b->out.at = r.at;
	decode_frame(&f, length);
	return &f;
}

const struct frame *expect_frame(struct iwarp_bed *b, enum rdmap_opcode opcode)
{
	const struct frame *f = peer_next(b);

	REQUIRE(f && f->opcode == opcode);
	return f;
}

size_t peer_left(const struct iwarp_bed *b)
{
	return b->out.length - b->out.at;
}
