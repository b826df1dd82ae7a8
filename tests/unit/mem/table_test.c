/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

#include <stdlib.h>

static struct gate g;

static void gate_init_secret(uint32_t tags_max, uint64_t low, uint64_t high)
{
	const struct mem_limits limits = {
		.tags_max = tags_max,
		.translations_max = 1,
		.pds_max = PDS_MAX,
		.qps_max = QPS_MAX,
		.secret = { low, high },
	};

	gate_init_limits(&g, &limits);
}

TEST(test_mem_02_table_gives_out_every_index_once_then_is_full)
{
	enum { TAGS = 100 };
	bool seen[TAGS + 1] = { false };
	uint32_t tags[TAGS], extra = 5;

	gate_init_secret(TAGS, 1, 2);
	for (uint32_t i = 0; i < TAGS; i++) {
		tags[i] = gate_window(&g);
		EXPECT(weft_tag_index(tags[i]) >= 1 && weft_tag_index(tags[i]) <= TAGS);
		EXPECT(!seen[weft_tag_index(tags[i])]);
		seen[weft_tag_index(tags[i])] = true;
	}
	EXPECT_EQ(g.table.free_count, 0);
	EXPECT_EQ(mem_window_alloc(&g.table, PD_OWN, &extra), WEFT_R_TABLE_FULL);
	EXPECT_EQ(mem_tag_reserve(&g.table, PD_OWN, &extra), WEFT_R_TABLE_FULL);
	EXPECT_EQ(extra, 5);
	REQUIRE(mem_window_free(&g.table, PD_OWN, tags[50]) == WEFT_OK);
	extra = gate_window(&g);
	EXPECT_EQ(weft_tag_index(extra), weft_tag_index(tags[50]));
	EXPECT(extra != tags[50]);
	gate_fini(&g);
}

TEST(test_mem_01_full_table_refuses_regions_and_keeps_translations)
{
	uint64_t page = gate_addr(&g, 0);
	const struct weft_page_list list = { .pages = &page,
					     .count = 1,
					     .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = 64, .pages = &list };
	uint32_t region, tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	while (g.table.free_count > 0)
		(void)gate_window(&g);
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_R_TABLE_FULL);
	EXPECT_EQ(g.table.atts.used, 0);
	EXPECT_EQ(g.process.users, 1);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, region, &o, &tag), WEFT_R_TABLE_FULL);
	EXPECT_EQ(g.process.users, 1);
	gate_fini(&g);
}

/* How often the next index is one more or one less than the one before. */
static uint32_t steps_of_one(const uint32_t *indices, uint32_t count)
{
	uint32_t steps = 0;

	for (uint32_t i = 1; i < count; i++)
		steps += indices[i] - indices[i - 1] == 1 || indices[i - 1] - indices[i] == 1;
	return steps;
}

TEST(test_tags_cannot_be_foreseen)
{
	enum { TAGS = 4096, DRAWN = 1000, SECRETS = 4 };
	static const uint64_t secrets[SECRETS][2] = { { 0, 0 }, { 1, 0 }, { 0, 1 }, { 1, 1 } };
	static uint32_t drawn[SECRETS][DRAWN];

	for (uint32_t s = 0; s < SECRETS; s++) {
		uint32_t ascending = 0, instances = 0;

		gate_init_secret(TAGS, secrets[s][0], secrets[s][1]);
		for (uint32_t i = 0; i < DRAWN; i++) {
			uint32_t tag = gate_window(&g);

			drawn[s][i] = weft_tag_index(tag);
			instances += weft_tag_instance(tag) != 0;
			ascending += i > 0 && drawn[s][i] > drawn[s][i - 1];
		}
		EXPECT(steps_of_one(drawn[s], DRAWN) < DRAWN / 50);
		EXPECT(ascending > DRAWN / 3 && ascending < DRAWN * 2 / 3);
		EXPECT(instances > DRAWN * 9 / 10); /* the first instance is drawn too */
		gate_fini(&g);
		for (uint32_t other = 0; other < s; other++) {
			uint32_t same = 0;

			for (uint32_t i = 0; i < DRAWN; i++)
				same += drawn[s][i] == drawn[other][i];
			EXPECT(same < DRAWN / 50);
		}
	}
}

TEST(test_tags_same_secret_same_tags)
{
	uint32_t tags[50];

	gate_init_secret(64, 3, 4);
	for (uint32_t i = 0; i < 50; i++)
		tags[i] = gate_window(&g);
	gate_fini(&g);
	gate_init_secret(64, 3, 4);
	for (uint32_t i = 0; i < 50; i++)
		EXPECT_EQ(gate_window(&g), tags[i]);
	gate_fini(&g);
}

/* A table in random use against the test's own list; occupancy ends as it began. */
TEST(test_mem_10_occupancy_returns_to_its_start)
{
	enum { TAGS = 50, ROUNDS = 40000 };
	struct prng p = { .state = 44 };
	uint32_t live[TAGS], count = 0;
	bool is_used[TAGS + 1] = { false };

	gate_init_secret(TAGS, 7, 7);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t tag;

		if (prng_below(&p, 2)) {
			enum weft_reason r = mem_tag_reserve(&g.table, PD_OWN, &tag);

			EXPECT_EQ(r, count < TAGS ? WEFT_OK : WEFT_R_TABLE_FULL);
			if (r != WEFT_OK)
				continue;
			EXPECT(!is_used[weft_tag_index(tag)]);
			is_used[weft_tag_index(tag)] = true;
			live[count++] = tag;
		} else if (count > 0) {
			uint32_t at = prng_below(&p, count);

			REQUIRE(mem_tag_release(&g.table, PD_OWN, live[at]) == WEFT_OK);
			EXPECT(mem_tag_release(&g.table, PD_OWN, live[at]) != WEFT_OK);
			is_used[weft_tag_index(live[at])] = false;
			live[at] = live[--count];
		}
		EXPECT_EQ(g.table.free_count, TAGS - count);
		EXPECT_EQ(mem_table_pd_tags(&g.table, PD_OWN), count);
	}
	while (count > 0)
		REQUIRE(mem_tag_release(&g.table, PD_OWN, live[--count]) == WEFT_OK);
	EXPECT_EQ(g.table.free_count, TAGS);
	EXPECT_EQ(mem_table_pd_tags(&g.table, PD_OWN), 0);
	gate_fini(&g);
}

/* A large table costs nothing until it is used, and its last index works. */
TEST(test_mem_02_table_of_all_tags)
{
	uint32_t highest = 0;

	gate_init_secret(MEM_TAGS_MAX - 1, 5, 5);
	for (int i = 0; i < 1000; i++) {
		uint32_t tag = gate_region(&g, 0, 64, RIGHTS_ALL);

		highest = tag > highest ? tag : highest;
		EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_OK);
	}
	EXPECT(weft_tag_index(highest) > MEM_TAGS_MAX / 2);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, UINT32_MAX, 0, 64), WEFT_R_TAG_INVALID);
	gate_fini(&g);
}

TEST(test_table_entry_is_one_cache_line)
{
	gate_init_secret(10, 1, 1);
	EXPECT_EQ(sizeof(struct mem_entry), 64);
	EXPECT_EQ((uintptr_t)g.table.entries % 64, 0);
	gate_fini(&g);
}

TEST(test_table_traces_tags_that_come_and_go)
{
	struct trace trace;
	uint32_t region, window;

	REQUIRE(trace_init(&trace, 16) == 0);
	gate_init(&g, WEFT_POLICY_OPEN);
	g.table.trace = &trace;
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 32, WEFT_REMOTE_READ);
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, window) == WEFT_OK);
	EXPECT_EQ(trace.count, 3);
	EXPECT_EQ(trace_at(&trace, 0)->kind, TRACE_TAG_MADE);
	EXPECT_EQ(trace_at(&trace, 0)->a, region);
	EXPECT_EQ(trace_at(&trace, 0)->b, 64);
	EXPECT_EQ(trace_at(&trace, 0)->who, PD_OWN);
	EXPECT_EQ(trace_at(&trace, 1)->a, window);
	EXPECT_EQ(trace_at(&trace, 1)->b, 32);
	EXPECT_EQ(trace_at(&trace, 2)->kind, TRACE_TAG_GONE);
	EXPECT_EQ(trace_at(&trace, 2)->a, window);
	gate_fini(&g);
	trace_fini(&trace);
}
