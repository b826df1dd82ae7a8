/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions on table entries, shared by the files of this room. */
#pragma once

#include "mem/mem.h"

/* Takes a random free index, which cannot be predicted. Refusal: WEFT_R_TABLE_FULL. */
enum weft_reason table_take(struct mem_table *t, enum mem_type type, uint32_t pd, uint32_t *index);

/* Frees an index: its instance changes, so every earlier tag for it is stale. */
void table_give(struct mem_table *t, uint32_t index);

/* Sets or clears the valid bit. */
void table_set_valid(struct mem_table *t, struct mem_entry *e, bool is_valid);

/* Around a change of a valid entry: other processes do not access it meanwhile (published.h). */
void table_withdraw(struct mem_table *t, const struct mem_entry *e);
void table_publish(struct mem_table *t, const struct mem_entry *e);

/*
 * Drops the references of a valid entry (space, ATT, its region's count), clears the valid bit.
 */
void table_close(struct mem_table *t, struct mem_entry *e);

/* Restricts an entry to one queue pair, or (0) opens it to its whole protection domain. */
void table_set_qp(struct mem_table *t, struct mem_entry *e, uint32_t qp);

/* Moves the entry to another protection domain. */
void table_set_pd(struct mem_table *t, struct mem_entry *e, uint32_t pd);

/* The one touch is used up: closes the entry; frees it if a send queue registered it (SQR-S4). */
void touch_close(struct mem_table *t, struct mem_entry *e);

/* The entry at the tag's index, or NULL if the index is outside the table or free. */
struct mem_entry *table_find(const struct mem_table *t, uint32_t tag);

static inline uint32_t table_tag(const struct mem_table *t, const struct mem_entry *e)
{
	return mem_tag((uint32_t)(e - t->entries), e->instance);
}

/*
 * The owner's checks of a tag of the given type: index, PD, instance; not the valid bit.
 */
enum weft_reason table_own(const struct mem_table *t, uint32_t pd, uint32_t tag, enum mem_type type,
			   struct mem_entry **entry);
