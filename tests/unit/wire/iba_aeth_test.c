/* SPDX-License-Identifier: BSD-2-Clause */
/* Syndromes, times and sequence numbers: IBA 9.7. */
#include "wire/iba_aeth.h"

#include <string.h>

#include "test.h"
#include "wire/iba_psn.h"

TEST(test_iba_9_7_5_syndromes)
{
	for (uint32_t s = 0; s < 256; s++) {
		enum iba_syndrome due = s < 0x20   ? IBA_SYNDROME_ACK
					: s < 0x40 ? IBA_SYNDROME_RNR
					: s < 0x60 ? IBA_SYNDROME_RESERVED
					: s < 0x80 ? IBA_SYNDROME_NAK
						   : IBA_SYNDROME_RESERVED;

		EXPECT_EQ(iba_syndrome((uint8_t)s), due);
		EXPECT(strlen(iba_syndrome_name((uint8_t)s)) >= 3);
	}
	EXPECT_EQ(iba_syndrome_ack(IBA_CREDITS_UNUSED), 0x1f);
	EXPECT_EQ(iba_syndrome_rnr(14), 0x2e);
	EXPECT_EQ(iba_syndrome_nak(IBA_NAK_SEQUENCE), 0x60);
	EXPECT_EQ(iba_syndrome_nak(IBA_NAK_INVALID_RD), 0x64);
	EXPECT_STR(iba_syndrome_name(0x64), "NAK invalid RD request");
	EXPECT_STR(iba_syndrome_name(0x65), "reserved syndrome");
	EXPECT_STR(iba_syndrome_name(0x80), "reserved syndrome");
}

/* Each step is a half or a third more: 2^n and 3 * 2^n in turns. */
TEST(test_iba_9_7_7_2_credits)
{
	EXPECT(iba_credits(0) == 0 && iba_credits(1) == 1 && iba_credits(2) == 2);
	EXPECT(iba_credits(3) == 3 && iba_credits(30) == 32768 && iba_credits(31) == UINT32_MAX);
	for (uint8_t code = 4; code < 31; code++)
		EXPECT_EQ(iba_credits(code), 2 * iba_credits((uint8_t)(code - 2)));
	for (uint8_t code = 0; code < 31; code++) {
		EXPECT_EQ(iba_credit_code(iba_credits(code)), code);
		if (code > 0)
			EXPECT_EQ(iba_credit_code(iba_credits(code) - 1), code - 1);
	}
	EXPECT_EQ(iba_credit_code(UINT32_MAX), 30);
}

TEST(test_iba_9_7_5_rnr_timers)
{
	EXPECT_EQ(iba_rnr_ns(0), 655360000);
	EXPECT(iba_rnr_ns(1) == 10000 && iba_rnr_ns(2) == 20000 && iba_rnr_ns(3) == 30000);
	EXPECT(iba_rnr_ns(25) == 61440000 && iba_rnr_ns(31) == 491520000);
	for (uint8_t code = 4; code < 32; code++)
		EXPECT_EQ(iba_rnr_ns(code), 2 * iba_rnr_ns((uint8_t)(code - 2)));
	EXPECT_EQ(iba_rnr_ns(iba_syndrome_rnr(14)), 1280000);
}

TEST(test_iba_9_7_6_timeouts)
{
	EXPECT(iba_timeout_ns(0) == 4096 && iba_timeout_ns(14) == 67108864);
	EXPECT_EQ(iba_timeout_ns(31), 8796093022208);
}

TEST(test_iba_9_7_2_psn_wraps)
{
	EXPECT(iba_psn_add(0xffffff, 1) == 0 && iba_psn_add(5, 0xfffffe) == 3);
	EXPECT(iba_psn_diff(0, 0xffffff) == 1 && iba_psn_diff(0xffffff, 0) == -1);
	EXPECT(iba_psn_diff(0x7fffff, 0) == 0x7fffff && iba_psn_diff(0x800000, 0) == -0x800000);
	EXPECT(iba_psn_diff(0x800001, 0) == -0x7fffff && iba_psn_diff(7, 7) == 0);
	EXPECT(iba_psn_is_before(0xfffff0, 0x10) && !iba_psn_is_before(0x10, 0xfffff0));
	EXPECT(!iba_psn_is_before(9, 9));
	EXPECT(iba_psn_distance(0xffffff, 1) == 2 && iba_psn_distance(1, 0xffffff) == 0xfffffe);
	EXPECT(iba_psn_is_within(1, 0xffffff, 3) && !iba_psn_is_within(2, 0xffffff, 3));
	EXPECT(iba_psn_is_within(0xffffff, 0xffffff, 3) && !iba_psn_is_within(5, 5, 0));
	EXPECT(!iba_psn_is_within(0xfffffe, 0xffffff, 3));
}

TEST(test_iba_9_7_4_packets_of_a_message)
{
	EXPECT(iba_psn_count(0, 256) == 1 && iba_psn_count(1, 256) == 1);
	EXPECT(iba_psn_count(256, 256) == 1 && iba_psn_count(257, 256) == 2);
	EXPECT_EQ(iba_psn_count(UINT32_MAX, 256), 1 << 24);
	EXPECT_EQ(iba_psn_count(0x80000000, 4096), 1 << 19);
}
