/* SPDX-License-Identifier: BSD-2-Clause */
/* Reserved tags: registration through a send queue, as the table sees it. */
#include "mem_fixture.h"

static struct gate g;

static uint32_t reserve(void)
{
	uint32_t tag;

	REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &tag) == WEFT_OK);
	return tag;
}

static enum weft_reason fill(uint32_t tag)
{
	const struct weft_region_options o = { .addr = gate_addr(&g, 0),
					       .length = 64,
					       .rights = RIGHTS_ALL };

	return mem_region_register_reserved(&g.table, &g.owner, &o, tag);
}

TEST(test_sqr_04b_tag_must_point_at_a_reserved_entry_of_the_domain)
{
	const struct weft_region_options spent = { .addr = gate_addr(&g, 0),
						   .length = 64,
						   .is_one_touch = true };
	uint32_t tag, region, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = reserve();
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_window(&g);
	EXPECT_EQ(fill(0), WEFT_R_SQR_ENTRY);
	EXPECT_EQ(fill(UINT32_MAX), WEFT_R_SQR_ENTRY);
	EXPECT_EQ(fill(region), WEFT_R_SQR_ENTRY);
	EXPECT_EQ(fill(window), WEFT_R_SQR_ENTRY);
	g.owner.pd = PD_OTHER;
	EXPECT_EQ(fill(tag), WEFT_R_SQR_ENTRY);
	g.owner.pd = PD_OWN;
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(fill(tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_OK);
	EXPECT_EQ(fill(tag), WEFT_R_SQR_ENTRY); /* once */
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_OK);
	/* An ordinary region whose one touch is over is not valid, but not reserved for this. */
	REQUIRE(mem_region_register(&g.table, &g.owner, &spent, &tag) == WEFT_OK);
	mem_touch_message(&g.table, tag);
	EXPECT_EQ(fill(tag), WEFT_R_SQR_ENTRY);
	gate_fini(&g);
}

TEST(test_sqr_04c_tag_instance_must_be_the_reserved_one)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = reserve();
	for (uint32_t x = 1; x < 256; x++)
		EXPECT_EQ(fill(tag ^ x), WEFT_R_SQR_INSTANCE);
	EXPECT_EQ(fill(tag), WEFT_OK);
	gate_fini(&g);
}

TEST(test_sqr_04d_no_room_leaves_the_tag_reserved)
{
	static uint64_t pages[GATE_TRANSLATIONS];
	struct weft_page_list list = { .pages = pages, .page_size_bytes = GATE_PAGE };
	struct weft_region_options o = { .rights = RIGHTS_ALL, .pages = &list };
	struct gate_use before;
	uint32_t tag, big;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = reserve();
	before = gate_use(&g);
	list.count = GATE_TRANSLATIONS; /* but one block is the root's */
	o.length = (uint64_t)list.count * GATE_PAGE;
	EXPECT_EQ(mem_region_register_reserved(&g.table, &g.owner, &o, tag), WEFT_R_SQR_SPACE);
	EXPECT(gate_use_is(&g, before));
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_R_TAG_INVALID);
	/* Another region uses the translations; once they are free, the same tag works. */
	list.count = GATE_TRANSLATIONS - ATT_BLOCK_ENTRIES;
	o.length = (uint64_t)list.count * GATE_PAGE;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &big) == WEFT_OK);
	list.count = 1;
	o.length = 1;
	EXPECT_EQ(mem_region_register_reserved(&g.table, &g.owner, &o, tag), WEFT_R_SQR_SPACE);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, big) == WEFT_OK);
	EXPECT_EQ(mem_region_register_reserved(&g.table, &g.owner, &o, tag), WEFT_OK);
	gate_fini(&g);
}

TEST(test_sqr_04_bad_options_leave_the_tag_reserved)
{
	struct weft_region_options o = { .addr = gate_addr(&g, 0), .rights = RIGHTS_ALL };
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = reserve();
	EXPECT_EQ(mem_region_register_reserved(&g.table, &g.owner, &o, tag), WEFT_R_REG_LENGTH);
	o.length = 64;
	EXPECT_EQ(mem_region_register_reserved(&g.table, &g.owner, &o, tag), WEFT_OK);
	gate_fini(&g);
}

TEST(test_reserved_tags_are_given_back_by_their_owner)
{
	struct gate_use before;
	uint32_t tag, window, region;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	tag = reserve();
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OTHER, tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, tag ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, tag), WEFT_R_TAG_INVALID);
	EXPECT(gate_use_is(&g, before));
	tag = reserve();
	REQUIRE(fill(tag) == WEFT_OK);
	window = gate_bound(&g, tag, 0, 64, WEFT_REMOTE_READ);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, tag), WEFT_R_REGION_HAS_WINDOWS);
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, window) == WEFT_OK);
	REQUIRE(mem_window_free(&g.table, PD_OWN, window) == WEFT_OK);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, tag), WEFT_OK);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, region), WEFT_R_INVALIDATE_REGION);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, region) == WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* SQR-09, SQR-10: a peer's invalidation frees what a send queue made, and nothing else. */
TEST(test_sqr_09_sqr_10_invalidation_frees_only_what_a_queue_registered)
{
	struct gate_use before;
	uint32_t tag, region;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	before = gate_use(&g);
	tag = reserve();
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag), WEFT_R_TAG_INVALID);
	REQUIRE(fill(tag) == WEFT_OK);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OTHER, QP_OWN, tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, UINT32_MAX), WEFT_R_TAG_INDEX);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, region), WEFT_R_INVALIDATE_REGION);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 64), WEFT_OK);
	EXPECT_EQ(mem_invalidate_check(&g.table, PD_OWN, QP_OWN, tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 64), WEFT_OK);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, region, 0, 64), WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

TEST(test_sqr_10_invalidation_spares_a_region_with_windows)
{
	uint32_t tag, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = reserve();
	REQUIRE(fill(tag) == WEFT_OK);
	window = gate_bound(&g, tag, 0, 64, WEFT_REMOTE_WRITE);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag), WEFT_R_REGION_HAS_WINDOWS);
	EXPECT(gate_is_open(&g, window, 0, 64));
	gate_fini(&g);
}
