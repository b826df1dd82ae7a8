/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

static const struct sockaddr_in *v4(const struct sockaddr *a)
{
	return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *v6(const struct sockaddr *a)
{
	return (const struct sockaddr_in6 *)(const void *)a;
}

static const struct sockaddr_ib *ib(const struct sockaddr *a)
{
	return (const struct sockaddr_ib *)(const void *)a;
}

static struct sockaddr_ib *ib_of(struct sockaddr *a)
{
	return (struct sockaddr_ib *)(void *)a;
}

socklen_t address_size(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_IB:
		return fabric_is_ours() ? sizeof(struct sockaddr_ib) : 0;
	default:
		return 0;
	}
}

bool address_is_any(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return v4(a)->sin_addr.s_addr == htonl(INADDR_ANY);
	if (a->sa_family == AF_IB)
		return ib_addr_any(&ib(a)->sib_addr);
	return IN6_IS_ADDR_UNSPECIFIED(&v6(a)->sin6_addr);
}

bool address_is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(v4(a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	if (a->sa_family == AF_IB)
		return ib_addr_loopback(&ib(a)->sib_addr);
	return IN6_IS_ADDR_LOOPBACK(&v6(a)->sin6_addr);
}

bool address_is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
	if (a->sa_family == AF_IB)
		return ib_addr_cmp(&ib(a)->sib_addr, &ib(b)->sib_addr) == 0;
	return IN6_ARE_ADDR_EQUAL(&v6(a)->sin6_addr, &v6(b)->sin6_addr) &&
	       v6(a)->sin6_scope_id == v6(b)->sin6_scope_id;
}

in_port_t address_port(const struct sockaddr *a)
{
	switch (a->sa_family) {
	case AF_INET:
		return v4(a)->sin_port;
	case AF_INET6:
		return v6(a)->sin6_port;
	case AF_IB:
		return htobe16((uint16_t)be64toh(ib(a)->sib_sid));
	default:
		return 0;
	}
}

void address_set_port(struct sockaddr *a, in_port_t port)
{
	if (a->sa_family == AF_INET)
		((struct sockaddr_in *)(void *)a)->sin_port = port;
	else if (a->sa_family == AF_IB)
		ib_of(a)->sib_sid = htobe64((be64toh(ib_of(a)->sib_sid) & ~UINT64_C(0xffff)) |
					    be16toh(port));
	else
		((struct sockaddr_in6 *)(void *)a)->sin6_port = port;
}

void address_to_weft(const struct sockaddr *from, struct weft_address *to)
{
	*to = (struct weft_address){ .port = ntohs(address_port(from)) };
	if (from->sa_family == AF_INET) {
		to->family = 4;
		memcpy(to->ip, &v4(from)->sin_addr, 4);
	} else if (from->sa_family == AF_IB) {
		to->family = 6;
		memcpy(to->ip, ib(from)->sib_addr.sib_raw, 16);
	} else {
		to->family = 6;
		memcpy(to->ip, &v6(from)->sin6_addr, 16);
		to->scope = v6(from)->sin6_scope_id;
	}
}

void address_from_weft(const struct weft_address *from, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (struct sockaddr_in *)(void *)to;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)to;

	memset(to, 0, sizeof(*to));
	if (from->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(from->port);
		memcpy(&in->sin_addr, from->ip, sizeof(in->sin_addr));
		return;
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(from->port);
	in6->sin6_scope_id = from->scope;
	memcpy(&in6->sin6_addr, from->ip, sizeof(in6->sin6_addr));
}
