/* SPDX-License-Identifier: BSD-2-Clause */
/* The requester of RC: what it sends, when again, and what it makes of answers. */
#include <string.h>

#include "ib_bed.h"
#include "wire/flit.h"
#include "wire/iba_frame.h"

enum { S0 = PSN_OURS, MTU = 256, CREDITS_OFF = IBA_CREDITS_UNUSED };

static const struct weft_send_wr write_wr = { .id = 1, .opcode = WEFT_OP_WRITE };

static uint32_t psn(uint32_t n)
{
	return (S0 + n) & IBA_PSN_MASK;
}

static enum weft_reason ack(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_ack(CREDITS_OFF, psn(n), 0), NULL, 0);
}

static struct weft_send_wr request(enum weft_opcode opcode, uint64_t id)
{
	return (struct weft_send_wr){
		.id = id, .opcode = opcode, .remote_addr = 0x1000, .remote_tag = 0x77, .imm = 0xabcd
	};
}

/* D3 figure 9: of four buffers the first and some of the second are the first frame's. */
TEST(test_fab_03_rc_02_two_frames_of_four_flits_span_four_buffers)
{
	static const uint32_t lengths[] = { 100, 200, 150, 62 };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct weft_sge s[4];
	struct weft_send_wr wr = request(WEFT_OP_SEND, 1);
	uint8_t message[2 * MTU];
	uint32_t at = 0;

	for (uint32_t i = 0; i < 4; i++) { /* in memory they lie apart */
		s[i] = (struct weft_sge){ (uintptr_t)b->memory + 1000 * (4 - i), lengths[i],
					  b->tag };
		memcpy(message + at, b->memory + (size_t)1000 * (4 - i), lengths[i]);
		at += lengths[i];
	}
	REQUIRE(at == 2 * MTU);
	wr.sges = s;
	wr.sge_count = 4;
	bed_post(b, wr, 0, 0);
	for (uint32_t i = 0; i < 2; i++) {
		struct bed_packet *p = bed_expect(b, i ? IBA_SEND_LAST : IBA_SEND_FIRST, psn(i));
		struct iba_frame f = { .packet = p->p };
		uint8_t bytes[IBA_FRAME_MAX];

		EXPECT_EQ(p->p.payload_bytes, MTU);
		EXPECT_MEM(p->payload, message + (size_t)i * MTU, MTU);
		f.packet.payload = p->payload;
		EXPECT_EQ(flits_of(iba_frame_encode(&f, bytes)), 4);
	}
	EXPECT_EQ(ack(b, 1), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* Every MTU, lengths around it, and numbers that wrap. */
TEST(test_rc_02_qp_17_messages_are_cut_by_the_mtu)
{
	static const enum iba_op sends[] = { IBA_SEND_FIRST, IBA_SEND_MIDDLE, IBA_SEND_LAST_IMM,
					     IBA_SEND_ONLY_IMM };
	static const enum iba_op writes[] = { IBA_WRITE_FIRST, IBA_WRITE_MIDDLE, IBA_WRITE_LAST,
					      IBA_WRITE_ONLY };

	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		for (uint32_t k = 0; k < 14; k++) {
			uint32_t bytes = k / 2 % 7 < 3 ? k / 2 % 7
						       : (k / 2 - 2) / 2 * mtu + k / 2 % 2;
			uint32_t count = iba_psn_count(bytes, mtu), i;
			const enum iba_op *ops = k % 2 ? sends : writes;
			struct ib_config config = bed_config();
			struct ib_bed *b;

			config.path.mtu_bytes = mtu;
			b = bed_open(&config, WEFT_RC);
			bed_post(b, request(k % 2 ? WEFT_OP_SEND_IMM : WEFT_OP_WRITE, 1), 40,
				 bytes);
			for (i = 0; i < count; i++) {
				bool is_last = i + 1 == count;
				enum iba_op op = i == 0 ? ops[is_last ? 3 : 0]
							: ops[is_last ? 2 : 1];
				struct bed_packet *p = bed_expect(b, op, psn(i));

				EXPECT_EQ(p->p.payload_bytes, is_last ? bytes - i * mtu : mtu);
				EXPECT_MEM(p->payload, b->memory + 40 + i * mtu,
					   p->p.payload_bytes);
				EXPECT_EQ(p->p.is_ack_requested, is_last);
				if (i == 0 && k % 2 == 0)
					EXPECT_EQ(p->p.dma_bytes, bytes);
				if (is_last && k % 2)
					EXPECT_EQ(p->p.imm, 0xabcd);
			}
			bed_silent(b);
			bed_incomplete(b); /* SEND-14 */
			EXPECT_EQ(ack(b, count - 1), WEFT_OK);
			bed_completed(b, 1, WEFT_SUCCESS);
			bed_close(b);
		}
	}
}

TEST(test_rc_02_acknowledgements_are_cumulative)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	for (uint64_t id = 1; id <= 4; id++)
		bed_post(b, request(WEFT_OP_WRITE, id), 0, 2 * MTU);
	EXPECT_EQ(ack(b, 8), WEFT_R_IB_PSN); /* for what was never sent */
	EXPECT_EQ(ack(b, 0x800000), WEFT_R_IB_PSN);
	bed_incomplete(b);
	EXPECT_EQ(ack(b, 4), WEFT_OK); /* half of the third */
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_incomplete(b);
	EXPECT_EQ(ack(b, 2), WEFT_R_IB_PSN); /* an old one */
	EXPECT_EQ(ack(b, 5), WEFT_OK);
	bed_completed(b, 3, WEFT_SUCCESS);
	EXPECT_EQ(ack(b, 7), WEFT_OK);
	bed_completed(b, 4, WEFT_SUCCESS);
	EXPECT_EQ(ack(b, 8), WEFT_R_IB_PSN);
	bed_close(b);
}

/* At once: its queue pair needs no other turn for it. */
TEST(test_rc_02_a_request_completes_with_its_acknowledgement)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 8);
	bed_post(b, request(WEFT_OP_SEND, 2), 0, 8);
	b->is_batch = true;
	MUST(ack(b, 1));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT(list_is_empty(&b->adapter.ready));
	bed_close(b);
}

/*
 * A peer acknowledges a Send and then answers it. Though both come at once, the Send has ended when
 * the answer is there: so programs expect it, which give the Send's buffer back by then.
 */
TEST(test_rc_02_a_send_ends_before_its_answer_comes)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_recv(b, 9, 0, 64);
	bed_post(b, request(WEFT_OP_SEND, 1), 64, 8);
	bed_post(b, request(WEFT_OP_SEND, 2), 64, 8);
	b->is_batch = true;
	MUST(ack(b, 0));
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, PSN_PEERS), b->memory + 128, 8));
	MUST(ack(b, 1));
	bed_run(b);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 9, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}

/* SEND-09, SEND-13: from the lost packet on, asked of the memory again. */
TEST(test_send_09_send_11_send_13_what_was_lost_is_gathered_again)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct bed_packet *p;

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 2 * MTU);
	bed_post(b, request(WEFT_OP_SEND, 2), 4096, 3 * MTU);
	for (int i = 0; i < 5; i++)
		bed_next(b);
	memset(b->memory + 4096 + MTU, 0x5a, MTU); /* no copy of the old bytes exists */
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(3), 1), NULL, 0),
		  WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	p = bed_expect(b, IBA_SEND_MIDDLE, psn(3));
	EXPECT_MEM(p->payload, b->memory + 4096 + MTU, MTU);
	EXPECT_EQ(p->payload[0], 0x5a);
	bed_expect(b, IBA_SEND_LAST, psn(4));
	bed_silent(b);
	EXPECT_EQ(ib_port_counts(b->port)->again, 2);
	/* The same again within the round trip is of what was sent before. */
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(3), 1), NULL, 0),
		  WEFT_OK);
	bed_silent(b);
	EXPECT_EQ(ack(b, 4), WEFT_OK);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_send_15_the_source_has_gone)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.window_packets = 2;
	b = bed_open(&config, WEFT_RC);
	bed_post(b, request(WEFT_OP_WRITE, 1), 0, MTU);
	bed_post(b, request(WEFT_OP_WRITE, 2), 0, 3 * MTU);
	bed_post(b, request(WEFT_OP_WRITE, 3), 0, MTU);
	bed_next(b);
	bed_next(b);
	bed_silent(b); /* the window */
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, b->tag));
	EXPECT_EQ(ack(b, 0), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_ERR_LOCAL_ACCESS);
	bed_completed(b, 3, WEFT_ERR_FLUSHED);
	EXPECT_EQ(b->qp->reason, WEFT_R_SOURCE_GONE);
	bed_silent(b);
	bed_close(b);
}

/* ---- Silence -------------------------------------------------------------------------------- */

TEST(test_rc_04_iba_9_9_2_4_1_a_silent_peer)
{
	const uint64_t timeout_ns = iba_timeout_ns(14);

	for (uint8_t retries = 0; retries <= 7; retries++) {
		struct ib_config config = bed_config();
		struct ib_bed *b;

		config.retries = retries;
		b = bed_open(&config, WEFT_RC);
		bed_post(b, write_wr, 0, 8);
		bed_wait(b, (retries + 1) * timeout_ns - 1);
		bed_incomplete(b);
		EXPECT_EQ(ib_port_counts(b->port)->timeouts, retries);
		EXPECT(b->out_count > retries + 1U && b->out_count < 16 * (retries + 1U));
		bed_wait(b, 1);
		bed_completed(b, 1, WEFT_ERR_PEER_GONE);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		while (b->out_count > 0)
			bed_expect(b, IBA_WRITE_ONLY, S0);
		bed_close(b);
	}
}

TEST(test_rc_04_progress_gives_the_retries_back)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.retries = 1;
	b = bed_open(&config, WEFT_RC);
	for (uint64_t id = 1; id <= 5; id++)
		bed_post(b, request(WEFT_OP_WRITE, id), 0, 8);
	for (uint32_t n = 0; n < 5; n++) {
		bed_wait(b, iba_timeout_ns(14) + iba_timeout_ns(14) / 2);
		EXPECT_EQ(ack(b, n), WEFT_OK);
		bed_completed(b, n + 1, WEFT_SUCCESS);
	}
	while (b->out_count > 0)
		bed_next(b);
	bed_close(b);
}

static enum weft_reason rnr(struct ib_bed *b, uint32_t n, uint8_t code)
{
	return bed_put(b, peer_ack(iba_syndrome_rnr(code), psn(n), 0), NULL, 0);
}

TEST(test_rc_04_iba_9_9_2_4_2_a_peer_without_receives)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.rnr_retries = 2;
	b = bed_open(&config, WEFT_RC);
	b->qp->receiver_wait_ns = UINT64_MAX;
	bed_post(b, request(WEFT_OP_SEND, 1), 0, 8);
	bed_post(b, request(WEFT_OP_WRITE, 2), 0, 8);
	bed_expect(b, IBA_SEND_ONLY, psn(0));
	bed_expect(b, IBA_WRITE_ONLY, psn(1));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(rnr(b, 0, 14), WEFT_OK);
		EXPECT_EQ(rnr(b, 0, 14), WEFT_OK); /* said twice, and counted once */
		bed_wait(b, iba_rnr_ns(14) - 1);
		bed_silent(b);
		bed_wait(b, 1);
		bed_expect(b, IBA_SEND_ONLY, psn(0));
		bed_expect(b, IBA_WRITE_ONLY, psn(1));
		bed_silent(b);
	}
	EXPECT_EQ(rnr(b, 0, 14), WEFT_OK);
	bed_completed(b, 1, WEFT_ERR_RECEIVER_NOT_READY);
	bed_completed(b, 2, WEFT_ERR_FLUSHED);
	bed_close(b);
}

/* The NAK was overtaken by word that its sender has left: that says it again. */
TEST(test_iba_9_7_5_2_a_nak_that_came_by_another_way)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 8);
	bed_post(b, request(WEFT_OP_WRITE, 2), 0, 8);
	bed_post(b, request(WEFT_OP_WRITE, 3), 0, 8);
	for (uint32_t i = 0; i < 3; i++)
		bed_expect(b, IBA_WRITE_ONLY, psn(i));
	/* Nothing that could be one, and nothing that was ever sent. */
	ib_peer_nak(b->conn, b->now_ns, psn(1), 0);
	ib_peer_nak(b->conn, b->now_ns, psn(1), iba_syndrome_rnr(14));
	ib_peer_nak(b->conn, b->now_ns, psn(3), iba_syndrome_nak(IBA_NAK_ACCESS));
	bed_incomplete(b);
	ib_peer_nak(b->conn, b->now_ns, psn(1), iba_syndrome_nak(IBA_NAK_ACCESS));
	bed_run(b);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_ERR_REMOTE_ACCESS);
	bed_completed(b, 3, WEFT_ERR_FLUSHED);
	/* The one that was late means nothing any more. */
	ib_peer_nak(b->conn, b->now_ns, psn(1), iba_syndrome_nak(IBA_NAK_ACCESS));
	bed_close(b);
}

/* The first error wins, even if the peer's leave is heard before the error was polled. */
TEST(test_iba_9_7_5_2_a_nak_and_then_the_peer_leaves)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, psn(0));
	ib_peer_nak(b->conn, b->now_ns, psn(0), iba_syndrome_nak(IBA_NAK_ACCESS));
	ib_peer_left(b->conn, WEFT_R_PEER_TERMINATED);
	bed_run(b);
	bed_completed(b, 1, WEFT_ERR_REMOTE_ACCESS);
	EXPECT_EQ(b->qp->reason, WEFT_R_PEER_RIGHTS);
	bed_close(b);
}

/* What comes together with it is not looked at. */
TEST(test_iba_9_7_5_2_naks_behind_one_that_ends_the_connection)
{
	static const enum iba_nak naks[] = { IBA_NAK_INVALID, IBA_NAK_ACCESS, IBA_NAK_SEQUENCE };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, psn(0));
	b->is_batch = true;
	MUST(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_ACCESS), psn(0), 0), NULL, 0));
	for (size_t i = 0; i < sizeof(naks) / sizeof(naks[0]); i++)
		EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_nak(naks[i]), psn(0), 0), NULL, 0),
			  WEFT_R_IB_PSN);
	bed_run(b);
	bed_completed(b, 1, WEFT_ERR_REMOTE_ACCESS);
	EXPECT_EQ(b->qp->reason, WEFT_R_PEER_RIGHTS);
	bed_close(b);
}

/* QP-08: the consumer's own patience. */
TEST(test_qp_08_patience_with_a_peer_without_receives)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	b->qp->receiver_wait_ns = 3 * iba_rnr_ns(14);
	bed_post(b, request(WEFT_OP_SEND, 1), 0, 8);
	for (int i = 0; i < 3; i++) {
		bed_expect(b, IBA_SEND_ONLY, psn(0));
		EXPECT_EQ(rnr(b, 0, 14), WEFT_OK);
		bed_wait(b, iba_rnr_ns(14));
	}
	bed_expect(b, IBA_SEND_ONLY, psn(0));
	bed_incomplete(b);
	EXPECT_EQ(rnr(b, 0, 14), WEFT_OK);
	bed_completed(b, 1, WEFT_ERR_RECEIVER_NOT_READY);
	bed_close(b);
}

/* IBA 9.7.7.2: beyond what the peer has receives for, one packet finds out. */
TEST(test_iba_9_7_7_2_credits)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	uint8_t one = iba_syndrome_ack(iba_credit_code(1));

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, psn(0));
	b->is_held = true;
	for (uint64_t id = 2; id <= 4; id++)
		bed_post(b, request(WEFT_OP_SEND, id), 0, 2 * MTU);
	b->is_held = false;
	EXPECT_EQ(bed_put(b, peer_ack(one, psn(0), 1), NULL, 0), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_expect(b, IBA_SEND_FIRST, psn(1)); /* message 2, for which there is a receive */
	EXPECT_EQ(bed_expect(b, IBA_SEND_LAST, psn(2))->p.is_ack_requested, true);
	bed_silent(b);
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(0), psn(2), 2), NULL, 0), WEFT_OK);
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(bed_expect(b, IBA_SEND_FIRST, psn(3))->p.is_ack_requested, true);
	bed_silent(b); /* until that was taken */
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(0), psn(3), 2), NULL, 0), WEFT_OK);
	bed_expect(b, IBA_SEND_LAST, psn(4));
	bed_silent(b);
	/* A Write needs none; new credits come without being asked for. */
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(2), psn(3), 2), NULL, 0), WEFT_OK);
	bed_expect(b, IBA_SEND_FIRST, psn(5));
	bed_expect(b, IBA_SEND_LAST, psn(6));
	bed_close(b);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static enum weft_reason response(struct ib_bed *b, enum iba_op op, uint32_t n, uint32_t bytes)
{
	static uint8_t data[MTU * 2];
	struct iba_packet p = peer_ack(CREDITS_OFF, psn(n), 0);

	memset(data, (int)(n + 1), sizeof(data));
	p.opcode = iba_opcode(IBA_RC, op);
	return bed_put(b, p, data, bytes);
}

TEST(test_iba_9_7_5_1_4_a_read_whose_answer_is_lost_in_parts)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct bed_packet *p;

	bed_post(b, request(WEFT_OP_READ, 1), 512, 3 * MTU + 7);
	bed_post(b, request(WEFT_OP_WRITE, 2), 0, 8);
	p = bed_expect(b, IBA_READ_REQUEST, psn(0));
	EXPECT_EQ(p->p.dma_bytes, 3 * MTU + 7);
	bed_expect(b, IBA_WRITE_ONLY, psn(4));
	/* Lengths and places that are not those of the request. */
	bed_note(b);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_FIRST, 0, 2 * MTU), WEFT_R_IB_LENGTH);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_ONLY, 0, MTU), WEFT_R_IB_LENGTH);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_LAST, 5, 7), WEFT_R_IB_PSN);
	EXPECT_EQ(response(b, IBA_ATOMIC_ACKNOWLEDGE, 0, 0), WEFT_R_IB_LENGTH);
	bed_unchanged(b);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_FIRST, 0, MTU), WEFT_OK);
	EXPECT_EQ(b->memory[512], 1);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_MIDDLE, 0, MTU), WEFT_R_IB_PSN); /* twice */
	bed_silent(b);
	/* The second is lost: it alone is asked for, and what comes behind it is placed. */
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_MIDDLE, 2, MTU), WEFT_OK);
	EXPECT_EQ(b->memory[512 + 2 * MTU], 3);
	p = bed_expect(b, IBA_READ_REQUEST, psn(1));
	EXPECT_EQ(p->p.va, 0x1000 + MTU);
	EXPECT_EQ(p->p.dma_bytes, MTU);
	bed_silent(b);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_MIDDLE, 2, MTU), WEFT_R_IB_PSN); /* twice */
	bed_silent(b);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_ONLY, 1, MTU), WEFT_OK);
	EXPECT_EQ(b->memory[512 + 3 * MTU], b->shadow[512 + 3 * MTU]);
	bed_incomplete(b);
	/* An acknowledgement of what follows does not stand for the rest: that was lost, too. */
	EXPECT_EQ(ack(b, 4), WEFT_OK);
	bed_incomplete(b);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(3))->p.dma_bytes, 7);
	bed_silent(b);
	EXPECT_EQ(response(b, IBA_READ_RESPONSE_ONLY, 3, 7), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	/* But it is not forgotten. */
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(b->memory[512 + 3 * MTU + 6], 4);
	EXPECT_EQ(b->memory[512 + 3 * MTU + 7], b->shadow[512 + 3 * MTU + 7]);
	bed_close(b);
}

/* An answer acknowledges what was sent before its request. */
TEST(test_iba_9_7_5_1_2_an_answer_acknowledges)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_packet p = peer_ack(CREDITS_OFF, psn(2), 3);
	uint64_t old = 0;

	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 2 * MTU);
	bed_post(b, request(WEFT_OP_FETCH_ADD, 2), 64, 8);
	bed_post(b, request(WEFT_OP_WRITE, 3), 0, 8);
	p.opcode = iba_opcode(IBA_RC, IBA_ATOMIC_ACKNOWLEDGE);
	p.original = UINT64_C(0x1122334455667788);
	EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_incomplete(b);
	memcpy(&old, b->memory + 64, sizeof(old));
	EXPECT(old == UINT64_C(0x1122334455667788));
	bed_close(b);
}

TEST(test_rc_03_naks_end_the_request_that_they_name)
{
	static const struct {
		enum iba_nak nak;
		enum weft_status status;
		enum weft_reason reason;
	} naks[] = {
		{ IBA_NAK_INVALID, WEFT_ERR_REMOTE_REQUEST, WEFT_R_IB_INVALID },
		{ IBA_NAK_ACCESS, WEFT_ERR_REMOTE_ACCESS, WEFT_R_PEER_RIGHTS },
		{ IBA_NAK_OPERATION, WEFT_ERR_REMOTE_OPERATION, WEFT_R_PEER_RECEIVE },
	};

	for (int i = 0; i < 3; i++) {
		struct ib_bed *b = bed_open(NULL, WEFT_RC);
		uint8_t nak = iba_syndrome_nak(naks[i].nak);

		for (uint64_t id = 1; id <= 3; id++)
			bed_post(b, request(WEFT_OP_WRITE, id), 0, 8);
		for (int k = 0; k < 3; k++)
			bed_next(b);
		EXPECT_EQ(bed_put(b, peer_ack(nak, psn(3), 0), NULL, 0), WEFT_R_IB_PSN);
		EXPECT_EQ(bed_put(b, peer_ack(0x64, psn(0), 0), NULL, 0), WEFT_R_IB_OPCODE);
		EXPECT_EQ(bed_put(b, peer_ack(0x40, psn(0), 0), NULL, 0), WEFT_R_IB_OPCODE);
		bed_incomplete(b);
		EXPECT_EQ(bed_put(b, peer_ack(nak, psn(1), 1), NULL, 0), WEFT_OK);
		bed_completed(b, 1, WEFT_SUCCESS);
		bed_completed(b, 2, naks[i].status);
		EXPECT_EQ(b->qp->reason, naks[i].reason);
		bed_completed(b, 3, WEFT_ERR_FLUSHED);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		bed_silent(b);
		bed_close(b);
	}
}

/* A Read whose answer needs more than half of all numbers; any Read, where none is agreed upon. */
TEST(test_rc_02_reads_that_cannot_be_asked_for)
{
	static const enum weft_opcode reads[] = { WEFT_OP_READ, WEFT_OP_COMPARE_SWAP,
						  WEFT_OP_FETCH_ADD };
	struct ib_config config = bed_config();
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct weft_sge s = { (uintptr_t)b->memory, (MTU << 22) + 1, b->tag };
	struct weft_send_wr wr = { .opcode = WEFT_OP_READ, .sges = &s, .sge_count = 1 };
	uint32_t posted;

	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_WR_LENGTH);
	bed_silent(b);
	bed_close(b);
	config.reads_out = 0;
	b = bed_open(&config, WEFT_RC);
	s = (struct weft_sge){ (uintptr_t)b->memory, 8, b->tag };
	for (int i = 0; i < 3; i++) {
		wr.opcode = reads[i];
		EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_READS_NONE);
	}
	bed_silent(b);
	bed_close(b);
}

/* A gather list of more pieces than a packet's: they are copied together. */
TEST(test_qp_07c_a_packet_of_very_many_pieces)
{
	struct ib_config config = bed_config();
	struct weft_send_wr wr = request(WEFT_OP_WRITE, 1);
	uint64_t pages[BED_BYTES / 4096];
	struct weft_sge s[WEFT_SGES_MAX];
	struct bed_packet *p;
	struct ib_bed *b;
	uint32_t tag;

	config.path.mtu_bytes = 4096;
	b = bed_open(&config, WEFT_RC);
	for (uint32_t i = 0; i < BED_BYTES / 4096; i++)
		pages[i] = (uintptr_t)b->memory + BED_BYTES - 4096 * (i + 1);
	const struct weft_page_list list = { .pages = pages,
					     .count = BED_BYTES / 4096,
					     .page_size_bytes = 4096 };
	const struct weft_region_options ro = {
		.length = BED_BYTES, .va = 0x100000, .rights = WEFT_LOCAL_READ, .pages = &list
	};
	const struct mem_owner owner = pd_owner(b->pd);

	MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &tag));
	for (uint32_t i = 0; i < WEFT_SGES_MAX; i++)
		s[i] = (struct weft_sge){ 0x100000 + 4096 * (1 + i % 15) - 50 - i, 100 + i % 2,
					  tag };
	wr.sges = s;
	wr.sge_count = WEFT_SGES_MAX;
	bed_post(b, wr, 0, 0);
	p = bed_expect(b, IBA_WRITE_ONLY, psn(0));
	EXPECT_EQ(p->p.payload_bytes, 16 * 201);
	EXPECT_EQ(ib_port_counts(b->port)->bounced, 1);
	for (uint32_t i = 0, at = 0; i < WEFT_SGES_MAX; i++) {
		for (uint32_t k = 0; k < s[i].length; k++, at++) {
			uint64_t offset = s[i].addr - 0x100000 + k;
			uint64_t real = BED_BYTES - 4096 * (offset / 4096 + 1) + offset % 4096;

			EXPECT_EQ(p->payload[at], b->memory[real]);
		}
	}
	EXPECT_EQ(ack(b, 0), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, tag));
	bed_close(b);
}

/* ---- Packets that are made together --------------------------------------------------------- */

enum { TOGETHER_BYTES = 20 * 1024, TOGETHER_COUNT = TOGETHER_BYTES / MTU };

/* All packets that went out; bytes, and packets that went again, as the queue pair counts them. */
struct sent_all {
	struct bed_packet packets[BED_OUT_MAX];
	uint32_t count;
	uint64_t bytes, resent;
};

/* Two requests with a window, a lost packet, and few credits. */
static void send_two(bool is_one_by_one, enum weft_opcode opcode, struct sent_all *all)
{
	struct ib_config config = bed_config();
	uint32_t last = 0;
	struct ib_bed *b;

	config.window_packets = 24;
	config.ack_every = 7;
	b = bed_open(&config, WEFT_RC);
	b->is_one_by_one = is_one_by_one;
	bed_post(b, request(opcode, 1), 3, TOGETHER_BYTES);
	bed_post(b, request(opcode, 2), 500, TOGETHER_BYTES - 1);
	for (uint32_t i = 0; last != psn(2 * TOGETHER_COUNT - 1); i++) {
		REQUIRE(i < 100);
		while (b->out_count > 0) {
			REQUIRE(all->count < BED_OUT_MAX);
			all->packets[all->count] = *bed_next(b);
			last = all->packets[all->count++].p.psn;
		}
		if (i == 2)
			MUST(bed_put(b,
				     peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE),
					      iba_psn_add(last, IBA_PSN_MASK - 4), 0),
				     NULL, 0));
		else if (last != psn(2 * TOGETHER_COUNT - 1))
			MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), last, i > 5), NULL, 0));
		b->now_ns += 1000;
	}
	EXPECT_EQ(b->taken_together > 0, !is_one_by_one);
	EXPECT_EQ(ib_port_counts(b->port)->packets_out, all->count);
	EXPECT_EQ(b->qp->tally.packets_out, all->count);
	all->bytes = b->qp->tally.bytes_out;
	all->resent = b->qp->tally.resent;
	MUST(ack(b, 2 * TOGETHER_COUNT - 1));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}

/* RC-02: each is the packet that it would be alone, acknowledgements are asked for as often. */
TEST(test_rc_02_packets_made_together_are_those_made_one_by_one)
{
	static struct sent_all alone, together;
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_SEND };

	for (uint32_t k = 0; k < 2; k++) {
		alone.count = together.count = 0;
		send_two(true, opcodes[k], &alone);
		send_two(false, opcodes[k], &together);
		EXPECT(alone.count > 2 * TOGETHER_COUNT); /* some went again */
		REQUIRE(together.count == alone.count);
		EXPECT_EQ(together.bytes, alone.bytes);
		EXPECT_EQ(together.resent, alone.resent);
		for (uint32_t i = 0; i < alone.count; i++) {
			const struct iba_packet *p = &alone.packets[i].p;
			const struct iba_packet *q = &together.packets[i].p;

			EXPECT_EQ(q->opcode, p->opcode);
			EXPECT_EQ(q->psn, p->psn);
			EXPECT_EQ(q->is_ack_requested, p->is_ack_requested);
			EXPECT_EQ(together.packets[i].ecn, alone.packets[i].ecn);
			EXPECT_EQ(q->payload_bytes, p->payload_bytes);
			EXPECT_MEM(together.packets[i].payload, alone.packets[i].payload,
				   p->payload_bytes);
		}
	}
}

/* Each has the room it was given: none of another length goes there. */
TEST(test_rc_02_packets_of_another_length_are_not_made_together)
{
	static uint8_t rooms[2][IBA_PACKET_MAX];
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_out outs[2] = { { .room = rooms[0], .ipv4_id = IPV4_ID },
				  { .room = rooms[1], .ipv4_id = IPV4_ID } };
	struct ib_more more = { .outs = outs, .most = 2, .each = MTU + 16 };

	b->is_held = true;
	EXPECT_EQ(ib_port_send_more(b->port, b->now_ns, &more), 0);
	bed_post(b, request(WEFT_OP_WRITE, 1), 0, 16 * MTU);
	EXPECT_EQ(ib_port_send_more(b->port, b->now_ns, &more), 0); /* the first is no middle one */
	REQUIRE(ib_port_send(b->port, b->now_ns, &outs[0]));
	more.each = MTU + 12;
	EXPECT_EQ(ib_port_send_more(b->port, b->now_ns, &more), 0);
	more.each = MTU + 16;
	EXPECT_EQ(ib_port_send_more(b->port, b->now_ns, &more), 2);
	EXPECT_EQ(outs[1].spans.length, more.each);
	EXPECT(outs[1].spans.spans[0].bytes == rooms[1]);
	b->is_held = false;
	bed_run(b);
	bed_close(b);
}
