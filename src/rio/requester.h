/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of directed I/O (D0): has memory, and asks an owner to have it filled from a
 * device, or a device filled from it. Every fragment of memory that a request names is exposed by a
 * window of its own, for that request only, and closed before the request ends (RIO-02a, RIO-02i).
 * An I/O unit that the owner has announced connects, and moves the data.
 *
 * Its core: what has come is handed in, what is to be done is pulled as acts.
 *
 *	request   exposing -> (waiting) -> asked -> closing -> ended
 */
#pragma once

#include "rio/handshake.h"
#include "rio/list.h"

struct rio_requester;

struct rio_requester_config {
	struct platform self;
	uint32_t requests_max; /* at a time; beyond what the owner allows they wait */
	uint32_t sges_max;     /* of all requests at a time: windows */
	uint32_t iounits_max;
	uint32_t devices_max; /* of all of them */
	uint32_t lists_max;   /* at a time, of those that do not fit into a message */
	uint8_t *lists; /* lists_max * RIO_LIST_BYTES_MAX, borrowed; the caller registers them */
	uint32_t lists_handle; /* by which the owner reads them, the first at this address */
	uint64_t lists_address;
	uint64_t timeout_ns; /* of requests that name none */
	uint64_t grace_ns;   /* that the owner has beyond a request's timeout to say so itself */
};

/* WEFT_R_BAD_ARGUMENT: a limit or the timeout is 0, or there is no room for lists. */
enum weft_reason rio_requester_create(const struct rio_requester_config *config,
				      struct rio_requester **requester);
void rio_requester_destroy(struct rio_requester *q);

/* Nothing of any request is left: not here, and, as far as is known, not with the owner. */
bool rio_requester_is_idle(const struct rio_requester *q);

/* The owner has not answered yet for a request that has ended here. */
bool rio_requester_is_owed(const struct rio_requester *q);

/* ---- What is wanted ------------------------------------------------------------------------- */

/* A fragment of memory. */
struct rio_fragment {
	struct platform platform; /* unit 0, or self: own; else another's, exposed by it */
	uint32_t tag;		  /* own: the region that it lies in. Others': the handle */
	uint32_t length;
	uint64_t address;
};

struct rio_wanted {
	struct sgl_transaction is;	      /* its device by the owner's number */
	const struct rio_fragment *fragments; /* of a read or write */
	uint32_t fragment_count;
	const uint8_t *immediate; /* of a write: its data, instead of fragments; is.length bytes */
};

struct rio_ask {
	const struct rio_wanted *wanted; /* one transaction each, in this order */
	uint32_t count;
	uint64_t timeout_ns; /* 0: the default */
	void *context;	     /* given back when it ends */
};

/*
 * Nothing of the ask is needed after the call but the memory of its own fragments. WEFT_OK: it ends
 * exactly once, by rio_requester_ended(). Else nothing has changed: WEFT_R_BUSY: so many are
 * under way; WEFT_R_LIMIT: it has more fragments than there are windows;
 * WEFT_R_RIO_OWNER_LEFT: there is no owner; WEFT_R_RIO_WRITES_LOST: it flushes a device that is
 * another instance than the one that acknowledged writes which no flush covers; of that it is told
 * once; or the reason why the list would be refused.
 */
enum weft_reason rio_requester_ask(struct rio_requester *q, const struct rio_ask *ask,
				   uint64_t now_ns, uint64_t *id);

/* The request shall end soon: at once if the owner has not been asked, else with his status. */
void rio_requester_cancel(struct rio_requester *q, uint64_t id);

struct rio_ended {
	uint64_t id;
	void *context;
	uint32_t reason;      /* enum weft_reason, or one that a newer peer has; 0: well */
	uint32_t transaction; /* the one that failed, from 0 */
	uint64_t done_bytes;
	uint64_t loss; /* of a request that was done: rio_requester_loss() of what it flushed */
	char text[RIO_TEXT_MAX + 1]; /* what the one who refused says; may be empty */
};

/* Takes a request that has ended: its windows are closed. False: none has. */
bool rio_requester_ended(struct rio_requester *q, struct rio_ended *ended);

/* ---- What is known -------------------------------------------------------------------------- */

bool rio_requester_has_owner(const struct rio_requester *q);

/* A device that may be used, and who has it. */
struct rio_offer {
	struct rio_device device; /* its name is good until the next message is taken */
	struct platform iounit;
};

/* The devices so far; the nth of them. */
uint32_t rio_requester_offers(const struct rio_requester *q);
struct rio_offer rio_requester_offer(const struct rio_requester *q, uint32_t nth);

/*
 * The requester numbers the losses of acknowledged writes: the last one of the device of this
 * number, 0 if there was none. A loss counts from when it is known, told or not.
 */
uint64_t rio_requester_loss(const struct rio_requester *q, uint32_t device);

/*
 * How the cluster stands, from that entry on: the owner is asked. WEFT_OK: it ends once, by
 * rio_requester_reported(). WEFT_R_BUSY: the one before has not; WEFT_R_RIO_OWNER_LEFT: no owner.
 */
enum weft_reason rio_requester_inquire(struct rio_requester *q, uint32_t first);

struct rio_reported {
	uint32_t reason;	  /* as in struct rio_ended */
	struct rio_report report; /* good until the next message is taken */
};

/* Takes the answer. False: there is none yet. */
bool rio_requester_reported(struct rio_requester *q, struct rio_reported *reported);

/* ---- What has come -------------------------------------------------------------------------- */

/* The owner has greeted, or is gone: every request ends with WEFT_R_RIO_OWNER_LEFT. */
void rio_requester_owner_came(struct rio_requester *q, const struct rio_handshake *cm_id);
void rio_requester_owner_left(struct rio_requester *q);

/* By this handle the owner who has just come reads lists; before anything is asked of him. */
void rio_requester_lists(struct rio_requester *q, uint32_t handle);

/*
 * A message of the owner. After a refusal the owner must be sent away; WEFT_R_RIO_OWNER_LEFT: he
 * said that he goes.
 */
enum weft_reason rio_requester_take(struct rio_requester *q, const uint8_t *bytes, size_t length,
				    uint64_t now_ns);

/*
 * An I/O unit asks for a data connection, with these bytes as private data (AMB-26). WEFT_OK:
 * accept it, onto a queue pair in the domain of the fragments; else reject it. The answer goes with
 * either. WEFT_R_RIO_REPLAYED: its counter was there before; _UNKNOWN_PEER: not announced;
 * WEFT_R_RIO_FORGED; WEFT_R_BUSY: a HANG_UP of it is still to be taken. iounit: who it says it is;
 * unit 0 if that cannot be read.
 */
enum weft_reason rio_requester_asked(struct rio_requester *q, const struct rio_bytes *question,
				     struct platform *iounit, uint8_t answer[RIO_DATA_BYTES]);

/*
 * An I/O unit says over its data connection how a request went: behind the data that it wrote, so
 * that is here. After a refusal the connection must be ended.
 */
enum weft_reason rio_requester_unit_take(struct rio_requester *q, struct platform iounit,
					 const uint8_t *bytes, size_t length);

/* The data connection with it is gone. */
void rio_requester_lost(struct rio_requester *q, struct platform iounit);

/* How an EXPOSE went; with WEFT_OK, the window's handle. A CLOSE needs no answer: it is done. */
void rio_requester_exposed(struct rio_requester *q, uint32_t id, enum weft_reason reason,
			   uint32_t handle);

void rio_requester_expire(struct rio_requester *q, uint64_t now_ns);
uint64_t rio_requester_due(const struct rio_requester *q);

/* ---- What is to be done --------------------------------------------------------------------- */

enum rio_requester_act_kind {
	RIO_REQUESTER_SAY,    /* these bytes to the owner */
	RIO_REQUESTER_EXPOSE, /* a window over this memory, for that I/O unit; answered by its id */
	RIO_REQUESTER_CLOSE,  /* that window, now: when the next act is asked for it is closed */
	RIO_REQUESTER_HANG_UP /* the data connection with that I/O unit, if there is one */
};

struct rio_requester_act {
	enum rio_requester_act_kind kind;
	uint8_t *bytes; /* SAY: good until the next act is asked for */
	size_t length;
	uint32_t id;  /* EXPOSE: of the window, below sges_max; CLOSE: the same */
	uint32_t tag; /* EXPOSE: the region */
	uint64_t address;
	uint32_t window_length;
	bool is_written; /* EXPOSE: by the I/O unit; else it is read */
	/* HANG_UP; EXPOSE: nobody else may reach it, also when it connects later. Unit 0: any. */
	struct platform iounit;
};

/* The next one; false if there is none at present. */
bool rio_requester_act(struct rio_requester *q, struct rio_requester_act *act);
