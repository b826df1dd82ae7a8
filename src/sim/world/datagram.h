/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pipe for datagrams, one way, between two nodes. Each arrives whole or not at all, and what may
 * happen to it on the way is in struct sim_faults. Without faults they arrive at once, in order.
 *
 * The pipe raises an event when a datagram has arrived; the receiver then pulls. If it leaves some,
 * the event comes again after each pull until none is left. An event may find nothing.
 *
 * At any time: sent + duplicated = delivered + lost + dropped_full + dropped_cut + in the pipe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sim/world/fault.h"

struct sim_datagram_options {
	uint32_t id;		    /* of the pipe, in the trace */
	struct world_event arrived; /* raised for the receiver */
	struct sim_faults faults;
	uint32_t datagrams_max; /* in the pipe at a time; one more is dropped */
	uint32_t bytes_max;	/* of one datagram */
};

struct sim_datagram_counts {
	uint64_t sent;
	uint64_t delivered;
	uint64_t lost;
	uint64_t duplicated;
	uint64_t reordered; /* held back; not all that are held back are overtaken */
	uint64_t corrupted;
	uint64_t dropped_full;
	uint64_t dropped_cut;
};

struct sim_packet;

/* Must stay where it was initialised. */
struct sim_datagram {
	struct sim_line line;
	struct sim_datagram_counts counts;
	struct world_alarm arrived;
	struct list flying; /* packets by time of arrival */
	struct list unused;
	struct sim_packet *packets;
	uint8_t *bytes;
	uint32_t bytes_max;
};

/* 0, or -1 when memory is short. */
int sim_datagram_init(struct sim_datagram *d, struct world *w,
		      const struct sim_datagram_options *options);
void sim_datagram_fini(struct sim_datagram *d);

/* Sends one of at most bytes_max bytes. As on a real wire, the sender learns nothing. */
void sim_datagram_send(struct sim_datagram *d, const uint8_t *bytes, size_t length);

/* Takes the earliest that has arrived into bytes[bytes_max]. False when there is none. */
bool sim_datagram_recv(struct sim_datagram *d, uint8_t *bytes, size_t bytes_max, size_t *length);

/* Partition: what is on the way is lost, and so is what is sent, until the pipe is healed. */
void sim_datagram_cut(struct sim_datagram *d);
void sim_datagram_heal(struct sim_datagram *d);

/* True when nothing is on the way and nothing waits to be pulled. */
static inline bool sim_datagram_is_empty(const struct sim_datagram *d)
{
	return list_is_empty(&d->flying);
}
