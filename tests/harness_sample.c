/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests that pass, fail and skip on purpose; harness_test.sh looks at what the harness says. */
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
