/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm: many seeds of the simulated verbs world, each checked by the shadow model. */
#include "seeds.h"
#include "test.h"

enum { SEEDS_DEFAULT = 2000 };

/*
 * Seeds that failed once, with what they found. They are run first, for ever, although their
 * histories have changed since then with what the world draws from a seed.
 */
static const uint64_t failed_once[] = {
	1,   /* a region was registered over a hole behind a segment without pages */
	127, /* two queues registered under one reserved tag */
	247, /* the same */
};

TEST(test_seeds_that_failed_once)
{
	seeds_run_each(SIM_LOOPBACK, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
}

TEST(test_swarm_of_seeds)
{
	seeds_run_many(SIM_LOOPBACK, SEEDS_DEFAULT);
}

TEST(test_same_seed_same_history)
{
	seeds_compare(SIM_LOOPBACK);
}
