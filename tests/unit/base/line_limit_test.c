/* SPDX-License-Identifier: BSD-2-Clause */
/* A flood of lines is cut short, and its length told. */
#include "test.h"

#include "base/line_limit.h"

static const uint64_t second_ns = UINT64_C(1000000000);

TEST(test_line_limit_tells_the_first_of_a_second_and_counts_the_others)
{
	struct line_limit l = { 0 };
	uint32_t told = 0;

	for (uint32_t i = 0; i < 1000; i++)
		told += line_limit_may(&l, second_ns + i);
	EXPECT_EQ(told, LINES_A_SECOND);
	EXPECT_EQ(line_limit_due(&l), 2 * second_ns);
	EXPECT_EQ(line_limit_expire(&l, 2 * second_ns - 1), 0);
	/* Those that come late belong to it, until it was told. */
	EXPECT(!line_limit_may(&l, 2 * second_ns));
	EXPECT_EQ(line_limit_expire(&l, 2 * second_ns), 1001 - LINES_A_SECOND);
	EXPECT_EQ(line_limit_expire(&l, 3 * second_ns), 0);
	EXPECT(line_limit_may(&l, 3 * second_ns));
}

/* Nothing is to be told of lines that are few, so nothing wakes up for them. */
TEST(test_line_limit_of_few_lines_has_nothing_due)
{
	struct line_limit l = { 0 };

	for (uint64_t second = 1; second < 4; second++) {
		for (uint32_t i = 0; i < LINES_A_SECOND; i++)
			EXPECT(line_limit_may(&l, second * second_ns));
		EXPECT_EQ(line_limit_due(&l), UINT64_MAX);
		EXPECT_EQ(line_limit_expire(&l, second * second_ns), 0);
	}
}
