/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "base/crc.h"
#include "base/cursor.h"
#include "wire/flit.h"
#include "wire/iba_frame.h"

static const uint8_t data[FLIT_DATA] = "eighty-eight bytes";

static struct flit piece(void)
{
	struct flit f = { .kind = FLIT_FRAME, .lane = 5, .is_first = true, .sequence = 0x0102 };

	f.credit_lane = 11;
	f.limits[11] = 0x0304;
	f.data = data;
	f.data_bytes = FLIT_DATA;
	return f;
}

static struct flit acknowledgement(void)
{
	struct flit f = { .kind = FLIT_ACK, .sequence = 0x0506, .wants_resend = true };

	for (uint16_t lane = 0; lane < FLIT_LANES; lane++)
		f.limits[lane] = (uint16_t)(0x1000 + lane);
	return f;
}

/* The CRC is made right again. */
static enum weft_reason sealed(uint8_t *bytes, size_t length)
{
	struct wr w = wr_of(bytes + length - 4, 4);
	struct flit f;

	wr_u32(&w, crc32c_end(crc32c_add(CRC32C_BEGIN, bytes, length - 4)));
	return flit_decode(&f, bytes, length);
}

TEST(test_fab_04_a_piece_has_lane_error_check_size_and_reverse_credit)
{
	struct flit f = piece(), v;
	uint8_t bytes[FLIT_BYTES_MAX];
	size_t length = flit_encode(&f, bytes);

	EXPECT_EQ(length, FLIT_BYTES_MAX);
	EXPECT_MEM(bytes, "\x05\x01\x58\x0b\x01\x02\x03\x04", FLIT_HEADER_BYTES);
	EXPECT_MEM(bytes + FLIT_HEADER_BYTES, data, FLIT_DATA);
	EXPECT_EQ(flit_decode(&v, bytes, length), WEFT_OK);
	EXPECT(v.kind == FLIT_FRAME && v.lane == 5 && v.is_first && !v.is_last);
	EXPECT(v.sequence == 0x0102 && v.credit_lane == 11 && v.limits[11] == 0x0304);
	EXPECT_EQ(v.data_bytes, FLIT_DATA);
	EXPECT_MEM(v.data, data, FLIT_DATA);
}

TEST(test_fab_04_an_acknowledgement_tells_the_limits_of_all_lanes)
{
	struct flit f = acknowledgement(), v;
	uint8_t bytes[FLIT_BYTES_MAX];
	size_t length = flit_encode(&f, bytes);

	EXPECT_EQ(length, FLIT_HEADER_BYTES + 32 + FLIT_CRC_BYTES);
	EXPECT_MEM(bytes, "\x10\x04\x20\x00\x05\x06\x00\x00\x10\x00\x10\x01", 12);
	EXPECT_EQ(flit_decode(&v, bytes, length), WEFT_OK);
	EXPECT(v.kind == FLIT_ACK && v.sequence == 0x0506 && v.wants_resend && !v.wants_ack);
	EXPECT_MEM(v.limits, f.limits, sizeof(f.limits));
}

TEST(test_fab_05_a_flit_with_any_bit_wrong_is_refused)
{
	struct flit f = piece(), v;
	uint8_t bytes[FLIT_BYTES_MAX];
	size_t length = flit_encode(&f, bytes);

	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		EXPECT_EQ(flit_decode(&v, bytes, length), WEFT_R_FLIT_CRC);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (size_t n = 0; n < length; n++)
		EXPECT_EQ(flit_decode(&v, bytes, n), WEFT_R_FLIT_CRC);
}

TEST(test_fab_04_forms_that_no_port_sends_are_refused)
{
	static const struct {
		bool is_ack;
		uint8_t at, value;
	} bad[] = {
		{ false, 0, 0x25 },		       /* no such kind */
		{ false, 1, 0x05 },		       /* a flag of acknowledgements */
		{ false, 3, 16 },		       /* no such lane */
		{ true, 0, 0x11 },  { true, 1, 0x05 }, /* a lane, a flag of pieces */
		{ true, 3, 1 },	    { true, 7, 1 },    /* zeros */
		{ true, 1, 0x14 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct flit f = bad[i].is_ack ? acknowledgement() : piece();
		uint8_t bytes[FLIT_BYTES_MAX];
		size_t length = flit_encode(&f, bytes);

		harness_note("case %zu", i);
		EXPECT_EQ(sealed(bytes, length), WEFT_OK);
		bytes[bad[i].at] = bad[i].value;
		EXPECT_EQ(sealed(bytes, length), WEFT_R_FLIT_FORM);
	}
}

TEST(test_fab_04_only_the_last_piece_of_a_frame_is_short_and_none_is_empty)
{
	struct flit f = piece();
	uint8_t bytes[FLIT_BYTES_MAX] = { 0 };
	size_t length;

	f.data_bytes = FLIT_DATA - 1;
	length = flit_encode(&f, bytes);
	EXPECT_EQ(sealed(bytes, length), WEFT_R_FLIT_FORM);
	f.is_last = true;
	length = flit_encode(&f, bytes);
	EXPECT_EQ(sealed(bytes, length), WEFT_OK);
	EXPECT_EQ(sealed(bytes, length - 1), WEFT_R_FLIT_CRC); /* the size is another one */
	bytes[2] = 0;
	EXPECT_EQ(sealed(bytes, FLIT_HEADER_BYTES + FLIT_CRC_BYTES), WEFT_R_FLIT_FORM);
}

/* D3 figures 9B and 10B: four flits for a frame, one for its acknowledgement. */
TEST(test_fab_06_an_acknowledgement_of_a_message_is_one_flit)
{
	const uint32_t least = IBA_LRH_BYTES + IBA_BTH_BYTES + 256 + 6,
		       most = IBA_LRH_BYTES + IBA_GRH_BYTES + 40 + 256 + 6; /* RD Write */

	EXPECT(flits_of(least) == 4 && flits_of(most) == 4);
	EXPECT_EQ(flits_of(IBA_LRH_BYTES + IBA_BTH_BYTES + 4 + 6), 1);
	EXPECT_EQ(flits_of(IBA_LRH_BYTES + IBA_GRH_BYTES + IBA_BTH_BYTES + 4 + 6), 1);
}
