/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that pass, fail and skip on purpose; harness_test.sh looks at what the harness says. */
#include <stdlib.h>

#include "test.h"

static int helper(void)
{
	REQUIRE(1 + 1 == 3);
	return 0;
}

TEST(sample_passes)
{
	EXPECT(1 + 1 == 2);
	EXPECT_EQ(-1, -1);
	EXPECT_STR("warp", "warp");
	EXPECT_MEM("weft", "weft", 4);
	REQUIRE(true);
}

TEST(sample_is_false)
{
	EXPECT(1 + 1 == 3);
	EXPECT(!"reached");
}

TEST(sample_differs)
{
	EXPECT_EQ(255, 16);
}

TEST(sample_differs_in_sign)
{
	EXPECT_EQ((uint32_t)-1, -1);
}

TEST(sample_differs_in_text)
{
	EXPECT_STR("warp", NULL);
}

TEST(sample_differs_in_memory)
{
	EXPECT_MEM("warp", "wart", 4);
}

TEST(sample_fails_in_helper)
{
	EXPECT_EQ(helper(), 0);
	EXPECT(!"reached");
}

TEST(sample_skips)
{
	SKIP("no loom here");
}

/* Rounds: one, unless the caller wants more. */
static uint64_t round_now;

const char *harness_round(uint64_t round)
{
	const char *rounds = getenv("SAMPLE_ROUNDS");

	round_now = round;
	if (!rounds)
		return round == 0 ? "" : NULL;
	return round < strtoull(rounds, NULL, 10) ? "in this round" : NULL;
}

TEST(sample_runs_three_rounds)
{
	if (!getenv("SAMPLE_ROUNDS"))
		SKIP("one round only");
	EXPECT(round_now < 3);
}
