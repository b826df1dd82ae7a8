/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA, by which programs ask the kernel for RDMA devices (iproute2's rdma, by
 * libmnl), made to tell of weft's; the kernel's own are left out, as they are by libibverbs.
 *
 * Such a socket is a datagram socket of the Unix family that is connected to itself. A request that
 * is sent to it is answered here, and the answers lie in the socket, for poll() and every way to
 * receive. So the kernel sees to duplicates, forks and the end. What a descriptor is tells its
 * socket's name, which has netlink's number of the socket in it.
 *
 *     \0weft.rdma.PORT.RANDOM
 *
 * Kept here is only which descriptors ever were such a socket: all others, but those with high
 * numbers, pay for a look at a bit.
 *
 * Gaps:
 *  - Requests by write() or sendmmsg() are not noticed; connect() with a netlink address fails.
 *  - recvmmsg() gives the sender's address as a Unix socket's; getsockopt() of SO_DOMAIN and
 *    SO_PROTOCOL tells of the Unix family, too.
 *  - bind() to another number than the socket has puts another socket in its place: epoll does
 *    not watch the new file, options that were set are lost, and duplicates stay what they were.
 *  - A socket that another process passed (SCM_RIGHTS) is not known here.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "compat/sysfs/libc.h"
#include "compat/sysfs/nldev.h"
#include "compat/sysfs/redirect.h"

static const char prefix[] = "weft.rdma.";

enum {
	NAME_PREFIX = sizeof(prefix) - 1,
	NAME_PORT = 8,
	NAME_BYTES = NAME_PREFIX + NAME_PORT + 1 + 16 /* of the random part */
};

enum { NUMBERS = 1024, NUMBERS_EACH = 64 };

/*
 * Descriptors below NUMBERS that ever were such a socket, a bit each, and whether one was ever
 * asked for. Children inherit both. They spare calls on other sockets a system call.
 */
static _Atomic uint64_t noted[NUMBERS / NUMBERS_EACH];
static atomic_bool has_noted;

/* ---- What a descriptor is -------------------------------------------------------------------- */

static void note(int fd)
{
	if (fd < NUMBERS)
		atomic_fetch_or(&noted[fd / NUMBERS_EACH], UINT64_C(1) << fd % NUMBERS_EACH);
}

/* Whether it may be one of ours. */
static bool is_noted(int fd)
{
	uint64_t bits;

	if (fd < 0 || !atomic_load_explicit(&has_noted, memory_order_relaxed))
		return false;
	if (fd >= NUMBERS)
		return true;
	bits = atomic_load_explicit(&noted[fd / NUMBERS_EACH], memory_order_relaxed);
	return bits >> fd % NUMBERS_EACH & 1;
}

/* Apart from is_ours(): it takes a system call. */
__attribute__((noinline)) static bool has_our_name(int fd, uint32_t *port)
{
	struct sockaddr_un name = { .sun_family = AF_UNSPEC };
	socklen_t length = sizeof(name);
	char digits[NAME_PORT + 1] = "";
	int error = errno;

	if (libc_calls()->getsockname(fd, (struct sockaddr *)(void *)&name, &length) < 0) {
		errno = error;
		return false;
	}
	if (name.sun_family != AF_UNIX ||
	    length != offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES ||
	    name.sun_path[0] != '\0' || memcmp(name.sun_path + 1, prefix, NAME_PREFIX) != 0)
		return false;
	memcpy(digits, name.sun_path + 1 + NAME_PREFIX, NAME_PORT);
	*port = (uint32_t)strtoul(digits, NULL, 16);
	return true;
}

/* Whether it is one of ours; then *port is its number. */
static inline bool is_ours(int fd, uint32_t *port)
{
	return is_noted(fd) && has_our_name(fd, port);
}

/* As dup(), which gave to. */
static int copied(int from, int to)
{
	uint32_t port;

	if (to >= 0 && is_ours(from, &port))
		note(to);
	return to;
}

/* As the kernel has it: the process's own, or one that no process has. */
static uint32_t port_choose(void)
{
	uint32_t some;

	if (!atomic_exchange(&has_noted, true) || getrandom(&some, sizeof(some), 0) != sizeof(some))
		return (uint32_t)getpid();
	return some | UINT32_C(1) << 31;
}

/* Gives it its name and connects it to that: it gets its own datagrams, and no others. 0 or -1. */
static int join_to_itself(int fd, uint32_t port)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES;
	const struct sockaddr *address = (const struct sockaddr *)(const void *)&name;
	uint64_t some;
	char byte;

	if (getrandom(&some, sizeof(some), 0) != sizeof(some))
		return -1;
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s%08x.%016llx", prefix, port,
		 (unsigned long long)some);
	if (libc_calls()->bind(fd, address, length) < 0 || connect(fd, address, length) < 0)
		return -1;
	/* What others sent before it was connected. Bound: from then on they are refused. */
	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
	return 0;
}

/* As socket(): flags are those of its type. */
static int link_open(int flags, uint32_t port)
{
	int fd = libc_calls()->socket(AF_UNIX, SOCK_DGRAM | flags, 0), error = errno;

	if (fd < 0)
		return -1;
	if (join_to_itself(fd, port) == 0) {
		note(fd);
	} else {
		error = errno;
		close(fd);
		fd = -1;
	}
	errno = error;
	return fd;
}

/* ---- Its addresses --------------------------------------------------------------------------- */

/* As much as there is room for; how long it is. */
static socklen_t tell_address(struct sockaddr *to, socklen_t room, uint32_t port)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_pid = port };

	if (to)
		memcpy(to, &address, room < sizeof(address) ? room : sizeof(address));
	return sizeof(address);
}

static bool take_address(const struct sockaddr *from, socklen_t length, struct sockaddr_nl *to)
{
	if (!from || length < sizeof(*to))
		return false;
	memcpy(to, from, sizeof(*to));
	return to->nl_family == AF_NETLINK;
}

/*
 * A socket has its number from the start. One that is to have another is replaced; duplicates of it
 * that were made before are not.
 */
static int bind_ours(int fd, uint32_t port, const struct sockaddr_nl *wish)
{
	int flags = fcntl(fd, F_GETFL), descriptor_flags = fcntl(fd, F_GETFD), other, r;

	/* Nothing is ever told unasked. */
	if (wish->nl_groups != 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	if (wish->nl_pid == 0 || wish->nl_pid == port)
		return 0;
	other = link_open(SOCK_CLOEXEC | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0), wish->nl_pid);
	if (other < 0)
		return -1;
	r = dup3(other, fd, descriptor_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
	close(other);
	return r < 0 ? -1 : 0;
}

/* What changes how the kernel answers does not change how we do. */
static int set_ours(int name, socklen_t length)
{
	switch (name) {
	case NETLINK_PKTINFO:
	case NETLINK_BROADCAST_ERROR:
	case NETLINK_NO_ENOBUFS:
	case NETLINK_CAP_ACK:
	case NETLINK_EXT_ACK:
	case NETLINK_GET_STRICT_CHK:
		errno = EINVAL;
		return length < sizeof(int) ? -1 : 0;
	case NETLINK_ADD_MEMBERSHIP:
	case NETLINK_DROP_MEMBERSHIP:
		errno = EOPNOTSUPP;
		return -1;
	default:
		errno = ENOPROTOOPT;
		return -1;
	}
}

/* ---- Its requests ---------------------------------------------------------------------------- */

struct asker {
	struct nldev nldev;
	int fd;
};

/* As a netlink socket without room for what is due. */
static int put(struct nldev *n, const void *datagram, size_t bytes)
{
	const struct asker *a = (const void *)((const char *)n - offsetof(struct asker, nldev));

	if (libc_calls()->send(a->fd, datagram, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == EAGAIN ? -ENOBUFS : -errno;
}

/* As send(). */
static ssize_t answer(int fd, uint32_t port, const void *request, size_t size)
{
	struct asker a = { .nldev = { .port = port, .put = put }, .fd = fd };
	int (*look)(struct weftv_link * *links);
	struct weftv_link *links = NULL;
	void *symbol = verbs_symbol("weftv_links");
	int error = errno, n;

	memcpy(&look, &symbol, sizeof(look));
	n = symbol ? look(&links) : -ENODEV;
	if (size > NLDEV_REQUEST)
		n = -EMSGSIZE;
	if (n >= 0) {
		a.nldev.links = links;
		a.nldev.count = (size_t)n;
		n = nldev_answer(&a.nldev, request, size);
	}
	free(links);
	errno = n < 0 ? -n : error;
	return n < 0 ? -1 : (ssize_t)size;
}

/* Whether it is to the kernel: errno says why not. */
static bool is_to_kernel(const struct sockaddr *to, socklen_t length)
{
	struct sockaddr_nl address;

	if (!to || length == 0)
		return true;
	errno = EINVAL;
	if (!take_address(to, length, &address))
		return false;
	errno = ECONNREFUSED;
	return address.nl_pid == 0 && address.nl_groups == 0;
}

static ssize_t send_ours(int fd, uint32_t port, const struct msghdr *m)
{
	char request[NLDEV_REQUEST];
	size_t size = 0;

	if (!is_to_kernel(m->msg_name, m->msg_namelen))
		return -1;
	errno = EMSGSIZE;
	if (m->msg_iovlen > IOV_MAX)
		return -1;
	for (size_t i = 0; i < m->msg_iovlen; i++) {
		const struct iovec *v = &m->msg_iov[i];

		if (v->iov_len > sizeof(request) - size)
			return -1;
		if (v->iov_len > 0)
			memcpy(request + size, v->iov_base, v->iov_len);
		size += v->iov_len;
	}
	return answer(fd, port, request, size);
}

/* ---- Duplicates ------------------------------------------------------------------------------ */

int dup(int fd)
{
	return copied(fd, libc_calls()->dup(fd));
}

int dup2(int fd, int to)
{
	return copied(fd, libc_calls()->dup2(fd, to));
}

int dup3(int fd, int to, int flags)
{
	return copied(fd, libc_calls()->dup3(fd, to, flags));
}

/* Every command has one argument or none, of a register's width at most: so libc takes it, too. */
static int control(int fd, int command, void *argument)
{
	int r = libc_calls()->fcntl(fd, command, argument);

	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, r) : r;
}

int fcntl(int fd, int command, ...)
{
	void *argument;
	va_list args;

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
	void *argument;
	va_list args;

	va_start(args, command);
	argument = va_arg(args, void *);
	va_end(args);
	return control(fd, command, argument);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

int socket(int domain, int type, int protocol)
{
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC), kind = type & ~flags, error = errno;

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA &&
	    (kind == SOCK_RAW || kind == SOCK_DGRAM) && verbs_symbol("weftv_links")) {
		errno = error;
		return link_open(flags, port_choose());
	}
	return libc_calls()->socket(domain, type, protocol);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
	struct sockaddr_nl wish;
	uint32_t port;

	if (!is_ours(fd, &port))
		return libc_calls()->bind(fd, address.__sockaddr__, length);
	if (take_address(address.__sockaddr__, length, &wish))
		return bind_ours(fd, port, &wish);
	errno = EINVAL;
	return -1;
}

int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
	uint32_t port;

	/* Without an address or its length: the kernel's EFAULT. */
	if (!is_ours(fd, &port) || !address.__sockaddr__ || !length)
		return libc_calls()->getsockname(fd, address.__sockaddr__, length);
	*length = tell_address(address.__sockaddr__, *length, port);
	return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	uint32_t port;

	if (is_ours(fd, &port) && level == SOL_NETLINK)
		return set_ours(name, length);
	return libc_calls()->setsockopt(fd, level, name, value, length);
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
	uint32_t port;

	return is_ours(fd, &port) ? answer(fd, port, from, size)
				  : libc_calls()->send(fd, from, size, flags);
}

ssize_t sendto(int fd, const void *from, size_t size, int flags, __CONST_SOCKADDR_ARG address,
	       socklen_t length)
{
	uint32_t port;

	if (!is_ours(fd, &port))
		return libc_calls()->sendto(fd, from, size, flags, address.__sockaddr__, length);
	return is_to_kernel(address.__sockaddr__, length) ? answer(fd, port, from, size) : -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	uint32_t port;

	return is_ours(fd, &port) ? send_ours(fd, port, message)
				  : libc_calls()->sendmsg(fd, message, flags);
}

/* What lies in it is from the kernel, whose number is 0. */
ssize_t recvfrom(int fd, void *restrict to, size_t size, int flags, __SOCKADDR_ARG address,
		 socklen_t *restrict length)
{
	struct sockaddr *from = address.__sockaddr__;
	uint32_t port;
	ssize_t n;

	if (!is_ours(fd, &port) || !from || !length)
		return libc_calls()->recvfrom(fd, to, size, flags, from, length);
	n = libc_calls()->recvfrom(fd, to, size, flags, NULL, NULL);
	if (n >= 0)
		*length = tell_address(from, *length, 0);
	return n;
}

ssize_t __recvfrom_chk(int fd, void *restrict to, size_t size, size_t room, int flags,
		       __SOCKADDR_ARG address, socklen_t *restrict length)
{
	struct sockaddr *from = address.__sockaddr__;
	uint32_t port;

	if (is_ours(fd, &port) && size <= room)
		return recvfrom(fd, to, size, flags, address, length);
	return libc_calls()->recvfrom_chk(fd, to, size, room, flags, from, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	uint32_t port;
	socklen_t room;
	ssize_t n;

	if (!is_ours(fd, &port))
		return libc_calls()->recvmsg(fd, message, flags);
	room = message->msg_namelen;
	n = libc_calls()->recvmsg(fd, message, flags);
	if (n >= 0 && message->msg_name)
		message->msg_namelen = tell_address(message->msg_name, room, 0);
	return n;
}
