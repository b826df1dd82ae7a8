/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/roce/roce_near.h"

#include <string.h>

#include "driver/observe/observe.h"

/* So long a refusal, and what is known of addresses, holds. */
static const uint64_t again_ns = 1000 * 1000 * 1000;

/* ---- Addresses of this host ----------------------------------------------------------------- */

/* The addresses of a host differ in their last byte, or are few. */
static uint32_t place_of(bool is_ipv6, const uint8_t *ip)
{
	return ip[is_ipv6 ? 15 : 3] % ROCE_ADDRESSES;
}

/* NULL: the adapter has no RoCE yet. */
static bool is_local(struct roce *r, bool is_ipv6, const uint8_t *ip)
{
	struct roce_address *at = r ? &r->addresses[place_of(is_ipv6, ip)] : NULL;

	if (!at)
		return udp_is_local(is_ipv6, ip);
	if (!at->is_known || at->is_ipv6 != is_ipv6 || !inet_is_same_address(is_ipv6, at->ip, ip)) {
		*at = (struct roce_address){ .is_known = true, .is_ipv6 = is_ipv6 };
		memcpy(at->ip, ip, is_ipv6 ? 16 : 4);
		at->is_local = udp_is_local(is_ipv6, ip);
	}
	return at->is_local;
}

/* What was looked up lately may be of before the host got the address. */
bool roce_near_is_source(struct roce *r, const struct ib_in *in)
{
	return is_local(r, in->is_ipv6, in->from.address) ||
	       udp_is_local(in->is_ipv6, in->from.address);
}

static bool can_be_near(const struct roce *r)
{
	return r ? r->near || r->near_tries > 0 : near_wished() != NEAR_WISH_OFF;
}

/* Its maker may have heard of an adapter that has the slot of another one. */
bool roce_is_on_host(const struct weft_adapter *a, const struct weft_path *path)
{
	struct roce *r = a->net ? roce_of(a->net) : NULL;

	if (path->to_lid != 0 || !can_be_near(r) ||
	    !is_local(r, path->to.family == 6, path->to.ip) ||
	    !is_local(r, path->from.family == 6, path->from.ip))
		return false;
	if (r && r->near)
		ib_port_near_forget(r->port);
	return true;
}

/* ---- Adapters ------------------------------------------------------------------------------- */

/* The number of a queue pair begins with the slot of its adapter. */
uint32_t roce_near_number(struct roce *r, const struct ib_path *path, uint32_t number)
{
	if (!r->near || !udp_is_local(path->is_ipv6, path->to.address) ||
	    !udp_is_local(path->is_ipv6, path->from.address))
		return 0;
	return near_reach(r->near, (uint8_t)(number >> 16));
}

uint32_t roce_near_next(struct roce *r)
{
	uint32_t number = ib_port_near_next(r->port);
	uint8_t slot;

	if (number != IB_NEAR_UNKNOWN)
		return number;
	slot = ib_port_near_asked(r->port);
	number = r->is_near_refused[slot] ? 0 : near_reach(r->near, slot);
	/* A datagram leaves at once: it does not wait for the ring to be taken. */
	if (number != 0 && !near_is_taken(r->near, number)) {
		r->has_near_untaken = true;
		number = 0;
	}
	ib_port_near_set(r->port, slot, number);
	return number;
}

void roce_near_take_ends(struct roce *r)
{
	struct near_ended ended;
	struct ib_path *path;

	while (r->near && near_ended(r->near, &ended)) {
		r->is_near_refused[ended.adapter_slot] |= ended.is_refused;
		ib_port_near_set(r->port, ended.adapter_slot, IB_NEAR_UNKNOWN);
		if (!ended.is_refused)
			ib_port_near_ended(r->port, net_look_at_clock(r->net), ended.number);
		while (ended.is_refused && (path = ib_port_near_refused(r->port, ended.number)))
			(void)udp_source(r->udp, path);
	}
}

void roce_near_look(struct roce *r)
{
	if (r->has_near_untaken)
		ib_port_near_forget(r->port);
	r->has_near_untaken = false;
}

void roce_near_retry(struct roce *r)
{
	if (r->near_again_ns <= r->net->now_ns) {
		r->near_again_ns = r->net->now_ns + again_ns;
		memset(r->is_near_refused, 0, sizeof(r->is_near_refused));
		memset(r->addresses, 0, sizeof(r->addresses));
	}
	if (r->near)
		ib_port_near_forget(r->port);
}
