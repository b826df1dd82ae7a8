/* SPDX-License-Identifier: BSD-2-Clause */
/* The lesser of two lengths or times; 64 bits, so that no value is truncated. */
#pragma once

#include <stdint.h>

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
