/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Raw system calls, for code that holds a lock. The C library's functions of these names are
 * cancellation points: a thread cancelled there would exit with the lock held. The library calls
 * also take a good part of the time of a small message. Builds with the thread sanitizer, which
 * intercepts only library functions, use those instead.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum { CALLS_LIBRARY = WEFT_CALLS_LIBRARY };

static inline ssize_t call_recv(int fd, void *bytes, size_t length)
{
	if (CALLS_LIBRARY)
		return recv(fd, bytes, length, 0);
	return syscall(SYS_recvfrom, fd, bytes, length, 0, NULL, NULL);
}

static inline ssize_t call_send(int fd, const void *bytes, size_t length)
{
	if (CALLS_LIBRARY)
		return send(fd, bytes, length, MSG_NOSIGNAL);
	return syscall(SYS_sendto, fd, bytes, length, MSG_NOSIGNAL, NULL, 0);
}

static inline ssize_t call_recvmsg(int fd, struct msghdr *m)
{
	if (CALLS_LIBRARY)
		return recvmsg(fd, m, MSG_CMSG_CLOEXEC);
	return syscall(SYS_recvmsg, fd, m, MSG_CMSG_CLOEXEC);
}

static inline ssize_t call_sendmsg(int fd, const struct msghdr *m)
{
	if (CALLS_LIBRARY)
		return sendmsg(fd, m, MSG_NOSIGNAL);
	return syscall(SYS_sendmsg, fd, m, MSG_NOSIGNAL);
}

/* What the kernel has noted of packets that were sent. */
static inline ssize_t call_recv_error(int fd, struct msghdr *m)
{
	if (CALLS_LIBRARY)
		return recvmsg(fd, m, MSG_ERRQUEUE | MSG_DONTWAIT);
	return syscall(SYS_recvmsg, fd, m, MSG_ERRQUEUE | MSG_DONTWAIT);
}

static inline int call_recvmmsg(int fd, struct mmsghdr *m, unsigned int count)
{
	if (CALLS_LIBRARY)
		return recvmmsg(fd, m, count, MSG_DONTWAIT, NULL);
	return (int)syscall(SYS_recvmmsg, fd, m, count, MSG_DONTWAIT, NULL);
}

static inline int call_sendmmsg(int fd, struct mmsghdr *m, unsigned int count)
{
	if (CALLS_LIBRARY)
		return sendmmsg(fd, m, count, MSG_NOSIGNAL);
	return (int)syscall(SYS_sendmmsg, fd, m, count, MSG_NOSIGNAL);
}

static inline ssize_t call_read(int fd, void *bytes, size_t length)
{
	if (CALLS_LIBRARY)
		return read(fd, bytes, length);
	return syscall(SYS_read, fd, bytes, length);
}

static inline ssize_t call_write(int fd, const void *bytes, size_t length)
{
	if (CALLS_LIBRARY)
		return write(fd, bytes, length);
	return syscall(SYS_write, fd, bytes, length);
}

static inline void call_close(int fd)
{
	if (CALLS_LIBRARY)
		close(fd);
	else
		(void)syscall(SYS_close, fd);
}

static inline int call_accept(int fd)
{
	if (CALLS_LIBRARY)
		return accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return (int)syscall(SYS_accept4, fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline int call_connect(int fd, const struct sockaddr *to, socklen_t length)
{
	if (CALLS_LIBRARY)
		return connect(fd, to, length);
	return (int)syscall(SYS_connect, fd, to, length);
}

static inline int call_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	if (CALLS_LIBRARY)
		return epoll_wait(fd, events, max, timeout_ms);
	return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, _NSIG / 8);
}
