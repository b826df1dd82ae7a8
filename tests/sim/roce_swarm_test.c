/* SPDX-License-Identifier: BSD-2-Clause */
/* Worlds of RoCE whose seed draws the scenario, as `weft sim --world roce` runs them. */
#include "seeds.h"
#include "sim/roce/roce_world.h"
#include "test.h"

enum { SEEDS = 40 };

static uint64_t run(struct roce_world *w, uint64_t seed, enum roce_scenario_id scenario)
{
	uint64_t hash;

	REQUIRE(roce_world_open(w, seed, scenario) == 0);
	while (roce_world_step(w))
		continue;
	REQUIRE(roce_world_failure(w)[0] == 0);
	hash = roce_world_clock(w)->trace.hash;
	roce_world_close(w);
	return hash;
}

/* A seed that fails can be run in its scenario alone; and every one of these is drawn. */
TEST(test_roce_seed_is_the_same_history_in_its_scenario)
{
	static const struct roce_scenario *const scenarios[ROCE_DRAWN] = {
		[ROCE_RC] = &roce_rc,
		[ROCE_UC] = &roce_uc,
		[ROCE_RD] = &roce_rd,
		[ROCE_CM] = &roce_cm,
	};
	uint32_t drawn[ROCE_DRAWN] = { 0 };

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct roce_world w;
		uint64_t hash = run(&w, seed, ROCE_ANY);
		uint32_t k = 0;

		while (scenarios[k] != w.scenario)
			k++;
		drawn[k]++;
		EXPECT_EQ(run(&w, seed, (enum roce_scenario_id)k), hash);
	}
	for (uint32_t k = 0; k < ROCE_DRAWN; k++)
		EXPECT(drawn[k] > 0);
}

TEST(test_roce_same_seed_same_history)
{
	seeds_compare(SIM_ROCE);
}
