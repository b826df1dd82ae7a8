/* SPDX-License-Identifier: BSD-2-Clause */
/* What weft wants of itself on the network, and whether it was so in this run. */
#pragma once

#include "net_subjects.h"

void net_goals_show(const struct net_rows *rows);
