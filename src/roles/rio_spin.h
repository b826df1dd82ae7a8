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
 *
 * A role that learns looks only while that pays: as long as what comes to it has mostly come within
 * the time that it would look. Where it does not, as on an idle link or between requests a second
 * apart, the role soon sleeps at once. And where it finds the processor taken again soon after it
 * has slept for a while, the next while is twice as long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	RIO_YIELD_LONG_NS = 200 * 1000, /* longer than a turn of another role */
	RIO_SPIN_PAUSE = 32,		/* sleep for so many times what the yield took */
	RIO_SPIN_GAIN = 8,		/* a role that learns looks from here on */
	RIO_SPIN_GAIN_MAX = 16,		/* so it forgets soon */
	RIO_SPIN_LOSS = 4		/* what came late undoes so much of what came in time */
};

/* Of a role that learns, where other programs want the processor again and again. */
#define RIO_SPIN_PAUSE_MAX_NS (UINT64_C(10) * 1000 * 1000 * 1000)

struct rio_spin {
	uint64_t spin_ns;      /* after the last thing to do; 0: never look */
	uint64_t paused_until; /* ns: sleep at once until then */
	uint64_t pause_ns;     /* of a role that learns: the latest */
	bool is_learning;      /* look only while it pays */
	uint32_t gain;	       /* 0 to RIO_SPIN_GAIN_MAX */
};

/* Whether to look again, with something to do last at busy_ns. */
static inline bool rio_spin_may(const struct rio_spin *s, uint64_t busy_ns, uint64_t now_ns)
{
	return now_ns - busy_ns < s->spin_ns && now_ns >= s->paused_until &&
	       (!s->is_learning || s->gain >= RIO_SPIN_GAIN);
}

/* Something came after so long without anything to do. */
static inline void rio_spin_came(struct rio_spin *s, uint64_t idle_ns)
{
	if (idle_ns < s->spin_ns)
		s->gain += s->gain < RIO_SPIN_GAIN_MAX;
	else
		s->gain -= s->gain < RIO_SPIN_LOSS ? s->gain : RIO_SPIN_LOSS;
}

/* A yield began and ended. */
static inline void rio_spin_yielded(struct rio_spin *s, uint64_t began_ns, uint64_t ended_ns)
{
	uint64_t took_ns = ended_ns - began_ns, pause_ns = RIO_SPIN_PAUSE * took_ns;

	if (took_ns < RIO_YIELD_LONG_NS || took_ns < s->spin_ns)
		return;
	if (s->is_learning && began_ns < s->paused_until + s->pause_ns &&
	    pause_ns < 2 * s->pause_ns)
		pause_ns = 2 * s->pause_ns;
	if (s->is_learning && pause_ns > RIO_SPIN_PAUSE_MAX_NS)
		pause_ns = RIO_SPIN_PAUSE_MAX_NS;
	s->pause_ns = pause_ns;
	s->paused_until = ended_ns + pause_ns;
}
