/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a duration is measured on a machine that others use too.
 *
 * Every subject is timed in many short rounds, each next to a round of memcpy of 4 KiB, so that
 * both see the same machine. Of each the fastest tenth counts: slower rounds were disturbed, and
 * the very fastest may have been lucky. What is printed, and when a goal is met, is not known here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdnoreturn.h>

#include <weft/reason.h>

struct subject {
	const char *name; /* for programs */
	const char *what; /* for people */
	double goal;	  /* at most so many times the memcpy; 0: none */
	uint32_t parts;	  /* the value is that of one part of so many; 0: of the whole operation */
	void *(*open)(const struct subject *s);
	void (*run)(void *context, uint64_t count);
	void (*close)(void *context);
};

struct measured {
	double ns;	  /* of one part */
	double memcpy_ns; /* of 4 KiB, at the same time */
};

/* Copies 4 KiB between two buffers that stay in the nearest cache. */
extern const struct subject measure_memcpy;

struct measured measure(const struct subject *s);

/* Where results go, so that no compiler finds them unused. */
extern volatile uint64_t measure_sink;

/* Ends the program when something that must succeed did not. Inline, to cost next to nothing. */
noreturn void measure_failed(const char *what, enum weft_reason r);

static inline void must(enum weft_reason r, const char *what)
{
	if (__builtin_expect(r != WEFT_OK, 0))
		measure_failed(what, r);
}

static inline void must_be(bool condition, const char *what)
{
	if (__builtin_expect(!condition, 0))
		measure_failed(what, WEFT_OK);
}
