/* SPDX-License-Identifier: BSD-2-Clause */
/* iSER headers by the layouts of RFC 7145 section 9 and RFC 5046, and private data of IBA A12. */
#include "wire/iser.h"

#include <string.h>

#include "base/prng.h"
#include "iscsi_fixture.h"
#include "test.h"

static const struct {
	enum iser_form form;
	const char *bytes;
	struct iser_header header;
} golden[] = {
	/* 9.2: neither, a write, a read, both */
	{ ISER_RFC7145,
	  "10000000 00000000 0000000000000000 00000000 0000000000000000",
	  { .kind = ISER_CONTROL } },
	{ ISER_RFC7145,
	  "18000000 12345678 0102030405060708 00000000 0000000000000000",
	  { .kind = ISER_CONTROL,
	    .has_write = true,
	    .write_stag = 0x12345678,
	    .write_to = 0x0102030405060708 } },
	{ ISER_RFC7145,
	  "14000000 00000000 0000000000000000 9abcdef0 1112131415161718",
	  { .kind = ISER_CONTROL,
	    .has_read = true,
	    .read_stag = 0x9abcdef0,
	    .read_to = 0x1112131415161718 } },
	{ ISER_RFC7145,
	  "1c000000 12345678 0102030405060708 9abcdef0 1112131415161718",
	  { .kind = ISER_CONTROL,
	    .has_write = true,
	    .has_read = true,
	    .write_stag = 0x12345678,
	    .write_to = 0x0102030405060708,
	    .read_stag = 0x9abcdef0,
	    .read_to = 0x1112131415161718 } },
	/* 9.3, 9.4 */
	{ ISER_RFC7145,
	  "20aa0010 00000000 0000000000000000 00000000 0000000000000000",
	  { .kind = ISER_HELLO, .version_max = 10, .version = 10, .depth = 16 } },
	{ ISER_RFC7145,
	  "30aa0102 00000000 0000000000000000 00000000 0000000000000000",
	  { .kind = ISER_HELLO_REPLY, .version_max = 10, .version = 10, .depth = 0x102 } },
	{ ISER_RFC7145,
	  "31a00000 00000000 0000000000000000 00000000 0000000000000000",
	  { .kind = ISER_HELLO_REPLY, .version_max = 10, .is_rejected = true } },
	/* RFC 5046 */
	{ ISER_RFC5046,
	  "1c000000 12345678 9abcdef0",
	  { .kind = ISER_CONTROL,
	    .has_write = true,
	    .has_read = true,
	    .write_stag = 0x12345678,
	    .read_stag = 0x9abcdef0 } },
	{ ISER_RFC5046,
	  "20210008 00000000 00000000",
	  { .kind = ISER_HELLO, .version_max = 2, .version = 1, .depth = 8 } },
	{ ISER_RFC5046,
	  "30110004 00000000 00000000",
	  { .kind = ISER_HELLO_REPLY, .version_max = 1, .version = 1, .depth = 4 } },
};

static bool same(const struct iser_header *a, const struct iser_header *b)
{
	return a->kind == b->kind && a->has_write == b->has_write && a->has_read == b->has_read &&
	       a->write_stag == b->write_stag && a->read_stag == b->read_stag &&
	       a->write_to == b->write_to && a->read_to == b->read_to &&
	       a->version_max == b->version_max && a->version == b->version &&
	       a->depth == b->depth && a->is_rejected == b->is_rejected;
}

TEST(test_rfc7145_9_golden_bytes_of_iser_headers)
{
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		uint8_t bytes[ISER_HEADER_BYTES + 4], again[ISER_HEADER_BYTES + 4];
		size_t length = iscsi_hex(bytes, sizeof(bytes), golden[i].bytes);
		struct rd r = rd_of(bytes, sizeof(bytes));
		struct wr w = wr_of(again, sizeof(again));
		struct iser_header h;

		harness_note("header %zu", i);
		EXPECT_EQ(iser_header_bytes(golden[i].form), length);
		EXPECT_EQ(iser_decode(&h, golden[i].form, &r), WEFT_OK);
		EXPECT_EQ(r.at - bytes, length); /* the PDU follows */
		EXPECT(same(&h, &golden[i].header));
		iser_encode(&h, golden[i].form, &w);
		EXPECT_EQ(w.at - again, length);
		EXPECT_MEM(again, bytes, length);
	}
}

TEST(test_rfc7145_9_cut_headers)
{
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
		uint8_t bytes[ISER_HEADER_BYTES];
		size_t length = iscsi_hex(bytes, sizeof(bytes), golden[i].bytes);

		for (size_t cut = 0; cut < length; cut++) {
			struct rd r = rd_of(bytes, cut);
			struct iser_header h = { .depth = 77 };

			EXPECT_EQ(iser_decode(&h, golden[i].form, &r), WEFT_R_ISER_SHORT);
			EXPECT(h.depth == 77 && r.at == bytes && !r.is_short);
		}
	}
}

TEST(test_rfc7145_9_1_kinds)
{
	for (uint32_t first = 0; first < 256; first++) {
		uint8_t bytes[ISER_HEADER_BYTES] = { (uint8_t)first };
		struct rd r = rd_of(bytes, sizeof(bytes));
		struct iser_header h = { .depth = 77 };
		bool is_known = first >> 4 >= 1 && first >> 4 <= 3;

		EXPECT_EQ(iser_decode(&h, ISER_RFC7145, &r),
			  is_known ? WEFT_OK : WEFT_R_ISER_OPCODE);
		EXPECT_EQ(h.depth, is_known ? 0 : 77);
		EXPECT_EQ(r.at == bytes, !is_known);
	}
}

/* The STag of a flag that is not set, and all that is reserved. */
TEST(test_rfc7145_9_2_fields_without_their_flag_are_ignored)
{
	uint8_t bytes[ISER_HEADER_BYTES];
	struct rd r = rd_of(bytes, sizeof(bytes));
	struct iser_header h, none = { .kind = ISER_CONTROL };

	memset(bytes, 0xff, sizeof(bytes));
	bytes[0] = 0x13;
	EXPECT_EQ(iser_decode(&h, ISER_RFC7145, &r), WEFT_OK);
	EXPECT(same(&h, &none));
}

TEST(test_rfc7145_9_3_and_9_4_versions)
{
	for (uint32_t versions = 0; versions < 256; versions++) {
		uint8_t hello[ISER_HEADER_BYTES] = { 0x20, (uint8_t)versions };
		bool is_range = versions >> 4 >= (versions & 15);

		for (uint32_t first = 0x20; first <= 0x31; first++) {
			struct rd r = rd_of(hello, sizeof(hello));
			struct iser_header h;

			if (first != 0x20 && first != 0x30 && first != 0x31)
				continue;
			hello[0] = (uint8_t)first;
			EXPECT_EQ(iser_decode(&h, ISER_RFC7145, &r),
				  is_range || first == 0x31 ? WEFT_OK : WEFT_R_ISER_VERSION);
		}
	}
}

TEST(test_rfc7145_9_random_headers_there_and_back)
{
	struct prng random = { 7145 };

	for (uint32_t i = 0; i < 5000; i++) {
		enum iser_form form = i % 2 ? ISER_RFC5046 : ISER_RFC7145;
		uint8_t bytes[ISER_HEADER_BYTES], again[ISER_HEADER_BYTES];
		struct rd r = rd_of(bytes, sizeof(bytes));
		struct wr w = wr_of(again, sizeof(again));
		struct iser_header a, b;

		for (size_t n = 0; n < sizeof(bytes); n++)
			bytes[n] = (uint8_t)prng_next(&random);
		if (iser_decode(&a, form, &r) != WEFT_OK)
			continue;
		iser_encode(&a, form, &w);
		r = rd_of(again, (size_t)(w.at - again));
		EXPECT_EQ(iser_decode(&b, form, &r), WEFT_OK);
		EXPECT(r.at == r.end && same(&a, &b));
	}
}

TEST(test_iba_a12_private_data_of_iser)
{
	uint8_t bytes[6] = { 0x80, 1, 2, 3, 4, 5 };
	struct iser_private p = { 0 };

	EXPECT_EQ(iser_private_decode(&p, NULL, 0), WEFT_OK);
	EXPECT(p.lacks_zero_based && p.lacks_invalidate);
	EXPECT_EQ(iser_private_decode(&p, bytes, 6), WEFT_OK);
	EXPECT(p.lacks_zero_based && !p.lacks_invalidate);
	bytes[0] = 0x7f;
	EXPECT_EQ(iser_private_decode(&p, bytes, 4), WEFT_OK);
	EXPECT(!p.lacks_zero_based && p.lacks_invalidate);
	for (size_t n = 1; n < 4; n++)
		EXPECT_EQ(iser_private_decode(&p, bytes, n), WEFT_R_ISER_SHORT);
	EXPECT(!p.lacks_zero_based && p.lacks_invalidate);
	p.lacks_zero_based = true;
	iser_private_encode(&p, bytes);
	EXPECT_MEM(bytes, ((const uint8_t[]){ 0xc0, 0, 0, 0, 4, 5 }), 6);
}
