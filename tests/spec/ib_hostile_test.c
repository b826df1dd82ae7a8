/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer, or an attacker in its name, that sends invalid packets: every number, every length, every
 * kind of damage. A failed payload leaves no trace in memory, and no packet costs more than it is
 * worth.
 */
#include <string.h>

#include "ib_bed.h"

enum {
	MTU = 256,
	P0 = PSN_PEERS,
	ALL = 0x1000000,
	STRIDE = 0x10001,
	GAP = 9, /* PSNs that far ahead of the expected one, and farther, are not kept */
	MANY = 20000,
	Q_KEY = 0x77
};

static uint8_t data[4096 + 64];

static struct ib_bed *open(enum weft_qp_service service)
{
	struct ib_config config = bed_config();

	config.q_key = Q_KEY;
	memset(data, 0xa5, sizeof(data));
	return bed_open(&config, service);
}

static struct iba_packet good_write(struct ib_bed *b)
{
	struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, P0, 64, 12);

	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	return p;
}

/* What it was before, and after all as usual. */
static void expect_untouched(struct ib_bed *b)
{
	bed_unchanged(b);
	bed_silent(b);
	bed_incomplete(b);
	REQUIRE(b->qp->state == WEFT_QPS_RTS);
	REQUIRE(bed_put(b, good_write(b), data, 12) == WEFT_OK);
	bed_expect_ack(b, 0, P0);
	REQUIRE(memcmp(b->memory + 64, data, 12) == 0);
}

/* ---- Damage --------------------------------------------------------------------------------- */

static size_t change_at;

static void flip_bit(uint8_t *bytes, size_t *length)
{
	REQUIRE(change_at < *length * 8);
	bytes[change_at / 8] ^= (uint8_t)(1 << change_at % 8);
}

static void cut_to(uint8_t *bytes, size_t *length)
{
	(void)bytes;
	REQUIRE(change_at < *length);
	*length = change_at;
}

static void lengthen(uint8_t *bytes, size_t *length)
{
	memset(bytes + *length, 0xee, change_at);
	*length += change_at;
}

/* IBA 7.8.2: of all bits only the eight that a network may set are not covered. */
TEST(test_rc_04_every_bit_that_is_wrong_is_noticed)
{
	struct ib_bed *b = open(WEFT_RC);
	struct bed_way way = { .from = b->config.path.to, .change = flip_bit };
	size_t bits = iba_packet_bytes(good_write(b).opcode, 12) * 8;

	bed_note(b);
	for (change_at = 0; change_at < bits; change_at++) {
		if (change_at / 8 == 4)
			continue;
		EXPECT(bed_put_by(b, &way, good_write(b), data, 12) != WEFT_OK);
		bed_unchanged(b);
	}
	EXPECT_EQ(ib_port_counts(b->port)->dropped, bits - 8);
	expect_untouched(b);
	bed_close(b);
}

TEST(test_rc_04_packets_of_every_wrong_length_are_dropped)
{
	struct ib_bed *b = open(WEFT_RC);
	struct bed_way way = { .from = b->config.path.to, .change = cut_to };
	size_t length = iba_packet_bytes(good_write(b).opcode, 12);

	bed_note(b);
	for (change_at = 0; change_at < length; change_at++)
		EXPECT(bed_put_by(b, &way, good_write(b), data, 12) != WEFT_OK);
	way.change = lengthen;
	for (change_at = 1; change_at < IBA_PACKET_MAX + 64 - length; change_at++)
		EXPECT(bed_put_by(b, &way, good_write(b), data, 12) != WEFT_OK);
	expect_untouched(b);
	bed_close(b);
}

/* ---- Numbers -------------------------------------------------------------------------------- */

static const enum iba_op ops[] = { IBA_WRITE_ONLY,   IBA_SEND_ONLY, IBA_READ_REQUEST,
				   IBA_COMPARE_SWAP, IBA_FETCH_ADD, IBA_WRITE_FIRST };

/*
 * Any number but the one that is expected, and those right behind it, which are kept: what is ahead
 * has one NAK, until something old comes, and that has one answer each. None of it is carried out.
 */
TEST(test_rc_03_forged_psns_change_nothing)
{
	struct ib_bed *b = open(WEFT_RC);
	uint32_t naks = 0;

	bed_recv(b, 7, 0, 64);
	bed_note(b);
	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		for (uint32_t n = GAP; n < ALL; n += STRIDE) {
			struct iba_packet p = peer_reth(b, ops[i], P0 + n, 0, 8);
			bool is_bare = iba_form(p.opcode)->kind == IBA_KIND_READ ||
				       iba_form(p.opcode)->kind == IBA_KIND_ATOMIC;

			if (ops[i] == IBA_WRITE_FIRST)
				p.dma_bytes = 2 * MTU;
			p.swap_add = 1;
			(void)bed_put(b, p, data,
				      is_bare			  ? 0
				      : ops[i] == IBA_WRITE_FIRST ? MTU
								  : 8);
			EXPECT(b->out_count <= 1);
			while (b->out_count > 0)
				naks += iba_syndrome(bed_next(b)->p.syndrome) == IBA_SYNDROME_NAK;
		}
	}
	EXPECT_EQ(naks, sizeof(ops) / sizeof(*ops));
	expect_untouched(b);
	bed_close(b);
}

/* Around the end of the numbers: what was there before it is old, what comes after it is new. */
TEST(test_rc_02_psns_wrap)
{
	struct ib_bed *b = open(WEFT_RC);

	for (uint32_t n = 0; n < 8; n++) {
		struct iba_packet p = peer_reth(b, IBA_FETCH_ADD, P0 + n, 512, 0);
		uint64_t was, is;

		memcpy(&was, b->memory + 512, 8);
		p.swap_add = 1;
		EXPECT_EQ(p.psn, (P0 + n) % ALL);
		MUST(bed_put(b, p, NULL, 0));
		(void)bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, p.psn);
		memcpy(&is, b->memory + 512, 8);
		EXPECT(is == was + 1);
		bed_note(b);
		MUST(bed_put(b, p, NULL, 0)); /* its answer was lost */
		(void)bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, p.psn);
		MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 - 1, 0, 8), data, 8));
		bed_expect_ack(b, 0, p.psn);
		EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + n + 1 + GAP, 0, 8), data, 8),
			  WEFT_R_IB_PSN);
		bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), (P0 + n + 1) % ALL);
		bed_unchanged(b);
	}
	bed_close(b);
}

/* Of those that were never given out; a datagram is cheap, and must be cheap to refuse. */
TEST(test_rc_02_a_flood_to_unknown_queue_pairs_leaves_nothing)
{
	struct ib_bed *b = open(WEFT_RC);
	struct bed_way way = { .from = b->config.path.to };
	struct iba_packet p = good_write(b);

	bed_note(b);
	for (uint32_t i = 2; i < MANY; i++) {
		p.dest_qp = i * 839 % ALL;
		if (p.dest_qp == b->qp->number || p.dest_qp == IBA_QPN_GSI ||
		    p.dest_qp == IBA_QPN_MULTICAST)
			p.dest_qp = 0;
		EXPECT_EQ(bed_put_by(b, &way, p, data, 12), WEFT_R_PEER_UNKNOWN);
		EXPECT(!ib_port_has_output(b->port));
	}
	EXPECT_EQ(ib_port_counts(b->port)->dropped, MANY - 2);
	EXPECT_EQ(ib_port_counts(b->port)->packets_out, 0);
	EXPECT_EQ(ib_port_due(b->port), UINT64_MAX);
	expect_untouched(b);
	bed_close(b);
}

/* ---- Numbers that a true peer cannot be at --------------------------------------------------- */

/* A packet of the peer in its place, which is acknowledged. */
static void peer_goes_on(struct ib_bed *b, uint32_t n)
{
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + n, 64, 12), data, 12));
	bed_expect_ack(b, 0, (P0 + n) % ALL);
}

static uint32_t naks_to(struct ib_bed *b, uint32_t psn)
{
	uint32_t naks = 0;

	REQUIRE(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, psn, 64, 12), data, 12) == WEFT_R_IB_PSN);
	while (b->out_count > 0)
		naks += iba_syndrome(bed_next(b)->p.syndrome) == IBA_SYNDROME_NAK;
	return naks;
}

/*
 * RFC 5961: each NAK makes the true peer send again all that it has on its way. Between its packets
 * come forged ones of any number: they bring one NAK about in a tenth of a second. What is so near
 * that the peer can have lost a packet before it is answered each time.
 */
TEST(test_rc_03_forged_psns_bring_few_naks)
{
	enum { ROUNDS = 1000, NEAR = 4096 };
	static const uint32_t near[] = { 0, GAP, GAP + 1, 255, 4095 };
	struct ib_bed *b = open(WEFT_RC);
	uint32_t naks = 0;

	for (uint32_t n = 0; n < ROUNDS; n++) {
		peer_goes_on(b, n);
		naks += naks_to(b, P0 + n + 1 + NEAR + n * 7919 % (ALL / 2 - 2 * NEAR));
	}
	EXPECT_EQ(naks, 1);
	bed_wait(b, 100000000);
	peer_goes_on(b, ROUNDS);
	EXPECT_EQ(naks_to(b, P0 + ROUNDS + 1 + 2 * NEAR), 1);
	for (uint32_t i = 1; i < sizeof(near) / sizeof(*near); i++) {
		peer_goes_on(b, ROUNDS + i);
		EXPECT_EQ(naks_to(b, P0 + ROUNDS + i + 1 + near[i]), 1);
	}
	bed_close(b);
}

/*
 * A Read of 2 MiB takes 8192 numbers. A NAK that ends the connection must name its request, or an
 * answer near the last that came; a forged one elsewhere does nothing.
 */
TEST(test_rc_04_forged_naks_within_a_read_end_nothing)
{
	enum { PARTS = 32, NEAR = 4096, COUNT = PARTS * BED_BYTES / MTU };
	static const uint8_t naks[] = { IBA_NAK_INVALID, IBA_NAK_ACCESS, IBA_NAK_OPERATION,
					IBA_NAK_SEQUENCE };
	struct ib_bed *b = open(WEFT_RC);
	struct weft_sge parts[PARTS];
	struct weft_send_wr wr = { .id = 1,
				   .opcode = WEFT_OP_READ,
				   .remote_addr = 0x1000,
				   .remote_tag = 0x77,
				   .sges = parts,
				   .sge_count = PARTS };

	for (int i = 0; i < PARTS; i++)
		parts[i] = (struct weft_sge){ (uintptr_t)b->memory, BED_BYTES, b->tag };
	bed_post(b, wr, 0, 0);
	(void)bed_expect(b, IBA_READ_REQUEST, PSN_OURS);
	for (size_t i = 0; i < sizeof(naks); i++) {
		for (uint32_t n = NEAR; n < COUNT; n += 511)
			EXPECT_EQ(bed_put(b,
					  peer_ack(iba_syndrome_nak((enum iba_nak)naks[i]),
						   PSN_OURS + n, 0),
					  NULL, 0),
				  WEFT_R_IB_PSN);
	}
	bed_silent(b);
	bed_incomplete(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	/* The responder has come so far, and then refuses: that counts, also if some were lost. */
	MUST(bed_put(b, peer_op(IBA_READ_RESPONSE_FIRST, PSN_OURS), data, MTU));
	EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_ACCESS), PSN_OURS + 40, 0), NULL, 0),
		  WEFT_OK);
	bed_completed(b, 1, WEFT_ERR_REMOTE_ACCESS);
	bed_close(b);
}

/* ---- Answers that fit no request ------------------------------------------------------------- */

static struct ib_bed *open_with(enum weft_opcode opcode)
{
	struct ib_bed *b = open(WEFT_RC);
	const struct weft_send_wr wr = {
		.id = 1, .opcode = opcode, .remote_addr = 0x1000, .remote_tag = 0x77
	};

	bed_post(b, wr, 0, 8);
	(void)bed_next(b);
	bed_note(b);
	return b;
}

/* The forged answer is dropped for a reason, and the real one ends the request. */
static void expect_dropped(struct ib_bed *b, struct iba_packet forged, enum weft_reason reason,
			   struct iba_packet real)
{
	bool has_data = iba_form(real.opcode)->kind == IBA_KIND_READ_RESPONSE;
	bool is_data_forged = iba_form(forged.opcode)->kind == IBA_KIND_READ_RESPONSE;

	MUST_EQ(bed_put(b, forged, data, is_data_forged ? 8 : 0), reason);
	bed_unchanged(b);
	bed_silent(b);
	bed_incomplete(b);
	MUST(bed_put(b, real, data, has_data ? 8 : 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_rc_04_an_answer_to_a_read_says_no_refusal)
{
	struct iba_packet real = peer_op(IBA_READ_RESPONSE_ONLY, PSN_OURS), forged = real;

	forged.syndrome = iba_syndrome_nak(IBA_NAK_ACCESS);
	expect_dropped(open_with(WEFT_OP_READ), forged, WEFT_R_IB_OPCODE, real);
	forged.syndrome = (uint8_t)(IBA_SYNDROME_RNR << 5);
	expect_dropped(open_with(WEFT_OP_READ), forged, WEFT_R_IB_OPCODE, real);
}

/* Its source would be overwritten. */
TEST(test_rc_04_a_write_has_no_answer_with_data)
{
	struct iba_packet forged = peer_op(IBA_ATOMIC_ACKNOWLEDGE, PSN_OURS);

	forged.original = UINT64_MAX;
	expect_dropped(open_with(WEFT_OP_WRITE), forged, WEFT_R_IB_PSN,
		       peer_ack(iba_syndrome_ack(31), PSN_OURS, 1));
	expect_dropped(open_with(WEFT_OP_WRITE), peer_op(IBA_READ_RESPONSE_ONLY, PSN_OURS),
		       WEFT_R_IB_PSN, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1));
}

/* IBA 9.7.5.2.8: only what takes a receive can find none. */
TEST(test_rc_04_a_read_needs_no_receive)
{
	expect_dropped(open_with(WEFT_OP_READ),
		       peer_ack((uint8_t)(IBA_SYNDROME_RNR << 5), PSN_OURS, 0), WEFT_R_IB_PSN,
		       peer_op(IBA_READ_RESPONSE_ONLY, PSN_OURS));
}

TEST(test_rc_04_a_reserved_syndrome_is_no_acknowledgement)
{
	expect_dropped(open_with(WEFT_OP_WRITE),
		       peer_ack((uint8_t)(IBA_SYNDROME_RESERVED << 5), PSN_OURS, 1),
		       WEFT_R_IB_OPCODE, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1));
}

/* A NAK acknowledges all before it; of these was the last one that waited. */
TEST(test_rc_04_a_nak_behind_the_last_request_refuses_nothing)
{
	static const enum iba_nak naks[] = { IBA_NAK_SEQUENCE, IBA_NAK_ACCESS };

	for (size_t i = 0; i < 2; i++) {
		struct ib_bed *b = open_with(WEFT_OP_WRITE);

		EXPECT_EQ(bed_put(b, peer_ack(iba_syndrome_nak(naks[i]), PSN_OURS + 1, 1), NULL, 0),
			  WEFT_R_IB_PSN);
		bed_silent(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
		bed_close(b);
	}
}

/* ---- Keys and sources ----------------------------------------------------------------------- */

TEST(test_ud_01_forged_q_keys_deliver_nothing)
{
	struct ib_bed *b = open(WEFT_UD);
	struct iba_packet p = { .opcode = IBA_UD_SEND, .src_qp = 0x99 };

	bed_recv(b, 1, 0, 256);
	bed_note(b);
	for (uint32_t i = 0; i < 32; i++) {
		p.q_key = Q_KEY ^ 1U << i;
		EXPECT_EQ(bed_put(b, p, data, 8), WEFT_R_IB_QKEY);
	}
	bed_unchanged(b);
	bed_silent(b);
	bed_incomplete(b);
	p.q_key = Q_KEY;
	MUST(bed_put(b, p, data, 8));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* Every bit of the key, at the right number: refused, and that is the end of the connection. */
TEST(test_rkey_09_forged_r_keys_change_nothing)
{
	static const enum iba_op asks[] = { IBA_WRITE_ONLY, IBA_WRITE_FIRST, IBA_READ_REQUEST,
					    IBA_FETCH_ADD };

	for (uint32_t i = 0; i < 32 * 4; i++) {
		struct ib_bed *b = open(WEFT_RC);
		enum iba_op op = asks[i % 4];
		struct iba_packet p = peer_reth(b, op, P0, 0, op == IBA_WRITE_FIRST ? 2 * MTU : 8);
		uint32_t bytes = op == IBA_WRITE_ONLY ? 8 : op == IBA_WRITE_FIRST ? MTU : 0;

		p.r_key ^= 1U << i / 4;
		p.swap_add = 1;
		bed_note(b);
		MUST(bed_put(b, p, data, bytes));
		bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), P0);
		bed_silent(b);
		bed_unchanged(b);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		bed_close(b);
	}
}

/* IBA 9.6.1.1: all that a connected queue pair may be sent comes from its peer. */
TEST(test_rc_01_spoofed_sources_are_not_heard)
{
	struct ib_bed *b = open(WEFT_RC);
	struct bed_way way = { .from = b->config.path.to };
	struct iba_packet nak = peer_ack(iba_syndrome_nak(IBA_NAK_ACCESS), PSN_OURS, 0);
	struct inet_end to;

	bed_note(b);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 8);
	bed_expect(b, IBA_WRITE_ONLY, PSN_OURS);
	nak.dest_qp = b->qp->number;
	nak.p_key = IBA_PKEY_DEFAULT;
	for (uint32_t i = 0; i < 32; i++) {
		way.from = b->config.path.to;
		way.from.address[i / 8] ^= (uint8_t)(1 << i % 8);
		EXPECT_EQ(bed_put_by(b, &way, good_write(b), data, 12), WEFT_R_IB_SOURCE);
		EXPECT_EQ(bed_put_by(b, &way, nak, NULL, 0), WEFT_R_IB_SOURCE);
		way.from = b->config.path.to;
		to = b->config.path.from;
		to.address[i / 8] ^= (uint8_t)(1 << i % 8);
		way.to = &to;
		EXPECT_EQ(bed_put_by(b, &way, good_write(b), data, 12), WEFT_R_IB_SOURCE);
		way.to = NULL;
	}
	bed_silent(b);
	bed_incomplete(b);
	bed_unchanged(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	expect_untouched(b);
	bed_close(b);
}

/* ---- Asked for again ------------------------------------------------------------------------ */

/*
 * Duplicates of what is answered in full, as fast as they can come: the answer is on its way once,
 * however often it was asked for meanwhile.
 */
TEST(test_rc_02_a_flood_of_duplicate_reads_is_answered_once)
{
	struct ib_bed *b = open(WEFT_RC);
	struct iba_packet p = peer_reth(b, IBA_READ_REQUEST, P0, 0, 8 * MTU);

	MUST(bed_put(b, p, NULL, 0));
	EXPECT_EQ(b->out_count, 8);
	b->out_count = 0;
	b->is_held = true;
	for (uint32_t i = 0; i < MANY; i++)
		(void)bed_put(b, p, NULL, 0);
	b->is_held = false;
	bed_run(b);
	EXPECT(b->out_count > 0 && b->out_count <= 8);
	bed_unchanged(b);
	bed_close(b);
}

TEST(test_qp_s3_a_flood_of_duplicate_atomics_is_carried_out_once)
{
	struct ib_bed *b = open(WEFT_RC);
	struct iba_packet p = peer_reth(b, IBA_FETCH_ADD, P0, 512, 0);
	uint64_t was, is;

	memcpy(&was, b->memory + 512, 8);
	p.swap_add = 1;
	b->is_held = true;
	for (uint32_t i = 0; i < MANY; i++)
		(void)bed_put(b, p, NULL, 0);
	b->is_held = false;
	bed_run(b);
	memcpy(&is, b->memory + 512, 8);
	EXPECT(is == was + 1);
	EXPECT(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, P0)->p.original == was);
	bed_silent(b);
	bed_close(b);
}
