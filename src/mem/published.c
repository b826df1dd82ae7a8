/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/published.h"

#include "mem/table.h"

void mem_table_publish(struct mem_table *t, const struct mem_publisher *p)
{
	t->publisher = p;
}

static struct mem_published *place_of(const struct mem_table *t, const struct mem_entry *e)
{
	return &t->publisher->entries[(size_t)(e - t->entries) % MEM_PUBLISHED_MAX];
}

/* Memory of the process that a peer may read or write any number of times. */
static bool is_public(const struct mem_entry *e)
{
	return e->state == MEM_VALID && e->space->is_flat && !e->att && e->touch == 0 &&
	       (e->rights & (WEFT_REMOTE_READ | WEFT_REMOTE_WRITE));
}

/* Without a place, which another entry has, accesses to it need a thread of ours. */
void table_publish(struct mem_table *t, const struct mem_entry *e)
{
	struct mem_published *p;

	if (!t->publisher || !is_public(e))
		return;
	p = place_of(t, e);
	if (atomic_load_explicit(&p->tag, memory_order_relaxed) != 0)
		return;
	p->entry = *e;
	p->entry.space = NULL;
	atomic_store_explicit(&p->tag, table_tag(t, e), memory_order_release);
}

void table_withdraw(struct mem_table *t, const struct mem_entry *e)
{
	struct mem_published *p;
	uint32_t tag;

	if (!t->publisher)
		return;
	p = place_of(t, e);
	tag = atomic_load_explicit(&p->tag, memory_order_relaxed);
	if (tag == 0 || weft_tag_index(tag) != (uint32_t)(e - t->entries))
		return;
	atomic_store(&p->tag, 0);
	t->publisher->await(t->publisher->owner);
}
