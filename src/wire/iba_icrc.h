/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCEv2 (IBA 7.8.1 and annex A17): CRC-32 over the IP and UDP headers and
 * the packet, with all fields that the network may change replaced by ones. To send:
 *
 *	crc = iba_icrc_begin(&ip, iba_packet_bytes(opcode, payload_bytes));
 *	crc = iba_icrc_add_packet(crc, headers, header_bytes);
 *	crc = crc32_add(crc, payload, payload_bytes);	 once for each piece
 *	n = iba_trailer_encode(crc, pad, trailer);
 *
 * The first step depends only on addresses and length; its result may be kept for later packets.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/crc.h"
#include "wire/iba.h"
#include "wire/inet.h"

enum { IBA_IPV4_DF = 0x4000 };

/* The fields of IP and UDP that the ICRC covers. Both addresses are of one IP version. */
struct iba_icrc_ip {
	bool is_ipv6;
	const struct inet_end *from, *to;
	uint16_t ipv4_id;
	uint16_t ipv4_fragment; /* flags and offset: IBA_IPV4_DF, or 0 */
};

/* The CRC register after the UDP header of a datagram with so many bytes of UDP payload. */
uint32_t iba_icrc_begin(const struct iba_icrc_ip *ip, uint32_t udp_bytes);

/* Adds the BTH and the bytes after it. length: at least that of the BTH. */
uint32_t iba_icrc_add_packet(uint32_t crc, const uint8_t *bytes, size_t length);

/* The same of a packet of our own: faster, as its masked bits are set for the time of the call. */
uint32_t iba_icrc_add_whole(uint32_t crc, uint8_t *bytes, size_t length);

/* Padding and ICRC, from the register after the payload. Returns pad + IBA_ICRC_BYTES. */
uint32_t iba_trailer_encode(uint32_t crc, uint8_t pad, uint8_t bytes[IBA_TRAILER_MAX]);

/*
 * The XOR of the ICRC in a complete UDP payload and the correct one: 0 if it is valid. length: at
 * least a BTH and an ICRC.
 */
uint32_t iba_icrc_differs(uint32_t begin, const uint8_t *bytes, size_t length);

/*
 * The ICRC covers the IPv4 identification, which sockets do not report to an unprivileged user. But
 * every value of these 32 bits, identification and fragment word, changes the ICRC in a unique way,
 * so the values can be computed from the ICRC's difference to one begun with both as 0. The packet
 * is valid if the computed fragment word is possible: 0 or IBA_IPV4_DF. Of 65536 damaged packets
 * two pass.
 *
 * The first function returns a factor that depends only on the length and is expensive, so keep it;
 * the second returns identification << 16 | fragment word.
 */
uint32_t iba_icrc_factor(uint32_t udp_bytes);
uint32_t iba_icrc_ipv4_word(uint32_t difference, uint32_t factor);

/*
 * Both together, for occasional use: computes the word of a complete IPv4 packet for which its ICRC
 * is valid. Only the addresses of *ip are used. IPv6 has no such word. False: the ICRC is invalid.
 */
bool iba_icrc_find_word(const struct iba_icrc_ip *ip, const uint8_t *bytes, size_t length,
			uint32_t *word);

/*
 * Adjusts the four bytes of the ICRC of a packet that was built for one identification and is sent
 * with another. The factor depends only on the length and is expensive, so keep it.
 */
uint32_t iba_icrc_forth(uint32_t udp_bytes);
void iba_icrc_renumber(uint8_t icrc[IBA_ICRC_BYTES], uint32_t forth, uint16_t was, uint16_t is);
