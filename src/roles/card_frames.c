/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of the port lie in buffers that links send from, several links if a frame is for several
 * hosts. A host gives packets of its link to the port where they lie, in the elements of pools; a
 * unit copies what it judges first, and the rest only if it does not go to the port at once. They
 * are returned when the port has taken them: a full port is felt by the other end as a lack of
 * elements.
 *
 * Links of a unit share the buffers. A host that takes no frames must not have them all, and so
 * keep frames from the others, or its own from the LAN: a link holds no more than are free (the
 * dynamic threshold of switches with shared memory). Of n links that take nothing each has one part
 * of n + 1, and one part stays.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "lan/offload.h"
#include "roles/card_inside.h"

enum {
	NET = PUSH_NET_HEADER_BYTES,
	/* Bytes of a longer packet that are judged: its addresses and tags are in them. */
	HEAD = NET + LAN_HEADERS_MAX,
	COPY_WHOLE = 2048, /* packets up to this are not worth two pieces */
	ASK_LEAST = 2,	   /* frames: the second one tells whether there are more */
};

_Static_assert((int)NET == (int)VIRTIO_NET_BUFFERS_BYTES, "one header");

bool card_frames_open(struct card *c)
{
	void *at = mmap(NULL, (size_t)CARD_FRAMES * CARD_PACKET_MAX, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return false;
	c->frame_bytes = at;
	for (uint32_t i = 0; i < CARD_FRAMES; i++) {
		c->frames[i].bytes = c->frame_bytes + (size_t)i * CARD_PACKET_MAX;
		c->free_frames[c->free_frame_count++] = CARD_FRAMES - 1 - i;
	}
	return true;
}

void card_frames_close(struct card *c)
{
	if (c->frame_bytes)
		munmap(c->frame_bytes, (size_t)CARD_FRAMES * CARD_PACKET_MAX);
}

/* ---- From the port -------------------------------------------------------------------------- */

static void frame_free(struct card *c, uint32_t n)
{
	c->frames[n].rest_length = 0;
	c->free_frames[c->free_frame_count++] = n;
	if (c->is_starved && c->free_frame_count >= CARD_BATCH) {
		c->is_starved = false;
		c->is_port_ready = true;
		card_port_watch(c, true);
	}
}

static void frame_use(struct card *c, uint32_t n)
{
	c->used_frames += c->frames[n].users++ == 0;
}

static void frame_used(struct card *c, uint32_t n)
{
	CHECK(n < CARD_FRAMES && c->frames[n].users > 0);
	if (--c->frames[n].users > 0)
		return;
	c->used_frames--;
	frame_free(c, n);
}

void card_frame_sent(struct card_end *e, uint64_t cookie)
{
	e->frames_held--;
	frame_used(e->card, (uint32_t)cookie);
}

/* A host has one link: what that has no room for waits in the port. */
static bool may_hold_more(const struct card_end *e)
{
	const struct card *c = e->card;

	return !c->is_unit || e->frames_held < CARD_FRAMES - c->used_frames;
}

static bool is_open(const struct card_end *e)
{
	return e->state == CARD_UP && e->link && push_link_state(e->link) == PUSH_OPEN;
}

static bool has_header(const struct card_end *e)
{
	return push_agreed(e->link)->features & PUSH_FEATURE_NET_HEADER;
}

static struct lan_frame frame_of(uint8_t *bytes, uint32_t length)
{
	struct lan_frame f = { .bytes = bytes + NET, .room = length - NET, .length = length - NET };

	virtio_net_decode(&f.net, bytes, NET);
	return f;
}

/* The rest of it, which is in an element, is copied, too. */
static void frame_complete(struct card_frame *f)
{
	if (f->rest_length > 0)
		memcpy(f->bytes + f->length - f->rest_length, f->rest, f->rest_length);
	f->rest_length = 0;
}

/* Gives a frame to a link, which counts what it has no room for. */
static void push_as_is(struct card_end *e, uint32_t n)
{
	struct card *c = e->card;
	struct card_frame *f = &c->frames[n];
	struct push_packet p = { f->bytes, f->length, n };
	enum weft_reason r;

	if (!has_header(e)) {
		p.bytes += NET;
		p.length -= NET;
	}
	if (!may_hold_more(e)) {
		e->dropped_greedy++;
		return;
	}
	r = push_packet(e->link, &p, c->now_ns);
	e->dropped_long += r == WEFT_R_PUSH_FRAME;
	if (r == WEFT_OK) {
		e->frames_held++;
		frame_use(c, n);
	}
}

/* Frees the frame unless a link is to send it. */
static void frame_done(struct card *c, uint32_t n)
{
	if (c->frames[n].users == 0)
		frame_free(c, n);
}

/* A buffer for a frame of so many bytes; CARD_FRAMES: none is free. */
static uint32_t frame_take(struct card *c, uint32_t bytes)
{
	uint32_t n = CARD_FRAMES;

	if (c->free_frame_count == 0) {
		c->counts.dropped_busy++;
		return n;
	}
	n = c->free_frames[--c->free_frame_count];
	c->frames[n].length = bytes + NET;
	memset(c->frames[n].bytes, 0, NET);
	return n;
}

/* What the other end agreed to complete by itself, of packets of this end. */
static uint32_t left_to(const struct card_end *e)
{
	static const struct {
		enum lan_offload offload;
		uint64_t to_host, to_unit; /* all of them */
	} kinds[] = {
		{ LAN_CSUM, PUSH_FEATURE_GUEST_CSUM, PUSH_FEATURE_CSUM },
		{ LAN_TSO4, PUSH_FEATURE_GUEST_TSO4, PUSH_FEATURE_HOST_TSO4 },
		{ LAN_TSO6, PUSH_FEATURE_GUEST_TSO6, PUSH_FEATURE_HOST_TSO6 },
		{ LAN_TSO_ECN, PUSH_FEATURE_GUEST_ECN, PUSH_FEATURE_HOST_ECN },
		{ LAN_USO, PUSH_FEATURE_GUEST_USO4 | PUSH_FEATURE_GUEST_USO6,
		  PUSH_FEATURE_HOST_USO },
	};
	uint64_t agreed = push_agreed(e->link)->features;
	uint32_t left = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t needed = e->card->is_unit ? kinds[i].to_host : kinds[i].to_unit;

		left |= (agreed & needed) == needed ? (uint32_t)kinds[i].offload : 0;
	}
	return left;
}

/* What the end has not agreed to: checksums and segments, in frames of their own. */
static void push_complete(struct card_end *e, const struct lan_frame *from)
{
	struct card *c = e->card;
	struct lan_cut cut;
	uint32_t n, bytes;

	if (from->net.gso_type == VIRTIO_NET_GSO_NONE) {
		struct lan_frame whole = *from;

		n = frame_take(c, from->length);
		if (n == CARD_FRAMES)
			return;
		whole.bytes = memcpy(c->frames[n].bytes + NET, from->bytes, from->length);
		lan_checksum(&whole);
		push_as_is(e, n);
		frame_done(c, n);
		return;
	}
	if (lan_cut_begin(&cut, from) != WEFT_OK) {
		c->counts.dropped_foreign++;
		return;
	}
	/* Bound: LAN_SEGMENTS_MAX. */
	while ((bytes = lan_cut_want(&cut)) > 0 && (n = frame_take(c, bytes)) < CARD_FRAMES) {
		lan_cut_next(&cut, c->frames[n].bytes + NET);
		push_as_is(e, n);
		frame_done(c, n);
	}
}

static void push(struct card_end *e, uint32_t n)
{
	struct card_frame *f = &e->card->frames[n];
	struct lan_frame frame = frame_of(f->bytes, f->length);

	if ((lan_frame_needs(&frame) & ~left_to(e)) == 0)
		push_as_is(e, n);
	else
		push_complete(e, &frame);
}

/*
 * A frame for hosts and for the LAN: a port that cannot leave a checksum to its peer would complete
 * it in the bytes that links still send. So that is done before, for all.
 */
static void frame_share(struct card *c, uint32_t n)
{
	struct card_frame *f = &c->frames[n];
	struct lan_frame frame = frame_of(f->bytes, f->length);

	if ((lan_frame_needs(&frame) & ~lan_properties(c->port)->takes) != LAN_CSUM)
		return;
	lan_checksum(&frame);
	virtio_net_encode(&frame.net, f->bytes);
}

/* Pushes the frame to the hosts that are to have it. True: the LAN is to have it, too. */
static bool spread(struct card *c, uint32_t n, uint32_t from)
{
	struct card_frame *f = &c->frames[n];
	const struct push_data frame = { f->bytes + NET, f->length - NET };
	struct card_end *by_peer[CARD_PEERS_MAX] = { 0 }, *e = NULL;
	struct push_lan_route route;
	uint32_t host;

	if (push_lan_route(c->lan, from, &frame, &route) != WEFT_OK) {
		c->counts.dropped_foreign++;
		return false;
	}
	while ((e = card_end_next(c, e)) != NULL) {
		if (is_open(e))
			by_peer[e->peer] = e;
	}
	while (push_lan_next(c->lan, &route, &host)) {
		if (!by_peer[host])
			continue;
		frame_complete(f);
		if (route.is_to_wire)
			frame_share(c, n);
		push(by_peer[host], n);
	}
	return route.is_to_wire;
}

/* A frame of the port, to its hosts or to the unit. */
static void take(struct card *c, uint32_t n)
{
	struct card_end *e = NULL;
	bool has_unit = false;

	if (c->is_unit) {
		(void)spread(c, n, PUSH_LAN_WIRE);
		frame_done(c, n);
		return;
	}
	while ((e = card_end_next(c, e)) != NULL) {
		if (!is_open(e))
			continue;
		has_unit = true;
		push(e, n);
	}
	c->counts.dropped_absent += !has_unit;
	frame_done(c, n);
}

/* Which buffer a frame of the port is in: it puts those that are no good behind the others. */
static uint32_t frame_in(const struct card *c, const struct lan_frame *f)
{
	return (uint32_t)((size_t)(f->bytes - c->frame_bytes) / CARD_PACKET_MAX);
}

/* As many as came; twice as many if those were all that were asked for. */
static uint32_t ask_for_next(uint32_t asked, uint32_t count)
{
	uint32_t next = count == asked ? 2 * asked : count;

	return next < ASK_LEAST ? ASK_LEAST : next < CARD_BATCH ? next : CARD_BATCH;
}

bool card_port_take(struct card *c)
{
	struct lan_frame frames[CARD_BATCH];
	uint32_t most = c->port_ask > 0 ? c->port_ask : CARD_BATCH, want = 0, count;

	while (want < most && c->free_frame_count > 0) {
		uint32_t n = c->free_frames[--c->free_frame_count];

		frames[want++] = (struct lan_frame){ .bytes = c->frames[n].bytes + NET,
						     .room = CARD_PACKET_MAX - NET };
	}
	if (want == 0 && !c->is_starved) {
		c->is_starved = true;
		card_port_watch(c, false);
	}
	count = lan_receive(c->port, frames, want);
	c->port_ask = ask_for_next(want, count);
	card_port_news(c);
	for (uint32_t i = count; i < want; i++)
		c->free_frames[c->free_frame_count++] = frame_in(c, &frames[i]);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t n = frame_in(c, &frames[i]);

		virtio_net_encode(&frames[i].net, c->frames[n].bytes);
		c->frames[n].length = frames[i].length + NET;
		take(c, n);
	}
	c->is_port_ready = lan_has_more(c->port) && !c->is_starved;
	return count > 0;
}

/* ---- To the port ---------------------------------------------------------------------------- */

/* Host: where the packet lies. */
static struct lan_frame frame_there(const struct card_end *e, const struct card_packet *p)
{
	uint8_t *bytes = (uint8_t *)(uintptr_t)p->bytes;

	if (has_header(e))
		return frame_of(bytes, p->length);
	return (struct lan_frame){ .bytes = bytes, .room = p->length, .length = p->length };
}

/*
 * Unit: a copy of what a host sent, into a buffer that is free, as the host could change the packet
 * after it was judged. Of a long one this is its headers.
 */
static uint32_t frame_copy(const struct card_end *e, const struct card_packet *p)
{
	struct card *c = e->card;
	uint32_t n = c->free_frames[--c->free_frame_count], skip = has_header(e) ? 0 : NET;
	uint32_t copied = p->length > COPY_WHOLE ? HEAD : p->length;
	struct card_frame *f = &c->frames[n];

	memset(f->bytes, 0, skip);
	memcpy(f->bytes + skip, p->bytes, copied);
	f->length = p->length + skip;
	f->rest = p->bytes + copied;
	f->rest_length = p->length - copied;
	return n;
}

static const struct card_packet *waiting_at(const struct card_end *e, uint32_t nth)
{
	return &e->waiting[(e->waiting_first + nth) % e->element_count];
}

/* The first packets that wait have been taken. */
static void return_first(struct card_end *e, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct card_packet *p = &e->waiting[e->waiting_first];

		if (!e->pools[p->pool].is_closed)
			push_return(e->link, p->pool, p->element);
		e->waiting_first = (e->waiting_first + 1) % e->element_count;
		e->waiting_count--;
	}
}

/* What answers frames that were sent often waits in the port at once: that is looked for. */
static void answer_may_come(struct card *c, uint32_t sent)
{
	if (sent > 0)
		card_port_expect(c);
}

/* What the port had no room for before. True: it has taken all of it. */
static bool held_give(struct card *c)
{
	struct lan_frame frames[CARD_BATCH];
	uint32_t sent;

	for (uint32_t i = 0; i < c->held_count; i++) {
		const struct card_frame *f = &c->frames[c->held[i]];

		frames[i] = frame_of(f->bytes, f->length);
		frames[i].rest = f->rest;
		frames[i].rest_length = f->rest_length;
	}
	sent = c->held_count > 0 ? lan_send(c->port, frames, c->held_count) : 0;
	answer_may_come(c, sent);
	for (uint32_t i = 0; i < sent; i++)
		frame_used(c, c->held[i]);
	c->held_count -= sent;
	memmove(c->held, c->held + sent, c->held_count * sizeof(c->held[0]));
	for (uint32_t i = 0; i < c->held_count; i++) /* the elements are returned now */
		frame_complete(&c->frames[c->held[i]]);
	c->is_port_full = c->held_count > 0;
	return c->held_count == 0;
}

void card_port_has_room(struct card *c)
{
	c->is_port_full = false;
	(void)held_give(c);
}

/* Unit: judges a packet of a host, and gives it to other hosts; keeps it for the port. */
static void judge(struct card_end *e, const struct card_packet *p)
{
	struct card *c = e->card;
	uint32_t n = frame_copy(e, p);
	struct lan_frame frame = frame_of(c->frames[n].bytes, c->frames[n].length);

	/* What ports check, this does: for hosts without offload the unit goes by the header. */
	if (lan_frame_check(&frame) != WEFT_OK) {
		c->counts.dropped_foreign++;
		frame_done(c, n);
		return;
	}
	/* That a checksum was found good, no host can say to others. */
	frame.net.flags &= VIRTIO_NET_NEEDS_CSUM;
	virtio_net_encode(&frame.net, c->frames[n].bytes);
	if (spread(c, n, e->peer)) {
		frame_use(c, n);
		c->held[c->held_count++] = n;
	}
	frame_done(c, n);
}

static bool unit_give(struct card_end *e)
{
	struct card *c = e->card;
	bool has_any = false;

	/* Bound: what waits. */
	while (e->waiting_count > 0 && c->free_frame_count > 0 && held_give(c)) {
		uint32_t judged = 0;

		while (judged < e->waiting_count && c->free_frame_count > 0 &&
		       c->held_count < CARD_BATCH)
			judge(e, waiting_at(e, judged++));
		(void)held_give(c);
		return_first(e, judged);
		has_any = true;
	}
	return has_any;
}

static bool host_give(struct card_end *e)
{
	struct card *c = e->card;
	bool has_any = false;

	/* Bound: what waits. */
	while (e->waiting_count > 0 && !c->is_port_full) {
		struct lan_frame frames[CARD_BATCH];
		uint32_t count = 0, sent;

		for (; count < e->waiting_count && count < CARD_BATCH; count++)
			frames[count] = frame_there(e, waiting_at(e, count));
		sent = lan_send(c->port, frames, count);
		c->is_port_full = sent < count;
		has_any |= sent > 0;
		answer_may_come(c, sent);
		return_first(e, sent);
	}
	return has_any;
}

bool card_packets_give(struct card_end *e)
{
	if (e->state != CARD_UP || !e->link || e->waiting_count == 0 || e->card->is_port_full)
		return false;
	return e->card->is_unit ? unit_give(e) : host_give(e);
}

/* It came in a message, whose bytes are gone after this: what finds no room is lost. */
static void give_now(struct card_end *e, const struct card_packet *p)
{
	struct card *c = e->card;
	struct lan_frame f;

	if (e->waiting_count > 0 || c->is_port_full || c->free_frame_count == 0) {
		c->counts.dropped_busy++;
	} else if (c->is_unit) {
		judge(e, p);
		(void)held_give(c);
	} else {
		f = frame_there(e, p);
		if (lan_send(c->port, &f, 1) == 0)
			c->counts.dropped_busy++;
	}
}

void card_packet_came(struct card_end *e, const struct push_event *event)
{
	const struct card_packet p = { event->bytes, event->length, event->pool, event->element };
	uint32_t header = has_header(e) ? NET : 0;

	if (p.length < LAN_HEADER_BYTES + header || p.length - header > CARD_PACKET_MAX - NET) {
		e->card->counts.dropped_foreign++;
		if (event->is_returned)
			push_return(e->link, p.pool, p.element);
		return;
	}
	if (!event->is_returned) {
		give_now(e, &p);
		return;
	}
	e->waiting[(e->waiting_first + e->waiting_count++) % e->element_count] = p;
	CHECK(e->waiting_count <= e->element_count);
}
