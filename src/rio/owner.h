/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of directed I/O (D0): decides which requester may do what with the devices of its I/O
 * units, passes allowed requests on as commands, and returns their status. It sees lists, never
 * payload (RIO-01).
 *
 * This is the core: the caller hands in events and carries out the acts that it pulls. Every
 * connection has a number here from the end of its handshake until it closes.
 *
 *	request   fetching -> waiting -> commanded -> saying
 *	              \-----------------------------/
 *
 * A list that does not fit into its message is fetched first. The owner judges only complete lists,
 * and passes on the copy that it judged, so that no process can change the list afterwards
 * (RIO-16).
 *
 * The owner gives each device a number that is unique in the cluster: (number of the I/O unit) <<
 * 16 | (the unit's own device number). An I/O unit that returns with a different set of devices
 * gets a different unit number. So a requester that has not yet heard of the change asks for
 * devices that no longer exist, never for a new device that happens to have an old number.
 */
#pragma once

#include "rio/handshake.h"
#include "rio/list.h"
#include "rio/policy.h"

struct rio_owner;

enum { RIO_OWNER_UNIT_SHIFT = 16 /* in the owner's device numbers */ };

/* A configured peer, for reports. */
struct rio_owner_known {
	struct platform platform;
	enum rio_role role;
	struct rio_bytes name; /* UTF-8, at most RIO_DEVICE_NAME_MAX bytes; may be empty */
};

struct rio_owner_config {
	struct platform self;
	uint32_t requesters_max; /* connected at a time */
	uint32_t iounits_max;
	uint32_t requests_max; /* outstanding per requester; announced in the welcome */
	uint32_t lists_max;    /* lists held at a time that do not fit into a message */
	uint8_t *lists; /* lists_max * RIO_LIST_BYTES_MAX, borrowed; the caller registers them */
	uint64_t lists_address; /* of the first list; I/O units read lists: see RIO_OWNER_EXPOSE */
	uint64_t timeout_ns;	/* for requests that give no timeout */
	uint8_t secret[RIO_KEY_BYTES];	     /* random and secret; tokens are derived from it */
	const struct rio_owner_known *known; /* borrowed; reports list them even when absent */
	uint32_t known_count;
};

/* WEFT_R_BAD_ARGUMENT: a limit is 0. The policy is borrowed and may change between calls. */
enum weft_reason rio_owner_create(const struct rio_owner_config *config,
				  const struct rio_policy *policy, struct rio_owner **owner);
void rio_owner_destroy(struct rio_owner *o);

/* ---- Events --------------------------------------------------------------------------------- */

/*
 * A requester or an I/O unit has completed its handshake; it gets a number. place: the I/O unit's
 * position in the configuration, from 1, of which its device numbers are made; 0 for a requester.
 * WEFT_R_RIO_TWICE: a peer with this platform, or in this place, is connected. WEFT_R_LIMIT: no
 * slot is free, or the slot's former peer has left and the acts that record this are still due.
 * WEFT_R_RIO_UNEXPECTED: the peer is an owner, or an I/O unit whose limits allow no command or no
 * list with a chain pointer.
 */
enum weft_reason rio_owner_came(struct rio_owner *o, const struct rio_handshake *handshake,
				uint32_t place, uint32_t *number);

/* The connection is gone, and with it its number. why: for the log. */
void rio_owner_left(struct rio_owner *o, uint32_t number, enum weft_reason why);

/* Processes a message. After a refusal the caller must disconnect the peer: rio_owner_left(). */
enum weft_reason rio_owner_take(struct rio_owner *o, uint32_t number, const uint8_t *bytes,
				size_t length, uint64_t now_ns);

/* A FETCH has completed. */
void rio_owner_fetched(struct rio_owner *o, uint32_t id, enum weft_reason reason);

/* An EXPOSE has completed; with WEFT_OK, the window's handle. */
void rio_owner_exposed(struct rio_owner *o, uint32_t id, enum weft_reason reason, uint32_t handle);

/* Handles timeouts; rio_owner_due() is when the next one is due. */
void rio_owner_expire(struct rio_owner *o, uint64_t now_ns);
uint64_t rio_owner_due(const struct rio_owner *o);

/* ---- Acts ----------------------------------------------------------------------------------- */

enum rio_owner_act_kind {
	RIO_OWNER_SAY,	     /* send these bytes to this number */
	RIO_OWNER_FETCH,     /* RDMA Read from the requester's memory; completes by id */
	RIO_OWNER_NOTE,	     /* log a decision before carrying out later acts */
	RIO_OWNER_SEND_AWAY, /* disconnect this number: a FETCH from it timed out */
	/*
	 * EXPOSE: bind a window over these bytes of a list, for the QP of this number only, and
	 * call rio_owner_exposed() before pulling the next act. CLOSE: invalidate the window; it
	 * counts as closed when the next act is pulled.
	 */
	RIO_OWNER_EXPOSE,
	RIO_OWNER_CLOSE
};

enum rio_note_kind {
	RIO_NOTE_CAME,
	RIO_NOTE_LEFT,
	RIO_NOTE_ALLOWED, /* a transaction of a request that is allowed as a whole */
	RIO_NOTE_REFUSED, /* a request was refused, for this reason */
	RIO_NOTE_ENDED,	  /* an allowed request ended, with success or for this reason */
	RIO_NOTE_WATCH,	  /* a requester began to read reports, or was denied them */
};

/* One decision, or the outcome of a request. */
struct rio_note {
	enum rio_note_kind kind;
	enum rio_role role;	/* CAME, LEFT: the peer's */
	struct platform who;	/* CAME, LEFT: the peer; else the requester */
	struct platform iounit; /* the request's I/O unit; unit 0: it reached none */
	uint64_t request;	/* the requester's id of the request */
	enum weft_reason reason;
	uint32_t transaction;	   /* the transaction concerned, from 0; ENDED with success: none */
	struct sgl_transaction is; /* it, with the owner's device number; operation 0: none */
	uint32_t transactions;	   /* in the list; 0: the list was incomplete */
	uint32_t rule;		   /* ALLOWED: the rule that allows `is` */
	uint64_t bytes;		   /* ENDED: bytes moved */
};

struct rio_owner_act {
	enum rio_owner_act_kind kind;
	uint32_t number;
	uint8_t *bytes; /* SAY: valid until the next act is pulled; FETCH: until completion */
	size_t length;
	uint32_t id;	 /* FETCH, EXPOSE, CLOSE: the list's slot, below lists_max */
	uint32_t handle; /* FETCH */
	uint64_t remote;
	struct rio_note note;
};

/* Pulls the next act; false: none is due. */
bool rio_owner_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- Statistics ----------------------------------------------------------------------------- */

/* A connected peer. */
struct rio_owner_peer {
	struct platform platform;
	enum rio_role role;
	uint32_t place; /* I/O unit: its position in the configuration */
	uint32_t now;	/* outstanding requests or commands */
	uint64_t requests, refused, failed;
	uint64_t read_bytes, written_bytes; /* moved by the I/O unit, or for the requester */
};

/* The first number in use that is not below this one; UINT32_MAX: none. */
uint32_t rio_owner_next(const struct rio_owner *o, uint32_t number);
void rio_owner_query(const struct rio_owner *o, uint32_t number, struct rio_owner_peer *peer);

/* Is a report due? Then the caller first passes the adapter's byte counts to rio_owner_moved(). */
bool rio_owner_is_inquired(const struct rio_owner *o);
void rio_owner_moved(struct rio_owner *o, const struct rio_moved *moved);

/*
 * The device with this number, if its I/O unit is connected. Its name is valid until the unit
 * leaves.
 */
bool rio_owner_device(const struct rio_owner *o, uint32_t number, struct rio_device *device);
