/* SPDX-License-Identifier: BSD-2-Clause */
/* What every device refuses, and memory as a device. */
#include <limits.h>
#include <string.h>

#include "store/store.h"
#include "test.h"
#include "unit/store/probe.h"

#define TIB (UINT64_C(1) << 40)

static uint8_t memory[8192];

static struct store_request request(enum store_op op, uint64_t offset, uint64_t length)
{
	static struct span span;
	struct store_request r = { .op = op, .offset = offset, .length = length };

	if (op == STORE_READ || op == STORE_WRITE) {
		span = (struct span){ memory, (size_t)length };
		r.spans = &span;
		r.span_count = 1;
	}
	return r;
}

static enum weft_reason judge(const struct store_shape *shape, enum store_op op, uint64_t offset,
			      uint64_t length)
{
	struct store_request r = request(op, offset, length);

	return store_request_check(shape, &r);
}

static const enum store_op ranged[] = { STORE_READ, STORE_WRITE, STORE_WRITE_ZEROES,
					STORE_DISCARD };

TEST(test_store_range_ends_with_the_device)
{
	static const uint32_t blocks[] = { 512, 4096 };

	for (int b = 0; b < 2; b++) {
		uint32_t block = blocks[b];
		struct store_shape shape = { 3 * TIB, block, STORE_CAN_ALL, false, false };

		for (int i = 0; i < 4; i++) {
			enum store_op op = ranged[i];

			EXPECT_EQ(judge(&shape, op, 3 * TIB - block, block), WEFT_OK);
			EXPECT_EQ(judge(&shape, op, 3 * TIB - block, 2 * block),
				  WEFT_R_STORE_RANGE);
			EXPECT_EQ(judge(&shape, op, 3 * TIB, block), WEFT_R_STORE_RANGE);
			EXPECT_EQ(judge(&shape, op, UINT64_MAX - block + 1, block),
				  WEFT_R_STORE_RANGE);
			EXPECT_EQ(judge(&shape, op, block, UINT64_MAX - block + 1),
				  WEFT_R_STORE_RANGE);
		}
	}
}

TEST(test_store_alignment_and_length_are_those_of_blocks)
{
	static const uint32_t blocks[] = { 512, 4096 };

	for (int b = 0; b < 2; b++) {
		uint32_t block = blocks[b];
		struct store_shape shape = { TIB, block, STORE_CAN_ALL, false, false };

		for (int i = 0; i < 4; i++) {
			enum store_op op = ranged[i];

			EXPECT_EQ(judge(&shape, op, block / 2, block), WEFT_R_STORE_ALIGN);
			EXPECT_EQ(judge(&shape, op, 0, block + 1), WEFT_R_STORE_ALIGN);
			EXPECT_EQ(judge(&shape, op, 0, 0), WEFT_R_STORE_LENGTH);
		}
		EXPECT_EQ(judge(&shape, STORE_FLUSH, 0, 0), WEFT_OK);
		EXPECT_EQ(judge(&shape, STORE_FLUSH, 0, block), WEFT_R_STORE_LENGTH);
		EXPECT_EQ(judge(&shape, STORE_FLUSH, block, 0), WEFT_R_STORE_LENGTH);
	}
}

TEST(test_store_read_only_takes_no_change)
{
	struct store_shape shape = { TIB, 512, STORE_CAN_ALL, true, false };

	EXPECT_EQ(judge(&shape, STORE_READ, 0, 512), WEFT_OK);
	EXPECT_EQ(judge(&shape, STORE_FLUSH, 0, 0), WEFT_OK);
	EXPECT_EQ(judge(&shape, STORE_WRITE, 0, 512), WEFT_R_STORE_READONLY);
	EXPECT_EQ(judge(&shape, STORE_WRITE_ZEROES, 0, 512), WEFT_R_STORE_READONLY);
	EXPECT_EQ(judge(&shape, STORE_DISCARD, 0, 512), WEFT_R_STORE_READONLY);
}

TEST(test_store_what_a_device_cannot_is_refused)
{
	struct store_shape none = { TIB, 512, 0, false, false },
			   all = { TIB, 512, STORE_CAN_ALL, false, false };
	struct store_request r = request(STORE_WRITE, 0, 512);

	EXPECT_EQ(judge(&none, STORE_READ, 0, 512), WEFT_OK);
	EXPECT_EQ(judge(&none, STORE_WRITE, 0, 512), WEFT_OK);
	EXPECT_EQ(judge(&none, STORE_FLUSH, 0, 0), WEFT_R_STORE_UNSUPPORTED);
	EXPECT_EQ(judge(&none, STORE_WRITE_ZEROES, 0, 512), WEFT_R_STORE_UNSUPPORTED);
	EXPECT_EQ(judge(&none, STORE_DISCARD, 0, 512), WEFT_R_STORE_UNSUPPORTED);
	EXPECT_EQ(judge(&all, STORE_OP_COUNT, 0, 512), WEFT_R_STORE_UNSUPPORTED);
	EXPECT_EQ(judge(&all, (enum store_op)INT_MAX, 0, 512), WEFT_R_STORE_UNSUPPORTED);
	r.flags = STORE_FUA;
	EXPECT_EQ(store_request_check(&all, &r), WEFT_OK);
	EXPECT_EQ(store_request_check(&none, &r), WEFT_R_STORE_UNSUPPORTED);
	r.flags = 2;
	EXPECT_EQ(store_request_check(&all, &r), WEFT_R_STORE_UNSUPPORTED);
	for (int op = 0; op < STORE_OP_COUNT; op++) {
		r = request((enum store_op)op, 0, op == STORE_FLUSH ? 0 : 512);
		r.flags = STORE_FUA;
		EXPECT_EQ(store_request_check(&all, &r),
			  op == STORE_WRITE || op == STORE_WRITE_ZEROES ? WEFT_OK
									: WEFT_R_STORE_UNSUPPORTED);
	}
}

TEST(test_store_spans_are_as_long_as_the_request)
{
	struct store_shape shape = { TIB, 512, STORE_CAN_ALL, false, false };
	struct span spans[STORE_SPANS_MAX + 1];
	struct store_request r = { .op = STORE_READ, .length = 512, .spans = spans };

	for (int i = 0; i <= STORE_SPANS_MAX; i++)
		spans[i] = (struct span){ memory, 8 };
	r.span_count = 63;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
	r.span_count = 64;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_OK);
	spans[64].length = 0;
	r.span_count = 65;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
	spans[0].length = 9;
	r.span_count = 64;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
	/* A sum that wraps to the right one. */
	spans[0].length = SIZE_MAX;
	spans[1].length = 513;
	r.span_count = 2;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
	r = (struct store_request){ .op = STORE_READ, .length = 512, .span_count = 1 };
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
	r = (struct store_request){ .op = STORE_DISCARD, .length = 512, .spans = spans };
	r.span_count = 1;
	EXPECT_EQ(store_request_check(&shape, &r), WEFT_R_STORE_SPANS);
}

TEST(test_store_shape_has_blocks_and_a_size_of_them)
{
	static const struct {
		struct store_shape shape;
		enum weft_reason reason;
	} rows[] = {
		{ { 4096, 512, 0, false, false }, WEFT_OK },
		{ { 4096, 4096, 0, false, false }, WEFT_OK },
		{ { UINT64_C(0x7ffffffffffff000), 4096, 0, false, false }, WEFT_OK },
		{ { UINT64_C(0x8000000000000000), 4096, 0, false, false }, WEFT_R_STORE_SIZE },
		{ { 4096, 1024, 0, false, false }, WEFT_R_STORE_BLOCK },
		{ { 4096, 0, 0, false, false }, WEFT_R_STORE_BLOCK },
		{ { 0, 512, 0, false, false }, WEFT_R_STORE_SIZE },
		{ { 4608, 4096, 0, false, false }, WEFT_R_STORE_SIZE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		EXPECT_EQ(store_shape_check(&rows[i].shape), rows[i].reason);
}

TEST(test_store_refused_requests_do_not_reach_the_device)
{
	struct store_request r = request(STORE_READ, 4096, 512);
	struct probe p;

	probe_init(&p, 4096);
	r.reason = WEFT_R_BUSY;
	EXPECT_EQ(store_submit(&p.store, &r, 0), WEFT_R_STORE_RANGE);
	EXPECT_EQ(p.asked_count, 0);
	EXPECT_EQ(r.reason, WEFT_R_BUSY);
	EXPECT_EQ(p.store.under_way, 0);
	r.offset = 3584;
	EXPECT_EQ(store_submit(&p.store, &r, 0), WEFT_OK);
	EXPECT_EQ(p.asked_count, 1);
	EXPECT_EQ(p.store.under_way, 1);
	probe_end(&p, 0, WEFT_OK);
	EXPECT(store_next_done(&p.store, 0) == &r);
	EXPECT_EQ(r.reason, WEFT_OK);
	EXPECT(!store_next_done(&p.store, 0));
	EXPECT_EQ(p.store.under_way, 0);
}

TEST(test_store_memory_reads_writes_zeroes)
{
	struct mem_store_config c = { memory, sizeof(memory), 512, false };
	uint8_t a[300], b[212], back[512];
	struct span from[] = { { a, sizeof(a) }, { NULL, 0 }, { b, sizeof(b) } };
	struct span to = { back, sizeof(back) };
	struct store_request w = { STORE_WRITE, STORE_FUA, 1024, 512, from, 3, 0, 0, { 0 }, 0 };
	struct store_request r = { STORE_READ, 0, 1024, 512, &to, 1, 0, 0, { 0 }, 0 };
	struct store_request z = { .op = STORE_WRITE_ZEROES, .offset = 1024, .length = 512 };
	struct store *s;

	memset(memory, 0xee, sizeof(memory));
	memset(a, 1, sizeof(a));
	memset(b, 2, sizeof(b));
	REQUIRE(mem_store_create(&c, &s) == WEFT_OK);
	EXPECT_EQ(store_submit(s, &w, 0), WEFT_OK);
	EXPECT_EQ(store_submit(s, &r, 0), WEFT_OK);
	EXPECT(store_next_done(s, 0) == &w);
	EXPECT(store_next_done(s, 0) == &r);
	EXPECT_MEM(back, a, sizeof(a));
	EXPECT_MEM(back + sizeof(a), b, sizeof(b));
	EXPECT_EQ(memory[1023], 0xee);
	EXPECT_EQ(memory[1536], 0xee);
	EXPECT_EQ(store_submit(s, &z, 0), WEFT_OK);
	EXPECT(store_next_done(s, 0) == &z);
	EXPECT_EQ(memory[1023], 0xee);
	EXPECT_EQ(memory[1024], 0);
	EXPECT_EQ(memory[1535], 0);
	EXPECT_EQ(memory[1536], 0xee);
	EXPECT_EQ(store_due(s), STORE_NEVER);
	store_destroy(s);
}

static struct store_request change(enum store_op op, uint64_t offset, uint64_t length)
{
	static uint8_t ones[1024];
	static struct span span;
	struct store_request r = { .op = op, .offset = offset, .length = length };

	memset(ones, 1, sizeof(ones));
	span = (struct span){ ones, (size_t)length };
	r.spans = &span;
	r.span_count = op == STORE_WRITE;
	return r;
}

TEST(test_store_what_was_lent_stays_as_it_was_read)
{
	static const enum store_op changes[] = { STORE_WRITE, STORE_WRITE_ZEROES, STORE_DISCARD };
	struct mem_store_config c = { memory, sizeof(memory), 512, false };
	struct store *s;

	REQUIRE(mem_store_create(&c, &s) == WEFT_OK);
	for (int i = 0; i < 3; i++) {
		uint8_t first[1000], second[24], was[1024];
		const struct span to[] = { { first, sizeof(first) }, { second, sizeof(second) } };
		struct store_loan loan = { .offset = 1024, .length = 1024, .spans = to };
		/* Beside it on both sides, then over its last block. */
		static const uint64_t at[] = { 512, 2048, 1536 };
		struct store_request r;

		memset(memory, 7 + i, sizeof(memory));
		memcpy(was, memory + 1024, sizeof(was));
		REQUIRE(store_lend(s, &loan));
		EXPECT(loan.bytes == memory + 1024);
		for (int k = 0; k < 3; k++) {
			EXPECT(loan.bytes == memory + 1024);
			r = change(changes[i], at[k], k == 2 ? 1024 : 512);
			REQUIRE(store_submit(s, &r, 0) == WEFT_OK);
			REQUIRE(store_next_done(s, 0) == &r);
		}
		EXPECT(!loan.bytes);
		EXPECT_MEM(first, was, sizeof(first));
		EXPECT_MEM(second, was + sizeof(first), sizeof(second));
		store_loan_end(&loan);
		/* Of a loan that has ended nothing is copied. */
		REQUIRE(store_lend(s, &loan));
		store_loan_end(&loan);
		memset(first, 0, sizeof(first));
		r = change(changes[i], 1024, 512);
		REQUIRE(store_submit(s, &r, 0) == WEFT_OK);
		REQUIRE(store_next_done(s, 0) == &r);
		EXPECT_EQ(first[0], 0);
	}
	store_destroy(s);
}

TEST(test_store_a_device_above_memory_does_not_lend)
{
	struct mem_store_config c = { memory, sizeof(memory), 512, false };
	struct store_loan loan = { .length = 512 };
	struct store *s, *above;

	REQUIRE(mem_store_create(&c, &s) == WEFT_OK);
	REQUIRE(delay_store_create(s, 1, &above) == WEFT_OK);
	EXPECT(!store_lend(above, &loan));
	EXPECT(!loan.bytes);
	store_loan_end(&loan);
	store_destroy(above);
	store_destroy(s);
}

TEST(test_store_memory_says_where_it_lies)
{
	struct mem_store_config c = { memory, sizeof(memory), 4096, true };
	struct span span;
	struct store *s;

	REQUIRE(mem_store_create(&c, &s) == WEFT_OK);
	span = store_memory(s, 4096, 100);
	EXPECT(span.bytes == memory + 4096 && span.length == 100);
	span = store_memory(s, 4096, UINT64_MAX);
	EXPECT(span.bytes == memory + 4096 && span.length == 4096);
	EXPECT_EQ(store_memory(s, 8192, 1).length, 0);
	store_destroy(s);
	c.block_bytes = 1000;
	EXPECT_EQ(mem_store_create(&c, &s), WEFT_R_STORE_BLOCK);
	c = (struct mem_store_config){ NULL, 4096, 512, false };
	EXPECT_EQ(mem_store_create(&c, &s), WEFT_R_NULL_ARGUMENT);
}
