/* SPDX-License-Identifier: BSD-2-Clause */
/* What a few samples on a machine that others use too are worth. */
#pragma once

#include <stdbool.h>

enum { NET_ROUNDS_USED = 3 };

struct net_sample {
	double value;
	double processors; /* that others left to us meanwhile */
};

/*
 * Of the samples the calmest count, and of these the median. Their order is changed: those that
 * count come first. No samples: 0. The best would not do instead of the median: some programs move
 * more small messages when they are disturbed, because these gather meanwhile.
 */
double net_samples_judge(struct net_sample *samples, int count, bool *is_disturbed);
