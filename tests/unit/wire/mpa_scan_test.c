/* SPDX-License-Identifier: BSD-2-Clause */
/* Where MPA's frames end, as a bystander finds it. */
#include "wire/mpa_scan.h"

#include <string.h>

#include "test.h"

static void start(uint8_t *bytes, bool wants_markers, uint16_t private_bytes)
{
	const struct mpa_start s = { .wants_markers = wants_markers,
				     .revision = 1,
				     .private_bytes = private_bytes };
	struct wr w = wr_of(bytes, MPA_START_BYTES);

	mpa_start_encode(&s, &w);
}

static struct mpa_scan in_fpdus(void)
{
	return (struct mpa_scan){ .phase = MPA_SCAN_FPDU };
}

TEST(test_rfc5044_7_1_scan_start_frame)
{
	uint8_t bytes[MPA_START_BYTES];
	struct mpa_scan s = { 0 };

	start(bytes, true, 300);
	for (size_t i = 0; i < sizeof(bytes); i++)
		EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(bytes, i)), 0);
	EXPECT_EQ(s.phase, MPA_SCAN_START);
	EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(bytes, sizeof(bytes))), 320);
	EXPECT_EQ(s.phase, MPA_SCAN_FPDU);
	EXPECT(s.wants_markers);
	s = (struct mpa_scan){ 0 };
	start(bytes, false, 0);
	EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(bytes, sizeof(bytes))), 20);
	EXPECT(!s.wants_markers);
}

TEST(test_rfc5044_7_1_scan_gives_up_what_is_not_mpa)
{
	uint8_t bytes[MPA_START_BYTES];
	struct mpa_scan s = { 0 };

	start(bytes, false, 513);
	EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(bytes, sizeof(bytes))), MPA_SCAN_ENDLESS);
	EXPECT_EQ(s.phase, MPA_SCAN_LOST);
	start(bytes, false, 0);
	EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(bytes, sizeof(bytes))), MPA_SCAN_ENDLESS);
}

TEST(test_rfc5044_4_2_scan_fpdu_lengths)
{
	static const struct {
		uint8_t head[MPA_SCAN_FPDU_HEAD];
		uint32_t bytes;
	} cases[] = { { { 0, 0 }, 8 },	       { { 0, 1 }, 8 },	       { { 0, 2 }, 8 },
		      { { 0, 3 }, 12 },	       { { 0, 14 }, 20 },      { { 1, 0 }, 264 },
		      { { 255, 254 }, 65540 }, { { 255, 255 }, 65544 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mpa_scan s = in_fpdus();
		size_t whole = sizeof(cases[i].head);

		EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(cases[i].head, whole - 1)), 0);
		EXPECT_EQ(s.position, 0);
		EXPECT_EQ(mpa_scan_frame(&s, false, rd_of(cases[i].head, whole)), cases[i].bytes);
	}
}

/* RFC 5044 section 4.3, by laying out word after word. */
static uint32_t laid_out(uint32_t position, uint32_t fpdu_bytes)
{
	uint32_t at = position;

	for (uint32_t i = 0; i < fpdu_bytes; i += 4) {
		if (at % 512 == 0)
			at += 4;
		at += 4;
	}
	return at - position;
}

TEST(test_rfc5044_4_3_scan_counts_markers)
{
	for (uint32_t position = 0; position < 512; position += 4) {
		for (uint32_t length = 2; length < 2200; length += 4) {
			uint8_t head[MPA_SCAN_FPDU_HEAD] = { 0 };
			struct wr w = wr_of(head, sizeof(head));
			struct mpa_scan s = in_fpdus();
			uint32_t bytes = laid_out(position, mpa_fpdu_bytes(length));

			s.position = (uint16_t)position;
			if (position == 0)
				wr_u32(&w, 0xffffffff);
			wr_u16(&w, (uint16_t)length);
			EXPECT_EQ(mpa_scan_frame(&s, true, rd_of(head, sizeof(head))), bytes);
			EXPECT_EQ(s.position, (position + bytes) % 512);
		}
	}
}
