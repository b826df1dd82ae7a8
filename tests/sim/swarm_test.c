/* SPDX-License-Identifier: BSD-2-Clause */
/* The swarm: many seeds of the simulated verbs world, each checked by the shadow model. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/verbs_world.h"
#include "test.h"

enum { SEEDS_DEFAULT = 2000 };

/*
 * Seeds that failed once, with what they found. They are run first, for ever, although their
 * histories have changed since then with what the world draws from a seed.
 */
static const uint64_t failed_once[] = {
	1,   /* a region was registered over a hole behind a segment without pages */
	127, /* two queues registered under one reserved tag */
	247, /* the same */
};

static uint64_t seed_count(void)
{
	const char *text = getenv("WEFT_SIM_SEEDS");

	return text ? strtoull(text, NULL, 10) : SEEDS_DEFAULT;
}

/* Runs a seed to its end and gives the trace's hash; says what was wrong. */
static bool run_seed(struct verbs_world *w, uint64_t seed, uint64_t *hash)
{
	bool is_good;

	if (verbs_world_open(w, seed) < 0)
		return false;
	while (verbs_world_step(w))
		continue;
	is_good = verbs_world_failure(w)[0] == 0;
	if (!is_good)
		printf("seed %" PRIu64 ": %s\n", seed, verbs_world_failure(w));
	*hash = w->world.trace.hash;
	verbs_world_close(w);
	return is_good;
}

TEST(test_seeds_that_failed_once)
{
	struct verbs_world *w = malloc(sizeof(*w));
	uint64_t hash;
	bool is_good = true;

	EXPECT(w);
	for (size_t i = 0; i < sizeof(failed_once) / sizeof(failed_once[0]); i++)
		is_good = run_seed(w, failed_once[i], &hash) && is_good;
	free(w);
	EXPECT(is_good);
}

TEST(test_swarm_of_seeds)
{
	struct verbs_world *w = malloc(sizeof(*w));
	uint64_t hash, failed = 0;

	EXPECT(w);
	for (uint64_t seed = 1; seed <= seed_count(); seed++)
		failed += !run_seed(w, seed, &hash);
	free(w);
	EXPECT_EQ(failed, 0);
}

TEST(test_same_seed_same_history)
{
	struct verbs_world *w = malloc(sizeof(*w));
	uint64_t first, again, other;

	EXPECT(w);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		REQUIRE(run_seed(w, seed, &first));
		REQUIRE(run_seed(w, seed, &again));
		REQUIRE(run_seed(w, seed + 1000000, &other));
		EXPECT_EQ(first, again);
		EXPECT(first != other);
	}
	free(w);
}
