/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats the trace of a split network card. */
#include <inttypes.h>
#include <stdio.h>

#include "sim/card/card_world.h"

static const char *const phases[] = {
	[CDW_RUN] = "work and faults",
	[CDW_REST] = "no more faults or packets: all must arrive",
	[CDW_IDLE] = "nothing to do: nothing may be said",
	[CDW_CLOSE] = "all links end in order",
	[CDW_OVER] = "the end",
};

static const char *const ends[CDW_ENDS] = { "host 1", "unit, of host 1", "host 2",
					    "unit, of host 2" };
static const char *const nodes[CDW_NODES] = { "unit", "host 1", "host 2" };

/* Words, and whether a and b follow. */
static const struct {
	const char *what;
	uint32_t numbers;
} plain[CDW_TRACE_END - CDW_TRACE_STARTED] = {
	[CDW_TRACE_STARTED - CDW_TRACE_STARTED] = { "starts into life", 1 },
	[CDW_TRACE_STOPPED - CDW_TRACE_STARTED] = { "stops: the end of life", 1 },
	[CDW_TRACE_DIALLED - CDW_TRACE_STARTED] = { "has connection", 1 },
	[CDW_TRACE_OPEN - CDW_TRACE_STARTED] = { "has greeted, on connection", 1 },
	[CDW_TRACE_LOST - CDW_TRACE_STARTED] = { "hangs up connection", 1 },
	[CDW_TRACE_CAME - CDW_TRACE_STARTED] = { "is told of packet, bytes:", 2 },
	[CDW_TRACE_RETURNED - CDW_TRACE_STARTED] = { "has done with pool, element:", 2 },
	[CDW_TRACE_CLOSING - CDW_TRACE_STARTED] = { "wants to close its pool", 1 },
	[CDW_TRACE_RELEASING - CDW_TRACE_STARTED] = { "gives up the other end's pool", 1 },
	[CDW_TRACE_CLOSED - CDW_TRACE_STARTED] = { "has closed its pool", 1 },
	[CDW_TRACE_ENDING - CDW_TRACE_STARTED] = { "wants to end in order connection", 1 },
};

bool card_world_words(const struct trace_event *e, char *text, size_t size)
{
	bool is_node = e->kind == CDW_TRACE_STARTED || e->kind == CDW_TRACE_STOPPED;
	const char *who = is_node ? nodes[e->who % CDW_NODES] : ends[e->who % CDW_ENDS];
	uint32_t high = (uint32_t)(e->a >> 32), low = (uint32_t)e->a;

	if (e->kind < CDW_TRACE_STARTED || e->kind >= CDW_TRACE_END)
		return false;
	if (e->kind == CDW_TRACE_PHASE)
		snprintf(text, size, "%s", phases[e->a % (CDW_OVER + 1)]);
	else if (e->kind == CDW_TRACE_SENT)
		snprintf(text, size, "%s says %s, %" PRIu64 " bytes", who,
			 push_function_name((enum push_function)e->a), e->b);
	else if (e->kind == CDW_TRACE_WROTE)
		snprintf(text, size, "%s writes %" PRIu64 " bytes to pool %u, element %u", who,
			 e->b, high, low);
	else if (e->kind == CDW_TRACE_POOL)
		snprintf(text, size, "%s opens pool %" PRIu64 ": %u elements of %u bytes", who,
			 e->a, (uint32_t)(e->b >> 32), (uint32_t)e->b);
	else if (plain[e->kind - CDW_TRACE_STARTED].numbers == 2)
		snprintf(text, size, "%s %s %" PRIu64 ", %" PRIu64, who,
			 plain[e->kind - CDW_TRACE_STARTED].what, e->a, e->b);
	else
		snprintf(text, size, "%s %s %" PRIu64, who, plain[e->kind - CDW_TRACE_STARTED].what,
			 e->a);
	return true;
}
