/* SPDX-License-Identifier: BSD-2-Clause */
/* One adapter that speaks over TCP and over UDP at a time. */
#include <string.h>

#include "driver/roce/roce.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

enum { BYTES = 5000, GRH = 40 };

static struct weft_qp *qp_open(const struct tcp_end *e, enum weft_qp_service service)
{
	const struct weft_qp_options o = { .send_cq = e->node.cq,
					   .recv_cq = e->node.cq,
					   .service = service };
	struct weft_qp *qp;

	MUST(weft_qp_create(e->node.pd, &o, &qp));
	return qp;
}

/* All of one end's first bytes to the other's, by any of its queue pairs. */
static void write_by(struct weft_qp *qp, struct tcp_end *near, const struct tcp_end *far,
		     uint8_t value)
{
	const struct weft_sge s = node_seg(&near->node, 0, BYTES);
	struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, value, &s, &far->node);
	uint64_t since = thread_now_ns();
	struct weft_completion c;
	bool is_there = false;

	memset(near->node.memory, value, BYTES);
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	REQUIRE(node_take(near->node.cq, &c) && c.id == value);
	while (!is_there) { /* over TCP it ends when it has left */
		REQUIRE(thread_now_ns() - since < PATIENCE_NS);
		adapter_enter(far->adapter);
		is_there = memcmp(near->node.memory, far->node.memory, BYTES) == 0;
		adapter_leave(far->adapter);
	}
}

static void datagram_by(struct weft_qp *qp, struct weft_qp *peer, struct tcp_end *near,
			struct tcp_end *far)
{
	const struct weft_path path = { .from = roce_loopback, .to = roce_loopback };
	const struct weft_sge s = node_seg(&near->node, 0, 100);
	const struct weft_sge into = node_seg(&far->node, BYTES, GRH + 100);
	const struct weft_recv_wr recv = { .id = 9, .sges = &into, .sge_count = 1 };
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 8, &s, &far->node);
	struct weft_completion c;
	struct weft_ah *ah;

	MUST(weft_qp_post_recv(peer, &recv, 1, NULL));
	MUST(weft_ah_create(near->node.pd, &path, &ah));
	wr.ah = ah;
	wr.dest_qp_number = weft_qp_number(peer);
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
	REQUIRE(node_take(near->node.cq, &c) && c.id == 8);
	REQUIRE(node_take(far->node.cq, &c) && c.id == 9);
	REQUIRE(memcmp(far->node.memory + BYTES + GRH, near->node.memory, 100) == 0);
	MUST(weft_ah_destroy(ah));
}

/* A queue pair that has a peer gets no other, by any call. */
static void expect_no_other_peer(struct weft_qp *qp, const struct tcp_end *far,
				 struct weft_qp *other)
{
	const struct weft_roce_attr r = roce_way(weft_qp_number(other));

	EXPECT_EQ(weft_qp_dial(qp, &far->at, NULL), WEFT_R_QP_STATE);
	EXPECT_EQ(weft_qp_to_rtr(qp, &r), WEFT_R_QP_STATE);
	EXPECT_EQ(weft_qp_connect(qp, other), WEFT_R_QP_STATE);
}

TEST(test_ipt_01_rc_01_rdma_over_tcp_and_udp_of_one_adapter)
{
	const char *why_not = own_network_enter();
	struct weft_qp *rc[2], *ud[2], *spare;
	struct tcp_end ends[2];

	if (why_not)
		SKIP(why_not);
	for (int i = 0; i < 2; i++) {
		tcp_end_open(&ends[i]);
		MUST(weft_roce_open(ends[i].adapter));
		rc[i] = qp_open(&ends[i], WEFT_RC);
		ud[i] = qp_open(&ends[i], WEFT_UD);
	}
	tcp_ends_connect(&ends[0], &ends[1], NULL);
	roce_start_both(rc[0], rc[1]);
	roce_start_both(ud[0], ud[1]);
	for (uint8_t i = 1; i < 6; i += 2) {
		write_by(ends[0].node.qp, &ends[0], &ends[1], i);
		write_by(rc[1], &ends[1], &ends[0], (uint8_t)(i + 1));
		datagram_by(ud[0], ud[1], &ends[0], &ends[1]);
	}
	spare = qp_open(&ends[0], WEFT_RC);
	expect_no_other_peer(ends[0].node.qp, &ends[1], spare);
	expect_no_other_peer(rc[0], &ends[1], spare);
	write_by(rc[0], &ends[0], &ends[1], 7);
	MUST(weft_qp_destroy(spare));
	for (int i = 0; i < 2; i++) {
		MUST(weft_qp_destroy(rc[i]));
		MUST(weft_qp_destroy(ud[i]));
	}
	tcp_end_close(&ends[0]);
	tcp_end_close(&ends[1]);
}
