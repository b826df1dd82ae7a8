/* SPDX-License-Identifier: BSD-2-Clause */
/* CfgUtilRequest and CfgUtilReply (PUSH-09, PUSH-16h). */
#include <string.h>

#include "wire/push_parts.h"

enum {
	FLAG_LINK_UP = 1,
	FLAG_PULL = 2,
	HELLO_FLAGS = 3,
};

static const char *const kind_names[PUSH_KIND_COUNT] = {
	[PUSH_HELLO] = "hello",		  [PUSH_SET_MAC] = "set MAC",
	[PUSH_SET_MTU] = "set MTU",	  [PUSH_SET_FILTER] = "set filter",
	[PUSH_SET_OFFERS] = "set offers", [PUSH_LINK] = "link",
	[PUSH_STATISTICS] = "statistics", [PUSH_PING] = "ping",
};

const char *push_kind_name(enum push_kind kind)
{
	return (unsigned int)kind - 1 < PUSH_KIND_COUNT - 1 ? kind_names[kind] : "unknown kind";
}

static bool is_zeros(struct rd *r, size_t length)
{
	uint8_t bits = 0;

	while (length-- > 0)
		bits |= rd_u8(r);
	return bits == 0;
}

static void put_zeros(struct wr *w, size_t length)
{
	while (length-- > 0)
		wr_u8(w, 0);
}

/* Neither a group's address nor all zeros. */
static bool mac_is_good(const uint8_t mac[PUSH_MAC_BYTES])
{
	static const uint8_t none[PUSH_MAC_BYTES];

	return !(mac[0] & 1) && memcmp(mac, none, PUSH_MAC_BYTES) != 0;
}

static bool mtu_is_good(uint16_t mtu)
{
	return mtu >= PUSH_MTU_MIN && mtu <= PUSH_MTU_MAX;
}

/* All offloads need virtio-net's header. */
static bool features_are_good(uint64_t features)
{
	return !(features & ~PUSH_FEATURES) &&
	       (features == 0 || (features & PUSH_FEATURE_NET_HEADER));
}

/* ---- Decoding: each takes a body and says whether it is one that a sender writes ------------- */

static bool hello_decode(struct push_hello *h, struct rd *r)
{
	uint8_t role = rd_u8(r), mode = rd_u8(r), flags = rd_u8(r);
	bool is_zero = is_zeros(r, 1);

	h->role = (enum push_role)role;
	h->mode = (enum push_mode)mode;
	h->is_link_up = flags & FLAG_LINK_UP;
	h->is_pull = flags & FLAG_PULL;
	h->mtu = rd_u16(r);
	h->queues = rd_u16(r);
	h->features = rd_u64(r);
	rd_bytes(r, h->mac, sizeof(h->mac));
	is_zero = is_zeros(r, 2) && is_zero;
	h->pools_max = rd_u32(r);
	h->elements_max = rd_u32(r);
	h->message_bytes_max = rd_u32(r);
	return is_zero && !(flags & ~HELLO_FLAGS) && (role == PUSH_HOST || role == PUSH_UNIT) &&
	       (mode == PUSH_MODE_SEND || mode == PUSH_MODE_RDMA) && mtu_is_good(h->mtu) &&
	       h->queues > 0 && features_are_good(h->features) && mac_is_good(h->mac) &&
	       h->message_bytes_max >= PUSH_MSG_BYTES_MAX;
}

static bool mac_decode(uint8_t mac[PUSH_MAC_BYTES], struct rd *r)
{
	rd_bytes(r, mac, PUSH_MAC_BYTES);
	return is_zeros(r, 2) && mac_is_good(mac);
}

/* VLAN ids in rising order, so that there is one way to write them; groups' addresses. */
static bool filter_decode(struct push_filter *f, struct rd *r)
{
	bool is_good;

	f->flags = rd_u32(r);
	f->vlan_count = rd_u16(r);
	f->group_count = rd_u16(r);
	if (f->vlan_count > PUSH_VLANS_MAX || f->group_count > PUSH_GROUPS_MAX)
		return false;
	is_good = !(f->flags & ~(uint32_t)PUSH_FILTER_FLAGS);
	for (uint32_t i = 0; i < f->vlan_count; i++) {
		f->vlans[i] = rd_u16(r);
		is_good = is_good && f->vlans[i] > (i > 0 ? f->vlans[i - 1] : 0) &&
			  f->vlans[i] <= PUSH_VLAN_MAX;
	}
	for (uint32_t i = 0; i < f->group_count; i++) {
		rd_bytes(r, f->groups[i], PUSH_MAC_BYTES);
		is_good = is_good && (f->groups[i][0] & 1);
	}
	return is_good;
}

static bool offers_decode(struct push_offers *o, struct rd *r)
{
	o->features = rd_u64(r);
	o->queues = rd_u16(r);
	return is_zeros(r, 2) && o->queues > 0 && features_are_good(o->features);
}

static bool link_decode(struct push_link_state *s, struct rd *r)
{
	uint8_t is_up = rd_u8(r);

	s->is_up = is_up;
	s->megabits = is_zeros(r, 3) ? 0 : UINT32_MAX;
	if (s->megabits > 0 || is_up > 1)
		return false;
	s->megabits = rd_u32(r);
	return true;
}

static bool statistics_decode(struct push_statistics *s, struct rd *r)
{
	s->packets_in = rd_u64(r);
	s->bytes_in = rd_u64(r);
	s->packets_out = rd_u64(r);
	s->bytes_out = rd_u64(r);
	s->messages_in = rd_u64(r);
	s->messages_out = rd_u64(r);
	s->writes = rd_u64(r);
	s->refused = rd_u64(r);
	s->dropped = rd_u64(r);
	s->lost = rd_u64(r);
	s->waits = rd_u64(r);
	return true;
}

static bool content_decode(struct push_cfg *c, bool is_reply, struct rd *r)
{
	switch (c->kind) {
	case PUSH_HELLO:
		return hello_decode(&c->hello, r);
	case PUSH_SET_MAC:
		return mac_decode(c->mac, r);
	case PUSH_SET_MTU:
		c->mtu = rd_u16(r);
		return is_zeros(r, 2) && mtu_is_good(c->mtu);
	case PUSH_SET_FILTER:
		return filter_decode(&c->filter, r);
	case PUSH_SET_OFFERS:
		return offers_decode(&c->offers, r);
	case PUSH_LINK:
		return link_decode(&c->link, r);
	case PUSH_STATISTICS:
		return !is_reply || statistics_decode(&c->statistics, r);
	case PUSH_PING:
		c->ping.sent = rd_u64(r);
		c->ping.received = rd_u64(r);
		return true;
	case PUSH_KIND_COUNT:
		break;
	}
	return false;
}

enum weft_reason push_cfg_decode(struct push_cfg *c, bool is_reply, struct rd *r)
{
	uint16_t kind = rd_u16(r);
	bool is_good = is_zeros(r, 2);
	uint32_t size = rd_u32(r);
	struct rd content;

	c->kind = (enum push_kind)kind;
	c->reason = is_reply ? rd_u32(r) : 0;
	if (r->is_short || (size_t)(r->end - r->at) < size)
		return WEFT_R_PUSH_SHORT;
	content = rd_of(r->at, size);
	r->at += size;
	if (c->reason == 0)
		is_good = content_decode(c, is_reply, &content) && is_good;
	if (content.is_short)
		return WEFT_R_PUSH_SHORT;
	if (!is_good)
		return WEFT_R_PUSH_FORM;
	return content.at == content.end ? WEFT_OK : WEFT_R_PUSH_LENGTH;
}

/* ---- Encoding ------------------------------------------------------------------------------- */

static void hello_encode(const struct push_hello *h, struct wr *w)
{
	wr_u8(w, (uint8_t)h->role);
	wr_u8(w, (uint8_t)h->mode);
	wr_u8(w, (h->is_link_up ? FLAG_LINK_UP : 0) | (h->is_pull ? FLAG_PULL : 0));
	wr_u8(w, 0);
	wr_u16(w, h->mtu);
	wr_u16(w, h->queues);
	wr_u64(w, h->features);
	wr_bytes(w, h->mac, sizeof(h->mac));
	wr_u16(w, 0);
	wr_u32(w, h->pools_max);
	wr_u32(w, h->elements_max);
	wr_u32(w, h->message_bytes_max);
}

static void filter_encode(const struct push_filter *f, struct wr *w)
{
	wr_u32(w, f->flags);
	wr_u16(w, f->vlan_count);
	wr_u16(w, f->group_count);
	for (uint32_t i = 0; i < f->vlan_count; i++)
		wr_u16(w, f->vlans[i]);
	for (uint32_t i = 0; i < f->group_count; i++)
		wr_bytes(w, f->groups[i], PUSH_MAC_BYTES);
}

static void statistics_encode(const struct push_statistics *s, struct wr *w)
{
	const uint64_t values[] = { s->packets_in,  s->bytes_in,     s->packets_out, s->bytes_out,
				    s->messages_in, s->messages_out, s->writes,	     s->refused,
				    s->dropped,	    s->lost,	     s->waits };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		wr_u64(w, values[i]);
}

static void content_encode(const struct push_cfg *c, bool is_reply, struct wr *w)
{
	switch (c->kind) {
	case PUSH_HELLO:
		hello_encode(&c->hello, w);
		break;
	case PUSH_SET_MAC:
		wr_bytes(w, c->mac, PUSH_MAC_BYTES);
		wr_u16(w, 0);
		break;
	case PUSH_SET_MTU:
		wr_u16(w, c->mtu);
		wr_u16(w, 0);
		break;
	case PUSH_SET_FILTER:
		filter_encode(&c->filter, w);
		break;
	case PUSH_SET_OFFERS:
		wr_u64(w, c->offers.features);
		wr_u16(w, c->offers.queues);
		wr_u16(w, 0);
		break;
	case PUSH_LINK:
		wr_u8(w, c->link.is_up);
		put_zeros(w, 3);
		wr_u32(w, c->link.megabits);
		break;
	case PUSH_STATISTICS:
		if (is_reply)
			statistics_encode(&c->statistics, w);
		break;
	case PUSH_PING:
		wr_u64(w, c->ping.sent);
		wr_u64(w, c->ping.received);
		break;
	case PUSH_KIND_COUNT:
		break;
	}
}

void push_cfg_encode(const struct push_cfg *c, bool is_reply, struct wr *w)
{
	struct wr size;

	wr_u16(w, (uint16_t)c->kind);
	wr_u16(w, 0);
	size = *w;
	wr_u32(w, 0);
	if (is_reply)
		wr_u32(w, c->reason);
	if (!is_reply || c->reason == 0)
		content_encode(c, is_reply, w);
	if (!w->is_short)
		wr_u32(&size, (uint32_t)(w->at - size.at - 4 - (is_reply ? 4 : 0)));
}
