/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP connections of the iSCSI target. An end that the core has done with is shut, and stays until
 * its peer has closed too, or for a second: to close a socket that has unread bytes would reset it,
 * and the peer could lose the response that says why.
 */
#include <sodium.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "driver/sys/clock.h"
#include "driver/sys/socket.h"
#include "roles/iscsi_server_inside.h"

enum {
	RECEIVES_MAX = 16, /* the same of one connection */
	NS_PER_S = 1000000000,
};

static const uint64_t linger_ns = NS_PER_S, retry_ns = NS_PER_S / 10;

/* ---- Life ----------------------------------------------------------------------------------- */

static void end_close(struct iscsi_end *end, bool is_reset)
{
	struct iscsi_server *s = end->server;

	if (end->core)
		iscsi_connection_destroy(end->core, s->now_ns);
	end->core = NULL;
	socket_close(end->fd, is_reset);
	end->fd = -1;
	list_remove(&end->link);
	list_push(&s->free, &end->link);
}

static void end_linger(struct iscsi_end *end)
{
	struct iscsi_server *s = end->server;

	iscsi_connection_destroy(end->core, s->now_ns);
	end->core = NULL;
	socket_shut(end->fd);
	end->linger_ns = s->now_ns + linger_ns;
	list_remove(&end->link);
	list_add_tail(&s->lingering, &end->link);
}

/* Takes the place of one that lingers, if there is no other. */
static struct iscsi_end *end_take(struct iscsi_server *s)
{
	if (list_is_empty(&s->free) && !list_is_empty(&s->lingering))
		end_close(CONTAINER_OF(s->lingering.next, struct iscsi_end, link), true);
	return list_is_empty(&s->free) ? NULL
				       : CONTAINER_OF(list_pop(&s->free), struct iscsi_end, link);
}

/* True: the core has the connection. */
static bool end_open(struct iscsi_server *s, int fd)
{
	char peer[WEFT_ADDRESS_TEXT], local[WEFT_ADDRESS_TEXT];
	struct iscsi_accept a = { .peer = peer, .local = local };
	struct iscsi_end *end = end_take(s);
	struct weft_address at, from;
	enum weft_reason r;

	if (!end)
		return false;
	a.owner = end;
	socket_addresses(fd, &at, &from);
	weft_address_text(&at, local);
	weft_address_text(&from, peer);
	randombytes_buf(a.random, sizeof(a.random));
	r = iscsi_node_accept(s->node, &a, s->now_ns, &end->core);
	sodium_memzero(a.random, sizeof(a.random));
	if (r != WEFT_OK) {
		list_push(&s->free, &end->link);
		return false;
	}
	socket_watch_peer(fd, s->host->config->alive_ns);
	end->fd = fd;
	end->can_recv = true;
	end->can_send = true;
	end->is_hung_up = false;
	list_add_tail(&s->busy, &end->link);
	if (iscsi_server_watch(s, fd, end))
		return true;
	iscsi_connection_destroy(end->core, s->now_ns);
	end->core = NULL;
	end->fd = -1;
	list_remove(&end->link);
	list_push(&s->free, &end->link);
	return false;
}

bool iscsi_end_accept(struct iscsi_server *s, struct iscsi_server_portal *portal)
{
	bool has_any = false;

	for (int i = 0; i < ISCSI_ACCEPTS_MAX; i++) {
		int fd;
		enum weft_reason r = socket_accept(portal->fd, &fd);

		if (r != WEFT_OK) {
			/* No descriptors or no memory: connections wait, and may be refused. */
			s->accept_ns = s->now_ns + retry_ns;
			return has_any;
		}
		if (fd < 0) {
			portal->has_more = false;
			return has_any;
		}
		has_any = true;
		if (!end_open(s, fd))
			socket_close(fd, true);
	}
	return has_any;
}

void iscsi_ends_close(struct iscsi_server *s)
{
	for (uint32_t i = 0; i < s->ends_max; i++) {
		if (s->ends[i].fd >= 0)
			end_close(&s->ends[i], false);
	}
}

uint64_t iscsi_ends_expire(struct iscsi_server *s)
{
	while (!list_is_empty(&s->lingering)) {
		struct iscsi_end *end = CONTAINER_OF(s->lingering.next, struct iscsi_end, link);

		if (end->linger_ns > s->now_ns)
			return end->linger_ns;
		end_close(end, false);
	}
	return UINT64_MAX;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

void iscsi_end_told(struct iscsi_end *end, uint32_t events)
{
	end->is_hung_up |= (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
	end->can_recv |= (events & EPOLLIN) != 0 || end->is_hung_up;
	end->can_send |= (events & EPOLLOUT) != 0;
	if (end->fd >= 0 && end->core && !list_is_linked(&end->link))
		list_add_tail(&end->server->busy, &end->link);
	if (end->fd >= 0 && !end->core) {
		uint8_t bytes[4096];
		struct span_list l = { .count = 0 };
		size_t n;

		(void)span_list_add(&l, bytes, sizeof(bytes));
		for (int i = 0; i < RECEIVES_MAX; i++) {
			enum socket_result r = socket_recv(end->fd, &l, &n);

			if (r == SOCKET_MOVED)
				continue;
			if (r != SOCKET_WAIT)
				end_close(end, false);
			return;
		}
		end_close(end, true); /* it does not stop sending */
	}
}

static void end_lost(struct iscsi_end *end)
{
	iscsi_connection_eof(end->core, end->server->now_ns);
	end->can_recv = false;
	end->can_send = false;
}

/* True: bytes came. */
static bool receive(struct iscsi_end *end)
{
	struct iscsi_server *s = end->server;
	bool has_any = false;

	for (int i = 0; i < RECEIVES_MAX && end->can_recv && iscsi_connection_wants(end->core);
	     i++) {
		struct span_list l = { .count = 0 };
		enum socket_result r;
		size_t n;

		iscsi_connection_want(end->core, s->now_ns, &l);
		if (l.length == 0)
			break;
		r = socket_recv(end->fd, &l, &n);
		if (r == SOCKET_MOVED) {
			/* Less than there was room for: there is no more now, but for the end. */
			end->can_recv = n == l.length || end->is_hung_up;
			iscsi_connection_got(end->core, s->now_ns, &l, n);
			s->has_received = true;
			has_any = true;
		} else if (r == SOCKET_WAIT) {
			end->can_recv = false;
		} else {
			end_lost(end);
		}
	}
	return has_any;
}

/* True: bytes went. */
static bool transmit(struct iscsi_end *end)
{
	struct iscsi_server *s = end->server;
	bool has_any = false;

	while (end->can_send) {
		struct span_list l = { .count = 0 };
		enum socket_result r;
		size_t n;

		iscsi_connection_have(end->core, s->now_ns, &l);
		if (l.length == 0)
			break;
		r = socket_send(end->fd, &l, &n);
		if (r == SOCKET_MOVED) {
			iscsi_connection_sent(end->core, s->now_ns, n);
			has_any = true;
		} else if (r == SOCKET_WAIT) {
			end->can_send = false;
		} else {
			end_lost(end);
		}
	}
	return has_any;
}

/* Moves bytes both ways and does what the core says. True: something happened. */
static bool serve(struct iscsi_end *end)
{
	bool has_any = receive(end);

	has_any |= transmit(end);
	switch (iscsi_connection_action(end->core)) {
	case ISCSI_ACTION_CLOSE:
		end_linger(end);
		return true;
	case ISCSI_ACTION_ABORT:
		end_close(end, true);
		return true;
	default:
		break;
	}
	if (end->can_recv && iscsi_connection_wants(end->core) && !list_is_linked(&end->link))
		list_add_tail(&end->server->busy, &end->link);
	return has_any;
}

bool iscsi_ends_receive(struct iscsi_server *s)
{
	struct list now;
	bool has_any = false;

	/* Those that become busy meanwhile have their turn later. */
	list_init(&now);
	while (!list_is_empty(&s->busy))
		list_add_tail(&now, list_pop(&s->busy));
	while (!list_is_empty(&now))
		has_any |= serve(CONTAINER_OF(list_pop(&now), struct iscsi_end, link));
	return has_any;
}

bool iscsi_ends_attend(struct iscsi_server *s)
{
	struct iscsi_connection *c;
	bool has_any = false;

	s->has_received = false;
	while ((c = iscsi_node_attend(s->node)) != NULL) {
		struct iscsi_end *end = iscsi_connection_owner(c);

		if (end->source == ISCSI_SOURCE_ISER) {
			iser_end_attend(iscsi_connection_owner(c));
			continue;
		}
		list_remove(&end->link);
		has_any |= serve(end);
	}
	return has_any;
}
