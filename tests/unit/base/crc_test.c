/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "base/crc.h"

static uint32_t whole(const void *bytes, size_t length)
{
	return crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length));
}

/* The check value of the algorithm, and the vectors of RFC 3720 appendix B.4. */
TEST(test_crc32c_is_the_published_one)
{
	uint8_t bytes[32];

	EXPECT_EQ(whole("123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	EXPECT_EQ(whole(bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	EXPECT_EQ(whole(bytes, sizeof(bytes)), 0x62a8ab43);
	for (uint8_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = i;
	EXPECT_EQ(whole(bytes, sizeof(bytes)), 0x46dd794e);
	EXPECT_EQ(whole(bytes, 0), 0);
}

/* However the bytes are cut and wherever they lie, bit by bit or by the library. */
TEST(test_crc32c_goes_on_over_pieces)
{
	static uint8_t bytes[4096 + 8];
	uint32_t slow = CRC32C_BEGIN;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i + (i >> 3));
	for (size_t i = 3; i < 4003; i++) {
		slow ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			slow = slow >> 1 ^ (slow & 1 ? 0x82f63b78 : 0);
	}
	for (size_t cut = 0; cut <= 4000; cut += cut < 70 ? 1 : 131) {
		uint32_t crc = crc32c_add(CRC32C_BEGIN, bytes + 3, cut);

		EXPECT_EQ(crc32c_add(crc, bytes + 3 + cut, 4000 - cut), slow);
	}
}

static uint32_t whole32(const void *bytes, size_t length)
{
	return crc32_end(crc32_add(CRC32_BEGIN, bytes, length));
}

/* The check value of the algorithm, and that of nothing. */
TEST(test_crc32_is_the_published_one)
{
	uint8_t ones[8];

	EXPECT_EQ(whole32("123456789", 9), 0xcbf43926);
	EXPECT_EQ(whole32("", 0), 0);
	memset(ones, 0xff, sizeof(ones));
	EXPECT_EQ(crc32_add(CRC32_BEGIN, ones, sizeof(ones)), 0xdebb20e3);
}

TEST(test_crc32_goes_on_over_pieces)
{
	static uint8_t bytes[4096 + 8];
	uint32_t slow = CRC32_BEGIN;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * i + (i >> 3));
	for (size_t i = 3; i < 4003; i++) {
		slow ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			slow = slow >> 1 ^ (slow & 1 ? 0xedb88320 : 0);
	}
	for (size_t cut = 0; cut <= 4000; cut += cut < 70 ? 1 : 131) {
		uint32_t crc = crc32_add(CRC32_BEGIN, bytes + 3, cut);

		EXPECT_EQ(crc32_add(crc, bytes + 3 + cut, 4000 - cut), slow);
	}
}

TEST(test_crc32_goes_back_over_zeros)
{
	static const uint8_t zeros[5000];

	EXPECT_EQ(crc32_back(0), 0x80000000);
	for (uint32_t i = 0; i < 200; i++) {
		uint32_t crc = 0x9e3779b9 * (i + 1);
		size_t length = i * i % sizeof(zeros);

		EXPECT_EQ(crc32_times(crc32_add(crc, zeros, length), crc32_back(length)), crc);
		EXPECT_EQ(crc32_times(crc32_back(length), crc32_add(crc, zeros, length)), crc);
	}
}
