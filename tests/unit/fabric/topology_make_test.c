/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/topology_make.h"

#include <stdlib.h>

#include "test.h"

/* Every cable names both its ends, and all nodes are joined. */
static void look(const struct topology *t)
{
	uint8_t *marks = malloc(t->node_count);
	uint32_t ends = 0;

	REQUIRE(marks);
	for (uint32_t i = 0; i < t->node_count; i++)
		for (uint32_t port = 1; port <= t->nodes[i].ports; port++) {
			const struct topology_port *to = &t->nodes[i].port[port];

			if (to->node == TOPOLOGY_NONE)
				continue;
			ends++;
			REQUIRE(to->node < t->node_count && to->port <= t->nodes[to->node].ports);
			EXPECT_EQ(t->nodes[to->node].port[to->port].node, i);
			EXPECT_EQ(t->nodes[to->node].port[to->port].port, port);
		}
	EXPECT_EQ(ends, 2 * t->cable_count);
	EXPECT_EQ(topology_reach(t, marks), t->node_count);
	free(marks);
}

static void expect(struct topology_plan plan, uint32_t nodes, uint32_t cables)
{
	struct topology t;

	harness_note("form %d, %u", (int)plan.form, plan.size[0]);
	REQUIRE(topology_make(&t, &plan) == WEFT_OK);
	EXPECT_EQ(t.node_count, nodes);
	EXPECT_EQ(t.cable_count, cables);
	look(&t);
	topology_fini(&t);
}

TEST(test_fabric_topologies_are_made_by_size)
{
	/* One switch; 4 leaves and 2 spines; 4 pods of 4 switches and 4 cores. */
	expect((struct topology_plan){ TOPOLOGY_FAT_TREE, { 4, 4 } }, 5, 4);
	expect((struct topology_plan){ TOPOLOGY_FAT_TREE, { 8, 4 } }, 8 + 6, 8 + 8);
	expect((struct topology_plan){ TOPOLOGY_FAT_TREE, { 16, 4 } }, 16 + 20, 16 + 16 + 16);
	expect((struct topology_plan){ TOPOLOGY_FAT_TREE, { 100 } }, 100 + 6 + 18, 100 + 108);
	expect((struct topology_plan){ TOPOLOGY_TORUS, { 3, 4, 5 } }, 120, 60 + 180);
	expect((struct topology_plan){ TOPOLOGY_TORUS, { 2, 3 } }, 12, 6 + 3 + 6);
	expect((struct topology_plan){ TOPOLOGY_RING, { 5 } }, 10, 10);
	/* 9 groups of 4 switches, 2 endnodes at each. */
	expect((struct topology_plan){ TOPOLOGY_DRAGONFLY, { 2 } }, 36 * 3, 72 + 9 * 6 + 36);
}

TEST(test_fab_22d_sizes_that_no_subnet_has_are_refused)
{
	const struct topology_plan plans[] = {
		{ TOPOLOGY_FAT_TREE, { 0 } },
		{ TOPOLOGY_FAT_TREE, { 17, 4 } },
		{ TOPOLOGY_FAT_TREE, { 8, 1 } },
		{ TOPOLOGY_FAT_TREE, { 8, 64 } },
		{ TOPOLOGY_FAT_TREE, { 48000, 63 } },
		{ TOPOLOGY_TORUS, { 0 } },
		{ TOPOLOGY_TORUS, { 100, 100, 3 } },
		{ TOPOLOGY_TORUS, { 1 << 20, 1 << 20, 1 } },
		{ TOPOLOGY_DRAGONFLY, { 0 } },
		{ TOPOLOGY_DRAGONFLY, { 16 } },
		{ TOPOLOGY_RING, { 2 } },
	};
	struct topology t;

	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		harness_note("plan %zu", i);
		EXPECT_EQ(topology_make(&t, &plans[i]), WEFT_R_TOPOLOGY_LIMIT);
	}
}
