/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter as this process runs it: the core behind one lock, with this machine's clock. Every
 * public call takes the lock, calls the core and releases the lock. A call that may have created
 * work makes progress before it releases the lock.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/check.h"
#include "driver/loop/fork.h"
#include "driver/loop/pager.h"
#include "driver/observe/observe.h"
#include "verbs/verbs.h"

struct net;
struct weft_adapter;

/* The world around an adapter: this machine, or a simulated one. */
struct host {
	uint64_t (*now_ns)(struct weft_adapter *a);
	/*
	 * Moves bytes between streams and the network. True: the core may have new work.
	 * can_wait: see adapter_poll().
	 */
	bool (*output)(struct weft_adapter *a, bool can_wait);
	/* Reads all sockets (is_all), or those likely to have input. True: as above. */
	bool (*poll)(struct weft_adapter *a, bool is_all);
	uint64_t (*due)(struct weft_adapter *a);
	/* The adapter has got its network. */
	void (*has_network)(struct weft_adapter *a);
};

/*
 * What the lock's holder owes to threads that sleep. They are woken when the lock has been
 * released: a thread that runs at once, on the same processor, would sleep again for the lock.
 */
enum adapter_wake {
	WAKE_PROGRAM = 1,   /* after_events(), as on_event() was called */
	WAKE_WAITERS = 2,   /* those in weft_event_next() */
	WAKE_BYSTANDER = 4, /* the adapter's thread, which waits for a condition */
	WAKE_WATCHER = 8    /* a thread that sleeps on the sockets */
};

struct weft_adapter {
	/*
	 * While the adapter's thread serves (QP-16) every thread takes the lock by trying at first,
	 * and says so in `entering`: to sleep for it, or to wake a thread that does, is a system
	 * call. See adapter_lock_trying().
	 */
	atomic_bool is_served;
	atomic_uint entering;
	pthread_mutex_t lock;	  /* guards everything below; the only lock */
	uint32_t wakes;		  /* enum adapter_wake: 0 while the lock is free */
	pthread_cond_t has_event; /* signalled when core.events may have become non-empty */
	uint32_t waiters;	  /* threads in weft_event_next() */
	uint64_t due_seen;	  /* the deadline until which the latest of them sleeps */
	uint64_t now_ns;	  /* the clock as last read */
	bool has_now;	      /* a moment ago: reset when the lock is released, and by long work */
	uint64_t polls;	      /* by the program: while this grows, the thread stands by */
	uint64_t polls_armed; /* polls when the program last armed a CQ, or ceased to poll */
	void (*on_event)(void *context, const struct weft_event *event); /* or NULL */
	void (*after_events)(void *context); /* or NULL; is not changed */
	void *on_event_context;		     /* the same */
	int event_fd;	      /* an eventfd, see weft_adapter_fd(); -1: not asked for */
	bool is_event_fd_set; /* it is readable */
	const struct host *host;
	void *world;	 /* of a simulated host */
	struct net *net; /* NULL: no connection was ever made */
	struct pager pager;
	struct observed observed;
	struct list fork_link; /* all open adapters; guarded by the lock of fork.c */
	struct list stat_link; /* adapters with a network; guarded by the lock of stat.c */
	struct adapter core;
};

/*
 * A program that polls so often after it armed a CQ is not asleep. UCX keeps a CQ for datagrams
 * armed, of which a thread hears, while it polls the others.
 */
enum { POLLS_AWAKE = 4096 };

/* Whether the program may sleep until an event: then the adapter's thread must watch sockets. */
static inline bool adapter_has_sleepers(const struct weft_adapter *a)
{
	return a->waiters > 0 || ((a->on_event || a->event_fd >= 0) && a->core.cqs_armed > 0 &&
				  a->polls - a->polls_armed < POLLS_AWAKE);
}

/* Reads the clock; the time also stamps trace events from now on. */
static inline uint64_t adapter_now_ns(struct weft_adapter *a)
{
	uint64_t now_ns = a->host->now_ns(a);

	a->now_ns = now_ns;
	if (a->core.trace)
		a->core.trace->now_ns = now_ns;
	return now_ns;
}

/* The same, but that the clock need not be read again if that was a moment ago. */
static inline uint64_t adapter_recent_ns(struct weft_adapter *a)
{
	return a->has_now ? a->now_ns : adapter_now_ns(a);
}

static inline struct weft_adapter *adapter_of(struct adapter *core)
{
	return CONTAINER_OF(core, struct weft_adapter, core);
}

/* Takes the lock: without a system call, unless its holder is kept from running for long. */
void adapter_lock_trying(struct weft_adapter *a);

/* Takes the lock, which another thread had a moment ago. */
void adapter_lock_contended(struct weft_adapter *a);

static inline bool adapter_is_served(const struct weft_adapter *a)
{
	return atomic_load_explicit(&a->is_served, memory_order_relaxed);
}

static inline struct adapter *adapter_enter(struct weft_adapter *a)
{
	if (__builtin_expect(fork_is_child(), 0))
		fork_notice();
	if (adapter_is_served(a))
		adapter_lock_trying(a);
	else if (pthread_mutex_trylock(&a->lock) != 0)
		adapter_lock_contended(a);
	if (a->core.trace)
		(void)adapter_now_ns(a);
	return &a->core;
}

/* The same, unless that would have to wait for another thread. */
static inline bool adapter_try_enter(struct weft_adapter *a)
{
	if (__builtin_expect(fork_is_child(), 0) || adapter_is_served(a)) {
		adapter_enter(a);
		return true;
	}
	if (pthread_mutex_trylock(&a->lock) != 0)
		return false;
	if (a->core.trace)
		(void)adapter_now_ns(a);
	return true;
}

/* Takes the lock of the queue pair's adapter. */
static inline struct weft_adapter *adapter_enter_qp(const struct weft_qp *qp)
{
	struct weft_adapter *a = adapter_of(qp->adapter);

	adapter_enter(a);
	return a;
}

/* Whether fault injection makes this allocation fail. */
static inline bool adapter_is_short(struct weft_adapter *a)
{
	return a->core.faults && adapter_fault_falls(&a->core, &a->core.dice, FAULT_NO_MEMORY, 0);
}

/* Wakes the threads; the lock need not be held. */
void adapter_wake(struct weft_adapter *a, uint32_t wakes);

/* Before the lock's holder waits for a condition, which releases the lock. */
static inline void adapter_wake_now(struct weft_adapter *a)
{
	uint32_t wakes = a->wakes;

	a->wakes = 0;
	a->has_now = false;
	if (wakes != 0)
		adapter_wake(a, wakes);
}

/* Releases the lock, and wakes the threads that are to be woken. */
static inline void adapter_unlock(struct weft_adapter *a)
{
	uint32_t wakes = a->wakes;

	a->wakes = 0;
	a->has_now = false;
	pthread_mutex_unlock(&a->lock);
	if (__builtin_expect(wakes != 0, 0))
		adapter_wake(a, wakes);
}

/* Releases the lock without progress: the call cannot have created work. */
static inline void adapter_leave(struct weft_adapter *a)
{
	if (a->observed.observer)
		observe_drain(&a->observed);
	adapter_unlock(a);
}

/*
 * All three make the progress that is due and wake threads that wait for events. adapter_poll()
 * also reads sockets on behalf of the program, adapter_watch() on behalf of the adapter's thread.
 * The lock is held. cq: the program polls this one, or NULL. Acknowledgements may wait for its next
 * request and leave with it, unless the CQ holds a completion: with that the program may exit. One
 * that drives the adapter (weft_adapter_drive()) has promised to come back.
 */
void adapter_work(struct weft_adapter *a);
void adapter_poll(struct weft_adapter *a, const struct weft_cq *cq);
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
