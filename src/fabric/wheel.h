/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of a fabric: very many, most of them near. A wheel of slots of a nanosecond for what
 * is next, of 4 us and of 17 ms for what is later; setting and taking one costs the same however
 * many there are. Timers of equal deadline expire in the order they were set.
 *
 * base/timer_queue.h is a heap for a few, which tells the earliest exactly.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { WHEEL_BITS = 12, WHEEL_SLOTS = 1 << WHEEL_BITS, WHEEL_LEVELS = 3, WHEEL_WORDS = 64 };

struct wheel_timer {
	struct wheel_timer *next, *prev; /* in its slot; prev of the first is not used */
	uint64_t at_ns;
	uint16_t slot; /* counted from 1 over all levels; 0: not set */
	uint16_t kind; /* the owner's, as is what it is of */
	uint32_t of;
};

struct wheel_slot {
	struct wheel_timer *first, *last; /* the last of none is not used */
};

struct wheel {
	uint64_t now_ns;
	uint64_t used[WHEEL_LEVELS]; /* a bit for each word of `slots_used` that is not 0 */
	uint64_t slots_used[WHEEL_LEVELS][WHEEL_WORDS];
	struct wheel_slot slots[WHEEL_LEVELS * WHEEL_SLOTS + 1]; /* the last: later than all */
};

/* NULL when memory is short. */
struct wheel *wheel_open(uint64_t now_ns);
void wheel_close(struct wheel *own_w);

static inline bool wheel_is_set(const struct wheel_timer *t)
{
	return t->slot != 0;
}

/* Sets a timer, or moves one that is set. What has passed expires next. */
void wheel_set(struct wheel *w, struct wheel_timer *t, uint64_t at_ns);
void wheel_cancel(struct wheel *w, struct wheel_timer *t);

/*
 * The timer that expires next, of now or of later too, and the one after a timer; NULL: none that
 * is known to be near.
 */
const struct wheel_timer *wheel_next(const struct wheel *w, bool is_later_too);
const struct wheel_timer *wheel_after(const struct wheel *w, const struct wheel_timer *t);

/* Takes the earliest timer whose deadline is not after now_ns; NULL: there is none. */
struct wheel_timer *wheel_expire(struct wheel *w, uint64_t now_ns);

/* No deadline is before this; UINT64_MAX: none is set. It is exact for what is within 4 us. */
uint64_t wheel_due(const struct wheel *w);
