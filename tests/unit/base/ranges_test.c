/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges against a model: a number for each address. */
#include "base/ranges.h"

#include <string.h>

#include "base/prng.h"
#include "test.h"

enum { ADDRESSES = 200, ROOM = 12 };

struct model {
	struct range room[ROOM];
	struct ranges ranges;
	uint64_t numbers[ADDRESSES];
};

static void model_init(struct model *m, uint32_t max)
{
	memset(m, 0, sizeof(*m));
	m->ranges = (struct ranges){ m->room, 0, max };
}

/* Sorted, disjoint, joined where they can be, and with the model's numbers. */
static void expect_same(const struct model *m)
{
	const struct ranges *r = &m->ranges;
	uint64_t numbers[ADDRESSES] = { 0 };

	REQUIRE(r->count <= r->max);
	for (uint32_t i = 0; i < r->count; i++) {
		const struct range *at = &r->at[i];

		REQUIRE(at->start < at->end && at->end <= ADDRESSES && at->number != 0);
		if (i > 0) {
			REQUIRE(at[-1].end <= at->start);
			REQUIRE(at[-1].end < at->start || at[-1].number != at->number);
		}
		for (uint64_t a = at->start; a < at->end; a++)
			numbers[a] = at->number;
	}
	EXPECT_MEM(numbers, m->numbers, sizeof(numbers));
}

static void expect_answers(const struct model *m, uint64_t start, uint64_t end)
{
	uint64_t greatest = 0;
	bool is_covered = true;

	for (uint64_t a = start; a < end; a++) {
		greatest = m->numbers[a] > greatest ? m->numbers[a] : greatest;
		is_covered = is_covered && m->numbers[a] != 0;
	}
	EXPECT_EQ(ranges_greatest(&m->ranges, start, end), greatest);
	EXPECT_EQ(ranges_cover(&m->ranges, start, end), is_covered);
}

static bool is_above(const struct model *m, uint64_t start, uint64_t end)
{
	for (uint64_t a = start; a < end; a++) {
		if (m->numbers[a] == 0)
			return false;
	}
	return true;
}

/* One change at random, in both. Without room nothing changes. */
static void change(struct model *m, struct prng *r)
{
	uint64_t start = prng_below(r, ADDRESSES - 1);
	uint64_t end = start + 1 + prng_below(r, (uint32_t)(ADDRESSES - 1 - start));
	uint64_t number = prng_below(r, 3);
	uint32_t kind = prng_below(r, 3);
	bool has_room;

	if (kind == 0)
		has_room = ranges_set(&m->ranges, start, end, number);
	else if (kind == 1)
		has_room = ranges_add(&m->ranges, start, end);
	else
		has_room = is_above(m, start, end) && ranges_subtract(&m->ranges, start, end);
	for (uint64_t a = start; a < end && has_room; a++)
		m->numbers[a] = kind == 0   ? number
				: kind == 1 ? m->numbers[a] + 1
					    : m->numbers[a] - 1;
	expect_same(m);
	expect_answers(m, start, end);
}

TEST(test_ranges_are_as_the_model_says)
{
	struct prng r = { .state = 5 };
	struct model m;

	for (uint32_t max = 0; max <= ROOM; max += 3) {
		model_init(&m, max);
		for (int i = 0; i < 4000; i++)
			change(&m, &r);
	}
}

TEST(test_ranges_without_room_refuse_and_stay)
{
	struct model m;

	model_init(&m, 2);
	EXPECT(ranges_set(&m.ranges, 10, 20, 1));
	EXPECT(ranges_add(&m.ranges, 30, 40));
	EXPECT(!ranges_add(&m.ranges, 50, 60));
	EXPECT(!ranges_set(&m.ranges, 12, 13, 0)); /* would be two */
	EXPECT(!ranges_subtract(&m.ranges, 32, 33));
	EXPECT_EQ(m.ranges.count, 2);
	EXPECT(ranges_cover(&m.ranges, 10, 20) && ranges_cover(&m.ranges, 30, 40));
	EXPECT_EQ(ranges_greatest(&m.ranges, 50, 60), 0);
}

TEST(test_ranges_with_the_smallest_gap_are_united)
{
	struct model m;

	model_init(&m, ROOM);
	ranges_set(&m.ranges, 0, 10, 4);
	ranges_set(&m.ranges, 30, 40, 2);
	ranges_set(&m.ranges, 45, 50, 3);
	ranges_set(&m.ranges, 90, 91, 1);
	ranges_unite(&m.ranges);
	EXPECT_EQ(m.ranges.count, 3);
	EXPECT_EQ(ranges_greatest(&m.ranges, 42, 43), 3);
	EXPECT_EQ(ranges_greatest(&m.ranges, 20, 21), 0);
	ranges_unite(&m.ranges);
	ranges_unite(&m.ranges);
	EXPECT_EQ(m.ranges.count, 1);
	EXPECT_EQ(ranges_greatest(&m.ranges, 60, 61), 4);
	ranges_unite(&m.ranges);
	EXPECT_EQ(m.ranges.count, 1);
}
