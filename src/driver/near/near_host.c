/* SPDX-License-Identifier: BSD-2-Clause */
/* What the near path needs of Linux (near/system.h). */
#include "driver/near/near_host.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/check.h"
#include "driver/near/near_board.h"
#include "driver/near/near_message.h"
#include "driver/near/ring.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/notice.h"
#include "driver/sys/unix_sockets.h"
#include "driver/sys/wait.h"

/* ---- Links ---------------------------------------------------------------------------------- */

struct unix_names near_names_of(uint8_t adapter_slot)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.near.%u", adapter_slot);
	return names;
}

struct near_link *near_link_open(struct near_host *h, int fd)
{
	struct near_link *link = calloc(1, sizeof(*link));

	if (!link) {
		call_close(fd);
		return NULL;
	}
	link->host = h;
	link->watch.fd = fd;
	return link;
}

static struct near_link *link_connect(void *owner, uint8_t adapter_slot)
{
	struct unix_names names = near_names_of(adapter_slot);
	int fd = unix_names_connect(&names);

	return fd < 0 ? NULL : near_link_open(owner, fd);
}

static void link_ready(struct watch *w, uint32_t events)
{
	struct near_link *link = CONTAINER_OF(w, struct near_link, watch);

	(void)events;
	link->ready(link->end);
}

static void link_watch(struct near_link *link, void (*ready)(void *end), void *end)
{
	const struct near_config *config = &link->host->config;

	link->ready = ready;
	link->end = end;
	link->watch.ready = link_ready;
	config->watch(config->owner, &link->watch, EPOLLIN);
}

static bool link_send(struct near_link *link, const struct near_message *m)
{
	return near_message_send(link->watch.fd, m);
}

static void link_take(struct near_link *link, struct near_message *m)
{
	near_message_take(link->watch.fd, m);
}

static void link_name(struct near_link *link, uint8_t adapter_slot)
{
	link->adapter_slot = adapter_slot;
	atomic_store(&link->host->connections[adapter_slot], link->watch.fd + 1);
}

/* Unless a process that has the slot now has connected. */
static void forget_name(struct near_link *link)
{
	int connection = link->watch.fd + 1;

	(void)atomic_compare_exchange_strong(&link->host->connections[link->adapter_slot],
					     &connection, 0);
}

static void link_close(struct near_link *link)
{
	const struct near_config *config = &link->host->config;

	forget_name(link);
	if (link->host->is_abandoned) {
		watch_abandon(&link->watch);
	} else {
		if (link->ready)
			config->watch(config->owner, &link->watch, 0);
		call_close(link->watch.fd);
	}
	free(link);
}

/* Whether the process at the other end of a connection has ended. */
static bool has_ended(int fd)
{
	struct pollfd p = { .fd = fd };
	const struct timespec now = { 0 };

	return fd < 0 || (syscall(SYS_ppoll, &p, 1L, &now, NULL, 0L) == 1 &&
			  (p.revents & (POLLHUP | POLLERR | POLLNVAL)));
}

static bool link_has_ended(const struct near_link *link)
{
	return has_ended(link->watch.fd);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static int host_ring_make(void *owner, struct ring *r, uint32_t bytes)
{
	(void)owner;
	return ring_make(r, bytes);
}

static int host_ring_map(void *owner, struct ring *r, int descriptor)
{
	(void)owner;
	return ring_map(r, descriptor);
}

static void host_ring_unmap(void *owner, struct ring *r)
{
	(void)owner;
	ring_unmap(r);
}

/* The thread that has the adapter's lock may close the connection meanwhile: it has ended then. */
static bool peer_has_ended(const struct mem_peers *peers, uint32_t index)
{
	const struct near_host *h = CONTAINER_OF(peers, struct near_host, peers);

	return index >= MEM_PEERS_MAX || has_ended(atomic_load(&h->connections[index]) - 1);
}

static bool host_show(void *owner, struct near_shown *shown, enum weft_policy policy)
{
	struct near_host *h = owner;

	if (!near_shown_open(shown, policy, h->config.thread_number))
		return false;
	h->peers = (struct mem_peers){ .unmapped = &shown->board->unmapped,
				       .each = shown->marks->peers,
				       .has_ended = peer_has_ended };
	notice_set_peers(h->config.mem->watch, &h->peers);
	return true;
}

static void host_hide(void *owner, struct near_shown *shown)
{
	struct near_host *h = owner;

	if (h->is_abandoned) {
		near_shown_abandon(shown);
		return;
	}
	notice_set_peers(h->config.mem->watch, NULL);
	near_shown_close(shown);
}

/* The process that listens at the other end. */
static pid_t process_of(const struct near_link *link)
{
	struct ucred other;
	socklen_t length = sizeof(other);

	return getsockopt(link->watch.fd, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 ? other.pid
											 : 0;
}

static bool host_seen_open(struct near_link *link, const int descriptors[2], struct near_seen *seen)
{
	return near_seen_open(seen, descriptors, process_of(link));
}

static bool host_wait(void *owner, struct near_wait *wait)
{
	(void)owner;
	if (wait->end_ns == 0)
		wait->end_ns = clock_ns() + access_wait_ns;
	wait_a_little(&wait->rounds);
	return clock_ns() < wait->end_ns;
}

const struct near_system near_linux = {
	.connect = link_connect,
	.watch = link_watch,
	.send = link_send,
	.take = link_take,
	.done = near_message_done,
	.name = link_name,
	.has_ended = link_has_ended,
	.close = link_close,
	.ring_make = host_ring_make,
	.ring_map = host_ring_map,
	.ring_unmap = host_ring_unmap,
	.show = host_show,
	.hide = host_hide,
	.seen_open = host_seen_open,
	.seen_close = near_seen_close,
	.move = near_seen_move,
	.wait = host_wait,
};
