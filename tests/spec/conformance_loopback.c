/* SPDX-License-Identifier: BSD-2-Clause */
/* The conformance suite over loopback: both ends are queue pairs of one adapter (QP-15). */
#include <time.h>

#include "conformance.h"

static void loopback_open(struct pair *p)
{
	const struct weft_adapter_options options = {
		.tags_max = p->options.tags_max,
		.translations_max = p->options.translations_max,
		.policy = p->options.policy,
	};

	MUST(weft_adapter_open(&options, &p->ends[0].adapter));
	p->ends[1].adapter = p->ends[0].adapter;
}

static void loopback_close(struct pair *p)
{
	MUST(weft_adapter_close(p->ends[0].adapter));
}

static void loopback_connect(struct pair *p)
{
	static const enum weft_qp_state way[] = { WEFT_QPS_INIT, WEFT_QPS_RTR, WEFT_QPS_RTS };

	if (p->options.service == WEFT_RC || p->options.service == WEFT_UC) {
		MUST(weft_qp_connect(p->ends[0].qp, p->ends[1].qp));
		return;
	}
	for (int i = 0; i < 2; i++) {
		for (unsigned int step = 0; step < sizeof(way) / sizeof(*way); step++)
			end_modify(&p->ends[i], way[step]);
	}
}

/* Every call that gives work does it; polling, also for nothing, does what has become due. */
static void loopback_progress(struct pair *p)
{
	uint32_t count;

	MUST(weft_cq_poll(p->ends[0].send_cq, NULL, 0, &count));
}

static uint64_t loopback_now_ns(const struct pair *p)
{
	struct timespec ts;

	(void)p;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

const struct pair_maker pair_maker = {
	.name = "loopback",
	.abilities = PAIR_REFUSAL_COMPLETES | PAIR_READ_SCATTERS | PAIR_ATOMICS |
		     PAIR_KNOWS_SENDER | PAIR_ONE_ADAPTER | PAIR_NO_CALLS | PAIR_ACKNOWLEDGES |
		     PAIR_SEND_IMM | PAIR_CHECKS_WHOLE | PAIR_NAMES_REASON,
	.services = 1U << WEFT_RC | 1U << WEFT_UC | 1U << WEFT_RD | 1U << WEFT_UD,
	.open = loopback_open,
	.close = loopback_close,
	.connect = loopback_connect,
	.progress = loopback_progress,
	.now_ns = loopback_now_ns,
};
