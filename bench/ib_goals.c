/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_goals.h"

#include <stdint.h>
#include <stdio.h>

#include "sim/ib_line.h"

enum { SEEDS = 4, MESSAGE = 65536, MESSAGES = 2000 };

/* 10 Gb/s, 100 us there and back, in virtual time. The last seed's counters stay in *flow. */
static double goodput(uint32_t mtu_bytes, uint32_t loss_ppm, struct ib_flow *flow)
{
	struct ib_line_options o = {
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 50000,
		.loss_ppm = loss_ppm,
		.mtu_bytes = mtu_bytes,
		.timeout_code = 14,
		.retries = 7,
		.send_max = 128,
		.pages = 1024,
		.page_bytes = 4096,
	};
	const struct ib_flow_plan plan = { WEFT_OP_WRITE, MESSAGE, MESSAGES };
	double sum = 0;

	for (o.seed = 1; o.seed <= SEEDS; o.seed++) {
		if (ib_flow_run(&o, &plan, flow) != WEFT_OK || !flow->is_whole)
			return 0;
		sum += ib_flow_goodput(flow);
	}
	return sum / SEEDS;
}

static void show_row(bool is_json, uint32_t mtu_bytes, uint32_t loss_ppm, double clean)
{
	struct ib_flow flow = { 0 };
	double bps = goodput(mtu_bytes, loss_ppm, &flow), ratio = clean > 0 ? bps / clean : 0;
	double goal = loss_ppm > 1000 ? 0.6 : 0.9;

	if (is_json) {
		printf("{\"bench\": \"ib_goodput_%u_%uppm\", \"value\": %.0f, \"unit\": \"b/s\", "
		       "\"versus\": \"loss-free\", \"ratio\": %.4f}\n",
		       mtu_bytes, loss_ppm, bps, ratio);
		return;
	}
	printf("RC Write, MTU %4u, loss %.1f %%  %27.3f Gb/s %7.3f x", mtu_bytes, loss_ppm / 1e4,
	       bps / 1e9, ratio);
	/* What is on the line is lost with a packet: the goal is one of large packets. */
	if (loss_ppm > 0 && mtu_bytes == 4096)
		printf("   %4g x   %s", goal, ratio >= goal ? "met" : "MISSED");
	printf("\n");
	if (mtu_bytes == 4096)
		printf("  pinned %.0f bytes on average, %llu at most; until acknowledged it were "
		       "%.0f and %llu\n",
		       (double)flow.pins.byte_ns / (double)flow.ns,
		       (unsigned long long)flow.pins.bytes_max,
		       (double)flow.sender.kept_byte_ns / (double)flow.ns,
		       (unsigned long long)flow.sender.kept_bytes_max);
}

void ib_goals_show(bool is_json)
{
	for (uint32_t mtu_bytes = 1024; mtu_bytes <= 4096; mtu_bytes *= 2) {
		struct ib_flow flow;
		double clean = goodput(mtu_bytes, 0, &flow);

		show_row(is_json, mtu_bytes, 0, clean);
		show_row(is_json, mtu_bytes, 1000, clean);
		show_row(is_json, mtu_bytes, 10000, clean);
	}
}
