/* SPDX-License-Identifier: BSD-2-Clause */
#include "tcp_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "child.h"

static const uint64_t run_ns_max = UINT64_C(5000000000);

/* One measurement, seen from one of its two processes. */
struct session {
	const struct net_ask *ask;
	struct sockaddr_in server;
	uint64_t deadline_ns;
	int listener;
	int socket;
	uint8_t *message;
};

/* No call on this socket blocks longer than the whole may take; accept() too. */
static bool set_limit(int fd)
{
	const struct timeval limit = { .tv_sec = (time_t)(run_ns_max / 1000000000) };

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
	       setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0;
}

/* ---- Moving whole messages ------------------------------------------------------------------- */

/* After a call that moved nothing: is it over? Who polls looks at the clock now and then. */
static bool is_over(const struct session *s, int flags, uint32_t *idle)
{
	if (errno != EAGAIN || (flags & MSG_DONTWAIT) == 0)
		return true;
	return ++*idle % 65536 == 0 && child_clock_ns() > s->deadline_ns;
}

static bool send_message(const struct session *s, int flags)
{
	uint32_t size = s->ask->size_bytes, done = 0, idle = 0;

	while (done < size) {
		ssize_t n = send(s->socket, s->message + done, size - done, flags | MSG_NOSIGNAL);

		if (n > 0)
			done += (uint32_t)n;
		else if (n == 0 || is_over(s, flags, &idle))
			return false;
	}
	return true;
}

static bool receive_message(const struct session *s, int flags)
{
	uint32_t size = s->ask->size_bytes, done = 0, idle = 0;

	while (done < size) {
		ssize_t n = recv(s->socket, s->message + done, size - done, flags);

		if (n > 0)
			done += (uint32_t)n;
		else if (n == 0 || is_over(s, flags, &idle))
			return false;
	}
	return true;
}

static bool receive_messages(const struct session *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!receive_message(s, MSG_DONTWAIT))
			return false;
	}
	return true;
}

static bool ping(const struct session *s, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!send_message(s, MSG_DONTWAIT) || !receive_message(s, MSG_DONTWAIT))
			return false;
	}
	return true;
}

/* ---- The child ------------------------------------------------------------------------------- */

static bool set_up(const struct session *s)
{
	const int one = 1;

	memset(s->message, 1, s->ask->size_bytes);
	return setsockopt(s->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0 &&
	       set_limit(s->socket);
}

static bool dial(struct session *s)
{
	s->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return s->socket >= 0 &&
	       connect(s->socket, (const struct sockaddr *)&s->server, sizeof(s->server)) == 0 &&
	       set_up(s);
}

static int stream_child(void *context)
{
	struct session *s = context;
	uint32_t count = s->ask->warm_count + s->ask->count;

	if (!dial(s))
		return 1;
	for (uint32_t i = 0; i < count; i++) {
		if (!send_message(s, 0))
			return 1;
	}
	return 0;
}

static int echo_child(void *context)
{
	struct session *s = context;
	uint32_t count = s->ask->warm_count + s->ask->count;

	if (!dial(s))
		return 1;
	for (uint32_t i = 0; i < count; i++) {
		if (!receive_message(s, MSG_DONTWAIT) || !send_message(s, MSG_DONTWAIT))
			return 1;
	}
	return 0;
}

/* ---- The parent ------------------------------------------------------------------------------ */

static bool listen_on_loopback(struct session *s)
{
	socklen_t length = sizeof(s->server);
	struct sockaddr *address = (struct sockaddr *)&s->server;

	s->server = (struct sockaddr_in){ .sin_family = AF_INET };
	s->server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return s->listener >= 0 && set_limit(s->listener) &&
	       bind(s->listener, address, length) == 0 &&
	       getsockname(s->listener, address, &length) == 0 && listen(s->listener, 1) == 0;
}

/* The time of all but the first messages, with the child at the other end; 0: it did not work. */
static uint64_t time_messages(struct session *s, bool (*run)(const struct session *s, uint32_t n))
{
	uint64_t start_ns;

	s->socket = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
	if (s->socket < 0 || !set_up(s) || !run(s, s->ask->warm_count))
		return 0;
	start_ns = child_clock_ns();
	return run(s, s->ask->count) ? child_clock_ns() - start_ns : 0;
}

static uint64_t measure_pair(const struct net_ask *ask, int (*other)(void *context),
			     bool (*run)(const struct session *s, uint32_t n))
{
	struct session s = { .ask = ask, .listener = -1, .socket = -1 };
	struct child child;
	uint64_t ns = 0;

	s.deadline_ns = child_clock_ns() + run_ns_max;
	s.message = malloc(ask->size_bytes);
	if (s.message != NULL && listen_on_loopback(&s) && child_fork(&child, other, &s) == 0) {
		ns = time_messages(&s, run);
		if (ns == 0)
			child_kill(&child);
		else if (child_finish(&child, s.deadline_ns, NULL, 0) != 0)
			ns = 0;
	}
	if (s.socket >= 0)
		close(s.socket);
	if (s.listener >= 0)
		close(s.listener);
	free(s.message);
	return ns;
}

static bool no_answer(struct net_figure *f)
{
	snprintf(f->why, sizeof(f->why), "the connection failed or took too long");
	return false;
}

static bool tcp_rate(struct net_figure *f, const struct net_ask *ask)
{
	uint64_t ns = measure_pair(ask, stream_child, receive_messages);

	if (ns == 0)
		return no_answer(f);
	f->value = ask->count * 1e9 / (double)ns;
	snprintf(f->how, sizeof(f->how),
		 "blocking send, polled recv of %u bytes, TCP_NODELAY, default buffers",
		 ask->size_bytes);
	return true;
}

static bool tcp_bandwidth(struct net_figure *f, const struct net_ask *ask)
{
	if (!tcp_rate(f, ask))
		return false;
	f->value *= ask->size_bytes;
	return true;
}

static bool tcp_latency(struct net_figure *f, const struct net_ask *ask)
{
	uint64_t ns = measure_pair(ask, echo_child, ping);

	if (ns == 0)
		return no_answer(f);
	f->value = (double)ns / ask->count / 2;
	snprintf(f->how, sizeof(f->how),
		 "send and polled recv of %u bytes there and back, TCP_NODELAY, default buffers",
		 ask->size_bytes);
	return true;
}

const struct net_peer tcp_peer = {
	.name = "tcp",
	.title = "plain TCP",
	.color = "#57606a",
	.bandwidth = tcp_bandwidth,
	.latency = tcp_latency,
	.rate = tcp_rate,
};
