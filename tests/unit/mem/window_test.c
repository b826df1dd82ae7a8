/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

#include <errno.h>

static struct gate g;

/* A bind of the gate's memory that is good unless the test changes it. */
static struct weft_bind bind_of(uint32_t window, uint32_t region, uint64_t offset, uint64_t length)
{
	return (struct weft_bind){
		.window_tag = window,
		.region_tag = region,
		.addr = gate_addr(&g, offset),
		.length = length,
		.rights = WEFT_REMOTE_WRITE,
	};
}

/* A refused bind leaves the window as it was and the table as full as it was. */
static void expect_bind(struct weft_bind bind, enum weft_reason expected)
{
	struct gate_use before = gate_use(&g);
	uint64_t windows = 0;

	if (weft_tag_index(bind.region_tag) < g.table.tags_max)
		windows = gate_entry(&g, bind.region_tag)->windows;
	EXPECT_EQ(gate_bind(&g, &bind), expected);
	EXPECT(gate_use_is(&g, before));
	if (weft_tag_index(bind.region_tag) < g.table.tags_max)
		EXPECT_EQ(gate_entry(&g, bind.region_tag)->windows, windows);
}

/* ---- The four verbs ---------------------------------------------------------------------- */

TEST(test_rkey_01_rkey_08a_rkey_08b_window_guards_to_the_byte)
{
	uint32_t region;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 3, 1000, RIGHTS_ALL);
	for (uint64_t length = 1; length <= 70; length += 23) {
		for (uint64_t at = 3; at < 20; at++) {
			uint32_t tag = gate_bound(&g, region, at, length, WEFT_REMOTE_WRITE);

			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at, length), WEFT_OK);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at, 1), WEFT_OK);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at + length - 1, 1),
				  WEFT_OK);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at - 1, 1),
				  WEFT_R_RANGE_BOUNDS);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at + length, 1),
				  WEFT_R_RANGE_BOUNDS);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at - 1, length),
				  WEFT_R_RANGE_BOUNDS);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, at, length + 1),
				  WEFT_R_RANGE_BOUNDS);
			REQUIRE(mem_window_unbind(&g.table, PD_OWN, tag) == WEFT_OK);
			REQUIRE(mem_window_free(&g.table, PD_OWN, tag) == WEFT_OK);
		}
	}
	gate_fini(&g);
}

TEST(test_rkey_02a_keys_are_allocated_until_none_is_left)
{
	uint32_t tags[GATE_TAGS], extra;

	gate_init(&g, WEFT_POLICY_STRICT);
	for (int i = 0; i < GATE_TAGS; i++) {
		tags[i] = gate_window(&g);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tags[i], 0, 1), WEFT_R_TAG_INVALID);
		for (int n = 0; n < i; n++)
			EXPECT(tags[n] != tags[i]);
	}
	EXPECT_EQ(mem_window_alloc(&g.table, PD_OWN, &extra), WEFT_R_TABLE_FULL);
	EXPECT_EQ(gate_use(&g).own, GATE_TAGS);
	gate_fini(&g);
}

TEST(test_rkey_02b_bind_needs_a_window_and_a_region_of_the_caller)
{
	uint32_t region, window, others;
	struct weft_bind bind;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_window(&g);
	REQUIRE(mem_window_alloc(&g.table, PD_OTHER, &others) == WEFT_OK);
	expect_bind(bind_of(0, region, 0, 64), WEFT_R_TAG_INVALID);
	expect_bind(bind_of(UINT32_MAX, region, 0, 64), WEFT_R_TAG_INDEX);
	expect_bind(bind_of(region, region, 0, 64), WEFT_R_TAG_TYPE);
	expect_bind(bind_of(others, region, 0, 64), WEFT_R_TAG_PD);
	expect_bind(bind_of(window, 0, 0, 64), WEFT_R_TAG_INVALID);
	expect_bind(bind_of(window, UINT32_MAX, 0, 64), WEFT_R_TAG_INDEX);
	expect_bind(bind_of(window, region ^ 1, 0, 64), WEFT_R_TAG_INSTANCE);
	expect_bind(bind_of(window, gate_bound(&g, region, 0, 1, 0), 0, 64),
		    WEFT_R_TAG_WINDOW_LOCAL);
	gate_entry(&g, region)->pd = PD_OTHER;
	expect_bind(bind_of(window, region, 0, 64), WEFT_R_TAG_PD);
	gate_entry(&g, region)->pd = PD_OWN;
	bind = bind_of(window, region, 0, 64);
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	EXPECT(gate_is_open(&g, bind.tag, 0, 64));
	gate_fini(&g);
}

TEST(test_rkey_02b_bind_needs_the_whole_range)
{
	uint32_t region, window;
	struct weft_bind bind;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 100, 64, RIGHTS_ALL);
	window = gate_window(&g);
	expect_bind(bind_of(window, region, 99, 64), WEFT_R_RANGE_BOUNDS);
	expect_bind(bind_of(window, region, 100, 65), WEFT_R_RANGE_BOUNDS);
	expect_bind(bind_of(window, region, 164, 1), WEFT_R_RANGE_BOUNDS);
	bind = bind_of(window, region, 100, 64);
	bind.length = UINT64_MAX;
	expect_bind(bind, WEFT_R_RANGE_WRAP);
	bind.length = 64;
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	gate_fini(&g);
}

TEST(test_rkey_02b_loc_02g_region_without_the_binding_bit_takes_no_window)
{
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL & ~WEFT_BIND);
	window = gate_window(&g);
	expect_bind(bind_of(window, region, 0, 64), WEFT_R_BIND_DISABLED);
	gate_fini(&g);
}

TEST(test_rkey_02c_unbind_needs_the_current_tag_of_the_caller)
{
	uint32_t region, tag;
	struct gate_use before;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_bound(&g, region, 0, 64, WEFT_REMOTE_WRITE);
	before = gate_use(&g);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OTHER, tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, tag ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, region), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, 0), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, UINT32_MAX), WEFT_R_TAG_INDEX);
	EXPECT(gate_use_is(&g, before));
	EXPECT(gate_is_open(&g, tag, 0, 64));
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_window_unbind(&g.table, PD_OWN, tag), WEFT_R_WINDOW_UNBOUND);
	EXPECT_EQ(gate_entry(&g, region)->windows, 0);
	gate_fini(&g);
}

/* The optional way to unbind: a bind of no bytes. */
TEST(test_rkey_02c_bind_of_no_bytes_unbinds)
{
	uint32_t region, tag;
	struct weft_bind bind;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_bound(&g, region, 0, 64, WEFT_REMOTE_WRITE);
	bind = (struct weft_bind){ .window_tag = tag };
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, bind.tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(gate_entry(&g, region)->windows, 0);
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_R_WINDOW_UNBOUND);
	gate_fini(&g);
}

TEST(test_rkey_02d_deallocate_refuses_unknown_and_bound_keys)
{
	uint32_t region, tag;
	struct gate_use before;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	before = gate_use(&g);
	tag = gate_bound(&g, region, 0, 64, WEFT_REMOTE_WRITE);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag), WEFT_R_WINDOW_BOUND);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, tag) == WEFT_OK);
	EXPECT_EQ(mem_window_free(&g.table, PD_OTHER, tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, region), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, UINT32_MAX), WEFT_R_TAG_INDEX);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, 0), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag), WEFT_R_TAG_INVALID);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* By any tag that it has had, bound or not; whatever that freed is as free as any other. */
TEST(test_rkey_02d_window_is_discarded_by_its_index)
{
	struct gate_use before;
	struct weft_bind bind;
	uint32_t region, first;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 1000, RIGHTS_ALL);
	before = gate_use(&g);
	for (int turn = 0; turn < 2 * GATE_TAGS; turn++) {
		first = gate_window(&g);
		for (int i = 0; i < turn % 3; i++) {
			bind = bind_of(first, region, 0, 100);
			REQUIRE(gate_bind(&g, &bind) == WEFT_OK);
		}
		REQUIRE(mem_window_discard(&g.table, PD_OWN, first) == WEFT_OK);
		EXPECT(gate_use_is(&g, before));
		EXPECT_EQ(gate_entry(&g, region)->windows, 0);
		EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, first), WEFT_R_TAG_INVALID);
	}
	bind = (struct weft_bind){ .window_tag = gate_window(&g) };
	EXPECT_EQ(mem_window_discard(&g.table, PD_OTHER, bind.window_tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, region), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, UINT32_MAX), WEFT_R_TAG_INDEX);
	REQUIRE(mem_window_promise(&g.table, PD_OWN, &bind) == WEFT_OK);
	EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, bind.window_tag), WEFT_R_BUSY);
	mem_window_forget(&g.table, &bind);
	EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, bind.window_tag ^ 1), WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* ---- Address spaces ---------------------------------------------------------------------- */

enum { FILE_ADDR = 0x40000, FILE_BYTES = 0x2000 };

static void space_init(struct weft_space *s, bool is_virtual)
{
	const struct weft_space_options o = {
		.memory = g.memory,
		.size_bytes = GATE_BYTES,
		.mappings_max = 4,
		.is_virtual = is_virtual,
	};

	REQUIRE(mem_space_init(s, &o) == WEFT_OK);
	REQUIRE(mem_space_map(s, FILE_ADDR, FILE_BYTES, 0x1000) == WEFT_OK);
}

/* The file system's {VA, length}: the kernel driver binds it, the user process gets EINVAL. */
TEST(test_rkey_03_rkey_s3_virtual_addresses_are_for_privileged_callers)
{
	struct mem_owner kernel = { .pd = PD_OWN, .space = &g.process, .is_privileged = true };
	struct mem_owner user = { .pd = PD_OTHER, .space = &g.process };
	struct weft_region_options o = { .addr = FILE_ADDR,
					 .length = FILE_BYTES,
					 .rights = RIGHTS_ALL };
	struct weft_bind bind = { .addr = FILE_ADDR + 10,
				  .length = 20,
				  .rights = WEFT_REMOTE_READ };
	struct mem_access a = {
		.addr = FILE_ADDR + 10, .length = 20, .pd = PD_OWN, .kind = MEM_REMOTE_READ
	};
	struct weft_space files, effective;
	struct mem_grant grant;
	struct mem_span span;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	space_init(&files, true);
	space_init(&effective, false);
	o.space = &files;
	EXPECT_EQ(mem_region_register(&g.table, &user, &o, &tag), WEFT_R_REG_VIRTUAL);
	EXPECT_EQ(weft_reason_errno(WEFT_R_REG_VIRTUAL), EINVAL);
	EXPECT_EQ(files.users, 0);
	EXPECT_EQ(mem_region_register(&g.table, &kernel, &o, &bind.region_tag), WEFT_OK);
	EXPECT_EQ(files.users, 1);
	bind.window_tag = gate_window(&g);
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	a.tag = bind.tag;
	EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_OK);
	EXPECT_EQ(mem_grant_spans(&grant, &span, 1), 1);
	EXPECT(span.bytes == &g.memory[0x1000 + 10] && span.length == 20);
	/* Effective addresses of another process are refused, privileged or not. */
	o.space = &effective;
	EXPECT_EQ(mem_region_register(&g.table, &kernel, &o, &tag), WEFT_R_REG_VIRTUAL);
	EXPECT_EQ(mem_region_register(&g.table, &user, &o, &tag), WEFT_R_REG_VIRTUAL);
	/* A user shares what a kernel made no more than it could have made it. */
	EXPECT_EQ(mem_region_share(&g.table, &user, bind.region_tag, &o, &tag), WEFT_R_REG_VIRTUAL);
	mem_space_fini(&files);
	mem_space_fini(&effective);
	gate_fini(&g);
}

TEST(test_rkey_02b_caller_must_be_authorised_for_the_whole_range)
{
	static const struct {
		uint64_t addr, length;
		enum weft_reason expected;
	} cases[] = {
		{ FILE_ADDR, FILE_BYTES, WEFT_OK },
		{ FILE_ADDR + FILE_BYTES - 1, 1, WEFT_OK },
		{ FILE_ADDR - 1, 2, WEFT_R_REG_SPACE },
		{ FILE_ADDR, FILE_BYTES + 1, WEFT_R_REG_SPACE },
		{ FILE_ADDR + FILE_BYTES, 1, WEFT_R_REG_SPACE },
		{ 0, 1, WEFT_R_REG_SPACE },
		/* Known but without pages: may be offered; what runs on into nowhere may not. */
		{ 2 * FILE_ADDR, 0x1000, WEFT_OK },
		{ 2 * FILE_ADDR, 0x1001, WEFT_R_REG_SPACE },
	};
	struct weft_space space;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	space_init(&space, false);
	REQUIRE(mem_space_map(&space, 2 * FILE_ADDR, 0x1000, WEFT_REAL_NONE) == WEFT_OK);
	g.owner.space = &space;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct weft_region_options o = { .addr = cases[i].addr,
						       .length = cases[i].length };

		EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), cases[i].expected);
	}
	mem_space_fini(&space);
	gate_fini(&g);
}

TEST(test_rkey_08c_rkey_08d_range_that_lost_its_segment_or_has_no_page_is_denied)
{
	const struct weft_region_options o = { .addr = FILE_ADDR,
					       .length = FILE_BYTES + 0x1000,
					       .rights = RIGHTS_ALL };
	struct weft_bind bind = { .addr = FILE_ADDR,
				  .length = FILE_BYTES + 0x1000,
				  .rights = WEFT_REMOTE_READ };
	struct mem_access a = {
		.addr = FILE_ADDR, .length = FILE_BYTES, .pd = PD_OWN, .kind = MEM_REMOTE_READ
	};
	struct weft_space space;

	gate_init(&g, WEFT_POLICY_STRICT);
	space_init(&space, false);
	REQUIRE(mem_space_map(&space, FILE_ADDR + FILE_BYTES, 0x1000, WEFT_REAL_NONE) == WEFT_OK);
	g.owner.space = &space;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &bind.region_tag) == WEFT_OK);
	bind.window_tag = gate_window(&g);
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK); /* also over the part that has no pages yet */
	a.tag = bind.tag;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	a.length++;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_SPACE_UNMAPPED);
	a.addr = FILE_ADDR + FILE_BYTES;
	a.length = 1;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_SPACE_UNMAPPED);
	REQUIRE(mem_space_unmap(&space, FILE_ADDR) == WEFT_OK);
	a.addr = FILE_ADDR;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_SPACE_MAPPING);
	bind.tag = 0;
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_R_SPACE_MAPPING);
	/* Mapped again, to another place: the binding holds. */
	REQUIRE(mem_space_map(&space, FILE_ADDR, FILE_BYTES, 0x4000) == WEFT_OK);
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	mem_space_fini(&space);
	gate_fini(&g);
}

/* ---- Keys in use ------------------------------------------------------------------------- */

TEST(test_rkey_05_mem_04c_key_guards_one_range_at_a_time_and_is_reusable)
{
	uint32_t region, window, before = 0;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 1024, RIGHTS_ALL);
	window = gate_window(&g);
	for (uint64_t i = 0; i < 8; i++) {
		struct weft_bind bind = bind_of(window, region, 64 * i, 64);

		EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK); /* by any tag that it has had */
		EXPECT_EQ(weft_tag_index(bind.tag), weft_tag_index(window));
		EXPECT(gate_is_open(&g, bind.tag, 64 * i, 64));
		for (uint64_t n = 0; n < 8; n++)
			EXPECT_EQ(gate_is_open(&g, bind.tag, 64 * n, 64), n == i);
		if (i > 0)
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, before, 64 * i, 64),
				  WEFT_R_TAG_INSTANCE);
		before = bind.tag;
	}
	EXPECT_EQ(gate_entry(&g, region)->windows, 1);
	gate_fini(&g);
}

/* A rebind that fails leaves the old binding in force. */
TEST(test_rkey_05_refused_rebind_keeps_the_old_binding)
{
	uint32_t region, tag;
	struct weft_bind bind;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_bound(&g, region, 0, 32, WEFT_REMOTE_WRITE);
	bind = bind_of(tag, region, 0, 65);
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_R_RANGE_BOUNDS);
	EXPECT(gate_is_open(&g, tag, 0, 32));
	EXPECT_EQ(gate_entry(&g, region)->windows, 1);
	gate_fini(&g);
}

TEST(test_rkey_06_ten_queue_pairs_share_one_key)
{
	struct mem_access a;

	gate_init(&g, WEFT_POLICY_STRICT);
	a = gate_ask(&g, MEM_REMOTE_WRITE,
		     gate_bound(&g, gate_region(&g, 0, 64, RIGHTS_ALL), 0, 64, WEFT_REMOTE_WRITE),
		     0, 64);
	for (uint32_t qp = 1; qp <= 10; qp++) {
		a.qp = qp;
		EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	}
	gate_fini(&g);
}

/* Only its own queue pair can rebind, unbind or invalidate a window that is bound to it. */
TEST(test_rkey_06_window_of_one_queue_pair_is_invalidated_by_it_alone)
{
	uint32_t region;
	struct weft_bind bind, again;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	bind = bind_of(gate_window(&g), region, 0, 64);
	REQUIRE(gate_bind_qp(&g, QP_OWN, &bind) == WEFT_OK);
	again = bind_of(bind.tag, region, 0, 64);
	EXPECT_EQ(gate_bind_qp(&g, QP_OWN, &again), WEFT_R_WINDOW_BOUND);
	again = bind_of(bind.tag, region, 0, 64);
	EXPECT_EQ(gate_bind_qp(&g, QP_OTHER, &again), WEFT_R_WINDOW_BOUND);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OTHER, bind.tag), WEFT_R_TAG_QP);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OTHER, QP_OWN, bind.tag), WEFT_R_TAG_PD);
	EXPECT(gate_is_open(&g, bind.tag, 0, 64));
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, bind.tag), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, bind.tag, 0, 64), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, bind.tag), WEFT_R_TAG_INVALID);
	/* The window itself is still there, unbound, for any queue pair. */
	again = bind_of(bind.tag, region, 0, 64);
	EXPECT_EQ(gate_bind_qp(&g, QP_OTHER, &again), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, again.tag, 0, 64), WEFT_R_TAG_QP);
	gate_fini(&g);
}

/* RKEY-06, for a connection that is made again: the tag, which peers know, stays. */
TEST(test_rkey_06_a_window_is_given_to_another_queue_pair)
{
	struct weft_bind bind;
	struct mem_access a;
	uint32_t region;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	bind = bind_of(gate_window(&g), region, 0, 64);
	REQUIRE(gate_bind_qp(&g, QP_OWN, &bind) == WEFT_OK);
	a = gate_ask(&g, MEM_REMOTE_WRITE, bind.tag, 0, 64);
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, bind.tag, QP_OTHER), WEFT_OK);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_QP);
	a.qp = QP_OTHER;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	/* The end of the first is nothing to it, that of the other closes it. */
	mem_qp_gone(&g.table, QP_OWN);
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, bind.tag, 0), WEFT_OK);
	mem_qp_gone(&g.table, QP_OTHER);
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, bind.tag, QP_OTHER), WEFT_OK);
	mem_qp_gone(&g.table, QP_OTHER);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_INVALID);
	/* Only what is bound can be given, by its owner. */
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, bind.tag, QP_OWN), WEFT_R_WINDOW_UNBOUND);
	EXPECT_EQ(mem_window_give(&g.table, PD_OTHER, bind.tag, QP_OWN), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, region, QP_OWN), WEFT_R_TAG_TYPE);
	gate_fini(&g);
}

TEST(test_rkey_11_window_grants_no_more_than_its_region)
{
	gate_init(&g, WEFT_POLICY_STRICT);
	for (uint32_t has = 0; has < 8; has++) {
		uint32_t region = gate_region(&g, 0, 64,
					      WEFT_BIND | WEFT_LOCAL_READ | WEFT_LOCAL_WRITE |
						      has * WEFT_REMOTE_READ);

		for (uint32_t wants = 0; wants < 8; wants++) {
			struct weft_bind bind = bind_of(gate_window(&g), region, 0, 64);

			bind.rights = wants * WEFT_REMOTE_READ;
			EXPECT_EQ(gate_bind(&g, &bind),
				  wants & ~has ? WEFT_R_BIND_RIGHTS : WEFT_OK);
			EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, bind.tag, 0, 8) == WEFT_OK,
				  !(wants & ~has) && (wants & 2));
			if (!(wants & ~has))
				REQUIRE(mem_window_unbind(&g.table, PD_OWN, bind.tag) == WEFT_OK);
			REQUIRE(mem_window_free(&g.table, PD_OWN,
						mem_tag(weft_tag_index(bind.tag),
							gate_entry(&g, bind.tag)->instance)) ==
				WEFT_OK);
		}
	}
	gate_fini(&g);
}

/* Under the open policy local rights are a ceiling too, as in today's verbs; still no more. */
TEST(test_rkey_11_open_policy_counts_local_rights)
{
	static const struct {
		uint32_t region, window;
		enum weft_reason expected;
	} cases[] = {
		{ WEFT_LOCAL_READ, WEFT_REMOTE_READ, WEFT_OK },
		{ WEFT_LOCAL_READ, WEFT_REMOTE_WRITE, WEFT_R_BIND_RIGHTS },
		{ WEFT_LOCAL_READ, WEFT_REMOTE_ATOMIC, WEFT_R_BIND_RIGHTS },
		{ WEFT_LOCAL_WRITE, WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC, WEFT_OK },
		{ WEFT_LOCAL_WRITE, WEFT_REMOTE_READ, WEFT_R_BIND_RIGHTS },
		{ 0, WEFT_REMOTE_READ, WEFT_R_BIND_RIGHTS },
	};

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weft_bind bind = bind_of(gate_window(&g),
						gate_region(&g, 0, 64, WEFT_BIND | cases[i].region),
						0, 64);

		bind.rights = cases[i].window;
		EXPECT_EQ(gate_bind(&g, &bind), cases[i].expected);
	}
	gate_fini(&g);
}

TEST(test_rkey_11_windows_have_remote_rights_only)
{
	uint32_t region;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	for (uint32_t bit = 1; bit; bit <<= 1) {
		struct weft_bind bind = bind_of(gate_window(&g), region, 0, 64);

		bind.rights = bit;
		EXPECT_EQ(gate_bind(&g, &bind),
			  bit & MEM_REMOTE_RIGHTS ? WEFT_OK : WEFT_R_REG_RIGHTS);
	}
	gate_fini(&g);
}

TEST(test_mem_08_window_uses_the_translation_of_its_region)
{
	uint64_t pages[3] = { gate_addr(&g, 2 * GATE_PAGE), gate_addr(&g, 0),
			      gate_addr(&g, 5 * GATE_PAGE) };
	const struct weft_page_list list = {
		.pages = pages, .count = 3, .page_size_bytes = GATE_PAGE, .first_offset = 96
	};
	const struct weft_region_options o = {
		.va = 0x1000, .length = 2 * GATE_PAGE + 1, .rights = RIGHTS_ALL, .pages = &list
	};
	struct weft_bind bind = { .addr = 0x1000 + 4000 - 8,
				  .length = 100,
				  .rights = WEFT_REMOTE_WRITE,
				  .is_zero_based = true };
	struct mem_access a = { .addr = 6, .length = 4, .pd = PD_OWN, .kind = MEM_REMOTE_WRITE };
	struct mem_grant grant;
	struct mem_span spans[2];

	gate_init(&g, WEFT_POLICY_STRICT);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &bind.region_tag) == WEFT_OK);
	bind.window_tag = gate_window(&g);
	REQUIRE(gate_bind(&g, &bind) == WEFT_OK);
	EXPECT_EQ(g.table.atts.used, 1);
	EXPECT(gate_entry(&g, bind.tag)->att == gate_entry(&g, bind.region_tag)->att);
	a.tag = bind.tag;
	REQUIRE(mem_access_check(&g.table, &a, &grant) == WEFT_OK);
	/* Window byte 8 is region byte 4000, the first of the second page. */
	EXPECT_EQ(mem_grant_spans(&grant, spans, 2), 2);
	EXPECT(spans[0].bytes == &g.memory[3 * GATE_PAGE - 2] && spans[0].length == 2);
	EXPECT(spans[1].bytes == &g.memory[0] && spans[1].length == 2);
	a.addr = 99;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_BOUNDS);
	gate_fini(&g);
}

/* ---- Promised tags ----------------------------------------------------------------------- */

TEST(test_mem_04c_promised_tags_differ_and_come_alive_in_turn)
{
	uint32_t region, window;
	struct weft_bind binds[3];

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_window(&g);
	for (int i = 0; i < 3; i++) {
		binds[i] = bind_of(window, region, 0, 64);
		REQUIRE(mem_window_promise(&g.table, PD_OWN, &binds[i]) == WEFT_OK);
		EXPECT(binds[i].tag != window);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, binds[i].tag, 0, 64),
			  WEFT_R_TAG_INVALID);
	}
	EXPECT(binds[0].tag != binds[1].tag && binds[1].tag != binds[2].tag);
	for (int i = 0; i < 3; i++) {
		REQUIRE(mem_window_bind(&g.table, PD_OWN, 0, &binds[i]) == WEFT_OK);
		for (int n = 0; n < 3; n++)
			EXPECT_EQ(gate_is_open(&g, binds[n].tag, 0, 64), n == i);
	}
	gate_fini(&g);
}

TEST(test_mem_04c_consumer_chooses_the_instance_but_not_the_index)
{
	struct weft_bind bind;
	uint32_t region, window, chosen;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_window(&g);
	bind = bind_of(window, region, 0, 64);
	bind.tag = chosen = window ^ 0x5a;
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	EXPECT_EQ(bind.tag, chosen);
	EXPECT(gate_is_open(&g, chosen, 0, 64));
	bind.tag = region;
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_R_TAG_INDEX);
	gate_fini(&g);
}

/* A rebind under the tag in force would give old holders the new range. */
TEST(test_mem_04c_rebind_under_the_current_tag_is_refused)
{
	struct weft_bind bind;
	uint32_t region, tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_bound(&g, region, 0, 32, WEFT_REMOTE_WRITE);
	bind = bind_of(tag, region, 32, 32);
	bind.tag = tag;
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_R_TAG_INSTANCE);
	EXPECT(gate_is_open(&g, tag, 0, 32));
	EXPECT(!gate_is_open(&g, tag, 32, 32));
	gate_fini(&g);
}

/* Also when 255 promises came to nothing in between. */
TEST(test_mem_04c_promises_do_not_lead_back_to_the_tag_in_force)
{
	struct weft_bind bind;
	uint32_t region, tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_bound(&g, region, 0, 32, WEFT_REMOTE_WRITE);
	for (int i = 0; i < 600; i++) {
		bind = bind_of(tag, region, 0, 32);
		REQUIRE(mem_window_promise(&g.table, PD_OWN, &bind) == WEFT_OK);
		EXPECT(bind.tag != tag);
		mem_window_forget(&g.table, &bind);
	}
	gate_fini(&g);
}

/* There are no more instances of a tag than that. */
TEST(test_mem_04c_promises_of_a_window_are_bounded)
{
	struct weft_bind binds[UINT8_MAX], bind;
	uint32_t region, tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	tag = gate_window(&g);
	for (int i = 0; i < UINT8_MAX; i++) {
		binds[i] = bind_of(tag, region, 0, 32);
		REQUIRE(mem_window_promise(&g.table, PD_OWN, &binds[i]) == WEFT_OK);
	}
	bind = bind_of(tag, region, 0, 32);
	EXPECT_EQ(mem_window_promise(&g.table, PD_OWN, &bind), WEFT_R_QUEUE_FULL);
	mem_window_forget(&g.table, &binds[0]);
	EXPECT_EQ(mem_window_promise(&g.table, PD_OWN, &bind), WEFT_OK);
	gate_fini(&g);
}

/* One slot, so that it is used again at once. */
static uint32_t only_window(void)
{
	const struct mem_limits limits = {
		.tags_max = 2, .translations_max = 1, .pds_max = PDS_MAX, .qps_max = QPS_MAX
	};

	gate_init_limits(&g, &limits);
	return gate_bound(&g, gate_region(&g, 0, 64, RIGHTS_ALL), 0, 64, WEFT_REMOTE_WRITE);
}

/* Frees the window by its current tag and takes the next one, which has its slot. */
static uint32_t next_window(uint32_t tag)
{
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, tag) == WEFT_OK);
	REQUIRE(mem_window_free(&g.table, PD_OWN, tag) == WEFT_OK);
	return gate_window(&g);
}

TEST(test_mem_04c_tags_promised_but_never_bound_die_with_the_window)
{
	uint32_t tag = only_window(), next;
	struct weft_bind promised[5];

	for (int i = 0; i < 5; i++) {
		promised[i] = (struct weft_bind){ .window_tag = tag };
		REQUIRE(mem_window_promise(&g.table, PD_OWN, &promised[i]) == WEFT_OK);
	}
	/* A bind that is still to come would meet another window under its number. */
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, tag) == WEFT_OK);
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(mem_window_free(&g.table, PD_OWN, tag), WEFT_R_BUSY);
		mem_window_forget(&g.table, &promised[i]);
	}
	REQUIRE(mem_window_free(&g.table, PD_OWN, tag) == WEFT_OK);
	next = gate_window(&g);
	EXPECT(next != tag);
	for (int i = 0; i < 5; i++)
		EXPECT(next != promised[i].tag);
	gate_fini(&g);
}

/* Whatever instance the consumer asked for meanwhile, a tag that was in use does not come back. */
TEST(test_mem_04c_mem_s2_chosen_instance_does_not_bring_a_dead_tag_back)
{
	for (uint32_t back = 1; back <= 3; back++) {
		uint32_t tag = only_window();
		struct weft_bind chosen = { .window_tag = tag };

		chosen.tag = mem_tag(weft_tag_index(tag), (uint8_t)(tag - back));
		REQUIRE(mem_window_promise(&g.table, PD_OWN, &chosen) == WEFT_OK);
		mem_window_forget(&g.table, &chosen);
		EXPECT(next_window(tag) != tag);
		gate_fini(&g);
	}
}

/* ---- RKEY-S2 ----------------------------------------------------------------------------- */

TEST(test_rkey_s2_rkey_08b_every_wrong_use_is_denied)
{
	uint32_t region, tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 256, RIGHTS_ALL);
	tag = gate_bound(&g, region, 64, 64, WEFT_REMOTE_WRITE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 64, 64), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 63, 64), WEFT_R_RANGE_BOUNDS);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 64, 65), WEFT_R_RANGE_BOUNDS);
	for (uint32_t bit = 1; bit; bit <<= 1)
		EXPECT(gate_access(&g, MEM_REMOTE_WRITE, tag ^ bit, 64, 64) != WEFT_OK);
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, tag) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 64, 64), WEFT_R_TAG_INVALID);
	REQUIRE(mem_window_free(&g.table, PD_OWN, tag) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 64, 64), WEFT_R_TAG_INVALID);
	gate_fini(&g);
}

TEST(test_rkey_s2_rkey_10_touch_11_second_use_of_a_one_shot_key_is_denied)
{
	uint32_t tag;
	struct weft_bind bind;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = gate_one_touch(&g, 64);
	bind = bind_of(tag, mem_tag(gate_entry(&g, tag)->region, 0), 0, 64);
	bind.region_tag |= g.table.entries[gate_entry(&g, tag)->region].instance;
	bind.is_one_touch = true;
	EXPECT(gate_is_open(&g, tag, 0, 64));
	mem_touch_message(&g.table, tag);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_SPENT);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 1), WEFT_R_TAG_SPENT);
	/* A fresh bind gives a new tag; the old one stays dead. */
	EXPECT_EQ(gate_bind(&g, &bind), WEFT_OK);
	EXPECT(bind.tag != tag);
	EXPECT(gate_is_open(&g, bind.tag, 0, 64));
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 64), WEFT_R_TAG_INSTANCE);
	gate_fini(&g);
}
