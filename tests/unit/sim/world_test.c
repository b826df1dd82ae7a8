/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "sim/world/sim_trace.h"
#include "sim/world/world.h"

enum { EVENTS = 1000 };

static void world_open(struct world *w, uint64_t seed)
{
	struct world_options options = { .seed = seed, .events_max = EVENTS, .trace_max = 64 };

	REQUIRE(world_init(w, &options) == 0);
}

static struct world_event numbered(uint64_t n)
{
	return (struct world_event){ .node = 7, .kind = 3, .arg = n };
}

TEST(test_world_gives_events_in_order_of_time)
{
	struct world w;
	struct world_event event;
	uint64_t last_ns = 0;
	uint32_t given = 0;

	world_open(&w, 1);
	for (uint32_t i = 0; i < EVENTS; i++) {
		uint64_t delay_ns = prng_below(&w.prng, 5000);

		world_schedule(&w, delay_ns, numbered(delay_ns));
	}
	for (; world_next(&w, &event); given++) {
		EXPECT_EQ(w.now_ns, event.arg);
		EXPECT_EQ(w.trace.now_ns, event.arg);
		EXPECT_EQ(event.node, 7);
		EXPECT_EQ(event.kind, 3);
		EXPECT(w.now_ns >= last_ns);
		last_ns = w.now_ns;
	}
	EXPECT_EQ(given, EVENTS);
	EXPECT(!world_next(&w, &event));
	EXPECT_EQ(w.trace.count, EVENTS);
	EXPECT_EQ(trace_at(&w.trace, EVENTS - 1)->b, last_ns);
	world_fini(&w);
}

/* The order in which events of one instant come out, as one number; and the trace's hash. */
static uint64_t order_of_instant(uint64_t seed, uint64_t *trace_hash)
{
	struct world w;
	struct world_event event;
	uint64_t hash = 0, sum = 0;

	world_open(&w, seed);
	for (uint64_t i = 0; i < 100; i++)
		world_schedule(&w, 10, numbered(i));
	while (world_next(&w, &event)) {
		hash = prng_mix(hash ^ event.arg);
		sum += event.arg;
	}
	REQUIRE(sum == 99 * 100 / 2);
	*trace_hash = w.trace.hash;
	world_fini(&w);
	return hash;
}

TEST(test_world_draws_order_of_one_instant_from_seed)
{
	uint64_t trace_a, trace_b, trace_c;
	uint64_t a = order_of_instant(1, &trace_a);
	uint64_t b = order_of_instant(1, &trace_b);
	uint64_t c = order_of_instant(2, &trace_c);

	EXPECT_EQ(a, b);
	EXPECT(a != c);
	EXPECT_EQ(trace_a, trace_b);
	EXPECT(trace_a != trace_c);
}

TEST(test_world_both_orders_of_two_occur)
{
	uint32_t first_is_first = 0;

	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct world w;
		struct world_event event;

		world_open(&w, seed);
		world_schedule(&w, 0, numbered(1));
		world_schedule(&w, 0, numbered(2));
		EXPECT(world_next(&w, &event));
		first_is_first += event.arg == 1;
		world_fini(&w);
	}
	EXPECT(first_is_first > 400 && first_is_first < 600);
}

TEST(test_world_order_does_not_depend_on_other_draws)
{
	struct world a, b;
	struct world_event from_a, from_b;

	world_open(&a, 5);
	world_open(&b, 5);
	for (uint64_t i = 0; i < 50; i++) {
		(void)prng_next(&b.prng);
		world_schedule(&a, i % 3, numbered(i));
		world_schedule(&b, i % 3, numbered(i));
	}
	while (world_next(&a, &from_a)) {
		EXPECT(world_next(&b, &from_b));
		EXPECT_EQ(from_a.arg, from_b.arg);
	}
	world_fini(&a);
	world_fini(&b);
}

TEST(test_world_alarm_comes_once_at_last_time_set)
{
	struct world w;
	struct world_alarm alarm = { .event = numbered(1) };
	struct world_event event;

	world_open(&w, 1);
	world_alarm_set(&w, &alarm, 100);
	world_alarm_set(&w, &alarm, 50);
	world_alarm_set(&w, &alarm, 200);
	world_schedule(&w, 120, numbered(2));
	EXPECT(world_alarm_is_set(&alarm));
	EXPECT(world_next(&w, &event));
	EXPECT_EQ(w.now_ns, 120);
	EXPECT_EQ(event.arg, 2);
	EXPECT(world_next(&w, &event));
	EXPECT_EQ(event.arg, 1);
	EXPECT_EQ(w.now_ns, 200);
	EXPECT(!world_alarm_is_set(&alarm));
	EXPECT(!world_next(&w, &event));
	world_fini(&w);
}

TEST(test_world_alarm_cancelled_does_not_come)
{
	struct world w;
	struct world_alarm alarm = { .event = numbered(1) };
	struct world_event event;

	world_open(&w, 1);
	world_alarm_set(&w, &alarm, 100);
	world_alarm_cancel(&w, &alarm);
	world_alarm_cancel(&w, &alarm);
	EXPECT(!world_next(&w, &event));
	world_alarm_set(&w, &alarm, 100);
	world_alarm_set(&w, &alarm, WORLD_NEVER);
	EXPECT(!world_next(&w, &event));
	world_fini(&w);
}

TEST(test_world_alarm_in_the_past_comes_now)
{
	struct world w;
	struct world_alarm alarm = { .event = numbered(1) };
	struct world_event event;

	world_open(&w, 1);
	world_schedule(&w, 500, numbered(2));
	EXPECT(world_next(&w, &event));
	world_alarm_set(&w, &alarm, 100);
	EXPECT(world_next(&w, &event));
	EXPECT_EQ(w.now_ns, 500);
	world_fini(&w);
}

/* Many alarms moved at random: each comes at the time it was set to last, or not at all. */
TEST(test_world_alarms_moved_at_random)
{
	enum { ALARMS = 200 };
	struct world w;
	struct world_alarm alarms[ALARMS] = { 0 };
	uint64_t set_to[ALARMS] = { 0 };
	struct world_event event;
	uint32_t set = 0;

	world_open(&w, 9);
	for (uint32_t i = 0; i < ALARMS; i++)
		alarms[i].event = numbered(i);
	for (uint32_t i = 0; i < 20 * ALARMS; i++) {
		uint32_t n = prng_below(&w.prng, ALARMS);

		set_to[n] = prng_chance(&w.prng, 300000) ? 0 : 1 + prng_below(&w.prng, 100);
		world_alarm_set(&w, &alarms[n], set_to[n] ? set_to[n] : WORLD_NEVER);
	}
	for (uint32_t i = 0; i < ALARMS; i++)
		set += world_alarm_is_set(&alarms[i]);
	EXPECT_EQ(set, w.count);
	for (; world_next(&w, &event); set--) {
		EXPECT_EQ(w.now_ns, set_to[event.arg]);
		set_to[event.arg] = 0;
	}
	EXPECT_EQ(set, 0);
	world_fini(&w);
}

TEST(test_sim_trace_names_every_kind)
{
	for (uint16_t kind = TRACE_SIM; kind < SIM_TRACE_COUNT; kind++)
		EXPECT(sim_trace_name(kind) != NULL);
	EXPECT(sim_trace_name(TRACE_QP_STATE) == NULL);
	EXPECT(sim_trace_name(SIM_TRACE_COUNT) == NULL);
}
