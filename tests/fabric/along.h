/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a hostile program sends by a unix socket, and too few of them. */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "driver/sys/unix_names.h"
#include "test.h"

/* Descriptors of this process, in which the other end of a test is, too. */
static inline uint32_t along_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	uint32_t count = 0;

	REQUIRE(all);
	while (readdir(all))
		count++;
	closedir(all);
	return count;
}

/* A message, which may be empty, with so many descriptors: one or two. */
static inline void along_send(int fd, const void *bytes, size_t length, uint32_t count)
{
	static const int along[2] = { STDIN_FILENO, STDIN_FILENO };
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(along))] = { 0 };
	struct iovec piece = { (void *)(uintptr_t)bytes, length };
	struct msghdr m = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control };
	struct cmsghdr *c;

	m.msg_controllen = CMSG_SPACE(count * sizeof(int));
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), along, count * sizeof(int));
	REQUIRE(sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)length);
}

/* From now on this process may have no more than it has. Returns what it might have. */
static inline struct rlimit along_limit(void)
{
	struct rlimit was, few;
	int next = dup(STDIN_FILENO);

	REQUIRE(next >= 0 && getrlimit(RLIMIT_NOFILE, &was) == 0);
	close(next);
	few = was;
	few.rlim_cur = (rlim_t)next;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
	return was;
}

/* Connects without a look at whose the name is, which takes more descriptors. */
static inline void along_connect(int fd, const struct unix_names *names)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t length = strlen(names->usual);

	REQUIRE(length < sizeof(at.sun_path));
	memcpy(at.sun_path + 1, names->usual, length);
	length += offsetof(struct sockaddr_un, sun_path) + 1;
	REQUIRE(connect(fd, (struct sockaddr *)&at, (socklen_t)length) == 0);
}
