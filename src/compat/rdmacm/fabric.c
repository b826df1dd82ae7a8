/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of driver/sys/fabric_address.h as programs have them, GIDs also as AF_IB. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"
#include "driver/sys/fabric_address.h"

enum { NODES_MAX = 1 << 16, PORTS_MAX = 254 };

static const struct weft_address own_node;

bool fabric_is_ours(void)
{
	return weftv_node() != NULL;
}

/* 0 or a negative errno. */
static int error_of(enum weft_reason r)
{
	if (r == WEFT_OK)
		return 0;
	return r == WEFT_R_FABRIC_NODE || r == WEFT_R_FABRIC_PART || r == WEFT_R_NODE_STATE
		       ? -EHOSTUNREACH
		       : -ENODEV;
}

/* ---- Addresses of ports --------------------------------------------------------------------- */

int fabric_port_at(const struct sockaddr *a, struct fabric_msg_port *p)
{
	struct weft_address of;

	if (address_size(a) == 0)
		return -EAFNOSUPPORT;
	address_to_weft(a, &of);
	return error_of(weftv_fabric_look(&of, p));
}

bool fabric_is_own(const struct sockaddr *a)
{
	struct fabric_msg_port p, own;

	return fabric_port_at(a, &p) == 0 && weftv_fabric_look(&own_node, &own) == WEFT_OK &&
	       p.node == own.node;
}

/* An address of the family; its port is kept. */
void fabric_address_of(const struct fabric_msg_port *p, sa_family_t family,
		       struct sockaddr_storage *to)
{
	const struct weft_address gid = fabric_address_gid(p, 0);
	in_port_t port = address_port((const struct sockaddr *)to);
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)to;

	if (family != AF_INET || p->node >= NODES_MAX || p->port > PORTS_MAX) {
		to->ss_family = family == AF_IB ? AF_IB : AF_INET6;
		memcpy(family == AF_IB ? ((struct sockaddr_ib *)(void *)to)->sib_addr.sib_raw
				       : ((struct sockaddr_in6 *)(void *)to)->sin6_addr.s6_addr,
		       gid.ip, sizeof(gid.ip));
	} else {
		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl((uint32_t)FABRIC_NET << 24 | p->port << 16 | p->node);
	}
	address_set_port((struct sockaddr *)to, port);
}

/* Of a GID as the engine has it; one of a port that has gone stays a GID. */
void fabric_address_from(const struct weft_address *from, sa_family_t family,
			 struct sockaddr_storage *to)
{
	struct fabric_msg_port p;

	memset(to, 0, sizeof(*to));
	if (family == AF_INET && weftv_fabric_look(from, &p) == WEFT_OK) {
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
	struct weft_address a;

	address_to_weft(from, &a);
	return error_of(weftv_fabric_own(&a, to));
}

/* The name of a node is as good as an address. False: there is none of this name. */
bool fabric_name_to(const char *name, int family, char text[INET6_ADDRSTRLEN])
{
	struct sockaddr_storage at = { .ss_family = AF_INET };
	struct fabric_msg_port p;

	if (!fabric_is_ours() || !name || strpbrk(name, ":#") ||
	    weftv_fabric_port(name, 0, &p) != WEFT_OK)
		return false;
	fabric_address_of(&p, family == AF_INET6 ? AF_INET6 : AF_INET, &at);
	if (at.ss_family == AF_INET)
		return inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&at)->sin_addr, text,
				 INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&at)->sin6_addr, text,
			 INET6_ADDRSTRLEN);
}

/* ---- Paths ---------------------------------------------------------------------------------- */

int fabric_find_address(struct id *id)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	bool is_unbound = addr->src_addr.sa_family == AF_UNSPEC || address_is_any(&addr->src_addr);
	struct fabric_msg_port from, to;
	struct weft_address gid;
	int r = is_unbound ? error_of(weftv_fabric_look(&own_node, &from))
			   : fabric_port_at(&addr->src_addr, &from);

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
	gid = fabric_address_gid(&from, 0);
	memcpy(addr->addr.ibaddr.sgid.raw, gid.ip, sizeof(gid.ip));
	addr->addr.ibaddr.pkey = htobe16(from.pkeys.pkeys[0]);
	return r;
}

int fabric_find_path(struct id *id)
{
	struct rdma_addr *addr = &id->rdma.route.addr;
	struct weft_address from, to;
	int r;

	address_to_weft(&addr->src_addr, &from);
	address_to_weft(&addr->dst_addr, &to);
	r = error_of(weftv_fabric_path(&from, &to, &id->path));
	if (r == 0)
		memcpy(addr->addr.ibaddr.dgid.raw, id->path.to.ip, sizeof(id->path.to.ip));
	return r;
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
