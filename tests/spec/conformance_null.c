/* SPDX-License-Identifier: BSD-2-Clause */
/* Null regions in the segments of requests: zeroes out of nowhere, and bytes to nowhere. */
#include <string.h>

#include "conformance.h"

enum { ID = 9, HEAD = 100, TAIL = 28, SIZES = 4 };

/* In one frame, in several, and more than the null region's memory before it repeats. */
static const uint32_t sizes[SIZES] = { 1, 3000, 40000, 100000 };

static uint32_t null_region(struct pair_end *e)
{
	uint32_t tag;

	MUST(weft_region_register_null(e->pd, &tag));
	return tag;
}

/* Memory of our own, nothing, and memory again: in that order they make one message. */
static void around(struct pair_end *e, uint32_t null, uint32_t middle, struct weft_sge parts[3])
{
	parts[0] = end_seg(e, SRC, HEAD);
	parts[1] = (struct weft_sge){ .addr = 77, .length = middle, .tag = null };
	parts[2] = end_seg(e, SRC + HEAD, TAIL);
}

static void holds_zeroes(const struct pair_end *e, uint64_t offset, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		REQUIRE(e->memory[offset + i] == 0);
}

TEST(test_null_region_gathers_zeroes)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t null;

	pair_open(&p, NULL);
	null = null_region(a);
	for (int i = 0; i < SIZES; i++) {
		struct weft_sge parts[3];
		struct weft_send_wr wr;
		uint64_t middle = DST + HEAD;

		pair_blank(&p);
		around(a, null, sizes[i], parts);
		end_fill(a, SRC, HEAD + TAIL, 5);
		wr = end_wr(a, WEFT_OP_SEND, ID, parts, 0);
		wr.sge_count = 3;
		end_post_recv(b, ID, DST, HEAD + sizes[i] + TAIL);
		end_post(a, &wr);
		EXPECT_EQ(end_received(b, ID).byte_count, HEAD + sizes[i] + TAIL);
		end_sent(a, ID);
		end_holds(b, DST, HEAD, 5);
		holds_zeroes(b, middle, sizes[i]);
		EXPECT(memcmp(b->memory + middle + sizes[i], a->memory + SRC + HEAD, TAIL) == 0);
	}
	MUST(weft_region_deregister(a->pd, null));
	pair_close(&p);
}

/* The end of the message is where it belongs though the middle went nowhere, twice over. */
TEST(test_null_region_discards_what_a_receive_gets)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t null;

	pair_open(&p, NULL);
	null = null_region(b);
	for (int i = 0; i < SIZES; i++) {
		const struct weft_sge all = end_seg(a, SRC, HEAD + sizes[i] + TAIL);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, ID, &all, 0);
		struct weft_sge into[4] = {
			end_seg(b, DST, HEAD),
			{ .length = sizes[i] / 2, .tag = null },
			{ .length = sizes[i] - sizes[i] / 2, .tag = null },
			end_seg(b, DST + HEAD, TAIL),
		};
		const struct weft_recv_wr recv = { .id = ID, .sges = into, .sge_count = 4 };
		uint32_t at = HEAD + sizes[i];

		pair_blank(&p);
		end_fill(a, SRC, all.length, 6);
		MUST(weft_qp_post_recv(b->qp, &recv, 1, NULL));
		end_post(a, &wr);
		EXPECT_EQ(end_received(b, ID).byte_count, all.length);
		end_sent(a, ID);
		end_holds(b, DST, HEAD, 6);
		EXPECT(memcmp(b->memory + DST + HEAD, a->memory + SRC + at, TAIL) == 0);
		end_is_blank(b, DST + HEAD + TAIL, 4096);
	}
	MUST(weft_region_deregister(b->pd, null));
	pair_close(&p);
}

TEST(test_null_region_writes_zeroes_and_is_the_sink_of_a_read)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t null;

	pair_open(&p, NULL);
	null = null_region(a);
	for (int i = 0; i < SIZES; i++) {
		const struct weft_sge s = { 0x1234567, sizes[i], null };
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, ID, &s, DST);

		pair_blank(&p);
		end_succeeds(a, &wr);
		holds_zeroes(b, DST, sizes[i]);
		end_is_blank(b, DST + sizes[i], 64);
		end_fill(b, SRC, sizes[i], 7);
		wr = end_wr(a, WEFT_OP_READ, ID, &s, SRC);
		end_succeeds(a, &wr);
		/* What was read has not become what the region holds. */
		wr = end_wr(a, WEFT_OP_WRITE, ID, &s, DST);
		end_succeeds(a, &wr);
		holds_zeroes(b, DST, sizes[i]);
	}
	MUST(weft_region_deregister(a->pd, null));
	pair_close(&p);
}

TEST(test_qp_07d_null_region_takes_the_result_of_an_atomic)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const uint64_t begin = 40;
	uint64_t word;
	uint32_t null;

	if (!pair_can(PAIR_ATOMICS))
		SKIP("no atomics here");
	pair_open(&p, NULL);
	null = null_region(a);
	memcpy(b->memory + DST, &begin, sizeof(begin));
	/* At the place where the region's memory repeats. */
	for (uint64_t addr = 65536 - 8; addr <= 65536; addr++) {
		const struct weft_sge s = { addr, 8, null };
		struct weft_send_wr wr = end_wr(a, WEFT_OP_FETCH_ADD, ID, &s, DST);

		wr.compare_add = 2;
		end_succeeds(a, &wr);
	}
	memcpy(&word, b->memory + DST, sizeof(word));
	EXPECT_EQ(word, begin + 18);
	MUST(weft_region_deregister(a->pd, null));
	pair_close(&p);
}

TEST(test_iwarp_06f_iwarp_09f_peer_does_not_reach_a_null_region)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge bytes;
	uint32_t null;

	pair_open(&p, NULL);
	bytes = end_seg(a, SRC, 64);
	null = null_region(b);
	for (int i = 0; i < 2; i++) {
		struct weft_send_wr wr = end_wr(a, i ? WEFT_OP_READ : WEFT_OP_WRITE, ID, &bytes,
						DST);

		wr.remote_tag = null;
		end_refused(a, &wr, i ? WEFT_R_RIGHT_REMOTE_READ : WEFT_R_RIGHT_REMOTE_WRITE);
		pair_revive(&p);
	}
	MUST(weft_region_deregister(b->pd, null));
	EXPECT_EQ(weft_region_register_null(NULL, &null), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_region_register_null(b->pd, NULL), WEFT_R_NULL_ARGUMENT);
	pair_close(&p);
}
