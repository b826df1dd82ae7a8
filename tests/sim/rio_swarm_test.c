/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The swarm of worlds of directed I/O: many seeds, in each of which any role may stop at any step,
 * watched by judges that stand outside the cores.
 */
#include "seeds.h"
#include "test.h"

TEST(test_rio_swarm_of_seeds)
{
	seeds_run_many(SIM_RIO, RIO_SEEDS);
}

TEST(test_rio_same_seed_same_history)
{
	seeds_compare(SIM_RIO);
}
