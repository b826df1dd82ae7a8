/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/sim_disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static struct sim_disk *disk_of(struct store *s)
{
	return CONTAINER_OF(s, struct sim_disk, store);
}

static bool is_heads(struct sim_disk *d)
{
	return prng_below(d->config.prng, 2) == 0;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static uint64_t blocks_of(const struct sim_disk *d)
{
	return d->config.size_bytes / d->config.block_bytes;
}

static void block_harden(struct sim_disk *d, uint64_t block)
{
	uint64_t at = block * d->config.block_bytes;

	memcpy(d->durable + at, d->current + at, d->config.block_bytes);
	d->versions[block] = 0;
}

/* The latest version that a flush in progress will make durable. */
static uint64_t flushing(const struct sim_disk *d)
{
	uint64_t latest = 0;

	for (uint32_t i = 0; i < d->flush_count; i++) {
		if (d->flushes[i].version > latest)
			latest = d->flushes[i].version;
	}
	return latest;
}

/* Sets the block's content; NULL: zeroes. Data that a flush in progress covers is saved first. */
static void block_put(struct sim_disk *d, uint64_t block, const uint8_t *bytes)
{
	uint8_t *at = d->current + block * d->config.block_bytes;

	if (d->versions[block] != 0 && d->versions[block] <= flushing(d))
		block_harden(d, block);
	if (bytes)
		memcpy(at, bytes, d->config.block_bytes);
	else
		memset(at, 0, d->config.block_bytes);
	d->versions[block] = ++d->version;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Copies the spans into one buffer; the disks are small enough. */
static uint8_t *gather(const struct store_request *r)
{
	uint8_t *bytes = malloc((size_t)r->length), *at = bytes;

	CHECK(bytes);
	for (uint32_t i = 0; i < r->span_count; i++) {
		memcpy(at, r->spans[i].bytes, r->spans[i].length);
		at += r->spans[i].length;
	}
	return bytes;
}

static void read_do(struct sim_disk *d, const struct store_request *r)
{
	const uint8_t *at = d->current + r->offset;

	for (uint32_t i = 0; i < r->span_count; i++) {
		memcpy(r->spans[i].bytes, at, r->spans[i].length);
		at += r->spans[i].length;
	}
}

/* Applies all blocks, or, of an interrupted request, some. */
static void change_do(struct sim_disk *d, const struct store_request *r, bool is_cut)
{
	uint64_t first = r->offset / d->config.block_bytes;
	uint64_t count = r->length / d->config.block_bytes;
	uint8_t *bytes = r->op == STORE_WRITE ? gather(r) : NULL;

	for (uint64_t i = 0; i < count; i++) {
		/* A discarded block may keep its content. */
		bool is_left = is_cut || r->op == STORE_DISCARD;

		if (is_left && is_heads(d))
			continue;
		block_put(d, first + i, bytes ? bytes + i * d->config.block_bytes : NULL);
		if (r->flags & STORE_FUA && !is_cut)
			block_harden(d, first + i);
	}
	free(bytes);
}

static void flush_do(struct sim_disk *d, const struct store_request *r)
{
	uint32_t i = 0;

	while (i < d->flush_count && d->flushes[i].request != r)
		i++;
	CHECK(i < d->flush_count);
	for (uint64_t block = 0; block < blocks_of(d); block++) {
		if (d->versions[block] != 0 && d->versions[block] <= d->flushes[i].version)
			block_harden(d, block);
	}
	d->flushes[i] = d->flushes[--d->flush_count];
}

static void disk_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct sim_disk *d = disk_of(s);

	if (d->is_off) {
		store_request_end(r, WEFT_R_STORE_GONE, 0);
		list_add_tail(&d->dead, &r->link);
		return;
	}
	if (now_ns < d->sick_until_ns) {
		store_request_end(r, WEFT_R_STORE_IO, EIO);
		list_add_tail(&d->dead, &r->link);
		return;
	}
	if (r->op == STORE_FLUSH) {
		CHECK(d->flush_count < SIM_DISK_FLUSHES_MAX);
		d->flushes[d->flush_count++] = (struct sim_disk_flush){ r, d->version };
	}
	r->due_ns = now_ns < d->stuck_until_ns ? d->stuck_until_ns : now_ns;
	r->due_ns += 1 + prng_next(d->config.prng) % d->config.latency_max_ns;
	if (d->config.stuck_ppm > 0 && prng_chance(d->config.prng, d->config.stuck_ppm))
		r->due_ns += prng_next(d->config.prng) % d->config.stuck_max_ns;
	list_add_tail(&d->waiting, &r->link);
}

static struct store_request *first_due(const struct sim_disk *d)
{
	struct store_request *first = NULL;

	for (struct list *l = d->waiting.next; l != &d->waiting; l = l->next) {
		struct store_request *r = CONTAINER_OF(l, struct store_request, link);

		if (!first || r->due_ns < first->due_ns)
			first = r;
	}
	return first;
}

static struct store_request *disk_next_done(struct store *s, uint64_t now_ns)
{
	struct sim_disk *d = disk_of(s);
	struct store_request *r = first_due(d);

	if (!list_is_empty(&d->dead))
		return CONTAINER_OF(list_pop(&d->dead), struct store_request, link);
	if (!r || r->due_ns > now_ns)
		return NULL;
	list_remove(&r->link);
	if (r->op == STORE_READ)
		read_do(d, r);
	else if (r->op == STORE_FLUSH)
		flush_do(d, r);
	else
		change_do(d, r, false);
	return r;
}

static uint64_t disk_due(const struct store *s)
{
	const struct sim_disk *d = CONTAINER_OF(s, struct sim_disk, store);
	const struct store_request *r = first_due(d);

	if (!list_is_empty(&d->dead))
		return 0;
	return r ? r->due_ns : STORE_NEVER;
}

/* The store is part of a struct sim_disk, which outlives it. */
static void disk_destroy(struct store *s)
{
	(void)s;
}

static const struct store_calls disk_calls = {
	.submit = disk_submit,
	.next_done = disk_next_done,
	.due = disk_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = disk_destroy,
};

/* ---- Life ----------------------------------------------------------------------------------- */

int sim_disk_open(struct sim_disk *d, const struct sim_disk_config *config)
{
	*d = (struct sim_disk){ .config = *config };
	d->store = (struct store){ .calls = &disk_calls,
				   .shape = { .size_bytes = config->size_bytes,
					      .block_bytes = config->block_bytes,
					      .can = STORE_CAN_ALL } };
	list_init(&d->waiting);
	list_init(&d->dead);
	d->durable = calloc(1, (size_t)config->size_bytes);
	d->current = calloc(1, (size_t)config->size_bytes);
	d->versions = calloc((size_t)blocks_of(d), sizeof(*d->versions));
	return d->durable && d->current && d->versions ? 0 : -1;
}

void sim_disk_close(struct sim_disk *d)
{
	free(d->durable);
	free(d->current);
	free(d->versions);
	*d = (struct sim_disk){ 0 };
}

void sim_disk_stick(struct sim_disk *d, uint64_t until_ns)
{
	d->stuck_until_ns = until_ns;
	for (struct list *l = d->waiting.next; l != &d->waiting; l = l->next) {
		struct store_request *r = CONTAINER_OF(l, struct store_request, link);

		if (r->due_ns < until_ns)
			r->due_ns = until_ns + 1 +
				    prng_next(d->config.prng) % d->config.latency_max_ns;
	}
}

void sim_disk_sicken(struct sim_disk *d, uint64_t until_ns)
{
	d->sick_until_ns = until_ns;
}

void sim_disk_stop(struct sim_disk *d)
{
	d->is_off = true;
	while (!list_is_empty(&d->waiting)) {
		struct store_request *r = CONTAINER_OF(list_pop(&d->waiting), struct store_request,
						       link);

		if (r->op != STORE_READ && r->op != STORE_FLUSH)
			change_do(d, r, true);
		store_request_end(r, WEFT_R_STORE_GONE, 0);
		list_add_tail(&d->dead, &r->link);
	}
	d->flush_count = 0;
	for (uint64_t block = 0; block < blocks_of(d); block++) {
		if (d->versions[block] != 0 && is_heads(d))
			block_harden(d, block);
	}
}

void sim_disk_start(struct sim_disk *d)
{
	CHECK(d->store.under_way == 0);
	memcpy(d->current, d->durable, (size_t)d->config.size_bytes);
	memset(d->versions, 0, (size_t)blocks_of(d) * sizeof(*d->versions));
	d->is_off = false;
	d->stuck_until_ns = 0;
}
