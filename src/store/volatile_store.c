/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cache holds only blocks that the device below does not have yet. A write completes when it is
 * in the cache. Flushes, FUA writes and writes that do not fit share one queue and run one at a
 * time: first the cached blocks of their range (for a flush: all) are drained, then the request
 * itself goes below. So no block is written below twice at a time, and an old version never
 * overtakes a newer one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "store/store.h"

enum {
	CHANCE_ONE = 1000000000,
	READS_MAX = 64,
	RUNS_MAX = 16,
	RUN_BLOCKS = 16,
	ROOM_BYTES_MAX = 1 << 30
};

#define NO_SLOT UINT32_MAX

/* A cached block. */
struct slot {
	uint64_t block, version;
	uint64_t since; /* the first version that is not below, or an older one */
	uint64_t pass;	/* the latest pass that drained it */
	uint32_t next;	/* in its bucket, or in the free list */
	bool is_used;
	bool is_kept; /* chosen at random to be drained without a flush */
};

struct cached_read {
	struct store_request request;
	struct store_request *whole;
	bool is_again; /* a block of it was drained meanwhile: read again */
};

/* Adjacent blocks being written below; a snapshot of their content. */
struct drain_run {
	struct store_request request;
	struct span span;
	uint8_t *bytes;
	uint64_t versions[RUN_BLOCKS];
};

enum drain_step {
	DRAIN_IDLE,
	DRAIN_BLOCKS, /* cached blocks are written below */
	DRAIN_REQUEST /* the request itself is at the device below */
};

struct volatile_store {
	struct store store;
	struct store *below;
	struct prng prng;
	uint32_t keep;
	bool is_kept_waiting; /* some slot is_kept */
	bool is_settling, is_settled;

	uint32_t slot_count, free_count, first_free, bucket_mask;
	struct slot *slots;
	uint32_t *buckets;
	uint8_t *bytes; /* data of the slots */
	uint64_t version;

	enum drain_step step;
	struct store_request *job; /* NULL: a random drain, or the final one */
	struct store_request pass; /* the job's request to the device below */
	uint64_t first, count, at; /* range to scan: blocks, or slots if is_all */
	bool is_all, is_kept_only;
	uint64_t version_max; /* later versions are not part of the pass */
	uint64_t pass_number;
	enum weft_reason reason; /* the failure of a block */
	int error;
	uint32_t runs_under_way, run_bits; /* bit n: run n is in progress */
	struct drain_run runs[RUNS_MAX];

	struct cached_read reads[READS_MAX];
	uint64_t read_bits; /* bit n: read n is in progress */
	struct list jobs, reads_waiting, done;
};

static struct volatile_store *volatile_of(struct store *s)
{
	return CONTAINER_OF(s, struct volatile_store, store);
}

static void whole_end(struct volatile_store *v, struct store_request *r,
		      const struct store_request *as)
{
	store_request_end(r, as ? as->reason : WEFT_OK, as ? as->error : 0);
	list_add_tail(&v->done, &r->link);
}

/* ---- Slots ---------------------------------------------------------------------------------- */

static uint32_t *bucket_of(struct volatile_store *v, uint64_t block)
{
	return &v->buckets[prng_mix(block) & v->bucket_mask];
}

static uint32_t slot_find(struct volatile_store *v, uint64_t block)
{
	uint32_t i = *bucket_of(v, block);

	while (i != NO_SLOT && v->slots[i].block != block)
		i = v->slots[i].next;
	return i;
}

static uint8_t *slot_bytes(const struct volatile_store *v, uint32_t slot)
{
	return v->bytes + (size_t)slot * v->store.shape.block_bytes;
}

static uint32_t slot_take(struct volatile_store *v, uint64_t block)
{
	uint32_t i = slot_find(v, block), *bucket = bucket_of(v, block);

	if (i == NO_SLOT) {
		i = v->first_free;
		CHECK(i != NO_SLOT);
		v->first_free = v->slots[i].next;
		v->free_count--;
		v->slots[i] = (struct slot){
			.block = block, .since = v->version + 1, .next = *bucket, .is_used = true
		};
		*bucket = i;
	}
	v->slots[i].version = ++v->version;
	if (v->keep > 0 && prng_below(&v->prng, CHANCE_ONE) < v->keep) {
		v->slots[i].is_kept = true;
		v->is_kept_waiting = true;
	}
	return i;
}

static void slot_free(struct volatile_store *v, uint32_t slot)
{
	uint32_t *at = bucket_of(v, v->slots[slot].block);

	while (*at != slot)
		at = &v->slots[*at].next;
	*at = v->slots[slot].next;
	v->slots[slot] = (struct slot){ .next = v->first_free };
	v->first_free = slot;
	v->free_count++;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static uint64_t first_block(const struct volatile_store *v, const struct store_request *r)
{
	return r->offset / v->store.shape.block_bytes;
}

static uint64_t block_count(const struct volatile_store *v, const struct store_request *r)
{
	return r->length / v->store.shape.block_bytes;
}

/* Copies one block between the request's memory and the slot's. */
static void block_copy(const struct volatile_store *v, const struct store_request *r, uint64_t nth,
		       uint8_t *bytes)
{
	uint32_t block = v->store.shape.block_bytes;
	struct span_list l = { 0 };

	if (r->op == STORE_WRITE_ZEROES) {
		memset(bytes, 0, block);
		return;
	}
	(void)store_span_cut(&l, r, nth * block, block);
	for (uint32_t i = 0; i < l.count; i++) {
		if (r->op == STORE_READ)
			memcpy(l.spans[i].bytes, bytes, l.spans[i].length);
		else
			memcpy(bytes, l.spans[i].bytes, l.spans[i].length);
		bytes += l.spans[i].length;
	}
}

static bool has_room(struct volatile_store *v, const struct store_request *r)
{
	uint64_t first = first_block(v, r), count = block_count(v, r), needed = 0;

	if (count > v->slot_count)
		return false;
	for (uint64_t i = 0; i < count; i++)
		needed += slot_find(v, first + i) == NO_SLOT;
	return needed <= v->free_count;
}

static void write_cache(struct volatile_store *v, struct store_request *r)
{
	uint64_t first = first_block(v, r), count = block_count(v, r);

	for (uint64_t i = 0; i < count; i++)
		block_copy(v, r, i, slot_bytes(v, slot_take(v, first + i)));
	whole_end(v, r, NULL);
}

static void read_go(struct volatile_store *v, struct cached_read *c, uint64_t now_ns)
{
	const struct store_request *whole = c->whole;

	c->is_again = false;
	c->request = (struct store_request){ .op = STORE_READ,
					     .offset = whole->offset,
					     .length = whole->length,
					     .spans = whole->spans,
					     .span_count = whole->span_count };
	CHECK(store_submit(v->below, &c->request, now_ns) == WEFT_OK);
}

static void reads_start(struct volatile_store *v, uint64_t now_ns)
{
	for (uint32_t i = 0; i < READS_MAX && !list_is_empty(&v->reads_waiting); i++) {
		if (v->read_bits >> i & 1)
			continue;
		v->read_bits |= UINT64_C(1) << i;
		v->reads[i].whole = CONTAINER_OF(list_pop(&v->reads_waiting), struct store_request,
						 link);
		read_go(v, &v->reads[i], now_ns);
	}
}

/* Overlays the blocks from below with the cached ones. */
static void read_done(struct volatile_store *v, struct cached_read *c, uint64_t now_ns)
{
	uint64_t first = first_block(v, c->whole), count = block_count(v, c->whole);

	if (c->is_again && c->request.reason == WEFT_OK) {
		read_go(v, c, now_ns);
		return;
	}
	for (uint64_t i = 0; i < count && v->free_count < v->slot_count; i++) {
		uint32_t slot = slot_find(v, first + i);

		if (slot != NO_SLOT)
			block_copy(v, c->whole, i, slot_bytes(v, slot));
	}
	v->read_bits &= ~(UINT64_C(1) << (c - v->reads));
	whole_end(v, c->whole, &c->request);
}

/*
 * A read in progress may have read the old block from below, and will not find the new one in the
 * cache.
 */
static void reads_warn(struct volatile_store *v, uint64_t block)
{
	for (uint32_t i = 0; i < READS_MAX; i++) {
		struct cached_read *c = &v->reads[i];

		if (v->read_bits >> i & 1 && block >= first_block(v, c->whole) &&
		    block - first_block(v, c->whole) < block_count(v, c->whole))
			c->is_again = true;
	}
}

/* ---- Draining ------------------------------------------------------------------------------- */

/* A block written again since the pass began is drained in its new version, which covers both. */
static bool is_wanted(const struct volatile_store *v, uint32_t slot)
{
	const struct slot *s = &v->slots[slot];

	return s->is_used && s->since <= v->version_max && s->pass != v->pass_number &&
	       (s->is_kept || !v->is_kept_only);
}

/* The slot at this position of the scan, or NO_SLOT. */
static uint32_t slot_at(struct volatile_store *v, uint64_t at)
{
	return v->is_all ? (uint32_t)at : slot_find(v, v->first + at);
}

static void run_go(struct volatile_store *v, uint32_t n, uint64_t block, uint64_t now_ns)
{
	uint32_t bytes = v->store.shape.block_bytes, blocks = 0, slot;
	struct drain_run *run = &v->runs[n];

	while (blocks < RUN_BLOCKS && (v->is_all || block + blocks - v->first < v->count)) {
		slot = slot_find(v, block + blocks);
		if (slot == NO_SLOT || !is_wanted(v, slot))
			break;
		memcpy(run->bytes + (size_t)blocks * bytes, slot_bytes(v, slot), bytes);
		run->versions[blocks++] = v->slots[slot].version;
		v->slots[slot].pass = v->pass_number;
		v->slots[slot].is_kept = false;
	}
	run->span = (struct span){ run->bytes, (size_t)blocks * bytes };
	run->request = (struct store_request){ .op = STORE_WRITE,
					       .offset = block * bytes,
					       .length = (uint64_t)blocks * bytes,
					       .spans = &run->span,
					       .span_count = 1 };
	v->run_bits |= UINT32_C(1) << n;
	v->runs_under_way++;
	CHECK(store_submit(v->below, &run->request, now_ns) == WEFT_OK);
}

static void run_done(struct volatile_store *v, struct drain_run *run)
{
	uint64_t block = first_block(v, &run->request), count = block_count(v, &run->request);

	v->run_bits &= ~(UINT32_C(1) << (run - v->runs));
	v->runs_under_way--;
	if (run->request.reason != WEFT_OK) {
		/* The blocks stay in the cache, so no data is lost. */
		v->reason = run->request.reason;
		v->error = run->request.error;
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		uint32_t slot = slot_find(v, block + i);

		if (slot == NO_SLOT || v->slots[slot].version != run->versions[i])
			continue;
		slot_free(v, slot);
		reads_warn(v, block + i);
	}
}

/* Starts runs until none is free or all blocks of the pass were scanned. */
static void blocks_go(struct volatile_store *v, uint64_t now_ns)
{
	for (; v->at < v->count && v->reason == WEFT_OK; v->at++) {
		uint32_t slot = slot_at(v, v->at), n = 0;

		if (slot == NO_SLOT || !is_wanted(v, slot))
			continue;
		while (n < RUNS_MAX && v->run_bits >> n & 1)
			n++;
		if (n == RUNS_MAX)
			return;
		run_go(v, n, v->slots[slot].block, now_ns);
	}
}

static void pass_begin(struct volatile_store *v)
{
	const struct store_request *job = v->job;

	v->step = DRAIN_BLOCKS;
	v->is_kept_only = !job && !v->is_settling;
	v->is_all = !job || job->op == STORE_FLUSH || block_count(v, job) > v->slot_count;
	v->first = job ? first_block(v, job) : 0;
	v->count = v->is_all ? v->slot_count : block_count(v, job);
	v->at = 0;
	v->version_max = v->version;
	v->pass_number++;
	v->reason = WEFT_OK;
	if (v->is_kept_only)
		v->is_kept_waiting = false;
}

/* Starts the next pass; false: there is none. */
static bool pass_next(struct volatile_store *v)
{
	v->job = NULL;
	if (!list_is_empty(&v->jobs))
		v->job = CONTAINER_OF(list_pop(&v->jobs), struct store_request, link);
	else if (v->is_settling && !v->is_settled)
		v->is_settled = true; /* with this pass */
	else if (!v->is_kept_waiting)
		return false;
	pass_begin(v);
	return true;
}

static void job_end(struct volatile_store *v, const struct store_request *as)
{
	if (v->job)
		whole_end(v, v->job, as);
	v->job = NULL;
	v->step = DRAIN_IDLE;
}

static void job_go(struct volatile_store *v, uint64_t now_ns)
{
	const struct store_request *job = v->job;

	v->pass = (struct store_request){ .reason = v->reason, .error = v->error };
	if (!job || v->reason != WEFT_OK) {
		job_end(v, &v->pass);
		return;
	}
	v->pass = (struct store_request){ .op = job->op,
					  .flags = job->flags,
					  .offset = job->offset,
					  .length = job->length,
					  .spans = job->spans,
					  .span_count = job->span_count };
	v->step = DRAIN_REQUEST;
	CHECK(store_submit(v->below, &v->pass, now_ns) == WEFT_OK);
}

static void drain_go(struct volatile_store *v, uint64_t now_ns)
{
	while (v->step != DRAIN_REQUEST) {
		if (v->step == DRAIN_IDLE && !pass_next(v))
			return;
		blocks_go(v, now_ns);
		if (v->runs_under_way > 0)
			return;
		job_go(v, now_ns);
	}
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static void volatile_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct volatile_store *v = volatile_of(s);

	switch (r->op) {
	case STORE_READ:
		list_add_tail(&v->reads_waiting, &r->link);
		reads_start(v, now_ns);
		return;
	case STORE_DISCARD:
		whole_end(v, r, NULL); /* a discard is only a hint */
		return;
	default:
		if (r->op != STORE_FLUSH && !(r->flags & STORE_FUA) && has_room(v, r))
			write_cache(v, r);
		else
			list_add_tail(&v->jobs, &r->link);
		drain_go(v, now_ns);
	}
}

static void work(struct volatile_store *v, uint64_t now_ns)
{
	struct store_request *r;

	while ((r = store_next_done(v->below, now_ns))) {
		if (r == &v->pass)
			job_end(v, r);
		else if ((uintptr_t)r - (uintptr_t)v->reads < sizeof(v->reads))
			read_done(v, CONTAINER_OF(r, struct cached_read, request), now_ns);
		else
			run_done(v, CONTAINER_OF(r, struct drain_run, request));
		reads_start(v, now_ns);
		drain_go(v, now_ns);
	}
}

static struct store_request *volatile_next_done(struct store *s, uint64_t now_ns)
{
	struct volatile_store *v = volatile_of(s);

	work(v, now_ns);
	if (list_is_empty(&v->done))
		return NULL;
	return CONTAINER_OF(list_pop(&v->done), struct store_request, link);
}

static uint64_t volatile_due(const struct store *s)
{
	return store_due(CONTAINER_OF(s, struct volatile_store, store)->below);
}

static void volatile_expire(struct store *s, uint64_t now_ns)
{
	store_expire(volatile_of(s)->below, now_ns);
}

static bool volatile_event(struct store *s, struct store_event *event)
{
	return store_event(volatile_of(s)->below, event);
}

static bool volatile_settle(struct store *s, uint64_t now_ns)
{
	struct volatile_store *v = volatile_of(s);

	v->is_settling = true;
	drain_go(v, now_ns);
	work(v, now_ns);
	return v->is_settled && v->step == DRAIN_IDLE;
}

static void volatile_destroy(struct store *s)
{
	struct volatile_store *v = volatile_of(s);

	for (uint32_t i = 0; i < RUNS_MAX; i++)
		free(v->runs[i].bytes);
	free(v->slots);
	free(v->buckets);
	free(v->bytes);
	free(v);
}

static const struct store_calls volatile_calls = {
	.submit = volatile_submit,
	.next_done = volatile_next_done,
	.due = volatile_due,
	.expire = volatile_expire,
	.memory = store_no_memory,
	.event = volatile_event,
	.settle = volatile_settle,
	.destroy = volatile_destroy,
};

static bool memory_get(struct volatile_store *v)
{
	uint32_t block = v->store.shape.block_bytes, buckets = 1;

	while (buckets < v->slot_count)
		buckets *= 2;
	v->bucket_mask = buckets - 1;
	v->slots = calloc(v->slot_count, sizeof(*v->slots));
	v->buckets = malloc(buckets * sizeof(*v->buckets));
	v->bytes = calloc(v->slot_count, block);
	for (uint32_t i = 0; i < RUNS_MAX; i++) {
		v->runs[i].bytes = malloc((size_t)RUN_BLOCKS * block);
		if (!v->runs[i].bytes)
			return false;
	}
	if (!v->slots || !v->buckets || !v->bytes)
		return false;
	memset(v->buckets, 0xff, buckets * sizeof(*v->buckets));
	for (uint32_t i = 0; i < v->slot_count; i++)
		v->slots[i].next = i + 1 < v->slot_count ? i + 1 : NO_SLOT;
	v->free_count = v->slot_count;
	return true;
}

enum weft_reason volatile_store_create(struct store *below, const struct volatile_store_config *c,
				       struct store **out)
{
	struct volatile_store *v;

	if (c->keep > CHANCE_ONE || c->room_bytes < below->shape.block_bytes ||
	    c->room_bytes > ROOM_BYTES_MAX)
		return WEFT_R_BAD_ARGUMENT;
	v = calloc(1, sizeof(*v));
	if (!v)
		return WEFT_R_NO_MEMORY;
	v->store = (struct store){ .calls = &volatile_calls, .shape = below->shape };
	v->store.shape.outlives_process = false;
	v->below = below;
	v->prng.state = c->seed;
	v->keep = c->keep;
	v->slot_count = (uint32_t)(c->room_bytes / below->shape.block_bytes);
	list_init(&v->jobs);
	list_init(&v->reads_waiting);
	list_init(&v->done);
	if (!memory_get(v)) {
		volatile_destroy(&v->store);
		return WEFT_R_NO_MEMORY;
	}
	*out = &v->store;
	return WEFT_OK;
}
