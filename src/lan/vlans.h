/* SPDX-License-Identifier: BSD-2-Clause */
/* The VLANs that a host has interfaces of, on one of its interfaces: what a filter says of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	LAN_VLANS_MAX = 64, /* ids of a filter */
	LAN_VLAN_ID_MAX = 4094,
	LAN_VLAN_INTERFACES_MAX = 8192,
};

/* Begins with zeroes. */
struct lan_vlans {
	uint32_t count;
	bool has_more; /* than there is room for */
	struct lan_vlan {
		int index; /* of the interface */
		uint16_t id;
	} of[LAN_VLAN_INTERFACES_MAX];
};

/* The interface has this id; 0: it has gone, or is of no VLAN. */
void lan_vlans_put(struct lan_vlans *v, int index, uint16_t id);

/*
 * How many ids there are, and which, in rising order; the rest of ids[] is 0. 0: none, or more than
 * a filter holds, which count as all.
 */
uint32_t lan_vlans_list(const struct lan_vlans *v, uint16_t ids[LAN_VLANS_MAX]);
