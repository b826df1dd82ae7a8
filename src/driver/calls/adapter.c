/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/deadline.h"
#include "base/reserved.h"
#include "driver/loop/fork.h"
#include "driver/loop/net.h"
#include "driver/stat/stat.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/guard.h"
#include "driver/sys/notice.h"
#include "driver/sys/pages.h"
#include "driver/sys/system_reason.h"

/* ---- This machine --------------------------------------------------------------------------- */

/*
 * The clock is read before what has come is handled and before the core works, which may access
 * memory of the program. While the adapter's thread serves, it looks for new handlers itself: it
 * spares the program's threads the system calls.
 */
static uint64_t machine_now_ns(struct weft_adapter *a)
{
	uint64_t now_ns = clock_ns();

	if (a->net)
		a->net->now_ns = now_ns;
	if (!adapter_is_served(a))
		guard_renew(now_ns);
	return now_ns;
}

static bool machine_output(struct weft_adapter *a, bool can_wait)
{
	return a->net && net_output(a->net, can_wait);
}

static bool machine_poll(struct weft_adapter *a, bool is_all)
{
	return a->net && net_poll(a->net, is_all);
}

static uint64_t machine_due(struct weft_adapter *a)
{
	return a->net ? net_due(a->net) : UINT64_MAX;
}

static const struct host machine = {
	.now_ns = machine_now_ns,
	.output = machine_output,
	.poll = machine_poll,
	.due = machine_due,
	.has_network = stat_add,
};

/* ---- Life ----------------------------------------------------------------------------------- */

/* 0 or an errno value. Threads hold the lock briefly: who waits for it tries a few times first. */
static int lock_init(struct weft_adapter *a)
{
	pthread_mutexattr_t kind;
	pthread_condattr_t attr;
	int error;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
	error = pthread_mutex_init(&a->lock, &kind);
	if (error != 0)
		return error;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	error = pthread_cond_init(&a->has_event, &attr);
	if (error != 0)
		pthread_mutex_destroy(&a->lock);
	return error;
}

enum weft_reason weft_adapter_open(const struct weft_adapter_options *options,
				   struct weft_adapter **adapter)
{
	struct adapter_config config = { 0 };
	struct weft_adapter *a;
	enum weft_reason r;
	int error;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	if (fork_is_child())
		fork_notice();
	if (options)
		config.options = *options;
	config.guard = &fault_guard;
	if (pages_can_be_asked())
		config.is_there = pages_are_there;
	if (getrandom(config.secret, sizeof(config.secret), 0) != sizeof(config.secret))
		return system_reason(errno);
	a = calloc(1, sizeof(*a));
	if (!a)
		return WEFT_R_NO_MEMORY;
	config.watch = notice_open();
	config.pager = pager_init(a);
	a->observed.core = &a->core;
	a->observed.lock = &a->lock;
	r = faults_open(&a->observed, &config.faults);
	if (r == WEFT_OK)
		r = adapter_init(&a->core, &config);
	if (r == WEFT_OK) {
		error = lock_init(a);
		if (error != 0) {
			adapter_fini(&a->core);
			r = system_reason(error);
		}
	}
	if (r != WEFT_OK) {
		faults_close(&a->observed);
		notice_close(config.watch);
		free(a);
		return r;
	}
	a->host = &machine;
	a->event_fd = -1;
	a->on_event = config.options.on_event;
	a->after_events = config.options.after_events;
	a->on_event_context = config.options.context;
	guard_open();
	observe_open(&a->observed);
	fork_enlist(a, &stat_fork_part);
	*adapter = a;
	return WEFT_OK;
}

enum weft_reason weft_adapter_claim(struct weft_adapter *adapter, uint64_t *authority)
{
	uint64_t secret = 0;
	enum weft_reason r;

	if (!adapter || !authority)
		return WEFT_R_NULL_ARGUMENT;
	while (secret == 0) {
		if (getrandom(&secret, sizeof(secret), 0) != sizeof(secret))
			return system_reason(errno);
	}
	r = adapter_claim(adapter_enter(adapter), secret);
	adapter_leave(adapter);
	if (r == WEFT_OK)
		*authority = secret;
	return r;
}

enum weft_reason weft_adapter_close(struct weft_adapter *adapter)
{
	bool had_net = false;
	struct mem_watch *watch;
	enum weft_reason r;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	if (adapter_is_used(&adapter->core) || (adapter->net && net_is_used(adapter->net))) {
		adapter_leave(adapter);
		return WEFT_R_BUSY;
	}
	pager_stop(adapter); /* at first: it may be waking the network's thread */
	if (adapter->net) {
		progress_stop(adapter->net);
		net_close(adapter->net);
		adapter->net = NULL;
		had_net = true;
	}
	watch = adapter->core.mem.watch;
	r = adapter_fini(&adapter->core);
	CHECK(r == WEFT_OK);
	adapter_leave(adapter);
	if (had_net)
		stat_remove(adapter);
	fork_delist(adapter);
	observe_close(&adapter->observed);
	notice_close(watch);
	guard_close();
	if (adapter->event_fd >= 0)
		call_close(adapter->event_fd);
	pthread_cond_destroy(&adapter->has_event);
	pthread_mutex_destroy(&adapter->lock);
	free(adapter);
	return WEFT_OK;
}

enum weft_reason weft_adapter_query(struct weft_adapter *adapter, struct weft_usage *usage)
{
	if (!adapter || !usage)
		return WEFT_R_NULL_ARGUMENT;
	adapter_usage(adapter_enter(adapter), usage);
	adapter_leave(adapter);
	return WEFT_OK;
}

enum weft_reason weft_event_next(struct weft_adapter *adapter, uint64_t timeout_ns,
				 struct weft_event *event, bool *has_event)
{
	struct adapter *core;
	uint64_t now, end;

	if (!adapter || !event || !has_event)
		return WEFT_R_NULL_ARGUMENT;
	core = adapter_enter(adapter);
	now = adapter_now_ns(adapter);
	end = deadline_after(now, timeout_ns);
	/*
	 * Bound: the time. Each round makes what progress is due, then sleeps to the next deadline.
	 */
	for (;;) {
		struct timespec until;
		int cancel;

		adapter_poll(adapter, NULL);
		now = adapter_now_ns(adapter);
		*has_event = event_pop(&core->events, event);
		adapter_show_events(adapter);
		if (*has_event || now >= end)
			break;
		adapter->waiters++;
		adapter->due_seen = adapter_due_all(adapter);
		if (adapter->net)
			progress_notice(adapter->net);
		until = to_timespec(end < adapter->due_seen ? end : adapter->due_seen);
		adapter_wake_now(adapter);
		/* A thread that was cancelled here would leave the lock behind. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		pthread_cond_timedwait(&adapter->has_event, &adapter->lock, &until);
		pthread_setcancelstate(cancel, NULL);
		adapter->waiters--;
	}
	adapter_leave(adapter);
	return WEFT_OK;
}

enum weft_reason weft_event_take(struct weft_adapter *adapter, struct weft_event *event,
				 bool *has_event)
{
	if (!adapter || !event || !has_event)
		return WEFT_R_NULL_ARGUMENT;
	*has_event = event_pop(&adapter_enter(adapter)->events, event);
	adapter_show_events(adapter);
	adapter_leave(adapter);
	return WEFT_OK;
}

const char *weft_version(void)
{
	return WEFT_VERSION;
}

uint32_t weft_version_number(void)
{
	return WEFT_VERSION_NUMBER;
}

enum weft_reason weft_capture_start(struct weft_adapter *adapter, const char *path)
{
	enum weft_reason r = WEFT_R_BUSY;
	struct observed *o;
	int err;

	if (!adapter || !path)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	o = &adapter->observed;
	if (!o->recording) {
		err = recording_get(path, false, &o->recording);
		r = err == 0 ? WEFT_OK : err == -EBUSY ? WEFT_R_BUSY : system_reason(-err);
	}
	net_observe(adapter->net);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_capture_stop(struct weft_adapter *adapter)
{
	enum weft_reason r = WEFT_R_BAD_ARGUMENT;
	struct observed *o;
	int err;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	o = &adapter->observed;
	if (o->recording && !o->is_recorded_by_environment) {
		record_leave_all(o);
		err = recording_put(o->recording);
		r = err == 0 ? WEFT_OK : system_reason(-err);
		o->recording = NULL;
	}
	net_observe(adapter->net);
	adapter_leave(adapter);
	return r;
}
