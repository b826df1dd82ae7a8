/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of one host: the real near path, on a kernel that interrupts at any step. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };
/* A datagram without an address handle, behind one that lost its while it waited for room. */
static const uint64_t failed_once_ud[] = { 1000011 };

TEST(test_rc_04_random_work_by_shared_memory)
{
	seeds_run_each(SIM_ROCE_NEAR, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_NEAR, NEAR_SEEDS);
}

TEST(test_qp_11_random_messages_of_uc_by_shared_memory)
{
	seeds_run_some(SIM_ROCE_NEAR_UC, NEAR_SEEDS);
}

TEST(test_ud_01_random_datagrams_by_shared_memory)
{
	seeds_run_each(SIM_ROCE_NEAR_UD, failed_once_ud,
		       sizeof(failed_once_ud) / sizeof(failed_once_ud[0]));
	seeds_run_some(SIM_ROCE_NEAR_UD, NEAR_SEEDS);
}

TEST(test_trn_s2_random_work_of_xrc_by_shared_memory)
{
	seeds_run_some(SIM_ROCE_NEAR_XRC, NEAR_SEEDS);
}

TEST(test_trn_s2_random_reliable_datagrams_by_shared_memory)
{
	seeds_run_some(SIM_ROCE_NEAR_RD, NEAR_SEEDS);
}

TEST(test_near_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_NEAR);
	seeds_compare(SIM_ROCE_NEAR_UC);
	seeds_compare(SIM_ROCE_NEAR_UD);
	seeds_compare(SIM_ROCE_NEAR_XRC);
	seeds_compare(SIM_ROCE_NEAR_RD);
}
