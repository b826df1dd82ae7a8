/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/target/pool.h"

#include <stdlib.h>

#include "base/check.h"

enum { ORDERS = 9, BLOCK_UNITS = POOL_BLOCK_MAX / POOL_UNIT, IN_USE = 0x80, NO_HEAD = 0xff };

#define NONE UINT32_MAX

/* Lists of free blocks by order: a block of order n has 2^n units. */
struct pool {
	uint8_t *bytes;
	uint32_t unit_count, free_units;
	uint32_t first[ORDERS];
	uint32_t *next, *prev; /* of each unit that begins a free block */
	uint8_t *orders;       /* of each unit that begins a block, | IN_USE; else NO_HEAD */
};

static void list_in(struct pool *p, uint32_t unit, uint8_t order)
{
	uint32_t next = p->first[order];

	p->orders[unit] = order;
	p->next[unit] = next;
	p->prev[unit] = NONE;
	if (next != NONE)
		p->prev[next] = unit;
	p->first[order] = unit;
}

static void list_out(struct pool *p, uint32_t unit)
{
	uint32_t next = p->next[unit], prev = p->prev[unit];

	if (next != NONE)
		p->prev[next] = prev;
	if (prev != NONE)
		p->next[prev] = next;
	else
		p->first[p->orders[unit]] = next;
	p->orders[unit] = NO_HEAD;
}

enum weft_reason pool_create(uint64_t bytes, struct pool **out)
{
	struct pool *p = calloc(1, sizeof(*p));

	CHECK(bytes > 0 && bytes % POOL_BLOCK_MAX == 0 && bytes / POOL_UNIT < NONE);
	if (!p)
		return WEFT_R_NO_MEMORY;
	p->unit_count = p->free_units = (uint32_t)(bytes / POOL_UNIT);
	p->bytes = aligned_alloc(POOL_UNIT, bytes);
	p->next = calloc(p->unit_count, sizeof(*p->next));
	p->prev = calloc(p->unit_count, sizeof(*p->prev));
	p->orders = malloc(p->unit_count);
	if (!p->bytes || !p->next || !p->prev || !p->orders) {
		pool_destroy(p);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t i = 0; i < p->unit_count; i++)
		p->orders[i] = NO_HEAD;
	for (int i = 0; i < ORDERS; i++)
		p->first[i] = NONE;
	for (uint32_t i = p->unit_count; i > 0; i -= BLOCK_UNITS)
		list_in(p, i - BLOCK_UNITS, ORDERS - 1);
	*out = p;
	return WEFT_OK;
}

void pool_destroy(struct pool *p)
{
	free(p->bytes);
	free(p->next);
	free(p->prev);
	free(p->orders);
	free(p);
}

/* Takes a block of this order, split off a larger one if need be. NONE: there is none. */
static uint32_t block_take(struct pool *p, uint8_t order)
{
	uint8_t from = order;
	uint32_t unit;

	while (from < ORDERS && p->first[from] == NONE)
		from++;
	if (from == ORDERS)
		return NONE;
	unit = p->first[from];
	list_out(p, unit);
	while (from-- > order)
		list_in(p, unit + (1U << from), from);
	p->orders[unit] = order | IN_USE;
	p->free_units -= 1U << order;
	return unit;
}

static void block_give(struct pool *p, uint32_t unit)
{
	uint8_t order = p->orders[unit] & (uint8_t)~IN_USE;

	CHECK(p->orders[unit] != NO_HEAD && p->orders[unit] & IN_USE);
	p->free_units += 1U << order;
	p->orders[unit] = NO_HEAD;
	while (order < ORDERS - 1 && p->orders[unit ^ 1U << order] == order) {
		list_out(p, unit ^ 1U << order);
		unit &= ~(1U << order);
		order++;
	}
	list_in(p, unit, order);
}

/* The largest block that is not larger than this. */
static uint8_t order_of(uint64_t units)
{
	uint8_t order = 0;

	while (order < ORDERS - 1 && units >> (order + 1) > 0)
		order++;
	return order;
}

bool pool_take(struct pool *p, uint64_t length, uint64_t reserve, struct span *spans,
	       uint32_t *count)
{
	uint64_t units = (length + POOL_UNIT - 1) / POOL_UNIT, left = length;
	uint32_t n = 0;

	if ((units + (reserve + POOL_UNIT - 1) / POOL_UNIT) > p->free_units)
		return false;
	/* Bound: each turn takes a block, or gives up. */
	while (units > 0 && n < *count) {
		uint8_t order = order_of(units);
		uint32_t unit = block_take(p, order);

		while (unit == NONE && order > 0)
			unit = block_take(p, --order);
		CHECK(unit != NONE);
		units -= 1U << order;
		spans[n].bytes = p->bytes + (uint64_t)unit * POOL_UNIT;
		spans[n].length = (size_t)POOL_UNIT << order;
		if (spans[n].length > left)
			spans[n].length = (size_t)left;
		left -= spans[n++].length;
	}
	*count = n;
	if (units == 0)
		return true;
	pool_give(p, spans, n);
	return false;
}

void pool_give(struct pool *p, const struct span *spans, uint32_t count)
{
	/* In reverse, so that the next to take gets the first again. */
	for (uint32_t i = count; i > 0; i--)
		block_give(p, (uint32_t)((uint64_t)(spans[i - 1].bytes - p->bytes) / POOL_UNIT));
}

uint64_t pool_free_bytes(const struct pool *p)
{
	return (uint64_t)p->free_units * POOL_UNIT;
}

uint64_t pool_bytes(const struct pool *p)
{
	return (uint64_t)p->unit_count * POOL_UNIT;
}
