/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/inet.h"

#include <string.h>

#include "base/check.h"

enum {
	IPV4_VERSION_IHL = 0x45,
	IPV4_DONT_FRAGMENT = 0x4000,
	IPV6_VERSION = 0x60,
	HOPS = 64,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	OPTION_NOP = 1,
	OPTION_MSS = 2,
	OPTION_WINDOW_SCALE = 3
};

static uint32_t fold(uint64_t sum)
{
	/* Bound: a sum of 64 bits has at most 18 bits after three rounds, 16 after five. */
	while (sum > UINT16_MAX)
		sum = (sum >> 16) + (sum & UINT16_MAX);
	return (uint32_t)sum;
}

void inet_sum_add(struct inet_sum *s, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	bool is_odd_length = length & 1;
	uint64_t sum = 0;
	uint32_t piece;
	uint16_t last = 0;
	uint8_t in_order[2];

	/* RFC 1071 section 2 (B): summed in the host's byte order, turned round at the end. */
	for (; length >= 8; at += 8, length -= 8) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		sum += (word & UINT32_MAX) + (word >> 32);
	}
	for (; length >= 2; at += 2, length -= 2) {
		uint16_t word;

		memcpy(&word, at, sizeof(word));
		sum += word;
	}
	memcpy(&last, at, length);
	last = (uint16_t)fold(sum + last);
	memcpy(in_order, &last, sizeof(in_order));
	piece = (uint32_t)in_order[s->is_odd] << 8 | in_order[!s->is_odd];
	s->sum = fold((uint64_t)s->sum + piece);
	s->is_odd ^= is_odd_length;
}

static uint16_t sum_end(const struct inet_sum *s)
{
	return (uint16_t)~s->sum;
}

/* What the two protocols want of IP. */
struct ip {
	bool is_ipv6;
	const struct inet_end *from, *to;
	uint8_t protocol, traffic_class, hop_limit;
	uint16_t id, fragment;
	uint32_t length; /* of all that follows the header */
};

static uint32_t tcp_bytes(const struct inet_tcp *h)
{
	return h->flags & INET_TCP_SYN ? INET_TCP_SYN_BYTES : INET_TCP_BYTES;
}

static uint32_t ip_bytes(bool is_ipv6)
{
	return is_ipv6 ? INET_IPV6_BYTES : INET_IPV4_BYTES;
}

uint32_t inet_tcp_header_bytes(const struct inet_tcp *h)
{
	return ip_bytes(h->is_ipv6) + tcp_bytes(h);
}

uint32_t inet_udp_header_bytes(const struct inet_udp *h)
{
	return ip_bytes(h->is_ipv6) + INET_UDP_BYTES;
}

static void ipv4_encode(const struct ip *ip, struct wr *w)
{
	uint8_t bytes[INET_IPV4_BYTES];
	struct wr at = wr_of(bytes, sizeof(bytes));
	struct wr checksum;
	struct inet_sum sum = { 0 };

	wr_u8(&at, IPV4_VERSION_IHL);
	wr_u8(&at, ip->traffic_class);
	wr_u16(&at, (uint16_t)(sizeof(bytes) + ip->length));
	wr_u16(&at, ip->id);
	wr_u16(&at, ip->fragment);
	wr_u8(&at, ip->hop_limit);
	wr_u8(&at, ip->protocol);
	checksum = at;
	wr_u16(&at, 0);
	wr_bytes(&at, ip->from->address, 4);
	wr_bytes(&at, ip->to->address, 4);
	inet_sum_add(&sum, bytes, sizeof(bytes));
	wr_u16(&checksum, sum_end(&sum));
	wr_bytes(w, bytes, sizeof(bytes));
}

static void ipv6_encode(const struct ip *ip, struct wr *w)
{
	wr_u32(w, (uint32_t)IPV6_VERSION << 24 | (uint32_t)ip->traffic_class << 20);
	wr_u16(w, (uint16_t)ip->length);
	wr_u8(w, ip->protocol);
	wr_u8(w, ip->hop_limit);
	wr_bytes(w, ip->from->address, 16);
	wr_bytes(w, ip->to->address, 16);
}

static void ip_encode(const struct ip *ip, struct wr *w)
{
	if (ip->is_ipv6)
		ipv6_encode(ip, w);
	else
		ipv4_encode(ip, w);
}

/*
 * RFC 9293 section 3.1, RFC 768: the pseudo header, whose last two fields are wider in IPv6 with
 * nothing in the added bytes, then the header, then the payload. Both headers are of even length.
 */
static uint16_t checksum_of(const struct ip *ip, struct inet_sum payload, const uint8_t *header,
			    uint32_t header_bytes)
{
	struct inet_sum sum = payload;
	size_t address_bytes = ip->is_ipv6 ? 16 : 4;
	uint8_t tail[4];
	struct wr w = wr_of(tail, sizeof(tail));

	sum.is_odd = false;
	wr_u16(&w, ip->protocol);
	wr_u16(&w, (uint16_t)ip->length);
	inet_sum_add(&sum, ip->from->address, address_bytes);
	inet_sum_add(&sum, ip->to->address, address_bytes);
	inet_sum_add(&sum, tail, sizeof(tail));
	inet_sum_add(&sum, header, header_bytes);
	return sum_end(&sum);
}

void inet_tcp_encode(const struct inet_tcp *h, struct wr *w)
{
	uint8_t bytes[INET_TCP_SYN_BYTES];
	uint32_t length = tcp_bytes(h);
	/* RFC 6864: what is never fragmented needs no number. */
	const struct ip ip = {
		.is_ipv6 = h->is_ipv6,
		.from = h->from,
		.to = h->to,
		.protocol = PROTOCOL_TCP,
		.hop_limit = HOPS,
		.fragment = IPV4_DONT_FRAGMENT,
		.length = length + h->payload_bytes,
	};
	struct wr at = wr_of(bytes, length);
	struct wr checksum;

	CHECK(h->payload_bytes <= INET_TCP_PAYLOAD_MAX);
	wr_u16(&at, h->from->port);
	wr_u16(&at, h->to->port);
	wr_u32(&at, h->seq);
	wr_u32(&at, h->ack);
	wr_u8(&at, (uint8_t)(length / 4 << 4));
	wr_u8(&at, h->flags);
	wr_u16(&at, h->window);
	checksum = at;
	wr_u16(&at, 0);
	wr_u16(&at, 0);
	if (h->flags & INET_TCP_SYN) {
		wr_u8(&at, OPTION_MSS);
		wr_u8(&at, 4);
		wr_u16(&at, INET_TCP_PAYLOAD_MAX);
		wr_u8(&at, OPTION_NOP);
		wr_u8(&at, OPTION_WINDOW_SCALE);
		wr_u8(&at, 3);
		wr_u8(&at, INET_TCP_WINDOW_SCALE);
	}
	wr_u16(&checksum, checksum_of(&ip, h->payload, bytes, length));
	ip_encode(&ip, w);
	wr_bytes(w, bytes, length);
}

void inet_udp_encode(const struct inet_udp *h, struct wr *w)
{
	uint8_t bytes[INET_UDP_BYTES];
	const struct ip ip = {
		.is_ipv6 = h->is_ipv6,
		.from = h->from,
		.to = h->to,
		.protocol = PROTOCOL_UDP,
		.traffic_class = h->traffic_class,
		.hop_limit = h->hop_limit,
		.id = h->ipv4_id,
		.fragment = h->ipv4_fragment,
		.length = INET_UDP_BYTES + h->payload_bytes,
	};
	struct wr at = wr_of(bytes, sizeof(bytes));
	struct wr checksum;
	uint16_t sum;

	CHECK(h->payload_bytes <= INET_UDP_PAYLOAD_MAX);
	wr_u16(&at, h->from->port);
	wr_u16(&at, h->to->port);
	wr_u16(&at, (uint16_t)ip.length);
	checksum = at;
	wr_u16(&at, 0);
	sum = checksum_of(&ip, h->payload, bytes, sizeof(bytes));
	wr_u16(&checksum, sum ? sum : UINT16_MAX); /* RFC 768: 0 says that there is none */
	ip_encode(&ip, w);
	wr_bytes(w, bytes, sizeof(bytes));
}
