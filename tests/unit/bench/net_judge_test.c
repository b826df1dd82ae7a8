/* SPDX-License-Identifier: BSD-2-Clause */
#include "bench/net_judge.h"

#include "test.h"

TEST(test_net_judge_takes_the_median_of_the_calmest)
{
	struct net_sample samples[] = {
		{ 900, 0.5 }, { 30, 2 }, { 10, 1.95 }, { 20, 1.9 }, { 800, 1.1 }
	};
	bool is_disturbed = true;

	EXPECT_EQ(net_samples_judge(samples, 5, &is_disturbed), 20);
	EXPECT(!is_disturbed);
}

TEST(test_net_judge_says_when_one_that_counts_was_disturbed)
{
	struct net_sample calm[] = { { 1, 1.8 }, { 2, 1.8 }, { 3, 1.8 }, { 4, 0 } };
	struct net_sample busy[] = { { 1, 2 }, { 2, 2 }, { 3, 1.79 }, { 4, 0 } };
	bool is_disturbed;

	EXPECT_EQ(net_samples_judge(calm, 4, &is_disturbed), 2);
	EXPECT(!is_disturbed);
	EXPECT_EQ(net_samples_judge(busy, 4, &is_disturbed), 2);
	EXPECT(is_disturbed);
}

TEST(test_net_judge_of_few_samples)
{
	struct net_sample two[] = { { 10, 2 }, { 20, 2 } }, one[] = { { 7, 64 } };
	bool is_disturbed;

	EXPECT_EQ(net_samples_judge(two, 2, &is_disturbed), 15);
	EXPECT_EQ(net_samples_judge(one, 1, &is_disturbed), 7);
	EXPECT_EQ(net_samples_judge(one, 0, &is_disturbed), 0);
	EXPECT(!is_disturbed);
}
