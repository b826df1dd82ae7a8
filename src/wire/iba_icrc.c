/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/iba_icrc.h"

#include <string.h>

#include "base/check.h"
#include "base/cursor.h"

enum {
	LRH_BYTES = 8, /* RoCEv2 has no such header; it counts as ones */
	UDP_BYTES = 8,
	PROTOCOL_UDP = 17,
	IPV4_VERSION_IHL = 0x45,
	IPV4_WORD_END = 8, /* of identification and fragment word */
	BTH_MASKED_AT = 4, /* FECN, BECN and reserved bits: the byte before the destination */
	MASKED = 0xff
};

/* TOS, TTL and checksum may change on the way. */
static void ipv4_put(const struct iba_icrc_ip *ip, uint32_t udp_length, struct wr *w)
{
	wr_u8(w, IPV4_VERSION_IHL);
	wr_u8(w, MASKED);
	wr_u16(w, (uint16_t)(INET_IPV4_BYTES + udp_length));
	wr_u16(w, ip->ipv4_id);
	wr_u16(w, ip->ipv4_fragment);
	wr_u8(w, MASKED);
	wr_u8(w, PROTOCOL_UDP);
	wr_u16(w, MASKED << 8 | MASKED);
	wr_bytes(w, ip->from->address, 4);
	wr_bytes(w, ip->to->address, 4);
}

/* Traffic class, flow label and hop limit may. */
static void ipv6_put(const struct iba_icrc_ip *ip, uint32_t udp_length, struct wr *w)
{
	wr_u32(w, 0x6fffffff);
	wr_u16(w, (uint16_t)udp_length);
	wr_u8(w, PROTOCOL_UDP);
	wr_u8(w, MASKED);
	wr_bytes(w, ip->from->address, 16);
	wr_bytes(w, ip->to->address, 16);
}

uint32_t iba_icrc_begin(const struct iba_icrc_ip *ip, uint32_t udp_bytes)
{
	const uint32_t after_lrh = 0xdebb20e3; /* the register behind LRH_BYTES ones */
	uint32_t udp_length = UDP_BYTES + udp_bytes;
	uint8_t bytes[INET_IPV6_BYTES + UDP_BYTES];
	struct wr w = wr_of(bytes, sizeof(bytes));

	if (ip->is_ipv6)
		ipv6_put(ip, udp_length, &w);
	else
		ipv4_put(ip, udp_length, &w);
	wr_u16(&w, ip->from->port);
	wr_u16(&w, ip->to->port);
	wr_u16(&w, (uint16_t)udp_length);
	wr_u16(&w, MASKED << 8 | MASKED); /* the checksum */
	return crc32_add(after_lrh, bytes, (size_t)(w.at - bytes));
}

uint32_t iba_icrc_add_packet(uint32_t crc, const uint8_t *bytes, size_t length)
{
	uint8_t bth[IBA_BTH_BYTES];

	CHECK(length >= sizeof(bth));
	memcpy(bth, bytes, sizeof(bth));
	bth[BTH_MASKED_AT] = MASKED;
	crc = crc32_add(crc, bth, sizeof(bth));
	return length > sizeof(bth) ? crc32_add(crc, bytes + sizeof(bth), length - sizeof(bth))
				    : crc;
}

uint32_t iba_icrc_add_whole(uint32_t crc, uint8_t *bytes, size_t length)
{
	uint8_t was;

	CHECK(length >= IBA_BTH_BYTES);
	was = bytes[BTH_MASKED_AT];
	bytes[BTH_MASKED_AT] = MASKED;
	crc = crc32_add(crc, bytes, length);
	bytes[BTH_MASKED_AT] = was;
	return crc;
}

/* The least significant byte goes first. */
uint32_t iba_trailer_encode(uint32_t crc, uint8_t pad, uint8_t bytes[IBA_TRAILER_MAX])
{
	CHECK(pad <= IBA_PAD_MAX);
	for (uint8_t i = 0; i < pad; i++)
		bytes[i] = 0;
	if (pad > 0)
		crc = crc32_add(crc, bytes, pad);
	crc = be32(__builtin_bswap32(crc32_end(crc))); /* little-endian */
	memcpy(bytes + pad, &crc, IBA_ICRC_BYTES);
	return (uint32_t)pad + IBA_ICRC_BYTES;
}

uint32_t iba_icrc_differs(uint32_t begin, const uint8_t *bytes, size_t length)
{
	uint32_t due, carried;
	struct rd r;

	CHECK(length >= IBA_BTH_BYTES + IBA_ICRC_BYTES);
	length -= IBA_ICRC_BYTES;
	due = crc32_end(iba_icrc_add_packet(begin, bytes, length));
	r = rd_of(bytes + length, IBA_ICRC_BYTES);
	carried = __builtin_bswap32(rd_u32(&r));
	return due ^ carried;
}

/* What follows the word up to the ICRC, and the word itself. */
static uint32_t word_to_icrc(uint32_t udp_bytes)
{
	const uint32_t word_to_udp_end = INET_IPV4_BYTES - IPV4_WORD_END + UDP_BYTES;

	return 4 + word_to_udp_end + udp_bytes - IBA_ICRC_BYTES;
}

uint32_t iba_icrc_factor(uint32_t udp_bytes)
{
	return crc32_back(word_to_icrc(udp_bytes));
}

/* The register takes in the first byte at its low end. */
uint32_t iba_icrc_ipv4_word(uint32_t difference, uint32_t factor)
{
	return __builtin_bswap32(crc32_times(difference, factor));
}

bool iba_icrc_find_word(const struct iba_icrc_ip *ip, const uint8_t *bytes, size_t length,
			uint32_t *word)
{
	const struct iba_icrc_ip ends = { .is_ipv6 = ip->is_ipv6, .from = ip->from, .to = ip->to };
	uint32_t begin, difference;

	*word = 0;
	if (length < IBA_BTH_BYTES + IBA_ICRC_BYTES || length % 4 != 0 || length > IBA_PACKET_MAX)
		return false;
	begin = iba_icrc_begin(&ends, (uint32_t)length);
	difference = iba_icrc_differs(begin, bytes, length);
	if (ip->is_ipv6)
		return difference == 0;
	*word = iba_icrc_ipv4_word(difference, iba_icrc_factor((uint32_t)length));
	return (*word & UINT16_MAX) == 0 || (*word & UINT16_MAX) == IBA_IPV4_DF;
}

/* Zeros come round to where they began after 2^32 - 1 bytes: forth is the rest of the way back. */
uint32_t iba_icrc_forth(uint32_t udp_bytes)
{
	return crc32_back(UINT32_MAX - word_to_icrc(udp_bytes));
}

void iba_icrc_renumber(uint8_t icrc[IBA_ICRC_BYTES], uint32_t forth, uint16_t was, uint16_t is)
{
	uint32_t word = (uint32_t)(was ^ is) << 16;
	uint32_t difference = crc32_times(__builtin_bswap32(word), forth);

	for (int i = 0; i < IBA_ICRC_BYTES; i++)
		icrc[i] ^= (uint8_t)(difference >> 8 * i);
}
