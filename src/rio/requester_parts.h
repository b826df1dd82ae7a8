/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's internals, for its own files only: requester.c (creation, messages, acts),
 * requester_list.c (a request's list), requester_requests.c (a request from its windows to its
 * end), requester_units.c (announced I/O units and their devices), requester_unflushed.c (devices
 * with acknowledged writes that no flush covers), requester_inquiry.c (reports on the cluster).
 *
 *	request   exposing -> waiting -> asked -> closing -> ended
 *	window    wanted -> exposing -> open -> leaving -> closed
 *
 * A request that the owner was asked for and has not answered is a debt of the owner. The debt
 * outlives a request that is abandoned: until its status comes, the owner may read the request's
 * list, and counts the request against its limit.
 */
#pragma once

#include "base/list.h"
#include "base/timer_queue.h"
#include "rio/notify.h"
#include "rio/refusal.h"
#include "rio/requester.h"

enum { LIST_NONE = UINT32_MAX };

enum window_state {
	WINDOW_FREE = 0, /* the slot is unused */
	WINDOW_WANTED,	 /* EXPOSE is due */
	WINDOW_EXPOSING, /* EXPOSE was pulled */
	WINDOW_OPEN,
	WINDOW_LEAVING, /* CLOSE is due */
	WINDOW_CLOSED,	/* CLOSE was pulled; free when the next act is pulled */
	WINDOW_STATES
};

struct window {
	enum window_state state;
	struct list link; /* in its request's windows, or in free_windows */
	struct list due;  /* in exposing or leaving */
	struct request *request;
	uint8_t *detail; /* its list element, which takes the handle */
	uint32_t tag, length, handle;
	uint64_t address;
	bool is_written;
};

enum request_state {
	REQUEST_FREE = 0,
	REQUEST_EXPOSING, /* not all of its windows are open */
	REQUEST_WAITING,  /* for the owner's request limit, or held back */
	REQUEST_ASKED,
	REQUEST_CLOSING, /* its outcome is known, some windows are still open */
	REQUEST_ENDED,	 /* to be taken by the caller */
	REQUEST_STATES
};

/* A device that is offered, or was: its acknowledged writes that no flush covers. */
struct unflushed {
	struct platform iounit;
	uint8_t name[RIO_DEVICE_NAME_MAX];
	uint32_t name_bytes; /* 0: the slot is free */
	uint64_t instance;
	/*
	 * Numbers of writes (rio_requester.writes): the last acknowledged; the last covered by a
	 * flush.
	 */
	uint64_t written, flushed;
	uint64_t loss, reported; /* numbers of losses: the last; the last reported */
	uint32_t uses;		 /* by struct touch */
	uint64_t left;		 /* when it was last withdrawn: by rio_requester.leaves */
};

/* What a request that writes or flushes does to a device. */
struct touch {
	uint32_t device;
	struct unflushed *unflushed; /* NULL: the device is not offered yet */
	uint64_t instance, reported; /* of the device, when asked for or when it was offered */
	uint64_t written; /* last write acknowledged before it: by rio_requester.writes */
	bool is_flushed;
	bool is_written; /* without FUA, after its last flush */
};

struct request {
	enum request_state state;
	struct list link; /* in free_requests, waiting or ended */
	uint64_t id, deadline_ns;
	struct timer timer;
	struct list windows;
	uint32_t unopened;	/* windows that are not open yet */
	uint32_t list;		/* slot of a long list, or LIST_NONE */
	struct debt *debt;	/* NULL: the owner has answered, or was not asked */
	uint32_t device;	/* of its first transaction */
	uint64_t weight;	/* bytes to move */
	struct platform iounit; /* the device's I/O unit; unit 0: not known yet */
	uint64_t losses;	/* rio_requester.losses when the owner was asked */
	bool is_doubtful;	/* the I/O unit's report may have been lost with a connection */
	struct rio_ended end;
	struct touch touches[RIO_LIST_TRANSACTIONS_MAX];
	uint32_t touch_count;
	size_t length; /* of the part in the message */
	uint8_t bytes[RIO_REQUEST_LIST_MAX];
};

/* A request that the owner has not answered yet. */
struct debt {
	struct list link;	 /* in free_debts or cancelling */
	struct list owing_link;	 /* in owing: its request has ended */
	struct request *request; /* NULL: it has ended, or the slot is free */
	uint64_t id;		 /* 0: the slot is free */
	uint32_t list;		 /* list slot of an abandoned request */
	bool is_cancelled;	 /* CANCEL was sent or is due */
};

/*
 * An I/O unit that the owner has announced, or whose connection is to be closed. A free slot keeps
 * its last token and counter until another unit needs the slot.
 */
struct unit {
	struct platform name;
	bool is_announced;
	bool is_leaving; /* HANG_UP is due */
	struct list link;
	uint8_t token[RIO_TOKEN_BYTES];
	uint64_t counter; /* the highest seen with this token */
	bool is_connected;
	uint64_t lost; /* number of its last lost connection: by rio_requester.losses */
	struct rio_session session; /* of the data connection */
};

struct offer {
	struct rio_device device; /* its name points to name[] below */
	uint8_t name[RIO_DEVICE_NAME_MAX];
	struct platform iounit;
	struct unflushed *unflushed;
};

enum inquiry_state {
	INQUIRY_NONE = 0,
	INQUIRY_DUE, /* to be sent */
	INQUIRY_ASKED,
	INQUIRY_ENDED, /* to be taken by the caller */
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
	uint64_t asked_weight; /* bytes of all requests in state ASKED */
	uint32_t held_count;   /* requests since the first waiting one came */
	uint64_t held_ns;      /* how long waiting requests may be held back */
	struct debt *debts;
	uint32_t debts_max;
	struct unit *units;
	uint32_t unit_count, units_announced; /* slots; announced */
	uint64_t losses;		      /* data connections lost so far */
	uint32_t *free_lists;
	uint32_t free_list_count, free_window_count, request_count, debt_count;
	struct timer_queue timers;
	struct rio_list *check; /* scratch: checks a list as the owner will */
	struct list free_requests, free_windows, free_debts;
	struct list waiting;	/* requests, to be sent to the owner */
	struct list ended;	/* requests, to be taken */
	struct list exposing;	/* windows to be exposed */
	struct list leaving;	/* windows to be closed */
	struct list owing;	/* debts whose requests have ended, oldest first */
	struct list cancelling; /* debts with a CANCEL due */
	struct list units_leaving;
	struct window *closed; /* CLOSE of this window was the last act */
	struct offer *offers;  /* config.devices_max */
	uint32_t offer_count;
	struct unflushed *unflushed;
	uint32_t unflushed_max;	 /* room for all offered devices, and as many former ones */
	uint64_t leaves;	 /* device withdrawals so far */
	bool has_forgotten;	 /* devices with unflushed writes: any unknown one may be such */
	uint64_t writes;	 /* writes acknowledged so far without being durable */
	uint64_t write_losses;	 /* losses of acknowledged writes so far */
	uint64_t forgotten_loss; /* the last loss of a forgotten device */
};

/* ---- requester_list.c ----------------------------------------------------------------------- */

/* The size of a request's list. */
struct list_size {
	uint64_t bytes;	  /* without attributes and chain pointer */
	uint32_t windows; /* own fragments: one window each */
	bool is_long;	  /* does not fit into a message */
};

enum weft_reason list_measure(const struct rio_requester *q, const struct rio_ask *ask,
			      struct list_size *size);

/* Writes the list into the request or its list slot, and gives the request its windows. */
void list_build(struct rio_requester *q, struct request *r, const struct rio_ask *ask,
		const struct list_size *size);

/* WEFT_OK, or the reason for which the owner would refuse the list. */
enum weft_reason list_check(struct rio_requester *q, const struct request *r,
			    const struct list_size *size);

/* The window is open: puts its handle into the list. */
void list_set_handle(const struct rio_requester *q, const struct window *w);

/* ---- requester_requests.c ------------------------------------------------------------------- */

/* The request's outcome is known: closes its windows, then ends it. */
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

/* The I/O unit's connection is gone: ends requests whose outcome only that unit could report. */
void requests_end_unreported(struct rio_requester *q, struct platform iounit);

/* Acts: completes the last CLOSE; windows; messages to the owner. */
void window_act_done(struct rio_requester *q);
bool window_act(struct rio_requester *q, struct rio_requester_act *act);
bool request_act(struct rio_requester *q, struct rio_requester_act *act);
bool cancel_act(struct rio_requester *q, struct rio_requester_act *act);

/* A new window for the request. The caller has checked that a slot is free. */
struct window *window_new(struct rio_requester *q, struct request *r);

/* ---- requester_units.c ---------------------------------------------------------------------- */

enum weft_reason unit_announce(struct rio_requester *q, const struct rio_announce *announce);
void unit_revoke(struct rio_requester *q, struct platform name);
void units_forget(struct rio_requester *q);
bool unit_act(struct rio_requester *q, struct rio_requester_act *act);
bool unit_is_connected(struct rio_requester *q, struct platform name);

/* Was a connection of the I/O unit lost since rio_requester.losses had this value? */
bool unit_was_lost(struct rio_requester *q, struct platform name, uint64_t losses);

/* The I/O unit of the device with this number; unit 0: no announced unit has it. */
struct platform unit_of_device(const struct rio_requester *q, uint32_t number);

/* ---- requester_unflushed.c ------------------------------------------------------------------ */

/* The device is offered, with its current instance. NULL: no slot is left to track it. */
struct unflushed *unflushed_offer(struct rio_requester *q, struct platform iounit,
				  const struct rio_device *d);

/* The device is no longer offered. */
void unflushed_left(struct rio_requester *q, struct unflushed *u);

/*
 * WEFT_R_RIO_WRITES_LOST: the request flushes a device that has lost writes; marks them reported.
 */
enum weft_reason unflushed_take_loss(struct rio_requester *q, const struct rio_ask *ask);
void unflushed_begin(struct rio_requester *q, struct request *r, const struct rio_ask *ask);

/* Records the outcome of the request; returns the reason with which it ends, which may differ. */
uint32_t unflushed_end(struct rio_requester *q, struct request *r, uint32_t reason);

/* ---- requester_inquiry.c -------------------------------------------------------------------- */

/* False: the message is not the answer to the inquiry. */
bool inquiry_take_status(struct rio_requester *q, const struct rio_msg *m);
enum weft_reason inquiry_take_report(struct rio_requester *q, const struct rio_msg *m);
void inquiry_forget(struct rio_requester *q);
bool inquiry_act(struct rio_requester *q, struct rio_requester_act *act);

/* ---- requester.c ---------------------------------------------------------------------------- */

void requester_say(struct rio_requester *q, const struct rio_msg *m, struct rio_requester_act *act);
