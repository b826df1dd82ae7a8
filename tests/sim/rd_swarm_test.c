/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of reliable datagrams: many seeds, judged outside the cores. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = {
	172,  /* a NAK of an answer that had been asked for again was not believed */
	4790, /* a failure that a poll for receives had brought just before a reset */
};

TEST(test_trn_s2_rd_01_rd_02_random_datagrams_on_a_bad_network)
{
	seeds_run_each(SIM_ROCE_RD, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_RD, IB_SEEDS);
}

TEST(test_rd_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_RD);
}
