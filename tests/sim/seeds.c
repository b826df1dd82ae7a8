/* SPDX-License-Identifier: BSD-2-Clause */
#include "seeds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "test.h"

enum { COMPARED = 20, FAR = 1000000 };

/* Runs a seed to its end and gives the trace's hash; says what was wrong. */
static bool run(const struct sim_kind *kind, void *w, uint64_t seed, uint64_t *hash)
{
	bool is_good;

	if (kind->open(w, seed) < 0)
		return false;
	while (kind->step(w))
		continue;
	is_good = kind->failure(w)[0] == 0;
	if (!is_good)
		printf("seed %" PRIu64 ": %s\n", seed, kind->failure(w));
	*hash = kind->clock(w)->trace.hash;
	kind->close(w);
	return is_good;
}

static void *world_of(const struct sim_kind *kind)
{
	void *w = malloc(kind->world_bytes);

	REQUIRE(w);
	return w;
}

void seeds_run_each(enum sim_kind_id id, const uint64_t *seeds, size_t count)
{
	const struct sim_kind *kind = &sim_kinds[id];
	void *w = world_of(kind);
	uint64_t hash, failed = 0;

	for (size_t i = 0; i < count; i++) {
		harness_perturb(i);
		failed += !run(kind, w, seeds[i], &hash);
	}
	harness_perturb(0);
	free(w);
	EXPECT_EQ(failed, 0);
}

static void run_from_one(enum sim_kind_id id, uint64_t count)
{
	const struct sim_kind *kind = &sim_kinds[id];
	void *w = world_of(kind);
	uint64_t hash, failed = 0;

	for (uint64_t seed = 1; seed <= count; seed++) {
		harness_perturb(seed - 1);
		failed += !run(kind, w, seed, &hash);
	}
	harness_perturb(0);
	free(w);
	EXPECT_EQ(failed, 0);
}

/* What WEFT_SIM_SEEDS says, or the count. */
static uint64_t count_asked(uint64_t count)
{
	const char *asked = getenv("WEFT_SIM_SEEDS");

	return asked ? strtoull(asked, NULL, 10) : count;
}

void seeds_run_many(enum sim_kind_id id, uint64_t count)
{
	run_from_one(id, count_asked(count));
}

void seeds_run_some(enum sim_kind_id id, uint64_t count)
{
	uint64_t asked = count_asked(count);

	run_from_one(id, asked < count ? asked : count);
}

void seeds_compare(enum sim_kind_id id)
{
	const struct sim_kind *kind = &sim_kinds[id];
	void *w = world_of(kind);
	uint64_t first, again, other;

	for (uint64_t seed = 1; seed <= COMPARED; seed++) {
		REQUIRE(run(kind, w, seed, &first));
		REQUIRE(run(kind, w, seed, &again));
		REQUIRE(run(kind, w, seed + FAR, &other));
		EXPECT_EQ(first, again);
		EXPECT(first != other);
	}
	free(w);
}
