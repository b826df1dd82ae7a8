/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of the table, as the files of this room share them. */
#pragma once

#include "mem/mem.h"

/* Takes a free index, drawn so that it cannot be foreseen. Refusal: WEFT_R_TABLE_FULL. */
enum weft_reason table_take(struct mem_table *t, enum mem_type type, uint32_t pd, uint32_t *index);

/* Gives an index back: its instance changes, so every tag given out for it is stale. */
void table_give(struct mem_table *t, uint32_t index);

/* Sets or clears the valid bit. */
void table_set_valid(struct mem_table *t, struct mem_entry *e, bool is_valid);

/*
 * Lets go of what a valid entry holds on to (space, ATT, its region's count), clears the valid bit.
 */
void table_close(struct mem_table *t, struct mem_entry *e);

/* Makes an entry for one queue pair only, or (0) for all of its protection domain. */
void table_set_qp(struct mem_table *t, struct mem_entry *e, uint32_t qp);

/* The entry belongs to another domain from now on. */
void table_set_pd(struct mem_table *t, struct mem_entry *e, uint32_t pd);

/* The one touch is over: closes the entry. What a send queue registered goes for good (SQR-S4). */
void touch_close(struct mem_table *t, struct mem_entry *e);

/* The entry at the tag's index, or NULL when that lies outside the table or is free. */
struct mem_entry *table_find(const struct mem_table *t, uint32_t tag);

static inline uint32_t table_tag(const struct mem_table *t, const struct mem_entry *e)
{
	return mem_tag((uint32_t)(e - t->entries), e->instance);
}

/*
 * The owner's checks on a tag of the given type: index, PD, instance; the valid bit is not looked
 * at.
 */
enum weft_reason table_own(const struct mem_table *t, uint32_t pd, uint32_t tag, enum mem_type type,
			   struct mem_entry **entry);
