/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of one host in which another process comes just between two steps of the near path, so
 * that each rule of shared memory counts: tests/mutate/near.txt leaves them out one by one. The
 * swarm (near_swarm_test.c) found these seeds; if worlds draw otherwise one day, it finds others.
 */
#include "seeds.h"
#include "sim/roce/near_world.h"
#include "test.h"

static void run(const uint64_t *seeds, size_t count)
{
	seeds_run_each(SIM_ROCE_NEAR, seeds, count);
}

/* A record is taken by the receiver while the sender writes it, and written while it is read. */
TEST(test_near_record_is_whole_when_it_is_taken)
{
	static const uint64_t seeds[] = { 3, 5, 89, 102 };

	run(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* A packet comes while the receiver goes to sleep; room comes while the sender does. */
TEST(test_near_end_that_sleeps_is_woken)
{
	static const uint64_t seeds[] = { 3, 5, 7, 11, 24, 41 };

	run(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* Memory is deregistered, invalidated, or a capture begins, while a peer is about to access it. */
TEST(test_near_access_ends_before_its_registration)
{
	static const uint64_t seeds[] = { 5, 45, 49, 50, 57, 58 };

	run(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* A process is killed between its mark and the end of its access. */
TEST(test_near_access_of_a_killed_process_is_not_waited_for)
{
	static const uint64_t seeds[] = { 9, 12, 17, 46, 51 };

	run(seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* A process is killed: requests to it, by XRC or on a context, do not wait for answers. */
TEST(test_near_requests_to_a_killed_process_end_at_once)
{
	static const uint64_t xrc[] = { 10, 17, 18, 27 }, rd[] = { 12, 20, 27, 38 };

	seeds_run_each(SIM_ROCE_NEAR_XRC, xrc, sizeof(xrc) / sizeof(xrc[0]));
	seeds_run_each(SIM_ROCE_NEAR_RD, rd, sizeof(rd) / sizeof(rd[0]));
}

/* Room comes while a process sleeps whose packets wait for it. */
TEST(test_near_room_wakes_a_sender_of_xrc)
{
	static const uint64_t seeds[] = { 227, 406 };

	seeds_run_each(SIM_ROCE_NEAR_XRC, seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* The queue is of another domain, or ended with its program. */
TEST(test_near_xrc_message_names_a_queue_of_the_domain)
{
	static const uint64_t seeds[] = { 2, 3, 4 };

	seeds_run_each(SIM_ROCE_NEAR_XRC, seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* A process takes no rings: packets on contexts to it go by the network. */
TEST(test_rd_02_near_context_that_is_refused_goes_by_the_network)
{
	static const uint64_t seeds[] = { 1, 3, 6, 9 };

	seeds_run_each(SIM_ROCE_NEAR_RD, seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* A context fails while queue pairs wait for their turn on it, or in the middle of a message. */
TEST(test_rd_02_near_context_that_fails_ends_all_requests)
{
	static const uint64_t seeds[] = { 2, 3, 4, 18, 85, 222 };

	seeds_run_each(SIM_ROCE_NEAR_RD, seeds, sizeof(seeds) / sizeof(seeds[0]));
}

/* What a world has met so far. */
static void add(struct near_kernel *all, const struct near_world *w)
{
	const struct near_kernel *k = &w->kernel;

	all->accesses += k->accesses;
	all->wakes += k->wakes;
	all->refusals += k->refusals;
	all->deaths += k->deaths - w->program->nodes; /* the last process of each ends */
	all->breaks += k->breaks;
	all->fulls += k->fulls;
	all->runs += k->runs;
}

static void run_all(enum roce_scenario_id scenario, struct near_kernel *all)
{
	enum { SEEDS = 20 };

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct roce_world w;

		REQUIRE(roce_world_open(&w, seed, scenario) == 0);
		while (roce_world_step(&w))
			continue;
		EXPECT(roce_world_failure(&w)[0] == 0);
		add(all, CONTAINER_OF(roce_world_clock(&w), struct near_world, world));
		roce_world_close(&w);
	}
}

/* Judges that have nothing to judge find nothing. */
TEST(test_near_worlds_meet_all_that_can_happen)
{
	static const enum roce_scenario_id scenarios[] = { ROCE_NEAR, ROCE_NEAR_UC, ROCE_NEAR_UD,
							   ROCE_NEAR_XRC, ROCE_NEAR_RD };

	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
		bool is_rc = scenarios[i] == ROCE_NEAR;
		bool has_runs = is_rc || scenarios[i] == ROCE_NEAR_XRC;
		struct near_kernel all = { 0 };

		run_all(scenarios[i], &all);
		EXPECT(is_rc ? all.accesses > 200 : all.accesses == 0);
		EXPECT(has_runs ? all.runs > 20 : all.runs == 0);
		EXPECT(all.wakes > 300);
		EXPECT(all.refusals > 10);
		EXPECT(all.deaths > 3);
		EXPECT(all.breaks > 3);
		EXPECT(all.fulls > 5);
	}
}
