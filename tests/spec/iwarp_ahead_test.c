/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How far is read ahead: to the header of the next large FPDU, also if small ones lie between them,
 * so that its payload is received where it belongs (RFC 5044 section 6) and there is one receive
 * for each. The peer's bytes are all there; what the core asks for is what the tests look at.
 */
#include "iwarp_peer.h"

#include <string.h>

#include "base/prng.h"

enum {
	LARGE_HEADER = MPA_HEADER_BYTES + DDP_TAGGED_BYTES,
	PAIRS = 12,
	WARM = 3, /* pairs, until it is known what lies between large ones */
	BETWEEN_MAX = 3,
	READ_MAX = 1024 /* of one receive, copied in the worst case */
};

static const struct setup plain = {
	.terms = { .is_initiator = true },
	.is_plain = true,
	.is_whole = true,
};

static uint8_t payload[65536];

static void fill(uint32_t with, size_t length)
{
	for (size_t i = 0; i < length; i++)
		payload[i] = (uint8_t)(with + i * 5 + i / 251);
}

/* A large Write and what follows it. */
struct pair {
	uint32_t large, small, between; /* payload; so many small ones */
};

/* Where the large ones begin in the stream. */
static size_t starts[PAIRS + 4];
static uint32_t large_count;

static void put_large(struct iwarp_bed *b, uint32_t tag, uint32_t length)
{
	starts[large_count++] = b->in.length;
	peer_write(b, tag, addr_of(b, 0), payload, length);
}

static void put_pairs(struct iwarp_bed *b, uint32_t tag, const struct pair *p)
{
	large_count = 0;
	for (uint32_t i = 0; i < PAIRS; i++) {
		put_large(b, tag, p->large);
		for (uint32_t k = 0; k < p->between; k++)
			peer_send(b, RDMAP_SEND, 0, payload, p->small);
	}
}

static void open_receives(struct iwarp_bed *b, uint32_t tag)
{
	for (uint32_t i = 0; i < PAIRS * BETWEEN_MAX; i++)
		bed_receive(b, tag, 300000, 512);
}

static uint64_t copied(const struct iwarp_bed *b)
{
	return iwarp_counts(b->stream)->payload_copied;
}

/* Receives until a header of a large one behind these is the last that came: its number. */
static uint32_t warm_up(struct iwarp_bed *b)
{
	uint32_t next = WARM;

	while (b->in.at < starts[WARM])
		REQUIRE(bed_move_in(b, SIZE_MAX));
	while (next < large_count && starts[next] + LARGE_HEADER < b->in.at)
		next++;
	REQUIRE(next <= WARM + 1 && b->in.at == starts[next] + LARGE_HEADER);
	return next;
}

TEST(test_iwarp_10_rfc5044_6_small_ones_come_with_the_large_one_before_them)
{
	static const struct pair pairs[] = {
		{ 5000, 60, 1 }, { 5001, 1, 1 }, { 8002, 8, 3 }, { 16383, 480, 1 }, { 1500, 200, 3 }
	};

	fill(1, sizeof(payload));
	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		const struct pair *p = &pairs[i];

		for (struct iwarp_bed *b = bed_first(&plain); b; b = bed_next(b)) {
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

			open_receives(b, tag);
			put_pairs(b, tag, p);
			for (uint32_t next = warm_up(b); next + 1 < PAIRS; next++) {
				uint64_t before = copied(b);

				REQUIRE(bed_move_in(b, SIZE_MAX));
				EXPECT_EQ(b->in.at, starts[next + 1] + LARGE_HEADER);
				EXPECT_EQ(copied(b) - before, (uint64_t)p->small * p->between);
			}
			bed_move(b);
			EXPECT_EQ(iwarp_counts(b->stream)->messages_in, PAIRS * (1 + p->between));
			EXPECT_MEM(b->memory, payload, p->large);
		}
	}
}

/* The same with what comes in pieces: less is never asked for than is needed, nor more. */
TEST(test_iwarp_10_rfc5044_6_what_is_asked_for_ends_with_the_next_large_header)
{
	const struct pair p = { 6001, 60, 1 };

	for (struct iwarp_bed *b = bed_first(&plain); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		open_receives(b, tag);
		put_pairs(b, tag, &p);
		for (uint32_t next = warm_up(b); next + 1 < PAIRS; next++) {
			/* While the payload comes, and not all of it is there. */
			while (b->in.at + 1000 < starts[next] + p.large) {
				struct span_list l;

				iwarp_want(b->stream, b->now_ns, &l);
				EXPECT_EQ(b->in.at + l.length, starts[next + 1] + LARGE_HEADER);
				REQUIRE(bed_move_in(b, 700));
			}
			REQUIRE(bed_move_in(b, SIZE_MAX));
			EXPECT_EQ(b->in.at, starts[next + 1] + LARGE_HEADER);
		}
		bed_move(b);
	}
}

/* Nothing lies between them any more: as much as did is copied, once. */
TEST(test_iwarp_10_rfc5044_6_large_ones_in_a_row_after_others_are_not_copied)
{
	const struct pair p = { 5000, 60, 2 };

	for (struct iwarp_bed *b = bed_first(&plain); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
		uint32_t between = 2 * mpa_fpdu_bytes(DDP_UNTAGGED_BYTES + p.small);
		uint64_t before;

		open_receives(b, tag);
		put_pairs(b, tag, &p);
		put_large(b, tag, p.large);
		for (uint32_t i = 0; i < 3; i++)
			put_large(b, tag, p.large);
		while (b->in.at < starts[PAIRS])
			REQUIRE(bed_move_in(b, SIZE_MAX));
		EXPECT_EQ(b->in.at, starts[PAIRS] + LARGE_HEADER);
		before = copied(b);
		REQUIRE(bed_move_in(b, SIZE_MAX));
		EXPECT_EQ(b->in.at, starts[PAIRS + 1] + LARGE_HEADER + between);
		EXPECT_EQ(copied(b) - before, between);
		before = copied(b);
		REQUIRE(bed_move_in(b, SIZE_MAX));
		EXPECT_EQ(b->in.at, starts[PAIRS + 2] + LARGE_HEADER);
		REQUIRE(bed_move_in(b, SIZE_MAX));
		EXPECT_EQ(b->in.at, starts[PAIRS + 3] + LARGE_HEADER);
		EXPECT_EQ(copied(b), before);
		bed_move(b);
	}
}

/* More of them than the buffer holds: what is copied of the next large one stays bounded. */
TEST(test_iwarp_10_rfc5044_6_many_small_ones_between_large_ones)
{
	enum { SMALL = 100, MANY = 200, ROUNDS = 3 };

	for (struct iwarp_bed *b = bed_first(&plain); b; b = bed_next(b)) {
		uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);

		for (uint32_t i = 0; i < ROUNDS; i++) {
			for (uint32_t k = 0; k < MANY; k++)
				peer_write(b, tag, addr_of(b, 100000), payload, SMALL);
			for (uint32_t k = 0; k < 3; k++)
				peer_write(b, tag, addr_of(b, 0), payload, 20000);
		}
		while (bed_move_in(b, SIZE_MAX))
			continue;
		EXPECT_EQ(b->in.at, b->in.length);
		EXPECT_EQ(iwarp_counts(b->stream)->messages_in, ROUNDS * (MANY + 3));
		/* Of the first one of three its beginning, and of the second. */
		EXPECT(copied(b) <= ROUNDS * (MANY * SMALL + 2 * READ_MAX));
		EXPECT_MEM(b->memory, payload, 20000);
		bed_move(b);
	}
}

/* ---- Any order, any pieces ------------------------------------------------------------------ */

enum {
	MESSAGES = 60,
	RECEIVES = 24,
	RECEIVE_AT = 200000,
	RECEIVE_BYTES = 4096,
	SEEDS = HISTORIES(40)
};

/* Runs of large ones, runs of small ones, and both in turn. */
static uint32_t length_of(struct prng *prng, uint32_t *pattern, uint32_t i)
{
	bool is_large;

	if (prng_below(prng, 8) == 0)
		*pattern = prng_below(prng, 4);
	is_large = *pattern == 0 || (*pattern == 1 && i % 2 == 0) || (*pattern == 2 && i % 4 == 0);
	return is_large ? 600 + prng_below(prng, 3400) : prng_below(prng, 480);
}

static void put_random(struct iwarp_bed *b, struct prng *prng, uint32_t tag)
{
	uint32_t pattern = 1, received = 0;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		uint32_t length = length_of(prng, &pattern, i);
		size_t at = prng_below(prng, RECEIVE_AT - 4096);

		fill((uint32_t)prng_next(prng), length);
		if (received < RECEIVES && prng_below(prng, 2) == 0) {
			at = RECEIVE_AT + (size_t)received++ * RECEIVE_BYTES;
			peer_send(b, RDMAP_SEND, 0, payload, length);
		} else {
			peer_write(b, tag, addr_of(b, at), payload, length);
		}
		memcpy(b->shadow + at, payload, length);
	}
	for (; received < RECEIVES; received++)
		peer_send(b, RDMAP_SEND, 0, NULL, 0);
}

static size_t piece(struct prng *prng)
{
	switch (prng_below(prng, 4)) {
	case 0:
		return 1 + prng_below(prng, 40);
	case 1:
		return 1 + prng_below(prng, 2000);
	default:
		return SIZE_MAX;
	}
}

TEST(test_iwarp_10_iwarp_11_any_order_of_sizes_arrives_in_any_pieces)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		for (struct iwarp_bed *b = bed_first(NULL); b; b = bed_next(b)) {
			struct prng prng = { seed * 100 + b->way };
			uint32_t tag = bed_region(b, 0, MEMORY_BYTES, ALL_RIGHTS);
			uint32_t moves = 0, buffers_at = prng_below(&prng, 200);

			for (uint32_t i = 0; i < RECEIVES; i++)
				bed_receive(b, tag, RECEIVE_AT + (size_t)i * RECEIVE_BYTES,
					    RECEIVE_BYTES);
			put_random(b, &prng, tag);
			while (bed_move_in(b, piece(&prng))) {
				if (++moves == buffers_at)
					bed_lend(b);
			}
			EXPECT_EQ(b->in.at, b->in.length);
			bed_move(b);
			EXPECT(is_unchanged(b));
			EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
			for (uint32_t i = 0; i < RECEIVES; i++)
				expect_completion(b, i + 1, WEFT_SUCCESS, WEFT_OK);
			expect_no_completion(b);
		}
	}
}
