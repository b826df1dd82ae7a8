/* SPDX-License-Identifier: BSD-2-Clause */
/* VMM-04: what the table makes of a host that knows which memory was unmapped. */
#include "unit/mem/mem_fixture.h"

/* A host with one range that was unmapped, by the latest change. */
static struct host {
	atomic_uint_fast64_t changes;
	atomic_uint unmapped;
	uint64_t start, end;
	int begun, ended, asked;
	bool is_blind;	       /* it cannot watch what begins now */
	uint64_t addr, length; /* of the last region that began or ended */
} host;

static bool were_unmapped(uint64_t addr, uint64_t length, uint64_t since)
{
	host.asked++;
	return host.changes > since && addr < host.end && host.start < addr + length;
}

static bool is_whole(struct mem_watch *w, const void *bytes, uint64_t length)
{
	return !were_unmapped((uintptr_t)bytes, length, w->since);
}

static uint64_t begin(uint64_t addr, uint64_t length)
{
	host.begun++;
	host.addr = addr;
	host.length = length;
	return host.is_blind ? 0 : host.changes;
}

static void end(uint64_t addr, uint64_t length)
{
	host.ended++;
	host.addr = addr;
	host.length = length;
}

static struct mem_watch watch;

static bool copy(void *to, const void *from, uint64_t length)
{
	REQUIRE(watch.is_accessing);
	memmove(to, from, length);
	return true;
}

static bool run(const void *bytes, uint64_t length, void (*work)(void *), void *argument)
{
	(void)bytes;
	(void)length;
	REQUIRE(watch.is_accessing);
	work(argument);
	return true;
}

static const struct mem_guard guard = { .copy = copy, .run = run };

static bool is_there(uint64_t addr, uint64_t length, bool is_written)
{
	(void)addr;
	(void)length;
	(void)is_written;
	return true;
}

static void watched_init(struct gate *g)
{
	const struct mem_limits limits = {
		.tags_max = GATE_TAGS,
		.translations_max = GATE_TRANSLATIONS,
		.pds_max = PDS_MAX,
		.qps_max = QPS_MAX,
		.secret = { 11, 12 },
		.guard = &guard,
		.is_there = is_there,
		.watch = &watch,
	};

	memset(&host, 0, sizeof(host));
	host.changes = 2;
	watch = (struct mem_watch){
		.changes = &host.changes,
		.unmapped = &host.unmapped,
		.is_whole = is_whole,
		.begin = begin,
		.end = end,
		.were_unmapped = were_unmapped,
	};
	gate_init_limits(g, &limits);
	g->process.paging = &g->table.process;
}

static void unmap(const struct gate *g, uint64_t offset, uint64_t length)
{
	host.changes += 2;
	host.unmapped = 1;
	host.start = gate_addr(g, offset);
	host.end = host.start + length;
}

TEST(test_vmm_04_the_gate_refuses_what_was_unmapped_since_it_was_registered)
{
	struct gate g;
	uint32_t tag, window, later;

	watched_init(&g);
	tag = gate_region(&g, 0, 3 * GATE_PAGE, RIGHTS_ALL);
	window = gate_bound(&g, tag, 0, 2 * GATE_PAGE, WEFT_REMOTE_READ);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++)
		EXPECT_EQ(gate_access(&g, (enum mem_kind)kind, tag, GATE_PAGE, 8), WEFT_OK);
	EXPECT_EQ(host.asked, 0); /* nothing was unmapped, ever */
	unmap(&g, GATE_PAGE, GATE_PAGE);
	later = gate_region(&g, 0, 3 * GATE_PAGE, RIGHTS_ALL);
	for (int kind = 0; kind < MEM_TASK_KINDS; kind++) {
		enum mem_kind k = (enum mem_kind)kind;

		EXPECT_EQ(gate_access(&g, k, tag, GATE_PAGE, 8), WEFT_R_MEMORY_GONE);
		EXPECT_EQ(gate_access(&g, k, tag, GATE_PAGE - 8, 8), WEFT_OK);
		EXPECT_EQ(gate_access(&g, k, tag, 2 * GATE_PAGE, 8), WEFT_OK);
		EXPECT_EQ(gate_access(&g, k, later, GATE_PAGE, 8), WEFT_OK);
	}
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, GATE_PAGE - 1, 2), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, window, GATE_PAGE, 8), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, window, 0, 8), WEFT_OK);
	gate_fini(&g);
}

/* Once memory was unmapped every access is checked. */
TEST(test_vmm_04_no_range_is_known_after_memory_was_unmapped)
{
	struct weft_sge range;
	struct mem_span span;
	struct gate g;

	watched_init(&g);
	range = (struct weft_sge){ gate_addr(&g, 0), 8, gate_region(&g, 0, GATE_PAGE, RIGHTS_ALL) };
	EXPECT_EQ(mem_known_span(&g.table, g.table.changes, &range, &span), true);
	EXPECT_EQ(span.paging == &g.table.process, true);
	unmap(&g, 2 * GATE_PAGE, GATE_PAGE);
	EXPECT_EQ(mem_known_span(&g.table, g.table.changes, &range, &span), false);
	gate_fini(&g);
}

/* Between the check and the access the program may unmap the memory, and map other memory there. */
TEST(test_vmm_04_a_change_after_the_check_is_found_by_the_access)
{
	uint8_t bytes[8] = { 0 };
	struct mem_grant grant, again;
	struct mem_span span;
	struct mem_vec to, from;
	struct gate g;
	uint32_t tag;
	uint64_t old;

	watched_init(&g);
	tag = gate_region(&g, 0, GATE_BYTES, RIGHTS_ALL);
	REQUIRE(mem_access_check(&g.table,
				 &(struct mem_access){ .addr = gate_addr(&g, GATE_PAGE),
						       .length = 8,
						       .tag = tag,
						       .pd = PD_OWN,
						       .qp = QP_OWN,
						       .kind = MEM_REMOTE_ATOMIC },
				 &grant) == WEFT_OK);
	again = grant;
	REQUIRE(mem_grant_spans(&again, &span, 1) == 1);
	EXPECT(mem_span_read(&span, bytes) && mem_span_write(&span, bytes));
	EXPECT(mem_span_is_there(&span));
	EXPECT(!watch.is_accessing);
	unmap(&g, GATE_PAGE, GATE_PAGE);
	EXPECT(!mem_span_read(&span, bytes) && !mem_span_write(&span, bytes));
	EXPECT(!mem_span_is_there(&span));
	again = grant;
	EXPECT(!mem_atomic_run(&(struct mem_atomic){ .is_add = true }, &again, &old));
	mem_vec_init(&to);
	mem_vec_init(&from);
	mem_vec_add(&from, &grant);
	again = mem_grant_of(bytes, sizeof(bytes));
	mem_vec_add(&to, &again);
	EXPECT_EQ(mem_vec_copy(&to, &from, 8), MEM_FROM_GONE);
	EXPECT(!watch.is_accessing);
	/* Other memory is as before. */
	span.bytes = g.memory;
	EXPECT(mem_span_read(&span, bytes) && mem_span_write(&span, bytes));
	EXPECT(!watch.is_accessing);
	gate_fini(&g);
}

TEST(test_vmm_04_every_region_of_process_memory_begins_and_ends_once)
{
	const uint64_t page = 0;
	const struct weft_page_list pages = { .pages = &page,
					      .count = 1,
					      .page_size_bytes = GATE_PAGE };
	struct weft_region_options o = { .length = 100, .rights = RIGHTS_ALL };
	struct gate g;
	uint32_t tag, shared;

	watched_init(&g);
	tag = gate_region(&g, 5, 100, RIGHTS_ALL);
	EXPECT_EQ(host.begun, 1);
	EXPECT(host.addr == gate_addr(&g, 5) && host.length == 100);
	REQUIRE(mem_region_share(&g.table, &g.owner, tag, &o, &shared) == WEFT_OK);
	EXPECT_EQ(host.begun, 2);
	o.addr = gate_addr(&g, 7);
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o) == WEFT_OK);
	EXPECT(host.begun == 3 && host.ended == 1);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	EXPECT(host.ended == 2 && host.addr == gate_addr(&g, 7));
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, shared) == WEFT_OK);
	EXPECT(host.ended == 3 && host.addr == gate_addr(&g, 5));
	/* By a send queue. */
	REQUIRE(mem_tag_reserve(&g.table, PD_OWN, &tag) == WEFT_OK);
	REQUIRE(mem_region_register_reserved(&g.table, &g.owner, &o, tag) == WEFT_OK);
	REQUIRE(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag) == WEFT_OK);
	EXPECT(host.begun == 4 && host.ended == 4);
	/* Pages by a list, on demand and none at all are not watched. */
	o.pages = &pages;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	o.pages = NULL;
	o.is_on_demand = true;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	REQUIRE(mem_region_register_null(&g.table, PD_OWN, &tag) == WEFT_OK);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	EXPECT(host.begun == 4 && host.ended == 4);
	gate_fini(&g);
}

/* What it has lost, it does not get back by other rights, but by memory that it is given. */
TEST(test_vmm_04_a_region_that_keeps_its_memory_lacks_what_went)
{
	struct weft_region_options o = { .rights = RIGHTS_ALL };
	struct gate g;
	uint32_t tag;

	watched_init(&g);
	tag = gate_region(&g, 0, 2 * GATE_PAGE, RIGHTS_ALL);
	unmap(&g, 0, GATE_PAGE);
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o) == WEFT_OK);
	EXPECT(host.begun == 1 && host.ended == 0);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 8), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, GATE_PAGE, 8), WEFT_OK);
	o.addr = gate_addr(&g, 0);
	o.length = 2 * GATE_PAGE;
	REQUIRE(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, 0, 8), WEFT_OK);
	REQUIRE(mem_region_deregister(&g.table, PD_OWN, tag) == WEFT_OK);
	gate_fini(&g);
}

/* What the old one has lost, a shared one does not get back. */
TEST(test_vmm_04_a_shared_region_is_as_old_as_the_first)
{
	const struct weft_region_options o = { .rights = RIGHTS_ALL };
	struct gate g;
	uint32_t tag, shared;

	watched_init(&g);
	tag = gate_region(&g, 0, 2 * GATE_PAGE, RIGHTS_ALL);
	unmap(&g, 0, GATE_PAGE);
	REQUIRE(mem_region_share(&g.table, &g.owner, tag, &o, &shared) == WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, shared, 0, 8), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, shared, GATE_PAGE, 8), WEFT_OK);
	gate_fini(&g);
}

/* Each has its own watch, which ends with it. */
TEST(test_vmm_04_a_region_that_shares_one_without_a_watch_is_watched)
{
	const struct weft_region_options o = { .rights = WEFT_REMOTE_READ };
	struct gate g;
	uint32_t tag, shared;

	watched_init(&g);
	host.is_blind = true;
	tag = gate_region(&g, 0, 3 * GATE_PAGE, RIGHTS_ALL);
	host.is_blind = false;
	REQUIRE(mem_region_share(&g.table, &g.owner, tag, &o, &shared) == WEFT_OK);
	unmap(&g, GATE_PAGE, GATE_PAGE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, tag, GATE_PAGE, 8), WEFT_OK);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, shared, GATE_PAGE, 8), WEFT_R_MEMORY_GONE);
	EXPECT_EQ(gate_access(&g, MEM_REMOTE_READ, shared, 0, 8), WEFT_OK);
	EXPECT_EQ(mem_region_deregister(&g.table, g.owner.pd, tag), WEFT_OK);
	EXPECT_EQ(host.ended, 0);
	EXPECT_EQ(mem_region_deregister(&g.table, g.owner.pd, shared), WEFT_OK);
	EXPECT_EQ(host.ended, 1);
	gate_fini(&g);
}
