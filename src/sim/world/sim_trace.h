/* SPDX-License-Identifier: BSD-2-Clause */
/* Trace events of the simulator itself, beside those of the cores under test. */
#pragma once

#include "base/trace.h"

enum sim_trace_kind {
	/* the clock: who = node */
	SIM_TRACE_EVENT = TRACE_SIM, /* a = kind, b = argument: the world delivered an event */
	/* datagram pipes: who = pipe, a = bytes */
	SIM_TRACE_DELIVERED,
	SIM_TRACE_LOST,
	SIM_TRACE_DUPLICATED,
	SIM_TRACE_REORDERED, /* b = extra delay in ns */
	SIM_TRACE_CORRUPTED, /* b = offset of the first changed byte */
	SIM_TRACE_DROPPED_FULL,
	SIM_TRACE_DROPPED_CUT,
	/* stream pipes: who = pipe */
	SIM_TRACE_STREAM_SENT,	/* a = bytes taken, b = bytes offered */
	SIM_TRACE_STREAM_GIVEN, /* a = bytes delivered to the receiver */
	SIM_TRACE_STREAM_STATE, /* a = from, b = to */
	/* both: who = pipe */
	SIM_TRACE_CLOGGED, /* a = until */
	SIM_TRACE_CUT,	   /* a = until, UINT64_MAX: until healed */
	SIM_TRACE_HEALED,
	SIM_TRACE_COUNT,
	/* Scenarios number their own kinds from here. */
	SIM_TRACE_SCENARIO = TRACE_SIM + 64
};

/* The name of a kind; NULL: it is not the simulator's. */
const char *sim_trace_name(uint16_t kind);
