/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_goals.h"

#include <stdint.h>
#include <stdio.h>

#include "sim/roce/ib_line.h"

enum { SEEDS = 4, MESSAGE = 65536, MESSAGES = 2000, FLOW_BYTES = 48 << 20, FLOW_MESSAGES = 4000 };

/* What moves: messages of a kind and size, so many at a time, in packets of so many bytes. */
struct load {
	struct ib_flow_plan plan;
	uint32_t depth, mtu_bytes;
	bool is_dropping_early; /* the peer, see struct ib_port_config */
};

/* 10 Gb/s, 100 us there and back, in virtual time. The last seed's counters stay in *flow. */
static double goodput(const struct load *l, uint32_t loss_ppm, struct ib_flow *flow)
{
	struct ib_line_options o = {
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 50000,
		.loss_ppm = loss_ppm,
		.mtu_bytes = l->mtu_bytes,
		.timeout_code = 14,
		.retries = 7,
		.send_max = l->depth,
		.reads = l->depth,
		.pages = 1024,
		.page_bytes = 4096,
		.is_dropping_early = l->is_dropping_early,
	};
	uint64_t seeds = loss_ppm > 0 ? SEEDS : 1;
	double sum = 0;

	for (o.seed = 1; o.seed <= seeds; o.seed++) {
		if (ib_flow_run(&o, &l->plan, flow) != WEFT_OK || !flow->is_whole)
			return 0;
		sum += ib_flow_goodput(flow);
	}
	return sum / (double)seeds;
}

static double goal_of(const struct load *l, uint32_t loss_ppm)
{
	if (l->plan.opcode != WEFT_OP_READ && !l->is_dropping_early)
		return loss_ppm <= 1000 ? 0.95 : l->depth > 1 ? 0.8 : 0.75;
	if (l->mtu_bytes == 4096)
		return loss_ppm > 1000 ? 0.6 : 0.9;
	return loss_ppm > 1000 ? 0.45 : 0.8;
}

static void show_row(bool is_json, const struct load *l, uint32_t loss_ppm, double clean)
{
	struct ib_flow flow = { 0 };
	double bps = goodput(l, loss_ppm, &flow), ratio = clean > 0 ? bps / clean : 0;
	double goal = goal_of(l, loss_ppm);

	if (is_json) {
		printf("{\"bench\": \"ib_goodput_%u_%uppm%s\", \"value\": %.0f, \"unit\": "
		       "\"b/s\", \"versus\": \"loss-free\", \"ratio\": %.4f}\n",
		       l->mtu_bytes, loss_ppm, l->is_dropping_early ? "_dropping" : "", bps, ratio);
		return;
	}
	printf("RC Write, MTU %4u, loss %.1f %%%s %*.3f Gb/s %7.3f x", l->mtu_bytes, loss_ppm / 1e4,
	       l->is_dropping_early ? ", to a peer that goes back" : "",
	       l->is_dropping_early ? 2 : 28, bps / 1e9, ratio);
	if (loss_ppm > 0 && (l->mtu_bytes != 2048 || !l->is_dropping_early))
		printf("   %4g x   %s", goal, ratio >= goal ? "met" : "MISSED");
	printf("\n");
	if (l->mtu_bytes == 4096 && !l->is_dropping_early)
		printf("  pinned %.0f bytes on average, %llu at most; until acknowledged it were "
		       "%.0f and %llu\n",
		       (double)flow.pins.byte_ns / (double)flow.ns,
		       (unsigned long long)flow.pins.bytes_max,
		       (double)flow.sender.kept_byte_ns / (double)flow.ns,
		       (unsigned long long)flow.sender.kept_bytes_max);
}

/* ---- Any message, one at a time and many ---------------------------------------------------- */

static const struct {
	enum weft_opcode opcode;
	const char *name, *text;
	uint32_t depth_count; /* of depths[] */
} kinds[] = {
	{ WEFT_OP_WRITE, "write", "Write", 2 },
	{ WEFT_OP_SEND, "send", "Send", 2 },
	{ WEFT_OP_READ, "read", "Read", 3 },
};

static const uint32_t depths[] = { 1, 16, 128 };

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void show_load(bool is_json, uint32_t kind, const struct load *l)
{
	struct ib_flow flow;
	uint32_t kib = l->plan.message_bytes / 1024;
	double clean = goodput(l, 0, &flow);
	double some = goodput(l, 1000, &flow) / clean, many = goodput(l, 10000, &flow) / clean;

	if (is_json) {
		printf("{\"bench\": \"ib_loss_%s_%uk_%u_%u\", \"value\": %.0f, \"unit\": \"b/s\", "
		       "\"versus\": \"loss-free\", \"ratio\": %.4f, \"ratio_0.1%%\": %.4f}\n",
		       kinds[kind].name, kib, l->depth, l->mtu_bytes, many * clean, many, some);
		return;
	}
	printf("RC %-5s %4u KiB, depth %3u, MTU %4u %10.3f Gb/s  %.3f x at 0.1 %%  %.3f x at 1 %%  "
	       ">= %g, %g  %s\n",
	       kinds[kind].text, kib, l->depth, l->mtu_bytes, clean / 1e9, some, many,
	       goal_of(l, 1000), goal_of(l, 10000),
	       some >= goal_of(l, 1000) && many >= goal_of(l, 10000) ? "met" : "MISSED");
}

static void show_loads(bool is_json, uint32_t kind)
{
	for (uint32_t i = 0; i < 2 * kinds[kind].depth_count; i++) {
		struct load l = {
			.plan.opcode = kinds[kind].opcode,
			.depth = depths[i / 2],
			.mtu_bytes = i & 1 ? 1024 : 4096,
		};

		for (uint32_t bytes = 4096; bytes <= 1 << 20; bytes *= 16) {
			uint32_t messages = FLOW_BYTES / bytes;

			l.plan.message_bytes = bytes;
			l.plan.messages = messages < FLOW_MESSAGES ? messages : FLOW_MESSAGES;
			show_load(is_json, kind, &l);
		}
	}
}

void ib_goals_show(bool is_json)
{
	for (uint32_t i = 0; i < 6; i++) {
		const struct load l = {
			.plan = { WEFT_OP_WRITE, MESSAGE, MESSAGES },
			.depth = 128,
			.mtu_bytes = 1024 << i % 3,
			.is_dropping_early = i >= 3,
		};
		struct ib_flow flow;
		double clean = goodput(&l, 0, &flow);

		show_row(is_json, &l, 0, clean);
		show_row(is_json, &l, 1000, clean);
		show_row(is_json, &l, 10000, clean);
	}
	for (uint32_t kind = 0; kind < KINDS; kind++)
		show_loads(is_json, kind);
}
