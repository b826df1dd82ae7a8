/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/least.h"

struct mem_store {
	struct store store;
	uint8_t *bytes;
	struct list done;
	struct list loans;
};

static struct mem_store *mem_of(struct store *s)
{
	return CONTAINER_OF(s, struct mem_store, store);
}

static void mem_lend(struct store *s, struct store_loan *loan)
{
	struct mem_store *m = mem_of(s);

	loan->bytes = m->bytes + loan->offset;
	list_add_tail(&m->loans, &loan->link);
}

/* Bytes of the range are about to change: loans of any of them get copies. */
static void take_back(struct mem_store *m, uint64_t offset, uint64_t length)
{
	struct list *next;

	for (struct list *l = m->loans.next; l != &m->loans; l = next) {
		struct store_loan *loan = CONTAINER_OF(l, struct store_loan, link);
		const uint8_t *from = loan->bytes;

		next = l->next;
		if (loan->offset >= offset + length || offset >= loan->offset + loan->length)
			continue;
		for (uint64_t i = 0, left = loan->length; left > 0; i++) {
			uint64_t n = least(loan->spans[i].length, left);

			memcpy(loan->spans[i].bytes, from, n);
			from += n;
			left -= n;
		}
		store_loan_end(loan);
	}
}

static void mem_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct mem_store *m = mem_of(s);
	uint8_t *at = m->bytes + r->offset;

	(void)now_ns;
	if (r->op != STORE_READ && !list_is_empty(&m->loans))
		take_back(m, r->offset, r->length);
	for (uint32_t i = 0; i < r->span_count; i++) {
		const struct span *span = &r->spans[i];

		/*
		 * memcpy() of an empty span would still need a valid address; memmove() because the
		 * span may overlap this device's own memory.
		 */
		if (span->length == 0)
			continue;
		if (r->op == STORE_READ)
			memmove(span->bytes, at, span->length);
		else
			memmove(at, span->bytes, span->length);
		at += span->length;
	}
	if (r->op == STORE_WRITE_ZEROES || r->op == STORE_DISCARD)
		memset(at, 0, (size_t)r->length);
	list_add_tail(&m->done, &r->link);
}

static struct store_request *mem_next_done(struct store *s, uint64_t now_ns)
{
	struct mem_store *m = mem_of(s);

	(void)now_ns;
	if (list_is_empty(&m->done))
		return NULL;
	return CONTAINER_OF(list_pop(&m->done), struct store_request, link);
}

static struct span mem_memory(struct store *s, uint64_t offset, uint64_t length)
{
	return (struct span){ mem_of(s)->bytes + offset, (size_t)length };
}

static void mem_destroy(struct store *s)
{
	free(mem_of(s));
}

static const struct store_calls mem_calls = {
	.submit = mem_submit,
	.next_done = mem_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = mem_memory,
	.lend = mem_lend,
	.event = store_no_event,
	.destroy = mem_destroy,
};

enum weft_reason mem_store_create(const struct mem_store_config *c, struct store **out)
{
	struct store_shape shape = { .size_bytes = c->size_bytes,
				     .block_bytes = c->block_bytes,
				     .can = STORE_CAN_ALL,
				     .is_readonly = c->is_readonly };
	enum weft_reason reason = store_shape_check(&shape);
	struct mem_store *m;

	if (reason != WEFT_OK)
		return reason;
	if (!c->bytes)
		return WEFT_R_NULL_ARGUMENT;
	if (shape.size_bytes > SIZE_MAX)
		return WEFT_R_STORE_SIZE;
	m = malloc(sizeof(*m));
	if (!m)
		return WEFT_R_NO_MEMORY;
	*m = (struct mem_store){ .store = { .calls = &mem_calls, .shape = shape },
				 .bytes = c->bytes };
	list_init(&m->done);
	list_init(&m->loans);
	*out = &m->store;
	return WEFT_OK;
}
