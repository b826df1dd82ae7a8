/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds of one host in which another process comes just between two steps of the near path, so
 * that each rule of shared memory counts: tests/mutate/near.txt leaves them out one by one. The
 * swarm (near_swarm_test.c) found these seeds; if worlds draw otherwise one day, it finds others.
 */
#include "seeds.h"
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
