/* SPDX-License-Identifier: BSD-2-Clause */
/* The time of day in one number: nanoseconds since 1970. It may be set, so it measures nothing. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t time_of_day_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
