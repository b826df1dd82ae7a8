/* SPDX-License-Identifier: BSD-2-Clause */
/* The conformance suite over RoCE on real sockets of the loopback interface: RC and UC. */
#include <string.h>
#include <time.h>

#include <weft/roce.h>

#include "conformance.h"

enum { SETTLED_ROUNDS = 40 };

/* Packets that nobody answers for so long wait for a receive, or for an end that has gone. */
static const uint64_t still_ns = 3 * 1000 * 1000;

static void roce_open(struct pair *p)
{
	const struct weft_adapter_options options = {
		.tags_max = p->options.tags_max,
		.translations_max = p->options.translations_max,
		.policy = p->options.policy,
	};

	for (int i = 0; i < 2; i++) {
		MUST(weft_adapter_open(&options, &p->ends[i].adapter));
		MUST(weft_roce_open(p->ends[i].adapter));
	}
}

static void roce_close(struct pair *p)
{
	for (int i = 0; i < 2; i++)
		MUST(weft_adapter_close(p->ends[i].adapter));
}

static void roce_progress(struct pair *p)
{
	uint32_t count;

	for (int i = 0; i < 2; i++)
		MUST(weft_cq_poll(p->ends[i].send_cq, NULL, 0, &count));
}

static uint64_t roce_now_ns(const struct pair *p)
{
	struct timespec ts;

	(void)p;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

/* Packets that both ends have sent and received. */
static uint64_t packets(const struct pair *p)
{
	uint64_t sum = 0;

	for (int i = 0; i < 2; i++) {
		struct weft_roce_counts c;

		MUST(weft_roce_query(p->ends[i].adapter, &c));
		sum += c.packets_in + c.packets_out;
	}
	return sum;
}

static void roce_settle(struct pair *p)
{
	uint64_t was = packets(p), since = roce_now_ns(p);

	for (int rounds = 0; rounds < SETTLED_ROUNDS || roce_now_ns(p) - since < still_ns; rounds++) {
		roce_progress(p);
		if (packets(p) != was) {
			was = packets(p);
			since = roce_now_ns(p);
			rounds = 0;
		}
	}
}

/*
 * Queue pairs keep their numbers, so what is said last on an old connection must not be heard on
 * the new one: its numbers begin elsewhere.
 */
static void roce_connect(struct pair *p)
{
	static uint32_t psn = 0xfffff0;
	const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_roce r = {
		.path = { .from = loopback, .to = loopback, .mtu_bytes = 1024 },
		.reads_in = 16,
		.reads_out = 16,
		.timeout_code = 14,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
		.rnr_timer_code = 6,
	};

	roce_settle(p);
	for (int i = 0; i < 2; i++) {
		r.peer_number = weft_qp_number(p->ends[1 - i].qp);
		r.psn_recv = r.psn_send = psn;
		MUST(weft_qp_receive(p->ends[i].qp, &r));
	}
	for (int i = 0; i < 2; i++) {
		r.psn_send = psn;
		MUST(weft_qp_start(p->ends[i].qp, &r));
	}
	psn = (psn + (WEFT_PSN_MAX + 1) / 2 + 1) & WEFT_PSN_MAX;
}

const struct pair_maker pair_maker = {
	.name = "roce",
	.abilities = PAIR_REFUSAL_COMPLETES | PAIR_READ_SCATTERS | PAIR_ATOMICS |
		     PAIR_KNOWS_SENDER | PAIR_ACKNOWLEDGES | PAIR_SEND_IMM | PAIR_CHECKS_WHOLE |
		     PAIR_PIPELINES,
	.services = 1U << WEFT_RC | 1U << WEFT_UC,
	.open = roce_open,
	.close = roce_close,
	.connect = roce_connect,
	.progress = roce_progress,
	.settle = roce_settle,
	.now_ns = roce_now_ns,
};
