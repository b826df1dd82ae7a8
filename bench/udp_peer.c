/* SPDX-License-Identifier: BSD-2-Clause */
#include "udp_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"

enum { SEGMENT = 4096, BATCH = 15 * SEGMENT, WINDOW = 4 * BATCH, BUFFER = 65536 };

static const uint64_t run_ns_max = UINT64_C(5000000000);

/* One measurement; the child has the second socket. */
struct session {
	const struct net_ask *ask;
	int sockets[2];
	uint64_t deadline_ns;
	uint32_t idle;
	uint8_t *message, *buffer;
};

/* Who polls looks at the clock now and then. */
static bool is_over(struct session *s)
{
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		return true;
	return ++s->idle % 65536 == 0 && child_clock_ns() > s->deadline_ns;
}

/* Waits for a datagram; 0: none came. */
static size_t receive(struct session *s, int fd, void *into, size_t room)
{
	for (;;) {
		ssize_t n = recv(fd, into, room, MSG_DONTWAIT);

		if (n > 0)
			return (size_t)n;
		if (n == 0 || is_over(s))
			return 0;
	}
}

static bool transmit(struct session *s, int fd, const void *bytes, size_t count)
{
	while (send(fd, bytes, count, MSG_DONTWAIT) < 0) {
		if (is_over(s))
			return false;
	}
	return true;
}

/* ---- A stream -------------------------------------------------------------------------------- */

/* The child: as much as the window lets, until all is acknowledged. */
static int stream_child(void *context)
{
	struct session *s = context;
	uint64_t total = (uint64_t)(s->ask->warm_count + s->ask->count) * s->ask->size_bytes;
	uint64_t sent = 0, taken = 0;
	int size = SEGMENT, fd = s->sockets[1];

	if (setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) < 0)
		return 1;
	while (taken < total) {
		uint64_t offset = sent % s->ask->size_bytes;
		uint64_t left = s->ask->size_bytes - offset;

		left = left < BATCH ? left : BATCH;
		if (sent < total && sent - taken + left <= WINDOW) {
			if (!transmit(s, fd, s->message + offset, left))
				return 1;
			sent += left;
		} else if (receive(s, fd, &taken, sizeof(taken)) != sizeof(taken)) {
			return 1;
		}
	}
	return 0;
}

/* So many messages, in order; each to the same place. */
static bool take_messages(struct session *s, uint32_t count, uint64_t *taken)
{
	uint64_t end = *taken + (uint64_t)count * s->ask->size_bytes, told = *taken;

	while (*taken < end) {
		size_t n = receive(s, s->sockets[0], s->buffer, BUFFER);
		uint64_t offset = *taken % s->ask->size_bytes;

		if (n == 0 || offset + n > s->ask->size_bytes)
			return false;
		memcpy(s->message + offset, s->buffer, n);
		*taken += n;
		if (*taken - told >= WINDOW / 4 || *taken == end) {
			told = *taken;
			if (!transmit(s, s->sockets[0], taken, sizeof(*taken)))
				return false;
		}
	}
	return true;
}

static uint64_t time_stream(struct session *s)
{
	uint64_t start_ns, taken = 0;
	int one = 1;

	if (setsockopt(s->sockets[0], IPPROTO_UDP, UDP_GRO, &one, sizeof(one)) < 0 ||
	    !take_messages(s, s->ask->warm_count, &taken))
		return 0;
	start_ns = child_clock_ns();
	return take_messages(s, s->ask->count, &taken) ? child_clock_ns() - start_ns : 0;
}

/* ---- There and back -------------------------------------------------------------------------- */

static bool turns(struct session *s, int fd, uint32_t count, bool is_first)
{
	for (uint32_t i = 0; i < 2 * count; i++) {
		if ((i % 2 == 0) == is_first) {
			if (!transmit(s, fd, s->message, s->ask->size_bytes))
				return false;
		} else if (receive(s, fd, s->message, s->ask->size_bytes) != s->ask->size_bytes) {
			return false;
		}
	}
	return true;
}

static int echo_child(void *context)
{
	struct session *s = context;

	return turns(s, s->sockets[1], s->ask->warm_count + s->ask->count, false) ? 0 : 1;
}

static uint64_t time_echoes(struct session *s)
{
	uint64_t start_ns;

	if (!turns(s, s->sockets[0], s->ask->warm_count, true))
		return 0;
	start_ns = child_clock_ns();
	return turns(s, s->sockets[0], s->ask->count, true) ? child_clock_ns() - start_ns : 0;
}

/* ---- Two processes --------------------------------------------------------------------------- */

/* Two sockets that are connected to each other. */
static bool join(int sockets[2])
{
	struct sockaddr_in at[2];
	const int room = 4 << 20; /* or what the host allows */

	for (int i = 0; i < 2; i++) {
		socklen_t length = sizeof(at[i]);

		at[i] = (struct sockaddr_in){ .sin_family = AF_INET };
		at[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		sockets[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		if (sockets[i] < 0 ||
		    setsockopt(sockets[i], SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) < 0 ||
		    bind(sockets[i], (const struct sockaddr *)&at[i], length) < 0 ||
		    getsockname(sockets[i], (struct sockaddr *)&at[i], &length) < 0)
			return false;
	}
	for (int i = 0; i < 2; i++) {
		if (connect(sockets[i], (const struct sockaddr *)&at[1 - i], sizeof(at[0])) < 0)
			return false;
	}
	return true;
}

static uint64_t measure_pair(const struct net_ask *ask, int (*other)(void *context),
			     uint64_t (*time)(struct session *s))
{
	struct session s = { .ask = ask, .sockets = { -1, -1 } };
	struct child child;
	uint64_t ns = 0;

	s.deadline_ns = child_clock_ns() + run_ns_max;
	s.message = calloc(1, ask->size_bytes);
	s.buffer = malloc(BUFFER);
	if (s.message && s.buffer && join(s.sockets) && child_fork(&child, other, &s) == 0) {
		ns = time(&s);
		if (ns == 0)
			child_kill(&child);
		else if (child_finish(&child, s.deadline_ns, NULL, 0) != 0)
			ns = 0;
	}
	for (int i = 0; i < 2; i++) {
		if (s.sockets[i] >= 0)
			close(s.sockets[i]);
	}
	free(s.message);
	free(s.buffer);
	return ns;
}

static bool udp_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	uint64_t ns = measure_pair(ask, stream_child, time_stream);

	if (ns == 0) {
		snprintf(f->why, sizeof(f->why), "a datagram was lost, or it took too long");
		return false;
	}
	f->value = (double)ask->count * ask->size_bytes * 1e9 / (double)ns;
	snprintf(
		f->how, sizeof(f->how),
		"UDP_SEGMENT of up to %d times %d bytes, UDP_GRO, a copy of each byte, a window of "
		"%d KiB",
		BATCH / SEGMENT, SEGMENT, WINDOW >> 10);
	return true;
}

static bool udp_latency(struct net_figure *f, const struct net_ask *ask)
{
	uint64_t ns = measure_pair(ask, echo_child, time_echoes);

	if (ns == 0) {
		snprintf(f->why, sizeof(f->why), "a datagram was lost, or it took too long");
		return false;
	}
	f->value = (double)ns / ask->count / 2;
	snprintf(f->how, sizeof(f->how), "send and polled recv of %u bytes there and back",
		 ask->size_bytes);
	return true;
}

const struct net_peer udp_peer = {
	.name = "udp",
	.title = "plain UDP",
	.color = "#9a6700",
	.latency_bytes_max = BATCH,
	.bandwidth = udp_bandwidth,
	.latency = udp_latency,
};
