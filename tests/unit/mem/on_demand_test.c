/* SPDX-License-Identifier: BSD-2-Clause */
/* On-demand regions: each access asks whether the memory is there. */
#include "base/crc.h"
#include "unit/mem/mem_fixture.h"

/* What is there, and what was asked. */
static struct {
	uint64_t low, high;
	bool is_read_only;
	uint64_t addr, length;
	bool is_written;
	int asked;
	bool is_gone; /* since it was asked for */
} memory;

static bool is_there(uint64_t addr, uint64_t length, bool is_written)
{
	memory.asked++;
	memory.addr = addr;
	memory.length = length;
	memory.is_written = is_written;
	return addr >= memory.low && addr < memory.high && length <= memory.high - addr &&
	       !(is_written && memory.is_read_only);
}

static bool copy(void *to, const void *from, uint64_t length)
{
	if (!memory.is_gone)
		memmove(to, from, length);
	return !memory.is_gone;
}

static bool run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	(void)length;
	if (!memory.is_gone)
		work(argument);
	return !memory.is_gone;
}

static const struct mem_guard guard = { .copy = copy, .run = run };

static void paged_init(struct gate *g)
{
	const struct mem_limits limits = {
		.tags_max = GATE_TAGS,
		.translations_max = GATE_TRANSLATIONS,
		.pds_max = PDS_MAX,
		.qps_max = QPS_MAX,
		.secret = { 11, 12 },
		.is_there = is_there,
		.guard = &guard,
	};

	gate_init_limits(g, &limits);
	memset(&memory, 0, sizeof(memory));
	memory.low = gate_addr(g, 0);
	memory.high = gate_addr(g, GATE_BYTES);
}

static enum weft_reason paged_register(struct gate *g, uint64_t addr, uint64_t length,
				       uint32_t *tag)
{
	const struct weft_region_options o = {
		.addr = addr,
		.length = length,
		.rights = RIGHTS_ALL,
		.is_on_demand = true,
	};

	return mem_region_register(&g->table, &g->owner, &o, tag);
}

static struct mem_access ask(enum mem_kind kind, uint32_t tag, uint64_t addr, uint64_t length)
{
	return (struct mem_access){
		.addr = addr, .length = length, .tag = tag, .pd = PD_OWN, .qp = QP_OWN, .kind = kind
	};
}

TEST(test_on_demand_asks_for_every_access_and_for_what)
{
	struct gate g;
	uint32_t tag;

	paged_init(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), GATE_BYTES, &tag) == WEFT_OK);
	EXPECT_EQ(memory.asked, 0);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		bool is_asked = kind != MEM_BIND;
		bool is_written = kind != MEM_LOCAL_READ && kind != MEM_REMOTE_READ;

		memory.asked = 0;
		EXPECT_EQ(gate_access(&g, (enum mem_kind)kind, tag, 8, 8), WEFT_OK);
		EXPECT_EQ(memory.asked, is_asked);
		EXPECT(!is_asked || (memory.addr == gate_addr(&g, 8) && memory.length == 8 &&
				     memory.is_written == is_written));
	}
	gate_fini(&g);
}

TEST(test_rkey_08c_on_demand_refuses_what_is_not_there)
{
	struct gate g;
	uint32_t tag;
	uint64_t refused;

	paged_init(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), GATE_BYTES, &tag) == WEFT_OK);
	memory.high = gate_addr(&g, 100);
	refused = g.table.refused;
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 100), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 101), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(gate_access(&g, MEM_LOCAL_READ, tag, 200, 1), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(g.table.refused, refused + 2);
	memory.is_read_only = true;
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 100), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_ATOMIC, tag, 0, 8), WEFT_R_SPACE_MAPPING);
	gate_fini(&g);
}

/* The other checks come first: a peer without access must not learn what is mapped. */
TEST(test_on_demand_asks_nothing_for_who_may_not)
{
	struct gate g;
	uint32_t tag;

	paged_init(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), 100, &tag) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag, 0, 101), WEFT_R_RANGE_BOUNDS);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, tag ^ 1, 0, 1), WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(memory.asked, 0);
	gate_fini(&g);
}

TEST(test_on_demand_may_be_the_whole_process)
{
	struct mem_access a;
	struct mem_grant grant;
	struct mem_span span;
	struct gate g;
	uint32_t tag;

	paged_init(&g);
	REQUIRE(paged_register(&g, 0, UINT64_MAX, &tag) == WEFT_OK);
	a = ask(MEM_LOCAL_WRITE, tag, gate_addr(&g, 5), 6);
	EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_OK);
	EXPECT_EQ(mem_grant_spans(&grant, &span, 1), 1);
	EXPECT(span.bytes == g.memory + 5 && span.length == 6 && mem_span_may_go(&span));
	EXPECT_EQ(gate_check(&g, ask(MEM_REMOTE_READ, tag, 0, 8)), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(gate_check(&g, ask(MEM_REMOTE_READ, tag, UINT64_MAX - 8, 8)),
		  WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(gate_check(&g, ask(MEM_REMOTE_READ, tag, UINT64_MAX - 3, 8)), WEFT_R_RANGE_WRAP);
	gate_fini(&g);
}

TEST(test_on_demand_look_asks_for_no_memory)
{
	struct mem_access a;
	struct gate g;
	uint32_t tag;

	paged_init(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), 100, &tag) == WEFT_OK);
	a = ask(MEM_LOCAL_READ, tag, gate_addr(&g, 0), 100);
	EXPECT_EQ(mem_access_look(&g.table, &a), WEFT_OK);
	a.length = 101;
	EXPECT_EQ(mem_access_look(&g.table, &a), WEFT_R_RANGE_BOUNDS);
	a.tag = UINT32_MAX;
	EXPECT_EQ(mem_access_look(&g.table, &a), WEFT_R_TAG_INDEX);
	a.length = 0; /* touches nothing, whatever its tag */
	EXPECT_EQ(mem_access_look(&g.table, &a), WEFT_OK);
	EXPECT_EQ(memory.asked, 0);
	gate_fini(&g);
}

TEST(test_mem_10_on_demand_region_is_shared_changed_and_ended_as_others)
{
	struct weft_region_options o = { .rights = WEFT_REMOTE_READ };
	struct gate_use before;
	struct gate g;
	uint32_t tag, other, window;

	paged_init(&g);
	before = gate_use(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), 100, &tag) == WEFT_OK);
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, tag, &o, &other), WEFT_OK);
	window = gate_bound(&g, tag, 0, 100, WEFT_REMOTE_WRITE);
	memory.high = memory.low;
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, other, 0, 1), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_WRITE, window, 0, 1), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_R_REGION_HAS_WINDOWS);
	EXPECT_EQ(mem_window_discard(&g.table, PD_OWN, window), WEFT_OK);
	o = (struct weft_region_options){ .addr = gate_addr(&g, 0),
					  .length = 100,
					  .rights = WEFT_REMOTE_READ };
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 1), WEFT_OK); /* no longer on demand */
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, other), WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	EXPECT_EQ(g.table.on_demand.users, 0);
	gate_fini(&g);
}

TEST(test_on_demand_is_of_the_process_alone)
{
	uint64_t page = 0;
	const struct weft_page_list pages = { .pages = &page, .count = 1, .page_size_bytes = 4096 };
	struct weft_region_options o = { .length = 100, .rights = 0, .is_on_demand = true };
	struct weft_space elsewhere;
	struct gate g;
	uint32_t tag;

	paged_init(&g);
	o.pages = &pages;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_R_BAD_ARGUMENT);
	o.pages = NULL;
	mem_space_init_endless(&elsewhere, g.memory, GATE_BYTES);
	o.space = g.owner.space; /* though it is the same */
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_R_BAD_ARGUMENT);
	o.space = NULL;
	g.owner.space = &elsewhere;
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_R_BAD_ARGUMENT);
	gate_fini(&g);
	/* Nor without a callback that tells what is mapped. */
	gate_init(&g, WEFT_POLICY_OPEN);
	EXPECT_EQ(mem_region_register(&g.table, &g.owner, &o, &tag), WEFT_R_BAD_ARGUMENT);
	gate_fini(&g);
}

static struct mem_vec vec_of(struct mem_grant grant)
{
	struct mem_vec v;

	mem_vec_init(&v);
	mem_vec_add(&v, &grant);
	return v;
}

/* What was there when it was asked for may have gone when it is used: that is told, by side. */
TEST(test_on_demand_memory_that_goes_before_it_is_used)
{
	enum { BYTES = 10000 };
	static uint8_t ours[BYTES];
	struct mem_grant plain = mem_grant_of(ours, BYTES), paged;
	struct mem_access a;
	struct mem_vec to, from;
	struct gate g;
	uint32_t tag, crc = CRC32C_BEGIN;

	paged_init(&g);
	REQUIRE(paged_register(&g, gate_addr(&g, 0), BYTES, &tag) == WEFT_OK);
	memset((void *)(uintptr_t)gate_addr(&g, 0), 7, BYTES);
	a = ask(MEM_LOCAL_WRITE, tag, gate_addr(&g, 0), BYTES);
	REQUIRE(mem_access_check(&g.table, &a, &paged) == WEFT_OK);
	to = vec_of(plain);
	from = vec_of(paged);
	EXPECT_EQ(mem_vec_copy(&to, &from, BYTES), MEM_NONE_GONE);
	EXPECT_EQ(ours[BYTES - 1], 7);
	EXPECT(mem_crc32c(&g.table.demand, &crc, (void *)(uintptr_t)gate_addr(&g, 0), BYTES));
	EXPECT_EQ(crc, crc32c_add(CRC32C_BEGIN, ours, BYTES));
	memory.is_gone = true;
	to = vec_of(plain);
	from = vec_of(paged);
	EXPECT_EQ(mem_vec_copy(&to, &from, BYTES), MEM_FROM_GONE);
	to = vec_of(paged);
	from = vec_of(plain);
	EXPECT_EQ(mem_vec_copy(&to, &from, BYTES), MEM_TO_GONE);
	EXPECT(!mem_crc32c(&g.table.demand, &crc, (void *)(uintptr_t)gate_addr(&g, 0), BYTES));
	/* Memory that stays mapped needs no check. */
	EXPECT(mem_crc32c(NULL, &crc, ours, BYTES));
	gate_fini(&g);
}
