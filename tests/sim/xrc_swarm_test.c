/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of XRC: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = {
	1708, /* a Read whose process ended, when what follows it had been refused: the judge */
};

TEST(test_trn_s2_qp_s3_iba_a14_random_work_of_xrc_on_a_bad_network)
{
	seeds_run_each(SIM_ROCE_XRC, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_XRC, IB_SEEDS);
}

TEST(test_xrc_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_XRC);
}
