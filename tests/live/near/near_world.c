/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/near/near_world.h"

void end_open(struct end *e, struct weft_adapter *adapter)
{
	e->adapter = adapter;
	node_open(adapter, &e->node, NULL);
}

void end_close(struct end *e)
{
	node_close(&e->node, NULL);
	MUST(weft_adapter_close(e->adapter));
}

struct weft_roce_counts counts_of(const struct end *e)
{
	struct weft_roce_counts n;

	MUST(weft_roce_query(e->adapter, &n));
	return n;
}

struct card card_of(const struct node *n)
{
	return (struct card){ weft_qp_number(n->qp), n->tag, (uintptr_t)n->memory };
}
