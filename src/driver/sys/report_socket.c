/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/report_socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 16 };

int report_listen(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = strnlen(name, sizeof(at.sun_path) - 1);
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;

	if (fd < 0)
		return -errno;
	memcpy(at.sun_path + 1, name, n);
	if (bind(fd, (const struct sockaddr *)&at, length) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

static bool is_same_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       peer.uid == geteuid();
}

int report_client_accept(int listener, struct report_client *c)
{
	*c = (struct report_client){ .fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC) };
	if (c->fd < 0)
		return errno == EINTR || errno == ECONNABORTED ? -EAGAIN : -errno;
	c->is_same_user = is_same_user(c->fd);
	return 0;
}

bool report_client_send(struct report_client *c)
{
	while (c->sent < c->length) {
		ssize_t n = send(c->fd, c->text + c->sent, c->length - c->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		c->sent += (size_t)n;
	}
	return false;
}

void report_client_close(struct report_client *c)
{
	close(c->fd);
	free(c->text);
	*c = (struct report_client){ .fd = -1 };
}
