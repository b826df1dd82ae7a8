// SPDX-License-Identifier: BSD-2-Clause
/*
 * Preloaded into perftest, which times its processor's clock by gettimeofday() for every row of
 * results, and uses that call for nothing else: a fifth of a second without a call of ours. Here
 * that time goes twenty times as fast. The figures are then no measurement; no case reads them.
 */
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

enum { FASTER = 20, NS_PER_S = 1000 * 1000 * 1000 };

static int64_t started_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

__attribute__((constructor)) static void start(void)
{
	started_ns = now_ns();
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	int64_t ns = (now_ns() - started_ns) * FASTER;

	(void)zone;
	*t = (struct timeval){ ns / NS_PER_S, ns % NS_PER_S / 1000 };
	return 0;
}
