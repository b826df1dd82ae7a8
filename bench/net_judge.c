/* SPDX-License-Identifier: BSD-2-Clause */
#include "net_judge.h"

#include <stdlib.h>

/* Two processes that never sleep want two; with less than this, others were in the way. */
static const double processors_min = 1.8;

static int by_calm(const void *a, const void *b)
{
	const struct net_sample *x = a, *y = b;

	return (x->processors < y->processors) - (x->processors > y->processors);
}

static int by_value(const void *a, const void *b)
{
	const struct net_sample *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

double net_samples_judge(struct net_sample *samples, int count, bool *is_disturbed)
{
	int used = count < NET_ROUNDS_USED ? count : NET_ROUNDS_USED;

	*is_disturbed = false;
	if (count == 0)
		return 0;
	qsort(samples, (size_t)count, sizeof(*samples), by_calm);
	*is_disturbed = samples[used - 1].processors < processors_min;
	qsort(samples, (size_t)used, sizeof(*samples), by_value);
	return used % 2 == 1 ? samples[used / 2].value
			     : (samples[used / 2 - 1].value + samples[used / 2].value) / 2;
}
