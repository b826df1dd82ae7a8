/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/id_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/free_list.h"

/* At the end of the queue of so many. */
static void free_put(struct id_table *t, uint32_t free_count, uint32_t slot)
{
	free_list_set(t->free_slots, (t->free_head + free_count) % t->slots_max, slot);
}

int id_table_init(struct id_table *t, uint32_t slots_max)
{
	CHECK(slots_max > 0 && slots_max <= ID_SLOTS_MAX);
	*t = (struct id_table){ .slots_max = slots_max };
	t->objects = calloc(slots_max, sizeof(*t->objects));
	t->generations = malloc(slots_max);
	t->free_slots = calloc(slots_max, sizeof(*t->free_slots));
	if (!t->objects || !t->generations || !t->free_slots) {
		id_table_fini(t);
		return -1;
	}
	memset(t->generations, 1, slots_max);
	return 0;
}

void id_table_fini(struct id_table *t)
{
	free(t->objects);
	free(t->generations);
	free(t->free_slots);
	*t = (struct id_table){ 0 };
}

uint32_t id_table_add(struct id_table *t, void *object)
{
	uint32_t slot;

	if (t->used == t->slots_max)
		return 0;
	slot = free_list_get(t->free_slots, t->free_head);
	t->free_head = (t->free_head + 1) % t->slots_max;
	t->used++;
	t->objects[slot] = object;
	return (uint32_t)t->generations[slot] << ID_SLOT_BITS | slot;
}

/* Generation 0 is left out: slot 0 would give id 0. */
static uint8_t next_generation(const struct id_table *t, uint32_t slot)
{
	uint8_t generation = t->generations[slot];

	if (t->fixed)
		return t->fixed;
	return generation == UINT8_MAX ? 1 : generation + 1;
}

void id_table_fix_generation(struct id_table *t, uint8_t generation)
{
	CHECK(generation > 0 && generation < UINT8_MAX);
	t->fixed = generation;
	for (uint32_t i = 0; i < t->slots_max; i++) {
		if (!t->objects[i])
			t->generations[i] = generation;
	}
}

void id_table_pass_over(struct id_table *t, uint32_t count)
{
	uint32_t free_count = t->slots_max - t->used;

	for (count = free_count ? count % free_count : 0; count > 0; count--) {
		free_put(t, free_count, free_list_get(t->free_slots, t->free_head));
		t->free_head = (t->free_head + 1) % t->slots_max;
	}
}

void id_table_remove(struct id_table *t, uint32_t id)
{
	uint32_t slot = id_slot(id);
	uint32_t free_count = t->slots_max - t->used;

	CHECK(id_table_find(t, id));
	t->objects[slot] = NULL;
	t->generations[slot] = next_generation(t, slot);
	free_put(t, free_count, slot);
	t->used--;
}
