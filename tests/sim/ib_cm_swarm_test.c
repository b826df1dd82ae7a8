/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of the connection manager: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_iba_12_9_both_ends_agree)
{
	seeds_run_each(SIM_ROCE_CM, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_CM, IB_SEEDS);
}

TEST(test_cm_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_CM);
}
