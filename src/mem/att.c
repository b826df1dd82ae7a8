/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/att.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

int att_pool_init(struct att_pool *p, uint32_t entries_max)
{
	uint32_t blocks = (uint32_t)(((uint64_t)entries_max + ATT_BLOCK_ENTRIES - 1) >>
				     ATT_BLOCK_SHIFT);

	*p = (struct att_pool){ .block_count = blocks, .free_head = ATT_NONE };
	p->entries = calloc((size_t)blocks << ATT_BLOCK_SHIFT, sizeof(*p->entries));
	p->roots = calloc(blocks, sizeof(*p->roots));
	p->next = calloc(blocks, sizeof(*p->next));
	if (p->entries && p->roots && p->next)
		return 0;
	att_pool_fini(p);
	return -1;
}

void att_pool_fini(struct att_pool *p)
{
	free(p->entries);
	free(p->roots);
	free(p->next);
	*p = (struct att_pool){ 0 };
}

uint8_t att_page_shift(uint64_t page_size_bytes)
{
	static const uint8_t shifts[] = { 12, 13, 16, 20, 24, 28 };

	for (unsigned int i = 0; i < sizeof(shifts); i++) {
		if (page_size_bytes == UINT64_C(1) << shifts[i])
			return shifts[i];
	}
	return 0;
}

/* Takes a block; the caller has made sure that there is a free one. */
static uint32_t block_take(struct att_pool *p)
{
	uint32_t block = p->free_head;

	if (block != ATT_NONE)
		p->free_head = p->next[block];
	else
		block = p->untouched++;
	CHECK(block < p->block_count);
	p->used++;
	return block;
}

static void block_give(struct att_pool *p, uint32_t block)
{
	p->next[block] = p->free_head;
	p->free_head = block;
	p->used--;
}

static uint64_t *block_entries(struct att_pool *p, uint64_t block)
{
	return &p->entries[block << ATT_BLOCK_SHIFT];
}

static uint32_t divide_up(uint64_t n, unsigned int shift)
{
	return (uint32_t)((n + (UINT64_C(1) << shift) - 1) >> shift);
}

static enum weft_reason order_choose(const struct weft_page_list *list, enum weft_order *order)
{
	uint64_t blocks = divide_up(list->count, ATT_BLOCK_SHIFT);
	enum weft_order lowest = WEFT_ORDER_SECOND;

	if (blocks > ATT_BLOCK_ENTRIES * ATT_BLOCK_ENTRIES)
		return WEFT_R_REG_ORDER;
	if (blocks <= ATT_BLOCK_ENTRIES)
		lowest = blocks == 1 ? WEFT_ORDER_DIRECT : WEFT_ORDER_FIRST;
	if ((unsigned int)list->order > WEFT_ORDER_SECOND)
		return WEFT_R_REG_ORDER;
	*order = list->order == WEFT_ORDER_FIT ? lowest : list->order;
	return *order >= lowest ? WEFT_OK : WEFT_R_REG_ORDER;
}

/* How many blocks the table takes, root included. */
static uint32_t blocks_needed(uint64_t page_count, enum weft_order order)
{
	uint32_t leaves = divide_up(page_count, ATT_BLOCK_SHIFT);

	switch (order) {
	case WEFT_ORDER_FIRST:
		return 1 + leaves;
	case WEFT_ORDER_SECOND:
		return 1 + divide_up(leaves, ATT_BLOCK_SHIFT) + leaves;
	case WEFT_ORDER_DIRECT:
	case WEFT_ORDER_FIT:
		break;
	}
	return 1;
}

static bool pages_are_good(const uint64_t *pages, uint32_t count, uint64_t size,
			   uint64_t space_size)
{
	uint64_t bits = 0, highest = 0;

	for (uint32_t i = 0; i < count; i++) {
		bits |= pages[i];
		highest = pages[i] > highest ? pages[i] : highest;
	}
	return bits % size == 0 && space_size >= size && highest <= space_size - size;
}

/* The block in which page list entry i of the last level is kept, made if i is its first. */
static uint64_t *leaf_for(struct att_pool *p, uint32_t root, enum weft_order order, uint32_t i)
{
	uint64_t *block = block_entries(p, root);
	uint32_t leaf = i >> ATT_BLOCK_SHIFT;

	if (order == WEFT_ORDER_DIRECT)
		return block;
	if (order == WEFT_ORDER_SECOND) {
		if (leaf % ATT_BLOCK_ENTRIES == 0)
			block[leaf >> ATT_BLOCK_SHIFT] = block_take(p);
		block = block_entries(p, block[leaf >> ATT_BLOCK_SHIFT]);
	}
	block[leaf % ATT_BLOCK_ENTRIES] = block_take(p);
	return block_entries(p, block[leaf % ATT_BLOCK_ENTRIES]);
}

enum weft_reason att_create(struct att_pool *p, const struct weft_page_list *list,
			    uint64_t space_size, struct att **att)
{
	enum weft_order order;
	enum weft_reason r = order_choose(list, &order);
	bool is_good = true;
	uint32_t root;

	if (r != WEFT_OK)
		return r;
	if (blocks_needed(list->count, order) > p->block_count - p->used)
		return WEFT_R_TRANSLATIONS_FULL;
	root = block_take(p);
	/* The caller's list may change under us: what is checked is the copy. */
	for (uint32_t i = 0; i < list->count; i += ATT_BLOCK_ENTRIES) {
		uint32_t left = list->count - i;
		uint32_t n = left < ATT_BLOCK_ENTRIES ? left : ATT_BLOCK_ENTRIES;
		uint64_t *leaf = leaf_for(p, root, order, i);

		memcpy(leaf, &list->pages[i], n * sizeof(*leaf));
		is_good = pages_are_good(leaf, n, list->page_size_bytes, space_size) && is_good;
	}
	*att = &p->roots[root];
	**att = (struct att){
		.pool = p,
		.root = att_block(p, root),
		.users = 1,
		.page_count = list->count,
		.page_shift = att_page_shift(list->page_size_bytes),
		.order = (uint8_t)order,
	};
	if (is_good)
		return WEFT_OK;
	att_put(p, *att);
	return WEFT_R_REG_PAGE_ADDRESS;
}

void att_get(struct att *a)
{
	a->users++;
}

void att_put(struct att_pool *p, struct att *a)
{
	uint32_t root = (uint32_t)(a - p->roots);
	uint32_t leaves = divide_up(a->page_count, ATT_BLOCK_SHIFT);

	CHECK(a->users > 0 && a->pool == p);
	if (--a->users > 0)
		return;
	for (uint32_t leaf = 0; leaf < leaves && a->order != WEFT_ORDER_DIRECT; leaf++) {
		const uint64_t *block = att_block(p, root);
		uint32_t middle = ATT_NONE;

		if (a->order == WEFT_ORDER_SECOND) {
			middle = (uint32_t)block[leaf >> ATT_BLOCK_SHIFT];
			block = att_block(p, middle);
		}
		block_give(p, (uint32_t)block[leaf % ATT_BLOCK_ENTRIES]);
		if (middle != ATT_NONE &&
		    (leaf % ATT_BLOCK_ENTRIES == ATT_BLOCK_ENTRIES - 1 || leaf == leaves - 1))
			block_give(p, middle);
	}
	block_give(p, root);
}
