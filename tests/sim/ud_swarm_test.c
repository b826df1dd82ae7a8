/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of unreliable datagrams: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_trn_s2_ud_01_ud_03_random_datagrams_and_groups_on_a_bad_network)
{
	seeds_run_each(SIM_ROCE_UD, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_UD, IB_SEEDS);
}

TEST(test_ud_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_UD);
}
