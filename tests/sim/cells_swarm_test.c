/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of packets in cells on a fabric. */
#include "seeds.h"
#include "test.h"

enum { CELLS_SEEDS = 150 };

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = { 0 };

TEST(test_fab_08_push_11_push_12_push_13_packets_in_cells_cross_a_fabric)
{
	seeds_run_each(SIM_CELLS, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
	seeds_run_some(SIM_CELLS, CELLS_SEEDS);
}

TEST(test_cells_same_seed_same_history)
{
	seeds_compare(SIM_CELLS);
}
