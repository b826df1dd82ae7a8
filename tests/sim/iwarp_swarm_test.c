/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of iWARP worlds: many seeds, each watched by judges that stand outside the cores. */
#include "seeds.h"
#include "test.h"

/*
 * Seeds that failed once, with what they found; where the world has changed since then, also one
 * that would find it now. They are run first, for ever.
 */
static const uint64_t failed_once[] = {
	15,  31,  /* a frame that began with a marker and waited for a receive was then misread */
	129, 30,  /* a stream that could not send its Terminate never gave up */
	189, 63,  /* a Read beside the ready-to-receive Read was one too many for the responder */
	745, 251, /* the oldest atomic was blamed for another one that the peer had refused */
	13,  /* a one-touch window answered two Reads, when both came before the first was out */
	294, /* a Terminate for a Read that was refused late showed another message's header */
};

TEST(test_iwarp_seeds_that_failed_once)
{
	seeds_run_each(SIM_IWARP, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
}

TEST(test_iwarp_swarm_of_seeds)
{
	seeds_run_many(SIM_IWARP, IWARP_SEEDS);
}

TEST(test_iwarp_same_seed_same_history)
{
	seeds_compare(SIM_IWARP);
}
