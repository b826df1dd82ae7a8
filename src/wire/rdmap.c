/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rdmap.h"

#include <stddef.h>

#include "base/check.h"
#include "wire/ddp.h"

/* RFC 5040 section 4.3, RFC 7306 section 4: where each message is carried. */
static const struct {
	const char *name;
	bool is_tagged;
	uint8_t qn;
} messages[RDMAP_OPCODE_COUNT] = {
	[RDMAP_WRITE] = { "RDMA Write", true, 0 },
	[RDMAP_READ_REQUEST] = { "RDMA Read Request", false, RDMAP_QN_REQUEST },
	[RDMAP_READ_RESPONSE] = { "RDMA Read Response", true, 0 },
	[RDMAP_SEND] = { "Send", false, RDMAP_QN_SEND },
	[RDMAP_SEND_INVALIDATE] = { "Send with Invalidate", false, RDMAP_QN_SEND },
	[RDMAP_SEND_SE] = { "Send with Solicited Event", false, RDMAP_QN_SEND },
	[RDMAP_SEND_SE_INVALIDATE] = { "Send with Solicited Event and Invalidate", false,
				       RDMAP_QN_SEND },
	[RDMAP_TERMINATE] = { "Terminate", false, RDMAP_QN_TERMINATE },
	[RDMAP_IMMEDIATE] = { "Immediate Data", false, RDMAP_QN_SEND },
	[RDMAP_IMMEDIATE_SE] = { "Immediate Data with Solicited Event", false, RDMAP_QN_SEND },
	[RDMAP_ATOMIC_REQUEST] = { "Atomic Request", false, RDMAP_QN_REQUEST },
	[RDMAP_ATOMIC_RESPONSE] = { "Atomic Response", false, RDMAP_QN_ATOMIC_RESPONSE },
};

/* RV 1 is the RFC's; 0 is the RDMA Consortium's, which has no messages of RFC 7306. */
enum { RV_SHIFT = 6, RV_RFC = 1, OPCODE_MASK = 0x0f };

const char *rdmap_opcode_name(enum rdmap_opcode opcode)
{
	return (unsigned int)opcode < RDMAP_OPCODE_COUNT ? messages[opcode].name
							 : "unknown message";
}

enum rdmap_err rdmap_control_decode(uint8_t ulp, bool is_tagged, uint32_t qn,
				    enum rdmap_opcode *opcode)
{
	uint8_t version = ulp >> RV_SHIFT, op = ulp & OPCODE_MASK;

	if (!is_tagged && qn >= RDMAP_QN_COUNT)
		return RDMAP_ERR_QUEUE;
	if (version > RV_RFC)
		return RDMAP_ERR_VERSION;
	if (op >= RDMAP_OPCODE_COUNT || (version != RV_RFC && op > RDMAP_TERMINATE))
		return RDMAP_ERR_OPCODE;
	if (messages[op].is_tagged != is_tagged || (!is_tagged && messages[op].qn != qn))
		return RDMAP_ERR_OPCODE;
	*opcode = (enum rdmap_opcode)op;
	return RDMAP_OK;
}

uint8_t rdmap_control_encode(enum rdmap_opcode opcode)
{
	return (uint8_t)(RV_RFC << RV_SHIFT | opcode);
}

enum rdmap_err rdmap_read_request_decode(struct rdmap_read_request *q, struct rd *r)
{
	struct rd at = *r;
	struct rdmap_read_request v;

	v.sink_stag = rd_u32(&at);
	v.sink_to = rd_u64(&at);
	v.size = rd_u32(&at);
	v.source_stag = rd_u32(&at);
	v.source_to = rd_u64(&at);
	if (at.is_short)
		return RDMAP_ERR_SHORT;
	*q = v;
	*r = at;
	return RDMAP_OK;
}

void rdmap_read_request_encode(const struct rdmap_read_request *q, struct wr *w)
{
	wr_u32(w, q->sink_stag);
	wr_u64(w, q->sink_to);
	wr_u32(w, q->size);
	wr_u32(w, q->source_stag);
	wr_u64(w, q->source_to);
}

enum rdmap_err rdmap_atomic_request_decode(struct rdmap_atomic_request *q, struct rd *r)
{
	struct rd at = *r;
	struct rdmap_atomic_request v;
	uint32_t op = rd_u32(&at) & OPCODE_MASK;

	v.opcode = (enum rdmap_atomic)op;
	v.id = rd_u32(&at);
	v.stag = rd_u32(&at);
	v.to = rd_u64(&at);
	v.add_swap = rd_u64(&at);
	v.add_swap_mask = rd_u64(&at);
	v.compare = rd_u64(&at);
	v.compare_mask = rd_u64(&at);
	if (at.is_short)
		return RDMAP_ERR_SHORT;
	if (op != RDMAP_FETCH_ADD && op != RDMAP_COMPARE_SWAP)
		return RDMAP_ERR_BODY;
	*q = v;
	*r = at;
	return RDMAP_OK;
}

void rdmap_atomic_request_encode(const struct rdmap_atomic_request *q, struct wr *w)
{
	wr_u32(w, q->opcode);
	wr_u32(w, q->id);
	wr_u32(w, q->stag);
	wr_u64(w, q->to);
	wr_u64(w, q->add_swap);
	wr_u64(w, q->add_swap_mask);
	wr_u64(w, q->compare);
	wr_u64(w, q->compare_mask);
}

enum rdmap_err rdmap_atomic_response_decode(struct rdmap_atomic_response *p, struct rd *r)
{
	struct rd at = *r;
	struct rdmap_atomic_response v;

	v.id = rd_u32(&at);
	v.original = rd_u64(&at);
	if (at.is_short)
		return RDMAP_ERR_SHORT;
	*p = v;
	*r = at;
	return RDMAP_OK;
}

void rdmap_atomic_response_encode(const struct rdmap_atomic_response *p, struct wr *w)
{
	wr_u32(w, p->id);
	wr_u64(w, p->original);
}

/* ---- Terminate ------------------------------------------------------------------------------ */

/* RFC 5040 section 4.8, RFC 5041 section 6.2, RFC 5044 section 8, RFC 6581 section 8. */
static const struct {
	uint8_t layer, type, code;
	const char *text;
} causes[] = {
	{ 0, 0, 0, "RDMAP: local catastrophic error" },
	{ 0, 1, 0x00, "RDMAP remote protection: invalid STag" },
	{ 0, 1, 0x01, "RDMAP remote protection: base or bounds violation" },
	{ 0, 1, 0x02, "RDMAP remote protection: access rights violation" },
	{ 0, 1, 0x03, "RDMAP remote protection: STag not associated with the stream" },
	{ 0, 1, 0x04, "RDMAP remote protection: TO wrap" },
	{ 0, 1, 0x09, "RDMAP remote protection: STag cannot be invalidated" },
	{ 0, 1, 0xff, "RDMAP remote protection: unspecified error" },
	{ 0, 2, 0x05, "RDMAP remote operation: invalid RDMAP version" },
	{ 0, 2, 0x06, "RDMAP remote operation: unexpected opcode" },
	{ 0, 2, 0x07, "RDMAP remote operation: catastrophic error of the stream" },
	{ 0, 2, 0x08, "RDMAP remote operation: catastrophic error of the adapter" },
	{ 0, 2, 0x09, "RDMAP remote operation: STag cannot be invalidated" },
	{ 0, 2, 0xff, "RDMAP remote operation: unspecified error" },
	{ 1, 0, 0x00, "DDP: local catastrophic error" },
	{ 1, 1, 0x00, "DDP tagged buffer: invalid STag" },
	{ 1, 1, 0x01, "DDP tagged buffer: base or bounds violation" },
	{ 1, 1, 0x02, "DDP tagged buffer: STag not associated with the stream" },
	{ 1, 1, 0x03, "DDP tagged buffer: TO wrap" },
	{ 1, 1, 0x04, "DDP tagged buffer: invalid DDP version" },
	{ 1, 2, 0x01, "DDP untagged buffer: invalid queue number" },
	{ 1, 2, 0x02, "DDP untagged buffer: no buffer for this message" },
	{ 1, 2, 0x03, "DDP untagged buffer: message number out of range" },
	{ 1, 2, 0x04, "DDP untagged buffer: invalid offset" },
	{ 1, 2, 0x05, "DDP untagged buffer: message too long for its buffer" },
	{ 1, 2, 0x06, "DDP untagged buffer: invalid DDP version" },
	{ 2, 0, 0x01, "MPA: TCP connection closed, terminated or lost" },
	{ 2, 0, 0x02, "MPA: CRC error" },
	{ 2, 0, 0x03, "MPA: marker and length disagree" },
	{ 2, 0, 0x04, "MPA: invalid request or reply frame" },
	{ 2, 0, 0x05, "MPA: local catastrophic error" },
	{ 2, 0, 0x06, "MPA: insufficient IRD resources" },
	{ 2, 0, 0x07, "MPA: no matching RTR option" },
};

static const char *cause_find(uint8_t layer, uint8_t type, uint8_t code)
{
	/* RFC 5040 section 4.8: a local catastrophic error has no codes; siw sends 0xff. */
	if (layer == 0 && type == 0)
		code = 0;
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (causes[i].layer == layer && causes[i].type == type && causes[i].code == code)
			return causes[i].text;
	}
	return NULL;
}

enum { TERM_M = 0x8000, TERM_D = 0x4000, TERM_R = 0x2000, TERM_RESERVED = 0x1fff };

/* What follows the control word, as its bits say. */
static enum rdmap_err headers_decode(struct rdmap_terminate *t, struct rd *r)
{
	/* The segment's length is there with the DDP header, and counts when M says so. */
	if (t->has_ddp) {
		t->segment_bytes = rd_u16(r);
		t->ddp[0] = rd_u8(r);
		t->ddp_bytes = ddp_is_tagged(t->ddp[0]) ? DDP_TAGGED_BYTES : DDP_UNTAGGED_BYTES;
		for (uint32_t i = 1; i < t->ddp_bytes; i++)
			t->ddp[i] = rd_u8(r);
	}
	if (t->has_rdma && rdmap_read_request_decode(&t->read, r) != RDMAP_OK)
		return RDMAP_ERR_SHORT;
	return r->is_short ? RDMAP_ERR_SHORT : RDMAP_OK;
}

static struct rdmap_terminate word_decode(uint32_t word)
{
	return (struct rdmap_terminate){
		.layer = (uint8_t)(word >> 28),
		.type = (uint8_t)(word >> 24 & 0xf),
		.code = (uint8_t)(word >> 16),
		.has_length = word & TERM_M,
		.has_ddp = word & TERM_D,
		.has_rdma = word & TERM_R,
		.reserved = word & TERM_RESERVED,
	};
}

enum rdmap_err rdmap_terminate_decode(struct rdmap_terminate *t, struct rd *r)
{
	struct rd at = *r;
	struct rdmap_terminate v = word_decode(rd_u32(&at));

	if (at.is_short || headers_decode(&v, &at) != RDMAP_OK)
		return RDMAP_ERR_SHORT;
	*t = v;
	*r = at;
	return RDMAP_OK;
}

/* The fields of siw's word begin at the low bit of each byte, and the bytes are in order. */
static struct rdmap_terminate siw_word_decode(uint32_t word)
{
	uint8_t first = (uint8_t)(word >> 24), third = (uint8_t)(word >> 8);

	return (struct rdmap_terminate){
		.layer = first & 0xf,
		.type = first >> 4,
		.code = (uint8_t)(word >> 16),
		.has_length = third & 1,
		.has_ddp = third & 2,
		.has_rdma = third & 4,
		.reserved = (uint16_t)(third >> 3 | (word & 0xff) << 5),
		.is_siw_order = true,
	};
}

/* How well a reading fits what came: length first, then the cause. Negative: not at all. */
static int reading_try(struct rdmap_terminate *t, struct rd *at)
{
	struct rdmap_terminate bare = *t;
	struct rd behind = *at;
	bool is_known = cause_find(t->layer, t->type, t->code);

	bare.has_rdma = false;
	if (t->has_ddp && t->has_rdma && headers_decode(&bare, &behind) == RDMAP_OK &&
	    behind.at == behind.end) {
		*t = bare;
		*at = behind;
	} else if (headers_decode(t, at) != RDMAP_OK) {
		return -1;
	}
	return (at->at == at->end ? 2 : 0) + is_known;
}

enum rdmap_err rdmap_terminate_decode_any(struct rdmap_terminate *t, struct rd *r)
{
	struct rd at = *r, siw_at;
	uint32_t word = rd_u32(&at);
	struct rdmap_terminate rfc = word_decode(word), siw = siw_word_decode(word);
	int rfc_fit, siw_fit;

	if (at.is_short)
		return RDMAP_ERR_SHORT;
	siw_at = at;
	rfc_fit = reading_try(&rfc, &at);
	siw_fit = reading_try(&siw, &siw_at);
	if (rfc_fit < 0 && siw_fit < 0)
		return RDMAP_ERR_SHORT;
	rfc.is_ambiguous = rfc_fit == siw_fit && rfc.layer != rfc.type &&
			   cause_find(rfc.layer, rfc.type, rfc.code);
	*t = rfc_fit >= siw_fit ? rfc : siw;
	*r = rfc_fit >= siw_fit ? at : siw_at;
	return RDMAP_OK;
}

void rdmap_terminate_encode(const struct rdmap_terminate *t, struct wr *w)
{
	uint32_t word = (uint32_t)t->layer << 28 | (uint32_t)(t->type & 0xf) << 24 |
			(uint32_t)t->code << 16;

	CHECK(t->ddp_bytes <= sizeof(t->ddp));
	word |= t->reserved & TERM_RESERVED;
	word |= t->has_length ? TERM_M : 0;
	word |= t->has_ddp ? TERM_D : 0;
	word |= t->has_rdma ? TERM_R : 0;
	wr_u32(w, word);
	if (t->has_ddp) {
		wr_u16(w, t->segment_bytes);
		for (uint32_t i = 0; i < t->ddp_bytes; i++)
			wr_u8(w, t->ddp[i]);
	}
	if (t->has_rdma)
		rdmap_read_request_encode(&t->read, w);
}

const char *rdmap_terminate_text(uint8_t layer, uint8_t type, uint8_t code)
{
	const char *text = cause_find(layer, type, code);

	return text ? text : "unknown cause";
}
