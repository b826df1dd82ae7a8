/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address translation tables (MEM-05): from the number of a page in a region to its real address.
 *
 *	direct   root -> page
 *	first    root -> block -> page
 *	second   root -> block -> block -> page
 *
 * All tables of an adapter consist of blocks of one pool, so a registration by a send queue takes
 * and returns translation entries without allocating. Entries are 64 bits: a page's real address in
 * the last level, a block's number in the levels above. Tables are shared by reference counting
 * (MEM-09, MEM-10).
 */
#pragma once

#include <stdint.h>

#include <weft/weft.h>

enum { ATT_BLOCK_SHIFT = 7, ATT_BLOCK_ENTRIES = 1 << ATT_BLOCK_SHIFT, ATT_NONE = UINT32_MAX };

/* There is one for every block; used only if the block is the root of a table. */
struct att {
	const struct att_pool *pool;
	const uint64_t *root; /* this block's entries */
	uint32_t users;
	uint32_t page_count;
	uint8_t page_shift;
	uint8_t order; /* enum weft_order, never FIT */
};

struct att_pool {
	uint64_t *entries; /* block_count * ATT_BLOCK_ENTRIES */
	struct att *roots; /* block_count */
	uint32_t *next;	   /* free blocks are chained through this */
	uint32_t free_head;
	uint32_t untouched; /* blocks from here on have never been used */
	uint32_t block_count, used;
};

/* 0, or -1 when memory is short. */
int att_pool_init(struct att_pool *p, uint32_t entries_max);
void att_pool_fini(struct att_pool *p);

/* log2 of a page size that MEM-04l allows, else 0. */
uint8_t att_page_shift(uint64_t page_size_bytes);

/*
 * Creates a table with one user from a page list whose page size was checked. Page addresses are
 * checked against the space's size. Refusals: WEFT_R_REG_ORDER, WEFT_R_REG_PAGE_ADDRESS,
 * WEFT_R_TRANSLATIONS_FULL.
 */
enum weft_reason att_create(struct att_pool *p, const struct weft_page_list *list,
			    uint64_t space_size, struct att **att);
void att_get(struct att *a);

/* Drops one reference; the last one frees the blocks. */
void att_put(struct att_pool *p, struct att *a);

static inline const uint64_t *att_block(const struct att_pool *p, uint64_t block)
{
	return &p->entries[block << ATT_BLOCK_SHIFT];
}

/* The block of the last level that holds page number i, which is below page_count. */
static inline const uint64_t *att_leaf(const struct att *a, uint64_t i)
{
	const uint64_t *block = a->root;

	if (a->order == WEFT_ORDER_SECOND)
		block = att_block(a->pool, block[i >> (2 * ATT_BLOCK_SHIFT)]);
	if (a->order >= WEFT_ORDER_FIRST)
		block = att_block(a->pool, block[(i >> ATT_BLOCK_SHIFT) % ATT_BLOCK_ENTRIES]);
	return block;
}
