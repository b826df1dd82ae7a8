/* SPDX-License-Identifier: BSD-2-Clause */
/* What is behind addresses of this process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Whether the kernel tells, and copies. */
bool pages_can_be_asked(void);

/* A mem_probe. What can be read or written may still go, by another thread, before it is. */
bool pages_are_there(uint64_t addr, uint64_t length, bool is_written);

/*
 * The first and the last of them, which says little and costs little, whatever the length. Where
 * the kernel does not tell, only whether there is something.
 */
bool pages_at_ends_are_there(uint64_t addr, uint64_t length, bool is_written);

/* A mem_mover: the kernel copies, and does not mind what is missing. */
bool pages_move(void *to, const void *from, uint64_t length);
