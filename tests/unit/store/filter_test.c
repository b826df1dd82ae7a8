/* SPDX-License-Identifier: BSD-2-Clause */
/* Delays, faults and volatile caches. */
#include <string.h>

#include "store/store.h"
#include "test.h"
#include "unit/store/probe.h"

enum { BLOCKS = 64, SIZE = BLOCKS * 512 };

static uint8_t memory[SIZE], bytes[SIZE];
static const struct span span = { bytes, 8 * 512 };

static struct store_request request(enum store_op op, uint64_t offset)
{
	return (struct store_request){
		.op = op, .offset = offset, .length = 8 * 512, .spans = &span, .span_count = 1
	};
}

static struct store *mem(void)
{
	struct mem_store_config c = { memory, SIZE, 512, false };
	struct store *s;

	memset(memory, 0, sizeof(memory));
	REQUIRE(mem_store_create(&c, &s) == WEFT_OK);
	return s;
}

TEST(test_delay_holds_requests_for_its_time)
{
	struct store_request a = request(STORE_WRITE, 0), b = request(STORE_READ, 512);
	struct store *below = mem(), *s;

	REQUIRE(delay_store_create(below, 1000, &s) == WEFT_OK);
	EXPECT_EQ(store_due(s), STORE_NEVER);
	EXPECT_EQ(store_submit(s, &a, 50), WEFT_OK);
	EXPECT_EQ(store_submit(s, &b, 60), WEFT_OK);
	EXPECT_EQ(store_due(s), 1050);
	store_expire(s, 1049);
	EXPECT(!store_next_done(s, 1049));
	store_expire(s, 1050);
	EXPECT(store_next_done(s, 1050) == &a);
	EXPECT(!store_next_done(s, 1050));
	EXPECT_EQ(store_due(s), 1060);
	store_expire(s, 5000);
	EXPECT(store_next_done(s, 5000) == &b);
	EXPECT_EQ(store_due(s), STORE_NEVER);
	EXPECT_EQ(store_memory(s, 0, 512).length, 0);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_delays_add_up_and_the_nearest_is_due)
{
	struct store_request a = request(STORE_WRITE, 0), b = request(STORE_READ, 512);
	struct store *below = mem(), *in, *s, *stripe;
	struct joint_config c = { &s, 1, 4 };

	REQUIRE(delay_store_create(below, 100, &in) == WEFT_OK);
	REQUIRE(delay_store_create(in, 1000, &s) == WEFT_OK);
	REQUIRE(stripe_store_create(&c, SIZE, &stripe) == WEFT_OK);
	EXPECT_EQ(store_submit(stripe, &a, 0), WEFT_OK);
	store_expire(stripe, 1000);
	EXPECT_EQ(store_submit(stripe, &b, 1000), WEFT_OK);
	EXPECT_EQ(store_due(stripe), 1100);
	store_expire(stripe, 1100);
	EXPECT(store_next_done(stripe, 1100) == &a);
	EXPECT_EQ(store_due(stripe), 2000);
	store_expire(stripe, 2000);
	EXPECT_EQ(store_due(stripe), 2100);
	store_expire(stripe, 2100);
	EXPECT(store_next_done(stripe, 2100) == &b);
	store_destroy(stripe);
	store_destroy(s);
	store_destroy(in);
	store_destroy(below);
}

/* Bit n: the n-th of 64 writes failed. */
static uint64_t failures(const struct fault_store_config *c)
{
	struct store *below = mem(), *s;
	uint64_t bits = 0;

	REQUIRE(fault_store_create(below, c, &s) == WEFT_OK);
	for (int i = 0; i < 64; i++) {
		struct store_request r = request(STORE_WRITE, 0);

		REQUIRE(store_submit(s, &r, 0) == WEFT_OK);
		REQUIRE(store_next_done(s, 0) == &r);
		REQUIRE(r.reason == WEFT_OK || r.reason == WEFT_R_STORE_FAULT);
		bits |= (uint64_t)(r.reason != WEFT_OK) << i;
	}
	store_destroy(s);
	store_destroy(below);
	return bits;
}

TEST(test_fault_errors_come_from_the_seed)
{
	struct fault_store_config c = { .seed = 7, .error = 300000000 };
	uint64_t first = failures(&c);
	int count = __builtin_popcountll(first);

	EXPECT(count > 8 && count < 32);
	EXPECT_EQ(failures(&c), first);
	c.seed = 8;
	EXPECT(failures(&c) != first);
	c.error = 0;
	EXPECT_EQ(failures(&c), 0);
	c.error = 1000000000;
	EXPECT_EQ(failures(&c), -1);
	c.error = 1000000001;
	EXPECT_EQ(fault_store_create(NULL, &c, NULL), WEFT_R_BAD_ARGUMENT);
	c.error = 0;
	c.torn = 1000000001;
	EXPECT_EQ(fault_store_create(NULL, &c, NULL), WEFT_R_BAD_ARGUMENT);
	c.torn = 0;
	c.range_count = FAULT_STORE_RANGES_MAX + 1;
	EXPECT_EQ(fault_store_create(NULL, &c, NULL), WEFT_R_BAD_ARGUMENT);
}

TEST(test_fault_error_leaves_the_device_as_it_was)
{
	struct fault_store_config c = { .error = 1000000000 };
	struct store_request w = request(STORE_WRITE, 0);
	struct store *below = mem(), *s;

	memset(bytes, 0xaa, sizeof(bytes));
	REQUIRE(fault_store_create(below, &c, &s) == WEFT_OK);
	EXPECT_EQ(store_submit(s, &w, 0), WEFT_OK);
	EXPECT(store_next_done(s, 0) == &w);
	EXPECT_EQ(w.reason, WEFT_R_STORE_FAULT);
	for (int i = 0; i < SIZE; i++)
		EXPECT_EQ(memory[i], 0);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_fault_requests_that_touch_bad_ranges_fail)
{
	struct fault_store_config c = { .ranges = { { 16 * 512, 512 }, { 40 * 512 + 10, 1 } },
					.range_count = 2 };
	static const struct {
		uint64_t block;
		bool is_bad;
	} rows[] = { { 0, false },  { 8, false }, { 9, true },	{ 16, true }, { 17, false },
		     { 32, false }, { 33, true }, { 40, true }, { 41, false } };
	struct store_request flush = { .op = STORE_FLUSH };
	struct store *below = mem(), *s;

	REQUIRE(fault_store_create(below, &c, &s) == WEFT_OK);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct store_request r = request(i % 2 ? STORE_READ : STORE_WRITE,
						 rows[i].block * 512);

		EXPECT_EQ(store_submit(s, &r, 0), WEFT_OK);
		EXPECT(store_next_done(s, 0) == &r);
		EXPECT_EQ(r.reason, rows[i].is_bad ? WEFT_R_STORE_FAULT : WEFT_OK);
	}
	EXPECT_EQ(store_submit(s, &flush, 0), WEFT_OK);
	EXPECT(store_next_done(s, 0) == &flush);
	EXPECT_EQ(flush.reason, WEFT_OK);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_fault_torn_write_leaves_a_part_in_front)
{
	struct fault_store_config c = { .seed = 3, .torn = 1000000000 };
	struct store *below = mem(), *s;
	uint32_t seen = 0;

	REQUIRE(fault_store_create(below, &c, &s) == WEFT_OK);
	for (int i = 1; i < 100; i++) {
		struct store_request w = request(STORE_WRITE, 512);
		int torn = 0;

		memset(memory, 0, sizeof(memory));
		memset(bytes, i, sizeof(bytes));
		EXPECT_EQ(store_submit(s, &w, 0), WEFT_OK);
		EXPECT(store_next_done(s, 0) == &w);
		EXPECT_EQ(w.reason, WEFT_R_STORE_FAULT);
		while (torn < 8 && memory[512 + torn * 512] == i)
			torn++;
		for (int at = 0; at < SIZE; at++)
			EXPECT_EQ(memory[at], at >= 512 && at < 512 + torn * 512 ? i : 0);
		seen |= UINT32_C(1) << torn;
	}
	/* Each number of blocks from none to all but one. */
	EXPECT_EQ(seen, 0xff);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_fault_crash_tears_a_write_and_ends_all)
{
	struct fault_store_config c = { .seed = 5, .crash_at = 3 };
	struct store_request r[5], flush = { .op = STORE_FLUSH };
	struct store *s;
	struct probe p;

	probe_init(&p, SIZE);
	REQUIRE(fault_store_create(&p.store, &c, &s) == WEFT_OK);
	for (int i = 0; i < 5; i++)
		r[i] = request(STORE_WRITE, 0);
	EXPECT_EQ(store_submit(s, &r[0], 0), WEFT_OK);
	EXPECT_EQ(store_submit(s, &r[1], 0), WEFT_OK);
	probe_end(&p, 0, WEFT_OK);
	EXPECT(store_next_done(s, 0) == &r[0]);
	EXPECT_EQ(r[0].reason, WEFT_OK);
	for (int i = 2; i < 5; i++)
		EXPECT_EQ(store_submit(s, &r[i], 0), WEFT_OK);
	EXPECT_EQ(store_submit(s, &flush, 0), WEFT_OK);
	/* The request in progress and the torn one reach the device, but are reported as failed. */
	EXPECT_EQ(p.asked_count, 3);
	EXPECT(p.asked[2]->length < 8 * 512);
	probe_end(&p, 1, WEFT_OK);
	probe_end(&p, 2, WEFT_OK);
	for (int i = 0; i < 5; i++) {
		struct store_request *done = store_next_done(s, 0);

		EXPECT(done && done->reason == WEFT_R_STORE_GONE);
	}
	EXPECT(!store_next_done(s, 0));
	store_destroy(s);
}

/* ---- Volatile caches ------------------------------------------------------------------------ */

static struct store *cache(struct store *below, uint32_t keep, uint64_t room_bytes)
{
	struct volatile_store_config c = { .seed = 9, .keep = keep, .room_bytes = room_bytes };
	struct store *s;

	REQUIRE(volatile_store_create(below, &c, &s) == WEFT_OK);
	return s;
}

/* One that ends at once. */
static enum weft_reason one(struct store *s, struct store_request *r)
{
	REQUIRE(store_submit(s, r, 0) == WEFT_OK);
	REQUIRE(store_next_done(s, 0) == r);
	return r->reason;
}

TEST(test_volatile_cache_has_room_for_a_block_and_a_chance_of_at_most_one)
{
	enum { BLOCK = 512 };
	static const struct volatile_store_config bad[] = {
		{ .keep = 1000000001, .room_bytes = SIZE },
		{ .room_bytes = BLOCK - 1 },
		{ .room_bytes = UINT64_MAX },
	};
	struct store *below = mem(), *s = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(volatile_store_create(below, &bad[i], &s), WEFT_R_BAD_ARGUMENT);
	EXPECT(!s);
	s = cache(below, 1000000000, BLOCK);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_volatile_write_is_below_only_after_a_flush)
{
	struct store_request w = request(STORE_WRITE, 4096), f = { .op = STORE_FLUSH };
	struct store_request r = request(STORE_READ, 4096);
	struct store *below = mem(), *s = cache(below, 0, SIZE);

	memset(bytes, 0xaa, sizeof(bytes));
	EXPECT_EQ(one(s, &w), WEFT_OK);
	EXPECT_EQ(memory[4096], 0);
	memset(bytes, 0, sizeof(bytes));
	EXPECT_EQ(one(s, &r), WEFT_OK);
	EXPECT_EQ(bytes[0], 0xaa);
	EXPECT_EQ(bytes[8 * 512 - 1], 0xaa);
	/* A reader beside it sees what is below. */
	r.offset = 0;
	EXPECT_EQ(one(s, &r), WEFT_OK);
	EXPECT_EQ(bytes[0], 0);
	EXPECT_EQ(one(s, &f), WEFT_OK);
	for (int at = 0; at < SIZE; at++)
		EXPECT_EQ(memory[at], at >= 4096 && at < 8192 ? 0xaa : 0);
	/* Power is lost: what the process had is gone with it. */
	memset(bytes, 0xbb, sizeof(bytes));
	EXPECT_EQ(one(s, &w), WEFT_OK);
	EXPECT_EQ(memory[4096], 0xaa);
	store_destroy(s);
	EXPECT_EQ(memory[4096], 0xaa);
	store_destroy(below);
}

TEST(test_volatile_fua_write_is_below_and_takes_no_other_with_it)
{
	struct store_request w = request(STORE_WRITE, 0), fua = request(STORE_WRITE, 2048);
	struct store_request z = { .op = STORE_WRITE_ZEROES, .offset = 0, .length = 1024 };
	struct store *below = mem(), *s = cache(below, 0, SIZE);

	memset(bytes, 0x11, sizeof(bytes));
	EXPECT_EQ(one(s, &w), WEFT_OK);
	memset(bytes, 0x22, sizeof(bytes));
	fua.flags = STORE_FUA;
	EXPECT_EQ(one(s, &fua), WEFT_OK);
	EXPECT_EQ(memory[0], 0);
	EXPECT_EQ(memory[2047], 0);
	EXPECT_EQ(memory[2048], 0x22);
	EXPECT_EQ(memory[6143], 0x22);
	z.flags = STORE_FUA;
	EXPECT_EQ(one(s, &z), WEFT_OK);
	EXPECT_EQ(memory[0], 0);
	EXPECT_EQ(memory[1024], 0);
	EXPECT(store_settle(s, 0));
	EXPECT_EQ(memory[0], 0);
	EXPECT_EQ(memory[1024], 0x11);
	EXPECT_EQ(memory[2048], 0x22);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_volatile_chance_keeps_some_of_what_was_not_flushed)
{
	struct store *below = mem(), *s = cache(below, 500000000, SIZE);
	int kept = 0;

	memset(bytes, 0x33, sizeof(bytes));
	for (uint64_t at = 0; at < SIZE; at += 8 * 512) {
		struct store_request w = request(STORE_WRITE, at);

		EXPECT_EQ(one(s, &w), WEFT_OK);
	}
	EXPECT(!store_next_done(s, 0));
	for (int i = 0; i < BLOCKS; i++)
		kept += memory[i * 512] == 0x33;
	EXPECT(kept > 16 && kept < 48);
	store_destroy(s);
	store_destroy(below);
}

TEST(test_volatile_without_room_writes_go_through)
{
	struct store_request a = request(STORE_WRITE, 0), b = request(STORE_WRITE, 8192);
	struct store *below = mem(), *s = cache(below, 0, 8 * 512);

	memset(bytes, 0x44, sizeof(bytes));
	EXPECT_EQ(one(s, &a), WEFT_OK);
	EXPECT_EQ(one(s, &b), WEFT_OK);
	EXPECT_EQ(memory[0], 0);
	EXPECT_EQ(memory[8192], 0x44);
	memset(bytes, 0x55, sizeof(bytes));
	EXPECT_EQ(one(s, &a), WEFT_OK);
	EXPECT_EQ(memory[0], 0);
	EXPECT(store_settle(s, 0));
	EXPECT_EQ(memory[0], 0x55);
	store_destroy(s);
	store_destroy(below);
}

/* The read began before the block was drained and ended after: it shows no older block. */
TEST(test_volatile_read_beside_a_drain_sees_the_cached_block)
{
	struct store_request w = request(STORE_WRITE, 0), r = request(STORE_READ, 0);
	struct store_request f = { .op = STORE_FLUSH };
	struct store *s;
	struct probe p;

	probe_init(&p, SIZE);
	s = cache(&p.store, 0, SIZE);
	memset(bytes, 0x66, sizeof(bytes));
	EXPECT_EQ(one(s, &w), WEFT_OK);
	EXPECT_EQ(store_submit(s, &r, 0), WEFT_OK);
	EXPECT_EQ(p.asked_count, 1);
	EXPECT_EQ(store_submit(s, &f, 0), WEFT_OK);
	EXPECT_EQ(p.asked_count, 2);
	EXPECT_EQ(p.asked[1]->op, STORE_WRITE);
	probe_end(&p, 1, WEFT_OK);
	EXPECT(!store_next_done(s, 0));
	EXPECT_EQ(p.asked[2]->op, STORE_FLUSH);
	memset(bytes, 0, sizeof(bytes));
	probe_end(&p, 0, WEFT_OK);
	EXPECT(!store_next_done(s, 0));
	EXPECT_EQ(p.asked_count, 4);
	EXPECT_EQ(p.asked[3]->op, STORE_READ);
	probe_end(&p, 2, WEFT_OK);
	probe_end(&p, 3, WEFT_OK);
	EXPECT(store_next_done(s, 0) != NULL);
	EXPECT(store_next_done(s, 0) != NULL);
	store_destroy(s);
}

/* What the flush has to cover is in the cache no more, but what replaced it is, and covers it. */
TEST(test_volatile_flush_covers_a_block_that_is_written_anew_before_its_turn)
{
	enum { RUNS = 16 }; /* that go below at a time */
	struct store_request f = { .op = STORE_FLUSH };
	struct store *s;
	struct probe p;

	probe_init(&p, SIZE);
	s = cache(&p.store, 0, SIZE);
	for (uint64_t i = 0; i <= RUNS; i++) {
		struct store_request z = { .op = STORE_WRITE_ZEROES,
					   .offset = i * 1024,
					   .length = 512 };

		EXPECT_EQ(one(s, &z), WEFT_OK);
	}
	EXPECT_EQ(store_submit(s, &f, 0), WEFT_OK);
	REQUIRE(p.asked_count == RUNS);
	EXPECT_EQ(one(s, &(struct store_request){ .op = STORE_WRITE_ZEROES,
						  .offset = RUNS * 1024,
						  .length = 512 }),
		  WEFT_OK);
	for (uint32_t i = 0; i < RUNS; i++)
		probe_end(&p, i, WEFT_OK);
	EXPECT(!store_next_done(s, 0));
	REQUIRE(p.asked_count == RUNS + 1);
	EXPECT_EQ(p.asked[RUNS]->op, STORE_WRITE);
	EXPECT_EQ(p.asked[RUNS]->offset, RUNS * 1024);
	probe_end(&p, RUNS, WEFT_OK);
	EXPECT(!store_next_done(s, 0));
	REQUIRE(p.asked_count == RUNS + 2);
	EXPECT_EQ(p.asked[RUNS + 1]->op, STORE_FLUSH);
	probe_end(&p, RUNS + 1, WEFT_OK);
	EXPECT(store_next_done(s, 0) == &f);
	store_destroy(s);
}

TEST(test_volatile_block_that_cannot_go_below_stays_and_fails_the_flush)
{
	struct store_request w = request(STORE_WRITE, 0), f = { .op = STORE_FLUSH };
	struct store *s;
	struct probe p;

	probe_init(&p, SIZE);
	s = cache(&p.store, 0, SIZE);
	EXPECT_EQ(one(s, &w), WEFT_OK);
	EXPECT_EQ(store_submit(s, &f, 0), WEFT_OK);
	probe_end(&p, 0, WEFT_R_STORE_FULL);
	EXPECT(store_next_done(s, 0) == &f);
	EXPECT_EQ(f.reason, WEFT_R_STORE_FULL);
	EXPECT_EQ(p.asked_count, 1);
	EXPECT_EQ(store_submit(s, &f, 0), WEFT_OK);
	EXPECT_EQ(p.asked_count, 2);
	probe_end(&p, 1, WEFT_OK);
	EXPECT(!store_next_done(s, 0));
	probe_end(&p, 2, WEFT_OK);
	EXPECT(store_next_done(s, 0) == &f);
	EXPECT_EQ(f.reason, WEFT_OK);
	store_destroy(s);
}

TEST(test_volatile_and_memory_say_that_they_do_not_outlive_the_process)
{
	struct store *below = mem(), *s;
	struct probe p;

	EXPECT(!below->shape.outlives_process);
	probe_init(&p, SIZE);
	p.store.shape.outlives_process = true;
	s = cache(&p.store, 0, SIZE);
	EXPECT(!s->shape.outlives_process);
	store_destroy(s);
	REQUIRE(delay_store_create(&p.store, 1, &s) == WEFT_OK);
	EXPECT(s->shape.outlives_process);
	store_destroy(s);
	store_destroy(below);
}
