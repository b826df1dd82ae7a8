/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that ids keep. On RoCE they are the connection manager's own, apart from those of TCP and
 * UDP, as on adapters: a name among the unix sockets of the network namespace keeps one from other
 * processes, a list from other ids of this one. iWARP's ports are TCP's, and a socket keeps them.
 */
#include <errno.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"

/* Ports that are chosen: those that Linux chooses from unless it is told otherwise. */
enum { CHOSEN_FIRST = 32768, CHOSEN_COUNT = 28232, PRIVILEGED = 1024, TRIES = 64 };

/* A port of this process. cm_lock() guards all. */
struct port {
	struct list link;
	struct list holders; /* ids */
	enum rdma_port_space space;
	in_port_t number; /* as on the wire */
	int name;	  /* a socket; -1 in a child: it is the parent's */
};

static struct list ports = { &ports, &ports };

/* ---- iWARP ---------------------------------------------------------------------------------- */

/*
 * The port is chosen when an address is bound, and listened at or dialled from later. A socket that
 * does neither keeps it meanwhile: weft's own may share it, as both say SO_REUSEADDR.
 */
static int tcp_hold(struct id *id, struct sockaddr_storage *address)
{
	struct sockaddr *a = (struct sockaddr *)address;
	socklen_t size = address_size(a);
	const int on = 1, v6only = id->is_family_only || !address_is_any(a);
	int s = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (s < 0)
		return cm_errno();
	(void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->sa_family == AF_INET6)
		(void)setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
	if (bind(s, a, size) == 0 && getsockname(s, a, &size) == 0) {
		id->port_socket = s;
		return 0;
	}
	r = cm_errno();
	close(s);
	return r;
}

void port_release_tcp(struct id *id)
{
	if (id->port_socket >= 0)
		close(id->port_socket);
	id->port_socket = -1;
}

/* ---- RoCE ----------------------------------------------------------------------------------- */

/* A socket that has the name of the port, which only one can have. */
static int name_open(enum rdma_port_space space, in_port_t number)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	/* Abstract: a zero, then the name. */
	int length = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "weft.cm.port.%03x.%04x",
			      (unsigned int)space, (unsigned int)ntohs(number));
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (s < 0)
		return cm_errno();
	if (bind(s, (struct sockaddr *)(void *)&un, size) == 0)
		return s;
	r = cm_errno();
	close(s);
	return r;
}

static struct port *port_find(enum rdma_port_space space, in_port_t number)
{
	for (struct list *at = ports.next; at != &ports; at = at->next) {
		struct port *p = CONTAINER_OF(at, struct port, link);

		if (p->space == space && p->number == number)
			return p;
	}
	return NULL;
}

static int port_create(enum rdma_port_space space, in_port_t number, struct port **port)
{
	struct port *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct port){ .space = space, .number = number, .name = name_open(space, number) };
	if (p->name < 0) {
		int r = p->name;

		free(p);
		return r;
	}
	list_init(&p->holders);
	list_add_tail(&ports, &p->link);
	*port = p;
	return 0;
}

static bool is_family_only(const struct id *id, const struct sockaddr *a)
{
	return id->is_family_only || a->sa_family == AF_INET;
}

/* As Linux decides it (cma_check_port): whether two addresses may have one port. */
static bool may_share(const struct id *id, const struct sockaddr *a, const struct id *holder)
{
	const struct sockaddr *b = (const struct sockaddr *)&holder->port_address;

	if (id->may_reuse && holder->may_reuse)
		return true;
	if (a->sa_family != b->sa_family && is_family_only(id, a) && is_family_only(holder, b))
		return true;
	if (address_is_any(a) || address_is_any(b))
		return false;
	return !address_is_same(a, b);
}

static void name_release(struct id *id)
{
	struct port *p = id->port;

	if (!p)
		return;
	list_remove(&id->port_link);
	id->port = NULL;
	if (!list_is_empty(&p->holders))
		return;
	list_remove(&p->link);
	if (p->name >= 0)
		close(p->name);
	free(p);
}

/* cm_lock() is held. */
static int name_hold(struct id *id, const struct sockaddr *a, in_port_t number, bool is_chosen)
{
	struct port *p = port_find(id->rdma.ps, number);

	if (!p) {
		int r = port_create(id->rdma.ps, number, &p);

		if (r != 0)
			return r;
	} else if (is_chosen) {
		return -EADDRINUSE;
	}
	for (struct list *at = p->holders.next; at != &p->holders; at = at->next) {
		if (!may_share(id, a, CONTAINER_OF(at, struct id, port_link)))
			return -EADDRINUSE;
	}
	list_add_tail(&p->holders, &id->port_link);
	id->port = p;
	memcpy(&id->port_address, a, address_size(a));
	return 0;
}

/* cm_lock() is held. A port that no id has. */
static int name_choose(struct id *id, struct sockaddr *a)
{
	uint32_t begin;
	int r = -EADDRINUSE;

	if (getrandom(&begin, sizeof(begin), 0) != sizeof(begin))
		return cm_errno();
	for (uint32_t i = 0; i < CHOSEN_COUNT && r == -EADDRINUSE; i++) {
		in_port_t number = htons(
			(uint16_t)(CHOSEN_FIRST + (begin % CHOSEN_COUNT + i) % CHOSEN_COUNT));

		r = name_hold(id, a, number, true);
		if (r == 0)
			address_set_port(a, number);
	}
	return r;
}

void ports_forked(void)
{
	for (struct list *at = ports.next; at != &ports; at = at->next) {
		struct port *p = CONTAINER_OF(at, struct port, link);

		close(p->name);
		p->name = -1;
	}
}

/* ---- Both ----------------------------------------------------------------------------------- */

/* An address that is no interface's is refused before anything else is. */
static int look_local(const struct sockaddr *a)
{
	struct sockaddr_storage at;
	int s, r = 0;

	if (address_is_any(a))
		return 0;
	memset(&at, 0, sizeof(at));
	memcpy(&at, a, address_size(a));
	address_set_port((struct sockaddr *)&at, 0);
	s = socket(a->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return cm_errno();
	if (bind(s, (struct sockaddr *)&at, address_size(a)) < 0)
		r = cm_errno();
	close(s);
	return r;
}

/* As Linux asks it of who binds an id. TCP's sockets are asked by themselves. */
static bool may_bind(in_port_t number)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (number == 0 || ntohs(number) >= PRIVILEGED)
		return true;
	return syscall(SYS_capget, &header, data) == 0 &&
	       (data[0].effective & 1U << CAP_NET_BIND_SERVICE);
}

static int hold(struct id *id, struct sockaddr_storage *address, struct kinds kinds)
{
	struct sockaddr *a = (struct sockaddr *)address;
	in_port_t asked = address_port(a);
	int r = 0;

	if (kinds.has_iwarp)
		r = tcp_hold(id, address);
	if (r != 0 || !kinds.has_roce)
		return r;
	cm_lock();
	if (address_port(a) != 0)
		r = name_hold(id, a, address_port(a), asked == 0);
	else
		r = name_choose(id, a);
	cm_unlock();
	if (r != 0)
		port_release_tcp(id);
	return r;
}

int port_hold(struct id *id, struct sockaddr_storage *address, struct kinds kinds)
{
	in_port_t asked = address_port((struct sockaddr *)address);
	int r = look_local((struct sockaddr *)address);

	if (r == 0 && kinds.has_roce && !may_bind(asked))
		r = -EACCES;
	if (r != 0)
		return r;
	r = hold(id, address, kinds);
	/* The system chose one for TCP that another process has on RoCE. */
	for (int i = 0; asked == 0 && r == -EADDRINUSE && i < TRIES; i++) {
		address_set_port((struct sockaddr *)address, 0);
		r = hold(id, address, kinds);
	}
	return r;
}

void port_release(struct id *id)
{
	port_release_tcp(id);
	cm_lock();
	name_release(id);
	cm_unlock();
}
