/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines as data: a heap of timers embedded in their owners. There are no callbacks; the owner
 * of the queue takes expired timers. Timers of equal deadline expire in the order they were set.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
	uint64_t deadline_ns;
	uint64_t order;	   /* set by the queue */
	uint32_t position; /* in the heap, counted from 1; 0: not set */
};

struct timer_queue {
	struct timer **heap; /* heap[1] is the earliest */
	uint32_t count, max;
	uint64_t order_next;
};

/* 0, or -1 when memory is short. */
int timer_queue_init(struct timer_queue *q, uint32_t timers_max);
void timer_queue_fini(struct timer_queue *q);

/*
 * Sets a timer, or moves one that is set. At most timers_max timers may be set at a time.
 */
void timer_queue_set(struct timer_queue *q, struct timer *t, uint64_t deadline_ns);
void timer_queue_cancel(struct timer_queue *q, struct timer *t);

static inline bool timer_is_set(const struct timer *t)
{
	return t->position != 0;
}

/* The earliest timer; NULL: none is set. */
static inline struct timer *timer_queue_first(const struct timer_queue *q)
{
	return q->count > 0 ? q->heap[1] : NULL;
}

/* The earliest deadline; UINT64_MAX when none is set. */
uint64_t timer_queue_due(const struct timer_queue *q);

/* Takes the earliest timer whose deadline is not after now_ns; NULL when there is none. */
struct timer *timer_queue_expire(struct timer_queue *q, uint64_t now_ns);
