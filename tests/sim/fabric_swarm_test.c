/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of fabrics: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

enum { FABRIC_SEEDS = 100 };

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_fab_07_fab_13_fab_15_frames_come_whole_in_order_and_once)
{
	seeds_run_each(SIM_FABRIC, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_FABRIC, FABRIC_SEEDS);
}

TEST(test_fabric_same_seed_same_history)
{
	seeds_compare(SIM_FABRIC);
}
