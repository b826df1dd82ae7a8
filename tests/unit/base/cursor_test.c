/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "base/cursor.h"

TEST(test_cursor_writes_and_reads_big_endian)
{
	static const uint8_t wire[15] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	uint8_t bytes[15];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct rd r = rd_of(wire, sizeof(wire));

	wr_u8(&w, 0x01);
	wr_u16(&w, 0x0203);
	wr_u32(&w, 0x04050607);
	wr_u64(&w, UINT64_C(0x08090a0b0c0d0e0f));
	EXPECT(!w.is_short && w.at == w.end);
	EXPECT_MEM(bytes, wire, sizeof(wire));
	EXPECT_EQ(rd_u8(&r), 0x01);
	EXPECT_EQ(rd_u16(&r), 0x0203);
	EXPECT_EQ(rd_u32(&r), 0x04050607);
	EXPECT_EQ(rd_u64(&r), UINT64_C(0x08090a0b0c0d0e0f));
	EXPECT(!r.is_short && r.at == r.end);
}

/* A buffer of every length short of the width: 0 is read, the cursor stays, the mark stays set. */
TEST(test_cursor_short_reads_give_0_and_say_so)
{
	const uint8_t zero[8] = { 0 };
	uint8_t bytes[8], got[8];

	memset(bytes, 0xff, sizeof(bytes));
	memset(got, 0xff, sizeof(got));
	for (size_t width = 1; width <= 8; width++) {
		for (size_t length = 0; length < width; length++) {
			struct rd r = rd_of(bytes, length);

			rd_bytes(&r, got, width);
			EXPECT_MEM(got, zero, width);
			EXPECT(r.is_short);
			EXPECT(r.at == bytes);
			if (length > 0)
				EXPECT_EQ(rd_u8(&r), 0xff);
			EXPECT(r.is_short);
		}
	}
}

TEST(test_cursor_short_writes_do_nothing_and_say_so)
{
	for (size_t width = 1; width <= 8; width++) {
		for (size_t length = 0; length < width; length++) {
			uint8_t bytes[8] = { 0 };
			const uint8_t zero[8] = { 0 }, ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
			struct wr w = wr_of(bytes, length);

			wr_bytes(&w, ones, width);
			EXPECT(w.is_short);
			EXPECT(w.at == bytes);
			EXPECT_MEM(bytes, zero, sizeof(zero));
			if (length > 0)
				wr_u8(&w, 1);
			EXPECT(w.is_short);
		}
	}
}

TEST(test_cursor_just_enough_is_not_short)
{
	const uint8_t from[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t bytes[8] = { 0 }, got[8];

	for (size_t width = 1; width <= 8; width++) {
		struct wr w = wr_of(bytes, width);
		struct rd r = rd_of(bytes, width);

		wr_bytes(&w, from, width);
		EXPECT(!w.is_short && w.at == w.end);
		rd_bytes(&r, got, width);
		EXPECT_MEM(got, from, width);
		EXPECT(!r.is_short && r.at == r.end);
	}
}
