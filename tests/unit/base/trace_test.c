/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/trace.h"

static struct trace_event event_of(uint64_t a)
{
	return (struct trace_event){ .kind = TRACE_TAG_MADE, .who = 3, .a = a, .b = 9 };
}

TEST(test_trace_keeps_the_latest_with_their_time)
{
	struct trace t;

	REQUIRE(trace_init(&t, 4) == 0);
	EXPECT(trace_at(&t, 0) == NULL);
	for (uint64_t i = 0; i < 10; i++) {
		t.now_ns = 100 + i;
		trace_add(&t, event_of(i));
		EXPECT(trace_at(&t, i + 1) == NULL);
		EXPECT(trace_at(&t, i) && trace_at(&t, i)->a == i);
	}
	EXPECT_EQ(t.count, 10);
	for (uint64_t i = 0; i < 6; i++)
		EXPECT(trace_at(&t, i) == NULL);
	for (uint64_t i = 6; i < 10; i++) {
		EXPECT_EQ(trace_at(&t, i)->a, i);
		EXPECT_EQ(trace_at(&t, i)->time_ns, 100 + i);
		EXPECT_EQ(trace_at(&t, i)->who, 3);
	}
	EXPECT(trace_at(&t, UINT64_MAX) == NULL);
	trace_fini(&t);
}

/* The hash of one event at time 1 after an earlier event. */
static uint64_t hash_of(uint64_t time_ns, struct trace_event e)
{
	struct trace t;
	uint64_t hash;

	REQUIRE(trace_init(&t, 1) == 0);
	trace_add(&t, event_of(0));
	t.now_ns = time_ns;
	trace_add(&t, e);
	hash = t.hash;
	trace_fini(&t);
	return hash;
}

TEST(test_trace_hash_covers_every_field_and_only_those)
{
	struct trace_event e = event_of(5);
	const uint64_t hash = hash_of(1, e);

	EXPECT(hash_of(1, e) == hash);
	e.time_ns = 77; /* overwritten by the trace's own time */
	EXPECT(hash_of(1, e) == hash);
	EXPECT(hash_of(2, e) != hash);
	e.a++;
	EXPECT(hash_of(1, e) != hash);
	e = event_of(5);
	e.b++;
	EXPECT(hash_of(1, e) != hash);
	e = event_of(5);
	e.who++;
	EXPECT(hash_of(1, e) != hash);
	e = event_of(5);
	e.kind++;
	EXPECT(hash_of(1, e) != hash);
	e = event_of(5);
	e.reason++;
	EXPECT(hash_of(1, e) != hash);
}

TEST(test_trace_hash_covers_events_that_left_the_ring_and_their_order)
{
	struct trace one, two;

	REQUIRE(trace_init(&one, 1) == 0 && trace_init(&two, 8) == 0);
	for (uint64_t i = 0; i < 5; i++) {
		trace_add(&one, event_of(i));
		trace_add(&two, event_of(i));
	}
	EXPECT(one.hash == two.hash);
	trace_add(&one, event_of(6));
	trace_add(&one, event_of(7));
	trace_add(&two, event_of(7));
	trace_add(&two, event_of(6));
	EXPECT(one.hash != two.hash);
	trace_fini(&one);
	trace_fini(&two);
}

TEST(test_trace_takes_only_what_is_asked_for)
{
	struct trace t;

	REQUIRE(trace_init(&t, 4) == 0);
	t.only = 1ULL << TRACE_QP_STATE;
	trace_add(&t, (struct trace_event){ .kind = TRACE_REFUSED });
	EXPECT_EQ(t.count, 0);
	trace_add(&t, (struct trace_event){ .kind = TRACE_QP_STATE });
	EXPECT_EQ(t.count, 1);
	t.only = 0;
	trace_add(&t, (struct trace_event){ .kind = TRACE_REFUSED });
	EXPECT_EQ(t.count, 2);
	trace_fini(&t);
}
