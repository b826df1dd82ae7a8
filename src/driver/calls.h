/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls as they are, for code that holds a lock: the C library's functions of these names
 * are cancellation points, where a thread that another cancels would go and leave the lock behind.
 * They also cost a message of few bytes a good part of its time.
 */
#pragma once

#include <signal.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline ssize_t call_recv(int fd, void *bytes, size_t length)
{
	return syscall(SYS_recvfrom, fd, bytes, length, 0, NULL, NULL);
}

static inline ssize_t call_send(int fd, const void *bytes, size_t length)
{
	return syscall(SYS_sendto, fd, bytes, length, MSG_NOSIGNAL, NULL, 0);
}

static inline ssize_t call_recvmsg(int fd, struct msghdr *m)
{
	return syscall(SYS_recvmsg, fd, m, 0);
}

static inline ssize_t call_sendmsg(int fd, const struct msghdr *m)
{
	return syscall(SYS_sendmsg, fd, m, MSG_NOSIGNAL);
}

static inline ssize_t call_read(int fd, void *bytes, size_t length)
{
	return syscall(SYS_read, fd, bytes, length);
}

static inline ssize_t call_write(int fd, const void *bytes, size_t length)
{
	return syscall(SYS_write, fd, bytes, length);
}

static inline void call_close(int fd)
{
	(void)syscall(SYS_close, fd);
}

static inline int call_accept(int fd)
{
	return (int)syscall(SYS_accept4, fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline int call_connect(int fd, const struct sockaddr *to, socklen_t length)
{
	return (int)syscall(SYS_connect, fd, to, length);
}

static inline int call_epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
	return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, _NSIG / 8);
}
