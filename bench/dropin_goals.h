/* SPDX-License-Identifier: BSD-2-Clause */
/* What the drop-in libraries cost: perftest on them, next to `weft perf` on the native calls. */
#pragma once

#include <stdbool.h>

/* Measures and shows it. */
void dropin_goals_show(bool is_json);
