/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/tcp.h"

#include <stdlib.h>

#include "driver/observe/observe.h"
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

static const struct stream_core *const cores[STREAM_CORES] = {
	[STREAM_IWARP] = &stream_iwarp,
	[STREAM_ISCSI] = &stream_iscsi,
};

enum { REQUESTS_ROOM = 65536, UNREAD_MAX = 16 };

/* ---- Life ----------------------------------------------------------------------------------- */

static void free_ended(struct tcp *tcp)
{
	while (!list_is_empty(&tcp->ended))
		link_free(CONTAINER_OF(list_pop(&tcp->ended), struct link, all_link));
}

static bool is_used(const struct carrier *c)
{
	const struct tcp *tcp = tcp_from(c);

	return !list_is_empty(&tcp->listeners) || tcp->requests_taken > 0;
}

static bool is_closing(const struct carrier *c)
{
	return !list_is_empty(&tcp_from(c)->links);
}

static enum weft_reason tcp_open(struct net *net, struct carrier **c)
{
	struct tcp *tcp = calloc(1, sizeof(*tcp));

	if (!tcp)
		return WEFT_R_NO_MEMORY;
	tcp->net = net;
	tcp->is_crc_off = !crc_wished();
	tcp->is_near_off = near_wished() == NEAR_WISH_OFF;
	/* One for each queue pair, one that is closing, and requests. */
	tcp->links_max = 2 * net->adapter->core.qps.slots_max + REQUESTS_ROOM;
	if (timer_queue_init(&tcp->timers, tcp->links_max) < 0) {
		free(tcp);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t kind = 0; kind < STREAM_CORES; kind++)
		list_init(&tcp->attention[kind]);
	list_init(&tcp->links);
	list_init(&tcp->listeners);
	list_init(&tcp->ended);
	list_init(&tcp->unread);
	list_init(&tcp->silent);
	list_init(&tcp->borrowers);
	*c = &tcp->carrier;
	return WEFT_OK;
}

static void tcp_close(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);

	while (!list_is_empty(&tcp->links))
		link_end(CONTAINER_OF(tcp->links.next, struct link, all_link), WEFT_R_STREAM_LOST,
			 false);
	free_ended(tcp);
	timer_queue_fini(&tcp->timers);
	iwarp_buffers_destroy(tcp->spare_buffers);
	free(tcp);
}

/* ---- Sending and deadlines ------------------------------------------------------------------ */

/* Bound: those that have still more input are listed again. */
static bool unread_input(struct tcp *tcp)
{
	bool has_moved = false;

	for (int i = 0; i < UNREAD_MAX && !list_is_empty(&tcp->unread); i++)
		has_moved |= link_input(
			CONTAINER_OF(list_pop(&tcp->unread), struct link, unread_link));
	return has_moved;
}

/* Each has one turn: a stream that has more to send comes back behind the others. */
static bool attend(struct tcp *tcp, enum stream_kind kind)
{
	const struct stream_core *core = cores[kind];
	struct link *link, *last = core->last(&tcp->attention[kind]);
	bool has_moved = false, is_last = false;

	if (last && tcp->net->adapter->observed.recording)
		net_look_at_clock(tcp->net); /* captured bytes have their true time */
	while (!is_last && (link = core->attend(&tcp->attention[kind])) != NULL) {
		is_last = link == last;
		has_moved |= link_service(link);
	}
	return has_moved;
}

static bool output(struct carrier *c, bool can_wait)
{
	struct tcp *tcp = tcp_from(c);
	bool has_moved = unread_input(tcp);

	(void)can_wait;
	for (uint32_t kind = 0; kind < STREAM_CORES; kind++) {
		if (!list_is_empty(&tcp->attention[kind]))
			has_moved |= attend(tcp, kind);
	}
	free_ended(tcp);
	return has_moved;
}

static bool is_attended(const struct tcp *tcp)
{
	for (uint32_t kind = 0; kind < STREAM_CORES; kind++) {
		if (!list_is_empty(&tcp->attention[kind]))
			return false;
	}
	return true;
}

/* Links that have ended are freed by output(). */
static bool has_output(const struct carrier *c)
{
	const struct tcp *tcp = tcp_from(c);

	return !is_attended(tcp) || !list_is_empty(&tcp->ended) || !list_is_empty(&tcp->unread);
}

static uint64_t due(const struct carrier *c)
{
	return timer_queue_due(&tcp_from(c)->timers);
}

static void expire(struct carrier *c, uint64_t now_ns)
{
	struct timer *t;

	while ((t = timer_queue_expire(&tcp_from(c)->timers, now_ns)) != NULL)
		link_expire(CONTAINER_OF(t, struct link, timer));
}

/* TCP paces its packets itself. */
static uint64_t pace_due(const struct carrier *c)
{
	(void)c;
	return UINT64_MAX;
}

static void pace(struct carrier *c, uint64_t now_ns)
{
	(void)c;
	(void)now_ns;
}

/* ---- Reading -------------------------------------------------------------------------------- */

static void retry(struct carrier *c)
{
	listeners_retry(tcp_from(c));
}

/* The watches of the links have read all input. */
static bool input(struct carrier *c)
{
	(void)c;
	return false;
}

/* ---- The end of the process ----------------------------------------------------------------- */

/* The kernel tells the peers. */
static bool exit_begin(struct carrier *c)
{
	(void)c;
	return false;
}

static void exit_end(struct carrier *c)
{
	(void)c;
}

static void abandon(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);

	for (struct list *at = tcp->links.next; at != &tcp->links; at = at->next) {
		struct link *link = CONTAINER_OF(at, struct link, all_link);

		link_near_abandon(link);
		watch_abandon(&link->watch);
	}
	for (struct list *at = tcp->listeners.next; at != &tcp->listeners; at = at->next)
		watch_abandon(&CONTAINER_OF(at, struct weft_listener, link)->watch);
}

/* ---- Questions ------------------------------------------------------------------------------ */

static void traffic(const struct carrier *c, struct weft_traffic *sum)
{
	const struct tcp *tcp = tcp_from(c);

	traffic_add(sum, &tcp->carried);
	for (const struct list *at = tcp->links.next; at != &tcp->links; at = at->next) {
		struct weft_traffic of;

		link_traffic(CONTAINER_OF(at, const struct link, all_link), &of);
		traffic_add(sum, &of);
	}
}

static const struct carrier_calls tcp_calls = {
	.open = tcp_open,
	.output = output,
	.has_output = has_output,
	.due = due,
	.expire = expire,
	.pace_due = pace_due,
	.pace = pace,
	.retry = retry,
	.input = input,
	.input_all = input,
	.hot_turns = hot_turns,
	.memory = hot_memory,
	.hot_input = hot_input,
	.hot_input_all = hot_input_all,
	.hot_watch = hot_watch,
	.rest = hot_rest,
	.sleep_begin = hot_sleep_begin,
	.sleep_input = hot_sleep_input,
	.is_used = is_used,
	.is_closing = is_closing,
	.close = tcp_close,
	.exit_begin = exit_begin,
	.exit_end = exit_end,
	.abandon = abandon,
	.traffic = traffic,
};

struct tcp *tcp_of(const struct net *net)
{
	struct carrier *c = carrier_find(net, &tcp_calls);

	return c ? tcp_from(c) : NULL;
}

enum weft_reason tcp_get(struct weft_adapter *a, struct tcp **tcp)
{
	struct carrier *c;
	enum weft_reason r = carrier_get(a, &tcp_calls, &c);

	if (r == WEFT_OK)
		*tcp = tcp_from(c);
	return r;
}
