/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * card_relay PORT HERE THERE: the least that a process between a frame port and a network does, for
 * card_bench.py. It is one half of a tunnel, the other half runs at THERE: each sleeps until there
 * is a frame or a message, and sends the one as the other by UDP. There is no RDMA: messages are
 * neither acknowledged nor checked, and what finds no room is lost.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "driver/lan/lan.h"

enum {
	OPTION_UDP_SEGMENT = 103, /* younger than the headers */
	OPTION_UDP_GRO = 104,
	UDP_PORT = 7778,
	SOCKET_BYTES = 8 << 20,
	EACH = 1400, /* bytes of a packet; longer messages are cut by the kernel or the interface */
	LENGTH_BYTES = 4,
	HEAD = LENGTH_BYTES + VIRTIO_NET_BUFFERS_BYTES, /* of a message, before the frame */
	ROOM = HEAD + LAN_FRAME_MAX + 1,
	FRAMES = 32,
};

static uint8_t rooms[FRAMES][ROOM], message[ROOM];

static int fail(const char *what)
{
	perror(what);
	return EXIT_FAILURE;
}

static bool end_of(const char *text, struct sockaddr_in *end)
{
	*end = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(UDP_PORT) };
	return inet_pton(AF_INET, text, &end->sin_addr) == 1;
}

/* A socket between the two ends, which joins packets that came together; or -1. */
static int udp_open(const char *here, const char *there)
{
	const int bytes = SOCKET_BYTES, yes = 1;
	struct sockaddr_in from, to;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || !end_of(here, &from) || !end_of(there, &to))
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	if (setsockopt(fd, SOL_UDP, OPTION_UDP_GRO, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (const void *)&from, sizeof(from)) < 0 ||
	    connect(fd, (const void *)&to, sizeof(to)) < 0)
		return -1;
	return fd;
}

/* As packets of EACH bytes, by one call. */
static void message_send(int fd, uint8_t *bytes, uint32_t length)
{
	union {
		struct cmsghdr header;
		uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
	} control = { .header = { .cmsg_level = SOL_UDP,
				  .cmsg_type = OPTION_UDP_SEGMENT,
				  .cmsg_len = CMSG_LEN(sizeof(uint16_t)) } };
	const uint16_t each = EACH;
	struct iovec all = { bytes, length };
	struct msghdr m = { .msg_iov = &all, .msg_iovlen = 1 };

	memcpy(CMSG_DATA(&control.header), &each, sizeof(each));
	if (length > EACH) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
	}
	(void)!sendmsg(fd, &m, 0);
}

static void frames_out(struct lan_port *port, int fd)
{
	uint32_t count;

	do {
		struct lan_frame frames[FRAMES];

		for (uint32_t i = 0; i < FRAMES; i++)
			frames[i] = (struct lan_frame){ .bytes = rooms[i] + HEAD,
							.room = LAN_FRAME_MAX };
		count = lan_receive(port, frames, FRAMES);
		for (uint32_t i = 0; i < count; i++) {
			uint8_t *at = frames[i].bytes - HEAD;

			memcpy(at, &frames[i].length, LENGTH_BYTES);
			virtio_net_encode(&frames[i].net, at + LENGTH_BYTES);
			message_send(fd, at, HEAD + frames[i].length);
		}
	} while (count > 0 && lan_has_more(port));
}

/* Of a message, or of several that the kernel has joined. */
static void frames_in(struct lan_port *port, int fd)
{
	ssize_t got;

	while ((got = recv(fd, message, sizeof(message), 0)) > 0) {
		uint8_t *at = message, *end = message + got;

		while (end - at > HEAD) {
			struct lan_frame f = { .bytes = at + HEAD };

			memcpy(&f.length, at, LENGTH_BYTES);
			if (f.length > (size_t)(end - at - HEAD))
				break; /* a part of it was lost */
			f.room = f.length;
			virtio_net_decode(&f.net, at + LENGTH_BYTES, VIRTIO_NET_BUFFERS_BYTES);
			(void)lan_send(port, &f, 1);
			at += HEAD + f.length;
		}
	}
}

int main(int count, char **words)
{
	static const struct lan_filters all = { .is_promiscuous = true };
	char why[LAN_WHY] = "";
	struct lan_port *port;
	int fd;

	if (count != 4) {
		fprintf(stderr, "usage: card_relay PORT HERE THERE\n");
		return EXIT_FAILURE;
	}
	if (lan_open(words[1], &port, why) != WEFT_OK) {
		fprintf(stderr, "card_relay: %s: %s\n", words[1], why);
		return EXIT_FAILURE;
	}
	(void)lan_set_filters(port, &all);
	fd = udp_open(words[2], words[3]);
	if (fd < 0)
		return fail("card_relay: UDP");
	for (;;) {
		struct pollfd ends[] = { { .fd = lan_descriptor(port), .events = POLLIN },
					 { .fd = fd, .events = POLLIN } };

		if (poll(ends, 2, -1) < 0)
			return fail("card_relay: poll");
		if (ends[0].revents)
			frames_out(port, fd);
		if (ends[1].revents)
			frames_in(port, fd);
	}
}
