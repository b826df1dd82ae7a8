/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/compat/roce_fixture.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weft/weft_dv.h>

#include "test.h"

enum {
	PATIENCE_S = 60,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_ATOMIC
};

struct ibv_context *roce_context(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	REQUIRE(list);
	for (int i = 0; i < count && !context; i++) {
		if (strcmp(ibv_get_device_name(list[i]), "roce_lo") == 0)
			context = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	REQUIRE(context);
	return context;
}

struct ibv_qp *roce_qp(const struct roce *r, const struct roce_end *e, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.srq = srq,
		.cap = { .max_send_wr = ROCE_DEPTH,
			 .max_recv_wr = ROCE_DEPTH,
			 .max_send_sge = 2,
			 .max_recv_sge = 2,
			 .max_inline_data = 64 },
		.qp_type = r->type,
	};
	bool is_rd = r->type == IBV_QPT_DRIVER;
	struct ibv_qp *qp = is_rd ? weftdv_qp_create_rd(r->pd, &attr, ROCE_RDD)
				  : ibv_create_qp(r->pd, &attr);

	REQUIRE(qp);
	return qp;
}

static void end_make(const struct roce *r, struct roce_end *e)
{
	e->memory = calloc(1, ROCE_BYTES);
	REQUIRE(e->memory);
	e->mr = ibv_reg_mr(r->pd, e->memory, ROCE_BYTES, ACCESS);
	e->cq = ibv_create_cq(r->context, 4 * ROCE_DEPTH, NULL, NULL, 0);
	REQUIRE(e->mr && e->cq);
	e->qp = roce_qp(r, e, NULL);
}

static void end_free(struct roce_end *e)
{
	if (e->qp)
		REQUIRE(ibv_destroy_qp(e->qp) == 0);
	REQUIRE(ibv_destroy_cq(e->cq) == 0);
	REQUIRE(ibv_dereg_mr(e->mr) == 0);
	free(e->memory);
}

void roce_make(struct roce *r, enum ibv_qp_type type)
{
	*r = (struct roce){ .type = type, .context = roce_context() };
	r->pd = ibv_alloc_pd(r->context);
	REQUIRE(r->pd);
	end_make(r, &r->near);
	end_make(r, &r->far);
}

void roce_free(struct roce *r)
{
	end_free(&r->near);
	end_free(&r->far);
	REQUIRE(ibv_dealloc_pd(r->pd) == 0);
	REQUIRE(ibv_close_device(r->context) == 0);
}

struct ibv_ah_attr roce_way(void)
{
	/* 127.0.0.1, which is the first. */
	return (struct ibv_ah_attr){
		.grh = { .dgid.raw = { [10] = 0xff, [11] = 0xff, 127, 0, 0, 1 },
			 .hop_limit = 3,
			 .traffic_class = 0x20,
			 .flow_label = 0x12345 },
		.is_global = 1,
		.port_num = 1,
	};
}

static int rd_mask(enum ibv_qp_state to)
{
	if (to == IBV_QPS_INIT)
		return IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY |
		       IBV_QP_ACCESS_FLAGS;
	return IBV_QP_STATE | (to == IBV_QPS_RTR ? IBV_QP_MIN_RNR_TIMER : 0);
}

int roce_attr(const struct roce *r, enum ibv_qp_state to, uint32_t peer, struct ibv_qp_attr *attr)
{
	bool is_rc = r->type == IBV_QPT_RC, is_ud = r->type == IBV_QPT_UD;

	*attr = (struct ibv_qp_attr){
		.qp_state = to,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.qkey = ROCE_QKEY,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = ROCE_PSN,
		.sq_psn = ROCE_PSN,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 3,
		.min_rnr_timer = 1, /* 10 us */
		.timeout = 8,	    /* a millisecond */
		.retry_cnt = 5,
		.rnr_retry = 6,
		.ah_attr = roce_way(),
	};
	if (r->type == IBV_QPT_DRIVER)
		return rd_mask(to);
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
		       (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (is_ud)
			return IBV_QP_STATE;
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		       IBV_QP_RQ_PSN |
		       (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN |
		       (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					IBV_QP_MAX_QP_RD_ATOMIC
			      : 0);
	default:
		return IBV_QP_STATE;
	}
}

void roce_to(const struct roce *r, struct ibv_qp *qp, enum ibv_qp_state to, uint32_t peer)
{
	for (int state = IBV_QPS_INIT; state <= (int)to; state++) {
		struct ibv_qp_attr attr;
		int mask = roce_attr(r, (enum ibv_qp_state)state, peer, &attr);

		REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
	}
}

void roce_connect(struct roce *r)
{
	roce_to(r, r->near.qp, IBV_QPS_RTS, r->far.qp->qp_num);
	roce_to(r, r->far.qp, IBV_QPS_RTS, r->near.qp->qp_num);
}

struct ibv_wc roce_wc(struct roce_end *e)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc = { 0 };
	int n = 0;

	while (n == 0 && time(NULL) < until)
		n = ibv_poll_cq(e->cq, 1, &wc);
	REQUIRE(n == 1);
	return wc;
}

bool roce_is_quiet(struct roce_end *e)
{
	struct ibv_wc wc;

	return ibv_poll_cq(e->cq, 1, &wc) == 0;
}

void roce_recv(struct roce_end *e, uint64_t id, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + offset, length, e->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	REQUIRE(ibv_post_recv(e->qp, &wr, &bad) == 0);
}

int roce_post(struct roce_end *e, struct ibv_send_wr *wr, uint64_t offset, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)e->memory + offset, length, e->mr->lkey };
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_SIGNALED;
	return ibv_post_send(e->qp, wr, &bad);
}

void roce_expect_event(struct ibv_context *context, enum ibv_event_type type)
{
	struct pollfd p = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	REQUIRE(poll(&p, 1, PATIENCE_S * 1000) == 1);
	REQUIRE(ibv_get_async_event(context, &event) == 0);
	EXPECT_STR(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
	ibv_ack_async_event(&event);
}

bool roce_has_no_event(struct ibv_context *context)
{
	struct pollfd p = { .fd = context->async_fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}
