/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/flit.h"

#include "base/check.h"
#include "base/crc.h"
#include "base/cursor.h"

enum {
	FLAG_FIRST = 1,
	FLAG_LAST = 2,
	FLAG_RESEND = 4,
	FLAG_ACK = 8,
	FLAGS_FRAME = FLAG_FIRST | FLAG_LAST,
	FLAGS_ACK = FLAG_RESEND | FLAG_ACK,
	LIMITS_BYTES = FLIT_LANES * 2
};

static void limits_decode(struct flit *f, struct rd *r)
{
	for (int lane = 0; lane < FLIT_LANES; lane++)
		f->limits[lane] = rd_u16(r);
}

/* Each form has only the fields that it uses; the others are zero. */
static bool is_form_good(const struct flit *f, uint8_t flags, uint16_t limit)
{
	if (f->kind == FLIT_ACK)
		return (flags & ~FLAGS_ACK) == 0 && f->lane == 0 && f->credit_lane == 0 &&
		       limit == 0 && f->data_bytes == LIMITS_BYTES;
	return f->kind == FLIT_FRAME && (flags & ~FLAGS_FRAME) == 0 &&
	       f->credit_lane < FLIT_LANES && f->data_bytes > 0 && f->data_bytes <= FLIT_DATA &&
	       (f->is_last || f->data_bytes == FLIT_DATA);
}

enum weft_reason flit_decode(struct flit *f, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length), crc;
	uint8_t kind_lane = rd_u8(&r), flags = rd_u8(&r);
	struct flit v = { .kind = kind_lane >> 4, .lane = kind_lane & 0xf };
	uint16_t limit;

	v.data_bytes = rd_u8(&r);
	v.credit_lane = rd_u8(&r);
	v.sequence = rd_u16(&r);
	limit = rd_u16(&r);
	if (r.is_short || length != FLIT_HEADER_BYTES + (size_t)v.data_bytes + FLIT_CRC_BYTES)
		return WEFT_R_FLIT_CRC; /* of a damaged length, too */
	crc = rd_of(bytes + length - FLIT_CRC_BYTES, FLIT_CRC_BYTES);
	if (rd_u32(&crc) != crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - FLIT_CRC_BYTES)))
		return WEFT_R_FLIT_CRC;
	v.is_first = flags & FLAG_FIRST;
	v.is_last = flags & FLAG_LAST;
	v.wants_resend = flags & FLAG_RESEND;
	v.wants_ack = flags & FLAG_ACK;
	if (!is_form_good(&v, flags, limit))
		return WEFT_R_FLIT_FORM;
	v.data = r.at;
	if (v.kind == FLIT_ACK)
		limits_decode(&v, &r);
	else
		v.limits[v.credit_lane] = limit;
	*f = v;
	return WEFT_OK;
}

size_t flit_encode(const struct flit *f, uint8_t bytes[FLIT_BYTES_MAX])
{
	struct wr w = wr_of(bytes, FLIT_BYTES_MAX);
	bool is_ack = f->kind == FLIT_ACK;

	CHECK(is_ack || (f->data_bytes > 0 && f->data_bytes <= FLIT_DATA));
	wr_u8(&w, (uint8_t)((unsigned int)f->kind << 4 | f->lane));
	wr_u8(&w, (uint8_t)((f->is_first ? FLAG_FIRST : 0) | (f->is_last ? FLAG_LAST : 0) |
			    (f->wants_resend ? FLAG_RESEND : 0) | (f->wants_ack ? FLAG_ACK : 0)));
	wr_u8(&w, is_ack ? LIMITS_BYTES : f->data_bytes);
	wr_u8(&w, f->credit_lane);
	wr_u16(&w, f->sequence);
	wr_u16(&w, is_ack ? 0 : f->limits[f->credit_lane]);
	for (int lane = 0; is_ack && lane < FLIT_LANES; lane++)
		wr_u16(&w, f->limits[lane]);
	if (!is_ack)
		wr_bytes(&w, f->data, f->data_bytes);
	wr_u32(&w, crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, (size_t)(w.at - bytes))));
	return (size_t)(w.at - bytes);
}
