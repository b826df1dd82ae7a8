/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner's internals, for its own files only: owner.c (creation, messages, acts), owner_peers.c
 * (connected peers, announcements and revocations), owner_requests.c (a request from message to
 * status), owner_judge.c (policy checks), owner_slots.c (lists that do not fit into a message),
 * owner_commands.c (commands to I/O units, and their order), owner_report.c (reports on the
 * cluster).
 *
 *	requester --- pair --- unit
 *	    request --- command
 *	       \- slot -/
 *
 * A request ends when the owner decides so; its command ends when the I/O unit reports a status or
 * leaves. Either may outlive the other; a slot stays in use until both are done with it.
 */
#pragma once

#include "base/timer_queue.h"
#include "rio/device.h"
#include "rio/notify.h"
#include "rio/owner.h"

enum {
	OWNER_DEVICES_MAX = 256,   /* per I/O unit */
	OWNER_COMMANDS_MAX = 1024, /* per I/O unit, even if it allows more */
	OWNER_PLACES_MAX = 0xfffe, /* I/O unit numbers: the upper half of a device number */
	OWNER_DEVICE_MASK = (1 << RIO_OWNER_UNIT_SHIFT) - 1,
	OWNER_ATTRIBUTES_BYTES = 8,
	OWNER_CHAIN_BYTES = 28,
	/*
	 * The shortest list limit that the owner accepts of a unit: attributes and a chain pointer.
	 */
	OWNER_LIST_LEAST = OWNER_ATTRIBUTES_BYTES + OWNER_CHAIN_BYTES
};

struct owner_requester;
struct owner_unit;
struct owner_request;
struct owner_command;

/* An object with a log entry due. */
struct owner_notable {
	struct list link;
	bool is_request; /* else struct owner_peer */
};

enum peer_state {
	PEER_FREE = 0,
	PEER_HERE,
	PEER_GONE, /* its departure is not logged yet */
};

/* What requesters and I/O units have in common. */
struct owner_peer {
	struct owner_notable notable;
	enum peer_state state;
	uint32_t number;
	struct rio_owner_peer is; /* identity and statistics */
	struct rio_session session;
	bool is_came_due, is_watch_due, is_left_due; /* log entries due */
	enum weft_reason left_reason;
	bool is_refused; /* to be disconnected; its messages are ignored */
	uint64_t pong_id;
	struct list pong_link, away_link;
};

struct owner_requester {
	struct owner_peer peer;
	struct rio_address address;
	struct owner_request *requests; /* config.requests_max */
	struct list free_requests;
	uint64_t newest_id;	  /* no outstanding request has a greater one */
	struct list wanting;	  /* requests that wait for a slot */
	struct list hungry_link;  /* of rio_owner.hungry: may get a slot */
	uint32_t slots;		  /* slots in use */
	struct owner_slot *fetch; /* slot being filled from its memory: one at a time */
	/* Its last inquiry. */
	struct list inquiry_link; /* an answer is due */
	uint64_t inquiry_id;
	uint32_t inquiry_first;
	enum weft_reason inquiry_reason; /* WEFT_OK: allowed */
	bool is_watching;		 /* logged already */
};

struct owner_device {
	struct rio_device is; /* its name points to name[] below */
	uint8_t name[RIO_DEVICE_NAME_MAX];
};

struct owner_unit {
	struct owner_peer peer;
	uint32_t commands_max, list_max;
	bool has_devices; /* it has announced its devices */
	struct owner_device *devices;
	uint32_t device_count;
	uint32_t last_count; /* devices announced last, kept when it leaves; UINT32_MAX: none */
	uint32_t device_id_prefix;	/* upper half of its device numbers; 0: none yet */
	struct owner_command *commands; /* rio_owner.commands_each */
	struct list free_commands;
	struct list ready;	/* pairs with a request that may go to the unit */
	struct list ready_link; /* of rio_owner.ready: it can take a command */
};

/* Has one peer of a pair been told of the other? */
enum notify_state {
	NOTIFY_NONE = 0,
	NOTIFY_DUE,
	NOTIFIED,
};

/* A requester and an I/O unit. */
struct owner_pair {
	struct owner_requester *requester;
	struct owner_unit *unit;
	/* Permission to make data connections with each other. */
	enum notify_state of_requester, of_unit; /* unit told of requester; the reverse */
	uint64_t serial;			 /* of their current token */
	struct list meet_link;
	/*
	 * The peer that left and must be revoked at the other one; is_gone_unit: it was the unit.
	 */
	struct platform gone;
	bool is_gone_unit;
	struct list part_link;
	/* Requests of this requester for this unit. */
	struct list waiting;
	uint32_t commands; /* outstanding */
	struct list ready_link;
};

enum request_state {
	REQUEST_FREE = 0,
	REQUEST_FETCHING, /* its list is being fetched, or waits for a slot to be fetched into */
	REQUEST_WAITING,  /* allowed; waits for a slot or for its turn */
	REQUEST_COMMANDED,
	REQUEST_SAYING, /* its status is to be sent */
	REQUEST_NOTING, /* no status is to be sent, but a log entry is due */
};

struct owner_request {
	struct list link; /* in the free, wanting, waiting or saying list */
	struct owner_notable notable;
	enum request_state state;
	struct owner_requester *requester;
	uint64_t id;
	struct timer timer;
	struct owner_pair *pair; /* set once it is allowed */
	struct owner_slot *slot;
	struct owner_command *command;
	/* The list part of its message: first as received, later as passed on to the unit. */
	uint8_t *list;
	size_t list_bytes;
	struct sgl_attributes attributes;
	uint32_t head_bytes; /* of the attributes in it */
	bool wants_slot;     /* the rest must move to a slot before it is passed on */
	/* Decisions. */
	bool is_allowed, is_final_due;
	bool is_notified;      /* the I/O unit told the requester of its success */
	uint32_t transactions; /* of a complete list */
	/* If it is 1: the transaction, as it is in the list. Most requests have one. */
	struct sgl_transaction only;
	uint32_t to_note, noted; /* transactions to log as allowed; how many are logged */
	size_t noted_bytes;	 /* position in the list */
	uint32_t rules[RIO_LIST_TRANSACTIONS_MAX];
	struct rio_note final;
	/* The status to send. */
	struct rio_status status;
	uint8_t text[RIO_TEXT_MAX];
};

enum slot_state {
	SLOT_FREE = 0,
	SLOT_WANTED,   /* to be filled from the requester's memory */
	SLOT_FETCHING, /* RDMA Read in progress */
	SLOT_HELD,
	SLOT_CLOSING, /* no longer needed, but its window is still open */
};

struct owner_slot {
	struct list link; /* in the free_slots, to_fetch or to_close list */
	enum slot_state state;
	bool is_exposed; /* to the unit that its list is for, by this handle */
	uint32_t handle;
	struct rio_list *parts; /* the list being assembled */
	uint8_t *bytes;
	size_t length;
	struct owner_requester *requester; /* NULL: it has left */
	struct owner_request *request;	   /* whose list is fetched; NULL: it has ended */
	struct sgl_chain chain;		   /* the part being fetched */
	struct timer timer;
};

struct owner_command {
	struct list link; /* in the free_commands or cancels list */
	uint64_t id;	  /* 0: free */
	struct owner_unit *unit;
	struct owner_pair *pair;       /* NULL: its requester has left */
	struct owner_request *request; /* NULL: it has ended already */
	struct owner_slot *slot;
	bool is_cancelled;
};

struct rio_owner {
	struct rio_owner_config config;
	const struct rio_policy *policy;
	uint64_t now_ns;
	uint64_t serial; /* the last one used for a token or command */
	struct owner_requester *requesters;
	struct owner_unit *units; /* by place */
	struct owner_pair *pairs; /* config.iounits_max for each requester */
	struct owner_request *requests;
	uint8_t *request_lists;
	struct owner_command *commands;
	uint32_t commands_each; /* slots per unit */
	struct owner_device *devices;
	struct owner_slot *slots;
	struct rio_list *scratch; /* a list that fits into one message, while it is judged */
	struct timer_queue timers, fetch_timers;
	struct list free_slots;
	struct list hungry; /* requesters that may have a slot */
	/* Acts due, in this order of priority. */
	struct list noting;  /* struct owner_notable */
	struct list away;    /* peers to disconnect */
	struct list parting; /* pairs with a revocation to send */
	struct list meeting; /* pairs with a grant or announcement to send */
	struct list pongs;   /* peers */
	struct list cancels; /* commands */
	struct list saying;  /* requests */
	struct list telling; /* ended requests whose requesters the I/O unit has told */
	uint32_t telling_count;
	uint64_t telling_ns;		/* when the batched notice must go out */
	struct list ready;		/* units that can take a command */
	struct list to_fetch;		/* slots */
	struct list to_close;		/* slots */
	struct owner_slot *closed;	/* CLOSE of this slot was the last act */
	struct owner_request *exposing; /* EXPOSE of its slot was the last act */
	struct list inquiries;		/* requesters */
	struct rio_moved moved;
	uint8_t message[RIO_MSG_BYTES_MAX], entries[RIO_MSG_BYTES_MAX];
};

/* How many of these one requester may hold at a time, so that some are left for others. */
static inline uint32_t owner_share(const struct rio_owner *o, uint32_t of)
{
	return of > 1 && o->config.requesters_max > 1 ? of - (of + 3) / 4 : of;
}

/* ---- owner.c -------------------------------------------------------------------------------- */

void owner_say(struct rio_owner *o, struct owner_peer *p, const struct rio_msg *m,
	       struct rio_owner_act *act);

/* Queues the object for logging. */
void owner_note(struct rio_owner *o, struct owner_notable *n);

/* ---- owner_peers.c -------------------------------------------------------------------------- */

struct owner_pair *owner_pair_of(struct rio_owner *o, const struct owner_requester *q,
				 const struct owner_unit *u);

/* The owner's number for the device that has this number at its unit. */
uint32_t owner_device_number(const struct owner_unit *u, uint32_t number);

/* A device of the unit as rules identify it. */
struct rio_target owner_target(const struct owner_unit *u, const struct rio_device *d);

/* Finds a device by the owner's number, and its I/O unit; NULL: there is none. */
const struct rio_device *owner_device_find(struct rio_owner *o, uint32_t number,
					   struct owner_unit **unit);

/* Has the unit been told of this platform, or is that due? */
bool owner_have_met(struct rio_owner *o, const struct owner_unit *u, struct platform platform);
enum weft_reason owner_devices_take(struct rio_owner *o, struct owner_unit *u,
				    const struct rio_devices *devices);
void owner_peer_note(struct rio_owner *o, struct owner_peer *p, struct rio_note *note);
void owner_part_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_meet_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- owner_requests.c ----------------------------------------------------------------------- */

enum weft_reason owner_request_take(struct rio_owner *o, struct owner_requester *q,
				    const struct rio_msg *m);
void owner_request_cancel(struct rio_owner *o, struct owner_requester *q, uint64_t id);

/* Its list is complete: allows or refuses it. */
void owner_request_judge(struct rio_owner *o, struct owner_request *r, struct rio_list *list);

/* It got a slot: copies its list there. */
void owner_request_chain(struct rio_owner *o, struct owner_request *r);

/* Its slot is exposed: makes the chain pointer in its message point there. */
void owner_request_point(const struct rio_owner *o, struct owner_request *r);

/* Ends the request for a reason of the owner's, or with the unit's status. */
void owner_request_fail(struct rio_owner *o, struct owner_request *r, enum weft_reason reason);
void owner_request_end(struct rio_owner *o, struct owner_request *r, const struct rio_status *s);

/* Its requester has left. */
void owner_request_drop(struct rio_owner *o, struct owner_request *r);
void owner_request_note(struct rio_owner *o, struct owner_request *r, struct rio_note *note);

/* Is the requester short of free request slots? */
bool owner_is_short(const struct rio_owner *o, const struct owner_requester *q);
void owner_notify_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_status_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- owner_judge.c -------------------------------------------------------------------------- */

struct owner_verdict {
	enum weft_reason reason;
	uint32_t transaction;	   /* index of the refused transaction */
	struct sgl_transaction is; /* the refused transaction */
	bool is_hidden;		   /* tell the requester that no such device exists */
	struct owner_unit *unit;
};

/* Judges a complete list; rules: for each transaction the rule that allows it. */
void owner_judge(struct rio_owner *o, const struct owner_requester *q, const struct rio_list *list,
		 struct owner_verdict *v, uint32_t rules[RIO_LIST_TRANSACTIONS_MAX]);

/* ---- owner_slots.c -------------------------------------------------------------------------- */

/* The requester's need for slots may have changed: hands out free slots. */
void owner_slots_turn(struct rio_owner *o, struct owner_requester *q);
void owner_slot_free(struct rio_owner *o, struct owner_slot *s);

/* The request that the slot was for has ended. */
void owner_slot_leave(struct rio_owner *o, struct owner_slot *s);
void owner_slots_forget(struct rio_owner *o, const struct owner_requester *q);
void owner_fetch_act(struct rio_owner *o, struct rio_owner_act *act);

/* For the duration of a command the slot is readable by that command's I/O unit only. */
void owner_expose_act(struct rio_owner *o, struct owner_request *r, struct rio_owner_act *act);
void owner_close_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_close_done(struct rio_owner *o);

/* ---- owner_report.c ------------------------------------------------------------------------- */

void owner_inquire_take(struct rio_owner *o, struct owner_requester *q, const struct rio_msg *m);
void owner_inquire_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- owner_commands.c ----------------------------------------------------------------------- */

/* Queues a request for its I/O unit. */
void owner_turn_wait(struct rio_owner *o, struct owner_request *r);

/* The queue of the pair, or the unit's free commands, have changed. */
void owner_turn_update(struct rio_owner *o, struct owner_pair *p);
void owner_command_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_cancel_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_command_cancel(struct rio_owner *o, struct owner_command *c);
void owner_command_free(struct rio_owner *o, struct owner_command *c);
enum weft_reason owner_notified_take(struct rio_owner *o, struct owner_unit *u,
				     const struct rio_notified *notified);

/* The requester of these commands has left. */
void owner_commands_orphan(struct rio_owner *o, struct owner_pair *p);
enum weft_reason owner_status_take(struct rio_owner *o, struct owner_unit *u,
				   const struct rio_msg *m);
