/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/roce/rd_fixture.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

static const struct weft_address loopback = { .family = 4, .ip = { 127, 0, 0, 1 } };

uint64_t rd_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

void rd_node_open(struct rd_node *n, int self)
{
	struct weft_region_options region = {
		.length = RD_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};

	*n = (struct rd_node){ .self = self };
	MUST(weft_adapter_open(NULL, &n->adapter));
	MUST(weft_roce_open(n->adapter));
	MUST(weft_pd_create(n->adapter, NULL, &n->pd));
	MUST(weft_cq_create(n->adapter, &(struct weft_cq_options){ .entries_max = 8192 }, &n->cq));
	n->memory = calloc(1, RD_BYTES);
	REQUIRE(n->memory);
	region.addr = (uintptr_t)n->memory;
	MUST(weft_region_register(n->pd, &region, &n->tag));
	n->card.tag = n->tag;
	n->card.addr = region.addr;
}

void rd_node_close(struct rd_node *n)
{
	for (uint32_t i = 0; i < n->qp_count; i++)
		MUST(weft_qp_destroy(n->qps[i]));
	for (int i = 0; i < NODES; i++) {
		if (n->ees[i])
			MUST(weft_ee_destroy(n->ees[i]));
	}
	MUST(weft_region_deregister(n->pd, n->tag));
	MUST(weft_cq_destroy(n->cq));
	MUST(weft_pd_destroy(n->pd));
	MUST(weft_adapter_close(n->adapter));
	free(n->memory);
}

struct weft_qp *rd_qp_new(struct rd_node *n, enum weft_qp_service service)
{
	const struct weft_qp_options options = {
		.service = service,
		.send_cq = n->cq,
		.recv_cq = n->cq,
	};
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct weft_qp *qp;

	REQUIRE(n->qp_count < QPS_MAX);
	MUST(weft_qp_create(n->pd, &options, &qp));
	MUST(weft_qp_modify(qp, &patient, WEFT_QP_RECEIVER_WAIT));
	n->card.qps[n->qp_count] = weft_qp_number(qp);
	n->qps[n->qp_count++] = qp;
	return qp;
}

struct weft_qp *rd_qp_open(struct rd_node *n, uint32_t q_key, uint32_t rdd)
{
	const struct weft_roce_attr how = {
		.q_key = q_key, .rdd = rdd, .reads_out = 4, .rnr_timer_code = 10, /* 0.32 ms */
	};
	struct weft_qp *qp = rd_qp_new(n, WEFT_RD);

	MUST(weft_qp_to_rtr(qp, &how));
	MUST(weft_qp_to_rts(qp, &how));
	return qp;
}

struct weft_ee_options rd_ee_options(uint8_t timeout_code)
{
	return (struct weft_ee_options){
		.path = { .from = loopback, .to = loopback, .mtu_bytes = 1024 },
		.rdd = RD_DOMAIN,
		.timeout_code = timeout_code,
		.retries = 7,
		.rnr_retries = WEFT_RNR_RETRY_FOREVER,
	};
}

/* Of the packets that node `from` sends. */
static uint32_t psn_of(int from)
{
	return 0xfffff0 + (uint32_t)from;
}

void rd_ee_open(struct rd_node *n, int to, uint8_t timeout_code)
{
	struct weft_ee_options options = rd_ee_options(timeout_code);

	options.psn_send = psn_of(n->self);
	options.context = &n->ees[to];
	MUST(weft_ee_create(n->adapter, &options, &n->ees[to]));
	n->card.ees[to] = weft_ee_number(n->ees[to]);
}

void rd_ee_join(struct rd_node *n, int to, const struct card *card)
{
	MUST(weft_ee_connect(n->ees[to], card->ees[n->self], psn_of(to)));
}

enum weft_reason rd_post(struct rd_node *n, uint32_t from, int to, const struct card *card,
			 const struct rd_word *word)
{
	const struct weft_sge s = { (uintptr_t)n->memory + word->at, word->length, n->tag };
	struct weft_send_wr wr = {
		.id = word->id,
		.opcode = word->opcode,
		.flags = WEFT_SIGNALLED,
		.sges = &s,
		.sge_count = 1,
		.remote_tag = card->tag,
		.remote_addr = card->addr + word->there,
		.ee = n->ees[to],
		.dest_qp_number = word->dest,
		.remote_q_key = word->q_key ? word->q_key : RD_KEY,
		.compare_add = word->compare_add,
		.swap = word->swap,
	};

	return weft_qp_post_send(n->qps[from], &wr, 1, NULL);
}

void rd_receive(struct rd_node *n, struct weft_qp *qp, uint64_t id, uint32_t at, uint32_t length)
{
	const struct weft_sge s = { (uintptr_t)n->memory + at, length, n->tag };
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(qp, &wr, 1, NULL));
}

struct weft_completion rd_take(struct rd_node *n)
{
	uint64_t since = rd_now_ns();
	struct weft_completion c;
	uint32_t count = 0;

	while (count == 0) {
		MUST(weft_cq_poll(n->cq, &c, 1, &count));
		REQUIRE(count > 0 || rd_now_ns() - since < PATIENCE_NS);
		if (count == 0)
			sched_yield();
	}
	return c;
}

void rd_look(struct rd_node *n)
{
	uint32_t count;

	MUST(weft_cq_poll(n->cq, NULL, 0, &count));
}
