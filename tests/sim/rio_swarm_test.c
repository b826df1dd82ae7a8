/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The swarm of worlds of directed I/O: many seeds, in each of which any role may stop at any step,
 * watched by judges that stand outside the cores.
 */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = {
	6,    /* an I/O unit that had to dial after a device had read did so a turn later */
	855,  /* and heard a turn later what a device had done at once */
	214,  /* a request for a device that was announced later ended before its data was there */
	973,  /* a requester that came back while a device worked for it */
	1372, /* a cancelled read that took the connection from all others */
	8665, /* a command that failed kept its buffer from those who waited for one */
	/* Without the fence, instances, marks or terms: */
	1,   /* a write that had timed out landed on a later, acknowledged one */
	86,  /* what a requester asked for that came again overtook what it had asked for before */
	155, /* and what a new owner ordered what the former one had */
	8,   /* a flush was acknowledged after what was not flushed was lost */
	12,  /* the same, of another device */
	63,  /* a mirror read from a member that it had left out, after a restart */
	2,   /* a requester went back to the former of two owners */
	3,   /* and so did an I/O unit */
	16,  /* a flush was refused for a request that the owner had refused */
	307, /* a requester was told of two losses: the model took them for one */
	132, /* a crash between the first marks of a mirror: it was refused for ever */
	35298, /* a flush asked for before its device was offered covered no write */
	66082, /* a node that hung again while it hung took longer than the model allowed */
	80484, /* a loss was reported before the requester knew of a second one */
};

TEST(test_rio_seeds_that_failed_once)
{
	seeds_run_each(SIM_RIO, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
}

TEST(test_rio_swarm_of_seeds)
{
	seeds_run_many(SIM_RIO, RIO_SEEDS);
}

TEST(test_rio_same_seed_same_history)
{
	seeds_compare(SIM_RIO);
}
