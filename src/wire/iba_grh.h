/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The global route header (IBA 8.3): 40 bytes, in the format of an IPv6 header. RoCEv2 packets
 * carry none, but a delivered datagram begins with 40 bytes in its place: the IPv6 header, or 20
 * unused bytes and the IPv4 header (annex A17). Also GIDs, which represent IP addresses.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

enum {
	IBA_GRH_BYTES = 40,
	IBA_GID_BYTES = 16,
	IBA_GRH_NEXT_BTH = 0x1b,
	IBA_GRH_NEXT_UDP = 17 /* RoCEv2 */
};

struct iba_grh {
	uint8_t traffic_class;
	uint32_t flow_label; /* 20 bits; IPv4 has none */
	uint16_t payload_bytes;
	uint8_t next_header;
	uint8_t hop_limit;
	uint8_t from[IBA_GID_BYTES], to[IBA_GID_BYTES];
};

/* An IP version other than 6 is refused. On error *g has not changed. */
enum weft_reason iba_grh_decode(struct iba_grh *g, const uint8_t bytes[IBA_GRH_BYTES]);

/* In the IPv4 form if both GIDs are IPv4 addresses, else as a GRH. */
void iba_grh_encode(const struct iba_grh *g, uint8_t bytes[IBA_GRH_BYTES]);

/* ::ffff:a.b.c.d; the address is in network byte order. */
void iba_gid_of_ipv4(const uint8_t address[4], uint8_t gid[IBA_GID_BYTES]);
bool iba_gid_is_ipv4(const uint8_t gid[IBA_GID_BYTES]);
