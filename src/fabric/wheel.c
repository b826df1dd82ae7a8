/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/wheel.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT_MASK = WHEEL_SLOTS - 1, LATER = WHEEL_LEVELS * WHEEL_SLOTS, WORD_BITS = 64 };

struct wheel *wheel_open(uint64_t now_ns)
{
	struct wheel *w = calloc(1, sizeof(*w));

	if (w)
		w->now_ns = now_ns;
	return w;
}

void wheel_close(struct wheel *own_w)
{
	free(own_w);
}

/* The first level whose turn has both now and the deadline in it. */
static uint32_t slot_of(const struct wheel *w, uint64_t at_ns)
{
	for (uint32_t level = 0; level < WHEEL_LEVELS; level++) {
		uint32_t shift = WHEEL_BITS * level;

		if (at_ns >> (shift + WHEEL_BITS) == w->now_ns >> (shift + WHEEL_BITS))
			return level * WHEEL_SLOTS + (uint32_t)(at_ns >> shift & SLOT_MASK);
	}
	return LATER;
}

static void slot_mark(struct wheel *w, uint32_t slot)
{
	uint32_t level = slot / WHEEL_SLOTS, word = slot % WHEEL_SLOTS / WORD_BITS;

	if (slot == LATER)
		return;
	w->slots_used[level][word] |= UINT64_C(1) << slot % WORD_BITS;
	w->used[level] |= UINT64_C(1) << word;
}

static void slot_clear(struct wheel *w, uint32_t slot)
{
	uint32_t level = slot / WHEEL_SLOTS, word = slot % WHEEL_SLOTS / WORD_BITS;

	if (slot == LATER)
		return;
	w->slots_used[level][word] &= ~(UINT64_C(1) << slot % WORD_BITS);
	if (w->slots_used[level][word] == 0)
		w->used[level] &= ~(UINT64_C(1) << word);
}

static void insert(struct wheel *w, struct wheel_timer *t)
{
	uint32_t slot = slot_of(w, t->at_ns);
	struct wheel_slot *s = &w->slots[slot];

	t->next = NULL;
	t->prev = s->last;
	t->slot = (uint16_t)(slot + 1);
	if (s->first) {
		s->last->next = t;
	} else {
		s->first = t;
		slot_mark(w, slot);
	}
	s->last = t;
}

void wheel_cancel(struct wheel *w, struct wheel_timer *t)
{
	uint32_t slot = t->slot - 1U;
	struct wheel_slot *s;

	if (t->slot == 0)
		return;
	t->slot = 0;
	s = &w->slots[slot];
	if (s->first != t)
		t->prev->next = t->next;
	else
		s->first = t->next;
	if (s->last != t)
		t->next->prev = t->prev;
	else
		s->last = t->prev;
	if (!s->first)
		slot_clear(w, slot);
}

void wheel_set(struct wheel *w, struct wheel_timer *t, uint64_t at_ns)
{
	if (wheel_is_set(t))
		wheel_cancel(w, t);
	t->at_ns = at_ns > w->now_ns ? at_ns : w->now_ns;
	insert(w, t);
}

/* The first used slot of a level; WHEEL_SLOTS: none. What is behind now is empty. */
static uint32_t first_used(const struct wheel *w, uint32_t level)
{
	uint32_t word;

	if (w->used[level] == 0)
		return WHEEL_SLOTS;
	word = (uint32_t)__builtin_ctzll(w->used[level]);
	return word * WORD_BITS + (uint32_t)__builtin_ctzll(w->slots_used[level][word]);
}

/* The first used slot of the first level after one; WHEEL_SLOTS: none. */
static uint32_t used_after(const struct wheel *w, uint32_t slot)
{
	uint32_t word = slot / WORD_BITS;
	uint64_t after = ~(((UINT64_C(2) << slot % WORD_BITS)) - 1);
	uint64_t bits = w->slots_used[0][word] & after, words;

	if (bits)
		return word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
	words = w->used[0] & ~((UINT64_C(2) << word) - 1);
	if (words == 0)
		return WHEEL_SLOTS;
	word = (uint32_t)__builtin_ctzll(words);
	return word * WORD_BITS + (uint32_t)__builtin_ctzll(w->slots_used[0][word]);
}

static const struct wheel_timer *first_after(const struct wheel *w, uint32_t slot)
{
	uint32_t used = used_after(w, slot);

	return used < WHEEL_SLOTS ? w->slots[used].first : NULL;
}

const struct wheel_timer *wheel_next(const struct wheel *w, bool is_later_too)
{
	uint32_t slot = (uint32_t)w->now_ns & SLOT_MASK;

	if (w->slots[slot].first || !is_later_too)
		return w->slots[slot].first;
	return first_after(w, slot);
}

const struct wheel_timer *wheel_after(const struct wheel *w, const struct wheel_timer *t)
{
	return t->next ? t->next : first_after(w, t->slot - 1U);
}

/* When the turn of a level's slot begins. */
static uint64_t slot_begin(const struct wheel *w, uint32_t level, uint32_t slot)
{
	uint32_t shift = WHEEL_BITS * level;

	return (w->now_ns >> (shift + WHEEL_BITS) << WHEEL_BITS | slot) << shift;
}

/* The timers of a slot whose turn has come go to where they are told apart. */
static void spread(struct wheel *w, uint32_t slot)
{
	struct wheel_timer *t = w->slots[slot].first;

	w->slots[slot].first = NULL;
	slot_clear(w, slot);
	while (t) {
		struct wheel_timer *next = t->next;

		insert(w, t);
		t = next;
	}
}

static uint64_t later_first(const struct wheel *w)
{
	uint64_t first = UINT64_MAX;

	for (const struct wheel_timer *t = w->slots[LATER].first; t; t = t->next)
		first = t->at_ns < first ? t->at_ns : first;
	return first;
}

/* When the next slot that is used begins, and its level. */
static uint64_t next_begin(const struct wheel *w, uint32_t *level, uint32_t *slot)
{
	for (*level = 0; *level < WHEEL_LEVELS; ++*level) {
		*slot = first_used(w, *level);
		if (*slot < WHEEL_SLOTS)
			return slot_begin(w, *level, *slot);
	}
	return w->slots[LATER].first ? later_first(w) : UINT64_MAX;
}

uint64_t wheel_due(const struct wheel *w)
{
	uint32_t level, slot;

	return next_begin(w, &level, &slot);
}

/* The next timer of a slot of the first level, of which there is one. */
static struct wheel_timer *pop(struct wheel *w, uint32_t slot)
{
	struct wheel_slot *s = &w->slots[slot];
	struct wheel_timer *t = s->first;

	t->slot = 0;
	s->first = t->next;
	if (!s->first)
		slot_clear(w, slot);
	return t;
}

struct wheel_timer *wheel_expire(struct wheel *w, uint64_t now_ns)
{
	uint32_t level, slot = (uint32_t)w->now_ns & SLOT_MASK;
	uint64_t begin_ns;

	if (w->slots[slot].first && w->now_ns <= now_ns)
		return pop(w, slot);
	while ((begin_ns = next_begin(w, &level, &slot)) <= now_ns && begin_ns != UINT64_MAX) {
		w->now_ns = begin_ns;
		if (level == 0)
			return pop(w, slot);
		spread(w, level < WHEEL_LEVELS ? level * WHEEL_SLOTS + slot : (uint32_t)LATER);
	}
	if (now_ns > w->now_ns)
		w->now_ns = now_ns;
	return NULL;
}
