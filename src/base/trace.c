/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/trace.h"

#include <stdlib.h>

#include "base/prng.h"

int trace_init(struct trace *t, uint32_t capacity)
{
	*t = (struct trace){ .capacity = capacity };
	t->events = calloc(capacity, sizeof(*t->events));
	return t->events ? 0 : -1;
}

void trace_fini(struct trace *t)
{
	free(t->events);
	*t = (struct trace){ 0 };
}

void trace_add(struct trace *t, struct trace_event event)
{
	uint64_t h;

	if (!t)
		return;
	event.time_ns = t->now_ns;
	h = prng_mix(t->hash ^ event.time_ns);
	h = prng_mix(h ^ event.a);
	h = prng_mix(h ^ event.b);
	t->hash = prng_mix(h ^
			   ((uint64_t)event.who << 32 | (uint32_t)event.kind << 16 | event.reason));
	t->events[t->count++ % t->capacity] = event;
}

const struct trace_event *trace_at(const struct trace *t, uint64_t i)
{
	if (i >= t->count || t->count - i > t->capacity)
		return NULL;
	return &t->events[i % t->capacity];
}
