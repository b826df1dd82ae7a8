/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of the trace, for people. */
#pragma once

#include <stddef.h>

#include "base/trace.h"

/* What happened, of the kinds of the core; of connections those with an address are left out. */
void trace_words(const struct trace_event *event, char *text, size_t size);

/* One line without a line end, of at most size bytes, ended by 0. */
void sim_words(const struct trace_event *event, char *text, size_t size);
