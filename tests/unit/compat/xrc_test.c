/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: domains, shared receive queues and queue pairs of it, as programs see them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"
#include "unit/compat/roce_fixture.h"

/* Beside two queue pairs that are not used: a sender, a receiver, and a queue of its domain. */
struct xrc {
	struct roce r;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *sends, *recvs;
	uint32_t srq_number;
};

static struct ibv_xrcd *xrcd_open(struct ibv_context *context, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = oflags,
	};

	errno = 0;
	return ibv_open_xrcd(context, &attr);
}

static struct ibv_srq *srq_make(struct xrc *x, struct ibv_xrcd *xrcd)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 8, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_XRCD,
		.srq_type = IBV_SRQT_XRC,
		.pd = x->r.pd,
		.xrcd = xrcd,
		.cq = x->r.far.cq,
	};

	return ibv_create_srq_ex(x->r.context, &attr);
}

/* With all that RC has: what one half of XRC has no use for is dropped, as Linux does it. */
static void to_rts(struct xrc *x, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr;
	int mask;

	x->r.type = IBV_QPT_RC;
	mask = roce_attr(&x->r, IBV_QPS_INIT, peer, &attr);
	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
	mask = roce_attr(&x->r, IBV_QPS_RTR, peer, &attr);
	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
	mask = roce_attr(&x->r, IBV_QPS_RTS, peer, &attr);
	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void xrc_make(struct xrc *x)
{
	struct ibv_qp_init_attr_ex send = {
		.cap = { .max_send_wr = 8, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM,
	};
	struct ibv_qp_init_attr_ex recv = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	roce_make(&x->r, IBV_QPT_RC);
	x->xrcd = xrcd_open(x->r.context, -1, O_CREAT);
	REQUIRE(x->xrcd);
	x->srq = srq_make(x, x->xrcd);
	REQUIRE(x->srq && ibv_get_srq_num(x->srq, &x->srq_number) == 0);
	send.pd = x->r.pd;
	send.send_cq = x->r.near.cq;
	recv.xrcd = x->xrcd;
	x->sends = ibv_create_qp_ex(x->r.context, &send);
	x->recvs = ibv_create_qp_ex(x->r.context, &recv);
	REQUIRE(x->sends && x->recvs);
	to_rts(x, x->sends, x->recvs->qp_num);
	to_rts(x, x->recvs, x->sends->qp_num);
}

static void xrc_free(struct xrc *x)
{
	REQUIRE(ibv_destroy_qp(x->sends) == 0 && ibv_destroy_qp(x->recvs) == 0);
	REQUIRE(ibv_destroy_srq(x->srq) == 0);
	REQUIRE(ibv_close_xrcd(x->xrcd) == 0);
	roce_free(&x->r);
}

static void recv_post(struct xrc *x, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)x->r.far.memory, 4096, x->r.far.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	REQUIRE(ibv_post_srq_recv(x->srq, &wr, &bad) == 0);
}

static enum ibv_wc_status send_to(struct xrc *x, enum ibv_wr_opcode opcode, uint32_t srq_number)
{
	struct ibv_sge sge = { (uintptr_t)x->r.near.memory, 2000, x->r.near.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = opcode,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)x->r.far.memory, x->r.far.mr->rkey },
		.qp_type.xrc.remote_srqn = srq_number,
	};

	REQUIRE(ibv_post_send(x->sends, &wr, &bad) == 0);
	return roce_wc(&x->r.near).status;
}

TEST(test_xrc_sends_arrive_at_the_shared_receive_queue)
{
	struct ibv_wc wc;
	struct xrc x;

	xrc_make(&x);
	memset(x.r.near.memory, 9, 2000);
	recv_post(&x, 77);
	EXPECT_EQ(send_to(&x, IBV_WR_SEND, x.srq_number), IBV_WC_SUCCESS);
	wc = roce_wc(&x.r.far);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.wr_id, 77);
	EXPECT_EQ(wc.byte_len, 2000);
	EXPECT_EQ(wc.qp_num, x.recvs->qp_num);
	EXPECT_MEM(x.r.far.memory, x.r.near.memory, 2000);
	memset(x.r.near.memory, 10, 2000);
	EXPECT_EQ(send_to(&x, IBV_WR_RDMA_WRITE, x.srq_number), IBV_WC_SUCCESS);
	EXPECT_MEM(x.r.far.memory, x.r.near.memory, 2000);
	memset(x.r.far.memory, 11, 2000);
	EXPECT_EQ(send_to(&x, IBV_WR_RDMA_READ, x.srq_number), IBV_WC_SUCCESS);
	EXPECT_MEM(x.r.far.memory, x.r.near.memory, 2000);
	xrc_free(&x);
}

TEST(test_xrc_builders_name_the_queue)
{
	struct ibv_qp_ex *ex;
	struct ibv_wc wc;
	struct xrc x;

	xrc_make(&x);
	recv_post(&x, 5);
	ex = ibv_qp_to_qp_ex(x.sends);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(ex, 42);
	ibv_wr_set_xrc_srqn(ex, x.srq_number);
	ibv_wr_set_sge(ex, x.r.near.mr->lkey, (uintptr_t)x.r.near.memory, 8);
	EXPECT_EQ(ibv_wr_complete(ex), 0);
	wc = roce_wc(&x.r.far);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 5 && wc.imm_data == 42);
	EXPECT_EQ(roce_wc(&x.r.near).status, IBV_WC_SUCCESS);
	xrc_free(&x);
}

TEST(test_xrc_a_queue_of_another_domain_is_refused)
{
	struct ibv_xrcd *other;
	struct ibv_srq *srq;
	uint32_t number;
	struct xrc x;

	xrc_make(&x);
	other = xrcd_open(x.r.context, -1, 0);
	REQUIRE(other);
	srq = srq_make(&x, other);
	REQUIRE(srq && ibv_get_srq_num(srq, &number) == 0);
	EXPECT_EQ(send_to(&x, IBV_WR_RDMA_WRITE, number), IBV_WC_REM_INV_REQ_ERR);
	EXPECT_EQ(ibv_close_xrcd(other), EBUSY);
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	EXPECT_EQ(ibv_close_xrcd(other), 0);
	xrc_free(&x);
}

TEST(test_xrc_nothing_goes_before_what_was_made_with_it)
{
	struct xrc x;

	xrc_make(&x);
	EXPECT_EQ(ibv_close_xrcd(x.xrcd), EBUSY);
	EXPECT_EQ(ibv_destroy_cq(x.r.far.cq), EBUSY);
	EXPECT(!x.recvs->pd && !x.recvs->send_cq && !x.recvs->recv_cq);
	xrc_free(&x);
}

/* A domain that only another process can have is refused, and why is said to who asks. */
static void expect_said(struct ibv_context *context, int fd)
{
	int before = dup(STDERR_FILENO), ends[2];
	char text[512] = "";

	REQUIRE(before >= 0 && pipe(ends) == 0);
	REQUIRE(setenv("WEFT_LOG", "error", 1) == 0);
	dup2(ends[1], STDERR_FILENO);
	EXPECT(!xrcd_open(context, fd, 0));
	EXPECT_EQ(errno, EAGAIN);
	dup2(before, STDERR_FILENO);
	unsetenv("WEFT_LOG");
	close(ends[1]);
	EXPECT(read(ends[0], text, sizeof(text) - 1) > 0 && strstr(text, "of another process"));
	close(ends[0]);
	close(before);
}

/* man ibv_open_xrcd: one file, one domain. */
TEST(test_xrc_domains_are_shared_by_file)
{
	char path[] = "/tmp/xrc_XXXXXX";
	struct ibv_xrcd *one, *two;
	struct ibv_srq *srq;
	uint32_t number;
	struct xrc x;
	int fd = mkstemp(path);

	REQUIRE(fd >= 0 && unlink(path) == 0);
	roce_make(&x.r, IBV_QPT_RC);
	expect_said(x.r.context, fd); /* there is none yet */
	one = xrcd_open(x.r.context, fd, O_CREAT);
	two = xrcd_open(x.r.context, fd, 0);
	REQUIRE(one && two && one != two);
	EXPECT(!xrcd_open(x.r.context, fd, O_CREAT | O_EXCL));
	EXPECT_EQ(errno, EINVAL);
	roce_free(&x.r);

	/* A queue of the one serves a queue pair of the other. */
	xrc_make(&x);
	EXPECT_EQ(ibv_destroy_qp(x.recvs), 0);
	x.recvs = ibv_create_qp_ex(
		x.r.context, &(struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
							    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
							    .xrcd = one });
	REQUIRE(x.recvs);
	srq = srq_make(&x, two);
	REQUIRE(srq && ibv_get_srq_num(srq, &number) == 0);
	EXPECT_EQ(ibv_destroy_qp(x.sends), 0);
	x.sends = ibv_create_qp_ex(x.r.context,
				   &(struct ibv_qp_init_attr_ex){ .cap = { .max_send_wr = 1 },
								  .qp_type = IBV_QPT_XRC_SEND,
								  .send_cq = x.r.near.cq,
								  .comp_mask = IBV_QP_INIT_ATTR_PD,
								  .pd = x.r.pd });
	REQUIRE(x.sends);
	to_rts(&x, x.sends, x.recvs->qp_num);
	to_rts(&x, x.recvs, x.sends->qp_num);
	EXPECT_EQ(send_to(&x, IBV_WR_RDMA_WRITE, number), IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	xrc_free(&x);
	EXPECT_EQ(ibv_close_xrcd(one), 0);
	EXPECT_EQ(ibv_close_xrcd(two), 0);
	REQUIRE(close(fd) == 0);
}

TEST(test_xrc_refusals)
{
	struct ibv_qp_init_attr_ex recv = { .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_srq_init_attr_ex srq = {
		.attr = { .max_wr = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
	};
	/* Which file, but not how it is shared. */
	struct ibv_xrcd_init_attr half = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_recv_wr *bad, wr = { 0 };
	struct ibv_srq *basic;
	uint32_t number;
	struct xrc x;

	xrc_make(&x);
	errno = 0;
	EXPECT(!ibv_create_qp_ex(x.r.context, &recv));
	EXPECT_EQ(errno, EINVAL);
	srq.pd = x.r.pd;
	errno = 0;
	EXPECT(!ibv_create_srq_ex(x.r.context, &srq));
	EXPECT_EQ(errno, EINVAL);
	EXPECT(!xrcd_open(x.r.context, 1 << 20, O_CREAT));
	EXPECT_EQ(errno, EBADF);
	errno = 0;
	EXPECT(!ibv_open_xrcd(x.r.context, &half));
	EXPECT_EQ(errno, EINVAL);
	EXPECT(ibv_post_recv(x.sends, &wr, &bad) != 0);
	basic = ibv_create_srq(x.r.pd, &plain);
	REQUIRE(basic);
	EXPECT_EQ(ibv_get_srq_num(basic, &number), EINVAL);
	EXPECT_EQ(ibv_destroy_srq(basic), 0);
	xrc_free(&x);
}
