/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of the messages of directed I/O, for rio_msg.c and rio_report.c only. */
#pragma once

#include "base/check.h"
#include "wire/rio_msg.h"

enum { RIO_WORD_BYTES = 4 };

/* ---- Decoding ------------------------------------------------------------------------------- */

static inline size_t rio_left(const struct rd *r)
{
	return (size_t)(r->end - r->at);
}

/* The next bytes, in place. */
static inline struct rio_bytes rio_take(struct rd *r, size_t length)
{
	struct rio_bytes b = { r->at, length };

	if (length > rio_left(r)) {
		r->is_short = true;
		return (struct rio_bytes){ 0 };
	}
	r->at += length;
	return b;
}

/* True if the next bytes are all 0, or missing. */
static inline bool rio_take_zeros(struct rd *r, size_t length)
{
	uint8_t bits = 0;

	while (length-- > 0)
		bits |= rd_u8(r);
	return bits == 0;
}

/* The padding after `length` bytes of text: zeros, to the next word. */
static inline bool rio_take_padding(struct rd *r, size_t length)
{
	return rio_take_zeros(r, -length % RIO_WORD_BYTES);
}

/* Each decodes a body; rio_msg_decode() rejects excess bytes. */
enum rio_msg_err rio_inquire_decode(uint32_t *first, struct rd *r);
enum rio_msg_err rio_report_decode(struct rio_report *v, struct rd *r);

/* ---- Encoding ------------------------------------------------------------------------------- */

static inline void rio_put_zeros(struct wr *w, size_t length)
{
	while (length-- > 0)
		wr_u8(w, 0);
}

static inline void rio_put_bytes(struct wr *w, struct rio_bytes b)
{
	if (b.length > 0)
		wr_bytes(w, b.bytes, b.length);
}

static inline void rio_put_text(struct wr *w, struct rio_bytes text)
{
	CHECK(text.length <= UINT16_MAX);
	wr_u16(w, (uint16_t)text.length);
	wr_u16(w, 0);
	rio_put_bytes(w, text);
	rio_put_zeros(w, -text.length % RIO_WORD_BYTES);
}

void rio_report_encode(const struct rio_report *v, struct wr *w);
