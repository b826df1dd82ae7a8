/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(): names are those of nodes, and the system's own to resolve. */
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "compat/rdmacm/rdmacm.h"

enum { KNOWN_FLAGS = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY };

static void info_free(struct rdma_addrinfo *info)
{
	free(info->ai_src_addr);
	free(info->ai_dst_addr);
	free(info->ai_src_canonname);
	free(info->ai_dst_canonname);
	free(info->ai_connect);
	free(info->ai_route);
	free(info);
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	while (res) {
		struct rdma_addrinfo *next = res->ai_next;

		info_free(res);
		res = next;
	}
}

/* A copy of an address. False: no memory. */
static bool copy(const struct sockaddr *from, socklen_t length, struct sockaddr **to,
		 socklen_t *to_length)
{
	if (length == 0 || !from)
		return true;
	*to = malloc(length);
	if (!*to)
		return false;
	memcpy(*to, from, length);
	*to_length = length;
	return true;
}

static bool copy_name(const char *from, char **to)
{
	if (!from)
		return true;
	*to = strdup(from);
	return *to != NULL;
}

/* One of the two says it for the other. */
static bool is_datagram(const struct rdma_addrinfo *hints)
{
	if (hints->ai_qp_type)
		return hints->ai_qp_type == IBV_QPT_UD;
	return hints->ai_port_space == RDMA_PS_UDP || hints->ai_port_space == RDMA_PS_IPOIB;
}

/* One result: what was found, which is the source for who listens, and the hints' other end. */
static struct rdma_addrinfo *info_make(const struct addrinfo *found,
				       const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *i = calloc(1, sizeof(*i));
	bool is_passive = hints->ai_flags & RAI_PASSIVE;
	bool is_good;

	if (!i)
		return NULL;
	i->ai_flags = hints->ai_flags;
	i->ai_qp_type = hints->ai_qp_type    ? hints->ai_qp_type
			: is_datagram(hints) ? IBV_QPT_UD
					     : IBV_QPT_RC;
	i->ai_port_space = hints->ai_port_space ? hints->ai_port_space
			   : is_datagram(hints) ? RDMA_PS_UDP
						: RDMA_PS_TCP;
	if (found && is_passive)
		is_good = copy(found->ai_addr, found->ai_addrlen, &i->ai_src_addr,
			       &i->ai_src_len) &&
			  copy_name(found->ai_canonname, &i->ai_src_canonname);
	else if (found)
		is_good = copy(found->ai_addr, found->ai_addrlen, &i->ai_dst_addr,
			       &i->ai_dst_len) &&
			  copy_name(found->ai_canonname, &i->ai_dst_canonname);
	else
		is_good = copy(hints->ai_dst_addr, hints->ai_dst_len, &i->ai_dst_addr,
			       &i->ai_dst_len);
	if (is_good && !i->ai_src_addr)
		is_good = copy(hints->ai_src_addr, hints->ai_src_len, &i->ai_src_addr,
			       &i->ai_src_len);
	if (!is_good) {
		info_free(i);
		return NULL;
	}
	if (i->ai_dst_addr)
		i->ai_family = i->ai_dst_addr->sa_family;
	else if (i->ai_src_addr)
		i->ai_family = i->ai_src_addr->sa_family;
	return i;
}

/* A list of all that was found, which may be nothing but the hints. */
static int list_make(const struct addrinfo *found, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *first = NULL, **last = &first;

	do {
		*last = info_make(found, hints);
		if (!*last) {
			rdma_freeaddrinfo(first);
			return EAI_MEMORY;
		}
		last = &(*last)->ai_next;
		found = found ? found->ai_next : NULL;
	} while (found);
	*res = first;
	return 0;
}

/* Which families there are to find: the one that is asked for, or that of the other end. */
static int family_of(const struct rdma_addrinfo *hints)
{
	const struct sockaddr *other = hints->ai_flags & RAI_PASSIVE ? NULL : hints->ai_src_addr;

	if (hints->ai_flags & RAI_FAMILY)
		return hints->ai_family;
	return other && hints->ai_src_len > 0 ? other->sa_family : AF_UNSPEC;
}

/* An address of IPv6 is a GID: the same as one of AF_IB. False: no memory. */
static bool to_ib(struct sockaddr **address, socklen_t *length, int space)
{
	const struct sockaddr_in6 *from = (const struct sockaddr_in6 *)(void *)*address;
	struct sockaddr_ib *ib;

	if (!from || from->sin6_family != AF_INET6)
		return true;
	ib = calloc(1, sizeof(*ib));
	if (!ib)
		return false;
	ib->sib_family = AF_IB;
	ib->sib_pkey = UINT16_MAX;
	memcpy(ib->sib_addr.sib_raw, from->sin6_addr.s6_addr, sizeof(ib->sib_addr.sib_raw));
	ib->sib_sid = htobe64((uint64_t)space << 16 | ntohs(from->sin6_port));
	ib->sib_sid_mask = UINT64_MAX;
	free(*address);
	*address = (struct sockaddr *)ib;
	*length = sizeof(*ib);
	return true;
}

static int list_to_ib(struct rdma_addrinfo *list)
{
	for (struct rdma_addrinfo *i = list; i; i = i->ai_next) {
		if (!to_ib(&i->ai_src_addr, &i->ai_src_len, i->ai_port_space) ||
		    !to_ib(&i->ai_dst_addr, &i->ai_dst_len, i->ai_port_space))
			return EAI_MEMORY;
		i->ai_family = AF_IB;
	}
	return 0;
}

static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
		   struct rdma_addrinfo **res)
{
	struct addrinfo wanted = { 0 }, *found;
	char text[INET6_ADDRSTRLEN];
	bool is_ib = family_of(hints) == AF_IB;
	int r;

	wanted.ai_socktype = is_datagram(hints) ? SOCK_DGRAM : SOCK_STREAM;
	wanted.ai_family = is_ib ? AF_INET6 : family_of(hints);
	if (hints->ai_flags & RAI_PASSIVE)
		wanted.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		wanted.ai_flags |= AI_NUMERICHOST;
	if (fabric_name_to(node, wanted.ai_family, text))
		node = text;
	r = getaddrinfo(node, service, &wanted, &found);
	if (r != 0)
		return r;
	r = list_make(found, hints, res);
	freeaddrinfo(found);
	if (r == 0 && is_ib) {
		r = list_to_ib(*res);
		if (r != 0)
			rdma_freeaddrinfo(*res);
	}
	return r;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	static const struct rdma_addrinfo none;

	if (!res || (!node && !service && !hints))
		return cm_result(-EINVAL);
	if (!hints)
		hints = &none;
	if (hints->ai_flags & ~KNOWN_FLAGS)
		return EAI_BADFLAGS;
	if ((hints->ai_flags & RAI_FAMILY) && hints->ai_family != AF_INET &&
	    hints->ai_family != AF_INET6 && hints->ai_family != AF_UNSPEC &&
	    !(hints->ai_family == AF_IB && fabric_is_ours()))
		return EAI_FAMILY;
	return node || service ? look_up(node, service, hints, res) : list_make(NULL, hints, res);
}
