/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The swarm of worlds of a split network card: two hosts and a unit, whose processes and wires fail
 * at any moment, watched by judges that stand outside the core.
 */
#include "seeds.h"
#include "test.h"

/* Seeds that failed once, with what they found. They are run first, for ever. */
static const uint64_t failed_once[] = {
	1,   /* a packet that had waited was longer than a MTU that was lowered meanwhile */
	12,  /* the same, of a host that had asked for the lower one */
	55,  /* Send mode: a request overtook the reply to the greeting */
	70,  /* Send mode: packets overtook the request for a lower MTU */
	642, /* the judge took a corrupted frame of iWARP for a stray Write (AMB-41) */
	977, /* a message of iWARP that counted as sent was lost with the link: the judge's fault */
	2782, /* a reply that waited for an indication was overtaken by the packets it allows */
	8138, /* a packet of a former life came to a queue pair of its number: the world's fault */
	1146, /* a process was not back when the world ended: the world's fault */
	1098, /* a unit died before it replied to a flush: the host waited for ever */
};

TEST(test_push_24_card_seeds_that_failed_once)
{
	seeds_run_each(SIM_CARD, failed_once, sizeof(failed_once) / sizeof(failed_once[0]));
}

TEST(test_push_24_card_swarm_of_seeds)
{
	seeds_run_some(SIM_CARD, CARD_SEEDS);
}

TEST(test_card_same_seed_same_history)
{
	seeds_compare(SIM_CARD);
}
