/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers in an array whose zeroes mean "each number at its own position": a table of free slots
 * that comes from calloc() and costs no memory until it is used.
 */
#pragma once

#include <stdint.h>

static inline uint32_t free_list_get(const uint32_t *list, uint32_t position)
{
	return list[position] ^ position;
}

static inline void free_list_set(uint32_t *list, uint32_t position, uint32_t number)
{
	list[position] = number ^ position;
}
