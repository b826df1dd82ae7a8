/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Objects by id. An id is 24 bits: a slot and the slot's generation. So the id of a removed object
 * finds nothing, even when its slot is in use again (until the generation wraps). Ids below 2^16
 * and 0xffffff are never assigned.
 */
#pragma once

#include <stdint.h>

enum { ID_SLOT_BITS = 16, ID_SLOTS_MAX = (1 << ID_SLOT_BITS) - 1 };

struct id_table {
	void **objects;
	uint8_t *generations;
	uint32_t *free_slots; /* a queue: the longest free is taken first */
	uint32_t slots_max;
	uint32_t free_head;
	uint32_t used;
	uint8_t fixed; /* generation of every new id; 0: generations are counted */
};

/* 0, or -1 when memory is short. slots_max is at most ID_SLOTS_MAX. */
int id_table_init(struct id_table *t, uint32_t slots_max);
void id_table_fini(struct id_table *t);

/* The new object's id; 0 when the table is full. */
uint32_t id_table_add(struct id_table *t, void *object);
void id_table_remove(struct id_table *t, uint32_t id);

/*
 * From now on every new id has this generation, 1 to 254, by which other adapters of the host
 * recognize the number. An id is then reused as soon as its slot is.
 */
void id_table_fix_generation(struct id_table *t, uint8_t generation);

/* Moves so many free slots to the end of the queue. */
void id_table_pass_over(struct id_table *t, uint32_t count);

static inline uint32_t id_slot(uint32_t id)
{
	return id & ID_SLOTS_MAX;
}

/* The object, or NULL when the id names none. */
static inline void *id_table_find(const struct id_table *t, uint32_t id)
{
	uint32_t slot = id_slot(id);

	if (slot >= t->slots_max || t->generations[slot] != (uint8_t)(id >> ID_SLOT_BITS))
		return (void *)0;
	return t->objects[slot];
}
