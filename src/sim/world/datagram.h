/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A one-way pipe for datagrams between two nodes. Each datagram arrives whole or not at all; struct
 * sim_faults says what may happen to it in transit. Without faults datagrams arrive at once, in
 * order.
 *
 * The pipe raises an event when a datagram has arrived; the receiver then pulls. If the receiver
 * leaves some, the event repeats after each pull until none is left. An event may be spurious.
 *
 * Invariant: sent + duplicated = delivered + lost + dropped_full + dropped_cut + in the pipe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sim/world/fault.h"

struct sim_datagram_options {
	uint32_t id;		    /* the pipe's, in the trace */
	struct world_event arrived; /* raised for the receiver */
	struct sim_faults faults;
	uint32_t datagrams_max; /* capacity of the pipe; further datagrams are dropped */
	uint32_t bytes_max;	/* per datagram */
};

struct sim_datagram_counts {
	uint64_t sent;
	uint64_t delivered;
	uint64_t lost;
	uint64_t duplicated;
	uint64_t reordered; /* delayed; not all of them are overtaken */
	uint64_t corrupted;
	uint64_t dropped_full;
	uint64_t dropped_cut;
};

struct sim_packet;

/* Must not be moved or copied after initialisation. */
struct sim_datagram {
	struct sim_line line;
	struct sim_datagram_counts counts;
	struct world_alarm arrived;
	struct list flying; /* packets, sorted by time of arrival */
	struct list unused;
	struct sim_packet *packets;
	uint8_t *bytes;
	uint32_t bytes_max;
};

/* 0, or -1: out of memory. */
int sim_datagram_init(struct sim_datagram *d, struct world *w,
		      const struct sim_datagram_options *options);
void sim_datagram_fini(struct sim_datagram *d);

/* Sends a datagram of at most bytes_max bytes. As on a real wire, the sender gets no feedback. */
void sim_datagram_send(struct sim_datagram *d, const uint8_t *bytes, size_t length);

/* Takes the earliest arrived datagram into bytes[bytes_max]. False: there is none. */
bool sim_datagram_recv(struct sim_datagram *d, uint8_t *bytes, size_t bytes_max, size_t *length);

/*
 * Partition: datagrams in transit are lost, and so is everything sent until the pipe is healed. For
 * tests that say when: worlds lose by chance.
 */
void sim_datagram_cut(struct sim_datagram *d);
void sim_datagram_heal(struct sim_datagram *d);

/* Nothing is in transit, and nothing waits to be pulled. */
static inline bool sim_datagram_is_empty(const struct sim_datagram *d)
{
	return list_is_empty(&d->flying);
}
