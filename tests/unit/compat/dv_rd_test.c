/* SPDX-License-Identifier: BSD-2-Clause */
/* <weft/weft_dv.h>: reliable datagrams of verbs programs. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <weft/weft.h>
#include <weft/weft_dv.h>

#include "test.h"
#include "unit/compat/qp_fixture.h"
#include "unit/compat/roce_fixture.h"

enum { QPS = 3, LONG = 9000 };

/* Two pairs of ends, and a context of each end: both are of this process, by way of UDP. */
struct rd {
	struct roce r;
	struct weftdv_ee *near, *far;
};

static struct weftdv_ee_attr ee_attr(const struct ibv_ah_attr *way)
{
	return (struct weftdv_ee_attr){
		.ah_attr = way,
		.path_mtu = IBV_MTU_1024,
		.rdd = ROCE_RDD,
		.sq_psn = ROCE_PSN,
		.timeout = 17,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
}

static struct weftdv_ee *ee_make(struct ibv_context *context)
{
	const struct ibv_ah_attr way = roce_way();
	const struct weftdv_ee_attr attr = ee_attr(&way);
	struct weftdv_ee *ee = weftdv_ee_create(context, &attr);

	REQUIRE(ee && weftdv_ee_number(ee) != 0);
	return ee;
}

static void rd_make(struct rd *d)
{
	roce_make(&d->r, IBV_QPT_DRIVER);
	roce_connect(&d->r);
	d->near = ee_make(d->r.context);
	d->far = ee_make(d->r.context);
	REQUIRE(weftdv_ee_connect(d->near, weftdv_ee_number(d->far), ROCE_PSN) == 0);
	REQUIRE(weftdv_ee_connect(d->far, weftdv_ee_number(d->near), ROCE_PSN) == 0);
}

static void rd_free(struct rd *d)
{
	REQUIRE(weftdv_ee_destroy(d->near) == 0);
	REQUIRE(weftdv_ee_destroy(d->far) == 0);
	roce_free(&d->r);
}

/* One segment of the near end's memory, from one of its queue pairs to one of the other's. */
struct word {
	enum ibv_wr_opcode opcode;
	uint32_t offset, length, dest, key;
	uint64_t addend;
};

static int post(struct rd *d, struct ibv_qp *from, const struct word *w)
{
	struct ibv_sge sge = { (uintptr_t)d->r.near.memory + w->offset, w->length,
			       d->r.near.mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.opcode = w->opcode,
		.imm_data = htonl(77),
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};

	if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)d->r.far.memory;
		wr.wr.atomic.rkey = d->r.far.mr->rkey;
		wr.wr.atomic.compare_add = w->addend;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)d->r.far.memory;
		wr.wr.rdma.rkey = d->r.far.mr->rkey;
	}
	return weftdv_qp_post_send_rd(from, &wr, d->near, w->dest ? w->dest : d->r.far.qp->qp_num,
				      w->key ? w->key : ROCE_QKEY);
}

static void goes(struct rd *d, struct ibv_qp *from, struct word w)
{
	struct ibv_wc wc;

	REQUIRE(post(d, from, &w) == 0);
	wc = roce_wc(&d->r.near);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, 5);
	EXPECT_EQ(wc.qp_num, from->qp_num);
}

static void send_from(struct rd *d, struct ibv_qp *from, uint32_t seed)
{
	struct ibv_wc wc;

	memset(d->r.near.memory, (int)seed, LONG);
	roce_recv(&d->r.far, seed, LONG, LONG);
	goes(d, from, (struct word){ .opcode = IBV_WR_SEND_WITH_IMM, .length = LONG });
	wc = roce_wc(&d->r.far);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, seed);
	EXPECT_EQ(wc.src_qp, from->qp_num);
	EXPECT_EQ(wc.slid, (uint16_t)weftdv_ee_number(d->far));
	EXPECT_EQ(wc.byte_len, LONG);
	EXPECT_EQ(ntohl(wc.imm_data), 77);
	EXPECT_MEM(d->r.far.memory + LONG, d->r.near.memory, LONG);
}

/* ---- What they do --------------------------------------------------------------------------- */

TEST(test_rd_01_rd_04_verbs_programs_have_reliable_datagrams)
{
	struct ibv_qp *qps[QPS];
	struct rd d;
	uint64_t was;

	rd_make(&d);
	for (uint32_t i = 0; i < QPS; i++) {
		qps[i] = i == 0 ? d.r.near.qp : roce_qp(&d.r, &d.r.near, NULL);
		if (i > 0)
			roce_to(&d.r, qps[i], IBV_QPS_RTS, 0);
		send_from(&d, qps[i], i + 1);
		memset(d.r.near.memory, 'w', LONG);
		goes(&d, qps[i], (struct word){ .opcode = IBV_WR_RDMA_WRITE, .length = LONG });
		EXPECT_MEM(d.r.far.memory, d.r.near.memory, LONG);
		memset(d.r.far.memory, 'r', LONG);
		goes(&d, qps[i], (struct word){ .opcode = IBV_WR_RDMA_READ, .length = LONG });
		EXPECT_MEM(d.r.far.memory, d.r.near.memory, LONG);
		memcpy(d.r.far.memory, &(uint64_t){ 40 + i }, 8);
		goes(&d, qps[i],
		     (struct word){
			     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .length = 8, .addend = 2 });
		memcpy(&was, d.r.near.memory, 8);
		EXPECT_EQ(was, 40 + i);
		memcpy(&was, d.r.far.memory, 8);
		EXPECT_EQ(was, 42 + i);
	}
	for (uint32_t i = 1; i < QPS; i++)
		EXPECT_EQ(ibv_destroy_qp(qps[i]), 0);
	rd_free(&d);
}

TEST(test_rd_04_a_shared_receive_queue_serves_reliable_datagrams)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_recv_wr *bad, recv = { .wr_id = 31, .num_sge = 1 };
	struct ibv_srq *srq;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	struct rd d;

	rd_make(&d);
	srq = ibv_create_srq(d.r.pd, &init);
	REQUIRE(srq);
	qp = roce_qp(&d.r, &d.r.far, srq);
	roce_to(&d.r, qp, IBV_QPS_RTS, 0);
	sge = (struct ibv_sge){ (uintptr_t)d.r.far.memory, LONG, d.r.far.mr->lkey };
	recv.sg_list = &sge;
	EXPECT_EQ(ibv_post_srq_recv(srq, &recv, &bad), 0);
	goes(&d, d.r.near.qp,
	     (struct word){ .opcode = IBV_WR_SEND, .length = 100, .dest = qp->qp_num });
	wc = roce_wc(&d.r.far);
	EXPECT_EQ(wc.wr_id, 31);
	EXPECT_EQ(wc.qp_num, qp->qp_num);
	EXPECT_EQ(wc.src_qp, d.r.near.qp->qp_num);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	rd_free(&d);
}

/* RD-04: an iterator has room for all of the context's number. */
TEST(test_rd_04_an_iterator_reads_the_context_that_a_message_came_by)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = 4,
		.wc_flags = IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID,
	};
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq *plain;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct rd d;

	rd_make(&d);
	cq = ibv_create_cq_ex(d.r.context, &init);
	REQUIRE(cq);
	plain = d.r.far.cq;
	d.r.far.cq = ibv_cq_ex_to_cq(cq);
	qp = roce_qp(&d.r, &d.r.far, NULL);
	d.r.far.cq = plain;
	roce_to(&d.r, qp, IBV_QPS_RTS, 0);
	goes(&d, d.r.near.qp,
	     (struct word){ .opcode = IBV_WR_RDMA_WRITE, .length = 8, .dest = qp->qp_num });
	{
		struct ibv_sge sge = { (uintptr_t)d.r.far.memory, LONG, d.r.far.mr->lkey };
		struct ibv_recv_wr *bad, recv = { .sg_list = &sge, .num_sge = 1 };

		EXPECT_EQ(ibv_post_recv(qp, &recv, &bad), 0);
	}
	goes(&d, d.r.near.qp,
	     (struct word){ .opcode = IBV_WR_SEND, .length = 100, .dest = qp->qp_num });
	/* It ended there before it ended here. */
	REQUIRE(ibv_start_poll(cq, &none) == 0);
	EXPECT_EQ(ibv_wc_read_src_qp(cq), d.r.near.qp->qp_num);
	EXPECT_EQ(ibv_wc_read_slid(cq), weftdv_ee_number(d.far));
	ibv_end_poll(cq);
	EXPECT_EQ(ibv_destroy_qp(qp), 0);
	EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	rd_free(&d);
}

/* ---- What they do not ----------------------------------------------------------------------- */

/* The other end refuses; the queue pair stops, and goes on when told. */
static void is_refused(struct rd *d, struct word w)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };
	struct ibv_wc wc;

	w.opcode = IBV_WR_RDMA_WRITE;
	w.length = 8;
	REQUIRE(post(d, d->r.near.qp, &w) == 0);
	wc = roce_wc(&d->r.near);
	EXPECT_EQ(wc.status, IBV_WC_REM_INV_RD_REQ_ERR);
	EXPECT_EQ(wc.vendor_err, WEFT_R_PEER_UNKNOWN);
	EXPECT_EQ(ibv_modify_qp(d->r.near.qp, &rts, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	send_from(d, d->r.near.qp, 9);
}

TEST(test_rd_04_the_other_end_refuses_keys_domains_and_numbers)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_DRIVER, .cap.max_send_wr = 1 };
	struct ibv_qp *alien;
	struct rd d;

	rd_make(&d);
	init.send_cq = init.recv_cq = d.r.far.cq;
	alien = weftdv_qp_create_rd(d.r.pd, &init, ROCE_RDD + 1);
	REQUIRE(alien);
	roce_to(&d.r, alien, IBV_QPS_RTS, 0);
	is_refused(&d, (struct word){ .key = ROCE_QKEY + 1 });
	is_refused(&d, (struct word){ .dest = alien->qp_num });
	is_refused(&d, (struct word){ .dest = d.r.far.qp->qp_num + 500 });
	/* What this end knows it says at once. */
	EXPECT_EQ(post(&d, alien, &(struct word){ .opcode = IBV_WR_SEND }), EINVAL);
	EXPECT_EQ(ibv_destroy_qp(alien), 0);
	rd_free(&d);
}

TEST(test_weftdv_rd_refuses_what_is_not_of_it)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct ibv_context other = { .cmd_fd = -1 };
	struct ibv_pd other_pd = { .context = &other };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND }, next = wr;
	struct roce r;
	struct rd d;
	uint32_t code;

	rd_make(&d);
	init.send_cq = init.recv_cq = d.r.near.cq;
	EXPECT(!weftdv_qp_create_rd(NULL, &init, 1) && errno == EOPNOTSUPP);
	EXPECT(!weftdv_qp_create_rd(&other_pd, &init, 1) && errno == EOPNOTSUPP);
	EXPECT(!weftdv_qp_create_rd(d.r.pd, &init, 1) && errno == EINVAL);
	EXPECT(!weftdv_qp_create_rd(d.r.pd, NULL, 1) && errno == EINVAL);
	init.qp_type = IBV_QPT_DRIVER;
	EXPECT(!ibv_create_qp(d.r.pd, &init) && errno == EOPNOTSUPP);
	init.send_cq = NULL;
	EXPECT(!weftdv_qp_create_rd(d.r.pd, &init, 1) && errno == EINVAL);
	/* Posting: one at a time, by a context, and of RD. */
	EXPECT_EQ(weftdv_qp_post_send_rd(NULL, &wr, d.near, 1, 1), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_send_rd(d.r.near.qp, &wr, NULL, 1, 1), EOPNOTSUPP);
	EXPECT_EQ(weftdv_qp_post_send_rd(d.r.near.qp, NULL, d.near, 1, 1), EINVAL);
	wr.next = &next;
	EXPECT_EQ(weftdv_qp_post_send_rd(d.r.near.qp, &wr, d.near, 1, 1), EINVAL);
	wr.next = NULL;
	EXPECT_EQ(ibv_post_send(d.r.near.qp, &wr, &bad), EINVAL);
	EXPECT(bad == &wr);
	wr.opcode = IBV_WR_SEND_WITH_INV; /* RD has no such packet */
	EXPECT_EQ(weftdv_qp_post_send_rd(d.r.near.qp, &wr, d.near, 1, 1), EOPNOTSUPP);
	roce_make(&r, IBV_QPT_UD);
	EXPECT_EQ(weftdv_qp_post_send_rd(r.near.qp, &wr, d.near, 1, 1), EOPNOTSUPP);
	roce_free(&r);
	/* Contexts that are none. */
	EXPECT_EQ(weftdv_ee_number(NULL), 0);
	EXPECT_EQ(weftdv_ee_connect(NULL, 1, 1), EOPNOTSUPP);
	EXPECT_EQ(weftdv_ee_reason_code(NULL, &code), EOPNOTSUPP);
	EXPECT_EQ(weftdv_ee_reason_code(d.near, NULL), EINVAL);
	EXPECT_EQ(weftdv_ee_destroy(NULL), EOPNOTSUPP);
	rd_free(&d);
}

TEST(test_weftdv_rd_refuses_bad_contexts)
{
	struct ibv_ah_attr way = roce_way();
	const struct weftdv_ee_attr good = ee_attr(&way);
	struct ibv_context other = { .cmd_fd = -1 };
	struct weftdv_ee_attr bad;
	struct qp_pair p;
	struct rd d;

	rd_make(&d);
	EXPECT(!weftdv_ee_create(NULL, &good) && errno == EOPNOTSUPP);
	EXPECT(!weftdv_ee_create(&other, &good) && errno == EOPNOTSUPP);
	EXPECT(!weftdv_ee_create(d.r.context, NULL) && errno == EINVAL);
	for (int i = 0; i < 6; i++) {
		bad = good;
		way = roce_way();
		bad.ah_attr = i == 0 ? NULL : &way;
		bad.path_mtu = i == 1 ? 0 : i == 2 ? IBV_MTU_4096 + 1 : IBV_MTU_1024;
		bad.timeout = i == 3 ? 32 : 17;
		bad.retry_cnt = i == 4 ? 8 : 7;
		way.is_global = i != 5;
		errno = 0;
		EXPECT(!weftdv_ee_create(d.r.context, &bad) && errno == EINVAL);
	}
	EXPECT_EQ(weftdv_ee_connect(d.near, weftdv_ee_number(d.far), 0), EISCONN);
	rd_free(&d);
	/* iWARP has no such service. */
	qp_pair_make(&p, NULL);
	EXPECT(!weftdv_ee_create(p.near.qp->context, &good) && errno == EOPNOTSUPP);
	EXPECT(!weftdv_qp_create_rd(p.near.qp->pd,
				    &(struct ibv_qp_init_attr){ .qp_type = IBV_QPT_DRIVER }, 1) &&
	       errno == EOPNOTSUPP);
	qp_pair_free(&p);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* The peer's context is gone, so no answer comes: this context fails, with a reason. */
TEST(test_rd_02_a_context_of_verbs_fails_and_says_why)
{
	const struct ibv_ah_attr way = roce_way();
	struct weftdv_ee_attr attr = ee_attr(&way);
	struct word w = { .opcode = IBV_WR_RDMA_WRITE, .length = 8 };
	struct weftdv_ee *good, *near;
	struct rd d;
	uint32_t code = 99;

	rd_make(&d);
	attr.timeout = 8; /* a millisecond */
	attr.retry_cnt = 1;
	near = weftdv_ee_create(d.r.context, &attr);
	REQUIRE(near);
	EXPECT_EQ(weftdv_ee_reason_code(near, &code), 0);
	EXPECT_EQ(code, WEFT_OK);
	EXPECT_EQ(weftdv_ee_connect(near, weftdv_ee_number(near) + 99, 0), 0);
	good = d.near;
	d.near = near;
	EXPECT_EQ(post(&d, d.r.near.qp, &w), 0);
	EXPECT_EQ(roce_wc(&d.r.near).status, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(weftdv_ee_reason_code(near, &code), 0);
	EXPECT_EQ(code, WEFT_R_PEER_GONE);
	EXPECT_EQ(weftdv_ee_destroy(near), 0);
	d.near = good;
	rd_free(&d);
}

/* What waits for a context that goes ends. */
TEST(test_rd_02_a_context_of_verbs_ends_what_waits_for_it)
{
	struct word w = { .opcode = IBV_WR_SEND, .length = 8 };
	struct rd d;

	rd_make(&d);
	EXPECT_EQ(post(&d, d.r.near.qp, &w), 0); /* there is no receive */
	EXPECT_EQ(weftdv_ee_destroy(d.near), 0);
	EXPECT_EQ(roce_wc(&d.r.near).status, IBV_WC_RETRY_EXC_ERR);
	EXPECT_EQ(d.r.near.qp->qp_type, IBV_QPT_DRIVER);
	d.near = ee_make(d.r.context);
	rd_free(&d);
}
