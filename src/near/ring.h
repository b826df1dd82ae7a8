/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A ring of packets in memory that two processes share: one puts, the other takes. Packets lie in
 * one piece: the data is mapped twice, one copy behind the other. Who makes and maps the memory is
 * not here: struct near_system.
 *
 * Neither end trusts what the other writes. Counters out of range and records that do not fit end
 * the ring (is_broken); the memory cannot shrink, so no access faults.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

enum { RING_BYTES_MIN = 1 << 15, RING_BYTES_MAX = 1 << 19, RING_ALIGN = 16, RING_LINE_BYTES = 64 };

/* How far ahead of its record the sender asks for two cache lines: a few small records. */
enum { RING_AHEAD_BYTES = 512 };

/* Each counter has a cache line of its own: it is written by one end alone. */
struct ring_head {
	_Atomic uint64_t maker;				       /* where its maker has mapped it */
	_Alignas(RING_LINE_BYTES) _Atomic uint64_t put;	       /* the sender's */
	_Alignas(RING_LINE_BYTES) _Atomic uint64_t taken;      /* the receiver's */
	_Alignas(RING_LINE_BYTES) _Atomic uint32_t is_resting; /* the receiver sleeps */
	_Alignas(RING_LINE_BYTES) _Atomic uint32_t is_waiting; /* the sender waits for room */
};

enum ring_point {
	RING_PUT_READ,
	RING_PUT_WRITE,
	RING_TAKEN_READ,
	RING_TAKEN_WRITE,
	RING_WRITTEN /* either */
};

struct ring {
	struct ring_head *head; /* shared; NULL: not mapped */
	uint8_t *data;		/* shared: `bytes`, twice */
	uint32_t bytes;		/* a power of two */
	uint64_t own;		/* bytes that this end has ever put, or taken */
	uint64_t other;		/* the same of the other end, as last seen */
	uint64_t calm;		/* receiver: `own` when the sender was last seen not to wait */
	bool is_broken;
	/*
	 * Called after the other end's counter was read, and before and after the own one is
	 * written: for the simulator, to let other processes run there, and for the thread
	 * sanitizer, to know what the counters order. NULL: not called.
	 */
	void (*hook)(const struct ring *r, enum ring_point point);
	void *owner; /* of the hook */
};

static inline void ring_hook(const struct ring *r, enum ring_point point)
{
	if (__builtin_expect(r->hook != NULL, 0))
		r->hook(r, point);
}

/* The bytes of a record, rounded up. */
static inline size_t ring_round(size_t bytes)
{
	return (bytes + RING_ALIGN - 1) & ~(size_t)(RING_ALIGN - 1);
}

/* ---- The sender ----------------------------------------------------------------------------- */

/* The largest record: several have room at a time. */
static inline size_t ring_record_max(const struct ring *r)
{
	return r->bytes / 4;
}

static inline uint64_t ring_used(const struct ring *r)
{
	return r->own - r->other;
}

/* What the receiver has taken by now. */
static inline void ring_see_taken(struct ring *r)
{
	r->other = atomic_load_explicit(&r->head->taken, memory_order_acquire);
	ring_hook(r, RING_TAKEN_READ);
	r->is_broken |= ring_used(r) > r->bytes;
}

static inline bool ring_has_room(const struct ring *r, size_t bytes)
{
	return !r->is_broken && ring_used(r) + ring_round(bytes) <= r->bytes;
}

/* Room for a record of so many bytes; NULL: not now. */
static inline uint8_t *ring_room(struct ring *r, size_t bytes)
{
	CHECK(bytes <= ring_record_max(r));
	if (!ring_has_room(r, bytes))
		ring_see_taken(r);
	return ring_has_room(r, bytes) ? r->data + r->own % r->bytes : NULL;
}

/*
 * The record in that room is complete; ring_show() follows, behind it or behind the next ones. The
 * receiver's cache has the lines of old records, and a store would wait for each of them: they are
 * asked for ahead.
 */
static inline void ring_add(struct ring *r, size_t bytes)
{
	r->own += ring_round(bytes);
	__builtin_prefetch(r->data + (r->own + RING_AHEAD_BYTES) % r->bytes, 1);
	__builtin_prefetch(r->data + (r->own + RING_AHEAD_BYTES + RING_LINE_BYTES) % r->bytes, 1);
}

/* The receiver may take what was added. */
static inline void ring_show(struct ring *r)
{
	ring_hook(r, RING_PUT_WRITE);
	atomic_store_explicit(&r->head->put, r->own, memory_order_release);
	ring_hook(r, RING_WRITTEN);
}

/* Both. */
static inline void ring_put(struct ring *r, size_t bytes)
{
	ring_add(r, bytes);
	ring_show(r);
}

/*
 * After ring_put(): whether the receiver rests, and has to be woken. True only once for each time
 * that it began to rest. The fence pairs with that of ring_rest(): one end sees what the other has
 * written.
 */
static inline bool ring_wakes_receiver(struct ring *r)
{
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&r->head->is_resting, memory_order_relaxed) &&
	       atomic_exchange(&r->head->is_resting, 0) != 0;
}

/* After ring_room() returned NULL: the receiver will wake us. False: there is room by now. */
static inline bool ring_await_room(struct ring *r, size_t bytes)
{
	atomic_store(&r->head->is_waiting, 1);
	atomic_thread_fence(memory_order_seq_cst);
	ring_see_taken(r);
	if (!ring_has_room(r, bytes) && !r->is_broken)
		return true;
	atomic_store(&r->head->is_waiting, 0);
	return false;
}

/* ---- The receiver --------------------------------------------------------------------------- */

/* Bytes that the sender said it put, and that were not taken. Its word is not trusted. */
static inline size_t ring_known(struct ring *r)
{
	r->is_broken |= r->other - r->own > r->bytes;
	return r->is_broken ? 0 : (size_t)(r->other - r->own);
}

/* How many bytes of records have been put by now, and not been taken. */
static inline size_t ring_left(struct ring *r)
{
	r->other = atomic_load_explicit(&r->head->put, memory_order_acquire);
	ring_hook(r, RING_PUT_READ);
	return ring_known(r);
}

/* The bytes of the oldest records, not taken yet, and their number; 0: there is none. */
static inline size_t ring_peek(struct ring *r, const uint8_t **bytes)
{
	*bytes = r->data + r->own % r->bytes;
	return r->other == r->own ? ring_left(r) : ring_known(r);
}

/* Whether ring_peek() would find nothing. */
static inline bool ring_is_empty(const struct ring *r)
{
	return atomic_load_explicit(&r->head->put, memory_order_relaxed) == r->own;
}

/* So many of them have been read. */
static inline void ring_take(struct ring *r, size_t bytes)
{
	r->own += ring_round(bytes);
	ring_hook(r, RING_TAKEN_WRITE);
	atomic_store_explicit(&r->head->taken, r->own, memory_order_release);
	ring_hook(r, RING_WRITTEN);
}

/* Rests: the next record wakes us. False: there is one already. */
static inline bool ring_rest(struct ring *r)
{
	const uint8_t *bytes;

	atomic_store_explicit(&r->head->is_resting, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return ring_peek(r, &bytes) == 0;
}

static inline void ring_rest_end(struct ring *r)
{
	atomic_store_explicit(&r->head->is_resting, 0, memory_order_relaxed);
}

/*
 * After ring_take(): whether the sender waits for room, and has to be woken. True only once: when
 * the ring is half empty, so that the sender has much to do at once. The fence pairs with that of
 * ring_await_room(), and is dear. A sender that began to wait after `calm` knew that this was
 * taken, and waits because more than half of the ring lies behind that: before, it does not wait.
 */
static inline bool ring_wakes_sender(struct ring *r)
{
	if (r->other - r->calm <= r->bytes / 2)
		return false;
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&r->head->is_waiting, memory_order_relaxed)) {
		r->calm = r->own;
		return false;
	}
	return r->other - r->own <= r->bytes / 2 && atomic_exchange(&r->head->is_waiting, 0) != 0;
}
