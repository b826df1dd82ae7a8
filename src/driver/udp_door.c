/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unix sockets between the adapters of a host. A name belongs to one of them, as a place or a
 * service; whoever has something for it connects, and stays connected. What then lies unread is
 * bounded by the sender's buffer, in bytes: datagrams to a name would be bounded by their number,
 * which is ten on most hosts.
 */
#include <errno.h>
#include <stdlib.h>

#include "driver/calls.h"
#include "driver/udp_inside.h"

enum { ENTER_MAX = 16 };

/* ---- Who comes ------------------------------------------------------------------------------ */

int udp_door_open(struct udp *u, struct udp_socket *door, const struct udp_unix *name)
{
	int fd = udp_unix_listen(name);

	if (fd < 0)
		return fd;
	udp_socket_init(u, door, UDP_DOOR, fd);
	return 0;
}

void udp_door_close(struct udp_socket *door)
{
	struct udp *u = door->udp;

	udp_socket_close(door);
	for (struct list *at = u->guests.next; at != &u->guests;) {
		struct udp_guest *g = CONTAINER_OF(at, struct udp_guest, link);

		at = at->next;
		if (g->door == door)
			udp_guest_close(g);
	}
}

static void guest_open(struct udp_socket *door, int fd)
{
	struct udp *u = door->udp;
	struct udp_guest *g = u->guest_count < UDP_GUESTS_MAX ? calloc(1, sizeof(*g)) : NULL;

	if (!g) {
		call_close(fd);
		return;
	}
	udp_socket_init(u, &g->socket, UDP_GUEST, fd);
	g->door = door;
	list_add_tail(&u->guests, &g->link);
	u->guest_count++;
	udp_socket_start(&g->socket);
	udp_socket_ready(&g->socket);
	udp_socket_await(&g->socket, door->is_awaited);
}

void udp_guest_close(struct udp_guest *g)
{
	list_remove(&g->link);
	g->socket.udp->guest_count--;
	udp_socket_close(&g->socket);
	free(g);
}

/* The kernel would tell of whoever waits again and again: who is told could do nothing but spin. */
static void door_shut(struct udp_socket *door)
{
	door->udp->has_shut_doors = true;
	udp_watch(door->udp, &door->watch, 0);
}

bool udp_door_enter(struct udp_socket *door)
{
	for (int i = 0; i < ENTER_MAX; i++) {
		int fd = call_accept(door->watch.fd);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS)
				door_shut(door);
			udp_socket_await(door, false);
			return false;
		}
		guest_open(door, fd);
	}
	return true;
}

bool udp_has_shut_doors(const struct udp *u)
{
	return u->has_shut_doors;
}

void udp_doors_open(struct udp *u)
{
	u->has_shut_doors = false;
	udp_socket_start(&u->door);
	for (struct list *at = u->services.next; at != &u->services; at = at->next)
		udp_socket_start(&CONTAINER_OF(at, struct udp_service, link)->socket);
}

/* ---- To whom we go -------------------------------------------------------------------------- */

int udp_place_connect(uint8_t place)
{
	struct udp_unix name;

	udp_place_name(place, &name);
	return udp_unix_connect(&name);
}

static void host_close(struct udp *u, struct udp_host *h)
{
	list_remove(&h->link);
	u->host_count--;
	call_close(h->fd);
	free(h);
}

void udp_hosts_close(struct udp *u)
{
	while (!list_is_empty(&u->hosts))
		host_close(u, CONTAINER_OF(u->hosts.next, struct udp_host, link));
}

static struct udp_host *host_find(struct udp *u, const struct udp_whose *whose)
{
	for (struct list *at = u->hosts.next; at != &u->hosts; at = at->next) {
		struct udp_host *h = CONTAINER_OF(at, struct udp_host, link);

		if (!udp_is_same(&h->whose, whose))
			continue;
		list_remove(&h->link);
		list_push(&u->hosts, &h->link);
		return h;
	}
	return NULL;
}

bool udp_host_is_known(struct udp *u, const struct udp_whose *to)
{
	return host_find(u, to) != NULL;
}

static int host_open(struct udp *u, const struct udp_whose *whose, struct udp_host **opened)
{
	struct udp_host *h;
	struct udp_unix name;
	int fd;

	if (whose->kind == UDP_PLACES)
		udp_place_name(whose->place, &name);
	else
		udp_service_name(whose->service_id, &name);
	fd = udp_unix_connect(&name);
	if (fd < 0)
		return fd;
	h = calloc(1, sizeof(*h));
	if (!h) {
		call_close(fd);
		return -ENOMEM;
	}
	*h = (struct udp_host){ .whose = *whose, .fd = fd };
	if (u->host_count == UDP_HOSTS_MAX)
		host_close(u, CONTAINER_OF(u->hosts.prev, struct udp_host, link));
	list_push(&u->hosts, &h->link);
	u->host_count++;
	*opened = h;
	return 0;
}

/* One that has left may have a successor of the same name. */
int udp_host_send(struct udp *u, const struct udp_whose *to, const struct msghdr *m)
{
	struct udp_host *h = host_find(u, to);
	int err = 0;

	u->counts.calls_out++;
	if (h && call_sendmsg(h->fd, m) >= 0)
		return 0;
	if (h && errno == EAGAIN)
		return -EAGAIN;
	if (h)
		host_close(u, h);
	err = host_open(u, to, &h);
	if (err < 0)
		return err;
	return call_sendmsg(h->fd, m) < 0 ? -errno : 0;
}
