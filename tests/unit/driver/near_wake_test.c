/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All histories of a model of how streams by shared memory wake their receiver (tcp/link_near.h): a
 * sender puts bytes; of the receiver's process one thread sleeps, and another polls now and then
 * and stops. No history may end with bytes in the ring and a thread that nothing wakes.
 *
 * Each step is one access to what the two processes share. The receiver's threads take turns by
 * their lock, as in the driver; the sender takes none.
 */
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { PUTS = 3, POLLS = 3, BITS = 23, STATES = 1 << BITS };
enum lock { FREE, SLEEPER, POLLER };

/* What the driver does, and the model can leave out. */
enum { RULE_ASLEEP = 1, RULE_HEARD = 2, RULE_ROUSE = 4, RULE_LOOK = 8, RULES = 15 };

struct world {
	uint32_t bytes;		  /* in the ring */
	bool is_marked, has_bell; /* the ring as resting; a message in the socket */
	uint32_t sender, puts;	  /* its step, and what is left */
	uint32_t sleeper;
	uint32_t poller, polls;
	enum lock lock;
	bool is_asleep, is_roused; /* net->asleep, net->wake */
	bool is_resting;	   /* of struct link_near */
};

static uint32_t pack(const struct world *w)
{
	uint32_t v = w->bytes | w->puts << 2 | w->polls << 4 | w->sender << 6 | w->lock << 8;

	v |= w->sleeper << 10 | w->poller << 14;
	v |= (uint32_t)w->is_marked << 17 | (uint32_t)w->has_bell << 18;
	v |= (uint32_t)w->is_asleep << 19 | (uint32_t)w->is_roused << 20;
	return v | (uint32_t)w->is_resting << 21;
}

static struct world unpack(uint32_t v)
{
	return (struct world){
		.bytes = v & 3,
		.puts = v >> 2 & 3,
		.polls = v >> 4 & 3,
		.sender = v >> 6 & 3,
		.lock = (enum lock)(v >> 8 & 3),
		.sleeper = v >> 10 & 15,
		.poller = v >> 14 & 7,
		.is_marked = v >> 17 & 1,
		.has_bell = v >> 18 & 1,
		.is_asleep = v >> 19 & 1,
		.is_roused = v >> 20 & 1,
		.is_resting = v >> 21 & 1,
	};
}

/* link_near_send(). False: it has no step to take. */
static bool sender_step(struct world *w)
{
	switch (w->sender) {
	case 0:
		if (w->puts == 0)
			return false;
		w->puts--;
		w->bytes++;
		w->sender = 1;
		return true;
	case 1: /* ring_wakes_receiver() */
		w->sender = w->is_marked ? 2 : 0;
		w->is_marked = false;
		return true;
	default:
		w->has_bell = true;
		w->sender = 0;
		return true;
	}
}

/* link_near_mark() */
static void mark(struct world *w, bool is_resting)
{
	if (w->is_resting != is_resting)
		w->is_marked = w->is_resting = is_resting;
}

/* link_near_hear() */
static void hear(struct world *w, unsigned int rules)
{
	if (w->has_bell && (rules & RULE_HEARD))
		w->is_resting = false;
	w->has_bell = false;
}

/* progress_run(): sleeps, hears, reads, settles, and rests before it sleeps again. */
static bool sleeper_step(struct world *w, unsigned int rules)
{
	enum { AWAKE, MARKS, LOOKS, SLEEPS, HEARS, READS, SETTLES, LOOKS_AGAIN };

	switch (w->sleeper) {
	case AWAKE:
		if (w->lock != FREE)
			return false;
		w->lock = SLEEPER;
		w->sleeper = MARKS;
		return true;
	case MARKS: /* hot_rest() */
		mark(w, true);
		w->sleeper = LOOKS;
		return true;
	case LOOKS:
		if (w->bytes > 0 && (rules & RULE_LOOK)) {
			w->sleeper = READS;
			return true;
		}
		w->is_asleep = true;
		w->lock = FREE;
		w->sleeper = SLEEPS;
		return true;
	case SLEEPS: /* epoll looks whether the socket is still ready */
		if (w->lock != FREE || (!w->has_bell && !w->is_roused))
			return false;
		w->lock = SLEEPER;
		w->is_asleep = w->is_roused = false;
		w->sleeper = HEARS;
		return true;
	case HEARS:
		hear(w, rules);
		w->sleeper = READS;
		return true;
	case READS:
		w->bytes = 0;
		w->sleeper = SETTLES;
		return true;
	case SETTLES:
		mark(w, false);
		w->sleeper = LOOKS_AGAIN;
		return true;
	default:
		w->sleeper = w->bytes > 0 ? READS : MARKS;
		return true;
	}
}

/* A poll, by epoll or of a hot link alone; it may leave bytes, and be the last. */
static bool poller_step(struct world *w, unsigned int rules, unsigned int choice)
{
	enum { ENTERS, HEARS, READS, SETTLES, LEAVES };

	switch (w->poller) {
	case ENTERS:
		if (w->polls == 0 || w->lock != FREE)
			return false;
		w->lock = POLLER;
		w->polls--;
		w->poller = choice ? HEARS : READS;
		return true;
	case HEARS:
		hear(w, rules);
		w->poller = READS;
		return true;
	case READS:
		w->bytes = choice && w->bytes > 0 ? 1 : 0;
		w->poller = SETTLES;
		return true;
	case SETTLES: /* link_settle() */
		mark(w, w->is_asleep && (rules & RULE_ASLEEP));
		w->poller = LEAVES;
		return true;
	default: /* link_note_unread(), progress_notice() */
		w->is_roused |= w->bytes > 0 && w->is_asleep && (rules & RULE_ROUSE);
		w->lock = FREE;
		w->poller = ENTERS;
		return true;
	}
}

static bool step(struct world *w, unsigned int rules, unsigned int which)
{
	if (which == 0)
		return sender_step(w);
	return which == 1 ? sleeper_step(w, rules) : poller_step(w, rules, which - 2);
}

/* Histories that end with bytes which no thread will read. */
static uint32_t stuck_under(unsigned int rules)
{
	const struct world first = { .puts = PUTS, .polls = POLLS };
	uint8_t *seen = calloc(STATES, 1);
	uint32_t *to_do = malloc(STATES * sizeof(*to_do)), count = 0, stuck = 0;

	REQUIRE(seen && to_do);
	to_do[count++] = pack(&first);
	seen[to_do[0]] = 1;
	while (count > 0) {
		const struct world now = unpack(to_do[--count]);
		bool is_over = true;

		for (unsigned int which = 0; which < 4; which++) {
			struct world next = now;
			uint32_t packed;

			if (!step(&next, rules, which))
				continue;
			is_over = false;
			packed = pack(&next);
			if (seen[packed])
				continue;
			seen[packed] = 1;
			to_do[count++] = packed;
		}
		stuck += is_over && now.bytes > 0;
	}
	free(to_do);
	free(seen);
	return stuck;
}

TEST(test_near_no_history_leaves_bytes_to_a_thread_that_sleeps)
{
	EXPECT_EQ(stuck_under(RULES), 0);
}

/* Each rule is needed. */
TEST(test_near_without_a_rule_of_waking_bytes_are_left)
{
	for (unsigned int rule = 1; rule < RULES; rule <<= 1)
		EXPECT(stuck_under(RULES & ~rule) > 0);
}
