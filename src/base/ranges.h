/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranges of addresses, each with a number: sorted, disjoint, in memory of the caller. Neighbours
 * with equal numbers are one range. Ends are exclusive.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct range {
	uint64_t start, end;
	uint64_t number; /* never 0 */
};

struct ranges {
	struct range *at;
	uint32_t count, max;
};

/* The index of the first range that ends after addr; count: there is none. */
uint32_t ranges_find(const struct ranges *r, uint64_t addr);

/* The greatest number within; 0: there is none. */
uint64_t ranges_greatest(const struct ranges *r, uint64_t start, uint64_t end);

/* Whether all of it has a number. */
bool ranges_cover(const struct ranges *r, uint64_t start, uint64_t end);

/*
 * Sets the number of all of it, 0: it has none; adds 1 to the number, where none counts as 0;
 * subtracts 1 again. False, and nothing has changed: there is no room.
 */
bool ranges_set(struct ranges *r, uint64_t start, uint64_t end, uint64_t number);
bool ranges_add(struct ranges *r, uint64_t start, uint64_t end);
bool ranges_subtract(struct ranges *r, uint64_t start, uint64_t end);

/* Unites the two neighbours with the smallest gap, under the greater number: makes room. */
void ranges_unite(struct ranges *r);
