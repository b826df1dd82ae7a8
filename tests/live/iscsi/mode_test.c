/* SPDX-License-Identifier: BSD-2-Clause */
/* The mode of a queue pair (ISCSI-01a): what is for it, and what is for others. */
#include "live/iscsi/live_iscsi.h"
#include "live/roce/roce_way.h"
#include "own_network.h"

TEST(test_iscsi_01a_live_calls_of_this_mode_refuse_others)
{
	struct weft_iscsi_terms terms = { 0 };
	struct weft_iscsi_attr attr;
	struct weft_qp_options options;
	struct weft_qp *rc;
	struct consumer c;
	uint32_t tag;

	consumer_open(&c, NULL);
	options = (struct weft_qp_options){ .send_cq = c.sent, .recv_cq = c.received };
	MUST(weft_qp_create(c.pd, &options, &rc));
	EXPECT_EQ(weft_qp_modify_iscsi(rc, &terms), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_query_iscsi(rc, &attr), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_command_tag(rc, 1, &tag), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_end_command(rc, 1), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_modify_iscsi(c.qp, &terms), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(weft_qp_query_iscsi(c.qp, &attr), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(weft_qp_command_tag(c.qp, 1, &tag), WEFT_R_ISCSI_COMMAND);
	EXPECT_EQ(weft_qp_end_command(c.qp, 1), WEFT_R_ISCSI_COMMAND);
	EXPECT_EQ(weft_qp_modify_iscsi(c.qp, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_query_iscsi(c.qp, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_qp_command_tag(c.qp, 1, NULL), WEFT_R_NULL_ARGUMENT);
	MUST(weft_qp_destroy(rc));
	consumer_close(&c);
	MUST(weft_adapter_close(c.adapter));
}

/* It has no peer by RDMA, by none of the ways to get one. */
TEST(test_iscsi_01a_live_no_peer_by_rdma)
{
	const char *why_not = own_network_enter();
	const struct weft_roce_attr way = roce_way(77);
	struct consumer_options options = { 0 };
	struct weft_request *request;
	struct weft_qp *other;
	struct tcp_end rdma;
	struct consumer c;

	if (why_not)
		SKIP(why_not);
	options.beside = roce_adapter_open();
	consumer_open(&c, &options);
	other = consumer_qp(&c, &options);
	EXPECT_EQ(weft_qp_to_rtr(c.qp, &way), WEFT_R_WR_SERVICE);
	EXPECT_EQ(weft_qp_to_rts(c.qp, &way), WEFT_R_QP_STATE);
	EXPECT_EQ(weft_qp_connect(c.qp, other), WEFT_R_BAD_ARGUMENT);
	tcp_end_open_with(&rdma, &node_tables, NODE_BYTES);
	MUST(weft_qp_dial(rdma.node.qp, &rdma.at, NULL));
	tcp_end_await(&rdma, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&rdma);
	EXPECT_EQ(weft_request_accept(request, c.qp, NULL), WEFT_R_BAD_ARGUMENT);
	MUST(weft_request_reject(request, NULL));
	tcp_end_close(&rdma);
	MUST(weft_qp_destroy(other));
	consumer_close(&c);
	MUST(weft_adapter_close(options.beside));
}

/* A connection that came for RDMA, of the same adapter. */
TEST(test_iscsi_01a_live_no_request_for_rdma)
{
	struct consumer_options options = { 0 };
	struct weft_request *request;
	struct tcp_end rdma;
	struct consumer c;

	tcp_end_open(&rdma);
	options.beside = rdma.adapter;
	consumer_open(&c, &options);
	MUST(weft_qp_dial(rdma.node.qp, &rdma.at, NULL));
	tcp_end_await(&rdma, WEFT_EVENT_REQUEST);
	request = tcp_end_request(&rdma);
	EXPECT_EQ(weft_request_accept(request, c.qp, NULL), WEFT_R_WR_SERVICE);
	MUST(weft_request_reject(request, NULL));
	consumer_close(&c);
	tcp_end_close(&rdma);
}
