/* SPDX-License-Identifier: BSD-2-Clause */
/* Delay (QP-07f, QP-S2), atomics of many (QP-S3), many queue pairs (QP-18). */
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

static const uint64_t ms_ns = 1000 * 1000;

static struct weft_send_wr delay_wr(uint64_t id, uint64_t delay_ns)
{
	struct weft_send_wr wr = wr_make(WEFT_OP_DELAY, id, NULL, 0);

	wr.delay_ns = delay_ns;
	return wr;
}

/* How long as many Writes take that each follow a Delay. No Delay ends early. */
static uint64_t spaced_ns(struct pair_end *a, uint64_t steps, uint64_t delay_ns)
{
	const struct weft_sge nothing = { 0 };
	uint64_t start = pair_maker.now_ns(a->pair);
	struct weft_send_wr wr;

	for (uint64_t i = 0; i < steps; i++) {
		wr = delay_wr(2 * i, delay_ns);
		end_post(a, &wr);
		wr = end_wr(a, WEFT_OP_WRITE, 2 * i + 1, &nothing, 0);
		end_post(a, &wr);
	}
	for (uint64_t i = 0; i < steps; i++) {
		end_sent(a, 2 * i);
		REQUIRE(pair_maker.now_ns(a->pair) - start >= (i + 1) * delay_ns);
		end_sent(a, 2 * i + 1);
	}
	return pair_maker.now_ns(a->pair) - start;
}

/*
 * Requests apart by the delay, and no longer. On a busy machine that is seen late: so it is tried
 * again, while what is always too long stays so.
 */
TEST(test_qp_07f_qp_s2_delay_lasts_as_long_as_it_says)
{
	enum { STEPS = 3 };
	const uint64_t delay_ns = 50 * ms_ns, most_ns = 2 * STEPS * delay_ns;
	struct pair p;
	uint64_t begin, took_ns;

	pair_open(&p, NULL);
	begin = pair_maker.now_ns(&p);
	do
		took_ns = spaced_ns(&p.ends[0], STEPS, delay_ns);
	while (took_ns > most_ns && pair_wait(&p, begin));
	EXPECT(took_ns <= most_ns);
	pair_close(&p);
}

/* How long this end's bursts of Writes take. */
static uint64_t bursts_ns(struct pair_end *e)
{
	enum { BURSTS = 30, EACH = 32 };
	uint64_t start = pair_maker.now_ns(e->pair);

	for (int i = 0; i < BURSTS; i++) {
		const struct weft_sge s = end_seg(e, SRC, 64);
		struct weft_send_wr wrs[EACH];

		for (uint64_t id = 0; id < EACH; id++)
			wrs[id] = end_wr(e, WEFT_OP_WRITE, id, &s, DST);
		MUST(weft_qp_post_send(e->qp, wrs, EACH, NULL));
		end_all_sent(e, 0, EACH - 1);
	}
	return pair_maker.now_ns(e->pair) - start;
}

/*
 * The rate of a queue pair beside one that is delayed, against its rate when that is not: four
 * fifths at least, which noise of the machine may hide for a while.
 */
TEST(test_qp_07f_qp_s2_delay_spaces_its_own_queue_only)
{
	static struct pair p, q;
	struct pair_end *a = &p.ends[0], *c = &q.ends[0];
	struct weft_send_wr wr;
	uint64_t begin, alone_ns, beside_ns;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .beside = &p });
	begin = pair_maker.now_ns(&p);
	do {
		alone_ns = bursts_ns(c);
		/* It never ends; there are requests behind it, too. */
		wr = delay_wr(50, UINT64_MAX);
		end_post(a, &wr);
		wr = end_wr(a, WEFT_OP_WRITE, 51, NULL, 0);
		end_post(a, &wr);
		beside_ns = bursts_ns(c);
		EXPECT_EQ(end_query(a).send_queued, 2);
		end_modify(a, WEFT_QPS_ERROR);
		end_sends_flushed(a, 50, 51);
		pair_revive(&p);
	} while (4 * beside_ns > 5 * alone_ns && pair_wait(&p, begin));
	EXPECT(4 * beside_ns <= 5 * alone_ns);
	pair_close(&q);
	pair_close(&p);
}

/* What stands before a Delay is not held, what stands behind is; and it takes its whole time. */
TEST(test_qp_07f_delay_holds_what_follows)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wrs[3];
	uint64_t start;
	bool was_blank;

	pair_open(&p, NULL);
	end_fill(a, SRC, 8, 1);
	s = end_seg(a, SRC, 8);
	wrs[0] = end_wr(a, WEFT_OP_WRITE, 1, &s, DST);
	wrs[1] = delay_wr(2, 30 * ms_ns);
	wrs[2] = end_wr(a, WEFT_OP_WRITE, 3, &s, DST + 8);
	start = pair_maker.now_ns(&p);
	MUST(weft_qp_post_send(a->qp, wrs, 3, NULL));
	end_sent(a, 1);
	end_holds(b, DST, 8, 1);
	was_blank = b->memory[DST + 8] == BLANK;
	if (pair_maker.now_ns(&p) - start < 30 * ms_ns)
		EXPECT(was_blank);
	end_sent(a, 2);
	EXPECT(pair_maker.now_ns(&p) - start >= 30 * ms_ns);
	end_sent(a, 3);
	end_holds(b, DST + 8, 8, 1);
	pair_close(&p);
}

TEST(test_qp_07f_a_delay_of_nothing)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_send_wr wr = delay_wr(1, 0);

	pair_open(&p, NULL);
	end_succeeds(a, &wr);
	wr.flags = 0; /* unsignalled: passes without a word */
	end_post(a, &wr);
	wr = end_wr(a, WEFT_OP_WRITE, 2, NULL, 0);
	end_succeeds(a, &wr);
	pair_close(&p);
}

/* ---- QP-S3 ---------------------------------------------------------------------------------- */

static void word_set(struct pair_end *e, uint64_t word)
{
	memcpy(e->memory + DST, &word, sizeof(word));
}

static uint64_t word_get(const struct pair_end *e, uint64_t offset)
{
	uint64_t word;

	memcpy(&word, e->memory + offset, sizeof(word));
	return word;
}

enum { NODES = 6 };

static void open_nodes(struct pair *p)
{
	pair_open(&p[0], NULL);
	for (int i = 1; i < NODES; i++)
		pair_open(&p[i], &(struct pair_options){ .beside = &p[0] });
}

/* All nodes add at the same time: every old value is another one, and none is lost. */
TEST(test_qp_07d_qp_s3_fetch_and_add_of_many)
{
	enum { EACH = 20, ALL = NODES * EACH };
	static struct pair p[NODES];
	bool seen[ALL] = { false };

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	open_nodes(p);
	word_set(&p[0].ends[1], 0);
	for (uint64_t n = 0; n < EACH; n++) {
		for (uint64_t i = 0; i < NODES; i++) {
			struct pair_end *a = &p[i].ends[0];
			const struct weft_sge s = end_seg(a, SRC + 8 * (n * NODES + i), 8);
			struct weft_send_wr wr = end_wr(a, WEFT_OP_FETCH_ADD, 1, &s, DST);

			wr.compare_add = 1;
			end_post(a, &wr);
		}
	}
	for (int i = 0; i < ALL; i++)
		EXPECT_EQ(end_take(&p[0].ends[0], p[0].ends[0].send_cq).status, WEFT_SUCCESS);
	EXPECT_EQ(word_get(&p[0].ends[1], DST), ALL);
	for (uint64_t i = 0; i < ALL; i++) {
		uint64_t old = word_get(&p[0].ends[0], SRC + 8 * i);

		EXPECT(old < ALL && !seen[old]);
		seen[old] = true;
	}
	for (int i = NODES - 1; i >= 0; i--)
		pair_close(&p[i]);
}

/* All nodes try to take the same turn: one wins each time. */
TEST(test_qp_07d_qp_s3_one_winner_for_each_compare_and_swap)
{
	enum { ROUNDS = 20 };
	static struct pair p[NODES];

	if (!pair_can(PAIR_ATOMICS))
		SKIP("this transport has no atomics");
	open_nodes(p);
	word_set(&p[0].ends[1], 0);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		int winners = 0;

		for (uint64_t i = 0; i < NODES; i++) {
			struct pair_end *a = &p[i].ends[0];
			const struct weft_sge s = end_seg(a, SRC + 8 * i, 8);
			struct weft_send_wr wr = end_wr(a, WEFT_OP_COMPARE_SWAP, 1, &s, DST);

			wr.compare_add = round * 100;
			wr.swap = (round + 1) * 100;
			end_post(a, &wr);
		}
		for (uint64_t i = 0; i < NODES; i++)
			EXPECT_EQ(end_take(&p[0].ends[0], p[0].ends[0].send_cq).status,
				  WEFT_SUCCESS);
		for (uint64_t i = 0; i < NODES; i++)
			winners += word_get(&p[0].ends[0], SRC + 8 * i) == round * 100;
		EXPECT_EQ(winners, 1);
		EXPECT_EQ(word_get(&p[0].ends[1], DST), (round + 1) * 100);
	}
	for (int i = NODES - 1; i >= 0; i--)
		pair_close(&p[i]);
}

/* ---- QP-18 ---------------------------------------------------------------------------------- */

/* Two thousand connections of one process: each carries its own message, then all go. */
TEST(test_qp_18_thousands_of_queue_pairs)
{
	enum { PAIRS = 2000 };
	struct pair *p = calloc(PAIRS, sizeof(*p));
	const struct pair_options small = {
		.cq_entries = 2 * PAIRS,
		.qp = { .send_max = 4, .recv_max = 4 },
	};

	REQUIRE(p);
	pair_open(&p[0], &small);
	for (int i = 1; i < PAIRS; i++) {
		struct pair_options o = small;

		o.beside = &p[0];
		pair_open(&p[i], &o);
	}
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct pair_end *a = &p[i].ends[0];
		const struct weft_sge s = { .addr = (uintptr_t)&i, .length = sizeof(i) };
		struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, i, &s, 0);

		end_post_recv(a->peer, i, DST + i * sizeof(i), sizeof(i));
		wr.flags |= WEFT_INLINE;
		end_post(a, &wr);
	}
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct weft_completion c = end_take(&p[0].ends[1], p[0].ends[1].recv_cq);
		uint32_t value;

		EXPECT_EQ(end_take(&p[0].ends[0], p[0].ends[0].send_cq).status, WEFT_SUCCESS);
		EXPECT(c.id < PAIRS);
		EXPECT_EQ(c.qp_number, weft_qp_number(p[c.id].ends[1].qp));
		memcpy(&value, p[0].ends[1].memory + DST + c.id * sizeof(value), sizeof(value));
		EXPECT_EQ(value, c.id);
	}
	for (int i = PAIRS - 1; i >= 0; i--)
		pair_close(&p[i]);
	free(p);
}
