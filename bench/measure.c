/* SPDX-License-Identifier: BSD-2-Clause */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	ROUNDS = 1500,
	ROUND_NS = 100000, /* far above the clock's own cost, far below a scheduler's slice */
	CALIBRATIONS_MAX = 40,
	COPY_BYTES = 4096,
	PAGE_BYTES = 4096,
};

volatile uint64_t measure_sink;

noreturn void measure_failed(const char *what, enum weft_reason r)
{
	if (r == WEFT_OK)
		fprintf(stderr, "bench: %s failed\n", what);
	else
		fprintf(stderr, "bench: %s: %s (%s)\n", what, weft_reason_text(r),
			weft_reason_name(r));
	exit(1);
}

/* ---- The yardstick -------------------------------------------------------------------------- */

/* Read anew for every call: the compiler cannot know which function it is. */
static void *(*volatile copy)(void *to, const void *from, size_t length) = memcpy;

struct copy_buffers {
	/*
	 * Half a page apart: some processors mistake a load for one of what was just stored when
	 * both have the same place in their page, and memcpy would look slower than it is.
	 */
	_Alignas(64) uint8_t from[COPY_BYTES];
	uint8_t gap[PAGE_BYTES / 2];
	uint8_t to[COPY_BYTES];
};

static void *copy_open(const struct subject *s)
{
	struct copy_buffers *b = aligned_alloc(PAGE_BYTES, 3 * PAGE_BYTES);

	(void)s;
	must_be(b != NULL, "memory for memcpy");
	memset(b, 1, sizeof(*b));
	return b;
}

static void copy_run(void *context, uint64_t count)
{
	struct copy_buffers *b = context;

	for (uint64_t i = 0; i < count; i++)
		copy(b->to, b->from, COPY_BYTES);
	measure_sink += b->to[0];
}

const struct subject measure_memcpy = {
	.name = "memcpy_4k",
	.what = "memcpy of 4 KiB",
	.open = copy_open,
	.run = copy_run,
	.close = free,
};

/* ---- Rounds --------------------------------------------------------------------------------- */

struct series {
	const struct subject *subject;
	void *context;
	uint64_t count; /* operations of one round */
	double ns[ROUNDS];
};

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t run_ns(const struct series *s)
{
	uint64_t start = clock_ns();

	s->subject->run(s->context, s->count);
	return clock_ns() - start;
}

/* The best of three: one disturbance does not shorten every round. */
static uint64_t calm_run_ns(const struct series *s)
{
	uint64_t best = run_ns(s);

	for (int i = 1; i < 3; i++) {
		uint64_t ns = run_ns(s);

		best = ns < best ? ns : best;
	}
	return best;
}

/* Opens the subject, warms it up, and finds out how many operations fill a round. */
static void series_open(struct series *s, const struct subject *subject)
{
	uint64_t ns = 0;

	s->subject = subject;
	s->context = subject->open(subject);
	s->count = 1;
	for (int i = 0; i < CALIBRATIONS_MAX; i++) {
		ns = calm_run_ns(s);
		if (ns >= ROUND_NS)
			break;
		s->count *= 2;
	}
	s->count = s->count * ROUND_NS / (ns > ROUND_NS ? ns : ROUND_NS);
	s->count = s->count > 0 ? s->count : 1;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The slowest of the fastest tenth, for one part of one operation. */
static double series_close(struct series *s)
{
	double parts = s->subject->parts > 0 ? s->subject->parts : 1;

	s->subject->close(s->context);
	qsort(s->ns, ROUNDS, sizeof(s->ns[0]), compare);
	return s->ns[ROUNDS / 10] / parts;
}

struct measured measure(const struct subject *subject)
{
	static struct series yardstick, series;
	struct measured m;

	series_open(&yardstick, &measure_memcpy);
	series_open(&series, subject);
	for (int i = 0; i < ROUNDS; i++) {
		yardstick.ns[i] = (double)run_ns(&yardstick) / (double)yardstick.count;
		series.ns[i] = (double)run_ns(&series) / (double)series.count;
	}
	m.ns = series_close(&series);
	m.memcpy_ns = series_close(&yardstick);
	return m;
}
