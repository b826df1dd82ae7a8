/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293) and UDP (RFC 768) headers with their checksums,
 * as written to a capture. Only encoders: received data comes through sockets, without headers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cursor.h"

enum {
	INET_IPV4_BYTES = 20,
	INET_IPV6_BYTES = 40,
	INET_TCP_BYTES = 20,
	INET_TCP_SYN_BYTES = 28, /* with the options of a SYN */
	INET_UDP_BYTES = 8,
	INET_HEADERS_MAX = INET_IPV6_BYTES + INET_TCP_SYN_BYTES,
	/* Payload of the largest IPv4 packet. The first is also the MSS of Linux's loopback. */
	INET_TCP_PAYLOAD_MAX = 65535 - INET_IPV4_BYTES - INET_TCP_BYTES,
	INET_UDP_PAYLOAD_MAX = 65535 - INET_IPV4_BYTES - INET_UDP_BYTES
};

enum inet_tcp_flag {
	INET_TCP_FIN = 0x01,
	INET_TCP_SYN = 0x02,
	INET_TCP_RST = 0x04,
	INET_TCP_PSH = 0x08,
	INET_TCP_ACK = 0x10
};

/* The Internet checksum (RFC 1071) over pieces. Initialize with zero. */
struct inet_sum {
	uint32_t sum;
	bool is_odd; /* an odd number of bytes so far: the next one is the low half of a word */
};

void inet_sum_add(struct inet_sum *s, const void *bytes, size_t length);

struct inet_end {
	uint8_t address[16]; /* of an IPv4 address the first 4 */
	uint16_t port;
};

/* Of fixed lengths, which need no call: it is asked of every packet. */
static inline bool inet_is_same_address(bool is_ipv6, const uint8_t *a, const uint8_t *b)
{
	return is_ipv6 ? memcmp(a, b, 16) == 0 : memcmp(a, b, 4) == 0;
}

struct inet_tcp {
	bool is_ipv6;
	const struct inet_end *from, *to;
	uint32_t seq, ack;
	uint8_t flags; /* enum inet_tcp_flag; a SYN carries the options of RFC 7323, see window */
	uint16_t window;
	uint32_t payload_bytes;	 /* at most INET_TCP_PAYLOAD_MAX */
	struct inet_sum payload; /* of all of it */
};

/* The scale that a SYN announces: a window of 65535 then means almost 2^30 bytes. */
enum { INET_TCP_WINDOW_SCALE = 14 };

/* IP and TCP header together. */
uint32_t inet_tcp_header_bytes(const struct inet_tcp *h);
void inet_tcp_encode(const struct inet_tcp *h, struct wr *w);

struct inet_udp {
	bool is_ipv6;
	const struct inet_end *from, *to;
	uint8_t traffic_class, hop_limit;
	uint16_t ipv4_id, ipv4_fragment; /* fragment: flags and offset */
	uint32_t payload_bytes;		 /* at most INET_UDP_PAYLOAD_MAX */
	struct inet_sum payload;	 /* of all of it */
};

/* IP and UDP header together. */
uint32_t inet_udp_header_bytes(const struct inet_udp *h);
void inet_udp_encode(const struct inet_udp *h, struct wr *w);
