/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RC-04: packets that the peer's host sends back, as no process receives them. A requester tries
 * again soon, and ends with retries exceeded if the peer does not answer; one that answers goes on.
 */
#include "ib_bed.h"

/* One ACK timeout of code 14 (IBA 9.7.6.1.3). */
static const uint64_t timeout_ns = UINT64_C(4096) << 14;

static const struct weft_send_wr write_wr = { .id = 1, .opcode = WEFT_OP_WRITE };

/* As the kernel quotes what was sent. */
static struct ib_returned returned(const struct ib_bed *b, enum iba_op op, uint32_t psn)
{
	const struct iba_packet p = { .opcode = iba_opcode(IBA_RC, op),
				      .dest_qp = PEER_QP,
				      .psn = psn & WEFT_PSN_MAX };
	struct ib_returned packet = { .from = b->config.path.from, .to = b->config.path.to };
	uint8_t bytes[IBA_HEADERS_MAX];

	(void)iba_encode(&p, bytes);
	memcpy(packet.bytes, bytes, sizeof(packet.bytes));
	return packet;
}

static void give_back(struct ib_bed *b, struct ib_returned packet)
{
	ib_port_returned(b->port, b->now_ns, &packet);
	bed_wait(b, 0);
}

static struct ib_bed *bed_writing(const struct ib_config *config)
{
	struct ib_bed *b = bed_open(config, WEFT_RC);

	bed_post(b, write_wr, 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, PSN_OURS);
	bed_silent(b);
	return b;
}

TEST(test_rc_04_a_peer_whose_host_sends_packets_back_is_given_up_after_one_timeout)
{
	struct ib_bed *b = bed_writing(NULL);
	uint32_t tries = 0;

	give_back(b, returned(b, IBA_WRITE_ONLY, PSN_OURS));
	for (; b->qp->state == WEFT_QPS_RTS; tries++) {
		REQUIRE(tries < 100);
		bed_expect(b, IBA_WRITE_ONLY, PSN_OURS);
		bed_silent(b);
		bed_wait(b, timeout_ns / 8);
	}
	EXPECT(tries > 4);
	EXPECT(b->now_ns <= timeout_ns + timeout_ns / 8);
	bed_completed(b, 1, WEFT_ERR_PEER_GONE);
	EXPECT_EQ(b->qp->reason, WEFT_R_PEER_GONE);
	bed_close(b);
}

/* An answer to any of the tries, even the last one, ends all doubt: later silence is as before. */
TEST(test_rc_04_a_peer_that_answers_a_try_is_not_given_up)
{
	struct ib_bed *b = bed_writing(NULL);

	for (int times = 0; times < 3; times++) {
		give_back(b, returned(b, IBA_WRITE_ONLY, PSN_OURS));
		for (int i = 0; i < 8; i++) {
			bed_expect(b, IBA_WRITE_ONLY, PSN_OURS);
			if (i < 7)
				bed_wait(b, timeout_ns / 8);
		}
		MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS - 1, 0), NULL, 0));
		bed_silent(b);
	}
	bed_wait(b, timeout_ns);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	bed_expect(b, IBA_WRITE_ONLY, PSN_OURS); /* as for any silence */
	b->out_count = 0;
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

static void expect_nothing(struct ib_bed *b, struct ib_returned packet)
{
	give_back(b, packet);
	bed_silent(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
}

/* RFC 5927: an error about what is not out is forged, or comes late. */
TEST(test_rc_04_packets_that_are_not_out_do_not_come_back)
{
	struct ib_bed *b = bed_writing(NULL);
	struct ib_returned packet = returned(b, IBA_WRITE_ONLY, PSN_OURS);

	expect_nothing(b, returned(b, IBA_WRITE_ONLY, PSN_OURS - 1));
	expect_nothing(b, returned(b, IBA_WRITE_ONLY, PSN_OURS + 1));
	expect_nothing(b, returned(b, IBA_ACKNOWLEDGE, PSN_OURS));
	packet.bytes[7] ^= 1; /* of the queue pair */
	expect_nothing(b, packet);
	packet = returned(b, IBA_WRITE_ONLY, PSN_OURS);
	packet.to.address[3] ^= 1;
	expect_nothing(b, packet);
	packet = returned(b, IBA_WRITE_ONLY, PSN_OURS);
	packet.from.address[3] ^= 1;
	expect_nothing(b, packet);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	expect_nothing(b, returned(b, IBA_WRITE_ONLY, PSN_OURS)); /* it has arrived */
	bed_close(b);
}

/* IBA 9.7.6.1.3: who asked to wait for ever does. */
TEST(test_rc_04_a_requester_without_a_timeout_waits_for_ever)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.timeout_code = 0;
	b = bed_writing(&config);
	expect_nothing(b, returned(b, IBA_WRITE_ONLY, PSN_OURS));
	bed_wait(b, UINT64_C(3600000000000));
	bed_silent(b);
	bed_incomplete(b);
	bed_close(b);
}

/* The peer has answered, and said when to go on. */
TEST(test_rc_04_a_peer_that_asked_for_time_has_it)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_SEND }, 0, 8);
	bed_expect(b, IBA_SEND_ONLY, PSN_OURS);
	MUST(bed_put(b, peer_ack(iba_syndrome_rnr(0), PSN_OURS, 0), NULL, 0)); /* 655 ms */
	expect_nothing(b, returned(b, IBA_SEND_ONLY, PSN_OURS));
	bed_wait(b, 2 * timeout_ns);
	bed_silent(b);
	bed_close(b);
}
