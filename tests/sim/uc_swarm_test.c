/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of unreliable connections: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_trn_s2_qp_11_unreliable_messages_arrive_whole_or_not_at_all)
{
	seeds_run_each(SIM_ROCE_UC, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_UC, IB_SEEDS);
}

TEST(test_uc_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_UC);
}
