/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The names that keep ports of RoCE from other processes: abstract names of unix sockets, in the
 * network namespace. Such a socket listens, and accepts nothing: one that connects sees that the
 * name is taken, and no more.
 *
 * The kernel gives a name to any user. So the kernel is asked for the user of a socket that has one
 * (sock_diag). SO_PEERCRED would not do: it needs a connection, of which each stays in the queue of
 * the socket, and any user can fill that. Only sockets of this user, and of root, count. Where a
 * name is another user's, a spare one is taken; where all are, the process has the port without a
 * name.
 *
 * As in the kernel's rdma_cm, where an open file has the port, a child of fork() has it with its
 * parent: until both are gone, or the parent releases it. That is a shutdown() of the socket, which
 * both have: its name may be taken still, but counts no more.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"

enum { NAMES = 4, REPLY_BYTES = 16384, HOLDER_STATES = 1 << TCP_LISTEN | 1 << TCP_CLOSE };

struct name {
	struct sockaddr_un un;
	socklen_t size;
};

/* Those of one port, and the sockets that do not count: the one that asks, and an inherited one. */
struct names {
	struct name all[NAMES];
	ino_t besides[2];
};

static void names_init(struct names *names, enum rdma_port_space space, in_port_t number)
{
	*names = (struct names){ 0 };
	for (int spare = 0; spare < NAMES; spare++) {
		struct name *n = &names->all[spare];
		char *at = n->un.sun_path + 1; /* abstract: a zero, then the name */
		size_t room = sizeof(n->un.sun_path) - 1;
		int printed = snprintf(at, room, "weft.cm.port.%03x.%04x", (unsigned int)space,
				       (unsigned int)ntohs(number));

		if (spare > 0)
			printed += snprintf(at + printed, room - (size_t)printed, ".%d", spare);
		n->un.sun_family = AF_UNIX;
		n->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)printed);
	}
}

static ino_t inode_of(int fd)
{
	struct stat s;

	return fd >= 0 && fstat(fd, &s) == 0 ? s.st_ino : 0;
}

/* ---- Whose a name is ------------------------------------------------------------------------ */

/* What the kernel says of a unix socket. */
struct found {
	const struct unix_diag_msg *socket;
	const char *name;
	size_t name_bytes;
	uint8_t shutdown;
	uid_t uid; /* (uid_t)-1: a kernel before 5.3 does not say */
};

static struct found found_parse(const struct nlmsghdr *h)
{
	struct found f = { .socket = NLMSG_DATA(h), .uid = (uid_t)-1 };
	const char *at = (const char *)f.socket + NLMSG_ALIGN(sizeof(*f.socket));
	const char *end = (const char *)h + h->nlmsg_len;
	struct nlattr a;

	for (; end - at >= NLA_HDRLEN; at += NLA_ALIGN(a.nla_len)) {
		const char *value = at + NLA_HDRLEN;
		size_t bytes;

		memcpy(&a, at, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > end - at)
			break;
		bytes = (size_t)a.nla_len - NLA_HDRLEN;
		if (a.nla_type == UNIX_DIAG_NAME) {
			f.name = value;
			f.name_bytes = bytes;
		} else if (a.nla_type == UNIX_DIAG_SHUTDOWN && bytes >= sizeof(f.shutdown)) {
			memcpy(&f.shutdown, value, sizeof(f.shutdown));
		} else if (a.nla_type == UNIX_DIAG_UID && bytes >= sizeof(f.uid)) {
			memcpy(&f.uid, value, sizeof(f.uid));
		}
	}
	return f;
}

static bool has_name(const struct names *names, const struct found *f)
{
	const size_t front = offsetof(struct sockaddr_un, sun_path);

	for (int i = 0; i < NAMES; i++) {
		const struct name *n = &names->all[i];

		if (f->name_bytes == n->size - front &&
		    memcmp(f->name, n->un.sun_path, f->name_bytes) == 0)
			return true;
	}
	return false;
}

/*
 * Whether it keeps the port, or is about to, for this user or root. Connections that were not
 * accepted have the same name, and the kernel counts them as root's: they are not looked at.
 */
static bool is_holder(const struct names *names, const struct found *f)
{
	if (f->socket->udiag_type != SOCK_STREAM ||
	    !(1 << f->socket->udiag_state & HOLDER_STATES) || f->shutdown != 0 ||
	    !has_name(names, f))
		return false;
	if (f->socket->udiag_ino == names->besides[0] || f->socket->udiag_ino == names->besides[1])
		return false;
	return f->uid == (uid_t)-1 || f->uid == geteuid() || f->uid == 0;
}

static int ask(int s)
{
	struct {
		struct nlmsghdr head;
		struct unix_diag_req ask;
	} m = {
		.head = { .nlmsg_len = sizeof(m),
			  .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
		.ask = { .sdiag_family = AF_UNIX,
			 .udiag_states = HOLDER_STATES,
			 .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID },
	};

	return send(s, &m, sizeof(m), 0) < 0 ? cm_errno() : 0;
}

/* One part of the answer: 0 if there is more to come, 1 or a negative errno if not. */
static int answer_read(int s, const struct names *names, bool *is_held)
{
	_Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
	ssize_t got = recv(s, reply, sizeof(reply), 0);
	unsigned int left = got > 0 ? (unsigned int)got : 0;

	if (got < 0 && errno == EINTR)
		return 0;
	if (got <= 0)
		return got < 0 ? cm_errno() : -EIO;
	for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)reply; NLMSG_OK(h, left);
	     h = NLMSG_NEXT(h, left)) {
		struct found f;

		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    h->nlmsg_len < NLMSG_LENGTH(sizeof(*f.socket)))
			return -EIO;
		f = found_parse(h);
		*is_held |= is_holder(names, &f);
	}
	return 0;
}

/* A kernel that does not answer leaves it at what names say: taken is held. */
static bool is_held(const struct names *names)
{
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), r;
	bool held = false;

	if (s < 0)
		return true;
	r = ask(s);
	while (r == 0)
		r = answer_read(s, names, &held);
	close(s);
	return held || r < 0;
}

/* ---- Taking one ----------------------------------------------------------------------------- */

/* The index of the first name that could be had, NAMES if none, or a negative errno. */
static int take_first(const struct names *names, int s)
{
	for (int i = 0; i < NAMES; i++) {
		const struct name *n = &names->all[i];

		if (bind(s, (const struct sockaddr *)(const void *)&n->un, n->size) == 0)
			return listen(s, 0) == 0 ? i : cm_errno();
		if (errno != EADDRINUSE)
			return cm_errno();
		if (i == 0 && is_held(names))
			return -EADDRINUSE;
	}
	return NAMES;
}

/* Whether a socket listens at one of the names from here on, whosever it is. */
static bool is_any_taken(const struct names *names, int first)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool is_taken = s < 0;

	for (int i = first; i < NAMES && !is_taken; i++) {
		const struct name *n = &names->all[i];
		int r = connect(s, (const struct sockaddr *)(const void *)&n->un, n->size);

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
	struct names names;
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), taken;

	if (s < 0)
		return cm_errno();
	names_init(&names, space, number);
	names.besides[0] = inode_of(s);
	names.besides[1] = inode_of(inherited);
	taken = take_first(&names, s);
	if (taken >= 0 && (taken > 0 || is_any_taken(&names, taken + 1)) && is_held(&names))
		taken = -EADDRINUSE;
	if (taken < 0 || taken == NAMES) {
		close(s);
		s = -1;
	}
	*name = s;
	return taken < 0 ? taken : 0;
}

void port_name_release(int name)
{
	if (name < 0)
		return;
	(void)shutdown(name, SHUT_RDWR);
	close(name);
}

bool port_name_is_released(int name)
{
	struct pollfd p = { .fd = name, .events = POLLRDHUP };

	return name >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLRDHUP);
}
