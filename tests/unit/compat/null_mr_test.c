/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_alloc_null_mr(3): an MR that reads as zeroes and discards what is written. */
#include <errno.h>
#include <string.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"

enum { BYTES = 100000 };

static bool is_all(const uint8_t *bytes, uint8_t value, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] != value)
			return false;
	}
	return true;
}

TEST(test_ibv_alloc_null_mr_has_the_maximum_length_and_no_rkey)
{
	struct qp_pair p;
	struct ibv_mr *mr;
	struct ibv_pd *pd;

	qp_pair_make(&p, NULL);
	mr = ibv_alloc_null_mr(p.near.pd);
	REQUIRE(mr);
	EXPECT(mr->pd == p.near.pd && mr->context == p.near.id->verbs);
	EXPECT(!mr->addr);
	EXPECT(mr->length == SIZE_MAX);
	EXPECT(mr->lkey != 0);
	EXPECT_EQ(mr->rkey, 0);
	/* "The use of ibv_rereg_mr() with this MR is invalid." */
	EXPECT_EQ(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ),
		IBV_REREG_MR_ERR_INPUT);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p.near.memory, 8, 0),
		  IBV_REREG_MR_ERR_INPUT);
	pd = ibv_alloc_pd(p.near.id->verbs);
	REQUIRE(pd);
	EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	EXPECT_EQ(ibv_dealloc_pd(pd), 0);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	qp_pair_free(&p);
}

TEST(test_ibv_alloc_null_mr_writes_zeroes_and_swallows_reads)
{
	struct qp_pair p;
	struct ibv_mr *mr;
	struct ibv_sge nothing;

	qp_pair_make(&p, NULL);
	mr = ibv_alloc_null_mr(p.near.pd);
	REQUIRE(mr);
	nothing = (struct ibv_sge){ .addr = 4711, .length = BYTES, .lkey = mr->lkey };
	memset(p.far.memory, 0xee, QP_BYTES);
	qp_post(&p.near, IBV_WR_RDMA_READ, 1, nothing, qp_remote(&p.far, 0));
	qp_sent(&p.near, 1, IBV_WC_SUCCESS);
	qp_post(&p.near, IBV_WR_RDMA_WRITE, 2, nothing, qp_remote(&p.far, 0));
	qp_sent(&p.near, 2, IBV_WC_SUCCESS);
	/* A Read comes back after what was written before it. */
	qp_post(&p.near, IBV_WR_RDMA_READ, 3, qp_sge(&p.near, 0, BYTES + 1), qp_remote(&p.far, 0));
	qp_sent(&p.near, 3, IBV_WC_SUCCESS);
	EXPECT(is_all(p.near.memory, 0, BYTES));
	EXPECT_EQ(p.near.memory[BYTES], 0xee);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	qp_pair_free(&p);
}

TEST(test_ibv_alloc_null_mr_in_the_middle_of_a_receive)
{
	struct qp_pair p;
	struct ibv_mr *mr;
	struct ibv_sge into[3];
	struct ibv_recv_wr *bad, recv = { .wr_id = 4, .sg_list = into, .num_sge = 3 };
	struct ibv_wc wc;

	qp_pair_make(&p, NULL);
	mr = ibv_alloc_null_mr(p.far.pd);
	REQUIRE(mr);
	into[0] = qp_sge(&p.far, 0, 16);
	into[1] = (struct ibv_sge){ .length = BYTES, .lkey = mr->lkey };
	into[2] = qp_sge(&p.far, 16, 16);
	REQUIRE(ibv_post_recv(p.far.qp, &recv, &bad) == 0);
	memset(p.near.memory, 1, 16);
	memset(p.near.memory + 16, 2, BYTES);
	memset(p.near.memory + 16 + BYTES, 3, 16);
	qp_post(&p.near, IBV_WR_SEND, 5, qp_sge(&p.near, 0, BYTES + 32), (struct qp_remote){ 0 });
	wc = qp_wc(p.far.qp->recv_cq);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.byte_len, BYTES + 32);
	EXPECT(is_all(p.far.memory, 1, 16) && is_all(p.far.memory + 16, 3, 16));
	EXPECT(is_all(p.far.memory + 32, 0, BYTES));
	qp_sent(&p.near, 5, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	qp_pair_free(&p);
}

/* A peer that guesses its key gets nothing, nor does a window open it. */
TEST(test_ibv_alloc_null_mr_is_not_for_peers)
{
	struct qp_pair p;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_mw_bind bind = { .wr_id = 6, .send_flags = IBV_SEND_SIGNALED };

	qp_pair_make(&p, NULL);
	mr = ibv_alloc_null_mr(p.far.pd);
	REQUIRE(mr);
	qp_post(&p.near, IBV_WR_RDMA_READ, 7, qp_sge(&p.near, 0, 8),
		(struct qp_remote){ 0, mr->lkey });
	qp_sent(&p.near, 7, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	qp_pair_free(&p);

	qp_pair_make(&p, NULL);
	mr = ibv_alloc_null_mr(p.far.pd);
	mw = ibv_alloc_mw(p.far.pd, IBV_MW_TYPE_1);
	REQUIRE(mr && mw);
	bind.bind_info = (struct ibv_mw_bind_info){
		.mr = mr,
		.length = 8,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	EXPECT_EQ(ibv_bind_mw(p.far.qp, mw, &bind), 0);
	qp_sent(&p.far, 6, IBV_WC_MW_BIND_ERR);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	EXPECT_EQ(ibv_dereg_mr(mr), 0);
	qp_pair_free(&p);
}
