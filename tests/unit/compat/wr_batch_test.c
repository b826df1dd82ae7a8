/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_wr_post(3): requests between ibv_wr_start and ibv_wr_complete are posted all or none. */
#include <errno.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"

/* A Write of 8 bytes that is good. */
static void add_write(struct qp_pair *p, struct ibv_qp_ex *ex, uint64_t id)
{
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, p->far.mr->rkey, (uintptr_t)p->far.memory);
	ibv_wr_set_sge(ex, p->near.mr->lkey, (uintptr_t)p->near.memory, 8);
}

static struct ibv_qp_ex *make(struct qp_pair *p)
{
	struct ibv_qp_ex *ex;

	qp_pair_make(p, NULL);
	ex = ibv_qp_to_qp_ex(p->near.qp);
	REQUIRE(ex);
	return ex;
}

/* The queue pair is as it was: a batch of one Write is the next that ends, and all that does. */
static void still_writes(struct qp_pair *p, struct ibv_qp_ex *ex)
{
	enum { ID = 7 };

	qp_quiet(&p->near);
	ibv_wr_start(ex);
	add_write(p, ex, ID);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	qp_sent(&p->near, ID, IBV_WC_SUCCESS);
	qp_quiet(&p->near);
}

TEST(test_ibv_wr_complete_posts_a_good_batch)
{
	struct qp_pair p;
	struct ibv_qp_ex *ex = make(&p);

	ibv_wr_start(ex);
	for (uint64_t id = 0; id < QP_SENDS; id++)
		add_write(&p, ex, id);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	for (uint64_t id = 0; id < QP_SENDS; id++)
		qp_sent(&p.near, id, IBV_WC_SUCCESS);
	qp_quiet(&p.near);
	qp_pair_free(&p);
}

/* An atomic has 8 bytes: here one of the middle has 4, which only posting finds. */
TEST(test_ibv_wr_complete_posts_none_if_one_is_bad)
{
	struct qp_pair p;
	struct ibv_qp_ex *ex = make(&p);

	for (int place = 0; place < 3; place++) {
		ibv_wr_start(ex);
		for (int i = 0; i < 3; i++) {
			add_write(&p, ex, (uint64_t)i);
			if (i != place)
				continue;
			ex->wr_id = 99;
			ibv_wr_atomic_fetch_add(ex, p.far.mr->rkey, (uintptr_t)p.far.memory, 1);
			ibv_wr_set_sge(ex, p.near.mr->lkey, (uintptr_t)p.near.memory, 4);
		}
		EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
		still_writes(&p, ex);
	}
	qp_pair_free(&p);
}

TEST(test_ibv_wr_complete_posts_none_if_one_is_too_many)
{
	struct qp_pair p;
	struct ibv_qp_ex *ex = make(&p);

	ibv_wr_start(ex);
	for (uint64_t id = 0; id <= QP_SENDS; id++)
		add_write(&p, ex, id);
	EXPECT_EQ(ibv_wr_complete(ex), ENOMEM);
	qp_quiet(&p.near);
	ibv_wr_start(ex);
	add_write(&p, ex, 7);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	qp_quiet(&p.near);
	qp_pair_free(&p);
}

/* Calls that belong to no batch post nothing, least of all what another batch posted. */
TEST(test_ibv_wr_complete_without_ibv_wr_start_posts_nothing)
{
	struct qp_pair p;
	struct ibv_qp_ex *ex = make(&p);

	ibv_wr_set_sge(ex, p.near.mr->lkey, (uintptr_t)p.near.memory, 8);
	ibv_wr_abort(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	ibv_wr_start(ex);
	add_write(&p, ex, 1);
	ibv_wr_abort(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	still_writes(&p, ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	qp_quiet(&p.near);
	qp_pair_free(&p);
}

TEST(test_ibv_wr_start_twice_fails_the_batch)
{
	struct qp_pair p;
	struct ibv_qp_ex *ex = make(&p);

	ibv_wr_start(ex);
	add_write(&p, ex, 1);
	ibv_wr_start(ex);
	add_write(&p, ex, 2);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
	still_writes(&p, ex);
	qp_pair_free(&p);
}
