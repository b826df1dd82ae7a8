/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two ends of a card say of themselves (PUSH-09, PUSH-16h). The unit decides: which MAC
 * address the host has, how long frames are, which frames of the LAN the host gets. The host's
 * interface follows: its address, its length, and whether its link is up.
 */
#include <string.h>

#include "base/check.h"
#include "roles/card_inside.h"

/* Of its port; if that has what the unit before gave it, what it had until then. */
static uint32_t own_mtu(const struct card *c)
{
	uint32_t port = lan_properties(c->port)->mtu;

	return port == c->mtu_given ? c->mtu_own : port;
}

static uint16_t mtu_of(const struct card *c)
{
	uint32_t port = own_mtu(c);
	uint16_t most = c->file->config->mtu;

	return port != 0 && port < most ? (uint16_t)port : most;
}

/* Every port takes every frame: what it cannot leave to others it does itself (driver/lan). */
static uint64_t features_of(const struct card *c)
{
	return c->file->config->is_plain ? 0 : PUSH_FEATURES;
}

/* Of a port that knows none: no other host of the unit has this platform. */
static void mac_made(struct platform of, uint8_t mac[PUSH_MAC_BYTES])
{
	const uint8_t made[PUSH_MAC_BYTES] = { 0x02,
					       0x77,
					       (uint8_t)(of.unit >> 8),
					       (uint8_t)of.unit,
					       (uint8_t)(of.process >> 8),
					       (uint8_t)of.process };

	memcpy(mac, made, PUSH_MAC_BYTES);
}

void card_hello(const struct card *c, struct push_hello *hello)
{
	const struct lan_properties *is = lan_properties(c->port);

	hello->role = c->is_unit ? PUSH_UNIT : PUSH_HOST;
	hello->mode = c->file->config->mode;
	hello->is_link_up = is->is_up;
	hello->mtu = mtu_of(c);
	hello->queues = 1;
	hello->features = features_of(c);
	hello->is_pull = c->file->config->is_pull;
	if (is->has_mac && !c->is_unit)
		memcpy(hello->mac, is->mac, PUSH_MAC_BYTES);
	else
		mac_made(c->file->config->self, hello->mac);
	hello->pools_max = CARD_POOLS;
	hello->elements_max = 4096;
	hello->message_bytes_max = PUSH_MSG_BYTES_MAX;
}

/* ---- Unit ----------------------------------------------------------------------------------- */

/* The file keeps the address for another host, whether that is here or not. */
static bool is_kept(const struct card_end *e, const uint8_t mac[PUSH_MAC_BYTES])
{
	const struct card_config *c = e->card->file->config;

	for (uint32_t i = 0; i < c->peer_count; i++) {
		if (i != e->peer && c->peers[i].has_mac &&
		    memcmp(c->peers[i].mac, mac, PUSH_MAC_BYTES) == 0)
			return true;
	}
	return false;
}

static enum weft_reason take_hello(struct card_end *e, struct push_cfg *answer)
{
	struct card *c = e->card;
	const struct card_peer *p = &c->file->config->peers[e->peer];
	const struct push_hello asked = answer->hello;

	card_hello(c, &answer->hello);
	answer->hello.features &= asked.features;
	if (asked.mtu < answer->hello.mtu)
		answer->hello.mtu = asked.mtu;
	memcpy(answer->hello.mac, p->has_mac ? p->mac : asked.mac, PUSH_MAC_BYTES);
	if (is_kept(e, answer->hello.mac))
		return WEFT_R_PUSH_OFFER;
	/* Nothing is left of a connection before this one. */
	push_lan_leave(c->lan, e->peer);
	return push_lan_host(c->lan, e->peer, answer->hello.mac);
}

static enum weft_reason take_mac(struct card_end *e, const uint8_t mac[PUSH_MAC_BYTES])
{
	const struct card_peer *p = &e->card->file->config->peers[e->peer];

	if ((p->has_mac && memcmp(p->mac, mac, PUSH_MAC_BYTES) != 0) || is_kept(e, mac))
		return WEFT_R_PUSH_FOREIGN;
	return push_lan_host(e->card->lan, e->peer, mac);
}

static enum weft_reason unit_take(struct card_end *e, struct push_cfg *answer)
{
	switch (answer->kind) {
	case PUSH_HELLO:
		return take_hello(e, answer);
	case PUSH_SET_MAC:
		return take_mac(e, answer->mac);
	case PUSH_SET_MTU:
		return answer->mtu <= mtu_of(e->card) ? WEFT_OK : WEFT_R_PUSH_OFFER;
	case PUSH_SET_FILTER:
		push_lan_filter(e->card->lan, e->peer, &answer->filter);
		return WEFT_OK;
	case PUSH_SET_OFFERS:
		return (answer->offers.features & ~features_of(e->card)) == 0 &&
				       answer->offers.queues == 1
			       ? WEFT_OK
			       : WEFT_R_PUSH_OFFER;
	default:
		return WEFT_R_PUSH_UNEXPECTED;
	}
}

/* ---- Host ----------------------------------------------------------------------------------- */

static enum weft_reason host_take(struct card_end *e, const struct push_cfg *cfg)
{
	if (cfg->kind != PUSH_LINK)
		return WEFT_R_PUSH_UNEXPECTED;
	(void)lan_set_link(e->card->port, cfg->link.is_up);
	card_tell(e->card, CARD_LINE_REQUEST, "the LAN is %s", cfg->link.is_up ? "up" : "down");
	return WEFT_OK;
}

/* ---- Both ----------------------------------------------------------------------------------- */

void card_asked(struct card_end *e, const struct push_cfg *cfg)
{
	struct push_cfg answer = *cfg;
	char text[WEFT_ADDRESS_TEXT];

	answer.reason = e->card->is_unit ? unit_take(e, &answer) : host_take(e, &answer);
	if (answer.reason != WEFT_OK) {
		e->card->counts.refused_requests++;
		card_tell(e->card, CARD_LINE_REQUEST, "%s asked for %s: refused: %s",
			  card_end_name(e, text), push_kind_name(cfg->kind),
			  weft_reason_text(answer.reason));
	}
	push_answer(e->link, &answer);
}

/*
 * Host: its interface has what the unit gives. One that this user may not set keeps what it has,
 * and then no frame passes.
 */
static void interface_set(struct card *c, const struct push_agreed *a)
{
	const struct lan_properties *is = lan_properties(c->port);
	enum weft_reason mac = WEFT_OK, mtu = WEFT_OK;

	if (!is->has_mac || memcmp(is->mac, a->mac, PUSH_MAC_BYTES) != 0)
		mac = lan_set_mac(c->port, a->mac);
	if (is->mtu != a->mtu) {
		c->mtu_own = own_mtu(c);
		mtu = lan_set_mtu(c->port, a->mtu);
		c->mtu_given = a->mtu;
	}
	if (mac != WEFT_OK && mac != WEFT_R_LAN_UNSUPPORTED)
		card_tell(c, CARD_LINE_PORT, "%s cannot have this MAC address: %s",
			  c->file->config->port.is, weft_reason_text(mac));
	if (mtu != WEFT_OK)
		card_tell(c, CARD_LINE_PORT, "%s cannot have this MTU: %s",
			  c->file->config->port.is, weft_reason_text(mtu));
}

void card_opened(struct card_end *e)
{
	struct card *c = e->card;
	const struct push_agreed *a = push_agreed(e->link);
	char text[WEFT_ADDRESS_TEXT];

	card_tell(c, CARD_LINE_LINK,
		  "%s is connected, by %s%s: MAC address %02x:%02x:%02x:%02x:%02x:%02x, MTU %u%s",
		  card_end_name(e, text), e->rdma.wire == RDMA_ROCE ? "RoCE" : "iWARP",
		  card_is_send_mode(c) ? " in Send mode" : "", a->mac[0], a->mac[1], a->mac[2],
		  a->mac[3], a->mac[4], a->mac[5], a->mtu,
		  a->features & PUSH_FEATURE_NET_HEADER ? ", offload" : "");
	if (c->is_unit) {
		e->to_say = CARD_SAY_LINK;
		return;
	}
	interface_set(c, a); /* the unit knows both */
	(void)lan_set_link(c->port, a->is_link_up);
	card_port_news(c);
	e->to_say = CARD_SAY_FILTER; /* the rest the unit knows */
}

/* The host is here by another connection, which was up before this one was over. */
static bool is_replaced(const struct card_end *e)
{
	struct card_end *other = NULL;

	while ((other = card_end_next(e->card, other)) != NULL) {
		if (other != e && other->state == CARD_UP && other->peer == e->peer)
			return true;
	}
	return false;
}

void card_closed(struct card_end *e)
{
	if (!e->card->is_unit)
		(void)lan_set_link(e->card->port, false);
	else if (!is_replaced(e))
		push_lan_leave(e->card->lan, e->peer);
}

void card_port_news(struct card *c)
{
	const struct lan_properties *is = lan_properties(c->port);
	uint32_t news = lan_news(c->port), say = 0;
	struct card_end *e = NULL;

	if (news == 0)
		return;
	if (news & (LAN_NEWS_ROOM | LAN_NEWS_LINK))
		card_port_has_room(c);
	if (news & LAN_NEWS_LINK)
		card_tell(c, CARD_LINE_PORT, "%s: link %s%s%s", c->file->config->port.is,
			  is->is_up ? "up" : "down", is->is_up ? "" : ": ",
			  is->is_up ? "" : weft_reason_text(is->why));
	if (c->is_unit) {
		say = news & LAN_NEWS_LINK ? CARD_SAY_LINK : 0;
	} else {
		say |= news & LAN_NEWS_MAC ? CARD_SAY_MAC : 0;
		say |= news & LAN_NEWS_MTU ? CARD_SAY_MTU : 0;
		say |= news & LAN_NEWS_FILTERS ? CARD_SAY_FILTER : 0;
	}
	while ((e = card_end_next(c, e)) != NULL)
		e->to_say |= say;
}

static void filter_of(const struct lan_filters *from, struct push_filter *to)
{
	_Static_assert(sizeof(from->multicast) == sizeof(to->groups) &&
			       sizeof(from->vlans) == sizeof(to->vlans),
		       "one limit");
	*to = (struct push_filter){ .vlan_count = from->vlan_count,
				    .group_count = from->multicast_count };
	to->flags |= from->is_promiscuous ? PUSH_FILTER_PROMISCUOUS : 0;
	to->flags |= from->is_all_multicast ? PUSH_FILTER_ALL_GROUPS : 0;
	to->flags |= from->vlan_count == 0 ? PUSH_FILTER_ALL_VLANS : 0;
	memcpy(to->groups, from->multicast, sizeof(to->groups));
	memcpy(to->vlans, from->vlans, sizeof(to->vlans));
}

static struct push_cfg next_word(struct card_end *e)
{
	const struct lan_properties *is = lan_properties(e->card->port);
	struct push_cfg cfg = { 0 };

	if (e->to_say & CARD_SAY_MAC) {
		cfg.kind = PUSH_SET_MAC;
		memcpy(cfg.mac, is->mac, PUSH_MAC_BYTES);
		e->to_say &= ~(uint32_t)CARD_SAY_MAC;
	} else if (e->to_say & CARD_SAY_MTU) {
		cfg.kind = PUSH_SET_MTU;
		cfg.mtu = mtu_of(e->card);
		e->to_say &= ~(uint32_t)CARD_SAY_MTU;
	} else if (e->to_say & CARD_SAY_FILTER) {
		cfg.kind = PUSH_SET_FILTER;
		filter_of(&is->filters, &cfg.filter);
		e->to_say &= ~(uint32_t)CARD_SAY_FILTER;
	} else if (e->to_say & CARD_SAY_LINK) {
		cfg.kind = PUSH_LINK;
		cfg.link.is_up = is->is_up;
		e->to_say &= ~(uint32_t)CARD_SAY_LINK;
	} else {
		cfg.kind = PUSH_STATISTICS;
		e->to_say &= ~(uint32_t)CARD_SAY_STATISTICS;
	}
	return cfg;
}

void card_say(struct card_end *e)
{
	uint32_t before = e->to_say;
	struct push_cfg cfg;
	enum weft_reason r;

	if (before == 0 || push_link_state(e->link) != PUSH_OPEN)
		return;
	cfg = next_word(e);
	r = push_ask(e->link, &cfg, e->card->now_ns);
	if (r == WEFT_R_BUSY)
		e->to_say = before; /* after the answer to the request before */
}

void card_answered(struct card_end *e, const struct push_cfg *cfg)
{
	char text[WEFT_ADDRESS_TEXT];

	if (cfg->reason == WEFT_OK && cfg->kind == PUSH_STATISTICS) {
		e->counted = cfg->statistics;
		e->counted_ns = e->card->now_ns;
	}
	if (cfg->reason != WEFT_OK)
		card_tell(e->card, CARD_LINE_REQUEST, "%s does not agree to %s: %s",
			  card_end_name(e, text), push_kind_name(cfg->kind),
			  weft_reason_text((enum weft_reason)cfg->reason));
}
