/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/compat/qp_fixture.h"

#include <stdlib.h>
#include <time.h>

#include "test.h"

enum {
	PATIENCE_S = 60,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
	OPS = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
	      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW
};

static void end_open(struct qp_end *e, struct rdma_cm_id *id,
		     struct ibv_pd *(*alloc_pd)(struct ibv_context *context))
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = { .max_send_wr = QP_SENDS,
			 .max_recv_wr = QP_SENDS,
			 .max_send_sge = QP_SEGMENTS,
			 .max_recv_sge = QP_SEGMENTS },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = OPS,
	};

	e->id = id;
	e->pd = alloc_pd ? alloc_pd(id->verbs) : ibv_alloc_pd(id->verbs);
	REQUIRE(e->pd);
	e->memory = calloc(1, QP_BYTES);
	REQUIRE(e->memory);
	e->mr = ibv_reg_mr(e->pd, e->memory, QP_BYTES, ACCESS);
	REQUIRE(e->mr);
	attr.pd = e->pd;
	REQUIRE(rdma_create_qp_ex(id, &attr) == 0);
	e->qp = id->qp;
}

static void end_close(struct qp_end *e)
{
	rdma_destroy_qp(e->id);
	REQUIRE(rdma_destroy_id(e->id) == 0);
	REQUIRE(ibv_dereg_mr(e->mr) == 0);
	REQUIRE(ibv_dealloc_pd(e->pd) == 0);
	free(e->memory);
}

void qp_pair_make(struct qp_pair *p, struct ibv_pd *(*alloc_pd)(struct ibv_context *context))
{
	struct rdma_cm_event *event;

	/* Where both kinds of device are, librdmacm takes RoCE. */
	REQUIRE(setenv("WEFT_DEVICES", "iw_*", 1) == 0);
	p->cm.near_channel = cm_channel();
	p->cm.far_channel = cm_channel();
	p->cm.listener = cm_listener(p->cm.far_channel);
	p->cm.near = cm_resolved(p->cm.near_channel, p->cm.listener);
	end_open(&p->near, p->cm.near, alloc_pd);
	REQUIRE(rdma_connect(p->cm.near, NULL) == 0);
	event = cm_event(p->cm.far_channel);
	REQUIRE(event && event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	p->cm.far = event->id;
	end_open(&p->far, p->cm.far, alloc_pd);
	REQUIRE(rdma_accept(p->cm.far, NULL) == 0);
	REQUIRE(rdma_ack_cm_event(event) == 0);
	cm_expect(p->cm.near_channel, RDMA_CM_EVENT_ESTABLISHED);
	cm_expect(p->cm.far_channel, RDMA_CM_EVENT_ESTABLISHED);
	REQUIRE(unsetenv("WEFT_DEVICES") == 0);
}

void qp_pair_free(struct qp_pair *p)
{
	end_close(&p->near);
	end_close(&p->far);
	REQUIRE(rdma_destroy_id(p->cm.listener) == 0);
	rdma_destroy_event_channel(p->cm.near_channel);
	rdma_destroy_event_channel(p->cm.far_channel);
}

struct ibv_wc qp_wc(struct ibv_cq *cq)
{
	time_t until = time(NULL) + PATIENCE_S;
	struct ibv_wc wc = { 0 };
	int n = 0;

	while (n == 0 && time(NULL) < until)
		n = ibv_poll_cq(cq, 1, &wc);
	REQUIRE(n == 1);
	return wc;
}

void qp_sent(struct qp_end *e, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = qp_wc(e->qp->send_cq);

	EXPECT_EQ(wc.wr_id, id);
	EXPECT_STR(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

void qp_quiet(struct qp_end *e)
{
	struct ibv_wc wc;

	EXPECT_EQ(ibv_poll_cq(e->qp->send_cq, 1, &wc), 0);
	EXPECT_EQ(ibv_poll_cq(e->qp->recv_cq, 1, &wc), 0);
}

struct ibv_sge qp_sge(const struct qp_end *e, uint64_t offset, uint32_t length)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)e->memory + offset,
		.length = length,
		.lkey = e->mr->lkey,
	};
}

struct qp_remote qp_remote(const struct qp_end *e, uint64_t offset)
{
	return (struct qp_remote){ (uintptr_t)e->memory + offset, e->mr->rkey };
}

void qp_post(struct qp_end *e, enum ibv_wr_opcode opcode, uint64_t id, struct ibv_sge sge,
	     struct qp_remote to)
{
	struct ibv_send_wr *bad, wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = to.addr, .rkey = to.rkey },
	};

	REQUIRE(ibv_post_send(e->qp, &wr, &bad) == 0);
}
