/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "wire/advert.h"

static const struct weft_advert sample = {
	.addr = UINT64_C(0x1122334455667788),
	.length = UINT64_C(0x0102030405060708),
	.tag = 0xaabbccdd,
	.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
};

static const uint8_t sample_wire[WEFT_ADVERT_BYTES] = {
	'W',  'F',  'A',  'D',	0,    1,    0,	  0x0c, 0xaa, 0xbb, 0xcc, 0xdd, 0, 0, 0, 0,
	0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 1,    2,    3,	  4,	5, 6, 7, 8,
};

static bool is_same(const struct weft_advert *a, const struct weft_advert *b)
{
	return a->addr == b->addr && a->length == b->length && a->tag == b->tag &&
	       a->rights == b->rights;
}

/* Decodes from memory of just that length, so that a byte read past the end is noticed. */
static bool decode(const uint8_t *bytes, size_t length, struct weft_advert *advert)
{
	uint8_t *copy = malloc(length ? length : 1);
	bool is_good;

	REQUIRE(copy);
	memcpy(copy, bytes, length);
	is_good = weft_advert_decode(copy, length, advert);
	free(copy);
	return is_good;
}

/* What is refused must not have changed the caller's struct. */
static void expect_refused(const uint8_t *bytes, size_t length)
{
	const struct weft_advert before = { .addr = 1, .length = 2, .tag = 3, .rights = 4 };
	struct weft_advert a = before;

	REQUIRE(!decode(bytes, length, &a));
	REQUIRE(is_same(&a, &before));
}

TEST(test_rkey_12_advert_has_the_written_layout)
{
	uint8_t bytes[WEFT_ADVERT_BYTES];
	struct weft_advert a;

	weft_advert_encode(&sample, bytes);
	EXPECT_MEM(bytes, sample_wire, sizeof(bytes));
	EXPECT(decode(sample_wire, sizeof(sample_wire), &a));
	EXPECT(is_same(&a, &sample));
}

TEST(test_rkey_12_advert_round_trip)
{
	struct prng p = { .state = 8 };

	for (int i = 0; i < 20000; i++) {
		const struct weft_advert a = {
			.addr = prng_next(&p) >> prng_below(&p, 64),
			.length = 1 + (prng_next(&p) >> (1 + prng_below(&p, 63))),
			.tag = (uint32_t)prng_next(&p),
			.rights = (uint32_t)prng_next(&p) & ADVERT_RIGHTS,
		};
		uint8_t bytes[WEFT_ADVERT_BYTES];
		struct weft_advert b;

		weft_advert_encode(&a, bytes);
		EXPECT_EQ(decode(bytes, sizeof(bytes), &b), a.addr + a.length > a.addr);
		if (a.addr + a.length > a.addr)
			EXPECT(is_same(&a, &b));
	}
}

/* Only remote rights are a peer's business. */
TEST(test_rkey_12_advert_carries_remote_rights_only)
{
	struct weft_advert a = sample;
	uint8_t bytes[WEFT_ADVERT_BYTES];

	a.rights = UINT32_MAX;
	weft_advert_encode(&a, bytes);
	EXPECT(decode(bytes, sizeof(bytes), &a));
	EXPECT_EQ(a.rights, WEFT_REMOTE_READ | WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC);
}

TEST(test_rkey_12_advert_of_any_other_length_is_refused)
{
	uint8_t bytes[2 * WEFT_ADVERT_BYTES] = { 0 };

	memcpy(bytes, sample_wire, sizeof(sample_wire));
	for (size_t length = 0; length <= sizeof(bytes); length++) {
		if (length != WEFT_ADVERT_BYTES)
			expect_refused(bytes, length);
	}
}

TEST(test_rkey_12_advert_of_nothing_is_refused)
{
	struct weft_advert a = sample;

	EXPECT(!weft_advert_decode(NULL, 0, &a));
	EXPECT(!weft_advert_decode(NULL, WEFT_ADVERT_BYTES, &a));
	EXPECT(is_same(&a, &sample));
}

/* Every bit of magic, version, zero and the rights that no advertisement has must be as written. */
TEST(test_rkey_12_advert_with_any_fixed_bit_changed_is_refused)
{
	for (size_t bit = 0; bit < 8 * sizeof(sample_wire); bit++) {
		size_t at = bit / 8;
		bool is_right = at == 6 || at == 7;
		uint32_t value = is_right ? 1U << (bit % 8 + (at == 6 ? 8 : 0)) : 0;
		uint8_t bytes[WEFT_ADVERT_BYTES];
		struct weft_advert a;

		memcpy(bytes, sample_wire, sizeof(bytes));
		bytes[at] ^= (uint8_t)(1 << bit % 8);
		if (at < 6 || (at >= 12 && at < 16) || (is_right && !(value & ADVERT_RIGHTS))) {
			expect_refused(bytes, sizeof(bytes));
		} else {
			EXPECT(decode(bytes, sizeof(bytes), &a));
			EXPECT(!is_same(&a, &sample));
		}
	}
}

TEST(test_rkey_12_advert_whose_range_wraps_is_refused)
{
	struct weft_advert a = sample, b;
	uint8_t bytes[WEFT_ADVERT_BYTES];

	a.addr = UINT64_MAX - 99;
	a.length = 100; /* up to the very last address */
	weft_advert_encode(&a, bytes);
	EXPECT(decode(bytes, sizeof(bytes), &b));
	EXPECT(is_same(&a, &b));
	a.length = 0;
	weft_advert_encode(&a, bytes);
	EXPECT(decode(bytes, sizeof(bytes), &b));
	a.length = 101;
	weft_advert_encode(&a, bytes);
	expect_refused(bytes, sizeof(bytes));
	a.length = UINT64_MAX;
	weft_advert_encode(&a, bytes);
	expect_refused(bytes, sizeof(bytes));
}
