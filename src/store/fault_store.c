/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/store.h"

#include <stdlib.h>

#include "base/prng.h"

enum { CHANCE_ONE = 1000000000, TORN_MAX = 64 };

/* The part of a torn write that is carried out. */
struct torn_write {
	struct store_request request;
	struct store_request *whole;
	struct span_list spans;
};

struct fault_store {
	struct store store;
	struct store *below;
	struct fault_store_config config;
	struct prng errors, torns; /* separate: the rates are independent */
	uint64_t count;		   /* requests so far */
	bool is_crashed;
	struct list failed;
	struct list free;
	struct torn_write torn[TORN_MAX];
};

static struct fault_store *fault_of(struct store *s)
{
	return CONTAINER_OF(s, struct fault_store, store);
}

static bool falls(struct prng *p, uint32_t chance)
{
	return chance > 0 && prng_below(p, CHANCE_ONE) < chance;
}

static bool is_in_bad_range(const struct fault_store *f, const struct store_request *r)
{
	for (uint32_t i = 0; i < f->config.range_count; i++) {
		const struct fault_store_range *bad = &f->config.ranges[i];

		/* Do they overlap? Written without a sum that could wrap. */
		if (r->offset >= bad->offset ? r->offset - bad->offset < bad->length
					     : bad->offset - r->offset < r->length)
			return true;
	}
	return false;
}

static void fail(struct fault_store *f, struct store_request *r)
{
	store_request_end(r, f->is_crashed ? WEFT_R_STORE_GONE : WEFT_R_STORE_FAULT, 0);
	list_add_tail(&f->failed, &r->link);
}

/* Carries out some of the first blocks, maybe none, never all. */
static void tear(struct fault_store *f, struct store_request *r, uint64_t now_ns)
{
	uint32_t block = f->store.shape.block_bytes;
	uint64_t blocks = prng_next(&f->torns) % (r->length / block);
	struct torn_write *t;

	if (blocks == 0 || list_is_empty(&f->free)) {
		fail(f, r);
		return;
	}
	t = CONTAINER_OF(list_pop(&f->free), struct torn_write, request.link);
	t->whole = r;
	t->spans.count = 0;
	t->spans.length = 0;
	t->request = (struct store_request){ .op = r->op, .flags = r->flags, .offset = r->offset };
	t->request.length = store_span_cut(&t->spans, r, 0, blocks * block);
	t->request.spans = t->spans.spans;
	t->request.span_count = t->spans.count;
	CHECK(store_submit(f->below, &t->request, now_ns) == WEFT_OK);
}

static void fault_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct fault_store *f = fault_of(s);
	/* Always draw both, so that later draws do not depend on this one. */
	bool is_error = falls(&f->errors, f->config.error);
	bool is_torn = falls(&f->torns, f->config.torn);

	if (f->is_crashed) {
		fail(f, r);
		return;
	}
	f->count++;
	if (f->count == f->config.crash_at) {
		f->is_crashed = true;
		is_torn = true;
	}
	if (is_error || (r->length > 0 && is_in_bad_range(f, r)))
		fail(f, r);
	else if (is_torn && r->op == STORE_WRITE)
		tear(f, r, now_ns);
	else if (f->is_crashed)
		fail(f, r);
	else
		CHECK(store_submit(f->below, r, now_ns) == WEFT_OK);
}

static bool is_torn_write(const struct fault_store *f, const struct store_request *r)
{
	return (uintptr_t)r - (uintptr_t)f->torn < sizeof(f->torn);
}

static struct store_request *fault_next_done(struct store *s, uint64_t now_ns)
{
	struct fault_store *f = fault_of(s);
	struct store_request *r = store_next_done(f->below, now_ns);

	if (r && is_torn_write(f, r)) {
		struct torn_write *t = CONTAINER_OF(r, struct torn_write, request);

		r = t->whole;
		list_add_tail(&f->free, &t->request.link);
		store_request_end(r, WEFT_R_STORE_FAULT, 0);
	}
	if (!r && !list_is_empty(&f->failed))
		r = CONTAINER_OF(list_pop(&f->failed), struct store_request, link);
	/*
	 * A request in progress at the crash may have been carried out, but is reported as failed.
	 */
	if (r && f->is_crashed)
		store_request_end(r, WEFT_R_STORE_GONE, 0);
	return r;
}

static uint64_t fault_due(const struct store *s)
{
	return store_due(CONTAINER_OF(s, struct fault_store, store)->below);
}

static void fault_expire(struct store *s, uint64_t now_ns)
{
	store_expire(fault_of(s)->below, now_ns);
}

static bool fault_event(struct store *s, struct store_event *event)
{
	return store_event(fault_of(s)->below, event);
}

static void fault_destroy(struct store *s)
{
	free(fault_of(s));
}

static const struct store_calls fault_calls = {
	.submit = fault_submit,
	.next_done = fault_next_done,
	.due = fault_due,
	.expire = fault_expire,
	.memory = store_no_memory,
	.event = fault_event,
	.destroy = fault_destroy,
};

enum weft_reason fault_store_create(struct store *below, const struct fault_store_config *c,
				    struct store **out)
{
	struct prng seeds = { c->seed };
	struct fault_store *f;

	if (c->range_count > FAULT_STORE_RANGES_MAX || c->error > CHANCE_ONE ||
	    c->torn > CHANCE_ONE)
		return WEFT_R_BAD_ARGUMENT;
	f = calloc(1, sizeof(*f));
	if (!f)
		return WEFT_R_NO_MEMORY;
	f->store = (struct store){ .calls = &fault_calls, .shape = below->shape };
	f->below = below;
	f->config = *c;
	f->errors.state = prng_next(&seeds);
	f->torns.state = prng_next(&seeds);
	list_init(&f->failed);
	list_init(&f->free);
	for (uint32_t i = 0; i < TORN_MAX; i++)
		list_add_tail(&f->free, &f->torn[i].request.link);
	*out = &f->store;
	return WEFT_OK;
}
