/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/loop/net.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "base/least.h"
#include "driver/sys/calls.h"
#include "driver/sys/system_reason.h"

enum {
	EPOLL_EVENTS = 64,
	/* Polls that read a hot socket, between two that ask epoll. */
	POLLS_IDLE = 16,
	POLLS_BUSY = 64,
	POLLS_BLOCKED = 2,
	/* Empty polls before the program yields: far longer than a running peer takes to answer. */
	POLLS_PATIENT = 128,
	/*
	 * Polls that only read what is hot, between two that look at deadlines as well. A program
	 * that polls rarely has a thread that keeps them.
	 */
	POLLS_LEAN = 16,
	/* Calls of epoll_wait() before a deadline expires. */
	ASKED_MAX = 32
};

/* How long connections that are closing may keep the adapter's close waiting. */
static const uint64_t close_ns = 200 * 1000 * 1000;

uint64_t net_look_at_clock(struct net *net)
{
	return adapter_now_ns(net->adapter); /* which sets net->now_ns */
}

void net_watch(struct net *net, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };
	int what = EPOLL_CTL_MOD;

	if (w->interest == events)
		return;
	if (events == 0)
		what = EPOLL_CTL_DEL;
	else if (w->interest == 0)
		what = EPOLL_CTL_ADD;
	w->interest = events;
	net->calls_other++;
	/* Only ENOMEM is possible: the descriptor goes unwatched, and its owner times out. */
	(void)epoll_ctl(net->epoll, what, w->fd, &e);
}

/* Only a thread that sleeps on epoll clears the eventfd (progress.c); a poll leaves it set. */
static void wake_ready(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
}

/* ---- Carriers ------------------------------------------------------------------------------- */

struct carrier *carrier_find(const struct net *net, const struct carrier_calls *calls)
{
	for (uint32_t i = 0; i < net->carrier_count; i++) {
		if (net->carriers[i]->calls == calls)
			return net->carriers[i];
	}
	return NULL;
}

void sleep_set_add(struct sleep_set *set, struct carrier *c, struct watch *w)
{
	CHECK(set->count < SLEEP_WATCHES_MAX);
	set->fds[set->count] = (struct pollfd){ .fd = w->fd, .events = POLLIN };
	set->carriers[set->count] = c;
	set->watches[set->count++] = w;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void net_free(struct net *net)
{
	if (net->wake.fd >= 0)
		call_close(net->wake.fd);
	if (net->epoll >= 0)
		call_close(net->epoll);
	free(net);
}

static enum weft_reason net_create(struct weft_adapter *a, struct net **made)
{
	struct net *net = calloc(1, sizeof(*net));

	if (!net)
		return WEFT_R_NO_MEMORY;
	net->adapter = a;
	net->due_seen = UINT64_MAX;
	net->epoll = epoll_create1(EPOLL_CLOEXEC);
	net->wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	net->wake.ready = wake_ready;
	if (net->epoll < 0 || net->wake.fd < 0) {
		net_free(net);
		return WEFT_R_DESCRIPTORS;
	}
	net_watch(net, &net->wake, EPOLLIN);
	*made = net;
	return WEFT_OK;
}

enum weft_reason net_get(struct weft_adapter *a, struct net **net)
{
	enum weft_reason r = WEFT_OK;
	bool is_new = !a->net;

	if (!is_new && a->net->is_abandoned)
		return system_reason(0);
	if (is_new) {
		r = net_create(a, &a->net);
		if (r != WEFT_OK)
			return r;
		r = progress_start(a->net);
		if (r != WEFT_OK) {
			net_free(a->net);
			a->net = NULL;
		}
	}
	if (r == WEFT_OK && is_new)
		a->host->has_network(a);
	*net = a->net;
	return r;
}

static void carrier_add(struct net *net, struct carrier *c, const struct carrier_calls *calls)
{
	CHECK(net->carrier_count < CARRIERS_MAX);
	c->calls = calls;
	c->net = net;
	net->carriers[net->carrier_count++] = c;
}

enum weft_reason carrier_get(struct weft_adapter *a, const struct carrier_calls *calls,
			     struct carrier **c)
{
	struct net *net = NULL;
	enum weft_reason r = net_get(a, &net);

	if (!net)
		return r;
	*c = carrier_find(net, calls);
	if (*c)
		return WEFT_OK;
	r = calls->open(net, c);
	if (r == WEFT_OK)
		carrier_add(net, *c, calls);
	return r;
}

bool net_is_used(const struct net *net)
{
	bool is_used = false;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		is_used |= net->carriers[i]->calls->is_used(net->carriers[i]);
	return is_used;
}

static bool is_closing(const struct net *net)
{
	bool is_closing = false;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		is_closing |= net->carriers[i]->calls->is_closing(net->carriers[i]);
	return is_closing;
}

void net_close(struct net *net)
{
	uint64_t end = net_look_at_clock(net) + (net->is_abandoned ? 0 : close_ns);

	net_watch(net, &net->wake, 0);
	while (is_closing(net) && net_look_at_clock(net) < end) {
		struct epoll_event e;

		(void)call_epoll_wait(net->epoll, &e, 1, 1);
		net_poll(net, true);
		net_output(net, false);
	}
	/* In reverse order: a carrier may use those that were added before it. */
	while (net->carrier_count > 0) {
		struct carrier *c = net->carriers[--net->carrier_count];

		c->calls->close(c);
	}
	net_free(net);
}

void net_exit(struct net *net)
{
	bool has_last_words = net->is_waiting;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		has_last_words |= net->carriers[i]->calls->exit_begin(net->carriers[i]);
	if (has_last_words)
		adapter_work(net->adapter);
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->exit_end(net->carriers[i]);
}

void watch_abandon(struct watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
	w->interest = 0;
}

void net_observe(struct net *net)
{
	for (uint32_t i = 0; net && i < net->carrier_count; i++) {
		struct carrier *c = net->carriers[i];

		if (c->calls->observe)
			c->calls->observe(c);
	}
}

/* A shutdown, or a call on epoll, would change what the parent has as well. */
void net_abandon(struct net *net)
{
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->abandon(net->carriers[i]);
	watch_abandon(&net->wake);
	close(net->epoll);
	net->epoll = -1;
	net->state = PROGRESS_NONE;
	net->is_abandoned = true;
	atomic_store(&net->adapter->is_served, false);
}

/* ---- Which sockets are read ----------------------------------------------------------------- */

/* True: more sockets than EPOLL_EVENTS may be ready. */
static bool ask_epoll(struct net *net, bool *has_found)
{
	struct epoll_event events[EPOLL_EVENTS];
	bool has_come = false;
	int count;

	net_look_at_clock(net);
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->retry(net->carriers[i]);
	count = call_epoll_wait(net->epoll, events, EPOLL_EVENTS, 0);
	net->polls_since_epoll = 0;
	net->is_all_due = false;
	net->calls_other++;
	for (int i = 0; i < count; i++) {
		struct watch *w = events[i].data.ptr;

		w->ready(w, events[i].events);
		has_come |= w != &net->wake;
	}
	for (uint32_t i = 0; has_come && i < net->carrier_count; i++)
		(void)net->carriers[i]->calls->input(net->carriers[i]);
	*has_found |= has_come;
	return count == EPOLL_EVENTS;
}

/* Bound: each epoll_wait() reports the ready sockets that the one before had no room for. */
static void read_all(struct net *net, bool *has_found)
{
	bool has_more = true;

	for (int asked = 0; has_more && asked < ASKED_MAX; asked++) {
		has_more = ask_epoll(net, has_found);
		for (uint32_t i = 0; i < net->carrier_count; i++)
			*has_found |= net->carriers[i]->calls->input_all(net->carriers[i]);
	}
}

/* Deadlines up to asked_ns, when all sockets were read; later ones may be answered by now. */
static bool expire(struct net *net, uint64_t asked_ns)
{
	bool has_moved = false;

	for (uint32_t i = 0; i < net->carrier_count; i++) {
		struct carrier *c = net->carriers[i];

		if (c->calls->due(c) <= asked_ns) {
			c->calls->expire(c, asked_ns);
			has_moved = true;
		}
	}
	return has_moved;
}

bool net_output(struct net *net, bool can_wait)
{
	bool has_moved = false;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		has_moved |= net->carriers[i]->calls->output(net->carriers[i], can_wait);
	return has_moved;
}

/* ---- Hot sockets ---------------------------------------------------------------------------- */

static bool has_hot(const struct net *net)
{
	for (uint32_t i = 0; i < net->carrier_count; i++) {
		if (net->carriers[i]->calls->hot_turns(net->carriers[i]) > 0)
			return true;
	}
	return false;
}

/* Reads the hot socket whose turn it is. */
static bool hot_read_next(struct net *net)
{
	uint32_t turn = net->hot_turn, first = 0;

	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < net->carrier_count; i++) {
			struct carrier *c = net->carriers[i];
			uint32_t turns = c->calls->hot_turns(c);

			if (turn - first < turns) {
				net->hot_turn = turn + 1;
				return c->calls->hot_input(c, turn - first);
			}
			first += turns;
		}
		turn = first = 0; /* each has had its turn */
	}
	return false;
}

static bool hot_read_all(struct net *net)
{
	bool has_found = false;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		has_found |= net->carriers[i]->calls->hot_input_all(net->carriers[i]);
	return has_found;
}

void net_hot_watch(struct net *net)
{
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->hot_watch(net->carriers[i]);
}

bool net_rest(struct net *net)
{
	bool is_empty = true;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		is_empty &= net->carriers[i]->calls->rest(net->carriers[i]);
	return is_empty;
}

/* ---- Polls ---------------------------------------------------------------------------------- */

/* Polls that read one of the hot sockets, until the next that asks epoll. */
static uint32_t polls_until_epoll(const struct net *net)
{
	for (uint32_t i = 0; i < net->carrier_count; i++) {
		if (net->carriers[i]->blocked > 0)
			return POLLS_BLOCKED;
	}
	return net->was_busy ? POLLS_BUSY : POLLS_IDLE;
}

/*
 * The one carrier whose shared memory is all that is hot; NULL: there is none, or output waits for
 * room in it.
 */
static struct carrier *find_memory(const struct net *net, enum carrier_memory *memory)
{
	struct carrier *found = NULL;

	for (uint32_t i = 0; i < net->carrier_count; i++) {
		struct carrier *c = net->carriers[i];
		enum carrier_memory of = c->calls->memory(c);

		if (of == CARRIER_COLD)
			continue;
		if (of == CARRIER_UNKNOWN || found)
			return NULL;
		found = c;
		*memory = of;
	}
	return found;
}

enum lean_poll net_poll_lean(struct net *net)
{
	enum carrier_memory memory = CARRIER_UNKNOWN;
	struct carrier *c;
	bool has_found;

	if (net->lean_left == 0 || net->is_all_due || net->is_waiting)
		return LEAN_NOT;
	c = find_memory(net, &memory);
	if (c) {
		has_found = memory == CARRIER_INPUT && c->calls->hot_input(c, 0);
	} else {
		if (!has_hot(net) || net->polls_since_epoll + 1 >= polls_until_epoll(net))
			return LEAN_NOT;
		net->polls_since_epoll++;
		has_found = hot_read_next(net);
	}
	net->lean_left--;
	net->polls_empty = has_found ? 0 : net->polls_empty + 1;
	net->was_busy = has_found;
	if (has_found)
		progress_found(net, true);
	return has_found ? LEAN_FOUND : LEAN_EMPTY;
}

/* The deadline of the next awaited answer. All sockets are read before it expires. */
static uint64_t answer_due(const struct net *net)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		due = least(due, net->carriers[i]->calls->due(net->carriers[i]));
	return due;
}

/* When paced output may resume. */
static uint64_t pace_due(const struct net *net)
{
	uint64_t due = UINT64_MAX;

	for (uint32_t i = 0; i < net->carrier_count; i++)
		due = least(due, net->carriers[i]->calls->pace_due(net->carriers[i]));
	return due;
}

bool net_poll(struct net *net, bool is_all)
{
	bool has_found = false, has_moved = false, is_due = false;
	uint64_t asked_ns = 0, answers_ns = answer_due(net), pace_ns = pace_due(net);

	/* Reading the clock costs: only when a deadline is set, or bytes have come. */
	if (least(answers_ns, pace_ns) != UINT64_MAX) {
		asked_ns = net_look_at_clock(net);
		is_due = answers_ns <= asked_ns;
		for (uint32_t i = 0; i < net->carrier_count; i++)
			net->carriers[i]->calls->pace(net->carriers[i], asked_ns);
	}
	/*
	 * A poll that finds nothing costs one system call. An answer that arrived in time must not
	 * count as late: all sockets are read before a deadline expires.
	 */
	if (is_all || is_due || net->is_all_due) {
		/* If hot sockets had input, the others wait; at most polls_until_epoll(). */
		has_found |= hot_read_all(net);
		if (is_due)
			read_all(net, &has_found);
		else if (!has_found || ++net->polls_since_epoll >= polls_until_epoll(net))
			(void)ask_epoll(net, &has_found);
	} else if (!has_hot(net) || ++net->polls_since_epoll >= polls_until_epoll(net)) {
		(void)ask_epoll(net, &has_found);
	} else {
		has_found |= hot_read_next(net);
	}
	if (is_due)
		has_moved = expire(net, asked_ns);
	has_moved |= has_found;
	net->was_busy = has_moved;
	if (!is_all)
		net->polls_empty = has_found ? 0 : net->polls_empty + 1;
	if (has_found)
		progress_found(net, !is_all);
	has_moved |= net_has_output(net);
	net->lean_left = is_all || pace_ns != UINT64_MAX ? 0 : POLLS_LEAN;
	return has_moved;
}

bool net_is_patient(struct net *net)
{
	if (net->polls_empty < POLLS_PATIENT)
		return false;
	net->polls_empty = 0;
	return true;
}

bool net_has_output(const struct net *net)
{
	for (uint32_t i = 0; i < net->carrier_count; i++) {
		if (net->carriers[i]->calls->has_output(net->carriers[i]))
			return true;
	}
	return false;
}

uint64_t net_due(const struct net *net)
{
	return least(answer_due(net), pace_due(net));
}

void traffic_add(struct weft_traffic *sum, const struct weft_traffic *t)
{
	sum->messages_in += t->messages_in;
	sum->messages_out += t->messages_out;
	sum->frames_in += t->frames_in;
	sum->frames_out += t->frames_out;
	sum->bytes_in += t->bytes_in;
	sum->bytes_out += t->bytes_out;
	sum->payload_in += t->payload_in;
	sum->payload_out += t->payload_out;
	sum->payload_copied += t->payload_copied;
	sum->calls_in += t->calls_in;
	sum->calls_out += t->calls_out;
	sum->calls_empty += t->calls_empty;
}

void net_traffic(const struct net *net, struct weft_traffic *t)
{
	*t = (struct weft_traffic){ 0 };
	for (uint32_t i = 0; i < net->carrier_count; i++)
		net->carriers[i]->calls->traffic(net->carriers[i], t);
}
