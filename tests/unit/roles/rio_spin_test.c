/* SPDX-License-Identifier: BSD-2-Clause */
/* When a role looks for what comes, and when it sleeps: docs/rio.md, Latency. */
#include "roles/rio_spin.h"

#include "base/least.h"
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

static void came(struct rio_spin *s, uint32_t times, uint64_t idle_ns)
{
	for (uint32_t i = 0; i < times; i++)
		rio_spin_came(s, idle_ns);
}

/* Traffic is looked for; once it has ended, it is not. */
TEST(test_rio_02_a_role_that_learns_looks_while_that_pays)
{
	struct rio_spin s = { .spin_ns = 50 * US, .is_learning = true };

	EXPECT(!rio_spin_may(&s, 1000 * US, 1000 * US));
	came(&s, RIO_SPIN_GAIN - 1, 50 * US - 1);
	EXPECT(!rio_spin_may(&s, 1000 * US, 1000 * US));
	came(&s, 1, 50 * US - 1);
	EXPECT(rio_spin_may(&s, 1000 * US, 1050 * US - 1));
	EXPECT(!rio_spin_may(&s, 1000 * US, 1050 * US));
	came(&s, 1000, 0); /* however long it was */
	came(&s, (RIO_SPIN_GAIN_MAX - RIO_SPIN_GAIN) / RIO_SPIN_LOSS, 50 * US);
	EXPECT(rio_spin_may(&s, 1000 * US, 1000 * US));
	came(&s, 1, 50 * US);
	EXPECT(!rio_spin_may(&s, 1000 * US, 1000 * US));
}

/* It tries ever more seldom; and anew where the processor was free for a while. */
TEST(test_rio_02_a_role_that_learns_tries_seldom_on_a_busy_machine)
{
	const uint64_t first_ns = (uint64_t)RIO_SPIN_PAUSE * RIO_YIELD_LONG_NS;
	struct rio_spin s = { .spin_ns = 50 * US, .is_learning = true };
	uint64_t now_ns = 1000 * US, pause_ns = first_ns;

	for (int i = 0; i < 20; i++) {
		rio_spin_yielded(&s, now_ns, now_ns + RIO_YIELD_LONG_NS);
		EXPECT_EQ(s.paused_until, now_ns + RIO_YIELD_LONG_NS + pause_ns);
		now_ns = s.paused_until + pause_ns - 1;
		pause_ns = least(2 * pause_ns, RIO_SPIN_PAUSE_MAX_NS);
	}
	EXPECT_EQ(pause_ns, RIO_SPIN_PAUSE_MAX_NS);
	now_ns = s.paused_until + s.pause_ns;
	rio_spin_yielded(&s, now_ns, now_ns + RIO_YIELD_LONG_NS);
	EXPECT_EQ(s.paused_until, now_ns + RIO_YIELD_LONG_NS + first_ns);
}

/* Of a request now and then, with its answer soon after it, half is late. */
TEST(test_rio_02_a_role_that_learns_does_not_look_between_rare_requests)
{
	struct rio_spin s = { .spin_ns = 50 * US, .is_learning = true };

	for (int i = 0; i < 1000; i++) {
		came(&s, 1, 1000000 * US);
		EXPECT(!rio_spin_may(&s, 1000 * US, 1000 * US));
		came(&s, RIO_SPIN_LOSS, 20 * US);
		EXPECT(!rio_spin_may(&s, 1000 * US, 1000 * US));
	}
}
