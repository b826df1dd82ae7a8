/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A network interface, watched and set by rtnetlink and ioctl: whether it is up, its MAC address,
 * MTU, the groups and VLANs of its host. For ports that are interfaces.
 */
#pragma once

#include "driver/lan/lan_inside.h"
#include "lan/vlans.h"

struct lan_link {
	struct lan_watch watch;
	int index;
	bool is_ethernet;	 /* what its frames begin with */
	bool is_carrier_counted; /* down without a carrier, not only when its user says so */
	bool has_filters;	 /* what its host wants to receive is of interest */
	bool wants_all_groups;	 /* its host says so */
	bool has_more_groups;	 /* than a filter has room for */
	struct lan_vlans vlans;	 /* of interfaces on it */
	struct lan_filters filters;
};

/*
 * Of the interface of this name: the port's properties are its own from now on. The watch's ready()
 * is to call lan_link_read(). 0, or a negative errno.
 */
int lan_link_open(struct lan_port *port, struct lan_link *link, const char *name);
void lan_link_close(struct lan_port *port, struct lan_link *link);
void lan_link_read(struct lan_port *port, struct lan_link *link);

/* Reads the groups that its host has joined: the kernel sends no notice of them. */
void lan_link_groups(struct lan_port *port, struct lan_link *link);

enum weft_reason lan_link_set_mac(const struct lan_link *link, const uint8_t mac[LAN_MAC_BYTES]);
enum weft_reason lan_link_set_mtu(const struct lan_link *link, uint32_t mtu);
