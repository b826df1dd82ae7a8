/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of reliable connections: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_trn_s2_rc_04_qp_s3_random_work_on_a_bad_network)
{
	seeds_run_each(SIM_ROCE_RC, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_RC, IB_SEEDS);
}

/* Seeds that failed once with runs of packets. */
static const uint64_t failed_runs[] = { 0 };

TEST(test_trn_s2_rc_04_random_work_with_runs_of_packets)
{
	seeds_run_each(SIM_ROCE_RUNS, failed_runs, sizeof(failed_runs) / sizeof(failed_runs[0]));
	seeds_run_some(SIM_ROCE_RUNS, IB_SEEDS);
}

TEST(test_rc_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_RC);
}
