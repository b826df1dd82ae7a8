/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/prng.h"
#include "base/timer_queue.h"

enum { TIMERS = 40, ROUNDS = 60000 };

TEST(test_timer_queue_empty_has_nothing_due)
{
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, 1) == 0);
	EXPECT(timer_queue_due(&q) == UINT64_MAX);
	EXPECT(timer_queue_expire(&q, UINT64_MAX) == NULL);
	timer_queue_fini(&q);
}

TEST(test_timer_queue_comes_out_by_deadline)
{
	static const uint64_t deadlines[] = { 50, 10, 40, 0, 30, UINT64_MAX, 20 };
	static const uint32_t order[] = { 3, 1, 6, 4, 2, 0, 5 };
	struct timer timers[7] = { 0 };
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, 7) == 0);
	for (uint32_t i = 0; i < 7; i++)
		timer_queue_set(&q, &timers[i], deadlines[i]);
	for (uint32_t i = 0; i < 7; i++) {
		EXPECT_EQ(timer_queue_due(&q), deadlines[order[i]]);
		EXPECT(timer_queue_expire(&q, UINT64_MAX) == &timers[order[i]]);
		EXPECT(!timer_is_set(&timers[order[i]]));
	}
	EXPECT(timer_queue_expire(&q, UINT64_MAX) == NULL);
	timer_queue_fini(&q);
}

TEST(test_timer_queue_expires_at_the_deadline_and_not_before)
{
	struct timer t = { 0 };
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, 1) == 0);
	timer_queue_set(&q, &t, 100);
	EXPECT(timer_queue_expire(&q, 99) == NULL);
	EXPECT(timer_is_set(&t));
	EXPECT(timer_queue_expire(&q, 100) == &t);
	EXPECT(timer_queue_expire(&q, 100) == NULL);
	timer_queue_fini(&q);
}

TEST(test_timer_queue_equal_deadlines_come_out_in_the_order_set)
{
	struct timer timers[TIMERS] = { 0 };
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, TIMERS) == 0);
	for (uint32_t i = 0; i < TIMERS; i++)
		timer_queue_set(&q, &timers[i], 7);
	timer_queue_set(&q, &timers[0], 7); /* set again: now the last */
	for (uint32_t i = 1; i < TIMERS; i++)
		EXPECT(timer_queue_expire(&q, 7) == &timers[i]);
	EXPECT(timer_queue_expire(&q, 7) == &timers[0]);
	timer_queue_fini(&q);
}

TEST(test_timer_queue_cancelled_does_not_come_out)
{
	struct timer timers[3] = { 0 };
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, 3) == 0);
	for (uint32_t i = 0; i < 3; i++)
		timer_queue_set(&q, &timers[i], i);
	timer_queue_cancel(&q, &timers[0]);
	timer_queue_cancel(&q, &timers[0]);
	EXPECT(!timer_is_set(&timers[0]));
	EXPECT_EQ(timer_queue_due(&q), 1);
	timer_queue_cancel(&q, &timers[2]);
	EXPECT(timer_queue_expire(&q, 9) == &timers[1]);
	EXPECT(timer_queue_expire(&q, 9) == NULL);
	timer_queue_fini(&q);
}

/* The model: an array in the order in which timers were last set, searched from the front. */
struct model {
	struct timer *set[TIMERS];
	uint64_t deadlines[TIMERS];
	uint32_t count;
};

static void model_remove(struct model *m, const struct timer *t)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		m->set[kept] = m->set[i];
		m->deadlines[kept] = m->deadlines[i];
		kept += m->set[i] != t;
	}
	m->count = kept;
}

static uint32_t model_first(const struct model *m)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < m->count; i++) {
		if (m->deadlines[i] < m->deadlines[first])
			first = i;
	}
	return first;
}

static void model_set(struct model *m, struct timer *t, uint64_t deadline_ns)
{
	model_remove(m, t);
	m->set[m->count] = t;
	m->deadlines[m->count++] = deadline_ns;
}

/* What should come out at now_ns; taken out of the model. */
static struct timer *model_expire(struct model *m, uint64_t now_ns)
{
	uint32_t first = model_first(m);
	struct timer *t;

	if (m->count == 0 || m->deadlines[first] > now_ns)
		return NULL;
	t = m->set[first];
	model_remove(m, t);
	return t;
}

TEST(test_timer_queue_random_use_agrees_with_an_array)
{
	struct timer timers[TIMERS] = { 0 };
	struct prng p = { .state = 5 };
	struct model m = { .count = 0 };
	struct timer_queue q;

	REQUIRE(timer_queue_init(&q, TIMERS) == 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct timer *t = &timers[prng_below(&p, TIMERS)];
		uint64_t when = prng_below(&p, 30);

		switch (prng_below(&p, 4)) {
		case 0:
		case 1:
			timer_queue_set(&q, t, when);
			model_set(&m, t, when);
			break;
		case 2:
			timer_queue_cancel(&q, t);
			model_remove(&m, t);
			break;
		default:
			EXPECT(timer_queue_expire(&q, when) == model_expire(&m, when));
		}
		EXPECT_EQ(q.count, m.count);
		EXPECT_EQ(timer_queue_due(&q), m.count ? m.deadlines[model_first(&m)] : UINT64_MAX);
	}
	timer_queue_fini(&q);
}
