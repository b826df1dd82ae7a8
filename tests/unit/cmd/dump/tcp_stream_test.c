/* SPDX-License-Identifier: BSD-2-Clause */
/* TCP put in order again. */
#include "cmd/dump/tcp_stream.h"

#include <string.h>

#include "base/prng.h"
#include "test.h"

enum { BYTES = 1000, ROUNDS = 500 };

static uint8_t sent[BYTES];

static void fill(void)
{
	for (uint32_t i = 0; i < BYTES; i++)
		sent[i] = (uint8_t)(i * 31 + (i >> 8));
}

static void add(struct tcp_stream *s, uint32_t base, uint32_t at, uint32_t length)
{
	tcp_stream_add(s, base + at, rd_of(sent + at, length));
}

static size_t ready(const struct tcp_stream *s)
{
	struct rd r = tcp_stream_ready(s);

	return (size_t)(r.end - r.at);
}

TEST(test_rfc9293_tcp_in_order_and_taken_in_parts)
{
	struct tcp_stream s;

	fill();
	tcp_stream_init(&s);
	tcp_stream_anchor(&s, 5000);
	EXPECT_EQ(ready(&s), 0);
	add(&s, 5000, 0, 10);
	add(&s, 5000, 10, 20);
	EXPECT_EQ(ready(&s), 30);
	tcp_stream_take(&s, 7);
	add(&s, 5000, 30, 5);
	EXPECT_EQ(ready(&s), 28);
	EXPECT_MEM(tcp_stream_ready(&s).at, sent + 7, 28);
	tcp_stream_fini(&s);
}

TEST(test_rfc9293_tcp_twice_overlapping_and_out_of_order)
{
	struct tcp_stream s;

	fill();
	tcp_stream_init(&s);
	tcp_stream_anchor(&s, 0);
	add(&s, 0, 20, 10);
	add(&s, 0, 5, 10);
	EXPECT_EQ(ready(&s), 0);
	EXPECT_EQ(tcp_stream_missing(&s, 0), 5);
	EXPECT_EQ(s.held_bytes, 20);
	add(&s, 0, 0, 7);
	EXPECT_EQ(ready(&s), 15);
	EXPECT_EQ(tcp_stream_missing(&s, 0), 5);
	add(&s, 0, 0, 15); /* all of it again */
	EXPECT_EQ(ready(&s), 15);
	add(&s, 0, 10, 30);
	EXPECT_EQ(ready(&s), 40);
	EXPECT(!s.held && s.held_bytes == 0 && s.held_count == 0);
	EXPECT_MEM(tcp_stream_ready(&s).at, sent, 40);
	EXPECT_EQ(tcp_stream_missing(&s, 0), 0);
	tcp_stream_fini(&s);
}

/* Of two versions of the same bytes the first counts. */
TEST(test_rfc9293_tcp_the_first_of_two_counts)
{
	static const uint8_t other[10] = { 0xee };
	struct tcp_stream s;

	fill();
	tcp_stream_init(&s);
	tcp_stream_anchor(&s, 0);
	add(&s, 0, 10, 10);
	tcp_stream_add(&s, 10, rd_of(other, sizeof(other)));
	add(&s, 0, 0, 10);
	tcp_stream_add(&s, 0, rd_of(other, sizeof(other)));
	EXPECT_EQ(ready(&s), 20);
	EXPECT_MEM(tcp_stream_ready(&s).at, sent, 20);
	tcp_stream_fini(&s);
}

/* Pieces of any size in any order, some twice, across the wrap of the sequence number. */
TEST(test_rfc9293_tcp_any_order_across_the_wrap)
{
	struct prng prng = { .state = 1 };

	fill();
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t base = UINT32_MAX - prng_below(&prng, 2 * BYTES);
		struct tcp_stream s;

		tcp_stream_init(&s);
		tcp_stream_anchor(&s, base);
		for (int i = 0; i < 40; i++) {
			uint32_t at = prng_below(&prng, BYTES);
			uint32_t length = prng_below(&prng, BYTES - at + 1);

			add(&s, base, at, length < 100 ? length : 100);
		}
		for (uint32_t at = BYTES; at > 0; at -= 50)
			add(&s, base, at - 50, 50);
		EXPECT_EQ(ready(&s), BYTES);
		EXPECT_MEM(tcp_stream_ready(&s).at, sent, BYTES);
		EXPECT(!s.held && s.held_bytes == 0 && s.held_count == 0);
		tcp_stream_fini(&s);
	}
}

TEST(test_rfc9293_tcp_the_end_and_what_is_missing_before_it)
{
	uint32_t base = UINT32_MAX - 4;
	struct tcp_stream s;

	fill();
	tcp_stream_init(&s);
	tcp_stream_anchor(&s, base);
	tcp_stream_add_fin(&s, base + 20);
	EXPECT(!tcp_stream_is_over(&s));
	EXPECT_EQ(tcp_stream_missing(&s, base), 20);
	add(&s, base, 0, 10);
	EXPECT_EQ(tcp_stream_missing(&s, base), 10);
	add(&s, base, 10, 10);
	EXPECT(tcp_stream_is_over(&s));
	EXPECT_EQ(tcp_stream_missing(&s, base + 21), 0);
	tcp_stream_anchor(&s, base); /* begins anew */
	EXPECT(!s.has_fin && ready(&s) == 0);
	/* What was acknowledged was sent; one more is a FIN that was not captured. */
	EXPECT_EQ(tcp_stream_missing(&s, base + 2), 2);
	EXPECT_EQ(tcp_stream_missing(&s, base + 1), 0);
	EXPECT_EQ(tcp_stream_missing(&s, base - 1), 0);
	tcp_stream_fini(&s);
}

TEST(test_rfc9293_tcp_goes_on_behind_a_gap)
{
	struct tcp_stream s;

	fill();
	tcp_stream_init(&s);
	tcp_stream_anchor(&s, 0);
	add(&s, 0, 0, 3);
	add(&s, 0, 10, 5);
	add(&s, 0, 15, 5);
	add(&s, 0, 30, 5);
	tcp_stream_take(&s, 3);
	tcp_stream_skip(&s, tcp_stream_missing(&s, 0));
	EXPECT_EQ(ready(&s), 10);
	EXPECT_MEM(tcp_stream_ready(&s).at, sent + 10, 10);
	EXPECT_EQ(tcp_stream_missing(&s, 0), 10);
	tcp_stream_fini(&s);
}
