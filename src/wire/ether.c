/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/ether.h"

enum { VLAN_ID_MASK = 0xfff };

static bool is_tag(uint16_t type)
{
	return type == ETHER_VLAN_TPID || type == ETHER_SERVICE_TPID;
}

bool ether_decode(struct ether *e, struct rd *r)
{
	struct rd at = *r;
	struct ether v = { 0 };

	rd_bytes(&at, v.to, sizeof(v.to));
	rd_bytes(&at, v.from, sizeof(v.from));
	v.type = rd_u16(&at);
	for (int i = 0; i <= ETHER_PRIORITIES_MAX && v.vlan == 0 && is_tag(v.type); i++) {
		v.vlan = rd_u16(&at) & VLAN_ID_MASK;
		v.type = rd_u16(&at);
	}
	if (at.is_short || (v.vlan == 0 && is_tag(v.type)))
		return false;
	*e = v;
	*r = at;
	return true;
}

bool ether_is_broadcast(const uint8_t mac[ETHER_MAC_BYTES])
{
	static const uint8_t all[ETHER_MAC_BYTES] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

	return memcmp(mac, all, sizeof(all)) == 0;
}
