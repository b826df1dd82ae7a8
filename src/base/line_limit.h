/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines for people that peers can cause, as refusals: a flood of these must not flood a log. The
 * first LINES_A_SECOND of a second are told, then how many more there were. Begins with zeroes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LINES_A_SECOND = 20 };

struct line_limit {
	uint64_t end_ns; /* of the second */
	uint32_t told, untold;
};

/* One more line. False: it is counted only. */
static inline bool line_limit_may(struct line_limit *l, uint64_t now_ns)
{
	if (l->untold == 0 && now_ns >= l->end_ns)
		*l = (struct line_limit){ .end_ns = now_ns + UINT64_C(1000000000) };
	if (l->told < LINES_A_SECOND) {
		l->told++;
		return true;
	}
	l->untold += l->untold < UINT32_MAX;
	return false;
}

/* How many lines were not told in the second that is over; 0: none, or it is not over. */
static inline uint32_t line_limit_expire(struct line_limit *l, uint64_t now_ns)
{
	uint32_t untold = l->untold;

	if (untold == 0 || now_ns < l->end_ns)
		return 0;
	*l = (struct line_limit){ 0 };
	return untold;
}

/* When that is to be asked; UINT64_MAX: never. */
static inline uint64_t line_limit_due(const struct line_limit *l)
{
	return l->untold > 0 ? l->end_ns : UINT64_MAX;
}
