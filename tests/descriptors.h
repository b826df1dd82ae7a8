/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that has no file descriptor left, or few. */
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include "test.h"

/* So many descriptors more can be had, from here on; gives what the limit was. */
static inline struct rlimit descriptors_leave(int more)
{
	struct rlimit before, now;
	int next = dup(STDERR_FILENO);

	REQUIRE(next >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
	close(next);
	now = before;
	now.rlim_cur = (rlim_t)(next + more);
	REQUIRE(setrlimit(RLIMIT_NOFILE, &now) == 0);
	return before;
}

static inline struct rlimit descriptors_end(void)
{
	return descriptors_leave(0);
}
