/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/advert.h"

#include "base/check.h"
#include "base/cursor.h"

void weft_advert_encode(const struct weft_advert *advert, uint8_t bytes[WEFT_ADVERT_BYTES])
{
	struct wr w = wr_of(bytes, WEFT_ADVERT_BYTES);

	CHECK(advert && bytes);
	wr_u32(&w, ADVERT_MAGIC);
	wr_u16(&w, ADVERT_VERSION);
	wr_u16(&w, (uint16_t)(advert->rights & ADVERT_RIGHTS));
	wr_u32(&w, advert->tag);
	wr_u32(&w, 0);
	wr_u64(&w, advert->addr);
	wr_u64(&w, advert->length);
	CHECK(!w.is_short && w.at == w.end);
}

bool weft_advert_decode(const uint8_t *bytes, size_t length, struct weft_advert *advert)
{
	struct weft_advert v;
	uint32_t magic, version, zero;
	struct rd r;

	if (!bytes || length != WEFT_ADVERT_BYTES)
		return false;
	r = rd_of(bytes, length);
	magic = rd_u32(&r);
	version = rd_u16(&r);
	v.rights = rd_u16(&r);
	v.tag = rd_u32(&r);
	zero = rd_u32(&r);
	v.addr = rd_u64(&r);
	v.length = rd_u64(&r);
	CHECK(!r.is_short && r.at == r.end);
	if (magic != ADVERT_MAGIC || version != ADVERT_VERSION || zero != 0)
		return false;
	if ((v.rights & ~(uint32_t)ADVERT_RIGHTS) ||
	    (v.length > 0 && v.addr + (v.length - 1) < v.addr))
		return false;
	*advert = v;
	return true;
}
