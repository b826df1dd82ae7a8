/* SPDX-License-Identifier: BSD-2-Clause */
/* One element of a scatter-gather list at a time. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "wire/sgl.h"

enum { BYTES_MAX = 256 };

static const struct sgl_attributes wide = { 8, 4, 12 };
static const struct sgl_attributes narrow = { 4, 4, 12 };
static const uint8_t data[64] = "immediate data that is longer than most of it that is used";

static const struct sgl_element samples[] = {
	{ .kind = SGL_ATTRIBUTES, .attributes = { 4, 4, 30 } },
	{ .kind = SGL_CHAIN, .chain = { { 7, 1 }, 0xaabbccdd, 4096, 0x1000 } },
	{ .kind = SGL_PLATFORM, .platform = { 7, 1 } },
	{ .kind = SGL_TRANSACTION, .transaction = { SGL_WRITE, true, 3, 4096, 8192 } },
	{ .kind = SGL_TRANSACTION, .transaction = { SGL_FLUSH, false, 3, 0, 0 } },
	{ .kind = SGL_DETAIL, .detail = { SGL_RESULT, true, 0x11223344, 512, 0x2000 } },
	{ .kind = SGL_IMMEDIATE, .immediate = { true, 5, data } },
};

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

/* Decodes from memory of just that length, so that a byte read past the end is noticed. */
static enum sgl_err decode(const uint8_t *bytes, size_t length, const struct sgl_attributes *in,
			   struct sgl_element *e)
{
	uint8_t *copy = malloc(length ? length : 1);
	const struct sgl_element before = { .kind = SGL_KIND_COUNT };
	struct sgl_element v = before;
	struct rd r;
	enum sgl_err err;

	REQUIRE(copy);
	memcpy(copy, bytes, length);
	r = rd_of(copy, length);
	err = sgl_next(&v, &r, in);
	if (err) {
		REQUIRE(r.at == copy && r.end == copy + length && !r.is_short);
		REQUIRE(v.kind == before.kind && !v.is_last);
	} else {
		REQUIRE(r.at == copy + sgl_bytes(&v, in));
		if (v.kind == SGL_IMMEDIATE) /* the copy goes away */
			v.immediate.data = bytes + (v.immediate.data - copy);
		*e = v;
	}
	free(copy);
	return err;
}

static size_t encode(const struct sgl_element *e, const struct sgl_attributes *in,
		     uint8_t bytes[BYTES_MAX])
{
	struct wr w = wr_of(bytes, BYTES_MAX);

	sgl_put(e, in, &w);
	REQUIRE(!w.is_short);
	REQUIRE((uint64_t)(w.at - bytes) == sgl_bytes(e, in));
	return (size_t)(w.at - bytes);
}

static enum sgl_err recoded(const struct sgl_element *e, const struct sgl_attributes *in)
{
	uint8_t bytes[BYTES_MAX];
	struct sgl_element v;

	return decode(bytes, encode(e, in, bytes), in, &v);
}

static void expect_round_trip(const struct sgl_element *e, const struct sgl_attributes *in)
{
	uint8_t bytes[BYTES_MAX], again[BYTES_MAX];
	size_t length = encode(e, in, bytes);
	struct sgl_element v;

	REQUIRE(decode(bytes, length, in, &v) == SGL_OK);
	REQUIRE(v.kind == e->kind && v.is_last == e->is_last);
	REQUIRE(encode(&v, in, again) == length);
	REQUIRE(memcmp(bytes, again, length) == 0);
}

/*
 * A detail, by hand:
 *
 *	85 000018  Last, kind 5, 24 bytes
 *	01 01 0000 result, ends its buffer
 *	00a1b2c3   handle
 *	00000e00   3584 bytes
 *	...        address
 */
static const uint8_t detail_wire[] = {
	0x85, 0x00, 0x00, 0x18, 0x01, 0x01, 0x00, 0x00, 0x00, 0xa1, 0xb2, 0xc3,
	0x00, 0x00, 0x0e, 0x00, 0x00, 0x00, 0x7f, 0x12, 0x34, 0x56, 0x78, 0x9a,
};

TEST(test_rio_12_rio_13c_detail_has_the_written_layout)
{
	struct sgl_element e;
	uint8_t bytes[BYTES_MAX];

	EXPECT_EQ(decode(detail_wire, sizeof(detail_wire), &wide, &e), SGL_OK);
	EXPECT(e.is_last);
	EXPECT_EQ(e.kind, SGL_DETAIL);
	EXPECT_EQ(e.detail.role, SGL_RESULT);
	EXPECT(e.detail.ends_buffer);
	EXPECT_EQ(e.detail.handle, 0xa1b2c3);
	EXPECT_EQ(e.detail.length, 3584);
	EXPECT_EQ(e.detail.address, 0x7f123456789a);
	EXPECT_EQ(encode(&e, &wide, bytes), sizeof(detail_wire));
	EXPECT_MEM(bytes, detail_wire, sizeof(detail_wire));
}

/* A write of 4 KiB at 1 MiB of device 9, with FUA: 84 is Last and kind 4. */
static const uint8_t transaction_wire[] = {
	0x84, 0x00, 0x00, 0x1c, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
};

TEST(test_rio_15_transaction_has_the_written_layout)
{
	struct sgl_element e;
	uint8_t bytes[BYTES_MAX];

	EXPECT_EQ(decode(transaction_wire, sizeof(transaction_wire), &wide, &e), SGL_OK);
	EXPECT_EQ(e.kind, SGL_TRANSACTION);
	EXPECT_EQ(e.transaction.operation, SGL_WRITE);
	EXPECT(e.transaction.is_fua);
	EXPECT_EQ(e.transaction.device, 9);
	EXPECT_EQ(e.transaction.offset, 1 << 20);
	EXPECT_EQ(e.transaction.length, 4096);
	EXPECT_EQ(encode(&e, &wide, bytes), sizeof(transaction_wire));
	EXPECT_MEM(bytes, transaction_wire, sizeof(transaction_wire));
}

/* The others, in a list of short addresses: attributes, chain pointer, platform, immediate data. */
static const uint8_t others_wire[] = {
	0x01, 0x00, 0x00, 0x08, 0x04, 0x04, 0x0c, 0x00, /* addresses of 4, handles of 4, 4 KiB */
	0x02, 0x00, 0x00, 0x18, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x01, /* 7.1 */
	0x00, 0x00, 0x00, 0x55, 0x00, 0x00, 0x00, 0x40, 0x80, 0x00, 0x00, 0x00, /* 64 bytes */
	0x03, 0x00, 0x00, 0x0c, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x02, /* 8.2 */
	0x86, 0x00, 0x00, 0x10, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, /* Last */
	'a',  'b',  'c',  0x00,
};

TEST(test_rio_13a_rio_13b_rio_13d_rio_14_other_kinds_have_the_written_layout)
{
	const struct sgl_element want[] = {
		{ .kind = SGL_ATTRIBUTES, .attributes = { 4, 4, 12 } },
		{ .kind = SGL_CHAIN, .chain = { { 7, 1 }, 0x55, 64, 0x80000000 } },
		{ .kind = SGL_PLATFORM, .platform = { 8, 2 } },
		{ .kind = SGL_IMMEDIATE,
		  .is_last = true,
		  .immediate = { true, 3, (const uint8_t *)"abc" } },
	};
	uint8_t bytes[BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r = rd_of(others_wire, sizeof(others_wire));
	struct sgl_element e[4];

	for (int i = 0; i < 4; i++)
		sgl_put(&want[i], &narrow, &w);
	EXPECT_EQ(w.at - bytes, sizeof(others_wire));
	EXPECT_MEM(bytes, others_wire, sizeof(others_wire));
	for (int i = 0; i < 4; i++) {
		EXPECT_EQ(sgl_next(&e[i], &r, &narrow), SGL_OK);
		EXPECT_EQ(e[i].kind, want[i].kind);
		EXPECT_EQ(e[i].is_last, want[i].is_last);
	}
	EXPECT(r.at == r.end);
	EXPECT(e[0].attributes.address_bytes == 4 && e[0].attributes.page_shift == 12);
	EXPECT(e[1].chain.platform.unit == 7 && e[1].chain.platform.process == 1);
	EXPECT(e[1].chain.handle == 0x55 && e[1].chain.length == 64);
	EXPECT_EQ(e[1].chain.address, 0x80000000);
	EXPECT(e[2].platform.unit == 8 && e[2].platform.process == 2);
	EXPECT(e[3].immediate.ends_buffer && e[3].immediate.length == 3);
	EXPECT_MEM(e[3].immediate.data, "abc", 3);
}

TEST(test_rio_12_rio_13_every_kind_round_trip)
{
	for (int i = 0; i < SAMPLES; i++) {
		struct sgl_element e = samples[i];

		for (int last = 0; last < 2; last++, e.is_last = true) {
			expect_round_trip(&e, &wide);
			expect_round_trip(&e, &narrow);
		}
	}
}

TEST(test_rio_13_random_elements_round_trip)
{
	struct prng p = { .state = 5 };

	for (int i = 0; i < 20000; i++) {
		struct sgl_element e = samples[prng_below(&p, SAMPLES)];

		e.is_last = prng_below(&p, 2);
		if (e.kind == SGL_CHAIN) {
			e.chain.address = prng_next(&p) >> 1;
			e.chain.length = 4 * (1 + prng_below(&p, 1 << 20));
			e.chain.platform.process = prng_below(&p, UINT32_MAX);
		} else if (e.kind == SGL_DETAIL) {
			e.detail.role = (enum sgl_role)prng_below(&p, 2);
			e.detail.ends_buffer = prng_below(&p, 2);
			e.detail.address = prng_next(&p) >> 1;
			e.detail.length = 1 + prng_below(&p, UINT32_MAX);
		} else if (e.kind == SGL_IMMEDIATE) {
			e.immediate.length = 1 + prng_below(&p, sizeof(data));
			e.immediate.ends_buffer = prng_below(&p, 2);
		}
		expect_round_trip(&e, &wide);
	}
}

TEST(test_rio_16_every_truncation_of_an_element_is_short)
{
	for (int i = 0; i < SAMPLES; i++) {
		uint8_t bytes[BYTES_MAX];
		size_t length = encode(&samples[i], &wide, bytes);
		struct sgl_element e;

		for (size_t n = 0; n < length; n++)
			EXPECT_EQ(decode(bytes, n, &wide, &e), SGL_ERR_SHORT);
		EXPECT_EQ(decode(bytes, length, &wide, &e), SGL_OK);
	}
}

/* Any other length than its own, up or down, in whole words or not. */
TEST(test_rio_12_element_of_another_length_is_refused)
{
	for (int i = 0; i < SAMPLES; i++) {
		uint8_t bytes[BYTES_MAX] = { 0 };
		size_t length = encode(&samples[i], &wide, bytes);
		struct sgl_element e;

		for (unsigned int n = 0; n < BYTES_MAX; n++) {
			if (n == length)
				continue;
			bytes[3] = (uint8_t)n;
			EXPECT_EQ(decode(bytes, sizeof(bytes), &wide, &e), SGL_ERR_LENGTH);
		}
		bytes[3] = (uint8_t)length;
		bytes[1] = 1; /* 64 KiB more */
		EXPECT(decode(bytes, sizeof(bytes), &wide, &e) != SGL_OK);
	}
}

/* Addresses are as wide as the attributes say, and the length tells. */
TEST(test_rio_13a_addresses_are_as_wide_as_attributes_say)
{
	for (int i = 0; i < SAMPLES; i++) {
		bool has_address = samples[i].kind == SGL_CHAIN || samples[i].kind == SGL_DETAIL;
		uint8_t bytes[BYTES_MAX] = { 0 };
		struct sgl_element e;

		encode(&samples[i], &wide, bytes);
		EXPECT_EQ(decode(bytes, sizeof(bytes), &narrow, &e),
			  has_address ? SGL_ERR_LENGTH : SGL_OK);
	}
}

TEST(test_rio_13_unknown_kinds_are_refused)
{
	for (unsigned int kind = 0; kind < 256; kind++) {
		uint8_t bytes[] = { (uint8_t)kind, 0, 0, 8, 0, 0, 0, 0 };
		bool is_known = (kind & 0x7f) >= SGL_ATTRIBUTES && (kind & 0x7f) < SGL_KIND_COUNT;
		struct sgl_element e;

		EXPECT_EQ(decode(bytes, sizeof(bytes), &wide, &e) == SGL_ERR_KIND, !is_known);
	}
}

/* Every bit that is reserved, of every kind. The first byte of each is the kind's. */
TEST(test_rio_12_every_reserved_bit_is_refused)
{
	static const struct {
		int sample;
		size_t at, bytes;
	} reserved[] = {
		{ 0, 7, 1 }, { 3, 6, 2 }, { 4, 6, 2 }, { 5, 6, 2 }, { 6, 6, 2 }, { 6, 17, 3 },
	};

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
		for (size_t bit = 0; bit < 8 * reserved[i].bytes; bit++) {
			uint8_t bytes[BYTES_MAX];
			size_t length = encode(&samples[reserved[i].sample], &wide, bytes);
			struct sgl_element e;

			bytes[reserved[i].at + bit / 8] ^= (uint8_t)(1 << bit % 8);
			EXPECT_EQ(decode(bytes, length, &wide, &e), SGL_ERR_RESERVED);
		}
	}
}

TEST(test_rio_13a_attributes_that_are_not_spoken_are_refused)
{
	for (unsigned int v = 0; v < 256; v++) {
		struct sgl_element e = samples[0];

		e.attributes.address_bytes = (uint8_t)v;
		EXPECT_EQ(recoded(&e, &wide), v == 4 || v == 8 ? SGL_OK : SGL_ERR_ATTRIBUTES);
		e = samples[0];
		e.attributes.context_bytes = (uint8_t)v;
		EXPECT_EQ(recoded(&e, &wide), v == 4 ? SGL_OK : SGL_ERR_ATTRIBUTES);
		e = samples[0];
		e.attributes.page_shift = (uint8_t)v;
		EXPECT_EQ(recoded(&e, &wide), v >= 12 && v <= 30 ? SGL_OK : SGL_ERR_ATTRIBUTES);
	}
	EXPECT_EQ(sgl_attributes_default().address_bytes, 8);
	EXPECT_EQ(sgl_attributes_default().context_bytes, 4);
	EXPECT_EQ(sgl_attributes_default().page_shift, 12);
}

TEST(test_rio_13b_bad_chain_pointers_are_refused)
{
	struct sgl_element e = samples[1];

	e.chain.platform.unit = 0;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_UNIT);
	e = samples[1];
	e.chain.length = 0;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_EMPTY);
	for (uint32_t n = 1; n < 16; n++) {
		e.chain.length = n;
		EXPECT_EQ(recoded(&e, &wide), n % 4 ? SGL_ERR_CHAIN : SGL_OK);
	}
	e.chain.length = 8;
	e.chain.address = UINT64_MAX - 7;
	EXPECT_EQ(recoded(&e, &wide), SGL_OK);
	e.chain.address++;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_WRAP);
	e.chain.address = UINT32_MAX - 7;
	EXPECT_EQ(recoded(&e, &narrow), SGL_OK);
	e.chain.address++;
	EXPECT_EQ(recoded(&e, &narrow), SGL_ERR_WRAP);
}

TEST(test_rio_14_unit_0_is_no_platform)
{
	struct sgl_element e = { .kind = SGL_PLATFORM, .platform = { 0, 5 } };

	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_UNIT);
	e.platform = (struct platform){ UINT32_MAX, 0 };
	EXPECT_EQ(recoded(&e, &wide), SGL_OK);
}

TEST(test_rio_13c_bad_details_are_refused)
{
	struct sgl_element e = samples[5];
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&e, &wide, bytes);

	for (unsigned int role = 0; role < 256; role++) {
		bytes[4] = (uint8_t)role;
		EXPECT_EQ(decode(bytes, length, &wide, &e), role < 2 ? SGL_OK : SGL_ERR_ROLE);
	}
	bytes[4] = SGL_SOURCE;
	for (unsigned int flags = 0; flags < 256; flags++) {
		bytes[5] = (uint8_t)flags;
		EXPECT_EQ(decode(bytes, length, &wide, &e), flags < 2 ? SGL_OK : SGL_ERR_FLAGS);
	}
	e = samples[5];
	e.detail.length = 0;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_EMPTY);
	e.detail.length = UINT32_MAX;
	e.detail.address = UINT64_MAX - UINT32_MAX + 1;
	EXPECT_EQ(recoded(&e, &wide), SGL_OK);
	e.detail.address++;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_WRAP);
	e.detail.length = 1;
	e.detail.address = UINT32_MAX;
	EXPECT_EQ(recoded(&e, &narrow), SGL_OK);
	e.detail.length = 2;
	EXPECT_EQ(recoded(&e, &narrow), SGL_ERR_WRAP);
}

TEST(test_rio_13d_immediate_data_of_every_length_is_padded_with_zeros)
{
	struct sgl_element e = samples[6], v;
	uint8_t bytes[BYTES_MAX];

	for (uint32_t n = 1; n <= sizeof(data); n++) {
		size_t length;

		e.immediate.length = n;
		length = encode(&e, &wide, bytes);
		EXPECT_EQ(length, 12 + (n + 3) / 4 * 4);
		EXPECT_EQ(decode(bytes, length, &wide, &v), SGL_OK);
		EXPECT_EQ(v.immediate.length, n);
		EXPECT_MEM(v.immediate.data, data, n);
		/* A count that the length does not bear out. */
		for (int wrong = -8; wrong <= 8; wrong++) {
			uint32_t count = (uint32_t)((int)n + wrong);

			bytes[10] = (uint8_t)(count >> 8);
			bytes[11] = (uint8_t)count;
			if ((int)n + wrong > 0 && (count + 3) / 4 != (n + 3) / 4)
				EXPECT_EQ(decode(bytes, length, &wide, &v), SGL_ERR_LENGTH);
		}
		memset(bytes + 8, 0xff, 4);
		EXPECT_EQ(decode(bytes, length, &wide, &v), SGL_ERR_LENGTH);
	}
}

TEST(test_rio_13d_bad_immediate_data_is_refused)
{
	struct sgl_element e = samples[6];
	uint8_t bytes[BYTES_MAX];
	size_t length = encode(&e, &wide, bytes);

	for (unsigned int role = 0; role < 256; role++) {
		bytes[4] = (uint8_t)role;
		EXPECT_EQ(decode(bytes, length, &wide, &e), role < 1 ? SGL_OK : SGL_ERR_ROLE);
	}
	bytes[4] = SGL_SOURCE;
	bytes[5] = 2;
	EXPECT_EQ(decode(bytes, length, &wide, &e), SGL_ERR_FLAGS);
	e = samples[6];
	e.immediate.length = 0;
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_EMPTY);
	/* A count that is 0 when it is rounded up to words. */
	length = encode(&e, &wide, bytes);
	for (unsigned int low = 0xfd; low < 0x100; low++) {
		memset(bytes + 8, 0xff, 3);
		bytes[11] = (uint8_t)low;
		EXPECT_EQ(decode(bytes, length, &wide, &e), SGL_ERR_LENGTH);
	}
}

TEST(test_rio_15_operations_and_flags)
{
	struct sgl_element e = samples[3], v;
	uint8_t bytes[BYTES_MAX];

	for (unsigned int op = 0; op < 256; op++) {
		bool is_known = op >= SGL_READ && op < SGL_OPERATION_COUNT;
		size_t length;

		e.transaction.offset = op == SGL_FLUSH ? 0 : 4096;
		e.transaction.length = op == SGL_FLUSH ? 0 : 8192;
		e.transaction.is_fua = false;
		length = encode(&e, &wide, bytes);
		bytes[4] = (uint8_t)op;
		EXPECT_EQ(decode(bytes, length, &wide, &v), is_known ? SGL_OK : SGL_ERR_OPERATION);
		for (unsigned int flags = 1; is_known && flags < 256; flags++) {
			bool is_good = flags == 1 && op != SGL_READ && op != SGL_FLUSH;

			bytes[5] = (uint8_t)flags;
			EXPECT_EQ(decode(bytes, length, &wide, &v),
				  is_good ? SGL_OK : SGL_ERR_FLAGS);
		}
	}
}

TEST(test_rio_15_ranges_of_transactions)
{
	struct sgl_element e = samples[3];

	for (int op = SGL_READ; op < SGL_OPERATION_COUNT; op++) {
		if (op == SGL_FLUSH)
			continue;
		e.transaction = (struct sgl_transaction){ (enum sgl_operation)op, false, 1, 512,
							  0 };
		EXPECT_EQ(recoded(&e, &wide), SGL_ERR_EMPTY);
		e.transaction.length = UINT64_MAX - 512;
		EXPECT_EQ(recoded(&e, &wide), SGL_OK);
		e.transaction.length++;
		EXPECT_EQ(recoded(&e, &wide), SGL_ERR_WRAP);
	}
	e.transaction = (struct sgl_transaction){ SGL_FLUSH, false, 1, 0, 512 };
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_FLUSH);
	e.transaction = (struct sgl_transaction){ SGL_FLUSH, false, 1, 512, 0 };
	EXPECT_EQ(recoded(&e, &wide), SGL_ERR_FLUSH);
}

TEST(test_rio_12_what_does_not_fit_is_not_written)
{
	for (int i = 0; i < SAMPLES; i++) {
		uint8_t bytes[BYTES_MAX], before[BYTES_MAX];
		size_t length = encode(&samples[i], &wide, bytes);

		for (size_t room = 0; room < length; room++) {
			struct wr w = wr_of(bytes, room);

			memset(bytes, 0xee, sizeof(bytes));
			memset(before, 0xee, sizeof(before));
			sgl_put(&samples[i], &wide, &w);
			EXPECT(w.is_short);
			EXPECT(w.at == bytes);
			EXPECT_MEM(bytes, before, sizeof(bytes));
		}
	}
}

/* Longer than the field for it, or than can be counted in 32 bits. */
TEST(test_rio_13d_immediate_data_beyond_what_an_element_can_hold)
{
	static const uint32_t lengths[] = { SGL_IMMEDIATE_MAX + 1, UINT32_MAX - 12, UINT32_MAX };
	uint8_t *room = malloc(1 << 25);
	struct sgl_element e = samples[6];

	REQUIRE(room);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct wr w = wr_of(room, 1 << 25);

		e.immediate.length = lengths[i];
		sgl_put(&e, &wide, &w);
		REQUIRE(w.is_short && w.at == room);
	}
	free(room);
}

TEST(test_rio_12_last_is_the_top_bit_of_the_first_word)
{
	for (int i = 0; i < SAMPLES; i++) {
		struct sgl_element e = samples[i], v;
		uint8_t bytes[BYTES_MAX], marked[BYTES_MAX];
		size_t length = encode(&e, &wide, bytes);

		EXPECT(!(bytes[0] & 0x80));
		e.is_last = true;
		encode(&e, &wide, marked);
		EXPECT_EQ(marked[0], bytes[0] | 0x80);
		EXPECT_MEM(marked + 1, bytes + 1, length - 1);
		sgl_set_last(bytes);
		EXPECT_MEM(marked, bytes, length);
		EXPECT_EQ(decode(marked, length, &wide, &v), SGL_OK);
		EXPECT(v.is_last);
	}
}

TEST(test_rio_15_another_device_is_named_in_place)
{
	const struct sgl_element *e = &samples[3];
	uint8_t bytes[BYTES_MAX];
	struct sgl_element got;
	size_t length = encode(e, &wide, bytes);

	sgl_set_device(bytes, 0xa1b2c3d4);
	REQUIRE(decode(bytes, length, &wide, &got) == SGL_OK);
	EXPECT_EQ(got.transaction.device, 0xa1b2c3d4);
	EXPECT(got.transaction.operation == SGL_WRITE && got.transaction.is_fua && !got.is_last);
	EXPECT_EQ(got.transaction.offset, e->transaction.offset);
	EXPECT_EQ(got.transaction.length, e->transaction.length);
}

TEST(test_rio_13_names)
{
	EXPECT_STR(sgl_operation_name(SGL_WRITE_ZEROES), "write zeroes");
	EXPECT_STR(sgl_operation_name((enum sgl_operation)0), "unknown operation");
	EXPECT_STR(sgl_operation_name(SGL_OPERATION_COUNT), "unknown operation");
}
