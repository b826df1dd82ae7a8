/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a requester consists of, for its own files only: requester.c (life, messages, acts),
 * requester_list.c (a request's list), requester_requests.c (a request from its windows to its
 * end), requester_units.c (I/O units that were announced, and their devices),
 * requester_unflushed.c (devices that have writes which no flush covers yet),
 * requester_inquiry.c (how the cluster stands).
 *
 *	request   exposing -> waiting -> asked -> closing -> ended
 *	window    wanted -> exposing -> open -> leaving -> closed
 *
 * What the owner has been asked for and has not answered is a debt of his. It outlives its request
 * when that is given up: until his status comes he may read the request's list, and counts it.
 */
#pragma once

#include "base/list.h"
#include "base/timer_queue.h"
#include "rio/notify.h"
#include "rio/refusal.h"
#include "rio/requester.h"

enum { LIST_NONE = UINT32_MAX };

enum window_state {
	WINDOW_FREE = 0, /* the slot */
	WINDOW_WANTED,	 /* to be exposed */
	WINDOW_EXPOSING, /* the caller does so */
	WINDOW_OPEN,
	WINDOW_LEAVING, /* to be closed */
	WINDOW_CLOSED,	/* when the next act is asked for */
	WINDOW_STATES
};

struct window {
	enum window_state state;
	struct list link; /* of its request, or the free ones */
	struct list due;  /* of those to be exposed, or to be closed */
	struct request *request;
	uint8_t *detail; /* its element in the list, which its handle goes into */
	uint32_t tag, length, handle;
	uint64_t address;
	bool is_written;
};

enum request_state {
	REQUEST_FREE = 0,
	REQUEST_EXPOSING, /* not all of its windows are open */
	REQUEST_WAITING,  /* for its turn with the owner */
	REQUEST_ASKED,
	REQUEST_CLOSING, /* how it ends is known, its windows are not all closed */
	REQUEST_ENDED,	 /* and is to be taken */
	REQUEST_STATES
};

/* A device, whether it is offered now or was. */
struct unflushed {
	struct platform iounit;
	uint8_t name[RIO_DEVICE_NAME_MAX];
	uint32_t name_bytes; /* 0: the slot is free */
	uint64_t instance;
	/* By rio_requester.writes: the last one acknowledged; the last one that a flush covers. */
	uint64_t written, flushed;
	uint64_t loss, reported; /* by rio_requester.write_losses: the last; the last reported */
	uint32_t uses;		 /* touches */
	uint64_t left;		 /* when it was offered last: by rio_requester.leaves */
};

/* What a request does to a device, if it writes or flushes. */
struct touch {
	uint32_t device;
	struct unflushed *unflushed; /* NULL: it has not been offered yet */
	uint64_t instance, reported; /* of that, when the request was asked for or it was offered */
	uint64_t written;	     /* writes acknowledged before: by rio_requester.writes */
	bool is_flushed;
	bool is_written; /* without FUA, behind the last flush */
};

struct request {
	enum request_state state;
	struct list link; /* of the free, waiting or ended ones */
	uint64_t id, deadline_ns;
	struct timer timer;
	struct list windows;
	uint32_t unopened;	/* of its windows, that are not open yet */
	uint32_t list;		/* slot of a long list; LIST_NONE */
	struct debt *debt;	/* NULL: the owner has answered, or was not asked */
	uint32_t device;	/* of its first transaction */
	uint64_t weight;	/* bytes that it moves */
	struct platform iounit; /* that has it; unit 0: not known yet */
	uint64_t losses;	/* of connections, when the owner was asked */
	bool is_doubtful;	/* the word that is awaited may have been lost with one */
	struct rio_ended end;
	struct touch touches[RIO_LIST_TRANSACTIONS_MAX];
	uint32_t touch_count;
	size_t length; /* of what goes into the message */
	uint8_t bytes[RIO_REQUEST_LIST_MAX];
};

/* A request that the owner has, and has not answered. */
struct debt {
	struct list link;	 /* of the free ones, or those to be cancelled */
	struct list owing_link;	 /* its request has ended */
	struct request *request; /* NULL: that, or the slot is free */
	uint64_t id;		 /* 0: the slot is free */
	uint32_t list;		 /* slot, of a request that was given up */
	bool is_cancelled;	 /* he was told, or will be */
};

/*
 * An I/O unit that the owner has announced, or one that is to be hung up. A slot that is free still
 * knows which token it had and what was asked with it, until another needs the slot.
 */
struct unit {
	struct platform name;
	bool is_announced;
	bool is_leaving; /* to be hung up */
	struct list link;
	uint8_t token[RIO_TOKEN_BYTES];
	uint64_t counter; /* the highest one that was seen with this token */
	bool is_connected;
	uint64_t lost;		    /* its last connection was: by rio_requester.losses */
	struct rio_session session; /* of the data connection */
};

struct offer {
	struct rio_device device; /* its name is here */
	uint8_t name[RIO_DEVICE_NAME_MAX];
	struct platform iounit;
	struct unflushed *unflushed;
};

enum inquiry_state {
	INQUIRY_NONE = 0,
	INQUIRY_DUE, /* to be said */
	INQUIRY_ASKED,
	INQUIRY_ENDED, /* and is to be taken */
};

struct inquiry {
	enum inquiry_state state;
	uint64_t id;
	uint32_t first;
	struct rio_reported answer;
	uint8_t entries[RIO_MSG_BYTES_MAX];
};

struct rio_requester {
	struct rio_requester_config config;
	uint64_t now_ns;
	uint64_t serial; /* of the last request */
	/* The owner. */
	bool has_owner, is_pong_due;
	struct rio_session session;
	uint32_t owner_requests_max, owner_list_max;
	uint64_t pong_id;
	uint8_t message[RIO_MSG_BYTES_MAX];
	struct inquiry inquiry;
	/* Slots of each kind. */
	struct request *requests;
	struct window *windows;
	uint64_t asked_weight; /* of all that the owner was asked for, and that have not ended */
	uint32_t held_count;   /* since the first of those that wait came */
	uint64_t held_ns;      /* until then those that wait may be held back */
	struct debt *debts;
	uint32_t debts_max;
	struct unit *units;
	uint32_t unit_count, units_announced; /* slots; in use */
	uint64_t losses;		      /* of data connections, so far */
	uint32_t *free_lists;
	uint32_t free_list_count, free_window_count, request_count, debt_count;
	struct timer_queue timers;
	struct rio_list *check; /* what the owner will say of a list */
	struct list free_requests, free_windows, free_debts;
	struct list waiting;	/* requests, for the owner */
	struct list ended;	/* requests, to be taken */
	struct list exposing;	/* windows to be exposed */
	struct list leaving;	/* windows to be closed */
	struct list owing;	/* debts of requests that have ended, the oldest first */
	struct list cancelling; /* debts that the owner is to be told of */
	struct list units_leaving;
	struct window *closed; /* by the last act */
	struct offer *offers;  /* config.devices_max */
	uint32_t offer_count;
	struct unflushed *unflushed;
	uint32_t unflushed_max;	 /* those that are offered, and as many that were */
	uint64_t leaves;	 /* of devices that were offered, so far */
	bool has_forgotten;	 /* writes that no flush covers: of any device that is not known */
	uint64_t writes;	 /* that were acknowledged without being durable, so far */
	uint64_t write_losses;	 /* of acknowledged writes, so far */
	uint64_t forgotten_loss; /* the last one of a device that is not known any more */
};

/* ---- requester_list.c ----------------------------------------------------------------------- */

/* What a request's list needs. */
struct list_size {
	uint64_t bytes;	  /* without attributes and chain pointer */
	uint32_t windows; /* own fragments */
	bool is_long;	  /* it does not fit into a message */
};

enum weft_reason list_measure(const struct rio_requester *q, const struct rio_ask *ask,
			      struct list_size *size);

/* Writes it, into the request or its slot, and gives the request its windows. */
void list_build(struct rio_requester *q, struct request *r, const struct rio_ask *ask,
		const struct list_size *size);

/* Will it be refused? */
enum weft_reason list_check(struct rio_requester *q, const struct request *r,
			    const struct list_size *size);

/* The window is open: what stands for it in the list is its handle. */
void list_set_handle(const struct window *w);

/* ---- requester_requests.c ------------------------------------------------------------------- */

/* How it ends is known. */
void request_end(struct rio_requester *q, struct request *r, uint32_t reason);
void request_late(struct rio_requester *q, struct request *r);
enum weft_reason request_take_status(struct rio_requester *q, uint64_t id,
				     const struct rio_status *status);
enum weft_reason requests_take_notified(struct rio_requester *q,
					const struct rio_notified *notified);
enum weft_reason request_take_word(struct rio_requester *q, struct platform iounit,
				   const struct rio_msg *m);
void debts_forget(struct rio_requester *q);
bool requests_are_held(const struct rio_requester *q);

/* Those that only this I/O unit could have told of end: its connection is gone. */
void requests_untold(struct rio_requester *q, struct platform iounit);

/* For the driver to do: the last CLOSE is done; windows; what is to be said to the owner. */
void window_act_done(struct rio_requester *q);
bool window_act(struct rio_requester *q, struct rio_requester_act *act);
bool request_act(struct rio_requester *q, struct rio_requester_act *act);
bool cancel_act(struct rio_requester *q, struct rio_requester_act *act);

/* A new window of the request. There is a free one. */
struct window *window_new(struct rio_requester *q, struct request *r);

/* ---- requester_units.c ---------------------------------------------------------------------- */

enum weft_reason unit_announce(struct rio_requester *q, const struct rio_announce *announce);
void unit_revoke(struct rio_requester *q, struct platform name);
void units_forget(struct rio_requester *q);
bool unit_act(struct rio_requester *q, struct rio_requester_act *act);
bool unit_is_connected(struct rio_requester *q, struct platform name);

/* Was a connection of it lost since there had been so many losses? */
bool unit_was_lost(struct rio_requester *q, struct platform name, uint64_t losses);

/* Who has the device of this number; unit 0: nobody that was announced. */
struct platform unit_of_device(const struct rio_requester *q, uint32_t number);

/* ---- requester_unflushed.c ------------------------------------------------------------------ */

/* The device is offered, as this instance. NULL: there is no room to remember it. */
struct unflushed *unflushed_offer(struct rio_requester *q, struct platform iounit,
				  const struct rio_device *d);

/* It is offered no more. */
void unflushed_left(struct rio_requester *q, struct unflushed *u);

/* WEFT_R_RIO_WRITES_LOST: it flushes a device that has lost writes; that has been told now. */
enum weft_reason unflushed_take_loss(struct rio_requester *q, const struct rio_ask *ask);
void unflushed_begin(struct rio_requester *q, struct request *r, const struct rio_ask *ask);

/* The request ends for this reason, or for the one that is returned. */
uint32_t unflushed_end(struct rio_requester *q, struct request *r, uint32_t reason);

/* ---- requester_inquiry.c -------------------------------------------------------------------- */

/* False: it is not the answer to the inquiry. */
bool inquiry_take_status(struct rio_requester *q, const struct rio_msg *m);
enum weft_reason inquiry_take_report(struct rio_requester *q, const struct rio_msg *m);
void inquiry_forget(struct rio_requester *q);
bool inquiry_act(struct rio_requester *q, struct rio_requester_act *act);

/* ---- requester.c ---------------------------------------------------------------------------- */

void requester_say(struct rio_requester *q, const struct rio_msg *m, struct rio_requester_act *act);
