/* SPDX-License-Identifier: BSD-2-Clause */
/* Pairs of measurements, made one after the other so that both see the same machine. */
#pragma once

#include "net_subjects.h"

/* The first, as a multiple of the second, is to be at least or at most so much. */
struct pair_goal {
	const char *name, *text;
	const struct net_peer *ours, *theirs;
	enum net_what what;
	uint32_t size_bytes;
	double goal;
	bool is_most;
};

/* Measures all of them in rounds, and prints a table or (is_json) lines; PAIR_GOALS_MAX at most. */
enum { PAIR_GOALS_MAX = 16 };

void pair_goals_show(bool is_json, const char *title, const struct pair_goal *goals, int count);
