/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mpa.h"

/* "MPA ID Req Frame" and "MPA ID Rep Frame": the same but for one word. */
static const uint64_t key_first = UINT64_C(0x4d50412049442052);
static const uint64_t key_request = UINT64_C(0x6571204672616d65);
static const uint64_t key_reply = UINT64_C(0x6570204672616d65);

enum {
	FLAG_MARKERS = 0x80,
	FLAG_CRC = 0x40,
	FLAG_REJECT = 0x20,
	FLAG_ENHANCED = 0x10,
	FLAGS_RESERVED = 0x0f,
	TOP_BIT = 0x8000,
	NEXT_BIT = 0x4000,
	DEPTH_MASK = 0x3fff
};

enum mpa_err mpa_start_decode(struct mpa_start *s, struct rd *r)
{
	struct rd at = *r;
	uint64_t first = rd_u64(&at), second = rd_u64(&at);
	uint8_t flags = rd_u8(&at);
	struct mpa_start v = {
		.is_reply = second == key_reply,
		.wants_markers = flags & FLAG_MARKERS,
		.wants_crc = flags & FLAG_CRC,
		.reserved = flags & FLAGS_RESERVED,
	};

	v.revision = rd_u8(&at);
	v.private_bytes = rd_u16(&at);
	if (at.is_short)
		return MPA_ERR_SHORT;
	if (first != key_first || (second != key_request && second != key_reply))
		return MPA_ERR_KEY;
	if (v.revision != 1 && v.revision != 2)
		return MPA_ERR_REVISION;
	/* In a request R is unchecked; S means something from revision 2 on only. */
	v.is_rejected = v.is_reply && (flags & FLAG_REJECT);
	v.is_enhanced = v.revision == 2 && (flags & FLAG_ENHANCED);
	if (v.private_bytes > MPA_PRIVATE_MAX ||
	    (v.is_enhanced && v.private_bytes < MPA_ENHANCED_BYTES))
		return MPA_ERR_LENGTH;
	*s = v;
	*r = at;
	return MPA_OK;
}

void mpa_start_encode(const struct mpa_start *s, struct wr *w)
{
	uint8_t flags = s->reserved & FLAGS_RESERVED;

	flags |= s->wants_markers ? FLAG_MARKERS : 0;
	flags |= s->wants_crc ? FLAG_CRC : 0;
	flags |= s->is_reply && s->is_rejected ? FLAG_REJECT : 0;
	flags |= s->is_enhanced ? FLAG_ENHANCED : 0;
	wr_u64(w, key_first);
	wr_u64(w, s->is_reply ? key_reply : key_request);
	wr_u8(w, flags);
	wr_u8(w, s->revision);
	wr_u16(w, s->private_bytes);
}

enum mpa_err mpa_enhanced_decode(struct mpa_enhanced *e, struct rd *r)
{
	struct rd at = *r;
	uint16_t first = rd_u16(&at), second = rd_u16(&at);
	bool is_peer_to_peer = first & TOP_BIT;

	if (at.is_short)
		return MPA_ERR_SHORT;
	/* Without A the other three are to be ignored. */
	*e = (struct mpa_enhanced){
		.is_peer_to_peer = is_peer_to_peer,
		.rtr_by_send = is_peer_to_peer && (first & NEXT_BIT),
		.rtr_by_write = is_peer_to_peer && (second & TOP_BIT),
		.rtr_by_read = is_peer_to_peer && (second & NEXT_BIT),
		.ird = first & DEPTH_MASK,
		.ord = second & DEPTH_MASK,
	};
	*r = at;
	return MPA_OK;
}

void mpa_enhanced_encode(const struct mpa_enhanced *e, struct wr *w)
{
	uint16_t first = e->ird & DEPTH_MASK, second = e->ord & DEPTH_MASK;

	if (e->is_peer_to_peer) {
		first |= TOP_BIT;
		first |= e->rtr_by_send ? NEXT_BIT : 0;
		second |= e->rtr_by_write ? TOP_BIT : 0;
		second |= e->rtr_by_read ? NEXT_BIT : 0;
	}
	wr_u16(w, first);
	wr_u16(w, second);
}

enum mpa_err mpa_marker_decode(uint16_t *back, struct rd *r)
{
	struct rd at = *r;
	uint16_t reserved = rd_u16(&at), pointer = rd_u16(&at);

	(void)reserved; /* for the CRC only */
	if (at.is_short)
		return MPA_ERR_SHORT;
	if (pointer % 4 != 0)
		return MPA_ERR_MARKER;
	*back = pointer;
	*r = at;
	return MPA_OK;
}

void mpa_marker_encode(uint16_t back, struct wr *w)
{
	wr_u16(w, 0);
	wr_u16(w, back);
}

uint32_t mpa_crc_decode(const uint8_t bytes[MPA_CRC_BYTES])
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

void mpa_crc_encode(uint32_t crc, uint8_t bytes[MPA_CRC_BYTES])
{
	for (int i = 0; i < MPA_CRC_BYTES; i++, crc >>= 8)
		bytes[i] = (uint8_t)crc;
}
