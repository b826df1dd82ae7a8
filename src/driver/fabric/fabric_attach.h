/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An adapter at a port of a fabric that another process runs (weft fabric run): a connection to
 * that process, and two rings of frames that both share. It takes the place of the sockets of RoCE
 * (driver/udp/udp.h): an adapter has a slot at its port, which is the highest 8 bits of the numbers
 * of its queue pairs, end-to-end contexts and communication ids, and the fabric gives it the frames
 * of these. It has no thread and no lock: the adapter's lock guards all of it.
 *
 * The fabric is trusted with nothing but the frames themselves: what is in the rings is checked.
 */
#pragma once

#include <weft/weft.h>

#include "driver/fabric/attach_message.h"
#include "driver/loop/watch.h"
#include "ib/ib.h"

struct fabric_attach;

struct fabric_attach_config {
	/* Watches a descriptor for these events, 0: no longer; calls its ready(). */
	void (*watch)(void *owner, struct watch *w, uint32_t events);
	/* The port has changed, or the fabric has gone (news 0). NULL: of no interest. */
	void (*changed)(void *owner, uint32_t news);
	void *owner;
	const char *fabric, *node;
	uint32_t port; /* 0: the first that has a cable */
};

/*
 * Where the environment says that this process is in a fabric: WEFT_FABRIC, its name, and
 * WEFT_NODE. False: it is in none.
 */
bool fabric_is_ours(const char **fabric, const char **node);

/* WEFT_OK, or why not: WEFT_R_FABRIC_ABSENT, WEFT_R_FABRIC_NODE, WEFT_R_FABRIC_SLOTS, ... */
enum weft_reason fabric_attach_open(const struct fabric_attach_config *config,
				    struct fabric_attach **attach);
void fabric_attach_close(struct fabric_attach *a);

/* In a child of fork(): closes its copies of the descriptors. Only the close may follow. */
void fabric_attach_abandon(struct fabric_attach *a);

uint8_t fabric_attach_slot(const struct fabric_attach *a);
uint32_t fabric_attach_port(const struct fabric_attach *a);

/* As last told. A port whose fabric has gone is down. */
const struct attach_state *fabric_attach_state(const struct fabric_attach *a);

/* ---- Frames in ------------------------------------------------------------------------------ */

/* The next frame, in shared memory, valid until the next call. NULL: none is there. */
const struct ib_in *fabric_attach_next(struct fabric_attach *a);
bool fabric_attach_has_input(const struct fabric_attach *a);

/*
 * is_polled: fabric_attach_next() and fabric_attach_has_room() are called all the time, so that the
 * fabric need not wake us. Else it does, from the next rest on, which returns false if a frame, or
 * room that was waited for, is there already.
 */
void fabric_attach_stand_by(struct fabric_attach *a, bool is_polled);
bool fabric_attach_rest(struct fabric_attach *a);

/* ---- Frames out ----------------------------------------------------------------------------- */

/*
 * Room for packets one after the other in the ring: sets outs[].room. If there are several, each
 * must have `each` bytes from its BTH on; one alone may have fewer. How many, `count` at most; 0:
 * there is no room now (fabric_attach_is_blocked()). When the fabric has gone there is always some,
 * and what is put there is lost, as at a port that is down: the retries of its sender end.
 */
uint32_t fabric_attach_begin(struct fabric_attach *a, struct ib_out *outs, uint32_t count,
			     size_t each);

/*
 * How many packets of so many bytes from their BTH on a connection should have under way at most:
 * fewer than the ring of an adapter that takes none holds, for then the fabric need not keep them.
 */
uint32_t fabric_attach_window(size_t each);

/* The first of these, in order, have been built, and leave. */
void fabric_attach_end(struct fabric_attach *a, const struct ib_out *outs, uint32_t count);

/* Tells the fabric of them. */
void fabric_attach_flush(struct fabric_attach *a);

/* Whether there was no room; whether there is by now. */
bool fabric_attach_is_blocked(const struct fabric_attach *a);
bool fabric_attach_has_room(struct fabric_attach *a);

/* ---- Services and groups -------------------------------------------------------------------- */

/*
 * Requests for this service come to this adapter, until it was released as often as claimed.
 * WEFT_R_ADDRESS_IN_USE: another adapter of the port has it.
 */
enum weft_reason fabric_attach_claim(struct fabric_attach *a, uint64_t service);
void fabric_attach_release(struct fabric_attach *a, uint64_t service);

/* Frames to the group come, until it was left as often as joined. */
enum weft_reason fabric_attach_join(struct fabric_attach *a, const uint8_t gid[16]);
void fabric_attach_leave(struct fabric_attach *a, const uint8_t gid[16]);

/*
 * Whether either of these has read a wake-up while it waited for its answer, since it was asked
 * last: a thread that rests does not hear of it any more.
 */
bool fabric_attach_was_woken(struct fabric_attach *a);

struct fabric_attach_counts {
	uint64_t frames_in, frames_out, bytes_in, bytes_out;
	uint64_t malformed; /* of frames_in */
	uint64_t calls_in, calls_out;
};

const struct fabric_attach_counts *fabric_attach_counts(const struct fabric_attach *a);
