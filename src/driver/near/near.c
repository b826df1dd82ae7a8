/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/near/near.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/list.h"
#include "driver/near/ring.h"
#include "driver/sys/calls.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/unix_sockets.h"
#include "wire/iba_icrc.h"

enum {
	SLOTS_MAX = 255,
	ACCEPTS_MAX = 16,	  /* at a time */
	HELLO_MAGIC = 0x77664e31, /* "wfN1": the version of ring and records */
	TAKES_MAX = 64,		  /* packets of one ring before the next one has its turn */
	WAKE = 'w'
};

/* A receiver that has taken nothing for so long is not waited for. */
static const uint64_t stall_ns = 10 * 1000 * 1000;

/* The first message on a connection, with the ring's descriptor. */
struct hello {
	uint32_t magic;
	uint32_t adapter_slot; /* the sender's */
};

/* In front of each packet. */
struct record {
	uint32_t bytes; /* of the packet */
	uint8_t is_ipv6, traffic_class, hop_limit;
	uint8_t has_icrc;
	struct inet_end from, to;
	uint16_t ipv4_id; /* for which its ICRC is valid */
};

enum { RECORD_BYTES = (sizeof(struct record) + RING_ALIGN - 1) / RING_ALIGN * RING_ALIGN };

/* An adapter that sends to us. */
struct near_in {
	struct watch watch;
	struct near *near;
	struct list link;
	struct ring ring; /* not mapped before the first message */
	uint8_t adapter_slot;
	bool has_ended; /* the connection has; its packets may still be there */
};

/* An adapter that we send to. */
struct near_out {
	struct watch watch;
	struct near *near;
	struct list touched_link; /* of near->touched, or of itself */
	struct ring ring;
	uint8_t adapter_slot;
	bool is_blocked;       /* the ring was full, and the receiver will wake us */
	size_t blocked_bytes;  /* for a record of this size */
	bool is_stalled;       /* the receiver took nothing for too long */
	uint64_t stalls_at_ns; /* while is_blocked */
};

struct near {
	struct near_config config;
	struct watch listener;
	struct list ins;     /* the next to be read first */
	struct list touched; /* receivers that may have to be woken */
	struct near_out *outs[SLOTS_MAX + 1];
	uint32_t blocked; /* of outs */
	bool is_abandoned;
	bool is_resting;
	bool is_paused;
	uint8_t lost[SLOTS_MAX]; /* slots, not pulled yet */
	uint32_t lost_count;
	/* The packet returned last. */
	struct near_in *from;
	size_t taking;	/* bytes of its record; 0: none */
	uint32_t taken; /* packets of that ring in this turn */
	struct ib_in in;
	struct near_counts counts;
	/* Of near_begin(); the receiver is NULL if the packet will be lost. */
	struct near_out *to;
	uint8_t spare[IBA_PACKET_MAX];
};

/* ---- Names ---------------------------------------------------------------------------------- */

static struct unix_names names_of(uint8_t adapter_slot)
{
	struct unix_names names = { .type = SOCK_SEQPACKET };

	(void)snprintf(names.usual, sizeof(names.usual), "weft.roce.near.%u", adapter_slot);
	return names;
}

static void watch_for(struct near *n, struct watch *w, uint32_t events)
{
	n->config.watch(n->config.owner, w, events);
}

static void watch_close(struct near *n, struct watch *w)
{
	if (w->fd < 0)
		return;
	if (!n->is_abandoned) {
		watch_for(n, w, 0);
		call_close(w->fd);
	}
	w->fd = -1;
}

/* If the socket is full, the other end has messages enough that wake it. */
static void wake_other(struct near *n, const struct watch *w)
{
	const char byte = WAKE;

	n->counts.wakes++;
	(void)call_send(w->fd, &byte, 1);
}

/* Takes the messages that woke us; epoll reports what is left. False: the other end has closed. */
static bool bells_take(int fd)
{
	enum { BELLS_MAX = 16 };
	char byte;
	ssize_t n = 1;

	for (int i = 0; n > 0 && i < BELLS_MAX; i++)
		n = call_recv(fd, &byte, 1);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- The end of an adapter ------------------------------------------------------------------ */

static struct near_in *in_find(const struct near *n, uint8_t adapter_slot)
{
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, link);

		if (i->adapter_slot == adapter_slot)
			return i;
	}
	return NULL;
}

/* Reported when neither direction is left. */
static void lose(struct near *n, uint8_t adapter_slot)
{
	if (adapter_slot != 0 && !n->outs[adapter_slot] && !in_find(n, adapter_slot) &&
	    n->lost_count < SLOTS_MAX)
		n->lost[n->lost_count++] = adapter_slot;
}

uint8_t near_lost(struct near *n)
{
	return n->lost_count > 0 ? n->lost[--n->lost_count] : 0;
}

static void in_close(struct near_in *i)
{
	struct near *n = i->near;
	uint8_t adapter_slot = i->adapter_slot;

	if (n->from == i) {
		n->from = NULL;
		n->taking = 0;
	}
	watch_close(n, &i->watch);
	ring_unmap(&i->ring);
	list_remove(&i->link);
	free(i);
	n->counts.ins--;
	lose(n, adapter_slot);
}

static void out_unblock(struct near_out *o)
{
	if (o->is_blocked)
		o->near->blocked--;
	o->is_blocked = false;
	o->stalls_at_ns = UINT64_MAX;
}

static void out_close(struct near_out *o)
{
	struct near *n = o->near;
	uint8_t adapter_slot = o->adapter_slot;

	out_unblock(o);
	list_remove(&o->touched_link);
	watch_close(n, &o->watch);
	ring_unmap(&o->ring);
	n->outs[adapter_slot] = NULL;
	free(o);
	n->counts.outs--;
	lose(n, adapter_slot);
}

/* ---- Adapters that send to us --------------------------------------------------------------- */

/* The descriptor of a message that brings one, or -1; closes what it brings beyond. */
static int descriptor_of(struct msghdr *m)
{
	int found = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0);
		     at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + at, sizeof(fd));
			if (found >= 0)
				call_close(fd);
			else
				found = fd;
		}
	}
	return found;
}

/* 1: the ring is mapped; 0: the message has not come; -1: it is not a ring of ours. */
static int hello_take(struct near_in *i)
{
	struct hello hello = { 0 };
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))];
	struct iovec piece = { &hello, sizeof(hello) };
	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t bytes = call_recvmsg(i->watch.fd, &m);
	int fd, error = -EPROTO;

	if (bytes < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	fd = descriptor_of(&m);
	if (fd < 0)
		return -1;
	if (bytes == sizeof(hello) && hello.magic == HELLO_MAGIC && hello.adapter_slot > 0 &&
	    hello.adapter_slot <= SLOTS_MAX)
		error = ring_map(&i->ring, fd);
	call_close(fd);
	if (error < 0)
		return -1;
	i->adapter_slot = (uint8_t)hello.adapter_slot;
	return 1;
}

static void in_ready(struct watch *w, uint32_t events)
{
	struct near_in *i = CONTAINER_OF(w, struct near_in, watch);
	struct near *n = i->near;
	int mapped = 1;

	(void)events;
	if (!i->ring.head)
		mapped = hello_take(i);
	if (mapped < 0) {
		n->counts.refused++;
		in_close(i);
	} else if (mapped > 0 && !bells_take(w->fd)) {
		i->has_ended = true;
		watch_close(n, w);
	} else if (mapped > 0 && n->is_resting) {
		/* The thread that rests may not have seen the bell, which is taken now. */
		(void)ring_rest(&i->ring);
	}
}

static void in_open(struct near *n, int fd)
{
	struct near_in *i = NULL;

	if (!unix_is_trusted(fd))
		n->counts.sent_away++;
	else if (n->counts.ins < SLOTS_MAX)
		i = calloc(1, sizeof(*i));
	if (!i) {
		call_close(fd);
		return;
	}
	*i = (struct near_in){ .watch = { .ready = in_ready, .fd = fd }, .near = n };
	list_add_tail(&n->ins, &i->link);
	n->counts.ins++;
	watch_for(n, &i->watch, EPOLLIN);
	in_ready(&i->watch, EPOLLIN);
}

/* Without descriptors epoll would report the listener again and again, and the thread spin. */
static void listener_ready(struct watch *w, uint32_t events)
{
	struct near *n = CONTAINER_OF(w, struct near, listener);

	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		int fd = call_accept(w->fd);

		if (fd < 0) {
			n->is_paused = errno != EAGAIN && errno != EINTR && errno != ECONNABORTED;
			if (n->is_paused)
				watch_for(n, w, 0);
			return;
		}
		in_open(n, fd);
	}
}

bool near_is_paused(const struct near *n)
{
	return n->is_paused;
}

void near_resume(struct near *n)
{
	n->is_paused = false;
	watch_for(n, &n->listener, EPOLLIN);
}

/* ---- Adapters that we send to --------------------------------------------------------------- */

/* The receiver has taken packets, or has closed. */
static void out_ready(struct watch *w, uint32_t events)
{
	struct near_out *o = CONTAINER_OF(w, struct near_out, watch);

	(void)events;
	if (!bells_take(w->fd))
		out_close(o);
	else
		out_unblock(o);
}

static bool hello_send(int socket, int ring, uint8_t adapter_slot)
{
	struct hello hello = { HELLO_MAGIC, adapter_slot };
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec piece = { &hello, sizeof(hello) };
	struct msghdr m = { .msg_iov = &piece,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &ring, sizeof(ring));
	return call_sendmsg(socket, &m) == sizeof(hello);
}

static bool out_connect(struct near_out *o)
{
	struct unix_names names = names_of(o->adapter_slot);
	int socket = unix_names_connect(&names), ring;
	bool is_sent = false;

	if (socket < 0)
		return false;
	ring = ring_make(&o->ring);
	if (ring >= 0) {
		is_sent = hello_send(socket, ring, o->near->config.adapter_slot);
		call_close(ring);
	}
	if (!is_sent) {
		ring_unmap(&o->ring);
		call_close(socket);
		return false;
	}
	o->watch.fd = socket;
	return true;
}

static struct near_out *out_open(struct near *n, uint8_t adapter_slot)
{
	struct near_out *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	*o = (struct near_out){ .watch = { .ready = out_ready, .fd = -1 },
				.near = n,
				.adapter_slot = adapter_slot,
				.stalls_at_ns = UINT64_MAX };
	list_init(&o->touched_link);
	if (!out_connect(o)) {
		free(o);
		return NULL;
	}
	n->outs[adapter_slot] = o;
	n->counts.outs++;
	watch_for(n, &o->watch, EPOLLIN);
	return o;
}

bool near_reaches(struct near *n, uint8_t adapter_slot)
{
	return !n->is_abandoned && adapter_slot != 0 &&
	       (n->outs[adapter_slot] || out_open(n, adapter_slot));
}

static void record_write(uint8_t *at, const struct ib_out *out)
{
	const struct ib_path *path = out->path;
	struct record r = {
		.bytes = (uint32_t)out->spans.length,
		.is_ipv6 = path->is_ipv6,
		.traffic_class = ib_out_traffic_class(out),
		.hop_limit = ib_path_hop_limit(path),
		.has_icrc = out->has_icrc,
		.from = path->from,
		.to = path->to,
		.ipv4_id = out->ipv4_id,
	};

	memcpy(at, &r, sizeof(r));
}

static void packet_write(uint8_t *at, const struct ib_out *out)
{
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
}

/* NULL: there is none now. The receiver wakes us then, unless it is stalled. */
static uint8_t *room_for(struct near_out *o, size_t bytes)
{
	uint8_t *room = ring_room(&o->ring, bytes);

	if (room || o->is_stalled || ring_await_room(&o->ring, bytes))
		return room;
	return ring_room(&o->ring, bytes);
}

static enum near_sent blocked_by(struct near_out *o, uint64_t now_ns, size_t bytes)
{
	if (o->is_stalled)
		return NEAR_LOST;
	if (!o->is_blocked) {
		o->near->blocked++;
		o->stalls_at_ns = now_ns + stall_ns;
	}
	o->is_blocked = true;
	o->blocked_bytes = bytes;
	return NEAR_FULL;
}

/* Room for a record at the receiver of that slot. */
static enum near_sent find_room(struct near *n, uint64_t now_ns, uint8_t adapter_slot, size_t bytes,
				uint8_t **room)
{
	struct near_out *o;

	if (!near_reaches(n, adapter_slot))
		return NEAR_LOST;
	o = n->outs[adapter_slot];
	*room = room_for(o, bytes);
	if (o->ring.is_broken) {
		out_close(o);
		return NEAR_LOST;
	}
	return *room ? NEAR_SENT : blocked_by(o, now_ns, bytes);
}

/* The packet is in its room: sends it, with its record. */
static void send_from(struct near_out *o, uint8_t *room, const struct ib_out *out)
{
	struct near *n = o->near;

	record_write(room, out);
	ring_put(&o->ring, RECORD_BYTES + out->spans.length);
	o->is_stalled = false;
	if (!list_is_linked(&o->touched_link))
		list_add_tail(&n->touched, &o->touched_link);
	n->counts.packets_out++;
	n->counts.bytes_out += out->spans.length;
}

enum near_sent near_send(struct near *n, uint64_t now_ns, const struct ib_out *out)
{
	uint8_t adapter_slot = out->path->near_slot, *room;
	enum near_sent sent = find_room(n, now_ns, adapter_slot, RECORD_BYTES + out->spans.length,
					&room);

	n->counts.lost += sent == NEAR_LOST;
	if (sent == NEAR_SENT) {
		packet_write(room + RECORD_BYTES, out);
		send_from(n->outs[adapter_slot], room, out);
	}
	return sent;
}

uint8_t *near_begin(struct near *n, uint64_t now_ns, uint8_t adapter_slot)
{
	uint8_t *room;

	n->to = NULL;
	switch (find_room(n, now_ns, adapter_slot, RECORD_BYTES + IBA_PACKET_MAX, &room)) {
	case NEAR_SENT:
		n->to = n->outs[adapter_slot];
		return room + RECORD_BYTES;
	case NEAR_LOST:
		return n->spare;
	default:
		return NULL;
	}
}

enum near_sent near_end(struct near *n, const struct ib_out *out)
{
	if (!n->to) {
		n->counts.lost++;
		return NEAR_LOST;
	}
	send_from(n->to, out->room - RECORD_BYTES, out);
	return NEAR_SENT;
}

void near_flush(struct near *n)
{
	while (!n->is_abandoned && !list_is_empty(&n->touched)) {
		struct near_out *o = CONTAINER_OF(list_pop(&n->touched), struct near_out,
						  touched_link);

		if (ring_wakes_receiver(&o->ring))
			wake_other(n, &o->watch);
	}
}

/* The receiver wakes us, but a look at the ring is faster. */
bool near_is_blocked(struct near *n)
{
	for (uint32_t i = 1; n->blocked > 0 && !n->is_abandoned && i <= SLOTS_MAX; i++) {
		struct near_out *o = n->outs[i];

		if (o && o->is_blocked && ring_room(&o->ring, o->blocked_bytes))
			out_unblock(o);
	}
	return n->blocked > 0;
}

uint64_t near_due(const struct near *n)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 1; n->blocked > 0 && i <= SLOTS_MAX; i++) {
		if (n->outs[i] && n->outs[i]->stalls_at_ns < due)
			due = n->outs[i]->stalls_at_ns;
	}
	return due;
}

void near_expire(struct near *n, uint64_t now_ns)
{
	for (uint32_t i = 1; n->blocked > 0 && i <= SLOTS_MAX; i++) {
		struct near_out *o = n->outs[i];

		if (o && o->stalls_at_ns <= now_ns) {
			o->is_stalled = true;
			out_unblock(o);
		}
	}
}

/* ---- In ------------------------------------------------------------------------------------- */

bool near_is_sent_to(const struct near *n)
{
	return n->counts.ins > 0 && !n->is_abandoned;
}

/* The packet returned last is done with. */
static void take_last(struct near *n)
{
	if (n->taking == 0)
		return;
	ring_take(&n->from->ring, n->taking);
	n->taking = 0;
}

/* Ends a turn of the ring that was read last. */
static void turn_end(struct near *n)
{
	struct near_in *i = n->from;

	n->from = NULL;
	n->taken = 0;
	if (i && i->watch.fd >= 0 && ring_wakes_sender(&i->ring))
		wake_other(n, &i->watch);
}

/* The record's own bytes are copied before they are checked: the sender may change them. */
static bool record_read(struct near *n, struct near_in *i)
{
	const uint8_t *bytes;
	size_t length = ring_peek(&i->ring, &bytes);
	struct record r;

	if (length == 0)
		return false;
	memcpy(&r, bytes, sizeof(r)); /* in the ring, even if less was put */
	if (r.bytes > IBA_PACKET_MAX || ring_round(RECORD_BYTES + r.bytes) > length) {
		i->ring.is_broken = true;
		return false;
	}
	n->in = (struct ib_in){
		.bytes = bytes + RECORD_BYTES,
		.length = r.bytes,
		.is_ipv6 = r.is_ipv6,
		.from = r.from,
		.to = r.to,
		.traffic_class = r.traffic_class,
		.hop_limit = r.hop_limit,
		.is_ipv4_word_known = true,
		.ipv4_id = r.ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
		.is_near = true,
		.has_no_icrc = !r.has_icrc,
	};
	n->in.to.port = IBA_UDP_PORT;
	n->from = i;
	n->taking = RECORD_BYTES + r.bytes;
	n->taken++;
	n->counts.packets_in++;
	n->counts.bytes_in += r.bytes;
	return true;
}

const struct ib_in *near_next(struct near *n)
{
	struct near_in *again = n->from;

	if (n->is_abandoned)
		return NULL;
	take_last(n);
	if (again && n->taken < TAKES_MAX && record_read(n, again))
		return &n->in;
	turn_end(n);
	/* Bound: each has one look, and those that have nothing left are closed or passed. */
	for (uint32_t left = n->counts.ins; left > 0; left--) {
		struct near_in *i = CONTAINER_OF(list_pop(&n->ins), struct near_in, link);

		list_add_tail(&n->ins, &i->link);
		if (i->ring.head && record_read(n, i))
			return &n->in;
		if (i->ring.is_broken) {
			n->counts.refused++;
			in_close(i);
		} else if (i->has_ended) {
			in_close(i);
		}
	}
	return NULL;
}

void near_stand_by(struct near *n, bool is_polled)
{
	if (!is_polled || !n->is_resting || n->is_abandoned)
		return;
	n->is_resting = false;
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, link);

		if (i->ring.head)
			ring_rest_end(&i->ring);
	}
}

bool near_rest(struct near *n)
{
	bool is_empty = true;

	if (n->is_abandoned)
		return true;
	n->is_resting = true;
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, link);

		if (i->ring.head)
			is_empty &= ring_rest(&i->ring);
		is_empty &= !i->has_ended;
	}
	return is_empty;
}

/* ---- Life ----------------------------------------------------------------------------------- */

enum weft_reason near_open(const struct near_config *config, struct near **near)
{
	struct unix_names names = names_of(config->adapter_slot);
	struct near *n = calloc(1, sizeof(*n));
	bool are_all_foreign;
	int fd;

	if (!n)
		return WEFT_R_NO_MEMORY;
	fd = unix_names_take(&names, true, &are_all_foreign);
	if (fd < 0) {
		free(n);
		return system_reason(-fd);
	}
	n->config = *config;
	n->listener = (struct watch){ .ready = listener_ready, .fd = fd };
	list_init(&n->ins);
	list_init(&n->touched);
	watch_for(n, &n->listener, EPOLLIN);
	*near = n;
	return WEFT_OK;
}

void near_close(struct near *n)
{
	while (!list_is_empty(&n->ins))
		in_close(CONTAINER_OF(n->ins.next, struct near_in, link));
	for (uint32_t i = 1; i <= SLOTS_MAX; i++) {
		if (n->outs[i])
			out_close(n->outs[i]);
	}
	watch_close(n, &n->listener);
	free(n);
}

/* The rings are not mapped in a child: MADV_DONTFORK. */
void near_abandon(struct near *n)
{
	n->is_abandoned = true;
	watch_abandon(&n->listener);
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, link);

		watch_abandon(&i->watch);
		i->ring.head = NULL;
	}
	for (uint32_t i = 1; i <= SLOTS_MAX; i++) {
		if (n->outs[i]) {
			watch_abandon(&n->outs[i]->watch);
			n->outs[i]->ring.head = NULL;
		}
	}
}

const struct near_counts *near_counts(const struct near *n)
{
	return &n->counts;
}
