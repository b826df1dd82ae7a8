/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages: Send in all its forms, and what the receive queue makes of it. */
#include <string.h>

#include "conformance.h"

enum { SIZE_COUNT = 8 };

static const uint32_t sizes[SIZE_COUNT] = { 0, 1, 7, 8, 64, 4095, 4096, 65536 + 3 };
static const uint32_t piece_counts[] = { 1, 2, 3, 7, PAIR_SEGMENTS };
enum { PIECE_COUNTS = sizeof(piece_counts) / sizeof(*piece_counts) };

static const struct pair_options wide = {
	.qp = { .sges_max = PAIR_SEGMENTS, .inline_max_bytes = WEFT_INLINE_MAX },
};

/* One message of `size` bytes from `from` pieces into `to` pieces that hold `room` bytes. */
static void send_once(struct pair *p, uint32_t size, uint32_t room, uint32_t from, uint32_t to)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_sge source[PAIR_SEGMENTS], sink[PAIR_SEGMENTS];
	const struct weft_recv_wr recv = { .id = 2, .sges = sink, .sge_count = to };
	struct weft_send_wr wr;
	struct weft_completion c;

	pair_blank(p);
	end_cut(a, SRC, size, from, source);
	end_cut(b, DST, room, to, sink);
	pieces_fill(a, source, from, size);
	wr = wr_make(WEFT_OP_SEND, 1, source, from);
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	end_post(a, &wr);
	c = end_received(b, 2);
	MUST_EQ(c.opcode, WEFT_OP_RECV);
	MUST_EQ(c.byte_count, size);
	REQUIRE(!c.has_imm && !c.has_invalidated);
	MUST_EQ(end_sent(a, 1).opcode, WEFT_OP_SEND);
	pieces_hold(b, sink, to, size, size);
}

TEST(test_qp_07a_qp_17_send_of_every_size_arrives_whole)
{
	struct pair p;

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++)
		send_once(&p, sizes[i], sizes[i], 1, 1);
	pair_close(&p);
}

TEST(test_qp_06_qp_07a_send_gathers_several_segments)
{
	struct pair p;

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++) {
		for (int k = 0; k < PIECE_COUNTS; k++)
			send_once(&p, sizes[i], sizes[i], piece_counts[k], 1);
	}
	pair_close(&p);
}

TEST(test_qp_08_receive_scatters_one_send)
{
	struct pair p;

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++) {
		for (int k = 0; k < PIECE_COUNTS; k++) {
			send_once(&p, sizes[i], sizes[i], 1, piece_counts[k]);
			send_once(&p, sizes[i], sizes[i] + 41, piece_counts[PIECE_COUNTS - 1 - k],
				  piece_counts[k]);
		}
	}
	pair_close(&p);
}

TEST(test_qp_06_zero_segments_are_a_message_too)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_recv_wr recv = { .id = 2 };
	struct weft_send_wr wr = wr_make(WEFT_OP_SEND, 1, NULL, 0);
	struct weft_completion c;

	pair_open(&p, NULL);
	for (int i = 0; i < (pair_can(PAIR_SEND_IMM) ? 2 : 1); i++) {
		wr.opcode = i ? WEFT_OP_SEND_IMM : WEFT_OP_SEND;
		wr.imm = 0xcafe;
		MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
		end_post(a, &wr);
		c = end_received(b, 2);
		EXPECT_EQ(c.byte_count, 0);
		EXPECT_EQ(c.has_imm, i == 1);
		EXPECT_EQ(c.imm, i ? 0xcafe : 0);
		end_sent(a, 1);
	}
	pair_close(&p);
}

/* A wire without it says so when it is posted. */
static void send_imm_refused(void)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_sge none = { 0 };
	struct weft_send_wr wrs[3];
	uint32_t posted = 9;

	pair_open(&p, NULL);
	for (uint64_t i = 0; i < 3; i++) {
		wrs[i] = wr_make(i == 1 ? WEFT_OP_SEND_IMM : WEFT_OP_SEND, i, &none, 1);
		end_post_recv(b, i, DST, 8);
	}
	MUST_EQ(weft_qp_post_send(a->qp, wrs, 3, &posted), WEFT_R_WR_WIRE);
	MUST_EQ(posted, 1);
	end_sent(a, 0);
	end_received(b, 0);
	pair_quiet(&p);
	MUST_EQ(end_query(a).state, WEFT_QPS_RTS);
	MUST_EQ(end_query(b).recv_queued, 2);
	pair_close(&p);
}

TEST(test_qp_07a_send_with_immediate)
{
	static const uint32_t values[] = { 0, 1, 0x80000000, UINT32_MAX, 0x01020304 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_SEND_IMM)) {
		send_imm_refused();
		return;
	}
	pair_open(&p, NULL);
	for (uint32_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		const struct weft_sge s = end_seg(a, SRC, 100 + i);
		struct weft_send_wr wr = wr_make(WEFT_OP_SEND_IMM, i, &s, 1);
		struct weft_completion c;

		end_fill(a, SRC, 200, i);
		wr.imm = values[i];
		end_post_recv(b, 100 + i, DST, 200);
		end_post(a, &wr);
		c = end_received(b, 100 + i);
		EXPECT_EQ(c.opcode, WEFT_OP_RECV);
		EXPECT_EQ(c.byte_count, 100 + i);
		EXPECT(c.has_imm);
		EXPECT_EQ(c.imm, values[i]);
		end_holds(b, DST, 100 + i, i);
		EXPECT_EQ(end_sent(a, i).opcode, WEFT_OP_SEND_IMM);
	}
	pair_close(&p);
}

/* Inline bytes are taken when the request is posted: what is written over them later stays. */
TEST(test_qp_07a_inline_data_is_copied_at_posting)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint8_t bytes[WEFT_INLINE_MAX];
	const struct weft_sge pieces[] = {
		{ .addr = (uintptr_t)bytes, .length = 500, .tag = 0xdead },
		{ .addr = 0, .length = 0 },
		{ .addr = (uintptr_t)bytes + 500, .length = WEFT_INLINE_MAX - 500 },
	};
	struct weft_send_wr wrs[] = {
		wr_make(WEFT_OP_DELAY, 1, NULL, 0),
		wr_make(WEFT_OP_SEND, 2, pieces, 3),
	};

	pair_open(&p, &wide);
	for (uint32_t i = 0; i < WEFT_INLINE_MAX; i++)
		bytes[i] = pattern(9, i);
	wrs[0].delay_ns = 10 * 1000 * 1000;
	wrs[1].flags |= WEFT_INLINE;
	end_post_recv(b, 3, DST, WEFT_INLINE_MAX);
	MUST(weft_qp_post_send(a->qp, wrs, 2, NULL));
	memset(bytes, 0, sizeof(bytes));
	EXPECT_EQ(end_received(b, 3).byte_count, WEFT_INLINE_MAX);
	end_holds(b, DST, WEFT_INLINE_MAX, 9);
	end_sent(a, 1);
	end_sent(a, 2);
	pair_close(&p);
}

TEST(test_qp_07a_unsignalled_success_makes_no_completion)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (uint64_t id = 0; id < 40; id++) {
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, id % 2 ? WEFT_OP_WRITE : WEFT_OP_SEND, id, &s,
						DST);

		wr.flags = id % 10 == 9 ? WEFT_SIGNALLED : 0;
		end_post_recv(b, id, DST, 8);
		end_post(a, &wr);
	}
	for (uint64_t id = 9; id < 40; id += 10)
		end_sent(a, id);
	for (uint64_t id = 0; id < 20; id++)
		end_received(b, id);
	pair_close(&p);
}

TEST(test_qp_07a_a_queue_pair_may_signal_every_send)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, &(struct pair_options){ .qp = { .is_every_send_signalled = true } });
	for (uint64_t id = 0; id < 10; id++) {
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, id, &s, DST);

		wr.flags = 0;
		end_succeeds(a, &wr);
	}
	pair_close(&p);
}

TEST(test_qp_07a_a_failing_unsignalled_request_completes)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	s = end_seg(a, SRC, 8);
	s.tag ^= 1;
	wr = end_wr(a, WEFT_OP_WRITE, 5, &s, DST);
	wr.flags = 0;
	end_post(a, &wr);
	end_send_failed(a, 5, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INSTANCE);
	pair_close(&p);
}

/* Messages arrive in the order of the send queue and meet receives in the order of theirs. */
TEST(test_qp_08_messages_meet_receives_in_order)
{
	enum { COUNT = 300, EACH = 16 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint64_t sent = 0, received = 0, posted = 0;

	pair_open(&p, NULL);
	while (received < COUNT) {
		for (; posted < COUNT && posted < received + 20; posted++)
			end_post_recv(b, posted, DST + posted * EACH, EACH);
		for (; sent < posted; sent++) {
			const struct weft_sge s = end_seg(a, SRC + sent * EACH, EACH);
			struct weft_send_wr wr = wr_make(WEFT_OP_SEND, sent, &s, 1);

			end_fill(a, SRC + sent * EACH, EACH, (uint32_t)sent);
			end_post(a, &wr);
		}
		end_received(b, received);
		end_sent(a, received);
		end_holds(b, DST + received * EACH, EACH, (uint32_t)received);
		received++;
	}
	pair_close(&p);
}

TEST(test_qp_13_both_directions_at_once)
{
	struct pair p;

	pair_open(&p, NULL);
	for (uint64_t id = 0; id < 30; id++) {
		for (int i = 0; i < 2; i++)
			end_post_recv(&p.ends[i], id, DST + id * 64, 64);
		for (int i = 0; i < 2; i++) {
			const struct weft_sge s = end_seg(&p.ends[i], SRC + id * 64, 64);
			struct weft_send_wr wr = wr_make(WEFT_OP_SEND, id, &s, 1);

			end_fill(&p.ends[i], SRC + id * 64, 64, (uint32_t)(2 * id + (uint64_t)i));
			end_post(&p.ends[i], &wr);
		}
	}
	for (uint64_t id = 0; id < 30; id++) {
		for (int i = 0; i < 2; i++) {
			end_sent(&p.ends[i], id);
			end_received(&p.ends[i], id);
			end_holds(&p.ends[!i], DST + id * 64, 64, (uint32_t)(2 * id + (uint64_t)i));
		}
	}
	pair_close(&p);
}

/* A post is all it takes: either queue's own post starts what can start (QP-04). */
TEST(test_qp_04_each_queue_starts_work_by_its_own_post)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint64_t waiting;

	pair_open(&p, NULL);
	s = end_seg(a, SRC, 32);
	end_fill(a, SRC, 32, 4);
	wr = wr_make(WEFT_OP_SEND, 1, &s, 1);
	end_post(a, &wr);
	waiting = end_waiting(a, 1, 1);
	pair_quiet(&p);
	EXPECT_EQ(end_query(a).send_queued, 2 - waiting);
	end_post_recv(b, 2, DST, 32);
	end_received(b, 2);
	end_all_sent(a, waiting, 1);
	end_holds(b, DST, 32, 4);
	end_post_recv(b, 3, DST + 64, 32);
	pair_quiet(&p);
	EXPECT_EQ(end_query(b).recv_queued, 1);
	wr.id = 4;
	end_post(a, &wr);
	end_received(b, 3);
	end_sent(a, 4);
	EXPECT_EQ(end_query(a).send_queued + end_query(b).recv_queued, 0);
	pair_close(&p);
}

/* Memory that a receive names twice holds what came last: no frame is taken for a damaged one. */
TEST(test_qp_08_receive_that_names_memory_twice)
{
	enum { HALF = 20000 };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge all, into[2];
	struct weft_send_wr wr;
	const struct weft_recv_wr recv = { .id = 7, .sges = into, .sge_count = 2 };

	pair_open(&p, NULL);
	all = end_seg(a, SRC, 2 * HALF);
	wr = end_wr(a, WEFT_OP_SEND, 7, &all, 0);
	into[0] = end_seg(b, DST, HALF);
	into[1] = end_seg(b, DST + 1, HALF);
	end_fill(a, SRC, 2 * HALF, 8);
	MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
	end_post(a, &wr);
	end_received(b, 7);
	end_sent(a, 7);
	EXPECT(memcmp(b->memory + DST + 1, a->memory + SRC + HALF, HALF) == 0);
	pair_close(&p);
}
