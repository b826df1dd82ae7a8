/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/mirror_mark.h"

#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "base/cursor.h"

enum { VERSION = 1, CRC_AT = 8, CHECKED_AT = 12, BITS_AT = 512, BITS_BYTES = MARK_REGIONS_MAX / 8 };

static const uint8_t magic[8] = { 'w', 'e', 'f', 't', 'm', 'i', 'r', 'r' };

uint64_t mark_region_bytes(uint64_t size_bytes)
{
	uint64_t bytes = MARK_REGION_BYTES_MIN;

	while ((size_bytes - 1) / bytes >= MARK_REGIONS_MAX)
		bytes *= 2;
	return bytes;
}

void mark_encode(const struct mirror_mark *m, uint8_t bytes[MARK_BYTES])
{
	struct wr w = wr_of(bytes, MARK_BYTES), crc = wr_of(bytes + CRC_AT, sizeof(uint32_t));

	memset(bytes, 0, MARK_BYTES);
	wr_bytes(&w, magic, sizeof(magic));
	wr_u32(&w, 0);
	wr_u32(&w, VERSION);
	wr_bytes(&w, m->identity, sizeof(m->identity));
	wr_u64(&w, m->generation);
	wr_u64(&w, m->serial);
	wr_u64(&w, m->size_bytes);
	wr_u64(&w, m->region_bytes);
	wr_u32(&w, m->members);
	wr_u32(&w, m->number);
	for (uint32_t i = 0; i < MARK_MEMBERS_MAX; i++)
		wr_u64(&w, m->current_at[i]);
	w = wr_of(bytes + BITS_AT, BITS_BYTES);
	for (uint32_t i = 0; i < BITS_BYTES; i++)
		wr_u8(&w, (uint8_t)(m->dirty[i / 8] >> i % 8 * 8));
	wr_u32(&crc,
	       crc32c_end(crc32c_add(CRC32C_BEGIN, bytes + CHECKED_AT, MARK_BYTES - CHECKED_AT)));
	CHECK(!w.is_short && !crc.is_short);
}

bool mark_decode(struct mirror_mark *m, const uint8_t bytes[MARK_BYTES])
{
	struct rd r = rd_of(bytes, MARK_BYTES), bits = rd_of(bytes + BITS_AT, BITS_BYTES);
	struct mirror_mark v = { 0 };
	uint8_t begin[sizeof(magic)];
	uint32_t crc, version;

	rd_bytes(&r, begin, sizeof(begin));
	crc = rd_u32(&r);
	version = rd_u32(&r);
	if (memcmp(begin, magic, sizeof(magic)) != 0 || version != VERSION ||
	    crc != crc32c_end(
			   crc32c_add(CRC32C_BEGIN, bytes + CHECKED_AT, MARK_BYTES - CHECKED_AT)))
		return false;
	rd_bytes(&r, v.identity, sizeof(v.identity));
	v.generation = rd_u64(&r);
	v.serial = rd_u64(&r);
	v.size_bytes = rd_u64(&r);
	v.region_bytes = rd_u64(&r);
	v.members = rd_u32(&r);
	v.number = rd_u32(&r);
	for (uint32_t i = 0; i < MARK_MEMBERS_MAX; i++)
		v.current_at[i] = rd_u64(&r);
	for (uint32_t i = 0; i < BITS_BYTES; i++)
		v.dirty[i / 8] |= (uint64_t)rd_u8(&bits) << i % 8 * 8;
	if (v.size_bytes == 0 || v.size_bytes > INT64_MAX ||
	    v.region_bytes != mark_region_bytes(v.size_bytes))
		return false;
	*m = v;
	return true;
}
