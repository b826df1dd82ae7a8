/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of an Ethernet frame (IEEE 802.3), with VLAN tags (IEEE 802.1Q, 802.1ad). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum {
	ETHER_MAC_BYTES = 6,
	ETHER_HEADER_BYTES = 14,
	ETHER_VLAN_TPID = 0x8100,
	ETHER_SERVICE_TPID = 0x88a8, /* of a provider: outside the others */
	ETHER_PRIORITIES_MAX = 2,
};

struct ether {
	uint8_t to[ETHER_MAC_BYTES], from[ETHER_MAC_BYTES];
	uint16_t vlan; /* id of the outermost tag that has one; 0: none has */
	uint16_t type; /* behind that tag, or tags of priority alone */
};

/*
 * Receivers take tags of priority alone (id 0) off, and go by the next one: so does this. False:
 * the frame is cut, or has more than two of these. On error neither *e nor *r has changed.
 */
bool ether_decode(struct ether *e, struct rd *r);

/* A group's address: multicast or broadcast. */
static inline bool ether_is_group(const uint8_t mac[ETHER_MAC_BYTES])
{
	return mac[0] & 1;
}

bool ether_is_broadcast(const uint8_t mac[ETHER_MAC_BYTES]);
