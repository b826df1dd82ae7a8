/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

static struct gate g;

static const enum weft_policy policies[] = { WEFT_POLICY_OPEN, WEFT_POLICY_STRICT };
static const enum mem_kind local_kinds[] = { MEM_LOCAL_READ, MEM_LOCAL_WRITE, MEM_BIND };
static const enum mem_kind remote_kinds[] = { MEM_READ_SINK, MEM_REMOTE_READ, MEM_REMOTE_WRITE,
					      MEM_REMOTE_ATOMIC };
enum { POLICIES = 2, LOCAL_KINDS = 3, REMOTE_KINDS = 4 };

/* ---- Each check alone ----------------------------------------------------------------------- */

TEST(test_loc_02a_iwarp_06a_iwarp_09a_invalid_entries_are_refused)
{
	gate_init(&g, WEFT_POLICY_OPEN);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		uint32_t tag = gate_region(&g, 0, 64, RIGHTS_ALL), reserved;

		EXPECT_EQ(gate_access(&g, kind, tag, 0, 8), WEFT_OK);
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
		EXPECT_EQ(gate_access(&g, kind, tag, 0, 8), WEFT_R_TAG_INVALID);
		REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &reserved) == WEFT_OK);
		EXPECT_EQ(gate_access(&g, kind, reserved, 0, 8), WEFT_R_TAG_INVALID);
		EXPECT_EQ(gate_access(&g, kind, 0, 0, 8), WEFT_R_TAG_INVALID);
		EXPECT_EQ(gate_access(&g, kind, 0xff, 0, 8), WEFT_R_TAG_INVALID);
	}
	gate_fini(&g);
}

TEST(test_mem_02_tag_index_outside_the_table_is_refused)
{
	gate_init(&g, WEFT_POLICY_OPEN);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		EXPECT_EQ(gate_access(&g, kind, mem_tag(GATE_TAGS, 0), 0, 8), WEFT_R_TAG_INVALID);
		EXPECT_EQ(gate_access(&g, kind, mem_tag(GATE_TAGS + 1, 0), 0, 8), WEFT_R_TAG_INDEX);
		EXPECT_EQ(gate_access(&g, kind, UINT32_MAX, 0, 8), WEFT_R_TAG_INDEX);
	}
	gate_fini(&g);
}

TEST(test_loc_02b_windows_are_not_for_local_access)
{
	for (int p = 0; p < POLICIES; p++) {
		uint32_t region, window;

		gate_init(&g, policies[p]);
		region = gate_region(&g, 0, 64, RIGHTS_ALL);
		window = gate_bound(&g, region, 0, 64, MEM_REMOTE_RIGHTS);
		/* Not even with the rights, which no bind would give it. */
		gate_entry(&g, window)->rights = RIGHTS_ALL;
		for (int i = 0; i < LOCAL_KINDS; i++) {
			EXPECT_EQ(gate_access(&g, local_kinds[i], window, 0, 8),
				  WEFT_R_TAG_WINDOW_LOCAL);
			EXPECT_EQ(gate_access(&g, local_kinds[i], region, 0, 8), WEFT_OK);
		}
		gate_fini(&g);
	}
}

/* AMB-12, strict: a peer reaches windows only, whatever the region's rights. */
TEST(test_iwarp_06b_iwarp_09b_strict_policy_bars_regions)
{
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, MEM_REMOTE_RIGHTS);
	for (int i = 0; i < REMOTE_KINDS; i++) {
		EXPECT_EQ(gate_access(&g, remote_kinds[i], region, 0, 8),
			  remote_kinds[i] == MEM_READ_SINK ? WEFT_R_READ_SINK
							   : WEFT_R_TAG_REGION_REMOTE);
		EXPECT_EQ(gate_access(&g, remote_kinds[i], window, 0, 8), WEFT_OK);
	}
	gate_fini(&g);
}

TEST(test_iwarp_06b_iwarp_09b_open_policy_allows_regions)
{
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, MEM_REMOTE_RIGHTS);
	for (int i = 0; i < REMOTE_KINDS; i++) {
		EXPECT_EQ(gate_access(&g, remote_kinds[i], region, 0, 8), WEFT_OK);
		EXPECT_EQ(gate_access(&g, remote_kinds[i], window, 0, 8), WEFT_OK);
	}
	gate_fini(&g);
}

TEST(test_loc_02c_mem_04b_iwarp_06c_iwarp_09c_another_domain_is_refused)
{
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, MEM_REMOTE_RIGHTS);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		struct mem_access a = gate_ask(&g, kind, region, 0, 8);

		EXPECT_EQ(gate_check(&g, a), WEFT_OK);
		a.pd = PD_OTHER;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_PD);
		/* Same slot, another generation: a domain that took a dead one's place. */
		a.pd = PD_OWN + (1 << 16);
		EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_PD);
		a.tag = window;
		a.pd = PD_OTHER;
		if (kind_is_remote(kind))
			EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_PD);
	}
	gate_fini(&g);
}

TEST(test_loc_02d_mem_04c_iwarp_06d_iwarp_09d_every_other_instance_is_refused)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		for (uint32_t x = 0; x < 256; x++)
			EXPECT_EQ(gate_access(&g, kind, tag ^ x, 0, 8),
				  x ? WEFT_R_TAG_INSTANCE : WEFT_OK);
	}
	gate_fini(&g);
}

TEST(test_loc_02e_mem_04a_iwarp_06e_iwarp_09e_bounds_are_exact)
{
	enum { START = 104, LENGTH = 48, END = START + LENGTH };
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, START, LENGTH, RIGHTS_ALL);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		for (uint64_t at = START - 8; at <= END; at += kind == MEM_REMOTE_ATOMIC ? 8 : 1) {
			bool is_in = at >= START && at + 8 <= END;

			EXPECT_EQ(gate_access(&g, kind, tag, at, 8),
				  is_in ? WEFT_OK : WEFT_R_RANGE_BOUNDS);
		}
		if (kind == MEM_REMOTE_ATOMIC)
			continue;
		EXPECT_EQ(gate_access(&g, kind, tag, START, LENGTH), WEFT_OK);
		EXPECT_EQ(gate_access(&g, kind, tag, START, LENGTH + 1), WEFT_R_RANGE_BOUNDS);
		EXPECT_EQ(gate_access(&g, kind, tag, START - 1, LENGTH), WEFT_R_RANGE_BOUNDS);
		EXPECT_EQ(gate_access(&g, kind, tag, START - 1, 1), WEFT_R_RANGE_BOUNDS);
		EXPECT_EQ(gate_access(&g, kind, tag, END - 1, 1), WEFT_OK);
		EXPECT_EQ(gate_access(&g, kind, tag, END, 1), WEFT_R_RANGE_BOUNDS);
	}
	gate_fini(&g);
}

TEST(test_loc_02e_ranges_do_not_wrap)
{
	const struct weft_region_options o = {
		.addr = gate_addr(&g, 0), .va = UINT64_MAX - 63, .length = 64, .rights = RIGHTS_ALL
	};
	uint32_t top, low;

	gate_init(&g, WEFT_POLICY_OPEN);
	low = gate_region(&g, 0, 64, RIGHTS_ALL);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &top) == WEFT_OK);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		struct mem_access a = gate_ask(&g, kind, top, 0, 8);

		a.addr = UINT64_MAX - 7;
		EXPECT_EQ(gate_check(&g, a), WEFT_OK); /* up to the very last address */
		a.length = 9;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_WRAP);
		a.length = UINT64_MAX;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_WRAP);
		a = gate_ask(&g, kind, low, 8, UINT64_MAX - 7);
		EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_WRAP); /* would end before it starts */
		a.length = UINT64_MAX - a.addr + 1;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_BOUNDS); /* ends at the very top */
		a.length++;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_WRAP);
	}
	gate_fini(&g);
}

/* Every set of rights against every kind: each right opens its own kind of access and no other. */
TEST(test_loc_02f_loc_02g_mem_04f_mem_04g_rights_are_independent)
{
	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint32_t rights = 0; rights <= RIGHTS_ALL; rights++) {
		uint32_t tag = gate_region(&g, 0, 64, rights);

		for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
			uint32_t enough = kind_right(kind);

			/* AMB-04: under the open policy a region's local write serves as well. */
			if (kind == MEM_READ_SINK)
				enough |= WEFT_LOCAL_WRITE;
			EXPECT_EQ(gate_access(&g, kind, tag, 0, 8),
				  rights & enough ? WEFT_OK : kind_refusal(kind));
		}
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	}
	gate_fini(&g);
}

TEST(test_iwarp_06f_iwarp_09f_window_rights_are_independent)
{
	for (int p = 0; p < POLICIES; p++) {
		uint32_t region;

		gate_init(&g, policies[p]);
		region = gate_region(&g, 0, 64, RIGHTS_ALL);
		for (uint32_t bits = 0; bits < 8; bits++) {
			uint32_t rights = bits * WEFT_REMOTE_READ;
			uint32_t tag = gate_bound(&g, region, 0, 64, rights);

			/* AMB-04: a window as sink needs remote write under both policies. */
			for (int i = 0; i < REMOTE_KINDS; i++)
				EXPECT_EQ(gate_access(&g, remote_kinds[i], tag, 0, 8),
					  rights & kind_right(remote_kinds[i])
						  ? WEFT_OK
						  : kind_refusal(remote_kinds[i]));
		}
		gate_fini(&g);
	}
}

/* AMB-04: the sink of a Read is a target of the peer; the strict policy wants a window for it. */
TEST(test_loc_02f_read_sink_follows_the_policy)
{
	uint32_t region;

	gate_init(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, 64, WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE | WEFT_BIND);
	EXPECT_EQ(gate_access(&g, MEM_READ_SINK, region, 0, 64), WEFT_R_READ_SINK);
	EXPECT(gate_is_open(&g, gate_bound(&g, region, 0, 64, WEFT_REMOTE_WRITE), 0, 64));
	gate_fini(&g);
	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, WEFT_LOCAL_WRITE);
	EXPECT_EQ(gate_access(&g, MEM_READ_SINK, region, 0, 64), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, region, 0, 64), WEFT_R_RIGHT_REMOTE_WRITE);
	gate_fini(&g);
}

/* ---- All sets of failing checks: the first in the documents' order is the one reported ------- */

enum fault { F_INDEX, F_VALID, F_TYPE, F_PD, F_QP, F_INSTANCE, F_RANGE, F_RIGHT, F_MEMORY, FAULTS };

enum { ORDER_ADDR = 0x10000, ORDER_BYTES = 64 };

struct order_case {
	enum weft_policy policy;
	enum mem_kind kind;
	uint32_t tag;
};

static enum weft_reason order_refusal(const struct order_case *c, enum fault fault)
{
	static const enum weft_reason refusals[FAULTS] = {
		[F_INDEX] = WEFT_R_TAG_INDEX,
		[F_VALID] = WEFT_R_TAG_INVALID,
		[F_PD] = WEFT_R_TAG_PD,
		[F_QP] = WEFT_R_TAG_QP,
		[F_INSTANCE] = WEFT_R_TAG_INSTANCE,
		[F_RANGE] = WEFT_R_RANGE_BOUNDS,
		[F_MEMORY] = WEFT_R_SPACE_MAPPING,
	};

	if (fault == F_RIGHT)
		return kind_refusal(c->kind);
	if (fault != F_TYPE)
		return refusals[fault];
	if (!kind_is_remote(c->kind))
		return WEFT_R_TAG_WINDOW_LOCAL;
	if (c->policy == WEFT_POLICY_OPEN)
		return WEFT_R_TAG_TYPE;
	return c->kind == MEM_READ_SINK ? WEFT_R_READ_SINK : WEFT_R_TAG_REGION_REMOTE;
}

/* The type that does not fit: D1's iSCSI region where both others would. */
static uint8_t order_wrong_type(const struct order_case *c)
{
	if (!kind_is_remote(c->kind))
		return MEM_WINDOW;
	return c->policy == WEFT_POLICY_STRICT ? MEM_REGION : MEM_ISCSI_REGION;
}

/* Makes the access with the faults of a set, then puts everything right again. */
static enum weft_reason order_try(const struct order_case *c, uint32_t set)
{
	struct mem_entry *e = gate_entry(&g, c->tag), saved = *e;
	struct mem_access a = {
		.addr = ORDER_ADDR,
		.length = 8,
		.tag = c->tag,
		.pd = PD_OWN,
		.qp = QP_OWN,
		.kind = c->kind,
	};
	enum weft_reason r;

	if (set & 1 << F_INDEX)
		a.tag |= UINT32_C(0xffff0000);
	if (set & 1 << F_VALID)
		e->state = MEM_RESERVED;
	if (set & 1 << F_TYPE)
		e->type = order_wrong_type(c);
	if (set & 1 << F_PD)
		a.pd = PD_OTHER;
	if (set & 1 << F_QP)
		e->qp = QP_OTHER;
	if (set & 1 << F_INSTANCE)
		a.tag ^= 1;
	if (set & 1 << F_RANGE)
		a.addr += ORDER_BYTES;
	if (set & 1 << F_RIGHT)
		e->rights = 0;
	if (set & 1 << F_MEMORY)
		REQUIRE(mem_space_unmap(e->space, ORDER_ADDR) == WEFT_OK);
	r = gate_check(&g, a);
	if (set & 1 << F_MEMORY)
		REQUIRE(mem_space_map(e->space, ORDER_ADDR, ORDER_BYTES, 0) == WEFT_OK);
	*e = saved;
	return r;
}

static void order_run(const struct order_case *c)
{
	for (uint32_t set = 0; set < 1 << FAULTS; set++) {
		enum weft_reason expected = WEFT_OK;

		for (int fault = FAULTS - 1; fault >= 0; fault--) {
			if (set & 1U << fault)
				expected = order_refusal(c, fault);
		}
		EXPECT_EQ(order_try(c, set), expected);
	}
}

static void order_run_policy(enum weft_policy policy, bool is_window)
{
	const struct weft_space_options space_options = { .memory = g.memory,
							  .size_bytes = GATE_BYTES,
							  .mappings_max = 4 };
	const struct weft_region_options o = { .addr = ORDER_ADDR,
					       .length = ORDER_BYTES,
					       .rights = RIGHTS_ALL };
	struct order_case c = { .policy = policy };
	struct weft_bind bind = { .addr = ORDER_ADDR,
				  .length = ORDER_BYTES,
				  .rights = MEM_REMOTE_RIGHTS };
	struct weft_space space;

	gate_init(&g, policy);
	REQUIRE(mem_space_init(&space, &space_options) == WEFT_OK);
	REQUIRE(mem_space_map(&space, ORDER_ADDR, ORDER_BYTES, 0) == WEFT_OK);
	g.owner.space = &space;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &bind.region_tag) == WEFT_OK);
	bind.window_tag = gate_window(&g);
	REQUIRE(gate_bind(&g, &bind) == WEFT_OK);
	c.tag = is_window ? bind.tag : bind.region_tag;
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		c.kind = kind;
		/* Only what passes without a fault can show the faults. */
		if (kind_is_remote(kind) ? is_window || policy == WEFT_POLICY_OPEN : !is_window)
			order_run(&c);
	}
	mem_space_fini(&space);
	gate_fini(&g);
}

TEST(test_loc_02_iwarp_06_iwarp_09_first_failing_check_is_reported)
{
	for (int p = 0; p < POLICIES; p++) {
		order_run_policy(policies[p], false);
		order_run_policy(policies[p], true);
	}
}

/* ---- Queue pair, no bytes, atomics ----------------------------------------------------------- */

TEST(test_rkey_06_window_of_one_queue_pair_serves_no_other)
{
	struct weft_bind bind = { .addr = gate_addr(&g, 0),
				  .length = 64,
				  .rights = MEM_REMOTE_RIGHTS };

	gate_init(&g, WEFT_POLICY_STRICT);
	bind.region_tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	bind.window_tag = gate_window(&g);
	REQUIRE(gate_bind_qp(&g, QP_OWN, &bind) == WEFT_OK);
	for (int i = 0; i < REMOTE_KINDS; i++) {
		struct mem_access a = gate_ask(&g, remote_kinds[i], bind.tag, 0, 8);

		EXPECT_EQ(gate_check(&g, a), WEFT_OK);
		a.qp = QP_OTHER;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_QP);
		a.qp = 0;
		EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_QP);
	}
	gate_fini(&g);
}

TEST(test_loc_02_no_bytes_are_granted_without_a_tag)
{
	gate_init(&g, WEFT_POLICY_STRICT);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		struct mem_access a = { .addr = UINT64_MAX, .tag = UINT32_MAX, .kind = kind };
		struct mem_grant grant;
		struct mem_span span;

		EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_OK);
		EXPECT_EQ(mem_grant_spans(&grant, &span, 1), 0);
		a.tag = 0;
		EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_OK);
		EXPECT_EQ(mem_grant_spans(&grant, &span, 1), 0);
	}
	EXPECT_EQ(g.table.refused, 0);
	gate_fini(&g);
}

TEST(test_qp_07d_atomics_need_8_aligned_bytes)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	for (uint64_t length = 1; length <= 16; length++)
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_ATOMIC, tag, 8, length),
			  length == 8 ? WEFT_OK : WEFT_R_ATOMIC_ALIGN);
	for (uint64_t at = 0; at <= 56; at++)
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_ATOMIC, tag, at, 8),
			  at % 8 ? WEFT_R_ATOMIC_ALIGN : WEFT_OK);
	gate_fini(&g);
}

/* Both the address that the peer names and the place where the word lies must be aligned. */
TEST(test_qp_07d_atomics_need_aligned_memory_below_an_aligned_address)
{
	struct weft_region_options o = {
		.addr = gate_addr(&g, 4), .va = 0x1000, .length = 64, .rights = RIGHTS_ALL
	};
	struct mem_access a = {
		.addr = 0x1000, .length = 8, .pd = PD_OWN, .kind = MEM_REMOTE_ATOMIC
	};

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_ATOMIC_ALIGN);
	a.addr = 0x1004; /* the word is aligned, its name is not */
	EXPECT_EQ(gate_check(&g, a), WEFT_R_ATOMIC_ALIGN);
	gate_fini(&g);
}

TEST(test_qp_07d_atomics_need_one_piece_of_memory)
{
	const struct weft_space_options space_options = { .memory = g.memory,
							  .size_bytes = GATE_BYTES,
							  .mappings_max = 4 };
	const struct weft_region_options o = { .addr = 0x1000, .length = 16, .rights = RIGHTS_ALL };
	const struct weft_region_options two = { .addr = 0x2000,
						 .length = 16,
						 .rights = RIGHTS_ALL };
	struct mem_access a = {
		.addr = 0x1000, .length = 8, .pd = PD_OWN, .kind = MEM_REMOTE_ATOMIC
	};
	struct weft_space space;

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_space_init(&space, &space_options) == WEFT_OK);
	REQUIRE(mem_space_map(&space, 0x1000, 4, 64) == WEFT_OK);
	REQUIRE(mem_space_map(&space, 0x1004, 12, 132) == WEFT_OK);
	g.owner.space = &space;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_ATOMIC_ALIGN);
	a.addr = 0x1008;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	/* Nor are two words one. */
	REQUIRE(mem_space_map(&space, 0x2000, 8, 256) == WEFT_OK);
	REQUIRE(mem_space_map(&space, 0x2008, 8, 512) == WEFT_OK);
	REQUIRE(mem_region_register(&g.table, &g.owner, &two, &a.tag) == WEFT_OK);
	a.addr = 0x2000;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	a.length = 16;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_ATOMIC_ALIGN);
	mem_space_fini(&space);
	gate_fini(&g);
}

TEST(test_loc_02_refusals_are_counted)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, 64, WEFT_LOCAL_READ);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 0, 64), WEFT_OK);
	EXPECT_EQ(g.table.refused, 0);
	EXPECT(gate_access(&g, MEM_LOCAL_WRITE, tag, 0, 64) != WEFT_OK);
	EXPECT(gate_access(&g, MEM_LOCAL_READ, tag, 0, 65) != WEFT_OK);
	EXPECT(gate_access(&g, MEM_LOCAL_READ, UINT32_MAX, 0, 1) != WEFT_OK);
	EXPECT_EQ(g.table.refused, 3);
	gate_fini(&g);
}

/* ---- Ranges that passed before -------------------------------------------------------------- */

static bool is_known(uint32_t changes, uint32_t tag)
{
	const struct weft_sge range = { gate_addr(&g, 24), 8, tag };
	struct mem_span span;

	return mem_known_span(&g.table, changes, &range, &span) && span.bytes == g.memory + 24 &&
	       span.length == 8;
}

/* LOC-02: what passed the check passes it again, until an entry ends or changes. */
TEST(test_loc_02_range_that_passed_is_known_until_an_entry_changes)
{
	struct weft_region_options change = { .rights = WEFT_LOCAL_READ };
	uint32_t tag, other, region, window;
	uint32_t changes;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 16, 64, RIGHTS_ALL);
	region = gate_region(&g, 0, GATE_PAGE, RIGHTS_ALL);
	changes = g.table.changes;
	other = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, WEFT_REMOTE_READ);
	EXPECT_EQ(is_known(changes, tag), true); /* what begins changes nothing */
	REQUIRE(mem_window_give(&g.table, PD_OWN, window, QP_OWN) == WEFT_OK);
	EXPECT_EQ(is_known(changes, tag), false);
	changes = g.table.changes;
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, window) == WEFT_OK);
	EXPECT_EQ(is_known(changes, tag), false);
	changes = g.table.changes;
	change.addr = gate_addr(&g, 16);
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &change) == WEFT_OK);
	EXPECT_EQ(is_known(changes, tag), false);
	changes = g.table.changes;
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, other) == WEFT_OK);
	EXPECT_EQ(is_known(changes, tag), false);
	EXPECT_EQ(is_known(g.table.changes, tag), true);
	gate_fini(&g);
}

TEST(test_loc_02_range_of_other_memory_is_never_known)
{
	struct weft_space elsewhere = { .size = UINT64_MAX };
	struct att *att = (struct att *)&elsewhere;
	struct mem_entry *e;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	e = gate_entry(&g, tag);
	e->att = att;
	EXPECT_EQ(is_known(g.table.changes, tag), false);
	e->att = NULL;
	e->space = &elsewhere;
	EXPECT_EQ(is_known(g.table.changes, tag), false);
	e->space = &g.process;
	EXPECT_EQ(is_known(g.table.changes, tag), true);
	EXPECT_EQ(is_known(g.table.changes, gate_one_touch(&g, 64)), false);
	gate_fini(&g);
}

static bool passes_again(const struct mem_passed *passed, struct mem_access a)
{
	struct mem_grant grant = { 0 };

	return mem_access_again(&g.table, passed, &a, &grant) && grant.origin == a.addr &&
	       grant.length == a.length && grant.space == &g.process;
}

TEST(test_loc_02_access_like_one_that_passed_needs_its_range)
{
	static const struct mem_passed none;
	struct mem_passed passed = { 0 };
	struct mem_access a;
	uint32_t other;

	gate_init(&g, WEFT_POLICY_OPEN);
	a = gate_ask(&g, MEM_LOCAL_READ, gate_region(&g, 0, 64, WEFT_LOCAL_READ), 0, 8);
	other = gate_region(&g, 0, 64, 0);
	EXPECT_EQ(passes_again(&none, a), false);
	EXPECT_EQ(passes_again(&none, gate_ask(&g, MEM_LOCAL_READ, 0, 0, 8)), false);
	passed = (struct mem_passed){ a.tag, a.kind, g.table.changes };
	EXPECT_EQ(passes_again(&passed, a), true);
	EXPECT_EQ(passes_again(&passed, gate_ask(&g, MEM_LOCAL_READ, a.tag, 8, 56)), true);
	EXPECT_EQ(passes_again(&passed, gate_ask(&g, MEM_LOCAL_READ, a.tag, 8, 57)), false);
	EXPECT_EQ(passes_again(&passed, gate_ask(&g, MEM_LOCAL_READ, a.tag, 8, 0)), false);
	EXPECT_EQ(passes_again(&passed, gate_ask(&g, MEM_LOCAL_WRITE, a.tag, 0, 8)), false);
	EXPECT_EQ(passes_again(&passed, gate_ask(&g, MEM_LOCAL_READ, other, 0, 8)), false);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, other) == WEFT_OK);
	EXPECT_EQ(passes_again(&passed, a), false);
	gate_fini(&g);
}
