/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/wheel.h"

#include <string.h>

#include "base/prng.h"
#include "fabric/store.h"
#include "test.h"

enum { TIMERS = 500 };

/* Deadlines near and far, among them equal ones, are taken in their order. */
static void run(uint64_t seed)
{
	static struct wheel_timer timers[TIMERS];
	struct wheel *w = wheel_open(prng_mix(seed) >> 20);
	struct prng prng = { seed };
	uint64_t last_ns = w->now_ns;
	uint32_t set = 0;

	for (uint32_t i = 0; i < TIMERS; i++) {
		timers[i] = (struct wheel_timer){ .kind = (uint16_t)i };
		wheel_set(w, &timers[i],
			  w->now_ns + (prng_next(&prng) >> prng_below(&prng, 50) >> 14));
	}
	for (uint32_t i = 0; i < TIMERS; i += 7)
		wheel_cancel(w, &timers[i]);
	for (uint32_t i = 0; i < TIMERS; i++)
		set += wheel_is_set(&timers[i]);
	while (set > 0) {
		uint64_t due_ns = wheel_due(w);
		struct wheel_timer *t;

		EXPECT(due_ns >= last_ns && due_ns != UINT64_MAX);
		EXPECT(!wheel_expire(w, due_ns - 1) || due_ns == last_ns);
		while ((t = wheel_expire(w, due_ns))) {
			EXPECT(t->at_ns >= last_ns && t->at_ns <= due_ns && !wheel_is_set(t));
			last_ns = t->at_ns;
			set--;
			/* Some are set anew meanwhile. */
			if (prng_chance(&prng, 300000)) {
				wheel_set(w, t, last_ns + prng_below(&prng, 1 << 20));
				set++;
			}
		}
	}
	EXPECT_EQ(wheel_due(w), UINT64_MAX);
	wheel_close(w);
}

TEST(test_fabric_deadlines_expire_in_their_order)
{
	for (uint64_t seed = 1; seed <= 50; seed++) {
		harness_note("seed %d", (int)seed);
		run(seed);
	}
}

TEST(test_fabric_equal_deadlines_expire_in_the_order_they_were_set)
{
	struct wheel_timer timers[4] = {
		{ .kind = 0 }, { .kind = 1 }, { .kind = 2 }, { .kind = 3 }
	};
	struct wheel *w = wheel_open(0);

	for (uint32_t i = 0; i < 4; i++)
		wheel_set(w, &timers[i], 5000000); /* two levels up */
	wheel_set(w, &timers[1], 5000000);
	EXPECT(wheel_expire(w, 5000000) == &timers[0]);
	EXPECT(wheel_expire(w, 5000000) == &timers[2]);
	EXPECT(wheel_expire(w, 5000000) == &timers[3]);
	EXPECT(wheel_expire(w, 5000000) == &timers[1]);
	EXPECT(wheel_expire(w, UINT64_MAX) == NULL);
	wheel_close(w);
}

/* What is said to come next does, as far as it is near: of one deadline, and of later ones. */
TEST(test_fabric_deadlines_that_are_near_are_known_before_they_expire)
{
	static const uint64_t at_ns[] = { 10, 10, 11, 70, 4095, 4096 };
	enum { COUNT = sizeof(at_ns) / sizeof(at_ns[0]), NEAR = COUNT - 1 };
	struct wheel_timer timers[COUNT] = { { .kind = 0 } };
	struct wheel *w = wheel_open(5);
	const struct wheel_timer *t;

	for (uint32_t i = 0; i < COUNT; i++)
		wheel_set(w, &timers[i], at_ns[i]);
	for (uint32_t first = 0; first < NEAR; first++) {
		t = wheel_next(w, true);
		EXPECT(wheel_next(w, false) == (first == 1 ? t : NULL)); /* of one deadline */
		for (uint32_t i = first; i < NEAR; i++) {
			EXPECT(t == &timers[i]);
			t = wheel_after(w, t);
		}
		EXPECT(!t);
		EXPECT(wheel_expire(w, UINT64_MAX) == &timers[first]);
	}
	EXPECT(!wheel_next(w, true));
	EXPECT(wheel_expire(w, UINT64_MAX) == &timers[NEAR]);
	wheel_close(w);
}

static size_t told_bytes;

static void tell(void *at, size_t bytes)
{
	EXPECT_EQ((uintptr_t)at % (1 << 21), 0);
	told_bytes += bytes;
}

/* Each piece has its place, and begins a cache line; what is in chunks of large pages was told. */
TEST(test_fabric_pieces_of_memory_lie_apart_in_chunks_that_are_told)
{
	enum { PIECES = 100, MOST = 100000 };
	uint8_t *pieces[PIECES];
	struct prng prng = { 1 };
	struct fabric_store s;
	size_t sizes[PIECES], sum = 0;

	told_bytes = 0;
	fabric_store_init(&s, tell);
	for (uint32_t i = 0; i < PIECES; i++) {
		sizes[i] = 1 + prng_below(&prng, MOST);
		pieces[i] = fabric_store_clear(&s, 1, sizes[i]);
		REQUIRE(pieces[i] && (uintptr_t)pieces[i] % 64 == 0 &&
			pieces[i][sizes[i] - 1] == 0);
		memset(pieces[i], (int)i, sizes[i]);
		sum += sizes[i];
		EXPECT(told_bytes >= sum && told_bytes % (1 << 21) == 0);
	}
	for (uint32_t i = 0; i < PIECES; i++)
		EXPECT(pieces[i][0] == i && pieces[i][sizes[i] - 1] == i);
	fabric_store_fini(&s);
}
