/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/platform.h"

#include "test.h"

TEST(test_rio_14_a_platform_is_written_as_two_numbers)
{
	static const struct {
		const char *text;
		struct platform is;
	} cases[] = { { "7.1", { 7, 1 } },
		      { "1.0", { 1, 0 } },
		      { "10.20", { 10, 20 } },
		      { "4294967295.4294967295", { UINT32_MAX, UINT32_MAX } } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct platform p = { 0 };

		EXPECT(platform_parse(cases[i].text, &p));
		EXPECT(platform_is_same(p, cases[i].is));
	}
}

TEST(test_rio_14_what_is_not_two_numbers_is_no_platform)
{
	static const char *const texts[] = { "",
					     "7",
					     ".",
					     "7.",
					     ".1",
					     "0.1",
					     "0.0",
					     "7.1.",
					     "7.1.2",
					     "7..1",
					     "-7.1",
					     "+7.1",
					     "7.-1",
					     "7.+1",
					     " 7.1",
					     "7.1 ",
					     "7 .1",
					     "7. 1",
					     "7.1\n",
					     "\t7.1",
					     "07.1",
					     "7.01",
					     "7.00",
					     "7,1",
					     "0x7.1",
					     "7.0x1",
					     "7.1a",
					     "a7.1",
					     "7e0.1",
					     "4294967296.1",
					     "7.4294967296",
					     "18446744073709551623.1",
					     "7.18446744073709551617",
					     "99999999999999999999999999999999.1" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct platform p = { 5, 6 };

		EXPECT(!platform_parse(texts[i], &p));
		EXPECT(p.unit == 5 && p.process == 6);
	}
}
