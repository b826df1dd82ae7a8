/* SPDX-License-Identifier: BSD-2-Clause */
#include "push/lan.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "wire/ether.h"

struct host {
	bool is_here, is_bridge;
	uint8_t mac[PUSH_MAC_BYTES];
	struct push_filter filter;
};

/* An address behind a bridge. */
struct learned {
	uint8_t mac[PUSH_MAC_BYTES];
	uint32_t host; /* PUSH_LAN_WIRE: this entry is free */
	uint64_t heard_ns;
};

struct push_lan {
	struct push_lan_config config;
	struct host *hosts;
	struct learned *learned;
	uint32_t learned_used; /* those from here on were never in use */
};

static bool is_same(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, PUSH_MAC_BYTES) == 0;
}

/* ---- The table ------------------------------------------------------------------------------- */

enum weft_reason push_lan_create(const struct push_lan_config *c, struct push_lan **out)
{
	struct push_lan *n;

	if (c->hosts_max == 0 || c->hosts_max == PUSH_LAN_WIRE || c->learned_max == 0)
		return WEFT_R_BAD_ARGUMENT;
	n = calloc(1, sizeof(*n));
	if (!n)
		return WEFT_R_NO_MEMORY;
	n->config = *c;
	n->hosts = calloc(c->hosts_max, sizeof(*n->hosts));
	n->learned = calloc(c->learned_max, sizeof(*n->learned));
	if (!n->hosts || !n->learned) {
		push_lan_destroy(n);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t i = 0; i < c->learned_max; i++)
		n->learned[i].host = PUSH_LAN_WIRE;
	*out = n;
	return WEFT_OK;
}

void push_lan_destroy(struct push_lan *n)
{
	free(n->hosts);
	free(n->learned);
	free(n);
}

/* The host that was given this address; PUSH_LAN_WIRE: none was. */
static uint32_t host_by_mac(const struct push_lan *n, const uint8_t *mac)
{
	for (uint32_t i = 0; i < n->config.hosts_max; i++) {
		if (n->hosts[i].is_here && is_same(n->hosts[i].mac, mac))
			return i;
	}
	return PUSH_LAN_WIRE;
}

/* What was learned of an address, or of a host, holds no more. */
static void forget(struct push_lan *n, uint32_t host, const uint8_t *mac)
{
	for (uint32_t i = 0; i < n->config.learned_max; i++) {
		if (n->learned[i].host == host || (mac && is_same(n->learned[i].mac, mac)))
			n->learned[i].host = PUSH_LAN_WIRE;
	}
}

enum weft_reason push_lan_host(struct push_lan *n, uint32_t host, const uint8_t mac[PUSH_MAC_BYTES],
			       bool is_bridge)
{
	uint32_t other = host_by_mac(n, mac);

	CHECK(host < n->config.hosts_max);
	if (ether_is_group(mac) || (other != PUSH_LAN_WIRE && other != host))
		return WEFT_R_PUSH_OFFER;
	if (!n->hosts[host].is_here)
		n->hosts[host] = (struct host){ .is_here = true };
	n->hosts[host].is_bridge = is_bridge;
	memcpy(n->hosts[host].mac, mac, PUSH_MAC_BYTES);
	forget(n, host, mac);
	return WEFT_OK;
}

void push_lan_filter(struct push_lan *n, uint32_t host, const struct push_filter *filter)
{
	CHECK(host < n->config.hosts_max && n->hosts[host].is_here);
	n->hosts[host].filter = *filter;
}

void push_lan_leave(struct push_lan *n, uint32_t host)
{
	CHECK(host < n->config.hosts_max);
	n->hosts[host].is_here = false;
	forget(n, host, NULL);
}

/* ---- Learning -------------------------------------------------------------------------------- */

static bool is_fresh(const struct push_lan *n, const struct learned *e, uint64_t now_ns)
{
	return e->host != PUSH_LAN_WIRE && now_ns - e->heard_ns < n->config.forget_ns;
}

/* The entry of the address; else the one that has been unheard for longest. */
static struct learned *learned_of(struct push_lan *n, const uint8_t *mac)
{
	struct learned *oldest = &n->learned[0];

	for (uint32_t i = 0; i < n->learned_used; i++) {
		struct learned *e = &n->learned[i];

		if (e->host != PUSH_LAN_WIRE && is_same(e->mac, mac))
			return e;
		if (oldest->host != PUSH_LAN_WIRE &&
		    (e->host == PUSH_LAN_WIRE || e->heard_ns < oldest->heard_ns))
			oldest = e;
	}
	return n->learned_used < n->config.learned_max ? &n->learned[n->learned_used] : oldest;
}

static void learn(struct push_lan *n, uint32_t host, const uint8_t *mac, uint64_t now_ns)
{
	struct learned *e = learned_of(n, mac);

	if (e == &n->learned[n->learned_used])
		n->learned_used++;
	*e = (struct learned){ .host = host, .heard_ns = now_ns };
	memcpy(e->mac, mac, PUSH_MAC_BYTES);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static bool has_vlan(const struct push_filter *f, uint16_t vlan)
{
	bool has = vlan == 0 || (f->flags & PUSH_FILTER_ALL_VLANS);

	for (uint32_t i = 0; i < f->vlan_count && !has; i++)
		has = f->vlans[i] == vlan;
	return has;
}

static bool has_group(const struct push_filter *f, const uint8_t *mac)
{
	bool has = f->flags & (PUSH_FILTER_ALL_GROUPS | PUSH_FILTER_PROMISCUOUS);

	if (ether_is_broadcast(mac))
		return !(f->flags & PUSH_FILTER_NO_BROADCAST);
	for (uint32_t i = 0; i < f->group_count && !has; i++)
		has = is_same(f->groups[i], mac);
	return has;
}

/* A host may send from there: the address is its own, or it is a bridge and no host has it. */
static bool may_send(struct push_lan *n, uint32_t from, const struct ether *e, uint64_t now_ns)
{
	const struct host *h = &n->hosts[from];
	uint32_t owner = host_by_mac(n, e->from);
	const struct learned *known = learned_of(n, e->from);

	if (!h->is_here || ether_is_group(e->from) || !has_vlan(&h->filter, e->vlan))
		return false;
	if (owner != PUSH_LAN_WIRE || !h->is_bridge)
		return owner == from;
	if (is_fresh(n, known, now_ns) && is_same(known->mac, e->from) && known->host != from)
		return false;
	learn(n, from, e->from, now_ns);
	return true;
}

/* Whose address it is; PUSH_LAN_WIRE: no host's. */
static uint32_t owner_of(struct push_lan *n, const uint8_t *mac, uint64_t now_ns)
{
	uint32_t host = host_by_mac(n, mac);
	const struct learned *e = learned_of(n, mac);

	if (host == PUSH_LAN_WIRE && is_fresh(n, e, now_ns) && is_same(e->mac, mac))
		host = e->host;
	return host;
}

enum weft_reason push_lan_route(struct push_lan *n, uint32_t from, const struct push_data *frame,
				uint64_t now_ns, struct push_lan_route *route)
{
	struct rd r = rd_of(frame->bytes, frame->length);
	struct ether e;

	if (!ether_decode(&e, &r))
		return WEFT_R_PUSH_FRAME;
	if (from != PUSH_LAN_WIRE && !may_send(n, from, &e, now_ns))
		return WEFT_R_PUSH_FOREIGN;
	*route = (struct push_lan_route){ .vlan = e.vlan, .from = from, .owner = PUSH_LAN_WIRE };
	memcpy(route->to, e.to, PUSH_MAC_BYTES);
	if (!ether_is_group(e.to))
		route->owner = owner_of(n, e.to, now_ns);
	route->is_to_wire = from != PUSH_LAN_WIRE && route->owner == PUSH_LAN_WIRE;
	return WEFT_OK;
}

static bool is_for(const struct push_lan *n, const struct push_lan_route *route, uint32_t host)
{
	const struct host *h = &n->hosts[host];

	if (!h->is_here || host == route->from || !has_vlan(&h->filter, route->vlan))
		return false;
	if (ether_is_group(route->to))
		return has_group(&h->filter, route->to);
	return route->owner == PUSH_LAN_WIRE ? (h->filter.flags & PUSH_FILTER_PROMISCUOUS) != 0
					     : route->owner == host;
}

bool push_lan_next(const struct push_lan *n, struct push_lan_route *route, uint32_t *host)
{
	while (route->next < n->config.hosts_max) {
		if (is_for(n, route, route->next++)) {
			*host = route->next - 1;
			return true;
		}
	}
	return false;
}
