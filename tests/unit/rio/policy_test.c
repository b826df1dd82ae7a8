/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/policy.h"

#include <string.h>

#include "test.h"

enum { KIB = 1024, READ = 1 << SGL_READ, WRITE = 1 << SGL_WRITE, FLUSH = 1 << SGL_FLUSH };

static const uint8_t disk[] = "a", other_disk[] = "b";
static struct rio_policy policy;

static void allow(struct rio_rule rule)
{
	REQUIRE(rio_policy_add(&policy, &rule) == WEFT_OK);
}

/* The rule that allows it; -1: none does. */
static int judge(struct rio_wish w)
{
	uint32_t rule = UINT32_MAX;
	enum weft_reason r = rio_policy_judge(&policy, &w, &rule);

	if (r == WEFT_OK)
		return (int)rule;
	return r == WEFT_R_RIO_DENIED && rule == UINT32_MAX ? -1 : -2;
}

TEST(test_rio_03_what_no_rule_allows_is_denied)
{
	struct rio_wish w = { .requester = { 7, 1 },
			      .device.name = { disk, 1 },
			      .operation = SGL_READ,
			      .length = 512 };

	policy.count = 0;
	EXPECT_EQ(judge(w), -1);
	allow((struct rio_rule){ .requester = { 8, 0 }, .operations = READ });
	allow((struct rio_rule){ .requester = { 7, 2 }, .operations = READ });
	allow((struct rio_rule){
		.requester = { 7, 1 }, .name = "b", .name_bytes = 1, .operations = READ });
	allow((struct rio_rule){ .requester = { 7, 1 }, .operations = WRITE });
	EXPECT_EQ(judge(w), -1);
	allow((struct rio_rule){
		.requester = { 7, 1 }, .name = "a", .name_bytes = 1, .operations = READ });
	EXPECT_EQ(judge(w), 4);
}

TEST(test_rio_04_a_rule_may_be_for_a_whole_unit_for_all_and_for_every_device)
{
	struct rio_wish w = { .requester = { 7, 3 },
			      .device.name = { disk, 1 },
			      .operation = SGL_WRITE };

	policy.count = 0;
	allow((struct rio_rule){
		.requester = { 7, 0 }, .name = "a", .name_bytes = 1, .operations = READ | WRITE });
	EXPECT_EQ(judge(w), 0);
	w.requester.unit = 9;
	EXPECT_EQ(judge(w), -1);
	allow((struct rio_rule){ .operations = WRITE });
	EXPECT_EQ(judge(w), 1);
	/* Without a unit its process means nothing. */
	policy.count = 0;
	allow((struct rio_rule){
		.requester = { 0, 4 }, .name = "a", .name_bytes = 1, .operations = WRITE });
	EXPECT_EQ(judge(w), 0);
}

TEST(test_rio_03_a_range_is_allowed_whole_or_not)
{
	static const struct {
		uint64_t offset, length;
		int rule;
	} asked[] = {
		{ 4 * KIB, 4 * KIB, 0 },     { 4 * KIB, 0, 0 },
		{ 8 * KIB, 0, 0 },	     { 4 * KIB - 1, 512, -1 },
		{ 0, 4 * KIB, -1 },	     { 7 * KIB, KIB, 0 },
		{ 7 * KIB, KIB + 1, -1 },    { 8 * KIB, 1, -1 },
		{ 4 * KIB, UINT64_MAX, -1 }, { UINT64_MAX, UINT64_MAX, -1 },
		{ UINT64_MAX - 1, 1, 1 },    { 1 << 20, UINT64_MAX - (1 << 20), 1 },
		{ 1 << 20, UINT64_MAX, -1 },
	};

	policy.count = 0;
	allow((struct rio_rule){ .operations = READ, .first = 4 * KIB, .length = 4 * KIB });
	allow((struct rio_rule){ .operations = READ, .first = 1 << 20 });
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		EXPECT_EQ(judge((struct rio_wish){ .requester = { 7, 1 },
						   .operation = SGL_READ,
						   .offset = asked[i].offset,
						   .length = asked[i].length }),
			  asked[i].rule);
	}
}

TEST(test_rio_03_a_flush_needs_a_rule_for_some_part_of_the_device)
{
	struct rio_wish w = { .requester = { 7, 1 },
			      .device.name = { disk, 1 },
			      .operation = SGL_FLUSH };

	policy.count = 0;
	allow((struct rio_rule){
		.name = "a", .name_bytes = 1, .operations = WRITE, .first = 512, .length = 512 });
	EXPECT_EQ(judge(w), -1);
	allow((struct rio_rule){
		.name = "a", .name_bytes = 1, .operations = FLUSH, .first = 512, .length = 512 });
	EXPECT_EQ(judge(w), 1);
}

TEST(test_rio_03_rules_that_mean_nothing_are_refused)
{
	struct rio_rule rule = { .first = 0 };

	policy.count = 0;
	EXPECT_EQ(rio_policy_add(&policy, &rule), WEFT_R_BAD_ARGUMENT);
	rule.operations = 1U << SGL_OPERATION_COUNT;
	EXPECT_EQ(rio_policy_add(&policy, &rule), WEFT_R_BAD_ARGUMENT);
	rule.operations = 1U;
	EXPECT_EQ(rio_policy_add(&policy, &rule), WEFT_R_BAD_ARGUMENT);
	rule = (struct rio_rule){ .operations = READ, .first = 1, .length = UINT64_MAX };
	EXPECT_EQ(rio_policy_add(&policy, &rule), WEFT_R_BAD_ARGUMENT);
	rule.first = 0;
	for (int i = 0; i < RIO_POLICY_RULES_MAX; i++)
		REQUIRE(rio_policy_add(&policy, &rule) == WEFT_OK);
	EXPECT_EQ(rio_policy_add(&policy, &rule), WEFT_R_LIMIT);
	EXPECT_EQ(policy.count, (uint32_t)RIO_POLICY_RULES_MAX);
}

/* ---- Whose memory (MEM-13) ------------------------------------------------------------------ */

static void share(struct platform requester, struct platform platform)
{
	struct rio_share s = { requester, platform };

	REQUIRE(rio_policy_add_share(&policy, &s) == WEFT_OK);
}

static bool may_name(struct platform requester, struct platform platform)
{
	return rio_policy_may_name(&policy, requester, platform);
}

TEST(test_mem_13_memory_of_others_is_named_only_if_a_share_says_so)
{
	const struct platform a = { 7, 1 }, b = { 8, 1 }, c = { 8, 2 }, d = { 9, 1 };

	policy.count = policy.share_count = 0;
	allow((struct rio_rule){ .operations = READ });
	EXPECT(may_name(a, a));
	EXPECT(!may_name(a, b));
	share(a, b);
	EXPECT(may_name(a, b));
	EXPECT(!may_name(b, a));
	EXPECT(!may_name(a, c));
	EXPECT(!may_name((struct platform){ 7, 2 }, b));
	share((struct platform){ 7, 0 }, (struct platform){ 8, 0 });
	EXPECT(may_name(a, c));
	EXPECT(may_name((struct platform){ 7, 2 }, b));
	EXPECT(!may_name(a, d));
	EXPECT(!may_name(d, a));
	share((struct platform){ 0, 0 }, d);
	EXPECT(may_name(c, d));
}

TEST(test_mem_13_shares_that_mean_nothing_are_refused)
{
	struct rio_share s = { .requester = { 7, 1 } };

	policy.share_count = 0;
	EXPECT_EQ(rio_policy_add_share(&policy, &s), WEFT_R_BAD_ARGUMENT);
	s.platform.unit = 8;
	for (int i = 0; i < RIO_POLICY_SHARES_MAX; i++)
		REQUIRE(rio_policy_add_share(&policy, &s) == WEFT_OK);
	EXPECT_EQ(rio_policy_add_share(&policy, &s), WEFT_R_LIMIT);
	policy.share_count = 0;
}

TEST(test_rio_03_who_meets_whom_follows_from_rules_and_shares)
{
	const struct platform q = { 7, 1 }, other = { 8, 1 };
	const struct rio_target known = { 3, { 2, 1 }, { disk, 1 } },
				unknown = { 3, { 2, 1 }, { other_disk, 1 } };

	policy.count = policy.share_count = 0;
	allow((struct rio_rule){
		.requester = q, .name = "a", .name_bytes = 1, .operations = READ, .length = 1 });
	EXPECT(rio_policy_may_touch(&policy, q, &known));
	EXPECT(!rio_policy_may_touch(&policy, q, &unknown));
	EXPECT(!rio_policy_may_touch(&policy, other, &known));
	EXPECT(rio_policy_may_meet(&policy, q, &known));
	EXPECT(!rio_policy_may_meet(&policy, other, &known));
	share((struct platform){ 6, 0 }, other); /* who has no rule */
	EXPECT(!rio_policy_may_meet(&policy, other, &known));
	share((struct platform){ 7, 0 }, other);
	EXPECT(rio_policy_may_meet(&policy, other, &known));
	EXPECT(!rio_policy_may_meet(&policy, other, &unknown));
	EXPECT(!rio_policy_may_touch(&policy, other, &known));
	policy.share_count = 0;
}

TEST(test_rio_03_a_rule_may_name_the_device_and_whose_it_is)
{
	static const uint8_t name[] = "disk";
	struct rio_rule rule = { .iounit = { 2, 1 }, .name_bytes = 4, .operations = READ };
	struct rio_wish w = { .requester = { 7, 1 },
			      .device = { 9, { 2, 1 }, { name, 4 } },
			      .operation = SGL_READ,
			      .length = 512 };

	policy.count = 0;
	memcpy(rule.name, name, 4);
	allow(rule);
	EXPECT_EQ(judge(w), 0);
	w.device.iounit.unit = 3;
	EXPECT_EQ(judge(w), -1);
	w.device.iounit.unit = 2;
	w.device.name.length = 3; /* only the beginning of it */
	EXPECT_EQ(judge(w), -1);
	w.device.name = (struct rio_bytes){ (const uint8_t *)"disc", 4 };
	EXPECT_EQ(judge(w), -1);
}

TEST(test_rio_03_only_named_requesters_watch)
{
	const struct platform a = { 7, 1 }, b = { 7, 2 }, c = { 8, 1 };

	policy.watcher_count = 0;
	EXPECT(!rio_policy_may_watch(&policy, a));
	REQUIRE(rio_policy_add_watcher(&policy, a) == WEFT_OK);
	EXPECT(rio_policy_may_watch(&policy, a) && !rio_policy_may_watch(&policy, b));
	REQUIRE(rio_policy_add_watcher(&policy, (struct platform){ 7, 0 }) == WEFT_OK);
	EXPECT(rio_policy_may_watch(&policy, b) && !rio_policy_may_watch(&policy, c));
	while (policy.watcher_count < RIO_POLICY_WATCHERS_MAX)
		REQUIRE(rio_policy_add_watcher(&policy, a) == WEFT_OK);
	EXPECT_EQ(rio_policy_add_watcher(&policy, a), WEFT_R_LIMIT);
	policy.watcher_count = 0;
	REQUIRE(rio_policy_add_watcher(&policy, (struct platform){ 0 }) == WEFT_OK);
	EXPECT(rio_policy_may_watch(&policy, c));
}
