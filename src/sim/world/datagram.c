/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/world/datagram.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/world/sim_trace.h"

enum { CORRUPT_BYTES_MAX = 4 };

struct sim_packet {
	struct list link;
	uint64_t arrival_ns;
	uint8_t *bytes;
	size_t length;
};

int sim_datagram_init(struct sim_datagram *d, struct world *w,
		      const struct sim_datagram_options *options)
{
	CHECK(options->datagrams_max > 0 && options->bytes_max > 0);
	*d = (struct sim_datagram){ .bytes_max = options->bytes_max };
	sim_line_init(&d->line, w, options->id);
	d->line.faults = options->faults;
	d->arrived.event = options->arrived;
	list_init(&d->flying);
	list_init(&d->unused);
	d->packets = calloc(options->datagrams_max, sizeof(*d->packets));
	/* Megabytes, mostly untouched in a short run: only sent bytes are ever read. */
	d->bytes = malloc((size_t)options->datagrams_max * options->bytes_max);
	if (!d->packets || !d->bytes) {
		sim_datagram_fini(d);
		return -1;
	}
	for (uint32_t i = 0; i < options->datagrams_max; i++) {
		d->packets[i].bytes = d->bytes + (size_t)i * options->bytes_max;
		list_add_tail(&d->unused, &d->packets[i].link);
	}
	return 0;
}

void sim_datagram_fini(struct sim_datagram *d)
{
	world_alarm_cancel(d->line.world, &d->arrived);
	free(d->packets);
	free(d->bytes);
	*d = (struct sim_datagram){ 0 };
}

static struct sim_packet *packet_of(struct list *link)
{
	return CONTAINER_OF(link, struct sim_packet, link);
}

/* Inserts by time of arrival, after equal times. Bound: the datagrams in the pipe. */
static void packet_fly(struct sim_datagram *d, struct sim_packet *packet)
{
	struct list *after = d->flying.prev;

	while (after != &d->flying && packet_of(after)->arrival_ns > packet->arrival_ns)
		after = after->prev;
	list_add_tail(after->next, &packet->link);
}

/* The first changed byte is never changed back, so the datagram always differs. */
static void packet_corrupt(struct sim_datagram *d, struct sim_packet *packet)
{
	struct prng *p = &d->line.prng;
	uint32_t changes = 1 + prng_below(p, CORRUPT_BYTES_MAX);
	size_t first;

	if (packet->length == 0)
		return;
	first = prng_below(p, (uint32_t)packet->length);
	packet->bytes[first] ^= (uint8_t)(1 + prng_below(p, UINT8_MAX));
	for (uint32_t i = 1; i < changes; i++) {
		size_t at = prng_below(p, (uint32_t)packet->length);

		if (at != first)
			packet->bytes[at] ^= (uint8_t)(1 + prng_below(p, UINT8_MAX));
	}
	d->counts.corrupted++;
	sim_line_trace(&d->line, SIM_TRACE_CORRUPTED, packet->length, first);
}

static void packet_hold_back(struct sim_datagram *d, struct sim_packet *packet)
{
	uint64_t extra_ns = sim_draw(&d->line.prng, 1, d->line.faults.reorder_max_ns);

	packet->arrival_ns += extra_ns;
	d->counts.reordered++;
	sim_line_trace(&d->line, SIM_TRACE_REORDERED, packet->length, extra_ns);
}

/*
 * A dropped datagram uses none of the sender's line time: else its backlog could grow without
 * bound.
 */
static void copy_send(struct sim_datagram *d, const uint8_t *bytes, size_t length)
{
	const struct sim_faults *f = &d->line.faults;
	struct sim_packet *packet;

	if (sim_line_is_cut(&d->line)) {
		d->counts.dropped_cut++;
		sim_line_trace(&d->line, SIM_TRACE_DROPPED_CUT, length, 0);
		return;
	}
	if (prng_chance(&d->line.prng, f->loss_ppm)) {
		d->counts.lost++;
		sim_line_trace(&d->line, SIM_TRACE_LOST, length, 0);
		return;
	}
	if (list_is_empty(&d->unused)) {
		d->counts.dropped_full++;
		sim_line_trace(&d->line, SIM_TRACE_DROPPED_FULL, length, 0);
		return;
	}
	packet = packet_of(list_pop(&d->unused));
	packet->length = length;
	if (length > 0)
		memcpy(packet->bytes, bytes, length);
	packet->arrival_ns = sim_line_arrival(&d->line, (uint32_t)length);
	if (prng_chance(&d->line.prng, f->corrupt_ppm))
		packet_corrupt(d, packet);
	if (prng_chance(&d->line.prng, f->reorder_ppm) && f->reorder_max_ns > 0)
		packet_hold_back(d, packet);
	packet_fly(d, packet);
}

/* A clog also holds back datagrams due during it. */
static uint64_t next_arrival_ns(struct sim_datagram *d)
{
	uint64_t arrival_ns;

	if (sim_datagram_is_empty(d))
		return WORLD_NEVER;
	arrival_ns = packet_of(d->flying.next)->arrival_ns;
	return arrival_ns > d->line.clogged_until_ns ? arrival_ns : d->line.clogged_until_ns;
}

static void arm(struct sim_datagram *d)
{
	world_alarm_set(d->line.world, &d->arrived, next_arrival_ns(d));
}

/* Datagrams that had arrived before the cut stay. Bound: the datagrams in the pipe. */
static void drop_flying(struct sim_datagram *d)
{
	while (!sim_datagram_is_empty(d)) {
		struct sim_packet *last = packet_of(d->flying.prev);

		if (last->arrival_ns <= d->line.world->now_ns && !sim_line_is_clogged(&d->line))
			return;
		list_remove(&last->link);
		list_add_tail(&d->unused, &last->link);
		d->counts.dropped_cut++;
		sim_line_trace(&d->line, SIM_TRACE_DROPPED_CUT, last->length, 0);
	}
}

void sim_datagram_send(struct sim_datagram *d, const uint8_t *bytes, size_t length)
{
	CHECK(length <= d->bytes_max);
	d->counts.sent++;
	if (sim_line_strain(&d->line))
		drop_flying(d);
	copy_send(d, bytes, length);
	if (prng_chance(&d->line.prng, d->line.faults.duplicate_ppm)) {
		d->counts.duplicated++;
		sim_line_trace(&d->line, SIM_TRACE_DUPLICATED, length, 0);
		copy_send(d, bytes, length);
	}
	arm(d);
}

bool sim_datagram_recv(struct sim_datagram *d, uint8_t *bytes, size_t bytes_max, size_t *length)
{
	struct sim_packet *packet;

	if (next_arrival_ns(d) > d->line.world->now_ns) {
		arm(d);
		return false;
	}
	packet = packet_of(list_pop(&d->flying));
	CHECK(packet->length <= bytes_max);
	if (packet->length > 0)
		memcpy(bytes, packet->bytes, packet->length);
	*length = packet->length;
	list_add_tail(&d->unused, &packet->link);
	d->counts.delivered++;
	sim_line_trace(&d->line, SIM_TRACE_DELIVERED, packet->length, 0);
	arm(d);
	return true;
}

void sim_datagram_cut(struct sim_datagram *d)
{
	sim_line_cut(&d->line, WORLD_NEVER);
	drop_flying(d);
	arm(d);
}

void sim_datagram_heal(struct sim_datagram *d)
{
	sim_line_heal(&d->line);
}
