/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for the data of tasks: blocks of 4 KiB to 1 MiB, each a power of two and at a multiple of
 * its size, joined with their free neighbours when they come back. What was given back last is
 * handed out first, so that only memory that is needed at a time is ever touched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#include "base/span.h"

enum { POOL_UNIT = 4096, POOL_BLOCK_MAX = 1 << 20 };

struct pool;

/* bytes: a multiple of POOL_BLOCK_MAX, not 0. WEFT_R_NO_MEMORY. */
enum weft_reason pool_create(uint64_t bytes, struct pool **out);
void pool_destroy(struct pool *p);

/*
 * Takes memory of this length, not 0: all or none. *count: the spans that there is room for, then
 * those that were taken. False: there is not as much, with `reserve` bytes left, or it is in too
 * many pieces.
 */
bool pool_take(struct pool *p, uint64_t length, uint64_t reserve, struct span *spans,
	       uint32_t *count);
void pool_give(struct pool *p, const struct span *spans, uint32_t count);

uint64_t pool_free_bytes(const struct pool *p);
uint64_t pool_bytes(const struct pool *p);
