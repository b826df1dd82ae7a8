/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/id_table.h"
#include "base/prng.h"

enum { SLOTS = 5, GENERATIONS = 255, ROUNDS = 20000 };

static int objects[ROUNDS];

TEST(test_id_table_finds_what_was_added)
{
	struct id_table t;
	uint32_t a, b;

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	a = id_table_add(&t, &objects[0]);
	b = id_table_add(&t, &objects[1]);
	EXPECT(a != 0 && b != 0 && a != b);
	EXPECT(id_table_find(&t, a) == &objects[0]);
	EXPECT(id_table_find(&t, b) == &objects[1]);
	EXPECT_EQ(t.used, 2);
	id_table_remove(&t, a);
	EXPECT(id_table_find(&t, a) == NULL);
	EXPECT(id_table_find(&t, b) == &objects[1]);
	EXPECT_EQ(t.used, 1);
	id_table_fini(&t);
}

TEST(test_id_table_unknown_ids_find_nothing)
{
	struct id_table t;
	uint32_t id;

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	id = id_table_add(&t, &objects[0]);
	EXPECT(id_table_find(&t, 0) == NULL);
	EXPECT(id_table_find(&t, UINT32_MAX) == NULL);
	EXPECT(id_table_find(&t, id + (1U << ID_SLOT_BITS)) == NULL);
	EXPECT(id_table_find(&t, id - (1U << ID_SLOT_BITS)) == NULL);
	EXPECT(id_table_find(&t, (id & ~(uint32_t)ID_SLOTS_MAX) | SLOTS) == NULL);
	EXPECT(id_table_find(&t, (id & ~(uint32_t)ID_SLOTS_MAX) | ID_SLOTS_MAX) == NULL);
	id_table_fini(&t);
}

TEST(test_id_table_full_gives_0_and_a_removal_makes_room)
{
	struct id_table t;
	uint32_t ids[SLOTS];

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	for (uint32_t i = 0; i < SLOTS; i++) {
		ids[i] = id_table_add(&t, &objects[i]);
		EXPECT(ids[i] != 0);
	}
	EXPECT_EQ(id_table_add(&t, &objects[SLOTS]), 0);
	EXPECT_EQ(t.used, SLOTS);
	id_table_remove(&t, ids[3]);
	ids[3] = id_table_add(&t, &objects[SLOTS]);
	EXPECT(ids[3] != 0);
	EXPECT(id_table_find(&t, ids[3]) == &objects[SLOTS]);
	EXPECT_EQ(id_table_add(&t, &objects[SLOTS]), 0);
	id_table_fini(&t);
}

/* One slot, used again at once: an id comes back only when all generations went by. */
TEST(test_id_table_stale_ids_stay_dead_for_all_generations)
{
	struct id_table t;
	uint32_t first, id;

	REQUIRE(id_table_init(&t, 1) == 0);
	first = id_table_add(&t, &objects[0]);
	id_table_remove(&t, first);
	for (uint32_t i = 1; i < GENERATIONS; i++) {
		id = id_table_add(&t, &objects[i]);
		EXPECT(id != 0);
		EXPECT(id != first);
		EXPECT(id_table_find(&t, first) == NULL);
		EXPECT(id_table_find(&t, id) == &objects[i]);
		id_table_remove(&t, id);
		EXPECT(id_table_find(&t, id) == NULL);
	}
	EXPECT_EQ(id_table_add(&t, &objects[1]), first);
	id_table_fini(&t);
}

/* The longest free slot goes out first, which keeps a stale id dead for as long as possible. */
TEST(test_id_table_slots_go_out_in_the_order_they_came_back)
{
	static const uint32_t order[SLOTS] = { 2, 0, 4, 1, 3 };
	struct id_table t;
	uint32_t ids[SLOTS];

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	for (uint32_t i = 0; i < SLOTS; i++)
		ids[i] = id_table_add(&t, &objects[i]);
	for (uint32_t i = 0; i < SLOTS; i++)
		id_table_remove(&t, ids[order[i]]);
	for (uint32_t i = 0; i < SLOTS; i++)
		EXPECT_EQ(id_slot(id_table_add(&t, &objects[i])), id_slot(ids[order[i]]));
	id_table_fini(&t);
}

TEST(test_id_table_random_use_agrees_with_a_list)
{
	struct prng p = { .state = 11 };
	struct id_table t;
	uint32_t live[SLOTS], count = 0;
	int *what[SLOTS];

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t at = count ? prng_below(&p, count) : 0;

		if (prng_below(&p, 2)) {
			uint32_t id = id_table_add(&t, &objects[i]);

			EXPECT_EQ(id != 0, count < SLOTS);
			if (id) {
				what[count] = &objects[i];
				live[count++] = id;
			}
		} else if (count) {
			id_table_remove(&t, live[at]);
			EXPECT(id_table_find(&t, live[at]) == NULL);
			live[at] = live[--count];
			what[at] = what[count];
		}
		EXPECT_EQ(t.used, count);
		for (uint32_t n = 0; n < count; n++)
			EXPECT(id_table_find(&t, live[n]) == what[n]);
	}
	id_table_fini(&t);
}

/* The generation alone tells which adapter an id belongs to. */
TEST(test_id_table_with_a_fixed_generation)
{
	struct id_table t;
	uint32_t old, id, first = 0;

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	old = id_table_add(&t, &objects[0]);
	id_table_fix_generation(&t, 254);
	EXPECT(id_table_find(&t, old) == &objects[0]);
	EXPECT_EQ(old >> ID_SLOT_BITS, 1);
	for (uint32_t i = 0; i < 600; i++) {
		id = id_table_add(&t, &objects[1]);
		EXPECT_EQ(id >> ID_SLOT_BITS, 254);
		EXPECT(id_table_find(&t, id) == &objects[1]);
		if (i == 0)
			first = id;
		id_table_remove(&t, id);
		EXPECT(id_table_find(&t, id) == NULL);
		/* The slots go round; the number comes back with its slot. */
		EXPECT_EQ(id == first, i % (SLOTS - 1) == 0);
	}
	id_table_remove(&t, old);
	EXPECT(id_table_find(&t, old) == NULL);
	EXPECT_EQ(t.generations[id_slot(old)], 254);
	id_table_fini(&t);
}

TEST(test_id_table_slots_that_were_passed_over_come_last)
{
	static const uint32_t order[SLOTS - 1] = { 2, 0, 3, 4 };
	struct id_table t;
	uint32_t held;

	REQUIRE(id_table_init(&t, SLOTS) == 0);
	(void)id_table_add(&t, &objects[0]);
	held = id_table_add(&t, &objects[1]);
	id_table_remove(&t, id_table_add(&t, &objects[2]));
	id_table_remove(&t, 1 << ID_SLOT_BITS);
	/* Free, in this order: 3, 4, 2, 0. */
	id_table_pass_over(&t, 4 * 1000 + 3);
	id_table_pass_over(&t, 3);
	for (uint32_t i = 0; i < SLOTS - 1; i++)
		EXPECT_EQ(id_slot(id_table_add(&t, &objects[i])), order[i]);
	EXPECT(id_table_find(&t, held) == &objects[1]);
	id_table_pass_over(&t, 7); /* none is free */
	EXPECT_EQ(id_table_add(&t, &objects[0]), 0);
	id_table_fini(&t);
}
