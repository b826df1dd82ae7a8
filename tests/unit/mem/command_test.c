/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of iSCSI commands. Their checks are in unit/iscsi/offload/offload_refuse_test.c. */
#include "mem_fixture.h"

#include "base/free_list.h"

static const struct mem_command read_command = {
	.qp = QP_OWN,
	.slot = 3,
	.id = 0x10003,
	.way = MEM_WAY_IN,
	.length = 1000,
};

static uint32_t command(struct gate *g, const struct mem_command *c)
{
	uint32_t tag;

	REQUIRE(mem_command_register(&g->table, &g->owner, c, &tag) == WEFT_OK);
	return tag;
}

/* By a task tag; addresses count from zero. */
static enum weft_reason ask(struct gate *g, enum mem_kind kind, uint32_t tag, uint64_t offset,
			    uint64_t length)
{
	return gate_check(g, (struct mem_access){ .addr = offset,
						  .length = length,
						  .tag = tag,
						  .pd = PD_OWN,
						  .qp = QP_OWN,
						  .kind = kind });
}

/*
 * MEM-04a: the address field points at the command; MEM-04d: type 10; MEM-04j: Command ID and
 * direction, apart from the stored sequence number (AMB-05).
 */
TEST(test_mem_04a_mem_04d_mem_04j_iscsi_03_fields_of_a_command)
{
	static struct gate g;
	struct mem_command c = read_command;
	const struct mem_entry *e;
	struct gate_use before;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	tag = command(&g, &c);
	e = gate_entry(&g, tag);
	EXPECT_EQ(e->type, 2);
	EXPECT_EQ(e->start, 3);
	EXPECT_EQ(mem_command_slot(&g.table, tag), 3);
	EXPECT_EQ(e->length, 1000);
	EXPECT_EQ(e->command_id, 0x10003);
	EXPECT_EQ(e->way, MEM_WAY_IN);
	EXPECT_EQ(e->stored_sn, 0);
	EXPECT_EQ(e->rights, WEFT_REMOTE_WRITE);
	EXPECT_EQ(g.table.by_type[1][MEM_ISCSI_REGION], 1);
	mem_command_deregister(&g.table, tag);
	EXPECT_EQ(e->state, MEM_FREE);
	EXPECT(e->instance != weft_tag_instance(tag));
	EXPECT_EQ(g.table.by_type[1][MEM_ISCSI_REGION], 0);
	EXPECT(gate_use_is(&g, before));
	c.way = MEM_WAY_OUT;
	tag = command(&g, &c);
	EXPECT_EQ(gate_entry(&g, tag)->rights, WEFT_REMOTE_READ);
	mem_command_deregister(&g.table, tag);
	c.way = MEM_WAY_NONE;
	tag = command(&g, &c);
	EXPECT_EQ(gate_entry(&g, tag)->rights, 0);
	mem_command_deregister(&g.table, tag);
	gate_fini(&g);
}

/* MEM-12: from zero on, exactly to the end, whatever the address field holds. */
TEST(test_mem_12_commands_are_addressed_from_zero)
{
	static struct gate g;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_STRICT);
	tag = command(&g, &read_command);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 0, 1000), WEFT_OK);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 999, 1), WEFT_OK);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 1000, 0), WEFT_OK);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 0, 1001), WEFT_R_ISCSI_ENTRY_RANGE);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 1000, 1), WEFT_R_ISCSI_ENTRY_RANGE);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 1001, 0), WEFT_R_ISCSI_ENTRY_RANGE);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, UINT64_MAX, 2), WEFT_R_ISCSI_ENTRY_RANGE);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, tag, 2, UINT64_MAX), WEFT_R_ISCSI_ENTRY_RANGE);
	EXPECT_EQ(ask(&g, MEM_R2T, tag, 0, 0), WEFT_R_ISCSI_ENTRY_RIGHT);
	EXPECT_EQ(ask(&g, MEM_RESPONSE, tag, 0, 0), WEFT_OK);
	EXPECT_EQ(ask(&g, MEM_RESPONSE, tag ^ 1, 0, 0), WEFT_R_ISCSI_ENTRY_INSTANCE);
	gate_fini(&g);
}

/* ISCSI-02: pages of real addresses; byte-exact, and given back. */
TEST(test_iscsi_02_mem_12_page_lists_of_commands)
{
	static struct gate g;
	uint64_t pages[3];
	struct weft_page_list list = {
		.pages = pages, .count = 3, .page_size_bytes = GATE_PAGE, .first_offset = 4000
	};
	struct mem_command c = read_command;
	struct mem_span spans[4];
	struct mem_access a = {
		.addr = 90, .length = 4096 + 16, .pd = PD_OWN, .qp = QP_OWN, .kind = MEM_DATA_IN
	};
	struct mem_grant grant;
	struct gate_use before;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	pages[0] = gate_addr(&g, 2 * GATE_PAGE);
	pages[1] = gate_addr(&g, 5 * GATE_PAGE);
	pages[2] = gate_addr(&g, 0);
	c.pages = &list;
	c.end_offset = 10;
	c.length = 96 + GATE_PAGE + 10;
	EXPECT_EQ(mem_command_register(&g.table, &g.owner, &c, &a.tag), WEFT_R_ISCSI_PAGES);
	g.owner.is_privileged = true;
	c.length--;
	EXPECT_EQ(mem_command_register(&g.table, &g.owner, &c, &a.tag), WEFT_R_ISCSI_LENGTH);
	c.length++;
	pages[1]++;
	EXPECT_EQ(mem_command_register(&g.table, &g.owner, &c, &a.tag), WEFT_R_REG_PAGE_ADDRESS);
	pages[1]--;
	EXPECT(gate_use_is(&g, before));
	a.tag = command(&g, &c);
	MUST(mem_access_check(&g.table, &a, &grant));
	EXPECT_EQ(mem_grant_spans(&grant, spans, 4), 3);
	EXPECT(spans[0].real == pages[0] + 4090 && spans[0].length == 6);
	EXPECT(spans[1].real == pages[1] && spans[1].length == GATE_PAGE);
	EXPECT(spans[2].real == pages[2] && spans[2].length == 10);
	mem_command_deregister(&g.table, a.tag);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* 01d: the table or the translations are full; nothing leaks. */
TEST(test_iscsi_01d_no_space_for_a_command)
{
	static struct gate g;
	uint64_t page;
	const struct weft_page_list list = { .pages = &page,
					     .count = 1,
					     .page_size_bytes = GATE_PAGE };
	struct mem_command c = read_command;
	struct gate_use before;
	uint32_t tag, count = 0;

	gate_init(&g, WEFT_POLICY_OPEN);
	g.owner.is_privileged = true;
	page = gate_addr(&g, 0);
	while (mem_command_register(&g.table, &g.owner, &c, &tag) == WEFT_OK)
		count++;
	EXPECT_EQ(count, GATE_TAGS);
	EXPECT_EQ(mem_command_register(&g.table, &g.owner, &c, &tag), WEFT_R_TABLE_FULL);
	before = gate_use(&g);
	c.pages = &list;
	c.length = GATE_PAGE;
	EXPECT_EQ(mem_command_register(&g.table, &g.owner, &c, &tag), WEFT_R_TABLE_FULL);
	EXPECT(gate_use_is(&g, before));
	gate_fini(&g);
}

/* RFC 7143 section 11.2.1.8: the reserved Initiator Task Tag is no command's. */
TEST(test_iscsi_04_no_command_has_the_reserved_tag)
{
	static struct gate g;
	uint32_t tag = 0;

	gate_init(&g, WEFT_POLICY_OPEN);
	/* As if the table were as large as it can be, and this its last index. */
	g.table.entries -= 0xffffff - GATE_TAGS;
	for (uint32_t i = 1; i <= GATE_TAGS; i++)
		free_list_set(g.table.free, i, 0xffffff);
	gate_entry(&g, UINT32_MAX)->instance = 0xff;
	gate_entry(&g, UINT32_MAX)->instance_given = 0xff;
	g.table.tags_max = 1 << 24;
	MUST(mem_command_register(&g.table, &g.owner, &read_command, &tag));
	EXPECT_EQ(weft_tag_index(tag), 0xffffff);
	EXPECT(tag != UINT32_MAX);
	g.table.entries += 0xffffff - GATE_TAGS;
	gate_fini(&g);
}

/*
 * ISCSI-11: one table and one check for regions, windows and commands; each kind of tag is good for
 * its own kind of access only.
 */
TEST(test_iscsi_11_one_table_for_regions_windows_and_commands)
{
	static struct gate g;
	uint32_t region, window, task;

	gate_init(&g, WEFT_POLICY_OPEN);
	region = gate_region(&g, 0, 1000, RIGHTS_ALL);
	window = gate_bound(&g, region, 0, 1000, WEFT_REMOTE_WRITE);
	task = command(&g, &read_command);
	EXPECT(gate_is_open(&g, region, 0, 1000));
	EXPECT(gate_is_open(&g, window, 0, 1000));
	EXPECT_EQ(ask(&g, MEM_DATA_IN, task, 0, 1000), WEFT_OK);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, region, 0, 1), WEFT_R_ISCSI_ENTRY_TYPE);
	EXPECT_EQ(ask(&g, MEM_DATA_IN, window, 0, 1), WEFT_R_ISCSI_ENTRY_TYPE);
	for (enum mem_kind kind = 0; kind < MEM_TASK_KINDS; kind++)
		EXPECT_EQ(ask(&g, kind, task, 0, 1), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, task), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_window_free(&g.table, PD_OWN, task), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_tag_release(&g.table, PD_OWN, task), WEFT_R_TAG_TYPE);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, task), WEFT_R_TAG_TYPE);
	EXPECT_EQ(g.table.by_type[1][MEM_REGION], 1);
	EXPECT_EQ(g.table.by_type[1][MEM_WINDOW], 1);
	EXPECT_EQ(g.table.by_type[1][MEM_ISCSI_REGION], 1);
	mem_command_deregister(&g.table, task);
	gate_fini(&g);
}
