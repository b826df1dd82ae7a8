/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and paths in the fabric that this program is in (fabric_client.h). A port has its GID,
 * which is an address of IPv6; and an address of IPv4 made of its number and that of its node,
 * 127.PORT.NODE/256.NODE%256, which is one of this host for sockets, too. What is 127.0 otherwise,
 * and any address, is the program's node.
 */
#pragma once

#include <endian.h>
#include <string.h>

#include <weft/roce.h>

#include "driver/sys/fabric_client.h"

enum { FABRIC_NET = 127 };

/*
 * The port that an address means; of the program's node, if none is named, the first that is
 * Active, else the first. WEFT_R_FABRIC_NODE: there is none.
 */
enum weft_reason fabric_address_look(const struct weft_address *a, struct fabric_msg_port *p);

/* Its GID, with a number of a service. */
static inline struct weft_address fabric_address_gid(const struct fabric_msg_port *p,
						     uint16_t service)
{
	const uint64_t halves[2] = { htobe64(p->port_info.subnet_prefix),
				     htobe64(p->guids.guids[0]) };
	struct weft_address a = { .family = 6, .port = service };

	memcpy(a.ip, halves, sizeof(a.ip));
	return a;
}

/*
 * As weft_address_parse(), and at a node of a fabric "NODE:SERVICE", whose address is of IPv4.
 * WEFT_R_ADDRESS: it is neither.
 */
enum weft_reason fabric_address_parse(const char *text, struct weft_address *a);

/* The GID of an address where to listen; any address has family 0, and is all ports. */
enum weft_reason fabric_address_own(const struct weft_address *a, struct weft_address *gid);

/*
 * The path from a port of the program's node to another one, as the subnet's administration would
 * tell it. WEFT_R_NODE_STATE: one of them is not Active.
 */
enum weft_reason fabric_address_path(const struct weft_address *from, const struct weft_address *to,
				     struct weft_path *path);
