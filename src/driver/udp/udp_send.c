/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "driver/sys/calls.h"
#include "driver/udp/udp_inside.h"
#include "wire/iba_icrc.h"

enum {
	OPTION_UDP_SEGMENT = 103,
	/* Other source ports to try if one is not available. */
	PORTS_TRIED = 16,
	ERRORS_MAX = 8,
	PORT_BASE = 0xc000
};

/* ---- Senders -------------------------------------------------------------------------------- */

static struct list *bucket_of(struct udp *u, bool is_ipv6, const struct inet_end *from)
{
	uint32_t last = from->address[is_ipv6 ? 15 : 3];

	return &u->sender_buckets[(from->port ^ last * 5u ^ is_ipv6) % UDP_SENDER_BUCKETS];
}

static bool is_from(const struct udp_sender *s, bool is_ipv6, const struct inet_end *from)
{
	return s->from.port == from->port && s->is_ipv6 == is_ipv6 &&
	       inet_is_same_address(is_ipv6, s->from.address, from->address);
}

static struct udp_sender *sender_find(struct udp *u, bool is_ipv6, const struct inet_end *from)
{
	struct list *bucket;
	struct udp_sender *s;

	if (!list_is_empty(&u->senders)) {
		s = CONTAINER_OF(u->senders.next, struct udp_sender, link);
		if (is_from(s, is_ipv6, from))
			return s;
	}
	bucket = bucket_of(u, is_ipv6, from);
	for (struct list *at = bucket->next; at != bucket; at = at->next) {
		s = CONTAINER_OF(at, struct udp_sender, bucket);
		if (is_from(s, is_ipv6, from)) {
			list_remove(&s->link);
			list_push(&u->senders, &s->link);
			return s;
		}
	}
	return NULL;
}

static void sender_unblock(struct udp_sender *s)
{
	if (!s->is_blocked)
		return;
	s->is_blocked = false;
	s->udp->blocked_count--;
	udp_watch(s->udp, &s->watch, 0);
}

static void on_writable(struct watch *w, uint32_t events)
{
	(void)events;
	sender_unblock(CONTAINER_OF(w, struct udp_sender, watch));
}

static void sender_block(struct udp_sender *s)
{
	if (s->is_blocked)
		return;
	s->is_blocked = true;
	s->udp->blocked_count++;
	udp_watch(s->udp, &s->watch, EPOLLOUT);
}

static void sender_close(struct udp_sender *s)
{
	sender_unblock(s);
	list_remove(&s->link);
	list_remove(&s->bucket);
	s->udp->sender_count--;
	call_close(s->watch.fd);
	free(s);
}

void udp_senders_close(struct udp *u)
{
	while (!list_is_empty(&u->senders))
		sender_close(CONTAINER_OF(u->senders.next, struct udp_sender, link));
}

/* Closes the least recently used sender, but not a blocked one, which has packets to send. */
static void make_room(struct udp *u)
{
	struct list *at = u->senders.prev;

	while (u->sender_count >= UDP_SENDERS_MAX && at != &u->senders) {
		struct udp_sender *s = CONTAINER_OF(at, struct udp_sender, link);

		at = at->prev;
		if (!s->is_blocked)
			sender_close(s);
	}
}

static void set_defaults(struct udp_sender *s)
{
	int fd = s->watch.fd;

	if (s->is_ipv6) {
		udp_set(fd, IPPROTO_IPV6, IPV6_TCLASS, s->traffic_class);
		udp_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, s->hop_limit);
		udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, s->hop_limit);
	} else {
		udp_set(fd, IPPROTO_IP, IP_TOS, s->traffic_class);
		udp_set(fd, IPPROTO_IP, IP_TTL, s->hop_limit);
		udp_set(fd, IPPROTO_IP, IP_MULTICAST_TTL, s->hop_limit);
	}
}

static enum weft_reason sender_open(struct udp *u, const struct ib_path *path, uint8_t class,
				    struct udp_sender **opened)
{
	struct udp_sender *s = calloc(1, sizeof(*s));
	int fd;

	if (!s)
		return WEFT_R_NO_MEMORY;
	if (u->is_abandoned) { /* a forked child must not send for its parent */
		free(s);
		return WEFT_R_ROCE_CLOSED;
	}
	make_room(u);
	fd = udp_sender_socket_open(path->is_ipv6, &path->from);
	if (fd < 0) {
		free(s);
		return socket_reason_of(-fd);
	}
	*s = (struct udp_sender){
		.watch = { .ready = on_writable, .fd = fd },
		.udp = u,
		.is_ipv6 = path->is_ipv6,
		.from = path->from,
		.traffic_class = class,
		.hop_limit = ib_path_hop_limit(path),
	};
	set_defaults(s);
	list_push(&u->senders, &s->link);
	list_push(bucket_of(u, path->is_ipv6, &path->from), &s->bucket);
	u->sender_count++;
	*opened = s;
	return WEFT_OK;
}

enum weft_reason udp_source(struct udp *u, struct ib_path *path)
{
	uint16_t first = path->from.port;
	struct udp_sender *s;
	enum weft_reason r = WEFT_OK;

	for (uint32_t i = 0; i < PORTS_TRIED; i++) {
		path->from.port = (uint16_t)((first + i * i) | PORT_BASE);
		if (sender_find(u, path->is_ipv6, &path->from))
			return WEFT_OK;
		r = sender_open(u, path, path->traffic_class, &s);
		if (r != WEFT_R_ADDRESS_IN_USE)
			return r;
	}
	return r;
}

bool udp_is_blocked(const struct udp *u)
{
	return u->blocked_count > 0;
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/*
 * The packets that a single call sends, as messages by one socket. Packets in several pieces are
 * copied to contiguous memory first: two more pieces for each packet, headers and ICRC, would cost
 * the kernel more than the copy.
 */
struct call {
	struct udp_sender *sender;
	uint32_t runs, packets;
	size_t staged;	 /* bytes copied */
	bool is_single;	 /* send without GSO */
	uint32_t errors; /* times that the first packet failed for one that came back */
};

static bool is_same_way(const struct ib_out *a, const struct ib_out *b)
{
	const struct ib_path *p = a->path, *q = b->path;

	if (a->ecn != b->ecn)
		return false;
	if (p == q)
		return true;
	return p->is_ipv6 == q->is_ipv6 && p->traffic_class == q->traffic_class &&
	       p->hop_limit == q->hop_limit && memcmp(&p->from, &q->from, sizeof(p->from)) == 0 &&
	       memcmp(&p->to, &q->to, sizeof(p->to)) == 0;
}

/* How many packets, from the first on, can form one GSO message. */
static uint32_t run_length(const struct call *c, const struct ib_out *outs, uint32_t count)
{
	size_t each = outs[0].spans.length, bytes = each;
	uint32_t n = 1;

	if (c->is_single || c->sender->is_refusing_batches)
		return 1;
	while (n < count && n < UDP_BATCH_MAX && outs[n - 1].spans.length == each &&
	       outs[n].spans.length <= each && is_same_way(&outs[0], &outs[n])) {
		bytes += outs[n].spans.length;
		if (bytes > UDP_RUN_BYTES_MAX)
			break;
		n++;
	}
	return n;
}

static uint32_t forth_of(struct udp *u, size_t length)
{
	uint32_t *forth = &u->forth[length / 4];

	if (*forth == 0)
		*forth = iba_icrc_forth((uint32_t)length);
	return *forth;
}

/* The kernel numbers the packets of a message from 0. */
static void renumber(struct udp *u, struct ib_out *out, uint16_t id)
{
	const struct span *last = &out->spans.spans[out->spans.count - 1];

	if (out->ipv4_id == id || out->path->is_ipv6)
		return;
	CHECK(last->length >= IBA_ICRC_BYTES && out->spans.length <= IBA_PACKET_MAX);
	iba_icrc_renumber(last->bytes + last->length - IBA_ICRC_BYTES,
			  forth_of(u, out->spans.length), out->ipv4_id, id);
	out->ipv4_id = id;
	u->counts.renumbered++;
}

static void control_add(struct msghdr *m, int level, int type, const void *data, size_t length)
{
	struct cmsghdr *c = (void *)((uint8_t *)m->msg_control + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(length);
	memcpy(CMSG_DATA(c), data, length);
	m->msg_controllen += CMSG_SPACE(length);
}

static void add_controls(const struct udp_sender *s, const struct ib_out *first, uint32_t packets,
			 struct msghdr *m)
{
	int class = ib_out_traffic_class(first), hops = ib_path_hop_limit(first->path);
	uint16_t each = (uint16_t)first->spans.length;

	if (packets > 1)
		control_add(m, SOL_UDP, OPTION_UDP_SEGMENT, &each, sizeof(each));
	if (class != s->traffic_class)
		control_add(m, s->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
			    s->is_ipv6 ? IPV6_TCLASS : IP_TOS, &class, sizeof(class));
	if (hops != s->hop_limit)
		control_add(m, s->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
			    s->is_ipv6 ? IPV6_HOPLIMIT : IP_TTL, &hops, sizeof(hops));
}

static void stage(struct udp *u, struct call *c, const struct span_list *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		memcpy(u->stage + c->staged, l->spans[i].bytes, l->spans[i].length);
		c->staged += l->spans[i].length;
	}
}

/* The start of the packets if they are contiguous in memory; else NULL. */
static uint8_t *in_one_piece(const struct ib_out *outs, uint32_t packets)
{
	uint8_t *first = outs[0].spans.spans[0].bytes, *at = first;

	for (uint32_t i = 0; i < packets; i++) {
		if (outs[i].spans.count != 1 || outs[i].spans.spans[0].bytes != at)
			return NULL;
		at += outs[i].spans.length;
	}
	return first;
}

static size_t run_bytes(const struct ib_out *outs, uint32_t packets)
{
	return (packets - 1) * outs[0].spans.length + outs[packets - 1].spans.length;
}

/* False: no room for a copy. */
static bool run_add(struct udp *u, struct call *c, struct ib_out *outs, uint32_t packets)
{
	struct msghdr *m = &u->runs[c->runs].msg_hdr;
	struct iovec *piece = &u->run_pieces[c->runs];
	size_t bytes = run_bytes(outs, packets);
	uint8_t *from = in_one_piece(outs, packets);

	if (!from && c->staged + bytes > sizeof(u->stage))
		return false;
	*m = (struct msghdr){
		.msg_name = &u->to[c->runs],
		.msg_namelen = udp_name_of(&u->to[c->runs], outs->path->is_ipv6, &outs->path->to),
		.msg_iov = piece,
		.msg_iovlen = 1,
		.msg_control = u->out_controls[c->runs],
	};
	*piece = (struct iovec){ from ? from : u->stage + c->staged, bytes };
	for (uint32_t i = 0; i < packets; i++) {
		renumber(u, &outs[i], (uint16_t)i);
		if (!from)
			stage(u, c, &outs[i].spans);
	}
	add_controls(c->sender, outs, packets, m);
	if (m->msg_controllen == 0)
		m->msg_control = NULL;
	u->run_packets[c->runs++] = packets;
	c->packets += packets;
	return true;
}

/* As many runs as go by the first packet's socket, up to the limits of one call. */
static void call_fill(struct udp *u, struct call *c, struct ib_out *outs, uint32_t count)
{
	while (c->packets < count && c->runs < UDP_RUNS_MAX) {
		struct ib_out *first = &outs[c->packets];

		if ((c->packets > 0 &&
		     !is_from(c->sender, first->path->is_ipv6, &first->path->from)) ||
		    !run_add(u, c, first, run_length(c, first, count - c->packets)))
			return;
	}
}

static int call_make(struct udp *u, const struct call *c)
{
	int fd = c->sender->watch.fd;

	u->counts.calls_out++;
	if (c->runs == 1)
		return call_sendmsg(fd, &u->runs[0].msg_hdr) < 0 ? -1 : 1;
	return call_sendmmsg(fd, u->runs, c->runs);
}

/* The kernel does not say why it stopped at a later run. */
static void sent(struct udp *u, struct udp_batch *b, struct call *c, uint32_t runs)
{
	if (runs < c->runs)
		(void)udp_take_errors(c->sender);
	c->errors = 0;
	for (uint32_t i = 0; i < runs; i++) {
		u->counts.bytes_out += u->run_pieces[i].iov_len;
		u->counts.packets_out += u->run_packets[i];
		b->done += u->run_packets[i];
	}
}

/* Handles an error of the first run. WEFT_OK: try again, or wait. */
static enum weft_reason failed(struct udp *u, struct udp_batch *b, struct call *c, int error)
{
	bool is_joined = u->run_packets[0] > 1;

	switch (error) {
	case EINTR:
		return WEFT_OK;
	case EAGAIN:
		sender_block(c->sender);
		return WEFT_OK;
	case EIO: /* no GSO by this device: send single packets from now on */
		if (!is_joined)
			break;
		c->sender->is_refusing_batches = true;
		return WEFT_OK;
	case EINVAL: /* GSO may be the cause */
		if (!is_joined)
			break;
		c->is_single = true;
		return WEFT_OK;
	default: /* of an earlier packet, perhaps: then this one was not looked at */
		if (c->errors == ERRORS_MAX || !udp_take_errors(c->sender))
			break;
		c->errors++;
		return WEFT_OK;
	}
	b->refused = u->run_packets[0];
	b->done += b->refused;
	return socket_reason_of(error);
}

enum weft_reason udp_send(struct udp *u, struct udp_batch *b)
{
	struct call c = { 0 };

	b->refused = 0;
	/* Bound: each iteration sends or refuses packets, or is one of few retries of its first. */
	while (b->done < b->count) {
		struct ib_out *first = &b->outs[b->done];
		enum weft_reason r = WEFT_OK;
		const struct call before = c;
		int runs;

		c = (struct call){ .is_single = before.is_single,
				   .errors = before.errors,
				   .sender = sender_find(u, first->path->is_ipv6,
							 &first->path->from) };
		if (!c.sender)
			r = sender_open(u, first->path, ib_out_traffic_class(first), &c.sender);
		if (!c.sender) {
			b->refused = 1;
			b->done++;
			return r;
		}
		if (c.sender->is_blocked)
			return WEFT_OK;
		call_fill(u, &c, first, b->count - b->done);
		runs = call_make(u, &c);
		if (runs > 0)
			sent(u, b, &c, (uint32_t)runs);
		else
			r = failed(u, b, &c, errno);
		if (r != WEFT_OK)
			return r;
	}
	return WEFT_OK;
}
