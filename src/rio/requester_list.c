/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request's list (RIO-02b). It is written when the request starts, with 0 in place of window
 * handles, so nothing else of the ask has to be kept.
 *
 *	short:	message = attributes, body
 *	long:	message = attributes, chain pointer; body in a slot that the owner reads
 */
#include <string.h>

#include "rio/requester_parts.h"

enum { ATTRIBUTES_BYTES = 8, CHAIN_BYTES = 28 };

/* The body, while it is measured or written. */
struct writer {
	const struct rio_requester *by;
	struct rio_requester *q; /* the same; NULL: only measure */
	struct request *r;
	struct sgl_attributes in;
	struct wr at;
	uint8_t *latest;
	struct platform self, platform; /* of the following elements */
	struct platform iounit;		/* of the transaction's device, if it is known */
	uint64_t bytes;
	uint32_t elements, windows;
};

static void put(struct writer *w, const struct sgl_element *e)
{
	w->bytes += sgl_bytes(e, &w->in);
	w->elements++;
	if (!w->q)
		return;
	w->latest = w->at.at;
	sgl_put(e, &w->in, &w->at);
}

/* RIO-13a: must an address of the list's size be cut? */
static bool is_cut(const struct sgl_attributes *in, uint64_t address, uint64_t length)
{
	const uint64_t addresses = UINT64_C(1) << 32;

	return in->address_bytes == 4 && (address >= addresses || length > addresses - address);
}

static void window_begin(struct writer *w, const struct rio_fragment *f, bool is_written)
{
	struct window *window;

	w->windows++;
	if (!w->q)
		return;
	window = window_new(w->q, w->r);
	window->detail = w->latest;
	window->tag = f->tag;
	window->address = f->address;
	window->length = f->length;
	window->is_written = is_written;
}

/* RIO-13c: consecutive fragments of one platform name it once. */
static void put_fragment(struct writer *w, const struct rio_wanted *wanted,
			 const struct rio_fragment *f, bool is_last)
{
	bool is_read = wanted->is.operation == SGL_READ;
	bool is_own = platform_is_none(f->platform) || platform_is_same(f->platform, w->self);
	struct platform platform = is_own ? w->self : f->platform;

	/* RIO-14: before the first platform is named, memory is the I/O unit's own. */
	bool is_named = !platform_is_none(w->platform) || !platform_is_same(platform, w->iounit);

	if (is_named && !platform_is_same(platform, w->platform))
		put(w, &(struct sgl_element){ .kind = SGL_PLATFORM, .platform = platform });
	if (is_named)
		w->platform = platform;
	put(w, &(struct sgl_element){ .kind = SGL_DETAIL,
				      .detail = { .role = is_read ? SGL_RESULT : SGL_SOURCE,
						  .ends_buffer = is_last,
						  .handle = is_own ? 0 : f->tag,
						  .length = f->length,
						  .address = f->address } });
	if (is_own)
		window_begin(w, f, is_read);
}

/* RIO-15: every fragment is of just one buffer. Bound: a list's limit of elements. */
static bool buffers_are_good(const struct rio_wanted *wanted)
{
	uint64_t sum = 0;

	if (!wanted->buffers || wanted->buffer_count > wanted->fragment_count)
		return wanted->buffer_count == 0;
	for (uint64_t i = 0; i < wanted->buffer_count; i++) {
		if (wanted->buffers[i] == 0)
			return false;
		sum += wanted->buffers[i];
	}
	return sum == wanted->fragment_count;
}

static enum weft_reason put_fragments(struct writer *w, const struct rio_wanted *wanted)
{
	const uint32_t *buffer = wanted->buffers ? wanted->buffers : &wanted->fragment_count;
	uint32_t in_buffer = 0;

	for (uint32_t i = 0; i < wanted->fragment_count; i++) {
		const struct rio_fragment *f = &wanted->fragments[i];
		bool is_last = ++in_buffer == *buffer;

		if (is_cut(&w->in, f->address, f->length))
			return WEFT_R_SGL_WRAP;
		put_fragment(w, wanted, f, is_last);
		if (is_last) {
			buffer++;
			in_buffer = 0;
		}
	}
	return WEFT_OK;
}

static enum weft_reason put_wanted(struct writer *w, const struct rio_wanted *wanted)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	enum weft_reason reason;

	w->iounit = unit_of_device(w->by, wanted->is.device);
	put(w, &(struct sgl_element){ .kind = SGL_TRANSACTION, .transaction = wanted->is });
	if (wanted->fragment_count > limits.elements)
		return WEFT_R_SGL_ELEMENTS;
	if (wanted->fragment_count > 0 && (wanted->immediate || !wanted->fragments))
		return WEFT_R_BAD_ARGUMENT;
	if (!buffers_are_good(wanted))
		return WEFT_R_BAD_ARGUMENT;
	reason = put_fragments(w, wanted);
	if (reason != WEFT_OK)
		return reason;
	if (!wanted->immediate)
		return WEFT_OK;
	if (wanted->is.length > SGL_IMMEDIATE_MAX)
		return WEFT_R_SGL_BYTES;
	put(w, &(struct sgl_element){ .kind = SGL_IMMEDIATE,
				      .immediate = { .ends_buffer = true,
						     .length = (uint32_t)wanted->is.length,
						     .data = wanted->immediate } });
	return WEFT_OK;
}

/* Bound: a list's limits of transactions and elements. */
static enum weft_reason put_all(struct writer *w, const struct rio_ask *ask)
{
	const struct rio_list_limits limits = rio_list_limits_default();

	if (ask->count == 0)
		return WEFT_R_SGL_NO_TRANSACTION;
	if (ask->count > limits.transactions)
		return WEFT_R_SGL_TRANSACTIONS;
	for (uint32_t i = 0; i < ask->count; i++) {
		enum weft_reason reason = put_wanted(w, &ask->wanted[i]);

		if (reason != WEFT_OK)
			return reason;
	}
	if (w->elements > limits.elements)
		return WEFT_R_SGL_ELEMENTS;
	return w->bytes > limits.bytes - ATTRIBUTES_BYTES - CHAIN_BYTES ? WEFT_R_SGL_BYTES
									: WEFT_OK;
}

enum weft_reason list_measure(const struct rio_requester *q, const struct rio_ask *ask,
			      struct list_size *size)
{
	struct writer w = { .by = q, .in = q->config.attributes, .self = q->config.self };
	uint64_t lists_bytes = (uint64_t)q->config.lists_max * RIO_LIST_BYTES_MAX;
	uint32_t room = q->owner_list_max < RIO_REQUEST_LIST_MAX ? q->owner_list_max
								 : RIO_REQUEST_LIST_MAX;
	enum weft_reason reason = put_all(&w, ask);

	if (reason != WEFT_OK)
		return reason;
	*size = (struct list_size){ .bytes = w.bytes,
				    .windows = w.windows,
				    .is_long = w.bytes + ATTRIBUTES_BYTES > room };
	if (size->is_long && is_cut(&w.in, q->config.lists_address, lists_bytes))
		return WEFT_R_RIO_CHAIN;
	/* An owner with a smaller limit can take no request. */
	return size->is_long && room < ATTRIBUTES_BYTES + CHAIN_BYTES ? WEFT_R_SGL_BYTES : WEFT_OK;
}

static uint8_t *slot_of(const struct rio_requester *q, uint32_t list)
{
	return q->config.lists + (size_t)list * RIO_LIST_BYTES_MAX;
}

void list_build(struct rio_requester *q, struct request *r, const struct rio_ask *ask,
		const struct list_size *size)
{
	const struct sgl_attributes in = q->config.attributes;
	struct wr message = wr_of(r->bytes, sizeof(r->bytes));
	struct writer w = { .by = q, .q = q, .r = r, .in = in, .self = q->config.self };

	/* RIO-13a: the list leaves its unit. */
	sgl_put(&(struct sgl_element){ .kind = SGL_ATTRIBUTES, .attributes = in }, &in, &message);
	if (size->is_long)
		sgl_put(&(struct sgl_element){ .kind = SGL_CHAIN,
					       .chain = { .platform = q->config.self,
							  .handle = q->config.lists_handle,
							  .length = (uint32_t)size->bytes,
							  .address = q->config.lists_address +
								     (uint64_t)r->list *
									     RIO_LIST_BYTES_MAX } },
			&in, &message);
	w.at = size->is_long ? wr_of(slot_of(q, r->list), RIO_LIST_BYTES_MAX) : message;
	CHECK(put_all(&w, ask) == WEFT_OK && !w.at.is_short && w.bytes == size->bytes);
	sgl_set_last(w.latest);
	r->length = (size_t)((size->is_long ? message.at : w.at.at) - r->bytes);
}

enum weft_reason list_check(struct rio_requester *q, const struct request *r,
			    const struct list_size *size)
{
	enum weft_reason reason;

	rio_list_clear(q->check);
	reason = rio_list_take(q->check, r->bytes, r->length);
	if (reason == WEFT_OK && size->is_long)
		reason = rio_list_take(q->check, slot_of(q, r->list), (size_t)size->bytes);
	return reason;
}

void list_set_handle(const struct rio_requester *q, const struct window *w)
{
	const struct sgl_attributes *in = &q->config.attributes;
	struct sgl_element e = { .kind = SGL_DETAIL };
	size_t length = (size_t)sgl_bytes(&e, in);
	struct rd from = rd_of(w->detail, length);
	struct wr to = wr_of(w->detail, length);

	CHECK(sgl_next(&e, &from, in) == SGL_OK && e.kind == SGL_DETAIL);
	e.detail.handle = w->handle;
	sgl_put(&e, in, &to);
}
