/* SPDX-License-Identifier: BSD-2-Clause */
/* RC and UC over RoCE: what programs see of messages, of failures, and of events. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "test.h"
#include "unit/compat/roce_fixture.h"

static void expect_status(struct roce_end *e, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = roce_wc(e);

	EXPECT_EQ(wc.wr_id, id);
	EXPECT_STR(ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* Of the other end's memory. */
static struct ibv_send_wr remote(enum ibv_wr_opcode opcode, const struct roce_end *to,
				 uint64_t offset)
{
	return (struct ibv_send_wr){
		.wr_id = 1,
		.opcode = opcode,
		.wr.rdma = { (uintptr_t)to->memory + offset, to->mr->rkey },
	};
}

static struct ibv_send_wr atomic(enum ibv_wr_opcode opcode, const struct roce_end *to,
				 uint64_t compare_add, uint64_t swap)
{
	return (struct ibv_send_wr){
		.wr_id = 1,
		.opcode = opcode,
		.wr.atomic = { (uintptr_t)to->memory, compare_add, swap, to->mr->rkey },
	};
}

TEST(test_roce_rc_carries_messages_of_every_kind)
{
	struct ibv_send_wr wr;
	struct ibv_wc wc;
	struct roce r;
	uint64_t word;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	memset(r.near.memory, 'a', 5000);
	roce_recv(&r.far, 7, 0, 8192);
	wr = (struct ibv_send_wr){ .wr_id = 2,
				   .opcode = IBV_WR_SEND_WITH_IMM,
				   .imm_data = htonl(0x1234) };
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 5000), 0);
	wc = roce_wc(&r.far);
	EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, 5000);
	EXPECT_EQ(wc.wc_flags, IBV_WC_WITH_IMM);
	EXPECT_EQ(ntohl(wc.imm_data), 0x1234);
	EXPECT_EQ(wc.qp_num, r.far.qp->qp_num);
	EXPECT_MEM(r.far.memory, r.near.memory, 5000);
	wc = roce_wc(&r.near);
	EXPECT_EQ(wc.wr_id, 2);
	EXPECT_EQ(wc.opcode, IBV_WC_SEND);

	wr = remote(IBV_WR_RDMA_WRITE, &r.far, 8192);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 100), 0);
	EXPECT_EQ(roce_wc(&r.near).opcode, IBV_WC_RDMA_WRITE);
	EXPECT_MEM(r.far.memory + 8192, r.near.memory, 100);

	roce_recv(&r.far, 8, 0, 0);
	wr = remote(IBV_WR_RDMA_WRITE_WITH_IMM, &r.far, 8192);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 100), 0);
	wc = roce_wc(&r.far);
	EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc.byte_len, 100);
	EXPECT_EQ(roce_wc(&r.near).opcode, IBV_WC_RDMA_WRITE);

	wr = remote(IBV_WR_RDMA_READ, &r.far, 8192);
	EXPECT_EQ(roce_post(&r.near, &wr, 16384, 100), 0);
	EXPECT_EQ(roce_wc(&r.near).opcode, IBV_WC_RDMA_READ);
	EXPECT_MEM(r.near.memory + 16384, r.near.memory, 100);

	memset(r.far.memory, 0, 8);
	wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, &r.far, 5, 0);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	EXPECT_EQ(roce_wc(&r.near).opcode, IBV_WC_FETCH_ADD);
	wr = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, &r.far, 5, 6);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	EXPECT_EQ(roce_wc(&r.near).opcode, IBV_WC_COMP_SWAP);
	memcpy(&word, r.near.memory, sizeof(word));
	EXPECT_EQ(word, 5);
	memcpy(&word, r.far.memory, sizeof(word));
	EXPECT_EQ(word, 6);
	roce_free(&r);
}

TEST(test_roce_uc_carries_sends_and_writes_and_nothing_else)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_UC);
	roce_connect(&r);
	memset(r.near.memory, 'u', 3000);
	roce_recv(&r.far, 7, 0, 4096);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 3000), 0);
	expect_status(&r.near, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(roce_wc(&r.far).byte_len, 3000);
	EXPECT_MEM(r.far.memory, r.near.memory, 3000);
	roce_recv(&r.far, 8, 0, 0);
	wr = remote(IBV_WR_RDMA_WRITE_WITH_IMM, &r.far, 8192);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 3000), 0);
	EXPECT_EQ(roce_wc(&r.far).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_MEM(r.far.memory + 8192, r.near.memory, 3000);
	wr = remote(IBV_WR_RDMA_READ, &r.far, 0);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), EOPNOTSUPP);
	roce_free(&r);
}

/* IBA 11.6.2: the statuses of requests that failed there. */
TEST(test_roce_rc_failures_of_the_other_end_have_their_status)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		uint64_t offset;
		uint32_t length;
		enum ibv_wc_status status;
		enum ibv_event_type event;
	} cases[] = {
		{ IBV_WR_RDMA_WRITE, ROCE_BYTES - 8, 16, IBV_WC_REM_ACCESS_ERR,
		  IBV_EVENT_QP_ACCESS_ERR },
		{ IBV_WR_RDMA_READ, ROCE_BYTES - 8, 16, IBV_WC_REM_ACCESS_ERR,
		  IBV_EVENT_QP_ACCESS_ERR },
		{ IBV_WR_SEND, 0, 64, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_COMM_EST },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ibv_send_wr wr;
		struct roce r;

		roce_make(&r, IBV_QPT_RC);
		roce_connect(&r);
		roce_recv(&r.far, 7, 0, 8); /* too short for a Send */
		wr = remote(cases[i].opcode, &r.far, cases[i].offset);
		EXPECT_EQ(roce_post(&r.near, &wr, 0, cases[i].length), 0);
		expect_status(&r.near, 1, cases[i].status);
		if (cases[i].opcode == IBV_WR_SEND)
			expect_status(&r.far, 7, IBV_WC_LOC_LEN_ERR);
		else
			roce_expect_event(r.context, cases[i].event);
		EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
		expect_status(&r.near, 1, IBV_WC_WR_FLUSH_ERR);
		roce_free(&r);
	}
}

TEST(test_roce_rc_rights_of_the_queue_pair_count)
{
	struct ibv_qp_attr none = { .qp_access_flags = 0 };
	struct ibv_send_wr wr;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	EXPECT_EQ(ibv_modify_qp(r.far.qp, &none, IBV_QP_ACCESS_FLAGS), 0);
	wr = remote(IBV_WR_RDMA_WRITE, &r.far, 0);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	expect_status(&r.near, 1, IBV_WC_REM_ACCESS_ERR);
	roce_free(&r);
}

TEST(test_roce_rc_receiver_that_is_not_ready_ends_after_its_retries)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_connect(&r);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	expect_status(&r.near, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	roce_free(&r);
}

TEST(test_roce_rc_peer_that_does_not_answer_ends_after_its_retries)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_to(&r, r.near.qp, IBV_QPS_RTS, r.far.qp->qp_num); /* which stays in RESET */
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	expect_status(&r.near, 1, IBV_WC_RETRY_EXC_ERR);
	EXPECT(roce_has_no_event(r.context)); /* the completion told it */
	roce_free(&r);
}

/* IBA 11.6.3.1: the first message that comes to one that is in RTR. */
TEST(test_roce_first_message_in_rtr_raises_an_event)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	roce_to(&r, r.far.qp, IBV_QPS_RTR, r.near.qp->qp_num);
	roce_to(&r, r.near.qp, IBV_QPS_RTS, r.far.qp->qp_num);
	roce_recv(&r.far, 7, 0, 64);
	EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
	expect_status(&r.near, 1, IBV_WC_SUCCESS);
	expect_status(&r.far, 7, IBV_WC_SUCCESS);
	roce_expect_event(r.context, IBV_EVENT_COMM_EST);
	roce_free(&r);
}

TEST(test_roce_last_wqe_of_a_shared_receive_queue_raises_an_event)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_srq *srq;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	srq = ibv_create_srq(r.pd, &attr);
	REQUIRE(srq);
	REQUIRE(ibv_destroy_qp(r.far.qp) == 0);
	r.far.qp = roce_qp(&r, &r.far, srq);
	roce_connect(&r);
	EXPECT_EQ(ibv_modify_qp(r.far.qp, &error, IBV_QP_STATE), 0);
	roce_expect_event(r.context, IBV_EVENT_QP_LAST_WQE_REACHED);
	REQUIRE(ibv_destroy_qp(r.far.qp) == 0);
	r.far.qp = NULL;
	EXPECT_EQ(ibv_destroy_srq(srq), 0);
	roce_free(&r);
}

TEST(test_roce_rc_works_again_after_a_reset)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	for (int i = 0; i < 3; i++) {
		roce_connect(&r);
		roce_recv(&r.far, 7, 0, 64);
		EXPECT_EQ(roce_post(&r.near, &wr, 0, 8), 0);
		expect_status(&r.near, 1, IBV_WC_SUCCESS);
		expect_status(&r.far, 7, IBV_WC_SUCCESS);
		EXPECT_EQ(ibv_modify_qp(r.near.qp, &reset, IBV_QP_STATE), 0);
		EXPECT_EQ(ibv_modify_qp(r.far.qp, &reset, IBV_QP_STATE), 0);
	}
	roce_free(&r);
}

/* A thread that sleeps until a completion also hears of failures: once per arming. */
TEST(test_roce_an_armed_queue_tells_of_requests_that_failed)
{
	struct ibv_comp_channel *channel;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct pollfd p = { .events = POLLIN };
	struct roce_end slow;
	struct ibv_cq *event_cq;
	struct ibv_wc wc;
	void *context;
	struct roce r;

	roce_make(&r, IBV_QPT_RC);
	channel = ibv_create_comp_channel(r.context);
	REQUIRE(channel);
	p.fd = channel->fd;
	slow = r.near;
	slow.cq = ibv_create_cq(r.context, ROCE_DEPTH, NULL, channel, 0);
	REQUIRE(slow.cq);
	slow.qp = roce_qp(&r, &slow, NULL);
	roce_to(&r, slow.qp, IBV_QPS_RTS, r.far.qp->qp_num);
	roce_to(&r, r.far.qp, IBV_QPS_RTS, slow.qp->qp_num);
	REQUIRE(ibv_req_notify_cq(slow.cq, 0) == 0);
	roce_recv(&r.far, 1, 0, 4096);
	for (uint64_t i = 0; i < 4; i++)
		REQUIRE(roce_post(&slow, &wr, 0, 4096) == 0);
	for (int completions = 0; completions < 4;) {
		REQUIRE(poll(&p, 1, 10000) == 1);
		REQUIRE(ibv_get_cq_event(channel, &event_cq, &context) == 0);
		ibv_ack_cq_events(event_cq, 1);
		REQUIRE(ibv_req_notify_cq(event_cq, 0) == 0);
		while (ibv_poll_cq(event_cq, 1, &wc) == 1) {
			EXPECT_EQ(wc.status, completions == 0	? IBV_WC_SUCCESS
					     : completions == 1 ? IBV_WC_RNR_RETRY_EXC_ERR
								: IBV_WC_WR_FLUSH_ERR);
			completions++;
		}
	}
	EXPECT_EQ(ibv_destroy_qp(slow.qp), 0);
	EXPECT_EQ(ibv_destroy_cq(slow.cq), 0);
	EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
	roce_free(&r);
}
