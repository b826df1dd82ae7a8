/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unix sockets between the adapters of a host. An adapter owns the names of its slot and of its
 * services. Another adapter that has packets for it connects to the name, and stays connected.
 * Unread packets are then limited by the bytes of the sender's buffer; datagrams sent without a
 * connection would be limited by their number, which is ten on most hosts.
 *
 * The kernel lets every user bind such a name, and connect to it. So each end checks the user of
 * the other: packets are handed on only between processes of this user and of root. A connection
 * of another user is closed at once. Where another user has bound a name, spare names are tried in
 * turn. Where all of these are taken too, a service gets a hidden name, found by asking the kernel
 * (unix_names.h). A slot has no hidden name: another user who binds all names of all slots keeps
 * new processes out, and no more. A user who binds UDP port 4791 first can do that as well.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "driver/sys/calls.h"
#include "driver/sys/unix_sockets.h"
#include "driver/udp/udp_inside.h"

/* Listing names takes at most a sixteenth of the time, except for a burst. */
enum { ENTER_MAX = 16, ASK_SHARE = 16, ASK_BURST_NS = 100 * 1000 * 1000 };

/* ---- Names ---------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Connects to a service that was not found by the other names, if it has a hidden one. Listing
 * names is rate-limited, as requests for unclaimed services may come in floods. Requests beyond the
 * limit are dropped, not refused: a peer repeats a lost request, and gives up a refused one.
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
		err = unix_connect(&name);
	return err == -EACCES ? -ECONNREFUSED : err;
}

static int key_connect(struct udp *u, const struct udp_owner_key *owner_key)
{
	struct unix_names names = udp_unix_names(owner_key);
	int fd = unix_names_connect(&names);

	if (fd < 0 && owner_key->kind == UDP_SERVICES)
		return hidden_connect(u, &names, fd);
	return fd == -EACCES ? -ECONNREFUSED : fd;
}

/*
 * Another process may have the service by a hidden name, even if the user who had bound the others
 * has left: names are listed in any case. Where the kernel cannot list them, hidden names are not
 * used, as no process would find them. If the list is unreliable (-EAGAIN), the claim fails.
 */
static int service_names_take(struct unix_names *names)
{
	bool are_all_foreign;
	int fd = unix_names_take(names, true, &are_all_foreign), found;
	struct unix_name name;

	if (are_all_foreign)
		fd = unix_listen_hidden(names);
	if (fd < 0)
		return fd;
	names->excluded_inodes[0] = unix_inode_of(fd);
	found = unix_names_find(names, &name);
	if (found == 0 || (found < 0 && found != -EAGAIN && !are_all_foreign))
		return fd;
	call_close(fd);
	return -EADDRINUSE;
}

/* ---- Clients, which hand on to us ----------------------------------------------------------- */

int udp_listener_open(struct udp *u, struct udp_socket *listener,
		      const struct udp_owner_key *owner_key, bool is_thorough)
{
	struct unix_names names = udp_unix_names(owner_key);
	bool are_all_foreign;
	int fd = owner_key->kind == UDP_SERVICES
			 ? service_names_take(&names)
			 : unix_names_take(&names, is_thorough, &are_all_foreign);

	if (fd < 0)
		return fd;
	udp_socket_init(u, listener, UDP_LISTENER, fd);
	return 0;
}

void udp_listener_close(struct udp_socket *listener)
{
	struct udp *u = listener->udp;

	udp_socket_close(listener);
	for (struct list *at = u->clients.next; at != &u->clients;) {
		struct udp_client *g = CONTAINER_OF(at, struct udp_client, link);

		at = at->next;
		if (g->listener == listener)
			udp_client_close(g);
	}
}

static void client_open(struct udp_socket *listener, int fd)
{
	struct udp *u = listener->udp;
	struct udp_client *g = NULL;

	if (!unix_is_trusted(fd))
		u->counts.sent_away++;
	else if (u->client_count < UDP_CLIENTS_MAX)
		g = calloc(1, sizeof(*g));
	if (!g) {
		call_close(fd);
		return;
	}
	udp_socket_init(u, &g->socket, UDP_CLIENT, fd);
	g->listener = listener;
	list_add_tail(&u->clients, &g->link);
	u->client_count++;
	udp_socket_start(&g->socket);
	udp_socket_ready(&g->socket);
	udp_socket_await(&g->socket, listener->is_awaited);
}

void udp_client_close(struct udp_client *g)
{
	list_remove(&g->link);
	g->socket.udp->client_count--;
	udp_socket_close(&g->socket);
	free(g);
}

/* epoll would report the waiting clients again and again, and the reader would spin. */
static void listener_pause(struct udp_socket *listener)
{
	listener->udp->has_paused_listeners = true;
	udp_watch(listener->udp, &listener->watch, 0);
}

bool udp_listener_accept(struct udp_socket *listener)
{
	for (int i = 0; i < ENTER_MAX; i++) {
		int fd = call_accept(listener->watch.fd);

		if (fd < 0) {
			if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			    errno == ENOBUFS)
				listener_pause(listener);
			udp_socket_await(listener, false);
			return false;
		}
		client_open(listener, fd);
	}
	return true;
}

bool udp_has_paused_listeners(const struct udp *u)
{
	return u->has_paused_listeners;
}

void udp_listeners_resume(struct udp *u)
{
	u->has_paused_listeners = false;
	udp_socket_start(&u->listener);
	for (struct list *at = u->services.next; at != &u->services; at = at->next)
		udp_socket_start(&CONTAINER_OF(at, struct udp_service, link)->socket);
}

/* ---- Local peers, to which we hand on ------------------------------------------------------- */

int udp_slot_connect(uint8_t adapter_slot)
{
	return key_connect(
		NULL, &(struct udp_owner_key){ .kind = UDP_SLOTS, .adapter_slot = adapter_slot });
}

static void local_peer_close(struct udp *u, struct udp_local_peer *h)
{
	list_remove(&h->link);
	u->local_peer_count--;
	call_close(h->fd);
	free(h);
}

void udp_local_peers_close(struct udp *u)
{
	while (!list_is_empty(&u->local_peers))
		local_peer_close(u, CONTAINER_OF(u->local_peers.next, struct udp_local_peer, link));
}

static struct udp_local_peer *local_peer_find(struct udp *u, const struct udp_owner_key *owner_key)
{
	for (struct list *at = u->local_peers.next; at != &u->local_peers; at = at->next) {
		struct udp_local_peer *h = CONTAINER_OF(at, struct udp_local_peer, link);

		if (!udp_owner_key_is_same(&h->owner_key, owner_key))
			continue;
		list_remove(&h->link);
		list_push(&u->local_peers, &h->link);
		return h;
	}
	return NULL;
}

bool udp_local_peer_is_known(struct udp *u, const struct udp_owner_key *to)
{
	return local_peer_find(u, to) != NULL;
}

static int local_peer_open(struct udp *u, const struct udp_owner_key *owner_key,
			   struct udp_local_peer **opened)
{
	struct udp_local_peer *h;
	int fd = key_connect(u, owner_key);

	if (fd < 0)
		return fd;
	h = calloc(1, sizeof(*h));
	if (!h) {
		call_close(fd);
		return -ENOMEM;
	}
	*h = (struct udp_local_peer){ .owner_key = *owner_key, .fd = fd };
	if (u->local_peer_count == UDP_LOCAL_PEERS_MAX)
		local_peer_close(u, CONTAINER_OF(u->local_peers.prev, struct udp_local_peer, link));
	list_push(&u->local_peers, &h->link);
	u->local_peer_count++;
	*opened = h;
	return 0;
}

/* One that has left may have a successor of the same name. */
int udp_local_peer_send(struct udp *u, const struct udp_owner_key *to, const struct msghdr *m)
{
	struct udp_local_peer *h = local_peer_find(u, to);
	int err = 0;

	u->counts.calls_out++;
	if (h && call_sendmsg(h->fd, m) >= 0)
		return 0;
	if (h && errno == EAGAIN)
		return -EAGAIN;
	if (h)
		local_peer_close(u, h);
	err = local_peer_open(u, to, &h);
	if (err < 0)
		return err;
	return call_sendmsg(h->fd, m) < 0 ? -errno : 0;
}
