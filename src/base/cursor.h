/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte cursors for codecs: big-endian reads and writes that never leave their buffer. Past the end
 * a read gives 0 and a write does nothing, and is_short stays set: check it once, at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	return (struct rd){ .at = bytes, .end = bytes + length };
}

static inline struct wr wr_of(uint8_t *bytes, size_t length)
{
	return (struct wr){ .at = bytes, .end = bytes + length };
}

/* The next width (at most 8) bytes as one big-endian number. */
static inline uint64_t rd_uint(struct rd *r, size_t width)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->at) < width) {
		r->is_short = true;
		return 0;
	}
	for (size_t i = 0; i < width; i++)
		v = v << 8 | r->at[i];
	r->at += width;
	return v;
}

static inline void wr_uint(struct wr *w, uint64_t v, size_t width)
{
	if ((size_t)(w->end - w->at) < width) {
		w->is_short = true;
		return;
	}
	for (size_t i = width; i > 0; i--, v >>= 8)
		w->at[i - 1] = (uint8_t)v;
	w->at += width;
}

static inline uint8_t rd_u8(struct rd *r)
{
	return (uint8_t)rd_uint(r, 1);
}

static inline uint16_t rd_u16(struct rd *r)
{
	return (uint16_t)rd_uint(r, 2);
}

static inline uint32_t rd_u32(struct rd *r)
{
	return (uint32_t)rd_uint(r, 4);
}

static inline uint64_t rd_u64(struct rd *r)
{
	return rd_uint(r, 8);
}

static inline void wr_u8(struct wr *w, uint8_t v)
{
	wr_uint(w, v, 1);
}

static inline void wr_u16(struct wr *w, uint16_t v)
{
	wr_uint(w, v, 2);
}

static inline void wr_u32(struct wr *w, uint32_t v)
{
	wr_uint(w, v, 4);
}

static inline void wr_u64(struct wr *w, uint64_t v)
{
	wr_uint(w, v, 8);
}
