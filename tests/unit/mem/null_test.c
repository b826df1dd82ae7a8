/* SPDX-License-Identifier: BSD-2-Clause */
/* Null regions: all addresses, no memory. */
#include "unit/mem/mem_fixture.h"

static uint32_t gate_null(struct gate *g)
{
	uint32_t tag;

	REQUIRE(mem_region_register_null(&g->table, PD_OWN, &tag) == WEFT_OK);
	return tag;
}

static struct mem_access null_ask(enum mem_kind kind, uint32_t tag, uint64_t addr, uint64_t length)
{
	return (struct mem_access){
		.addr = addr,
		.length = length,
		.tag = tag,
		.pd = PD_OWN,
		.qp = QP_OWN,
		.kind = kind,
	};
}

/* Takes the range span by span; every byte is zero, or (when written) becomes something else. */
static void walk(struct gate *g, enum mem_kind kind, uint32_t tag, uint64_t addr, uint64_t length)
{
	const struct mem_access a = null_ask(kind, tag, addr, length);
	struct mem_grant grant;
	struct mem_span spans[3];
	uint64_t done = 0;
	uint32_t n;

	REQUIRE(mem_access_check(&g->table, &a, &grant) == WEFT_OK);
	while ((n = mem_grant_spans(&grant, spans, 3)) > 0) {
		for (uint32_t i = 0; i < n; i++) {
			REQUIRE(spans[i].length > 0 && spans[i].length <= MEM_NULL_BYTES);
			done += spans[i].length;
			for (uint64_t k = 0; k < spans[i].length && kind == MEM_LOCAL_READ; k++)
				REQUIRE(spans[i].bytes[k] == 0);
			if (kind != MEM_LOCAL_READ)
				memset(spans[i].bytes, 0xff, spans[i].length);
		}
	}
	EXPECT_EQ(done, length);
}

TEST(test_null_region_reads_zeroes_whatever_was_written)
{
	static const uint64_t addrs[] = { 0, 1, MEM_NULL_BYTES - 1, 0x7fff12345678,
					  UINT64_MAX - 5 * MEM_NULL_BYTES };
	struct gate g;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_null(&g);
	for (size_t i = 0; i < sizeof(addrs) / sizeof(*addrs); i++) {
		walk(&g, MEM_LOCAL_WRITE, tag, addrs[i], 4 * MEM_NULL_BYTES + 3);
		walk(&g, MEM_READ_SINK, tag, addrs[i], 1);
		walk(&g, MEM_LOCAL_READ, tag, addrs[i], 4 * MEM_NULL_BYTES + 3);
	}
	gate_fini(&g);
}

TEST(test_loc_02e_null_region_has_the_maximum_length)
{
	struct gate g;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_null(&g);
	EXPECT_EQ(gate_check(&g, null_ask(MEM_LOCAL_READ, tag, 0, UINT64_MAX)), WEFT_OK);
	EXPECT_EQ(gate_check(&g, null_ask(MEM_LOCAL_READ, tag, UINT64_MAX - 1, 1)), WEFT_OK);
	EXPECT_EQ(gate_check(&g, null_ask(MEM_LOCAL_READ, tag, UINT64_MAX - 1, 3)),
		  WEFT_R_RANGE_WRAP);
	gate_fini(&g);
}

TEST(test_iwarp_06f_iwarp_09f_null_region_is_for_local_use_only)
{
	static const enum mem_kind kinds[] = { MEM_REMOTE_READ, MEM_REMOTE_WRITE, MEM_REMOTE_ATOMIC,
					       MEM_BIND };
	struct gate g;
	struct weft_region_options o = { .rights = RIGHTS_ALL };
	uint32_t tag, other;

	gate_init(&g, WEFT_POLICY_OPEN);
	tag = gate_null(&g);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		EXPECT_EQ(gate_check(&g, null_ask(kinds[i], tag, 0, 8)), kind_refusal(kinds[i]));
	/* Nor does it get more rights, or memory, by a way around. */
	EXPECT_EQ(mem_region_share(&g.table, &g.owner, tag, &o, &other), WEFT_R_REG_VIRTUAL);
	o.addr = gate_addr(&g, 0);
	o.length = 8;
	EXPECT_EQ(mem_region_change(&g.table, PD_OWN, tag, &g.owner, &o), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(mem_invalidate(&g.table, PD_OWN, QP_OWN, tag), WEFT_R_INVALIDATE_REGION);
	EXPECT_EQ(gate_check(&g, null_ask(MEM_LOCAL_WRITE, tag, 0, 8)), WEFT_OK);
	gate_fini(&g);
}

TEST(test_mem_10_null_region_ends_as_others_do)
{
	struct gate g;
	struct gate_use before;
	uint32_t tag;

	gate_init(&g, WEFT_POLICY_OPEN);
	before = gate_use(&g);
	tag = gate_null(&g);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OTHER, tag), WEFT_R_TAG_PD);
	EXPECT_EQ(mem_region_deregister(&g.table, PD_OWN, tag), WEFT_OK);
	EXPECT(gate_use_is(&g, before));
	EXPECT_EQ(g.table.zeroes.users, 0);
	EXPECT_EQ(gate_check(&g, null_ask(MEM_LOCAL_READ, tag, 0, 8)), WEFT_R_TAG_INVALID);
	for (int i = 0; i < GATE_TAGS; i++)
		gate_null(&g);
	EXPECT_EQ(mem_region_register_null(&g.table, PD_OWN, &tag), WEFT_R_TABLE_FULL);
	gate_fini(&g);
}
