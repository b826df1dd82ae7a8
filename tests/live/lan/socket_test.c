/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames by QEMU's stream format: two ports, and peers that are no ports. */
#include "test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "descriptors.h"
#include "live/lan/lan_bed.h"

/* A peer at the socket of a listener, which speaks bytes. */
static void raw_connect_by(const struct lan_bed *b, int fd)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/s", b->folder);
	REQUIRE(fd >= 0 && connect(fd, (const void *)&un, sizeof(un)) == 0);
}

static int raw_connect(const struct lan_bed *b)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	raw_connect_by(b, fd);
	return fd;
}

static void same_frame(const struct lan_frame *got, struct lan_bed *b, uint32_t length,
		       uint8_t seed)
{
	struct lan_frame wanted = lan_bed_frame(b, BED_FRAMES - 1, length, seed);

	MUST_EQ(got->length, length);
	REQUIRE(memcmp(got->bytes, wanted.bytes, length) == 0);
}

TEST(test_lan_socket_carries_frames_both_ways)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	struct lan_frame f[3];

	lan_bed_until(listener, dialer, true);
	EXPECT(lan_properties(dialer)->is_up);
	EXPECT_EQ(lan_news(listener), LAN_NEWS_LINK);
	EXPECT_EQ(lan_news(listener), 0);
	for (uint32_t i = 0; i < 3; i++)
		f[i] = lan_bed_frame(b, i, i == 2 ? 65535 : 14 + i, (uint8_t)i);
	EXPECT_EQ(lan_send(dialer, f, 2), 2);
	EXPECT_EQ(lan_bed_receive(b, listener), 2);
	same_frame(&b->frames[0], b, 14, 0);
	same_frame(&b->frames[1], b, 15, 1);
	EXPECT_EQ(lan_send(listener, f + 2, 1), 1);
	EXPECT_EQ(lan_bed_receive(b, dialer), 1);
	same_frame(&b->frames[0], b, 65535, 2);
	EXPECT_EQ(lan_counts(dialer)->out.frames, 2);
	EXPECT_EQ(lan_counts(dialer)->out.bytes, 29);
	EXPECT_EQ(lan_counts(dialer)->in.bytes, 65535);
	lan_close(dialer);
	lan_bed_until(listener, NULL, false);
	EXPECT_EQ(lan_properties(listener)->why, WEFT_R_LAN_ENDED);
	lan_close(listener);
	lan_bed_end(b);
}

/* Its end lies elsewhere, and its buffer has no such bytes yet. */
TEST(test_lan_socket_carries_a_frame_in_two_pieces)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	struct lan_frame f, whole;

	lan_bed_until(listener, dialer, true);
	f = lan_bed_frame(b, 0, 4000, 8);
	whole = lan_bed_frame(b, 1, 4000, 7);
	memcpy(f.bytes, whole.bytes, 100);
	f.rest = whole.bytes + 100;
	f.rest_length = 3900;
	EXPECT_EQ(lan_send(dialer, &f, 1), 1);
	EXPECT_EQ(lan_bed_receive(b, listener), 1);
	same_frame(&b->frames[0], b, 4000, 7);
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_refuses_frames_of_13_and_of_65536_bytes)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	struct lan_frame f[3];

	lan_bed_until(listener, dialer, true);
	f[0] = lan_bed_frame(b, 0, 13, 0);
	f[1] = lan_bed_frame(b, 1, 65536, 0);
	f[2] = lan_bed_frame(b, 2, 20, 5);
	EXPECT_EQ(lan_send(dialer, f, 3), 3);
	EXPECT_EQ(lan_counts(dialer)->out.drops[WEFT_R_LAN_SHORT], 1);
	EXPECT_EQ(lan_counts(dialer)->out.drops[WEFT_R_LAN_LONG], 1);
	EXPECT_EQ(lan_counts(dialer)->out.frames, 1);
	EXPECT_EQ(lan_bed_receive(b, listener), 1);
	same_frame(&b->frames[0], b, 20, 5);
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_drops_what_a_hostile_peer_sends_with_the_reason)
{
	static uint8_t stream[4 + 13 + 4 + 65536 + 4 + 4 + 14] = { 0, 0, 0, 13 };
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	int peer = raw_connect(b);
	size_t at = 4 + 13;

	lan_bed_until(listener, NULL, true);
	stream[at + 1] = 1;  /* 65536 */
	at += 4 + 65536 + 4; /* and an empty one */
	stream[at + 3] = 14;
	EXPECT_EQ(send(peer, stream, sizeof(stream), MSG_NOSIGNAL), sizeof(stream));
	EXPECT_EQ(lan_bed_receive(b, listener), 1);
	EXPECT_EQ(b->frames[0].length, 14);
	EXPECT_EQ(lan_counts(listener)->in.drops[WEFT_R_LAN_SHORT], 2);
	EXPECT_EQ(lan_counts(listener)->in.drops[WEFT_R_LAN_LONG], 1);
	EXPECT(lan_properties(listener)->is_up);
	close(peer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_ends_a_stream_whose_length_no_frame_has)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	int peer = raw_connect(b);

	lan_bed_until(listener, NULL, true);
	EXPECT_EQ(send(peer, "GET / HTTP/1.1\r\n", 16, MSG_NOSIGNAL), 16);
	lan_bed_until(listener, NULL, false);
	EXPECT_EQ(lan_properties(listener)->why, WEFT_R_LAN_FRAMING);
	close(peer);
	/* The next peer is welcome. */
	peer = raw_connect(b);
	lan_bed_until(listener, NULL, true);
	close(peer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_has_one_peer_at_a_time)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	int first = raw_connect(b), second;
	struct pollfd p = { .events = POLLIN };
	char byte;

	lan_bed_until(listener, NULL, true);
	second = raw_connect(b);
	p.fd = lan_descriptor(listener);
	EXPECT_EQ(poll(&p, 1, 20000), 1);
	EXPECT_EQ(lan_receive(listener, b->frames, 0), 0);
	EXPECT_EQ(recv(second, &byte, 1, 0), 0);
	EXPECT_EQ(recv(first, &byte, 1, MSG_DONTWAIT), -1);
	EXPECT(lan_properties(listener)->is_up);
	close(first);
	close(second);
	lan_close(listener);
	lan_bed_end(b);
}

/* What else the descriptor tells of, here of a second peer, waits until no frame does. */
TEST(test_lan_frames_that_are_expected_come_before_all_else)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	struct lan_frame f = lan_bed_frame(b, 0, 60, 1);
	int second;
	char byte;

	lan_bed_until(listener, dialer, true);
	lan_expect(listener);
	EXPECT(lan_has_more(listener));
	EXPECT_EQ(lan_receive(listener, b->frames, BED_FRAMES), 0);
	EXPECT(!lan_has_more(listener));
	second = raw_connect(b);
	EXPECT_EQ(lan_send(dialer, &f, 1), 1);
	lan_expect(listener);
	EXPECT_EQ(lan_receive(listener, b->frames, BED_FRAMES), 1);
	same_frame(&b->frames[0], b, 60, 1);
	EXPECT_EQ(recv(second, &byte, 1, MSG_DONTWAIT), -1);
	EXPECT_EQ(lan_receive(listener, b->frames, 0), 0);
	EXPECT_EQ(recv(second, &byte, 1, 0), 0);
	close(second);
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_a_port_without_a_link_expects_no_frames)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");

	EXPECT_EQ(lan_properties(listener)->why, WEFT_R_LAN_DOWN);
	lan_expect(listener);
	EXPECT(!lan_has_more(listener));
	EXPECT_EQ(lan_receive(listener, b->frames, BED_FRAMES), 0);
	EXPECT_EQ(lan_properties(listener)->why, WEFT_R_LAN_DOWN);
	lan_close(listener);
	lan_bed_end(b);
}

/* No descriptor is left for a peer: it waits until there is one. */
TEST(test_lan_socket_without_descriptors_waits_and_goes_on)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	int peer = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rlimit before = descriptors_end();

	raw_connect_by(b, peer);
	lan_bed_starved(listener);
	lan_bed_starved(listener); /* it has looked again */
	REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
	lan_bed_until(listener, NULL, true);
	close(peer);
	lan_close(listener);
	lan_bed_end(b);
}

/* The socket takes a part of a frame: the rest goes first, when there is room. */
TEST(test_lan_socket_full_keeps_frames_whole_and_says_so)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	uint32_t sent = 0, received = 0, taken;
	struct lan_frame f;

	lan_bed_until(listener, dialer, true);
	do {
		f = lan_bed_frame(b, 0, 60001, (uint8_t)sent);
		taken = lan_send(dialer, &f, 1);
		sent += taken;
	} while (taken > 0);
	EXPECT(sent > 1);
	(void)lan_receive(dialer, b->frames, 0);
	EXPECT_EQ(lan_news(dialer) & LAN_NEWS_ROOM, 0);
	while (received < sent) {
		uint32_t n = lan_bed_receive(b, listener);

		for (uint32_t i = 0; i < n; i++)
			same_frame(&b->frames[i], b, 60001, (uint8_t)received++);
		(void)lan_receive(dialer, b->frames, 0);
	}
	EXPECT_EQ(lan_news(dialer), LAN_NEWS_ROOM);
	f = lan_bed_frame(b, 0, 14, 9);
	EXPECT_EQ(lan_send(dialer, &f, 1), 1);
	EXPECT_EQ(lan_bed_receive(b, listener), 1);
	same_frame(&b->frames[0], b, 14, 9);
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

/* Its owner gives it again with the header that it had: a checksum is completed once. */
TEST(test_lan_socket_full_leaves_a_frame_as_it_was)
{
	const struct virtio_net left = { .flags = VIRTIO_NET_NEEDS_CSUM,
					 .csum_start = 34,
					 .csum_offset = 16 };
	struct lan_bed *b = lan_bed_make();
	struct lan_port *listener = lan_bed_open(b, "socket:%s/s,listen");
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s");
	struct lan_frame f;
	uint32_t taken, sent = 0;

	lan_bed_until(listener, dialer, true);
	do {
		f = lan_bed_frame(b, 0, 9000, (uint8_t)sent++);
		f.net = left;
		taken = lan_send(dialer, &f, 1);
	} while (taken > 0);
	EXPECT_MEM(&f.net, &left, sizeof(left));
	same_frame(&f, b, 9000, (uint8_t)(sent - 1));
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_connects_again)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *dialer = lan_bed_open(b, "socket:%s/s"), *listener;
	struct lan_frame f = lan_bed_frame(b, 0, 60, 1);

	EXPECT(!lan_properties(dialer)->is_up);
	EXPECT_EQ(lan_properties(dialer)->why, WEFT_R_LAN_DOWN);
	EXPECT_EQ(lan_send(dialer, &f, 1), 1);
	EXPECT_EQ(lan_counts(dialer)->out.drops[WEFT_R_LAN_DOWN], 1);
	listener = lan_bed_open(b, "socket:%s/s,listen");
	lan_bed_until(dialer, listener, true);
	lan_bed_until(listener, dialer, true);
	lan_close(listener);
	lan_bed_until(dialer, NULL, false);
	listener = lan_bed_open(b, "socket:%s/s,listen");
	lan_bed_until(dialer, listener, true);
	lan_close(dialer);
	lan_close(listener);
	lan_bed_end(b);
}

TEST(test_lan_socket_path_is_taken_only_when_no_process_listens)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *first = lan_bed_open(b, "socket:%s/s,listen"), *second = NULL;
	char text[BED_PATH + 32], path[BED_PATH + 4], why[LAN_WHY];
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct stat is;
	int left_over;

	snprintf(text, sizeof(text), "socket:%s/s,listen", b->folder);
	snprintf(path, sizeof(path), "%s/s", b->folder);
	EXPECT_EQ(lan_open(text, &second, why), WEFT_R_LAN_TAKEN);
	EXPECT(stat(path, &is) == 0);
	EXPECT_EQ(is.st_mode & 0777, 0600);
	lan_close(first);
	EXPECT(stat(path, &is) < 0);
	left_over = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(un.sun_path, sizeof(un.sun_path), "%.90s/s", b->folder);
	EXPECT_EQ(bind(left_over, (const void *)&un, sizeof(un)), 0);
	close(left_over);
	EXPECT_EQ(lan_open(text, &second, why), WEFT_OK);
	lan_close(second);
	lan_bed_end(b);
}

TEST(test_lan_socket_by_tcp_and_texts_that_are_none)
{
	struct lan_bed *b = lan_bed_make();
	struct lan_port *port = NULL;
	char why[LAN_WHY] = "";

	EXPECT_EQ(lan_open("socket:localhost", &port, why), WEFT_R_LAN_TEXT);
	EXPECT(strstr(why, "ADDRESS:PORT") != NULL);
	EXPECT_EQ(lan_open("socket:127.0.0.1:0", &port, why), WEFT_R_LAN_TEXT);
	EXPECT_EQ(lan_open("sock:x", &port, why), WEFT_R_LAN_TEXT);
	EXPECT_EQ(lan_open("socket:/proc/no/such,listen", &port, why), WEFT_R_LAN_NONE);
	lan_bed_end(b);
}

TEST(test_lan_socket_sets_what_it_has)
{
	static const uint8_t mac[LAN_MAC_BYTES] = { 2, 0, 0, 0, 0, 9 };
	const struct lan_filters filters = { .is_promiscuous = true };
	struct lan_bed *b = lan_bed_make();
	struct lan_port *port = lan_bed_open(b, "socket:%s/s,mtu=9000,mac=02:00:00:00:00:08");

	EXPECT_EQ(lan_properties(port)->mtu, 9000);
	EXPECT(lan_properties(port)->has_mac);
	EXPECT_EQ(lan_properties(port)->mac[5], 8);
	(void)lan_news(port);
	EXPECT_EQ(lan_set_mac(port, mac), WEFT_OK);
	EXPECT_EQ(lan_set_mtu(port, 1400), WEFT_OK);
	EXPECT_EQ(lan_news(port), LAN_NEWS_MAC | LAN_NEWS_MTU);
	EXPECT_EQ(lan_set_mtu(port, 67), WEFT_R_LAN_LONG);
	EXPECT_EQ(lan_set_mtu(port, 65522), WEFT_R_LAN_LONG);
	EXPECT_EQ(lan_set_link(port, false), WEFT_R_LAN_UNSUPPORTED);
	EXPECT_EQ(lan_set_filters(port, &filters), WEFT_R_LAN_UNSUPPORTED);
	lan_close(port);
	lan_bed_end(b);
}

TEST(test_lan_socket_needs_rights_to_its_path)
{
	enum { UNPRIVILEGED = 65534 };
	char why[LAN_WHY] = "";
	struct lan_port *port = NULL;
	uid_t user = geteuid();
	enum weft_reason r;

	if (user == 0)
		EXPECT_EQ(seteuid(UNPRIVILEGED), 0);
	r = lan_open("socket:/weft-lan-test,listen", &port, why);
	if (user == 0)
		EXPECT_EQ(seteuid(user), 0);
	EXPECT_EQ(r, WEFT_R_LAN_RIGHTS);
}
