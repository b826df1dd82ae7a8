/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBA 7.8.1 and annex A17): CRC-32 over the IP and UDP headers and
 * the packet, where what a network may change on the way counts as ones. To send:
 *
 *	crc = iba_icrc_begin(&ip, iba_packet_bytes(opcode, payload_bytes));
 *	crc = iba_icrc_add_packet(crc, headers, header_bytes);
 *	crc = crc32_add(crc, payload, payload_bytes);	 once for each piece
 *	n = iba_trailer_encode(crc, pad, trailer);
 *
 * The first step depends on addresses and length only; its result may be kept for packets to come.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crc.h"
#include "wire/iba.h"
#include "wire/inet.h"

enum { IBA_IPV4_DF = 0x4000 };

/* What counts of IP and UDP. Either address may be IPv4, then both are. */
struct iba_icrc_ip {
	bool is_ipv6;
	const struct inet_end *from, *to;
	uint16_t ipv4_id;
	uint16_t ipv4_fragment; /* flags and offset: IBA_IPV4_DF, or 0 */
};

/* The register behind the UDP header of a datagram with this many bytes of UDP payload. */
uint32_t iba_icrc_begin(const struct iba_icrc_ip *ip, uint32_t udp_bytes);

/* Goes on over the BTH and what follows it at the same place. length: not less than the BTH. */
uint32_t iba_icrc_add_packet(uint32_t crc, const uint8_t *bytes, size_t length);

/* Padding and ICRC, from the register behind the payload. Returns pad + IBA_ICRC_BYTES. */
uint32_t iba_trailer_encode(uint32_t crc, uint8_t pad, uint8_t bytes[IBA_TRAILER_MAX]);

/*
 * The difference (XOR) of the ICRC that a whole UDP payload carries from the one it should carry:
 * 0 if it is good. length: not less than a BTH and an ICRC.
 */
uint32_t iba_icrc_differs(uint32_t begin, const uint8_t *bytes, size_t length);

/*
 * The sockets of a user do not tell the identification of an IPv4 packet, and the ICRC covers it.
 * But it is known where it stands, and a difference in these 32 bits, identification and fragment
 * word, makes a difference in the ICRC that no other value of them makes. So a packet that was
 * begun with both as 0 is good if what is found here has a fragment word that may be, 0 or
 * IBA_IPV4_DF. Of 65536 damaged packets two pass.
 *
 * The first gives a factor that depends on the length only and is dear, so keep it; the second the
 * identification << 16 | the fragment word.
 */
uint32_t iba_icrc_factor(uint32_t udp_bytes);
uint32_t iba_icrc_ipv4_word(uint32_t difference, uint32_t factor);

/*
 * The two together, for those who look seldom: what a whole IPv4 packet must have there for its
 * ICRC to be good, of *ip the addresses alone; of IPv6 nothing. False: it cannot be good.
 */
bool iba_icrc_find_word(const struct iba_icrc_ip *ip, const uint8_t *bytes, size_t length,
			uint32_t *word);

/*
 * A packet that was made for one identification and is sent with another: its ICRC, four bytes at
 * their place, is changed to fit. The factor depends on the length only and is dear, so keep it.
 */
uint32_t iba_icrc_forth(uint32_t udp_bytes);
void iba_icrc_renumber(uint8_t icrc[IBA_ICRC_BYTES], uint32_t forth, uint16_t was, uint16_t is);
