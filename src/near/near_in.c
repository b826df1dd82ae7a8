/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters that send to us. */
#include <stdlib.h>
#include <string.h>

#include "near/near_parts.h"
#include "near/record.h"
#include "wire/iba_icrc.h"

enum {
	MESSAGES_MAX = 16, /* at a time; the system reports what is left */
	TAKES_MAX = 64	   /* records of one ring before the next one has its turn */
};

/* ---- Connections ---------------------------------------------------------------------------- */

void near_in_close(struct near_in *i)
{
	struct near *n = i->near;

	if (n->from == i) {
		n->from = NULL;
		n->taking = 0;
	}
	near_link_close(n, &i->link);
	n->system->ring_unmap(n->options.owner, &i->ring);
	list_remove(&i->listed);
	near_in_ended(n, i->adapter_slot);
	free(i);
	n->counts.ins--;
}

static void refuse(struct near_in *i)
{
	i->near->counts.refused++;
	near_say(i->near, i->link, NEAR_REFUSED);
	near_in_close(i);
}

static void say_taken(struct near_in *i)
{
	const struct near *n = i->near;
	const struct near_message m = { .kind = NEAR_TAKEN,
					.adapter_slot = n->options.adapter_slot,
					.adapter_id = n->options.adapter_id,
					.takes_runs = n->options.takes_runs,
					.descriptors = { n->shown.board_fd, n->shown.marks_fd } };

	(void)n->system->send(i->link, &m);
}

/* False: the ring was refused, and the connection closed. */
static bool offer_take(struct near_in *i, const struct near_message *m)
{
	const struct near *n = i->near;
	bool is_mapped = m->descriptors[0] >= 0 &&
			 n->system->ring_map(n->options.owner, &i->ring, m->descriptors[0]) == 0;

	n->system->done(m);
	if (!is_mapped) {
		refuse(i);
		return false;
	}
	i->adapter_id = m->adapter_id;
	i->adapter_slot = m->adapter_slot;
	near_in_begins(i);
	say_taken(i);
	return true;
}

/* False: the connection is closed. Its packets are kept, if it had a ring. */
static bool message_handle(struct near_in *i, const struct near_message *m)
{
	if (!i->ring.head && m->kind == NEAR_OFFER)
		return offer_take(i, m);
	if (i->ring.head && m->kind == NEAR_WAKE)
		return true;
	i->near->system->done(m);
	if (i->ring.head) {
		i->has_ended = true;
		near_link_close(i->near, &i->link);
	} else {
		refuse(i);
	}
	return false;
}

static void in_ready(void *end)
{
	struct near_in *i = end;
	const struct near *n = i->near;
	struct near_message m = { .kind = NEAR_WAKE };

	for (int left = MESSAGES_MAX; left > 0 && m.kind != NEAR_NONE; left--) {
		n->system->take(i->link, &m);
		if (m.kind != NEAR_NONE && !message_handle(i, &m))
			return;
	}
	/* The thread that rests may not have seen the wake-up, which is taken now. */
	if (i->ring.head && n->is_resting)
		(void)ring_rest(&i->ring);
}

void near_accept(struct near *n, struct near_link *link)
{
	struct near_in *i = n->counts.ins < NEAR_SLOTS_MAX ? calloc(1, sizeof(*i)) : NULL;

	if (!i) {
		near_say(n, link, NEAR_REFUSED);
		n->system->close(link);
		return;
	}
	i->link = link;
	i->near = n;
	list_add_tail(&n->ins, &i->listed);
	n->counts.ins++;
	n->system->watch(link, in_ready, i);
	in_ready(i);
}

/* ---- Packets -------------------------------------------------------------------------------- */

bool near_is_sent_to(const struct near *n)
{
	return n->counts.ins > 0 && !n->is_forsaken;
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
	if (i && i->link && ring_wakes_sender(&i->ring))
		near_say(n, i->link, NEAR_WAKE);
}

/* Of a packet, or of a run. */
static size_t bytes_max(const struct near_in *i, uint16_t run)
{
	return run > 0 && i->near->options.takes_runs ? ring_record_max(&i->ring) : IBA_PACKET_MAX;
}

/* The record is copied before it is checked: the sender may change it. */
static bool record_read(struct near *n, struct near_in *i)
{
	const uint8_t *bytes;
	size_t length = ring_peek(&i->ring, &bytes);
	const struct near_record *shared = (const void *)bytes;
	struct near_record r;

	if (length == 0)
		return false;
	memcpy(&r, shared, sizeof(r));		   /* in the ring, even if less was put */
	atomic_signal_fence(memory_order_seq_cst); /* no compiler reads it a second time */
	if (r.bytes > bytes_max(i, r.run) || ring_round(NEAR_RECORD_BYTES + r.bytes) > length) {
		i->ring.is_broken = true;
		return false;
	}
	n->in = (struct ib_in){
		.bytes = bytes + NEAR_RECORD_BYTES,
		.length = r.bytes,
		.is_ipv6 = r.is_ipv6,
		.from = shared->from, /* read here alone: these two need not be copied twice */
		.to = shared->to,
		.traffic_class = r.traffic_class,
		.hop_limit = r.hop_limit,
		.is_ipv4_word_known = true,
		.ipv4_id = r.ipv4_id,
		.ipv4_fragment = IBA_IPV4_DF,
		.is_near = true,
		.has_no_icrc = !r.has_icrc,
		.run = n->options.takes_runs ? r.run : 0,
	};
	n->in.to.port = IBA_UDP_PORT;
	n->from = i;
	n->taking = NEAR_RECORD_BYTES + r.bytes;
	n->taken++;
	n->counts.packets_in += 1 + n->in.run;
	n->counts.bytes_in += iba_run_bytes(n->in.bytes[0], r.bytes, n->in.run);
	return true;
}

bool near_has_input(const struct near *n)
{
	for (const struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		const struct near_in *i = CONTAINER_OF(at, struct near_in, listed);

		if (i->has_ended || (i->ring.head && !ring_is_empty(&i->ring)))
			return true;
	}
	return false;
}

const struct ib_in *near_next(struct near *n)
{
	struct near_in *again = n->from;
	bool is_its_turn;

	if (n->is_forsaken)
		return NULL;
	take_last(n);
	is_its_turn = again && n->taken < TAKES_MAX;
	if (is_its_turn && record_read(n, again))
		return &n->in;
	turn_end(n);
	/* Most processes have one peer, whose ring is empty now. */
	if (is_its_turn && n->counts.ins == 1 && !again->ring.is_broken && !again->has_ended)
		return NULL;
	/* Bound: each has one look, and those that have nothing left are closed or passed. */
	for (uint32_t left = n->counts.ins; left > 0; left--) {
		struct near_in *i = CONTAINER_OF(list_pop(&n->ins), struct near_in, listed);

		list_add_tail(&n->ins, &i->listed);
		if (i->ring.head && record_read(n, i))
			return &n->in;
		if (i->ring.is_broken) {
			n->counts.refused++;
			near_in_close(i);
		} else if (i->has_ended) {
			near_in_close(i);
		}
	}
	return NULL;
}

/* ---- Sleep ---------------------------------------------------------------------------------- */

void near_stand_by(struct near *n, bool is_polled)
{
	if (!is_polled || !n->is_resting || n->is_forsaken)
		return;
	n->is_resting = false;
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, listed);

		if (i->ring.head)
			ring_rest_end(&i->ring);
	}
}

bool near_rest(struct near *n)
{
	bool is_empty = true;

	if (n->is_forsaken)
		return true;
	if (near_has_input(n))
		return false; /* before any mark, for which senders would wake us */
	n->is_resting = true;
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, listed);

		if (i->ring.head)
			is_empty &= ring_rest(&i->ring);
		is_empty &= !i->has_ended;
	}
	return near_await_room(n) && is_empty;
}
