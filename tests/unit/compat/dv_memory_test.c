/* SPDX-License-Identifier: BSD-2-Clause */
/* <weft/weft_dv.h>: regions of the same memory, reserved keys, what a failure stops. */
#include <errno.h>
#include <string.h>

#include <weft/weft.h>
#include <weft/weft_dv.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"
#include "unit/compat/roce_fixture.h"

enum { PAGE = 4096, SHARED_AT = 0x70000 };

static void recv_into(struct ibv_qp *qp, uint64_t id, struct ibv_sge into)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &into, .num_sge = 1 };

	REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
}

/* ---- Shares --------------------------------------------------------------------------------- */

static void far_access(struct qp_pair *p, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t key,
		       enum ibv_wc_status status)
{
	qp_post(&p->far, opcode, 9, qp_sge(&p->far, 0, PAGE), (struct qp_remote){ addr, key });
	qp_sent(&p->far, 9, status);
}

static uint32_t reason_of(struct ibv_qp *qp)
{
	uint32_t code = UINT32_MAX;

	REQUIRE(weftdv_qp_reason_code(qp, &code) == 0);
	return code;
}

/* The share has rights and addresses of its own, and stays when the first region goes. */
TEST(test_mem_09_mem_s4_weftdv_mr_share_outlives_its_region)
{
	const struct weftdv_share readable = { .access = IBV_ACCESS_REMOTE_READ,
					       .iova = SHARED_AT };
	struct qp_pair p;
	struct ibv_mr *first, *shared;

	qp_pair_make(&p, NULL);
	first = ibv_reg_mr(p.near.pd, p.near.memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(first);
	shared = weftdv_mr_share(p.near.pd, first, &readable);
	REQUIRE(shared);
	EXPECT(shared->lkey != first->lkey && shared->rkey == shared->lkey);
	EXPECT(shared->addr == p.near.memory && shared->length == PAGE);
	EXPECT_EQ(ibv_dereg_mr(first), 0);
	memset(p.near.memory, 0x3c, PAGE);
	far_access(&p, IBV_WR_RDMA_READ, SHARED_AT, shared->rkey, IBV_WC_SUCCESS);
	EXPECT_MEM(p.far.memory, p.near.memory, PAGE);
	memset(p.far.memory, 0x4d, PAGE);
	far_access(&p, IBV_WR_RDMA_WRITE, SHARED_AT, shared->rkey, IBV_WC_SUCCESS);
	/* A Write of iWARP is refused when it arrives: the next request meets the end. */
	qp_post(&p.far, IBV_WR_RDMA_READ, 9, qp_sge(&p.far, 0, 8),
		(struct qp_remote){ SHARED_AT, shared->rkey });
	EXPECT(qp_wc(p.far.qp->send_cq).status != IBV_WC_SUCCESS);
	EXPECT_EQ(reason_of(p.near.qp), WEFT_R_RIGHT_REMOTE_WRITE);
	EXPECT_EQ(p.near.memory[0], 0x3c);
	EXPECT_EQ(ibv_dereg_mr(shared), 0);
	qp_pair_free(&p);
}

/* In the domain of another queue pair, for one message; the first region serves on. */
TEST(test_mem_09_weftdv_mr_share_in_another_domain_for_one_touch)
{
	const struct weftdv_share once = { .access = IBV_ACCESS_REMOTE_READ, .is_one_touch = true };
	struct qp_pair p;
	struct ibv_mr *shared;
	uint64_t addr;

	qp_pair_make(&p, NULL);
	addr = (uintptr_t)p.far.memory;
	memset(p.far.memory + PAGE, 0x66, PAGE);
	shared = weftdv_mr_share(p.near.pd, p.far.mr, &once);
	REQUIRE(shared);
	EXPECT(shared->pd == p.near.pd);
	far_access(&p, IBV_WR_RDMA_READ, addr + PAGE, shared->rkey, IBV_WC_SUCCESS);
	EXPECT_EQ(p.far.memory[0], 0x66);
	qp_post(&p.near, IBV_WR_RDMA_READ, 8, qp_sge(&p.near, 0, PAGE), qp_remote(&p.far, PAGE));
	qp_sent(&p.near, 8, IBV_WC_SUCCESS);
	far_access(&p, IBV_WR_RDMA_READ, addr, shared->rkey, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(reason_of(p.near.qp), WEFT_R_TAG_SPENT);
	EXPECT_EQ(ibv_dereg_mr(shared), 0);
	qp_pair_free(&p);
}

static void share_is_refused(struct ibv_pd *pd, struct ibv_mr *mr, const struct weftdv_share *share,
			     int error)
{
	errno = 0;
	EXPECT(!weftdv_mr_share(pd, mr, share));
	EXPECT_EQ(errno, error);
}

TEST(test_mem_09_weftdv_mr_share_refusals)
{
	struct ibv_context other = { .cmd_fd = -1 };
	struct ibv_mr foreign = { .context = &other };
	struct ibv_pd foreign_pd = { .context = &other };
	struct weftdv_share share = { .access = IBV_ACCESS_REMOTE_READ };
	struct qp_pair p;
	struct ibv_mr *null;

	qp_pair_make(&p, NULL);
	null = ibv_alloc_null_mr(p.near.pd);
	REQUIRE(null);
	share_is_refused(p.near.pd, null, &share, EINVAL);
	share_is_refused(p.near.pd, p.near.mr, NULL, EINVAL);
	share_is_refused(p.near.pd, &foreign, &share, EOPNOTSUPP);
	share_is_refused(p.near.pd, NULL, &share, EOPNOTSUPP);
	share_is_refused(&foreign_pd, p.near.mr, &share, EOPNOTSUPP);
	share_is_refused(NULL, p.near.mr, &share, EOPNOTSUPP);
	share.iova = UINT64_MAX - PAGE; /* its end would wrap */
	share_is_refused(p.near.pd, p.near.mr, &share, EINVAL);
	share.iova = 0;
	share.access = IBV_ACCESS_REMOTE_WRITE; /* and not local: as of ibv_reg_mr() */
	share_is_refused(p.near.pd, p.near.mr, &share, EINVAL);
	share.access = 1 << 8; /* no access that there is */
	share_is_refused(p.near.pd, p.near.mr, &share, EOPNOTSUPP);
	share.access = IBV_ACCESS_REMOTE_READ;
	share.reserved[3] = 1;
	share_is_refused(p.near.pd, p.near.mr, &share, EINVAL);
	EXPECT_EQ(ibv_dereg_mr(null), 0);
	qp_pair_free(&p);
}

/* ---- Reserved keys -------------------------------------------------------------------------- */

/* Its domain counts it; no access by it is served yet. */
TEST(test_sqr_02_weftdv_key_reserve_names_nothing_yet)
{
	struct qp_pair p;
	struct ibv_pd *pd;
	uint32_t key = 0, next = 0;

	qp_pair_make(&p, weftdv_pd_alloc);
	EXPECT_EQ(weftdv_key_reserve(p.near.pd, &key), 0);
	EXPECT_EQ(weftdv_key_reserve(p.near.pd, &next), 0);
	EXPECT(key != 0 && next != 0 && key != next);
	EXPECT_EQ(weftdv_key_release(p.far.pd, key), EINVAL); /* of another domain */
	EXPECT_EQ(weftdv_key_release(p.near.pd, next), 0);
	EXPECT_EQ(weftdv_key_release(p.near.pd, next), EINVAL);
	far_access(&p, IBV_WR_RDMA_READ, (uintptr_t)p.near.memory, key, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(reason_of(p.near.qp), WEFT_R_TAG_INVALID);
	EXPECT_EQ(weftdv_key_release(p.near.pd, key), 0);
	/* A domain with a reserved key is in use. */
	pd = weftdv_pd_alloc(p.near.qp->context);
	REQUIRE(pd && weftdv_key_reserve(pd, &key) == 0);
	EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
	EXPECT_EQ(weftdv_key_release(pd, key), 0);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	qp_pair_free(&p);
}

/* A key that another domain has reserved is not the queue pair's to use. */
TEST(test_sqr_08_weftdv_post_register_send_refuses_a_key_of_another_domain)
{
	struct qp_pair p;
	struct weftdv_register reg = {
		.wr_id = 3,
		.send_flags = IBV_SEND_SIGNALED,
		.access = IBV_ACCESS_REMOTE_READ,
		.length = PAGE,
	};
	struct ibv_wc wc;
	uint32_t key;

	qp_pair_make(&p, weftdv_pd_alloc);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	EXPECT_EQ(weftdv_key_reserve(p.far.pd, &key), 0);
	recv_into(p.far.qp, 4, qp_sge(&p.far, 0, 8));
	reg.addr = p.near.memory;
	reg.key = key;
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, &reg, NULL, 0), 0);
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_STR(weftdv_reason_name(wc.vendor_err), "sqr_entry");
	EXPECT_EQ(qp_wc(p.far.qp->recv_cq).status, IBV_WC_WR_FLUSH_ERR); /* nothing was sent */
	EXPECT_EQ(weftdv_key_release(p.far.pd, key), 0);
	qp_pair_free(&p);
}

/* ---- What a failure stops ------------------------------------------------------------------- */

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

/* A Send that fails here, for its key, and one behind it. */
static void post_bad_and_good(struct ibv_qp *qp, struct ibv_sge good)
{
	struct ibv_sge bad = { good.addr, good.length, good.lkey ^ 1 };
	struct ibv_send_wr *at, wrs[2] = {
		{ .wr_id = 1,
		  .next = &wrs[1],
		  .sg_list = &bad,
		  .num_sge = 1,
		  .opcode = IBV_WR_SEND,
		  .send_flags = IBV_SEND_SIGNALED },
		{ .wr_id = 2,
		  .sg_list = &good,
		  .num_sge = 1,
		  .opcode = IBV_WR_SEND,
		  .send_flags = IBV_SEND_SIGNALED },
	};

	REQUIRE(ibv_post_send(qp, wrs, &at) == 0);
}

static void back_to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

/* Option 1: only the send queue stops. The connection goes on, and no event says otherwise. */
TEST(test_sqr_06a_sqr_s3_weftdv_qp_drain_on_failure_iwarp)
{
	struct qp_pair p;
	struct ibv_wc wc;

	qp_pair_make(&p, NULL);
	EXPECT_EQ(weftdv_qp_drain_on_failure(p.near.qp, true), 0);
	recv_into(p.near.qp, 5, qp_sge(&p.near, PAGE, 8));
	recv_into(p.far.qp, 6, qp_sge(&p.far, PAGE, 8));
	post_bad_and_good(p.near.qp, qp_sge(&p.near, 0, 8));
	qp_sent(&p.near, 1, IBV_WC_LOC_PROT_ERR);
	qp_sent(&p.near, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(state_of(p.near.qp), IBV_QPS_SQE);
	EXPECT_EQ(reason_of(p.near.qp), WEFT_R_TAG_INSTANCE);
	/* The peer reads from it and sends to it. */
	far_access(&p, IBV_WR_RDMA_READ, (uintptr_t)p.near.memory, p.near.mr->rkey, IBV_WC_SUCCESS);
	qp_post(&p.far, IBV_WR_SEND, 7, qp_sge(&p.far, 0, 8), (struct qp_remote){ 0 });
	qp_sent(&p.far, 7, IBV_WC_SUCCESS);
	wc = qp_wc(p.near.qp->recv_cq);
	EXPECT(wc.wr_id == 5 && wc.status == IBV_WC_SUCCESS);
	cm_expect_none(p.cm.near_channel);
	cm_expect_none(p.cm.far_channel);
	EXPECT(roce_has_no_event(p.near.qp->context));
	/* Sent again. */
	back_to_rts(p.near.qp);
	qp_post(&p.near, IBV_WR_SEND, 8, qp_sge(&p.near, 0, 8), (struct qp_remote){ 0 });
	qp_sent(&p.near, 8, IBV_WC_SUCCESS);
	wc = qp_wc(p.far.qp->recv_cq);
	EXPECT(wc.wr_id == 6 && wc.status == IBV_WC_SUCCESS);
	qp_pair_free(&p);
}

/* Option 2, as at first: the same ends the connection. Taken back, the choice is gone. */
TEST(test_sqr_06b_sqr_s3_weftdv_qp_drain_on_failure_taken_back)
{
	struct qp_pair p;

	qp_pair_make(&p, NULL);
	EXPECT_EQ(weftdv_qp_drain_on_failure(p.near.qp, true), 0);
	EXPECT_EQ(weftdv_qp_drain_on_failure(p.near.qp, false), 0);
	post_bad_and_good(p.near.qp, qp_sge(&p.near, 0, 8));
	qp_sent(&p.near, 1, IBV_WC_LOC_PROT_ERR);
	qp_sent(&p.near, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(state_of(p.near.qp), IBV_QPS_ERR);
	cm_expect(p.cm.near_channel, RDMA_CM_EVENT_DISCONNECTED);
	cm_expect(p.cm.far_channel, RDMA_CM_EVENT_DISCONNECTED);
	qp_pair_free(&p);
}

static void roce_sent(struct roce_end *e, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = roce_wc(e);

	EXPECT_EQ(wc.wr_id, id);
	EXPECT_STR(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

TEST(test_sqr_06a_weftdv_qp_drain_on_failure_roce)
{
	struct ibv_send_wr send = { .wr_id = 7, .opcode = IBV_WR_SEND }, read;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	EXPECT_EQ(weftdv_qp_drain_on_failure(r.near.qp, true), 0);
	roce_connect(&r);
	roce_recv(&r.near, 5, PAGE, 8);
	roce_recv(&r.far, 6, PAGE, 8);
	post_bad_and_good(r.near.qp,
			  (struct ibv_sge){ (uintptr_t)r.near.memory, 8, r.near.mr->lkey });
	roce_sent(&r.near, 1, IBV_WC_LOC_PROT_ERR);
	roce_sent(&r.near, 2, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(state_of(r.near.qp), IBV_QPS_SQE);
	read = (struct ibv_send_wr){ .wr_id = 4, .opcode = IBV_WR_RDMA_READ };
	read.wr.rdma.remote_addr = (uintptr_t)r.near.memory;
	read.wr.rdma.rkey = r.near.mr->rkey;
	EXPECT_EQ(roce_post(&r.far, &read, 0, PAGE), 0);
	roce_sent(&r.far, 4, IBV_WC_SUCCESS);
	EXPECT_EQ(roce_post(&r.far, &send, 0, 8), 0);
	roce_sent(&r.far, 7, IBV_WC_SUCCESS);
	roce_sent(&r.near, 5, IBV_WC_SUCCESS); /* the receive */
	EXPECT(roce_has_no_event(r.context));
	back_to_rts(r.near.qp);
	EXPECT_EQ(roce_post(&r.near, &send, 0, 8), 0);
	roce_sent(&r.near, 7, IBV_WC_SUCCESS);
	roce_sent(&r.far, 6, IBV_WC_SUCCESS);
	roce_free(&r);
}
