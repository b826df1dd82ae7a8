/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mad.h"

#include "base/cursor.h"

enum weft_reason mad_decode(struct mad *m, const uint8_t *bytes, size_t length)
{
	struct rd r = rd_of(bytes, length);

	if (length != MAD_BYTES)
		return WEFT_R_MAD_LENGTH;
	if (rd_u8(&r) != MAD_BASE_VERSION)
		return WEFT_R_MAD_VERSION;
	m->mgmt_class = rd_u8(&r);
	m->class_version = rd_u8(&r);
	m->method = rd_u8(&r);
	m->status = rd_u16(&r);
	m->class_specific = rd_u16(&r);
	m->tid = rd_u64(&r);
	m->attribute = rd_u16(&r);
	(void)rd_u16(&r);
	m->modifier = rd_u32(&r);
	return WEFT_OK;
}

void mad_encode(const struct mad *m, uint8_t bytes[MAD_HEADER_BYTES])
{
	struct wr w = wr_of(bytes, MAD_HEADER_BYTES);

	wr_u8(&w, MAD_BASE_VERSION);
	wr_u8(&w, m->mgmt_class);
	wr_u8(&w, m->class_version);
	wr_u8(&w, m->method);
	wr_u16(&w, m->status);
	wr_u16(&w, m->class_specific);
	wr_u64(&w, m->tid);
	wr_u16(&w, m->attribute);
	wr_u16(&w, 0);
	wr_u32(&w, m->modifier);
}
