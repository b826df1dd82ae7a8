/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/unix_sockets.h"

#include <errno.h>
#include <sched.h>

#include "driver/sys/calls.h"

enum { BUFFER_BYTES = 4 * 1024 * 1024, BACKLOG = 1024, FULL_TRIES = 64 };

static int failed(int fd)
{
	int error = errno;

	call_close(fd);
	return -error;
}

static bool find_user(int fd, uid_t *uid)
{
	struct ucred who;
	socklen_t length = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0)
		return false;
	*uid = who.uid;
	return true;
}

/* Any process can bind a name, and connect to one. */
bool unix_is_trusted(int fd)
{
	uid_t uid;

	return find_user(fd, &uid) && unix_user_is_trusted(uid);
}

bool unix_trusts_us(int fd)
{
	uid_t uid;

	return geteuid() == 0 || (find_user(fd, &uid) && uid == geteuid());
}

static int unix_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int unix_listen(const struct unix_name *name)
{
	int fd = unix_socket();

	if (fd < 0)
		return fd;
	if (unix_name_bind(fd, name) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	return failed(fd);
}

int unix_listen_hidden(const struct unix_names *names)
{
	int fd = unix_socket();

	if (fd < 0)
		return fd;
	if (unix_name_bind_hidden(fd, names) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	return failed(fd);
}

/* The sender's buffer limits the unread packets at the other end. */
int unix_connect(const struct unix_name *name)
{
	const int buffer_bytes = BUFFER_BYTES;
	int fd = unix_socket();

	if (fd < 0)
		return fd;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	if (call_connect(fd, (const void *)&name->un, name->size) < 0) {
		if (errno == EPROTOTYPE) /* not a socket of weft */
			errno = EACCES;
		return failed(fd);
	}
	if (unix_is_trusted(fd))
		return fd;
	call_close(fd);
	return -EACCES;
}

int unix_names_connect(const struct unix_names *names)
{
	int err = -ECONNREFUSED;

	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		struct unix_name name;
		int fd;

		unix_name_init(&name, names, spare);
		fd = unix_connect(&name);
		if (fd >= 0)
			return fd;
		if (fd != -ECONNREFUSED && (fd != -EACCES || err == -ECONNREFUSED))
			err = fd; /* it may exist */
	}
	return err;
}

/*
 * Whether a process of this user or of root listens at the name. If its backlog is full, room comes
 * soon; at a socket of another user it may never come.
 */
static bool is_ours(const struct unix_names *names, uint32_t spare)
{
	struct unix_name name;
	int fd = -EAGAIN;

	unix_name_init(&name, names, spare);
	for (int tries = 0; fd == -EAGAIN && tries < FULL_TRIES; tries++) {
		if (tries > 0)
			sched_yield();
		fd = unix_connect(&name);
	}
	if (fd >= 0)
		call_close(fd);
	return fd >= 0;
}

/* Whether a process of ours has another name: the foreign user of the usual name may have left. */
static bool is_elsewhere(const struct unix_names *names, uint32_t here)
{
	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		if (spare != here && is_ours(names, spare))
			return true;
	}
	return false;
}

/*
 * Binds first and looks for other owners after: of two processes that come at once at most one
 * keeps the resource.
 */
int unix_names_take(const struct unix_names *names, bool is_thorough, bool *are_all_foreign)
{
	*are_all_foreign = false;
	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		struct unix_name name;
		int fd;

		unix_name_init(&name, names, spare);
		fd = unix_listen(&name);
		if (fd >= 0 && is_elsewhere(names, spare)) {
			call_close(fd);
			return -EADDRINUSE;
		}
		if (fd != -EADDRINUSE || !is_thorough || is_ours(names, spare))
			return fd;
	}
	*are_all_foreign = true;
	return -EADDRINUSE;
}
