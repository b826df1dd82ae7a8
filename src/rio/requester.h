/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of directed I/O (D0): has memory, and asks an owner to have it filled from a
 * device, or written to one. Each memory fragment of a request is exposed by a memory window of its
 * own, for that request only, and the window is closed before the request ends (RIO-02a, RIO-02i).
 * I/O units that the owner has announced connect and move the data.
 *
 * This is the core: the caller hands in events and carries out the acts that it pulls.
 *
 *	request   exposing -> (waiting) -> asked -> closing -> ended
 */
#pragma once

#include "rio/handshake.h"
#include "rio/list.h"

struct rio_requester;

struct rio_requester_config {
	struct platform self;
	uint32_t requests_max; /* at a time; those beyond the owner's limit wait here */
	uint32_t sges_max;     /* windows, of all requests together */
	uint32_t iounits_max;
	uint32_t devices_max; /* of all I/O units together */
	uint32_t lists_max;   /* lists held at a time that do not fit into a message */
	uint8_t *lists; /* lists_max * RIO_LIST_BYTES_MAX, borrowed; the caller registers them */
	uint32_t lists_handle; /* for the owner's reads; the first list is at lists_address */
	uint64_t lists_address;
	uint64_t timeout_ns; /* for requests that give no timeout */
	uint64_t grace_ns;   /* past a request's timeout, for the owner to report it first */
	struct sgl_attributes attributes; /* RIO-13a, of all lists; zeroes: the defaults */
};

/* WEFT_R_BAD_ARGUMENT: a limit or the timeout is 0, `lists` is missing, or no such attributes. */
enum weft_reason rio_requester_create(const struct rio_requester_config *config,
				      struct rio_requester **requester);
void rio_requester_destroy(struct rio_requester *q);

/* No request is left here, nor, as far as is known, at the owner. */
bool rio_requester_is_idle(const struct rio_requester *q);

/* The owner still owes the status of a request that has ended here. */
bool rio_requester_is_owed(const struct rio_requester *q);

/* ---- Requests ------------------------------------------------------------------------------- */

/* A fragment of memory. */
struct rio_fragment {
	struct platform platform; /* unit 0 or self: own memory; else whose it is */
	/* Own: the memory region; the I/O unit's own (RIO-14): 0; else the handle it gave. */
	uint32_t tag;
	uint32_t length;
	uint64_t address;
};

struct rio_wanted {
	struct sgl_transaction is;	      /* with the owner's device number */
	const struct rio_fragment *fragments; /* of a read or write; else none */
	uint32_t fragment_count;
	/* RIO-15: how many of the fragments each buffer has, in order; NULL: all are one buffer. */
	const uint32_t *buffers;
	uint64_t buffer_count;
	const uint8_t *immediate; /* write: is.length bytes of data instead of fragments */
};

struct rio_ask {
	const struct rio_wanted *wanted; /* one transaction each, carried out in this order */
	uint32_t count;
	uint64_t timeout_ns; /* 0: the default */
	void *context;	     /* returned in struct rio_ended */
};

/*
 * Starts a request. After the call only the memory of its own fragments must stay valid. WEFT_OK:
 * the request ends exactly once, by rio_requester_ended(). Otherwise nothing has changed:
 * WEFT_R_BUSY: all request, window or list slots are in use; WEFT_R_LIMIT: it has more fragments
 * than there are windows; WEFT_R_RIO_OWNER_LEFT: no owner is connected; WEFT_R_RIO_WRITES_LOST: it
 * flushes a device that came back as another instance after acknowledging writes that no flush
 * covers (reported once per loss); or the reason for which the owner would refuse the list.
 */
enum weft_reason rio_requester_ask(struct rio_requester *q, const struct rio_ask *ask,
				   uint64_t now_ns, uint64_t *id);

/*
 * Asks for an early end: at once if the owner has not been asked yet, else with the owner's status.
 */
void rio_requester_cancel(struct rio_requester *q, uint64_t id);

struct rio_ended {
	uint64_t id;
	void *context;
	uint32_t reason;      /* enum weft_reason, or an unknown one of a newer peer; 0: success */
	uint32_t transaction; /* index of the failed transaction, from 0 */
	uint64_t done_bytes;
	uint64_t loss; /* on success: rio_requester_loss() of the device that it flushed */
	char text[RIO_TEXT_MAX + 1]; /* explanation by the refusing peer; may be empty */
};

/* Takes an ended request, whose windows are closed. False: there is none. */
bool rio_requester_ended(struct rio_requester *q, struct rio_ended *ended);

/* ---- Devices and reports -------------------------------------------------------------------- */

bool rio_requester_has_owner(const struct rio_requester *q);

/* A device that this requester may use, and its I/O unit. */
struct rio_offer {
	struct rio_device device; /* its name is valid until the next message is taken */
	struct platform iounit;
};

/* The number of devices announced; the nth of them. */
uint32_t rio_requester_offers(const struct rio_requester *q);
struct rio_offer rio_requester_offer(const struct rio_requester *q, uint32_t nth);

/*
 * Losses of acknowledged writes are numbered across all devices. Returns the number of the device's
 * last loss, 0 if it had none. A loss counts from when it is detected, reported or not.
 */
uint64_t rio_requester_loss(const struct rio_requester *q, uint32_t device);

/*
 * Asks the owner for a report on the cluster, beginning with entry `first`. WEFT_OK: it ends once,
 * by rio_requester_reported(). WEFT_R_BUSY: the last inquiry has not ended; WEFT_R_RIO_OWNER_LEFT:
 * no owner is connected.
 */
enum weft_reason rio_requester_inquire(struct rio_requester *q, uint32_t first);

struct rio_reported {
	uint32_t reason;	  /* as in struct rio_ended */
	struct rio_report report; /* valid until the next message is taken */
};

/* Takes the answer. False: it has not come. */
bool rio_requester_reported(struct rio_requester *q, struct rio_reported *reported);

/* ---- Events --------------------------------------------------------------------------------- */

/*
 * The owner has completed the handshake, or has left. When it leaves, every request ends with
 * WEFT_R_RIO_OWNER_LEFT.
 */
void rio_requester_owner_came(struct rio_requester *q, const struct rio_handshake *handshake);
void rio_requester_owner_left(struct rio_requester *q);

/* The handle by which the new owner reads lists; to be set before the first request. */
void rio_requester_lists(struct rio_requester *q, uint32_t handle);

/*
 * Processes a message of the owner. After a refusal the caller must disconnect the owner.
 * WEFT_R_RIO_OWNER_LEFT: the owner announced that it leaves.
 */
enum weft_reason rio_requester_take(struct rio_requester *q, const uint8_t *bytes, size_t length,
				    uint64_t now_ns);

/*
 * An I/O unit requests a data connection, with `question` as private data (AMB-26). WEFT_OK: accept
 * it on a queue pair in the protection domain of the fragments; else reject it. `answer` is the
 * private data in both cases. WEFT_R_RIO_REPLAYED: its counter was used before; _UNKNOWN_PEER: not
 * announced; WEFT_R_RIO_FORGED: bad seal; WEFT_R_BUSY: a HANG_UP of the former connection is still
 * due. iounit: the I/O unit it claims to be; unit 0 if that cannot be decoded.
 */
enum weft_reason rio_requester_asked(struct rio_requester *q, const struct rio_bytes *question,
				     struct platform *iounit, uint8_t answer[RIO_DATA_BYTES]);

/*
 * An I/O unit reports over its data connection how a request ended. The report comes behind the
 * data that the unit wrote, so that data is in memory. After a refusal the caller must close the
 * connection.
 */
enum weft_reason rio_requester_unit_take(struct rio_requester *q, struct platform iounit,
					 const uint8_t *bytes, size_t length);

/* The data connection with the I/O unit is gone. */
void rio_requester_lost(struct rio_requester *q, struct platform iounit);

/* An EXPOSE has completed; with WEFT_OK, the window's handle. A CLOSE needs no answer. */
void rio_requester_exposed(struct rio_requester *q, uint32_t id, enum weft_reason reason,
			   uint32_t handle);

void rio_requester_expire(struct rio_requester *q, uint64_t now_ns);
uint64_t rio_requester_due(const struct rio_requester *q);

/* ---- Acts ----------------------------------------------------------------------------------- */

enum rio_requester_act_kind {
	RIO_REQUESTER_SAY,    /* send these bytes to the owner */
	RIO_REQUESTER_EXPOSE, /* bind a window over this memory for the I/O unit; answered by id */
	RIO_REQUESTER_CLOSE,  /* invalidate the window; it counts as closed at the next pull */
	RIO_REQUESTER_HANG_UP /* close the data connection with the I/O unit, if there is one */
};

struct rio_requester_act {
	enum rio_requester_act_kind kind;
	uint8_t *bytes; /* SAY: valid until the next act is pulled */
	size_t length;
	uint32_t id;  /* EXPOSE, CLOSE: the window's, below sges_max */
	uint32_t tag; /* EXPOSE: the memory region */
	uint64_t address;
	uint32_t window_length;
	bool is_written; /* EXPOSE: the I/O unit writes; else it reads */
	/*
	 * HANG_UP: the peer. EXPOSE: only this I/O unit may use the window, now or once it
	 * connects; unit 0: any may.
	 */
	struct platform iounit;
};

/* Pulls the next act; false: none is due. */
bool rio_requester_act(struct rio_requester *q, struct rio_requester_act *act);
