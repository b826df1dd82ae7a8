/* SPDX-License-Identifier: BSD-2-Clause */
/* What RC gets through a line that loses packets, and what it holds on to for that. */
#include "loopback/loopback.h"
#include "sim/roce/ib_line.h"
#include "test.h"

#include <malloc.h>
#include <stdio.h>

enum { MESSAGE = 65536, MESSAGES = 600 };

/* 10 Gb/s, 100 us there and back. */
static struct ib_flow flow_of(uint32_t mtu_bytes, uint32_t loss_ppm, uint8_t timeout_code,
			      bool is_dropping_early)
{
	const struct ib_line_options o = {
		.seed = 7,
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 50000,
		.loss_ppm = loss_ppm,
		.mtu_bytes = mtu_bytes,
		.timeout_code = timeout_code,
		.retries = 7,
		.send_max = 128,
		.pages = 256,
		.page_bytes = 4096,
		.is_dropping_early = is_dropping_early,
	};
	const struct ib_flow_plan plan = { WEFT_OP_WRITE, MESSAGE, MESSAGES };
	struct ib_flow f;

	REQUIRE(ib_flow_run(&o, &plan, &f) == WEFT_OK);
	REQUIRE(f.is_whole && f.sender.timeouts == 0);
	return f;
}

static struct ib_flow flow(uint32_t mtu_bytes, uint32_t loss_ppm, uint8_t timeout_code)
{
	return flow_of(mtu_bytes, loss_ppm, timeout_code, false);
}

struct goal {
	uint32_t mtu_bytes, loss_ppm;
	double ratio; /* of the loss-free goodput */
};

static void expect_goals(const struct goal *rows, size_t count, bool is_dropping_early)
{
	for (size_t i = 0; i < count; i++) {
		struct ib_flow clean = flow_of(rows[i].mtu_bytes, 0, 14, is_dropping_early);
		struct ib_flow lossy = flow_of(rows[i].mtu_bytes, rows[i].loss_ppm, 14,
					       is_dropping_early);
		double ratio = ib_flow_goodput(&lossy) / ib_flow_goodput(&clean);

		printf("# mtu %u, loss %.1f %%: %.3f Gb/s, %.3f of %.3f\n", rows[i].mtu_bytes,
		       rows[i].loss_ppm / 1e4, ib_flow_goodput(&lossy) / 1e9, ratio,
		       ib_flow_goodput(&clean) / 1e9);
		EXPECT(ib_flow_goodput(&clean) > 9.2e9);
		EXPECT(ratio >= rows[i].ratio);
		EXPECT_EQ(lossy.peer.early > 0, !is_dropping_early);
	}
}

/* The responder keeps what comes behind a lost packet, and the requester resends that alone. */
TEST(test_rc_02_rc_04_goodput_under_loss)
{
	static const struct goal rows[] = {
		{ 4096, 1000, 0.98 },  { 4096, 10000, 0.95 }, { 2048, 1000, 0.98 },
		{ 2048, 10000, 0.90 }, { 1024, 1000, 0.95 },  { 1024, 10000, 0.80 },
	};

	expect_goals(rows, sizeof(rows) / sizeof(rows[0]), false);
}

/*
 * To a peer that keeps nothing all goes again: every loss costs what is on the line. So of packets
 * of 1024 bytes, of which that is 120, 1 % is too much for 0.6.
 */
TEST(test_rc_02_rc_04_goodput_under_loss_to_a_peer_that_drops_early_packets)
{
	static const struct goal rows[] = {
		{ 4096, 1000, 0.95 },  { 4096, 10000, 0.70 }, { 2048, 1000, 0.90 },
		{ 2048, 10000, 0.60 }, { 1024, 1000, 0.87 },  { 1024, 10000, 0.45 },
	};

	expect_goals(rows, sizeof(rows) / sizeof(rows[0]), true);
}

/* ---- Every kind of message, one at a time and many ------------------------------------------ */

struct load_case {
	struct ib_flow_plan plan;
	uint32_t depth, mtu_bytes;
};

/* On average: bits per second, and packets that the peer sent for each that a Read needs. */
struct load_result {
	double bps, answers; /* bps 0: a flow failed; or, up to 1 %, a whole timeout passed */
};

static struct load_result run_load(const struct load_case *l, uint32_t loss_ppm)
{
	const uint64_t seeds = loss_ppm > 1000 ? 3 : 1;
	struct load_result r = { 0 };
	struct ib_line_options o = {
		.rate_bps = UINT64_C(10000000000),
		.delay_ns = 50000,
		.loss_ppm = loss_ppm,
		.mtu_bytes = l->mtu_bytes,
		.timeout_code = 14,
		.retries = 7,
		.send_max = l->depth,
		.reads = l->depth,
		.pages = 1024,
		.page_bytes = 4096,
	};
	struct ib_flow f;

	for (o.seed = 1; o.seed <= seeds; o.seed++) {
		if (ib_flow_run(&o, &l->plan, &f) != WEFT_OK || !f.is_whole ||
		    (f.sender.timeouts > 0 && loss_ppm <= 10000))
			return (struct load_result){ 0 };
		r.bps += ib_flow_goodput(&f) / (double)seeds;
		r.answers += (double)f.peer.packets_out * l->mtu_bytes / (double)f.bytes /
			     (double)seeds;
	}
	return r;
}

static void load_print(const struct load_case *l, double clean_bps)
{
	static const char *const names[] = {
		[WEFT_OP_SEND] = "Send", [WEFT_OP_WRITE] = "Write", [WEFT_OP_READ] = "Read"
	};

	printf("# %-5s %4u KiB, depth %3u, mtu %4u: %6.3f Gb/s", names[l->plan.opcode],
	       l->plan.message_bytes / 1024, l->depth, l->mtu_bytes, clean_bps / 1e9);
}

/* At 0.1 % and 1 %, against the loss-free figure. */
static bool is_goal_met(const struct load_case *l)
{
	double goal_some = 0.95, goal_many = l->depth > 1 ? 0.8 : 0.75;
	double clean = run_load(l, 0).bps;
	double some = run_load(l, 1000).bps / clean, many = run_load(l, 10000).bps / clean;
	bool is_met = some >= goal_some && many >= goal_many;

	load_print(l, clean);
	printf(", at 0.1 %% %.3f, at 1 %% %.3f%s\n", some, many, is_met ? "" : " MISSED");
	return is_met;
}

/*
 * RC-02, RC-04: what is lost of an answer is answered again, and little else. At 5 % no goal is
 * set for Writes; a Read asks for what is missing alone, so it has one.
 */
static bool is_read_goal_met(const struct load_case *l)
{
	double goal_some = l->mtu_bytes == 4096 ? 0.9 : 0.8;
	double goal_many = l->mtu_bytes == 4096 ? 0.6 : 0.45;
	double clean = run_load(l, 0).bps;
	struct load_result some = run_load(l, 1000), many = run_load(l, 10000),
			   most = run_load(l, 50000);
	bool is_met = some.bps >= goal_some * clean && many.bps >= goal_many * clean &&
		      most.bps >= 0.1 * clean && some.answers <= 1.1 && many.answers <= 1.2 &&
		      most.answers <= 1.5;

	load_print(l, clean);
	printf(", at 0.1 %% %.3f, at 1 %% %.3f, at 5 %% %.3f; answers %.3f, %.3f, %.3f%s\n",
	       some.bps / clean, many.bps / clean, most.bps / clean, some.answers, many.answers,
	       most.answers, is_met ? "" : " MISSED");
	return is_met;
}

/* In virtual time the figures are those of every build: a slow one has one depth, large packets. */
static const uint32_t depths[] = { 16, 1, 128 };

/* Every size and MTU, so many at a time. */
static void expect_goodput_of(enum weft_opcode opcode, uint32_t depth_count)
{
	enum { BYTES = 24 << 20, MESSAGES_MAX = 2000 };
	uint32_t missed = 0, count = IS_SANITIZED ? 1 : 2 * depth_count;

	for (uint32_t i = 0; i < count; i++) {
		struct load_case l = { .plan.opcode = opcode,
				       .depth = depths[i / 2],
				       .mtu_bytes = i & 1 ? 1024 : 4096 };

		for (uint32_t bytes = 4096; bytes <= 1 << 20; bytes *= 16) {
			l.plan.message_bytes = bytes;
			l.plan.messages = BYTES / bytes < MESSAGES_MAX ? BYTES / bytes
								       : MESSAGES_MAX;
			missed += opcode == WEFT_OP_READ ? !is_read_goal_met(&l) : !is_goal_met(&l);
		}
	}
	EXPECT_EQ(missed, 0);
}

TEST(test_rc_02_rc_04_goodput_of_writes_at_any_depth)
{
	expect_goodput_of(WEFT_OP_WRITE, 2);
}

TEST(test_rc_02_rc_04_goodput_of_sends_at_any_depth)
{
	expect_goodput_of(WEFT_OP_SEND, 2);
}

TEST(test_rc_02_rc_04_goodput_of_reads_at_any_depth)
{
	expect_goodput_of(WEFT_OP_READ, 3);
}

/* How long the consumer would wait for a silent peer is no measure of how fast losses are seen. */
TEST(test_rc_02_goodput_does_not_depend_on_the_timeout)
{
	struct ib_flow clean = flow(4096, 0, 14);

	for (uint8_t code = 8; code <= 20; code = (uint8_t)(code + 6)) {
		struct ib_flow lossy = flow(4096, 10000, code);

		EXPECT(ib_flow_goodput(&lossy) >= 0.9 * ib_flow_goodput(&clean));
	}
}

/*
 * Both counters are held from both sides by what the line allows: a packet is pinned while it is
 * sent, which takes 3.3 us at 10 Gb/s and a little for its headers; a message is kept from its
 * first packet on for a round trip at least, and what is kept fits the window.
 */
TEST(test_send_s4_footprint_against_pin_until_acknowledged)
{
	enum { MTU = 4096, WINDOW_BYTES = IB_WINDOW_DEFAULT * MTU };
	const double bytes_per_ns = 1.25, trip_ns = 100000;

	for (uint32_t loss_ppm = 0; loss_ppm <= 10000; loss_ppm += 5000) {
		struct ib_flow f = flow(MTU, loss_ppm, 14);
		double pinned = (double)f.pins.byte_ns / (double)f.ns;
		double kept = (double)f.sender.kept_byte_ns / (double)f.ns;
		double sent = (double)f.sender.payload_out * (MTU / bytes_per_ns);

		printf("# loss %.1f %%: pinned %.0f bytes on average, %llu at most; until "
		       "acknowledged %.0f, %llu: %.0f x\n",
		       loss_ppm / 1e4, pinned, (unsigned long long)f.pins.bytes_max, kept,
		       (unsigned long long)f.sender.kept_bytes_max, kept / pinned);
		EXPECT_EQ(f.pins.bytes_max, MTU);
		EXPECT_EQ(f.pins.count_max, 1);
		EXPECT_EQ(f.pins.pinned * MTU, f.sender.payload_out);
		EXPECT((double)f.pins.byte_ns >= sent && (double)f.pins.byte_ns <= 1.05 * sent);
		EXPECT(f.sender.kept_bytes_max >= MESSAGE);
		EXPECT(f.sender.kept_bytes_max <= WINDOW_BYTES + MESSAGE);
		EXPECT(kept >= ib_flow_goodput(&f) / 8e9 * trip_ns);
		EXPECT(kept <= (double)f.sender.kept_bytes_max);
		EXPECT(kept > 20 * pinned);
	}
}

/* ---- Memory --------------------------------------------------------------------------------- */

static size_t bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

enum { COUNT = 9 };

/* Of one with its connection, on average; they are gone again. */
static size_t qp_bytes(struct ib_line_end *e, enum weft_qp_service service)
{
	struct ib_conn *conns[COUNT];
	struct weft_qp *qps[COUNT];
	size_t before = 0, bytes;
	struct ib_config k = {
		.path = { .mtu_bytes = 4096 },
		.peer_qp = 2,
		.reads_out = 16,
		.reads_in = 16,
	};
	const struct weft_qp_options qo = {
		.send_cq = e->cq,
		.recv_cq = e->cq,
		.send_max = 128,
		.recv_max = 128,
		.sges_max = 1,
		.service = service,
	};

	/* Chunks that a C library keeps after free() count as in use: the first takes those. */
	for (uint32_t i = 0; i < COUNT; i++) {
		if (i == 1)
			before = bytes_in_use();
		REQUIRE(qp_create(e->pd, &qo, &loopback_transport, &qps[i]) == WEFT_OK);
		REQUIRE(ib_create(e->port, qps[i], &k, &conns[i]) == WEFT_OK);
		REQUIRE(ib_start(conns[i], &k) == WEFT_OK);
	}
	bytes = (bytes_in_use() - before) / (COUNT - 1);
	for (uint32_t i = 0; i < COUNT; i++) {
		qp_destroy(qps[i]);
		ib_destroy(conns[i]);
	}
	return bytes;
}

TEST(test_rc_01_ud_01_memory_of_a_queue_pair_with_its_connection)
{
	const struct ib_line_options o = {
		.seed = 1,
		.rate_bps = 1000000000,
		.mtu_bytes = 1024,
		.send_max = 8,
		.pages = 1,
		.page_bytes = 4096,
	};
	struct ib_line *line = ib_line_open(&o);
	size_t bytes, of_datagrams;

	REQUIRE(line);
	bytes = qp_bytes(&line->ends[0], WEFT_RC);
	of_datagrams = qp_bytes(&line->ends[0], WEFT_UD);
	printf("# a queue pair of 128 and 128 requests, 16 Reads each way: %zu bytes, of UD %zu\n",
	       bytes, of_datagrams);
	ib_line_close(line);
	if (bytes == 0)
		SKIP("this allocator does not say how much it holds");
	EXPECT(bytes > 8 * 1024);
	EXPECT(bytes <= 24 * 1024);
	EXPECT(of_datagrams < bytes); /* nothing to be sent again, no Reads */
}
