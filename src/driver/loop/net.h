/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network of one adapter: its carriers, their deadlines, and which thread reads the sockets.
 *
 *	carrier.h   what moves packets or streams: the loop knows carriers by a table
 *	net.c       which socket is read when: poll, deadlines
 *	progress.c  the thread that makes progress while the program does not poll
 *
 * All of it is guarded by the adapter's lock, except where the thread sleeps.
 */
#pragma once

#include <pthread.h>

#include "driver/loop/adapter_lock.h"
#include "driver/loop/carrier.h"
#include "driver/loop/watch.h"
#include "driver/observe/observe.h"

/* What the adapter's thread does. */
enum progress_state {
	PROGRESS_NONE = 0,    /* there is no thread */
	PROGRESS_WATCHING,    /* it sleeps in epoll_wait() and reads the sockets */
	PROGRESS_STANDING_BY, /* the program polls: it looks now and then whether that is so */
	PROGRESS_GUARDING,    /* the same; requests wait for others, and it sees that they go */
	PROGRESS_FOLLOWING,   /* the program sleeps at the sockets itself: progress_sleep() */
	PROGRESS_IDLE,	      /* the same, for long: it sleeps until it is told */
	PROGRESS_STOPPING     /* it is to end */
};

struct net {
	struct weft_adapter *adapter;
	int epoll;
	struct watch wake; /* an eventfd: the thread is to look again */
	struct carrier *carriers[CARRIERS_MAX];
	uint32_t carrier_count;
	bool is_abandoned;    /* it is the parent's: this process was forked */
	uint64_t now_ns;      /* when the clock was last looked at */
	uint64_t calls_other; /* system calls that moved no bytes of connections */
	uint32_t hot_turn, polls_since_epoll;
	bool was_busy;	      /* the last poll found something */
	bool is_all_due;      /* by time, however few the polls were */
	uint32_t polls_empty; /* by the program, one after the other */
	/* progress.c */
	pthread_t thread;
	pthread_cond_t rouse; /* the thread is to go from standing by to watching */
	enum progress_state state;
	int favour;	/* above 0: what comes is found by polls; below: by the thread */
	uint64_t asked; /* packets or segments that were requests of peers */
	/* Arrivals until the thread may stand by: in all, and left. */
	uint32_t standby_backoff, standby_backoff_left;
	uint32_t standby_backoffs; /* ever: a peer waited until the thread no longer stood by */
	uint32_t periods;	   /* of standing by, one after the other */
	bool is_woken;		   /* the thread has been told, and has not come yet */
	/* Requests posted one by one since the program last polled, of which some wait. */
	uint64_t burst_polls;
	uint32_t burst;
	bool is_waiting;
	uint64_t waiting_bytes;
	uint64_t waits; /* times that this began */
	/* A program that watches the sockets itself, see progress_sleep(). */
	uint64_t leads;	   /* times that it slept there */
	bool is_led;	   /* it does now */
	bool is_driven;	   /* it does nothing else: weft_adapter_drive() */
	uint64_t due_seen; /* deadline that the thread sleeps to */
};

/* The adapter's network, made at first use. */
enum weft_reason net_get(struct weft_adapter *a, struct net **net);

/* Ends it: what is still closing gets a moment, then everything is closed. */
void net_close(struct net *net);

/*
 * Sends what is to be sent. True: something moved, and the core may have work again. can_wait: as
 * adapter_poll() has it.
 */
bool net_output(struct net *net, bool can_wait);

/*
 * Receives what has arrived. Asks at most once about each connection; with is_all about every one,
 * else perhaps only about those that were busy lately. True: there is work, net_output() too.
 */
bool net_poll(struct net *net, bool is_all);

/*
 * Whether a program has polled in vain for so long that it should let others run: the peer may be
 * waiting for this very core.
 */
bool net_is_patient(struct net *net);

/* What all connections have carried. */
void net_traffic(const struct net *net, struct weft_traffic *t);

/* Whether net_output() would do something. */
bool net_has_output(const struct net *net);

/* Sums up what was carried. */
void traffic_add(struct weft_traffic *sum, const struct weft_traffic *t);

uint64_t net_due(const struct net *net);

/* The program has stopped polling: epoll watches every socket again. */
void net_hot_watch(struct net *net);

/* At exit(): sends what waits, and what tells peers that the process goes. */
void net_exit(struct net *net);

/* In a child of fork(): closes the descriptors, as all else is the parent's. */
void net_abandon(struct net *net);

/* Whether the program still holds objects of a carrier. */
bool net_is_used(const struct net *net);

/* Looks at the clock. */
uint64_t net_look_at_clock(struct net *net);

/* Asks epoll for these events of it; 0: no longer. */
void net_watch(struct net *net, struct watch *w, uint32_t events);

/* progress.c */

/* Whether the thread leaves the sockets to the program. */
static inline bool progress_is_aside(const struct net *net)
{
	return net->state >= PROGRESS_STANDING_BY && net->state <= PROGRESS_IDLE;
}

enum weft_reason progress_start(struct net *net);
void progress_stop(struct net *net);

/* Something came, and was found by the program's poll or by the thread. */
void progress_found(struct net *net, bool is_poll);

/*
 * A request of so many bytes has been posted, and others before it, with no poll in between: may it
 * wait for those that follow? The next poll sends them together, or the thread if none comes.
 */
bool progress_may_wait(struct net *net, uint64_t bytes);

/* Something waits for what the program does next: it, or the thread soon, sends it. */
void progress_waits(struct net *net);

/* What waits is sent now. */
static inline void progress_sends(struct net *net)
{
	net->is_waiting = false;
	net->waiting_bytes = 0;
}

/* The lock of a queue pair's adapter, taken; whatever was posted before goes first. */
static inline struct weft_adapter *net_enter_settled(const struct weft_qp *qp)
{
	struct weft_adapter *a = adapter_enter_qp(qp);

	if (a->net && a->net->is_waiting)
		adapter_work(a);
	return a;
}

/*
 * Watches the sockets in the thread's place, and sleeps until something happens there or at the
 * descriptor (-1: none), a deadline comes, or it is that late. Then what has come has been
 * received. The lock is held, and released meanwhile. Nothing waits to be sent: is_waiting.
 * True: something has happened at the descriptor.
 */
bool progress_sleep(struct net *net, int also, uint64_t until_ns);

/* The program does nothing but that, from now on or no longer: the thread rests meanwhile. */
void progress_lead(struct net *net, bool is_always);

/* A deadline may be earlier, or a thread waits for events: see that the adapter's thread knows. */
void progress_notice(struct net *net);
