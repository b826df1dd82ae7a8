/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of an Ethernet frame (IEEE 802.3), with a VLAN tag (IEEE 802.1Q). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cursor.h"

enum { ETHER_MAC_BYTES = 6, ETHER_HEADER_BYTES = 14, ETHER_VLAN_TPID = 0x8100 };

struct ether {
	uint8_t to[ETHER_MAC_BYTES], from[ETHER_MAC_BYTES];
	uint16_t vlan; /* id; 0: no tag, or one of priority alone */
	uint16_t type; /* behind the tag */
};

/* False: it is cut. On error neither *e nor *r has changed. */
bool ether_decode(struct ether *e, struct rd *r);

/* A group's address: multicast or broadcast. */
static inline bool ether_is_group(const uint8_t mac[ETHER_MAC_BYTES])
{
	return mac[0] & 1;
}

bool ether_is_broadcast(const uint8_t mac[ETHER_MAC_BYTES]);
