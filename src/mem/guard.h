/* SPDX-License-Identifier: BSD-2-Clause */
/* How to access memory of the process that may be missing. Provided by the owner of the adapter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct mem_guard {
	/* Copies as memmove() does. False: memory was missing; some may have been copied. */
	bool (*copy)(void *to, const void *from, uint64_t length);
	/*
	 * Calls work(argument), which accesses these bytes and memory of ours, takes no lock and
	 * makes no system call. False: some of the bytes were missing, and work did not return.
	 */
	bool (*run)(const void *bytes, uint64_t length, void (*work)(void *), void *argument);
};
