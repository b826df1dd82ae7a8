/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether memory is mapped at addresses of this process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether this kernel can tell. */
bool pages_can_be_asked(void);

/* A mem_probe. Another thread may unmap the pages between this check and the access. */
bool pages_are_there(uint64_t addr, uint64_t length, bool is_written);

enum pages_state {
	PAGES_RESIDENT, /* all of them are in memory */
	PAGES_AWAY,	/* some are swapped out, in a file, or were never touched */
	PAGES_UNMAPPED	/* there is nothing at some of the addresses */
};

/* Where pages are; brings none in. Protection is not looked at. */
enum pages_state pages_look(uint64_t addr, uint64_t length);

/*
 * Checks only the first and the last page: cheap at any length. Where the kernel lacks support,
 * checks only that something is mapped.
 */
bool pages_at_ends_are_there(uint64_t addr, uint64_t length, bool is_written);
