/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unix sockets between the adapters of a host. A name belongs to one of them, as a place or a
 * service; whoever has something for it connects, and stays connected. What then lies unread is
 * bounded by the sender's buffer, in bytes: datagrams to a name would be bounded by their number,
 * which is ten on most hosts.
 *
 * The kernel lets every user take such a name, and connect to it. So each end looks who the other
 * is: only processes of this user, and root's, hand on and are handed to. Another user who comes is
 * sent away at once. Where another user has taken a name there are spare ones, which are looked at
 * in turn. Where all of these are taken too, a service has a hidden name, for which the kernel is
 * asked (unix_names.h). A place has none: to take all names of all places keeps new processes out,
 * and no more. A user that binds UDP port 4791 first can do that as well.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"

/* The kernel is asked for names a sixteenth of the time at most, but for a burst. */
enum { ENTER_MAX = 16, FULL_TRIES = 64, ASK_SHARE = 16, ASK_BURST_NS = 100 * 1000 * 1000 };

/* ---- Names ---------------------------------------------------------------------------------- */

/*
 * Connects to a place or service by any of its names but a hidden one; -ECONNREFUSED: it is not
 * there, -EACCES: and another user has some of its names.
 */
static int names_connect(const struct unix_names *names)
{
	int err = -ECONNREFUSED;

	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		struct unix_name name;
		int fd;

		unix_name_init(&name, names, spare);
		fd = udp_unix_connect(&name);
		if (fd >= 0)
			return fd;
		if (fd != -ECONNREFUSED && (fd != -EACCES || err == -ECONNREFUSED))
			err = fd; /* it may be there */
	}
	return err;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Connects to a service that was not found by the other names, if it has a hidden one. The kernel
 * is not asked all the time, as requests for services that no process has may come in floods. Those
 * that come meanwhile are lost: a peer sends again what was lost, and gives up what was refused.
 */
static int hidden_connect(struct udp *u, const struct unix_names *names, int err)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), begin_ns;
	struct unix_name name;
	int found;

	if (u->names_budget_until_ns > now_ns + ASK_BURST_NS)
		return -EAGAIN;
	begin_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	found = unix_names_find(names, &name);
	if (u->names_budget_until_ns < now_ns)
		u->names_budget_until_ns = now_ns;
	u->names_budget_until_ns += ASK_SHARE * (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns);
	if (found == -EAGAIN)
		return found;
	if (found > 0)
		err = udp_unix_connect(&name);
	return err == -EACCES ? -ECONNREFUSED : err;
}

static int whose_connect(struct udp *u, const struct udp_whose *whose)
{
	struct unix_names names = udp_unix_names(whose);
	int fd = names_connect(&names);

	if (fd < 0 && whose->kind == UDP_SERVICES)
		return hidden_connect(u, &names, fd);
	return fd == -EACCES ? -ECONNREFUSED : fd;
}

/*
 * Whether a process of ours listens there. One that has no room for connections has it soon; a
 * socket of another user may never have.
 */
static bool is_ours(const struct unix_names *names, uint32_t spare)
{
	struct unix_name name;
	int fd = -EAGAIN;

	unix_name_init(&name, names, spare);
	for (int tries = 0; fd == -EAGAIN && tries < FULL_TRIES; tries++) {
		if (tries > 0)
			sched_yield();
		fd = udp_unix_connect(&name);
	}
	if (fd >= 0)
		call_close(fd);
	return fd >= 0;
}

/* By another name than this: the other user who had taken the usual one may be gone. */
static bool is_elsewhere(const struct unix_names *names, uint32_t here)
{
	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		if (spare != here && is_ours(names, spare))
			return true;
	}
	return false;
}

/*
 * Both look after they have taken theirs: of two that come at once no two keep the same. All are
 * foreign: another user has each.
 */
static int names_take(const struct unix_names *names, bool is_thorough, bool *are_all_foreign)
{
	*are_all_foreign = false;
	for (uint32_t spare = 0; spare < UNIX_NAMES; spare++) {
		struct unix_name name;
		int fd;

		unix_name_init(&name, names, spare);
		fd = udp_unix_listen(&name);
		if (fd >= 0 && is_elsewhere(names, spare)) {
			call_close(fd);
			return -EADDRINUSE;
		}
		if (fd != -EADDRINUSE || !is_thorough || is_ours(names, spare))
			return fd;
	}
	*are_all_foreign = true;
	return -EADDRINUSE;
}

/*
 * Another process may have the service by a hidden name, also if the user who had taken the others
 * is gone: the kernel is asked in any case. Where it does not answer there are no hidden names, as
 * no process would find them; where it is not sure the service is not had.
 */
static int service_names_take(struct unix_names *names)
{
	bool are_all_foreign;
	int fd = names_take(names, true, &are_all_foreign), found;
	struct unix_name name;

	if (are_all_foreign)
		fd = udp_unix_listen_hidden(names);
	if (fd < 0)
		return fd;
	names->excluded_inodes[0] = unix_inode_of(fd);
	found = unix_names_find(names, &name);
	if (found == 0 || (found < 0 && found != -EAGAIN && !are_all_foreign))
		return fd;
	call_close(fd);
	return -EADDRINUSE;
}

/* ---- Who comes ------------------------------------------------------------------------------ */

int udp_door_open(struct udp *u, struct udp_socket *door, const struct udp_whose *whose,
		  bool is_thorough)
{
	struct unix_names names = udp_unix_names(whose);
	bool are_all_foreign;
	int fd = whose->kind == UDP_SERVICES ? service_names_take(&names)
					     : names_take(&names, is_thorough, &are_all_foreign);

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
	struct udp_guest *g = NULL;

	if (!udp_unix_is_trusted(fd))
		u->counts.sent_away++;
	else if (u->guest_count < UDP_GUESTS_MAX)
		g = calloc(1, sizeof(*g));
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
	return whose_connect(NULL, &(struct udp_whose){ .kind = UDP_PLACES, .place = place });
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
	int fd = whose_connect(u, whose);

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
