/* SPDX-License-Identifier: BSD-2-Clause */
/* The ICRC of RoCEv2: IBA 7.8.1, annex A17. */
#include "wire/iba_icrc.h"

#include <string.h>

#include "test.h"
#include "wire/iba_grh.h"

/* A notification of congestion as a ConnectX-4 Lx sent it. */
TEST(test_iba_a17_icrc_of_a_hardware_cnp)
{
	const struct inet_end from = { { 10, 0, 17, 1 }, 0 }, to = { { 10, 0, 18, 1 }, 4791 };
	const struct iba_icrc_ip ip = {
		.from = &from, .to = &to, .ipv4_id = 0x718c, .ipv4_fragment = IBA_IPV4_DF
	};
	const struct iba_packet cnp = {
		.opcode = IBA_CNP, .p_key = 0xffff, .has_becn = true, .dest_qp = 0x118
	};
	uint8_t bytes[IBA_HEADERS_MAX + IBA_TRAILER_MAX];
	uint32_t length = iba_encode(&cnp, bytes), crc;

	EXPECT_EQ(length, 28);
	EXPECT_MEM(bytes,
		   "\x81\x00\xff\xff\x40\x00\x01\x18\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
	crc = iba_icrc_begin(&ip, iba_packet_bytes(IBA_CNP, 0));
	crc = iba_icrc_add_packet(crc, bytes, length);
	EXPECT_EQ(iba_trailer_encode(crc, 0, bytes + length), 4);
	EXPECT_MEM(bytes + length, "\x82\xfd\x00\x2a", 4);
	EXPECT_EQ(iba_icrc_differs(iba_icrc_begin(&ip, 32), bytes, 32), 0);
}

/* UC SEND Only of 18 bytes, padded with 2. */
TEST(test_iba_a17_icrc_of_a_padded_send)
{
	static const uint8_t payload[18] = { 0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e,
					     0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50 };
	const struct inet_end from = { { 192, 168, 0, 7 }, 0xc000 };
	const struct inet_end to = { { 192, 168, 0, 7 }, 4791 };
	const struct iba_icrc_ip ip = {
		.from = &from, .to = &to, .ipv4_id = 0x0478, .ipv4_fragment = IBA_IPV4_DF
	};
	const struct iba_packet send = { .opcode = 0x24,
					 .pad = 2,
					 .is_migrated = true,
					 .p_key = 0xffff,
					 .dest_qp = 0xd3,
					 .psn = 0xcf1710 };
	uint8_t headers[IBA_HEADERS_MAX], trailer[IBA_TRAILER_MAX];
	uint32_t length = iba_encode(&send, headers), crc;

	EXPECT_MEM(headers, "\x24\x60\xff\xff\x00\x00\x00\xd3\x00\xcf\x17\x10", 12);
	crc = iba_icrc_begin(&ip, iba_packet_bytes(0x24, sizeof(payload)));
	crc = iba_icrc_add_packet(crc, headers, length);
	crc = crc32_add(crc, payload, 5);
	crc = crc32_add(crc, payload + 5, sizeof(payload) - 5);
	EXPECT_EQ(iba_trailer_encode(crc, send.pad, trailer), 6);
	EXPECT_MEM(trailer, "\x00\x00\x78\xf3\x53\xf3", 6);
}

/* What a network may change counts for nothing, all else counts. */
TEST(test_iba_a17_icrc_covers_addresses_and_lengths)
{
	struct inet_end from = { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
				 0xc001 };
	struct inet_end to = { { 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6 }, 4791 };
	struct iba_icrc_ip ip = { .from = &from, .to = &to };
	uint32_t four = iba_icrc_begin(&ip, 100), six;

	EXPECT(iba_icrc_begin(&ip, 104) != four);
	from.address[4] ^= 1; /* is no part of an IPv4 address */
	EXPECT_EQ(iba_icrc_begin(&ip, 100), four);
	from.address[3] ^= 1;
	EXPECT(iba_icrc_begin(&ip, 100) != four);
	from.address[3] ^= 1;
	ip.ipv4_id = 1;
	EXPECT(iba_icrc_begin(&ip, 100) != four);
	ip.is_ipv6 = true;
	six = iba_icrc_begin(&ip, 100);
	EXPECT(six != four && iba_icrc_begin(&ip, 104) != six);
	ip.ipv4_id = 0;
	EXPECT_EQ(iba_icrc_begin(&ip, 100), six);
	to.address[15] ^= 1;
	EXPECT(iba_icrc_begin(&ip, 100) != six);
	to.address[15] ^= 1;
	from.port ^= 1;
	EXPECT(iba_icrc_begin(&ip, 100) != six);
}

/* Whatever the identification is, it is found; a wrong bit elsewhere is not taken for one. */
TEST(test_iba_a17_icrc_tells_the_identification)
{
	const struct inet_end from = { { 10, 77, 0, 12 }, 0xc121 },
			      to = { { 10, 77, 0, 11 }, 4791 };
	uint8_t bytes[IBA_BTH_BYTES + 1024 + IBA_TRAILER_MAX] = { 0x01 };
	uint32_t accepted = 0;

	for (uint32_t i = 0; i < 2000; i++) {
		struct iba_icrc_ip ip = { .from = &from,
					  .to = &to,
					  .ipv4_id = (uint16_t)(i * 977),
					  .ipv4_fragment = i & 1 ? IBA_IPV4_DF : 0 };
		uint32_t length = IBA_BTH_BYTES + i / 4 % 256 * 4, crc, found, factor;

		factor = iba_icrc_factor(length + 4);
		crc = iba_icrc_add_packet(iba_icrc_begin(&ip, length + 4), bytes, length);
		length += iba_trailer_encode(crc, 0, bytes + length);
		ip.ipv4_id = ip.ipv4_fragment = 0;
		crc = iba_icrc_begin(&ip, length);
		found = iba_icrc_ipv4_word(iba_icrc_differs(crc, bytes, length), factor);
		EXPECT_EQ(found, (i * 977 & 0xffff) << 16 | (i & 1 ? IBA_IPV4_DF : 0));
		bytes[i % 4 == 0 ? 3 : 5 + i % (length - 5)] ^= (uint8_t)(1 + i % 255);
		found = iba_icrc_ipv4_word(iba_icrc_differs(crc, bytes, length), factor) & 0xffff;
		accepted += found == 0 || found == IBA_IPV4_DF;
	}
	EXPECT(accepted <= 2); /* two values of 65536 would do */
}

/* A packet that was made for one place in a batch, and goes at another. */
TEST(test_iba_a17_icrc_follows_the_identification)
{
	const struct inet_end from = { { 10, 1, 2, 3 }, 0xc001 }, to = { { 10, 1, 2, 4 }, 4791 };
	struct iba_icrc_ip ip = { .from = &from, .to = &to, .ipv4_fragment = IBA_IPV4_DF };
	static const uint32_t lengths[] = { 16, 20, 1040, IBA_PACKET_MAX };
	static uint8_t bytes[IBA_PACKET_MAX];

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t length = lengths[i], at = length - IBA_ICRC_BYTES;

		for (uint32_t k = 0; k < at; k++)
			bytes[k] = (uint8_t)(k * 7 + i);
		ip.ipv4_id = 3;
		iba_trailer_encode(iba_icrc_add_packet(iba_icrc_begin(&ip, length), bytes, at), 0,
				   bytes + at);
		iba_icrc_renumber(bytes + at, iba_icrc_forth(length), 3, 0xa514);
		EXPECT(iba_icrc_differs(iba_icrc_begin(&ip, length), bytes, length) != 0);
		ip.ipv4_id = 0xa514;
		EXPECT_EQ(iba_icrc_differs(iba_icrc_begin(&ip, length), bytes, length), 0);
	}
}

/* Of a whole packet, at once; damaged in any one bit that counts there is mostly no such word. */
TEST(test_iba_a17_icrc_word_of_a_whole_packet)
{
	const struct inet_end from = { { 10, 0, 17, 1 }, 0 }, to = { { 10, 0, 18, 1 }, 4791 };
	struct iba_icrc_ip ip = { .from = &from, .to = &to };
	uint8_t bytes[] = "\x81\x00\xff\xff\x40\x00\x01\x18\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
			  "\x82\xfd\x00\x2a";
	uint32_t word, good = 0;

	EXPECT(iba_icrc_find_word(&ip, bytes, 32, &word));
	EXPECT_EQ(word, 0x718c4000);
	for (int bit = 0; bit < 32 * 8; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		good += iba_icrc_find_word(&ip, bytes, 32, &word);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	EXPECT(good >= 8 && good < 12); /* FECN, BECN and reserved bits do not count */
	EXPECT(!iba_icrc_find_word(&ip, bytes, 15, &word));
	EXPECT(!iba_icrc_find_word(&ip, bytes, 31, &word));
	ip.is_ipv6 = true;
	EXPECT(!iba_icrc_find_word(&ip, bytes, 32, &word));
}

TEST(test_iba_8_3_grh_there_and_back)
{
	static const uint8_t bytes[IBA_GRH_BYTES] = {
		0x6a, 0xb1, 0x23, 0x45,	    0x01,	 0x20,	      0x1b,
		0x40, 0xfe, 0x80, [23] = 7, [24] = 0xfe, [25] = 0x80, [39] = 9
	};
	uint8_t again[IBA_GRH_BYTES];
	struct iba_grh g;

	EXPECT_EQ(iba_grh_decode(&g, bytes), WEFT_OK);
	EXPECT(g.traffic_class == 0xab && g.flow_label == 0x12345 && g.payload_bytes == 0x120);
	EXPECT(g.next_header == IBA_GRH_NEXT_BTH && g.hop_limit == 64);
	EXPECT(g.from[15] == 7 && g.to[15] == 9);
	iba_grh_encode(&g, again);
	EXPECT_MEM(again, bytes, sizeof(bytes));
	again[0] = 0x45;
	EXPECT_EQ(iba_grh_decode(&g, again), WEFT_R_IB_VERSION);
}

/* The IPv4 header in the last 20 bytes; the checksum is that of the header in the vector above. */
TEST(test_iba_a17_grh_of_ipv4)
{
	struct iba_grh g = { .traffic_class = 0xc2,
			     .payload_bytes = 0x3c - 20,
			     .hop_limit = 64,
			     .next_header = IBA_GRH_NEXT_UDP };
	uint8_t bytes[IBA_GRH_BYTES], nothing[20] = { 0 };

	iba_gid_of_ipv4((const uint8_t[]){ 10, 0, 17, 1 }, g.from);
	iba_gid_of_ipv4((const uint8_t[]){ 10, 0, 18, 1 }, g.to);
	EXPECT(iba_gid_is_ipv4(g.from));
	iba_grh_encode(&g, bytes);
	EXPECT_MEM(bytes, nothing, sizeof(nothing));
	/* 9161 with an identification of 718c, so 02ee without one */
	EXPECT_MEM(
		bytes + 20,
		"\x45\xc2\x00\x3c\x00\x00\x40\x00\x40\x11\x02\xee\x0a\x00\x11\x01\x0a\x00\x12\x01",
		20);
	g.from[9] = 1;
	EXPECT(!iba_gid_is_ipv4(g.from));
	iba_grh_encode(&g, bytes);
	EXPECT_EQ(bytes[0] >> 4, 6);
	g.from[9] = 0;
	g.to[0] = 0xff;
	iba_grh_encode(&g, bytes);
	EXPECT_EQ(bytes[0] >> 4, 6);
}
