/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/published.h"

#include "mem/table.h"

/* An entry has one of so many places, from the one on that its index names. */
enum { PLACES = 8 };

static uint32_t place_of(uint32_t index, uint32_t n)
{
	return (index + n) % MEM_PUBLISHED_MAX;
}

/* A place that stands for none has tag 0, which no entry has: index 0 is never given out. */
const struct mem_published *mem_published_find(const struct mem_published *entries, uint32_t index)
{
	for (uint32_t n = 0; n < PLACES && index != 0; n++) {
		const struct mem_published *p = &entries[place_of(index, n)];

		if (weft_tag_index(atomic_load_explicit(&p->tag, memory_order_acquire)) == index)
			return p;
	}
	return NULL;
}

static struct mem_published *find_free(struct mem_published *entries, uint32_t index)
{
	for (uint32_t n = 0; n < PLACES; n++) {
		struct mem_published *p = &entries[place_of(index, n)];

		if (atomic_load_explicit(&p->tag, memory_order_relaxed) == 0)
			return p;
	}
	return NULL;
}

/* Memory of the process that a peer may read or write any number of times. */
static bool is_public(const struct mem_entry *e)
{
	if (e->state != MEM_VALID || e->type == MEM_ISCSI_REGION)
		return false;
	return e->space->is_flat && !e->att && e->touch == 0 &&
	       (e->rights & (WEFT_REMOTE_READ | WEFT_REMOTE_WRITE));
}

/* Without a place, which other entries have, accesses to it need a thread of its owner. */
void table_publish(struct mem_table *t, const struct mem_entry *e)
{
	struct mem_published *p;

	if (!t->publisher || !is_public(e))
		return;
	p = find_free(t->publisher->entries, (uint32_t)(e - t->entries));
	if (!p)
		return;
	p->entry = *e;
	p->entry.space = NULL;
	atomic_store_explicit(&p->tag, table_tag(t, e), memory_order_release);
}

void table_withdraw(struct mem_table *t, const struct mem_entry *e)
{
	const struct mem_published *found;

	t->changes++;
	if (!t->publisher)
		return;
	found = mem_published_find(t->publisher->entries, (uint32_t)(e - t->entries));
	if (!found)
		return;
	atomic_store(&t->publisher->entries[found - t->publisher->entries].tag, 0);
	t->publisher->await(t->publisher->owner);
}

/* Bound: the table; looked through only if there is something to find. */
static void publish_all(struct mem_table *t)
{
	uint32_t left = t->by_type[true][MEM_REGION] + t->by_type[true][MEM_WINDOW];

	for (uint32_t i = 1; i < t->tags_max && left > 0; i++) {
		const struct mem_entry *e = &t->entries[i];

		if (e->state == MEM_VALID && e->type != MEM_ISCSI_REGION) {
			table_publish(t, e);
			left--;
		}
	}
}

void mem_table_publish(struct mem_table *t, const struct mem_publisher *p)
{
	t->publisher = p;
	if (p)
		publish_all(t);
}
