/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "fabric/arbiter.h"

enum { TURNS = 1200, MANAGEMENT = 15 };

static void picks(struct fabric_arbiter *a, uint32_t ready, uint32_t counts[16])
{
	memset(counts, 0, 16 * sizeof(*counts));
	for (int i = 0; i < TURNS; i++) {
		int lane = fabric_arbiter_pick(a, ready);

		REQUIRE(lane >= 0 && ready >> lane & 1);
		counts[lane]++;
	}
}

static struct fabric_arbiter weighted(void)
{
	struct fabric_arbiter a = { .high_limit = FABRIC_LIMIT_NONE };

	a.low = (struct fabric_turns){ .lanes = { 0, 1, 2 }, .weights = { 1, 2, 3 } };
	fabric_arbiter_settle(&a);
	return a;
}

TEST(test_fab_10_lanes_get_their_turns_by_weight)
{
	struct fabric_arbiter a = weighted();
	uint32_t counts[16];

	picks(&a, 7, counts);
	EXPECT(counts[0] == TURNS / 6 && counts[1] == TURNS / 3 && counts[2] == TURNS / 2);
	picks(&a, 5, counts); /* what is not ready costs the others nothing */
	EXPECT(counts[0] == TURNS / 4 && counts[2] == TURNS * 3 / 4);
	picks(&a, 1, counts);
	EXPECT_EQ(counts[0], TURNS);
}

TEST(test_fab_10_a_lane_without_weight_has_no_turn)
{
	struct fabric_arbiter a = weighted();

	EXPECT_EQ(fabric_arbiter_pick(&a, 1 << 3), -1);
	EXPECT_EQ(fabric_arbiter_pick(&a, 0), -1);
}

TEST(test_fab_12_high_priority_goes_first_up_to_its_limit)
{
	struct fabric_arbiter a = weighted();
	uint32_t counts[16];

	a.high = (struct fabric_turns){ .lanes = { 3 }, .weights = { 1 } };
	fabric_arbiter_settle(&a);
	picks(&a, 0xf, counts);
	EXPECT_EQ(counts[3], TURNS);
	a.high_limit = 1; /* 47 flits, then one of low priority */
	picks(&a, 0xf, counts);
	EXPECT_EQ(counts[3], TURNS / 48 * 47);
	a.high_limit = 0;
	picks(&a, 0xf, counts);
	EXPECT_EQ(counts[3], TURNS / 2);
	picks(&a, 1 << 3, counts); /* nothing else is ready */
	EXPECT_EQ(counts[3], TURNS);
}

/* A subnet manager that writes tables again and again, or anything else that has them looked at. */
TEST(test_fab_10_tables_that_are_written_anew_leave_each_lane_its_turns)
{
	const struct fabric_arbiter written = weighted();
	struct fabric_arbiter a = weighted();
	uint32_t counts[16] = { 0 };

	for (int i = 0; i < TURNS; i++) {
		int lane = fabric_arbiter_pick(&a, 7);

		REQUIRE(lane >= 0);
		counts[lane]++;
		fabric_arbiter_copy(&a, &written);
	}
	EXPECT(counts[0] == TURNS / 6 && counts[1] == TURNS / 3 && counts[2] == TURNS / 2);
}

TEST(test_fab_12_tables_and_limits_are_taken_over)
{
	struct fabric_arbiter a, written = weighted();
	uint32_t counts[16];

	fabric_arbiter_init(&a);
	written.high = (struct fabric_turns){ .lanes = { 3 }, .weights = { 1 } };
	written.high_limit = 1;
	fabric_arbiter_settle(&written);
	fabric_arbiter_copy(&a, &written);
	picks(&a, 0xf, counts);
	EXPECT_EQ(counts[3], TURNS / 48 * 47);
	EXPECT_EQ(fabric_arbiter_pick(&a, 1 << 4), -1);
}

/* A run of flits counts as its flits, and takes no more than the rest of its weight. */
TEST(test_fab_10_runs_get_their_turns_by_weight)
{
	struct fabric_arbiter a = weighted();
	uint32_t counts[3] = { 0 };

	for (int i = 0; i < TURNS; i++) {
		int lane = fabric_arbiter_pick(&a, 7);

		REQUIRE(lane >= 0 && lane < 3);
		counts[lane] += 1 + fabric_arbiter_more(&a, 7, lane, 40);
	}
	EXPECT(counts[1] == 2 * counts[0] && counts[2] == 3 * counts[0]);
	EXPECT_EQ(fabric_arbiter_pick(&a, 1), 0);
	EXPECT_EQ(fabric_arbiter_more(&a, 1, 0, 40), 40); /* nothing else waits */
}

TEST(test_fab_12_a_run_of_high_priority_ends_at_its_limit)
{
	struct fabric_arbiter a = weighted();

	a.high = (struct fabric_turns){ .lanes = { 3 }, .weights = { 255 } };
	a.high_limit = 1; /* 47 flits */
	fabric_arbiter_settle(&a);
	EXPECT_EQ(fabric_arbiter_pick(&a, 0xf), 3);
	EXPECT_EQ(fabric_arbiter_more(&a, 0xf, 3, 60), 46);
	EXPECT(fabric_arbiter_pick(&a, 0xf) != 3);
	EXPECT_EQ(fabric_arbiter_pick(&a, 0xf), 3);
	EXPECT_EQ(fabric_arbiter_more(&a, 1 << 3, 3, 60), 60);
	(void)fabric_arbiter_pick(&a, 1); /* low priority has its turn */
	a.high_limit = 0;		  /* a frame, whole */
	EXPECT_EQ(fabric_arbiter_pick(&a, 0xf), 3);
	EXPECT_EQ(fabric_arbiter_more(&a, 0xf, 3, 60), 60);
	EXPECT(fabric_arbiter_pick(&a, 0xf) != 3);
}

TEST(test_fab_12_management_goes_before_all)
{
	struct fabric_arbiter a;
	uint32_t counts[16];

	fabric_arbiter_init(&a);
	a.high = (struct fabric_turns){ .lanes = { 3 }, .weights = { 255 } };
	fabric_arbiter_settle(&a);
	picks(&a, 1 << MANAGEMENT | 0xf, counts);
	EXPECT_EQ(counts[MANAGEMENT], TURNS);
}
