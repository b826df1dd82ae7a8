/* SPDX-License-Identifier: BSD-2-Clause */
/* Spaces over the process: the segment table is the space's, the page table the kernel's. */
#include "mem_fixture.h"

enum { EFFECTIVE = 0x7000, SEGMENT = 3000, PROCESS_LOW = 4096, ASKING_QP = 12 };

static struct gate g;

static struct weft_space_options process_options(void)
{
	return (struct weft_space_options){ .mappings_max = 4, .kind = WEFT_SPACE_PROCESS };
}

/* A pager that says what the test wants, and notes what it was asked. */
static struct {
	enum mem_presence answer;
	uint32_t count;
	uint64_t addr, length; /* of the last question */
	bool is_written;
	uint32_t qp;
} asked;

static enum mem_presence answer(void *context, uint64_t addr, uint64_t length, bool is_written,
				uint32_t qp)
{
	REQUIRE(context == &asked);
	asked.count++;
	asked.addr = addr;
	asked.length = length;
	asked.is_written = is_written;
	asked.qp = qp;
	return asked.answer;
}

static const struct mem_pager pager = { .ask = answer, .context = &asked };

/* Two segments side by side, of memory that is not. A region of both. */
static uint32_t open_segments(struct weft_space *s)
{
	const struct weft_space_options so = process_options();
	const struct weft_region_options o = { .addr = EFFECTIVE,
					       .length = 2 * SEGMENT,
					       .rights = RIGHTS_ALL };
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	memset(&asked, 0, sizeof(asked));
	REQUIRE(mem_space_init(s, &so) == WEFT_OK);
	s->pager = &pager;
	REQUIRE(mem_space_map(s, EFFECTIVE, SEGMENT, gate_addr(&g, GATE_PAGE)) == WEFT_OK);
	REQUIRE(mem_space_map(s, EFFECTIVE + SEGMENT, SEGMENT, gate_addr(&g, 0)) == WEFT_OK);
	g.owner.space = s;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	return tag;
}

static struct mem_access ask_for(enum mem_kind kind, uint32_t tag, uint64_t offset, uint64_t length)
{
	return (struct mem_access){
		.addr = EFFECTIVE + offset,
		.length = length,
		.tag = tag,
		.pd = PD_OWN,
		.qp = ASKING_QP,
		.kind = kind,
		.can_wait = true,
	};
}

static void close_segments(struct weft_space *s)
{
	mem_space_fini(s);
	gate_fini(&g);
}

TEST(test_vmm_08_process_space_has_no_memory_of_its_own)
{
	struct weft_space_options o = process_options();
	struct weft_space s;

	o.memory = g.memory;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o = process_options();
	o.size_bytes = 8;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o = process_options();
	o.kind = WEFT_SPACE_PROCESS + 1;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o = process_options();
	o.mappings_max = 0;
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_R_BAD_ARGUMENT);
	o = process_options();
	EXPECT_EQ(mem_space_init(&s, &o), WEFT_OK);
	/* Segments lie where processes have memory. */
	EXPECT_EQ(mem_space_map(&s, 0, 1, PROCESS_LOW - 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, 2, (UINT64_C(1) << 56) - 1), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_space_map(&s, 0, 1, PROCESS_LOW), WEFT_OK);
	EXPECT_EQ(mem_space_map(&s, 1, 1, WEFT_REAL_NONE), WEFT_OK);
	mem_space_fini(&s);
}

/* VMM-02: the segment by the address's start of table entry, the offset in it, the byte there. */
TEST(test_vmm_02_vmm_02a_vmm_02b_vmm_02c_effective_address_is_segment_and_offset)
{
	struct weft_space s;
	uint32_t tag = open_segments(&s);
	struct mem_grant grant;
	struct mem_span spans[3];

	EXPECT_EQ(mem_access_check(&g.table,
				   &(struct mem_access){ .addr = EFFECTIVE + SEGMENT - 10,
							 .length = 30,
							 .tag = tag,
							 .pd = PD_OWN,
							 .kind = MEM_REMOTE_WRITE },
				   &grant),
		  WEFT_OK);
	EXPECT_EQ(mem_grant_spans(&grant, spans, 3), 2);
	EXPECT(spans[0].bytes == &g.memory[GATE_PAGE + SEGMENT - 10] && spans[0].length == 10);
	EXPECT(spans[1].bytes == g.memory && spans[1].length == 20);
	close_segments(&s);
}

/* VMM-02d: a page is asked for by its address in the process, each segment's part apart. */
TEST(test_vmm_02d_vmm_08_pages_are_asked_for_as_they_are_used)
{
	static const bool is_written[MEM_TASK_KINDS] = {
		[MEM_LOCAL_WRITE] = true,
		[MEM_READ_SINK] = true,
		[MEM_REMOTE_WRITE] = true,
		[MEM_REMOTE_ATOMIC] = true,
	};
	struct weft_space s;
	uint32_t tag = open_segments(&s);

	for (int kind = 0; kind < MEM_BIND; kind++) {
		struct mem_access a = ask_for((enum mem_kind)kind, tag, 64, 8);
		struct mem_grant grant;

		asked.count = 0;
		EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_OK);
		EXPECT_EQ(asked.count, 1);
		EXPECT_EQ(asked.addr, gate_addr(&g, GATE_PAGE + 64));
		EXPECT_EQ(asked.length, 8);
		EXPECT_EQ(asked.is_written, is_written[kind]);
		EXPECT_EQ(asked.qp, ASKING_QP);
	}
	asked.count = 0;
	EXPECT_EQ(gate_check(&g, ask_for(MEM_REMOTE_READ, tag, SEGMENT - 4, 8)), WEFT_OK);
	EXPECT_EQ(asked.count, 2);
	EXPECT_EQ(asked.addr, gate_addr(&g, 0));
	EXPECT_EQ(asked.length, 4);
	close_segments(&s);
}

/* What is only checked ahead, bound, or used by what cannot wait asks for no page. */
TEST(test_vmm_09_pages_that_are_not_used_now_are_not_asked_for)
{
	struct weft_space s;
	uint32_t tag = open_segments(&s);
	struct mem_access a = ask_for(MEM_REMOTE_READ, tag, 0, 2 * SEGMENT);

	asked.answer = MEM_AWAY;
	a.is_ahead = true;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	a = ask_for(MEM_REMOTE_READ, tag, 0, 2 * SEGMENT);
	a.can_wait = false;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	EXPECT_EQ(gate_check(&g, ask_for(MEM_BIND, tag, 0, 2 * SEGMENT)), WEFT_OK);
	EXPECT_EQ(asked.count, 0);
	close_segments(&s);
}

TEST(test_vmm_09_vmm_04_answers_of_the_pager)
{
	struct weft_space s;
	uint32_t tag = open_segments(&s);
	struct mem_access a = ask_for(MEM_REMOTE_READ, tag, 0, 2 * SEGMENT);
	struct mem_grant grant;
	struct weft_pins pins;

	asked.answer = MEM_AWAY;
	EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_R_SPACE_UNMAPPED);
	EXPECT_EQ(asked.count, 2); /* the pages of both segments are brought in at once */
	EXPECT(mem_grant_is_paging(&grant) && mem_grant_will_come(&grant));
	mem_pins_query(s.paging, 0, &pins);
	EXPECT_EQ(pins.faults, 1);
	EXPECT_EQ(pins.count, 0);
	EXPECT_EQ(g.table.refused, 0); /* it only waits */
	asked.answer = MEM_NOWHERE;
	EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_R_SPACE_MAPPING);
	EXPECT_EQ(g.table.refused, 1);
	mem_pins_query(s.paging, 0, &pins);
	EXPECT_EQ(pins.faults, 1);
	/* A mapping that lies nowhere is the program's to bring, not the pager's. */
	asked.answer = MEM_AWAY;
	asked.count = 0;
	MUST(mem_space_move(&s, EFFECTIVE + SEGMENT, WEFT_REAL_NONE));
	EXPECT_EQ(mem_access_check(&g.table, &a, &grant), WEFT_R_SPACE_UNMAPPED);
	EXPECT(!mem_grant_is_paging(&grant) && !mem_grant_will_come(&grant));
	EXPECT_EQ(asked.count, 0);
	s.paging->has_pager = true;
	EXPECT(!mem_grant_is_paging(&grant) && mem_grant_will_come(&grant));
	close_segments(&s);
}

/* A segment without a key opens nothing to a peer, nor a key without a segment. */
TEST(test_vmm_01_local_and_remote_protection_are_both_needed)
{
	struct weft_space s;
	uint32_t tag = open_segments(&s);
	struct mem_access a = ask_for(MEM_REMOTE_READ, tag, 0, 8);

	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	a.tag ^= 1;
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_INSTANCE);
	a.tag = tag;
	MUST(mem_space_unmap(&s, EFFECTIVE));
	EXPECT_EQ(gate_check(&g, a), WEFT_R_SPACE_MAPPING);
	a.addr += SEGMENT; /* the other segment */
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	close_segments(&s);
}

/* VMM-05g: the peer has an opaque address and a key; the real address opens nothing. */
TEST(test_vmm_05g_the_advertised_address_is_opaque)
{
	struct weft_space s;
	struct weft_region_options o = { .addr = EFFECTIVE,
					 .length = SEGMENT,
					 .va = UINT64_C(0xabcd00000000),
					 .rights = RIGHTS_ALL };
	struct mem_access a;
	uint32_t tag = open_segments(&s);

	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &tag) == WEFT_OK);
	a = ask_for(MEM_REMOTE_READ, tag, 0, 8);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_BOUNDS); /* the effective one */
	a.addr = gate_addr(&g, GATE_PAGE);
	EXPECT_EQ(gate_check(&g, a), WEFT_R_RANGE_BOUNDS); /* that of the process */
	a.addr = o.va;
	EXPECT_EQ(gate_check(&g, a), WEFT_OK);
	EXPECT_EQ(asked.addr, gate_addr(&g, GATE_PAGE));
	a.tag ^= 1; /* another key */
	EXPECT_EQ(gate_check(&g, a), WEFT_R_TAG_INSTANCE);
	close_segments(&s);
}

/* A kernel client has its address translated once, and names the frame from then on. */
TEST(test_vmm_07_a_privileged_caller_translates_and_names_the_frame)
{
	enum { ADDR = 0x70000 };
	const struct weft_space_options space_options = { .memory = g.memory,
							  .size_bytes = GATE_BYTES,
							  .mappings_max = 1 };
	uint64_t frame = 0, run;
	const struct weft_page_list list = { .pages = &frame,
					     .count = 1,
					     .page_size_bytes = GATE_PAGE };
	const struct weft_region_options o = { .length = 64,
					       .rights = WEFT_LOCAL_READ | WEFT_REMOTE_READ,
					       .pages = &list };
	struct mem_access a = { .length = 64, .kind = MEM_REMOTE_READ, .pd = PD_OWN, .qp = QP_OWN };
	struct weft_space space;
	struct mem_grant grant;
	struct mem_span span;

	gate_init(&g, WEFT_POLICY_OPEN);
	REQUIRE(mem_space_init(&space, &space_options) == WEFT_OK);
	REQUIRE(mem_space_map(&space, ADDR, GATE_PAGE, GATE_PAGE) == WEFT_OK);
	REQUIRE(mem_space_translate(&space, ADDR, 64, &frame, &run) == WEFT_OK);
	EXPECT_EQ(frame, GATE_PAGE);
	g.owner.space = &space;
	g.owner.is_privileged = true;
	REQUIRE(mem_region_register(&g.table, &g.owner, &o, &a.tag) == WEFT_OK);
	REQUIRE(mem_access_check(&g.table, &a, &grant) == WEFT_OK);
	REQUIRE(mem_grant_spans(&grant, &span, 1) == 1);
	EXPECT(span.bytes == (uint8_t *)(uintptr_t)gate_addr(&g, GATE_PAGE) && span.length == 64);
	mem_space_fini(&space);
	gate_fini(&g);
}
