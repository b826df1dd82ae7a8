/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/link_near.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/least.h"
#include "driver/near/near_message.h"
#include "driver/near/ring.h"
#include "driver/sys/calls.h"
#include "driver/sys/guard.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"
#include "driver/tcp/link.h"

enum {
	RING_BYTES = 1 << 18, /* of the first RINGS_LARGE connections of an adapter */
	RINGS_LARGE = 16,
	RECORD_BYTES = 1 << 15, /* the payload of a record: the other end copies it meanwhile */
	HEADER_BYTES = RING_ALIGN,
	OFFERS_MAX = 2048, /* connections that may wait at the listener, of other users too */
	MESSAGES_MAX = 16  /* taken at once */
};

struct record_header {
	uint32_t length;
};

struct link_near {
	int listener; /* initiator, until the stream begins; or -1 */
	int socket;   /* of messages; or -1 */
	int tcp_fd;   /* once the stream runs: the connection, which stays idle; or -1 */
	struct ring in, out;
	size_t used;		   /* bytes of the record at the head of `in` that were received */
	bool is_counted;	   /* in tcp->near_count: the rings are this end's */
	bool is_resting;	   /* `in` is marked so, unless a message that clears it is here */
	bool is_full;		   /* `out` had no room: it is marked as waited for */
	uint64_t full_ns, taken;   /* since when; what the other end had taken by then */
	bool has_ended, was_reset; /* the peer sends no more; it said why */
	bool is_end_taken;	   /* the stream knows */
	bool is_closed;		   /* its socket is */
};

/* ---- Life ----------------------------------------------------------------------------------- */

static struct link_near *near_create(void)
{
	struct link_near *n = calloc(1, sizeof(*n));

	if (n)
		n->listener = n->socket = n->tcp_fd = -1;
	return n;
}

static void close_if_open(int *fd)
{
	if (*fd >= 0)
		call_close(*fd);
	*fd = -1;
}

static void near_destroy(struct link_near *n)
{
	close_if_open(&n->listener);
	close_if_open(&n->socket);
	close_if_open(&n->tcp_fd);
	ring_unmap(&n->in);
	ring_unmap(&n->out);
	free(n);
}

/* A full socket rouses the other end all the same; one that has ended rouses none. */
static void say(const struct link_near *n, enum near_kind kind)
{
	const struct near_message m = { .kind = kind, .descriptors = { -1, -1 } };

	if (n->socket >= 0)
		(void)near_message_send(n->socket, &m);
}

void link_near_end(struct link *link, bool is_reset)
{
	struct link_near *n = link->near;

	if (!n)
		return;
	if (n->tcp_fd >= 0)
		say(n, is_reset ? NEAR_RESET : NEAR_END);
	link->near = NULL;
	link->tcp->near_count -= n->is_counted;
	near_destroy(n);
}

bool link_near_runs(const struct link *link)
{
	return link->near && link->near->tcp_fd >= 0;
}

/* The rings are not mapped in a child: MADV_DONTFORK. */
void link_near_abandon(struct link *link)
{
	struct link_near *n = link->near;

	if (!n)
		return;
	n->in.head = n->out.head = NULL;
	link->near = NULL;
	if (n->tcp_fd >= 0)
		n->socket = -1; /* the link's watch has it, and closes it */
	near_destroy(n);
}

/* ---- Setting up ----------------------------------------------------------------------------- */

static int put_address(char *at, size_t room, const struct weft_address *a)
{
	int done = snprintf(at, room, ".%u.", a->port);

	for (uint32_t i = 0; i < (a->family == 4 ? 4U : 16U); i++)
		done += snprintf(at + done, room - (size_t)done, "%02x", a->ip[i]);
	return done;
}

/* Of the TCP connection, as its initiator has the addresses. */
static struct unix_name name_of(const struct weft_address *from, const struct weft_address *to)
{
	struct unix_name name = { .un.sun_family = AF_UNIX };
	char *at = name.un.sun_path + 1; /* abstract: a zero, then the name */
	const size_t room = sizeof(name.un.sun_path) - 1;
	int done = snprintf(at, room, "weft.tcp");

	done += put_address(at + done, room - (size_t)done, from);
	done += put_address(at + done, room - (size_t)done, to);
	name.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)done);
	return name;
}

/* Faults are made, and bytes captured, as they are on the wire. */
static bool may_be_near(const struct link *link)
{
	const struct weft_adapter *a = link->net->adapter;

	return link->wants_near && !link->near && !a->core.faults && !a->observed.recording &&
	       !link->record.recording && !link->tcp->is_near_off;
}

void link_near_offer(struct link *link)
{
	struct unix_name name;

	if (!may_be_near(link))
		return;
	link->near = near_create();
	if (!link->near)
		return;
	name = name_of(&link->local, &link->remote);
	link->near->listener = unix_listen(&name);
	if (link->near->listener < 0)
		link_near_end(link, false);
}

/* Both rest at first: the first bytes rouse their receivers, who do not poll for them yet. */
static bool rings_send(struct link_near *n, uint32_t bytes)
{
	struct near_message m = { .kind = NEAR_RINGS, .descriptors = { -1, -1 } };
	bool is_sent;

	m.descriptors[0] = ring_make(&n->out, bytes);
	m.descriptors[1] = ring_make(&n->in, bytes);
	is_sent = m.descriptors[0] >= 0 && m.descriptors[1] >= 0 && ring_rest(&n->in) &&
		  ring_rest(&n->out) && near_message_send(n->socket, &m);
	near_message_done(&m);
	return is_sent;
}

void link_near_take(struct link *link)
{
	struct tcp *tcp = link->tcp;
	uint32_t bytes = tcp->near_count < RINGS_LARGE ? RING_BYTES : RING_BYTES_MIN;
	struct unix_name name;
	struct link_near *n;

	if (!may_be_near(link))
		return;
	n = near_create();
	if (!n)
		return;
	name = name_of(&link->remote, &link->local);
	n->socket = unix_connect(&name);
	/* Else the initiator would stay with TCP, and not say so. */
	if (n->socket < 0 || !unix_trusts_us(n->socket) || !rings_send(n, bytes)) {
		near_destroy(n);
		return;
	}
	link->near = n;
	n->is_counted = true;
	tcp->near_count++;
}

/*
 * Accepts what a trusted user has sent: 0, or a negative errno. -EAGAIN: nothing, and TCP stays.
 */
static int rings_accept(struct link_near *n, struct near_message *m)
{
	for (int i = 0; i < OFFERS_MAX; i++) {
		n->socket = call_accept(n->listener);
		if (n->socket < 0)
			return -errno;
		if (unix_is_trusted(n->socket)) {
			near_message_take(n->socket, m);
			if (m->kind == NEAR_RINGS)
				return 0;
			near_message_done(m);
		}
		close_if_open(&n->socket);
	}
	return -EAGAIN;
}

/* The initiator's end of what the responder took. A missing descriptor, -1, is no ring. */
static int rings_take(struct link_near *n)
{
	struct near_message m = { .descriptors = { -1, -1 } };
	int error = rings_accept(n, &m);

	if (error < 0)
		return error;
	error = ring_map(&n->in, m.descriptors[0]);
	if (error == 0)
		error = ring_map(&n->out, m.descriptors[1]);
	near_message_done(&m);
	return error;
}

enum weft_reason link_near_begin(struct link *link)
{
	struct link_near *n = link->near;
	int error;

	if (!n)
		return WEFT_OK;
	error = n->listener >= 0 ? rings_take(n) : 0;
	if (error == -EAGAIN) {
		link_near_end(link, false);
		return WEFT_OK;
	}
	if (error < 0)
		return system_reason(-error);
	close_if_open(&n->listener);
	n->is_resting = true;
	net_watch(link->net, &link->watch, 0);
	n->tcp_fd = link->watch.fd;
	link->watch.fd = n->socket;
	return WEFT_OK;
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* A place in a list. */
struct list_at {
	uint32_t span;
	size_t offset;
};

/* Copies between the list and memory of ours. False: memory of the list is missing. */
static bool list_copy(const struct span_list *l, struct list_at *at, uint8_t *ours, size_t length,
		      bool is_to_list)
{
	while (length > 0) {
		const struct span *s = &l->spans[at->span];
		size_t part = (size_t)least(s->length - at->offset, length);
		uint8_t *theirs = s->bytes + at->offset;
		uint8_t *to = is_to_list ? theirs : ours;
		const uint8_t *from = is_to_list ? ours : theirs;

		if (!l->may_go)
			memcpy(to, from, part);
		else if (!fault_guard.copy(to, from, part))
			return false;
		ours += part;
		length -= part;
		at->offset += part;
		if (at->offset == s->length)
			*at = (struct list_at){ at->span + 1, 0 };
	}
	return true;
}

static void full_note(struct link_near *n, uint64_t now_ns)
{
	n->is_full = true;
	n->full_ns = now_ns;
	n->taken = n->out.other;
}

static size_t record_max(const struct link_near *n)
{
	return (size_t)least(RECORD_BYTES, ring_record_max(&n->out) - HEADER_BYTES);
}

/* Room for a record, which may have come while we asked to be roused for it; NULL: not now. */
static uint8_t *record_room(struct link_near *n, size_t bytes, uint64_t now_ns)
{
	uint8_t *room = ring_room(&n->out, bytes);

	if (!room && !ring_await_room(&n->out, bytes))
		room = ring_room(&n->out, bytes);
	if (room || n->out.is_broken)
		n->is_full = false;
	else if (!n->is_full || n->taken != n->out.other)
		full_note(n, now_ns);
	return room;
}

enum socket_result link_near_send(struct link *link, const struct span_list *l, size_t *n)
{
	struct link_near *near = link->near;
	struct list_at at = { 0 };
	bool is_missing = false;

	*n = 0;
	if (near->is_closed || near->was_reset)
		return SOCKET_LOST;
	while (*n < l->length) {
		const struct record_header h = { (uint32_t)least(l->length - *n,
								 record_max(near)) };
		uint8_t *room = record_room(near, HEADER_BYTES + h.length, link->net->now_ns);

		if (!room)
			break;
		is_missing = !list_copy(l, &at, room + HEADER_BYTES, h.length, false);
		if (is_missing)
			break;
		memcpy(room, &h, sizeof(h));
		ring_put(&near->out, HEADER_BYTES + h.length);
		*n += h.length;
		if (ring_wakes_receiver(&near->out))
			say(near, NEAR_ROUSE);
	}
	if (near->out.is_broken)
		return SOCKET_LOST;
	if (*n > 0)
		return SOCKET_MOVED;
	return is_missing ? SOCKET_MISSING : SOCKET_WAIT;
}

bool link_near_is_full(const struct link *link)
{
	return link->near->is_full;
}

bool link_near_has_room(struct link *link)
{
	struct link_near *n = link->near;

	return n->is_closed || ring_room(&n->out, HEADER_BYTES + record_max(n)) || n->out.is_broken;
}

uint64_t link_near_due(const struct link *link)
{
	const struct link_near *n = link->near;

	return n && n->is_full && link->alive_ns > 0 ? deadline_after(n->full_ns, link->alive_ns)
						     : UINT64_MAX;
}

/* The sender is roused when half of the ring is empty: a slow peer may still be at it. */
bool link_near_is_stuck(struct link *link, uint64_t now_ns)
{
	struct link_near *n = link->near;

	if (link_near_due(link) > now_ns)
		return false;
	n->is_full = !link_near_has_room(link);
	if (n->taken == n->out.other)
		return true;
	if (n->is_full)
		full_note(n, now_ns);
	else
		link_block(link, false);
	return false;
}

void link_near_shut(struct link *link)
{
	say(link->near, NEAR_END);
}

/* ---- In ------------------------------------------------------------------------------------- */

/* One message is usual: epoll reports another one. Behind an end the socket closes soon. */
void link_near_hear(struct link *link)
{
	struct link_near *n = link->near;
	struct near_message m = { .kind = NEAR_END };

	for (int left = MESSAGES_MAX; left > 0 && m.kind != NEAR_ROUSE && !n->is_closed; left--) {
		near_message_take(n->socket, &m);
		near_message_done(&m);
		if (m.kind == NEAR_NONE)
			break;
		n->is_resting = false; /* it may have cleared the mark */
		n->was_reset |= m.kind == NEAR_RESET;
		n->is_closed = m.kind != NEAR_ROUSE && m.kind != NEAR_END && m.kind != NEAR_RESET;
		n->has_ended |= m.kind != NEAR_ROUSE;
	}
}

/* The record at the head of the ring, without its header; 0: there is none. */
static size_t record_peek(struct link_near *n, const uint8_t **bytes)
{
	struct record_header h;
	size_t there = ring_peek(&n->in, bytes);

	if (there < HEADER_BYTES)
		return 0;
	memcpy(&h, *bytes, sizeof(h));
	if (h.length > there - HEADER_BYTES || n->used >= h.length) {
		n->in.is_broken = true;
		return 0;
	}
	*bytes += HEADER_BYTES;
	return h.length;
}

static enum socket_result result_when_empty(struct link_near *n)
{
	n->is_end_taken = n->has_ended || n->in.is_broken;
	if (n->in.is_broken || n->was_reset)
		return SOCKET_LOST;
	return n->has_ended ? SOCKET_END : SOCKET_WAIT;
}

/* Moves what is in the ring. False: memory of the list is missing. */
static bool ring_drain(struct link_near *n, const struct span_list *l, size_t *done)
{
	struct list_at at = { 0 };
	const uint8_t *bytes;
	size_t length;

	while (*done < l->length && (length = record_peek(n, &bytes)) > 0) {
		size_t part = (size_t)least(length - n->used, l->length - *done);
		/* It is only read here: the cast is safe. */
		uint8_t *from = (uint8_t *)(uintptr_t)bytes + n->used;

		if (!list_copy(l, &at, from, part, true))
			return false;
		*done += part;
		n->used += part;
		if (n->used < length)
			break;
		n->used = 0;
		ring_take(&n->in, HEADER_BYTES + length);
		if (ring_wakes_sender(&n->in))
			say(n, NEAR_ROUSE);
	}
	return true;
}

/* What was put before the end was said is in the ring by the time that it is heard. */
enum socket_result link_near_recv(struct link *link, const struct span_list *l, size_t *n)
{
	bool is_there;

	*n = 0;
	is_there = ring_drain(link->near, l, n);
	if (*n > 0)
		return SOCKET_MOVED;
	return is_there ? result_when_empty(link->near) : SOCKET_MISSING;
}

bool link_near_has_input(const struct link *link)
{
	const struct link_near *n = link->near;

	if (n->has_ended || n->in.is_broken)
		return !n->is_end_taken;
	return !ring_is_empty(&n->in);
}

void link_near_mark(struct link *link, bool is_resting)
{
	struct link_near *n = link->near;

	if (!link_near_runs(link) || n->is_resting == is_resting)
		return;
	n->is_resting = is_resting;
	if (is_resting)
		(void)ring_rest(&n->in); /* the caller looks at the ring */
	else
		ring_rest_end(&n->in);
}

bool link_near_is_closed(const struct link *link)
{
	return link->near && link->near->is_closed;
}
