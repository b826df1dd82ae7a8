/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator: the other end's pools, and which elements this end may write. */
#include "push/link_inside.h"

static const uint32_t element_moves[PEER_ELEMENT_STATES] = {
	[PEER_USED] = 1U << PEER_BACK,
	[PEER_BACK] = 1U << PEER_FREE | 1U << PEER_USED,
	[PEER_FREE] = 1U << PEER_WRITING,
	[PEER_WRITING] = 1U << PEER_USED | 1U << PEER_EARLY,
	[PEER_EARLY] = 1U << PEER_WRITING | 1U << PEER_FREE | 1U << PEER_USED,
};

static const uint32_t pool_moves[PEER_POOL_STATES] = {
	[PEER_POOL_NONE] = 1U << PEER_POOL_OPEN,
	[PEER_POOL_OPEN] = 1U << PEER_POOL_FLUSHED | 1U << PEER_POOL_RELEASING |
			   1U << PEER_POOL_NONE,
	[PEER_POOL_FLUSHED] = 1U << PEER_POOL_NONE,
	[PEER_POOL_RELEASING] = 1U << PEER_POOL_FLUSHED | 1U << PEER_POOL_ASKED |
				1U << PEER_POOL_NONE,
	[PEER_POOL_ASKED] = 1U << PEER_POOL_NONE,
};

void peer_pool_move(struct push_link *l, struct peer_pool *p, enum peer_pool_state to)
{
	CHECK(pool_moves[p->state] & 1U << to);
	l->peer_due -= p->state == PEER_POOL_RELEASING;
	l->peer_due += to == PEER_POOL_RELEASING;
	p->state = to;
}

static void element_move(struct push_link *l, const struct peer_pool *p, uint32_t element,
			 enum peer_element to)
{
	uint8_t *state = &l->peer_elements.states[p->base + element];

	CHECK(element_moves[*state] & 1U << to);
	*state = (uint8_t)to;
}

static void element_free(struct push_link *l, struct peer_pool *p, uint32_t element)
{
	uint32_t at = p->base + queue_add(&p->free, p->is.elements);

	element_move(l, p, element, PEER_FREE);
	l->peer_elements.queue[at] = element;
}

/* ---- Life of a pool ------------------------------------------------------------------------- */

/*
 * Open pools are in order of the size of their elements, so that the first that fits is the best.
 */
static void order_add(struct push_link *l, uint32_t index)
{
	uint32_t at = l->order_count++;
	uint32_t bytes = l->peers[index].is.element_bytes;

	for (; at > 0 && l->peers[l->order[at - 1]].is.element_bytes > bytes; at--)
		l->order[at] = l->order[at - 1];
	l->order[at] = index;
}

static void order_remove(struct push_link *l, uint32_t index)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < l->order_count; i++) {
		if (l->order[i] != index)
			l->order[kept++] = l->order[i];
	}
	l->order_count = kept;
}

/* Its elements are not written any more. */
static void pool_stop(struct push_link *l, struct peer_pool *p, enum peer_pool_state to)
{
	if (p->state == PEER_POOL_OPEN)
		order_remove(l, p->is.index);
	p->free.count = 0;
	peer_pool_move(l, p, to);
}

static void pool_forget(struct push_link *l, struct peer_pool *p)
{
	elements_remove(&l->peer_elements, p->base, p->is.elements);
	for (uint32_t i = 0; i < l->config.hello.pools_max; i++) {
		if (l->peers[i].base > p->base)
			l->peers[i].base -= p->is.elements;
	}
	pool_stop(l, p, PEER_POOL_NONE);
	l->peer_used--;
}

static bool is_quiet(const struct peer_pool *p)
{
	return p->writing == 0 && p->untold == 0;
}

enum weft_reason push_pool_release(struct push_link *l, uint32_t pool)
{
	if (pool >= l->config.hello.pools_max || l->peers[pool].state != PEER_POOL_OPEN)
		return WEFT_R_PUSH_POOL;
	pool_stop(l, &l->peers[pool], PEER_POOL_RELEASING);
	return WEFT_OK;
}

void peer_pools_end(struct push_link *l)
{
	for (uint32_t i = 0; i < l->config.hello.pools_max; i++)
		(void)push_pool_release(l, i);
}

/* Nothing is owed any more; Writes under way end by themselves. */
void peer_pools_lost(struct push_link *l)
{
	l->untolds.count = 0;
	l->replies_due.count = 0;
	l->order_count = 0;
	for (uint32_t i = 0; i < l->config.hello.pools_max; i++)
		l->peers[i].free.count = 0;
}

/* ---- What the other end tells --------------------------------------------------------------- */

static enum weft_reason pool_add(struct push_link *l, const struct push_pool *is)
{
	struct peer_pool *p;

	if (is->index >= l->config.hello.pools_max ||
	    is->elements > l->peer_elements.max - l->peer_elements.used)
		return WEFT_R_PUSH_POOLS;
	p = &l->peers[is->index];
	if (p->state != PEER_POOL_NONE)
		return WEFT_R_PUSH_POOL_TWICE;
	*p = (struct peer_pool){ .is = *is,
				 .base = elements_add(&l->peer_elements, is->elements, PEER_USED) };
	peer_pool_move(l, p, PEER_POOL_OPEN);
	order_add(l, is->index);
	l->peer_used++;
	return WEFT_OK;
}

/* A pool of this end's own pulling begins with no element granted (PUSH-04). */
static void pool_begin(struct push_link *l, struct peer_pool *p)
{
	for (uint32_t i = 0; i < p->is.elements && !l->config.hello.is_pull; i++) {
		element_move(l, p, i, PEER_BACK);
		element_free(l, p, i);
	}
	if (l->state != PUSH_OPEN)
		pool_stop(l, p, PEER_POOL_RELEASING);
}

enum weft_reason peer_take_pools(struct push_link *l, const struct push_entries *pools)
{
	struct rd r = rd_of(pools->bytes, (size_t)pools->count * PUSH_POOL_BYTES), again = r;
	enum weft_reason reason = WEFT_OK;
	uint32_t good = 0;

	for (; good < pools->count && reason == WEFT_OK; good += reason == WEFT_OK) {
		const struct push_pool is = push_pool_next(&r);

		reason = pool_add(l, &is);
	}
	for (uint32_t i = 0; i < good; i++) {
		struct peer_pool *p = &l->peers[push_pool_next(&again).index];

		if (reason != WEFT_OK)
			pool_forget(l, p);
		else
			pool_begin(l, p);
	}
	return reason;
}

/*
 * The target may return an element before this end sees that its Write is done: the acknowledgement
 * was lost, say. It is free when both have come.
 */
static bool can_return(const struct push_link *l, const struct peer_pool *p, uint32_t element)
{
	uint8_t state = l->peer_elements.states[p->base + element];

	return state == PEER_USED || state == PEER_WRITING;
}

static enum weft_reason run_check(const struct push_link *l, const struct push_run *v)
{
	const struct peer_pool *p;

	if (v->pool >= l->config.hello.pools_max || l->peers[v->pool].state == PEER_POOL_NONE)
		return WEFT_R_PUSH_POOL;
	p = &l->peers[v->pool];
	if (v->first + v->count > p->is.elements)
		return WEFT_R_PUSH_ELEMENT;
	for (uint32_t i = 0; i < v->count; i++) {
		if (!can_return(l, p, v->first + i))
			return WEFT_R_PUSH_NOT_USED;
	}
	return WEFT_OK;
}

static bool is_writing(const struct push_link *l, const struct peer_pool *p, uint32_t element)
{
	uint8_t state = l->peer_elements.states[p->base + element];

	return state == PEER_WRITING || state == PEER_EARLY;
}

static void run_mark(struct push_link *l, const struct push_run *v)
{
	const struct peer_pool *p = &l->peers[v->pool];

	for (uint32_t i = v->first; i < v->first + v->count; i++)
		element_move(l, p, i, is_writing(l, p, i) ? PEER_EARLY : PEER_BACK);
}

static void run_unmark(struct push_link *l, const struct push_run *v)
{
	const struct peer_pool *p = &l->peers[v->pool];

	for (uint32_t i = v->first; i < v->first + v->count; i++)
		element_move(l, p, i, is_writing(l, p, i) ? PEER_WRITING : PEER_USED);
}

/* What comes back of a pool that is ending is not used again. */
static void run_free(struct push_link *l, const struct push_run *v)
{
	struct peer_pool *p = &l->peers[v->pool];

	for (uint32_t i = v->first; i < v->first + v->count; i++) {
		if (is_writing(l, p, i))
			continue;
		if (p->state == PEER_POOL_OPEN)
			element_free(l, p, i);
		else
			element_move(l, p, i, PEER_USED);
	}
}

enum weft_reason peer_take_runs(struct push_link *l, const struct push_entries *runs)
{
	struct rd r = rd_of(runs->bytes, (size_t)runs->count * PUSH_RUN_BYTES), again = r;
	enum weft_reason reason = WEFT_OK;
	struct push_run v;
	uint32_t good = 0;

	for (; good < runs->count && reason == WEFT_OK; good += reason == WEFT_OK) {
		v = push_run_next(&r);
		reason = run_check(l, &v);
		if (reason == WEFT_OK)
			run_mark(l, &v);
	}
	for (uint32_t i = 0; i < good; i++) {
		v = push_run_next(&again);
		if (reason != WEFT_OK)
			run_unmark(l, &v);
		else
			run_free(l, &v);
	}
	return reason;
}

enum weft_reason peer_take_pull(struct push_link *l, const struct push_run *run)
{
	enum weft_reason reason = run_check(l, run);

	if (reason != WEFT_OK)
		return reason;
	run_mark(l, run);
	run_free(l, run);
	return WEFT_OK;
}

/* ---- Flushes (PUSH-17) ----------------------------------------------------------------------- */

static void flush_done(struct push_link *l, struct push_flush *f)
{
	f->is_used = false;
	l->flush_count--;
	l->replies[queue_add(&l->replies_due, l->replies_max)] = f->context;
}

/* The last Write into it is done and told: what waited for that may go on. */
static void quiet_consider(struct push_link *l, struct peer_pool *p)
{
	struct push_flush *f = &l->flushes[p->flush];

	if (p->state != PEER_POOL_FLUSHED || !is_quiet(p) || l->is_lost)
		return;
	pool_forget(l, p);
	if (--f->pools > 0)
		return;
	flush_done(l, f);
}

/* A pool that this end releases, with the request sent, goes with the reply to that. */
static bool can_flush(const struct push_link *l, uint32_t index)
{
	return index < l->config.hello.pools_max && l->peers[index].state != PEER_POOL_NONE &&
	       !l->peers[index].is_flushed;
}

static uint32_t flush_free(const struct push_link *l)
{
	uint32_t i = 0;

	while (l->flushes[i].is_used)
		i++;
	CHECK(i < l->config.hello.pools_max);
	return i;
}

enum weft_reason peer_take_flush(struct push_link *l, const struct push_msg *m)
{
	const struct push_entries *e = &m->references;
	struct rd r = rd_of(e->bytes, (size_t)e->count * PUSH_REFERENCE_BYTES), again = r, last = r;
	uint32_t good = 0, index;
	struct push_flush *f;

	if (link_owes_replies(l))
		return WEFT_R_PUSH_UNEXPECTED;
	for (; good < e->count; good++) {
		index = push_reference_next(&r);
		if (!can_flush(l, index))
			break;
		l->peers[index].is_flushed = true;
	}
	if (good < e->count) {
		while (good-- > 0)
			l->peers[push_reference_next(&again)].is_flushed = false;
		return WEFT_R_PUSH_POOL;
	}
	index = flush_free(l);
	f = &l->flushes[index];
	*f = (struct push_flush){ .context = m->context, .pools = 1, .is_used = true };
	l->flush_count++;
	for (uint32_t i = 0; i < e->count; i++) {
		struct peer_pool *p = &l->peers[push_reference_next(&again)];

		if (p->state == PEER_POOL_ASKED)
			continue;
		p->flush = index;
		f->pools++;
		pool_stop(l, p, PEER_POOL_FLUSHED);
	}
	for (uint32_t i = 0; i < e->count; i++)
		quiet_consider(l, &l->peers[push_reference_next(&last)]);
	if (--f->pools == 0)
		flush_done(l, f);
	return WEFT_OK;
}

enum weft_reason peer_take_reply(struct push_link *l, uint64_t context)
{
	enum weft_reason reason = WEFT_R_PUSH_REPLY;

	for (uint32_t i = 0; i < l->config.hello.pools_max; i++) {
		struct peer_pool *p = &l->peers[i];

		if (p->state != PEER_POOL_ASKED || p->release != context)
			continue;
		pool_forget(l, p);
		reason = WEFT_OK;
	}
	return reason;
}

/* ---- Writes --------------------------------------------------------------------------------- */

struct peer_pool *peer_pool_for(const struct push_link *l, uint32_t length)
{
	for (uint32_t i = 0; i < l->order_count; i++) {
		struct peer_pool *p = &l->peers[l->order[i]];

		if (p->is.element_bytes >= length && p->free.count > 0)
			return p;
	}
	return NULL;
}

bool peer_pools_fit(const struct push_link *l, uint32_t length)
{
	return l->order_count > 0 &&
	       l->peers[l->order[l->order_count - 1]].is.element_bytes >= length;
}

uint32_t peer_element_take(struct push_link *l, struct peer_pool *p)
{
	uint32_t at = p->base + queue_take(&p->free, p->is.elements);
	uint32_t element = l->peer_elements.queue[at];

	element_move(l, p, element, PEER_WRITING);
	p->writing++;
	return element;
}

void peer_written(struct push_link *l, uint32_t pool, uint32_t element)
{
	struct peer_pool *p = &l->peers[pool];

	if (l->peer_elements.states[p->base + element] == PEER_EARLY && p->state == PEER_POOL_OPEN)
		element_free(l, p, element);
	else
		element_move(l, p, element, PEER_USED);
	p->writing--;
	quiet_consider(l, p);
}

bool peer_is_immediate(const struct push_link *l, const struct peer_pool *p)
{
	return l->config.has_immediate && l->peer_used <= PUSH_IMMEDIATE_POOLS &&
	       p->is.index < PUSH_IMMEDIATE_POOLS && p->is.elements <= PUSH_IMMEDIATE_ELEMENTS &&
	       p->is.element_bytes <= PUSH_IMMEDIATE_BYTES;
}

void peer_told(struct push_link *l, const struct push_used *u)
{
	struct peer_pool *p = &l->peers[u->pool];

	p->untold--;
	quiet_consider(l, p);
}
