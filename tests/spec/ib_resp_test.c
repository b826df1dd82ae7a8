/* SPDX-License-Identifier: BSD-2-Clause */
/* The responder of RC: what a peer may say, in and out of order, once and twice. */
#include <string.h>

#include "base/prng.h"
#include "ib_bed.h"

enum { P0 = PSN_PEERS, MTU = 256 };

static uint8_t data[4096];

static struct ib_bed *open(void)
{
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(200 - i * 3);
	return bed_open(NULL, WEFT_RC);
}

TEST(test_rc_01_rc_02_a_send_of_three_packets)
{
	struct ib_bed *b = open();
	struct iba_packet p = peer_op(IBA_SEND_FIRST, P0);
	struct bed_packet *ack;

	bed_recv(b, 7, 100, 1000);
	p.is_ack_requested = false;
	EXPECT_EQ(bed_put(b, p, data, MTU), WEFT_OK);
	bed_silent(b); /* no ACK was requested */
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_MIDDLE, P0 + 1), data + MTU, MTU), WEFT_OK);
	ack = bed_expect(b, IBA_ACKNOWLEDGE, (P0 + 1) & IBA_PSN_MASK);
	EXPECT_EQ(ack->p.msn, 0); /* the message is not whole */
	EXPECT_EQ(ack->p.syndrome, iba_syndrome_ack(1));
	bed_incomplete(b);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 2), data + 2 * MTU, 11), WEFT_OK);
	bed_completed(b, 7, WEFT_SUCCESS);
	ack = bed_expect(b, IBA_ACKNOWLEDGE, (P0 + 2) & IBA_PSN_MASK);
	EXPECT_EQ(ack->p.msn, 1);
	EXPECT_EQ(ack->p.syndrome, iba_syndrome_ack(0));
	EXPECT_MEM(b->memory + 100, data, 2 * MTU + 11);
	/* IBA 9.7.7.2: when there is a receive again, the peer is told. */
	bed_recv(b, 8, 100, 1000);
	EXPECT_EQ(bed_expect(b, IBA_ACKNOWLEDGE, (P0 + 2) & IBA_PSN_MASK)->p.syndrome,
		  iba_syndrome_ack(1));
	bed_close(b);
}

/*
 * AMB-35: every frame is acknowledged, and over IP one ACK acknowledges all up to its number.
 * Frames that come together and ask have one ACK, of the latest of them; frames that do not ask
 * have none of their own, and are in the next.
 */
TEST(test_rc_02_every_frame_is_in_an_acknowledgement)
{
	struct prng prng = { 35 };
	uint32_t next = 0, acked = 0;
	struct ib_bed *b = open();

	while (next < 500) {
		uint32_t burst = 1 + prng_below(&prng, 4);
		bool is_asked = false;

		b->is_batch = true;
		for (uint32_t i = 0; i < burst; i++, next++) {
			struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, P0 + next, 0, 8);

			p.is_ack_requested = prng_below(&prng, 2) == 0;
			is_asked |= p.is_ack_requested;
			MUST(bed_put(b, p, data, 8));
		}
		b->is_batch = false;
		bed_run(b);
		if (is_asked) {
			bed_expect_ack(b, 0, iba_psn_add(P0, next - 1));
			acked = next;
		}
		bed_silent(b);
	}
	/* Asked by itself, a frame has its own. */
	for (uint32_t end = next + 10; next < end; next++) {
		MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + next, 0, 8), data, 8));
		bed_expect_ack(b, 0, iba_psn_add(P0, next));
		acked = next + 1;
	}
	EXPECT_EQ(acked, next);
	bed_close(b);
}

TEST(test_rc_03_iba_9_7_5_2_what_comes_too_early_is_refused_once)
{
	struct ib_bed *b = open();

	for (uint32_t i = 1; i < 4; i++) {
		MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + i, 8 * i, 8), data, 8));
		if (i == 1)
			bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
		bed_silent(b);
	}
	/* The peer has begun anew, and lost it again. */
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8), WEFT_R_IB_PSN);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), P0);
	bed_unchanged(b);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 8), data, 8), WEFT_OK);
	bed_expect_ack(b, 0, iba_psn_add(P0, 3));
	for (uint32_t i = 0; i < 4; i++)
		EXPECT_MEM(b->memory + 8 * i, data, 8);
	/* And said again for another gap. */
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 5, 0, 8), data, 8));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), iba_psn_add(P0, 4));
	bed_close(b);
}

/* That a program has not looked yet is no reason to let the peer wait. */
TEST(test_rc_03_an_acknowledgement_means_arrived_not_consumed)
{
	struct ib_bed *b = open();

	bed_recv(b, 7, 0, 8);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_OK);
	bed_expect_ack(b, 0, P0);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 64, 8), data, 8), WEFT_OK);
	bed_expect_ack(b, 0, (P0 + 1) & IBA_PSN_MASK);
	EXPECT_EQ(b->cq->count, 1); /* it was not polled */
	bed_completed(b, 7, WEFT_SUCCESS);
	bed_close(b);
}

TEST(test_rc_02_an_acknowledgement_goes_before_a_send_and_behind_a_write)
{
	struct ib_bed *b = open();
	const struct weft_send_wr write = { .opcode = WEFT_OP_WRITE, .remote_tag = 1 };

	b->is_held = true;
	EXPECT(!ib_port_has_acks_only(b->port));
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 8), data, 8), WEFT_OK);
	EXPECT(ib_port_has_acks_only(b->port)); /* the driver may let it wait for what is posted */
	for (uint32_t i = 0; i < 3; i++)
		bed_post(b, write, 0, 8);
	EXPECT(!ib_port_has_acks_only(b->port));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_WRITE_ONLY, PSN_OURS);
	bed_expect(b, IBA_ACKNOWLEDGE, P0); /* one is enough: it is not starved */
	bed_expect(b, IBA_WRITE_ONLY, (PSN_OURS + 1) & IBA_PSN_MASK);
	bed_expect(b, IBA_WRITE_ONLY, (PSN_OURS + 2) & IBA_PSN_MASK);
	bed_silent(b);
	/* The peer's program hears that its request has ended, then the answer to it. */
	b->is_held = true;
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8), WEFT_OK);
	bed_post(b, (struct weft_send_wr){ .opcode = WEFT_OP_SEND }, 0, 8);
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_ACKNOWLEDGE, (P0 + 1) & IBA_PSN_MASK);
	bed_expect(b, IBA_SEND_ONLY, (PSN_OURS + 3) & IBA_PSN_MASK);
	/* Answers to Reads, and refusals, are no mere acknowledgements. */
	b->is_held = true;
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 2, 0, 8), NULL, 0), WEFT_OK);
	EXPECT(!ib_port_has_acks_only(b->port));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, (P0 + 2) & IBA_PSN_MASK);
	b->is_held = true;
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 4, 0, 8), data, 8));
	EXPECT(!ib_port_has_acks_only(b->port));
	b->is_held = false;
	bed_run(b);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), (P0 + 3) & IBA_PSN_MASK);
	bed_close(b);
}

TEST(test_rc_04_iba_9_7_5_2_8_no_receive)
{
	struct ib_bed *b = open();

	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_OK);
		bed_expect_ack(b, iba_syndrome_rnr(9), P0);
		EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8),
			  WEFT_R_IB_PSN);
		bed_silent(b); /* what follows is not looked at */
	}
	bed_unchanged(b);
	bed_recv(b, 1, 0, 8);
	bed_expect_ack(b, 0, (P0 - 1) & IBA_PSN_MASK); /* credits */
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_OK);
	bed_expect_ack(b, 0, P0);
	bed_completed(b, 1, WEFT_SUCCESS);
	/* A Write's immediate needs one as well, at its last packet; and then not again. */
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_FIRST, P0 + 1, 512, MTU + 4), data, MTU),
		  WEFT_OK);
	bed_expect_ack(b, 0, (P0 + 1) & IBA_PSN_MASK);
	EXPECT_EQ(bed_put(b, peer_op(IBA_WRITE_LAST_IMM, P0 + 2), data + MTU, 4), WEFT_OK);
	bed_expect_ack(b, iba_syndrome_rnr(9), (P0 + 2) & IBA_PSN_MASK);
	bed_recv(b, 2, 0, 0);
	bed_next(b);
	EXPECT_EQ(bed_put(b, peer_op(IBA_WRITE_LAST_IMM, P0 + 2), data + MTU, 4), WEFT_OK);
	bed_expect_ack(b, 0, (P0 + 2) & IBA_PSN_MASK);
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_MEM(b->memory + 512, data, MTU + 4);
	bed_close(b);
}

TEST(test_iba_9_7_5_1_5_a_duplicate_is_acknowledged_and_not_carried_out)
{
	struct ib_bed *b = open();

	bed_recv(b, 1, 64, 8);
	bed_recv(b, 2, 128, 8);
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_OK);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_next(b);
	bed_next(b);
	memset(b->memory, 0xee, 256);
	bed_note(b);
	for (uint32_t i = 0; i < 2; i++) {
		EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0), data, 8), WEFT_OK);
		bed_expect_ack(b, 0, (P0 + 1) & IBA_PSN_MASK); /* the latest */
		EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, 0, 8), data, 8), WEFT_OK);
		bed_expect_ack(b, 0, (P0 + 1) & IBA_PSN_MASK);
	}
	bed_unchanged(b);
	bed_incomplete(b);
	EXPECT_EQ(ib_port_counts(b->port)->duplicates, 4);
	bed_close(b);
}

/* ---- Reads and atomics ---------------------------------------------------------------------- */

static void expect_response(struct ib_bed *b, uint32_t first, uint32_t count, uint64_t offset,
			    uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		bool is_last = i + 1 == count;
		enum iba_op op = i == 0 ? (is_last ? IBA_READ_RESPONSE_ONLY
						   : IBA_READ_RESPONSE_FIRST)
					: (is_last ? IBA_READ_RESPONSE_LAST
						   : IBA_READ_RESPONSE_MIDDLE);
		struct bed_packet *p = bed_expect(b, op, (first + i) & IBA_PSN_MASK);

		EXPECT_EQ(p->p.payload_bytes, is_last ? bytes - i * MTU : MTU);
		EXPECT_MEM(p->payload, b->memory + offset + i * MTU, p->p.payload_bytes);
	}
}

TEST(test_iba_9_7_5_1_7_a_read_and_what_was_lost_of_it)
{
	struct ib_bed *b = open();
	struct iba_packet p;

	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0, 1000, 3 * MTU + 5), NULL, 0),
		  WEFT_OK);
	expect_response(b, P0, 4, 1000, 3 * MTU + 5);
	bed_silent(b); /* the answer is the acknowledgement */
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 4, 0, 0), NULL, 0), WEFT_OK);
	expect_response(b, P0 + 4, 1, 0, 0);
	/* From the second packet on; what was answered after it is asked for, too, or not. */
	p = peer_reth(b, IBA_READ_REQUEST, P0 + 1, 1000 + MTU, 2 * MTU + 5);
	EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
	expect_response(b, P0 + 1, 3, 1000 + MTU, 2 * MTU + 5);
	bed_silent(b);
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 4, 0, 0), NULL, 0), WEFT_OK);
	expect_response(b, P0 + 4, 1, 0, 0);
	bed_silent(b);
	/* It is not another memory that is read by an old number. */
	for (int i = 0; i < 5; i++) {
		p = peer_reth(b, IBA_READ_REQUEST, P0 + 1, 1000 + MTU, 2 * MTU + 5);
		p.va += i == 0;
		p.r_key ^= (uint32_t)(i == 1);
		p.dma_bytes += (uint32_t)(i == 2);
		p.psn = (p.psn - (uint32_t)(i == 3) * 2) & IBA_PSN_MASK;
		if (i == 4)
			p.opcode = iba_opcode(IBA_RC, IBA_FETCH_ADD);
		EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_R_IB_PSN);
		bed_silent(b);
	}
	bed_unchanged(b);
	bed_close(b);
}

static uint64_t word(const struct ib_bed *b)
{
	uint64_t v;

	memcpy(&v, b->memory + 64, sizeof(v));
	return v;
}

TEST(test_qp_s3_iba_9_7_5_1_5_an_atomic_is_carried_out_once)
{
	struct ib_bed *b = open();
	struct iba_packet p = peer_reth(b, IBA_FETCH_ADD, P0, 64, 0);
	uint64_t was = word(b);

	p.swap_add = 5;
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
		EXPECT_EQ(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, P0)->p.original, was);
		EXPECT_EQ(word(b), was + 5);
	}
	p = peer_reth(b, IBA_COMPARE_SWAP, P0 + 1, 64, 0);
	p.compare = was + 5;
	p.swap_add = 99;
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
		EXPECT_EQ(
			bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, (P0 + 1) & IBA_PSN_MASK)->p.original,
			was + 5);
		EXPECT_EQ(word(b), 99);
	}
	/* Two are kept, as agreed; the peer has the answers of those before. */
	p = peer_reth(b, IBA_FETCH_ADD, P0 + 2, 64, 0);
	EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
	EXPECT_EQ(bed_expect(b, IBA_ATOMIC_ACKNOWLEDGE, (P0 + 2) & IBA_PSN_MASK)->p.msn, 3);
	p = peer_reth(b, IBA_FETCH_ADD, P0, 64, 0);
	p.swap_add = 5;
	EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_R_IB_PSN);
	bed_silent(b);
	EXPECT_EQ(word(b), 99);
	bed_close(b);
}

TEST(test_iba_9_7_4_1_7_more_reads_than_agreed)
{
	struct ib_bed *b = open();

	b->is_held = true; /* so that none is answered */
	for (uint32_t i = 0; i < 3; i++)
		EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + i, 0, 8), NULL, 0),
			  WEFT_OK);
	EXPECT_EQ(b->qp->reason, WEFT_R_READS_BEYOND);
	b->is_held = false;
	bed_run(b);
	/* Those that were agreed are answered first. */
	expect_response(b, P0, 1, 0, 8);
	expect_response(b, P0 + 1, 1, 0, 8);
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), (P0 + 2) & IBA_PSN_MASK);
	EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
	bed_close(b);
}

/* TOUCH-10: read once, also when the answer is asked for twice; and no second while it is due. */
TEST(test_touch_10_a_one_touch_read_and_its_lost_answer)
{
	for (int i = 0; i < 3; i++) {
		struct ib_bed *b = open();
		const struct mem_owner owner = pd_owner(b->pd);
		const struct weft_region_options ro = { .addr = (uintptr_t)b->memory,
							.length = 4096,
							.rights = WEFT_REMOTE_READ |
								  WEFT_REMOTE_WRITE,
							.is_one_touch = true };
		struct iba_packet p = peer_reth(b, IBA_READ_REQUEST, P0, 8, 16);
		uint32_t tag;

		MUST(mem_region_register(&b->adapter.mem, &owner, &ro, &tag));
		p.r_key = tag;
		b->is_held = i > 0;
		for (int k = 0; k < 2 && i == 0; k++) { /* its answer was lost */
			EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
			expect_response(b, P0, 1, 8, 16);
		}
		if (i > 0)
			EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_OK);
		if (i == 2)
			p.opcode = iba_opcode(IBA_RC, IBA_WRITE_ONLY);
		p.psn = (P0 + 1) & IBA_PSN_MASK;
		EXPECT_EQ(bed_put(b, p, data, i == 2 ? 16 : 0), WEFT_OK);
		EXPECT_EQ(b->qp->reason, WEFT_R_TAG_SPENT);
		b->is_held = false;
		bed_run(b);
		if (i > 0)
			expect_response(b, P0, 1, 8, 16);
		bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), p.psn);
		bed_unchanged(b);
		(void)mem_region_deregister(&b->adapter.mem, b->pd->number, tag);
		bed_close(b);
	}
}

/* ---- Bad requests --------------------------------------------------------------------------- */

struct bad {
	enum iba_op op;
	uint32_t bytes, dma_bytes, offset;
	uint32_t tag_change;
	enum iba_nak nak;
	enum weft_reason reason;
	bool is_begun; /* after the first packet of a Write of 1000 bytes */
};

static const struct bad bads[] = {
	/* IBA 9.7.4.1.2: the order of opcodes */
	{ IBA_SEND_MIDDLE, 256, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, false },
	{ IBA_SEND_LAST, 8, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, false },
	{ IBA_WRITE_MIDDLE, 256, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, false },
	{ IBA_WRITE_LAST, 8, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, false },
	{ IBA_SEND_MIDDLE, 256, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, true },
	{ IBA_SEND_ONLY, 8, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, true },
	{ IBA_WRITE_FIRST, 256, 300, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, true },
	{ IBA_READ_REQUEST, 0, 8, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, true },
	{ IBA_FETCH_ADD, 0, 8, 64, 0, IBA_NAK_INVALID, WEFT_R_IB_ORDER, true },
	/* IBA 9.7.4.1.6: lengths */
	{ IBA_WRITE_FIRST, 512, 600, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_ONLY, 260, 260, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_ONLY, 8, 9, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_ONLY, 8, 7, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_FIRST, 256, 256, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_FIRST, 256, 0xffffffff, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, false },
	{ IBA_WRITE_LAST, 4, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_LENGTH, true },
	{ IBA_SEND_ONLY, 9, 0, 0, 0, IBA_NAK_INVALID, WEFT_R_RECEIVE_TOO_SHORT, false },
	/* IBA 9.7.4.1.3, RKEY-09: access */
	{ IBA_WRITE_ONLY, 8, 8, 0, 1, IBA_NAK_ACCESS, WEFT_R_TAG_INSTANCE, false },
	{ IBA_WRITE_ONLY, 8, 8, BED_BYTES - 7, 0, IBA_NAK_ACCESS, WEFT_R_RANGE_BOUNDS, false },
	{ IBA_WRITE_FIRST, 256, 1000, BED_BYTES - 999, 0, IBA_NAK_ACCESS, WEFT_R_RANGE_BOUNDS,
	  false },
	{ IBA_READ_REQUEST, 0, 8, 0, 0x100, IBA_NAK_ACCESS, WEFT_R_TAG_INVALID, false },
	{ IBA_READ_REQUEST, 0, 8, BED_BYTES - 7, 0, IBA_NAK_ACCESS, WEFT_R_RANGE_BOUNDS, false },
	{ IBA_FETCH_ADD, 0, 8, 0, 1, IBA_NAK_ACCESS, WEFT_R_TAG_INSTANCE, false },
	{ IBA_FETCH_ADD, 0, 8, 65, 0, IBA_NAK_INVALID, WEFT_R_ATOMIC_ALIGN, false },
	/* not served */
	{ IBA_FLUSH, 0, 8, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_OPCODE, false },
	{ IBA_ATOMIC_WRITE, 8, 8, 0, 0, IBA_NAK_INVALID, WEFT_R_IB_OPCODE, false },
};

TEST(test_rc_03_bad_requests_are_refused_and_change_nothing)
{
	for (size_t i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
		const struct bad *bad = &bads[i];
		struct ib_bed *b = open();
		uint32_t psn = P0;
		struct iba_packet p;

		bed_recv(b, 1, 0, 8);
		if (bad->is_begun) {
			p = peer_reth(b, IBA_WRITE_FIRST, psn++, 0, 1000);
			EXPECT_EQ(bed_put(b, p, data, MTU), WEFT_OK);
			bed_next(b);
		}
		bed_note(b);
		p = peer_reth(b, bad->op, psn, bad->offset, bad->dma_bytes);
		p.r_key += bad->tag_change;
		EXPECT_EQ(bed_put(b, p, data, bad->bytes), WEFT_OK);
		EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
		EXPECT_STR(weft_reason_name(b->qp->reason), weft_reason_name(bad->reason));
		bed_expect_ack(b, iba_syndrome_nak(bad->nak), psn & IBA_PSN_MASK);
		bed_unchanged(b);
		/* The same NAK to a repetition of the request; none to earlier requests. */
		for (int k = 0; k < 2; k++) {
			EXPECT_EQ(bed_put(b, p, data, bad->bytes), WEFT_OK);
			bed_expect_ack(b, iba_syndrome_nak(bad->nak), psn & IBA_PSN_MASK);
		}
		EXPECT_EQ(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 - 1, 0, 8), data, 8),
			  WEFT_R_PEER_GONE);
		EXPECT_EQ(bed_put(b, peer_ack(0, PSN_OURS, 0), NULL, 0), WEFT_R_PEER_GONE);
		bed_silent(b);
		bed_unchanged(b);
		bed_close(b);
	}
}

/*
 * IBA 9.7.4.1.6: no message is longer than 2^31 bytes, however few packets it takes; that is said
 * before the range is checked.
 */
TEST(test_rc_03_a_request_beyond_the_longest_message_is_refused)
{
	static const enum iba_op ops[] = { IBA_READ_REQUEST, IBA_WRITE_FIRST };
	static const uint32_t bytes[] = { (UINT32_C(1) << 31) + 1, UINT32_MAX };

	for (size_t i = 0; i < 4; i++) {
		enum iba_op op = ops[i / 2];
		struct ib_config k = bed_config();
		struct ib_bed *b;
		struct iba_packet p;

		k.path.mtu_bytes = sizeof(data);
		b = bed_open(&k, WEFT_RC);
		bed_note(b);
		p = peer_reth(b, op, P0, 0, bytes[i % 2]);
		EXPECT_EQ(bed_put(b, p, data, op == IBA_WRITE_FIRST ? sizeof(data) : 0), WEFT_OK);
		EXPECT_STR(weft_reason_name(b->qp->reason), weft_reason_name(WEFT_R_IB_LENGTH));
		bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_INVALID), P0);
		bed_unchanged(b);
		bed_close(b);
	}
}

/* ---- What is none of ours ------------------------------------------------------------------- */

static void flip_payload(uint8_t *bytes, size_t *length)
{
	bytes[*length - 6] ^= 0x10;
}

static void flip_congestion(uint8_t *bytes, size_t *length)
{
	(void)length;
	bytes[4] ^= 0x80; /* FECN: a network may set it */
}

static void cut(uint8_t *bytes, size_t *length)
{
	(void)bytes;
	*length -= 4;
}

TEST(test_rc_02_packets_that_are_none_of_ours_are_dropped)
{
	struct ib_bed *b = open();
	const struct iba_packet good = { .opcode = iba_opcode(IBA_RC, IBA_WRITE_ONLY),
					 .psn = P0,
					 .dest_qp = b->qp->number,
					 .p_key = IBA_PKEY_DEFAULT,
					 .va = (uintptr_t)b->memory,
					 .r_key = b->tag,
					 .dma_bytes = 8,
					 .is_ack_requested = true };
	struct bed_way way = { .from = b->config.path.to };
	struct iba_packet p = good;

	p.dest_qp ^= 1;
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_PEER_UNKNOWN);
	p.dest_qp = b->qp->number ^ 0x10000; /* an older queue pair of the same slot */
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_PEER_UNKNOWN);
	p.dest_qp = IBA_NUMBER_MAX - 1;
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_PEER_UNKNOWN);
	p.dest_qp = IBA_QPN_MULTICAST; /* of datagrams alone */
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_IB_SERVICE);
	p = good;
	p.opcode = iba_opcode(IBA_UC, IBA_WRITE_ONLY);
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_IB_SERVICE);
	p = good;
	p.p_key = 0xfffe;
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_R_IB_PKEY);
	way.from.address[3] ^= 1;
	EXPECT_EQ(bed_put_by(b, &way, good, data, 8), WEFT_R_IB_SOURCE);
	way.from = b->config.path.to;
	way.change = flip_payload;
	EXPECT_EQ(bed_put_by(b, &way, good, data, 8), WEFT_R_IB_ICRC);
	way.change = cut;
	EXPECT_EQ(bed_put_by(b, &way, good, data, 8), WEFT_R_IB_ICRC);
	bed_silent(b);
	bed_unchanged(b);
	EXPECT_EQ(ib_port_counts(b->port)->dropped, 9);
	/* A limited member of the partition is one; a network may mark; any port will do. */
	way.change = flip_congestion;
	way.from.port = 0xd000;
	p = good;
	p.p_key = 0x7fff;
	EXPECT_EQ(bed_put_by(b, &way, p, data, 8), WEFT_OK);
	bed_expect_ack(b, 0, P0);
	EXPECT_MEM(b->memory, data, 8);
	bed_close(b);
}

/* Annex A17: the identification of IPv4 is covered, and sockets do not tell it. */
/* Where it is not hidden, the ICRC must be of the one that came. */
TEST(test_rc_02_an_ipv4_identification_that_is_known_is_checked)
{
	struct ib_bed *b = open();
	const struct bed_way way = { .from = b->config.path.to, .ipv4_id = 1, .other_id = 2 };
	struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, P0, 0, 16);

	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	EXPECT_EQ(bed_put_by(b, &way, p, data, 16), WEFT_R_IB_ICRC);
	bed_silent(b);
	bed_close(b);
}

TEST(test_rc_02_an_ipv4_identification_that_sockets_hide)
{
	struct ib_bed *b = open();
	struct bed_way way = { .from = b->config.path.to, .is_ipv4_hidden = true };

	for (uint32_t i = 0; i < 3; i++) {
		struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, P0 + i, 0, 16);

		p.dest_qp = b->qp->number;
		p.p_key = IBA_PKEY_DEFAULT;
		way.ipv4_id = (uint16_t)(i * 4711);
		EXPECT_EQ(bed_put_by(b, &way, p, data, 16), WEFT_OK);
		bed_expect_ack(b, 0, (P0 + i) & IBA_PSN_MASK);
		way.change = flip_payload;
		EXPECT_EQ(bed_put_by(b, &way, p, data, 16), WEFT_R_IB_ICRC);
		way.change = NULL;
	}
	bed_close(b);
}
