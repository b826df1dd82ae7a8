/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All histories of a model of how a bell's descriptor becomes readable and is emptied (bell.c):
 * two threads add events under the bell's lock and ring when they have released it; a third takes
 * them. No history may end with a descriptor that says something else than the queue, nor with a
 * thread that waits.
 *
 * Each step is one access to what the threads share.
 */
#include <stdlib.h>

#include "test.h"

enum { ADDERS = 2, ADDS = 2, TAKES = 5, BITS = 18, STATES = 1 << BITS };
enum { RUNNING = 1, SEEN = 2, OWED = 4 };

/* What the code does, and the model can leave out. */
enum { RULE_OWE = 1, RULE_ONE_WRITER = 2, RULE_AWAIT_WRITER = 4, RULE_FORGIVE = 8, RULES = 15 };

enum adder { ADDS_NEXT, OWES, UNLOCKS, CLAIMS, WRITES, SETTLES, IS_DONE };
enum taker { LOOKS, FORGIVES, EMPTIES, LEAVES };

struct world {
	uint32_t waiting, readable; /* events in the queue; writes that no read has taken yet */
	uint32_t writes;	    /* of struct bell */
	uint32_t lock;		    /* 0: free; else 1 + the thread */
	uint32_t adder[ADDERS], adds[ADDERS];
	bool was_seen[ADDERS]; /* SEEN, when it began to write */
	uint32_t taker, takes;
};

static uint32_t pack(const struct world *w)
{
	uint32_t v = w->waiting | w->readable << 3 | w->writes << 6 | w->lock << 11;

	for (uint32_t i = 0; i < ADDERS; i++)
		v |= (w->adder[i] | w->adds[i] << 3) << (13 + 5 * i);
	return v | w->taker << 23;
}

/* The rest, which has no room in a word beside it: an index of all that was seen. */
static uint32_t pack_more(const struct world *w)
{
	return (uint32_t)w->was_seen[0] | (uint32_t)w->was_seen[1] << 1 | w->takes << 2;
}

/* bell_add(), and write_owed(). False: it has no step to take. */
static bool adder_step(struct world *w, uint32_t i, unsigned int rules)
{
	switch ((enum adder)w->adder[i]) {
	case ADDS_NEXT:
		if (w->adds[i] == 0 || w->lock != 0)
			return false;
		w->adds[i]--;
		w->lock = 1 + i;
		w->waiting++;
		w->adder[i] = OWES;
		return true;
	case OWES:
		w->writes += rules & RULE_OWE ? OWED : 0;
		w->adder[i] = UNLOCKS;
		return true;
	case UNLOCKS:
		w->lock = 0;
		w->adder[i] = CLAIMS;
		return true;
	case CLAIMS:
		if (w->writes < OWED || ((w->writes & RUNNING) && (rules & RULE_ONE_WRITER))) {
			w->adder[i] = ADDS_NEXT;
			return true;
		}
		w->writes = (w->writes - OWED) | RUNNING;
		w->was_seen[i] = w->writes & SEEN;
		w->adder[i] = WRITES;
		return true;
	case WRITES:
		w->readable = 1;
		w->adder[i] = SETTLES;
		return true;
	case SETTLES:
	default:
		w->writes = w->writes - RUNNING + (w->was_seen[i] ? 0 : SEEN);
		w->adder[i] = CLAIMS;
		return true;
	}
}

/* teller_take(): the first event; with the last of them forgive_owed(). */
static bool taker_step(struct world *w, unsigned int rules)
{
	const uint32_t own = 1 + ADDERS;

	switch ((enum taker)w->taker) {
	case LOOKS:
		if (w->takes == 0 || w->lock != 0 || w->waiting == 0)
			return false;
		w->takes--;
		w->lock = own;
		w->waiting--;
		w->taker = w->waiting == 0 ? FORGIVES : LEAVES;
		return true;
	case FORGIVES:
		if ((w->writes & RUNNING) && (rules & RULE_AWAIT_WRITER))
			return false; /* it yields */
		w->taker = w->writes & SEEN ? EMPTIES : LEAVES;
		w->writes = rules & RULE_FORGIVE ? 0 : w->writes & ~(uint32_t)SEEN;
		return true;
	case EMPTIES: /* read() of an empty descriptor blocks */
		if (w->readable == 0)
			return false;
		w->readable = 0;
		w->taker = LEAVES;
		return true;
	case LEAVES:
	default:
		w->lock = 0;
		w->taker = LOOKS;
		return true;
	}
}

static bool step(struct world *w, unsigned int rules, uint32_t which)
{
	return which < ADDERS ? adder_step(w, which, rules) : taker_step(w, rules);
}

/* No thread has a step: all have done theirs, and the descriptor says what the queue holds. */
static bool is_right(const struct world *w)
{
	for (uint32_t i = 0; i < ADDERS; i++) {
		if (w->adder[i] != ADDS_NEXT || w->adds[i] > 0)
			return false;
	}
	return w->taker == LOOKS && (w->readable > 0) == (w->waiting > 0) &&
	       w->writes == (w->waiting > 0 ? SEEN : 0);
}

/* An open table of worlds that were seen, by both words. */
static bool is_new(uint64_t *seen, uint32_t *seen_count, const struct world *w)
{
	uint64_t key = ((uint64_t)pack_more(w) << 32 | pack(w)) + 1;
	uint32_t at = (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BITS));

	REQUIRE(*seen_count < STATES / 2);
	while (seen[at] != 0 && seen[at] != key)
		at = (at + 1) % STATES;
	if (seen[at] == key)
		return false;
	seen[at] = key;
	++*seen_count;
	return true;
}

/* Histories that end wrong. The taker takes so many; more than come if takes is TAKES. */
static uint32_t wrong_under(unsigned int rules, uint32_t takes)
{
	const struct world first = { .adds = { ADDS, ADDS }, .takes = takes };
	struct world *to_do = malloc(STATES * sizeof(*to_do));
	uint64_t *seen = calloc(STATES, sizeof(*seen));
	uint32_t count = 0, seen_count = 0, wrong = 0;

	REQUIRE(seen && to_do);
	to_do[count++] = first;
	(void)is_new(seen, &seen_count, &first);
	while (count > 0) {
		const struct world now = to_do[--count];
		bool is_over = true;

		for (uint32_t which = 0; which <= ADDERS; which++) {
			struct world next = now;

			if (!step(&next, rules, which))
				continue;
			is_over = false;
			if (!is_new(seen, &seen_count, &next))
				continue;
			to_do[count++] = next;
		}
		wrong += is_over && !is_right(&now);
	}
	free(to_do);
	free(seen);
	return wrong;
}

TEST(test_bell_no_history_leaves_the_descriptor_wrong)
{
	for (uint32_t takes = 0; takes <= TAKES; takes++)
		EXPECT_EQ(wrong_under(RULES, takes), 0);
}

/* Each rule is needed. */
TEST(test_bell_without_a_rule_the_descriptor_is_wrong)
{
	for (unsigned int rule = 1; rule < RULES; rule <<= 1) {
		uint32_t wrong = 0;

		for (uint32_t takes = 0; takes <= TAKES; takes++)
			wrong += wrong_under(RULES & ~rule, takes);
		EXPECT(wrong > 0);
	}
}
