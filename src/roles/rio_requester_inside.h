/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's internals, for its own files only: rio_requester.c (creation, events),
 * rio_asking.c (requests and waiting threads), rio_memory.c (devices and memory), rio_inquire.c
 * (reports on the cluster).
 */
#pragma once

#include <pthread.h>

#include "base/deadline.h"
#include "base/list.h"
#include "rio/requester.h"
#include "roles/rio_end.h"

/* What a thread waits for. */
enum follower_wants {
	WANTS_ALL,  /* any event */
	WANTS_ROOM, /* the end of any request */
	WANTS_OWN   /* the end of its own request */
};

/* A thread that waits while another thread polls the adapter. */
struct follower {
	struct list link;
	pthread_cond_t wake;
	enum follower_wants wants;
};

/* A thread that waits for the end of one request. */
struct waiter {
	struct weft_rio_result ended;
	bool has_ended;
	struct follower thread;
};

/* The context of a request in the core. */
struct ticket {
	struct list link;      /* in free_tickets or ended */
	struct waiter *waiter; /* NULL: weft_rio_request_wait() returns it */
	struct weft_rio_result ended;
};

/* A memory region that the program added, or a window over a part of one. */
struct held {
	uint32_t tag;
	bool is_window;
};

/* A window of a request. */
struct pane {
	uint32_t tag; /* the current tag; 0: no window allocated */
	bool is_open;
	struct platform iounit; /* that may use it; unit 0: any */
};

struct weft_rio_requester {
	struct rio_loop loop;
	pthread_mutex_t lock; /* guards everything here */
	/*
	 * The thread that polls the adapter, and one that was told to take over; NULL: none. The
	 * others wait in followers.
	 */
	struct follower *poller, *next_poller;
	struct list followers;
	/* Polls now and then if no other thread does, so that lost connections are restored. */
	pthread_t keeper;
	pthread_cond_t keeper_wake;
	bool has_keeper, is_closing;
	struct rio_requester *core;
	struct rio_end *owner;
	uint8_t *lists;
	uint32_t lists_tag, lists_window;
	struct pane *panes;		/* by the core's id */
	struct weft_qp *unconnected_qp; /* holds windows for unconnected I/O units */
	struct ticket *tickets;
	struct list free_tickets, ended;
	struct held *held;
	uint32_t held_count, held_room;
	struct rio_fragment *fragments; /* scratch: the fragments of a request for the core */
	uint32_t requests_max, sges_max;
	bool is_inquiring; /* a thread waits for the core's report */
};

/* ---- rio_requester.c ------------------------------------------------------------------------ */

/* Runs the core and carries out its acts. */
void requester_work(struct weft_rio_requester *q);

/* Wakes all threads that wait for this; each checks for itself. */
void requester_tell(struct weft_rio_requester *q, enum follower_wants what);

/* Wakes one thread that waits for a free request slot; it wakes the next if slots are left. */
void requester_tell_room(struct weft_rio_requester *q);

/*
 * Waits until what f wants may have happened, at most until until_ns. Called with the lock held,
 * which is released meanwhile. One waiting thread polls the adapter; the others sleep until it sees
 * what they want, or until they take over polling. A thread calls requester_hand_on() after its
 * last wait.
 */
void requester_wait(struct weft_rio_requester *q, struct follower *f, uint64_t until_ns);

/* The calling thread stops waiting: makes another waiting thread poll. */
void requester_hand_on(struct weft_rio_requester *q);

/* ---- rio_memory.c --------------------------------------------------------------------------- */

void requester_device_copy(const struct rio_device *from, struct platform iounit,
			   struct weft_rio_device *to);

/* Deregisters all memory that the program has not removed. */
void requester_memory_forget(struct weft_rio_requester *q);
