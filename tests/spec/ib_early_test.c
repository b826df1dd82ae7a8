/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A packet was lost, and those behind it came: the responder keeps them until it comes again, and
 * takes them in order (IBA 9.7.4.1.1); a requester whose peer does so resends what was lost alone.
 */
#include <string.h>

#include "ib/rc_early.h"
#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, US = 1000, UNUSED = 31 };

static uint8_t data[MTU];

static struct ib_bed *open(void)
{
	for (uint32_t i = 0; i < MTU; i++)
		data[i] = (uint8_t)(3 * i + 1);
	return bed_open(NULL, WEFT_RC);
}

/* ---- The responder -------------------------------------------------------------------------- */

/* A Write of 8 bytes to a place of its own. */
static enum weft_reason put_write(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + n, 8 * n, 8), data + n % 64, 8);
}

static bool is_written(const struct ib_bed *b, uint32_t n)
{
	return memcmp(b->memory + 8 * n, data + n % 64, 8) == 0;
}

static void expect_nak(struct ib_bed *b, uint32_t n)
{
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_SEQUENCE), iba_psn_add(P0, n));
	bed_silent(b);
}

static void expect_ack(struct ib_bed *b, uint32_t n)
{
	bed_expect_ack(b, 0, iba_psn_add(P0, n));
	bed_silent(b);
}

/* Nothing is placed before its turn; each gap has one NAK; the ACK is of all that there is. */
TEST(test_rc_03_early_writes_are_taken_when_the_lost_one_comes)
{
	enum { FIRST = 0, SECOND = 5, THIRD = 6, END = 12 };
	struct ib_bed *b = open();

	for (uint32_t n = 1; n < END; n++) {
		if (n == SECOND || n == THIRD)
			continue;
		MUST(put_write(b, n));
		if (n == 1)
			expect_nak(b, FIRST);
	}
	bed_silent(b);
	bed_unchanged(b);
	EXPECT_EQ(ib_port_counts(b->port)->early, END - 3);
	EXPECT_EQ(ib_port_counts(b->port)->copied, 8 * (END - 3)); /* SYS-06 */
	MUST(put_write(b, FIRST));
	expect_ack(b, SECOND - 1);
	for (uint32_t n = 0; n < END; n++)
		EXPECT_EQ(is_written(b, n), n < SECOND);
	MUST(put_write(b, END)); /* what comes behind the next gap tells of that */
	expect_nak(b, SECOND);
	MUST(put_write(b, SECOND));
	expect_ack(b, SECOND);
	MUST(put_write(b, THIRD));
	expect_ack(b, END);
	for (uint32_t n = 0; n <= END; n++)
		EXPECT(is_written(b, n));
	EXPECT_EQ(ib_port_counts(b->port)->duplicates, 0);
	bed_close(b);
}

/* A peer that goes back has acknowledgements for what it sends twice, and no more NAKs. */
TEST(test_rc_03_iba_9_7_5_1_5_a_peer_that_goes_back_is_answered)
{
	enum { HOLE = 3, END = 6 };
	struct ib_bed *b = open();

	for (uint32_t n = 1; n < END; n++) {
		if (n != HOLE)
			MUST(put_write(b, n));
	}
	expect_nak(b, 0);
	for (uint32_t n = 0; n < END; n++) {
		MUST(put_write(b, n));
		expect_ack(b, n < HOLE ? HOLE - 1 : END - 1);
	}
	EXPECT_EQ(ib_port_counts(b->port)->duplicates, END - 2);
	EXPECT_EQ(ib_port_counts(b->port)->naks_out, 1);
	bed_close(b);
}

/* A Send of several packets, of which the first was lost; and its completion. */
TEST(test_rc_03_early_packets_of_a_send_complete_it_once)
{
	struct ib_bed *b = open();

	bed_recv(b, 7, 0, 4 * MTU);
	MUST(bed_put(b, peer_op(IBA_SEND_MIDDLE, P0 + 1), data, MTU));
	expect_nak(b, 0);
	MUST(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 2), data, 8));
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_LAST, P0 + 2), data, 8), WEFT_R_IB_PSN); /* twice */
	expect_nak(b, 0);
	bed_incomplete(b);
	MUST(bed_put(b, peer_op(IBA_SEND_FIRST, P0), data, MTU));
	expect_ack(b, 2);
	bed_completed(b, 7, WEFT_SUCCESS);
	EXPECT_MEM(b->memory + MTU, data, MTU);
	EXPECT_MEM(b->memory + 2 * MTU, data, 8);
	bed_close(b);
}

/* IBA 9.7.5.2.8: no receive for a kept Send. The peer sends all again, so nothing stays. */
TEST(test_rc_04_early_packets_go_when_there_is_no_receive)
{
	struct ib_bed *b = open();

	for (uint32_t n = 1; n < 4; n++)
		MUST(bed_put(b, peer_op(IBA_SEND_ONLY, P0 + n), data, 8));
	expect_nak(b, 0);
	MUST(put_write(b, 0));
	bed_expect_ack(b, iba_syndrome_rnr(9), iba_psn_add(P0, 1));
	EXPECT_EQ(bed_put(b, peer_op(IBA_SEND_ONLY, P0 + 2), data, 8), WEFT_R_IB_PSN);
	bed_silent(b);
	bed_recv(b, 1, 64, 8);
	bed_recv(b, 2, 72, 8);
	b->out_count = 0; /* credits */
	MUST(bed_put(b, peer_op(IBA_SEND_ONLY, P0 + 1), data, 8));
	expect_ack(b, 1);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_incomplete(b);
	bed_close(b);
}

/* What is wrong with a kept packet is refused in its turn, and ends what is behind it. */
TEST(test_rc_03_early_packets_are_checked_in_their_turn)
{
	struct ib_bed *b = open();

	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0 + 1, BED_BYTES - 7, 8), data, 8));
	expect_nak(b, 0);
	MUST(put_write(b, 2));
	bed_silent(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	MUST(put_write(b, 0));
	bed_expect_ack(b, iba_syndrome_nak(IBA_NAK_ACCESS), iba_psn_add(P0, 1));
	EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
	EXPECT(is_written(b, 0) && !is_written(b, 2));
	bed_close(b);
}

/* Reads, and what no true peer can be at, are not kept: too far ahead, or behind a wide gap. */
TEST(test_rc_03_what_is_not_kept)
{
	struct ib_bed *b = open();
	uint32_t n = 1;

	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 1, 0, 8), NULL, 0), WEFT_R_IB_PSN);
	expect_nak(b, 0);
	EXPECT_EQ(put_write(b, IB_EARLY_GAP + 1), WEFT_R_IB_PSN);
	for (; n < IB_EARLY_MAX; n += IB_EARLY_GAP)
		MUST(put_write(b, n));
	EXPECT_EQ(put_write(b, n), WEFT_R_IB_PSN);
	EXPECT_EQ(put_write(b, IB_EARLY_MAX), WEFT_R_IB_PSN);
	MUST(put_write(b, IB_EARLY_MAX - 1));
	b->out_count = 0;
	bed_unchanged(b);
	bed_close(b);
}

/* A Read takes the numbers of packets that were kept, which a true peer does not send. */
TEST(test_rc_03_early_packets_that_are_passed_go)
{
	struct ib_bed *b = open();

	MUST(put_write(b, 1));
	MUST(put_write(b, 3));
	expect_nak(b, 0);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0, 0, 3 * MTU), NULL, 0));
	for (uint32_t n = 0; n < 3; n++)
		(void)bed_next(b);
	expect_ack(b, 3);
	EXPECT(!is_written(b, 1) && is_written(b, 3));
	MUST(put_write(b, 4));
	expect_ack(b, 4);
	bed_close(b);
}

/* All memory of a port for early packets is there again when they have been taken, or dropped. */
TEST(test_rc_03_early_packets_are_bounded_and_given_back)
{
	struct ib_bed *b = open();

	for (uint32_t round = 0; round < 8; round++) {
		for (uint32_t n = 1; n < IB_EARLY_MAX; n++)
			MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, b->config.psn_recv + n, 0, 8),
				     data, 8));
		b->out_count = 0;
		if (round % 2 == 0) {
			MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, b->config.psn_recv, 0, 8),
				     data, 8));
			b->config.psn_recv = iba_psn_add(b->config.psn_recv, IB_EARLY_MAX);
			b->out_count = 0;
			continue;
		}
		bed_reset(b);
		MUST(ib_create(b->port, b->qp, &b->config, &b->conn));
		MUST(ib_start(b->conn, &b->config));
	}
	EXPECT_EQ(ib_port_counts(b->port)->early, 8 * (IB_EARLY_MAX - 1));
	bed_close(b);
}

/* Those that are passed are given back as well. */
TEST(test_rc_03_early_packets_that_are_passed_are_given_back)
{
	enum { EACH = 7, ROUNDS = IB_EARLY_PACKETS / EACH + 1 };
	struct ib_bed *b = open();
	uint32_t at = P0;

	for (uint32_t round = 0; round <= ROUNDS; round++) {
		for (uint32_t n = 1; n <= EACH; n++)
			MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, at + n, 0, 8), data, 8));
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, at, 0, (1 + EACH) * MTU), NULL, 0));
		at = iba_psn_add(at, 1 + EACH);
		b->out_count = 0;
	}
	bed_unchanged(b);
	bed_close(b);
}

/* ---- The requester -------------------------------------------------------------------------- */

static uint32_t psn(uint32_t n)
{
	return iba_psn_add(PSN_OURS, n);
}

static void ack(struct ib_bed *b, uint32_t n)
{
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(UNUSED), psn(n), 0), NULL, 0));
}

static void nak(struct ib_bed *b, uint32_t n)
{
	MUST(bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(n), 0), NULL, 0));
}

static void post_write(struct ib_bed *b, uint64_t id, uint32_t packets)
{
	bed_post(b, (struct weft_send_wr){ .id = id, .opcode = WEFT_OP_WRITE }, 0, packets * MTU);
}

/* Packets of these numbers go out, without `end`, and no others. */
static void expect_packets(struct ib_bed *b, uint32_t from, uint32_t end)
{
	for (uint32_t n = from; n < end; n++)
		EXPECT_EQ(bed_next(b)->p.psn, psn(n));
	bed_silent(b);
}

static void expect_repair(struct ib_bed *b, uint32_t n)
{
	struct bed_packet *p = bed_next(b);

	EXPECT_EQ(p->p.psn, psn(n));
	EXPECT(p->p.is_ack_requested);
	EXPECT_MEM(p->payload, b->memory + (size_t)(n - 1) % 16 * MTU, MTU);
}

/*
 * A connection with a round trip of 100 us whose peer has shown that it keeps what comes early: of
 * 1 to 8 it missed 3, and before that goes again it has all up to 5, then all. Next is number 9.
 */
static struct ib_bed *open_kept(uint32_t window)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.window_packets = window;
	b = bed_open(&config, WEFT_RC);
	post_write(b, 100, 1);
	(void)bed_next(b);
	bed_wait(b, 100 * US);
	ack(b, 0);
	bed_completed(b, 100, WEFT_SUCCESS);
	post_write(b, 101, 8);
	expect_packets(b, 1, 9);
	b->is_held = true;
	nak(b, 3);
	ack(b, 5);
	b->is_held = false;
	bed_run(b);
	expect_repair(b, 6);
	bed_silent(b);
	ack(b, 8);
	bed_completed(b, 101, WEFT_SUCCESS);
	return b;
}

TEST(test_rc_04_a_peer_that_keeps_needs_the_lost_packet_alone)
{
	struct ib_bed *b = open_kept(0);

	post_write(b, 1, 16);
	expect_packets(b, 9, 25);
	nak(b, 12);
	expect_packets(b, 12, 13);
	nak(b, 12); /* of packets that were on their way before */
	bed_silent(b);
	ack(b, 24);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(ib_port_counts(b->port)->again, 2);
	bed_close(b);
}

/* Of 0 to 7 the peer misses 3, and tells of 5 before that goes again: it has kept 4 and 5. */
static void lose_and_keep(struct ib_bed *b)
{
	post_write(b, 1, 8);
	expect_packets(b, 0, 8);
	b->is_held = true;
	nak(b, 3);
	ack(b, 5);
	b->is_held = false;
	bed_run(b);
}

/* Injected faults lose packets by shared memory, too: runs need a window that is not wider. */
TEST(test_rc_04_by_shared_memory_all_goes_again)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.path.near_number = 1;
	b = bed_open(&config, WEFT_RC);
	ib_port_set_near_icrc(b->port, true);
	lose_and_keep(b);
	expect_packets(b, 6, 8);
	bed_close(b);
}

/* That the repair was lost would not be noticed. */
TEST(test_rc_04_without_a_timeout_all_goes_again)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.timeout_code = 0;
	b = bed_open(&config, WEFT_RC);
	lose_and_keep(b);
	expect_packets(b, 6, 8);
	bed_close(b);
}

/* After SRTT + max(SRTT / 4, 4 RTTVAR): sooner than any other packet, after three SRTT. */
TEST(test_rc_04_a_repair_that_is_lost_goes_again_soon)
{
	enum { TRIPS = 8 };
	struct ib_bed *b = open_kept(0);

	for (uint32_t n = 9; n < 9 + TRIPS; n++) {
		post_write(b, n, 1);
		expect_packets(b, n, n + 1);
		bed_wait(b, 100 * US);
		ack(b, n);
		bed_completed(b, n, WEFT_SUCCESS);
	}
	post_write(b, 1, 8);
	expect_packets(b, 9 + TRIPS, 17 + TRIPS);
	nak(b, 9 + TRIPS);
	expect_packets(b, 9 + TRIPS, 10 + TRIPS);
	bed_wait(b, 120 * US);
	bed_silent(b);
	bed_wait(b, 40 * US);
	expect_packets(b, 9 + TRIPS, 10 + TRIPS);
	bed_close(b);
}

/* It goes again when the peer was silent, and then an ACK of the first time comes after all. */
TEST(test_rc_04_a_late_acknowledgement_is_none_of_a_peer_that_keeps)
{
	struct ib_bed *b = open();

	post_write(b, 1, 8);
	expect_packets(b, 0, 8);
	while (b->out_count == 0)
		bed_wait(b, US);
	expect_packets(b, 0, 1);
	b->is_held = true;
	ack(b, 0);
	ack(b, 7);
	bed_completed(b, 1, WEFT_SUCCESS);
	b->is_held = false;
	post_write(b, 2, 8);
	expect_packets(b, 8, 16);
	nak(b, 10);
	expect_packets(b, 10, 16);
	bed_close(b);
}

/* Of those that are to go again, two have gone when the peer tells of the second. */
TEST(test_rc_04_an_acknowledgement_of_what_went_again_is_none_of_a_peer_that_keeps)
{
	struct ib_bed *b = open();
	struct ib_out out = { .ipv4_id = IPV4_ID };

	post_write(b, 1, 8);
	expect_packets(b, 0, 8);
	b->is_held = true;
	nak(b, 3);
	REQUIRE(ib_port_send(b->port, b->now_ns, &out) && ib_port_send(b->port, b->now_ns, &out));
	ack(b, 4);
	b->is_held = false;
	bed_run(b);
	expect_packets(b, 5, 8);
	bed_close(b);
}

/* An ACK of what had gone again already tells nothing: all goes again at the next loss, too. */
TEST(test_rc_04_a_peer_that_keeps_nothing_is_sent_all_again)
{
	struct ib_bed *b = open();

	post_write(b, 1, 8);
	expect_packets(b, 0, 8);
	nak(b, 3);
	expect_packets(b, 3, 8);
	ack(b, 5);
	bed_wait(b, 10 * US);
	nak(b, 6);
	expect_packets(b, 6, 8);
	ack(b, 7);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* RFC 6582 section 3.2: the ACK of a repair shows the next gap. Then those behind it go, too. */
TEST(test_rc_04_rfc6582_a_partial_acknowledgement_is_another_loss)
{
	struct ib_bed *b = open_kept(0);

	post_write(b, 1, 16);
	expect_packets(b, 9, 25);
	nak(b, 10);
	expect_packets(b, 10, 11);
	ack(b, 19); /* nothing new is to be sent: 20 goes, and those behind it */
	expect_packets(b, 20, 25);
	ack(b, 24);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* New packets go before those that only may have been lost. */
TEST(test_rc_04_the_line_is_filled_where_nothing_new_may_go)
{
	struct ib_bed *b = open_kept(8);

	post_write(b, 1, 64);
	expect_packets(b, 9, 17);
	b->is_held = true;
	nak(b, 10);
	b->is_held = false;
	bed_run(b);
	/* What the peer keeps is not in flight: the window is twice as wide. */
	EXPECT_EQ(bed_next(b)->p.psn, psn(10));
	expect_packets(b, 17, 26);
	ack(b, 13);
	EXPECT_EQ(bed_next(b)->p.psn, psn(14));
	for (uint32_t n = 26; n < 30; n++)
		EXPECT_EQ(bed_next(b)->p.psn, psn(n));
	expect_packets(b, 15, 17); /* up to what was sent before the repair of 10 */
	bed_close(b);
}

/* A repair that is lost, too, goes again after little more than a round trip. */
TEST(test_rc_04_a_repair_that_is_lost_goes_again)
{
	struct ib_bed *b = open_kept(0);

	post_write(b, 1, 4);
	expect_packets(b, 9, 13);
	nak(b, 10);
	expect_packets(b, 10, 11);
	bed_wait(b, 100 * US);
	bed_silent(b);
	bed_wait(b, 200 * US);
	expect_packets(b, 10, 11);
	ack(b, 12);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* It has lost many in a row, or keeps no more: after some repairs all goes again. */
TEST(test_rc_04_a_peer_that_keeps_no_more_is_sent_all_again)
{
	struct ib_bed *b = open_kept(0);

	b->is_held = true;
	post_write(b, 1, 8);
	b->is_held = false;
	bed_run(b);
	expect_packets(b, 9, 17);
	nak(b, 9);
	expect_packets(b, 9, 10);
	ack(b, 9);
	expect_packets(b, 10, 17); /* the next, and where nothing new goes those behind it */
	ack(b, 10);
	expect_packets(b, 11, 12);
	ack(b, 11);
	expect_packets(b, 12, 17); /* it is not believed any more */
	nak(b, 14);
	expect_packets(b, 14, 17);
	ack(b, 16);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* Reads are not kept: where one is under way, all goes again. */
TEST(test_rc_04_reads_behind_a_lost_write_are_asked_for_again)
{
	struct ib_bed *b = open_kept(0);

	post_write(b, 1, 4);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_READ }, 0, 8);
	expect_packets(b, 9, 14);
	nak(b, 10);
	expect_packets(b, 10, 14);
	bed_close(b);
}
