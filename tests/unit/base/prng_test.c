/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/prng.h"

/* splitmix64 as published: the first numbers of seed 1234567. Seeds in bug reports rely on it. */
TEST(test_prng_is_splitmix64)
{
	static const uint64_t expected[5] = {
		UINT64_C(6457827717110365317),	UINT64_C(3203168211198807973),
		UINT64_C(9817491932198370423),	UINT64_C(4593380528125082431),
		UINT64_C(16408922859458223821),
	};
	struct prng p = { .state = 1234567 };

	for (int i = 0; i < 5; i++)
		EXPECT(prng_next(&p) == expected[i]);
}

TEST(test_prng_below_stays_below_and_reaches_all)
{
	struct prng p = { .state = 3 };

	for (uint32_t bound = 1; bound < 40; bound++) {
		uint64_t seen = 0;

		for (int i = 0; i < 4000; i++) {
			uint32_t x = prng_below(&p, bound);

			EXPECT(x < bound);
			seen |= UINT64_C(1) << x;
		}
		EXPECT(seen == (UINT64_C(1) << bound) - 1);
	}
	for (int i = 0; i < 1000; i++)
		EXPECT(prng_below(&p, UINT32_MAX) < UINT32_MAX);
}

TEST(test_prng_chance_is_about_as_asked)
{
	struct prng p = { .state = 4 };
	int never = 0, quarter = 0, always = 0;

	for (int i = 0; i < 100000; i++) {
		never += prng_chance(&p, 0);
		quarter += prng_chance(&p, 250000);
		always += prng_chance(&p, 1000000);
	}
	EXPECT_EQ(never, 0);
	EXPECT_EQ(always, 100000);
	EXPECT(quarter > 24000 && quarter < 26000);
}
