/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/gid.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <string.h>

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool gid_is_ipv4(const struct gid *g)
{
	return memcmp(g->raw, mapped, sizeof(mapped)) == 0;
}

bool gid_is_link_local(const struct gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}

bool gid_is_multicast(const struct gid *g)
{
	return g->raw[0] == 0xff || (gid_is_ipv4(g) && g->raw[12] >> 4 == 0xe);
}

bool gid_is_none(const struct gid *g)
{
	static const struct gid none;

	return memcmp(g, &none, sizeof(none)) == 0;
}

/* Of IPv4 or IPv6; false: it is another. */
static bool gid_of(const struct sockaddr *a, struct gid *g)
{
	if (a->sa_family == AF_INET) {
		memcpy(g->raw, mapped, sizeof(mapped));
		memcpy(g->raw + sizeof(mapped),
		       &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	} else if (a->sa_family == AF_INET6) {
		memcpy(g->raw, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		       GID_BYTES);
	} else {
		return false;
	}
	return true;
}

/* RFC 4291 appendix A: the last half of an address is made of the hardware's so. */
static bool default_of(const struct sockaddr *a, struct gid *g)
{
	const struct sockaddr_ll *link = (const void *)a;
	const uint8_t *m = link->sll_addr;

	if (a->sa_family != AF_PACKET || link->sll_halen != 6)
		return false;
	*g = (struct gid){ { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, m[0] ^ 2, m[1], m[2], 0xff, 0xfe, m[3],
			     m[4], m[5] } };
	return true;
}

static bool has(const struct gid_table *t, const struct gid *g)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (memcmp(&t->gids[i], g, sizeof(*g)) == 0)
			return true;
	}
	return false;
}

/* Addresses of IPv4 may have a label behind the interface's name: eth0:1. */
static bool is_of(const struct ifaddrs *i, const char *interface)
{
	size_t length = strcspn(i->ifa_name, ":");

	return i->ifa_addr && strlen(interface) == length &&
	       memcmp(i->ifa_name, interface, length) == 0;
}

int gid_table_read(const char *interface, struct gid_table *t)
{
	struct gid first = { { 0 } }, g;
	struct ifaddrs *list;

	t->count = 0;
	if (getifaddrs(&list) < 0)
		return errno;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (is_of(i, interface))
			(void)default_of(i->ifa_addr, &first);
	}
	for (int is_rest = 0; is_rest < 2; is_rest++) {
		for (const struct ifaddrs *i = list; i && t->count < GIDS_MAX; i = i->ifa_next) {
			if (!is_of(i, interface) || !gid_of(i->ifa_addr, &g) || has(t, &g))
				continue;
			if (is_rest || memcmp(&g, &first, sizeof(g)) == 0)
				t->gids[t->count++] = g;
		}
	}
	freeifaddrs(list);
	return 0;
}
