/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets in memory that two processes share: one puts, the other takes. Packets lie in
 * one piece: the data is mapped twice, one copy behind the other.
 *
 * Neither end trusts what the other writes. Counters out of range and records that do not fit end
 * the ring (is_broken); the memory cannot shrink, so no access faults.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring_head;

struct ring {
	struct ring_head *head; /* shared; NULL: not mapped */
	uint8_t *data;		/* shared: `bytes`, twice */
	uint32_t bytes;		/* a power of two */
	uint64_t own;		/* bytes that this end has ever put, or taken */
	uint64_t other;		/* the same of the other end, as last seen */
	bool is_broken;
};

enum { RING_BYTES_MIN = 1 << 15, RING_BYTES_MAX = 1 << 19, RING_ALIGN = 16 };

/*
 * Makes a ring for its sender: of so many bytes, a power of two within these bounds, or of a page
 * if that is more. A descriptor of it for the receiver, or a negative errno.
 */
int ring_make(struct ring *r, uint32_t bytes);

/* Maps the ring of a sender. 0 or a negative errno: -EPROTO if it is none. Keeps no descriptor. */
int ring_map(struct ring *r, int fd);
void ring_unmap(struct ring *r);

/* ---- The sender ----------------------------------------------------------------------------- */

/* The largest record: several have room at a time. */
static inline size_t ring_record_max(const struct ring *r)
{
	return r->bytes / 4;
}

/* Room for a record of so many bytes; NULL: not now. */
uint8_t *ring_room(struct ring *r, size_t bytes);

/* The record in that room is complete: the receiver may take it. */
void ring_put(struct ring *r, size_t bytes);

/*
 * After ring_put(): whether the receiver rests, and has to be woken. True only once for each time
 * that it began to rest.
 */
bool ring_wakes_receiver(struct ring *r);

/* After ring_room() returned NULL: the receiver will wake us. False: there is room by now. */
bool ring_await_room(struct ring *r, size_t bytes);

/* ---- The receiver --------------------------------------------------------------------------- */

/* The bytes of the oldest records, not taken yet, and their number; 0: there is none. */
size_t ring_peek(struct ring *r, const uint8_t **bytes);

/* Whether ring_peek() would find nothing. */
bool ring_is_empty(const struct ring *r);

/* So many of them have been read. */
void ring_take(struct ring *r, size_t bytes);

/* Rests: the next record wakes us. False: there is one already. */
bool ring_rest(struct ring *r);
void ring_rest_end(struct ring *r);

/* After ring_take(): whether the sender waits for room, and has to be woken. True only once. */
bool ring_wakes_sender(struct ring *r);

/* The bytes of a record, rounded up. */
static inline size_t ring_round(size_t bytes)
{
	return (bytes + RING_ALIGN - 1) & ~(size_t)(RING_ALIGN - 1);
}
