/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which host of an I/O unit gets which frame of the LAN (PUSH-02, PUSH-05): a table of hosts, with
 * the addresses and filters that the unit granted them. Not here: the frames' memory, and links.
 *
 *	unicast		to the host whose address it is, else to those that are promiscuous
 *	multicast	to hosts that have the group in their filter, or want all
 *	broadcast	to all hosts but those that want none
 *	tagged		of these, to hosts that have the VLAN of the outermost tag in their filter
 *
 * A frame of a host goes to other hosts by the same rules, and to the LAN unless it is for another
 * host alone. No host gets a frame to the address of another one, promiscuous or not. A host sends
 * from its own address and in its own VLANs only.
 */
#pragma once

#include "wire/push_msg.h"

enum { PUSH_LAN_WIRE = UINT32_MAX /* instead of a host: the LAN itself */ };

struct push_lan;

/* WEFT_R_BAD_ARGUMENT: hosts_max is 0; WEFT_R_NO_MEMORY. */
enum weft_reason push_lan_create(uint32_t hosts_max, struct push_lan **out);
void push_lan_destroy(struct push_lan *n);

/*
 * A host is there, or has another address; host is below hosts_max. WEFT_R_PUSH_OFFER: another host
 * has the address, or it is a group's.
 */
enum weft_reason push_lan_host(struct push_lan *n, uint32_t host,
			       const uint8_t mac[PUSH_MAC_BYTES]);

/* The filter of a host that is there; at first: no flag, VLAN or group. */
void push_lan_filter(struct push_lan *n, uint32_t host, const struct push_filter *filter);
void push_lan_leave(struct push_lan *n, uint32_t host);

/* Where a frame goes. */
struct push_lan_route {
	bool is_to_wire;
	/* For push_lan_next() only. */
	uint8_t to[PUSH_MAC_BYTES];
	uint16_t vlan; /* 0: none */
	uint32_t from, owner, next;
};

/*
 * A frame came from a host, or from PUSH_LAN_WIRE; its first bytes suffice, 26 if there are so
 * many. Copy them first: another process may write the memory of a packet. WEFT_R_PUSH_FRAME: it
 * is too short; WEFT_R_PUSH_FOREIGN: the host may not send it.
 */
enum weft_reason push_lan_route(const struct push_lan *n, uint32_t from,
				const struct push_data *frame, struct push_lan_route *route);

/* The next host that gets it; false: no more. */
bool push_lan_next(const struct push_lan *n, struct push_lan_route *route, uint32_t *host);
