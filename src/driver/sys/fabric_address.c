/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/fabric_address.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The first port of the program's node that is Active, else the first. */
static enum weft_reason own_port(struct fabric_msg_port *p)
{
	struct fabric_msg_port other;
	enum weft_reason r = fabric_client_port(1, p);
	uint32_t ports = r == WEFT_OK ? p->node_info.ports : 0;

	for (uint32_t i = 2; p->port_info.state != SM_PORT_ACTIVE && i <= ports; i++) {
		if (fabric_client_port(i, &other) == WEFT_OK &&
		    other.port_info.state == SM_PORT_ACTIVE)
			*p = other;
	}
	return r;
}

static enum weft_reason port_of_ipv4(const uint8_t ip[4], struct fabric_msg_port *p)
{
	static const uint8_t any[4];
	char node[16];

	if (ip[0] != FABRIC_NET && memcmp(ip, any, sizeof(any)) != 0)
		return WEFT_R_FABRIC_NODE;
	if (ip[1] == 0)
		return own_port(p);
	(void)snprintf(node, sizeof(node), "#%u", (unsigned int)(ip[2] << 8 | ip[3]));
	return fabric_client_look(node, ip[1], p);
}

/* The subnet's prefix must be that of the port: other subnets are not known. */
static enum weft_reason port_of_gid(const uint8_t gid[16], struct fabric_msg_port *p)
{
	uint64_t halves[2];
	enum weft_reason r;
	char node[24];

	memcpy(halves, gid, sizeof(halves));
	if (halves[0] == 0 && be64toh(halves[1]) <= 1)
		return own_port(p);
	(void)snprintf(node, sizeof(node), "0x%" PRIx64, be64toh(halves[1]));
	r = fabric_client_look(node, 0, p);
	if (r == WEFT_OK && p->port_info.subnet_prefix != be64toh(halves[0]))
		r = WEFT_R_FABRIC_NODE;
	return r;
}

enum weft_reason fabric_address_look(const struct weft_address *a, struct fabric_msg_port *p)
{
	switch (a->family) {
	case 0:
		return own_port(p);
	case 4:
		return port_of_ipv4(a->ip, p);
	default:
		return port_of_gid(a->ip, p);
	}
}

/* "NODE:SERVICE" */
static bool node_parse(const char *text, struct weft_address *a)
{
	const char *service = strrchr(text, ':');
	char node[FABRIC_MSG_NAME];
	struct fabric_msg_port p;

	if (!fabric_client_node() || !service || (size_t)(service - text) >= sizeof(node) ||
	    weft_address_parse(service, a) != WEFT_OK)
		return false;
	(void)snprintf(node, sizeof(node), "%.*s", (int)(service - text), text);
	if (fabric_client_look(node, 0, &p) != WEFT_OK || p.node > UINT16_MAX || p.port > UINT8_MAX)
		return false;
	a->family = 4;
	a->ip[0] = FABRIC_NET;
	a->ip[1] = (uint8_t)p.port;
	a->ip[2] = (uint8_t)(p.node >> 8);
	a->ip[3] = (uint8_t)p.node;
	return true;
}

enum weft_reason fabric_address_parse(const char *text, struct weft_address *a)
{
	if (weft_address_parse(text, a) != WEFT_OK && !node_parse(text, a))
		return WEFT_R_ADDRESS;
	return WEFT_OK;
}

enum weft_reason fabric_address_own(const struct weft_address *a, struct weft_address *gid)
{
	static const uint8_t any[sizeof(a->ip)];
	struct fabric_msg_port p;
	enum weft_reason r;

	*gid = (struct weft_address){ .port = a->port };
	if (a->family == 0 || memcmp(a->ip, any, a->family == 6 ? 16 : 4) == 0)
		return WEFT_OK;
	r = fabric_address_look(a, &p);
	if (r == WEFT_OK)
		*gid = fabric_address_gid(&p, a->port);
	return r;
}

static bool is_reached(const struct fabric_msg_port *p)
{
	return p->port_info.lid != 0 && p->port_info.state == SM_PORT_ACTIVE;
}

enum weft_reason fabric_address_path(const struct weft_address *from, const struct weft_address *to,
				     struct weft_path *path)
{
	struct fabric_msg_port here, there;
	enum weft_reason r = fabric_address_look(from, &here);

	if (r == WEFT_OK)
		r = fabric_address_look(to, &there);
	if (r != WEFT_OK)
		return r;
	if (!is_reached(&here) || !is_reached(&there))
		return WEFT_R_NODE_STATE;
	*path = (struct weft_path){
		.from = fabric_address_gid(&here, from->port),
		.to = fabric_address_gid(&there, to->port),
		.mtu_bytes = 128U << (here.port_info.mtu < there.port_info.mtu
					      ? here.port_info.mtu
					      : there.port_info.mtu),
		.to_lid = there.port_info.lid,
	};
	return WEFT_OK;
}
