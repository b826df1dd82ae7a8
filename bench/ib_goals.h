/* SPDX-License-Identifier: BSD-2-Clause */
/* The goals of the InfiniBand transport that need no machine: virtual time, and memory. */
#pragma once

#include <stdbool.h>

void ib_goals_show(bool is_json);
