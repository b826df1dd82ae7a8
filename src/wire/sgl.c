/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/sgl.h"

enum {
	LAST = 0x80, /* of the first byte */
	KIND_SHIFT = 24,
	KIND_MASK = 0x7f,
	LENGTH_MASK = 0xffffff,
	FLAG_FUA = 0x01,
	FLAG_ENDS = 0x01,
	ROLE_COUNT = 2,
	DEVICE_AT = 8 /* in a transaction */
};

static const struct {
	const char *name;
	bool takes_fua;
} operations[SGL_OPERATION_COUNT] = {
	[SGL_READ] = { "read", false },	     [SGL_WRITE] = { "write", true },
	[SGL_FLUSH] = { "flush", false },    [SGL_WRITE_ZEROES] = { "write zeroes", true },
	[SGL_DISCARD] = { "discard", true },
};

const char *sgl_operation_name(enum sgl_operation operation)
{
	return (unsigned int)operation - 1 < SGL_OPERATION_COUNT - 1 ? operations[operation].name
								     : "unknown operation";
}

static uint32_t padding(uint32_t bytes)
{
	return -bytes % SGL_WORD_BYTES;
}

/* What an element of this kind takes; immediate data adds to it what is behind its header. */
static uint32_t kind_bytes(enum sgl_kind kind, const struct sgl_attributes *in)
{
	switch (kind) {
	case SGL_ATTRIBUTES:
		return 8;
	case SGL_CHAIN:
		return 20 + in->address_bytes;
	case SGL_PLATFORM:
		return 4 + PLATFORM_BYTES;
	case SGL_TRANSACTION:
		return 28;
	case SGL_DETAIL:
		return 16 + in->address_bytes;
	case SGL_IMMEDIATE:
		return SGL_IMMEDIATE_HEADER_BYTES;
	case SGL_KIND_COUNT:
		break;
	}
	return 0;
}

uint64_t sgl_bytes(const struct sgl_element *e, const struct sgl_attributes *in)
{
	uint32_t data = e->kind == SGL_IMMEDIATE ? e->immediate.length : 0;

	return (uint64_t)kind_bytes(e->kind, in) + data + padding(data);
}

/* ---- decoding ------------------------------------------------------------------------------- */

static uint64_t address_decode(struct rd *r, const struct sgl_attributes *in)
{
	return in->address_bytes == 4 ? rd_u32(r) : rd_u64(r);
}

/* Does the range end beyond the last address there is? It is not empty. */
static bool wraps(uint64_t address, uint64_t length, const struct sgl_attributes *in)
{
	uint64_t last = in->address_bytes == 4 ? UINT32_MAX : UINT64_MAX;

	return length - 1 > last - address;
}

bool sgl_attributes_are_good(const struct sgl_attributes *a)
{
	return (a->address_bytes == 4 || a->address_bytes == 8) &&
	       a->context_bytes == SGL_CONTEXT_BYTES && a->page_shift >= SGL_PAGE_SHIFT_MIN &&
	       a->page_shift <= SGL_PAGE_SHIFT_MAX;
}

static enum sgl_err attributes_decode(struct sgl_attributes *a, struct rd *r)
{
	uint8_t zero;

	a->address_bytes = rd_u8(r);
	a->context_bytes = rd_u8(r);
	a->page_shift = rd_u8(r);
	zero = rd_u8(r);
	if (zero != 0)
		return SGL_ERR_RESERVED;
	return sgl_attributes_are_good(a) ? SGL_OK : SGL_ERR_ATTRIBUTES;
}

static enum sgl_err chain_decode(struct sgl_chain *c, struct rd *r, const struct sgl_attributes *in)
{
	c->platform = platform_decode(r);
	c->handle = rd_u32(r);
	c->length = rd_u32(r);
	c->address = address_decode(r, in);
	if (platform_is_none(c->platform))
		return SGL_ERR_UNIT;
	if (c->length == 0)
		return SGL_ERR_EMPTY;
	if (c->length % SGL_WORD_BYTES != 0)
		return SGL_ERR_CHAIN;
	return wraps(c->address, c->length, in) ? SGL_ERR_WRAP : SGL_OK;
}

static enum sgl_err transaction_decode(struct sgl_transaction *t, struct rd *r)
{
	uint8_t operation = rd_u8(r), flags = rd_u8(r);
	uint16_t zero = rd_u16(r);

	t->operation = (enum sgl_operation)operation;
	t->is_fua = flags & FLAG_FUA;
	t->device = rd_u32(r);
	t->offset = rd_u64(r);
	t->length = rd_u64(r);
	if (zero != 0)
		return SGL_ERR_RESERVED;
	if (operation == 0 || operation >= SGL_OPERATION_COUNT)
		return SGL_ERR_OPERATION;
	if ((flags & ~FLAG_FUA) || (t->is_fua && !operations[operation].takes_fua))
		return SGL_ERR_FLAGS;
	if (operation == SGL_FLUSH)
		return t->offset != 0 || t->length != 0 ? SGL_ERR_FLUSH : SGL_OK;
	if (t->length == 0)
		return SGL_ERR_EMPTY;
	/* The end of the range is a number, too. */
	return t->length > UINT64_MAX - t->offset ? SGL_ERR_WRAP : SGL_OK;
}

/* What details and immediate data begin with. */
static enum sgl_err segment_decode(enum sgl_role *role, bool *ends_buffer, struct rd *r)
{
	uint8_t which = rd_u8(r), flags = rd_u8(r);
	uint16_t zero = rd_u16(r);

	*role = (enum sgl_role)which;
	*ends_buffer = flags & FLAG_ENDS;
	if (zero != 0)
		return SGL_ERR_RESERVED;
	if (which >= ROLE_COUNT)
		return SGL_ERR_ROLE;
	return flags & ~FLAG_ENDS ? SGL_ERR_FLAGS : SGL_OK;
}

static enum sgl_err detail_decode(struct sgl_detail *d, struct rd *r,
				  const struct sgl_attributes *in)
{
	enum sgl_err err = segment_decode(&d->role, &d->ends_buffer, r);

	d->handle = rd_u32(r);
	d->length = rd_u32(r);
	d->address = address_decode(r, in);
	if (err)
		return err;
	if (d->length == 0)
		return SGL_ERR_EMPTY;
	return wraps(d->address, d->length, in) ? SGL_ERR_WRAP : SGL_OK;
}

/* *r holds the element and no more. */
static enum sgl_err immediate_decode(struct sgl_immediate *m, struct rd *r)
{
	enum sgl_role role;
	enum sgl_err err = segment_decode(&role, &m->ends_buffer, r);
	size_t left;

	m->length = rd_u32(r);
	m->data = r->at;
	left = (size_t)(r->end - r->at);
	if (err)
		return err;
	if (role != SGL_SOURCE)
		return SGL_ERR_ROLE;
	if (m->length == 0)
		return SGL_ERR_EMPTY;
	if (m->length > left || m->length + padding(m->length) != left)
		return SGL_ERR_LENGTH;
	for (size_t i = m->length; i < left; i++) {
		if (m->data[i] != 0)
			return SGL_ERR_RESERVED;
	}
	return SGL_OK;
}

/* *r is behind the first word and ends with the element. */
static enum sgl_err body_decode(struct sgl_element *e, struct rd *r,
				const struct sgl_attributes *in)
{
	switch (e->kind) {
	case SGL_ATTRIBUTES:
		return attributes_decode(&e->attributes, r);
	case SGL_CHAIN:
		return chain_decode(&e->chain, r, in);
	case SGL_PLATFORM:
		e->platform = platform_decode(r);
		return platform_is_none(e->platform) ? SGL_ERR_UNIT : SGL_OK;
	case SGL_TRANSACTION:
		return transaction_decode(&e->transaction, r);
	case SGL_DETAIL:
		return detail_decode(&e->detail, r, in);
	case SGL_IMMEDIATE:
		return immediate_decode(&e->immediate, r);
	case SGL_KIND_COUNT:
		break;
	}
	return SGL_ERR_KIND;
}

enum sgl_err sgl_next(struct sgl_element *e, struct rd *r, const struct sgl_attributes *in)
{
	struct rd at = *r;
	uint32_t first = rd_u32(&at);
	uint32_t kind = first >> KIND_SHIFT & KIND_MASK, length = first & LENGTH_MASK;
	struct sgl_element v = { .kind = (enum sgl_kind)kind, .is_last = first >> 31 };
	enum sgl_err err;
	uint32_t needed;

	if (at.is_short)
		return SGL_ERR_SHORT;
	if (kind == 0 || kind >= SGL_KIND_COUNT)
		return SGL_ERR_KIND;
	needed = kind_bytes(v.kind, in);
	if (length % SGL_WORD_BYTES != 0 || length < needed ||
	    (v.kind != SGL_IMMEDIATE && length != needed))
		return SGL_ERR_LENGTH;
	if (length > (size_t)(r->end - r->at))
		return SGL_ERR_SHORT;
	at.end = r->at + length;
	err = body_decode(&v, &at, in);
	if (err)
		return err;
	*e = v;
	r->at += length;
	return SGL_OK;
}

/* ---- encoding ------------------------------------------------------------------------------- */

static void address_encode(uint64_t address, const struct sgl_attributes *in, struct wr *w)
{
	if (in->address_bytes == 4)
		wr_u32(w, (uint32_t)address);
	else
		wr_u64(w, address);
}

static void segment_encode(enum sgl_role role, bool ends_buffer, struct wr *w)
{
	wr_u8(w, (uint8_t)role);
	wr_u8(w, ends_buffer ? FLAG_ENDS : 0);
	wr_u16(w, 0);
}

static void attributes_encode(const struct sgl_attributes *a, struct wr *w)
{
	wr_u8(w, a->address_bytes);
	wr_u8(w, a->context_bytes);
	wr_u8(w, a->page_shift);
	wr_u8(w, 0);
}

static void chain_encode(const struct sgl_chain *c, const struct sgl_attributes *in, struct wr *w)
{
	platform_encode(c->platform, w);
	wr_u32(w, c->handle);
	wr_u32(w, c->length);
	address_encode(c->address, in, w);
}

static void transaction_encode(const struct sgl_transaction *t, struct wr *w)
{
	wr_u8(w, (uint8_t)t->operation);
	wr_u8(w, t->is_fua ? FLAG_FUA : 0);
	wr_u16(w, 0);
	wr_u32(w, t->device);
	wr_u64(w, t->offset);
	wr_u64(w, t->length);
}

static void detail_encode(const struct sgl_detail *d, const struct sgl_attributes *in, struct wr *w)
{
	segment_encode(d->role, d->ends_buffer, w);
	wr_u32(w, d->handle);
	wr_u32(w, d->length);
	address_encode(d->address, in, w);
}

static void immediate_encode(const struct sgl_immediate *m, struct wr *w)
{
	segment_encode(SGL_SOURCE, m->ends_buffer, w);
	wr_u32(w, m->length);
	if (m->length > 0)
		wr_bytes(w, m->data, m->length);
	for (uint32_t i = padding(m->length); i > 0; i--)
		wr_u8(w, 0);
}

void sgl_put(const struct sgl_element *e, const struct sgl_attributes *in, struct wr *w)
{
	uint64_t length = sgl_bytes(e, in);

	if (w->is_short || length > (size_t)(w->end - w->at) || length > SGL_LENGTH_MAX) {
		w->is_short = true;
		return;
	}
	wr_u32(w, (uint32_t)e->kind << KIND_SHIFT | (uint32_t)length);
	if (e->is_last)
		sgl_set_last(w->at - SGL_WORD_BYTES);
	switch (e->kind) {
	case SGL_ATTRIBUTES:
		attributes_encode(&e->attributes, w);
		break;
	case SGL_CHAIN:
		chain_encode(&e->chain, in, w);
		break;
	case SGL_PLATFORM:
		platform_encode(e->platform, w);
		break;
	case SGL_TRANSACTION:
		transaction_encode(&e->transaction, w);
		break;
	case SGL_DETAIL:
		detail_encode(&e->detail, in, w);
		break;
	case SGL_IMMEDIATE:
		immediate_encode(&e->immediate, w);
		break;
	case SGL_KIND_COUNT:
		break;
	}
}

void sgl_set_last(uint8_t *element)
{
	*element |= LAST;
}

void sgl_set_device(uint8_t *transaction, uint32_t device)
{
	struct wr w = wr_of(transaction + DEVICE_AT, sizeof(device));

	wr_u32(&w, device);
}
