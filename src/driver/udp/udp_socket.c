/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"

/* Linux has these, older libraries' headers do not. */
enum { OPTION_UDP_NO_CHECK6_RX = 102, OPTION_UDP_GRO = 104, OPTION_IPV6_MULTICAST_ALL = 29 };

/* The kernel grants as much as its limits allow. */
enum { BUFFER_BYTES = 4 * 1024 * 1024, ERROR_BYTES = 16 * 1024 };

void udp_set(int fd, int level, int name, int value)
{
	/* A kernel without the option works without it. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

/* ---- Addresses ------------------------------------------------------------------------------ */

socklen_t udp_name_of(union udp_name *name, bool is_ipv6, const struct inet_end *end)
{
	if (!is_ipv6) {
		name->v4 = (struct sockaddr_in){ .sin_family = AF_INET,
						 .sin_port = htons(end->port) };
		memcpy(&name->v4.sin_addr, end->address, sizeof(name->v4.sin_addr));
		return sizeof(name->v4);
	}
	name->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(end->port) };
	memcpy(&name->v6.sin6_addr, end->address, sizeof(name->v6.sin6_addr));
	return sizeof(name->v6);
}

void udp_end_of(const union udp_name *name, struct inet_end *end)
{
	if (name->any.sa_family == AF_INET) {
		end->port = ntohs(name->v4.sin_port);
		memcpy(end->address, &name->v4.sin_addr, sizeof(name->v4.sin_addr));
		memset(end->address + 4, 0, sizeof(end->address) - 4);
		return;
	}
	end->port = ntohs(name->v6.sin6_port);
	memcpy(end->address, &name->v6.sin6_addr, sizeof(end->address));
}

bool udp_is_group(bool is_ipv6, const uint8_t *address)
{
	return is_ipv6 ? address[0] == 0xff : (address[0] & 0xf0) == 0xe0;
}

static bool has_address(const struct ifaddrs *i, bool is_ipv6, const uint8_t *address)
{
	const union udp_name *name = (const void *)i->ifa_addr;

	if (!name || name->any.sa_family != (is_ipv6 ? AF_INET6 : AF_INET))
		return false;
	return is_ipv6 ? memcmp(&name->v6.sin6_addr, address, 16) == 0
		       : memcmp(&name->v4.sin_addr, address, 4) == 0;
}

uint32_t udp_interface_of(bool is_ipv6, const uint8_t *address)
{
	struct ifaddrs *all;
	uint32_t index = 0;

	if (getifaddrs(&all) < 0)
		return 0;
	for (const struct ifaddrs *i = all; i && index == 0; i = i->ifa_next) {
		if (has_address(i, is_ipv6, address))
			index = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(all);
	return index;
}

bool udp_is_local(bool is_ipv6, const uint8_t *address)
{
	enum { LOOPBACK_NET = 127 };

	return (!is_ipv6 && address[0] == LOOPBACK_NET) || udp_interface_of(is_ipv6, address) != 0;
}

/* A link-local address needs the interface too. */
static socklen_t local_name_of(union udp_name *name, bool is_ipv6, const struct inet_end *end)
{
	socklen_t length = udp_name_of(name, is_ipv6, end);

	if (is_ipv6 && IN6_IS_ADDR_LINKLOCAL(&name->v6.sin6_addr))
		name->v6.sin6_scope_id = udp_interface_of(true, end->address);
	return length;
}

/* ---- UDP ------------------------------------------------------------------------------------ */

static int udp_socket_open(bool is_ipv6)
{
	int fd = socket(is_ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	/*
	 * The kernel shares the port only among sockets of one user. SO_REUSEADDR would share it
	 * with other users, who could then receive our packets.
	 */
	udp_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
	if (is_ipv6)
		udp_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	return fd;
}

static int failed(int fd)
{
	int error = errno;

	call_close(fd);
	return -error;
}

/*
 * A forged ICMP error makes the kernel believe that a path takes only small packets, but RoCE
 * packets cannot become smaller than the two ends agreed on. So no socket follows the path MTU.
 * Sending sockets keep the DF flag: with it the identification is 0, as the ICRC expects. Receiving
 * sockets do not even let the kernel store the path MTU.
 */
static void ignore_path_mtu(int fd, bool is_ipv6, bool is_sender)
{
	if (is_ipv6)
		udp_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER,
			is_sender ? IPV6_PMTUDISC_PROBE : IPV6_PMTUDISC_INTERFACE);
	else
		udp_set(fd, IPPROTO_IP, IP_MTU_DISCOVER,
			is_sender ? IP_PMTUDISC_PROBE : IP_PMTUDISC_INTERFACE);
}

static void set_input(int fd, bool is_ipv6)
{
	ignore_path_mtu(fd, is_ipv6, false);
	udp_set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	udp_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES); /* needs CAP_NET_ADMIN */
	udp_set(fd, SOL_UDP, OPTION_UDP_GRO, 1);
	if (is_ipv6) {
		/*
		 * The ICRC replaces the UDP checksum: Linux's rxe and hardware adapters send none.
		 */
		udp_set(fd, SOL_UDP, OPTION_UDP_NO_CHECK6_RX, 1);
		udp_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		udp_set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	} else {
		udp_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		udp_set(fd, IPPROTO_IP, IP_RECVTTL, 1);
	}
}

int udp_shared_open(bool is_ipv6)
{
	static const struct inet_end any = { .port = IBA_UDP_PORT };
	union udp_name name;
	socklen_t length = udp_name_of(&name, is_ipv6, &any);
	int fd = udp_socket_open(is_ipv6);

	if (fd < 0)
		return fd;
	set_input(fd, is_ipv6);
	/* Do not receive groups that only other sockets of this host joined. */
	if (is_ipv6) {
		udp_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
		udp_set(fd, IPPROTO_IPV6, OPTION_IPV6_MULTICAST_ALL, 0);
	} else {
		udp_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		udp_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	}
	return bind(fd, &name.any, length) == 0 ? fd : failed(fd);
}

/*
 * The kernel gives a connected socket only packets of its peer, and no packet ever comes from port
 * 1 of the loopback address.
 */
void udp_shared_shut(int fd, bool is_ipv6)
{
	struct inet_end silent = { .address = { 127, 0, 0, 1 }, .port = 1 };
	union udp_name name;
	socklen_t length;

	if (is_ipv6)
		silent = (struct inet_end){ .address = { [15] = 1 }, .port = 1 };
	length = udp_name_of(&name, is_ipv6, &silent);
	(void)call_connect(fd, &name.any, length);
}

/*
 * Between bind() and connect() the kernel gives this socket all packets to the address that have no
 * flow. They stay in it, and are read and handed on like those of the shared socket.
 */
int udp_flow_socket_open(bool is_ipv6, const struct inet_end *at, const struct inet_end *peer)
{
	const struct inet_end *ends[] = { at, peer };
	union udp_name name[2];
	socklen_t length[2];
	int fd = udp_socket_open(is_ipv6);

	if (fd < 0)
		return fd;
	set_input(fd, is_ipv6);
	for (int i = 0; i < 2; i++)
		length[i] = udp_name_of(&name[i], is_ipv6, ends[i]);
	if (is_ipv6 && IN6_IS_ADDR_LINKLOCAL(&name[0].v6.sin6_addr)) {
		name[0].v6.sin6_scope_id = udp_interface_of(true, at->address);
		name[1].v6.sin6_scope_id = name[0].v6.sin6_scope_id;
	}
	if (bind(fd, &name[0].any, length[0]) == 0 &&
	    call_connect(fd, &name[1].any, length[1]) == 0)
		return fd;
	return failed(fd);
}

/* Packets sent to our source ports have no receiver: let the kernel drop them. */
static void take_nothing(int fd)
{
	struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = { .len = 1, .filter = &nothing };

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
	udp_set(fd, SOL_SOCKET, SO_RCVBUF, ERROR_BYTES);
}

/* Never connected: the kernel increments the identification of a connected socket's packets. */
int udp_sender_socket_open(bool is_ipv6, const struct inet_end *from)
{
	union udp_name name;
	socklen_t length = local_name_of(&name, is_ipv6, from);
	int fd = udp_socket_open(is_ipv6);

	if (fd < 0)
		return fd;
	take_nothing(fd);
	udp_set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
	/* For udp_returned.c. The next call that sends fails if there is an ICMP error. */
	if (is_ipv6)
		udp_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
	else
		udp_set(fd, IPPROTO_IP, IP_RECVERR, 1);
	if (bind(fd, &name.any, length) < 0)
		return failed(fd);
	ignore_path_mtu(fd, is_ipv6, true);
	if (is_ipv6) {
		udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF,
			(int)udp_interface_of(true, from->address));
	} else {
		const struct ip_mreqn at = { .imr_address = name.v4.sin_addr };

		(void)setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &at, sizeof(at));
	}
	return fd;
}

/* ---- Unix ----------------------------------------------------------------------------------- */

struct unix_names udp_unix_names(const struct udp_owner_key *owner_key)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	if (owner_key->kind == UDP_SLOTS)
		(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.place.%u",
			       owner_key->adapter_slot);
	else
		(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.service.%016llx",
			       (unsigned long long)owner_key->service_id);
	return names;
}
