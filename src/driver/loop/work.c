/* SPDX-License-Identifier: BSD-2-Clause */
/* Progress of an adapter: the core and the network give each other work. */
#include <sched.h>

#include "driver/loop/net.h"
#include "driver/sys/calls.h"

enum { ROUNDS_MAX = 8 };

uint64_t adapter_due_all(struct weft_adapter *a)
{
	uint64_t core = adapter_due(&a->core), network = a->host->due(a);

	return core < network ? core : network;
}

static void core_work(struct weft_adapter *a)
{
	/* The clock is read only if work or a deadline waits. Bound: see adapter_progress(). */
	bool has_work = adapter_due(&a->core) != UINT64_MAX || !list_is_empty(&a->core.ready);

	if (!has_work)
		return;
	has_work = adapter_progress(&a->core, adapter_recent_ns(a));
	a->has_now = !has_work;
	while (has_work)
		has_work = adapter_progress(&a->core, adapter_now_ns(a));
}

static void hand_out_events(struct weft_adapter *a)
{
	struct weft_event event;

	/* Bound: the lock is held, so no further events are raised. */
	while (event_pop(&a->core.events, &event)) {
		a->on_event(a->on_event_context, &event);
		a->wakes |= WAKE_PROGRAM;
	}
}

void adapter_wake(struct weft_adapter *a, uint32_t wakes)
{
	if ((wakes & WAKE_PROGRAM) && a->after_events)
		a->after_events(a->on_event_context);
	if (wakes & WAKE_WAITERS)
		pthread_cond_broadcast(&a->has_event);
	if (wakes & (WAKE_BYSTANDER | WAKE_WATCHER))
		progress_wake(a->net, wakes);
}

void adapter_show_events(struct weft_adapter *a)
{
	bool is_wanted = !list_is_empty(&a->core.events);
	uint64_t count = 1;

	if (a->event_fd < 0 || a->is_event_fd_set == is_wanted)
		return;
	a->is_event_fd_set = is_wanted;
	if (is_wanted)
		(void)call_write(a->event_fd, &count, sizeof(count));
	else
		(void)call_read(a->event_fd, &count, sizeof(count));
}

/*
 * Core and network give each other work until both rest, or until other threads have waited long
 * enough.
 */
static void work(struct weft_adapter *a, bool can_wait)
{
	bool has_moved;
	int round = 0;

	if (a->net)
		progress_sends(a->net);
	if (a->core.trace)
		(void)adapter_now_ns(a); /* the caller may have slept */
	do {
		core_work(a);
		has_moved = a->host->output(a, can_wait);
		if (has_moved && a->net)
			has_moved = net_has_output(a->net); /* the core's work is in its list */
	} while (++round < ROUNDS_MAX && (has_moved || !list_is_empty(&a->core.ready)));
	if (a->observed.observer)
		observe_drain(&a->observed);
	if (a->on_event)
		hand_out_events(a);
	adapter_show_events(a);
	/* A waiting thread sleeps until the deadline that it saw: wake it for an earlier one. */
	if (a->waiters > 0 && (!list_is_empty(&a->core.events) || adapter_due_all(a) < a->due_seen))
		a->wakes |= WAKE_WAITERS;
	if (a->net)
		progress_notice(a->net);
}

/*
 * Bounds of adapter_lock_trying(). Tries take several turns of the processor: a holder that runs
 * at all has left by then.
 */
enum { TRIES_MAX = 1 << 22, YIELDS_MAX = 64 };

void adapter_lock_trying(struct weft_adapter *a)
{
	uint32_t tries = 0;

	atomic_fetch_add_explicit(&a->entering, 1, memory_order_relaxed);
	for (; tries < TRIES_MAX + YIELDS_MAX && pthread_mutex_trylock(&a->lock) != 0; tries++) {
		if (tries >= TRIES_MAX)
			sched_yield();
	}
	if (tries == TRIES_MAX + YIELDS_MAX)
		pthread_mutex_lock(&a->lock);
	atomic_fetch_sub_explicit(&a->entering, 1, memory_order_relaxed);
}

/*
 * The holder leaves within a microsecond or two, if it runs, but is soon back: all that the adapter
 * has is in the cache of its processor, where it has many turns in the time that it takes to move
 * once. So the next try comes some microseconds later, and each further try later than that: a
 * holder that is met again and again works for long, and is fastest if it is not disturbed. To
 * sleep, and to be woken, would cost both threads more.
 */
enum { CONTENDED_TRIES = 6, PAUSES_FIRST = 100, PAUSES_TIMES = 4, PAUSES_MAX = 3200 };

static void pause_briefly(int pauses)
{
	for (int i = 0; i < pauses; i++) {
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
		__asm__ volatile("isb");
#endif
	}
}

void adapter_lock_contended(struct weft_adapter *a)
{
	int pauses = PAUSES_FIRST;

	for (int tries = 0; tries < CONTENDED_TRIES; tries++) {
		pause_briefly(pauses);
		if (pthread_mutex_trylock(&a->lock) == 0)
			return;
		pauses = pauses * PAUSES_TIMES < PAUSES_MAX ? pauses * PAUSES_TIMES : PAUSES_MAX;
	}
	pthread_mutex_lock(&a->lock);
}

void adapter_work(struct weft_adapter *a)
{
	work(a, false);
}

static bool is_driven(const struct weft_adapter *a)
{
	return a->net && a->net->is_driven;
}

/* Most polls find nothing, so do no more than needed for them. */
static bool poll_finds_work(struct weft_adapter *a)
{
	enum lean_poll lean = a->net ? net_poll_lean(a->net) : LEAN_NOT;

	if (lean == LEAN_FOUND || (lean == LEAN_NOT && a->host->poll(a, false)))
		return true;
	return !list_is_empty(&a->core.ready) || a->waiters > 0 ||
	       (lean == LEAN_NOT && adapter_due_all(a) != UINT64_MAX);
}

void adapter_poll(struct weft_adapter *a, const struct weft_cq *cq)
{
	a->polls++;
	if (poll_finds_work(a))
		work(a, cq && (cq->count == cq->hidden || is_driven(a)));
}

void adapter_watch(struct weft_adapter *a)
{
	a->host->poll(a, true);
	work(a, is_driven(a));
}
