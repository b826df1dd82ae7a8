/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte cursors for codecs: big-endian reads and writes that never leave their buffer. Past the end
 * a read returns 0, a write does nothing, and is_short is set for good: check it once, at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct rd {
	const uint8_t *at, *end;
	bool is_short;
};

struct wr {
	uint8_t *at, *end;
	bool is_short;
};

static inline struct rd rd_of(const uint8_t *bytes, size_t length)
{
	/* bytes may be NULL if length is 0: NULL + 0 is undefined. */
	return (struct rd){ .at = bytes, .end = length > 0 ? bytes + length : bytes };
}

static inline struct wr wr_of(uint8_t *bytes, size_t length)
{
	return (struct wr){ .at = bytes, .end = bytes + length };
}

/* Network byte order to host byte order, and back. */
static inline uint16_t be16(uint16_t v)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap16(v) : v;
}

static inline uint32_t be32(uint32_t v)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap32(v) : v;
}

static inline uint64_t be64(uint64_t v)
{
	return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? __builtin_bswap64(v) : v;
}

/* Copies the next bytes; zeros past the end. */
static inline void rd_bytes(struct rd *r, void *to, size_t length)
{
	if ((size_t)(r->end - r->at) < length) {
		r->is_short = true;
		memset(to, 0, length);
		return;
	}
	memcpy(to, r->at, length);
	r->at += length;
}

static inline void wr_bytes(struct wr *w, const void *from, size_t length)
{
	if ((size_t)(w->end - w->at) < length) {
		w->is_short = true;
		return;
	}
	memcpy(w->at, from, length);
	w->at += length;
}

static inline uint8_t rd_u8(struct rd *r)
{
	uint8_t v;

	rd_bytes(r, &v, sizeof(v));
	return v;
}

static inline uint16_t rd_u16(struct rd *r)
{
	uint16_t v;

	rd_bytes(r, &v, sizeof(v));
	return be16(v);
}

static inline uint32_t rd_u32(struct rd *r)
{
	uint32_t v;

	rd_bytes(r, &v, sizeof(v));
	return be32(v);
}

static inline uint64_t rd_u64(struct rd *r)
{
	uint64_t v;

	rd_bytes(r, &v, sizeof(v));
	return be64(v);
}

static inline void wr_u8(struct wr *w, uint8_t v)
{
	wr_bytes(w, &v, sizeof(v));
}

static inline void wr_u16(struct wr *w, uint16_t v)
{
	v = be16(v);
	wr_bytes(w, &v, sizeof(v));
}

static inline void wr_u32(struct wr *w, uint32_t v)
{
	v = be32(v);
	wr_bytes(w, &v, sizeof(v));
}

static inline void wr_u64(struct wr *w, uint64_t v)
{
	v = be64(v);
	wr_bytes(w, &v, sizeof(v));
}
