/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/ranges.h"

#include <string.h>

#include "base/check.h"

uint32_t ranges_find(const struct ranges *r, uint64_t addr)
{
	uint32_t low = 0, high = r->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (r->at[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t ranges_greatest(const struct ranges *r, uint64_t start, uint64_t end)
{
	uint64_t greatest = 0;

	for (uint32_t i = ranges_find(r, start); i < r->count && r->at[i].start < end; i++) {
		if (r->at[i].number > greatest)
			greatest = r->at[i].number;
	}
	return greatest;
}

bool ranges_cover(const struct ranges *r, uint64_t start, uint64_t end)
{
	for (uint32_t i = ranges_find(r, start); i < r->count && r->at[i].start <= start; i++) {
		start = r->at[i].end;
		if (start >= end)
			return true;
	}
	return false;
}

/* ---- Changes -------------------------------------------------------------------------------- */

static void insert(struct ranges *r, uint32_t i, struct range one)
{
	CHECK(r->count < r->max);
	memmove(&r->at[i + 1], &r->at[i], (r->count - i) * sizeof(*r->at));
	r->at[i] = one;
	r->count++;
}

static void erase(struct ranges *r, uint32_t i, uint32_t count)
{
	memmove(&r->at[i], &r->at[i + count], (r->count - i - count) * sizeof(*r->at));
	r->count -= count;
}

static bool is_inside(const struct ranges *r, uint64_t addr)
{
	uint32_t i = ranges_find(r, addr);

	return i < r->count && r->at[i].start < addr;
}

static void cut(struct ranges *r, uint64_t addr)
{
	uint32_t i = ranges_find(r, addr);
	struct range front;

	if (!is_inside(r, addr))
		return;
	front = r->at[i];
	front.end = addr;
	r->at[i].start = addr;
	insert(r, i, front);
}

/* Gaps within. */
static uint32_t gaps(const struct ranges *r, uint64_t start, uint64_t end)
{
	uint32_t count = 0;

	for (uint32_t i = ranges_find(r, start); i < r->count && r->at[i].start < end; i++) {
		count += r->at[i].start > start;
		start = r->at[i].end;
	}
	return count + (start < end);
}

/* Cuts at both ends, if there is room for that and for `more` ranges. */
static bool cut_out(struct ranges *r, uint64_t start, uint64_t end, uint32_t more)
{
	uint32_t needed = is_inside(r, start) + is_inside(r, end) + more;

	CHECK(start < end);
	if (r->max - r->count < needed)
		return false;
	cut(r, start);
	cut(r, end);
	return true;
}

/* Joins neighbours with equal numbers, from the one before start to the one behind end. */
static void join(struct ranges *r, uint64_t start, uint64_t end)
{
	uint32_t i = ranges_find(r, start);

	i -= i > 0;
	while (i + 1 < r->count && r->at[i].start <= end) {
		if (r->at[i].end == r->at[i + 1].start && r->at[i].number == r->at[i + 1].number) {
			r->at[i].end = r->at[i + 1].end;
			erase(r, i + 1, 1);
		} else {
			i++;
		}
	}
}

bool ranges_set(struct ranges *r, uint64_t start, uint64_t end, uint64_t number)
{
	uint32_t first, last;

	if (!cut_out(r, start, end, number && gaps(r, start, end) > 0))
		return false;
	first = last = ranges_find(r, start);
	while (last < r->count && r->at[last].start < end)
		last++;
	erase(r, first, last - first);
	if (number)
		insert(r, first, (struct range){ start, end, number });
	join(r, start, end);
	return true;
}

bool ranges_add(struct ranges *r, uint64_t start, uint64_t end)
{
	uint64_t at = start;

	if (!cut_out(r, start, end, gaps(r, start, end)))
		return false;
	for (uint32_t i = ranges_find(r, start); at < end; i++) {
		if (i == r->count || r->at[i].start > at) {
			uint64_t next = i < r->count && r->at[i].start < end ? r->at[i].start : end;

			insert(r, i, (struct range){ at, next, 0 });
		}
		r->at[i].number++;
		at = r->at[i].end;
	}
	join(r, start, end);
	return true;
}

bool ranges_subtract(struct ranges *r, uint64_t start, uint64_t end)
{
	uint32_t i;

	if (!cut_out(r, start, end, 0))
		return false;
	i = ranges_find(r, start);
	while (i < r->count && r->at[i].start < end) {
		if (--r->at[i].number == 0)
			erase(r, i, 1);
		else
			i++;
	}
	join(r, start, end);
	return true;
}

void ranges_unite(struct ranges *r)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i + 1 < r->count; i++) {
		if (r->at[i + 1].start - r->at[i].end < r->at[best + 1].start - r->at[best].end)
			best = i;
	}
	if (r->count < 2)
		return;
	r->at[best].end = r->at[best + 1].end;
	if (r->at[best].number < r->at[best + 1].number)
		r->at[best].number = r->at[best + 1].number;
	erase(r, best + 1, 1);
}
