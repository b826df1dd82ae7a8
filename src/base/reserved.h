/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The space at the end of public structs that is kept for fields to come (docs/api.md): a program
 * leaves it zero, so that a later library sees which fields the program does not know.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool reserved_is_zero(const uint64_t *words, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= words[i];
	return all == 0;
}

/* Of a struct that a program has filled. */
#define RESERVED_IS_ZERO(s)                                                                        \
	reserved_is_zero((s)->reserved, sizeof((s)->reserved) / sizeof((s)->reserved[0]))
