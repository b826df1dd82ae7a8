/* SPDX-License-Identifier: BSD-2-Clause */
/* What verbs refuse: as their man pages say it, and nothing more. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "test.h"
#include "unit/compat/loop_fixture.h"

/* NULL and errno. */
#define EXPECT_REFUSED(call, error)                                                                \
	do {                                                                                       \
		errno = 0;                                                                         \
		EXPECT(!(call));                                                                   \
		EXPECT_EQ(errno, error);                                                           \
	} while (0)
#define EXPECT_NONE(call) EXPECT_REFUSED(call, EOPNOTSUPP)

TEST(test_verbs_of_datagrams_and_multicast_refuse)
{
	struct ibv_ah_attr attr = { .port_num = 1 };
	union ibv_gid gid = { 0 };
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { 0 };
	struct loop l;

	loop_make(&l);
	EXPECT_NONE(ibv_create_ah(l.pd, &attr));
	EXPECT_NONE(ibv_create_ah_from_wc(l.pd, &wc, &grh, 1));
	errno = 0;
	EXPECT_EQ(ibv_init_ah_from_wc(l.context, 1, &wc, &grh, &attr), -1);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(ibv_attach_mcast(l.near, &gid, 0), EOPNOTSUPP);
	EXPECT_EQ(ibv_detach_mcast(l.near, &gid, 0), EOPNOTSUPP);
	loop_free(&l);
}

TEST(test_ibv_create_qp_of_other_services_refuses)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RAW_PACKET,
						  IBV_QPT_XRC_SEND };
	struct loop l;

	loop_make(&l);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = l.cq,
			.recv_cq = l.cq,
			.cap = { .max_send_wr = 1, .max_send_sge = 1 },
			.qp_type = types[i],
		};

		EXPECT_NONE(ibv_create_qp(l.pd, &attr));
	}
	loop_free(&l);
}

TEST(test_verbs_of_other_adapters_refuse)
{
	struct ibv_xrcd_init_attr xrcd = { 0 };
	struct ibv_wq_init_attr wq = { 0 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_flow_attr flow = { 0 };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct loop l;

	loop_make(&l);
	EXPECT_NONE(ibv_open_xrcd(l.context, &xrcd));
	EXPECT_NONE(ibv_create_wq(l.context, &wq));
	EXPECT_NONE(ibv_create_rwq_ind_table(l.context, &table));
	EXPECT_NONE(ibv_create_counters(l.context, &counters));
	EXPECT_NONE(ibv_create_flow(l.near, &flow));
	EXPECT_NONE(ibv_reg_dmabuf_mr(l.pd, 0, 1, 0, 0, 0));
	EXPECT_EQ(ibv_modify_cq(l.cq, &moderation), EOPNOTSUPP);
	EXPECT_EQ(ibv_modify_qp_rate_limit(l.near, &(struct ibv_qp_rate_limit_attr){ 0 }),
		  EOPNOTSUPP);
	loop_free(&l);
}

/* man ibv_create_qp: max_recv_wr and max_recv_sge are ignored then. */
TEST(test_ibv_create_qp_with_a_shared_receive_queue_ignores_sizes_of_its_own)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_wr = UINT32_MAX,
			 .max_recv_sge = UINT32_MAX },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp;
	struct loop l;

	loop_make(&l);
	attr.send_cq = attr.recv_cq = l.cq;
	attr.srq = ibv_create_srq(l.pd, &srq_attr);
	REQUIRE(attr.srq);
	qp = ibv_create_qp(l.pd, &attr);
	REQUIRE(qp);
	EXPECT_EQ(attr.cap.max_recv_wr, 0);
	EXPECT_EQ(attr.cap.max_recv_sge, 0);
	EXPECT_EQ(attr.cap.max_send_sge, 1);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_srq(attr.srq), 0);
	loop_free(&l);
}

TEST(test_ibv_create_cq_refuses_sizes_and_vectors_that_cannot_be)
{
	struct ibv_cq_init_attr_ex ex = { .cqe = 1 };
	struct loop l;
	int vectors;

	loop_make(&l);
	vectors = l.context->num_comp_vectors;
	EXPECT_REFUSED(ibv_create_cq(l.context, 0, NULL, NULL, 0), EINVAL);
	EXPECT_REFUSED(ibv_create_cq(l.context, -1, NULL, NULL, 0), EINVAL);
	EXPECT_REFUSED(ibv_create_cq(l.context, 1, NULL, NULL, vectors), EINVAL);
	EXPECT_REFUSED(ibv_create_cq(l.context, 1, NULL, NULL, -1), EINVAL);
	ex.comp_vector = (uint32_t)vectors;
	EXPECT_REFUSED(ibv_create_cq_ex(l.context, &ex), EINVAL);
	ex = (struct ibv_cq_init_attr_ex){ .cqe = 1, .comp_mask = 1U << 20 };
	EXPECT_REFUSED(ibv_create_cq_ex(l.context, &ex), EINVAL);
	ex = (struct ibv_cq_init_attr_ex){ .cqe = UINT32_MAX };
	EXPECT_REFUSED(ibv_create_cq_ex(l.context, &ex), EINVAL);
	ex = (struct ibv_cq_init_attr_ex){ .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	EXPECT_REFUSED(ibv_create_cq_ex(l.context, &ex), EINVAL);
	loop_free(&l);
}

TEST(test_ibv_create_srq_refuses_no_receives_and_no_domain)
{
	struct ibv_srq_init_attr none = { .attr = { .max_sge = 1 } };
	struct ibv_srq_init_attr_ex ex = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct loop l;

	loop_make(&l);
	EXPECT_REFUSED(ibv_create_srq(l.pd, &none), EINVAL);
	ex.pd = l.pd;
	EXPECT_REFUSED(ibv_create_srq_ex(l.context, &ex), EINVAL);
	loop_free(&l);
}

TEST(test_ibv_alloc_parent_domain_refuses_a_domain_of_none_or_of_another_context)
{
	struct ibv_parent_domain_init_attr attr = { 0 };
	struct loop l, other;

	loop_make(&l);
	loop_make(&other);
	EXPECT_REFUSED(ibv_alloc_parent_domain(l.context, &attr), EINVAL);
	attr.pd = other.pd;
	EXPECT_REFUSED(ibv_alloc_parent_domain(l.context, &attr), EINVAL);
	attr = (struct ibv_parent_domain_init_attr){ .pd = l.pd, .comp_mask = 1U << 20 };
	EXPECT_REFUSED(ibv_alloc_parent_domain(l.context, &attr), EINVAL);
	loop_free(&other);
	loop_free(&l);
}
