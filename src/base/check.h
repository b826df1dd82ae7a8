/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CHECK: a programmer error stops the program, in every build. The core cannot print or exit, so it
 * calls check_failed(), which is provided by the room that runs the core.
 */
#pragma once

#include <stddef.h>
#include <stdnoreturn.h>

__attribute__((cold)) noreturn void check_failed(const char *file, int line, const char *what);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			check_failed(__FILE__, __LINE__, #condition);                              \
	} while (0)

/* The struct of the given type whose member is at ptr. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
