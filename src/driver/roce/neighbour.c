/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes of this host that are peers of cm_ids. A killed process sends no DREQ, and with
 * datagrams the kernel does not tell the peer either, as it does for TCP. But the kernel closes its
 * unix socket: every process connected to that notices at once.
 *
 * A neighbour stands for one connection, and so for one process: a later process with the same slot
 * is another neighbour. A cm_id whose peer is on another host, or unknown, has none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "driver/roce/cm_id.h"
#include "driver/roce/roce_line.h"
#include "driver/sys/calls.h"

/* A process that runs but closes our connection so often is not watched any more. */
enum { ENDS_MAX = 8 };

/* Its last messages may lie in sockets of other processes, which hand them on: wait for these. */
static const uint64_t last_words_ns = 20 * 1000 * 1000;

struct neighbour {
	struct watch watch;
	struct roce *roce;
	struct list link;   /* of roce->neighbours */
	struct list cm_ids; /* struct weft_cm_id */
	uint8_t adapter_slot;
	pid_t pid;
	uint32_t ends;	  /* times that a connection to it ended */
	uint64_t look_ns; /* when to check whether it has ended; UINT64_MAX: connected */
};

static void unwatch(struct neighbour *n)
{
	if (n->watch.fd < 0)
		return;
	net_watch(n->roce->net, &n->watch, 0);
	call_close(n->watch.fd);
	n->watch.fd = -1;
}

static void neighbour_close(struct neighbour *n)
{
	while (!list_is_empty(&n->cm_ids)) {
		struct list *at = list_pop(&n->cm_ids);

		CONTAINER_OF(at, struct weft_cm_id, neighbour_link)->neighbour = NULL;
	}
	unwatch(n);
	list_remove(&n->link);
	free(n);
}

void neighbours_close(struct roce *r)
{
	while (!list_is_empty(&r->neighbours))
		neighbour_close(CONTAINER_OF(r->neighbours.next, struct neighbour, link));
}

void neighbours_abandon(struct roce *r)
{
	for (struct list *at = r->neighbours.next; at != &r->neighbours; at = at->next) {
		struct neighbour *n = CONTAINER_OF(at, struct neighbour, link);

		if (n->watch.fd >= 0)
			close(n->watch.fd);
		n->watch.fd = -1;
	}
}

/* The process that opened the listener at the other end. */
static pid_t pid_at(int fd)
{
	struct ucred who = { 0 };
	socklen_t length = sizeof(who);

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length);
	return who.pid;
}

/*
 * The connection ended: with the process, or because the process has no room for more connections.
 * Connecting again will tell.
 */
static void ended(struct neighbour *n)
{
	unwatch(n);
	n->ends++;
	n->look_ns = net_look_at_clock(n->roce->net) + last_words_ns;
	if (n->look_ns < n->roce->look_ns)
		n->roce->look_ns = n->look_ns;
}

/* False: the process has ended. True: it runs, or is exiting and its end will be noticed later. */
static bool look(struct neighbour *n, uint64_t now_ns)
{
	int fd = udp_slot_connect(n->adapter_slot);

	if (fd == -ECONNREFUSED)
		return false;
	if (fd < 0) { /* this process lacks descriptors or memory */
		n->look_ns = now_ns + last_words_ns;
		return true;
	}
	if (pid_at(fd) != n->pid) {
		call_close(fd);
		return false;
	}
	n->watch.fd = fd;
	n->look_ns = UINT64_MAX;
	net_watch(n->roce->net, &n->watch, EPOLLIN);
	return true;
}

/* The connection carries no data: only its end is reported. */
static void on_ready(struct watch *w, uint32_t events)
{
	(void)events;
	ended(CONTAINER_OF(w, struct neighbour, watch));
}

/* Asks the socket itself: epoll may not have reported the end yet. */
static bool has_ended(const struct neighbour *n)
{
	uint8_t byte;

	return n->watch.fd < 0 || call_recv(n->watch.fd, &byte, 1) >= 0 || errno != EAGAIN;
}

/* pid 0: any process. */
static struct neighbour *find(struct roce *r, uint8_t adapter_slot, pid_t pid)
{
	for (struct list *at = r->neighbours.next; at != &r->neighbours;) {
		struct neighbour *n = CONTAINER_OF(at, struct neighbour, link);

		at = at->next;
		if (n->adapter_slot != adapter_slot || (pid != 0 && n->pid != pid) ||
		    n->watch.fd < 0)
			continue;
		if (!has_ended(n))
			return n;
		ended(n);
	}
	return NULL;
}

static struct neighbour *neighbour_open(struct roce *r, uint8_t adapter_slot, int fd)
{
	struct neighbour *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	*n = (struct neighbour){
		.watch = { .ready = on_ready, .fd = fd },
		.roce = r,
		.adapter_slot = adapter_slot,
		.pid = pid_at(fd),
		.look_ns = UINT64_MAX,
	};
	list_init(&n->cm_ids);
	list_add_tail(&r->neighbours, &n->link);
	net_watch(r->net, &n->watch, EPOLLIN);
	return n;
}

/*
 * Connects to the slot each time: an ending process frees its slot before its connections end, so
 * the owner of the slot may be a later process. If no process accepts, the neighbour is the one
 * known before, which is exiting or busy; or the slot may not be used at all.
 */
static struct neighbour *meet(struct roce *r, uint8_t adapter_slot)
{
	int fd = udp_slot_connect(adapter_slot);
	struct neighbour *n = find(r, adapter_slot, fd < 0 ? 0 : pid_at(fd));

	if (fd < 0)
		return n;
	if (!n) {
		n = neighbour_open(r, adapter_slot, fd);
		if (n)
			return n;
	}
	call_close(fd);
	return n;
}

/* Whether both addresses are the same, or the peer's is a loopback address. */
static bool is_here(const struct ibcm_ip *ip)
{
	size_t bytes = ip->is_ipv6 ? 16 : 4;

	return memcmp(ip->from.address, ip->to.address, bytes) == 0 ||
	       (!ip->is_ipv6 && ip->to.address[0] == 127);
}

void neighbour_join(struct weft_cm_id *c, const struct ibcm_ip *ip, uint32_t peer_id)
{
	uint8_t adapter_slot = (uint8_t)(peer_id >> 24);

	if (c->neighbour || adapter_slot == 0 || adapter_slot == roce_line_slot(c->roce) ||
	    c->roce->fabric || !is_here(ip))
		return;
	c->neighbour = meet(c->roce, adapter_slot);
	if (c->neighbour)
		list_add_tail(&c->neighbour->cm_ids, &c->neighbour_link);
}

/* The connection to the neighbour stays, for later cm_ids. */
void neighbour_leave(struct weft_cm_id *c)
{
	list_remove(&c->neighbour_link);
	c->neighbour = NULL;
}

uint64_t neighbours_due(const struct roce *r)
{
	return r->look_ns;
}

static void lose_cm_ids(struct neighbour *n, uint64_t now_ns)
{
	for (struct list *at = n->cm_ids.next; at != &n->cm_ids; at = at->next)
		ib_cm_lost(n->roce->cm, now_ns,
			   CONTAINER_OF(at, struct weft_cm_id, neighbour_link)->id);
}

/* True: the neighbour has ended, or is not watched any more. */
static bool is_done(struct neighbour *n, uint64_t now_ns)
{
	if (n->look_ns > now_ns)
		return false;
	if (look(n, now_ns))
		return n->ends >= ENDS_MAX;
	lose_cm_ids(n, now_ns);
	return true;
}

void neighbours_expire(struct roce *r, uint64_t now_ns)
{
	if (r->look_ns > now_ns)
		return;
	r->look_ns = UINT64_MAX;
	for (struct list *at = r->neighbours.next; at != &r->neighbours;) {
		struct neighbour *n = CONTAINER_OF(at, struct neighbour, link);

		at = at->next;
		if (is_done(n, now_ns))
			neighbour_close(n);
		else if (n->look_ns < r->look_ns)
			r->look_ns = n->look_ns;
	}
}
