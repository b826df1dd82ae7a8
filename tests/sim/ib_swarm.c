/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib_swarm.h"

#include <stdlib.h>

struct prng prng;

static uint8_t pattern(uint32_t n, uint32_t at)
{
	return (uint8_t)prng_mix((uint64_t)n << 32 | at);
}

void fill(uint8_t *to, uint32_t n, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		to[i] = pattern(n, i);
}

void holds(const uint8_t *at, uint32_t n, uint32_t first, uint32_t bytes)
{
	for (uint32_t i = first; i < bytes; i++) {
		if (at[i] != pattern(n, i))
			REQUIRE(at[i] == pattern(n, i));
	}
}

uint32_t memory_register(struct node *n, void *at, uint64_t bytes)
{
	const struct weft_region_options o = {
		.addr = (uintptr_t)at,
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};
	uint32_t tag;

	MUST(weft_region_register(n->pd, &o, &tag));
	return tag;
}

void node_open(struct node *n)
{
	const struct weft_adapter_options ao = { .tags_max = 64,
						 .translations_max = 64,
						 .qps_max = 64 };
	const struct weft_cq_options co = { .entries_max = 4096 };

	MUST(weft_adapter_open(&ao, &n->adapter));
	MUST(weft_pd_create(n->adapter, NULL, &n->pd));
	MUST(weft_cq_create(n->adapter, &co, &n->send_cq));
	MUST(weft_cq_create(n->adapter, &co, &n->recv_cq));
	n->word = calloc(1, sizeof(*n->word));
	n->word_tag = memory_register(n, n->word, sizeof(*n->word));
}

void node_close(struct node *n)
{
	MUST(weft_region_deregister(n->pd, n->word_tag));
	free(n->word);
	MUST(weft_cq_destroy(n->send_cq));
	MUST(weft_cq_destroy(n->recv_cq));
	MUST(weft_pd_destroy(n->pd));
}

struct weft_qp *qp_open(const struct node *n, enum weft_qp_service service, uint32_t send_max,
			uint32_t recv_max)
{
	const struct weft_qp_options o = {
		.service = service,
		.send_cq = n->send_cq,
		.recv_cq = n->recv_cq,
		.send_max = send_max,
		.recv_max = recv_max,
		.is_every_send_signalled = true,
	};
	struct weft_qp *qp;

	MUST(weft_qp_create(n->pd, &o, &qp));
	return qp;
}

void post_recv(struct weft_qp *qp, uint64_t id, struct weft_sge s)
{
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(qp, &wr, 1, NULL));
}

bool cq_next(struct weft_cq *cq, struct weft_completion *c)
{
	uint32_t count;

	MUST(weft_cq_poll(cq, c, 1, &count));
	return count > 0;
}

struct sim_faults draw_faults(void)
{
	const uint64_t us = 1000;
	struct sim_faults f = {
		.delay_max_ns = ANY_OF(&prng, 0, us, 50 * us, 300 * us),
		.rate_bytes_per_s = ANY_OF(&prng, 0, 100 * 1000 * 1000, 1250 * 1000 * 1000),
		.loss_ppm = (uint32_t)ANY_OF(&prng, 0, 1000, 10000, 100000),
		.duplicate_ppm = (uint32_t)ANY_OF(&prng, 0, 1000, 50000),
		.corrupt_ppm = (uint32_t)ANY_OF(&prng, 0, 1000, 50000),
		.reorder_ppm = (uint32_t)ANY_OF(&prng, 0, 1000, 100000),
		.reorder_max_ns = ANY_OF(&prng, 10 * us, 1000 * us),
		.clog_ppm = (uint32_t)ANY_OF(&prng, 0, 300, 2000),
		.clog_max_ns = ANY_OF(&prng, 10 * us, 5000 * us),
		.cut_ppm = (uint32_t)ANY_OF(&prng, 0, 0, 300),
		.cut_max_ns = ANY_OF(&prng, 100 * us, 20000 * us),
	};

	return f;
}
