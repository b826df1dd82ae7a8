/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages far from all others. Who unmaps some of them leaves a hole in which the kernel maps nothing
 * else, neither for another thread nor for a sanitizer: it takes the highest free addresses first,
 * or the lowest, and this is a low place with free ones above it.
 */
#pragma once

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

enum { LONE_GAP = 256 << 20 };

/* As mmap() with those flags, and a file or -1. */
static inline uint8_t *lone_map(size_t bytes, int flags, int file)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), taken = (bytes + page - 1) / page * page;
	uint8_t *at = mmap(NULL, taken + LONE_GAP, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	REQUIRE(at != MAP_FAILED);
	REQUIRE(mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == at);
	REQUIRE(munmap(at + taken, LONE_GAP) == 0);
	return at;
}

static inline uint8_t *lone_pages(size_t bytes)
{
	return lone_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}
