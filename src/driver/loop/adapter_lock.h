/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter as this process runs it: the core behind one lock, with this machine's clock. Every
 * public call is the same three steps: lock, call the core, unlock; those that may have given work
 * make progress before they unlock.
 */
#pragma once

#include <pthread.h>

#include "base/check.h"
#include "driver/loop/fork.h"
#include "driver/observe/observe.h"
#include "verbs/verbs.h"

struct net;
struct weft_adapter;

/* The world around an adapter: this machine, or a simulated one. */
struct host {
	uint64_t (*now_ns)(struct weft_adapter *a);
	/*
	 * Moves bytes between streams and the network. True: the core may have work again.
	 * can_wait: see adapter_poll().
	 */
	bool (*output)(struct weft_adapter *a, bool can_wait);
	/* Looks for what has arrived: everywhere, or where it is likely. True: as above. */
	bool (*poll)(struct weft_adapter *a, bool is_all);
	uint64_t (*due)(struct weft_adapter *a);
	/* The adapter has got its network. */
	void (*has_network)(struct weft_adapter *a);
};

struct weft_adapter {
	pthread_mutex_t lock;	  /* guards everything below; the only lock */
	pthread_cond_t has_event; /* signalled when core.events may have become non-empty */
	uint32_t waiters;	  /* threads in weft_event_next() */
	uint64_t due_seen;	  /* the deadline that the latest of them sleeps to */
	uint64_t polls;		  /* by the program: while this counts up, the thread stands by */
	void (*on_event)(void *context, const struct weft_event *event); /* or NULL */
	void *on_event_context;
	int event_fd;	      /* an eventfd, see weft_adapter_fd(); -1: not asked for */
	bool is_event_fd_set; /* it is readable */
	const struct host *host;
	void *world;	 /* of a simulated host */
	struct net *net; /* NULL: no connection was ever made */
	struct observed observed;
	struct list fork_link; /* of those that are open; the lock of fork.c guards it */
	struct list stat_link; /* of those that have a network; the lock of stat.c guards it */
	struct adapter core;
};

/* Whether somebody may sleep until an event wakes it: then the thread must watch. */
static inline bool adapter_has_sleepers(const struct weft_adapter *a)
{
	return a->waiters > 0 || ((a->on_event || a->event_fd >= 0) && a->core.cqs_armed > 0);
}

/* What is traced after this happened then. */
static inline uint64_t adapter_now_ns(struct weft_adapter *a)
{
	uint64_t now_ns = a->host->now_ns(a);

	if (a->core.trace)
		a->core.trace->now_ns = now_ns;
	return now_ns;
}

static inline struct weft_adapter *adapter_of(struct adapter *core)
{
	return CONTAINER_OF(core, struct weft_adapter, core);
}

static inline struct adapter *adapter_enter(struct weft_adapter *a)
{
	if (__builtin_expect(fork_is_child(), 0))
		fork_notice();
	pthread_mutex_lock(&a->lock);
	if (a->core.trace)
		(void)adapter_now_ns(a);
	return &a->core;
}

/* The lock of a queue pair's adapter, taken. */
static inline struct weft_adapter *adapter_enter_qp(const struct weft_qp *qp)
{
	struct weft_adapter *a = adapter_of(qp->adapter);

	adapter_enter(a);
	return a;
}

/* Whether memory is short, on purpose. */
static inline bool adapter_is_short(struct weft_adapter *a)
{
	return a->core.faults && adapter_fault_falls(&a->core, &a->core.dice, FAULT_NO_MEMORY, 0);
}

/* Leaves without progress: the call cannot have given work. */
static inline void adapter_leave(struct weft_adapter *a)
{
	if (a->observed.observer)
		observe_drain(&a->observed);
	pthread_mutex_unlock(&a->lock);
}

/*
 * Makes what progress is due and wakes whoever waits for events; the second also looks for what has
 * arrived, in the name of the program, the third in that of the thread. The lock is held. can_wait:
 * the program is told at once of what has come, and acknowledgements may go with its answer.
 */
void adapter_work(struct weft_adapter *a);
void adapter_poll(struct weft_adapter *a, bool can_wait);
void adapter_watch(struct weft_adapter *a);

/* Makes the descriptor of weft_adapter_fd() readable while events wait, if there is one. */
void adapter_show_events(struct weft_adapter *a);

/* The next deadline of the core and of the network. */
uint64_t adapter_due_all(struct weft_adapter *a);

static inline void adapter_leave_working(struct weft_adapter *a)
{
	adapter_work(a);
	adapter_leave(a);
}
