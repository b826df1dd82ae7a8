/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for an access to memory to end, which takes about a microsecond if its thread runs. */
#pragma once

#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/*
 * How long at most. An access ends by itself, but for one of a process that is stopped, and one
 * that a signal handler interrupts which unmaps memory.
 */
static const uint64_t access_wait_ns = UINT64_C(5) * 1000 * 1000 * 1000;

/*
 * Yields first, then sleeps, so that threads of lower priority run too. The C library's nanosleep()
 * may be cancelled.
 */
static inline void wait_a_little(uint32_t *rounds)
{
	enum { YIELDS = 64 };
	const struct timespec little = { .tv_nsec = 50000 };

	if (++*rounds < YIELDS)
		(void)sched_yield();
	else
		(void)syscall(SYS_nanosleep, &little, NULL);
}
