/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "base/crc.h"
#include "base/cursor.h"
#include "wire/iba_frame.h"

enum { PAYLOAD_BYTES = 20, ROOM = IBA_FRAME_MAX + 4 };

/* A SEND Only to QP 5; the fields of the headers are what IBA draws. */
static size_t frame_make(uint8_t bytes[ROOM], bool has_grh)
{
	uint32_t words = (IBA_LRH_BYTES + (has_grh ? IBA_GRH_BYTES : 0) + IBA_BTH_BYTES +
			  PAYLOAD_BYTES + IBA_ICRC_BYTES) /
			 4;
	struct wr w = wr_of(bytes, ROOM);

	wr_u32(&w, 0x20300000 | (has_grh ? 3U : 2U) << 16 | 0x0102); /* lane 2, level 3, to 0x102 */
	wr_u32(&w, words << 16 | 0x0304);
	if (has_grh) {
		wr_u32(&w, 0x6ab12345);
		wr_u32(&w, (IBA_BTH_BYTES + PAYLOAD_BYTES + IBA_ICRC_BYTES) << 16 |
				   IBA_GRH_NEXT_BTH << 8 | 9);
		for (uint8_t i = 0; i < 32; i++)
			wr_u8(&w, (uint8_t)(0xc0 + i));
	}
	wr_u32(&w, 0x0400ffff);
	wr_u32(&w, 5);
	wr_u32(&w, 1);
	for (uint8_t i = 0; i < PAYLOAD_BYTES; i++)
		wr_u8(&w, i);
	return (size_t)(w.at - bytes) + IBA_ICRC_BYTES + IBA_VCRC_BYTES;
}

static void little(uint8_t *at, uint32_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static void vcrc_seal(uint8_t *bytes, size_t length)
{
	little(bytes + length - 2, iba_vcrc(bytes, length - 2), 2);
}

/* Both CRCs, over what IBA 7.8 says. */
static void seal(uint8_t *bytes, size_t length, bool has_grh)
{
	size_t bth = IBA_LRH_BYTES + (has_grh ? IBA_GRH_BYTES : 0);
	uint8_t masked[ROOM];

	memcpy(masked, bytes, length);
	masked[0] |= 0xf0;
	if (has_grh) {
		memset(masked, 0xff, IBA_LRH_BYTES);
		masked[8] |= 0x0f;
		masked[9] = masked[10] = masked[11] = masked[15] = 0xff;
	}
	masked[bth + 4] = 0xff;
	little(bytes + length - 6, crc32_end(crc32_add(CRC32_BEGIN, masked, length - 6)), 4);
	vcrc_seal(bytes, length);
}

/* The example of IBA 7.8: its ICRC. */
TEST(test_iba_7_8_1_the_invariant_crc_of_the_specifications_example)
{
	static const uint8_t sample[] = {
		0x70, 0x12, 0x37, 0x5c, 0x00, 0x0e, 0x17, 0xd2, 0x0a, 0x20, 0x24, 0x87, 0x00, 0x87,
		0xb1, 0xb3, 0x00, 0x0d, 0xec, 0x2a, 0x01, 0x71, 0x0a, 0x1c, 0x01, 0x5d, 0x40, 0x02,
		0x38, 0xf2, 0x7a, 0x05, 0x00, 0x00, 0x00, 0x0e, 0xbb, 0x88, 0x4d, 0x85, 0xfd, 0x5c,
		0xfb, 0xa4, 0x72, 0x8b, 0xc0, 0x69, 0x0e, 0xd4, 0x00, 0x00, 0x96, 0x25, 0xb7, 0x5a,
	};
	uint8_t bytes[sizeof(sample) + IBA_VCRC_BYTES];
	struct iba_frame f;

	memcpy(bytes, sample, sizeof(sample));
	vcrc_seal(bytes, sizeof(bytes));
	EXPECT_EQ(iba_frame_decode(&f, bytes, sizeof(bytes)), WEFT_OK);
	EXPECT(f.lrh.lane == 7 && f.lrh.level == 1 && f.lrh.next == IBA_NEXT_BTH);
	EXPECT(f.lrh.to == 0x375c && f.lrh.from == 0x17d2 && f.lrh.bytes == sizeof(sample));
	EXPECT(f.has_packet && !f.has_grh && f.packet.dest_qp == 0x87b1b3);
}

/* The register after a message and its check is a constant of the polynomial. */
TEST(test_iba_7_8_2_the_variant_crc_is_of_its_polynomial)
{
	uint8_t bytes[64] = "every message with its check leaves the same register", n = 54;
	uint16_t first;

	little(bytes + n, iba_vcrc(bytes, n), 2);
	first = iba_vcrc(bytes, n + 2U);
	little(bytes + 7, iba_vcrc(bytes, 7), 2);
	EXPECT_EQ(iba_vcrc(bytes, 9), first);
	EXPECT_EQ(iba_vcrc((const uint8_t *)"", 0), 0);
	/* One bit: x^16 mod (x^16 + x^12 + x^3 + x + 1), reversed. */
	EXPECT_EQ(iba_vcrc((const uint8_t *)"\x80", 1) ^ iba_vcrc((const uint8_t *)"\0", 1),
		  0xd008);
}

TEST(test_fab_02_a_frame_has_network_header_transport_header_payload_and_crcs)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		uint8_t bytes[ROOM], lrh[IBA_LRH_BYTES];
		size_t length = frame_make(bytes, has_grh);
		struct iba_frame f;

		seal(bytes, length, has_grh);
		EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
		EXPECT(f.lrh.lane == 2 && f.lrh.level == 3 && f.lrh.to == 0x102);
		EXPECT(f.lrh.from == 0x304 && f.lrh.bytes == length - 2 && f.has_packet);
		EXPECT(f.has_grh == has_grh && f.packet.dest_qp == 5 && f.packet.psn == 1);
		EXPECT(f.packet.payload_bytes == PAYLOAD_BYTES && f.packet.payload[1] == 1);
		if (has_grh)
			EXPECT(f.grh.hop_limit == 9 && f.grh.flow_label == 0x12345 &&
			       f.grh.from[0] == 0xc0 && f.grh.to[15] == 0xdf);
		iba_lrh_encode(&f.lrh, lrh);
		EXPECT_MEM(lrh, bytes, sizeof(lrh));
	}
}

/*
 * The lane is another one on each link; a router writes the local header anew, and changes traffic
 * class, flow label and hop limit.
 */
TEST(test_fab_15_what_may_change_on_the_way_is_not_in_the_invariant_crc)
{
	uint8_t bytes[ROOM];
	size_t length = frame_make(bytes, true);
	struct iba_frame f;

	seal(bytes, length, true);
	bytes[0] = 0x70;
	bytes[1] ^= 0x50;
	bytes[3] = bytes[7] = 9;
	bytes[8] = 0x61;
	memset(bytes + 9, 0x11, 3);
	bytes[15]--;
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_FRAME_VCRC);
	vcrc_seal(bytes, length);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
	EXPECT(f.lrh.lane == 7 && f.grh.hop_limit == 8);
}

/* Without a global header no node may change anything but the lane. */
TEST(test_fab_15_the_lids_of_a_local_frame_are_in_the_invariant_crc)
{
	uint8_t bytes[ROOM];
	size_t length = frame_make(bytes, false);
	struct iba_frame f;

	seal(bytes, length, false);
	bytes[0] = 0x70;
	vcrc_seal(bytes, length);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
	bytes[3] ^= 1;
	vcrc_seal(bytes, length);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_FRAME_ICRC);
}

TEST(test_fab_07_every_wrong_bit_is_found)
{
	uint8_t bytes[ROOM];
	size_t length = frame_make(bytes, true);
	struct iba_frame f;

	seal(bytes, length, true);
	for (size_t bit = 0; bit < length * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		EXPECT(iba_frame_decode(&f, bytes, length) != WEFT_OK);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	/* Damaged in a node, which makes the link's check anew. */
	for (size_t at = IBA_LRH_BYTES + IBA_GRH_BYTES + 5; at < length - 2; at++) {
		bytes[at] ^= 1;
		vcrc_seal(bytes, length);
		EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_FRAME_ICRC);
		bytes[at] ^= 1;
	}
}

TEST(test_fab_02_version_and_length_of_the_route_header_are_checked)
{
	uint8_t bytes[ROOM] = { 0 };
	size_t length = frame_make(bytes, false);
	struct iba_lrh h = { .to = 99 };

	EXPECT_EQ(iba_lrh_decode(&h, bytes, length + 1), WEFT_R_FRAME_LENGTH);
	EXPECT_EQ(iba_lrh_decode(&h, bytes, length - 1), WEFT_R_FRAME_LENGTH);
	for (size_t n = 0; n < IBA_FRAME_MIN; n++)
		EXPECT_EQ(iba_lrh_decode(&h, bytes, n), WEFT_R_FRAME_SHORT);
	bytes[0] |= 1;
	EXPECT_EQ(iba_lrh_decode(&h, bytes, length), WEFT_R_FRAME_VERSION);
	EXPECT_EQ(h.to, 99);
	bytes[0] &= 0xf0;
	bytes[4] = 4;
	bytes[5] = 0x4d; /* 0x44d words: more than any frame has */
	EXPECT_EQ(iba_lrh_decode(&h, bytes, 0x44d * 4 + 2), WEFT_R_FRAME_LENGTH);
}

TEST(test_fab_02_headers_behind_the_route_header_that_do_not_fit_are_refused)
{
	uint8_t bytes[ROOM];
	struct iba_frame f;
	size_t length = 8 + 12 + 2 + 2;

	(void)frame_make(bytes, false);
	for (length = IBA_FRAME_MIN; length < 8 + 12 + 4 + 2; length += 4) {
		bytes[5] = (uint8_t)((length - 2) / 4);
		vcrc_seal(bytes, length);
		EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_FRAME_SHORT);
	}
	length = frame_make(bytes, true);
	bytes[8] = 0x4a; /* IP version 4 */
	seal(bytes, length, true);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_IB_VERSION);
	length = frame_make(bytes, false);
	bytes[8] = 0x1f; /* no such opcode */
	seal(bytes, length, false);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_IB_OPCODE);
}

TEST(test_raw_01_raw_frames_have_no_transport_header)
{
	uint8_t bytes[ROOM];
	size_t length = frame_make(bytes, false);
	struct iba_frame f;

	bytes[1] &= 0xf0;
	vcrc_seal(bytes, length);
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_OK);
	EXPECT(!f.has_packet && !f.has_grh && f.lrh.next == IBA_NEXT_RAW);
}

TEST(test_fab_07_a_frame_that_crossed_no_cable_needs_no_variant_crc)
{
	uint8_t bytes[ROOM];
	size_t length = frame_make(bytes, true);
	struct iba_frame f = { .has_grh = false };

	seal(bytes, length, true);
	bytes[length - 1] ^= 1;
	EXPECT_EQ(iba_frame_decode(&f, bytes, length), WEFT_R_FRAME_VCRC);
	EXPECT_EQ(iba_frame_decode_inner(&f, bytes, length), WEFT_OK);
	EXPECT(f.has_grh && f.has_packet && f.packet.dest_qp == 5);
	bytes[length - 8] ^= 1;
	EXPECT_EQ(iba_frame_decode_inner(&f, bytes, length), WEFT_R_FRAME_ICRC);
	EXPECT_EQ(iba_frame_decode_inner(&f, bytes, 7), WEFT_R_FRAME_SHORT);
}

TEST(test_iba_7_7_a_glance_at_a_frame)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		uint8_t bytes[ROOM];
		size_t length = frame_make(bytes, has_grh);
		struct iba_glance g;

		EXPECT_EQ(iba_frame_glance(&g, bytes, length), WEFT_OK);
		EXPECT(g.lrh.lane == 2 && g.lrh.to == 0x102 && g.has_bth);
		EXPECT(g.opcode == 4 && g.p_key == 0xffff && g.dest_qp == 5);
		EXPECT_EQ(iba_frame_glance(&g, bytes, length - 4), WEFT_R_FRAME_LENGTH);
		bytes[1] = (uint8_t)(bytes[1] & ~3); /* raw */
		EXPECT_EQ(iba_frame_glance(&g, bytes, length), WEFT_OK);
		EXPECT(!g.has_bth && g.p_key == 0 && g.dest_qp == 0);
	}
}

TEST(test_iba_7_7_a_frame_that_ends_in_its_bth_shows_no_more_than_its_lrh)
{
	uint8_t bytes[ROOM] = { 0 };
	struct iba_lrh h = { .next = IBA_NEXT_BTH, .to = 7, .bytes = 20 };
	struct iba_glance g;

	iba_lrh_encode(&h, bytes);
	EXPECT_EQ(iba_frame_glance(&g, bytes, 22), WEFT_OK);
	EXPECT(!g.has_bth && g.lrh.to == 7);
	h.bytes = 24;
	iba_lrh_encode(&h, bytes);
	EXPECT_EQ(iba_frame_glance(&g, bytes, 26), WEFT_OK);
	EXPECT(g.has_bth);
}
