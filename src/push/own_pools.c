/* SPDX-License-Identifier: BSD-2-Clause */
/* The target: pools of this end, and which end has each element. */
#include "push/link_inside.h"

enum { SHARE = 4 /* elements are returned when they are a part of this of their pool */ };

static const uint32_t element_moves[OWN_ELEMENT_STATES] = {
	[OWN_HELD] = 1U << OWN_THEIRS | 1U << OWN_READY,
	[OWN_THEIRS] = 1U << OWN_TOLD | 1U << OWN_FULL,
	[OWN_TOLD] = 1U << OWN_THEIRS,
	[OWN_FULL] = 1U << OWN_READY | 1U << OWN_HELD,
	[OWN_READY] = 1U << OWN_THEIRS,
};

static const uint32_t pool_moves[OWN_POOL_STATES] = {
	[OWN_POOL_NONE] = 1U << OWN_POOL_NEW,
	[OWN_POOL_NEW] = 1U << OWN_POOL_REGISTERING | 1U << OWN_POOL_CLOSED,
	[OWN_POOL_REGISTERING] = 1U << OWN_POOL_REGISTERED | 1U << OWN_POOL_OVER |
				 1U << OWN_POOL_CLOSED,
	[OWN_POOL_REGISTERED] = 1U << OWN_POOL_OPEN | 1U << OWN_POOL_OVER,
	[OWN_POOL_OPEN] = 1U << OWN_POOL_FLUSHING | 1U << OWN_POOL_OVER,
	[OWN_POOL_FLUSHING] = 1U << OWN_POOL_ASKED | 1U << OWN_POOL_OVER,
	[OWN_POOL_ASKED] = 1U << OWN_POOL_OVER,
	[OWN_POOL_OVER] = 1U << OWN_POOL_LEAVING,
	[OWN_POOL_LEAVING] = 1U << OWN_POOL_CLOSED,
	[OWN_POOL_CLOSED] = 1U << OWN_POOL_NONE,
};

/* The states in which an act, a message or an event is due. */
static const uint32_t pool_due = 1U << OWN_POOL_NEW | 1U << OWN_POOL_REGISTERED |
				 1U << OWN_POOL_FLUSHING | 1U << OWN_POOL_OVER |
				 1U << OWN_POOL_CLOSED;

void own_pool_move(struct push_link *l, struct own_pool *p, enum own_pool_state to)
{
	CHECK(pool_moves[p->state] & 1U << to);
	l->own_due -= pool_due >> p->state & 1;
	l->own_due += pool_due >> to & 1;
	p->state = to;
}

static void element_move(struct push_link *l, const struct own_pool *p, uint32_t element,
			 enum own_element to)
{
	uint8_t *state = &l->own_elements.states[p->base + element];

	CHECK(element_moves[*state] & 1U << to);
	*state = (uint8_t)to;
}

/* The other end may write, or is about to stop. */
static bool is_shared(const struct own_pool *p)
{
	return p->state == OWN_POOL_OPEN || p->state == OWN_POOL_FLUSHING ||
	       p->state == OWN_POOL_ASKED;
}

/* ---- Life of a pool ------------------------------------------------------------------------- */

static bool has_room(const struct push_link *l, uint32_t pools, uint32_t elements)
{
	return l->state < PUSH_OPEN ||
	       (pools <= l->peer.pools_max && elements <= l->peer.elements_max);
}

enum weft_reason push_pool_open(struct push_link *l, const struct push_pool_config *c,
				uint32_t *index)
{
	uint64_t bytes = (uint64_t)c->elements * c->element_bytes;
	uint32_t i = 0;

	if (!c->memory || bytes == 0 || bytes > UINT32_MAX)
		return WEFT_R_BAD_ARGUMENT;
	if (!link_is_rdma(l))
		return WEFT_R_PUSH_MODE;
	if (l->state >= PUSH_ENDING)
		return WEFT_R_PUSH_STATE;
	while (i < l->config.own_pools_max && l->own[i].state != OWN_POOL_NONE)
		i++;
	if (i == l->config.own_pools_max ||
	    c->elements > l->own_elements.max - l->own_elements.used)
		return WEFT_R_LIMIT;
	if (!has_room(l, i + 1, l->own_elements.used + c->elements))
		return WEFT_R_PUSH_POOLS;
	l->own[i] = (struct own_pool){
		.config = *c, .base = elements_add(&l->own_elements, c->elements, OWN_HELD)
	};
	l->own_used++;
	own_pool_move(l, &l->own[i], OWN_POOL_NEW);
	*index = i;
	return WEFT_OK;
}

void own_pool_free(struct push_link *l, uint32_t index)
{
	struct own_pool *p = &l->own[index];

	elements_remove(&l->own_elements, p->base, p->config.elements);
	for (uint32_t i = 0; i < l->config.own_pools_max; i++) {
		if (l->own[i].base > p->base)
			l->own[i].base -= p->config.elements;
	}
	own_pool_move(l, p, OWN_POOL_NONE);
	l->own_used--;
}

void push_registered(struct push_link *l, uint64_t id, enum weft_reason reason, uint32_t handle)
{
	struct own_pool *p = &l->own[(uint32_t)id];

	CHECK((uint32_t)id < l->config.own_pools_max && p->state == OWN_POOL_REGISTERING);
	p->handle = handle;
	if (reason != WEFT_OK)
		p->reason = reason;
	if (reason != WEFT_OK)
		own_pool_move(l, p, OWN_POOL_CLOSED);
	else
		own_pool_move(l, p, p->is_leaving ? OWN_POOL_OVER : OWN_POOL_REGISTERED);
}

/* Elements that the consumer does not have are over; those it has, it may still return. */
void own_pool_over(struct push_link *l, struct own_pool *p)
{
	p->ready.count = 0;
	p->theirs = 0;
	own_pool_move(l, p, OWN_POOL_OVER);
}

/* In order, if the other end knows the pool and is there. */
static void pool_end(struct push_link *l, struct own_pool *p)
{
	switch (p->state) {
	case OWN_POOL_NEW:
		own_pool_move(l, p, OWN_POOL_CLOSED);
		break;
	case OWN_POOL_REGISTERING:
		p->is_leaving = true;
		break;
	case OWN_POOL_REGISTERED:
		own_pool_over(l, p);
		break;
	case OWN_POOL_OPEN:
		own_pool_move(l, p, OWN_POOL_FLUSHING);
		break;
	default: /* it is ending */
		break;
	}
}

enum weft_reason push_pool_close(struct push_link *l, uint32_t index)
{
	if (index >= l->config.own_pools_max || l->own[index].state == OWN_POOL_NONE)
		return WEFT_R_PUSH_POOL;
	pool_end(l, &l->own[index]);
	return WEFT_OK;
}

void own_pools_opened(struct push_link *l)
{
	uint32_t elements = 0;

	for (uint32_t i = 0; i < l->config.own_pools_max; i++) {
		struct own_pool *p = &l->own[i];

		elements += p->state != OWN_POOL_NONE ? p->config.elements : 0;
		if (p->state == OWN_POOL_NONE || has_room(l, i + 1, elements))
			continue;
		p->reason = WEFT_R_PUSH_POOLS;
		pool_end(l, p);
	}
}

void own_pools_end(struct push_link *l)
{
	for (uint32_t i = 0; i < l->config.own_pools_max; i++)
		pool_end(l, &l->own[i]);
}

void own_pools_lost(struct push_link *l)
{
	for (uint32_t i = 0; i < l->config.own_pools_max; i++) {
		pool_end(l, &l->own[i]);
		if (is_shared(&l->own[i]))
			own_pool_over(l, &l->own[i]);
	}
}

/* A BufferRecvPool says so. For one that pulls, nothing is granted by that (PUSH-04). */
void own_pool_advertised(struct push_link *l, struct own_pool *p)
{
	own_pool_move(l, p, OWN_POOL_OPEN);
	for (uint32_t i = 0; i < p->config.elements; i++) {
		element_move(l, p, i, l->peer.is_pull ? OWN_READY : OWN_THEIRS);
		if (l->peer.is_pull)
			l->own_elements.queue[p->base + queue_add(&p->ready, p->config.elements)] =
				i;
		else
			p->theirs++;
	}
}

/* ---- Elements that come back ---------------------------------------------------------------- */

/*
 * Elements go back in groups: when a quarter of the pool is ready, or when the other end has no
 * more than a quarter left. It lacks nothing before that, so there is no deadline.
 */
static void update_consider(struct push_link *l, const struct own_pool *p)
{
	uint32_t share = p->config.elements / SHARE;

	if (p->ready.count > 0 && (p->ready.count >= share || p->theirs <= share))
		l->is_update_due = true;
}

void push_return(struct push_link *l, uint32_t pool, uint32_t element)
{
	struct own_pool *p = &l->own[pool];

	CHECK(pool < l->config.own_pools_max && p->state != OWN_POOL_NONE);
	CHECK(element < p->config.elements);
	CHECK(l->own_elements.states[p->base + element] == OWN_FULL);
	p->full--;
	if (!is_shared(p)) {
		element_move(l, p, element, OWN_HELD);
		return;
	}
	element_move(l, p, element, OWN_READY);
	l->own_elements.queue[p->base + queue_add(&p->ready, p->config.elements)] = element;
	update_consider(l, p);
}

uint32_t own_element_give(struct push_link *l, struct own_pool *p)
{
	uint32_t at = p->base + queue_take(&p->ready, p->config.elements);
	uint32_t element = l->own_elements.queue[at];

	element_move(l, p, element, OWN_THEIRS);
	p->theirs++;
	return element;
}

/* Of an end that is asked for packets: the pool whose element any packet fits into best. */
struct own_pool *own_pull_pool(struct push_link *l)
{
	struct own_pool *best = NULL;
	uint32_t pulled = 0;

	for (uint32_t i = 0; i < l->config.own_pools_max; i++) {
		struct own_pool *p = &l->own[i];

		if (p->state != OWN_POOL_OPEN)
			continue;
		pulled += p->theirs;
		if (p->ready.count > 0 &&
		    (!best || p->config.element_bytes > best->config.element_bytes))
			best = p;
	}
	return pulled < l->config.pulls_max ? best : NULL;
}

/* ---- What the other end tells --------------------------------------------------------------- */

/* PUSH-20, PUSH-21: the target's half of the rule, about the pool itself. */
static bool is_immediate_pool(const struct own_pool *p)
{
	return p->config.elements <= PUSH_IMMEDIATE_ELEMENTS &&
	       p->config.element_bytes <= PUSH_IMMEDIATE_BYTES;
}

static enum weft_reason used_check(const struct push_link *l, const struct push_used *u,
				   bool is_immediate)
{
	const struct own_pool *p;

	if (u->pool >= l->config.own_pools_max || !is_shared(&l->own[u->pool]))
		return WEFT_R_PUSH_POOL;
	p = &l->own[u->pool];
	if (is_immediate && !is_immediate_pool(p))
		return WEFT_R_PUSH_IMMEDIATE;
	if (u->element >= p->config.elements)
		return WEFT_R_PUSH_ELEMENT;
	if (u->element_bytes != p->config.element_bytes)
		return WEFT_R_PUSH_SIZE;
	if (l->own_elements.states[p->base + u->element] != OWN_THEIRS)
		return WEFT_R_PUSH_NOT_FREE;
	return u->bytes <= p->config.element_bytes ? WEFT_OK : WEFT_R_PUSH_RANGE;
}

/* The element is used. A packet that is none goes no further, and its element is ready again. */
static enum weft_reason used_take(struct push_link *l, const struct push_used *u)
{
	struct own_pool *p = &l->own[u->pool];

	element_move(l, p, u->element, OWN_FULL);
	p->theirs--;
	p->full++;
	update_consider(l, p);
	if (!link_length_is_good(l, u->bytes, false)) {
		push_return(l, u->pool, u->element);
		return WEFT_R_PUSH_FRAME;
	}
	l->full[queue_add(&l->fulls, l->own_elements.max)] = (struct push_full){ u->pool,
										 u->element,
										 u->bytes };
	l->counts.packets_in++;
	l->counts.bytes_in += u->bytes;
	return WEFT_OK;
}

enum weft_reason own_written(struct push_link *l, const struct push_used *u, bool is_immediate)
{
	enum weft_reason reason = used_check(l, u, is_immediate);

	return reason != WEFT_OK ? reason : used_take(l, u);
}

/* All entries are good, or nothing happens. An element that stands there twice is not free then. */
enum weft_reason own_take_indicate(struct push_link *l, const struct push_entries *used)
{
	size_t length = (size_t)used->count * PUSH_USED_BYTES;
	struct rd r = rd_of(used->bytes, length), again = r, back = r;
	enum weft_reason reason = WEFT_OK, each;
	struct push_used u;
	uint32_t good = 0;

	for (; good < used->count && reason == WEFT_OK; good += reason == WEFT_OK) {
		u = push_used_next(&r);
		reason = used_check(l, &u, false);
		if (reason == WEFT_OK)
			element_move(l, &l->own[u.pool], u.element, OWN_TOLD);
	}
	while (good-- > 0) {
		u = push_used_next(&back);
		element_move(l, &l->own[u.pool], u.element, OWN_THEIRS);
	}
	if (reason != WEFT_OK)
		return reason;
	for (uint32_t i = 0; i < used->count; i++) {
		u = push_used_next(&again);
		each = used_take(l, &u);
		reason = each != WEFT_OK ? each : reason;
	}
	return reason;
}

/* ---- The initiator flushes (PUSH-17) --------------------------------------------------------- */

/*
 * The reply is sent, the pool deregistered. If a request of this end is on its way, the pool stays
 * until the reply to that: the initiator still owes it.
 */
enum weft_reason own_take_release(struct push_link *l, const struct push_msg *m)
{
	const struct push_entries *e = &m->references;
	struct rd r = rd_of(e->bytes, (size_t)e->count * PUSH_REFERENCE_BYTES), again = r;
	uint32_t good = 0, index;

	if (link_owes_replies(l))
		return WEFT_R_PUSH_UNEXPECTED;
	for (; good < e->count; good++) {
		index = push_reference_next(&r);
		if (index >= l->config.own_pools_max || !is_shared(&l->own[index]) ||
		    l->own[index].is_released)
			break;
		l->own[index].is_released = true;
	}
	for (uint32_t i = 0; i < good; i++) {
		struct own_pool *p = &l->own[push_reference_next(&again)];

		if (good < e->count)
			p->is_released = false;
		else if (p->state != OWN_POOL_ASKED)
			own_pool_over(l, p);
	}
	if (good < e->count)
		return WEFT_R_PUSH_POOL;
	l->replies[queue_add(&l->replies_due, l->replies_max)] = m->context;
	return WEFT_OK;
}

enum weft_reason own_take_reply(struct push_link *l, uint64_t context)
{
	enum weft_reason reason = WEFT_R_PUSH_REPLY;

	for (uint32_t i = 0; i < l->config.own_pools_max; i++) {
		if (l->own[i].state != OWN_POOL_ASKED || l->own[i].flush != context)
			continue;
		own_pool_over(l, &l->own[i]);
		reason = WEFT_OK;
	}
	return reason;
}
