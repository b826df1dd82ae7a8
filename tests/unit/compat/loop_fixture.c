/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/compat/loop_fixture.h"

#include "test.h"

static struct ibv_context *first_of(enum ibv_transport_type transport)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *context = NULL;

	REQUIRE(list);
	for (int i = 0; i < count && !context; i++) {
		if (list[i]->transport_type == transport)
			context = ibv_open_device(list[i]);
	}
	ibv_free_device_list(list);
	REQUIRE(context);
	return context;
}

struct ibv_context *loop_context(void)
{
	return first_of(IBV_TRANSPORT_IWARP);
}

struct ibv_context *loop_roce_context(void)
{
	return first_of(IBV_TRANSPORT_IB);
}

struct ibv_qp *loop_qp(struct loop *l)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.cap = { .max_send_wr = LOOP_SENDS,
			 .max_recv_wr = LOOP_SENDS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp *qp = ibv_create_qp(l->pd, &attr);

	REQUIRE(qp);
	REQUIRE(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	return qp;
}

int loop_name(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = peer };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN);
}

void loop_make(struct loop *l)
{
	l->context = loop_context();
	l->pd = ibv_alloc_pd(l->context);
	l->channel = ibv_create_comp_channel(l->context);
	REQUIRE(l->pd && l->channel);
	l->cq = ibv_create_cq(l->context, LOOP_CQ, NULL, l->channel, 0);
	REQUIRE(l->cq);
	l->near = loop_qp(l);
	l->far = loop_qp(l);
	REQUIRE(loop_name(l->near, l->far->qp_num) == 0);
	REQUIRE(loop_name(l->far, l->near->qp_num) == 0);
}

void loop_free(struct loop *l)
{
	REQUIRE(ibv_destroy_qp(l->near) == 0);
	REQUIRE(ibv_destroy_qp(l->far) == 0);
	REQUIRE(ibv_destroy_cq(l->cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(l->channel) == 0);
	REQUIRE(ibv_dealloc_pd(l->pd) == 0);
	REQUIRE(ibv_close_device(l->context) == 0);
}

int loop_write_nothing(struct loop *l)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	return ibv_post_send(l->near, &wr, &bad);
}
