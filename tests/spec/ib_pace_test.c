/* SPDX-License-Identifier: BSD-2-Clause */
/* How fast a connection sends: a rate that was asked for, and what the network says. */
#include <string.h>

#include "ib_bed.h"

enum { MTU = 256, P0 = PSN_PEERS, US = 1000, MS = 1000 * US };

static const uint8_t data[MTU];

/* A Write of the peer that is marked, or not. */
static enum weft_reason put_marked(struct ib_bed *b, uint32_t psn, uint8_t ecn)
{
	const struct bed_way way = { .from = b->config.path.to, .ecn = ecn };
	struct iba_packet p = peer_reth(b, IBA_WRITE_ONLY, psn, 0, 8);

	p.opcode = iba_opcode(b->qp->service == WEFT_UC ? IBA_UC : IBA_RC, IBA_WRITE_ONLY);
	p.is_ack_requested = false;
	p.dest_qp = b->qp->number;
	p.p_key = IBA_PKEY_DEFAULT;
	return bed_put_by(b, &way, p, data, 8);
}

static enum weft_reason put_notice(struct ib_bed *b)
{
	const struct iba_packet p = { .opcode = IBA_CNP, .has_becn = true };

	return bed_put(b, p, NULL, 0);
}

/* Annex A17.9.3: the receiver of a marked packet notifies its sender, but not for every packet. */
TEST(test_iba_a17_9_a_marked_packet_makes_a_notice)
{
	static const enum weft_qp_service services[] = { WEFT_RC, WEFT_UC };

	for (int i = 0; i < 2; i++) {
		struct ib_bed *b = bed_open(NULL, services[i]);
		struct bed_packet *p;

		MUST(put_marked(b, P0, IB_ECN_ECT0));
		MUST(put_marked(b, P0 + 1, IB_ECN_ECT1));
		bed_silent(b);
		MUST(put_marked(b, P0 + 2, IB_ECN_CE));
		p = bed_next(b);
		EXPECT_EQ(p->p.opcode, IBA_CNP);
		EXPECT(p->p.has_becn && !p->p.has_fecn);
		EXPECT_EQ(p->p.dest_qp, PEER_QP);
		EXPECT_EQ(p->p.p_key, IBA_PKEY_DEFAULT);
		EXPECT_EQ(p->p.psn, 0);
		EXPECT_EQ(p->ecn, IB_ECN_NOT);
		for (uint32_t n = 0; n < 49; n++) {
			b->now_ns += US;
			MUST(put_marked(b, iba_psn_add(P0, 3 + n), IB_ECN_CE));
		}
		bed_silent(b);
		b->now_ns += US;
		MUST(put_marked(b, iba_psn_add(P0, 52), IB_ECN_CE));
		EXPECT_EQ(bed_next(b)->p.opcode, IBA_CNP);
		bed_silent(b);
		EXPECT_EQ(ib_port_counts(b->port)->marked, 51);
		EXPECT_EQ(ib_port_counts(b->port)->notices_out, 2);
		bed_close(b);
	}
}

/* Only packets with data are marked: slowing down answers does not help. */
TEST(test_iba_a17_9_what_may_be_marked)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 8);
	EXPECT_EQ(bed_next(b)->ecn, IB_ECN_ECT0);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(1), PSN_OURS, 1), NULL, 0));
	bed_completed(b, 1, WEFT_SUCCESS);
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, P0, 0, 8), data, 8));
	EXPECT_EQ(bed_next(b)->ecn, IB_ECN_NOT);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0 + 1, 0, 8), NULL, 0));
	EXPECT_EQ(bed_next(b)->ecn, IB_ECN_ECT0);
	bed_close(b);
}

/* Counts what goes out in a time; it is not answered. */
static uint32_t packets_in(struct ib_bed *b, uint64_t ns)
{
	uint32_t count = 0;

	b->out_count = 0;
	for (uint64_t left = ns; left > 0;) {
		uint64_t now = left < 100 * US ? left : 100 * US;

		bed_wait(b, now);
		count += b->out_count;
		b->out_count = 0;
		left -= now;
	}
	return count;
}

static struct ib_config at_rate(uint64_t rate_bps)
{
	struct ib_config k = bed_config();

	k.rate_bps = rate_bps;
	k.window_packets = 1 << 20;
	k.timeout_code = 0;
	return k;
}

enum { WIRE_BITS = (MTU + 12 + 4 + 42) * 8 }; /* of a middle packet */

TEST(test_rc_04_a_rate_that_was_asked_for)
{
	static const enum weft_qp_service services[] = { WEFT_RC, WEFT_UC };

	for (int i = 0; i < 2; i++) {
		const uint64_t rate = UINT64_C(100) * WIRE_BITS * 1000; /* 100 packets in 1 ms */
		struct ib_config k = at_rate(rate);
		struct ib_bed *b = bed_open(&k, services[i]);
		uint32_t count;

		bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0,
			 200 * MTU);
		EXPECT(ib_port_due(b->port) < UINT64_MAX);
		count = packets_in(b, MS);
		EXPECT(count >= 98 && count <= 104);
		/* Faster, while it runs; and without any bound. */
		k.rate_bps = rate / 2;
		MUST(ib_adjust(b->conn, &k, IB_RATE));
		count = packets_in(b, MS);
		EXPECT(count >= 48 && count <= 52);
		k.rate_bps = 0;
		MUST(ib_adjust(b->conn, &k, IB_RATE));
		count = packets_in(b, 20 * US);
		EXPECT(count > 30);
		if (services[i] == WEFT_UC)
			bed_completed(b, 1, WEFT_SUCCESS);
		bed_close(b);
	}
}

/* Slow, but heard of in time: nothing is sent twice. */
TEST(test_rc_02_a_slow_rate_asks_for_acknowledgements)
{
	struct ib_config k = at_rate(UINT64_C(1000) * WIRE_BITS);
	struct ib_bed *b;
	uint32_t next = PSN_OURS;

	k.timeout_code = 14;
	b = bed_open(&k, WEFT_RC);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 100 * MTU);
	for (int i = 0; i < 200 * 1000; i++) {
		while (b->out_count > 0) {
			struct bed_packet *p = bed_next(b);

			REQUIRE(p->p.psn == next);
			next = iba_psn_add(next, 1);
			if (p->p.is_ack_requested)
				MUST(bed_put(b, peer_ack(iba_syndrome_ack(31), p->p.psn, 0), NULL,
					     0));
		}
		bed_wait(b, US);
	}
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(ib_port_counts(b->port)->again, 0);
	EXPECT_EQ(ib_port_counts(b->port)->timeouts, 0);
	bed_close(b);
}

/* Annex A17.9.3: a notice slows it down, and in time it comes back to where it was. */
TEST(test_rc_04_a_notice_slows_down_and_is_forgotten)
{
	const uint64_t rate = UINT64_C(1000) * WIRE_BITS * 1000; /* 1000 packets in 1 ms */
	struct ib_config k = at_rate(rate);
	struct ib_bed *b = bed_open(&k, WEFT_RC);
	uint32_t before, slow, later;

	for (uint64_t i = 0; i < 40; i++)
		bed_post(b, (struct weft_send_wr){ .id = i, .opcode = WEFT_OP_WRITE }, 0,
			 255 * MTU);
	before = packets_in(b, 400 * US);
	EXPECT(before >= 390 && before <= 430);
	MUST(put_notice(b));
	slow = packets_in(b, 90 * US);
	EXPECT(slow >= 38 && slow <= 52); /* half */
	/* Those that come together count as one. */
	MUST(put_notice(b));
	b->now_ns += US;
	MUST(put_notice(b));
	slow = packets_in(b, 90 * US);
	EXPECT(slow >= 18 && slow <= 32);
	/* Half of the way back, and half of the rest. */
	later = packets_in(b, 100 * US);
	EXPECT(later >= 50 && later <= 75);
	later = packets_in(b, 100 * US);
	EXPECT(later >= 70 && later <= 90);
	(void)packets_in(b, MS);
	later = packets_in(b, 400 * US);
	EXPECT(later >= 390 && later <= 430);
	EXPECT_EQ(ib_port_counts(b->port)->notices_in, 3);
	bed_close(b);
}

/* Without a rate of its own, what it was sending at is what is halved. */
TEST(test_rc_04_a_notice_to_one_without_a_rate)
{
	struct ib_config k = at_rate(0);
	struct ib_bed *b = bed_open(&k, WEFT_UC);
	uint32_t count;

	/* A queue pair that sends nothing has nothing to slow down. */
	MUST(put_notice(b));
	for (uint64_t i = 0; i < 10; i++) {
		bed_post(b, (struct weft_send_wr){ .id = i, .opcode = WEFT_OP_WRITE }, 0,
			 100 * MTU);
		bed_completed(b, i, WEFT_SUCCESS);
		b->out_count = 0;
		bed_wait(b, 100 * US);
	}
	MUST(put_notice(b));
	for (uint64_t i = 10; i < 14; i++)
		bed_post(b, (struct weft_send_wr){ .id = i, .opcode = WEFT_OP_WRITE }, 0,
			 100 * MTU);
	count = b->out_count;
	EXPECT(count > 2 && count < 20); /* what it may catch up */
	count = packets_in(b, 90 * US);
	EXPECT(count >= 38 && count <= 52);
	/* After a long silence it has forgotten. */
	(void)packets_in(b, 100 * MS);
	for (uint64_t i = 10; i < 14; i++)
		bed_completed(b, i, WEFT_SUCCESS);
	bed_post(b, (struct weft_send_wr){ .id = 20, .opcode = WEFT_OP_WRITE }, 0, 200 * MTU);
	bed_completed(b, 20, WEFT_SUCCESS);
	b->out_count = 0;
	bed_close(b);
}

/* What the peer reads goes no faster; what it is told besides need not wait. */
/* A queue pair that has left says its last words; a notice finds nothing to slow down. */
TEST(test_rc_04_a_notice_to_a_queue_pair_that_has_left)
{
	const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(qp_modify(b->qp, &error, WEFT_QP_STATE));
	EXPECT_EQ(put_notice(b), WEFT_R_PEER_GONE);
	bed_close(b);
}

TEST(test_rc_04_answers_keep_the_pace)
{
	struct ib_config k = at_rate(UINT64_C(100) * WIRE_BITS * 1000);
	struct ib_bed *b = bed_open(&k, WEFT_RC);
	uint32_t count;

	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, P0, 0, 150 * MTU), NULL, 0));
	count = packets_in(b, MS);
	EXPECT(count >= 94 && count <= 104);
	count = packets_in(b, MS);
	EXPECT(count >= 44 && count <= 54);
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, 100 * MTU);
	b->out_count = 0;
	MUST(bed_put(b, peer_reth(b, IBA_WRITE_ONLY, iba_psn_add(P0, 150), 0, 8), data, 8));
	bed_expect_ack(b, iba_syndrome_ack(0), iba_psn_add(P0, 150));
	b->out_count = 0;
	bed_close(b);
}
