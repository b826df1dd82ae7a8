/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptions of devices from arbitrary characters: read or refused within the text, and what was
 * read is a tree that keeps the limits.
 */
#include <string.h>

#include "base/check.h"
#include "store/plan.h"

enum { INPUT_MAX = 2048 };

static void check_node(const struct store_plan *plan, uint32_t i, const char *text)
{
	const struct store_node *n = &plan->nodes[i];
	uint32_t members = 0, depth = 0;

	CHECK((unsigned int)n->kind < STORE_KIND_COUNT && n->at < strlen(text));
	CHECK((n->parent == STORE_NO_NODE) == (i == 0));
	CHECK(i == 0 || n->parent < i);
	for (uint32_t m = 0; m < plan->count; m++)
		members += plan->nodes[m].parent == i;
	CHECK(members == n->member_count && members <= STORE_MEMBERS_MAX);
	CHECK((members == 0) == (n->kind == STORE_KIND_MEM || n->kind == STORE_KIND_FILE ||
				 n->kind == STORE_KIND_RIO || n->kind == STORE_KIND_ISCSI ||
				 n->kind == STORE_KIND_ISER));
	for (uint32_t at = i; at != STORE_NO_NODE; at = plan->nodes[at].parent)
		depth++;
	CHECK(depth <= STORE_NEST_MAX);
	if (n->path)
		CHECK(n->path_length > 0 && n->path >= text &&
		      n->path + n->path_length <= text + strlen(text));
	CHECK(n->block_bytes == 0 || n->block_bytes == 512 || n->block_bytes == 4096);
	CHECK(n->fault.range_count <= FAULT_STORE_RANGES_MAX && n->fault.error <= 1000000000 &&
	      n->fault.torn <= 1000000000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct store_complaint complaint;
	struct store_plan plan;
	char text[INPUT_MAX];

	size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
	memcpy(text, data, size);
	text[size] = '\0';
	if (!store_plan_read(&plan, text, &complaint)) {
		CHECK(complaint.why && complaint.at <= strlen(text));
		return 0;
	}
	CHECK(plan.count > 0 && plan.count <= STORE_NODES_MAX);
	for (uint32_t i = 0; i < plan.count; i++)
		check_node(&plan, i, text);
	return 0;
}
