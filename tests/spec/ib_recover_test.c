/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was lost is found out about soon, and no more than it is sent again: round trips by RFC
 * 6298, tail loss probes by RFC 8985, missing parts of Read responses alone.
 */
#include <stdio.h>
#include <string.h>

#include "ib_bed.h"

enum { MTU = 256, US = 1000, MS = 1000 * 1000, UNUSED = 31 };

static uint32_t psn(uint32_t n)
{
	return iba_psn_add(PSN_OURS, n);
}

static enum weft_reason ack(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_ack(iba_syndrome_ack(UNUSED), psn(n), 0), NULL, 0);
}

static enum weft_reason nak(struct ib_bed *b, uint32_t n)
{
	return bed_put(b, peer_ack(iba_syndrome_nak(IBA_NAK_SEQUENCE), psn(n), 0), NULL, 0);
}

static void post_write(struct ib_bed *b, uint64_t id, uint32_t packets)
{
	bed_post(b, (struct weft_send_wr){ .id = id, .opcode = WEFT_OP_WRITE }, 0, packets * MTU);
}

/* One packet, number n, that is acknowledged after so long. */
static void round_trip(struct ib_bed *b, uint32_t n, uint64_t ns)
{
	post_write(b, 100 + n, 1);
	bed_expect(b, IBA_WRITE_ONLY, psn(n));
	bed_wait(b, ns);
	bed_silent(b);
	MUST(ack(b, n));
	bed_completed(b, 100 + n, WEFT_SUCCESS);
}

/* Numbers from first up to end go out, all of one Write that began with number 1. */
static void expect_packets(struct ib_bed *b, uint32_t first, uint32_t end, uint32_t last)
{
	for (uint32_t n = first; n < end; n++)
		bed_expect(b,
			   n == 1      ? IBA_WRITE_FIRST
			   : n == last ? IBA_WRITE_LAST
				       : IBA_WRITE_MIDDLE,
			   psn(n));
	bed_silent(b);
}

/* ---- Round trips ---------------------------------------------------------------------------- */

/*
 * RFC 6298 section 2: three round trips of silence, and a probe goes; section 3, Karn's rule: the
 * acknowledgement of what was sent twice tells no round trip.
 */
TEST(test_rc_04_rfc6298_round_trips_are_of_packets_that_went_once)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	round_trip(b, 0, 100 * US);
	for (uint32_t n = 1; n < 4; n++) {
		post_write(b, n, 1);
		bed_expect(b, IBA_WRITE_ONLY, psn(n));
		bed_wait(b, 300 * US - 1);
		bed_silent(b);
		bed_wait(b, 1);
		bed_expect(b, IBA_WRITE_ONLY, psn(n));
		bed_wait(b, 500 * US);
		bed_silent(b); /* the next one waits for twice as long */
		MUST(ack(b, n));
		bed_completed(b, n, WEFT_SUCCESS);
	}
	bed_close(b);
}

/* RFC 6298 section 2.3: a peer whose round trips vary is given more time. */
TEST(test_rc_04_rfc6298_a_peer_that_varies_is_given_time)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	for (uint32_t n = 0; n < 32; n++)
		round_trip(b, n, n % 2 ? 100 * US : 1000 * US);
	post_write(b, 1, 1);
	bed_expect(b, IBA_WRITE_ONLY, psn(32));
	/* On average 550 us, by 450 more or less. */
	bed_wait(b, 2000 * US);
	bed_silent(b);
	bed_wait(b, 1000 * US);
	bed_expect(b, IBA_WRITE_ONLY, psn(32));
	bed_close(b);
}

/* Where the verbs timeout is shorter than all that, it is the limit. */
TEST(test_rc_04_the_timeout_is_the_longest_silence)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.timeout_code = 6; /* 262 us */
	b = bed_open(&config, WEFT_RC);
	for (uint32_t n = 0; n < 8; n++) {
		post_write(b, n, 1);
		bed_expect(b, IBA_WRITE_ONLY, psn(n));
		bed_wait(b, 200 * US);
		b->out_count = 0;
		MUST(ack(b, n));
		bed_completed(b, n, WEFT_SUCCESS);
	}
	post_write(b, 9, 1);
	bed_expect(b, IBA_WRITE_ONLY, psn(8));
	bed_wait(b, iba_timeout_ns(6));
	EXPECT(b->out_count > 0);
	b->out_count = 0;
	bed_close(b);
}

/* ---- Probes --------------------------------------------------------------------------------- */

/*
 * RFC 8985 section 7, RFC 5682 section 2.1: the peer has the probe and nothing behind it: the rest
 * follows at once, though the answer be faster than any round trip that was measured under load.
 */
TEST(test_rc_04_rfc8985_the_answer_to_a_lone_probe_brings_the_rest)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	round_trip(b, 0, 1000 * US);
	post_write(b, 1, 8);
	expect_packets(b, 1, 9, 8);
	bed_wait(b, 3000 * US);
	expect_packets(b, 1, 2, 8);
	bed_wait(b, 30 * US);
	MUST(ack(b, 1));
	expect_packets(b, 2, 9, 8);
	MUST(ack(b, 8));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* The peer has more than the probe, but not all: it has half a round trip to show more. */
TEST(test_rc_04_rfc8985_a_probe_that_was_not_needed_is_followed_soon)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	round_trip(b, 0, 100 * US);
	post_write(b, 1, 8);
	expect_packets(b, 1, 9, 8);
	bed_wait(b, 300 * US);
	expect_packets(b, 1, 2, 8);
	bed_wait(b, 100 * US);
	MUST(ack(b, 4)); /* the fifth was lost, and the NAK */
	bed_silent(b);
	bed_wait(b, 50 * US);
	expect_packets(b, 5, 6, 8);
	bed_wait(b, 100 * US);
	MUST(ack(b, 5));
	expect_packets(b, 6, 9, 8);
	bed_close(b);
}

/* ---- NAKs ----------------------------------------------------------------------------------- */

/* A peer that misses another packet than before has had that: what is sent again lost one, too. */
TEST(test_rc_04_a_nak_of_another_packet_is_another_loss)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	round_trip(b, 0, 1000 * US);
	post_write(b, 1, 8);
	expect_packets(b, 1, 9, 8);
	MUST(nak(b, 3));
	expect_packets(b, 3, 9, 8);
	MUST(nak(b, 5));
	expect_packets(b, 5, 9, 8);
	MUST(nak(b, 6));
	expect_packets(b, 6, 9, 8);
	MUST(ack(b, 8));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* The same complaint too soon is of what was sent before; it may be not: a probe finds out. */
TEST(test_rc_04_a_nak_that_may_be_old_is_looked_into)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	round_trip(b, 0, 1000 * US);
	post_write(b, 1, 8);
	expect_packets(b, 1, 9, 8);
	MUST(nak(b, 3));
	expect_packets(b, 3, 9, 8);
	bed_wait(b, 100 * US);
	MUST(nak(b, 3));
	bed_silent(b);
	bed_wait(b, 400 * US - 1);
	bed_silent(b);
	bed_wait(b, 1);
	expect_packets(b, 3, 4, 8);
	MUST(nak(b, 3));
	expect_packets(b, 3, 9, 8);
	bed_close(b);
}

/* ---- Reads ---------------------------------------------------------------------------------- */

enum { READS = 16, READ_PACKETS = 4, ANSWERS = READS * READ_PACKETS };

/* A peer that answers every request for a Read in full, in the order in which they came. */
struct reader {
	struct ib_bed *b;
	struct asked {
		uint32_t n, count; /* packets of the answers */
	} asked[BED_OUT_MAX];
	uint32_t first, end;
	uint32_t sent[ANSWERS]; /* how often it answered */
	uint32_t every;		/* of so many answers one is lost, once */
};

static void take_requests(struct reader *r)
{
	while (r->b->out_count > 0) {
		const struct bed_packet *p = bed_next(r->b);
		uint32_t n = iba_psn_distance(PSN_OURS, p->p.psn);

		REQUIRE(iba_op(p->p.opcode) == IBA_READ_REQUEST && n < ANSWERS);
		REQUIRE(r->end < BED_OUT_MAX);
		r->asked[r->end++] = (struct asked){ n, iba_psn_count(p->p.dma_bytes, MTU) };
	}
}

/* The next packet of the answers. */
static void answer(struct reader *r)
{
	static const uint8_t data[MTU] = { 7 };
	struct asked *a = &r->asked[r->first];
	uint32_t n = a->n++;
	bool is_lost = r->sent[n]++ == 0 && n % r->every == 1;
	struct iba_packet p = peer_ack(iba_syndrome_ack(UNUSED), psn(n), 0);

	if (--a->count == 0)
		r->first++;
	p.opcode = iba_opcode(IBA_RC,
			      a->count == 0 ? IBA_READ_RESPONSE_LAST : IBA_READ_RESPONSE_MIDDLE);
	if (!is_lost)
		(void)bed_put(r->b, p, data, MTU);
}

/* All Reads end well, though the peer takes its time; what it was asked for in all. */
static uint32_t run_reads(uint32_t every, uint64_t packet_ns, struct reader *r)
{
	struct ib_config config = bed_config();
	uint32_t answers = 0;

	config.reads_out = READS;
	*r = (struct reader){ .b = bed_open(&config, WEFT_RC), .every = every };
	for (uint32_t i = 0; i < READS; i++)
		bed_post(r->b, (struct weft_send_wr){ .id = i, .opcode = WEFT_OP_READ },
			 (uint64_t)i * READ_PACKETS * MTU, READ_PACKETS * MTU);
	while (r->b->qp->sq.reads > 0) {
		REQUIRE(r->b->qp->state == WEFT_QPS_RTS);
		bed_wait(r->b, packet_ns);
		take_requests(r);
		if (r->first < r->end)
			answer(r);
		REQUIRE(answers++ < 20 * ANSWERS);
	}
	take_requests(r);
	for (uint32_t i = 0; i < READS; i++)
		bed_completed(r->b, i, WEFT_SUCCESS);
	bed_close(r->b);
	return r->end;
}

static uint32_t answers_of(const struct reader *r)
{
	uint32_t sum = 0;

	for (uint32_t n = 0; n < ANSWERS; n++)
		sum += r->sent[n];
	return sum;
}

/*
 * RC-04: one packet of an answer is lost while all others wait for their turn, which takes longer
 * than many timeouts: what comes meanwhile is of use, and the peer is not given up.
 */
TEST(test_rc_04_a_lost_answer_makes_one_read_be_asked_for_again)
{
	static struct reader r;

	for (uint64_t ns = 1 * US; ns <= 100 * MS; ns *= 10) {
		uint32_t asked = run_reads(ANSWERS, ns, &r);

		printf("# a packet each %llu us: %u requests for %u Reads, %u answers of %u\n",
		       (unsigned long long)ns / US, asked, READS, answers_of(&r), ANSWERS);
		/* One that is slower than the timeout is asked once each. */
		EXPECT(asked > READS && asked <= READS + (ns > iba_timeout_ns(14) ? 128 : 16));
		EXPECT(answers_of(&r) <= ANSWERS + 16 * READ_PACKETS);
		for (uint32_t n = READ_PACKETS; n < ANSWERS; n++)
			EXPECT_EQ(r.sent[n], 1);
	}
}

/* Many are lost: each is asked for again, some with what lies between them, none for ever. */
TEST(test_rc_04_lost_answers_are_asked_for_one_after_the_other)
{
	static struct reader r;

	for (uint32_t every = 2; every < 16; every++) {
		uint32_t lost = (ANSWERS + every - 2) / every;
		uint32_t asked = run_reads(every, 10 * US, &r);

		printf("# %u of %u answers lost: %u requests for %u Reads, %u answers\n", lost,
		       ANSWERS, asked, READS, answers_of(&r));
		EXPECT(asked <= READS + 2 * lost);
		EXPECT(answers_of(&r) <= 2 * ANSWERS);
	}
}

/* Reads of so many packets each, the first of which has this number; they are asked for. */
static void post_reads(struct ib_bed *b, uint32_t base, uint32_t reads, uint32_t count)
{
	for (uint32_t i = 0; i < reads; i++)
		bed_post(b, (struct weft_send_wr){ .id = base / count + i, .opcode = WEFT_OP_READ },
			 0, count * MTU);
	for (uint32_t i = 0; i < reads; i++)
		bed_expect(b, IBA_READ_REQUEST, psn(base + count * i));
}

/* So many answers, from this one on, to Reads of so many each. */
static void put_answers(struct ib_bed *b, uint32_t from, uint32_t packets, uint32_t count)
{
	static const uint8_t data[MTU];

	for (uint32_t n = from; n < from + packets; n++) {
		bool is_last = n % count == count - 1;
		struct iba_packet p = peer_ack(iba_syndrome_ack(UNUSED), psn(n), 0);

		p.opcode = iba_opcode(IBA_RC,
				      is_last ? IBA_READ_RESPONSE_LAST : IBA_READ_RESPONSE_MIDDLE);
		MUST(bed_put(b, p, data, MTU));
	}
}

/*
 * RC-04: the request of a Read was lost, and the NAK that said so. The peer has dropped all Reads
 * behind it, and does not say so again. When the first has its answer, and no more comes for half a
 * round trip, the others are asked for: one silence for all of them, not one for each.
 */
TEST(test_rc_04_reads_behind_a_lost_nak_are_asked_for_without_a_silence_each)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	b = bed_open(&config, WEFT_RC);
	round_trip(b, 0, 100 * US);
	round_trip(b, 1, 100 * US);
	post_reads(b, 2, READS, 2);
	bed_wait(b, 10 * MS);
	b->out_count = 0; /* it was asked for once or more */
	put_answers(b, 2, 2, 2);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_wait(b, 50 * US - 1);
	bed_silent(b);
	bed_wait(b, 1);
	for (uint32_t i = 1; i < READS; i++)
		EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(2 + 2 * i))->p.dma_bytes, 2 * MTU);
	for (uint32_t i = 1; i < READS; i++) {
		bed_silent(b);
		put_answers(b, 2 + 2 * i, 2, 2);
		bed_completed(b, 1 + i, WEFT_SUCCESS);
	}
	bed_silent(b);
	bed_close(b);
}

/* It was the answer to the first request, and slow: the others come, and are not asked for. */
TEST(test_rc_04_reads_behind_a_slow_answer_are_not_asked_for_again)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	b = bed_open(&config, WEFT_RC);
	round_trip(b, 0, 100 * US);
	round_trip(b, 1, 100 * US);
	post_reads(b, 2, READS, 2);
	bed_wait(b, 10 * MS);
	b->out_count = 0; /* the first was asked for once or more */
	for (uint32_t i = 0; i < READS; i++) {
		put_answers(b, 2 + 2 * i, 2, 2);
		bed_completed(b, 1 + i, WEFT_SUCCESS);
		bed_wait(b, 49 * US);
		bed_silent(b);
	}
	bed_close(b);
}

/* ---- What is missing of many Reads ---------------------------------------------------------- */

/* Of each Read the first part is asked for at once, the next when that has come: rxe needs that. */
TEST(test_rc_04_iba_9_7_5_1_7_what_is_missing_is_asked_for_read_by_read)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	b = bed_open(&config, WEFT_RC);
	post_reads(b, 0, 3, 6);
	/* Of the first 1 and 3, of the second all, of the third 13 and 15. */
	put_answers(b, 0, 1, 6);
	put_answers(b, 2, 1, 6);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(1))->p.dma_bytes, MTU);
	put_answers(b, 4, 2, 6);
	bed_silent(b);
	put_answers(b, 12, 1, 6);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(6))->p.dma_bytes, 6 * MTU);
	put_answers(b, 14, 1, 6);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(13))->p.dma_bytes, MTU);
	put_answers(b, 16, 2, 6);
	bed_silent(b);
	put_answers(b, 1, 1, 6);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(3))->p.dma_bytes, MTU);
	put_answers(b, 6, 6, 6);
	bed_silent(b);
	put_answers(b, 13, 1, 6);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(15))->p.dma_bytes, MTU);
	put_answers(b, 3, 1, 6);
	put_answers(b, 15, 1, 6);
	for (uint32_t i = 0; i < 3; i++)
		bed_completed(b, i, WEFT_SUCCESS);
	bed_silent(b);
	bed_close(b);
}

/* A whole timeout has passed, so no round trip is known; the answer to the one probe has a gap. */
TEST(test_rc_04_what_is_lost_of_the_answer_to_a_probe_is_asked_for_at_once)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	b = bed_open(&config, WEFT_RC);
	post_reads(b, 0, 2, 4);
	bed_wait(b, iba_timeout_ns(config.timeout_code));
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	b->out_count = 0;
	put_answers(b, 0, 1, 4);
	put_answers(b, 2, 1, 4);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(1))->p.dma_bytes, MTU);
	bed_silent(b);
	bed_close(b);
}

/* What was asked for again later comes first, or what was asked for only then: it was lost. */
TEST(test_rc_04_an_answer_that_is_overtaken_is_asked_for_once_more)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	b = bed_open(&config, WEFT_RC);
	post_reads(b, 0, 4, 1);
	put_answers(b, 1, 1, 1);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	put_answers(b, 3, 1, 1);
	bed_expect(b, IBA_READ_REQUEST, psn(2));
	bed_silent(b);
	put_answers(b, 2, 1, 1);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_silent(b);
	post_reads(b, 4, 2, 1);
	put_answers(b, 4, 1, 1);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	put_answers(b, 5, 1, 1); /* of before that */
	bed_silent(b);
	put_answers(b, 0, 1, 1);
	for (uint32_t i = 0; i < 6; i++)
		bed_completed(b, i, WEFT_SUCCESS);
	bed_silent(b);
	bed_close(b);
}

/* Answers that were asked for and have not come are under way, as packets of a Write are. */
TEST(test_rc_02_the_window_holds_for_the_answers_to_reads)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	config.window_packets = 4;
	b = bed_open(&config, WEFT_RC);
	for (uint32_t i = 0; i < 6; i++)
		bed_post(b, (struct weft_send_wr){ .id = i, .opcode = WEFT_OP_READ }, 0, 3 * MTU);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_READ_REQUEST, psn(3));
	bed_silent(b);
	put_answers(b, 0, 2, 3);
	bed_silent(b);
	put_answers(b, 2, 1, 3);
	bed_completed(b, 0, WEFT_SUCCESS);
	bed_expect(b, IBA_READ_REQUEST, psn(6));
	/* One is missing; what came behind it is not under way any more. */
	put_answers(b, 4, 2, 3);
	bed_expect(b, IBA_READ_REQUEST, psn(3));
	bed_silent(b);
	put_answers(b, 6, 1, 3);
	bed_expect(b, IBA_READ_REQUEST, psn(9));
	bed_silent(b);
	put_answers(b, 3, 1, 3);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_close(b);
}

/* Writes that are acknowledged behind a missing answer are no answers that have come. */
TEST(test_rc_02_the_window_for_answers_counts_no_writes)
{
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_out = READS;
	config.window_packets = 4;
	b = bed_open(&config, WEFT_RC);
	bed_post(b, (struct weft_send_wr){ .id = 0, .opcode = WEFT_OP_READ }, 0, 3 * MTU);
	post_write(b, 1, 3);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_READ }, 0, 3 * MTU);
	bed_post(b, (struct weft_send_wr){ .id = 3, .opcode = WEFT_OP_READ }, 0, 3 * MTU);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_WRITE_FIRST, psn(3));
	bed_expect(b, IBA_WRITE_MIDDLE, psn(4));
	bed_expect(b, IBA_WRITE_LAST, psn(5));
	bed_expect(b, IBA_READ_REQUEST, psn(6));
	bed_silent(b);
	MUST(bed_put(b, peer_ack(iba_syndrome_ack(UNUSED), psn(5), 0), NULL, 0));
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_silent(b);
	put_answers(b, 0, 3, 3);
	bed_completed(b, 0, WEFT_SUCCESS);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_expect(b, IBA_READ_REQUEST, psn(9));
	bed_close(b);
}

/* A NAK tells of a lost request, and that the answer before it was lost, too: both go again. */
TEST(test_rc_04_a_nak_behind_a_lost_answer)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	static uint8_t data[MTU];
	struct iba_packet p = peer_ack(iba_syndrome_ack(UNUSED), psn(0), 0);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, MTU);
	post_write(b, 2, 3);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_WRITE_FIRST, psn(1));
	bed_expect(b, IBA_WRITE_MIDDLE, psn(2));
	bed_expect(b, IBA_WRITE_LAST, psn(3));
	MUST(nak(b, 2));
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_WRITE_MIDDLE, psn(2));
	bed_expect(b, IBA_WRITE_LAST, psn(3));
	bed_silent(b);
	MUST(ack(b, 3));
	bed_incomplete(b);
	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_ONLY);
	MUST(bed_put(b, p, data, MTU));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	bed_silent(b);
	bed_close(b);
}

/*
 * A NAK that ends the connection, behind an answer that was lost: what was refused would be refused
 * again, with all behind it, by a NAK for each. Only the answer is asked for.
 */
TEST(test_rc_04_a_refusal_behind_a_lost_answer_sends_nothing_again)
{
	const struct iba_packet no = peer_ack(iba_syndrome_nak(IBA_NAK_INVALID), psn(1), 0);
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	static uint8_t data[MTU];
	struct iba_packet p = peer_ack(iba_syndrome_ack(UNUSED), psn(0), 0);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, MTU);
	post_write(b, 2, 3);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_WRITE_FIRST, psn(1));
	bed_expect(b, IBA_WRITE_MIDDLE, psn(2));
	bed_expect(b, IBA_WRITE_LAST, psn(3));
	MUST(bed_put(b, no, NULL, 0));
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_silent(b);
	b->now_ns += 100 * 1000 * 1000;
	MUST(bed_put(b, no, NULL, 0));
	bed_silent(b);
	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_ONLY);
	MUST(bed_put(b, p, data, MTU));
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_silent(b);
	MUST(bed_put(b, no, NULL, 0));
	bed_completed(b, 2, WEFT_ERR_REMOTE_REQUEST);
	bed_close(b);
}

/* An early answer counts once, and only as what was asked for. */
TEST(test_rc_03_early_answers_are_checked_as_others_are)
{
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	static uint8_t data[2 * MTU];
	struct iba_packet p = peer_ack(iba_syndrome_ack(UNUSED), psn(6), 0);

	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_READ }, 0, 4 * MTU);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_READ }, 4096, 4 * MTU);
	bed_expect(b, IBA_READ_REQUEST, psn(0));
	bed_expect(b, IBA_READ_REQUEST, psn(4));
	bed_note(b);
	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_MIDDLE);
	EXPECT_EQ(bed_put(b, p, data, 2 * MTU), WEFT_R_IB_LENGTH);
	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_LAST);
	EXPECT_EQ(bed_put(b, p, data, MTU), WEFT_R_IB_LENGTH);
	p.opcode = iba_opcode(IBA_RC, IBA_ATOMIC_ACKNOWLEDGE);
	EXPECT_EQ(bed_put(b, p, NULL, 0), WEFT_R_IB_LENGTH);
	bed_unchanged(b);
	/* It says that all before it was carried out: that is asked for, of either Read. */
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(0))->p.dma_bytes, 4 * MTU);
	EXPECT_EQ(bed_expect(b, IBA_READ_REQUEST, psn(4))->p.dma_bytes, 2 * MTU);
	bed_silent(b);
	p.opcode = iba_opcode(IBA_RC, IBA_READ_RESPONSE_MIDDLE);
	MUST(bed_put(b, p, data, MTU));
	EXPECT_MEM(b->memory + 4096 + 2 * MTU, data, MTU);
	EXPECT_EQ(bed_put(b, p, data, MTU), WEFT_R_IB_PSN);
	bed_incomplete(b);
	bed_close(b);
}

/* ---- The responder -------------------------------------------------------------------------- */

/* IBA 9.7.5.1.7: a request for a part of an answer, or for its rest, gets just that. */
TEST(test_rc_02_iba_9_7_5_1_7_a_part_of_an_answer_is_answered_alone)
{
	const uint32_t first = PSN_PEERS;
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first, 0, 6 * MTU), NULL, 0));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 6, 8192, 8), NULL, 0));
	for (uint32_t n = 0; n < 7; n++)
		EXPECT_EQ(bed_next(b)->p.psn, iba_psn_add(first, n));
	bed_silent(b);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 2, 2 * MTU, MTU), NULL, 0));
	EXPECT_MEM(bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, 2))->payload,
		   b->memory + 2 * MTU, MTU);
	bed_silent(b);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 1, MTU, 3 * MTU), NULL, 0));
	bed_expect(b, IBA_READ_RESPONSE_FIRST, iba_psn_add(first, 1));
	bed_expect(b, IBA_READ_RESPONSE_MIDDLE, iba_psn_add(first, 2));
	bed_expect(b, IBA_READ_RESPONSE_LAST, iba_psn_add(first, 3));
	bed_silent(b);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 4, 4 * MTU, 2 * MTU), NULL, 0));
	bed_expect(b, IBA_READ_RESPONSE_FIRST, iba_psn_add(first, 4));
	bed_expect(b, IBA_READ_RESPONSE_LAST, iba_psn_add(first, 5));
	bed_silent(b);
	/* Not more than it was. */
	EXPECT_EQ(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 2, 2 * MTU, 5 * MTU), NULL, 0),
		  WEFT_R_IB_PSN);
	bed_silent(b);
	bed_close(b);
}

/* While an answer goes out its beginning is asked for: that goes first, and nothing goes twice. */
TEST(test_rc_02_a_part_of_an_answer_that_is_going_out)
{
	const uint32_t first = PSN_PEERS;
	struct ib_bed *b = bed_open(NULL, WEFT_RC);
	struct ib_out out = { 0 };

	b->is_held = true;
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first, 0, 6 * MTU), NULL, 0));
	for (uint32_t n = 0; n < 3; n++)
		EXPECT(ib_port_send(b->port, b->now_ns, &out));
	/* The second to the fifth, of which two are to come anyway. */
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 1, MTU, 4 * MTU), NULL, 0));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_READ_RESPONSE_FIRST, iba_psn_add(first, 1));
	bed_expect(b, IBA_READ_RESPONSE_LAST, iba_psn_add(first, 2));
	bed_expect(b, IBA_READ_RESPONSE_MIDDLE, iba_psn_add(first, 3));
	bed_expect(b, IBA_READ_RESPONSE_MIDDLE, iba_psn_add(first, 4));
	bed_expect(b, IBA_READ_RESPONSE_LAST, iba_psn_add(first, 5));
	bed_silent(b);
	bed_close(b);
}

/* What is asked for again is answered in that order, each once; what is being answered waits. */
TEST(test_rc_02_iba_9_7_5_1_7_what_is_asked_for_again_has_its_turn)
{
	const uint32_t first = PSN_PEERS;
	struct ib_config config = bed_config();
	struct ib_out out = { 0 };
	struct ib_bed *b;

	config.reads_in = 4;
	b = bed_open(&config, WEFT_RC);
	b->is_held = true;
	for (uint32_t n = 0; n < 4; n++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 2 * n, n * 1024, 2 * MTU),
			     NULL, 0));
	for (uint32_t n = 0; n < 5; n++)
		EXPECT(ib_port_send(b->port, b->now_ns, &out));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 2, 1024, MTU), NULL, 0));
	/* A requester that goes back asks for all; the last two will have their answers anyway. */
	for (uint32_t n = 0; n < 4; n++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 2 * n, n * 1024, 2 * MTU),
			     NULL, 0));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + 3, 1024 + MTU, MTU), NULL, 0));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, 2));
	for (uint32_t n = 0; n < 8; n++)
		bed_expect(b, n % 2 ? IBA_READ_RESPONSE_LAST : IBA_READ_RESPONSE_FIRST,
			   iba_psn_add(first, n));
	bed_silent(b);
	bed_close(b);
}

/* No more is kept to be answered again than Reads were agreed on. */
/* As many as Reads were agreed on, also where that is no power of two. */
TEST(test_rc_02_three_requests_at_most_wait_to_be_answered_again)
{
	enum { PACKETS = 16, AGREED = 3 };
	const uint32_t first = PSN_PEERS;
	struct ib_config config = bed_config();
	struct ib_bed *b;

	config.reads_in = AGREED;
	b = bed_open(&config, WEFT_RC);
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first, 0, PACKETS * MTU), NULL, 0));
	for (uint32_t n = 0; n < PACKETS; n++)
		EXPECT_EQ(bed_next(b)->p.psn, iba_psn_add(first, n));
	b->is_held = true;
	for (uint32_t n = 0; n < PACKETS; n++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + n, (uint64_t)n * MTU, MTU),
			     NULL, 0));
	b->is_held = false;
	bed_run(b);
	for (uint32_t n = 0; n < AGREED; n++)
		bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, n));
	bed_silent(b);
	bed_close(b);
}

TEST(test_rc_02_requests_to_answer_again_are_bounded)
{
	enum { PACKETS = 16 };
	const uint32_t first = PSN_PEERS;
	struct ib_bed *b = bed_open(NULL, WEFT_RC);

	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first, 0, PACKETS * MTU), NULL, 0));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + PACKETS, 0, 8), NULL, 0));
	for (uint32_t n = 0; n < PACKETS + 1; n++)
		EXPECT_EQ(bed_next(b)->p.psn, iba_psn_add(first, n));
	b->is_held = true;
	for (uint32_t n = 0; n < PACKETS; n++)
		MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + n, (uint64_t)n * MTU, MTU),
			     NULL, 0));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, first);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, 1));
	bed_silent(b);
	/* Nor what is kept no more. */
	b->is_held = true;
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first, 0, MTU), NULL, 0));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + PACKETS, 0, 8), NULL, 0));
	MUST(bed_put(b, peer_reth(b, IBA_READ_REQUEST, first + PACKETS + 1, 0, 8), NULL, 0));
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, PACKETS));
	bed_expect(b, IBA_READ_RESPONSE_ONLY, iba_psn_add(first, PACKETS + 1));
	bed_silent(b);
	bed_close(b);
}
