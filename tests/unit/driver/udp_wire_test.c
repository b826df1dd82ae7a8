/* SPDX-License-Identifier: BSD-2-Clause */
/* What leaves by RoCE's sockets as others see it; what the kernel refuses; groups. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "udp_fixture.h"
#include "udp_look.h"
#include "wire/iba_icrc.h"

enum { BATCH = 15, IP_BYTES = 20, UDP_BYTES = 8, LO_MTU = 65536 };

static struct udp_side a, b, c;
static struct udp_side *all[] = { &a, &b, &c };
static struct ib_out outs[MADE_MAX];

static void open_all(void)
{
	for (int i = 0; i < 3; i++)
		side_open(all[i]);
}

static void close_all(void)
{
	for (int i = 0; i < 3; i++)
		side_close(all[i]);
}

static void make_some(const struct ib_path *path, uint32_t dest_qp, uint32_t count, uint32_t bytes)
{
	for (uint32_t i = 0; i < count; i++)
		make(&outs[i], &(struct making){ .path = path,
						 .dest_qp = dest_qp,
						 .psn = i,
						 .payload_bytes = i + 1 < count ? bytes : bytes / 2,
						 .ipv4_id = (uint16_t)i });
}

/* ---- On the wire ---------------------------------------------------------------------------- */

static int wire_open(void)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP) };
	int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, htons(ETH_P_IP));

	at.sll_ifindex = (int)if_nametoindex("lo");
	if (fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The next that arrives, 0: none. */
static size_t wire_next(int fd, uint8_t *bytes, size_t room)
{
	for (;;) {
		struct sockaddr_ll from;
		socklen_t length = sizeof(from);
		ssize_t n = recvfrom(fd, bytes, room, 0, (void *)&from, &length);

		if (n <= 0)
			return 0;
		if (from.sll_pkttype == PACKET_HOST)
			return (size_t)n;
	}
}

static uint16_t u16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

/* Its ICRC, with the identification that it has. */
static uint32_t differs(const struct ib_path *path, const uint8_t *ip, size_t length)
{
	const struct iba_icrc_ip known = { .from = &path->from,
					   .to = &path->to,
					   .ipv4_id = u16(ip + 4),
					   .ipv4_fragment = u16(ip + 6) };
	uint32_t bytes = (uint32_t)length - IP_BYTES - UDP_BYTES;

	return iba_icrc_differs(iba_icrc_begin(&known, bytes), ip + IP_BYTES + UDP_BYTES, bytes);
}

static void expect_on_the_wire(int fd, const struct ib_path *path, uint32_t count, bool is_batch)
{
	static uint8_t ip[65536];

	for (uint32_t i = 0; i < count; i++) {
		size_t length = wire_next(fd, ip, sizeof(ip));

		EXPECT(length > IP_BYTES + UDP_BYTES && u16(ip + 2) == length);
		EXPECT_EQ(u16(ip + 4), is_batch ? i : 0);
		EXPECT_EQ(u16(ip + 6), IBA_IPV4_DF);
		EXPECT_EQ(ip[1], path->traffic_class);
		EXPECT_EQ(ip[8], path->hop_limit);
		EXPECT_EQ(u16(ip + IP_BYTES), path->from.port);
		EXPECT_EQ(u16(ip + IP_BYTES + 2), 4791);
		EXPECT_EQ(differs(path, ip, length), 0);
	}
	EXPECT_EQ(wire_next(fd, ip, sizeof(ip)), 0);
}

/* Segment k of a batch has identification k, and the ICRC that belongs to it. */
TEST(test_iba_a17_icrc_of_what_is_on_the_wire)
{
	struct ib_path path;
	int fd;

	WORLD_OR_SKIP();
	fd = wire_open();
	if (fd < 0)
		SKIP("packets cannot be captured");
	if (system("ip link set lo gso_max_segs 1 2>/dev/null") != 0) {
		close(fd);
		SKIP("ip cannot make the interface cut batches apart");
	}
	side_open(&a);
	path = path_of("127.0.0.1", "127.0.0.1", 0xc321);
	path.traffic_class = 0x68;
	path.hop_limit = 17;
	make_some(&path, 5, BATCH, 2048);
	side_send(&a, outs, BATCH);
	expect_on_the_wire(fd, &path, BATCH, true);
	/* The same by a socket that was opened for others: told with each. */
	path.traffic_class = 0x20;
	path.hop_limit = 3;
	make_some(&path, 5, BATCH, 1024);
	side_send(&a, outs, BATCH);
	expect_on_the_wire(fd, &path, BATCH, true);
	/* Made for one slot in a batch, and sent one by one. */
	for (uint32_t i = 0; i < 4; i++) {
		make(&outs[i], &(struct making){ .path = &path,
						 .dest_qp = 5,
						 .psn = i,
						 .payload_bytes = 100 + 100 * i,
						 .ipv4_id = (uint16_t)i });
	}
	side_send(&a, outs, 4);
	EXPECT_EQ(udp_counts(a.udp)->renumbered, 3);
	expect_on_the_wire(fd, &path, 4, false);
	EXPECT_EQ(system("ip link set lo gso_max_segs 65535"), 0);
	close(fd);
	side_close(&a);
}

/* A packet of one who makes no checksum, as Linux's rxe: one by one to our port. */
static void send_plain(const struct ib_path *path, const struct ib_out *out)
{
	enum { OPTION_UDP_NO_CHECK6_TX = 101, LEVEL_UDP = 17 };
	struct sockaddr_in6 from = { .sin6_family = AF_INET6, .sin6_port = htons(path->from.port) };
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(IBA_UDP_PORT) };
	struct iovec at[SPANS_MAX];
	struct msghdr m = { .msg_name = &to, .msg_namelen = sizeof(to), .msg_iov = at };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	from.sin6_addr = to.sin6_addr = in6addr_loopback;
	REQUIRE(fd >= 0 && bind(fd, (void *)&from, sizeof(from)) == 0);
	REQUIRE(setsockopt(fd, LEVEL_UDP, OPTION_UDP_NO_CHECK6_TX, &on, sizeof(on)) == 0);
	for (uint32_t i = 0; i < out->spans.count; i++)
		at[m.msg_iovlen++] = (struct iovec){ out->spans.spans[i].bytes,
						     out->spans.spans[i].length };
	EXPECT(sendmsg(fd, &m, 0) > 0);
	close(fd);
}

/*
 * RFC 6935: over IPv6 too a packet may come without a UDP checksum, as its ICRC says more. The
 * kernel drops those unless told.
 */
TEST(test_iba_a17_no_udp_checksum_over_ipv6_is_taken)
{
	struct ib_path path, mine;
	struct udp_flow_ref flow_ref = { 0 };
	uint32_t qp;

	WORLD_OR_SKIP();
	open_all();
	if (!udp_has_ipv6(b.udp)) {
		close_all();
		SKIP("no IPv6 here");
	}
	path = path_of("::1", "::1", 0xd123);
	mine = path_of("::1", "::1", 0);
	qp = b.adapter_slot << 16 | 1;
	make(&outs[0], &(struct making){ .path = &path, .dest_qp = qp, .payload_bytes = 64 });
	send_plain(&path, &outs[0]);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 1);
	EXPECT(b.seen[0].is_good);
	/* And by the socket that is for this peer alone. */
	udp_flow_open(b.udp, &mine, qp, 5, &flow_ref);
	path.from.port = udp_source_port(5, qp);
	make(&outs[0],
	     &(struct making){ .path = &path, .dest_qp = qp, .psn = 1, .payload_bytes = 64 });
	send_plain(&path, &outs[0]);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 2);
	EXPECT(b.seen[1].is_good && b.seen[1].psn == 1);
	udp_flow_close(b.udp, &flow_ref);
	close_all();
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static void set_mtu(int bytes)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	r.ifr_mtu = bytes;
	REQUIRE(fd >= 0 && ioctl(fd, SIOCSIFMTU, &r) == 0);
	close(fd);
}

TEST(test_udp_too_large_for_the_path_is_refused)
{
	struct ib_path path;
	struct udp_batch batch = { .outs = outs, .count = 5 };
	uint32_t refused = 0;

	WORLD_OR_SKIP();
	open_all();
	path = path_of("127.0.0.1", "127.0.0.1", 0xc400);
	set_mtu(1500);
	make_some(&path, b.adapter_slot << 16 | 1, 4, 4096);
	make(&outs[4], &(struct making){ .path = &path,
					 .dest_qp = b.adapter_slot << 16 | 1,
					 .psn = 9,
					 .payload_bytes = 1024 });
	while (batch.done < batch.count) {
		enum weft_reason r = udp_send(a.udp, &batch);

		EXPECT(r == WEFT_OK || r == WEFT_R_ROCE_TOO_LARGE);
		refused += batch.refused;
	}
	set_mtu(LO_MTU);
	EXPECT_EQ(refused, 4);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 1);
	EXPECT(b.seen[0].is_good && b.seen[0].psn == 9);
	close_all();
}

TEST(test_udp_unroutable_addresses_are_not_reached)
{
	struct ib_path away, here, foreign;
	struct udp_batch batch = { .outs = outs, .count = 2 };

	WORLD_OR_SKIP();
	open_all();
	away = path_of("127.0.0.1", "192.0.2.1", 0xc400);
	here = path_of("127.0.0.1", "127.0.0.1", 0xc400);
	foreign = path_of("192.0.2.7", "127.0.0.1", 0xc400);
	make(&outs[0], &(struct making){ .path = &away, .dest_qp = 1, .payload_bytes = 8 });
	make(&outs[1], &(struct making){ .path = &here,
					 .dest_qp = b.adapter_slot << 16 | 1,
					 .payload_bytes = 8 });
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_R_CONNECT_UNREACHABLE);
	EXPECT(batch.done == 1 && batch.refused == 1);
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_OK);
	EXPECT(batch.done == 2 && batch.refused == 0);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 1);
	/* From an address that this host has not. */
	make(&outs[0], &(struct making){ .path = &foreign, .dest_qp = 1, .payload_bytes = 8 });
	batch = (struct udp_batch){ .outs = outs, .count = 1 };
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_R_ADDRESS);
	EXPECT_EQ(udp_source(a.udp, &foreign), WEFT_R_ADDRESS);
	close_all();
}

TEST(test_udp_source_port_of_another_is_left_alone)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(0xc555) };
	struct udp_batch batch = { .outs = outs, .count = 1 };
	struct ib_path path, wished;
	uint8_t byte = 0;
	int fd;

	WORLD_OR_SKIP();
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	EXPECT(fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0);
	open_all();
	path = wished = path_of("127.0.0.1", "127.0.0.1", 0xc555);
	make(&outs[0], &(struct making){ .path = &wished, .dest_qp = 5, .payload_bytes = 8 });
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_R_ADDRESS_IN_USE);
	EXPECT_EQ(udp_source(a.udp, &path), WEFT_OK);
	EXPECT(path.from.port != 0xc555 && path.from.port >= 0xc000);
	make_some(&path, b.adapter_slot << 16 | 1, 2, 64);
	side_send(&a, outs, 2);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 2);
	EXPECT_EQ(b.seen[0].in.from.port, path.from.port);
	/* A datagram to the source port of a flow belongs to no adapter, and does no harm. */
	at.sin_port = htons(path.from.port);
	for (int i = 0; i < 100; i++)
		EXPECT(sendto(fd, &byte, 1, 0, (void *)&at, sizeof(at)) == 1);
	side_forget(&b);
	side_send(&a, outs, 2);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 2);
	close(fd);
	close_all();
}

/* ---- Bounds --------------------------------------------------------------------------------- */

/* More flows and more source ports than are kept: all of it works, with fewer sockets. */
TEST(test_udp_more_than_there_are_sockets_for)
{
	enum { MANY = 300 };
	static struct udp_flow_ref ears[MANY];
	uint32_t without = 0;

	WORLD_OR_SKIP();
	open_all();
	for (uint32_t i = 0; i < MANY; i++) {
		struct ib_path mine = path_of("127.0.0.1", "127.0.0.1", 0);
		uint32_t peer = (i / 16 + 9) << 16 | i % 16, our = b.adapter_slot << 16 | i;
		struct ib_path to_us = path_of("127.0.0.1", "127.0.0.1",
					       udp_source_port(peer, our));

		udp_flow_open(b.udp, &mine, our, peer, &ears[i]);
		without += !ears[i].flow;
		make(&outs[0],
		     &(struct making){
			     .path = &to_us, .dest_qp = our, .psn = i, .payload_bytes = 8 });
		side_send(&a, outs, 1);
		sides_pump(all, 3);
	}
	EXPECT_EQ(b.count, MANY);
	EXPECT(without > 0 && without == udp_counts(b.udp)->flows_refused);
	close_all();
}

/* Slow enough for any machine to fill the queue, or fast enough to have it empty soon. */
static bool loopback_paced(const char *verb, const char *rate)
{
	char command[128];

	snprintf(command, sizeof(command),
		 "tc qdisc %s dev lo root tbf rate %s burst 200kb limit 100mb 2>/dev/null", verb,
		 rate);
	return system(command) == 0;
}

/* An interface that is slow: its queue is ours to fill, and no further. */
TEST(test_udp_full_socket_says_when_it_is_not)
{
	struct ib_path path;
	struct udp_batch batch = { .outs = outs, .count = BATCH };
	uint32_t sent = 0;

	WORLD_OR_SKIP();
	if (!loopback_paced("add", "20mbit"))
		SKIP("tc cannot make the interface slow");
	open_all();
	path = path_of("127.0.0.1", "127.0.0.1", 0xc600);
	make_some(&path, b.adapter_slot << 16 | 1, BATCH, 4096);
	for (; !udp_is_blocked(a.udp) && sent < 5000; sent++) {
		batch.done = 0;
		EXPECT_EQ(udp_send(a.udp, &batch), WEFT_OK);
	}
	EXPECT(udp_is_blocked(a.udp) && batch.done < BATCH && batch.refused == 0);
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_OK);
	EXPECT(batch.done < BATCH);
	EXPECT(loopback_paced("change", "8gbit"));
	while (udp_is_blocked(a.udp))
		EXPECT(side_wait(&a));
	EXPECT_EQ(udp_send(a.udp, &batch), WEFT_OK);
	EXPECT_EQ(batch.done, BATCH);
	EXPECT_EQ(system("tc qdisc del dev lo root"), 0);
	close_all();
}

/* ---- Polling -------------------------------------------------------------------------------- */

static uint32_t poll_hot(struct udp_side *s, uint32_t polls)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < polls; i++) {
		if (!udp_fetch(s->udp, true))
			continue;
		while (udp_next(s->udp))
			count++;
	}
	return count;
}

TEST(test_udp_busy_socket_is_asked_without_being_watched)
{
	struct ib_path path, mine;
	struct udp_flow_ref flow_ref;
	struct pollfd fds[8];

	WORLD_OR_SKIP();
	open_all();
	mine = path_of("127.0.0.1", "127.0.0.1", 0);
	path = path_of("127.0.0.1", "127.0.0.1",
		       udp_source_port(a.adapter_slot << 16 | 1, b.adapter_slot << 16 | 1));
	udp_flow_open(b.udp, &mine, b.adapter_slot << 16 | 1, a.adapter_slot << 16 | 1, &flow_ref);
	EXPECT(!udp_is_hot(b.udp));
	make_some(&path, b.adapter_slot << 16 | 1, 3, 64);
	side_send(&a, outs, 3);
	EXPECT(side_await(&b, 3));
	EXPECT(udp_is_hot(b.udp));
	side_send(&a, outs, 3);
	EXPECT_EQ(poll_hot(&b, 2), 3);
	/* Watched, until it has been asked often enough by one who polls. */
	EXPECT_EQ(poll_hot(&b, 200), 0);
	EXPECT_EQ(udp_unwatched(b.udp, fds, 8), 0);
	udp_stand_by(b.udp, true);
	EXPECT_EQ(poll_hot(&b, 200), 0);
	EXPECT_EQ(udp_unwatched(b.udp, fds, 8), 1);
	side_send(&a, outs, 3);
	EXPECT_EQ(poll(fds, 1, 0), 1);
	EXPECT_EQ(poll_hot(&b, 2), 3);
	udp_stand_by(b.udp, false);
	EXPECT_EQ(udp_unwatched(b.udp, fds, 8), 0);
	side_forget(&b);
	side_send(&a, outs, 3);
	EXPECT(side_await(&b, 3));
	/* Nothing for a long time: epoll is to tell of it again. */
	udp_stand_by(b.udp, true);
	EXPECT_EQ(poll_hot(&b, 20000), 0);
	EXPECT(!udp_is_hot(b.udp));
	EXPECT_EQ(udp_unwatched(b.udp, fds, 8), 0);
	side_send(&a, outs, 3);
	EXPECT(side_await(&b, 6));
	close_all();
}

/* ---- Groups --------------------------------------------------------------------------------- */

static struct weft_address address_of(const char *text)
{
	struct weft_address at = { .family = 6 };

	if (inet_pton(AF_INET6, text, at.ip) != 1) {
		at.family = 4;
		REQUIRE(inet_pton(AF_INET, text, at.ip) == 1);
	}
	return at;
}

/* Without the option a socket gets the datagrams of every group that the host has joined. */
static bool can_refuse_groups_of_others(bool is_v6)
{
	int fd = socket(is_v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0), off = 0, result;
	bool is_known;

	REQUIRE(fd >= 0);
	result = is_v6 ? setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off))
		       : setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off));
	is_known = result == 0 || errno != ENOPROTOOPT;
	close(fd);
	return is_known;
}

static void groups(const char *group, const char *other, const char *at)
{
	struct weft_address one = address_of(group), two = address_of(other);
	struct weft_address here = address_of(at);
	struct ib_path path = path_of(at, group, 0xc777), to_other = path_of(at, other, 0xc777);

	if (!can_refuse_groups_of_others(here.family == 6))
		SKIP("IP_MULTICAST_ALL and IPV6_MULTICAST_ALL are not known here, as in QEMU's user mode");
	open_all();
	EXPECT_EQ(udp_join(a.udp, &here, &here), WEFT_R_ADDRESS);
	EXPECT_EQ(udp_join(b.udp, &one, &here), WEFT_OK);
	EXPECT_EQ(udp_join(b.udp, &one, &here), WEFT_OK);
	EXPECT_EQ(udp_join(c.udp, &one, &here), WEFT_OK);
	EXPECT_EQ(udp_join(c.udp, &two, &here), WEFT_OK);
	make_some(&path, IBA_QPN_MULTICAST, 3, 64);
	side_send(&a, outs, 3);
	make_some(&to_other, IBA_QPN_MULTICAST, 1, 64);
	side_send(&a, outs, 1);
	sides_pump(all, 3);
	EXPECT_EQ(a.count, 0);
	EXPECT_EQ(b.count, 3);
	EXPECT_EQ(c.count, 4);
	EXPECT(b.seen[2].is_good && b.seen[2].psn == 2);
	EXPECT_MEM(b.seen[0].in.to.address, one.ip, one.family == 6 ? 16 : 4);
	/* Joined twice is left twice. */
	udp_leave(b.udp, &one, &here);
	udp_leave(c.udp, &one, &here);
	make_some(&path, IBA_QPN_MULTICAST, 3, 64);
	side_send(&a, outs, 3);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 6);
	EXPECT_EQ(c.count, 4);
	EXPECT_EQ(udp_counts(a.udp)->handed_on + udp_counts(b.udp)->handed_on, 0);
	close_all();
}

TEST(test_udp_groups_come_to_all_who_joined)
{
	WORLD_OR_SKIP();
	groups("239.1.2.3", "239.1.2.4", "127.0.0.1");
}

/* Loopback has no route to groups of IPv6: it takes an interface that looks real. */
static bool has_veth(void)
{
	/* Its addresses and routes are good some time after it is up; 20 s is long. */
	static const char words[] =
		"ip link add weft0 type veth peer name weft1 && "
		"ip addr add fd77::1/64 dev weft0 nodad && "
		"ip link set weft1 up && ip link set weft0 up && n=0 && "
		"until ip -6 route show table local dev weft0 | grep -q ff00 && "
		"ip -6 addr show dev weft0 scope link | grep -q fe80 && "
		"! ip -6 addr show dev weft0 | grep -q tentative; do "
		"n=$((n + 1)); [ $n -lt 1000 ] || exit 1; sleep .02; done";
	static int made = -1;

	if (made < 0)
		made = system(words);
	return made == 0;
}

TEST(test_udp_groups_come_to_all_who_joined_ipv6)
{
	WORLD_OR_SKIP();
	if (!has_veth())
		SKIP("ip cannot make a pair of interfaces with IPv6");
	groups("ff15::77", "ff15::78", "fd77::1");
}

/* An address is of use when the kernel has its route, some time after it was given. */
static bool has_link_local(void)
{
	static const char words[] = "ip addr replace fe80::77/64 dev weft0 nodad && n=0 && "
				    "until ip -6 route show table local | grep -q fe80::77; do "
				    "n=$((n + 1)); [ $n -lt 1000 ] || exit 1; sleep .02; done";

	return has_veth() && system(words) == 0;
}

/* An address that is good on one link only: the interface is found by it. */
TEST(test_udp_link_local_addresses)
{
	struct ib_path path;
	struct udp_flow_ref flow_ref;

	WORLD_OR_SKIP();
	if (!has_link_local())
		SKIP("ip cannot give an interface a link-local address");
	open_all();
	path = path_of("fe80::77", "fe80::77",
		       udp_source_port(a.adapter_slot << 16 | 1, b.adapter_slot << 16 | 1));
	udp_flow_open(b.udp, &path, b.adapter_slot << 16 | 1, a.adapter_slot << 16 | 1, &flow_ref);
	EXPECT(flow_ref.flow != NULL);
	make_some(&path, b.adapter_slot << 16 | 1, 4, 64);
	side_send(&a, outs, 4);
	sides_pump(all, 3);
	EXPECT_EQ(b.count, 4);
	EXPECT(b.seen[3].is_good);
	EXPECT_EQ(udp_counts(a.udp)->handed_on + udp_counts(c.udp)->handed_on, 0);
	close_all();
}
