/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world: a virtual clock and a queue of what happens next. Everything random in a run comes
 * from the seed, also the order among events of the same instant, so that a seed is a whole run.
 *
 * Events are values, not callbacks: the scenario's loop takes the next one and acts on it. There
 * are two ways to ask for one: world_schedule() for an event that will surely come, and an alarm,
 * which lives in its owner and can be moved or called off (a deadline, a pipe that has something
 * ready).
 *
 * The world is not the nodes, nor the network between them: it does not know what an event means.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/trace.h"

enum { WORLD_EVENTS_MAX = 1 << 30 };

/* No time: later than everything. */
#define WORLD_NEVER UINT64_MAX

struct world_event {
	uint32_t node; /* whom it concerns */
	uint32_t kind; /* the scenario's own enum */
	uint64_t arg;
};

/* At most one event in the queue, always the same. The owner fills in event; the rest is the
 * world's. */
struct world_alarm {
	struct world_event event;
	uint32_t position; /* in the heap, counted from 1; 0: not set */
};

struct world_options {
	uint64_t seed;
	uint32_t events_max; /* scheduled events and set alarms at one time */
	uint32_t trace_max;  /* latest events that the trace keeps; not 0 */
};

struct world_entry;

struct world {
	uint64_t now_ns;
	struct prng prng;   /* for whoever draws in this world */
	struct trace trace; /* its now_ns is the world's */

	/* the queue */
	struct prng order; /* of its own, so that drawing elsewhere does not change the order */
	struct world_entry *heap; /* heap[1] is the next */
	uint32_t count, max;
	uint64_t scheduled; /* entries ever */
};

/* 0, or -1 when memory is short. */
int world_init(struct world *w, const struct world_options *options);
void world_fini(struct world *w);

/* The event comes delay_ns from now. The queue must have room: that is the scenario's to size. */
void world_schedule(struct world *w, uint64_t delay_ns, struct world_event event);

/*
 * The alarm's event comes at time_ns, or now if that has passed, and at no other time it was set to
 * before. WORLD_NEVER calls it off.
 */
void world_alarm_set(struct world *w, struct world_alarm *alarm, uint64_t time_ns);
void world_alarm_cancel(struct world *w, struct world_alarm *alarm);

static inline bool world_alarm_is_set(const struct world_alarm *alarm)
{
	return alarm->position != 0;
}

/* When the next event comes; WORLD_NEVER when none is left. */
uint64_t world_due(const struct world *w);

/* Moves the clock to the next event, traces it and takes it. False when none is left. */
bool world_next(struct world *w, struct world_event *event);
