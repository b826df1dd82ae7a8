/* SPDX-License-Identifier: BSD-2-Clause */
/* When a role looks for what comes, and when it sleeps: docs/rio.md, Latency. */
#include "roles/rio_spin.h"

#include "test.h"

enum { US = 1000 };

TEST(test_rio_02_a_role_looks_only_for_the_time_that_it_was_told)
{
	struct rio_spin none = { 0 }, some = { .spin_ns = 50 * US };

	EXPECT(!rio_spin_may(&none, 1000 * US, 1000 * US));
	EXPECT(rio_spin_may(&some, 1000 * US, 1000 * US));
	EXPECT(rio_spin_may(&some, 1000 * US, 1050 * US - 1));
	EXPECT(!rio_spin_may(&some, 1000 * US, 1050 * US));
}

/* Others had the processor: to sleep is better until they are likely to have done. */
TEST(test_rio_02_a_role_whose_yield_took_long_sleeps_for_a_while)
{
	struct rio_spin s = { .spin_ns = 50 * US };
	const uint64_t ended_ns = 1000 * US + RIO_YIELD_LONG_NS;
	const uint64_t again_ns = ended_ns + (uint64_t)RIO_SPIN_PAUSE * RIO_YIELD_LONG_NS;

	rio_spin_yielded(&s, 1000 * US, ended_ns - 1);
	EXPECT(rio_spin_may(&s, ended_ns, ended_ns));
	rio_spin_yielded(&s, 1000 * US, ended_ns);
	EXPECT(!rio_spin_may(&s, ended_ns, ended_ns));
	EXPECT(!rio_spin_may(&s, again_ns - 1, again_ns - 1));
	EXPECT(rio_spin_may(&s, again_ns, again_ns));
}

TEST(test_rio_02_a_role_that_is_to_look_for_long_looks_on_after_a_yield)
{
	struct rio_spin s = { .spin_ns = RIO_YIELD_LONG_NS + 1 };

	rio_spin_yielded(&s, 1000 * US, 1000 * US + RIO_YIELD_LONG_NS);
	EXPECT(rio_spin_may(&s, 2000 * US, 2000 * US));
}
