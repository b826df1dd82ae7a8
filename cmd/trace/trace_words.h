/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events of the trace, for people: those of the cores. The simulator's own are in
 * cmd/sim/sim_words.h.
 */
#pragma once

#include <stddef.h>

#include "base/trace.h"

/* What happened, of the kinds of the core; of connections those with an address are left out. */
void trace_words(const struct trace_event *event, char *text, size_t size);
