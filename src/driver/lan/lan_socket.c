/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames by a stream socket, as QEMU (-netdev stream) and passt speak: before each its length, 32
 * bits, big endian. One peer at a time. A listener goes on listening when its peer has gone; the
 * other end connects again, once a second. What a full socket did not take of a frame is kept.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <weft/weft.h>

#include "driver/lan/lan_inside.h"
#include "driver/sys/calls.h"
#include "lan/framing.h"

enum { SEND_BATCH = 32, MTU = 1500 };

static const uint64_t again_ns = UINT64_C(1000) * 1000 * 1000;

struct lan_socket {
	struct lan_port port;
	struct lan_listener from; /* it listens, or not: */
	struct lan_watch peer, timer;
	bool is_connecting;
	socklen_t to_length;
	struct sockaddr_storage to;
	struct lan_framing in;
	uint8_t rest[LAN_FRAMING_BYTES + LAN_FRAME_MAX]; /* of a frame that was sent in part */
	size_t rest_at, rest_end;
	uint8_t received[LAN_FRAMING_ROOM];
};

static struct lan_socket *socket_of(struct lan_port *port)
{
	return CONTAINER_OF(port, struct lan_socket, port);
}

static bool address_of(struct lan_socket *s, const struct lan_plan *plan, char *why)
{
	struct sockaddr_un *un = (void *)&s->to;
	struct sockaddr_in *v4 = (void *)&s->to;
	struct sockaddr_in6 *v6 = (void *)&s->to;
	struct weft_address a;

	if (plan->is_path) {
		un->sun_family = AF_UNIX;
		memcpy(un->sun_path, plan->name, strlen(plan->name) + 1);
		s->to_length = sizeof(*un);
		return true;
	}
	if (weft_address_parse(plan->name, &a) != WEFT_OK || a.family == 0 || a.port == 0) {
		snprintf(why, LAN_WHY, "%s is neither a path with a / nor ADDRESS:PORT",
			 plan->name);
		return false;
	}
	if (a.family == 4) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(a.port);
		memcpy(&v4->sin_addr, a.ip, sizeof(v4->sin_addr));
		s->to_length = sizeof(*v4);
	} else {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(a.port);
		v6->sin6_scope_id = a.scope;
		memcpy(&v6->sin6_addr, a.ip, sizeof(v6->sin6_addr));
		s->to_length = sizeof(*v6);
	}
	return true;
}

static int socket_make(const struct lan_socket *s)
{
	return socket(s->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int listen_at(const struct lan_socket *s)
{
	const int yes = 1;
	int fd, error;

	if (s->to.ss_family == AF_UNIX)
		return lan_path_listen(
			((const struct sockaddr_un *)(const void *)&s->to)->sun_path);
	fd = socket_make(s);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (const void *)&s->to, s->to_length) == 0 && listen(fd, 1) == 0)
		return fd;
	error = errno;
	call_close(fd);
	return -error;
}

/* The peer is there: frames come and go. */
static void connected(struct lan_socket *s)
{
	const int yes = 1;

	s->is_connecting = false;
	lan_framing_reset(&s->in);
	s->rest_at = s->rest_end = 0;
	if (s->to.ss_family != AF_UNIX)
		(void)setsockopt(s->peer.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	lan_watch(&s->port, &s->peer, EPOLLIN);
	lan_link_is(&s->port, true, WEFT_OK);
}

static void lose(struct lan_socket *s, enum weft_reason why)
{
	lan_watch_close(&s->port, &s->peer);
	s->is_connecting = false;
	s->port.has_input = false;
	lan_link_is(&s->port, false, why);
	if (s->timer.fd >= 0)
		lan_timer_set(&s->timer, again_ns);
}

static void begin(struct lan_socket *s)
{
	s->peer.fd = socket_make(s);
	if (s->peer.fd < 0) {
		lose(s, WEFT_R_DESCRIPTORS);
		return;
	}
	if (call_connect(s->peer.fd, (const void *)&s->to, s->to_length) == 0) {
		connected(s);
	} else if (errno == EINPROGRESS) {
		s->is_connecting = true;
		lan_watch(&s->port, &s->peer, EPOLLOUT);
	} else {
		lose(s, WEFT_R_LAN_DOWN);
	}
}

static void on_timer(struct lan_port *port, uint32_t events)
{
	struct lan_socket *s = socket_of(port);
	uint64_t times;

	(void)events;
	(void)call_read(s->timer.fd, &times, sizeof(times));
	if (s->peer.fd < 0)
		begin(s);
}

static void on_listener(struct lan_port *port, uint32_t events)
{
	struct lan_socket *s = socket_of(port);
	int fd = lan_accept(port, &s->from, s->peer.fd >= 0);

	(void)events;
	if (fd < 0)
		return;
	s->peer.fd = fd;
	connected(s);
}

static void on_again(struct lan_port *port, uint32_t events)
{
	(void)events;
	lan_accept_again(port, &socket_of(port)->from);
}

/* Sends what is left of the frame before. False: it is not all gone. */
static bool send_rest(struct lan_socket *s)
{
	ssize_t n;

	if (s->rest_at == s->rest_end)
		return true;
	n = call_send(s->peer.fd, s->rest + s->rest_at, s->rest_end - s->rest_at);
	if (n > 0)
		s->rest_at += (size_t)n;
	return s->rest_at == s->rest_end;
}

static void on_peer(struct lan_port *port, uint32_t events)
{
	struct lan_socket *s = socket_of(port);
	int error = 0;
	socklen_t length = sizeof(error);

	if (s->is_connecting) {
		(void)getsockopt(s->peer.fd, SOL_SOCKET, SO_ERROR, &error, &length);
		if (error != 0) {
			lose(s, WEFT_R_LAN_DOWN);
			return;
		}
		lan_watch(port, &s->peer, 0);
		connected(s);
		return;
	}
	if (events & EPOLLOUT && send_rest(s)) {
		lan_watch(port, &s->peer, EPOLLIN);
		port->news |= LAN_NEWS_ROOM;
	}
	port->has_input |= (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0;
}

static void socket_close_port(struct lan_port *port)
{
	struct lan_socket *s = socket_of(port);
	const struct sockaddr_un *un = (const void *)&s->to;

	if (s->from.listener.fd >= 0 && s->to.ss_family == AF_UNIX)
		(void)unlink(un->sun_path);
	lan_accept_close(port, &s->from);
	lan_watch_close(port, &s->peer);
	lan_watch_close(port, &s->timer);
}

static enum weft_reason socket_open(struct lan_port *port, const struct lan_plan *plan, char *why)
{
	struct lan_socket *s = socket_of(port);
	enum weft_reason r;

	s->from.listener = (struct lan_watch){ .fd = -1, .ready = on_listener };
	s->from.timer = (struct lan_watch){ .fd = -1, .ready = on_again };
	s->peer = (struct lan_watch){ .fd = -1, .ready = on_peer };
	s->timer = (struct lan_watch){ .fd = -1, .ready = on_timer };
	s->in.bytes = s->received;
	if (port->is.mtu == 0)
		port->is.mtu = MTU;
	if (!address_of(s, plan, why))
		return WEFT_R_LAN_TEXT;
	if (!plan->is_listening) {
		if (!lan_timer_open(port, &s->timer))
			return lan_failed(why, "a timer", errno);
		begin(s);
		return WEFT_OK;
	}
	s->from.listener.fd = listen_at(s);
	if (s->from.listener.fd < 0)
		return lan_failed(why, plan->name, -s->from.listener.fd);
	if (lan_accept_open(port, &s->from))
		return WEFT_OK;
	r = lan_failed(why, "a timer", errno);
	socket_close_port(port);
	return r;
}

/* Frames that have arrived whole. */
static uint32_t take_frames(struct lan_socket *s, struct lan_frame *frames, uint32_t count)
{
	struct lan_way *in = &s->port.counts.in;
	uint32_t n = 0;

	while (n < count) {
		struct span frame;
		enum weft_reason r = lan_framing_next(&s->in, &frame, &in->drops[WEFT_R_LAN_SHORT]);

		if (r != WEFT_OK) {
			lose(s, r);
			break;
		}
		if (frame.length == 0)
			break;
		if (frame.length < LAN_HEADER_BYTES || frame.length > frames[n].room) {
			lan_drop(in, frame.length < LAN_HEADER_BYTES ? WEFT_R_LAN_SHORT
								     : WEFT_R_LAN_LONG);
			continue;
		}
		memcpy(frames[n].bytes, frame.bytes, frame.length);
		frames[n].length = (uint32_t)frame.length;
		frames[n++].net = (struct virtio_net){ 0 };
	}
	return n;
}

static uint32_t socket_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	struct lan_socket *s = socket_of(port);
	uint32_t got = take_frames(s, frames, count);
	struct span want;
	ssize_t n;

	/* What is whole goes first: the buffer always has room for the rest of a frame then. */
	if (got > 0 || s->peer.fd < 0)
		return got;
	want = lan_framing_want(&s->in);
	n = call_recv(s->peer.fd, want.bytes, want.length);
	if (n > 0) {
		lan_framing_got(&s->in, (size_t)n);
		return take_frames(s, frames, count);
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		port->has_input = false;
	else
		lose(s, WEFT_R_LAN_ENDED);
	return 0;
}

/* Keeps what is left of a frame of which the socket took its first bytes. */
static void keep_rest(struct lan_socket *s, const struct iovec *parts, size_t sent)
{
	s->rest_at = sent;
	s->rest_end = 0;
	for (int i = 0; i < 2; i++) {
		memcpy(s->rest + s->rest_end, parts[i].iov_base, parts[i].iov_len);
		s->rest_end += parts[i].iov_len;
	}
}

/* How many of these frames the socket took, the last perhaps in part. */
static uint32_t send_some(struct lan_socket *s, const struct lan_frame *frames, uint32_t count)
{
	uint8_t heads[SEND_BATCH][LAN_FRAMING_BYTES];
	struct iovec parts[2 * SEND_BATCH];
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 * count };
	uint32_t taken = 0;
	ssize_t n;

	for (uint32_t i = 0; i < count; i++) {
		lan_framing_head(heads[i], frames[i].length);
		parts[2 * i] = (struct iovec){ heads[i], LAN_FRAMING_BYTES };
		parts[2 * i + 1] = (struct iovec){ frames[i].bytes, frames[i].length };
	}
	n = call_sendmsg(s->peer.fd, &m);
	while (n > 0 && taken < count) {
		size_t whole = LAN_FRAMING_BYTES + frames[taken].length;

		if ((size_t)n < whole)
			keep_rest(s, parts + 2 * (size_t)taken, (size_t)n);
		n -= (ssize_t)((size_t)n < whole ? (size_t)n : whole);
		lan_sent(&s->port, &frames[taken++]);
	}
	return taken;
}

static uint32_t socket_send(struct lan_port *port, const struct lan_frame *frames, uint32_t count)
{
	struct lan_socket *s = socket_of(port);
	uint32_t done = 0;

	while (done < count) {
		uint32_t batch = count - done < SEND_BATCH ? count - done : SEND_BATCH, taken = 0;

		if (send_rest(s))
			taken = send_some(s, frames + done, batch);
		done += taken;
		/* A connection that is broken is readable: the next turn finds out. */
		if (taken < batch || s->rest_at < s->rest_end) {
			lan_watch(port, &s->peer, EPOLLIN | EPOLLOUT);
			break;
		}
	}
	return done;
}

/* Neither is told to the peer: there is no message for it. */
static enum weft_reason socket_set_mac(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES])
{
	lan_mac_is(port, mac);
	return WEFT_OK;
}

static enum weft_reason socket_set_mtu(struct lan_port *port, uint32_t mtu)
{
	lan_mtu_is(port, mtu);
	return WEFT_OK;
}

const struct lan_calls lan_socket_calls = {
	.bytes = sizeof(struct lan_socket),
	.is_level = true,
	.open = socket_open,
	.close = socket_close_port,
	.receive = socket_receive,
	.send = socket_send,
	.set_mac = socket_set_mac,
	.set_mtu = socket_set_mtu,
};
