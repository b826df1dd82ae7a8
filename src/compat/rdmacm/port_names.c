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
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"
#include "driver/sys/unix_names.h"

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

/* Whether a socket listens at one of the names but the first, of any user. */
static bool is_spare_taken(const struct unix_names *names)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool is_taken = s < 0;

	for (int i = 1; i < UNIX_NAMES && !is_taken; i++) {
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
 * Whether another process has the port by another name than the one that was taken. It may have a
 * hidden one, also if the user who had taken the others is gone: the kernel is asked in any case.
 * Where it does not answer there are no hidden names, as no process would find them; where it is
 * not sure the port is not had.
 *
 * It is not asked for a port that was chosen, among 28,232, and of which no name is taken: asking
 * may take longer than all else that a client does to connect.
 */
static bool is_held_by_another(const struct unix_names *names, int taken, bool is_chosen)
{
	bool is_suspect = taken > 0 || is_spare_taken(names);
	struct unix_name found;
	int r;

	if (is_chosen && !is_suspect)
		return false;
	r = unix_names_find(names, &found);
	return r > 0 || r == -EAGAIN || (r < 0 && is_suspect);
}

/*
 * Of two that come at once one has the first name. Where that is another user's both look again
 * after they have taken theirs: no two keep a port that they asked for.
 */
int port_name_take(const struct port_wish *wish, int *name)
{
	struct unix_names names = { .type = SOCK_STREAM };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), taken;

	if (s < 0)
		return cm_errno();
	if (fabric_is_ours())
		(void)snprintf(names.usual, sizeof(names.usual), "weft.cm.%016" PRIx64 ".%03x.%04x",
			       fabric_realm(), (unsigned int)wish->space,
			       (unsigned int)ntohs(wish->number));
	else
		(void)snprintf(names.usual, sizeof(names.usual), "weft.cm.port.%03x.%04x",
			       (unsigned int)wish->space, (unsigned int)ntohs(wish->number));
	names.excluded_inodes[0] = unix_inode_of(s);
	names.excluded_inodes[1] = unix_inode_of(wish->inherited);
	taken = take_first(&names, s);
	if (taken >= 0 && is_held_by_another(&names, taken, wish->is_chosen))
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
