/* SPDX-License-Identifier: BSD-2-Clause */
#include "processors.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"

static double used_s(int who)
{
	struct rusage u;

	getrusage(who, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* The first line of /proc/stat: cpu user nice system idle iowait irq softirq steal, in ticks. */
static double busy_s(void)
{
	unsigned long long t[8] = { 0 };
	FILE *stat = fopen("/proc/stat", "re");
	int read = 0;

	if (stat == NULL)
		return 0;
	read = fscanf(stat, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
		      &t[3], &t[4], &t[5], &t[6], &t[7]);
	fclose(stat);
	if (read != 8)
		return 0;
	return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

struct processors_mark processors_mark(void)
{
	return (struct processors_mark){
		.wall_s = (double)child_clock_ns() / 1e9,
		.busy_s = busy_s(),
		.ours_s = used_s(RUSAGE_SELF) + used_s(RUSAGE_CHILDREN),
	};
}

double processors_left(const struct processors_mark *since)
{
	struct processors_mark now = processors_mark();
	double all = (double)sysconf(_SC_NPROCESSORS_ONLN);
	double wall = now.wall_s - since->wall_s;
	double others = (now.busy_s - since->busy_s) - (now.ours_s - since->ours_s);

	if (wall <= 0 || others <= 0)
		return all;
	return all - others / wall;
}
