/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses on a node of a fabric. A port has its GIDs, as addresses of AF_IB or of IPv6; and an
 * address of IPv4 made of its number and that of its node, 127.PORT.NODE/256.NODE%256, which is one
 * of this host for sockets, too. What is 127.0 otherwise, and any address, is the program's node.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"
#include "wire/fabric_msg.h"

enum { LOCAL_NET = 127, NODES_MAX = 1 << 16, PORTS_MAX = 254 };

bool fabric_is_ours(void)
{
	return weftv_node() != NULL;
}

/* 0 or a negative errno. */
static int ask(const char *node, uint32_t port, struct fabric_msg_port *p)
{
	enum weft_reason r = weftv_fabric_port(node, port, p);

	if (r == WEFT_OK)
		return 0;
	return r == WEFT_R_FABRIC_NODE ? -EHOSTUNREACH : -ENODEV;
}

/* ---- Addresses of ports --------------------------------------------------------------------- */

/* Of the port that is meant for those that name none: the first that is Active, else the first. */
static int own_port(struct fabric_msg_port *p)
{
	struct fabric_msg_port other;
	int r = ask(weftv_node(), 1, p);
	uint32_t ports = r == 0 ? p->node_info.ports : 0;

	for (uint32_t i = 2; r == 0 && p->port_info.state != SM_PORT_ACTIVE && i <= ports; i++) {
		if (ask(weftv_node(), i, &other) == 0 && other.port_info.state == SM_PORT_ACTIVE)
			*p = other;
	}
	return r;
}

static int port_of_ip(uint32_t ip, struct fabric_msg_port *p)
{
	char node[16];

	if (ip >> 24 != LOCAL_NET && ip != INADDR_ANY)
		return -EHOSTUNREACH;
	if ((ip >> 16 & 0xff) == 0)
		return own_port(p);
	(void)snprintf(node, sizeof(node), "#%u", (unsigned int)(ip & 0xffff));
	return ask(node, ip >> 16 & 0xff, p);
}

/* The subnet's prefix must be that of the port: other subnets are not known. */
static int port_of_gid(const uint8_t gid[16], struct fabric_msg_port *p)
{
	uint64_t halves[2];
	char node[24];
	int r;

	memcpy(halves, gid, sizeof(halves));
	if (halves[0] == 0 && be64toh(halves[1]) <= 1)
		return own_port(p);
	(void)snprintf(node, sizeof(node), "0x%" PRIx64, be64toh(halves[1]));
	r = ask(node, 0, p);
	if (r == 0 && p->port_info.subnet_prefix != be64toh(halves[0]))
		r = -EHOSTUNREACH;
	return r;
}

int fabric_port_at(const struct sockaddr *a, struct fabric_msg_port *p)
{
	switch (a->sa_family) {
	case AF_INET:
		return port_of_ip(
			ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr), p);
	case AF_INET6:
		return port_of_gid(
			((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr, p);
	case AF_IB:
		return port_of_gid(((const struct sockaddr_ib *)(const void *)a)->sib_addr.sib_raw,
				   p);
	default:
		return -EAFNOSUPPORT;
	}
}

bool fabric_is_own(const struct sockaddr *a)
{
	struct fabric_msg_port p, own;

	return fabric_port_at(a, &p) == 0 && ask(weftv_node(), 1, &own) == 0 && p.node == own.node;
}

static void gid_of(const struct fabric_msg_port *p, uint8_t gid[16])
{
	const uint64_t halves[2] = { htobe64(p->port_info.subnet_prefix),
				     htobe64(p->guids.guids[0]) };

	memcpy(gid, halves, sizeof(halves));
}

/* An address of the family; its port is kept. */
void fabric_address_of(const struct fabric_msg_port *p, sa_family_t family,
		       struct sockaddr_storage *to)
{
	in_port_t port = address_port((const struct sockaddr *)to);
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)to;

	if (family != AF_INET || p->node >= NODES_MAX || p->port > PORTS_MAX) {
		to->ss_family = family == AF_IB ? AF_IB : AF_INET6;
		gid_of(p, family == AF_IB ? ((struct sockaddr_ib *)(void *)to)->sib_addr.sib_raw
					  : ((struct sockaddr_in6 *)(void *)to)->sin6_addr.s6_addr);
	} else {
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl((uint32_t)LOCAL_NET << 24 | p->port << 16 | p->node);
	}
	address_set_port((struct sockaddr *)to, port);
}

/* Of a GID as the engine has it; one of a port that has gone stays a GID. */
void fabric_address_from(const struct weft_address *from, sa_family_t family,
			 struct sockaddr_storage *to)
{
	struct fabric_msg_port p;

	memset(to, 0, sizeof(*to));
	if (family == AF_INET && port_of_gid(from->ip, &p) == 0) {
		to->ss_family = AF_INET;
		address_set_port((struct sockaddr *)to, htons(from->port));
		fabric_address_of(&p, AF_INET, to);
		return;
	}
	if (family != AF_IB) {
		address_from_weft(from, to);
		return;
	}
	to->ss_family = AF_IB;
	memcpy(((struct sockaddr_ib *)(void *)to)->sib_addr.sib_raw, from->ip, sizeof(from->ip));
	address_set_port((struct sockaddr *)to, htons(from->port));
}

int fabric_address_to(const struct sockaddr *from, struct weft_address *to)
{
	struct fabric_msg_port p;
	int r;

	*to = (struct weft_address){ .port = ntohs(address_port(from)) };
	if (address_is_any(from))
		return 0;
	r = fabric_port_at(from, &p);
	if (r != 0)
		return r;
	to->family = 6;
	gid_of(&p, to->ip);
	return 0;
}

/* The name of a node is as good as an address. False: there is none of this name. */
bool fabric_name_to(const char *name, int family, char text[INET6_ADDRSTRLEN])
{
	struct sockaddr_storage at = { .ss_family = AF_INET };
	struct fabric_msg_port p;

	if (!fabric_is_ours() || !name || strpbrk(name, ":#") || ask(name, 0, &p) != 0)
		return false;
	fabric_address_of(&p, family == AF_INET6 ? AF_INET6 : AF_INET, &at);
	if (at.ss_family == AF_INET)
		return inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&at)->sin_addr, text,
				 INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&at)->sin6_addr, text,
			 INET6_ADDRSTRLEN);
}

/* ---- Paths ---------------------------------------------------------------------------------- */

/* What the subnet's administration would say of a path: that there is one, if both ends are up. */
static bool is_reached(const struct fabric_msg_port *p)
{
	return p->port_info.lid != 0 && p->port_info.state == SM_PORT_ACTIVE;
}

int fabric_find_address(struct id *id)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	bool is_unbound = addr->src_addr.sa_family == AF_UNSPEC || address_is_any(&addr->src_addr);
	struct fabric_msg_port from, to;
	int r = is_unbound ? own_port(&from) : fabric_port_at(&addr->src_addr, &from);

	/* Whether there is such a GID, only a path tells. */
	if (r == 0 && addr->dst_addr.sa_family == AF_INET)
		r = fabric_port_at(&addr->dst_addr, &to);
	if (r != 0)
		return r;
	if (is_unbound)
		fabric_address_of(&from, addr->dst_addr.sa_family, &addr->src_storage);
	if (address_is_any(&addr->dst_addr))
		fabric_address_of(&from, addr->dst_addr.sa_family, &addr->dst_storage);
	if (!id->home)
		r = device_bind(id, &addr->src_addr);
	id->rdma.port_num = (uint8_t)from.port;
	gid_of(&from, addr->addr.ibaddr.sgid.raw);
	addr->addr.ibaddr.pkey = htobe16(from.pkeys.pkeys[0]);
	return r;
}

int fabric_find_path(struct id *id)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	struct fabric_msg_port from, to;
	int r = fabric_port_at(&addr->src_addr, &from);

	if (r == 0)
		r = fabric_port_at(&addr->dst_addr, &to);
	if (r == 0 && (!is_reached(&from) || !is_reached(&to)))
		r = -EHOSTUNREACH;
	if (r != 0)
		return r;
	id->path = (struct weft_path){
		.from.family = 6,
		.to.family = 6,
		.mtu_bytes = 128U << (from.port_info.mtu < to.port_info.mtu ? from.port_info.mtu
									    : to.port_info.mtu),
		.to_lid = to.port_info.lid,
	};
	gid_of(&from, id->path.from.ip);
	gid_of(&to, id->path.to.ip);
	memcpy(addr->addr.ibaddr.dgid.raw, id->path.to.ip, sizeof(id->path.to.ip));
	return 0;
}

int fabric_path(const struct id *id, struct weft_path *path)
{
	const struct rdma_addr *addr = &id->rdma.route.addr;

	if (id->path.to_lid == 0)
		return -EINVAL;
	*path = id->path;
	path->traffic_class = id->tos;
	path->from.port = ntohs(address_port(&addr->src_addr));
	path->to.port = ntohs(address_port(&addr->dst_addr));
	return 0;
}

/* Within a subnet, LIDs are enough. */
void fabric_av(const struct id *id, const struct weft_path *path, struct ibv_ah_attr *av)
{
	*av = (struct ibv_ah_attr){
		.dlid = (uint16_t)path->to_lid,
		.sl = (uint8_t)path->service_level,
		.port_num = id->rdma.port_num,
	};
}

/* Ports of the connection manager are a node's: a number that tells its names from others'. */
uint64_t fabric_realm(void)
{
	const char *parts[] = { getenv("WEFT_FABRIC"), "/", weftv_node() };
	uint64_t n = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < 3; i++) {
		for (const char *at = parts[i]; at && *at; at++)
			n = (n ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
	}
	return n;
}
