/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric_goals.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "fabric/topology_make.h"
#include "sim/fabric/fabric_load.h"

enum { MESSAGES = 320000, ROUNDS = 3, INCAST_MESSAGES = 400, INCAST_PROBES = 100 };

static const double flits_goal = 5e6, growth_goal = 1.3, latency_goal = 2;

/* Fat trees of three levels, and what they are in all. */
static const struct {
	struct topology_plan plan;
	const char *name;
} sizes[] = {
	{ { TOPOLOGY_FAT_TREE, { 64, 8 } }, "100" },
	{ { TOPOLOGY_FAT_TREE, { 720, 18 } }, "1000" },
	{ { TOPOLOGY_FAT_TREE, { 8192, 36 } }, "10000" },
};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

struct cost {
	uint32_t nodes;
	uint64_t flits, hops; /* that crossed links, and frames that did */
	double seconds;	      /* of a processor */
};

static double cpu_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Large pages, if the system has some. */
static void memory_told(void *at, size_t bytes)
{
	(void)madvise(at, bytes, MADV_HUGEPAGE);
}

/* False: memory is short, or not all came. */
static bool load_run(const struct topology_plan *plan, const struct fabric_load_cfg *cfg,
		     struct fabric_load_report *report, struct cost *cost)
{
	struct fabric_load *l;
	struct topology t;
	enum weft_reason reason;
	double begin;

	if (topology_make(&t, plan) != WEFT_OK)
		return false;
	cost->nodes = t.node_count;
	reason = fabric_load_open(&l, &t, cfg);
	topology_fini(&t);
	if (reason != WEFT_OK)
		return false;
	begin = cpu_s();
	while (fabric_load_step(l))
		continue;
	cost->seconds = cpu_s() - begin;
	*report = *fabric_load_report(l);
	report->lines = NULL;
	cost->flits = report->flits;
	cost->hops = report->frames;
	fabric_load_close(l);
	return report->came == report->expected;
}

/* ---- Flits ---------------------------------------------------------------------------------- */

/* The quickest of some runs, as others use the machine. */
static bool cost_of(uint32_t size, uint32_t bytes, struct cost *best)
{
	struct fabric_load_cfg cfg = { .kind = FABRIC_LOAD_ALL_TO_ALL,
				       .routing = FABRIC_UP_DOWN,
				       .seed = 1,
				       .bytes = bytes,
				       .load_percent = 60,
				       .lanes = 4,
				       .mbps = 100000,
				       .memory_told = memory_told };
	uint32_t rounds = size + 1 < SIZES ? ROUNDS : 1;

	cfg.messages = MESSAGES / sizes[size].plan.size[0];
	for (uint32_t round = 0; round < rounds; round++) {
		struct fabric_load_report report;
		struct cost cost;

		if (!load_run(&sizes[size].plan, &cfg, &report, &cost))
			return false;
		if (round == 0 || cost.seconds < best->seconds)
			*best = cost;
	}
	return true;
}

static void show_cost(bool is_json, uint32_t size, uint32_t bytes, double *ns_of_100)
{
	struct cost c;
	double rate, ns;

	if (!cost_of(size, bytes, &c)) {
		fprintf(stderr, "bench: a fabric of %s nodes did not carry all\n",
			sizes[size].name);
		return;
	}
	rate = (double)c.flits / c.seconds;
	ns = c.seconds * 1e9 / (double)c.hops;
	*ns_of_100 = size == 0 ? ns : *ns_of_100;
	if (is_json) {
		printf("{\"bench\": \"fabric_flits_%s_%u\", \"value\": %.0f, \"unit\": "
		       "\"flits/s\", \"versus\": \"100 nodes\", \"ratio\": %.3f}\n",
		       sizes[size].name, bytes, rate, ns / *ns_of_100);
		return;
	}
	printf("fabric of %5u nodes, frames of %4u bytes %9.2f million flits/s   goal %g   %s\n",
	       c.nodes, bytes, rate / 1e6, flits_goal / 1e6, rate >= flits_goal ? "met" : "MISSED");
	printf("  a frame costs %.0f ns on each link, %.2f x that of 100 nodes%s\n", ns,
	       ns / *ns_of_100,
	       size == 0			? ""
	       : ns / *ns_of_100 <= growth_goal ? "   goal 1.3 x   met"
						: "   goal 1.3 x   MISSED");
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

static void show_incast(bool is_json, uint32_t run_flits)
{
	static const struct topology_plan plan = { TOPOLOGY_FAT_TREE, { 64, 16 } };
	struct fabric_load_cfg cfg = { .kind = FABRIC_LOAD_INCAST,
				       .routing = FABRIC_UP_DOWN,
				       .seed = 1,
				       .messages = INCAST_MESSAGES,
				       .probes = INCAST_PROBES,
				       .bytes = 4096,
				       .load_percent = 1,
				       .lanes = 4,
				       .run_flits = run_flits,
				       .mbps = 100000 };
	struct fabric_load_report idle, busy;
	struct cost cost;
	double idle_ns, busy_ns;
	bool is_whole = load_run(&plan, &cfg, &idle, &cost);

	cfg.load_percent = 300;
	is_whole = load_run(&plan, &cfg, &busy, &cost) && is_whole;
	if (!is_whole || idle.probes.count == 0 || busy.probes.count == 0) {
		fprintf(stderr, "bench: an incast lost messages\n");
		return;
	}
	idle_ns = (double)idle.probes.sum_ns / (double)idle.probes.count;
	busy_ns = (double)busy.probes.sum_ns / (double)busy.probes.count;
	if (is_json) {
		printf("{\"bench\": \"fabric_incast_%s\", \"value\": %.0f, \"unit\": \"ns\", "
		       "\"versus\": \"idle\", \"ratio\": %.3f}\n",
		       run_flits > 0 ? "runs" : "frames", busy_ns, busy_ns / idle_ns);
		return;
	}
	printf("incast of 63 to 1, %s %8.0f ns, idle %.0f ns %6.2f x   goal %g x   %s\n",
	       run_flits > 0 ? "runs of 8 flits:" : "whole frames:   ", busy_ns, idle_ns,
	       busy_ns / idle_ns, latency_goal,
	       busy_ns <= latency_goal * idle_ns ? "met" : "MISSED");
	printf("  of the bulk lane %llu of %llu frames were dropped; 99 of 100 probes took %llu ns at "
	       "most\n",
	       (unsigned long long)(busy.discards + busy.relay_errors + busy.others),
	       (unsigned long long)busy.times.count,
	       (unsigned long long)fabric_load_quantile(&busy.probes, 990));
}

void fabric_goals_show(bool is_json)
{
	static const uint32_t bytes[] = { 4096, FABRIC_LOAD_PROBE_BYTES };

	for (uint32_t i = 0; i < 2; i++) {
		double ns_of_100 = 0;

		for (uint32_t size = 0; size < SIZES; size++)
			show_cost(is_json, size, bytes[i], &ns_of_100);
	}
	show_incast(is_json, 0);
	show_incast(is_json, 8);
}
