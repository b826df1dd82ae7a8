/* SPDX-License-Identifier: BSD-2-Clause */
/* The goals of the fabric in virtual time: what a flit costs, and what lanes of priority keep. */
#pragma once

#include <stdbool.h>

void fabric_goals_show(bool is_json);
