/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that keep ports of RoCE from other processes (unix_names.h), in the network namespace.
 * Such a socket listens, and accepts nothing: one that connects sees that the name is taken, and no
 * more. So the kernel is asked for the user of a socket that has one. SO_PEERCRED would not do: it
 * needs a connection, of which each stays in the queue of the socket, and any user can fill that.
 *
 * As in the kernel's rdma_cm, where an open file has the port, a child of fork() has it with its
 * parent: until both are gone, or the parent releases it. That is a shutdown() of the socket, which
 * both have: its name may be taken still, but counts no more.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"
#include "driver/unix_names.h"

/* A kernel that does not answer leaves it at what names say: taken is held. */
static bool is_held(const struct unix_names *names)
{
	struct unix_name found;

	return unix_names_find(names, &found) != 0;
}

/* The index of the first name that could be had, UNIX_NAMES if hidden, or a negative errno. */
static int take_first(const struct unix_names *names, int s)
{
	int taken, r = -EADDRINUSE;

	for (taken = 0; taken < UNIX_NAMES; taken++) {
		struct unix_name name;

		unix_name_init(&name, names, (uint32_t)taken);
		r = unix_name_bind(s, &name);
		if (r != -EADDRINUSE)
			break;
		if (taken == 0 && is_held(names))
			return r;
	}
	if (taken == UNIX_NAMES)
		r = unix_name_bind_hidden(s, names);
	if (r != 0)
		return r;
	return listen(s, 0) == 0 ? taken : cm_errno();
}

/* Whether a socket listens at one of the names from here on, whosever it is. */
static bool is_any_taken(const struct unix_names *names, int first)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool is_taken = s < 0;

	for (int i = first; i < UNIX_NAMES && !is_taken; i++) {
		struct unix_name name;
		int r;

		unix_name_init(&name, names, (uint32_t)i);
		r = connect(s, (const struct sockaddr *)(const void *)&name.un, name.size);
		is_taken = r == 0 || errno != ECONNREFUSED;
	}
	if (s >= 0)
		close(s);
	return is_taken;
}

/*
 * Of two that come at once one has the first name. Where that is another user's both look again
 * after they have taken theirs: no two keep the port.
 */
int port_name_take(enum rdma_port_space space, in_port_t number, int inherited, int *name)
{
	struct unix_names names = { .type = SOCK_STREAM };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), taken;

	if (s < 0)
		return cm_errno();
	(void)snprintf(names.usual, sizeof(names.usual), "weft.cm.port.%03x.%04x",
		       (unsigned int)space, (unsigned int)ntohs(number));
	names.besides[0] = unix_inode_of(s);
	names.besides[1] = unix_inode_of(inherited);
	taken = take_first(&names, s);
	if (taken >= 0 && (taken > 0 || is_any_taken(&names, taken + 1)) && is_held(&names))
		taken = -EADDRINUSE;
	if (taken < 0) {
		close(s);
		return taken;
	}
	*name = s;
	return 0;
}

void port_name_release(int name)
{
	(void)shutdown(name, SHUT_RDWR);
	close(name);
}

bool port_name_is_released(int name)
{
	struct pollfd p = { .fd = name, .events = POLLRDHUP };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLRDHUP);
}
