/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network of one adapter: its carriers, their deadlines, and which thread reads the sockets.
 *
 *	carrier.h   what moves packets or streams: the loop knows carriers by a table
 *	net.c       which socket is read when: poll, deadlines
 *	progress.c  the thread that makes progress while the program does not poll
 *
 * The adapter's lock guards all of it; the thread releases the lock only while it sleeps.
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "driver/loop/adapter_lock.h"
#include "driver/loop/carrier.h"
#include "driver/loop/watch.h"
#include "driver/observe/observe.h"

/* What the adapter's thread does. */
enum progress_state {
	PROGRESS_NONE = 0,    /* there is no thread */
	PROGRESS_WATCHING,    /* it sleeps in epoll_wait() and reads the sockets */
	PROGRESS_SERVING,     /* it reads the sockets all the time, and does all of the work */
	PROGRESS_STANDING_BY, /* the program polls; the thread checks now and then that it does */
	PROGRESS_GUARDING,    /* the same; the thread sends deferred requests when polls stop */
	PROGRESS_FOLLOWING,   /* the program itself sleeps on the sockets: progress_sleep() */
	PROGRESS_IDLE,	      /* the same, for long: the thread sleeps until it is signalled */
	PROGRESS_STOPPING     /* the thread is to end */
};

struct net {
	struct weft_adapter *adapter;
	int epoll;
	struct watch wake; /* an eventfd: wakes the thread from epoll_wait() */
	struct carrier *carriers[CARRIERS_MAX];
	uint32_t carrier_count;
	bool is_abandoned;    /* this process is a forked child; the network is its parent's */
	uint64_t now_ns;      /* the clock as last read */
	uint64_t calls_other; /* system calls that moved no bytes of connections */
	uint32_t hot_turn, polls_since_epoll;
	bool was_busy;	      /* the last poll found something */
	bool is_all_due;      /* a standby period has passed: the next poll asks epoll as well */
	uint32_t polls_empty; /* consecutive polls of the program that found nothing */
	uint32_t lean_left;   /* see net_poll_lean() */
	/* progress.c */
	pthread_t thread;
	int thread_number;    /* the kernel's */
	sem_t has_begun;      /* the thread: its number is known */
	pthread_cond_t rouse; /* wakes the thread from standing by */
	enum progress_state state;
	int favour;	/* above 0: polls find the arrivals; below: the thread does */
	uint64_t asked; /* packets or segments received that were requests of peers */
	/* Arrivals until the thread may stand by: in all, and left. */
	uint32_t standby_backoff, standby_backoff_left;
	uint32_t standby_backoffs; /* ever: times that a peer waited because the thread stood by */
	uint32_t periods;	   /* consecutive periods of standing by */
	bool is_woken;	 /* wake was written, or will be at once; no thread has read it since */
	uint32_t asleep; /* threads that sleep on the sockets: net_rest() was called for each */
	uint64_t wakes_missed; /* sleeps that no peer ended although input was there */
	/* Requests posted since the program last polled; some of them wait to be sent together. */
	uint64_t burst_polls;
	uint32_t burst;
	bool is_waiting;
	uint64_t waiting_bytes;
	uint64_t waits; /* times that is_waiting became true */
	/* A program that watches the sockets itself, see progress_sleep(). */
	uint64_t leads;	   /* times that it slept on them */
	bool is_led;	   /* it sleeps on them now */
	bool is_driven;	   /* a thread of the program does only that: weft_adapter_drive() */
	bool is_read;	   /* progress_sleep() has just read the sockets: the next poll need not */
	uint64_t due_seen; /* the deadline until which the thread sleeps */
};

/* The adapter's network, made at first use. */
enum weft_reason net_get(struct weft_adapter *a, struct net **net);

/* Closes the network, after a short time for graceful closes in progress. */
void net_close(struct net *net);

/*
 * Sends what is ready. True: something moved, and the core may have new work. can_wait: see
 * adapter_poll().
 */
bool net_output(struct net *net, bool can_wait);

/*
 * Receives what has arrived. Reads each connection at most once: with is_all every connection, else
 * perhaps only those that were busy lately. True: the core or net_output() has work.
 */
bool net_poll(struct net *net, bool is_all);

/*
 * In place of net_poll() of a program that called it a few polls ago: receives what has come by hot
 * sockets or shared memory, and looks at nothing else. LEAN_NOT: net_poll() has to be called.
 */
enum lean_poll { LEAN_NOT, LEAN_EMPTY, LEAN_FOUND };
enum lean_poll net_poll_lean(struct net *net);

/*
 * Whether the program has polled in vain for so long that it should yield the processor: the peer
 * may be a process that waits for this very processor.
 */
bool net_is_patient(struct net *net);

/* The counters of all connections. */
void net_traffic(const struct net *net, struct weft_traffic *t);

/* Whether net_output() has something to send. */
bool net_has_output(const struct net *net);

/* Adds t to sum. */
void traffic_add(struct weft_traffic *sum, const struct weft_traffic *t);

uint64_t net_due(const struct net *net);

/* The program has stopped polling: epoll watches every socket again. */
void net_hot_watch(struct net *net);

/* Before a thread sleeps on the sockets. False: something has come that no socket reports. */
bool net_rest(struct net *net);

/* At exit(): sends deferred requests, and tells peers that the process ends. */
void net_exit(struct net *net);

/* A capture has begun or ended. NULL: there is no network. */
void net_observe(struct net *net);

/* In a child of fork(): closes the descriptors; everything else belongs to the parent. */
void net_abandon(struct net *net);

/* Whether the program still holds objects of a carrier. */
bool net_is_used(const struct net *net);

/* Reads the clock into now_ns. */
uint64_t net_look_at_clock(struct net *net);

/* Registers the watch with epoll for these events; 0 removes it. */
void net_watch(struct net *net, struct watch *w, uint32_t events);

/* progress.c */

/* Whether the thread leaves the sockets to the program. */
static inline bool progress_is_aside(const struct net *net)
{
	return net->state >= PROGRESS_STANDING_BY && net->state <= PROGRESS_IDLE;
}

enum weft_reason progress_start(struct net *net);
void progress_stop(struct net *net);

/* Input came. is_poll: the program's poll found it; else the thread did. */
void progress_found(struct net *net, bool is_poll);

/*
 * A request of so many bytes has been posted. True: it may wait, so that it is sent together with
 * those that follow. The next poll sends them, or the thread if no poll comes.
 */
bool progress_may_wait(struct net *net, uint64_t bytes);

/* Output was deferred: the program's next poll sends it, or the thread does soon. */
void progress_waits(struct net *net);

/* Deferred output is being sent now. */
static inline void progress_sends(struct net *net)
{
	net->is_waiting = false;
	net->waiting_bytes = 0;
}

/* Takes the lock of the queue pair's adapter, and sends deferred requests first. */
static inline struct weft_adapter *net_enter_settled(const struct weft_qp *qp)
{
	struct weft_adapter *a = adapter_enter_qp(qp);

	if (a->net && a->net->is_waiting)
		adapter_work(a);
	return a;
}

/*
 * The calling thread watches the sockets in place of the adapter's thread. It sleeps until a socket
 * or the descriptor `also` (-1: none) is ready, a deadline comes, or until_ns; then it receives
 * what has come. The lock is held, and released during the sleep. is_waiting must be false.
 * True: the descriptor is ready.
 */
bool progress_sleep(struct net *net, int also, uint64_t until_ns);

/* is_always: from now on a thread of the program always watches, and the adapter's thread idles. */
void progress_lead(struct net *net, bool is_always);

/* is_served: the adapter's thread does all of the work from now on. WEFT_R_BUSY: a program does. */
enum weft_reason progress_serve(struct net *net, bool is_served);

/* WAKE_BYSTANDER, WAKE_WATCHER: the lock need not be held. */
void progress_wake(struct net *net, uint32_t wakes);

/* Something has come of which a thread that sleeps is not told: wakes it. */
void progress_stir(struct net *net);

/* A deadline may have moved, or a thread waits for events: wakes the adapter's thread if needed. */
void progress_notice(struct net *net);
