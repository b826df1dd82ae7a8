/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries that other processes check: which they see, and that they see what the table says. */
#include "mem/published.h"

#include "unit/mem/mem_fixture.h"

enum { BYTES = 64 };

static struct mem_published entries[MEM_PUBLISHED_MAX];
static uint32_t waits;

static void await(void *owner)
{
	(void)owner;
	waits++;
}

static const struct mem_publisher publisher = { entries, await, NULL };

static void gate_publish(struct gate *g, enum weft_policy policy)
{
	memset(entries, 0, sizeof(entries));
	waits = 0;
	gate_init(g, policy);
	mem_table_publish(&g->table, &publisher);
}

static struct mem_access access_to(const struct gate *g, uint32_t tag)
{
	return (struct mem_access){
		.addr = gate_addr(g, 0),
		.length = BYTES,
		.tag = tag,
		.pd = PD_OWN,
		.qp = QP_OWN,
		.kind = MEM_REMOTE_WRITE,
	};
}

static enum weft_reason look(const struct gate *g, const struct mem_access *a)
{
	uint64_t addr = 0;
	enum weft_reason r = mem_published_check(entries, g->table.policy, a, &addr);

	if (r == WEFT_OK)
		MUST_EQ(addr, gate_addr(g, 0));
	return r;
}

static bool is_seen(uint32_t tag)
{
	return mem_published_find(entries, weft_tag_index(tag)) != NULL;
}

TEST(test_published_region_is_checked_as_the_table_does)
{
	static struct gate g;
	struct mem_access a;
	struct mem_grant grant;
	uint32_t tag;

	gate_publish(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, BYTES, WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE);
	/* One change each time: all of them, and none. */
	for (int i = 0; i < 7; i++) {
		a = access_to(&g, tag);
		a.length += i == 1;
		a.addr -= i == 2;
		a.kind = i == 3 ? MEM_REMOTE_READ : a.kind;
		a.pd = i == 4 ? PD_OTHER : a.pd;
		a.tag ^= i == 5;
		a.addr = i == 6 ? UINT64_MAX : a.addr;
		EXPECT_EQ(look(&g, &a), mem_access_check(&g.table, &a, &grant));
	}
	gate_fini(&g);
}

TEST(test_published_region_ends_before_its_memory_is_given_back)
{
	static struct gate g;
	struct mem_access a;
	uint32_t tag;

	gate_publish(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, BYTES, RIGHTS_ALL);
	a = access_to(&g, tag);
	EXPECT_EQ(look(&g, &a), WEFT_OK);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(waits, 1);
	EXPECT_EQ(look(&g, &a), WEFT_R_TAG_INDEX);
	for (uint32_t low = 0; low <= UINT8_MAX; low++) { /* an empty place is no entry */
		a.tag = low;
		EXPECT_EQ(look(&g, &a), WEFT_R_TAG_INDEX);
	}
	gate_fini(&g);
}

/* What may be accessed once, or lies elsewhere, or in parts, the owner must see. */
TEST(test_published_are_regions_of_the_process_that_stay)
{
	struct weft_region_options o = { .length = BYTES, .rights = RIGHTS_ALL & ~WEFT_BIND };
	static struct gate g;
	uint64_t page;
	const struct weft_page_list pages = { .page_size_bytes = GATE_PAGE,
					      .pages = &page,
					      .count = 1 };
	uint32_t tag;

	gate_publish(&g, WEFT_POLICY_OPEN);
	page = o.addr = gate_addr(&g, 0);
	EXPECT(is_seen(gate_region(&g, 0, BYTES, WEFT_REMOTE_READ)));
	EXPECT(!is_seen(gate_region(&g, 0, BYTES, WEFT_LOCAL_READ | WEFT_LOCAL_WRITE)));
	o.is_one_touch = true;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	EXPECT(!is_seen(tag));
	o.is_one_touch = false;
	o.pages = &pages;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	EXPECT(!is_seen(tag));
	gate_fini(&g);
}

TEST(test_published_window_is_of_its_queue_pair)
{
	static struct gate g;
	struct mem_access a;
	uint32_t region, tag;

	gate_publish(&g, WEFT_POLICY_STRICT);
	region = gate_region(&g, 0, BYTES, RIGHTS_ALL);
	a = access_to(&g, region);
	EXPECT_EQ(look(&g, &a), WEFT_R_TAG_REGION_REMOTE);
	tag = gate_bound(&g, region, 0, BYTES, WEFT_REMOTE_WRITE);
	a.tag = tag;
	EXPECT_EQ(look(&g, &a), WEFT_OK);
	EXPECT_EQ(mem_window_give(&g.table, PD_OWN, tag, QP_OTHER), WEFT_OK);
	EXPECT_EQ(waits, 1);
	EXPECT_EQ(look(&g, &a), WEFT_R_TAG_QP);
	EXPECT_EQ(mem_invalidate_by_peer(&g.table, PD_OWN, QP_OTHER, tag), WEFT_OK);
	EXPECT_EQ(look(&g, &a), WEFT_R_TAG_INDEX);
	gate_fini(&g);
}

TEST(test_published_region_that_changes_is_seen_changed)
{
	const struct weft_region_options o = { .rights = WEFT_LOCAL_WRITE | WEFT_REMOTE_READ };
	static struct gate g;
	struct mem_access a;
	uint32_t tag;

	gate_publish(&g, WEFT_POLICY_OPEN);
	tag = gate_region(&g, 0, BYTES, WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE);
	a = access_to(&g, tag);
	EXPECT_EQ(look(&g, &a), WEFT_OK);
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o), WEFT_OK);
	EXPECT_EQ(waits, 1);
	EXPECT_EQ(look(&g, &a), WEFT_R_RIGHT_REMOTE_WRITE);
	gate_fini(&g);
}

/* More than there are places: each is the entry of its own tag, or of none. */
TEST(test_published_regions_that_have_no_place_are_not_seen)
{
	enum { MANY = 2 * MEM_PUBLISHED_MAX };
	const struct mem_limits limits = { .tags_max = 4 * MANY,
					   .translations_max = GATE_TRANSLATIONS,
					   .pds_max = PDS_MAX,
					   .qps_max = QPS_MAX,
					   .secret = { 11, 12 } };
	static uint32_t tags[MANY];
	static struct gate g;
	uint32_t seen = 0, before;

	memset(entries, 0, sizeof(entries));
	gate_init_limits(&g, &limits);
	for (int i = 0; i < 100; i++)
		tags[i] = gate_region(&g, 0, BYTES, RIGHTS_ALL);
	mem_table_publish(&g.table, &publisher);
	for (int i = 100; i < MANY; i++)
		tags[i] = gate_region(&g, 0, BYTES, RIGHTS_ALL);
	for (int i = 0; i < MANY; i++) {
		struct mem_access a = access_to(&g, tags[i]);
		enum weft_reason r = look(&g, &a);

		EXPECT_EQ(r, is_seen(tags[i]) ? WEFT_OK : WEFT_R_TAG_INDEX);
		EXPECT(i >= 100 || r == WEFT_OK); /* the first find room, before it was published */
		seen += r == WEFT_OK;
	}
	EXPECT(seen > MEM_PUBLISHED_MAX / 10 * 9);
	before = waits;
	for (int i = 0; i < MANY; i++)
		EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tags[i]), WEFT_OK);
	EXPECT_EQ(waits - before, seen);
	for (uint32_t i = 0; i < MEM_PUBLISHED_MAX; i++)
		EXPECT_EQ(atomic_load(&entries[i].tag), 0);
	gate_fini(&g);
}
