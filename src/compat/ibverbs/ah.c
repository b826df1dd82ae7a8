/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: where a datagram goes, which on RoCE is an IP address, in a fabric a LID. */
#include "compat/ibverbs/ah.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <weft/roce.h>

#include "compat/ibverbs/address.h"
#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/gid.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/translate.h"

enum { HOPS_DEFAULT = 64 };

/* ---- Paths ---------------------------------------------------------------------------------- */

static const struct gid *as_gid(const union ibv_gid *gid)
{
	return (const struct gid *)(const void *)gid->raw;
}

void address_of_gid(struct ibv_context *context, const struct gid *g, struct weft_address *a)
{
	*a = (struct weft_address){ .family = gid_is_ipv4(g) ? 4 : 6 };
	if (a->family == 4) {
		memcpy(a->ip, g->raw + 12, 4);
		return;
	}
	memcpy(a->ip, g->raw, GID_BYTES);
	if (gid_is_link_local(g) || gid_is_multicast(g))
		a->scope = device_of(context->device)->index;
}

int address_of_port(struct ibv_context *context, bool is_ipv4, struct weft_address *a)
{
	struct gid_table t;
	int error = gid_table_read(device_of(context->device)->interface, &t);

	for (uint32_t i = 0; !error && i < t.count; i++) {
		if (gid_is_ipv4(&t.gids[i]) == is_ipv4) {
			address_of_gid(context, &t.gids[i], a);
			return 0;
		}
	}
	return error ? error : EADDRNOTAVAIL;
}

/* IBA annex A17: RoCE's packets have a global route, or none at all. */
static const char *lack(const struct ibv_ah_attr *attr, const union ibv_gid *from)
{
	if (attr->port_num != 1)
		return "there is one port, number 1";
	if (!attr->is_global)
		return "RoCE needs a global route: is_global, and the GID of the other end in grh.dgid";
	if (gid_is_none(as_gid(&attr->grh.dgid)))
		return "grh.dgid is empty";
	if (gid_is_none(as_gid(from)))
		return "the port has no GID with the index of grh.sgid_index";
	if (gid_is_ipv4(as_gid(from)) != gid_is_ipv4(as_gid(&attr->grh.dgid)) &&
	    !gid_is_multicast(as_gid(&attr->grh.dgid)))
		return "of grh.dgid and the GID of grh.sgid_index one is of IPv4, the other of IPv6";
	return NULL;
}

int path_of(struct ibv_context *context, const struct ibv_ah_attr *attr, struct weft_path *path)
{
	union ibv_gid from = { { 0 } };
	const char *why;
	int error;

	if (is_in_fabric(context))
		return fabric_path_of(attr, path);
	error = ibv_query_gid(context, 1, attr->grh.sgid_index, &from) == 0 ? 0 : errno;

	if (error && error != EINVAL) {
		say("%s: its addresses cannot be read: %s", context->device->name, strerror(error));
		return error;
	}
	why = lack(attr, &from);
	if (why) {
		say("%s: an address is refused: %s", context->device->name, why);
		return EINVAL;
	}
	*path = (struct weft_path){
		.mtu_bytes = 128U << port_mtu(context, 1),
		.traffic_class = attr->grh.traffic_class,
		.hop_limit = attr->grh.hop_limit ? attr->grh.hop_limit : HOPS_DEFAULT,
		.flow_label = attr->grh.flow_label & 0xfffff,
	};
	address_of_gid(context, as_gid(&from), &path->from);
	address_of_gid(context, as_gid(&attr->grh.dgid), &path->to);
	/* Programs name groups of IPv6 whatever their own GID is (perftest does). */
	if (path->from.family != path->to.family &&
	    address_of_port(context, path->to.family == 4, &path->from) != 0) {
		say("%s: a group is refused: the port has no address of IPv%d",
		    context->device->name, path->to.family);
		return EINVAL;
	}
	return 0;
}

/* ---- Handles -------------------------------------------------------------------------------- */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct weft_path path;
	enum weft_reason r;
	struct ah *ah;

	errno = is_ib(pd->context) ? path_of(pd->context, attr, &path) : EOPNOTSUPP;
	if (errno)
		return NULL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return refused(WEFT_R_NO_MEMORY);
	r = weft_ah_create(pd_of(pd)->weft, &path, &ah->weft);
	if (r != WEFT_OK) {
		free(ah);
		return refused(r);
	}
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	pd_get(pd);
	context_get(pd->context);
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ibv)
{
	struct ah *ah = ah_of(ibv);
	enum weft_reason r = weft_ah_destroy(ah->weft);

	if (r != WEFT_OK)
		return weftv_errno(r);
	pd_put(ibv->pd);
	context_put(ibv->context);
	free(ah);
	return 0;
}

/* ---- The way back --------------------------------------------------------------------------- */

/* IBA annex A17: the IPv4 header stands at the end of the 40 bytes. */
static bool take_ipv4(const struct ibv_grh *grh, struct ibv_global_route *back, union ibv_gid *to)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	struct iphdr ip;

	memcpy(&ip, bytes + sizeof(*grh) - sizeof(ip), sizeof(ip));
	if (ip.version != 4 || ip.ihl * 4U != sizeof(ip))
		return false;
	*to = back->dgid = (union ibv_gid){ .raw = { [10] = 0xff, [11] = 0xff } };
	memcpy(back->dgid.raw + 12, &ip.saddr, sizeof(ip.saddr));
	memcpy(to->raw + 12, &ip.daddr, sizeof(ip.daddr));
	back->traffic_class = ip.tos;
	return true;
}

static bool take_ipv6(const struct ibv_grh *grh, struct ibv_global_route *back, union ibv_gid *to)
{
	uint32_t word = ntohl(grh->version_tclass_flow);

	if (word >> 28 != 6)
		return false;
	back->dgid = grh->sgid;
	back->traffic_class = (uint8_t)(word >> 20);
	back->flow_label = word & 0xfffff;
	*to = grh->dgid;
	return true;
}

/* What came to a group goes back from an address of the same kind. */
static int find_source(struct ibv_context *context, const union ibv_gid *to, uint8_t *index)
{
	bool is_ipv4 = gid_is_ipv4(as_gid(to));
	struct gid_table t;
	int error;

	if (!gid_is_multicast(as_gid(to)))
		return gid_find(context, to, index);
	error = gid_table_read(device_of(context->device)->interface, &t);
	for (uint32_t i = 0; !error && i < t.count; i++) {
		if (gid_is_ipv4(&t.gids[i]) == is_ipv4) {
			*index = (uint8_t)i;
			return 0;
		}
	}
	return error ? error : ENODATA;
}

/* 0 or errno. */
static int path_back(struct ibv_context *context, uint8_t port_num, const struct ibv_wc *wc,
		     const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid to;
	int error;

	*attr = (struct ibv_ah_attr){ .port_num = port_num, .is_global = 1 };
	if (port_num != 1 || !(wc->wc_flags & IBV_WC_GRH) ||
	    (!take_ipv6(grh, &attr->grh, &to) && !take_ipv4(grh, &attr->grh, &to)))
		error = EINVAL;
	else
		error = find_source(context, &to, &attr->grh.sgid_index);
	attr->grh.hop_limit = HOPS_DEFAULT;
	return error;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int error = EOPNOTSUPP;

	if (is_in_fabric(context))
		error = fabric_path_back(port_num, wc, grh, attr);
	else if (is_ib(context))
		error = path_back(context, port_num, wc, grh, attr);
	errno = error;
	return error ? -1 : 0; /* man ibv_create_ah_from_wc: -1 on error, as of no other here */
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* ---- Ethernet ------------------------------------------------------------------------------- */

/* RFC 1112 section 6.4, RFC 2464 section 7. */
static void hardware_of_group(const struct gid *g, uint8_t mac[ETHERNET_LL_SIZE])
{
	const uint8_t *ip = g->raw + 12;

	if (gid_is_ipv4(g))
		memcpy(mac, (const uint8_t[]){ 1, 0, 0x5e, ip[1] & 0x7f, ip[2], ip[3] }, 6);
	else
		memcpy(mac, (const uint8_t[]){ 0x33, 0x33, ip[0], ip[1], ip[2], ip[3] }, 6);
}

/* What the kernel knows of a neighbour. 0 or errno. */
static int hardware_of_neighbour(const struct device *d, const struct gid *g, uint8_t mac[6])
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct arpreq request = { 0 };
	int fd, error = 0;

	memcpy(&to.sin_addr, g->raw + 12, 4);
	memcpy(&request.arp_pa, &to, sizeof(to));
	snprintf(request.arp_dev, sizeof(request.arp_dev), "%s", d->interface);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	if (ioctl(fd, SIOCGARP, &request) < 0)
		error = errno;
	else if (!(request.arp_flags & ATF_COM))
		error = ENXIO;
	close(fd);
	if (!error)
		memcpy(mac, request.arp_ha.sa_data, 6);
	return error;
}

/* Of IPv6 those that are made of hardware addresses tell them. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	enum { NO_VLAN = 0xffff };
	const struct device *d = device_of(context->device);
	const struct gid *g = as_gid(&attr->grh.dgid);
	const uint8_t *r = g->raw;
	struct weft_path path;
	uint8_t index;
	int error;

	if (!is_ib(context) || is_in_fabric(context))
		return EOPNOTSUPP;
	error = path_of(context, attr, &path);
	if (error)
		return error;
	*vid = NO_VLAN;
	if (gid_is_multicast(g)) {
		hardware_of_group(g, mac);
		return 0;
	}
	if (gid_find(context, &attr->grh.dgid, &index) == 0) {
		memcpy(mac, d->mac, sizeof(d->mac));
		return 0;
	}
	if (gid_is_ipv4(g))
		return hardware_of_neighbour(d, g, mac);
	if (!gid_is_link_local(g) || r[11] != 0xff || r[12] != 0xfe)
		return ENXIO;
	memcpy(mac, (const uint8_t[]){ r[8] ^ 2, r[9], r[10], r[13], r[14], r[15] }, 6);
	return 0;
}
