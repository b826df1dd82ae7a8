/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "base/crc.h"
#include "unit/wire/push_fixture.h"

static size_t encode(const struct push_cell *c, uint8_t bytes[PUSH_CELL_BYTES_MAX])
{
	struct wr w = wr_of(bytes, PUSH_CELL_BYTES_MAX);

	push_cell_encode(c, &w);
	REQUIRE(!w.is_short);
	return (size_t)(w.at - bytes);
}

/* The CRC is made right again. */
static enum weft_reason sealed(uint8_t *bytes, size_t length)
{
	struct wr w = wr_of(bytes + length - 4, 4);
	struct push_cell c;

	wr_u32(&w, crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - 4)));
	return push_cell_decode(&c, bytes, length);
}

TEST(test_push_11_mac_header_has_the_written_layout)
{
	static const uint8_t header[PUSH_CELL_HEADER_BYTES] = {
		0x0d ^ 0x08, 0,	   1, 0,		      /* first, of a Write; 256 bytes */
		2,	     0,	   0, 0, 0, 7, 0, 0, 0, 0x12, /* destination: MAC, queue pair */
		2,	     0,	   0, 0, 0, 9, 0, 0, 0, 0x34, /* source */
		0,	     0,	   0, 5, 0, 0, 0, 0, 0, 0,
		0x02,	     0x58, /* packet, cell, bytes of the packet */
	};
	const char *name;
	struct push_cell c = push_fixture_cell(0, &name), v;
	uint8_t bytes[PUSH_CELL_BYTES_MAX];
	size_t length = encode(&c, bytes);

	EXPECT_MEM(bytes, header, sizeof(header));
	EXPECT_EQ(push_cell_decode(&v, bytes, length), WEFT_OK);
	EXPECT_MEM(v.to.mac, c.to.mac, PUSH_MAC_BYTES);
	EXPECT_MEM(v.from.mac, c.from.mac, PUSH_MAC_BYTES);
	EXPECT(v.to.qpn == 0x12 && v.from.qpn == 0x34);
	EXPECT(v.packet == 5 && v.cell == 0 && v.data_bytes == 256 && v.packet_bytes == 600);
}

/* First, middle and last as figure 8 draws them; and a Send of one cell. */
TEST(test_push_13_cells_of_a_write_have_the_written_layout)
{
	static const size_t lengths[PUSH_FIXTURE_CELLS] = { 36 + 12 + 256 + 4, 36 + 256 + 4,
							    36 + 4 + 88 + 4 + 4, 36 + 64 + 4 + 4 };

	for (int i = 0; i < PUSH_FIXTURE_CELLS; i++) {
		const char *name;
		struct push_cell c = push_fixture_cell(i, &name), v;
		uint8_t bytes[PUSH_CELL_BYTES_MAX], again[PUSH_CELL_BYTES_MAX];
		size_t length = encode(&c, bytes);

		harness_note("%s", name);
		EXPECT_EQ(length, lengths[i]);
		EXPECT_EQ(push_cell_decode(&v, bytes, length), WEFT_OK);
		EXPECT_EQ(v.is_last, i >= 2);
		EXPECT_EQ(v.is_write, i < 3);
		EXPECT_EQ(v.has_immediate, i == 2);
		EXPECT_EQ(encode(&v, again), length);
		EXPECT_MEM(again, bytes, length);
		if (i == 0)
			EXPECT_MEM(bytes + 36, "\0\0\x7f\0\x12\x34\0\0\0\0\xa1\x05\0\x01", 14);
		if (i == 2) {
			EXPECT_MEM(bytes + 36, "\x07\x05\x01\0\0\x01", 6);
			EXPECT_MEM(bytes + length - 8, "\x11\x22\x33\x44", 4);
		}
	}
}

TEST(test_push_12_a_cell_with_any_bit_wrong_is_refused)
{
	const char *name;
	struct push_cell c = push_fixture_cell(2, &name), v;
	uint8_t bytes[PUSH_CELL_BYTES_MAX];
	size_t length = encode(&c, bytes);

	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		EXPECT_EQ(push_cell_decode(&v, bytes, length), WEFT_R_PUSH_CELL_CRC);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	EXPECT_EQ(push_cell_decode(&v, bytes, length), WEFT_OK);
}

TEST(test_push_12_fields_that_do_not_fit_are_refused)
{
	static const struct {
		int nth;
		uint8_t at, value;
	} bad[] = {
		{ 0, 0, 4 },		       /* the first cell does not say so */
		{ 0, 0, 7 },		       /* nor is it the last */
		{ 0, 0, 13 },		       /* idata is in the last */
		{ 0, 0, 37 },		       /* no such flag */
		{ 0, 0, 1 },		       /* address and handle, but no Write */
		{ 0, 1, 1 },	 { 0, 3, 1 },  /* 257 bytes */
		{ 0, 10, 1 },		       /* queue pair above 24 bits */
		{ 0, 20, 1 },	 { 1, 31, 3 }, /* behind the last cell */
		{ 2, 35, 0x59 }, { 3, 0, 7 },  /* a Write without address */
	};
	const char *name;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct push_cell c = push_fixture_cell(bad[i].nth, &name);
		uint8_t bytes[PUSH_CELL_BYTES_MAX];
		size_t length = encode(&c, bytes);

		harness_note("%s, byte %u", name, bad[i].at);
		EXPECT_EQ(sealed(bytes, length), WEFT_OK);
		bytes[bad[i].at] = bad[i].value;
		EXPECT_EQ(sealed(bytes, length), WEFT_R_PUSH_CELL);
	}
}

TEST(test_push_12_every_other_length_is_refused)
{
	const char *name;
	struct push_cell c = push_fixture_cell(3, &name), v;
	uint8_t bytes[PUSH_CELL_BYTES_MAX + 1] = { 0 };
	size_t length = encode(&c, bytes);

	for (size_t n = 0; n <= PUSH_CELL_BYTES_MAX; n++) {
		encode(&c, bytes);
		if (n < 40)
			EXPECT_EQ(push_cell_decode(&v, bytes, n), WEFT_R_PUSH_CELL);
		else
			EXPECT_EQ(sealed(bytes, n), n == length ? WEFT_OK : WEFT_R_PUSH_CELL);
	}
	EXPECT_EQ(sealed(bytes, PUSH_CELL_BYTES_MAX + 1), WEFT_R_PUSH_CELL);
}

TEST(test_fab_08_data_over_256_bytes_is_cut)
{
	EXPECT_EQ(push_cells_of(0), 1);
	EXPECT_EQ(push_cells_of(256), 1);
	EXPECT_EQ(push_cells_of(257), 2);
	EXPECT_EQ(push_cells_of(65536), 256);
	EXPECT_EQ(push_cells_of(UINT32_MAX), 1 << 24);
	EXPECT_EQ(push_cell_data_bytes(257, 0), 256);
	EXPECT_EQ(push_cell_data_bytes(257, 1), 1);
	EXPECT_EQ(push_cell_data_bytes(0, 0), 0);
}
