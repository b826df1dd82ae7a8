/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include <string.h>

#include "wire/smp.h"

static struct smp sample(bool is_directed)
{
	struct smp s = {
		.mad = { .mgmt_class = is_directed ? MAD_SUBNET_DIRECTED : MAD_SUBNET_LID,
			 .class_version = SMP_CLASS_VERSION,
			 .method = MAD_GET,
			 .tid = 0x1122334455667788,
			 .attribute = 0x15,
			 .modifier = 3 },
		.m_key = 0x0102030405060708,
		.is_directed = is_directed,
	};

	for (uint8_t i = 0; i < SMP_DATA_BYTES; i++)
		s.data[i] = i;
	if (!is_directed)
		return s;
	s.is_returning = true;
	s.mad.status = SMP_STATUS_INVALID_VALUE;
	s.hop_pointer = 2;
	s.hop_count = 4;
	s.from = 0xffff;
	s.to = 7;
	memcpy(s.there, "\0\1\2\3\4", 5);
	memcpy(s.back, "\0\11\12", 3);
	return s;
}

TEST(test_iba_14_2_1_1_a_lid_routed_packet_has_the_written_layout)
{
	struct smp s = sample(false), v;
	uint8_t bytes[MAD_BYTES], zeros[MAD_BYTES] = { 0 };

	smp_encode(&s, bytes);
	EXPECT_MEM(bytes, "\1\1\1\1\0\0\0\0\x11\x22\x33\x44\x55\x66\x77\x88\0\x15\0\0\0\0\0\3", 24);
	EXPECT_MEM(bytes + 24, "\1\2\3\4\5\6\7\10", 8);
	EXPECT_MEM(bytes + 32, zeros, 32);
	EXPECT_MEM(bytes + 64, s.data, SMP_DATA_BYTES);
	EXPECT_MEM(bytes + 128, zeros, 128);
	EXPECT_EQ(smp_decode(&v, bytes, MAD_BYTES), WEFT_OK);
	EXPECT(v.mad.tid == s.mad.tid && v.m_key == s.m_key && !v.is_directed);
	EXPECT_MEM(v.data, s.data, SMP_DATA_BYTES);
}

TEST(test_iba_14_2_1_2_a_directed_packet_has_the_written_layout)
{
	struct smp s = sample(true), v;
	uint8_t bytes[MAD_BYTES];

	smp_encode(&s, bytes);
	EXPECT_MEM(bytes, "\1\x81\1\1\x80\x1c\2\4", 8);
	EXPECT_MEM(bytes + 32, "\xff\xff\0\7", 4);
	EXPECT_MEM(bytes + 128, s.there, SMP_PATH);
	EXPECT_MEM(bytes + 192, s.back, SMP_PATH);
	EXPECT_EQ(smp_decode(&v, bytes, MAD_BYTES), WEFT_OK);
	EXPECT(v.is_directed && v.is_returning && v.mad.status == SMP_STATUS_INVALID_VALUE);
	EXPECT(v.hop_pointer == 2 && v.hop_count == 4 && v.from == 0xffff && v.to == 7);
	EXPECT_MEM(v.there, s.there, SMP_PATH);
	EXPECT_MEM(v.back, s.back, SMP_PATH);
}

TEST(test_iba_14_2_2_routes_that_cannot_be_are_refused)
{
	static const struct {
		uint8_t pointer, count;
		enum weft_reason reason;
	} cases[] = {
		{ 0, 0, WEFT_OK },
		{ 1, 0, WEFT_OK },
		{ 2, 0, WEFT_R_SMP_ROUTE },
		{ 64, 63, WEFT_OK },
		{ 65, 63, WEFT_R_SMP_ROUTE },
		{ 0, 64, WEFT_R_SMP_ROUTE },
		{ 255, 255, WEFT_R_SMP_ROUTE },
	};
	struct smp s = sample(true), v;
	uint8_t bytes[MAD_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		s.hop_pointer = cases[i].pointer;
		s.hop_count = cases[i].count;
		smp_encode(&s, bytes);
		harness_note("hop %u of %u", s.hop_pointer, s.hop_count);
		EXPECT_EQ(smp_decode(&v, bytes, MAD_BYTES), cases[i].reason);
	}
}

TEST(test_iba_14_2_1_other_classes_and_lengths_are_refused)
{
	struct smp s = sample(true), v;
	uint8_t bytes[MAD_BYTES];

	for (int mgmt_class = 0; mgmt_class <= UINT8_MAX; mgmt_class++) {
		smp_encode(&s, bytes);
		bytes[1] = (uint8_t)mgmt_class;
		EXPECT_EQ(smp_decode(&v, bytes, MAD_BYTES),
			  mgmt_class == MAD_SUBNET_LID || mgmt_class == MAD_SUBNET_DIRECTED
				  ? WEFT_OK
				  : WEFT_R_SMP_CLASS);
	}
	smp_encode(&s, bytes);
	EXPECT_EQ(smp_decode(&v, bytes, MAD_BYTES - 1), WEFT_R_MAD_LENGTH);
}
