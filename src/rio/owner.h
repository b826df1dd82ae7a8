/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of directed I/O (D0): decides who may do what with the devices of its I/O units, hands
 * on what it allows, and says how it went. No payload comes near it (RIO-01): it sees lists.
 *
 * Its core: what has come is handed in, what is to be done is pulled as acts. Every connection that
 * has greeted has a number here, as long as it lasts.
 *
 *	request   fetching -> waiting -> commanded -> saying
 *	              \-----------------------------/
 *
 * A list that does not lie in its message is fetched first, checked whole, and judged whole; what
 * is handed on is the copy that was judged, so nobody can change it afterwards (RIO-16).
 *
 * Devices have numbers of the owner's, one for each in the cluster: (number of the I/O unit) << 16
 * | (the unit's own number). An I/O unit that comes back with other devices than it had gets
 * another number here: whoever has not heard of that yet asks for devices that are not there any
 * more, and never for one that only has the number of the former.
 */
#pragma once

#include "rio/handshake.h"
#include "rio/list.h"
#include "rio/policy.h"

struct rio_owner;

enum { RIO_OWNER_UNIT_SHIFT = 16 /* of the owner's device numbers */ };

/* Somebody whom the owner knows, for reports. */
struct rio_owner_known {
	struct platform platform;
	enum rio_role role;
	struct rio_bytes name; /* UTF-8, at most RIO_DEVICE_NAME_MAX; may be empty */
};

struct rio_owner_config {
	struct platform self;
	uint32_t requesters_max; /* at a time */
	uint32_t iounits_max;
	uint32_t requests_max; /* of one requester at a time: what its welcome says */
	uint32_t lists_max;    /* at a time, of those that do not fit into a message */
	uint8_t *lists; /* lists_max * RIO_LIST_BYTES_MAX, borrowed; the caller registers them */
	uint64_t lists_address; /* of the first, for those who read them: see RIO_OWNER_EXPOSE */
	uint64_t timeout_ns;	/* of requests that name none */
	uint8_t secret[RIO_KEY_BYTES];	     /* random, and nobody else's: tokens are made of it */
	const struct rio_owner_known *known; /* borrowed; reports show them also if not here */
	uint32_t known_count;
};

/* WEFT_R_BAD_ARGUMENT: a limit is 0. The policy is borrowed, and may change between calls. */
enum weft_reason rio_owner_create(const struct rio_owner_config *config,
				  const struct rio_policy *policy, struct rio_owner **owner);
void rio_owner_destroy(struct rio_owner *o);

/* ---- What has come -------------------------------------------------------------------------- */

/*
 * A requester or an I/O unit has greeted. place: of an I/O unit, which one it is in the
 * configuration, from 1 (it makes its devices' numbers); 0 of a requester. Gives it a number.
 * WEFT_R_RIO_TWICE: one with this platform, or in this place, is here. WEFT_R_LIMIT: too many are,
 * or just left, and acts are due that say so. WEFT_R_RIO_UNEXPECTED: an owner, or an I/O unit that
 * takes no commands, or none with a chain pointer in it.
 */
enum weft_reason rio_owner_came(struct rio_owner *o, const struct rio_handshake *cm_id,
				uint32_t place, uint32_t *number);

/* It is gone, and why, if the log should say so; its number too. */
void rio_owner_left(struct rio_owner *o, uint32_t number, enum weft_reason why);

/* A message of it. After a refusal it must be sent away, and has left: rio_owner_left(). */
enum weft_reason rio_owner_take(struct rio_owner *o, uint32_t number, const uint8_t *bytes,
				size_t length, uint64_t now_ns);

/* A fetch has ended. */
void rio_owner_fetched(struct rio_owner *o, uint32_t id, enum weft_reason reason);

/* How an EXPOSE went; with WEFT_OK, the window's handle. */
void rio_owner_exposed(struct rio_owner *o, uint32_t id, enum weft_reason reason, uint32_t handle);

/* What is late; when something will be. */
void rio_owner_expire(struct rio_owner *o, uint64_t now_ns);
uint64_t rio_owner_due(const struct rio_owner *o);

/* ---- What is to be done --------------------------------------------------------------------- */

enum rio_owner_act_kind {
	RIO_OWNER_SAY,	     /* these bytes to that number */
	RIO_OWNER_FETCH,     /* bytes from that requester's memory; ends with its id */
	RIO_OWNER_NOTE,	     /* a decision, to be written down before what follows is done */
	RIO_OWNER_SEND_AWAY, /* that number: it lets a fetch wait; and has left, rio_owner_left() */
	/*
	 * A window over these bytes of a list, to be read by that number only; answered by its id
	 * before the next act is asked for. And to be closed: when that is asked for it is.
	 */
	RIO_OWNER_EXPOSE,
	RIO_OWNER_CLOSE
};

enum rio_note_kind {
	RIO_NOTE_CAME,
	RIO_NOTE_LEFT,
	RIO_NOTE_ALLOWED, /* a transaction of a request that is allowed as a whole */
	RIO_NOTE_REFUSED, /* a request, for this reason */
	RIO_NOTE_ENDED,	  /* a request that was allowed, well or for this reason */
	RIO_NOTE_WATCH,	  /* it sees how the cluster stands from now on, or may not */
};

/* One decision, or what came of it. */
struct rio_note {
	enum rio_note_kind kind;
	enum rio_role role;	/* CAME, LEFT: of whom */
	struct platform who;	/* the same; else the requester */
	struct platform iounit; /* of requests; unit 0: it came to none */
	uint64_t request;	/* the requester's id of it */
	enum weft_reason reason;
	uint32_t transaction;	   /* the one it is about, from 0; ENDED well: none */
	struct sgl_transaction is; /* that one, with the owner's device number; operation 0: none */
	uint32_t transactions;	   /* in all; 0: the list was not whole */
	uint32_t rule;		   /* ALLOWED: the one that allows `is` */
	uint64_t bytes;		   /* ENDED: moved */
};

struct rio_owner_act {
	enum rio_owner_act_kind kind;
	uint32_t number;
	uint8_t *bytes; /* SAY: good until the next act is asked for; FETCH: until ended */
	size_t length;
	uint32_t id;	 /* FETCH; EXPOSE and CLOSE: of the list, below lists_max */
	uint32_t handle; /* FETCH */
	uint64_t remote;
	struct rio_note note;
};

/* The next one; false if there is none at present. */
bool rio_owner_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- For people ----------------------------------------------------------------------------- */

/* A connection that is there. */
struct rio_owner_peer {
	struct platform platform;
	enum rio_role role;
	uint32_t place; /* of an I/O unit */
	uint32_t now;	/* requests or commands under way */
	uint64_t requests, refused, failed;
	uint64_t read_bytes, written_bytes; /* that it moved, or had moved for it */
};

/* The next number from this one on that is in use; UINT32_MAX: none. */
uint32_t rio_owner_next(const struct rio_owner *o, uint32_t number);
void rio_owner_query(const struct rio_owner *o, uint32_t number, struct rio_owner_peer *peer);

/* Does somebody wait for a report? Then what the adapter carried so far is to be said before. */
bool rio_owner_is_inquired(const struct rio_owner *o);
void rio_owner_moved(struct rio_owner *o, const struct rio_moved *moved);

/* The device of this number, if it is there at present; its name is good until its unit leaves. */
bool rio_owner_device(const struct rio_owner *o, uint32_t number, struct rio_device *device);
