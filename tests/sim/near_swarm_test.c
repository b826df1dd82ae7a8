/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of worlds of one host: the real near path, on a kernel that interrupts at any step. */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_rc_04_random_work_by_shared_memory)
{
	seeds_run_each(SIM_ROCE_NEAR, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_ROCE_NEAR, NEAR_SEEDS);
}

TEST(test_near_same_seed_same_history)
{
	seeds_compare(SIM_ROCE_NEAR);
}
