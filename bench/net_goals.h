/* SPDX-License-Identifier: BSD-2-Clause */
/* What weft wants of itself on the network, and whether it was so in this run. */
#pragma once

#include "net_subjects.h"

/* The first, as a multiple of the second, is to be at least or at most so much; NULL: not known. */
struct net_goal {
	const char *text;
	const struct net_row *ours, *theirs;
	double goal;
	bool is_most;
};

void net_goals_head(void);
void net_goal_show(const struct net_goal *g);

void net_goals_show(const struct net_rows *rows);
