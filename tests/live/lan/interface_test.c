/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces of a network namespace of the test's own: TAP, and a veth pair by packet sockets. */
#include "test.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lan/offload.h"
#include "live/lan/lan_bed.h"
#include "own_network.h"

/* NULL, or why there can be no interfaces here. */
static const char *why_not(void)
{
	if (system("ip -V >/dev/null 2>&1") != 0)
		return "there is no ip";
	if (access("/dev/net/tun", R_OK | W_OK) != 0)
		return "this host has no TAP interfaces";
	return own_network_enter();
}

static void ip(const char *words)
{
	char line[256];

	snprintf(line, sizeof(line), "ip %s", words);
	harness_note("%s", line);
	MUST_EQ(system(line), 0);
}

/* Two ends, without addresses and what Linux sends of itself by IPv6. */
static void veth_make(void)
{
	ip("link add la type veth peer name lb");
	(void)!system("for i in la lb; do echo 1 > /proc/sys/net/ipv6/conf/$i/disable_ipv6; done "
		      "2>/dev/null");
	ip("link set la up");
	ip("link set lb up");
}

/* The kernel drops frames until its interface runs. */
static struct lan_port *open_up(struct lan_bed *b, const char *text)
{
	struct lan_port *port = lan_bed_open(b, text);

	lan_bed_until(port, NULL, true);
	(void)lan_news(port);
	return port;
}

/* A frame of a type of experiments (0x88b5) between the stations of the two ends. */
static struct lan_frame frame_of(struct lan_bed *b, uint32_t at, uint32_t length, uint8_t seed)
{
	struct lan_frame f = lan_bed_frame(b, at, length, seed);

	memcpy(f.bytes,
	       (uint8_t[]){ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 0x88, 0xb5 }, 14);
	return f;
}

static bool is_ours(const struct lan_frame *f)
{
	return f->length >= 14 && f->bytes[6] == 2 && f->bytes[11] == 7;
}

/* The next frame of ours; others on the wire are left out. */
static const struct lan_frame *next_ours(struct lan_bed *b, struct lan_port *port)
{
	for (;;) {
		uint32_t n = lan_bed_receive(b, port);

		for (uint32_t i = 0; i < n; i++) {
			if (is_ours(&b->frames[i]))
				return &b->frames[i];
		}
	}
}

/* Until the port has this news; what arrives meanwhile is left out. */
static void until_news(struct lan_bed *b, struct lan_port *port, uint32_t wanted)
{
	enum { PATIENCE_MS = 20000 };
	struct pollfd p = { .fd = lan_descriptor(port), .events = POLLIN };

	for (;;) {
		while (lan_receive(port, b->frames, BED_FRAMES) > 0)
			;
		if (lan_news(port) & wanted)
			return;
		MUST_EQ(poll(&p, 1, PATIENCE_MS), 1);
	}
}

TEST(test_lan_packet_carries_frames_over_a_veth_pair)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *a, *c;
	struct lan_frame f[3];
	const struct lan_frame *got;
	uint8_t pieces[1000];

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la,mtu=9000,mac=02:00:00:00:00:0a");
	c = open_up(b, "packet:lb");
	EXPECT(lan_properties(a)->is_up && lan_properties(a)->has_mac);
	EXPECT_EQ(lan_properties(a)->mac[5], 10);
	EXPECT_EQ(lan_properties(a)->mtu, 9000);
	f[0] = frame_of(b, 0, 60, 1);
	f[1] = frame_of(b, 1, 13, 2);
	f[2] = frame_of(b, 2, 1514, 3);
	EXPECT_EQ(lan_send(a, f, 3), 3);
	EXPECT_EQ(lan_counts(a)->out.drops[WEFT_R_LAN_SHORT], 1);
	EXPECT_EQ(lan_counts(a)->out.frames, 2);
	got = next_ours(b, c);
	EXPECT_EQ(got->length, 60);
	/* In two pieces: the end is that of the other one. */
	f[0] = frame_of(b, 0, sizeof(pieces), 4);
	memcpy(pieces, f[0].bytes, 600);
	memset(pieces + 600, 9, sizeof(pieces) - 600);
	f[0].rest = pieces + 600;
	f[0].rest_length = sizeof(pieces) - 600;
	EXPECT_EQ(lan_send(a, f, 1), 1);
	do {
		got = next_ours(b, c);
	} while (got->length != sizeof(pieces));
	EXPECT_MEM(got->bytes, pieces, sizeof(pieces));
	lan_close(a);
	a = open_up(b, "packet:la");
	/* Beyond what the interface carries: the kernel refuses it. */
	f[0] = frame_of(b, 0, 20000, 1);
	EXPECT_EQ(lan_send(a, f, 1), 1);
	EXPECT_EQ(lan_counts(a)->out.drops[WEFT_R_LAN_LONG], 1);
	/* It sees none of its own frames. */
	EXPECT_EQ(lan_counts(a)->in.frames, 0);
	lan_close(a);
	lan_close(c);
	ip("link del la");
	lan_bed_end(b);
}

TEST(test_lan_packet_has_the_tag_of_a_vlan_where_it_was)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *a, *c;
	static const uint8_t tags[][10] = { { 0x81, 0, 0x60, 5, 0x88, 0xb5 },
					    { 0x88, 0xa8, 0x60, 5, 0x88, 0xb5 },
					    { 0x88, 0xa8, 0x60, 5, 0x81, 0, 0x20, 6, 0x88, 0xb5 } };
	struct lan_frame f;
	const struct lan_frame *got;
	uint8_t sent[80];

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la");
	c = open_up(b, "packet:lb");
	for (uint32_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		f = frame_of(b, 0, sizeof(sent), 1);
		memcpy(f.bytes + 12, tags[i], sizeof(tags[i]));
		memcpy(sent, f.bytes, sizeof(sent));
		EXPECT_EQ(lan_send(a, &f, 1), 1);
		got = next_ours(b, c);
		EXPECT_EQ(got->length, sizeof(sent));
		EXPECT_MEM(got->bytes, sent, sizeof(sent));
	}
	lan_close(a);
	lan_close(c);
	ip("link del la");
	lan_bed_end(b);
}

/* A buffer that is too small for the frame; or for the tag that the kernel took out of it. */
TEST(test_lan_packet_refuses_a_frame_without_room)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *a, *c;
	struct lan_frame f[2], small;

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la");
	c = open_up(b, "packet:lb");
	for (uint32_t i = 0; i < 2; i++) {
		f[i] = frame_of(b, i, 101 + i, 1);
		memcpy(f[i].bytes + 12, (uint8_t[]){ 0x81, 0, 0x60, 5, 0x88, 0xb5 }, 6);
	}
	EXPECT_EQ(lan_send(a, f, 2), 2);
	small = b->frames[0];
	small.room = 97;
	while (lan_counts(c)->in.drops[WEFT_R_LAN_LONG] < 2) {
		struct pollfd p = { .fd = lan_descriptor(c), .events = POLLIN };

		EXPECT(lan_receive(c, &small, 1) == 0 || !is_ours(&small));
		EXPECT(lan_counts(c)->in.drops[WEFT_R_LAN_LONG] == 2 || poll(&p, 1, 20000) == 1);
	}
	lan_close(a);
	lan_close(c);
	ip("link del la");
	lan_bed_end(b);
}

TEST(test_lan_packet_counts_what_had_no_room)
{
	enum { SENT = 30000, BATCH = 50 };
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *a, *c;
	uint64_t received = 0;

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la");
	c = open_up(b, "packet:lb");
	for (int i = 0; i < SENT; i += BATCH) {
		struct lan_frame f[BATCH];

		for (uint32_t k = 0; k < BATCH; k++)
			f[k] = frame_of(b, k, 1514, 1);
		EXPECT_EQ(lan_send(a, f, BATCH), BATCH);
	}
	EXPECT_EQ(lan_counts(a)->out.frames, SENT);
	while (received + lan_counts(c)->in.drops[WEFT_R_LAN_FULL] < SENT) {
		uint32_t n = lan_receive(c, b->frames, BED_FRAMES);
		struct pollfd p = { .fd = lan_descriptor(c), .events = POLLIN };

		for (uint32_t i = 0; i < n; i++)
			received += is_ours(&b->frames[i]);
		EXPECT(n > 0 || received + lan_counts(c)->in.drops[WEFT_R_LAN_FULL] >= SENT ||
		       poll(&p, 1, 20000) == 1);
	}
	EXPECT(received < SENT);
	lan_close(a);
	lan_close(c);
	ip("link del la");
	lan_bed_end(b);
}

TEST(test_lan_packet_filters_are_set_and_taken_out_again)
{
	const char *why = why_not();
	struct lan_filters f = { .is_promiscuous = true,
				 .multicast_count = 1,
				 .multicast = { { 1, 0, 0x5e, 1, 2, 3 } } };
	struct lan_bed *b;
	struct lan_port *a;

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la");
	EXPECT_EQ(lan_set_filters(a, &f), WEFT_OK);
	EXPECT_EQ(lan_news(a), LAN_NEWS_FILTERS);
	EXPECT_EQ(system("ip -d link show la | grep -q 'promiscuity 1'"), 0);
	EXPECT_EQ(system("ip maddr show la | grep -q 01:00:5e:01:02:03"), 0);
	f.is_promiscuous = false;
	f.multicast[0][5] = 4;
	EXPECT_EQ(lan_set_filters(a, &f), WEFT_OK);
	EXPECT_EQ(system("ip -d link show la | grep -q 'promiscuity 0'"), 0);
	EXPECT(system("ip maddr show la | grep -q 01:00:5e:01:02:03") != 0);
	EXPECT_EQ(system("ip maddr show la | grep -q 01:00:5e:01:02:04"), 0);
	f.multicast_count = 65;
	EXPECT_EQ(lan_set_filters(a, &f), WEFT_R_BAD_ARGUMENT);
	lan_close(a);
	EXPECT(system("ip maddr show la | grep -q 01:00:5e:01:02:04") != 0);
	ip("link del la");
	lan_bed_end(b);
}

TEST(test_lan_packet_says_that_the_link_is_down_and_that_it_is_gone)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *a;
	struct lan_frame f;

	if (why)
		SKIP(why);
	veth_make();
	b = lan_bed_make();
	a = open_up(b, "packet:la");
	/* Without its other end it has no carrier. */
	ip("link set lb down");
	lan_bed_until(a, NULL, false);
	EXPECT_EQ(lan_properties(a)->why, WEFT_R_LAN_DOWN);
	f = frame_of(b, 0, 60, 1);
	EXPECT_EQ(lan_send(a, &f, 1), 1);
	EXPECT_EQ(lan_counts(a)->out.drops[WEFT_R_LAN_DOWN], 1);
	ip("link set lb up");
	lan_bed_until(a, NULL, true);
	(void)lan_news(a);
	ip("link set la mtu 2000");
	until_news(b, a, LAN_NEWS_MTU);
	EXPECT_EQ(lan_properties(a)->mtu, 2000);
	ip("link del la");
	lan_bed_until(a, NULL, false);
	while (lan_properties(a)->why != WEFT_R_LAN_NONE)
		until_news(b, a, LAN_NEWS_LINK);
	lan_close(a);
	lan_bed_end(b);
}

TEST(test_lan_interfaces_that_are_not_there_or_no_tap_are_refused)
{
	const char *why = why_not();
	char said[LAN_WHY];
	struct lan_port *port = NULL;

	if (why)
		SKIP(why);
	EXPECT_EQ(lan_open("packet:none0", &port, said), WEFT_R_LAN_NONE);
	EXPECT_EQ(lan_open("tap:lo", &port, said), WEFT_R_LAN_TAKEN);
	EXPECT_EQ(lan_open("tap:lt0", &port, said), WEFT_OK);
	struct lan_port *second = NULL;
	EXPECT_EQ(lan_open("tap:lt0", &second, said), WEFT_R_LAN_TAKEN);
	lan_close(port);
}

/* Frames of a TUN interface, say, begin with a header of IP: nothing else would be told apart. */
TEST(test_lan_packet_refuses_an_interface_that_is_no_ethernet)
{
	const char *why = why_not();
	char said[LAN_WHY] = "";
	struct lan_port *port = NULL;

	if (why)
		SKIP(why);
	ip("tuntap add ltun mode tun");
	EXPECT_EQ(lan_open("packet:ltun", &port, said), WEFT_R_LAN_NONE);
	EXPECT_STR(said, "ltun: its frames are not those of Ethernet");
	EXPECT_EQ(lan_open("packet:lo", &port, said), WEFT_OK);
	lan_close(port);
	ip("link del ltun");
}

TEST(test_lan_tap_has_what_its_host_says)
{
	const char *why = why_not();
	static const uint8_t mac[LAN_MAC_BYTES] = { 2, 0, 0, 0, 0, 9 },
			     group[LAN_MAC_BYTES] = { 1, 0, 0x5e, 1, 2, 3 };
	const struct lan_properties *is;
	struct lan_bed *b;
	struct lan_port *t;
	bool is_there = false;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = lan_bed_open(b, "tap:lt0,mtu=65521,mac=02:00:00:00:00:08");
	is = lan_properties(t);
	EXPECT_EQ(is->mtu, 65521);
	EXPECT_EQ(is->mac[5], 8);
	EXPECT(!is->is_up);
	EXPECT_EQ(is->takes & (LAN_CSUM | LAN_TSO4 | LAN_TSO6), LAN_CSUM | LAN_TSO4 | LAN_TSO6);
	(void)lan_news(t);
	ip("link set lt0 up");
	lan_bed_until(t, NULL, true);
	ip("link set lt0 mtu 9000");
	until_news(b, t, LAN_NEWS_MTU);
	EXPECT_EQ(is->mtu, 9000);
	EXPECT_EQ(lan_set_mac(t, mac), WEFT_OK);
	EXPECT_MEM(is->mac, mac, sizeof(mac));
	(void)lan_news(t);
	ip("link set lt0 promisc on");
	until_news(b, t, LAN_NEWS_FILTERS);
	EXPECT(is->filters.is_promiscuous);
	ip("link set lt0 promisc off");
	until_news(b, t, LAN_NEWS_FILTERS);
	EXPECT(!is->filters.is_promiscuous);
	/* A host that joins a group sends a frame: then the list is read. */
	ip("addr add 192.0.2.1/24 dev lt0");
	ip("maddr add 01:00:5e:01:02:03 dev lt0");
	(void)!system("ping -c 1 -W 1 192.0.2.9 >/dev/null 2>&1 &");
	while (!is_there) {
		until_news(b, t, LAN_NEWS_FILTERS);
		for (uint32_t i = 0; i < is->filters.multicast_count; i++)
			is_there |= memcmp(is->filters.multicast[i], group, sizeof(group)) == 0;
	}
	if (system("ip link add link lt0 name lt0.5 type vlan id 5 2>/dev/null") == 0) {
		while (is->filters.vlan_count == 0)
			until_news(b, t, LAN_NEWS_FILTERS);
		EXPECT_EQ(is->filters.vlans[0], 5);
		ip("link del lt0.5");
		while (is->filters.vlan_count > 0)
			until_news(b, t, LAN_NEWS_FILTERS);
	}
	lan_close(t);
	lan_bed_end(b);
}

/* What has been told of the interface by now. */
static const struct lan_filters *filters_now(struct lan_bed *b, struct lan_port *port)
{
	while (lan_receive(port, b->frames, BED_FRAMES) > 0)
		;
	return &lan_properties(port)->filters;
}

/* A bridge tells of its ports, too, and of less than the interface itself. */
TEST(test_lan_tap_keeps_what_it_knows_of_a_port_of_a_bridge)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *t;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = lan_bed_open(b, "tap:lt0");
	if (system("ip link add lbr type bridge 2>/dev/null") != 0) {
		lan_close(t);
		lan_bed_end(b);
		SKIP("this kernel has no bridges");
	}
	ip("link set lt0 master lbr");
	EXPECT(filters_now(b, t)->is_promiscuous);
	ip("link set lt0 type bridge_slave cost 7");
	EXPECT(filters_now(b, t)->is_promiscuous);
	ip("link set lt0 nomaster");
	EXPECT(!filters_now(b, t)->is_promiscuous);
	ip("link del lbr");
	lan_close(t);
	lan_bed_end(b);
}

/* More than a filter has room for count as all, whatever else is told, while there are so many. */
TEST(test_lan_tap_with_many_groups_wants_all_of_them)
{
	static const char each[] =
		"for i in $(seq 80); do ip maddr %s 01:00:5e:01:02:$i dev lt0; done";
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *t;
	char words[sizeof(each) + 4];

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = lan_bed_open(b, "tap:lt0,mac=02:00:00:00:00:08");
	ip("link set lt0 up");
	lan_bed_until(t, NULL, true);
	(void)lan_news(t);
	snprintf(words, sizeof(words), each, "add");
	MUST_EQ(system(words), 0);
	ip("addr add 192.0.2.1/24 dev lt0");
	while (!filters_now(b, t)->is_all_multicast) {
		(void)!system("ping -c 1 -W 1 192.0.2.9 >/dev/null 2>&1 &");
		until_news(b, t, LAN_NEWS_FILTERS);
	}
	ip("link set lt0 mtu 1400");
	until_news(b, t, LAN_NEWS_MTU);
	EXPECT(filters_now(b, t)->is_all_multicast);
	snprintf(words, sizeof(words), each, "del");
	MUST_EQ(system(words), 0);
	(void)!system("ping -c 1 -W 1 192.0.2.9 >/dev/null 2>&1 &");
	until_news(b, t, LAN_NEWS_FILTERS);
	EXPECT(!filters_now(b, t)->is_all_multicast);
	lan_close(t);
	lan_bed_end(b);
}

/* Its host may give it another name; the one it had may be another interface's then. */
TEST(test_lan_tap_is_set_under_its_new_name)
{
	const char *why = why_not();
	static const uint8_t mac[LAN_MAC_BYTES] = { 2, 0, 0, 0, 0, 9 };
	struct lan_bed *b;
	struct lan_port *t;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = lan_bed_open(b, "tap:lt0");
	ip("link set lt0 name lt7");
	EXPECT_EQ(lan_set_mac(t, mac), WEFT_OK);
	EXPECT_EQ(lan_set_mtu(t, 1400), WEFT_OK);
	EXPECT_EQ(system("ip link show lt7 | grep -q 02:00:00:00:00:09"), 0);
	EXPECT_EQ(system("ip link show lt7 | grep -q 'mtu 1400'"), 0);
	lan_close(t);
	lan_bed_end(b);
}

TEST(test_lan_tap_carrier_is_set)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *t;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = lan_bed_open(b, "tap:lt0");
	ip("link set lt0 up");
	EXPECT_EQ(lan_set_link(t, false), WEFT_OK);
	EXPECT_EQ(system("ip link show lt0 | grep -q NO-CARRIER"), 0);
	EXPECT_EQ(lan_set_link(t, true), WEFT_OK);
	EXPECT(system("ip link show lt0 | grep -q NO-CARRIER") != 0);
	lan_close(t);
	lan_bed_end(b);
}

/* ---- Several queues ------------------------------------------------------------------------- */

enum { QUEUES = 2, FLOWS = 7, EACH = 20, PORT_THERE = 7000, PORT_HERE = 9000, HEADERS = 42 };

/* The host has 192.0.2.1 at lt0, and knows 192.0.2.9 behind it. */
static struct lan_port *queues_up(struct lan_bed *b)
{
	struct lan_port *t = lan_bed_open(b, "tap:lt0,queues=2,mac=02:00:00:00:00:08");

	(void)!system("echo 1 > /proc/sys/net/ipv6/conf/lt0/disable_ipv6 2>/dev/null");
	ip("link set lt0 up");
	lan_bed_until(t, NULL, true);
	(void)lan_news(t);
	ip("addr add 192.0.2.1/24 dev lt0");
	ip("neigh add 192.0.2.9 lladdr 02:00:00:00:00:09 dev lt0");
	return t;
}

/* UDP from 192.0.2.9, port PORT_THERE + flow, to the host; its last byte is a number. */
static struct lan_frame datagram_in(struct lan_bed *b, uint32_t flow, uint8_t number)
{
	static const uint8_t headers[HEADERS] = { 2, 0,	 0,    0,    0,	   8, 2,  0, 0,	  0,	0,
						  9, 8,	 0,    0x45, 0,	   0, 29, 0, 0,	  0x40, 0,
						  9, 17, 0xb6, 0xc2, 192,  0, 2,  9, 192, 0,	2,
						  1, 0,	 0,    0x23, 0x28, 0, 9,  0, 0 };
	struct lan_frame f = lan_bed_frame(b, 0, HEADERS + 1, number);

	memcpy(f.bytes, headers, sizeof(headers));
	f.bytes[34] = (PORT_THERE + flow) >> 8;
	f.bytes[35] = (uint8_t)(PORT_THERE + flow);
	f.bytes[HEADERS] = number;
	return f;
}

/* A socket of the host's whose datagrams to PORT_THERE + flow leave by lt0. */
static int host_socket(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_port = htons(PORT_HERE),
				    .sin_addr.s_addr = htonl(0xc0000201) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	MUST(fd < 0);
	MUST(bind(fd, (const void *)&here, sizeof(here)));
	return fd;
}

static void host_sends(int fd, uint32_t flow, uint8_t number)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)(PORT_THERE + flow)),
				  .sin_addr.s_addr = htonl(0xc0000209) };

	MUST_EQ(sendto(fd, &number, 1, 0, (const void *)&to, sizeof(to)), 1);
}

/* Packet sockets, one for each queue by which frames come into the host. */
static void look_by_queue(int fds[QUEUES])
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_IP),
				  .sll_ifindex = (int)if_nametoindex("lt0") };

	for (int i = 0; i < QUEUES; i++) {
		const int group = PACKET_FANOUT_QM << 16 | 7;

		fds[i] = socket(AF_PACKET, SOCK_RAW, 0);
		MUST(fds[i] < 0);
		MUST(bind(fds[i], (const void *)&at, sizeof(at)));
		MUST(setsockopt(fds[i], SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)));
	}
}

/* What came by the queues. */
struct looked {
	uint32_t frames;
	uint8_t next[FLOWS]; /* number of each flow */
	int queue[FLOWS];
};

/* Takes what came by one of them: of each flow in order, and none by both. */
static void take_flows(struct looked *l, int fd, int queue)
{
	uint8_t frame[2048];
	ssize_t n;

	while ((n = recv(fd, frame, sizeof(frame), MSG_DONTWAIT)) >= 0) {
		uint32_t flow = (uint32_t)(frame[34] << 8 | frame[35]) - PORT_THERE;

		if (n != HEADERS + 1 || flow >= FLOWS)
			continue;
		MUST_EQ(frame[HEADERS], l->next[flow]);
		REQUIRE(l->next[flow] == 0 || l->queue[flow] == queue);
		l->next[flow]++;
		l->queue[flow] = queue;
		l->frames++;
	}
}

TEST(test_lan_tap_flows_are_carried_by_several_queues_each_in_order)
{
	const char *why = why_not();
	struct looked l = { 0 };
	struct lan_bed *b;
	struct lan_port *t;
	int fds[QUEUES], flows[QUEUES] = { 0 };

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = queues_up(b);
	look_by_queue(fds);
	for (int number = 0; number < EACH; number++) {
		for (uint32_t flow = 0; flow < FLOWS; flow++) {
			struct lan_frame f = datagram_in(b, flow, (uint8_t)number);

			EXPECT_EQ(lan_send(t, &f, 1), 1);
		}
	}
	while (l.frames < FLOWS * EACH) {
		struct pollfd p[QUEUES] = { { fds[0], POLLIN, 0 }, { fds[1], POLLIN, 0 } };

		EXPECT(poll(p, QUEUES, 20000) > 0);
		for (int i = 0; i < QUEUES; i++)
			take_flows(&l, fds[i], i);
	}
	for (uint32_t flow = 0; flow < FLOWS; flow++)
		flows[l.queue[flow]]++;
	harness_note("%d flows by one queue, %d by the other", flows[0], flows[1]);
	EXPECT(flows[0] > 0 && flows[1] > 0);
	for (int i = 0; i < QUEUES; i++)
		close(fds[i]);
	lan_close(t);
	lan_bed_end(b);
}

/* The next datagram of the host's: its flow and number; others are left out. */
static uint32_t next_flow(const struct lan_frame *f, uint8_t *number)
{
	if (f->length != HEADERS + 1 || f->bytes[23] != 17)
		return FLOWS;
	*number = f->bytes[HEADERS];
	return (uint32_t)(f->bytes[36] << 8 | f->bytes[37]) - PORT_THERE;
}

/* Two flows of which the kernel answers each by the queue that it came by. */
static void flows_of_both_queues(struct lan_bed *b, struct lan_port *t, uint32_t flows[QUEUES])
{
	bool is_found[QUEUES] = { false };

	for (uint32_t flow = 0; flow < FLOWS; flow++) {
		struct lan_frame f = datagram_in(b, flow, 0);
		uint32_t queue = lan_flow(&f) % QUEUES;

		EXPECT_EQ(lan_send(t, &f, 1), 1);
		flows[queue] = flow;
		is_found[queue] = true;
	}
	REQUIRE(is_found[0] && is_found[1]);
}

/*
 * The first queue has a hundred frames and the second has one, which comes with the second batch;
 * the hundred come in order.
 */
TEST(test_lan_tap_queues_take_turns)
{
	enum { MANY = 100, BATCH = 16 };
	const char *why = why_not();
	uint32_t flows[QUEUES], received = 0, batches = 0, came_with = 0;
	struct lan_bed *b;
	struct lan_port *t;
	int fd;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = queues_up(b);
	fd = host_socket();
	flows_of_both_queues(b, t, flows);
	while (lan_receive(t, b->frames, BED_FRAMES) > 0) /* what the host sends of itself */
		;
	for (uint32_t i = 0; i < MANY; i++)
		host_sends(fd, flows[0], (uint8_t)i);
	host_sends(fd, flows[1], 0);
	while (received < MANY || came_with == 0) {
		uint32_t n = lan_receive(t, b->frames, BATCH);
		struct pollfd p = { .fd = lan_descriptor(t), .events = POLLIN };

		batches += n > 0;
		for (uint32_t i = 0; i < n; i++) {
			uint8_t number = 0;
			uint32_t flow = next_flow(&b->frames[i], &number);

			if (flow == flows[0])
				EXPECT_EQ(number, received++);
			else if (flow == flows[1])
				came_with = batches;
		}
		EXPECT(n > 0 || poll(&p, 1, 20000) == 1);
	}
	harness_note("batch %u", came_with);
	EXPECT(came_with <= QUEUES);
	close(fd);
	lan_close(t);
	lan_bed_end(b);
}

TEST(test_lan_tap_of_one_queue_is_none_of_several)
{
	static const char *const pairs[][2] = { { "tap:lt0,queues=2", "tap:lt0" },
						{ "tap:lt0", "tap:lt0,queues=2" },
						{ "tap:lt0,queues=1", "tap:lt0,queues=1" } };
	const char *why = why_not();
	char said[LAN_WHY];
	struct lan_port *first, *second;
	struct lan_bed *b;

	if (why)
		SKIP(why);
	b = lan_bed_make();
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		first = lan_bed_open(b, pairs[i][0]);
		EXPECT_EQ(lan_open(pairs[i][1], &second, said), WEFT_R_LAN_TAKEN);
		EXPECT(strstr(said, "one queue and not several") != NULL);
		lan_close(first);
	}
	lan_bed_end(b);
}

/* Each queue's descriptor has something to say of an interface that is gone; none goes on. */
TEST(test_lan_tap_of_several_queues_that_is_deleted_rests)
{
	const char *why = why_not();
	struct lan_bed *b;
	struct lan_port *t;
	struct pollfd p = { .events = POLLIN };

	if (why)
		SKIP(why);
	b = lan_bed_make();
	t = queues_up(b);
	p.fd = lan_descriptor(t);
	ip("link del lt0");
	while (lan_properties(t)->why != WEFT_R_LAN_NONE)
		until_news(b, t, LAN_NEWS_LINK);
	for (int i = 0; i < 4 * QUEUES; i++)
		(void)lan_receive(t, b->frames, BED_FRAMES);
	EXPECT(!lan_properties(t)->is_up);
	EXPECT_EQ(poll(&p, 1, 0), 0);
	lan_close(t);
	lan_bed_end(b);
}
