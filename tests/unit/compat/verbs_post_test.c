/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of segments that lie as no compiler would lay them, as those in packed structs do. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "test.h"

enum { POSTS = 3, BYTES = 64, LIST_MAX = 2 };

struct flushed_qp {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t memory[BYTES];
};

static void flushed_qp_open(struct flushed_qp *b)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 8,
			 .max_recv_wr = 8,
			 .max_send_sge = LIST_MAX,
			 .max_recv_sge = LIST_MAX },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	REQUIRE(list && list[0]);
	b->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	REQUIRE(b->context);
	b->pd = ibv_alloc_pd(b->context);
	b->cq = ibv_create_cq(b->context, 16, NULL, NULL, 0);
	b->mr = ibv_reg_mr(b->pd, b->memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = b->cq;
	b->qp = ibv_create_qp(b->pd, &init);
	REQUIRE(b->pd && b->cq && b->mr && b->qp);
	/* Everything that is posted comes back at once. */
	REQUIRE(ibv_modify_qp(b->qp, &attr, IBV_QP_STATE) == 0);
}

static void flushed_qp_close(struct flushed_qp *b)
{
	EXPECT_EQ(ibv_destroy_qp(b->qp), 0);
	EXPECT_EQ(ibv_destroy_cq(b->cq), 0);
	EXPECT_EQ(ibv_dereg_mr(b->mr), 0);
	EXPECT_EQ(ibv_dealloc_pd(b->pd), 0);
	EXPECT_EQ(ibv_close_device(b->context), 0);
}

/* A list of `count` at an address that is 4 off. */
static struct ibv_sge *crooked(uint64_t room[2 * LIST_MAX + 1], const struct flushed_qp *b,
			       size_t count)
{
	struct ibv_sge sge = { .addr = (uintptr_t)b->memory, .length = 8, .lkey = b->mr->lkey };
	uint8_t *at = (uint8_t *)room + 4;

	for (size_t i = 0; i < count; i++)
		memcpy(at + i * sizeof(sge), &sge, sizeof(sge));
	return (struct ibv_sge *)(void *)at;
}

static void expect_ids(struct flushed_qp *b)
{
	struct ibv_wc wc;

	for (uint64_t i = 0; i < POSTS; i++) {
		REQUIRE(ibv_poll_cq(b->cq, 1, &wc) == 1);
		EXPECT_EQ(wc.wr_id, i);
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	EXPECT_EQ(ibv_poll_cq(b->cq, 1, &wc), 0);
}

TEST(test_ibv_post_recv_takes_lists_that_are_not_aligned)
{
	struct flushed_qp b;
	uint64_t room[POSTS][2 * LIST_MAX + 1];
	struct ibv_recv_wr wr[POSTS], *bad;

	flushed_qp_open(&b);
	for (int i = 0; i < POSTS; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = (uint64_t)i,
					      .next = i + 1 < POSTS ? &wr[i + 1] : NULL,
					      .sg_list = crooked(room[i], &b, LIST_MAX),
					      .num_sge = LIST_MAX };
	EXPECT_EQ(ibv_post_recv(b.qp, wr, &bad), 0);
	expect_ids(&b);
	flushed_qp_close(&b);
}

TEST(test_ibv_post_send_takes_lists_that_are_not_aligned)
{
	struct flushed_qp b;
	uint64_t room[POSTS][2 * LIST_MAX + 1];
	struct ibv_send_wr wr[POSTS], *bad;

	flushed_qp_open(&b);
	for (int i = 0; i < POSTS; i++)
		wr[i] = (struct ibv_send_wr){ .wr_id = (uint64_t)i,
					      .next = i + 1 < POSTS ? &wr[i + 1] : NULL,
					      .opcode = IBV_WR_SEND,
					      .send_flags = IBV_SEND_SIGNALED,
					      .sg_list = crooked(room[i], &b, LIST_MAX),
					      .num_sge = LIST_MAX };
	EXPECT_EQ(ibv_post_send(b.qp, wr, &bad), 0);
	expect_ids(&b);
	/* The list of the third is too long: it is named, and the first two are posted. */
	wr[POSTS - 1].num_sge = -1;
	EXPECT_EQ(ibv_post_send(b.qp, wr, &bad), EINVAL);
	EXPECT(bad == &wr[POSTS - 1]);
	flushed_qp_close(&b);
}
