/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reserved.h"
#include "driver/tcp/tcp.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "base/least.h"

enum { REQUESTS_DEFAULT = 128, REQUESTS_MAX = 65536, ARRIVALS_MAX = 64 };

/* Fractions of the process's descriptors, shared with the program, for unanswered connections. */
enum { REQUESTS_SHARE = 2, SILENT_SHARE = 8, SILENT_MAX = 128 };

static const uint64_t retry_after_ns = 100 * 1000 * 1000;

/* ---- Silent connections --------------------------------------------------------------------- */

/*
 * A genuine peer sends its request in the first packet after the TCP handshake. So a silent
 * connection is kept only while there is room, and never keeps another out. The oldest of the
 * address that has the most of them is closed first.
 */
static uint16_t *silent_of(const struct link *link)
{
	const struct weft_address *a = &link->remote;
	uint32_t hash = 0;

	for (uint32_t i = 0; i < (a->family == 4 ? 4u : 16u); i++)
		hash = hash * 31 + a->ip[i];
	return &link->tcp->silent_of[hash % SILENT_HOSTS];
}

static void silent_end(struct link *link)
{
	if (!list_is_linked(&link->silent_link))
		return;
	list_remove(&link->silent_link);
	link->tcp->silent_count--;
	link->listener->silent--;
	(*silent_of(link))--;
}

/* Drops a silent connection of one listener, or (NULL) of any. False: there is none. */
static bool silent_drop(struct tcp *tcp, const struct weft_listener *of)
{
	struct link *found = NULL;

	/* Bound: silent_max. */
	for (struct list *at = tcp->silent.next; at != &tcp->silent; at = at->next) {
		struct link *link = CONTAINER_OF(at, struct link, silent_link);

		if ((!of || link->listener == of) &&
		    (!found || *silent_of(link) > *silent_of(found)))
			found = link;
	}
	if (found)
		link_end(found, WEFT_R_CONNECT_TIMEOUT, true);
	return found;
}

static uint32_t descriptors_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > REQUESTS_MAX)
		return REQUESTS_MAX;
	return (uint32_t)limit.rlim_cur;
}

/* The limit may change while the program runs, so these ask for it each time. */
static uint32_t silent_max(void)
{
	return (uint32_t)least(SILENT_MAX, descriptors_max() / SILENT_SHARE + 1);
}

static uint32_t unanswered_max(const struct weft_listener *l)
{
	return (uint32_t)least(l->requests_max, descriptors_max() / REQUESTS_SHARE + 1);
}

void listener_has_link(struct weft_listener *l, struct link *link)
{
	struct tcp *tcp = l->tcp;

	if (tcp->silent_count >= silent_max())
		(void)silent_drop(tcp, NULL);
	else if (l->unanswered >= unanswered_max(l))
		(void)silent_drop(tcp, l);
	link->listener = l;
	l->unanswered++;
	l->silent++;
	tcp->silent_count++;
	(*silent_of(link))++;
	list_add_tail(&tcp->silent, &link->silent_link);
}

/* ---- Listeners ------------------------------------------------------------------------------ */

/* Whether there is room for a request; silent connections give way, others wait in the kernel. */
static bool listener_has_room(const struct weft_listener *l)
{
	return l->unanswered - l->silent < unanswered_max(l);
}

static void listener_watch(struct weft_listener *l)
{
	bool is_open = listener_has_room(l) && l->retry_ns == 0;

	net_watch(l->net, &l->watch, is_open ? EPOLLIN : 0);
}

void listeners_retry(struct tcp *tcp)
{
	for (struct list *at = tcp->listeners.next; at != &tcp->listeners; at = at->next) {
		struct weft_listener *l = CONTAINER_OF(at, struct weft_listener, link);

		if (l->retry_ns != 0 && l->retry_ns <= tcp->net->now_ns) {
			l->retry_ns = 0;
			listener_watch(l);
		}
	}
}

static void listener_ready(struct watch *w, uint32_t events)
{
	struct weft_listener *l = CONTAINER_OF(w, struct weft_listener, watch);

	(void)events;
	for (int i = 0; i < ARRIVALS_MAX && listener_has_room(l); i++) {
		int fd;

		/* Out of descriptors: connections wait in the backlog, and we must not spin. */
		if (socket_accept(l->watch.fd, &fd) != WEFT_OK) {
			if (silent_drop(l->tcp, NULL))
				continue;
			l->retry_ns = l->net->now_ns + retry_after_ns;
		}
		if (fd < 0)
			break;
		link_arrived(l, fd);
	}
	listener_watch(l);
}

void listener_has_request(struct weft_listener *l, struct link *link)
{
	silent_end(link);
	list_add_tail(&l->requests, &link->request.link);
	event_raise(&l->net->adapter->core.events, &l->events, WEFT_EVENT_REQUEST, WEFT_OK);
}

void listener_release(struct link *link)
{
	struct weft_listener *l = link->listener;

	silent_end(link);
	list_remove(&link->request.link);
	link->listener = NULL;
	l->unanswered--;
	listener_watch(l);
}

static enum weft_reason listen_at(struct weft_adapter *a, const struct weft_address *at,
				  const struct weft_listener_options *o,
				  struct weft_listener **listener)
{
	struct weft_listener *l;
	struct tcp *tcp;
	enum weft_reason r = tcp_get(a, &tcp);

	if (r != WEFT_OK)
		return r;
	l = calloc(1, sizeof(*l));
	if (!l)
		return WEFT_R_NO_MEMORY;
	r = socket_listen(at, &l->watch.fd);
	if (r != WEFT_OK) {
		free(l);
		return r;
	}
	l->tcp = tcp;
	l->net = tcp->net;
	l->watch.ready = listener_ready;
	l->requests_max = o->requests_max ? o->requests_max : REQUESTS_DEFAULT;
	l->timeout_ns = setup_timeout_ns(o->timeout_ns);
	list_init(&l->requests);
	list_init(&l->link);
	list_add_tail(&tcp->listeners, &l->link);
	socket_addresses(l->watch.fd, &l->at, NULL);
	event_source_init(&l->events, ++tcp->listener_next, o->context);
	observe_address(&a->observed, &l->at, (struct trace_event){ .kind = TRACE_LISTENING });
	listener_watch(l);
	*listener = l;
	return WEFT_OK;
}

enum weft_reason weft_listener_open(struct weft_adapter *adapter, const struct weft_address *at,
				    const struct weft_listener_options *options,
				    struct weft_listener **listener)
{
	static const struct weft_listener_options defaults;
	enum weft_reason r;

	if (!adapter || !at || !listener)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	if (at->family != 0 && at->family != 4 && at->family != 6)
		return WEFT_R_ADDRESS;
	if (options && options->requests_max > REQUESTS_MAX)
		return WEFT_R_BAD_ARGUMENT;
	adapter_enter(adapter);
	r = listen_at(adapter, at, options ? options : &defaults, listener);
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_listener_address(struct weft_listener *listener, struct weft_address *address)
{
	if (!listener || !address)
		return WEFT_R_NULL_ARGUMENT;
	*address = listener->at;
	return WEFT_OK;
}

uint32_t weft_listener_number(const struct weft_listener *listener)
{
	return listener ? listener->events.number : 0;
}

/* Rejects the requests of all links that still point to this listener. */
static void reject_all(struct weft_listener *l)
{
	static const struct weft_connect_options nothing;
	struct list *at = l->tcp->links.next;

	while (at != &l->tcp->links) {
		struct link *link = CONTAINER_OF(at, struct link, all_link);

		at = at->next;
		if (link->listener != l)
			continue;
		if (link->request.is_taken)
			listener_release(link);
		else if (list_is_linked(&link->request.link))
			(void)link_reject(link, &nothing);
		else
			link_end(link, WEFT_R_CONNECT_CLOSED, true);
	}
}

enum weft_reason weft_listener_close(struct weft_listener *listener)
{
	struct weft_adapter *a;

	if (!listener)
		return WEFT_R_NULL_ARGUMENT;
	a = listener->net->adapter;
	adapter_enter(a);
	reject_all(listener);
	net_watch(listener->net, &listener->watch, 0);
	socket_close(listener->watch.fd, false);
	list_remove(&listener->link);
	list_remove(&listener->events.link);
	free(listener);
	adapter_leave_working(a);
	return WEFT_OK;
}

enum weft_reason weft_listener_next(struct weft_listener *listener, struct weft_request **request)
{
	struct weft_adapter *a;

	if (!listener || !request)
		return WEFT_R_NULL_ARGUMENT;
	a = listener->net->adapter;
	adapter_enter(a);
	adapter_poll(a, NULL);
	*request = NULL;
	if (!list_is_empty(&listener->requests)) {
		*request = CONTAINER_OF(list_pop(&listener->requests), struct weft_request, link);
		(*request)->is_taken = true;
		listener->tcp->requests_taken++;
	}
	adapter_leave(a);
	return WEFT_OK;
}

static struct link *link_of(struct weft_request *request)
{
	return CONTAINER_OF(request, struct link, request);
}

enum weft_reason weft_request_query(struct weft_request *request, struct weft_peer *peer)
{
	struct weft_adapter *a;

	if (!request || !peer)
		return WEFT_R_NULL_ARGUMENT;
	a = link_of(request)->net->adapter;
	adapter_enter(a);
	link_peer(link_of(request), peer);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_request_accept(struct weft_request *request, struct weft_qp *qp,
				     const struct weft_connect_options *options)
{
	static const struct weft_connect_options defaults;
	struct weft_adapter *a;
	enum weft_reason r;

	if (!request || !qp)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	a = link_of(request)->net->adapter;
	if (adapter_of(qp->adapter) != a)
		return WEFT_R_BAD_ARGUMENT;
	adapter_enter(a);
	r = link_accept(link_of(request), qp, options ? options : &defaults);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_request_reject(struct weft_request *request,
				     const struct weft_connect_options *options)
{
	static const struct weft_connect_options defaults;
	struct weft_adapter *a;
	enum weft_reason r;

	if (!request)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	a = link_of(request)->net->adapter;
	adapter_enter(a);
	r = link_reject(link_of(request), options ? options : &defaults);
	adapter_leave_working(a);
	return r;
}
