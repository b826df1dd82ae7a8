/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iba_frame.h"

#include "base/check.h"
#include "base/crc.h"
#include "base/cursor.h"
#include "wire/iba_icrc.h"

enum {
	LINK_VERSION_MASK = 0xf,
	LANE_MASK = 0xf0, /* of the first byte */
	NEXT_MASK = 3,
	WORDS_MASK = 0x7ff,
	HOP_LIMIT_AT = 7,
	MASKED = 0xff
};

/* ---- Local route header --------------------------------------------------------------------- */

enum weft_reason iba_lrh_decode(struct iba_lrh *h, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);
	uint8_t lane = rd_u8(&r), level = rd_u8(&r);
	struct iba_lrh v = { .lane = lane >> 4, .level = level >> 4, .next = level & NEXT_MASK };

	v.to = rd_u16(&r);
	v.bytes = (rd_u16(&r) & WORDS_MASK) * 4U;
	v.from = rd_u16(&r);
	if (length < IBA_FRAME_MIN)
		return WEFT_R_FRAME_SHORT;
	if (lane & LINK_VERSION_MASK)
		return WEFT_R_FRAME_VERSION;
	if (v.bytes + IBA_VCRC_BYTES != length || length > IBA_FRAME_MAX)
		return WEFT_R_FRAME_LENGTH;
	*h = v;
	return WEFT_OK;
}

void iba_lrh_encode(const struct iba_lrh *h, uint8_t bytes[IBA_LRH_BYTES])
{
	struct wr w = wr_of(bytes, IBA_LRH_BYTES);

	wr_u8(&w, (uint8_t)(h->lane << 4));
	wr_u8(&w, (uint8_t)(h->level << 4 | h->next));
	wr_u16(&w, h->to);
	wr_u16(&w, (uint16_t)(h->bytes / 4));
	wr_u16(&w, h->from);
}

/* ---- CRCs ----------------------------------------------------------------------------------- */

/*
 * x^16 + x^12 + x^3 + x + 1 from all ones, low bit first and complemented (IBA 7.8.2). The table
 * has what four bits make of the register.
 */
uint16_t iba_vcrc(const uint8_t *bytes, size_t length)
{
	static const uint16_t table[] = { 0x0000, 0x1a01, 0x3402, 0x2e03, 0x6804, 0x7205,
					  0x5c06, 0x4607, 0xd008, 0xca09, 0xe40a, 0xfe0b,
					  0xb80c, 0xa20d, 0x8c0e, 0x960f };
	uint16_t crc = UINT16_MAX;

	for (size_t i = 0; i < length; i++) {
		crc ^= bytes[i];
		crc = (uint16_t)(crc >> 4 ^ table[crc & 0xf]);
		crc = (uint16_t)(crc >> 4 ^ table[crc & 0xf]);
	}
	return (uint16_t)~crc;
}

void iba_vcrc_put(uint8_t *bytes, size_t length)
{
	uint16_t crc = iba_vcrc(bytes, length - IBA_VCRC_BYTES);

	bytes[length - 2] = (uint8_t)crc;
	bytes[length - 1] = (uint8_t)(crc >> 8);
}

/* As both CRCs are sent: the least significant byte first. */
static uint16_t little_u16(const uint8_t *bytes)
{
	return (uint16_t)(bytes[0] | bytes[1] << 8);
}

uint32_t iba_frame_icrc_begin(const uint8_t *bytes, bool has_grh)
{
	uint8_t head[IBA_LRH_BYTES + IBA_GRH_BYTES];
	size_t length = IBA_LRH_BYTES + (has_grh ? IBA_GRH_BYTES : 0);

	memcpy(head, bytes, length);
	head[0] |= LANE_MASK;
	if (has_grh) { /* routers write the local one anew (FAB-16) */
		struct wr w = wr_of(head + IBA_LRH_BYTES, IBA_GRH_BYTES);

		memset(head, MASKED, IBA_LRH_BYTES);
		wr_u32(&w, 0x6fffffff); /* traffic class and flow label */
		head[IBA_LRH_BYTES + HOP_LIMIT_AT] = MASKED;
	}
	return crc32_add(CRC32_BEGIN, head, length);
}

/* ---- Frame ---------------------------------------------------------------------------------- */

uint32_t iba_frame_encode(const struct iba_frame *f, uint8_t bytes[IBA_FRAME_MAX])
{
	uint32_t bth = IBA_LRH_BYTES + (f->has_grh ? IBA_GRH_BYTES : 0), at = bth;
	struct iba_packet packet = f->packet;
	struct iba_lrh lrh = f->lrh;
	uint32_t crc;

	CHECK(packet.payload_bytes <= IBA_PAYLOAD_MAX);
	packet.pad = (uint8_t)(-packet.payload_bytes & IBA_PAD_MAX);
	at += iba_encode(&packet, bytes + at);
	if (packet.payload_bytes > 0)
		memcpy(bytes + at, packet.payload, packet.payload_bytes);
	at += packet.payload_bytes;
	lrh.next = f->has_grh ? IBA_NEXT_GRH : IBA_NEXT_BTH;
	lrh.bytes = at + packet.pad + IBA_ICRC_BYTES;
	iba_lrh_encode(&lrh, bytes);
	if (f->has_grh)
		iba_grh_encode(&f->grh, bytes + IBA_LRH_BYTES);
	crc = iba_icrc_add_packet(iba_frame_icrc_begin(bytes, f->has_grh), bytes + bth, at - bth);
	at += iba_trailer_encode(crc, packet.pad, bytes + at);
	iba_vcrc_put(bytes, at + IBA_VCRC_BYTES);
	return at + IBA_VCRC_BYTES;
}

static enum weft_reason packet_decode(struct iba_frame *v, const uint8_t *bytes, size_t length)
{
	size_t at = IBA_LRH_BYTES + (v->has_grh ? IBA_GRH_BYTES : 0);
	enum weft_reason reason;

	if (length < at + IBA_BTH_BYTES + IBA_ICRC_BYTES)
		return WEFT_R_FRAME_SHORT;
	if (v->has_grh) {
		reason = iba_grh_decode(&v->grh, bytes + IBA_LRH_BYTES);
		if (reason != WEFT_OK)
			return reason;
	}
	if (iba_icrc_differs(iba_frame_icrc_begin(bytes, v->has_grh), bytes + at, length - at) != 0)
		return WEFT_R_FRAME_ICRC;
	reason = iba_decode(&v->packet, bytes + at, length - at);
	v->has_packet = reason == WEFT_OK;
	return reason;
}

enum weft_reason iba_frame_decode_inner(struct iba_frame *f, const uint8_t *bytes, size_t length)
{
	struct iba_frame v = { .has_packet = false };
	enum weft_reason reason = iba_lrh_decode(&v.lrh, bytes, length);

	if (reason != WEFT_OK)
		return reason;
	v.has_grh = v.lrh.next == IBA_NEXT_GRH;
	if (v.lrh.next == IBA_NEXT_BTH || v.has_grh)
		reason = packet_decode(&v, bytes, length - IBA_VCRC_BYTES);
	if (reason == WEFT_OK)
		*f = v;
	return reason;
}

enum weft_reason iba_frame_decode(struct iba_frame *f, const uint8_t *bytes, size_t length)
{
	struct iba_lrh h;
	enum weft_reason reason = iba_lrh_decode(&h, bytes, length);
	size_t end = length - IBA_VCRC_BYTES;

	if (reason != WEFT_OK)
		return reason;
	if (little_u16(bytes + end) != iba_vcrc(bytes, end))
		return WEFT_R_FRAME_VCRC;
	return iba_frame_decode_inner(f, bytes, length);
}

enum weft_reason iba_frame_glance(struct iba_glance *g, const uint8_t *bytes, size_t length)
{
	struct iba_glance v = { .has_bth = false };
	enum weft_reason reason = iba_lrh_decode(&v.lrh, bytes, length);
	size_t at = IBA_LRH_BYTES + (v.lrh.next == IBA_NEXT_GRH ? IBA_GRH_BYTES : 0);
	struct rd r;

	if (reason != WEFT_OK)
		return reason;
	v.has_bth = (v.lrh.next == IBA_NEXT_BTH || v.lrh.next == IBA_NEXT_GRH) &&
		    length >= at + IBA_BTH_BYTES + IBA_ICRC_BYTES + IBA_VCRC_BYTES;
	if (v.has_bth) {
		r = rd_of(bytes + at, IBA_BTH_BYTES);
		v.opcode = rd_u8(&r);
		(void)rd_u8(&r);
		v.p_key = rd_u16(&r);
		v.dest_qp = rd_u32(&r) & IBA_NUMBER_MAX;
	}
	*g = v;
	return WEFT_OK;
}
