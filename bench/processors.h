/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of the machine others use while we measure. */
#pragma once

struct processors_mark {
	double wall_s;
	double busy_s; /* all processors together, used by any process */
	double ours_s; /* this process, and its children that have ended */
};

struct processors_mark processors_mark(void);

/*
 * The processors that others left to us since the mark, used or not; all there are where the system
 * does not tell.
 */
double processors_left(const struct processors_mark *since);
