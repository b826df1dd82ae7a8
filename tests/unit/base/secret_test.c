/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/secret.h"

/* From the authors' vectors: key 00..0f, message 00..07. Words are little-endian. */
TEST(test_secret_siphash_is_the_published_one)
{
	const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };

	EXPECT_EQ(siphash_u64(key, UINT64_C(0x0706050403020100)), UINT64_C(0x93f5f5799a932462));
}

TEST(test_secret_next_goes_on_and_depends_on_both_halves_of_the_key)
{
	struct secret a = { .key = { 1, 2 } }, same = { .key = { 1, 2 } };
	struct secret low = { .key = { 3, 2 } }, high = { .key = { 1, 3 } };
	uint64_t before = 0;

	for (uint32_t i = 0; i < 100; i++) {
		uint64_t x = secret_next(&a);

		EXPECT(x == secret_next(&same));
		EXPECT(x != secret_next(&low));
		EXPECT(x != secret_next(&high));
		EXPECT(x != before);
		before = x;
	}
	EXPECT_EQ(a.counter, 100);
}
