/* SPDX-License-Identifier: BSD-2-Clause */
/* The lesser of two, which may be lengths or times: of 64 bits, so that none is cut on the way. */
#pragma once

#include <stdint.h>

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
