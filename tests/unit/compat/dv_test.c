/* SPDX-License-Identifier: BSD-2-Clause */
/* <weft/weft_dv.h>: what verbs programs reach of weft beyond verbs. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include <weft/weft.h>
#include <weft/weft_dv.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"

enum { REMOTE = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE };

/* ---- Whose it is ---------------------------------------------------------------------------- */

TEST(test_weftdv_is_weft_knows_its_devices)
{
	struct ibv_device other = { .name = "iw_lo" };
	int count;
	struct ibv_device **list;

	EXPECT(!weftdv_device_is_weft(&other)); /* before there is a list, too */
	list = ibv_get_device_list(&count);
	REQUIRE(list && count > 0);
	for (int i = 0; i < count; i++)
		EXPECT(weftdv_device_is_weft(list[i]));
	ibv_free_device_list(list);
	EXPECT(!weftdv_device_is_weft(&other));
	EXPECT(!weftdv_device_is_weft(NULL));
}

/* Objects that another library made, and none at all. */
static void expect_foreign(struct ibv_context *context, struct ibv_qp *qp, struct ibv_mw *mw,
			   struct ibv_pd *pd)
{
	struct weftdv_bind bind = { .length = 8, .rkey = 5 };
	struct weftdv_register reg = { .length = 8, .key = 5 };
	uint32_t code = 5;

	errno = 0;
	EXPECT(!weftdv_qp_reason(qp));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_reason_code(qp, &code), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_bind(qp, mw, &bind), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_allow_register(qp, true), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_register(qp, &reg), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_register_send(qp, &reg, NULL, 0), EOPNOTSUPP);
	EXPECT_EQ(weftdv_key_release(pd, 5), EOPNOTSUPP);
	EXPECT_EQ(weftdv_key_reserve(pd, &code), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_drain_on_failure(qp, true), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_delay(qp, 0, 0, 0), EOPNOTSUPP);
	errno = 0;
	EXPECT(!weftdv_pd_alloc(context));
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT(code == 5 && bind.rkey == 5 && reg.key == 5);
}

TEST(test_weftdv_refuses_objects_that_are_not_wefts)
{
	struct ibv_context context = { .cmd_fd = -1 };
	struct ibv_qp qp = { .context = &context };
	struct ibv_mw mw = { .context = &context };
	struct ibv_pd pd = { .context = &context };
	struct weftdv_bind bind = { .length = 8 };
	struct qp_pair p;

	expect_foreign(&context, &qp, &mw, &pd);
	expect_foreign(NULL, NULL, NULL, NULL);
	qp.context = NULL;
	mw.context = NULL;
	pd.context = NULL;
	expect_foreign(NULL, &qp, &mw, &pd);
	/* A queue pair of weft's does not help a window of another. */
	qp_pair_make(&p, NULL);
	EXPECT_EQ(weftdv_qp_post_bind(p.near.qp, &mw, &bind), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_bind(p.near.qp, NULL, &bind), EOPNOTSUPP);
	qp_pair_free(&p);
}

TEST(test_weftdv_refuses_structs_and_results_that_are_null)
{
	struct weftdv_register reg = { .length = 8 };
	struct qp_pair p;
	struct ibv_mw *mw;

	EXPECT_EQ(weftdv_qp_post_bind(NULL, NULL, NULL), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_register(NULL, NULL), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_reason_code(NULL, NULL), EOPNOTSUPP);
	qp_pair_make(&p, NULL);
	mw = ibv_alloc_mw(p.near.pd, IBV_MW_TYPE_2);
	REQUIRE(mw);
	reg.addr = p.near.mr->addr;
	EXPECT_EQ(weftdv_qp_post_bind(p.near.qp, mw, NULL), EINVAL);
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, NULL), EINVAL);
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, NULL, NULL, 0), EINVAL);
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, &reg, NULL, 2), EINVAL);
	EXPECT_EQ(weftdv_qp_reason_code(p.near.qp, NULL), EINVAL);
	EXPECT_EQ(weftdv_key_reserve(p.near.pd, NULL), EINVAL);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	qp_pair_free(&p);
}

/* ---- Reasons -------------------------------------------------------------------------------- */

TEST(test_weftdv_qp_reason_says_why_it_failed)
{
	struct qp_pair p;
	uint32_t code = 99;
	struct ibv_wc wc;

	qp_pair_make(&p, NULL);
	EXPECT_EQ(weftdv_qp_reason_code(p.far.qp, &code), 0);
	EXPECT_EQ(code, WEFT_OK);
	EXPECT_STR(weftdv_qp_reason(p.far.qp), "Nothing was refused.");
	qp_post(&p.near, IBV_WR_RDMA_READ, 1, qp_sge(&p.near, 0, 8), qp_remote(&p.far, QP_BYTES));
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(weftdv_qp_reason_code(p.far.qp, &code), 0);
	EXPECT_EQ(code, WEFT_R_RANGE_BOUNDS);
	EXPECT_STR(weftdv_reason_name(code), "range_bounds");
	EXPECT_STR(weftdv_qp_reason(p.far.qp), weftdv_reason_text(code));
	/* The other end knows what the wire told it, and so does its completion. */
	EXPECT_EQ(weftdv_qp_reason_code(p.near.qp, &code), 0);
	EXPECT_EQ(code, wc.vendor_err);
	EXPECT(code != WEFT_OK);
	EXPECT_STR(weftdv_reason_name(UINT32_MAX), "unknown");
	EXPECT(weftdv_reason_text(UINT32_MAX));
	qp_pair_free(&p);
}

/* ---- Windows -------------------------------------------------------------------------------- */

/* A window over the first 64 bytes of the far end. */
static struct weftdv_bind bind_far(struct qp_pair *p, struct ibv_mw *mw, bool is_one_touch)
{
	struct weftdv_bind bind = {
		.wr_id = 8,
		.send_flags = IBV_SEND_SIGNALED,
		.access = REMOTE,
		.lkey = p->far.mr->lkey,
		.addr = (uintptr_t)p->far.memory,
		.length = 64,
		.is_one_touch = is_one_touch,
	};
	struct ibv_wc wc;

	REQUIRE(weftdv_qp_post_bind(p->far.qp, mw, &bind) == 0);
	wc = qp_wc(p->far.qp->send_cq);
	REQUIRE(wc.wr_id == 8 && wc.opcode == IBV_WC_BIND_MW);
	REQUIRE(wc.status == IBV_WC_SUCCESS && mw->rkey == bind.rkey);
	return bind;
}

static void read_far(struct qp_pair *p, uint32_t rkey, enum ibv_wc_status status)
{
	const struct qp_remote from = { (uintptr_t)p->far.memory, rkey };

	qp_post(&p->near, IBV_WR_RDMA_READ, 9, qp_sge(&p->near, 0, 64), from);
	qp_sent(&p->near, 9, status);
}

static void one_touch(enum ibv_mw_type type)
{
	struct qp_pair p;
	struct ibv_mw *mw;
	uint32_t code = 0;

	qp_pair_make(&p, NULL);
	mw = ibv_alloc_mw(p.far.pd, type);
	REQUIRE(mw);
	bind_far(&p, mw, true);
	read_far(&p, mw->rkey, IBV_WC_SUCCESS);
	read_far(&p, mw->rkey, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(weftdv_qp_reason_code(p.far.qp, &code), 0);
	EXPECT_EQ(code, WEFT_R_TAG_SPENT);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	qp_pair_free(&p);
}

TEST(test_touch_s1_weftdv_post_bind_one_touch)
{
	one_touch(IBV_MW_TYPE_1);
	one_touch(IBV_MW_TYPE_2);
}

TEST(test_weftdv_post_bind_is_an_ordinary_bind_else)
{
	struct qp_pair p;
	struct ibv_mw *mw;
	struct weftdv_bind bind;
	uint32_t chosen, code;

	qp_pair_make(&p, NULL);
	mw = ibv_alloc_mw(p.far.pd, IBV_MW_TYPE_1);
	REQUIRE(mw);
	bind = bind_far(&p, mw, false);
	read_far(&p, bind.rkey, IBV_WC_SUCCESS);
	read_far(&p, bind.rkey, IBV_WC_SUCCESS);
	bind.rkey = chosen = ibv_inc_rkey(ibv_inc_rkey(bind.rkey));
	EXPECT_EQ(weftdv_qp_post_bind(p.far.qp, mw, &bind), 0);
	qp_sent(&p.far, 8, IBV_WC_SUCCESS);
	EXPECT(bind.rkey == chosen && mw->rkey == chosen);
	read_far(&p, chosen, IBV_WC_SUCCESS);
	bind.length = 0;
	bind.rkey = 0;
	EXPECT_EQ(weftdv_qp_post_bind(p.far.qp, mw, &bind), 0);
	qp_sent(&p.far, 8, IBV_WC_SUCCESS);
	read_far(&p, chosen, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(weftdv_qp_reason_code(p.far.qp, &code), 0);
	EXPECT(code != WEFT_R_TAG_SPENT);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	qp_pair_free(&p);
}

TEST(test_weftdv_post_bind_refusals_change_nothing)
{
	struct qp_pair p;
	struct ibv_mw *mw;
	struct weftdv_bind bind = { .access = IBV_ACCESS_ON_DEMAND, .length = 64 };
	uint32_t rkey;

	qp_pair_make(&p, NULL);
	mw = ibv_alloc_mw(p.far.pd, IBV_MW_TYPE_1);
	REQUIRE(mw);
	rkey = mw->rkey;
	EXPECT_EQ(weftdv_qp_post_bind(p.far.qp, mw, &bind), EOPNOTSUPP);
	bind.access = REMOTE;
	EXPECT_EQ(weftdv_qp_post_bind(p.near.qp, mw, &bind), EINVAL); /* of another domain */
	EXPECT(mw->rkey == rkey && bind.rkey == 0);
	qp_quiet(&p.far);
	qp_quiet(&p.near);
	EXPECT_EQ(ibv_dealloc_mw(mw), 0);
	qp_pair_free(&p);
}

/* ---- Registration --------------------------------------------------------------------------- */

static struct weftdv_register near_register(struct qp_pair *p)
{
	return (struct weftdv_register){
		.wr_id = 3,
		.send_flags = IBV_SEND_SIGNALED,
		.access = IBV_ACCESS_LOCAL_WRITE | REMOTE,
		.addr = p->near.memory,
		.length = 4096,
	};
}

/* The next request uses the key before the registration has completed. */
TEST(test_sqr_s1_weftdv_post_register_then_use_the_key_at_once)
{
	struct qp_pair p;
	struct weftdv_register reg;
	struct ibv_sge sink;
	struct ibv_wc wc;

	qp_pair_make(&p, weftdv_pd_alloc);
	reg = near_register(&p);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	memset(p.far.memory, 0x77, 4096);
	reg.iova = 0x5000;
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), 0);
	EXPECT(reg.key != 0);
	sink = (struct ibv_sge){ 0x5000, 4096, reg.key };
	qp_post(&p.near, IBV_WR_RDMA_READ, 4, sink, qp_remote(&p.far, 0));
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT(wc.wr_id == 3 && wc.opcode == IBV_WC_DRIVER1 && wc.status == IBV_WC_SUCCESS);
	qp_sent(&p.near, 4, IBV_WC_SUCCESS);
	EXPECT_MEM(p.near.memory, p.far.memory, 4096);
	EXPECT_EQ(weftdv_key_release(p.near.pd, reg.key), 0);
	EXPECT_EQ(weftdv_key_release(p.near.pd, reg.key), EINVAL);
	EXPECT_EQ(weftdv_key_release(p.near.pd, p.near.mr->lkey), EINVAL);
	qp_pair_free(&p);
}

TEST(test_sqr_01_sqr_07_weftdv_qp_allow_register_needs_its_domain)
{
	struct qp_pair p;
	struct weftdv_register reg;
	struct ibv_wc wc;
	uint32_t key;

	qp_pair_make(&p, NULL);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), EPERM);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, false), 0);
	qp_pair_free(&p);

	qp_pair_make(&p, weftdv_pd_alloc);
	reg = near_register(&p);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, false), 0);
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), 0);
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR);
	EXPECT_STR(weftdv_reason_name(wc.vendor_err), "sqr_disabled");
	/* Its key stays reserved, for another try. */
	key = reg.key;
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), 0);
	qp_sent(&p.near, 3, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(reg.key, key);
	EXPECT_EQ(weftdv_key_release(p.near.pd, reg.key), 0);
	qp_pair_free(&p);
}

TEST(test_weftdv_post_register_refusals_change_nothing)
{
	struct qp_pair p;
	struct weftdv_register reg;

	qp_pair_make(&p, weftdv_pd_alloc);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	reg = near_register(&p);
	reg.addr = NULL;
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), EFAULT);
	reg = near_register(&p);
	reg.access = 1 << 8; /* no access that there is */
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), EOPNOTSUPP);
	reg = near_register(&p);
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, &reg, NULL, -1), EINVAL);
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, &reg, NULL, QP_SEGMENTS + 1), EINVAL);
	EXPECT_EQ(reg.key, 0);
	qp_quiet(&p.near);
	qp_pair_free(&p);
}

/* What a message tells of memory. */
struct advert {
	uint64_t addr;
	uint32_t length, key;
};

/*
 * The message tells the peer, which knows nothing else of the memory, reads it, and gives the key
 * back with its answer; after that it is dead.
 */
TEST(test_sqr_s2_sqr_08_sqr_09_weftdv_post_register_send)
{
	struct qp_pair p;
	struct weftdv_register reg;
	struct advert told, heard;
	struct ibv_sge message, into;
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 5, .sg_list = &into, .num_sge = 1 };
	struct ibv_send_wr *bad, answer = {
		.wr_id = 6,
		.opcode = IBV_WR_SEND_WITH_INV,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;
	uint32_t code;

	qp_pair_make(&p, weftdv_pd_alloc);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	reg = near_register(&p);
	EXPECT_EQ(weftdv_key_reserve(p.near.pd, &reg.key), 0);
	told = (struct advert){ (uintptr_t)p.near.memory, 4096, reg.key };
	memcpy(p.near.memory + 8192, &told, sizeof(told));
	memset(p.near.memory, 0x55, 4096);
	message = qp_sge(&p.near, 8192, 16);
	into = qp_sge(&p.far, 8192, 16);
	REQUIRE(ibv_post_recv(p.far.qp, &recv, &bad_recv) == 0);
	into.length = 0;
	REQUIRE(ibv_post_recv(p.near.qp, &(struct ibv_recv_wr){ .wr_id = 7 }, &bad_recv) == 0);
	EXPECT_EQ(weftdv_qp_post_register_send(p.near.qp, &reg, &message, 1), 0);
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT(wc.wr_id == 3 && wc.opcode == IBV_WC_SEND && wc.status == IBV_WC_SUCCESS);
	EXPECT_EQ(reg.key, told.key);
	EXPECT_EQ(qp_wc(p.far.qp->recv_cq).byte_len, 16);
	memcpy(&heard, p.far.memory + 8192, sizeof(heard));
	qp_post(&p.far, IBV_WR_RDMA_READ, 4, qp_sge(&p.far, 0, heard.length),
		(struct qp_remote){ heard.addr, heard.key });
	qp_sent(&p.far, 4, IBV_WC_SUCCESS);
	EXPECT_MEM(p.far.memory, p.near.memory, 4096);
	answer.invalidate_rkey = heard.key;
	REQUIRE(ibv_post_send(p.far.qp, &answer, &bad) == 0);
	qp_sent(&p.far, 6, IBV_WC_SUCCESS);
	wc = qp_wc(p.near.qp->recv_cq);
	EXPECT((wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == reg.key);
	qp_post(&p.far, IBV_WR_RDMA_READ, 4, qp_sge(&p.far, 0, 4096),
		(struct qp_remote){ heard.addr, heard.key });
	qp_sent(&p.far, 4, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(weftdv_qp_reason_code(p.near.qp, &code), 0);
	EXPECT(code == WEFT_R_TAG_INVALID || code == WEFT_R_TAG_INSTANCE);
	EXPECT_EQ(weftdv_key_release(p.near.pd, reg.key), EINVAL); /* it is gone already */
	qp_pair_free(&p);
}

/* Pages in another order than they lie in memory become one range, for one message. */
TEST(test_sqr_07_sqr_s4_weftdv_post_register_pages_for_one_touch)
{
	enum { PAGE = 4096 };
	struct qp_pair p;
	struct weftdv_register reg;
	struct weft_page_list list = { .count = 2, .page_size_bytes = PAGE };
	uint64_t pages[2];
	uint8_t *first;
	uint32_t code;

	qp_pair_make(&p, weftdv_pd_alloc);
	EXPECT_EQ(weftdv_qp_allow_register(p.near.qp, true), 0);
	first = p.near.memory + (PAGE - (uintptr_t)p.near.memory % PAGE);
	pages[0] = (uintptr_t)first + PAGE;
	pages[1] = (uintptr_t)first;
	list.pages = pages;
	reg = near_register(&p);
	reg.addr = NULL;
	reg.length = 2 * PAGE;
	reg.iova = 0x10000;
	reg.is_one_touch = true;
	reg.pages = &list;
	EXPECT_EQ(weftdv_qp_post_register(p.near.qp, &reg), 0);
	qp_sent(&p.near, 3, IBV_WC_SUCCESS);
	memset(first, 1, PAGE);
	memset(first + PAGE, 2, PAGE);
	qp_post(&p.far, IBV_WR_RDMA_READ, 4, qp_sge(&p.far, 0, 2 * PAGE),
		(struct qp_remote){ 0x10000, reg.key });
	qp_sent(&p.far, 4, IBV_WC_SUCCESS);
	EXPECT_MEM(p.far.memory, first + PAGE, PAGE);
	EXPECT_MEM(p.far.memory + PAGE, first, PAGE);
	qp_post(&p.far, IBV_WR_RDMA_READ, 4, qp_sge(&p.far, 0, 8),
		(struct qp_remote){ 0x10000, reg.key });
	qp_sent(&p.far, 4, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(weftdv_qp_reason_code(p.near.qp, &code), 0);
	EXPECT(code != WEFT_OK);
	qp_pair_free(&p);
}

/* ---- Delay ---------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

TEST(test_qp_07f_weftdv_post_delay_holds_back_what_follows)
{
	const uint64_t delay_ns = 30000000;
	struct qp_pair p;
	struct ibv_wc wc;
	uint64_t begin;

	qp_pair_make(&p, NULL);
	begin = now_ns();
	EXPECT_EQ(weftdv_qp_post_delay(p.near.qp, 1, IBV_SEND_SIGNALED, delay_ns), 0);
	qp_post(&p.near, IBV_WR_RDMA_WRITE, 2, qp_sge(&p.near, 0, 8), qp_remote(&p.far, 0));
	wc = qp_wc(p.near.qp->send_cq);
	EXPECT(now_ns() - begin >= delay_ns);
	EXPECT(wc.wr_id == 1 && wc.opcode == IBV_WC_DRIVER2 && wc.status == IBV_WC_SUCCESS);
	qp_sent(&p.near, 2, IBV_WC_SUCCESS);
	qp_pair_free(&p);
}
