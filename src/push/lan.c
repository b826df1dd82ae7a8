/* SPDX-License-Identifier: BSD-2-Clause */
#include "push/lan.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "wire/ether.h"

struct host {
	bool is_here;
	uint8_t mac[PUSH_MAC_BYTES];
	struct push_filter filter;
};

struct push_lan {
	uint32_t hosts_max;
	struct host *hosts;
};

static bool is_same(const uint8_t *a, const uint8_t *b)
{
	return memcmp(a, b, PUSH_MAC_BYTES) == 0;
}

/* ---- The table ------------------------------------------------------------------------------- */

enum weft_reason push_lan_create(uint32_t hosts_max, struct push_lan **out)
{
	struct push_lan *n;

	if (hosts_max == 0 || hosts_max == PUSH_LAN_WIRE)
		return WEFT_R_BAD_ARGUMENT;
	n = calloc(1, sizeof(*n));
	if (!n)
		return WEFT_R_NO_MEMORY;
	n->hosts_max = hosts_max;
	n->hosts = calloc(hosts_max, sizeof(*n->hosts));
	if (!n->hosts) {
		push_lan_destroy(n);
		return WEFT_R_NO_MEMORY;
	}
	*out = n;
	return WEFT_OK;
}

void push_lan_destroy(struct push_lan *n)
{
	free(n->hosts);
	free(n);
}

/* The host that was given this address; PUSH_LAN_WIRE: none was. */
static uint32_t host_by_mac(const struct push_lan *n, const uint8_t *mac)
{
	for (uint32_t i = 0; i < n->hosts_max; i++) {
		if (n->hosts[i].is_here && is_same(n->hosts[i].mac, mac))
			return i;
	}
	return PUSH_LAN_WIRE;
}

enum weft_reason push_lan_host(struct push_lan *n, uint32_t host, const uint8_t mac[PUSH_MAC_BYTES])
{
	uint32_t other = host_by_mac(n, mac);

	CHECK(host < n->hosts_max);
	if (ether_is_group(mac) || (other != PUSH_LAN_WIRE && other != host))
		return WEFT_R_PUSH_OFFER;
	if (!n->hosts[host].is_here)
		n->hosts[host] = (struct host){ .is_here = true };
	memcpy(n->hosts[host].mac, mac, PUSH_MAC_BYTES);
	return WEFT_OK;
}

void push_lan_filter(struct push_lan *n, uint32_t host, const struct push_filter *filter)
{
	CHECK(host < n->hosts_max && n->hosts[host].is_here);
	n->hosts[host].filter = *filter;
}

void push_lan_leave(struct push_lan *n, uint32_t host)
{
	CHECK(host < n->hosts_max);
	n->hosts[host].is_here = false;
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

/* Its own address, and a VLAN of its own. */
static bool may_send(const struct push_lan *n, uint32_t from, const struct ether *e)
{
	const struct host *h = &n->hosts[from];

	return h->is_here && is_same(h->mac, e->from) && has_vlan(&h->filter, e->vlan);
}

enum weft_reason push_lan_route(const struct push_lan *n, uint32_t from,
				const struct push_data *frame, struct push_lan_route *route)
{
	struct rd r = rd_of(frame->bytes, frame->length);
	struct ether e;

	if (!ether_decode(&e, &r))
		return WEFT_R_PUSH_FRAME;
	if (from != PUSH_LAN_WIRE && !may_send(n, from, &e))
		return WEFT_R_PUSH_FOREIGN;
	*route = (struct push_lan_route){ .vlan = e.vlan, .from = from };
	memcpy(route->to, e.to, PUSH_MAC_BYTES);
	route->owner = host_by_mac(n, e.to);
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
	while (route->next < n->hosts_max) {
		if (is_for(n, route, route->next++)) {
			*host = route->next - 1;
			return true;
		}
	}
	return false;
}
