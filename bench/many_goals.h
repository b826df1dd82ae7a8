/* SPDX-License-Identifier: BSD-2-Clause */
/* What many queue pairs and several threads cost, within one process. */
#pragma once

#include <stdbool.h>

void many_goals_show(bool is_json);
