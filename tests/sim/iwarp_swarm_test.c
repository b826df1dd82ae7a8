/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm of iWARP worlds: many seeds, each watched by judges that stand outside the cores. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/iwarp_world.h"
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

static uint64_t seed_count(void)
{
	const char *text = getenv("WEFT_SIM_SEEDS");

	return text ? strtoull(text, NULL, 10) : IWARP_SEEDS;
}

/* Runs a seed to its end and gives the trace's hash; says what was wrong. */
static bool run_seed(struct iwarp_world *w, uint64_t seed, uint64_t *hash)
{
	bool is_good;

	if (iwarp_world_open(w, seed) < 0)
		return false;
	while (iwarp_world_step(w))
		continue;
	is_good = iwarp_world_failure(w)[0] == 0;
	if (!is_good)
		printf("seed %" PRIu64 ": %s\n", seed, iwarp_world_failure(w));
	*hash = w->world.trace.hash;
	iwarp_world_close(w);
	return is_good;
}

TEST(test_iwarp_seeds_that_failed_once)
{
	struct iwarp_world *w = malloc(sizeof(*w));
	uint64_t hash;
	bool is_good = true;

	REQUIRE(w);
	for (size_t i = 0; i < sizeof(failed_once) / sizeof(failed_once[0]); i++)
		is_good = run_seed(w, failed_once[i], &hash) && is_good;
	free(w);
	EXPECT(is_good);
}

TEST(test_iwarp_swarm_of_seeds)
{
	struct iwarp_world *w = malloc(sizeof(*w));
	uint64_t hash, failed = 0;

	REQUIRE(w);
	for (uint64_t seed = 1; seed <= seed_count(); seed++)
		failed += !run_seed(w, seed, &hash);
	free(w);
	EXPECT_EQ(failed, 0);
}

TEST(test_iwarp_same_seed_same_history)
{
	struct iwarp_world *w = malloc(sizeof(*w));
	uint64_t first, again, other;

	REQUIRE(w);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		REQUIRE(run_seed(w, seed, &first));
		REQUIRE(run_seed(w, seed, &again));
		REQUIRE(run_seed(w, seed + 1000000, &other));
		EXPECT_EQ(first, again);
		EXPECT(first != other);
	}
	free(w);
}
