/* SPDX-License-Identifier: BSD-2-Clause */
/* Topologies of arbitrary bytes. In what is accepted the ends of every cable name each other. */
#include <stdlib.h>

#include "base/check.h"
#include "fabric/topology.h"

static void check(const struct topology *t)
{
	uint8_t *marks = malloc(t->node_count + 1);
	uint32_t ends = 0;

	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct topology_node *node = &t->nodes[i];

		for (uint32_t port = 1; port <= node->ports; port++) {
			const struct topology_port *p = &node->port[port];

			if (p->node == TOPOLOGY_NONE)
				continue;
			ends++;
			CHECK(p->node < t->node_count && p->port <= t->nodes[p->node].ports);
			CHECK(t->nodes[p->node].port[p->port].node == i);
			CHECK(t->nodes[p->node].port[p->port].port == port);
		}
	}
	CHECK(ends == 2 * t->cable_count);
	CHECK(marks && topology_reach(t, marks) <= t->node_count);
	free(marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct topology t;
	uint32_t line;

	if (topology_parse(&t, (const char *)data, size, &line) != WEFT_OK)
		return 0;
	check(&t);
	topology_fini(&t);
	return 0;
}
