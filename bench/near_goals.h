/* SPDX-License-Identifier: BSD-2-Clause */
/* Two programs of one host: perftest on the near path, against shared memory of UCX. */
#pragma once

#include <stdbool.h>

void near_goals_show(bool is_json);
