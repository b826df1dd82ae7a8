/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports that ids keep. On RoCE they are the connection manager's own, apart from those of TCP and
 * UDP, as on adapters: a name (port_names.c) keeps one from other processes, a list from other ids
 * of this one. iWARP's ports are TCP's, and a socket keeps them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "compat/rdmacm/rdmacm.h"

/* Ports that are chosen: those that Linux chooses from unless it is told otherwise. */
enum { CHOSEN_FIRST = 32768, CHOSEN_COUNT = 28232, PRIVILEGED = 1024, TRIES = 64 };

/*
 * A port of this process. One that a child has from its parent is of ids that it cannot use; what
 * it binds there itself, if it may, is another. cm_lock() guards all.
 */
struct port {
	struct list link;
	struct list holders; /* ids */
	enum rdma_port_space space;
	in_port_t number; /* as on the wire */
	int name;	  /* a socket */
	bool is_inherited;
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

static int port_create(const struct port_wish *wish, struct port **port)
{
	struct port *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct port){ .space = wish->space, .number = wish->number };
	r = port_name_take(wish, &p->name);
	if (r != 0) {
		free(p);
		return r;
	}
	list_init(&p->holders);
	list_add_tail(&ports, &p->link);
	*port = p;
	return 0;
}

/* It has no holders. */
static void port_destroy(struct port *p)
{
	list_remove(&p->link);
	if (!p->is_inherited)
		port_name_release(p->name);
	else
		close(p->name);
	free(p);
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
	if (list_is_empty(&p->holders))
		port_destroy(p);
}

static bool is_shared(const struct port *p, const struct id *id, const struct sockaddr *a)
{
	for (struct list *at = p->holders.next; at != &p->holders; at = at->next) {
		if (!may_share(id, a, CONTAINER_OF(at, struct id, port_link)))
			return false;
	}
	return true;
}

/* The parent has released what this child had with it. */
static void port_forget(struct port *p)
{
	while (!list_is_empty(&p->holders))
		CONTAINER_OF(list_pop(&p->holders), struct id, port_link)->port = NULL;
	port_destroy(p);
}

/* cm_lock() is held. */
static int name_hold(struct id *id, const struct sockaddr *a, in_port_t number, bool is_chosen)
{
	struct port *own = NULL, *inherited = NULL;
	int r = 0;

	for (struct list *at = ports.next; at != &ports;) {
		struct port *p = CONTAINER_OF(at, struct port, link);

		at = at->next;
		if (p->space != id->rdma.ps || p->number != number)
			continue;
		if (p->is_inherited && port_name_is_released(p->name)) {
			port_forget(p);
			continue;
		}
		if (is_chosen || !is_shared(p, id, a))
			return -EADDRINUSE;
		*(p->is_inherited ? &inherited : &own) = p;
	}
	if (!own)
		r = port_create(&(struct port_wish){ .space = id->rdma.ps,
						     .number = number,
						     .inherited = inherited ? inherited->name : -1,
						     .is_chosen = is_chosen },
				&own);
	if (r != 0)
		return r;
	list_add_tail(&own->holders, &id->port_link);
	id->port = own;
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
	for (struct list *at = ports.next; at != &ports; at = at->next)
		CONTAINER_OF(at, struct port, link)->is_inherited = true;
}

/* ---- Both ----------------------------------------------------------------------------------- */

/* An address that is no interface's is refused before anything else is. */
static int look_local(const struct sockaddr *a)
{
	struct sockaddr_storage at;
	int s, r = 0;

	if (address_is_any(a))
		return 0;
	if (fabric_is_ours())
		return fabric_is_own(a) ? 0 : -EADDRNOTAVAIL;
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

/* The first port that every process may bind, in this network namespace. */
static unsigned int unprivileged_first(void)
{
	int f = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_RDONLY | O_CLOEXEC);
	char text[16] = "";
	unsigned int first = PRIVILEGED;

	if (f < 0)
		return first;
	if (read(f, text, sizeof(text) - 1) > 0)
		first = (unsigned int)strtoul(text, NULL, 10);
	close(f);
	return first;
}

/* As TCP asks it of a process that binds a socket. */
static bool may_bind(in_port_t number)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (number == 0 || ntohs(number) >= unprivileged_first())
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
