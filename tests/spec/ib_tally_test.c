/* SPDX-License-Identifier: BSD-2-Clause */
/* What is counted of a queue pair and of the port, while packets are lost, repeated and refused. */
#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS };

static const uint8_t data[MTU];

static uint32_t out_psn(uint32_t n)
{
	return iba_psn_add(PSN_OURS, n);
}

/* However often its packets went out, and in which order they were lost. */
TEST(test_ib_tally_a_message_that_is_sent_again_counts_once)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct qp_tally *t = &b->qp->tally;

	EXPECT(t->is_begun);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 3 * MTU);
	for (uint32_t n = 0; n < 3; n++)
		(void)bed_next(b);
	EXPECT_EQ(t->messages_out, 1);
	EXPECT_EQ(t->payload_out, 3 * MTU);
	EXPECT_EQ(t->packets_out, 3);
	/* The second was lost. */
	MUST(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), out_psn(1), 0), NULL, 0));
	bed_expect(b, IBA_WRITE_MIDDLE, out_psn(1));
	bed_expect(b, IBA_WRITE_LAST, out_psn(2));
	EXPECT_EQ(t->messages_out, 1);
	EXPECT_EQ(t->payload_out, 3 * MTU);
	EXPECT_EQ(t->packets_out, 5);
	EXPECT_EQ(t->bytes_out, 5 * (IBA_BTH_BYTES + IBA_ICRC_BYTES) + 16 + 5 * MTU);
	EXPECT_EQ(t->resent, 2);
	EXPECT_EQ(t->naks_in, 1);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), out_psn(2), 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(t->packets_in, 2);
	EXPECT_EQ(t->bytes_in, 2 * (IBA_BTH_BYTES + 4 + IBA_ICRC_BYTES));
	EXPECT_EQ(t->messages_in, 0);
	EXPECT_EQ(ib_port_counts(b->port)->messages_out, 1);
	bed_close(b);
}

TEST(test_ib_tally_a_read_and_its_answer_are_messages)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct qp_tally *t = &b->qp->tally;
	struct iba_packet last = peer_op(IBA_READ_RESPONSE_LAST, out_psn(1));
	struct iba_packet first = peer_op(IBA_READ_RESPONSE_FIRST, PSN_OURS);

	last.syndrome = first.syndrome = iba_syndrome_ack(31);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, MTU + 8);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	MUST(bed_put(b, first, data, MTU));
	EXPECT_EQ(t->messages_in, 0);
	MUST(bed_put(b, last, data, 8));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(t->messages_out, 1);
	EXPECT_EQ(t->messages_in, 1);
	EXPECT_EQ(t->payload_in, MTU + 8);
	EXPECT_EQ(t->payload_out, 0);
	/* And the other way round; asked for again it is the same. */
	for (int i = 0; i < 2; i++) {
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0, 0, MTU + 8), NULL, 0));
		(void)bed_next(b);
		(void)bed_next(b);
	}
	EXPECT_EQ(t->messages_out, 2);
	EXPECT_EQ(t->messages_in, 2);
	EXPECT_EQ(t->payload_out, MTU + 8);
	EXPECT_EQ(t->duplicates, 1);
	bed_close(b);
}

TEST(test_ib_tally_what_comes_is_counted_when_it_is_whole)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct qp_tally *t = &b->qp->tally;

	MUST(bed_put(b, peer_op(IBA_SEND_FIRST, P0), data, MTU));
	EXPECT_EQ(t->rnrs_out, 1);
	EXPECT_EQ(t->messages_in, 0);
	bed_recv(b, 5, 0, 4 * MTU);
	b->out_count = 0;
	MUST(bed_put(b, peer_op(IBA_SEND_FIRST, P0), data, MTU));
	EXPECT_EQ(t->messages_in, 0);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 20), data, 8), WEFT_R_IB_PSN);
	EXPECT_EQ(t->naks_out, 1);
	MUST(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 1), data, 8));
	bed_completed(b, 5, WEFT_SUCCESS);
	EXPECT_EQ(t->messages_in, 1);
	EXPECT_EQ(t->payload_in, MTU + 8);
	MUST(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 1), data, 8));
	EXPECT_EQ(t->messages_in, 1);
	EXPECT_EQ(t->duplicates, 1);
	b->out_count = 0;
	bed_close(b);
}

static void damage(uint8_t *bytes, size_t *length)
{
	bytes[*length - 1] ^= 1;
}

/* By reason; and none of it is the queue pair's. */
TEST(test_ib_tally_drops_are_told_apart)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct bed_way damaged = { .from = b->config.path.to, .change = damage };
	struct bed_way other = { .from = b->config.path.to };
	struct iba_packet p = peer_op(IBA_SEND_ONLY, P0);

	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	other.from.address[3] ^= 1;
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(bed_put_by(b, &damaged, p, data, 8), WEFT_R_IB_ICRC);
	EXPECT_EQ(bed_put_by(b, &other, p, data, 8), WEFT_R_IB_SOURCE);
	EXPECT_EQ(ib_port_dropped(b->port, WEFT_R_IB_ICRC), 3);
	EXPECT_EQ(ib_port_dropped(b->port, WEFT_R_IB_SOURCE), 1);
	EXPECT_EQ(ib_port_counts(b->port)->dropped, 4);
	EXPECT_EQ(b->qp->tally.packets_in, 0);
	bed_close(b);
}

/* When its connection has ended, it can still be seen what there was; a new one begins at 0. */
TEST(test_ib_tally_outlives_the_connection)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	const struct qp_tally *t = &b->qp->tally;
	struct ib_config k = b->config;

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 8), data, 8));
	bed_expect_ack(b, iba_syndrome_ack(0), P0);
	bed_reset(b);
	EXPECT_EQ(t->messages_in, 1);
	MUST(ib_create(b->port, b->qp, &k, &b->conn));
	EXPECT_EQ(t->messages_in, 0);
	EXPECT(t->is_begun);
	bed_close(b);
}

TEST(test_ib_tally_timeouts)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 8);
	for (int i = 0; i < 1000 && b->qp->tally.timeouts < 2; i++)
		bed_wait(b, iba_timeout_ns(14) / 8);
	EXPECT_EQ(b->qp->tally.timeouts, 2);
	EXPECT_EQ(ib_port_counts(b->port)->timeouts, 2);
	EXPECT_EQ(b->qp->tally.messages_out, 1);
	EXPECT(b->qp->tally.resent >= 2);
	b->out_count = 0;
	bed_close(b);
}

TEST(test_ib_tally_datagrams)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);
	const struct qp_tally *t = &b->qp->tally;

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, MTU + 1);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(t->messages_out, 1);
	EXPECT_EQ(t->payload_out, MTU + 1);
	EXPECT_EQ(t->packets_out, 2);
	b->out_count = 0;
	bed_close(b);
}
