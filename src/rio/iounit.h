/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The I/O unit of directed I/O (D0): takes commands from its one owner, moves data directly between
 * its devices and the memory that the lists name, and reports the outcome. It uses no socket and no
 * clock: the caller hands in events and the time, and carries out the acts that it pulls.
 *
 * A command's list is checked completely before any of its data moves (RIO-16). Its transactions
 * run one after the other. Each is cut into pieces, several of which are in progress at a time:
 * read from the device, then written to memory; or read from memory, then written to the device.
 * Different commands run concurrently.
 *
 * A completed RDMA Write has been handed to the transport but may not have reached the peer's
 * memory. The status takes another route, via the owner, and must not overtake the data. So the
 * unit notifies a requester that it wrote to over the same data connection, behind the data; the
 * requester does not rely on the owner's status alone. For other platforms that it wrote to, the
 * unit waits until the data is placed (SETTLE) before it sends any status.
 *
 * A command that is abandoned (timed out, cancelled, or its owner has left) ends even while a
 * device still works for it; the unit then submits no more of it to a device. A later command that
 * touches the same blocks starts when the device is finished: docs/rio.md, "What a write promises",
 * rule 2.
 */
#pragma once

#include "rio/session.h"
#include "store/store.h"

struct rio_iounit;

struct rio_iounit_config {
	struct platform self;
	uint32_t devices_max;
	uint32_t commands_max;	/* outstanding at a time; announced in the welcome */
	uint32_t platforms_max; /* whose memory commands may name */
	uint32_t moves_max;	/* RDMA operations in progress at a time, per platform */
	uint32_t pieces_max;	/* buffers */
	uint32_t piece_bytes;	/* per buffer; a multiple of 4096 */
	uint8_t *buffers;	/* pieces_max * piece_bytes, borrowed; the caller registers them */
	uint64_t timeout_ns;	/* for commands that give no timeout */
	uint64_t own_bytes;	/* RIO-14: memory of its own that lists may name, from 0 on */
};

/* WEFT_R_BAD_ARGUMENT: a limit is 0, or piece_bytes is not a multiple of 4096. */
enum weft_reason rio_iounit_create(const struct rio_iounit_config *config,
				   struct rio_iounit **iounit);

/* Only when rio_iounit_is_idle(). */
void rio_iounit_destroy(struct rio_iounit *u);

/* No command, RDMA operation or device request is in progress. */
bool rio_iounit_is_idle(const struct rio_iounit *u);

/*
 * Adds a device, borrowed, under a number that the caller chooses; only before the owner connects.
 * The instance may equal that of an earlier opening only if no acknowledged write can have been
 * lost since then.
 */
enum weft_reason rio_iounit_add_device(struct rio_iounit *u, uint32_t number, const char *name,
				       struct store *store, uint64_t instance);

/* ---- Events --------------------------------------------------------------------------------- */

/*
 * The owner has completed the handshake, or has left. The unit abandons unfinished commands of the
 * former owner. It announces its devices to a new owner once no data moves for the former one.
 */
void rio_iounit_owner_came(struct rio_iounit *u, struct platform owner,
			   const struct rio_session *session);
void rio_iounit_owner_left(struct rio_iounit *u);

/*
 * The process is about to exit: completion notices that are held back for batching go to the owner
 * now, and later ones without delay.
 */
void rio_iounit_hurry(struct rio_iounit *u);

/* Processes a message of the owner. After a refusal the caller must disconnect the owner. */
enum weft_reason rio_iounit_take(struct rio_iounit *u, const uint8_t *bytes, size_t length,
				 uint64_t now_ns);

/* The outcome of a DIAL; with WEFT_OK, the private data that the platform answered. */
void rio_iounit_dialled(struct rio_iounit *u, struct platform platform, enum weft_reason reason,
			const struct rio_bytes *answer);

/* A data connection is gone. RDMA operations on it have ended or will end. */
void rio_iounit_lost(struct rio_iounit *u, struct platform platform);

/* The act with this id has completed. */
void rio_iounit_ended(struct rio_iounit *u, uint32_t id, enum weft_reason reason);

/*
 * Collects completions of devices and timeouts. To be called after every event, and when a device
 * has a completion. rio_iounit_due() says when a call becomes due by time alone.
 */
void rio_iounit_progress(struct rio_iounit *u, uint64_t now_ns);
uint64_t rio_iounit_due(const struct rio_iounit *u);

/* ---- Acts ----------------------------------------------------------------------------------- */

enum rio_act_kind {
	RIO_ACT_SAY,	 /* send these bytes to the owner */
	RIO_ACT_DIAL,	 /* open a data connection, with these bytes as private data */
	RIO_ACT_HANG_UP, /* close the data connection; operations on it then end */
	RIO_ACT_WRITE,	 /* RDMA Write to the platform's memory; completes by id */
	RIO_ACT_READ,	 /* RDMA Read from the platform's memory; completes by id */
	RIO_ACT_SETTLE,	 /* confirm that earlier writes have been placed; completes by id */
	RIO_ACT_FETCH,	 /* READ of a part of a list from the owner's memory */
	RIO_ACT_TELL,	 /* send these bytes to the platform, behind earlier writes */
};

struct rio_act {
	enum rio_act_kind kind;
	uint32_t id;
	struct platform platform;
	struct rio_address address; /* DIAL */
	uint8_t *bytes;		    /* valid until the next pull; with an id: until completion */
	size_t length;
	uint32_t handle; /* of the unit's own memory: 0, and remote counts from its beginning */
	uint64_t remote;
};

/* Pulls the next act; false: none is due. */
bool rio_iounit_act(struct rio_iounit *u, struct rio_act *act);
