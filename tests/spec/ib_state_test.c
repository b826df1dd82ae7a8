/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a queue pair on a port: RTR, RTS, and what may change later. */
#include <string.h>

#include "ib_bed.h"
#include "loopback/loopback.h"

enum { MTU = 256, P0 = PSN_PEERS, SLOT = 254 };

static const uint8_t data[MTU] = { 1, 2, 3, 4 };

/* Takes the next event; false if there is none. */
static bool next_event(struct ib_bed *b, enum weft_event_kind kind)
{
	struct weft_event e;

	if (!event_pop(&b->adapter.events, &e))
		return false;
	return e.kind == kind;
}

/* QP-14, IBA 10.3.1: in RTR the peer is served, and nothing can be sent but answers. */
TEST(test_qp_14_iba_10_3_1_rtr_serves_and_does_not_send)
{
	struct ib_bed *b = bed_open_receiving(NULL, WEFT_RC);
	const struct weft_sge s = { (uintptr_t)b->memory, 4, b->tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_WRITE, .sges = &s, .sge_count = 1 };
	uint32_t posted;

	EXPECT_EQ(b->qp->state, WEFT_QPS_RTR);
	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_WR_STATE);
	bed_recv(b, 1, 1024, 64);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 64), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_expect_ack(b, iba_syndrome_ack(0), P0);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 1, 0, 8), NULL, 0), WEFT_OK);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, P0 + 1);
	/* An answer, where nothing was asked. */
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 0), NULL, 0), WEFT_R_IB_PSN);
	bed_silent(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTR);
	/* And then it starts, with numbers that were not known before. */
	b->config.psn_send = 77;
	MUST(ib_start(b->conn, &b->config));
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_WRITE }, 0, 4);
	bed_expect(b, IBA_WRITE_ONLY, 77);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), 77, 1), NULL, 0));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}

/* IBA 11.6.3.2: told once, by what was taken, and only where it is news. */
TEST(test_iba_11_6_3_2_communication_is_established_in_rtr)
{
	struct ib_bed *b = bed_open_receiving(NULL, WEFT_RC);
	struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, P0, 0, 4);

	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0 + 20), data, 4), WEFT_R_IB_PSN);
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, P0 + 5), data, 4)); /* kept, not taken */
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	EXPECT(!next_event(b, WEFT_EVENT_ESTABLISHED));
	MUST(bed_put(b, p, data, 4));
	EXPECT(next_event(b, WEFT_EVENT_ESTABLISHED));
	p.psn = P0 + 1;
	MUST(bed_put(b, p, data, 4));
	EXPECT(!next_event(b, WEFT_EVENT_ESTABLISHED));
	bed_close(b);

	b = bed_open(NULL, WEFT_RC);
	p = peer_reth(b, IBA_WRITE_ONLY, P0, 0, 4);
	MUST(bed_put(b, p, data, 4));
	EXPECT(!next_event(b, WEFT_EVENT_ESTABLISHED));
	bed_close(b);
}

TEST(test_qp_14_a_start_that_is_refused_changes_nothing)
{
	struct ib_bed *b = bed_open_receiving(NULL, WEFT_RC);
	struct ib_config k = b->config;
	struct ib_conn *other;

	k.psn_send = 1 << 24;
	EXPECT_EQ(ib_start(b->conn, &k), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTR);
	k.psn_send = 0;
	MUST(ib_start(b->conn, &k));
	EXPECT_EQ(ib_start(b->conn, &k), WEFT_R_QP_STATE);
	EXPECT_EQ(ib_create(b->port, b->qp, &k, &other), WEFT_R_QP_STATE);
	k.path.mtu_bytes = 0;
	EXPECT_EQ(ib_create(b->port, b->qp, &k, &other), WEFT_R_BAD_ARGUMENT);
	k.path.mtu_bytes = 300;
	EXPECT_EQ(ib_create(b->port, b->qp, &k, &other), WEFT_R_BAD_ARGUMENT);
	k = b->config;
	k.psn_recv = 1 << 24;
	EXPECT_EQ(ib_create(b->port, b->qp, &k, &other), WEFT_R_BAD_ARGUMENT);
	/* After the queue pair has left. */
	MUST(qp_modify(b->qp, &(struct weft_qp_attr){ .state = WEFT_QPS_ERROR }, WEFT_QP_STATE));
	EXPECT_EQ(ib_start(b->conn, &b->config), WEFT_R_QP_STATE);
	bed_close(b);
}

/* IBA 11.2.5.2: most of it only while the send queue is drained. */
TEST(test_iba_11_2_5_2_what_may_change_later)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_config k = b->config;

	k.rnr_timer_code = 3;
	k.reads_out = 1;
	k.path.from.port = 0xd000;
	k.path.mtu_bytes = 0;
	MUST(ib_adjust(b->conn, &k, IB_RNR_TIMER));
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 4));
	bed_expect_ack(b, iba_syndrome_rnr(3), P0);
	EXPECT_EQ(ib_adjust(b->conn, &k, IB_RNR_TIMER | IB_READS_OUT), WEFT_R_QP_STATE);
	EXPECT_EQ(ib_adjust(b->conn, &k, 1U << 31), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(b->qp->reads_max, 2);
	/* One is under way: it is not drained before that has its answer. */
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 2 * MTU);
	bed_expect(b, IBA_WRITE_FIRST, PSN_OURS);
	bed_expect(b, IBA_WRITE_LAST, PSN_OURS + 1);
	const struct weft_qp_attr sqd = { .state = WEFT_QPS_SQD };
	MUST(qp_modify(b->qp, &sqd, WEFT_QP_STATE));
	bed_run(b);
	EXPECT_EQ(ib_adjust(b->conn, &k, IB_PATH), WEFT_R_QP_STATE);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(9), PSN_OURS + 1, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT(next_event(b, WEFT_EVENT_QP_DRAINED));
	k.reads_in = 5;
	k.retries = 1;
	k.rnr_retries = 2;
	k.timeout_code = 20;
	k.p_key = 0x8001;
	MUST(ib_adjust(b->conn, &k,
		       IB_PATH | IB_READS_OUT | IB_READS_IN | IB_RETRIES | IB_RNR_RETRIES |
			       IB_TIMEOUT | IB_P_KEY));
	EXPECT_EQ(b->qp->reads_max, 1);
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	MUST(qp_modify(b->qp, &rts, WEFT_QP_STATE));
	/* Packets are as long as before, and of the new partition. */
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_WRITE }, 0, MTU + 1);
	EXPECT_EQ(bed_next(b)->p.p_key, 0x8001);
	EXPECT_EQ(bed_next(b)->p.psn, 1);
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(9), 1, 2), NULL, 0), WEFT_R_IB_PKEY);
	/* The new timeout, twice. */
	bed_wait(b, 2 * iba_timeout_ns(20) - 1);
	bed_incomplete(b);
	bed_wait(b, 1);
	bed_completed(b, 2, WEFT_ERR_PEER_GONE);
	b->out_count = 0;
	EXPECT_EQ(ib_adjust(b->conn, &k, IB_RNR_TIMER), WEFT_R_QP_STATE);
	bed_close(b);
}

/* More Reads at a time, while some wait to be answered. */
TEST(test_iba_11_2_5_2_more_reads_of_the_peer)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct weft_qp_attr sqd = { .state = WEFT_QPS_SQD };
	struct ib_config k = b->config;

	MUST(qp_modify(b->qp, &sqd, WEFT_QP_STATE));
	bed_run(b);
	b->is_held = true;
	for (uint32_t i = 0; i < 2; i++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + i, i, 8), NULL, 0));
	k.reads_in = 4;
	MUST(ib_adjust(b->conn, &k, IB_READS_IN));
	for (uint32_t i = 2; i < 4; i++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + i, i, 8), NULL, 0));
	b->is_held = false;
	bed_run(b);
	for (uint32_t i = 0; i < 4; i++) {
		struct bed_packet *p = bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(P0, i));

		EXPECT_MEM(p->payload, b->memory + i, 8);
	}
	EXPECT_EQ(b->qp->state, WEFT_QPS_SQD);
	bed_close(b);
}

/* Whose a queue pair is can be read from its number. */
TEST(test_qp_15_numbers_of_a_place)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct weft_qp_options o = { .send_cq = b->cq, .recv_cq = b->cq };
	uint32_t old = b->qp->number, first = 0;

	adapter_set_slot(&b->adapter, SLOT, 0);
	EXPECT(id_table_find(&b->adapter.qps, old) == b->qp);
	for (uint32_t i = 0; i < 20; i++) {
		struct weft_qp *qp;

		MUST(qp_create(b->pd, &o, &loopback_transport, &qp));
		EXPECT_EQ(qp->number >> 16, SLOT);
		EXPECT(qp->number != IBA_QPN_MULTICAST);
		first = first ? first : qp->number;
		EXPECT_EQ(qp->number == first, i % 7 == 0);
		qp_destroy(qp);
	}
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 4), data, 4), WEFT_OK);
	bed_close(b);
}
