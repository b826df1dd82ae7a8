/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/world.h"

#include <stdlib.h>

#include "base/check.h"
#include "sim/world/sim_trace.h"

struct world_entry {
	uint64_t time_ns;
	uint64_t lot;	/* random: orders entries of the same instant */
	uint64_t order; /* orders equal lots: the order is total */
	struct world_event event;
	struct world_alarm *alarm; /* NULL: a scheduled event */
};

int world_init(struct world *w, const struct world_options *options)
{
	CHECK(options->events_max <= WORLD_EVENTS_MAX && options->trace_max > 0);
	*w = (struct world){ .max = options->events_max };
	w->prng.state = options->seed;
	w->order.state = prng_next(&w->prng);
	w->heap = calloc((size_t)w->max + 1, sizeof(*w->heap));
	if (!w->heap)
		return -1;
	if (trace_init(&w->trace, options->trace_max)) {
		free(w->heap);
		return -1;
	}
	return 0;
}

void world_fini(struct world *w)
{
	trace_fini(&w->trace);
	free(w->heap);
	*w = (struct world){ 0 };
}

static bool entry_is_before(const struct world_entry *a, const struct world_entry *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	if (a->lot != b->lot)
		return a->lot < b->lot;
	return a->order < b->order;
}

static void heap_put(struct world *w, uint32_t position, const struct world_entry *entry)
{
	w->heap[position] = *entry;
	if (entry->alarm)
		entry->alarm->position = position;
}

/* Places the entry at this position, or above or below it. Bound: the heap's depth. */
static void heap_settle(struct world *w, uint32_t position, struct world_entry entry)
{
	while (position > 1 && entry_is_before(&entry, &w->heap[position / 2])) {
		heap_put(w, position, &w->heap[position / 2]);
		position /= 2;
	}
	for (uint32_t child = 2 * position; child <= w->count; child = 2 * position) {
		if (child < w->count && entry_is_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!entry_is_before(&w->heap[child], &entry))
			break;
		heap_put(w, position, &w->heap[child]);
		position = child;
	}
	heap_put(w, position, &entry);
}

static struct world_entry heap_take(struct world *w, uint32_t position)
{
	struct world_entry taken = w->heap[position];
	struct world_entry last = w->heap[w->count--];

	if (taken.alarm)
		taken.alarm->position = 0;
	if (position <= w->count)
		heap_settle(w, position, last);
	return taken;
}

static void heap_add(struct world *w, struct world_entry entry)
{
	CHECK(w->count < w->max);
	entry.lot = prng_next(&w->order);
	entry.order = w->scheduled++;
	w->count++;
	heap_settle(w, w->count, entry);
}

void world_schedule(struct world *w, uint64_t delay_ns, struct world_event event)
{
	CHECK(delay_ns < WORLD_NEVER - w->now_ns);
	heap_add(w, (struct world_entry){ .time_ns = w->now_ns + delay_ns, .event = event });
}

void world_alarm_set(struct world *w, struct world_alarm *alarm, uint64_t time_ns)
{
	if (time_ns < w->now_ns)
		time_ns = w->now_ns;
	/*
	 * An alarm set to the same time again keeps its lot: repeated setting must not win the
	 * draw.
	 */
	if (world_alarm_is_set(alarm) && w->heap[alarm->position].time_ns == time_ns)
		return;
	world_alarm_cancel(w, alarm);
	if (time_ns == WORLD_NEVER)
		return;
	heap_add(w,
		 (struct world_entry){ .time_ns = time_ns, .event = alarm->event, .alarm = alarm });
}

void world_alarm_cancel(struct world *w, struct world_alarm *alarm)
{
	if (!world_alarm_is_set(alarm))
		return;
	CHECK(alarm->position <= w->count && w->heap[alarm->position].alarm == alarm);
	(void)heap_take(w, alarm->position);
}

bool world_next(struct world *w, struct world_event *event)
{
	struct world_entry entry;

	if (w->count == 0)
		return false;
	entry = heap_take(w, 1);
	CHECK(entry.time_ns >= w->now_ns);
	w->now_ns = entry.time_ns;
	w->trace.now_ns = entry.time_ns;
	trace_add(&w->trace, (struct trace_event){ .kind = SIM_TRACE_EVENT,
						   .who = entry.event.node,
						   .a = entry.event.kind,
						   .b = entry.event.arg });
	*event = entry.event;
	return true;
}
