/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The I/O unit of directed I/O (D0): takes commands from its one owner, moves data straight between
 * its devices and the memory that lists name, and says how it went. It sees no socket and no clock:
 * what has come is handed in, what is to be done is pulled as acts and carried out by the caller.
 *
 * A command is checked whole before anything of it moves (RIO-16). Its transactions are carried out
 * one after the other, each in pieces, several of which are under way at a time: read from the
 * device, then written to memory; or read from memory, then written to the device. Commands do not
 * wait for each other.
 *
 * A Write that has ended is in the hands of the transport, not yet in the other side's memory. The
 * status goes another way, over the owner, and must not be there first. So a requester that was
 * written to is told over the same connection, behind the data, and the owner's word is not enough
 * for it. Other platforms that were written to are asked to settle before anything is said.
 *
 * A command that is given up (it is late or cancelled, or its owner is gone) ends although a device
 * still works for it; none of it is given to a device afterwards. A later command that touches the
 * same blocks begins when the device has done: docs/rio.md, "What a write promises", rule 2.
 */
#pragma once

#include "rio/session.h"
#include "store/store.h"

struct rio_iounit;

struct rio_iounit_config {
	struct platform self;
	uint32_t devices_max;
	uint32_t commands_max;	/* under way at a time: what the welcome says */
	uint32_t platforms_max; /* whose memory may be named */
	uint32_t moves_max;	/* under way at a time, with one platform */
	uint32_t pieces_max;	/* buffers */
	uint32_t piece_bytes;	/* of each of them; a multiple of 4096 */
	uint8_t *buffers;	/* pieces_max * piece_bytes, borrowed; the caller registers them */
	uint64_t timeout_ns;	/* of commands that name none */
};

/* WEFT_R_BAD_ARGUMENT: a limit is 0, or piece_bytes is not as above. */
enum weft_reason rio_iounit_create(const struct rio_iounit_config *config,
				   struct rio_iounit **iounit);

/* Nothing of it is under way: rio_iounit_is_idle(). */
void rio_iounit_destroy(struct rio_iounit *u);

/* Neither a command, nor a move or device request whose end is awaited. */
bool rio_iounit_is_idle(const struct rio_iounit *u);

/*
 * A device, borrowed, under a number of one's choice; before the owner comes. Its instance is that
 * of an opening before only if nothing acknowledged can have been lost since.
 */
enum weft_reason rio_iounit_add_device(struct rio_iounit *u, uint32_t number, const char *name,
				       struct store *store, uint64_t instance);

/* ---- What has come -------------------------------------------------------------------------- */

/*
 * The owner has greeted, or is gone. What it had ordered and has not ended is given up; a new one
 * is told of the devices when nothing moves for the former any more.
 */
void rio_iounit_owner_came(struct rio_iounit *u, struct platform owner,
			   const struct rio_session *session);
void rio_iounit_owner_left(struct rio_iounit *u);

/*
 * This unit is about to end: what the owner is to hear of later, with others, is said now; and so
 * is what ends from now on.
 */
void rio_iounit_hurry(struct rio_iounit *u);

/* A message of the owner. After a refusal the owner must be sent away. */
enum weft_reason rio_iounit_take(struct rio_iounit *u, const uint8_t *bytes, size_t length,
				 uint64_t now_ns);

/* How dialling went; with WEFT_OK, what the other side answered as private data. */
void rio_iounit_dialled(struct rio_iounit *u, struct platform platform, enum weft_reason reason,
			const struct rio_bytes *answer);

/* A data connection is gone. Moves over it have ended, or will. */
void rio_iounit_lost(struct rio_iounit *u, struct platform platform);

/* An act with an id has ended. */
void rio_iounit_ended(struct rio_iounit *u, uint32_t id, enum weft_reason reason);

/*
 * Takes what devices have done, and what is late: to be called after anything was handed in, and
 * when a device has something. When this is due by time alone.
 */
void rio_iounit_progress(struct rio_iounit *u, uint64_t now_ns);
uint64_t rio_iounit_due(const struct rio_iounit *u);

/* ---- What is to be done --------------------------------------------------------------------- */

enum rio_act_kind {
	RIO_ACT_SAY,	 /* these bytes to the owner */
	RIO_ACT_DIAL,	 /* a data connection, with these bytes as private data */
	RIO_ACT_HANG_UP, /* what is under way over that connection ends */
	RIO_ACT_WRITE,	 /* bytes to the platform's memory; ends with its id */
	RIO_ACT_READ,	 /* bytes from there; ends with its id */
	RIO_ACT_SETTLE,	 /* all that was written there before is there; ends with its id */
	RIO_ACT_FETCH,	 /* like READ, from the owner's memory: a part of a list */
	RIO_ACT_TELL,	 /* these bytes to the platform, behind all that was written there */
};

struct rio_act {
	enum rio_act_kind kind;
	uint32_t id;
	struct platform platform;
	struct rio_address address; /* DIAL */
	uint8_t *bytes; /* good until the next act is asked for; of moves: until ended */
	size_t length;
	uint32_t handle;
	uint64_t remote;
};

/* The next one; false if there is none at present. */
bool rio_iounit_act(struct rio_iounit *u, struct rio_act *act);

/* ---- For people ----------------------------------------------------------------------------- */

struct rio_iounit_counts {
	uint64_t commands, refused, failed;
	uint64_t read_bytes, written_bytes; /* of devices, moved */
	uint64_t dialled;
	uint32_t commands_now, pieces_now, platforms_now;
};

void rio_iounit_count(const struct rio_iounit *u, struct rio_iounit_counts *counts);
