/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an owner consists of, for its own files only: owner.c (life, messages, acts), owner_peers.c
 * (who is here, and who was told of whom), owner_requests.c (a request from its message to its
 * status), owner_judge.c (may it be?), owner_slots.c (lists that do not fit into a message),
 * owner_commands.c (what I/O units are told to do, and in which turn), owner_report.c (how the
 * cluster stands).
 *
 *	requester --- pair --- unit
 *	    request --- command
 *	       \- slot -/
 *
 * A request ends when the owner says so; its command when the unit says so, or leaves. So either
 * may outlive the other, and a slot belongs to whoever needs it last.
 */
#pragma once

#include "base/timer_queue.h"
#include "rio/device.h"
#include "rio/notify.h"
#include "rio/owner.h"

enum {
	OWNER_DEVICES_MAX = 256,   /* of one I/O unit */
	OWNER_COMMANDS_MAX = 1024, /* at one I/O unit, whatever it allows */
	OWNER_PLACES_MAX = 0xfffe, /* of I/O units: half of a device's number */
	OWNER_DEVICE_MASK = (1 << RIO_OWNER_UNIT_SHIFT) - 1,
	OWNER_ATTRIBUTES_BYTES = 8,
	OWNER_CHAIN_BYTES = 28,
	/* What a unit must take of a list in a message: attributes and a chain pointer. */
	OWNER_LIST_LEAST = OWNER_ATTRIBUTES_BYTES + OWNER_CHAIN_BYTES
};

struct owner_requester;
struct owner_unit;
struct owner_request;
struct owner_command;

/* Something about which there is something to be written down. */
struct owner_notable {
	struct list link;
	bool is_request; /* else a peer */
};

enum peer_state {
	PEER_FREE = 0,
	PEER_HERE,
	PEER_GONE, /* that is still to be written down */
};

/* What requesters and I/O units have in common. */
struct owner_peer {
	struct owner_notable notable;
	enum peer_state state;
	uint32_t number;
	struct rio_owner_peer is; /* and what it has done */
	struct rio_session session;
	bool is_came_due, is_watch_due, is_left_due; /* notes */
	enum weft_reason left_reason;
	bool is_refused; /* it is to be sent away, and heard no more */
	uint64_t pong_id;
	struct list pong_link, away_link;
};

struct owner_requester {
	struct owner_peer peer;
	struct rio_address address;
	struct owner_request *requests; /* config.requests_max */
	struct list free_requests;
	struct list wanting;	  /* requests that want a slot */
	struct list hungry_link;  /* it may have one */
	uint32_t slots;		  /* that it has */
	struct owner_slot *fetch; /* the one that is filled from its memory: one at a time */
	/* Its last inquiry. */
	struct list inquiry_link; /* it waits for an answer */
	uint64_t inquiry_id;
	uint32_t inquiry_first;
	enum weft_reason inquiry_reason; /* WEFT_OK: it may */
	bool is_watching;		 /* which was written down */
};

struct owner_device {
	struct rio_device is; /* its name lies here */
	uint8_t name[RIO_DEVICE_NAME_MAX];
};

struct owner_unit {
	struct owner_peer peer;
	uint32_t commands_max, list_max;
	bool has_devices; /* it has told which */
	struct owner_device *devices;
	uint32_t device_count;
	uint32_t last_count; /* as it was told last, also after it left; UINT32_MAX: nothing was */
	uint32_t device_id_prefix; /* with which the numbers of its devices begin; 0: none yet */
	struct owner_command *commands; /* rio_owner.commands_each */
	struct list free_commands;
	struct list ready;	/* pairs with a request whose turn may come */
	struct list ready_link; /* it can take a command */
};

/* What one side was told of the other. */
enum notify_state {
	NOTIFY_NONE = 0,
	NOTIFY_DUE,
	NOTIFIED,
};

/* A requester and an I/O unit. */
struct owner_pair {
	struct owner_requester *requester;
	struct owner_unit *unit;
	/* Their data connections: may they have any? */
	enum notify_state of_requester,
		of_unit; /* what the unit was told; what the requester was */
	uint64_t serial; /* of their token */
	struct list meet_link;
	/* Who is gone, and that the other one was told of; who has been told that. */
	struct platform gone;
	bool is_gone_unit;
	struct list part_link;
	/* Requests of the one for the other. */
	struct list waiting;
	uint32_t commands; /* under way */
	struct list ready_link;
};

enum request_state {
	REQUEST_FREE = 0,
	REQUEST_FETCHING, /* its list; or it waits for a slot for that */
	REQUEST_WAITING,  /* allowed; for a slot, or for its turn */
	REQUEST_COMMANDED,
	REQUEST_SAYING, /* how it went */
	REQUEST_NOTING, /* nobody is to be told, but it is to be written down */
};

struct owner_request {
	struct list link; /* of the free, wanting, waiting or saying ones */
	struct owner_notable notable;
	enum request_state state;
	struct owner_requester *requester;
	uint64_t id;
	struct timer timer;
	struct owner_pair *pair; /* once it is allowed */
	struct owner_slot *slot;
	struct owner_command *command;
	/* What is in its message: first as it came, then as it goes on. */
	uint8_t *list;
	size_t list_bytes;
	struct sgl_attributes attributes;
	uint32_t head_bytes; /* of the attributes in there */
	bool wants_slot;     /* the rest of it must lie in one to go on */
	/* Decisions. */
	bool is_allowed, is_final_due;
	bool is_notified;	 /* by the I/O unit: it went well */
	uint32_t transactions;	 /* of a list that is whole */
	uint32_t to_note, noted; /* that are allowed; and how many of those are written down */
	size_t noted_bytes;	 /* of the list */
	uint32_t rules[RIO_LIST_TRANSACTIONS_MAX];
	struct rio_note final;
	/* What is to be said. */
	struct rio_status status;
	uint8_t text[RIO_TEXT_MAX];
};

enum slot_state {
	SLOT_FREE = 0,
	SLOT_WANTED,   /* is to be filled from the requester's memory */
	SLOT_FETCHING, /* is being */
	SLOT_HELD,
	SLOT_CLOSING, /* nobody needs it, but its window is still to be closed */
};

struct owner_slot {
	struct list link; /* of the free ones, or of those that are wanted or to be closed */
	enum slot_state state;
	bool is_exposed; /* to the unit that its list is for; by this handle */
	uint32_t handle;
	struct rio_list *parts; /* of the list that is fetched */
	uint8_t *bytes;
	size_t length;
	struct owner_requester *requester; /* for whom; NULL: it is gone */
	struct owner_request *request;	   /* that is fetched; NULL: it has ended meanwhile */
	struct sgl_chain chain;		   /* what is fetched */
	struct timer timer;
};

struct owner_command {
	struct list link; /* of the free ones, or of those to be cancelled */
	uint64_t id;	  /* 0: free */
	struct owner_unit *unit;
	struct owner_pair *pair;       /* NULL: its requester is gone */
	struct owner_request *request; /* NULL: it has ended already */
	struct owner_slot *slot;
	bool is_cancelled;
};

struct rio_owner {
	struct rio_owner_config config;
	const struct rio_policy *policy;
	uint64_t now_ns;
	uint64_t serial; /* of tokens and commands: the last one */
	struct owner_requester *requesters;
	struct owner_unit *units; /* by place */
	struct owner_pair *pairs; /* config.iounits_max for each requester */
	struct owner_request *requests;
	uint8_t *request_lists;
	struct owner_command *commands;
	uint32_t commands_each; /* of each unit */
	struct owner_device *devices;
	struct owner_slot *slots;
	struct rio_list *scratch; /* a list that lies in one message, while it is judged */
	struct timer_queue timers, fetch_timers;
	struct list free_slots;
	struct list hungry; /* requesters that may have a slot */
	/* What is to be done, in this order. */
	struct list noting;  /* struct owner_notable */
	struct list away;    /* peers to be sent away */
	struct list parting; /* pairs of which one is gone */
	struct list meeting; /* pairs that are told of each other */
	struct list pongs;   /* peers */
	struct list cancels; /* commands */
	struct list saying;  /* requests */
	struct list telling; /* requests that their requesters were told of */
	uint32_t telling_count;
	uint64_t telling_ns;		/* when that is to be said at the latest */
	struct list ready;		/* units that can take a command */
	struct list to_fetch;		/* slots */
	struct list to_close;		/* slots */
	struct owner_slot *closed;	/* by the last act */
	struct owner_request *exposing; /* its slot, by the last act */
	struct list inquiries;		/* requesters */
	struct rio_moved moved;
	uint8_t message[RIO_MSG_BYTES_MAX], entries[RIO_MSG_BYTES_MAX];
};

/* How much of something one requester may have at a time, so that there is some for others. */
static inline uint32_t owner_share(const struct rio_owner *o, uint32_t of)
{
	return of > 1 && o->config.requesters_max > 1 ? of - (of + 3) / 4 : of;
}

/* ---- owner.c -------------------------------------------------------------------------------- */

void owner_say(struct rio_owner *o, struct owner_peer *p, const struct rio_msg *m,
	       struct rio_owner_act *act);

/* There is something to be written down about it. */
void owner_note(struct rio_owner *o, struct owner_notable *n);

/* ---- owner_peers.c -------------------------------------------------------------------------- */

struct owner_pair *owner_pair_of(struct rio_owner *o, const struct owner_requester *q,
				 const struct owner_unit *u);

/* The owner's number of a device that has this one at its unit. */
uint32_t owner_device_number(const struct owner_unit *u, uint32_t number);

/* A device of the unit as rules know it. */
struct rio_target owner_target(const struct owner_unit *u, const struct rio_device *d);

/* The device of this number, by the owner's numbers, and who has it; NULL: there is none. */
const struct rio_device *owner_device_find(struct rio_owner *o, uint32_t number,
					   struct owner_unit **unit);

/* Has the unit been told of this platform? */
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

/* Its list is whole: it is allowed or refused. */
void owner_request_judge(struct rio_owner *o, struct owner_request *r, struct rio_list *list);

/* It has its slot, and its list goes there. */
void owner_request_chain(struct rio_owner *o, struct owner_request *r);

/* Its slot is exposed: what it has of the list points there. */
void owner_request_point(const struct rio_owner *o, struct owner_request *r);

/* It ends for a reason of the owner's; or as its unit says. */
void owner_request_fail(struct rio_owner *o, struct owner_request *r, enum weft_reason reason);
void owner_request_end(struct rio_owner *o, struct owner_request *r, const struct rio_status *s);

/* Its requester is gone. */
void owner_request_drop(struct rio_owner *o, struct owner_request *r);
void owner_request_note(struct rio_owner *o, struct owner_request *r, struct rio_note *note);

/* Has the requester little room left for more of them? */
bool owner_is_short(const struct rio_owner *o, const struct owner_requester *q);
void owner_notify_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_status_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- owner_judge.c -------------------------------------------------------------------------- */

struct owner_verdict {
	enum weft_reason reason;
	uint32_t transaction;	   /* that was refused */
	struct sgl_transaction is; /* the same */
	bool is_hidden;		   /* its requester is told that there is no such device */
	struct owner_unit *unit;
};

/* Of a list that is whole; rules: the one that allows each transaction. */
void owner_judge(struct rio_owner *o, const struct owner_requester *q, const struct rio_list *list,
		 struct owner_verdict *v, uint32_t rules[RIO_LIST_TRANSACTIONS_MAX]);

/* ---- owner_slots.c -------------------------------------------------------------------------- */

/* What the requester wants may have changed: whoever can have a slot gets one. */
void owner_slots_turn(struct rio_owner *o, struct owner_requester *q);
void owner_slot_free(struct rio_owner *o, struct owner_slot *s);

/* The request that it was for has ended. */
void owner_slot_leave(struct rio_owner *o, struct owner_slot *s);
void owner_slots_forget(struct rio_owner *o, const struct owner_requester *q);
void owner_fetch_act(struct rio_owner *o, struct rio_owner_act *act);

/* For the time of a command its unit, and nobody else, can read the slot. */
void owner_expose_act(struct rio_owner *o, struct owner_request *r, struct rio_owner_act *act);
void owner_close_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_close_done(struct rio_owner *o);

/* ---- owner_report.c ------------------------------------------------------------------------- */

void owner_inquire_take(struct rio_owner *o, struct owner_requester *q, const struct rio_msg *m);
void owner_inquire_act(struct rio_owner *o, struct rio_owner_act *act);

/* ---- owner_commands.c ----------------------------------------------------------------------- */

/* A request waits for its turn. */
void owner_turn_wait(struct rio_owner *o, struct owner_request *r);

/* What waits, or may go on, has changed. */
void owner_turn_update(struct rio_owner *o, struct owner_pair *p);
void owner_command_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_cancel_act(struct rio_owner *o, struct rio_owner_act *act);
void owner_command_cancel(struct rio_owner *o, struct owner_command *c);
void owner_command_free(struct rio_owner *o, struct owner_command *c);
enum weft_reason owner_notified_take(struct rio_owner *o, struct owner_unit *u,
				     const struct rio_notified *notify_state);

/* The requester of these is gone. */
void owner_commands_orphan(struct rio_owner *o, struct owner_pair *p);
enum weft_reason owner_status_take(struct rio_owner *o, struct owner_unit *u,
				   const struct rio_msg *m);
