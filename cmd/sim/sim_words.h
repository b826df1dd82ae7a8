/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of a simulated world, for people. */
#pragma once

#include <stddef.h>

#include "base/trace.h"

/* One line without a line end, of at most size bytes, ended by 0. */
void sim_words(const struct trace_event *event, char *text, size_t size);
