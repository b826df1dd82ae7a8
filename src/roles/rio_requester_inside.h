/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a requester consists of, for its own files only: rio_requester.c (life, and what happens),
 * rio_asking.c (requests of threads, and waiting), rio_memory.c (devices, and memory that requests
 * name), rio_inquire.c (how the cluster stands).
 */
#pragma once

#include <pthread.h>

#include "base/deadline.h"
#include "base/list.h"
#include "rio/requester.h"
#include "roles/rio_end.h"

/* What a thread waits for. */
enum follower_wants {
	WANTS_ALL,  /* whatever happens */
	WANTS_ROOM, /* that some request ends */
	WANTS_OWN   /* that its own ends */
};

/* A thread that waits, and does not look at the adapter itself: another one does. */
struct follower {
	struct list link;
	pthread_cond_t wake;
	enum follower_wants wants;
};

/* A request of somebody who waits for just this one. */
struct waiter {
	struct weft_rio_result ended;
	bool has_ended;
	struct follower thread;
};

/* What the core gives back of each request. */
struct ticket {
	struct list link;      /* of the free ones, or of those that have ended */
	struct waiter *waiter; /* NULL: weft_rio_request_wait() takes it */
	struct weft_rio_result ended;
};

/* Memory that was added, or a part of it that was exposed. */
struct held {
	uint32_t tag;
	bool is_window;
};

/* A window of a request. */
struct pane {
	uint32_t tag; /* the current one; 0: there is no window yet */
	bool is_open;
	struct platform iounit; /* whose it is; unit 0: it is for all */
};

struct weft_rio_requester {
	struct rio_loop loop;
	pthread_mutex_t lock; /* guards everything here */
	/*
	 * Who looks at the adapter, or was told to; NULL: nobody. Who waits for them to see
	 * something.
	 */
	struct follower *looker, *heir;
	struct list followers;
	/* Looks now and then if nobody else does, so that connections are made again. */
	pthread_t keeper;
	pthread_cond_t keeper_wake;
	bool has_keeper, is_closing;
	struct rio_requester *core;
	struct rio_end *owner;
	uint8_t *lists;
	uint32_t lists_tag, lists_window;
	struct pane *panes;	/* by the core's id */
	struct weft_qp *nobody; /* never connected: windows of those who are not either */
	struct ticket *tickets;
	struct list free_tickets, ended;
	struct held *held;
	uint32_t held_count, held_room;
	struct rio_fragment *fragments; /* as the core wants them, of the request that is asked */
	uint32_t requests_max, sges_max;
	bool is_inquiring; /* a thread, for which the core's answer is */
};

/* ---- rio_requester.c ------------------------------------------------------------------------ */

/* Lets the core go on, and does what it wants done, now. */
void requester_work(struct weft_rio_requester *q);

/* Those who wait for this go on, and see for themselves. */
void requester_tell(struct weft_rio_requester *q, enum follower_wants what);

/* One of those who wait for room: it tells the next if it finds enough. */
void requester_tell_room(struct weft_rio_requester *q);

/*
 * Until what it waits for may have happened, or it is that late. The lock is held, and released
 * meanwhile. One of those who wait looks at the adapter; the others sleep until it has seen what
 * they want, or until it is their turn to look. Who has waited calls requester_hand_on() in the
 * end.
 */
void requester_wait(struct weft_rio_requester *q, struct follower *f, uint64_t until_ns);

/* To be called by who need not wait any more: somebody else looks from now on. */
void requester_hand_on(struct weft_rio_requester *q);

/* ---- rio_memory.c --------------------------------------------------------------------------- */

void requester_device_copy(const struct rio_device *from, struct platform iounit,
			   struct weft_rio_device *to);

/* Takes back all that the program has not. */
void requester_memory_forget(struct weft_rio_requester *q);
