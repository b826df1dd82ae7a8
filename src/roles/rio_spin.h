/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long a role looks for what comes before it sleeps: bounded by the time since it last had
 * something to do. Between two looks it yields the processor.
 *
 * A yield that takes long, and all of the time to look, shows that other programs want the
 * processor. To a thread that yields the kernel gives it back only after their turns, of
 * milliseconds; one that sleeps preempts them when it is woken. So the role sleeps for a while
 * then, and looks again later: a yield that found the processor taken costs at most a part of the
 * time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	RIO_YIELD_LONG_NS = 200 * 1000, /* longer than a turn of another role */
	RIO_SPIN_PAUSE = 32		/* sleep for so many times what the yield took */
};

struct rio_spin {
	uint64_t spin_ns;      /* after the last thing to do; 0: never look */
	uint64_t paused_until; /* ns: sleep at once until then */
};

/* Whether to look again, with something to do last at busy_ns. */
static inline bool rio_spin_may(const struct rio_spin *s, uint64_t busy_ns, uint64_t now_ns)
{
	return now_ns - busy_ns < s->spin_ns && now_ns >= s->paused_until;
}

/* A yield began and ended. */
static inline void rio_spin_yielded(struct rio_spin *s, uint64_t began_ns, uint64_t ended_ns)
{
	uint64_t took_ns = ended_ns - began_ns;

	if (took_ns >= RIO_YIELD_LONG_NS && took_ns >= s->spin_ns)
		s->paused_until = ended_ns + RIO_SPIN_PAUSE * took_ns;
}
