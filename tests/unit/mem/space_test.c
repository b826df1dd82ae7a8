/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

static struct gate g;

static void space_init(struct weft_space *s, uint32_t mappings_max)
{
	const struct weft_space_options o = { .memory = g.memory,
					      .size_bytes = GATE_BYTES,
					      .mappings_max = mappings_max };

	REQUIRE(mem_space_init(s, &o) == WEFT_OK);
}

TEST(test_space_bad_options_are_refused)
{
	struct weft_space s;
	const struct weft_space_options good = { .memory = g.memory,
						 .size_bytes = 64,
						 .mappings_max = 1 };
	struct weft_space_options o = good;

	o.memory = NULL;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_NULL_ARGUMENT);
	for (int i = 1; i < 8; i++) {
		o.memory = &g.memory[i];
		EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	}
	o = good;
	o.size_bytes = 0;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o = good;
	o.mappings_max = 0;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o.mappings_max = UINT32_MAX;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_init(&s, &good), WEFT_OK);
	mem_space_fini(&s);
}

TEST(test_space_process_is_flat)
{
	struct weft_space s;
	uint64_t real, run;

	mem_space_init_process(&s);
	EXPECT_EQ(mem_space_translate(&s, 0x1234, 1 << 30, &real, &run), WEFT_OK);
	EXPECT(real == 0x1234 && run == 1 << 30);
	EXPECT(mem_space_byte(&s, gate_addr(&g, 5)) == &g.memory[5]);
	EXPECT_EQ(mem_space_map(&s, 0, 1, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_unmap(&s, 0), WEFT_R_SPACE_MAPPING);
}

/* No process has memory at NULL, nor in the upper half of the addresses. */
TEST(test_rkey_02b_process_space_ends_where_processes_end)
{
	static const uint64_t top = UINT64_C(1) << 56;
	static const struct {
		uint64_t addr, length;
		bool is_good;
	} cases[] = {
		{ 0, 1, false },
		{ 4095, 2, false },
		{ 4096, 1, true },
		{ top - 1, 1, true },
		{ top - 1, 2, false },
		{ top, 1, false },
		{ 4096, top - 4096, true },
		{ 4096, top - 4095, false },
		{ UINT64_MAX, 1, false },
	};
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct weft_region_options o = { .addr = cases[i].addr,
						       .length = cases[i].length };

		EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag),
			  cases[i].is_good ? WEFT_OK : WEFT_R_REG_SPACE);
	}
	gate_fini(&g);
}

TEST(test_space_segments_do_not_overlap)
{
	struct weft_space s;

	space_init(&s, 8);
	EXPECT_EQ(mem_space_map(&s, 100, 50, 0), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, 100, 50, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 100, 1, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 149, 1, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 99, 2, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, 1000, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 150, 10, 0), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, 90, 10, 0), WEFT_OK);
	EXPECT_EQ(s.mapping_count, 3);
	mem_space_fini(&s);
}

TEST(test_space_bad_segments_are_refused)
{
	struct weft_space s;

	space_init(&s, 3);
	EXPECT_EQ(mem_space_map(&s, 0, 0, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, UINT64_MAX, 2, 0), WEFT_R_REG_WRAP);
	EXPECT_EQ(mem_space_map(&s, 0, 1, GATE_BYTES), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, GATE_BYTES, 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, 1, GATE_BYTES + 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, 1, UINT64_MAX - 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, UINT64_MAX, 1, 0), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, 0, GATE_BYTES, 0), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, UINT64_MAX - 9, 9, WEFT_REAL_NONE), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, 1 << 30, 1, 0), WEFT_R_LIMIT);
	EXPECT_EQ(mem_space_unmap(&s, 1), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_space_unmap(&s, UINT64_MAX), WEFT_OK);
	EXPECT_EQ(mem_space_unmap(&s, UINT64_MAX), WEFT_R_SPACE_MAPPING);
	mem_space_fini(&s);
}

TEST(test_space_check_walks_all_segments_of_a_range)
{
	struct weft_space s;
	uint64_t real, run;

	space_init(&s, 8);
	REQUIRE(mem_space_map(&s, 1000, 100, 500) == WEFT_OK);
	REQUIRE(mem_space_map(&s, 1100, 100, 0) == WEFT_OK);
	REQUIRE(mem_space_map(&s, 1200, 100, WEFT_REAL_NONE) == WEFT_OK);
	EXPECT_EQ(mem_space_check(&s, 1000, 200, true), WEFT_OK);
	EXPECT_EQ(mem_space_check(&s, 1000, 201, true), WEFT_R_SPACE_UNMAPPED);
	EXPECT_EQ(mem_space_check(&s, 1000, 300, false), WEFT_OK);
	EXPECT_EQ(mem_space_check(&s, 1000, 301, false), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_space_check(&s, 999, 2, true), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_space_check(&s, 1300, 1, true), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_space_translate(&s, 1050, 200, &real, &run), WEFT_OK);
	EXPECT(real == 550 && run == 50);
	EXPECT_EQ(mem_space_translate(&s, 1100, 10, &real, &run), WEFT_OK);
	EXPECT(real == 0 && run == 10);
	mem_space_fini(&s);
}

/* Random segments of 1 to 8 addresses against an array that knows the real address of each. */
TEST(test_space_random_segments_agree_with_an_array)
{
	enum { ADDRS = 200, NONE = -1, MISSING = -2 };
	struct prng p = { .state = 9 };
	struct weft_space s;
	int reals[ADDRS], starts[ADDRS] = { 0 };

	space_init(&s, 32);
	for (int i = 0; i < ADDRS; i++)
		reals[i] = MISSING;
	for (int round = 0; round < 20000; round++) {
		uint32_t at = prng_below(&p, ADDRS - 8), length = 1 + prng_below(&p, 8);
		uint32_t real = prng_below(&p, 1000);
		uint64_t to = prng_below(&p, 4) ? real : WEFT_REAL_NONE, got = 0, run = 0;
		bool is_free = true;

		for (uint32_t i = at; i < at + length; i++)
			is_free = is_free && reals[i] == MISSING;
		if (prng_below(&p, 2)) {
			enum weft_reason r = mem_space_map(&s, at, length, to);

			EXPECT(is_free ? r == WEFT_OK || s.mapping_count == 32 : r != WEFT_OK);
			for (uint32_t i = 0; r == WEFT_OK && i < length; i++)
				reals[at + i] = to == WEFT_REAL_NONE ? NONE : (int)(real + i);
			if (r == WEFT_OK)
				starts[at] = (int)length;
		} else {
			EXPECT_EQ(mem_space_unmap(&s, at),
				  starts[at] ? WEFT_OK : WEFT_R_SPACE_MAPPING);
			for (uint32_t i = 0; i < (uint32_t)starts[at]; i++)
				reals[at + i] = MISSING;
			starts[at] = 0;
		}
		EXPECT_EQ(mem_space_translate(&s, at, 1, &got, &run),
			  reals[at] == MISSING ? WEFT_R_SPACE_MAPPING
			  : reals[at] == NONE  ? WEFT_R_SPACE_UNMAPPED
					       : WEFT_OK);
		if (reals[at] >= 0)
			EXPECT(got == (uint64_t)reals[at] && run == 1);
	}
	mem_space_fini(&s);
}
