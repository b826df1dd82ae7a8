/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The thread behind an adapter that has connections. It watches the sockets while the program does
 * not poll. While the program polls, the thread stands by and only checks now and then that the
 * polls continue: a polling program must not pay for a thread that wakes up with every byte.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "driver/loop/net.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/guard.h"
#include "driver/sys/system_reason.h"
#include "driver/sys/turns.h"

enum { NS_PER_MS = 1000000, MS_MAX = 1000, MS_MAX_SEEN = 250, MS_MAX_LEADING = 60000 };

/* The program must not have polled for so long before the thread takes over. */
static const uint64_t stand_by_ns = 4 * NS_PER_MS;

/* Processor time in which a polling program polls many times. */
static const uint64_t worked_much_ns = NS_PER_MS / 4;

/* The longest time a request waits for others: at first, and while polls keep sending them. */
static const uint64_t guard_ns = NS_PER_MS / 10, guard_most_ns = NS_PER_MS * 4 / 5;

/* Range of net->favour, and the weight of an arrival that the thread found. */
enum { FAVOUR_MAX = 16, FAVOUR_THREAD = 4 };

/* A program that polls so often between two arrivals, or in stand_by_ns, needs no thread. */
enum { POLLS_MANY = 8 };

/* While a CQ is armed, polls replace the thread if they are as frequent: an event waits so long. */
static const uint64_t awake_ns = NS_PER_MS / 100;

/*
 * After standing by kept a peer waiting, the thread watches for so many arrivals: twice as many
 * each time, until it has stood by for PERIODS_GOOD periods in a row.
 */
enum { BACKOFF_FIRST = 256, BACKOFF_MAX = 65536, PERIODS_GOOD = 64 };

/* Limits of a burst of requests that wait to be sent together: their number, and their bytes. */
enum { BURST_LONG = 16, BURST_MAX = 128, BURST_BYTES = 256 * 1024 };

/* ---- States --------------------------------------------------------------------------------- */

#define MAY(state) (1U << PROGRESS_##state)

static const unsigned int moves[] = {
	[PROGRESS_NONE] = MAY(WATCHING),
	[PROGRESS_WATCHING] = MAY(SERVING) | MAY(STANDING_BY) | MAY(FOLLOWING) | MAY(STOPPING),
	[PROGRESS_SERVING] = MAY(WATCHING) | MAY(STOPPING),
	[PROGRESS_STANDING_BY] = MAY(WATCHING) | MAY(GUARDING) | MAY(FOLLOWING) | MAY(STOPPING),
	[PROGRESS_GUARDING] = MAY(STANDING_BY) | MAY(STOPPING),
	[PROGRESS_FOLLOWING] = MAY(WATCHING) | MAY(IDLE) | MAY(STOPPING),
	[PROGRESS_IDLE] = MAY(FOLLOWING) | MAY(STOPPING),
	[PROGRESS_STOPPING] = MAY(NONE),
};

static void move(struct net *net, enum progress_state to)
{
	CHECK(moves[net->state] & 1U << to);
	net->state = to;
}

/* The thread's own moves, which end when it is to stop. */
static void thread_move(struct net *net, enum progress_state to)
{
	if (net->state != PROGRESS_STOPPING && net->state != to)
		move(net, to);
}

static bool is_stopping(const struct net *net)
{
	return net->state == PROGRESS_STOPPING;
}

/* ---- The thread ----------------------------------------------------------------------------- */

/*
 * Counts polls that find input, not polls as such: a program that waits for bytes to change in its
 * memory polls now and then, for its own requests, and never finds what its peer sends.
 */
void progress_found(struct net *net, bool is_poll)
{
	if (net->standby_backoff_left > 0)
		net->standby_backoff_left--;
	if (is_poll && net->favour < FAVOUR_MAX)
		net->favour++;
	else if (!is_poll && net->favour > -FAVOUR_MAX)
		net->favour -= FAVOUR_THREAD;
}

/* Whether the program's polls replace the thread. */
static bool may_stand_by(const struct net *net)
{
	return net->favour >= 0 && net->standby_backoff_left == 0 &&
	       !adapter_has_sleepers(net->adapter);
}

static uint64_t due(const struct net *net)
{
	uint64_t core = adapter_due(&net->adapter->core), links = net_due(net);

	return core < links ? core : links;
}

/* Whether work was left for the next round: then the thread must not sleep. */
static bool has_left(const struct net *net)
{
	return net_has_output(net) || !list_is_empty(&net->adapter->core.ready);
}

/* Waits for the program to poll or to post more; sends the requests that then still wait. */
static void guard(struct net *net)
{
	struct weft_adapter *a = net->adapter;
	uint64_t waits, wait_ns = guard_ns;

	thread_move(net, PROGRESS_GUARDING);
	do {
		struct timespec until = to_timespec(net_look_at_clock(net) + wait_ns);

		waits = net->waits;
		adapter_wake_now(a);
		pthread_cond_timedwait(&net->rouse, &a->lock, &until);
		wait_ns = wait_ns < guard_most_ns ? 2 * wait_ns : wait_ns;
		if (net->is_waiting && net->waits == waits) {
			net->burst = 0; /* the program no longer polls */
			adapter_work(a);
		}
	} while (net->waits != waits && !is_stopping(net));
	thread_move(net, PROGRESS_STANDING_BY);
}

/* Processor time of the whole process. */
static uint64_t worked_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* A peer sent a request while the program was running but did not poll. */
static void standby_back_off(struct net *net)
{
	net->standby_backoffs++;
	net->standby_backoff = net->standby_backoff == 0	    ? BACKOFF_FIRST
			       : net->standby_backoff < BACKOFF_MAX ? 2 * net->standby_backoff
								    : BACKOFF_MAX;
	net->standby_backoff_left = net->standby_backoff;
}

/*
 * The program does not poll any more. Standing by was a bet that its polls find the peers'
 * requests. Polls that found acknowledgements do not prove it: the program may poll for its own
 * requests alone, and wait for bytes to change in its memory (as perftest's ib_write_lat does).
 * Requests in the sockets now show that the bet was lost; unless the kernel did not let the program
 * run (has_worked).
 */
static void standby_end(struct net *net, bool has_worked)
{
	uint64_t asked = net->asked;

	thread_move(net, PROGRESS_WATCHING);
	net->periods = 0;
	if (net->favour > 0)
		net->favour = 0; /* its polls do not read the arrivals */
	net_hot_watch(net);
	if (!has_worked)
		return;
	adapter_watch(net->adapter);
	if (net->asked != asked)
		standby_back_off(net);
}

static void stand_by(struct net *net)
{
	struct weft_adapter *a = net->adapter;
	uint64_t polls = a->polls, waits = net->waits, worked = worked_ns();
	uint64_t start_ns = net_look_at_clock(net);
	struct timespec until = to_timespec(start_ns + stand_by_ns);
	bool is_over;

	adapter_wake_now(a);
	is_over = pthread_cond_timedwait(&net->rouse, &a->lock, &until) == ETIMEDOUT;
	if (a->core.cqs_armed > 0 &&
	    (a->polls - polls) * awake_ns < net_look_at_clock(net) - start_ns)
		a->polls_armed = a->polls;

	/* It may be sent by now: if more waits as briefly, no signal need wake us for it. */
	if (net->waits != waits)
		guard(net);
	if (a->polls - polls < POLLS_MANY || !may_stand_by(net)) {
		standby_end(net, is_over && worked_ns() - worked >= worked_much_ns);
		return;
	}
	net->is_all_due = true; /* so that even rare polls ask epoll in time */
	if (++net->periods % PERIODS_GOOD == 0)
		net->standby_backoff = 0;
}

/* How long the sockets can go unread: until the next deadline, at most. */
static uint64_t sleep_ns(struct net *net, uint64_t most_ms)
{
	uint64_t now_ns = net_look_at_clock(net), left_ns;

	if (net->adapter->observed.recording)
		most_ms = MS_MAX_SEEN;
	net->due_seen = due(net);
	left_ns = net->due_seen <= now_ns || has_left(net) || !net_rest(net)
			  ? 0
			  : net->due_seen - now_ns;
	return left_ns < most_ms * NS_PER_MS ? left_ns : most_ms * NS_PER_MS;
}

/* The thread that wakes others writes when it has released the lock: that may be still to come. */
static void forget_waking(struct net *net)
{
	uint64_t count;

	if (!net->is_woken)
		return;
	net->calls_other++;
	net->is_woken = read(net->wake.fd, &count, sizeof(count)) < 0;
}

static void sleep_begin(struct net *net)
{
	net->calls_other++;
	net->asleep++;
	adapter_unlock(net->adapter);
}

/* is_late: no socket was ready in the whole time. */
static void sleep_end(struct net *net, bool is_late)
{
	pthread_mutex_lock(&net->adapter->lock);
	net->asleep--;
	net->wakes_missed += is_late && !net_rest(net);
	forget_waking(net);
}

/* Sleeps until a socket is ready or a deadline comes. The lock is released meanwhile. */
static void sleep_watching(struct net *net)
{
	uint64_t left_ns = sleep_ns(net, MS_MAX);
	struct epoll_event e;
	int count;

	sleep_begin(net);
	count = epoll_wait(net->epoll, &e, 1, (int)((left_ns + NS_PER_MS - 1) / NS_PER_MS));
	sleep_end(net, count == 0 && left_ns > 0);
}

/* A snapshot of how often the program watched the sockets, and polled. */
struct leading {
	uint64_t leads, polls;
};

static struct leading leading_now(const struct net *net)
{
	return (struct leading){ net->leads, net->adapter->polls };
}

/*
 * Whether the program watches the sockets now, has since then, or has promised to. For a program
 * that ever did so, a poll counts as well.
 */
static bool is_led_since(const struct net *net, const struct leading *then)
{
	return net->is_driven || net->is_led || net->leads != then->leads ||
	       (net->leads > 0 && net->adapter->polls != then->polls);
}

/*
 * The program watches the sockets. If it sleeps on them for long, the thread sleeps too, until it
 * is signalled that the program stopped.
 */
static void follow(struct net *net)
{
	struct weft_adapter *a = net->adapter;
	struct leading then;

	thread_move(net, PROGRESS_FOLLOWING);
	do {
		struct timespec until = to_timespec(net_look_at_clock(net) + stand_by_ns);
		bool was_led = net->is_led;

		then = leading_now(net);
		adapter_wake_now(a);
		pthread_cond_timedwait(&net->rouse, &a->lock, &until);
		if (net->is_driven || (was_led && net->is_led && net->leads == then.leads))
			thread_move(net, PROGRESS_IDLE);
		while (net->state == PROGRESS_IDLE)
			pthread_cond_wait(&net->rouse, &a->lock);
	} while (is_led_since(net, &then) && !is_stopping(net));
	thread_move(net, PROGRESS_WATCHING);
	if (net->is_waiting)
		adapter_work(a);
	net_hot_watch(net);
}

/* Turns in which the thread leaves the lock to threads that try to take it. */
enum { LET_IN_MAX = 1000 };

/*
 * QP-16: the thread is the adapter. It never sleeps, so the program's threads need not wake it. It
 * stays out of the lock while they try to get in, and yields the processor, which may be theirs.
 */
static void serve(struct net *net)
{
	struct weft_adapter *a = net->adapter;

	thread_move(net, PROGRESS_SERVING);
	adapter_watch(a);
	adapter_unlock(a);
	sched_yield();
	for (int i = 0; i < LET_IN_MAX && atomic_load(&a->entering) > 0; i++)
		;
	while (pthread_mutex_trylock(&a->lock) != 0)
		;
}

static void serve_no_more(struct net *net)
{
	thread_move(net, PROGRESS_WATCHING);
	net_hot_watch(net);
}

static void *progress_run(void *context)
{
	struct net *net = context;
	struct weft_adapter *a = net->adapter;
	struct leading then = { 0 };

	net->thread_number = (int)syscall(SYS_gettid);
	sem_post(&net->has_begun);
	turns_ask_short();
	pthread_mutex_lock(&a->lock);
	while (!is_stopping(net)) {
		uint64_t polls = a->polls;

		observe_tick(&a->observed);
		guard_renew(clock_ns());
		if (adapter_is_served(a)) {
			if (net->state == PROGRESS_STANDING_BY)
				standby_end(net, false);
			serve(net);
			continue;
		}
		if (net->state == PROGRESS_SERVING)
			serve_no_more(net);
		if (is_led_since(net, &then)) {
			follow(net);
			then = leading_now(net);
			continue;
		}
		if (net->state == PROGRESS_STANDING_BY) {
			stand_by(net);
			continue;
		}
		sleep_watching(net);
		if (is_led_since(net, &then))
			continue; /* the program reads the arrivals */
		if (a->polls - polls >= POLLS_MANY)
			net->favour = FAVOUR_MAX; /* the thread was only faster than the polls */
		if (a->polls != polls && net->favour > 0 && may_stand_by(net))
			thread_move(net, PROGRESS_STANDING_BY);
		else
			adapter_watch(a);
	}
	adapter_unlock(a);
	return NULL;
}

enum weft_reason progress_start(struct net *net)
{
	pthread_condattr_t attr;
	sigset_t all, old;
	int error;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	error = pthread_cond_init(&net->rouse, &attr);
	if (error != 0)
		return system_reason(error);
	sem_init(&net->has_begun, 0, 0);
	/* The program's signals are for its own threads. A fault is this thread's own. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	move(net, PROGRESS_WATCHING);
	error = pthread_create(&net->thread, NULL, progress_run, net);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error != 0) {
		net->state = PROGRESS_NONE;
		pthread_cond_destroy(&net->rouse);
		return system_reason(error);
	}
	while (sem_wait(&net->has_begun) < 0) /* a signal of the program came */
		continue;
	return WEFT_OK;
}

void progress_wake(struct net *net, uint32_t wakes)
{
	const uint64_t one = 1;

	if (wakes & WAKE_BYSTANDER)
		pthread_cond_signal(&net->rouse);
	if (wakes & WAKE_WATCHER)
		(void)call_write(net->wake.fd, &one, sizeof(one));
}

static void rouse(struct net *net)
{
	if (net->state == PROGRESS_SERVING)
		return; /* it does not sleep */
	if (progress_is_aside(net) && !net->is_led) {
		net->adapter->wakes |= WAKE_BYSTANDER;
	} else if (!net->is_woken) {
		net->is_woken = true;
		net->calls_other++;
		net->adapter->wakes |= WAKE_WATCHER;
	}
}

void progress_stir(struct net *net)
{
	if (net->asleep > 0)
		rouse(net);
}

void progress_waits(struct net *net)
{
	if (net->is_waiting)
		return;
	net->is_waiting = true;
	net->waits++;
	if (net->state == PROGRESS_WATCHING || net->state == PROGRESS_STANDING_BY)
		rouse(net);
}

/*
 * Verbs programs post one request at a time, and a send call for each would cost more than all the
 * rest. A program that waits for an answer polls or stops posting, so deferral costs it nothing.
 */
bool progress_may_wait(struct net *net, uint64_t bytes)
{
	struct weft_adapter *a = net->adapter;

	if (net->burst_polls != a->polls) {
		/* The first request after a poll goes at once, unless the last burst was long. */
		bool was_long = net->burst >= BURST_LONG;

		net->burst_polls = a->polls;
		net->burst = 0;
		if (!was_long)
			return false;
	}
	net->waiting_bytes += bytes;
	if (net->waiting_bytes > BURST_BYTES || ++net->burst % BURST_MAX == 0)
		return false;
	if (!progress_is_aside(net) || net->is_led) {
		/* Without input nothing else would make the thread notice the polls. */
		if (net->burst == BURST_MAX - 1 && may_stand_by(net) && !net->is_led)
			rouse(net);
		return false;
	}
	progress_waits(net);
	return true;
}

/* Receives what woke the sleeping program. favour stays: the adapter's thread did not find it. */
static void take_what_came(struct net *net, const struct sleep_set *set, bool is_elsewhere)
{
	struct weft_adapter *a = net->adapter;
	int favour = net->favour;
	bool has_come = false;

	for (uint32_t i = 0; !is_elsewhere && i < set->count; i++) {
		struct carrier *c = set->carriers[i];

		if (set->fds[i].revents != 0)
			has_come |= c->calls->sleep_input(c, set->watches[i]);
	}
	net->is_read = is_elsewhere;
	if (is_elsewhere)
		adapter_watch(a);
	else if (has_come)
		adapter_work(a);
	net->favour = favour;
}

bool progress_sleep(struct net *net, int also, uint64_t until_ns)
{
	struct weft_adapter *a = net->adapter;
	enum { SOCKETS, ALSO, UNWATCHED };
	struct pollfd watched[UNWATCHED + SLEEP_WATCHES_MAX] = {
		[SOCKETS] = { .fd = net->epoll, .events = POLLIN },
		[ALSO] = { .fd = also, .events = POLLIN }, /* poll() ignores -1 */
	};
	struct sleep_set set = { .fds = watched + UNWATCHED };
	struct timespec left;
	uint64_t left_ns;
	int count;

	observe_tick(&a->observed);
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->sleep_begin(net->carriers[i], &set);
	left_ns = sleep_ns(net, MS_MAX_LEADING);
	if (until_ns < net->now_ns + left_ns)
		left_ns = until_ns < net->now_ns ? 0 : until_ns - net->now_ns;
	left = to_timespec(left_ns);
	net->leads++;
	net->is_led = true;
	sleep_begin(net);
	count = ppoll(watched, UNWATCHED + set.count, &left, NULL);
	sleep_end(net, count == 0 && left_ns > 0);
	net->is_led = false;
	if (net->state == PROGRESS_IDLE && !net->is_driven) {
		move(net, PROGRESS_FOLLOWING);
		a->wakes |= WAKE_BYSTANDER;
	}
	take_what_came(net, &set, count <= 0 || watched[SOCKETS].revents != 0);
	return watched[ALSO].revents != 0;
}

void progress_lead(struct net *net, bool is_always)
{
	net->is_driven = is_always;
	if (net->state == PROGRESS_IDLE && !is_always)
		move(net, PROGRESS_FOLLOWING);
	net->adapter->wakes |= WAKE_BYSTANDER;
	if (net->state == PROGRESS_WATCHING)
		rouse(net);
}

enum weft_reason progress_serve(struct net *net, bool is_served)
{
	struct weft_adapter *a = net->adapter;

	if (is_served && (net->is_driven || net->is_led))
		return WEFT_R_BUSY;
	if (is_served && !adapter_is_served(a)) {
		if (net->is_waiting)
			adapter_work(a);
		rouse(net);
	}
	atomic_store(&a->is_served, is_served);
	return WEFT_OK;
}

void progress_stop(struct net *net)
{
	struct weft_adapter *a = net->adapter;

	if (net->state == PROGRESS_NONE)
		return;
	rouse(net); /* before the move: rouse() chooses by the state what to signal */
	move(net, PROGRESS_STOPPING);
	adapter_unlock(a);
	pthread_join(net->thread, NULL);
	pthread_mutex_lock(&a->lock);
	move(net, PROGRESS_NONE);
	sem_destroy(&net->has_begun);
	pthread_cond_destroy(&net->rouse);
}

void progress_notice(struct net *net)
{
	bool has_sleepers = adapter_has_sleepers(net->adapter), is_needed;
	uint64_t due_ns;

	/* A thread that stands by looks at no deadline: the program's polls keep them. */
	if (net->state == PROGRESS_NONE || (net->state == PROGRESS_STANDING_BY && !has_sleepers))
		return;
	/* A program that drives the adapter, and is awake, looks at deadlines before it sleeps. */
	if (net->is_driven && !net->is_led && !has_sleepers)
		return;
	due_ns = due(net);
	if (progress_is_aside(net))
		is_needed = has_sleepers || (net->is_led && has_left(net));
	else
		is_needed = has_left(net);
	if (due_ns < net->due_seen || is_needed) {
		net->due_seen = due_ns;
		rouse(net);
	}
}
