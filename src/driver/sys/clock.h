/* SPDX-License-Identifier: BSD-2-Clause */
/* This machine's clocks, each as one number of nanoseconds. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Since the machine started: the clock of deadlines. */
static inline uint64_t clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* Since 1970. It may be set, so it measures nothing. */
static inline uint64_t time_of_day_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

/* A point in time or a duration; seconds saturate at INT32_MAX (68 years). */
static inline struct timespec to_timespec(uint64_t ns)
{
	const uint64_t seconds_max = INT32_MAX;
	uint64_t seconds = ns / 1000000000;

	return (struct timespec){
		.tv_sec = (time_t)(seconds < seconds_max ? seconds : seconds_max),
		.tv_nsec = (long)(ns % 1000000000),
	};
}
