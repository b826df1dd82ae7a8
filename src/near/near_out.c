/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters that we send to. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "near/near_parts.h"
#include "near/record.h"

enum {
	MESSAGES_MAX = 16, /* at a time; the system reports what is left */
	SLOT_BITS = 8,	   /* of a number; the rest counts the outs */
	RUN_HEADERS = NEAR_RECORD_BYTES + IBA_HEADERS_MAX + IBA_TRAILER_MAX
};

/*
 * A receiver that has had no room for so long is stopped. Packets that may be lost wait longer: on
 * a busy host a process that is not stopped may not run for many milliseconds either.
 */
static const uint64_t stall_ns = 10 * 1000 * 1000, stop_ns = 100 * 1000 * 1000;

/* ---- Ends ----------------------------------------------------------------------------------- */

static void unblock(struct near_out *o)
{
	if (o->flow == NEAR_OPEN)
		return;
	o->flow = NEAR_OPEN;
	list_remove(&o->blocked_link);
	o->near->has_room_again = true;
}

static bool has_in(const struct near *n, uint64_t adapter_id)
{
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		if (CONTAINER_OF(at, struct near_in, listed)->adapter_id == adapter_id)
			return true;
	}
	return false;
}

bool near_has_news(const struct near *n)
{
	return n->end_count > 0 || n->has_room_again || !list_is_empty(&n->blocked);
}

bool near_ended(struct near *n, struct near_ended *ended)
{
	for (uint32_t i = 0; i < n->end_count; i++) {
		const struct near_end *e = &n->ends[i];

		if (e->adapter_id != 0 && has_in(n, e->adapter_id))
			continue;
		*ended = e->report;
		n->ends[i] = n->ends[--n->end_count];
		return true;
	}
	return false;
}

void near_out_close(struct near_out *o, enum near_kind why)
{
	struct near *n = o->near;

	unblock(o);
	CHECK(n->end_count < NEAR_ENDS_MAX); /* see near_reach() */
	if (why != NEAR_LEFT)
		n->ends[n->end_count++] = (struct near_end){
			.report = { .number = o->number,
				    .adapter_slot = (uint8_t)(o->number & NEAR_SLOTS_MAX),
				    .is_refused = why == NEAR_REFUSED },
			.adapter_id = o->adapter_id,
		};
	list_remove(&o->touched_link);
	near_link_close(n, &o->link);
	n->system->ring_unmap(n->options.owner, &o->ring);
	n->system->seen_close(&o->seen);
	n->outs[o->number & NEAR_SLOTS_MAX] = NULL;
	free(o);
	n->counts.outs--;
}

/* ---- Connections ---------------------------------------------------------------------------- */

/* Payload of a run. A small ring is for many packets, not for a few runs. */
static uint32_t run_bytes_in(const struct ring *r)
{
	enum { LEAST = 16 * 1024, MOST = 64 * 1024 };
	size_t most = ring_record_max(r) - RUN_HEADERS;

	if (most < LEAST)
		return 0;
	return most < MOST ? (uint32_t)most : MOST;
}

/* False: the connection is closed. */
static bool message_handle(struct near_out *o, const struct near_message *m)
{
	const struct near_system *system = o->near->system;

	switch (m->kind) {
	case NEAR_TAKEN:
		if (o->adapter_id != 0)
			break;
		if (m->descriptors[1] >= 0 && o->near->options.mem)
			(void)system->seen_open(o->link, m->descriptors, &o->seen);
		system->done(m);
		o->adapter_id = m->adapter_id;
		o->run_bytes = m->takes_runs ? run_bytes_in(&o->ring) : 0;
		unblock(o);
		return true;
	case NEAR_WAKE:
		unblock(o);
		return true;
	default:
		break;
	}
	system->done(m);
	/* An adapter of another version lives, and takes packets by UDP. */
	near_out_close(o, m->kind == NEAR_UNKNOWN && o->adapter_id == 0 ? NEAR_REFUSED : m->kind);
	return false;
}

/* Takes the messages of the receiver. False: the connection is closed. */
static bool messages_take(struct near_out *o)
{
	struct near_message m = { .kind = NEAR_WAKE };

	for (int left = MESSAGES_MAX; left > 0 && m.kind != NEAR_NONE; left--) {
		o->near->system->take(o->link, &m);
		if (m.kind != NEAR_NONE && !message_handle(o, &m))
			return false;
	}
	return true;
}

static void out_ready(void *end)
{
	(void)messages_take(end);
}

/* Smaller ones the more there are: a host of many adapters has a ring for each two of them. */
static uint32_t ring_bytes(const struct near *n)
{
	enum { LARGE = 4, MEDIUM = 16 };

	if (n->counts.outs < LARGE)
		return RING_BYTES_MAX;
	return n->counts.outs < MEDIUM ? RING_BYTES_MAX / 4 : RING_BYTES_MIN;
}

static bool offer_ring(struct near_out *o)
{
	const struct near *n = o->near;
	struct near_message offer = { .kind = NEAR_OFFER,
				      .adapter_slot = n->options.adapter_slot,
				      .adapter_id = n->options.adapter_id,
				      .descriptors = { -1, -1 } };
	bool is_sent;

	offer.descriptors[0] = n->system->ring_make(n->options.owner, &o->ring, ring_bytes(n));
	if (offer.descriptors[0] < 0)
		return false;
	is_sent = n->system->send(o->link, &offer);
	n->system->done(&offer);
	if (!is_sent)
		n->system->ring_unmap(n->options.owner, &o->ring);
	return is_sent;
}

static bool out_connect(struct near_out *o, uint8_t adapter_slot)
{
	struct near *n = o->near;

	o->link = n->system->connect(n->options.owner, adapter_slot);
	if (!o->link)
		return false;
	if (offer_ring(o))
		return true;
	near_link_close(n, &o->link);
	return false;
}

static struct near_out *out_open(struct near *n, uint8_t adapter_slot)
{
	struct near_out *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->near = n;
	if (!out_connect(o, adapter_slot)) {
		free(o);
		return NULL;
	}
	o->number = ++n->outs_made << SLOT_BITS | adapter_slot;
	list_init(&o->touched_link);
	list_init(&o->blocked_link);
	n->outs[adapter_slot] = o;
	n->counts.outs++;
	n->system->watch(o->link, out_ready, o);
	return o;
}

/*
 * An adapter that has gone may have left its slot to another one. Each out will have an end, for
 * which there is room.
 */
uint32_t near_reach(struct near *n, uint8_t adapter_slot)
{
	struct near_out *o;

	if (n->is_forsaken || adapter_slot == 0)
		return 0;
	o = n->outs[adapter_slot];
	if (!o || !messages_take(o))
		o = n->counts.outs + n->end_count < NEAR_ENDS_MAX ? out_open(n, adapter_slot)
								  : NULL;
	return o ? o->number : 0;
}

bool near_is_taken(const struct near *n, uint32_t number)
{
	const struct near_out *o = near_out_find(n, number);

	return o && o->adapter_id != 0;
}

/* ---- Packets -------------------------------------------------------------------------------- */

/* Field by field, in its place: to copy what was just written in parts would wait for that. */
static void record_write(uint8_t *at, const struct ib_out *out)
{
	const struct ib_path *path = out->path;
	struct near_record *r = (void *)at; /* see RING_ALIGN */

	r->bytes = (uint32_t)out->spans.length;
	r->is_ipv6 = path->is_ipv6;
	r->traffic_class = ib_out_traffic_class(out);
	r->hop_limit = ib_path_hop_limit(path);
	r->has_icrc = out->has_icrc;
	r->from = path->from;
	r->to = path->to;
	r->ipv4_id = out->ipv4_id;
	r->run = out->run;
}

static void packet_write(uint8_t *at, const struct ib_out *out)
{
	for (uint32_t i = 0; i < out->spans.count; i++) {
		memcpy(at, out->spans.spans[i].bytes, out->spans.spans[i].length);
		at += out->spans.spans[i].length;
	}
}

/* NULL: there is none now. If we rest the receiver will wake us; else polls look for room. */
static uint8_t *room_for(struct near_out *o, size_t bytes)
{
	uint8_t *room;

	if (o->adapter_id == 0 && !o->near->is_leaving)
		return NULL;
	room = ring_room(&o->ring, bytes);
	if (room || !o->near->is_resting || ring_await_room(&o->ring, bytes))
		return room;
	return ring_room(&o->ring, bytes);
}

static void block(struct near_out *o, uint64_t now_ns, size_t bytes)
{
	o->blocked_bytes = bytes;
	if (o->flow != NEAR_OPEN)
		return;
	o->flow = NEAR_BLOCKED;
	o->flow_due_ns = now_ns + stall_ns;
	list_add_tail(&o->near->blocked, &o->blocked_link);
}

struct near_out *near_out_find(const struct near *n, uint32_t number)
{
	struct near_out *o = n->outs[number & NEAR_SLOTS_MAX];

	return o && o->number == number && !n->is_forsaken ? o : NULL;
}

/* Room for a record at that receiver; NULL: it has gone. */
static enum near_sent find_room(struct near_out *o, uint64_t now_ns, size_t bytes, uint8_t **room)
{
	if (!o)
		return NEAR_LOST;
	*room = room_for(o, bytes);
	if (o->ring.is_broken) {
		near_out_close(o, NEAR_CLOSED);
		return NEAR_LOST;
	}
	if (*room)
		unblock(o);
	else
		block(o, now_ns, bytes);
	return *room ? NEAR_SENT : NEAR_FULL;
}

/* The packet is in its room: sends it, with its record. */
static void send_from(struct near_out *o, uint8_t *room, const struct ib_out *out)
{
	struct near *n = o->near;

	record_write(room, out);
	ring_put(&o->ring, NEAR_RECORD_BYTES + out->spans.length);
	if (!list_is_linked(&o->touched_link))
		list_add_tail(&n->touched, &o->touched_link);
	n->counts.packets_out += 1 + out->run;
	n->counts.runs_out += out->run > 0;
	n->counts.bytes_out += iba_run_bytes(out->spans.spans[0].bytes[0], out->spans.length,
					     out->run);
}

enum near_sent near_send(struct near *n, uint64_t now_ns, const struct ib_out *out)
{
	struct near_out *o = near_out_find(n, out->path->near_number);
	uint8_t *room;
	enum near_sent sent = find_room(o, now_ns, NEAR_RECORD_BYTES + out->spans.length, &room);

	n->counts.lost += sent == NEAR_LOST;
	if (sent == NEAR_SENT) {
		packet_write(room + NEAR_RECORD_BYTES, out);
		send_from(o, room, out);
	}
	return sent;
}

bool near_begin(struct near *n, uint64_t now_ns, struct ib_out *out)
{
	struct near_out *o = near_out_find(n, out->near_number);
	uint8_t *room;
	size_t bytes;

	n->to = NULL;
	out->room = n->spare;
	out->run_bytes = o ? o->run_bytes : 0;
	bytes = out->run_bytes > 0 ? RUN_HEADERS + out->run_bytes
				   : NEAR_RECORD_BYTES + IBA_PACKET_MAX;
	switch (find_room(o, now_ns, bytes, &room)) {
	case NEAR_SENT:
		n->to = o;
		out->room = room + NEAR_RECORD_BYTES;
		return true;
	case NEAR_LOST:
		out->run_bytes = 0;
		return true;
	default:
		return false;
	}
}

void near_begin_lossy(struct near *n, struct ib_out *out)
{
	struct near_out *o = near_out_find(n, out->near_number);
	uint8_t *room = o ? ring_room(&o->ring, NEAR_RECORD_BYTES + IBA_PACKET_MAX) : NULL;

	n->to = room ? o : NULL;
	out->room = room ? room + NEAR_RECORD_BYTES : n->spare;
	out->run_bytes = 0;
}

enum near_sent near_end(struct near *n, const struct ib_out *out)
{
	if (!n->to) {
		n->counts.lost++;
		return NEAR_LOST;
	}
	send_from(n->to, out->room - NEAR_RECORD_BYTES, out);
	return NEAR_SENT;
}

void near_flush(struct near *n)
{
	while (!n->is_forsaken && !list_is_empty(&n->touched)) {
		struct near_out *o = CONTAINER_OF(list_pop(&n->touched), struct near_out,
						  touched_link);

		if (ring_wakes_receiver(&o->ring))
			near_say(n, o->link, NEAR_WAKE);
	}
}

/* ---- Receivers without room ----------------------------------------------------------------- */

bool near_has_blocked(const struct near *n)
{
	return !list_is_empty(&n->blocked);
}

/* The receiver wakes us, but a look at the ring is faster. */
bool near_has_room(struct near *n)
{
	for (struct list *at = n->blocked.next; at != &n->blocked && !n->is_forsaken;) {
		struct near_out *o = CONTAINER_OF(at, struct near_out, blocked_link);

		at = at->next;
		if (o->adapter_id == 0)
			(void)messages_take(o);
		else if (ring_room(&o->ring, o->blocked_bytes) || o->ring.is_broken)
			unblock(o);
	}
	return n->has_room_again;
}

bool near_await_room(struct near *n)
{
	bool is_full = true;

	for (struct list *at = n->blocked.next; at != &n->blocked; at = at->next) {
		struct near_out *o = CONTAINER_OF(at, struct near_out, blocked_link);

		if (o->adapter_id != 0)
			is_full &= ring_await_room(&o->ring, o->blocked_bytes);
	}
	return is_full;
}

void near_room_used(struct near *n)
{
	n->has_room_again = false;
}

bool near_is_stalled(const struct near *n, uint32_t number)
{
	const struct near_out *o = near_out_find(n, number);

	return n->is_leaving || (o && o->flow >= NEAR_STALLED);
}

bool near_is_stopped(const struct near *n, uint32_t number)
{
	const struct near_out *o = near_out_find(n, number);

	return o && o->flow == NEAR_STOPPED;
}

void near_lose(struct near *n)
{
	n->counts.lost++;
}

void near_leave(struct near *n)
{
	n->is_leaving = true;
	n->has_room_again = true;
}

uint64_t near_due(const struct near *n)
{
	uint64_t due = UINT64_MAX;

	for (struct list *at = n->blocked.next; at != &n->blocked; at = at->next) {
		const struct near_out *o = CONTAINER_OF(at, struct near_out, blocked_link);

		if (o->flow != NEAR_STOPPED && o->flow_due_ns < due)
			due = o->flow_due_ns;
	}
	return due;
}

/* Those that wait for room may look whether it is worth it. */
void near_expire(struct near *n, uint64_t now_ns)
{
	for (struct list *at = n->blocked.next; at != &n->blocked; at = at->next) {
		struct near_out *o = CONTAINER_OF(at, struct near_out, blocked_link);

		if (o->flow == NEAR_STOPPED || o->flow_due_ns > now_ns)
			continue;
		o->flow_due_ns += stop_ns - stall_ns;
		o->flow = o->flow == NEAR_BLOCKED ? NEAR_STALLED : NEAR_STOPPED;
		n->has_room_again = true;
	}
}
