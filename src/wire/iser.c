/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iser.h"

enum {
	KIND_SHIFT = 4,
	FLAG_WSV = 0x08,
	FLAG_RSV = 0x04,
	FLAG_REJ = 0x01,
	VERSION_SHIFT = 4,
	VERSION_MASK = 0x0f,
	PRIVATE_NO_ZERO_BASED = 0x80,
	PRIVATE_NO_INVALIDATE = 0x40
};

static uint64_t offset_decode(enum iser_form form, struct rd *r)
{
	return form == ISER_RFC5046 ? 0 : rd_u64(r);
}

enum weft_reason iser_decode(struct iser_header *h, enum iser_form form, struct rd *r)
{
	struct rd at = *r;
	uint8_t first = rd_u8(&at), versions = rd_u8(&at);
	uint16_t depth = rd_u16(&at);
	struct iser_header v = { .kind = (enum iser_kind)(first >> KIND_SHIFT) };

	v.write_stag = rd_u32(&at);
	v.write_to = offset_decode(form, &at);
	v.read_stag = rd_u32(&at);
	v.read_to = offset_decode(form, &at);
	if (at.is_short)
		return WEFT_R_ISER_SHORT;
	if (v.kind < ISER_CONTROL || v.kind > ISER_HELLO_REPLY)
		return WEFT_R_ISER_OPCODE;
	v.has_write = v.kind == ISER_CONTROL && (first & FLAG_WSV);
	v.has_read = v.kind == ISER_CONTROL && (first & FLAG_RSV);
	v.write_stag = v.has_write ? v.write_stag : 0;
	v.write_to = v.has_write ? v.write_to : 0;
	v.read_stag = v.has_read ? v.read_stag : 0;
	v.read_to = v.has_read ? v.read_to : 0;
	if (v.kind != ISER_CONTROL) {
		v.version_max = versions >> VERSION_SHIFT;
		v.version = versions & VERSION_MASK;
		v.depth = depth;
		v.is_rejected = v.kind == ISER_HELLO_REPLY && (first & FLAG_REJ);
		/* RFC 7145 sections 9.3 and 9.4: a range of versions, or the one chosen of it. */
		if (v.version > v.version_max && !v.is_rejected)
			return WEFT_R_ISER_VERSION;
	}
	*h = v;
	*r = at;
	return WEFT_OK;
}

static void buffer_encode(bool is_there, uint32_t stag, uint64_t to, bool has_offset, struct wr *w)
{
	wr_u32(w, is_there ? stag : 0);
	if (has_offset)
		wr_u64(w, is_there ? to : 0);
}

void iser_encode(const struct iser_header *h, enum iser_form form, struct wr *w)
{
	bool is_control = h->kind == ISER_CONTROL, has_offset = form != ISER_RFC5046;
	bool has_write = is_control && h->has_write, has_read = is_control && h->has_read;
	unsigned int first = (unsigned int)h->kind << KIND_SHIFT;
	unsigned int versions = (unsigned int)h->version_max << VERSION_SHIFT |
				(h->version & VERSION_MASK);

	first |= has_write ? FLAG_WSV : 0;
	first |= has_read ? FLAG_RSV : 0;
	first |= h->kind == ISER_HELLO_REPLY && h->is_rejected ? FLAG_REJ : 0;
	wr_u8(w, (uint8_t)first);
	wr_u8(w, is_control ? 0 : (uint8_t)versions);
	wr_u16(w, is_control ? 0 : h->depth);
	buffer_encode(has_write, h->write_stag, h->write_to, has_offset, w);
	buffer_encode(has_read, h->read_stag, h->read_to, has_offset, w);
}

enum weft_reason iser_private_decode(struct iser_private *p, const uint8_t *bytes, size_t length)
{
	if (length == 0) {
		*p = (struct iser_private){ true, true };
		return WEFT_OK;
	}
	if (length < ISER_PRIVATE_BYTES)
		return WEFT_R_ISER_SHORT;
	*p = (struct iser_private){ .lacks_zero_based = bytes[0] & PRIVATE_NO_ZERO_BASED,
				    .lacks_invalidate = bytes[0] & PRIVATE_NO_INVALIDATE };
	return WEFT_OK;
}

void iser_private_encode(const struct iser_private *p, uint8_t bytes[ISER_PRIVATE_BYTES])
{
	memset(bytes, 0, ISER_PRIVATE_BYTES);
	bytes[0] = (uint8_t)((p->lacks_zero_based ? PRIVATE_NO_ZERO_BASED : 0) |
			     (p->lacks_invalidate ? PRIVATE_NO_INVALIDATE : 0));
}
