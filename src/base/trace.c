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

void trace_put(struct trace *t, const struct trace_event *event)
{
	struct trace_event e = *event;
	uint64_t h;

	if (t->only && !(t->only >> (e.kind % TRACE_SIM) & 1))
		return;
	e.time_ns = t->now_ns;
	h = prng_mix(t->hash ^ e.time_ns);
	h = prng_mix(h ^ e.a);
	h = prng_mix(h ^ e.b);
	t->hash = prng_mix(h ^ ((uint64_t)e.who << 32 | (uint32_t)e.kind << 16 | e.reason));
	t->events[t->count++ % t->capacity] = e;
}

const struct trace_event *trace_at(const struct trace *t, uint64_t i)
{
	if (i >= t->count || t->count - i > t->capacity)
		return NULL;
	return &t->events[i % t->capacity];
}
