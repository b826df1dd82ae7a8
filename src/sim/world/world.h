/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The world: a virtual clock and a queue of future events. Everything random in a run comes from
 * the seed, including the order of events at the same instant, so a seed determines the whole run.
 *
 * Events are values, not callbacks: the scenario's loop takes the next one and acts on it. There
 * are two ways to get one: world_schedule(), for an event that is certain to come; and an alarm,
 * embedded in its owner, which can be moved or cancelled (a deadline, a pipe with data ready).
 *
 * The world knows neither nodes nor networks, nor what an event means.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/trace.h"

enum { WORLD_EVENTS_MAX = 1 << 30 };

/* Later than every time. */
#define WORLD_NEVER UINT64_MAX

struct world_event {
	uint32_t node; /* the node concerned */
	uint32_t kind; /* the scenario's own enum */
	uint64_t arg;
};

/*
 * An alarm has at most one event in the queue, always the same. Its owner sets `event`; the rest
 * belongs to the world.
 */
struct world_alarm {
	struct world_event event;
	uint32_t position; /* in the heap, from 1; 0: not set */
};

struct world_options {
	uint64_t seed;
	uint32_t events_max; /* scheduled events and set alarms at a time */
	uint32_t trace_max;  /* how many of the latest events the trace keeps; not 0 */
};

struct world_entry;

struct world {
	uint64_t now_ns;
	struct prng prng;   /* for all random draws of the scenario */
	struct trace trace; /* its now_ns is the world's */

	/* the queue */
	struct prng order;	  /* its own, so that other draws do not change the order */
	struct world_entry *heap; /* heap[1] is the next */
	uint32_t count, max;
	uint64_t scheduled; /* entries so far */
};

/* 0, or -1: out of memory. */
int world_init(struct world *w, const struct world_options *options);
void world_fini(struct world *w);

/* Schedules the event delay_ns from now. The scenario must size the queue so that it fits. */
void world_schedule(struct world *w, uint64_t delay_ns, struct world_event event);

/*
 * Sets the alarm to time_ns, or to now if that has passed; an earlier setting is replaced.
 * WORLD_NEVER cancels it.
 */
void world_alarm_set(struct world *w, struct world_alarm *alarm, uint64_t time_ns);
void world_alarm_cancel(struct world *w, struct world_alarm *alarm);

static inline bool world_alarm_is_set(const struct world_alarm *alarm)
{
	return alarm->position != 0;
}

/* Advances the clock to the next event, traces it and takes it. False: none is left. */
bool world_next(struct world *w, struct world_event *event);
