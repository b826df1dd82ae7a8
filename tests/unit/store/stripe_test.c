/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "store/store.h"
#include "test.h"
#include "unit/store/probe.h"

#define TIB (UINT64_C(1) << 40)

enum { UNIT = 4096, MEMBERS = PROBES };

static void stripe_init(struct probed *stripe, uint64_t member_bytes, uint32_t requests_max)
{
	const struct joint_config c = probed_init(stripe, MEMBERS, member_bytes, requests_max);

	REQUIRE(stripe_store_create(&c, UNIT, &stripe->store) == WEFT_OK);
}

static bool is_asked(const struct probe *p, uint32_t n, uint64_t offset, uint64_t length)
{
	return n < p->asked_count && p->asked[n] && p->asked[n]->offset == offset &&
	       p->asked[n]->length == length;
}

TEST(test_stripe_splits_by_units_and_joins)
{
	static uint8_t bytes[5 * UNIT];
	struct span span = { bytes, sizeof(bytes) - 1024 };
	/* From the middle of unit 1 to the middle of unit 5. */
	struct store_request r = { STORE_WRITE, STORE_FUA, UNIT + 512, sizeof(bytes) - 1024,
				   &span,	1,	   0,	       0,
				   { 0 },	0 };
	const struct store_request *asked;
	struct probed stripe;

	stripe_init(&stripe, 16 * UNIT, 4);
	EXPECT_EQ(stripe.store->shape.size_bytes, 48 * UNIT);
	EXPECT_EQ(store_submit(stripe.store, &r, 0), WEFT_OK);
	EXPECT(is_asked(&stripe.probes[1], 0, 512, 2 * UNIT - 512));
	EXPECT(is_asked(&stripe.probes[2], 0, 0, 2 * UNIT - 512));
	EXPECT(is_asked(&stripe.probes[0], 0, UNIT, UNIT));
	asked = stripe.probes[1].asked[0];
	EXPECT_EQ(asked->flags, STORE_FUA);
	EXPECT_EQ(asked->span_count, 2);
	EXPECT(asked->spans[0].bytes == bytes && asked->spans[0].length == UNIT - 512);
	EXPECT(asked->spans[1].bytes == bytes + 3 * UNIT - 512 && asked->spans[1].length == UNIT);
	probe_end(&stripe.probes[1], 0, WEFT_OK);
	probe_end(&stripe.probes[0], 0, WEFT_OK);
	EXPECT(!store_next_done(stripe.store, 0));
	probe_end(&stripe.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	store_destroy(stripe.store);
}

TEST(test_stripe_short_request_touches_only_its_member)
{
	struct probed stripe;

	for (uint64_t unit = 0; unit < 7; unit++) {
		struct store_request r = { .op = STORE_DISCARD, .offset = unit * UNIT + 512 };

		stripe_init(&stripe, 16 * UNIT, 4);
		r.length = 512;
		EXPECT_EQ(store_submit(stripe.store, &r, 0), WEFT_OK);
		for (uint64_t m = 0; m < MEMBERS; m++)
			EXPECT_EQ(stripe.probes[m].asked_count, m == unit % MEMBERS);
		EXPECT(is_asked(&stripe.probes[unit % MEMBERS], 0, unit / MEMBERS * UNIT + 512,
				512));
		probe_end(&stripe.probes[unit % MEMBERS], 0, WEFT_OK);
		EXPECT(store_next_done(stripe.store, 0) == &r);
		store_destroy(stripe.store);
	}
}

TEST(test_stripe_first_failure_is_the_requests)
{
	struct store_request r = { .op = STORE_WRITE_ZEROES, .length = 3 * UNIT };
	struct probed stripe;

	stripe_init(&stripe, 16 * UNIT, 4);
	EXPECT_EQ(store_submit(stripe.store, &r, 0), WEFT_OK);
	probe_end(&stripe.probes[2], 0, WEFT_R_STORE_FULL);
	EXPECT(!store_next_done(stripe.store, 0));
	probe_end(&stripe.probes[0], 0, WEFT_R_STORE_IO);
	probe_end(&stripe.probes[1], 0, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(r.error, 5);
	store_destroy(stripe.store);
}

TEST(test_stripe_flush_reaches_all_members)
{
	struct store_request r = { .op = STORE_FLUSH };
	struct probed stripe;

	stripe_init(&stripe, 16 * UNIT, 4);
	EXPECT_EQ(store_submit(stripe.store, &r, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(!store_next_done(stripe.store, 0));
		EXPECT(is_asked(&stripe.probes[m], 0, 0, 0));
		EXPECT_EQ(stripe.probes[m].asked[0]->op, STORE_FLUSH);
		probe_end(&stripe.probes[m], 0, WEFT_OK);
	}
	EXPECT(store_next_done(stripe.store, 0) == &r);
	store_destroy(stripe.store);
}

TEST(test_stripe_more_requests_than_jobs_wait_in_order)
{
	struct store_request r[3];
	struct probed stripe;

	stripe_init(&stripe, 16 * UNIT, 2);
	for (uint32_t i = 0; i < 3; i++) {
		r[i] = (struct store_request){ .op = STORE_DISCARD, .offset = 512 * i };
		r[i].length = 512;
		EXPECT_EQ(store_submit(stripe.store, &r[i], 0), WEFT_OK);
	}
	EXPECT_EQ(stripe.probes[0].asked_count, 2);
	probe_end(&stripe.probes[0], 1, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &r[1]);
	EXPECT(is_asked(&stripe.probes[0], 2, 1024, 512));
	probe_end(&stripe.probes[0], 0, WEFT_OK);
	probe_end(&stripe.probes[0], 2, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &r[0]);
	EXPECT(store_next_done(stripe.store, 0) == &r[2]);
	EXPECT(!store_next_done(stripe.store, 0));
	store_destroy(stripe.store);
}

TEST(test_stripe_beyond_2_tib_and_whole_device)
{
	struct store_request r = { .op = STORE_WRITE_ZEROES, .length = 9 * TIB };
	struct store_request one = { .op = STORE_DISCARD, .offset = 9 * TIB - 512, .length = 512 };
	struct probed stripe;

	stripe_init(&stripe, 3 * TIB, 4);
	EXPECT_EQ(stripe.store->shape.size_bytes, 9 * TIB);
	EXPECT_EQ(store_submit(stripe.store, &r, 0), WEFT_OK);
	EXPECT_EQ(store_submit(stripe.store, &one, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++) {
		EXPECT(is_asked(&stripe.probes[m], 0, 0, 3 * TIB));
		probe_end(&stripe.probes[m], 0, WEFT_OK);
	}
	EXPECT(is_asked(&stripe.probes[2], 1, 3 * TIB - 512, 512));
	probe_end(&stripe.probes[2], 1, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &r);
	EXPECT(store_next_done(stripe.store, 0) == &one);
	store_destroy(stripe.store);
}

/* Pieces of at most 64 spans, each of whole blocks, one after the other. */
TEST(test_stripe_many_spans_and_units_go_in_pieces)
{
	enum { LENGTH = 2 * 512 * 100, ODD = LENGTH / 64 };
	static uint8_t memory[2][LENGTH], from[LENGTH], back[LENGTH];
	struct mem_store_config mc = { .size_bytes = LENGTH / 2, .block_bytes = 512 };
	struct store *members[2], *stripe;
	struct joint_config c = { members, 2, 1 };
	struct span spans[64];
	struct store_request w = { STORE_WRITE, 0, 0, LENGTH, spans, 64, 0, 0, { 0 }, 0 };
	struct span whole = { back, LENGTH };
	struct store_request r = { STORE_READ, 0, 0, LENGTH, &whole, 1, 0, 0, { 0 }, 0 };

	for (int i = 0; i < LENGTH; i++)
		from[i] = (uint8_t)(i * 7 + i / 512);
	/* None of them ends with a block, but the last. */
	for (int i = 0, at = 0; i < 64; i++) {
		int length = i == 63 ? LENGTH - at : ODD + (i % 2 ? 3 : -3);

		spans[i] = (struct span){ from + at, (size_t)length };
		at += length;
	}
	for (int i = 0; i < 2; i++) {
		mc.bytes = memory[i];
		REQUIRE(mem_store_create(&mc, &members[i]) == WEFT_OK);
	}
	REQUIRE(stripe_store_create(&c, 512, &stripe) == WEFT_OK);
	EXPECT_EQ(store_submit(stripe, &w, 0), WEFT_OK);
	EXPECT_EQ(store_submit(stripe, &r, 0), WEFT_OK);
	EXPECT(store_next_done(stripe, 0) == &w);
	EXPECT(store_next_done(stripe, 0) == &r);
	EXPECT_MEM(from, back, LENGTH);
	EXPECT_MEM(from + 512, memory[1], 512);
	EXPECT_MEM(from + 1024, memory[0] + 512, 512);
	store_destroy(stripe);
	store_destroy(members[0]);
	store_destroy(members[1]);
}

/* 60 blocks of the first member fill its list but for 4; of the next one it takes no part. */
TEST(test_stripe_piece_ends_with_a_block_whatever_the_spans)
{
	enum { BLOCKS = 120, TINY = 63 };
	static uint8_t large[BLOCKS * 512], tiny[TINY * 32];
	struct probe probes[2];
	struct store *members[] = { &probes[0].store, &probes[1].store }, *stripe;
	struct joint_config c = { members, 2, 1 };
	struct span spans[1 + TINY] = { { large, sizeof(large) } };
	struct store_request w = { STORE_WRITE, 0,     0, (BLOCKS + 1) * 512, spans, 1 + TINY, 0,
				   0,		{ 0 }, 0 };

	for (int i = 0; i < TINY; i++)
		spans[1 + i] = (struct span){ tiny + (size_t)i * 32, i == 0 ? 16 : 8 };
	probe_init(&probes[0], 128 * 512);
	probe_init(&probes[1], 128 * 512);
	REQUIRE(stripe_store_create(&c, 512, &stripe) == WEFT_OK);
	EXPECT_EQ(store_submit(stripe, &w, 0), WEFT_OK);
	EXPECT(is_asked(&probes[0], 0, 0, 60 * 512));
	EXPECT_EQ(probes[0].asked[0]->span_count, 60);
	EXPECT(is_asked(&probes[1], 0, 0, 60 * 512));
	probe_end(&probes[0], 0, WEFT_OK);
	EXPECT(!store_next_done(stripe, 0));
	EXPECT(is_asked(&probes[0], 1, 60 * 512, 512));
	EXPECT_EQ(probes[0].asked[1]->span_count, TINY);
	EXPECT(probes[0].asked[1]->spans[0].bytes == tiny);
	probe_end(&probes[0], 1, WEFT_OK);
	probe_end(&probes[1], 0, WEFT_OK);
	EXPECT(store_next_done(stripe, 0) == &w);
	store_destroy(stripe);
}

TEST(test_stripe_goes_no_further_after_a_failure)
{
	static uint8_t bytes[MEMBERS * 65 * UNIT];
	struct span span = { bytes, sizeof(bytes) };
	struct store_request w = { STORE_WRITE, 0, 0, sizeof(bytes), &span, 1, 0, 0, { 0 }, 0 };
	struct probed stripe;

	stripe_init(&stripe, 65 * UNIT, 1);
	EXPECT_EQ(store_submit(stripe.store, &w, 0), WEFT_OK);
	for (int m = 0; m < MEMBERS; m++)
		EXPECT(is_asked(&stripe.probes[m], 0, 0, 64 * UNIT));
	probe_end(&stripe.probes[1], 0, WEFT_R_STORE_IO);
	EXPECT(!store_next_done(stripe.store, 0));
	probe_end(&stripe.probes[0], 0, WEFT_OK);
	probe_end(&stripe.probes[2], 0, WEFT_OK);
	EXPECT(store_next_done(stripe.store, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_IO);
	for (int m = 0; m < MEMBERS; m++)
		EXPECT_EQ(stripe.probes[m].asked_count, 1);
	store_destroy(stripe.store);
}

TEST(test_stripe_memory_is_that_of_a_unit)
{
	static uint8_t memory[2][2 * UNIT];
	struct mem_store_config mc = { .size_bytes = 2 * UNIT, .block_bytes = 512 };
	struct store *members[2], *stripe;
	struct joint_config c = { members, 2, 1 };
	struct span span;

	for (int i = 0; i < 2; i++) {
		mc.bytes = memory[i];
		REQUIRE(mem_store_create(&mc, &members[i]) == WEFT_OK);
	}
	REQUIRE(stripe_store_create(&c, UNIT, &stripe) == WEFT_OK);
	span = store_memory(stripe, 3 * UNIT + 100, 2 * UNIT);
	EXPECT(span.bytes == memory[1] + UNIT + 100 && span.length == UNIT - 100);
	span = store_memory(stripe, 2 * UNIT, 10);
	EXPECT(span.bytes == memory[0] + UNIT && span.length == 10);
	store_destroy(stripe);
	store_destroy(members[0]);
	store_destroy(members[1]);
}

TEST(test_stripe_shape_is_what_all_members_have)
{
	struct probe small, large;
	struct store *members[] = { &small.store, &large.store }, *stripe;
	struct joint_config c = { members, 2, 4 };

	probe_init(&small, 3 * UNIT + 512);
	probe_init(&large, 100 * UNIT);
	large.store.shape.block_bytes = 4096;
	large.store.shape.is_readonly = true;
	small.store.shape.can = STORE_CAN_FLUSH | STORE_CAN_FUA;
	REQUIRE(stripe_store_create(&c, UNIT, &stripe) == WEFT_OK);
	EXPECT_EQ(stripe->shape.size_bytes, 6 * UNIT);
	EXPECT_EQ(stripe->shape.block_bytes, 4096);
	EXPECT_EQ(stripe->shape.can, STORE_CAN_FLUSH | STORE_CAN_FUA);
	EXPECT(stripe->shape.is_readonly);
	store_destroy(stripe);
	EXPECT_EQ(stripe_store_create(&c, 512, &stripe), WEFT_R_STORE_UNIT);
	EXPECT_EQ(stripe_store_create(&c, 0, &stripe), WEFT_R_STORE_UNIT);
	EXPECT_EQ(stripe_store_create(&c, 4 * UNIT, &stripe), WEFT_R_STORE_SIZE);
	small.store.shape.size_bytes = INT64_MAX - 4095;
	large.store.shape.size_bytes = INT64_MAX - 4095;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_STORE_SIZE);
	c.member_count = 0;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_STORE_MEMBERS);
	c.member_count = STORE_MEMBERS_MAX + 1;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_STORE_MEMBERS);
	members[0] = members[1] = NULL; /* all of them are missing */
	c.member_count = 2;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_STORE_MEMBERS);
}

/* Five quarters of what 64 bits count: the sum would be a quarter again. */
TEST(test_stripe_is_not_longer_than_can_be_counted)
{
	enum { FIVE = 5 };
	struct probe probes[FIVE];
	struct store *members[FIVE], *stripe;
	const struct joint_config c = { members, FIVE, 4 };

	for (int i = 0; i < FIVE; i++) {
		probe_init(&probes[i], UINT64_C(1) << 62);
		members[i] = &probes[i].store;
	}
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_STORE_SIZE);
}

TEST(test_stripe_takes_some_requests_at_a_time)
{
	struct probe one;
	struct store *members[] = { &one.store }, *stripe;
	struct joint_config c = { members, 1, 0 };

	probe_init(&one, 4 * UNIT);
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_BAD_ARGUMENT);
	c.requests_max = UINT32_MAX;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_R_BAD_ARGUMENT);
	c.requests_max = 1;
	EXPECT_EQ(stripe_store_create(&c, UNIT, &stripe), WEFT_OK);
	store_destroy(stripe);
}
