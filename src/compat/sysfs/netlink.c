/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of NETLINK_RDMA, by which programs ask the kernel for RDMA devices (iproute2's rdma, by
 * libmnl), made to tell of weft's; the kernel's own are left out, as they are by libibverbs.
 *
 * Such a socket is a datagram socket of the Unix family that is connected to itself. Whoever sends
 * a request to it has it answered here, and the answers lie in the socket, for poll() and every way
 * to receive. So the kernel sees to duplicates, forks and the end, and nothing is kept here: what a
 * descriptor is tells its socket's name, which has netlink's number of the socket in it.
 *
 *     \0weft.rdma.PORT.RANDOM
 *
 * Programs that open no such socket pay for one look at is_plain. Requests by write() or sendmmsg()
 * are not noticed.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/netlink.h>
#include <pthread.h>
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

#include "compat/sysfs/nldev.h"
#include "compat/sysfs/redirect.h"

static const char prefix[] = "weft.rdma.";

enum {
	NAME_PREFIX = sizeof(prefix) - 1,
	NAME_PORT = 8,
	NAME_BYTES = NAME_PREFIX + NAME_PORT + 1 + 16 /* of the random part */
};

/* Libc's calls are known, and the process never had such a socket. Children inherit both. */
static atomic_bool is_plain;

/* ---- In place of libc's calls, libc's own ---------------------------------------------------- */

static struct {
	pthread_once_t once;
	int (*socket)(int domain, int type, int protocol);
	int (*bind)(int fd, const struct sockaddr *address, socklen_t length);
	int (*getsockname)(int fd, struct sockaddr *address, socklen_t *length);
	int (*setsockopt)(int fd, int level, int name, const void *value, socklen_t length);
	ssize_t (*send)(int fd, const void *from, size_t size, int flags);
	ssize_t (*sendto)(int fd, const void *from, size_t size, int flags,
			  const struct sockaddr *address, socklen_t length);
	ssize_t (*sendmsg)(int fd, const struct msghdr *message, int flags);
	ssize_t (*recvfrom)(int fd, void *to, size_t size, int flags, struct sockaddr *address,
			    socklen_t *length);
	ssize_t (*recvfrom_chk)(int fd, void *to, size_t size, size_t room, int flags,
				struct sockaddr *address, socklen_t *length);
	ssize_t (*recvmsg)(int fd, struct msghdr *message, int flags);
} libc = { .once = PTHREAD_ONCE_INIT };

static void find_one(void *to, const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	memcpy(to, &symbol, sizeof(symbol));
}

static void find_all(void)
{
	find_one(&libc.socket, "socket");
	find_one(&libc.bind, "bind");
	find_one(&libc.getsockname, "getsockname");
	find_one(&libc.setsockopt, "setsockopt");
	find_one(&libc.send, "send");
	find_one(&libc.sendto, "sendto");
	find_one(&libc.sendmsg, "sendmsg");
	find_one(&libc.recvfrom, "recvfrom");
	find_one(&libc.recvfrom_chk, "__recvfrom_chk");
	find_one(&libc.recvmsg, "recvmsg");
	atomic_store_explicit(&is_plain, true, memory_order_release);
}

/* ---- What a descriptor is -------------------------------------------------------------------- */

/* Apart from is_ours(): most programs need nothing of this, and it takes a system call. */
__attribute__((noinline)) static bool has_our_name(int fd, uint32_t *port)
{
	struct sockaddr_un name = { .sun_family = AF_UNSPEC };
	socklen_t length = sizeof(name);
	char digits[NAME_PORT + 1] = "";
	int error = errno;

	pthread_once(&libc.once, find_all);
	if (atomic_load_explicit(&is_plain, memory_order_relaxed))
		return false;
	if (libc.getsockname(fd, (struct sockaddr *)(void *)&name, &length) < 0) {
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

/* Whether it is one of ours; then *port is its number. Calls of libc are known afterwards. */
static inline bool is_ours(int fd, uint32_t *port)
{
	return !atomic_load_explicit(&is_plain, memory_order_acquire) && has_our_name(fd, port);
}

/* As the kernel has it: the process's own, or one that no process has. */
static uint32_t port_choose(void)
{
	uint32_t some;

	if (atomic_exchange(&is_plain, false) || getrandom(&some, sizeof(some), 0) != sizeof(some))
		return (uint32_t)getpid();
	return some | UINT32_C(1) << 31;
}

/* Gives it its name, by which it gets what it sends, and nobody else's datagrams. 0 or -1. */
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
	if (libc.bind(fd, address, length) < 0 || connect(fd, address, length) < 0)
		return -1;
	/* What others sent before it was connected. Bound: from then on they are refused. */
	while (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
	return 0;
}

/* As socket(): flags are those of its type. */
static int link_open(int flags, uint32_t port)
{
	int fd = libc.socket(AF_UNIX, SOCK_DGRAM | flags, 0), error = errno;

	if (fd < 0)
		return -1;
	if (join_to_itself(fd, port) < 0) {
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

	if (libc.send(a->fd, datagram, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
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

/* ---- Calls ----------------------------------------------------------------------------------- */

int socket(int domain, int type, int protocol)
{
	int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC), kind = type & ~flags, error = errno;

	pthread_once(&libc.once, find_all);
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA &&
	    (kind == SOCK_RAW || kind == SOCK_DGRAM) && verbs_symbol("weftv_links")) {
		errno = error;
		return link_open(flags, port_choose());
	}
	return libc.socket(domain, type, protocol);
}

int bind(int fd, __CONST_SOCKADDR_ARG address, socklen_t length)
{
	struct sockaddr_nl wish;
	uint32_t port;

	if (!is_ours(fd, &port))
		return libc.bind(fd, address.__sockaddr__, length);
	if (take_address(address.__sockaddr__, length, &wish))
		return bind_ours(fd, port, &wish);
	errno = EINVAL;
	return -1;
}

int getsockname(int fd, __SOCKADDR_ARG address, socklen_t *restrict length)
{
	uint32_t port;

	if (!is_ours(fd, &port))
		return libc.getsockname(fd, address.__sockaddr__, length);
	*length = tell_address(address.__sockaddr__, *length, port);
	return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
	uint32_t port;

	if (is_ours(fd, &port) && level == SOL_NETLINK)
		return set_ours(name, length);
	return libc.setsockopt(fd, level, name, value, length);
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
	uint32_t port;

	return is_ours(fd, &port) ? answer(fd, port, from, size) : libc.send(fd, from, size, flags);
}

ssize_t sendto(int fd, const void *from, size_t size, int flags, __CONST_SOCKADDR_ARG address,
	       socklen_t length)
{
	uint32_t port;

	if (!is_ours(fd, &port))
		return libc.sendto(fd, from, size, flags, address.__sockaddr__, length);
	return is_to_kernel(address.__sockaddr__, length) ? answer(fd, port, from, size) : -1;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	uint32_t port;

	return is_ours(fd, &port) ? send_ours(fd, port, message) : libc.sendmsg(fd, message, flags);
}

/* What lies in it is from the kernel, whose number is 0. */
ssize_t recvfrom(int fd, void *restrict to, size_t size, int flags, __SOCKADDR_ARG address,
		 socklen_t *restrict length)
{
	struct sockaddr *from = address.__sockaddr__;
	uint32_t port;
	ssize_t n;

	if (!is_ours(fd, &port) || !from)
		return libc.recvfrom(fd, to, size, flags, from, length);
	n = libc.recvfrom(fd, to, size, flags, NULL, NULL);
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
	return libc.recvfrom_chk(fd, to, size, room, flags, from, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	uint32_t port;
	socklen_t room;
	ssize_t n;

	if (!is_ours(fd, &port))
		return libc.recvmsg(fd, message, flags);
	room = message->msg_namelen;
	n = libc.recvmsg(fd, message, flags);
	if (n >= 0 && message->msg_name)
		message->msg_namelen = tell_address(message->msg_name, room, 0);
	return n;
}
