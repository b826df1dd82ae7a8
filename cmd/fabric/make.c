/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fabric/fabric.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topology_make.h"

static const struct {
	const char *name;
	enum topology_form form;
	uint32_t sizes; /* at most */
} forms[] = {
	{ "fat-tree", TOPOLOGY_FAT_TREE, 2 },
	{ "torus", TOPOLOGY_TORUS, 3 },
	{ "dragonfly", TOPOLOGY_DRAGONFLY, 1 },
	{ "ring", TOPOLOGY_RING, 1 },
};

/* 4x4x2: numbers with an x between them. */
static bool sizes_read(const char *text, uint32_t most, uint32_t sizes[3])
{
	for (uint32_t i = 0; i < most; i++) {
		char *end;
		unsigned long value;

		if (*text < '0' || *text > '9')
			return false;
		value = strtoul(text, &end, 10);
		sizes[i] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
		if (*end == '\0')
			return true;
		if (*end != 'x')
			return false;
		text = end + 1;
	}
	return false;
}

static bool plan_read(int argc, char **argv, struct topology_plan *plan)
{
	for (size_t i = 0; argc == 3 && i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strcmp(argv[1], forms[i].name) != 0)
			continue;
		plan->form = forms[i].form;
		return sizes_read(argv[2], forms[i].sizes, plan->size);
	}
	return false;
}

/* Each cable at its first end. */
static void print(const struct topology *t)
{
	for (uint32_t i = 0; i < t->node_count; i++) {
		const struct topology_node *n = &t->nodes[i];
		bool is_switch = n->type == SM_NODE_SWITCH;

		printf("%sguid=0x%" PRIx64 "\n%s %" PRIu32 " \"%s\"\n", is_switch ? "switch" : "ca",
		       n->guid, is_switch ? "Switch" : "Ca", n->ports, n->id);
		for (uint32_t port = 1; port <= n->ports; port++) {
			const struct topology_port *to = &n->port[port];

			if (to->node != TOPOLOGY_NONE && to->node >= i)
				printf("[%" PRIu32 "] \"%s\"[%" PRIu32 "]\n", port,
				       t->nodes[to->node].id, to->port);
		}
		printf("\n");
	}
}

int fabric_make(int argc, char **argv)
{
	struct topology_plan plan = { .size = { 0 } };
	enum weft_reason reason;
	struct topology t;

	if (!plan_read(argc, argv, &plan)) {
		fprintf(stderr, "weft fabric: make, and a form and its size: fat-tree 64, "
				"fat-tree 64x8, torus 4x4x4, dragonfly 2, ring 8\n");
		return 2;
	}
	reason = topology_make(&t, &plan);
	if (reason != WEFT_OK) {
		fprintf(stderr, "weft fabric: %s %s: %s (%s)\n", argv[1], argv[2],
			weft_reason_text(reason), weft_reason_name(reason));
		return 1;
	}
	print(&t);
	topology_fini(&t);
	return 0;
}
