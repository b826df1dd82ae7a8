/* SPDX-License-Identifier: BSD-2-Clause */
/* One-sided operations: Write, Read, atomics; what they move, and that the peer does nothing. */
#include <string.h>

#include "conformance.h"

enum { SIZE_COUNT = 8, PIECE_COUNTS = 5, MARGIN = 64 };

static const uint32_t sizes[SIZE_COUNT] = { 0, 1, 7, 8, 64, 4095, 4096, 65536 + 3 };
static const uint32_t piece_counts[PIECE_COUNTS] = { 1, 2, 3, 7, PAIR_SEGMENTS };

static const struct pair_options wide = {
	.qp = { .sges_max = PAIR_SEGMENTS, .inline_max_bytes = WEFT_INLINE_MAX },
};

static void write_once(struct pair *p, uint32_t size, uint32_t pieces, uint32_t flags)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_sge source[PAIR_SEGMENTS];
	struct weft_send_wr wr;

	pair_blank(p);
	end_cut(a, SRC, size, pieces, source);
	pieces_fill(a, source, pieces, size + pieces);
	wr = end_wr(a, WEFT_OP_WRITE, size, source, DST + MARGIN);
	wr.sge_count = pieces;
	wr.flags |= flags;
	end_succeeds(a, &wr);
	end_holds(b, DST + MARGIN, size, size + pieces);
	end_is_blank(b, DST, MARGIN);
	end_is_blank(b, DST + MARGIN + size, MARGIN);
	pair_quiet(p); /* the peer's consumer hears nothing */
}

TEST(test_qp_07c_write_gathers_into_one_remote_range)
{
	struct pair p;

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++) {
		for (int k = 0; k < PIECE_COUNTS; k++)
			write_once(&p, sizes[i], piece_counts[k], 0);
	}
	pair_close(&p);
}

TEST(test_qp_07c_write_of_inline_data)
{
	struct pair p;

	pair_open(&p, &wide);
	for (uint32_t size = 0; size <= WEFT_INLINE_MAX; size += 128)
		write_once(&p, size, size ? 2 : 0, WEFT_INLINE);
	pair_close(&p);
}

TEST(test_qp_07c_write_with_immediate_takes_a_receive_and_leaves_its_buffer)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++) {
		const struct weft_sge s = end_seg(a, SRC, sizes[i]);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE_IMM, 1, &s, DST);
		struct weft_completion c;

		pair_blank(&p);
		end_fill(a, SRC, sizes[i], 77);
		wr.imm = 0xf0000000U + (uint32_t)i;
		end_post_recv(b, 2, SRC, 64);
		end_post(a, &wr);
		c = end_received(b, 2);
		EXPECT_EQ(c.opcode, WEFT_OP_RECV_WRITE_IMM);
		EXPECT_EQ(c.byte_count, sizes[i]);
		EXPECT(c.has_imm);
		EXPECT_EQ(c.imm, wr.imm);
		EXPECT_EQ(end_sent(a, 1).opcode, WEFT_OP_WRITE_IMM);
		end_holds(b, DST, sizes[i], 77);
		end_is_blank(b, SRC, 64);
		end_is_blank(b, DST + sizes[i], MARGIN);
	}
	pair_close(&p);
}

static void read_once(struct pair *p, uint32_t size, uint32_t pieces)
{
	struct pair_end *a = &p->ends[0], *b = &p->ends[1];
	struct weft_sge sink[PAIR_SEGMENTS];
	struct weft_send_wr wr;

	pair_blank(p);
	end_fill(b, SRC + MARGIN, size, size ^ pieces);
	end_cut(a, DST, size, pieces, sink);
	wr = end_wr(a, WEFT_OP_READ, 5, sink, SRC + MARGIN);
	wr.sge_count = pieces;
	end_post(a, &wr);
	MUST_EQ(end_sent(a, 5).byte_count, size);
	pieces_hold(a, sink, pieces, size, size ^ pieces);
	end_holds(b, SRC + MARGIN, size, size ^ pieces);
	pair_quiet(p);
}

TEST(test_qp_07b_read_of_every_size)
{
	struct pair p;

	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++)
		read_once(&p, sizes[i], 1);
	pair_close(&p);
}

/* AMB-04: a wire that has but one sink in a Read says so when it is posted. */
static void one_sink_only(void)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge sink[2];
	struct weft_send_wr wr;
	uint32_t posted = 9;

	pair_open(&p, &wide);
	end_cut(a, DST, 64, 2, sink);
	wr = end_wr(a, WEFT_OP_READ, 5, sink, SRC);
	wr.sge_count = 2;
	MUST_EQ(weft_qp_post_send(a->qp, &wr, 1, &posted), WEFT_R_WR_WIRE);
	MUST_EQ(posted, 0);
	pair_quiet(&p);
	MUST_EQ(end_query(a).state, WEFT_QPS_RTS);
	read_once(&p, 64, 1);
	pair_close(&p);
}

TEST(test_qp_07b_read_scatters)
{
	struct pair p;

	if (!pair_can(PAIR_READ_SCATTERS)) {
		one_sink_only();
		return;
	}
	pair_open(&p, &wide);
	for (int i = 0; i < SIZE_COUNT; i++) {
		for (int k = 0; k < PIECE_COUNTS; k++)
			read_once(&p, sizes[i], piece_counts[k]);
	}
	pair_close(&p);
}

/* A fenced Send starts after the Reads before it: it carries what they brought. */
TEST(test_qp_07b_fence_waits_for_the_read)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wrs[2];

	pair_open(&p, NULL);
	for (uint32_t round = 0; round < 20; round++) {
		end_fill(b, SRC, 8192, round);
		s = end_seg(a, SRC, 8192);
		wrs[0] = end_wr(a, WEFT_OP_READ, 1, &s, SRC);
		wrs[1] = end_wr(a, WEFT_OP_SEND, 2, &s, 0);
		wrs[1].flags |= WEFT_FENCE;
		end_post_recv(b, 3, DST, 8192);
		MUST(weft_qp_post_send(a->qp, wrs, 2, NULL));
		end_received(b, 3);
		end_sent(a, 1);
		end_sent(a, 2);
		end_holds(b, DST, 8192, round);
	}
	pair_close(&p);
}

TEST(test_qp_07b_qp_07c_no_bytes_need_no_right)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ };
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	for (int i = 0; i < 2; i++) {
		const struct weft_sge s = { .addr = UINT64_MAX, .tag = UINT32_MAX };
		struct weft_send_wr wr = end_wr(a, opcodes[i], 1, &s, 0);

		wr.remote_tag = 0x12345678;
		wr.remote_addr = UINT64_MAX;
		end_succeeds(a, &wr);
	}
	pair_close(&p);
}

/* A Send lands where its receiver chose, a Write where its initiator says and unheard. */
TEST(test_sys_05_sends_and_rdma_share_a_queue_pair)
{
	const uint64_t remote = DST + 4096;
	const uint32_t bytes = 300;
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, &wide);
	for (uint32_t turn = 1; turn <= 3; turn++) {
		const struct weft_sge sent = end_seg(a, SRC, bytes),
				      written = end_seg(a, SRC + 4096, bytes),
				      sink = end_seg(a, DST, bytes);
		struct weft_send_wr send = wr_make(WEFT_OP_SEND, 1, &sent, 1);
		struct weft_send_wr write = end_wr(a, WEFT_OP_WRITE, 2, &written, remote);
		struct weft_send_wr read = end_wr(a, WEFT_OP_READ, 3, &sink, remote);

		pair_blank(&p);
		end_fill(a, SRC, bytes, turn);
		end_fill(a, SRC + 4096, bytes, turn + 100);
		end_post_recv(b, 7, DST, bytes);
		end_post(a, &send);
		end_post(a, &write);
		end_post(a, &read);
		end_all_sent(a, 1, 3);
		EXPECT_EQ(end_received(b, 7).byte_count, bytes);
		end_holds(b, DST, bytes, turn);
		end_holds(b, remote, bytes, turn + 100);
		end_holds(a, DST, bytes, turn + 100);
		end_is_blank(b, DST + bytes, MARGIN);
		pair_quiet(&p);
	}
	pair_close(&p);
}

static uint64_t word_get(const struct pair_end *e, uint64_t offset)
{
	uint64_t word;

	memcpy(&word, e->memory + offset, sizeof(word));
	return word;
}

static void word_set(struct pair_end *e, uint64_t offset, uint64_t word)
{
	memcpy(e->memory + offset, &word, sizeof(word));
}

/* Runs an atomic on the peer's word at DST; returns the old value that came back to SRC. */
static uint64_t atomic_run(struct pair_end *e, enum weft_opcode opcode, uint64_t compare_add,
			   uint64_t swap)
{
	const struct weft_sge s = end_seg(e, SRC, 8);
	struct weft_send_wr wr = end_wr(e, opcode, 3, &s, DST);

	wr.compare_add = compare_add;
	wr.swap = swap;
	end_post(e, &wr);
	MUST_EQ(end_sent(e, 3).byte_count, 8);
	return word_get(e, SRC);
}

TEST(test_qp_07d_compare_and_swap)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	pair_open(&p, NULL);
	word_set(b, DST, 10);
	EXPECT_EQ(atomic_run(a, WEFT_OP_COMPARE_SWAP, 10, 11), 10);
	EXPECT_EQ(word_get(b, DST), 11);
	EXPECT_EQ(atomic_run(a, WEFT_OP_COMPARE_SWAP, 10, 12),
		  11); /* not equal: old value, no swap */
	EXPECT_EQ(word_get(b, DST), 11);
	EXPECT_EQ(atomic_run(a, WEFT_OP_COMPARE_SWAP, 11, UINT64_MAX), 11);
	EXPECT_EQ(word_get(b, DST), -1);
	end_is_blank(b, DST - 8, 8);
	end_is_blank(b, DST + 8, 8);
	pair_quiet(&p);
	pair_close(&p);
}

TEST(test_qp_07d_fetch_and_add)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	pair_open(&p, NULL);
	word_set(b, DST, UINT64_MAX - 1);
	EXPECT_EQ(atomic_run(a, WEFT_OP_FETCH_ADD, 5, 0), -2);
	EXPECT_EQ(word_get(b, DST), 3); /* modulo 2^64 */
	EXPECT_EQ(atomic_run(a, WEFT_OP_FETCH_ADD, UINT64_MAX, 0), 3);
	EXPECT_EQ(word_get(b, DST), 2);
	EXPECT_EQ(atomic_run(a, WEFT_OP_FETCH_ADD, 0, 0), 2);
	end_is_blank(b, DST - 8, 8);
	end_is_blank(b, DST + 8, 8);
	pair_close(&p);
}

TEST(test_qp_07d_the_old_value_scatters)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s[2];
	struct weft_send_wr wr;

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	pair_open(&p, NULL);
	end_fill(b, DST, 8, 1);
	s[0] = end_seg(a, SRC, 3);
	s[1] = end_seg(a, SRC + 8, 5);
	wr = end_wr(a, WEFT_OP_FETCH_ADD, 1, s, DST);
	wr.sge_count = 2;
	wr.compare_add = 0;
	end_succeeds(a, &wr);
	EXPECT_MEM(a->memory + SRC, b->memory + DST, 3);
	EXPECT_MEM(a->memory + SRC + 8, b->memory + DST + 3, 5);
	end_is_blank(a, SRC + 3, 5);
	pair_close(&p);
}

TEST(test_qp_07d_an_atomic_needs_an_aligned_word)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	pair_open(&p, NULL);
	for (uint64_t off = 1; off < 8; off++) {
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_FETCH_ADD, 1, &s, DST + off);

		wr.compare_add = 1;
		end_refused(a, &wr, WEFT_R_ATOMIC_ALIGN);
		end_is_blank(b, DST, 16);
		end_is_blank(a, SRC, 8);
		pair_revive(&p);
	}
	pair_close(&p);
}

/* Where the old value goes is checked before the word is touched. */
TEST(test_qp_07d_loc_02f_the_old_value_needs_local_write)
{
	static const enum weft_policy policies[] = { WEFT_POLICY_OPEN, WEFT_POLICY_STRICT };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	for (int i = 0; i < 2; i++) {
		uint32_t readable, writable, word;
		struct weft_sge s;
		struct weft_send_wr wr;

		pair_open(&p, &(struct pair_options){ .policy = policies[i] });
		readable = end_register(a, SRC, 8, WEFT_LOCAL_READ);
		writable = end_register(a, SRC, 8, WEFT_LOCAL_WRITE);
		word = end_bind(b, DST, 8, WEFT_REMOTE_ATOMIC);
		s = end_seg(a, SRC, 8);
		s.tag = writable;
		wr = end_wr(a, WEFT_OP_FETCH_ADD, 1, &s, DST);
		wr.remote_tag = word;
		wr.compare_add = 1;
		word_set(b, DST, 5);
		end_succeeds(a, &wr);
		EXPECT_EQ(word_get(b, DST), 6);
		EXPECT_EQ(word_get(a, SRC), 5);
		s.tag = readable;
		end_post(a, &wr);
		end_send_failed(a, 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_RIGHT_LOCAL_WRITE);
		EXPECT_EQ(word_get(b, DST), 6);
		EXPECT_EQ(word_get(a, SRC), 5);
		MUST(weft_region_deregister(a->pd, readable));
		MUST(weft_region_deregister(a->pd, writable));
		end_unbind(b, word);
		pair_revive(&p);
		pair_close(&p);
	}
}

/* QP-16: what a peer may do at all is an attribute of the queue pair. */
TEST(test_qp_16_remote_rights_of_the_queue_pair)
{
	static const struct {
		enum weft_opcode opcode;
		uint32_t right;
	} ops[] = {
		{ WEFT_OP_WRITE, WEFT_REMOTE_WRITE },
		{ WEFT_OP_READ, WEFT_REMOTE_READ },
		{ WEFT_OP_FETCH_ADD, WEFT_REMOTE_ATOMIC },
		{ WEFT_OP_COMPARE_SWAP, WEFT_REMOTE_ATOMIC },
		{ WEFT_OP_WRITE_IMM, WEFT_REMOTE_WRITE },
	};
	const uint32_t all = WEFT_REMOTE_WRITE | WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC;
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	pair_open(&p, NULL);
	for (unsigned int i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		struct weft_qp_attr attr = { .remote_rights = ops[i].right };
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, ops[i].opcode, 1, &s, DST);

		MUST(weft_qp_modify(b->qp, &attr, WEFT_QP_REMOTE_RIGHTS));
		end_post_recv(b, 9, DST + 64, 8);
		end_succeeds(a, &wr);
		if (ops[i].opcode == WEFT_OP_WRITE_IMM)
			end_received(b, 9);
		attr.remote_rights = all & ~ops[i].right;
		MUST(weft_qp_modify(b->qp, &attr, WEFT_QP_REMOTE_RIGHTS));
		pair_blank(&p);
		end_post_recv(b, 10, DST + 64, 8);
		end_refused(a, &wr, WEFT_R_QP_REMOTE_RIGHTS);
		end_is_blank(b, DST, 8);
		end_is_blank(a, SRC, 8);
		pair_revive(&p);
	}
	pair_close(&p);
}
