/* SPDX-License-Identifier: BSD-2-Clause */
/* Listening at the path of a unix socket. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "driver/lan/lan_inside.h"
#include "driver/sys/calls.h"

static int socket_make(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* Whether the path is that of a socket at which no process listens any more. */
static bool is_left_over(const struct sockaddr_un *un)
{
	struct stat is;
	int fd, error;

	if (lstat(un->sun_path, &is) < 0 || !S_ISSOCK(is.st_mode))
		return false;
	fd = socket_make();
	if (fd < 0)
		return false;
	error = call_connect(fd, (const void *)un, sizeof(*un)) < 0 ? errno : 0;
	call_close(fd);
	return error == ECONNREFUSED;
}

static int bind_to(int fd, const struct sockaddr_un *un)
{
	if (bind(fd, (const void *)un, sizeof(*un)) == 0)
		return 0;
	if (errno != EADDRINUSE)
		return -1;
	if (is_left_over(un) && unlink(un->sun_path) == 0)
		return bind(fd, (const void *)un, sizeof(*un));
	errno = EADDRINUSE;
	return -1;
}

/* The node has the mode that the socket had: its user alone may connect. */
int lan_path_listen(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket_make(), error;

	if (fd < 0)
		return -errno;
	memcpy(un.sun_path, path, strlen(path) + 1);
	(void)fchmod(fd, S_IRUSR | S_IWUSR);
	if (bind_to(fd, &un) == 0 && listen(fd, 1) == 0)
		return fd;
	error = errno;
	call_close(fd);
	return -error;
}
