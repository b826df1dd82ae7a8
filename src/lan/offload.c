/* SPDX-License-Identifier: BSD-2-Clause */
#include "lan/offload.h"

#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "wire/inet.h"

enum {
	TYPE_AT = 12, /* of the EtherType */
	TYPE_BYTES = 2,
	TYPE_IPV4 = 0x0800,
	TYPE_IPV6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_VLAN_SERVICE = 0x88a8,
	VLANS_MAX = 2,
	EXTENSIONS_MAX = 8,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	EXT_HOP = 0,
	EXT_ROUTING = 43,
	EXT_DESTINATION = 60,
	TCP_SEQ = 4,
	TCP_DATA = 12,
	TCP_FLAGS = 13,
	TCP_CHECKSUM = 16,
	TCP_CWR = 0x80,
	UDP_LENGTH = 4,
	UDP_CHECKSUM = 6,
	IPV4_LENGTH = 2,
	IPV4_ID = 4,
	IPV4_FRAGMENT = 6,
	IPV4_PROTOCOL = 9,
	IPV4_CHECKSUM = 10,
	IPV4_FROM = 12,
	IPV4_ENDS = 8, /* of both addresses */
	IPV6_LENGTH = 4,
	IPV6_NEXT = 6,
	IPV6_FROM = 8,
	IPV6_ENDS = 32,
	PORTS_BYTES = 4,
	MORE_AND_OFFSET = 0x3fff,
};

static uint16_t get16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint16_t sum_end(const struct inet_sum *s)
{
	return (uint16_t)~s->sum;
}

/* RFC 768: a checksum that computes to zero is sent as all ones; for TCP the same is equal. */
static void put_checksum(uint8_t *at, const struct inet_sum *s)
{
	put16(at, sum_end(s) == 0 ? UINT16_MAX : sum_end(s));
}

void lan_checksum(struct lan_frame *f)
{
	struct virtio_net *n = &f->net;
	struct inet_sum sum = { 0 };

	/* Its field holds the sum of the pseudo header. */
	inet_sum_add(&sum, f->bytes + n->csum_start, f->length - n->csum_start);
	put_checksum(f->bytes + n->csum_start + n->csum_offset, &sum);
	n->flags &= (uint8_t)~VIRTIO_NET_NEEDS_CSUM;
	n->csum_start = n->csum_offset = 0;
}

/* The EtherType of what the frame carries, and where that begins. */
static uint16_t carried_type(const struct lan_frame *f, uint32_t *at)
{
	uint16_t type = get16(f->bytes + TYPE_AT);

	*at = LAN_HEADER_BYTES;
	for (int i = 0; i < VLANS_MAX && (type == TYPE_VLAN || type == TYPE_VLAN_SERVICE); i++) {
		if (*at + LAN_VLAN_BYTES > f->length)
			return 0;
		type = get16(f->bytes + *at + TYPE_BYTES);
		*at += LAN_VLAN_BYTES;
	}
	return type;
}

/* Where TCP or UDP begins; 0: not there. A fragment cannot be cut. */
static uint32_t ipv4_l4(const struct lan_frame *f, uint32_t ip, uint8_t protocol)
{
	const uint8_t *h = f->bytes + ip;
	uint32_t bytes;

	if (f->length - ip < INET_IPV4_BYTES || h[0] >> 4 != 4)
		return 0;
	bytes = (h[0] & 15U) * 4;
	if (bytes < INET_IPV4_BYTES || bytes > f->length - ip || h[IPV4_PROTOCOL] != protocol ||
	    get16(h + IPV4_FRAGMENT) & MORE_AND_OFFSET)
		return 0;
	return ip + bytes;
}

static uint32_t ipv6_l4(const struct lan_frame *f, uint32_t ip, uint8_t protocol)
{
	uint32_t at = ip + INET_IPV6_BYTES;
	uint8_t next;

	if (f->length - ip < INET_IPV6_BYTES || f->bytes[ip] >> 4 != 6)
		return 0;
	next = f->bytes[ip + IPV6_NEXT];
	for (int i = 0; i < EXTENSIONS_MAX && next != protocol; i++) {
		if (next != EXT_HOP && next != EXT_ROUTING && next != EXT_DESTINATION)
			return 0;
		if (f->length - at < 8)
			return 0;
		next = f->bytes[at];
		at += 8 + 8U * f->bytes[at + 1];
		if (at > f->length)
			return 0;
	}
	return next == protocol ? at : 0;
}

static uint32_t l4_of(const struct lan_frame *f, uint16_t type, uint32_t ip, uint8_t protocol)
{
	return type == TYPE_IPV6 ? ipv6_l4(f, ip, protocol) : ipv4_l4(f, ip, protocol);
}

/* FNV-1a. */
static uint32_t hash_more(uint32_t hash, const uint8_t *bytes, uint32_t length)
{
	enum { PRIME = 0x01000193 };

	for (uint32_t i = 0; i < length; i++)
		hash = (hash ^ bytes[i]) * PRIME;
	return hash;
}

/* Of the ports, if it has some. */
static uint32_t hash_ports(uint32_t hash, const struct lan_frame *f, uint16_t type, uint32_t ip)
{
	uint32_t l4 = l4_of(f, type, ip, PROTOCOL_TCP);

	if (l4 == 0)
		l4 = l4_of(f, type, ip, PROTOCOL_UDP);
	if (l4 == 0 || f->length - l4 < PORTS_BYTES)
		return hash;
	return hash_more(hash, f->bytes + l4, PORTS_BYTES);
}

uint32_t lan_flow(const struct lan_frame *f)
{
	const uint32_t basis = 0x811c9dc5;
	uint32_t there = f->length - f->rest_length, hash, ip;
	struct lan_frame head = { .bytes = f->bytes,
				  .length = there < LAN_HEADERS_MAX ? there : LAN_HEADERS_MAX };
	uint16_t type = carried_type(&head, &ip);

	if (type == TYPE_IPV4 && head.length - ip >= INET_IPV4_BYTES)
		hash = hash_more(basis, f->bytes + ip + IPV4_FROM, IPV4_ENDS);
	else if (type == TYPE_IPV6 && head.length - ip >= INET_IPV6_BYTES)
		hash = hash_more(basis, f->bytes + ip + IPV6_FROM, IPV6_ENDS);
	else
		return hash_more(basis, f->bytes, 2 * LAN_MAC_BYTES);
	hash = hash_ports(hash, &head, type, ip);
	/* Its low bits would come from the low bits of bytes alone. */
	return hash ^ hash >> 16;
}

/* Where the payload begins behind the header of TCP or UDP; 0: not there. */
static uint32_t payload_of(const struct lan_frame *f, const struct lan_cut *c)
{
	uint32_t bytes = INET_UDP_BYTES;

	if (f->length - c->l4 < (c->is_tcp ? INET_TCP_BYTES : INET_UDP_BYTES))
		return 0;
	if (c->is_tcp)
		bytes = (uint32_t)(f->bytes[c->l4 + TCP_DATA] >> 4) * 4;
	if ((c->is_tcp && bytes < INET_TCP_BYTES) || bytes > f->length - c->l4)
		return 0;
	return c->l4 + bytes;
}

enum weft_reason lan_cut_begin(struct lan_cut *c, const struct lan_frame *f)
{
	uint8_t kind = f->net.gso_type & (uint8_t)~VIRTIO_NET_GSO_ECN;
	struct lan_cut v = { .bytes = f->bytes, .length = f->length, .size = f->net.gso_size };
	uint16_t type = carried_type(f, &v.ip);
	uint8_t protocol = kind == VIRTIO_NET_GSO_UDP_L4 ? PROTOCOL_UDP : PROTOCOL_TCP;

	v.is_tcp = protocol == PROTOCOL_TCP;
	v.is_ecn = f->net.gso_type & VIRTIO_NET_GSO_ECN;
	v.is_ipv6 = type == TYPE_IPV6;
	if ((type != TYPE_IPV4 && type != TYPE_IPV6) ||
	    (v.is_tcp && v.is_ipv6 != (kind == VIRTIO_NET_GSO_TCPV6)))
		return WEFT_R_LAN_OFFLOAD;
	v.l4 = l4_of(f, type, v.ip, protocol);
	if (v.l4 == 0)
		return WEFT_R_LAN_OFFLOAD;
	v.payload = payload_of(f, &v);
	if (v.payload == 0 || v.payload > LAN_HEADERS_MAX)
		return WEFT_R_LAN_OFFLOAD;
	/* The checksum that is left to us must be the one of this header. */
	if (f->net.csum_start != v.l4 ||
	    f->net.csum_offset != (v.is_tcp ? TCP_CHECKSUM : UDP_CHECKSUM))
		return WEFT_R_LAN_OFFLOAD;
	if ((f->length - v.payload) / v.size >= LAN_SEGMENTS_MAX)
		return WEFT_R_LAN_OFFLOAD;
	v.at = v.payload;
	*c = v;
	return WEFT_OK;
}

static uint32_t piece_bytes(const struct lan_cut *c)
{
	uint32_t left = c->length - c->at;

	return left < c->size ? left : c->size;
}

uint32_t lan_cut_want(const struct lan_cut *c)
{
	/* Without payload it is one segment. */
	if (c->at == c->length && c->index > 0)
		return 0;
	return c->payload + piece_bytes(c);
}

static void end_ip(const struct lan_cut *c, uint8_t *to, uint32_t length)
{
	uint8_t *h = to + c->ip;
	struct inet_sum sum = { 0 };

	if (c->is_ipv6) {
		put16(h + IPV6_LENGTH, length - c->ip - INET_IPV6_BYTES);
		return;
	}
	put16(h + IPV4_LENGTH, length - c->ip);
	put16(h + IPV4_ID, get16(h + IPV4_ID) + c->index);
	put16(h + IPV4_CHECKSUM, 0);
	inet_sum_add(&sum, h, c->l4 - c->ip);
	put16(h + IPV4_CHECKSUM, sum_end(&sum));
}

/* FIN and PSH are the last one's, CWR the first one's (RFC 3168 section 6.1.2). */
static void end_tcp(const struct lan_cut *c, uint8_t *h, bool is_last)
{
	struct rd r = rd_of(h + TCP_SEQ, sizeof(uint32_t));
	uint32_t seq = rd_u32(&r) + (c->at - c->payload);
	struct wr w = wr_of(h + TCP_SEQ, sizeof(uint32_t));

	wr_u32(&w, seq);
	if (!is_last)
		h[TCP_FLAGS] &= (uint8_t) ~(INET_TCP_FIN | INET_TCP_PSH);
	if (c->is_ecn && c->index > 0)
		h[TCP_FLAGS] &= (uint8_t)~TCP_CWR;
}

/*
 * The field has the sum of the pseudo header, with the length of the whole: that is replaced. Its
 * addresses are not summed anew, as behind a routing header the last one is not the header's (RFC
 * 8200 section 8.1).
 */
static void end_l4(const struct lan_cut *c, uint8_t *to, uint32_t length)
{
	uint8_t *checksum = to + c->l4 + (c->is_tcp ? TCP_CHECKSUM : UDP_CHECKSUM);
	uint8_t lengths[4];
	struct inet_sum sum = { 0 };

	if (!c->is_tcp)
		put16(to + c->l4 + UDP_LENGTH, length - c->l4);
	put16(lengths, ~(c->length - c->l4));
	put16(lengths + 2, length - c->l4);
	inet_sum_add(&sum, lengths, sizeof(lengths));
	inet_sum_add(&sum, to + c->l4, length - c->l4);
	put_checksum(checksum, &sum);
}

void lan_cut_next(struct lan_cut *c, uint8_t *to)
{
	uint32_t bytes = piece_bytes(c), length = c->payload + bytes;

	CHECK(lan_cut_want(c) == length);
	memcpy(to, c->bytes, c->payload);
	memcpy(to + c->payload, c->bytes + c->at, bytes);
	end_ip(c, to, length);
	if (c->is_tcp)
		end_tcp(c, to + c->l4, c->at + bytes == c->length);
	end_l4(c, to, length);
	c->at += bytes;
	c->index++;
}
