/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/sim_trace.h"

#include <stddef.h>

static const char *const names[SIM_TRACE_COUNT - TRACE_SIM] = {
	[SIM_TRACE_EVENT - TRACE_SIM] = "event",
	[SIM_TRACE_DELIVERED - TRACE_SIM] = "datagram delivered",
	[SIM_TRACE_LOST - TRACE_SIM] = "datagram lost",
	[SIM_TRACE_DUPLICATED - TRACE_SIM] = "datagram duplicated",
	[SIM_TRACE_REORDERED - TRACE_SIM] = "datagram held back",
	[SIM_TRACE_CORRUPTED - TRACE_SIM] = "datagram corrupted",
	[SIM_TRACE_DROPPED_FULL - TRACE_SIM] = "datagram dropped, pipe full",
	[SIM_TRACE_DROPPED_CUT - TRACE_SIM] = "datagram dropped, pipe cut",
	[SIM_TRACE_STREAM_SENT - TRACE_SIM] = "stream took bytes",
	[SIM_TRACE_STREAM_GIVEN - TRACE_SIM] = "stream gave bytes",
	[SIM_TRACE_STREAM_STATE - TRACE_SIM] = "stream state",
	[SIM_TRACE_CLOGGED - TRACE_SIM] = "pipe clogged",
	[SIM_TRACE_CUT - TRACE_SIM] = "pipe cut",
	[SIM_TRACE_HEALED - TRACE_SIM] = "pipe healed",
};

const char *sim_trace_name(uint16_t kind)
{
	if (kind < TRACE_SIM || kind >= SIM_TRACE_COUNT)
		return NULL;
	return names[kind - TRACE_SIM];
}
