/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem_fixture.h"

static struct gate g;

/* A region of whole pages of the gate's memory, by page list. */
static uint32_t paged_region(uint32_t count, uint32_t rights)
{
	uint64_t pages[GATE_BYTES / GATE_PAGE];
	const struct weft_page_list list = { .pages = pages,
					     .count = count,
					     .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = count * GATE_PAGE,
					       .va = gate_addr(&g, 0),
					       .rights = rights,
					       .pages = &list };
	uint32_t tag;

	for (uint32_t i = 0; i < count; i++)
		pages[i] = gate_addr(&g, i * GATE_PAGE);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	return tag;
}

/* Writes through a tag, as the sender of a local write would. */
static enum weft_reason put(struct mem_access a, const char *text)
{
	struct mem_vec to, from;
	struct mem_grant grant, own = mem_grant_of(text, a.length);
	enum weft_reason r = mem_access_check(&g.table, &a, &grant);

	if (r != WEFT_OK)
		return r;
	mem_vec_init(&to);
	mem_vec_init(&from);
	mem_vec_add(&to, &grant);
	mem_vec_add(&from, &own);
	mem_vec_copy(&to, &from, a.length);
	return WEFT_OK;
}

TEST(test_mem_01_mem_11_registering_returns_a_tag_that_works_at_once)
{
	uint32_t a, b;

	gate_init(&g, WEFT_POLICY_OPEN);
	a = gate_region(&g, 0, 100, RIGHTS_ALL);
	EXPECT_EQ(put(gate_ask(&g, MEM_LOCAL_WRITE, a, 40, 5), "hello"), WEFT_OK);
	EXPECT_MEM(&g.memory[40], "hello", 6);
	/* Each fragment has its own tag, also two over the same memory. */
	b = gate_region(&g, 0, 100, RIGHTS_ALL);
	EXPECT(a != 0 && b != 0 && weft_tag_index(a) != weft_tag_index(b));
	EXPECT_EQ(put(gate_ask(&g, MEM_LOCAL_WRITE, b, 41, 3), "ipp"), WEFT_OK);
	EXPECT_MEM(&g.memory[40], "hippo", 6);
	gate_fini(&g);
}

TEST(test_mem_02_tag_is_index_and_instance)
{
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, 100, RIGHTS_ALL);
	EXPECT_EQ(weft_tag_index(tag) << 8 | weft_tag_instance(tag), tag);
	EXPECT_EQ(gate_entry(&g, tag)->state, MEM_VALID);
	EXPECT_EQ(gate_entry(&g, tag)->instance, weft_tag_instance(tag));
	for (uint32_t index = 0; index <= GATE_TAGS; index++) {
		uint32_t other = mem_tag(index, weft_tag_instance(tag));

		EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, other, 0, 1),
			  index == weft_tag_index(tag) ? WEFT_OK : WEFT_R_TAG_INVALID);
	}
	gate_fini(&g);
}

/* The entry says whether, the ATT where: one ATT under entries that grant different things. */
TEST(test_mem_03_protection_and_translation_are_two_tables)
{
	struct weft_region_options o = { .rights = WEFT_REMOTE_WRITE };
	uint32_t a, b;

	gate_init(&g, WEFT_POLICY_OPEN);
	a = paged_region(3, WEFT_LOCAL_READ);
	EXPECT_EQ(g.table.atts.used, 1);
	REQUIRE(mem_region_share(&g.table, &g.owner, a, &o, &b) == WEFT_OK);
	EXPECT_EQ(g.table.atts.used, 1);
	EXPECT(gate_entry(&g, a)->att == gate_entry(&g, b)->att);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, a, 5000, 100), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, b, 5000, 100), WEFT_R_RIGHT_LOCAL_READ);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, a, 5000, 100), WEFT_R_RIGHT_REMOTE_WRITE);
	EXPECT_EQ(put(gate_ask(&g, MEM_REMOTE_WRITE, b, 8191, 2), "xy"), WEFT_OK);
	EXPECT_MEM(&g.memory[8190], "\0xy\0", 4);
	gate_fini(&g);
}

TEST(test_mem_04d_mem_04e_type_and_valid_bit_of_the_entry)
{
	struct mem_entry *e;
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, MEM_REMOTE_RIGHTS);
	EXPECT_EQ(MEM_REGION, 0);
	EXPECT_EQ(MEM_WINDOW, 1);
	EXPECT_EQ(MEM_ISCSI_REGION, 2);
	EXPECT_EQ(gate_entry(&g, region)->type, MEM_REGION);
	EXPECT_EQ(gate_entry(&g, window)->type, MEM_WINDOW);
	/* Types that no operation knows yet, and the reserved one. */
	e = gate_entry(&g, region);
	for (uint8_t type = 2; type < 4; type++) {
		e->type = type;
		for (int kind = 0; kind < MEM_TASK_KINDS; kind++)
			EXPECT_EQ(gate_access(&g, kind, region, 0, 8), WEFT_R_TAG_TYPE);
	}
	e->type = MEM_REGION;
	EXPECT_EQ(e->state, MEM_VALID);
	e->state = MEM_RESERVED;
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, region, 0, 8), WEFT_R_TAG_INVALID);
	e->state = MEM_VALID;
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, region, 0, 8), WEFT_OK);
	gate_fini(&g);
}

/* A window over all of a region, with its rights: the entries differ in their type alone. */
TEST(test_mem_04_both_kinds_hold_the_same_fields)
{
	struct mem_entry region, window;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = paged_region(3, MEM_REMOTE_RIGHTS | WEFT_BIND);
	window = *gate_entry(&g, gate_bound(&g, tag, 0, 3 * GATE_PAGE, MEM_REMOTE_RIGHTS));
	region = *gate_entry(&g, tag);
	EXPECT_EQ(region.type, MEM_REGION);
	EXPECT_EQ(window.type, MEM_WINDOW);
	EXPECT_EQ(window.start, region.start);
	EXPECT_EQ(window.length, region.length);
	EXPECT_EQ(window.origin, region.origin);
	EXPECT(window.space == region.space);
	EXPECT(window.att && window.att == region.att);
	EXPECT_EQ(window.pd, region.pd);
	EXPECT_EQ(window.qp, region.qp);
	EXPECT_EQ(window.state, region.state);
	EXPECT_EQ(window.rights | WEFT_BIND, region.rights);
	EXPECT_EQ(window.touch, region.touch);
	EXPECT_EQ(window.region, weft_tag_index(tag));
	EXPECT_EQ(region.windows, 1);
	gate_fini(&g);
}

/* MEM-04f in MEM-S3: what the request said is what the table enforces. */
TEST(test_mem_s3_protection_of_the_request_is_stored_and_enforced)
{
	struct weft_region_options o = { .addr = gate_addr(&g, 16), .length = 32 };

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint32_t rights = 0; rights <= RIGHTS_ALL; rights++) {
		uint32_t tag;
		const struct mem_entry *e;

		o.rights = rights;
		REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
		e = gate_entry(&g, tag);
		EXPECT_EQ(e->start, o.addr);
		EXPECT_EQ(e->length, o.length);
		EXPECT_EQ(e->pd, PD_OWN);
		EXPECT_EQ(e->rights, rights);
		EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 16, 32),
			  rights & WEFT_REMOTE_WRITE ? WEFT_OK : WEFT_R_RIGHT_REMOTE_WRITE);
		EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 16, 32),
			  rights & WEFT_LOCAL_READ ? WEFT_OK : WEFT_R_RIGHT_LOCAL_READ);
		EXPECT(gate_access(&g, MEM_LOCAL_READ, tag, 16, 33) != WEFT_OK);
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	}
	gate_fini(&g);
}

/* Registers until the index of the tag comes up again; the others are given back. */
static uint32_t reuse_slot_of(uint32_t tag)
{
	uint32_t taken[GATE_TAGS], count = 0, found = 0;

	while (!found) {
		REQUIRE(count < GATE_TAGS);
		taken[count] = gate_region(&g, 0, 64, RIGHTS_ALL);
		if (weft_tag_index(taken[count]) == weft_tag_index(tag))
			found = taken[count];
		count++;
	}
	while (count-- > 0) {
		if (taken[count] != found)
			REQUIRE(mem_region_deregister(&g.table, PD_OWN, taken[count]) == WEFT_OK);
	}
	return found;
}

TEST(test_mem_s2_mem_04c_stale_tag_is_refused_on_its_instance)
{
	uint32_t stale, now;

	gate_init(&g, WEFT_POLICY_OPEN);
	stale = gate_region(&g, 0, 64, RIGHTS_ALL);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, stale) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, stale, 0, 8), WEFT_R_TAG_INVALID);
	/* The slot serves again, for the very same memory: all but the instance would match. */
	now = reuse_slot_of(stale);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		EXPECT_EQ(gate_access(&g, kind, stale, 0, 8), WEFT_R_TAG_INSTANCE);
		EXPECT_EQ(gate_access(&g, kind, now, 0, 8), WEFT_OK);
	}
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, stale), WEFT_R_TAG_INSTANCE);
	gate_fini(&g);
}

/* A tag comes alive again only after the index has had all other instances. */
TEST(test_mem_s2_instance_of_a_slot_does_not_repeat_early)
{
	const struct mem_limits limits = {
		.tags_max = 1, .translations_max = 1, .pds_max = PDS_MAX, .qps_max = QPS_MAX
	};
	uint32_t first, tag;

	gate_init_limits(&g, &limits);
	first = gate_region(&g, 0, 64, RIGHTS_ALL);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, first) == WEFT_OK);
	for (int i = 1; i < 256; i++) {
		tag = gate_region(&g, 0, 64, RIGHTS_ALL);
		EXPECT(tag != first);
		EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, first, 0, 8), WEFT_R_TAG_INSTANCE);
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	}
	EXPECT_EQ(gate_region(&g, 0, 64, RIGHTS_ALL), first);
	gate_fini(&g);
}

TEST(test_mem_10_deregistration_frees_the_entry_and_its_translations)
{
	struct gate_use before;
	uint32_t plain, paged;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	plain = gate_region(&g, 0, 64, RIGHTS_ALL);
	paged = paged_region(3, RIGHTS_ALL);
	EXPECT_EQ(gate_use(&g).valid, 2);
	EXPECT_EQ(gate_use(&g).own, 2);
	EXPECT_EQ(gate_use(&g).space_users, 2);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OTHER, plain), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, plain ^ 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, UINT32_MAX), WEFT_R_TAG_INDEX);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, 0), WEFT_R_TAG_INVALID);
	EXPECT_EQ(gate_use(&g).valid, 2);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, plain), WEFT_OK);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, plain), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, paged), WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

TEST(test_mem_10_region_with_windows_stays)
{
	uint32_t region, window;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, WEFT_REMOTE_WRITE);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, region), WEFT_R_REGION_HAS_WINDOWS);
	EXPECT(gate_is_open(&g, window, 0, 64));
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, window), WEFT_R_TAG_TYPE);
	REQUIRE(mem_window_unbind(&g.table, PD_OWN, window) == WEFT_OK);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, region), WEFT_OK);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, window), WEFT_OK);
	gate_fini(&g);
}

TEST(test_mem_09_mem_10_mem_s4_sharer_survives_the_first_deregistration)
{
	struct weft_region_options o = { .rights = WEFT_LOCAL_WRITE };
	struct gate_use before;
	uint32_t first, second;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	first = paged_region(3, RIGHTS_ALL);
	REQUIRE(mem_region_share(&g.table, &g.other, first, &o, &second) == WEFT_OK);
	/* Two entries in two domains, one ATT with two users. */
	EXPECT_EQ(gate_use(&g).tags, 2);
	EXPECT_EQ(gate_use(&g).blocks, 1);
	EXPECT_EQ(gate_entry(&g, second)->att->users, 2);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, first) == WEFT_OK);
	EXPECT_EQ(gate_use(&g).blocks, 1);
	struct mem_access a = gate_ask(&g, MEM_LOCAL_WRITE, second, 4094, 4);

	EXPECT_EQ(put(a, "abcd"), WEFT_R_TAG_PD);
	a.pd = PD_OTHER;
	EXPECT_EQ(put(a, "abcd"), WEFT_OK);
	EXPECT_MEM(&g.memory[4093], "\0abcd", 6);
	REQUIRE(mem_region_deregister(&g.table, PD_OTHER, second) == WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* Many sharers that go in random order: the ATT goes with the last. */
TEST(test_mem_10_shared_translations_go_with_the_last_user)
{
	const struct weft_region_options o = { .rights = WEFT_LOCAL_READ };
	struct prng p = { .state = 21 };
	uint32_t tags[12], count = 1;

	gate_init(&g, WEFT_POLICY_OPEN);
	tags[0] = paged_region(2, RIGHTS_ALL);
	for (; count < 12; count++) {
		uint32_t of = tags[prng_below(&p, count)];

		REQUIRE(mem_region_share(&g.table, &g.owner, of, &o, &tags[count]) == WEFT_OK);
		EXPECT_EQ(gate_entry(&g, tags[0])->att->users, count + 1);
	}
	while (count > 0) {
		uint32_t at = prng_below(&p, count);

		EXPECT_EQ(g.table.atts.used, 1);
		EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tags[at], 4000, 200), WEFT_OK);
		REQUIRE(mem_region_deregister(&g.table, PD_OWN, tags[at]) == WEFT_OK);
		tags[at] = tags[--count];
	}
	EXPECT_EQ(g.table.atts.used, 0);
	EXPECT_EQ(g.process.users, 0);
	gate_fini(&g);
}

TEST(test_mem_09_share_takes_its_own_address_and_rights)
{
	struct weft_region_options o = { .rights = WEFT_LOCAL_WRITE, .va = 0x5000 };
	struct mem_access a = {
		.addr = 0x5003, .length = 2, .pd = PD_OWN, .kind = MEM_LOCAL_WRITE
	};
	uint32_t first;

	gate_init(&g, WEFT_POLICY_OPEN);
	first = gate_region(&g, 16, 64, WEFT_LOCAL_READ);
	REQUIRE(mem_region_share(&g.table, &g.owner, first, &o, &a.tag) == WEFT_OK);
	EXPECT_EQ(put(a, "ab"), WEFT_OK);
	EXPECT_MEM(&g.memory[18], "\0ab\0", 4);
	o.is_zero_based = true;
	REQUIRE(mem_region_share(&g.table, &g.owner, first, &o, &a.tag) == WEFT_OK);
	a.addr = 62;
	EXPECT_EQ(put(a, "cd"), WEFT_OK);
	EXPECT_MEM(&g.memory[77], "\0cd\0", 4);
	a.addr = 63;
	EXPECT_EQ(put(a, "cd"), WEFT_R_RANGE_BOUNDS);
	o = (struct weft_region_options){ .rights = WEFT_LOCAL_WRITE };
	REQUIRE(mem_region_share(&g.table, &g.owner, first, &o, &a.tag) == WEFT_OK);
	a.addr = gate_addr(&g, 16);
	EXPECT_EQ(put(a, "ef"), WEFT_OK);
	EXPECT_MEM(&g.memory[15], "\0ef", 3);
	gate_fini(&g);
}

TEST(test_mem_09_share_refusals_change_nothing)
{
	struct weft_region_options o = { .rights = WEFT_LOCAL_READ };
	struct weft_space elsewhere;
	struct mem_owner far_owner = { .pd = PD_OTHER, .space = &elsewhere };
	struct gate_use before;
	uint32_t region, window, tag = 5;

	gate_init(&g, WEFT_POLICY_OPEN);
	mem_space_init_process(&elsewhere);
	region = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 64, WEFT_REMOTE_READ);
	before = gate_use(&g);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, 0, &o, &tag), WEFT_R_TAG_INVALID);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, UINT32_MAX, &o, &tag), WEFT_R_TAG_INDEX);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, region ^ 1, &o, &tag), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, window, &o, &tag), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_region_share(&g.table, &far_owner, region, &o, &tag), WEFT_R_REG_VIRTUAL);
	o.va = UINT64_MAX - 62;
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, region, &o, &tag), WEFT_R_REG_WRAP);
	o = (struct weft_region_options){ .rights = RIGHTS_ALL + 1 };
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, region, &o, &tag), WEFT_R_REG_RIGHTS);
	o = (struct weft_region_options){ .rights = WEFT_BIND, .is_one_touch = true };
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, region, &o, &tag), WEFT_R_REG_TOUCH);
	EXPECT(gate_use_is(&g, before));
	EXPECT_EQ(tag, 5);
	gate_fini(&g);
}

/* The same address means different memory under different tags, and nothing without one. */
TEST(test_mem_13_tag_and_address_name_memory)
{
	struct weft_region_options o = { .va = 0x100, .length = 16, .rights = WEFT_REMOTE_WRITE };
	struct mem_access a = {
		.addr = 0x104, .length = 1, .pd = PD_OWN, .kind = MEM_REMOTE_WRITE
	};
	uint32_t tags[4];

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint32_t i = 0; i < 4; i++) {
		o.addr = gate_addr(&g, 100 * i);
		REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tags[i]) == WEFT_OK);
	}
	for (uint32_t i = 0; i < 4; i++) {
		const char text[2] = { (char)('a' + i), 0 };

		a.tag = tags[i];
		EXPECT_EQ(put(a, text), WEFT_OK);
	}
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_EQ(g.memory[100 * i + 4], 'a' + i);
	a.addr = gate_addr(&g, 4); /* where it lies is not how it is named */
	EXPECT_EQ(put(a, "x"), WEFT_R_RANGE_BOUNDS);
	gate_fini(&g);
}

TEST(test_mem_01_zero_based_region_counts_from_0)
{
	const struct weft_region_options o = { .addr = gate_addr(&g, 32),
					       .va = 0x777,
					       .length = 16,
					       .rights = WEFT_LOCAL_WRITE,
					       .is_zero_based = true };
	struct mem_access a = { .length = 2, .pd = PD_OWN, .kind = MEM_LOCAL_WRITE };

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	EXPECT_EQ(put(a, "ab"), WEFT_OK);
	a.addr = 14;
	EXPECT_EQ(put(a, "cd"), WEFT_OK);
	EXPECT_MEM(&g.memory[31], "\0ab", 3);
	EXPECT_MEM(&g.memory[46], "cd\0", 3);
	a.addr = 15;
	EXPECT_EQ(put(a, "ef"), WEFT_R_RANGE_BOUNDS);
	a.addr = 0x777;
	EXPECT_EQ(put(a, "ef"), WEFT_R_RANGE_BOUNDS);
	gate_fini(&g);
}

/* ---- Refused registrations change nothing ---------------------------------------------------- */

static void expect_register(struct weft_region_options o, enum weft_reason expected)
{
	struct gate_use before = gate_use(&g);
	uint32_t tag = 5;

	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), expected);
	EXPECT(gate_use_is(&g, before));
	EXPECT_EQ(tag, 5);
}

TEST(test_mem_01_bad_registrations_are_refused)
{
	const struct weft_region_options good = { .addr = gate_addr(&g, 0),
						  .length = 64,
						  .rights = WEFT_LOCAL_READ };
	struct weft_region_options o = good;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	o.length = 0;
	expect_register(o, WEFT_R_REG_LENGTH);
	o.length = UINT64_MAX;
	expect_register(o, WEFT_R_REG_WRAP);
	o = good;
	o.va = UINT64_MAX - 62;
	expect_register(o, WEFT_R_REG_WRAP);
	o = good;
	o.va = 0x1000; /* a good name for bad memory */
	o.addr = UINT64_MAX - 62;
	expect_register(o, WEFT_R_REG_WRAP);
	for (uint32_t bit = RIGHTS_ALL + 1; bit; bit <<= 1) {
		o = good;
		o.rights |= bit;
		expect_register(o, WEFT_R_REG_RIGHTS);
	}
	o = good;
	o.rights = WEFT_BIND;
	o.is_one_touch = true;
	expect_register(o, WEFT_R_REG_TOUCH);
	o.is_one_touch = false;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
	gate_fini(&g);
}

TEST(test_mem_04l_only_the_listed_page_sizes_are_taken)
{
	static const uint8_t shifts[] = { 12, 13, 16, 20, 24, 28 };
	uint64_t page = 0;
	struct weft_page_list list = { .pages = &page, .count = 1 };
	const struct weft_region_options o = { .va = 1, .length = 64, .pages = &list };
	uint32_t tag, next = 0;

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint8_t shift = 0; shift < 64; shift++) {
		bool is_listed = next < 6 && shifts[next] == shift;

		list.page_size_bytes = UINT64_C(1) << shift;
		EXPECT_EQ(att_page_shift(list.page_size_bytes), is_listed ? shift : 0);
		if (is_listed) {
			next++;
			EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
			EXPECT_EQ(gate_entry(&g, tag)->att->page_shift, shift);
		} else {
			expect_register(o, WEFT_R_REG_PAGE_SIZE);
		}
		list.page_size_bytes++;
		expect_register(o, WEFT_R_REG_PAGE_SIZE);
	}
	list.page_size_bytes = 0;
	expect_register(o, WEFT_R_REG_PAGE_SIZE);
	EXPECT_EQ(next, 6);
	gate_fini(&g);
}

TEST(test_mem_06_page_list_must_fit_offset_and_length)
{
	uint64_t pages[4] = { 0, GATE_PAGE, 3 * GATE_PAGE, 2 * GATE_PAGE };
	struct weft_page_list list = {
		.pages = pages, .count = 3, .page_size_bytes = GATE_PAGE, .first_offset = 4095
	};
	struct weft_region_options o = { .va = 1, .pages = &list };
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	for (uint64_t length = 1; length < 3 * GATE_PAGE; length++) {
		o.length = length;
		/* One byte in the first page, the second full, at least one in the third. */
		if (length <= 1 + GATE_PAGE || length > 1 + 2 * GATE_PAGE) {
			expect_register(o, WEFT_R_REG_PAGE_COUNT);
		} else {
			EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
			EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_OK);
		}
	}
	o.length = 2 * GATE_PAGE;
	list.first_offset = GATE_PAGE;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	list.first_offset = UINT64_MAX;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	list.first_offset = 0;
	list.count = 0;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	list.count = UINT32_MAX;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	o.length = UINT64_MAX;
	o.va = 2;
	expect_register(o, WEFT_R_REG_WRAP);
	o.va = 1;
	list.first_offset = 1;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	list.first_offset = 2; /* both together are beyond all numbers: it would be one page */
	list.count = 1;
	expect_register(o, WEFT_R_REG_PAGE_COUNT);
	list.pages = NULL;
	o.length = 10;
	expect_register(o, WEFT_R_NULL_ARGUMENT);
	gate_fini(&g);
}

TEST(test_mem_06_page_addresses_are_aligned_and_inside_the_space)
{
	const struct weft_space_options space_options = { .memory = g.memory,
							  .size_bytes = 4 * GATE_PAGE,
							  .mappings_max = 1 };
	uint64_t pages[2] = { 3 * GATE_PAGE, 0 };
	const struct weft_page_list list = { .pages = pages,
					     .count = 2,
					     .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = 2 * GATE_PAGE, .pages = &list };
	struct weft_space space;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_space_init(&space, &space_options) == WEFT_OK);
	g.owner.space = &space;
	g.owner.is_privileged = true;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
	for (uint64_t off = 1; off < GATE_PAGE; off <<= 1) {
		pages[1] = off;
		expect_register(o, WEFT_R_REG_PAGE_ADDRESS);
	}
	pages[1] = 4 * GATE_PAGE;
	expect_register(o, WEFT_R_REG_PAGE_ADDRESS);
	pages[1] = UINT64_MAX - GATE_PAGE + 1;
	expect_register(o, WEFT_R_REG_PAGE_ADDRESS);
	mem_space_fini(&space);
	gate_fini(&g);
}

TEST(test_mem_06_one_bad_page_of_many_is_found)
{
	enum { PAGES = 3 * ATT_BLOCK_ENTRIES };
	uint64_t pages[PAGES] = { 0 };
	struct weft_page_list list = { .pages = pages,
				       .count = PAGES,
				       .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = PAGES * GATE_PAGE, .pages = &list };

	gate_init(&g, WEFT_POLICY_OPEN);
	for (list.order = WEFT_ORDER_FIRST; list.order <= WEFT_ORDER_SECOND; list.order++) {
		for (uint32_t i = 0; i < PAGES; i++) {
			pages[i] = 8;
			expect_register(o, WEFT_R_REG_PAGE_ADDRESS);
			pages[i] = 0;
		}
	}
	gate_fini(&g);
}

/* AMB-08: outside the process's own space page lists name frames, not a user's to name. */
TEST(test_sqr_07_page_frames_are_for_privileged_callers)
{
	const struct weft_space_options space_options = { .memory = g.memory,
							  .size_bytes = GATE_BYTES,
							  .mappings_max = 1 };
	uint64_t page = 0;
	const struct weft_page_list list = { .pages = &page,
					     .count = 1,
					     .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = 64, .pages = &list };
	const struct weft_region_options same = { .rights = WEFT_LOCAL_READ };
	struct weft_space space;
	uint32_t tag, shared;

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_space_init(&space, &space_options) == WEFT_OK);
	page = gate_addr(&g, 0);
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
	page = 0;
	g.owner.space = &space;
	expect_register(o, WEFT_R_REG_FRAMES);
	g.owner.is_privileged = true;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_OK);
	/* Nor may a user have those that another named. */
	g.owner.is_privileged = false;
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, tag, &same, &shared), WEFT_R_REG_FRAMES);
	g.owner.is_privileged = true;
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, tag, &same, &shared), WEFT_OK);
	mem_space_fini(&space);
	gate_fini(&g);
}

TEST(test_mem_10_reserved_tag_has_nothing_to_share)
{
	const struct weft_region_options same = { .rights = WEFT_LOCAL_READ };
	uint32_t tag, shared;

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &tag) == WEFT_OK);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, tag, &same, &shared), WEFT_R_TAG_INVALID);
	gate_fini(&g);
}

/* A space of another adapter is invalid here. */
TEST(test_mem_01_space_of_another_adapter_is_refused)
{
	struct weft_space far;
	struct weft_region_options o = { .addr = gate_addr(&g, 0), .length = 64, .space = &far };

	gate_init(&g, WEFT_POLICY_OPEN);
	mem_space_init_process(&far);
	far.is_virtual = true;
	far.owner = &far;
	g.owner.is_privileged = true;
	expect_register(o, WEFT_R_BAD_ARGUMENT);
	far.owner = NULL;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &(uint32_t){ 0 }), WEFT_OK);
	gate_fini(&g);
}

/* The tag stays; memory, rights and domain are the new ones at once. */
TEST(test_mem_09_a_region_changes_under_its_tag)
{
	struct weft_region_options o = { .length = 32, .rights = WEFT_LOCAL_WRITE };
	struct gate_use before;
	struct mem_access a;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	tag = gate_region(&g, 16, 64, WEFT_LOCAL_READ);
	a = gate_ask(&g, MEM_LOCAL_WRITE, tag, 128, 2);
	EXPECT_EQ(put(a, "ab"), WEFT_R_RANGE_BOUNDS);
	o.addr = gate_addr(&g, 128);
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.other, &o) == WEFT_OK);
	EXPECT_EQ(put(a, "ab"), WEFT_R_TAG_PD);
	a.pd = PD_OTHER;
	EXPECT_EQ(put(a, "ab"), WEFT_OK);
	EXPECT_MEM(&g.memory[127], "\0ab", 3);
	a.addr = gate_addr(&g, 16);
	EXPECT_EQ(put(a, "ab"), WEFT_R_RANGE_BOUNDS);
	/* What is refused leaves it as it was. */
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o), WEFT_R_TAG_PD);
	o.rights = UINT32_MAX;
	EXPECT_EQ(mem_region_change(&g.table, PD_OTHER, tag, &g.owner, &o), WEFT_R_REG_RIGHTS);
	a.addr = gate_addr(&g, 158);
	EXPECT_EQ(put(a, "cd"), WEFT_OK);
	REQUIRE(mem_region_deregister(&g.table, PD_OTHER, tag) == WEFT_OK);
	EXPECT_EQ(mem_region_change(&g.table, PD_OTHER, tag, &g.owner, &o), WEFT_R_TAG_INVALID);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* A length of 0: rights, names and domain change, the memory does not. */
TEST(test_mem_09_a_region_keeps_its_memory_and_changes)
{
	struct weft_region_options o = { .rights = WEFT_LOCAL_WRITE, .va = 0x7000 };
	struct weft_space far = { .owner = NULL, .size = 1 };
	struct gate_use before;
	struct mem_owner elsewhere;
	struct mem_access a;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	tag = gate_region(&g, 16, 64, WEFT_LOCAL_READ);
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.other, &o) == WEFT_OK);
	a = gate_ask(&g, MEM_LOCAL_WRITE, tag, 0, 2);
	a.addr = 0x7000;
	EXPECT_EQ(put(a, "ab"), WEFT_R_TAG_PD);
	a.pd = PD_OTHER;
	EXPECT_EQ(put(a, "ab"), WEFT_OK);
	EXPECT_MEM(&g.memory[15], "\0ab", 3);
	/* The names stay, too, unless others are given. */
	o = (struct weft_region_options){ .rights = WEFT_LOCAL_READ };
	REQUIRE(mem_region_change(&g.table, PD_OTHER, tag, &g.other, &o) == WEFT_OK);
	EXPECT_EQ(put(a, "cd"), WEFT_R_RIGHT_LOCAL_WRITE);
	/* What is refused leaves it as it was. */
	o.va = UINT64_MAX - 8;
	EXPECT_EQ(mem_region_change(&g.table, PD_OTHER, tag, &g.other, &o), WEFT_R_REG_WRAP);
	o.rights = UINT32_MAX;
	EXPECT_EQ(mem_region_change(&g.table, PD_OTHER, tag, &g.other, &o), WEFT_R_REG_RIGHTS);
	o = (struct weft_region_options){ .rights = WEFT_LOCAL_WRITE };
	elsewhere = g.owner;
	elsewhere.space = &far;
	EXPECT_EQ(mem_region_change(&g.table, PD_OTHER, tag, &elsewhere, &o), WEFT_R_REG_VIRTUAL);
	EXPECT_EQ(put(a, "cd"), WEFT_R_RIGHT_LOCAL_WRITE);
	REQUIRE(mem_region_deregister(&g.table, PD_OTHER, tag) == WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* Not while windows lie on it, nor a reserved tag, nor by a list of pages. */
TEST(test_mem_09_a_region_that_may_not_change)
{
	struct weft_region_options o = { .length = 32, .rights = WEFT_LOCAL_WRITE };
	uint64_t page = gate_addr(&g, 0);
	const struct weft_page_list list = { .pages = &page,
					     .count = 1,
					     .page_size_bytes = GATE_PAGE };
	uint32_t tag, window, reserved;

	gate_init(&g, WEFT_POLICY_OPEN);
	o.addr = gate_addr(&g, 128);
	tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	window = gate_bound(&g, tag, 0, 16, WEFT_REMOTE_READ);
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o),
		  WEFT_R_REGION_HAS_WINDOWS);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, window, 0, 16), WEFT_OK);
	REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &reserved) == WEFT_OK);
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, reserved, &g.owner, &o), WEFT_R_TAG_INVALID);
	REQUIRE(mem_region_register_reserved(&g.table, &g.owner, &o, reserved) == WEFT_OK);
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, reserved, &g.owner, &o), WEFT_R_BAD_ARGUMENT);
	REQUIRE(mem_tag_release(&g.table, PD_OWN, reserved) == WEFT_OK);
	tag = gate_region(&g, 0, 64, RIGHTS_ALL);
	o.pages = &list;
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o), WEFT_R_BAD_ARGUMENT);
	EXPECT(gate_is_open(&g, tag, 0, 64));
	gate_fini(&g);
}
