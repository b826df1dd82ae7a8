/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes again, comes late, or was never meant: it is carried out once, or not at all. */
#include <string.h>

#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, WORD = 512, ALL = 0xffffff };

static const uint8_t data[MTU] = { 5, 5, 5 };

static uint64_t word_of(const struct ib_bed *b)
{
	uint64_t word;

	memcpy(&word, b->memory + WORD, sizeof(word));
	return word;
}

static struct iba_packet fetch_add(struct ib_bed *b, uint32_t n, uint64_t add)
{
	struct iba_packet p = peer_reth(b, IBA_FETCH_ADD, P0 + n, WORD, 0);

	p.swap_add = add;
	return p;
}

/*
 * QP-S3: an atomic whose answer is not kept any more, as the peer had more of them since than it
 * may have in flight, is not carried out again. It cannot be answered either.
 */
TEST(test_qp_s3_an_atomic_that_is_long_over_is_not_carried_out_again)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	uint64_t first = word_of(b);

	for (uint32_t n = 0; n < 6; n++) {
		MUST(bed_put(b, fetch_add(b, n, 1), NULL, 0));
		EXPECT(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, iba_psn_add(P0, n))->p.original ==
		       first + n);
	}
	for (uint32_t n = 0; n < 4; n++)
		EXPECT_EQ(bed_put(b, fetch_add(b, n, 1), NULL, 0), WEFT_R_IB_PSN);
	bed_silent(b);
	EXPECT(word_of(b) == first + 6);
	/* Those that are kept are answered as they were. */
	MUST(bed_put(b, fetch_add(b, 4, 1), NULL, 0));
	EXPECT(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, iba_psn_add(P0, 4))->p.original == first + 4);
	bed_silent(b);
	MUST(bed_put(b, fetch_add(b, 5, 1), NULL, 0));
	EXPECT(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, iba_psn_add(P0, 5))->p.original == first + 5);
	/* One that says something else under an old number is forged. */
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 5, WORD, 8), NULL, 0),
		  WEFT_R_IB_PSN);
	bed_silent(b);
	EXPECT(word_of(b) == first + 6);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	bed_close(b);
}

/* A queue pair that begins anew with the same number: what is still under way is not for it. */
TEST(test_rc_02_old_packets_after_a_restart_change_nothing)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_config k = b->config;

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 8), data, 8));
	bed_expect_ack(b, iba_syndrome_ack(0), P0);
	bed_reset(b);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8),
		  WEFT_R_PEER_UNKNOWN);
	k.psn_recv = iba_psn_add(P0, 0x100000);
	k.psn_send = iba_psn_add(PSN_OURS, 0x100000);
	MUST(ib_create(b->port, b->qp, &k, &b->conn));
	MUST(ib_start(b->conn, &k));
	memset(b->memory, 1, 64);
	bed_note(b);
	bed_recv(b, 7, 0, 64);
	bed_post(b, (struct weft_send_wr){ .id = 8, .opcode = WEFT_OP_WRITE }, 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, k.psn_send);
	for (uint32_t n = 0; n < 64; n++) {
		(void)bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + n, 0, 8), data, 8);
		(void)bed_put(b, peer_op(IBA_SEND_ONLY, P0 + n), data, 8);
		EXPECT_EQ(bed_put(b, fetch_add(b, n, 1), NULL, 0), WEFT_R_IB_PSN);
		EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS + n, 1), NULL, 0),
			  WEFT_R_IB_PSN);
	}
	bed_unchanged(b);
	bed_incomplete(b);
	b->out_count = 0;
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	/* And what is for it is served. */
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, k.psn_recv), data, 8));
	bed_completed(b, 7, WEFT_SUCCESS);
	bed_close(b);
}

/* IBA 9.7.5.1.1: answers to what was never sent, of every kind and number, do nothing. */
TEST(test_rc_03_answers_to_what_was_never_sent)
{
	static const enum iba_op ops[] = { IBA_ACKNOWLEDGE, IBA_ATOMIC_ACKNOWLEDGE,
					   IBA_READ_RESPONSE_ONLY, IBA_READ_RESPONSE_FIRST };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, 8);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t n = 1; n < 0x1000000; n += 0x10001) {
			struct iba_packet p = peer_op(ops[i], PSN_OURS + n);
			bool is_first = ops[i] == IBA_READ_RESPONSE_FIRST;
			uint32_t bytes = is_first ? MTU : i == 2 ? 8 : 0;

			p.syndrome = (uint8_t)(n & 0x7f);
			/* The number before the oldest may bring credits. */
			if (((PSN_OURS + n) & ALL) != PSN_OURS - 1)
				EXPECT_EQ(bed_put(b, p, data, bytes), WEFT_R_IB_PSN);
		}
	}
	bed_unchanged(b);
	bed_silent(b);
	bed_incomplete(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	bed_close(b);
}

/* IBA 10.8.2, SQD: what has begun is finished, also when it must be sent again; then it is told. */
TEST(test_qp_14_sqd_finishes_what_has_begun)
{
	const struct weft_qp_attr sqd = { .state = WEFT_QPS_SQD };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct weft_event e;
	uint32_t probes = 0;

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 2 * MTU);
	b->out_count = 0;
	MUST(qp_modify(b->qp, &sqd, WEFT_QP_STATE));
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_WRITE }, 0, 8);
	bed_silent(b);
	/* Both packets were lost. Within the timeout only the oldest goes again, and asks. */
	bed_wait(b, iba_timeout_ns(14) - 1);
	for (; b->out_count > 0; probes++)
		EXPECT(bed_expect(b, IBA_WRITE_FIRST, PSN_OURS)->p.is_ack_requested);
	EXPECT(probes > 0);
	/* When it is over all does, from the first. */
	bed_wait(b, 1);
	bed_expect(b, IBA_WRITE_FIRST, PSN_OURS);
	b->out_count = 0;
	EXPECT(!event_pop(&b->adapter.events, &e));
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 0), NULL, 0));
	bed_wait(b, iba_timeout_ns(14));
	bed_expect(b, IBA_WRITE_LAST, PSN_OURS + 1);
	EXPECT(!event_pop(&b->adapter.events, &e));
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS + 1, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT(event_pop(&b->adapter.events, &e) && e.kind == WEFT_EVENT_QP_DRAINED);
	b->out_count = 0;
	bed_wait(b, 10 * iba_timeout_ns(14));
	bed_silent(b);
	bed_incomplete(b);
	bed_close(b);
}

/* IBA 9.7.7.2: a peer without receives gives credits when it has one, and that ends the wait. */
TEST(test_iba_9_7_7_2_credits_end_the_wait_for_a_receive)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_SEND }, 0, 8);
	bed_expect(b, IBA_SEND_ONLY, PSN_OURS);
	MUST(bed_put(b, peer_ack(iba_syndrome_rnr(0), PSN_OURS, 0), NULL, 0)); /* 655 ms */
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), PSN_OURS - 1, 0), NULL, 0));
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS - 1, 0), NULL, 0));
	bed_expect(b, IBA_SEND_ONLY, PSN_OURS);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* The question: the number before the oldest, as a Write of nothing. */
static void expect_question(struct ib_bed *b, uint32_t psn)
{
	const struct bed_packet *p = bed_expect(b, IBA_WRITE_ONLY, psn);

	EXPECT(p->p.is_ack_requested && p->p.dma_bytes == 0 && p->p.payload_bytes == 0);
}

/* Counted retries; the peer has told that it has no receive for a second Send. */
static struct ib_bed *open_without_credits(uint8_t rnr_retries)
{
	struct ib_config k = bed_config();
	struct ib_bed *b;

	k.rnr_retries = rnr_retries;
	b = bed_open(&k, WEFT_RC);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_SEND }, 0, 8);
	bed_expect(b, IBA_SEND_ONLY, PSN_OURS);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_SEND }, 0, 2 * MTU);
	return b;
}

/*
 * IBA 9.7.7.2.5: a requester without credits may try one packet, and need not. Where an RNR NAK
 * would be the end it waits for credits instead, which the peer gives when it has a receive; and
 * asks for them, as that may be lost.
 */
TEST(test_iba_9_7_7_2_5_no_try_without_credits_if_it_would_be_the_last)
{
	struct ib_bed *b = open_without_credits(0);

	bed_silent(b);
	bed_wait(b, iba_timeout_ns(14));
	EXPECT(b->out_count > 1);
	while (b->out_count > 0) {
		expect_question(b, PSN_OURS);
		MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), PSN_OURS, 1), NULL, 0));
	}
	bed_incomplete(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), NULL, 0));
	bed_expect(b, IBA_SEND_FIRST, iba_psn_add(PSN_OURS, 1));
	bed_expect(b, IBA_SEND_LAST, iba_psn_add(PSN_OURS, 2));
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), iba_psn_add(PSN_OURS, 2), 2), NULL, 0));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_wait(b, 10 * iba_timeout_ns(14));
	bed_silent(b);
	bed_close(b);
}

/* As long as a peer may be silent, or the consumer waits for a receive (QP-08); then it tries. */
TEST(test_iba_9_7_7_2_5_the_last_try_comes_when_nothing_else_helps)
{
	for (int is_impatient = 0; is_impatient < 2; is_impatient++) {
		struct ib_bed *b = open_without_credits(0);
		uint64_t patience_ns = 8 * iba_timeout_ns(14);

		b->qp->receiver_wait_ns = is_impatient ? iba_timeout_ns(14) : UINT64_MAX;
		if (is_impatient)
			patience_ns = iba_timeout_ns(14);
		bed_wait(b, patience_ns - 1);
		while (b->out_count > 0)
			expect_question(b, PSN_OURS);
		bed_incomplete(b);
		bed_wait(b, patience_ns);
		bed_expect(b, IBA_SEND_FIRST, iba_psn_add(PSN_OURS, 1));
		MUST(bed_put(b, peer_ack(iba_syndrome_rnr(1), iba_psn_add(PSN_OURS, 1), 1), NULL,
			     0));
		bed_completed(b, 2, WEFT_ERR_RECEIVER_NOT_READY);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		bed_close(b);
	}
}

/* Of several retries the last is spared; a Write, which needs no receive, waits for none. */
TEST(test_iba_9_7_7_2_5_tries_that_are_not_the_last)
{
	struct ib_bed *b = open_without_credits(1);

	bed_expect(b, IBA_SEND_FIRST, iba_psn_add(PSN_OURS, 1));
	MUST(bed_put(b, peer_ack(iba_syndrome_rnr(1), iba_psn_add(PSN_OURS, 1), 1), NULL, 0));
	bed_wait(b, iba_rnr_ns(1));
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), NULL, 0));
	bed_expect(b, IBA_SEND_FIRST, iba_psn_add(PSN_OURS, 1));
	bed_expect(b, IBA_SEND_LAST, iba_psn_add(PSN_OURS, 2));
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(0), iba_psn_add(PSN_OURS, 2), 2), NULL, 0));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_post(b, (struct weft_send_wr){ .id = 3, .opcode = WEFT_OP_WRITE }, 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, iba_psn_add(PSN_OURS, 3));
	bed_close(b);
	/* A peer that has credits no longer is tried. */
	b = open_without_credits(0);
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(IBA_CREDITS_UNUSED), PSN_OURS, 1), NULL, 0));
	bed_expect(b, IBA_SEND_FIRST, iba_psn_add(PSN_OURS, 1));
	bed_expect(b, IBA_SEND_LAST, iba_psn_add(PSN_OURS, 2));
	bed_close(b);
}

/* What is asked of us: a duplicate is answered with the credits of now. */
TEST(test_iba_9_7_7_2_a_duplicate_asks_for_credits)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct iba_packet question = peer_op(IBA_WRITE_ONLY, P0 - 1);

	for (uint32_t n = 0; n < 3; n++) {
		struct bed_packet *p;

		MUST(bed_put(b, question, NULL, 0));
		p = bed_expect(b, IBA_ACKNOWLEDGE, P0 - 1);
		EXPECT_EQ(p->p.syndrome, iba_syndrome_ack(iba_credit_code(n)));
		EXPECT_EQ(p->p.msn, 0);
		bed_recv(b, n, 0, 8);
		while (b->out_count > 0) /* it tells of the first by itself */
			bed_expect_ack(b, iba_syndrome_ack(0), P0 - 1);
	}
	bed_unchanged(b);
	bed_close(b);
}

/*
 * RC-04: a peer that is only slow, as a guest that waits for its processor, has all of it already.
 * To send all again at each timeout would give it more to do than it can: one packet asks.
 */
TEST(test_rc_04_a_timeout_sends_one_packet_again_not_all)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 8 * MTU);
	EXPECT_EQ(b->out_count, 8);
	b->out_count = 0;
	for (uint32_t n = 0; n < 7; n++) {
		bed_wait(b, iba_timeout_ns(14));
		EXPECT(b->out_count > 0);
		while (b->out_count > 0)
			EXPECT(bed_expect(b, IBA_WRITE_FIRST, PSN_OURS)->p.is_ack_requested);
	}
	bed_incomplete(b);
	/* It had them. */
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), iba_psn_add(PSN_OURS, 7), 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_silent(b);
	/* It had nothing: the rest follows when it answers. */
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_WRITE }, 0, 8 * MTU);
	b->out_count = 0;
	bed_wait(b, iba_timeout_ns(14));
	while (b->out_count > 0)
		bed_expect(b, IBA_WRITE_FIRST, iba_psn_add(PSN_OURS, 8));
	bed_wait(b, 1000000);
	b->out_count = 0;
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), iba_psn_add(PSN_OURS, 8), 1), NULL, 0));
	for (uint32_t n = 1; n < 8; n++)
		bed_expect(b, n == 7 ? IBA_WRITE_LAST : IBA_WRITE_MIDDLE,
			   iba_psn_add(PSN_OURS, 8 + n));
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), iba_psn_add(PSN_OURS, 15), 2), NULL, 0));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}

static enum weft_reason put_nak(struct ib_bed *b, uint32_t n)
{
	uint8_t syndrome = iba_syndrome_nak(IBA_NAK_SEQUENCE);

	return bed_put(b, peer_ack(syndrome, iba_psn_add(PSN_OURS, n), 0), NULL, 0);
}

/*
 * IBA 9.9.2.4.1: a peer that misses the same packet again and again is given up as one that is
 * silent, even by who waits for answers for ever (a timeout of 0).
 */
TEST(test_rc_04_iba_9_9_2_4_1_a_peer_that_always_complains)
{
	static const uint8_t timeouts[] = { 14, 0 };
	const uint64_t step_ns = iba_timeout_ns(14) / 32;

	for (uint32_t i = 0; i < 16; i++) {
		struct ib_config config = bed_config();
		struct ib_bed *b;

		config.retries = (uint8_t)(i % 8);
		config.timeout_code = timeouts[i / 8];
		b = bed_open(&config, WEFT_RC);
		bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 2 * MTU);
		for (uint32_t n = 0; n < 32U * (config.retries + 1); n++) {
			bed_incomplete(b);
			b->out_count = 0;
			MUST(put_nak(b, 0));
			bed_expect(b, IBA_WRITE_FIRST, PSN_OURS);
			bed_expect(b, IBA_WRITE_LAST, PSN_OURS + 1);
			/* What comes at once is of what had been sent before. */
			MUST(put_nak(b, 0));
			bed_silent(b);
			bed_wait(b, step_ns);
		}
		for (uint32_t n = 0; n <= config.retries; n++) {
			(void)put_nak(b, 0);
			bed_wait(b, step_ns);
		}
		bed_completed(b, 1, WEFT_ERR_PEER_GONE);
		EXPECT_EQ(b->qp->reason, WEFT_R_IB_LOST);
		bed_close(b);
	}
}

/* RC-04: what is only lost often arrives, as long as there is progress in between. */
TEST(test_rc_04_losses_with_progress_between_them_cost_nothing)
{
	enum { PACKETS = 32 };
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.retries = 1;
	b = bed_open(&config, WEFT_RC);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, PACKETS * MTU);
	for (uint32_t n = 1; n < PACKETS; n++) {
		b->out_count = 0;
		MUST(put_nak(b, n));
		bed_wait(b, iba_timeout_ns(14) / 32);
		MUST(put_nak(b, n));
		bed_wait(b, iba_timeout_ns(14) / 32);
	}
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), iba_psn_add(PSN_OURS, PACKETS - 1), 1), NULL,
		     0));
	bed_completed(b, 1, WEFT_SUCCESS);
	b->out_count = 0;
	bed_close(b);
}

/*
 * RC-04: every request for a Read is answered in full. Of a peer whose round trip is not known a
 * long one is not asked for again within the timeout: a slow peer would answer them all.
 */
TEST(test_rc_04_a_read_is_not_asked_for_again_within_the_timeout)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, 8 * MTU);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	bed_wait(b, iba_timeout_ns(14) - 1);
	bed_silent(b);
	bed_wait(b, 1);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	bed_wait(b, iba_timeout_ns(14) - 1);
	bed_silent(b);
	bed_close(b);
}

static struct iba_packet answer(uint32_t n, uint32_t first, uint32_t count)
{
	struct iba_packet p = peer_op(n == first	       ? IBA_READ_RESPONSE_FIRST
				      : n == first + count - 1 ? IBA_READ_RESPONSE_LAST
							       : IBA_READ_RESPONSE_MIDDLE,
				      iba_psn_add(PSN_OURS, n));

	p.syndrome = iba_syndrome_ack(IBA_CREDITS_UNUSED);
	return p;
}

/*
 * RC-04: a peer answers in order. While it answers a Read once more that was asked for twice, those
 * behind it wait, and are not lost: asked for them again, a slow peer would have ever more to
 * answer. No more packets count than were asked for again.
 */
TEST(test_rc_04_no_read_is_asked_for_again_while_repeated_answers_come)
{
	enum { COUNT = 8 };
	const uint64_t timeout_ns = iba_timeout_ns(14), step_ns = timeout_ns / 4 * 3;
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, COUNT * MTU);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	bed_wait(b, timeout_ns);
	bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	for (uint32_t n = 0; n < COUNT; n++)
		MUST(bed_put(b, answer(n, 0, COUNT), data, MTU));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_READ }, 0, COUNT * MTU);
	bed_expect(b, IBA_READ_REQUEST, iba_psn_add(PSN_OURS, COUNT));
	for (uint32_t n = 0; n < COUNT; n++) {
		bed_wait(b, step_ns);
		bed_silent(b);
		EXPECT_EQ(bed_put(b, answer(n, 0, COUNT), data, MTU), WEFT_R_IB_PSN);
	}
	bed_wait(b, step_ns);
	EXPECT_EQ(bed_put(b, answer(0, 0, COUNT), data, MTU), WEFT_R_IB_PSN);
	bed_silent(b);
	bed_wait(b, timeout_ns - step_ns - 1);
	bed_silent(b);
	bed_wait(b, 1);
	bed_expect(b, IBA_READ_REQUEST, iba_psn_add(PSN_OURS, COUNT));
	for (uint32_t n = COUNT; n < 2 * COUNT; n++)
		MUST(bed_put(b, answer(n, COUNT, COUNT), data, MTU));
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_close(b);
}
