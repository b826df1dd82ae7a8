/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "driver/sys/calls.h"
#include "driver/sys/unix_names.h"

enum { LINE_BYTES = 64, OVERFLOW_UID = 65534 };
enum { REPLY_BYTES = 16384, ASKS_MAX = 3, HOLDER_STATES = 1 << TCP_LISTEN | 1 << TCP_CLOSE };

/* ---- Names ---------------------------------------------------------------------------------- */

/* Abstract: a zero, then the name. */
static void name_end(struct unix_name *name, int printed)
{
	name->un.sun_family = AF_UNIX;
	name->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)printed);
}

void unix_name_init(struct unix_name *name, const struct unix_names *names, uint32_t spare)
{
	char *at = name->un.sun_path + 1;
	size_t room = sizeof(name->un.sun_path) - 1;

	*name = (struct unix_name){ 0 };
	if (spare == 0)
		name_end(name, snprintf(at, room, "%s", names->usual));
	else
		name_end(name, snprintf(at, room, "%s.%u", names->usual, spare));
}

ino_t unix_inode_of(int fd)
{
	struct stat s;

	return fd >= 0 && fstat(fd, &s) == 0 ? s.st_ino : 0;
}

int unix_name_bind(int fd, const struct unix_name *name)
{
	return bind(fd, (const struct sockaddr *)(const void *)&name->un, name->size) == 0 ? 0
											   : -errno;
}

int unix_name_bind_hidden(int fd, const struct unix_names *names)
{
	struct unix_name name = { 0 };
	uint64_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -errno;
	name_end(&name, snprintf(name.un.sun_path + 1, sizeof(name.un.sun_path) - 1, "%s.%016llx",
				 names->usual, (unsigned long long)number));
	return unix_name_bind(fd, &name);
}

/* ---- Users ---------------------------------------------------------------------------------- */

/* By system calls: a lock may be held (calls.h). False: it cannot be read. */
static bool line_read(const char *file, char *line, size_t room)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	got = syscall(SYS_read, fd, line, room - 1);
	call_close(fd);
	line[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* Cached: every connection needs it. */
static uid_t overflow_uid(void)
{
	static _Atomic uint64_t known = UINT64_MAX;
	uint64_t uid = atomic_load_explicit(&known, memory_order_relaxed);
	char line[LINE_BYTES];

	if (uid != UINT64_MAX)
		return (uid_t)uid;
	uid = OVERFLOW_UID;
	if (line_read("/proc/sys/kernel/overflowuid", line, sizeof(line)))
		uid = strtoul(line, NULL, 10);
	atomic_store_explicit(&known, uid, memory_order_relaxed);
	return (uid_t)uid;
}

/* Not cached: a process may enter another user namespace. */
static bool is_every_user_mapped(void)
{
	char line[LINE_BYTES], *at;

	if (!line_read("/proc/self/uid_map", line, sizeof(line)) || strtoul(line, &at, 10) != 0)
		return false;
	(void)strtoul(at, &at, 10);
	return strtoul(at, NULL, 10) == UINT32_MAX; /* all but (uid_t)-1, which is invalid */
}

bool unix_user_is_trusted(uid_t uid)
{
	if (uid != geteuid() && uid != 0)
		return false;
	return uid != overflow_uid() || is_every_user_mapped();
}

/* ---- The owner of a name -------------------------------------------------------------------- */

/* What the kernel reports about a unix socket. */
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

/* The usual name, or a spare or hidden one: the usual name, a dot and any text. */
static bool has_name(const struct unix_names *names, const struct found *f)
{
	size_t usual = strlen(names->usual);

	return f->name_bytes > usual &&
	       f->name_bytes <= sizeof(((struct sockaddr_un *)0)->sun_path) && f->name[0] == '\0' &&
	       memcmp(f->name + 1, names->usual, usual) == 0 &&
	       (f->name_bytes == usual + 1 || f->name[usual + 1] == '.');
}

/*
 * Whether the socket has a name, or is about to listen there, for this user or root. Connections
 * that were not accepted have the same name and count as root's: ignore them.
 */
static bool is_holder(const struct unix_names *names, const struct found *f)
{
	if (f->socket->udiag_type != names->type ||
	    !(1 << f->socket->udiag_state & HOLDER_STATES) || f->shutdown != 0 ||
	    !has_name(names, f))
		return false;
	if (f->socket->udiag_ino == names->excluded_inodes[0] ||
	    f->socket->udiag_ino == names->excluded_inodes[1])
		return false;
	return f->uid == (uid_t)-1 || unix_user_is_trusted(f->uid);
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

	return call_send(s, &m, sizeof(m)) < 0 ? -errno : 0;
}

static void found_note(const struct found *f, struct unix_name *name)
{
	*name = (struct unix_name){ 0 };
	memcpy(name->un.sun_path, f->name, f->name_bytes);
	name_end(name, (int)f->name_bytes - 1);
}

struct answer {
	uint32_t parts; /* with sockets in them */
	bool is_interrupted;
};

/* Reads one part of the answer: 0: more to come; else 1 or a negative errno. */
static int answer_read(struct answer *a, int s, const struct unix_names *names,
		       struct unix_name *found)
{
	_Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
	ssize_t got = call_recv(s, reply, sizeof(reply));
	const struct nlmsghdr *h;

	if (got < 0 && errno == EINTR)
		return 0;
	if (got <= 0)
		return got < 0 ? -errno : -EIO;
	for (ssize_t at = 0; got - at >= NLMSG_HDRLEN; at += NLMSG_ALIGN(h->nlmsg_len)) {
		struct found f;

		h = (const void *)(reply + at);
		if (h->nlmsg_len < NLMSG_HDRLEN || h->nlmsg_len > (size_t)(got - at))
			return -EIO;
		a->is_interrupted |= (h->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
		if (h->nlmsg_type == NLMSG_DONE)
			return 1;
		if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
		    h->nlmsg_len < NLMSG_LENGTH(sizeof(*f.socket)))
			return -EIO;
		a->parts += at == 0;
		f = found_parse(h);
		if (is_holder(names, &f))
			found_note(&f, found);
	}
	return 0;
}

/*
 * Sockets come and go between the parts of an answer, and the kernel counts them to know where it
 * was: it may pass one over. So "none" in several parts is believed only if it is said twice.
 */
int unix_names_find_by(int s, const struct unix_names *names, struct unix_name *found)
{
	bool is_second = false;

	found->size = 0;
	for (int i = 0; i < ASKS_MAX; i++) {
		struct answer a = { 0 };
		int r = ask(s);

		/* Bound: an answer has an end. */
		while (r == 0 && found->size == 0)
			r = answer_read(&a, s, names, found);
		if (found->size > 0)
			return 1;
		if (r < 0)
			return r;
		if (a.is_interrupted)
			continue;
		if (a.parts <= 1 || is_second)
			return 0;
		is_second = true;
	}
	return -EAGAIN;
}

int unix_names_find(const struct unix_names *names, struct unix_name *found)
{
	int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), r;

	if (s < 0)
		return -errno;
	r = unix_names_find_by(s, names, found);
	call_close(s);
	return r;
}
