/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/timer_queue.h"

#include <stdlib.h>

#include "base/check.h"

int timer_queue_init(struct timer_queue *q, uint32_t timers_max)
{
	*q = (struct timer_queue){ .max = timers_max };
	q->heap = calloc((size_t)timers_max + 1, sizeof(struct timer *));
	return q->heap ? 0 : -1;
}

void timer_queue_fini(struct timer_queue *q)
{
	free(q->heap);
	*q = (struct timer_queue){ 0 };
}

static bool timer_is_before(const struct timer *a, const struct timer *b)
{
	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns;
	return a->order < b->order;
}

static void heap_put(struct timer_queue *q, uint32_t position, struct timer *t)
{
	q->heap[position] = t;
	t->position = position;
}

/* Moves the timer at position up, then down, to where it belongs. Bound: the depth of the heap. */
static void heap_settle(struct timer_queue *q, uint32_t position)
{
	struct timer *t = q->heap[position];

	while (position > 1 && timer_is_before(t, q->heap[position / 2])) {
		heap_put(q, position, q->heap[position / 2]);
		position /= 2;
	}
	for (uint32_t child = 2 * position; child <= q->count; child = 2 * position) {
		if (child < q->count && timer_is_before(q->heap[child + 1], q->heap[child]))
			child++;
		if (!timer_is_before(q->heap[child], t))
			break;
		heap_put(q, position, q->heap[child]);
		position = child;
	}
	heap_put(q, position, t);
}

void timer_queue_set(struct timer_queue *q, struct timer *t, uint64_t deadline_ns)
{
	t->deadline_ns = deadline_ns;
	t->order = q->order_next++;
	if (!timer_is_set(t)) {
		CHECK(q->count < q->max);
		heap_put(q, ++q->count, t);
	}
	heap_settle(q, t->position);
}

void timer_queue_cancel(struct timer_queue *q, struct timer *t)
{
	uint32_t position = t->position;
	struct timer *last;

	if (!timer_is_set(t))
		return;
	CHECK(position <= q->count && q->heap[position] == t);
	last = q->heap[q->count--];
	t->position = 0;
	if (last != t) {
		heap_put(q, position, last);
		heap_settle(q, position);
	}
}

uint64_t timer_queue_due(const struct timer_queue *q)
{
	return q->count ? q->heap[1]->deadline_ns : UINT64_MAX;
}

struct timer *timer_queue_expire(struct timer_queue *q, uint64_t now_ns)
{
	struct timer *t;

	if (timer_queue_due(q) > now_ns || q->count == 0)
		return NULL;
	t = q->heap[1];
	timer_queue_cancel(q, t);
	return t;
}
