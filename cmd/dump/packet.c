/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/dump/packet.h"

#include <string.h>

enum {
	TYPE_IP4 = 0x0800,
	TYPE_IP6 = 0x86dd,
	TYPE_VLAN = 0x8100,
	TYPE_QINQ = 0x88a8,
	TYPE_QINQ_OLD = 0x9100,
	TAGS_MAX = 8,
	EXTENSIONS_MAX = 16,
	MAC_PAIR_BYTES = 12,
	SLL_BEFORE_TYPE = 14,
	SLL2_AFTER_TYPE = 18,
	FAMILY_IP4 = 2,
	IP4_BYTES = 20,
	IP6_BYTES = 40,
	TCP_BYTES = 20,
	UDP_BYTES = 8,
	ROCE_PORT = 4791
};

enum {
	NEXT_HOP_BY_HOP = 0,
	NEXT_TCP = 6,
	NEXT_UDP = 17,
	NEXT_ROUTING = 43,
	NEXT_FRAGMENT = 44,
	NEXT_DESTINATION = 60
};

enum {
	ERF_TIME_BYTES = 8,
	ERF_FLAGS_TO_LOST = 5,
	ERF_EXTENSION_BYTES = 8,
	ERF_MORE = 0x80,
	ERF_TYPE_MASK = 0x7f,
	ERF_TYPE_INFINIBAND = 21
};

static size_t left(const struct rd *r)
{
	return (size_t)(r->end - r->at);
}

static void skip(struct rd *r, size_t bytes)
{
	if (left(r) < bytes) {
		r->is_short = true;
		r->at = r->end;
		return;
	}
	r->at += bytes;
}

static void copy(struct rd *r, uint8_t *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = rd_u8(r);
}

/* AF_INET is 2 everywhere, AF_INET6 is not; whose machine it was is not known, nor its order. */
static uint16_t family_type(uint32_t family)
{
	if (family > UINT16_MAX)
		family = family >> 24 | (family >> 8 & 0xff00);
	switch (family) {
	case FAMILY_IP4:
		return TYPE_IP4;
	case 10: /* Linux */
	case 24: /* NetBSD, OpenBSD */
	case 28: /* FreeBSD */
	case 30: /* macOS */
		return TYPE_IP6;
	default:
		return 0;
	}
}

/* Up to the IP header; its Ethernet type, or 0. */
static uint16_t link_decode(enum packet_link link, struct rd *r)
{
	uint16_t type;

	switch (link) {
	case PACKET_ETHERNET:
		skip(r, MAC_PAIR_BYTES);
		type = rd_u16(r);
		break;
	case PACKET_SLL:
		skip(r, SLL_BEFORE_TYPE);
		type = rd_u16(r);
		break;
	case PACKET_SLL2:
		type = rd_u16(r);
		skip(r, SLL2_AFTER_TYPE);
		break;
	case PACKET_NULL:
		return family_type(rd_u32(r));
	case PACKET_IP:
	case PACKET_INFINIBAND:
	case PACKET_ERF:
	default:
		return left(r) > 0 && *r->at >> 4 == 6 ? TYPE_IP6 : TYPE_IP4;
	}
	for (int i = 0; i < TAGS_MAX; i++) {
		if (type != TYPE_VLAN && type != TYPE_QINQ && type != TYPE_QINQ_OLD)
			break;
		skip(r, 2);
		type = rd_u16(r);
	}
	return type;
}

/*
 * Makes r end where the packet does, as its header says: behind it may be padding of the link. What
 * was not captured of it is noted. 0 is written by a sender that leaves cutting to its adapter.
 */
static void bound(struct packet *p, struct rd *r, uint32_t said_bytes, uint32_t not_captured)
{
	size_t here = left(r);

	if (said_bytes == 0)
		p->lacks_bytes = not_captured;
	else if (said_bytes > here)
		p->lacks_bytes = (uint32_t)(said_bytes - here);
	else
		r->end = r->at + said_bytes;
}

static enum packet_kind ip4_decode(struct packet *p, struct rd *r, uint32_t not_captured,
				   uint8_t *next)
{
	uint8_t first = rd_u8(r);
	uint32_t header_bytes = (first & 0xf) * 4U, total, fragment;

	skip(r, 1);
	total = rd_u16(r);
	p->ipv4_word = rd_u32(r);
	fragment = p->ipv4_word & UINT16_MAX;
	skip(r, 1);
	*next = rd_u8(r);
	skip(r, 2);
	p->from.version = p->to.version = 4;
	copy(r, p->from.addr, 4);
	copy(r, p->to.addr, 4);
	if (r->is_short || first >> 4 != 4 || header_bytes < IP4_BYTES)
		return PACKET_MALFORMED;
	skip(r, header_bytes - IP4_BYTES);
	if (r->is_short || (total != 0 && total < header_bytes))
		return PACKET_MALFORMED;
	if (fragment & 0x3fff) /* more of them, or not the first */
		return PACKET_FRAGMENT;
	if (total == header_bytes)
		r->end = r->at;
	else
		bound(p, r, total == 0 ? 0 : total - header_bytes, not_captured);
	return PACKET_TCP;
}

static enum packet_kind ip6_decode(struct packet *p, struct rd *r, uint32_t not_captured,
				   uint8_t *next)
{
	uint8_t first = rd_u8(r);
	uint16_t payload;

	skip(r, 3);
	payload = rd_u16(r);
	*next = rd_u8(r);
	skip(r, 1);
	p->from.version = p->to.version = 6;
	copy(r, p->from.addr, 16);
	copy(r, p->to.addr, 16);
	if (r->is_short || first >> 4 != 6)
		return PACKET_MALFORMED;
	bound(p, r, payload, not_captured);
	for (int i = 0; i < EXTENSIONS_MAX; i++) {
		if (*next == NEXT_FRAGMENT)
			return PACKET_FRAGMENT;
		if (*next != NEXT_HOP_BY_HOP && *next != NEXT_ROUTING && *next != NEXT_DESTINATION)
			break;
		*next = rd_u8(r);
		skip(r, rd_u8(r) * 8U + 6U);
	}
	return r->is_short ? PACKET_MALFORMED : PACKET_TCP;
}

static enum packet_kind tcp_decode(struct packet *p, struct rd *r)
{
	uint32_t header_bytes;

	p->from.port = rd_u16(r);
	p->to.port = rd_u16(r);
	p->seq = rd_u32(r);
	p->ack = rd_u32(r);
	header_bytes = (rd_u8(r) >> 4) * 4U;
	p->flags = rd_u8(r);
	skip(r, 6); /* window, checksum, urgent pointer */
	if (r->is_short || header_bytes < TCP_BYTES)
		return PACKET_MALFORMED;
	skip(r, header_bytes - TCP_BYTES);
	if (r->is_short)
		return PACKET_MALFORMED;
	p->data = *r;
	return PACKET_TCP;
}

/* A length of 0, as of one that was joined, leaves it to IP. */
static enum packet_kind udp_decode(struct packet *p, struct rd *r)
{
	size_t said;

	p->from.port = rd_u16(r);
	p->to.port = rd_u16(r);
	if (p->to.port != ROCE_PORT)
		return PACKET_OTHER;
	said = rd_u16(r);
	skip(r, 2); /* checksum */
	if (r->is_short || (said != 0 && said < UDP_BYTES))
		return PACKET_MALFORMED;
	if (said != 0 && said - UDP_BYTES < left(r))
		r->end = r->at + (said - UDP_BYTES);
	p->data = *r;
	return PACKET_ROCE;
}

/* The header of a record: time, type, flags, lengths of record and frame; then the frame. */
static enum packet_kind erf_decode(struct packet *p, struct rd *r)
{
	uint8_t type, extension;
	uint32_t said_bytes;

	skip(r, ERF_TIME_BYTES);
	type = extension = rd_u8(r);
	skip(r, ERF_FLAGS_TO_LOST);
	said_bytes = rd_u16(r);
	for (int i = 0; (extension & ERF_MORE) && i < EXTENSIONS_MAX; i++) {
		extension = rd_u8(r);
		skip(r, ERF_EXTENSION_BYTES - 1);
	}
	if (r->is_short)
		return PACKET_MALFORMED;
	if ((type & ERF_TYPE_MASK) != ERF_TYPE_INFINIBAND)
		return PACKET_OTHER;
	*p = (struct packet){ .data = *r };
	if (said_bytes > left(r))
		p->lacks_bytes = said_bytes - (uint32_t)left(r);
	else
		p->data.end = p->data.at + said_bytes;
	return PACKET_FRAME;
}

enum packet_kind packet_decode(struct packet *p, enum packet_link link, struct rd frame,
			       uint32_t frame_bytes)
{
	uint32_t not_captured = frame_bytes - (uint32_t)left(&frame);
	struct packet v;
	enum packet_kind kind;
	uint8_t next = 0;
	uint16_t type;

	memset(&v, 0, sizeof(v));
	if (link == PACKET_ERF)
		return erf_decode(p, &frame);
	if (link == PACKET_INFINIBAND) {
		*p = (struct packet){ .data = frame, .lacks_bytes = not_captured };
		return PACKET_FRAME;
	}
	type = link_decode(link, &frame);
	if (frame.is_short)
		return PACKET_MALFORMED;
	if (type == TYPE_IP4)
		kind = ip4_decode(&v, &frame, not_captured, &next);
	else if (type == TYPE_IP6)
		kind = ip6_decode(&v, &frame, not_captured, &next);
	else
		return PACKET_OTHER;
	if (kind != PACKET_TCP)
		return kind;
	if (next == NEXT_UDP)
		kind = udp_decode(&v, &frame);
	else
		kind = next == NEXT_TCP ? tcp_decode(&v, &frame) : PACKET_OTHER;
	if (kind == PACKET_TCP || kind == PACKET_ROCE)
		*p = v;
	return kind;
}
