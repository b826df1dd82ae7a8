/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/lan/lan_link.h"

#include <errno.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* After <net/if.h> of the C library, which it complements. */
#include <net/if.h>

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "driver/sys/calls.h"

enum {
	ANSWER = 32768,
	TURNS = 64,
};

/* Aligned as the kernel's macros want it. */
union answer {
	struct nlmsghdr first;
	uint8_t bytes[ANSWER];
};

static bool ask_links(const struct lan_link *link)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} ask = { .h = { .nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .i = { .ifi_family = AF_UNSPEC } };

	return call_send(link->watch.fd, &ask, sizeof(ask)) == sizeof(ask);
}

/* The attribute of this type among some, or NULL. The kernel aligns them. */
static const struct rtattr *find_attribute(const void *attributes, size_t left, int type,
					   size_t bytes_min)
{
	const uint8_t *at = attributes;

	while (left >= sizeof(struct rtattr)) {
		const struct rtattr *a = (const void *)at;
		size_t step = RTA_ALIGN(a->rta_len);

		if (a->rta_len < sizeof(*a) || a->rta_len > left)
			return NULL;
		if ((a->rta_type & NLA_TYPE_MASK) == type && RTA_PAYLOAD(a) >= bytes_min)
			return a;
		at += step < left ? step : left;
		left -= step < left ? step : left;
	}
	return NULL;
}

/* The next message of an answer; NULL: there is none. Begin with *at 0. */
static const struct nlmsghdr *next_message(const union answer *answer, size_t bytes, size_t *at)
{
	const struct nlmsghdr *h = (const void *)(answer->bytes + *at);

	if (*at > bytes || bytes - *at < sizeof(*h) || h->nlmsg_len < sizeof(*h) ||
	    h->nlmsg_len > bytes - *at)
		return NULL;
	*at += NLMSG_ALIGN((size_t)h->nlmsg_len);
	return h;
}

static const struct rtattr *link_attribute(const struct nlmsghdr *h, int type, size_t bytes_min)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);

	return find_attribute((const uint8_t *)i + NLMSG_ALIGN(sizeof(*i)),
			      NLMSG_PAYLOAD(h, sizeof(*i)), type, bytes_min);
}

static uint32_t attribute_u32(const struct rtattr *a)
{
	uint32_t v = 0;

	if (a)
		memcpy(&v, RTA_DATA(a), sizeof(v));
	return v;
}

static void tell_filters(struct lan_port *port, struct lan_link *link)
{
	struct lan_filters *f = &link->filters;

	_Static_assert(sizeof(f->vlans) == LAN_VLANS_MAX * sizeof(f->vlans[0]), "one limit");
	f->is_all_multicast = link->wants_all_groups || link->has_more_groups;
	f->vlan_count = (uint16_t)lan_vlans_list(&link->vlans, f->vlans);
	if (link->has_filters)
		lan_filters_are(port, f);
}

static void take_link(struct lan_port *port, struct lan_link *link, const struct nlmsghdr *h)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);
	const struct rtattr *mac = link_attribute(h, IFLA_ADDRESS, LAN_MAC_BYTES);
	const struct rtattr *mtu = link_attribute(h, IFLA_MTU, sizeof(uint32_t));
	const struct rtattr *watchers = link_attribute(h, IFLA_PROMISCUITY, sizeof(uint32_t));
	uint32_t want = IFF_UP | (link->is_carrier_counted ? IFF_RUNNING : 0);

	if (mac)
		lan_mac_is(port, RTA_DATA(mac));
	if (mtu)
		lan_mtu_is(port, attribute_u32(mtu));
	link->is_ethernet = i->ifi_type == ARPHRD_ETHER || i->ifi_type == ARPHRD_LOOPBACK;
	link->filters.is_promiscuous = i->ifi_flags & IFF_PROMISC || attribute_u32(watchers) > 0;
	link->wants_all_groups = i->ifi_flags & IFF_ALLMULTI;
	tell_filters(port, link);
	lan_link_is(port, (i->ifi_flags & want) == want, WEFT_R_LAN_DOWN);
}

/* The VLAN of an interface that is one on ours; 0: it is none. */
static uint16_t vlan_of(const struct lan_link *link, const struct nlmsghdr *h)
{
	const struct rtattr *below = link_attribute(h, IFLA_LINK, sizeof(uint32_t));
	const struct rtattr *info = link_attribute(h, IFLA_LINKINFO, 0), *kind, *data, *id;
	uint16_t vlan;

	if (!below || attribute_u32(below) != (uint32_t)link->index || !info)
		return 0;
	kind = find_attribute(RTA_DATA(info), RTA_PAYLOAD(info), IFLA_INFO_KIND,
			      sizeof("vlan") - 1);
	data = find_attribute(RTA_DATA(info), RTA_PAYLOAD(info), IFLA_INFO_DATA, 0);
	if (!kind || !data || memcmp(RTA_DATA(kind), "vlan", sizeof("vlan") - 1) != 0)
		return 0;
	id = find_attribute(RTA_DATA(data), RTA_PAYLOAD(data), IFLA_VLAN_ID, sizeof(vlan));
	if (!id)
		return 0;
	memcpy(&vlan, RTA_DATA(id), sizeof(vlan));
	return vlan;
}

static void take_other(struct lan_port *port, struct lan_link *link, const struct nlmsghdr *h)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);

	lan_vlans_put(&link->vlans, i->ifi_index,
		      h->nlmsg_type == RTM_NEWLINK ? vlan_of(link, h) : 0);
	tell_filters(port, link);
}

static void take_message(struct lan_port *port, struct lan_link *link, const struct nlmsghdr *h)
{
	const struct ifinfomsg *i = NLMSG_DATA(h);

	/* What a bridge says of its port is another thing, and less than the interface is. */
	if ((h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*i)) || i->ifi_family != AF_UNSPEC)
		return;
	if (i->ifi_index != link->index)
		take_other(port, link, h);
	else if (h->nlmsg_type == RTM_NEWLINK)
		take_link(port, link, h);
	else
		lan_link_is(port, false, WEFT_R_LAN_NONE);
}

void lan_link_read(struct lan_port *port, struct lan_link *link)
{
	union answer answer;

	for (int turn = 0; turn < TURNS; turn++) {
		ssize_t n = call_recv(link->watch.fd, &answer, sizeof(answer));
		const struct nlmsghdr *h;
		size_t at = 0;

		/* Notices were lost: what is there now, is asked for. */
		if (n < 0 && errno == ENOBUFS && ask_links(link))
			continue;
		if (n <= 0)
			return;
		while ((h = next_message(&answer, (size_t)n, &at)) != NULL)
			take_message(port, link, h);
	}
}

static void take_group(struct lan_link *link, const struct nlmsghdr *h)
{
	const struct ndmsg *n = NLMSG_DATA(h);
	struct lan_filters *f = &link->filters;
	const uint8_t *at = (const uint8_t *)n + NLMSG_ALIGN(sizeof(*n));
	const struct rtattr *mac;

	if (h->nlmsg_type != RTM_NEWNEIGH || h->nlmsg_len < NLMSG_LENGTH(sizeof(*n)) ||
	    n->ndm_ifindex != link->index)
		return;
	mac = find_attribute(at, NLMSG_PAYLOAD(h, sizeof(*n)), NDA_LLADDR, LAN_MAC_BYTES);
	if (!mac || !(*(const uint8_t *)RTA_DATA(mac) & 1))
		return;
	if (f->multicast_count == sizeof(f->multicast) / LAN_MAC_BYTES)
		link->has_more_groups = true;
	else
		memcpy(f->multicast[f->multicast_count++], RTA_DATA(mac), LAN_MAC_BYTES);
}

/* True: the answer has ended. */
static bool take_groups(struct lan_link *link, const union answer *answer, size_t bytes)
{
	const struct nlmsghdr *h;
	size_t at = 0;

	while ((h = next_message(answer, bytes, &at)) != NULL) {
		if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
			return true;
		take_group(link, h);
	}
	return false;
}

void lan_link_groups(struct lan_port *port, struct lan_link *link)
{
	struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} ask = { .h = { .nlmsg_len = sizeof(ask),
			 .nlmsg_type = RTM_GETNEIGH,
			 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		  .i = { .ifi_family = PF_BRIDGE, .ifi_index = link->index } };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	union answer answer;
	ssize_t n = -1;

	if (fd < 0)
		return;
	link->filters.multicast_count = 0;
	link->has_more_groups = false;
	memset(link->filters.multicast, 0, sizeof(link->filters.multicast));
	if (call_send(fd, &ask, sizeof(ask)) == sizeof(ask)) {
		/* The kernel answers within send() and recv(). */
		for (int turn = 0; turn < TURNS; turn++) {
			n = call_recv(fd, &answer, sizeof(answer));
			if (n <= 0 || take_groups(link, &answer, (size_t)n))
				break;
		}
	}
	call_close(fd);
	tell_filters(port, link);
}

int lan_link_open(struct lan_port *port, struct lan_link *link, const char *name)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };
	int error = ENODEV;

	link->watch.fd = -1;
	link->index = (int)if_nametoindex(name);
	if (link->index == 0)
		return -error;
	link->watch.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (link->watch.fd < 0)
		return -errno;
	if (bind(link->watch.fd, (const void *)&to, sizeof(to)) < 0 || !ask_links(link)) {
		error = errno;
		call_close(link->watch.fd);
		link->watch.fd = -1;
		return -error;
	}
	lan_watch(port, &link->watch, EPOLLIN);
	lan_link_read(port, link);
	return 0;
}

void lan_link_close(struct lan_port *port, struct lan_link *link)
{
	lan_watch_close(port, &link->watch);
}

static enum weft_reason set(const struct lan_link *link, unsigned long what, struct ifreq *r)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return lan_reason_of(errno);
	/* Its host may have given it another name meanwhile. */
	if (!if_indextoname((unsigned int)link->index, r->ifr_name) || ioctl(fd, what, r) < 0)
		error = errno;
	call_close(fd);
	return error ? lan_reason_of(error) : WEFT_OK;
}

enum weft_reason lan_link_set_mac(const struct lan_link *link, const uint8_t mac[LAN_MAC_BYTES])
{
	struct ifreq r = { .ifr_hwaddr.sa_family = ARPHRD_ETHER };

	memcpy(r.ifr_hwaddr.sa_data, mac, LAN_MAC_BYTES);
	return set(link, SIOCSIFHWADDR, &r);
}

enum weft_reason lan_link_set_mtu(const struct lan_link *link, uint32_t mtu)
{
	struct ifreq r = { .ifr_mtu = (int)mtu };

	return set(link, SIOCSIFMTU, &r);
}
