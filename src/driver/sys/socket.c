/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "driver/sys/calls.h"
#include "driver/sys/socket_reason.h"

_Static_assert(sizeof(struct span) == sizeof(struct iovec) &&
		       offsetof(struct span, bytes) == offsetof(struct iovec, iov_base) &&
		       offsetof(struct span, length) == offsetof(struct iovec, iov_len),
	       "a span is what the kernel takes");

union any_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t to_kernel(const struct weft_address *a, union any_address *k)
{
	memset(k, 0, sizeof(*k));
	if (a->family == 4) {
		k->v4.sin_family = AF_INET;
		k->v4.sin_port = htons(a->port);
		memcpy(&k->v4.sin_addr, a->ip, sizeof(k->v4.sin_addr));
		return sizeof(k->v4);
	}
	/* Family 0 is the unspecified address of IPv6, which takes IPv4 as well. */
	k->v6.sin6_family = AF_INET6;
	k->v6.sin6_port = htons(a->port);
	k->v6.sin6_scope_id = a->scope;
	if (a->family == 6)
		memcpy(&k->v6.sin6_addr, a->ip, sizeof(a->ip));
	return sizeof(k->v6);
}

static void from_kernel(const union any_address *k, struct weft_address *a)
{
	*a = (struct weft_address){ .family = 6 };
	if (k->any.sa_family == AF_INET) {
		a->family = 4;
		a->port = ntohs(k->v4.sin_port);
		memcpy(a->ip, &k->v4.sin_addr, sizeof(k->v4.sin_addr));
		return;
	}
	a->port = ntohs(k->v6.sin6_port);
	a->scope = k->v6.sin6_scope_id;
	memcpy(a->ip, &k->v6.sin6_addr, sizeof(a->ip));
	if (IN6_IS_ADDR_V4MAPPED(&k->v6.sin6_addr)) {
		a->family = 4;
		memmove(a->ip, a->ip + 12, 4);
		memset(a->ip + 4, 0, 12);
	}
}

static int open_socket(const struct weft_address *a)
{
	int family = a->family == 4 ? AF_INET : AF_INET6;

	return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static void set(int fd, int level, int name, int value)
{
	/* A kernel without the option works without it. */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

enum weft_reason socket_listen(const struct weft_address *at, int *fd)
{
	enum { BACKLOG = 4096, SILENCE_S = 4 };
	union any_address k;
	socklen_t length = to_kernel(at, &k);
	int s = open_socket(at), error;

	if (s < 0)
		return socket_reason_of(errno);
	set(s, SOL_SOCKET, SO_REUSEADDR, 1);
	if (at->family != 4)
		set(s, IPPROTO_IPV6, IPV6_V6ONLY, at->family == 6);
	/*
	 * In MPA the initiator sends first: let the kernel hold silent connections back for a
	 * while.
	 */
	set(s, IPPROTO_TCP, TCP_DEFER_ACCEPT, SILENCE_S);
	if (bind(s, &k.any, length) == 0 && listen(s, BACKLOG) == 0) {
		*fd = s;
		return WEFT_OK;
	}
	error = errno;
	call_close(s);
	return socket_reason_of(error);
}

/* True: the socket has that address, or may have any. */
static bool bind_to(int s, const struct weft_address *from)
{
	union any_address k;
	socklen_t length;

	if (!from)
		return true;
	length = to_kernel(from, &k);
	/* If no port is given, share one with connections to other destinations. */
	set(s, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, from->port == 0);
	set(s, SOL_SOCKET, SO_REUSEADDR, 1);
	return bind(s, &k.any, length) == 0;
}

enum weft_reason socket_connect(const struct weft_address *to, const struct weft_address *from,
				int *fd)
{
	union any_address k;
	socklen_t length = to_kernel(to, &k);
	int s = open_socket(to), error;

	if (s < 0)
		return socket_reason_of(errno);
	set(s, IPPROTO_TCP, TCP_NODELAY, 1);
	if (bind_to(s, from) && (call_connect(s, &k.any, length) == 0 || errno == EINPROGRESS)) {
		*fd = s;
		return WEFT_OK;
	}
	error = errno;
	call_close(s);
	return socket_reason_of(error);
}

enum weft_reason socket_accept(int listener, int *fd)
{
	*fd = call_accept(listener);
	if (*fd >= 0) {
		set(*fd, IPPROTO_TCP, TCP_NODELAY, 1);
		return WEFT_OK;
	}
	switch (errno) {
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		return socket_reason_of(errno);
	default: /* no connection waits, or it was closed before we accepted it */
		return WEFT_OK;
	}
}

enum weft_reason socket_connected(int fd)
{
	int error = 0;
	socklen_t length = sizeof(error);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) < 0)
		return socket_reason_of(errno);
	return error ? socket_reason_of(error) : WEFT_OK;
}

void socket_addresses(int fd, struct weft_address *local, struct weft_address *remote)
{
	union any_address k;
	socklen_t length = sizeof(k);

	memset(&k, 0, sizeof(k));
	if (getsockname(fd, &k.any, &length) == 0)
		from_kernel(&k, local);
	length = sizeof(k);
	if (remote && getpeername(fd, &k.any, &length) == 0)
		from_kernel(&k, remote);
}

enum weft_reason socket_route(const struct weft_address *to, struct weft_address *from,
			      uint32_t *mtu_bytes)
{
	union any_address k;
	socklen_t length = to_kernel(to, &k), size = sizeof(int);
	bool is_v4 = to->family == 4;
	int s = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), mtu = 0;
	enum weft_reason reason = WEFT_OK;

	if (s < 0)
		return socket_reason_of(errno);
	/* This sends nothing. */
	if (call_connect(s, &k.any, length) != 0 ||
	    getsockopt(s, is_v4 ? IPPROTO_IP : IPPROTO_IPV6, is_v4 ? IP_MTU : IPV6_MTU, &mtu,
		       &size) != 0)
		reason = socket_reason_of(errno);
	else
		socket_addresses(s, from, NULL);
	*mtu_bytes = (uint32_t)mtu;
	call_close(s);
	return reason;
}

enum weft_reason socket_own(const struct weft_address *at)
{
	struct weft_address any_port = *at;
	union any_address k;
	int s = socket(at->family == 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	enum weft_reason reason = WEFT_OK;

	if (s < 0)
		return socket_reason_of(errno);
	any_port.port = 0;
	if (bind(s, &k.any, to_kernel(&any_port, &k)) != 0)
		reason = socket_reason_of(errno);
	call_close(s);
	return reason;
}

/* The list as a msghdr. The cast is safe: the kernel does not change the list. */
static struct msghdr message_of(const struct span_list *l)
{
	return (struct msghdr){
		.msg_iov = (struct iovec *)(uintptr_t)l->spans,
		.msg_iovlen = l->count,
	};
}

static enum socket_result result_of(ssize_t moved, size_t *n)
{
	if (moved > 0) {
		*n = (size_t)moved;
		return SOCKET_MOVED;
	}
	if (moved == 0)
		return SOCKET_END;
	if (errno == EFAULT)
		return SOCKET_MISSING;
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? SOCKET_WAIT : SOCKET_LOST;
}

enum socket_result socket_recv(int fd, const struct span_list *l, size_t *n)
{
	struct msghdr m;

	if (l->count == 1)
		return result_of(call_recv(fd, l->spans[0].bytes, l->spans[0].length), n);
	m = message_of(l);
	return result_of(call_recvmsg(fd, &m), n);
}

static ssize_t list_send(int fd, const struct span_list *l)
{
	struct msghdr m;

	if (l->count == 1)
		return call_send(fd, l->spans[0].bytes, l->spans[0].length);
	m = message_of(l);
	return call_sendmsg(fd, &m);
}

enum socket_result socket_send(int fd, const struct span_list *l, size_t *n)
{
	enum socket_result r = result_of(list_send(fd, l), n);

	return r == SOCKET_LOST && errno != EPIPE && errno != ECONNRESET ? SOCKET_SILENT : r;
}

void socket_watch_peer(int fd, uint64_t silence_ns)
{
	enum { NS_PER_S = 1000000000, LONGEST_S = 32767 /* Linux's limit */ };
	uint64_t whole = silence_ns / NS_PER_S + (silence_ns % NS_PER_S > 0);
	int silence_s = whole < LONGEST_S ? (int)whole : LONGEST_S;
	/* Probe an idle connection after half the time, then so often that probes may be lost. */
	int idle_s = silence_s > 1 ? silence_s / 2 : 1;
	int again_s = silence_s > 8 ? silence_s / 8 : 1;

	set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
	set(fd, IPPROTO_TCP, TCP_KEEPINTVL, again_s);
	/* Linux goes by TCP_USER_TIMEOUT below; without that, by the number of probes. */
	set(fd, IPPROTO_TCP, TCP_KEEPCNT, (silence_s - idle_s) / again_s + 1);
	set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, silence_s * 1000);
	set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

void socket_shut(int fd)
{
	(void)shutdown(fd, SHUT_WR); /* fails only if the connection has ended already */
}

void socket_close(int fd, bool is_reset)
{
	const struct linger reset = { .l_onoff = 1 };

	if (is_reset)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	call_close(fd);
}
