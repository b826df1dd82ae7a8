/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/net.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/least.h"
#include "driver/calls.h"
#include "driver/roce.h"

enum {
	EPOLL_EVENTS = 64,
	/* Polls that ask a hot link, between two that ask about all. */
	POLLS_IDLE = 16,
	POLLS_BUSY = 64,
	POLLS_BLOCKED = 2,
	/* In vain: many times what an answer takes from a peer that runs. */
	POLLS_PATIENT = 128,
	/* Of epoll, before a deadline passes. */
	ASKED_MAX = 32,
	REQUESTS_ROOM = 65536
};

/* How long streams that are closing may keep the adapter's close waiting. */
static const uint64_t close_ns = 200 * 1000 * 1000;

uint64_t net_look_at_clock(struct net *net)
{
	return adapter_now_ns(net->adapter); /* which sets it */
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
	/* Only memory can be short; then the thing goes unwatched and ends by its deadline. */
	(void)epoll_ctl(net->epoll, what, w->fd, &e);
}

/* For the thread alone, which may not have seen it yet when somebody else polls: progress.c. */
static void wake_ready(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void net_free(struct net *net)
{
	if (net->wake.fd >= 0)
		call_close(net->wake.fd);
	if (net->epoll >= 0)
		call_close(net->epoll);
	timer_queue_fini(&net->timers);
	iwarp_desk_destroy(net->spare_desk);
	free(net);
}

static enum weft_reason net_create(struct weft_adapter *a, struct net **made)
{
	struct net *net = calloc(1, sizeof(*net));

	if (!net)
		return WEFT_R_NO_MEMORY;
	net->adapter = a;
	/* One for each queue pair, one that is closing, and requests. */
	net->links_max = 2 * a->core.qps.slots_max + REQUESTS_ROOM;
	list_init(&net->attention);
	list_init(&net->links);
	list_init(&net->listeners);
	list_init(&net->silent);
	list_init(&net->ended);
	list_init(&net->borrowers);
	net->due_seen = UINT64_MAX;
	net->epoll = epoll_create1(EPOLL_CLOEXEC);
	net->wake.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	net->wake.ready = wake_ready;
	if (net->epoll < 0 || net->wake.fd < 0) {
		net_free(net);
		return WEFT_R_DESCRIPTORS;
	}
	if (timer_queue_init(&net->timers, net->links_max) < 0) {
		net_free(net);
		return WEFT_R_NO_MEMORY;
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
		return WEFT_R_SYSTEM;
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
		stat_add(a);
	*net = a->net;
	return r;
}

static void free_ended(struct net *net)
{
	while (!list_is_empty(&net->ended))
		link_free(CONTAINER_OF(list_pop(&net->ended), struct link, all_link));
}

void net_close(struct net *net)
{
	uint64_t end = net_look_at_clock(net) + (net->is_abandoned ? 0 : close_ns);

	net_watch(net, &net->wake, 0);
	while (!list_is_empty(&net->links) && net_look_at_clock(net) < end) {
		struct epoll_event e;

		(void)call_epoll_wait(net->epoll, &e, 1, 1);
		net_poll(net, true);
		net_output(net, false);
	}
	while (!list_is_empty(&net->links))
		link_end(CONTAINER_OF(net->links.next, struct link, all_link), WEFT_R_STREAM_LOST,
			 false);
	free_ended(net);
	if (net->roce)
		roce_close(net->roce);
	net_free(net);
}

/* ---- Who is looked at ----------------------------------------------------------------------- */

/* True: there may be more than it told of. */
static bool ask_epoll(struct net *net, bool *has_found)
{
	struct epoll_event events[EPOLL_EVENTS];
	bool has_come = false;
	int count;

	net_look_at_clock(net);
	listeners_retry(net);
	if (net->roce)
		roce_retry(net->roce);
	count = call_epoll_wait(net->epoll, events, EPOLL_EVENTS, 0);
	net->polls_since_epoll = 0;
	net->is_all_due = false;
	net->calls_other++;
	for (int i = 0; i < count; i++) {
		struct watch *w = events[i].data.ptr;

		w->ready(w, events[i].events);
		has_come |= w != &net->wake;
	}
	if (net->roce && has_come)
		(void)roce_input(net->roce, false);
	*has_found |= has_come;
	return count == EPOLL_EVENTS;
}

/* Bound: what the kernel did not tell of it tells of next. */
static void ask_everybody(struct net *net, bool *has_found)
{
	bool has_more = true;

	for (int i = 0; has_more && i < ASKED_MAX; i++) {
		has_more = ask_epoll(net, has_found);
		if (net->roce)
			*has_found |= roce_input_all(net->roce);
	}
}

/* What was due when everybody was asked; what is due since may have been answered since. */
static bool expire(struct net *net, uint64_t asked_ns)
{
	struct timer *t;
	bool has_moved = false;

	while ((t = timer_queue_expire(&net->timers, asked_ns)) != NULL) {
		link_expire(CONTAINER_OF(t, struct link, timer));
		has_moved = true;
	}
	if (net->roce && roce_due(net->roce) <= asked_ns) {
		roce_expire(net->roce, asked_ns);
		has_moved = true;
	}
	return has_moved;
}

bool net_output(struct net *net, bool can_wait)
{
	struct iwarp_stream *s, *last = iwarp_last(&net->attention);
	bool has_moved = false, is_last = false;

	if (last && net->adapter->recording)
		net_look_at_clock(net); /* captured bytes have their true time */

	/* Each has one turn: a stream that has more to send comes back behind the others. */
	while (!is_last && (s = iwarp_attend(&net->attention)) != NULL) {
		is_last = s == last;
		has_moved |= link_service(iwarp_owner(s));
	}
	if (net->roce && !(can_wait && roce_waits_for_program(net->roce)))
		has_moved |= roce_output(net->roce);
	free_ended(net);
	return has_moved;
}

/* Of those that ask one of the hot links, until the next that asks about all. */
static uint32_t polls_until_epoll(const struct net *net)
{
	if (net->blocked_count > 0) /* only epoll says when a socket takes more */
		return POLLS_BLOCKED;
	return net->was_busy ? POLLS_BUSY : POLLS_IDLE;
}

/* By when something should have come: before that passes everybody is asked. */
static uint64_t answer_due(const struct net *net)
{
	return least(timer_queue_due(&net->timers), net->roce ? roce_due(net->roce) : UINT64_MAX);
}

bool net_poll(struct net *net, bool is_all)
{
	bool has_found = false, has_moved = false, is_due = false;
	uint64_t asked_ns = 0;

	/* The clock is read for deadlines, and when bytes have come: not for nothing. */
	if (net_due(net) != UINT64_MAX) {
		asked_ns = net_look_at_clock(net);
		is_due = answer_due(net) <= asked_ns;
		if (net->roce)
			roce_wake(net->roce, asked_ns); /* a rate does not wait for what comes */
	}
	/*
	 * One question each time: a poll that finds nothing is one system call. What has come in
	 * time is not late because nobody looked: before a deadline passes everybody is asked.
	 */
	if (is_all || is_due || net->is_all_due) {
		/* What others have waits for the next look, unless it has waited for many. */
		has_found |= hot_ask_all(net);
		if (is_due)
			ask_everybody(net, &has_found);
		else if (!has_found || ++net->polls_since_epoll >= polls_until_epoll(net))
			(void)ask_epoll(net, &has_found);
	} else if (!hot_is_any(net) || ++net->polls_since_epoll >= polls_until_epoll(net)) {
		(void)ask_epoll(net, &has_found);
	} else {
		has_found |= hot_ask_next(net);
	}
	if (is_due)
		has_moved = expire(net, asked_ns);
	has_moved |= has_found;
	net->was_busy = has_moved;
	if (!is_all)
		net->polls_empty = has_found ? 0 : net->polls_empty + 1;
	if (has_found)
		progress_found(net, !is_all);
	return has_moved || net_has_output(net) || !list_is_empty(&net->ended);
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
	return !list_is_empty(&net->attention) || (net->roce && roce_has_output(net->roce));
}

uint64_t net_due(const struct net *net)
{
	return least(answer_due(net), net->roce ? roce_wake_due(net->roce) : UINT64_MAX);
}

static void traffic_add(struct weft_traffic *sum, const struct weft_traffic *t)
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

void net_link_ended(struct net *net, const struct link *link)
{
	traffic_add(&net->carried, &link->traffic);
}

void net_traffic(const struct net *net, struct weft_traffic *t)
{
	*t = net->carried;
	for (const struct list *at = net->links.next; at != &net->links; at = at->next) {
		struct weft_traffic of;

		link_traffic(CONTAINER_OF(at, const struct link, all_link), &of);
		traffic_add(t, &of);
	}
	if (net->roce) {
		struct weft_traffic of;

		roce_traffic_all(net->roce, &of);
		traffic_add(t, &of);
	}
}
