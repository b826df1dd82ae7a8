/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static void link_ready(struct watch *w, uint32_t events);

/* ---- Life ----------------------------------------------------------------------------------- */

struct link *link_create(struct tcp *tcp, int fd, enum link_phase phase,
			 const struct stream_core *core)
{
	struct link *link;

	if (tcp->link_count == tcp->links_max)
		return NULL;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	if (core->has_setup)
		link->setup = calloc(1, sizeof(*link->setup));
	if (core->has_setup && !link->setup) {
		free(link);
		return NULL;
	}
	link->watch = (struct watch){ .ready = link_ready, .fd = fd };
	link->tcp = tcp;
	link->net = tcp->net;
	link->phase = phase;
	link->core = core;
	list_init(&link->request.link);
	list_init(&link->silent_link);
	list_init(&link->all_link);
	list_init(&link->borrower_link);
	list_init(&link->unread_link);
	list_add_tail(&tcp->links, &link->all_link);
	tcp->link_count++;
	return link;
}

/* Notes whether the socket's send buffer is full. */
void link_block(struct link *link, bool is_blocked)
{
	if (link->is_sending_blocked != is_blocked)
		link->tcp->carrier.blocked += is_blocked ? 1U : UINT32_MAX;
	link->is_sending_blocked = is_blocked;
}

void link_watch(struct link *link, uint32_t interest)
{
	/* Of bytes, of room and of its end the peer tells by messages; after the end by none. */
	if (link_near_runs(link))
		interest = link_near_is_closed(link) ? 0 : EPOLLIN;
	link->interest = interest;
	if (link->times_asked == HOT_ASKED && interest == EPOLLIN) {
		/* A program that sleeps on the sockets polls only links unwatched before. */
		if (link->net->is_led && link->watch.interest != 0)
			link->times_asked = 0;
		else
			interest = 0;
	}
	net_watch(link->net, &link->watch, interest);
}

void link_free(struct link *link)
{
	free(link->private_data);
	free(link);
}

/* No handle refers to it, but callers up the stack still read its phase: free it later. */
void link_free_if_unused(struct link *link)
{
	if (link->phase != LINK_ENDED || link->qp || link->request.is_taken ||
	    list_is_linked(&link->all_link))
		return;
	list_add_tail(&link->tcp->ended, &link->all_link);
}

void link_end(struct link *link, enum weft_reason reason, bool is_reset)
{
	struct tcp *tcp = link->tcp;

	if (link->phase == LINK_ENDED)
		return;
	if (!link_has_stream(link) && reason != WEFT_OK)
		link_trace(link, TRACE_CONNECT_FAILED, reason);
	else
		link_trace(link, is_reset ? TRACE_RESET : TRACE_ENDED, reason);
	link_move(link, LINK_ENDED);
	link->reason = reason;
	link_block(link, false);
	net_watch(link->net, &link->watch, 0);
	if (link->record.recording)
		record_close(&link->record, is_reset);
	if (link->watch.fd >= 0 && !link_near_runs(link))
		socket_close(link->watch.fd, is_reset);
	link_near_end(link, is_reset);
	list_remove(&link->unread_link);
	timer_queue_cancel(&tcp->timers, &link->timer);
	hot_remove(tcp, link);
	list_remove(&link->all_link);
	tcp->link_count--;
	if (link->listener)
		listener_release(link);
	if (link->stream) {
		link_traffic(link, &link->traffic);
		link->core->destroy(link);
		link->stream = NULL;
	}
	traffic_add(&tcp->carried, &link->traffic);
	free(link->setup);
	link->setup = NULL;
	link_free_if_unused(link);
}

void link_record(struct link *link, bool is_initiator)
{
	link->record.local = link->local;
	link->record.remote = link->remote;
	record_open(&link->record, &link->net->adapter->observed, is_initiator);
}

void link_raise(struct link *link, enum weft_event_kind kind, enum weft_reason reason)
{
	if (link->qp)
		event_raise(&link->net->adapter->core.events, &link->qp->events, kind, reason);
}

/* Connection set-up failed. */
void link_failed(struct link *link, enum weft_reason reason, bool is_reset)
{
	link_raise(link, WEFT_EVENT_CONNECT_FAILED, reason);
	link_end(link, reason, is_reset);
}

void link_connected(struct link *link)
{
	link_trace(link, TRACE_CONNECTED, WEFT_OK);
	link_raise(link, WEFT_EVENT_CONNECTED, WEFT_OK);
}

void link_qp_gone(struct link *link)
{
	link->qp->link = NULL;
	link->qp = NULL;
	if (link->phase <= LINK_SETUP)
		link_end(link, WEFT_R_FLUSHED, true);
	else
		link_free_if_unused(link);
}

void link_qp_moved(struct link *link, bool is_reset)
{
	if (is_reset || link->phase <= LINK_SETUP)
		link_qp_gone(link);
}

/* Replaces the ended link that the queue pair still has. */
void link_own(struct link *link, struct weft_qp *qp)
{
	if (qp->link)
		link_qp_gone(qp->link);
	qp->link = link;
	link->qp = qp;
	link->qp_number = qp->number;
	qp->ends = (struct qp_ends){ .local = link->local, .peer = link->remote };
}

enum weft_reason link_check_qp(const struct weft_qp *qp)
{
	const struct link *old = qp->link;

	if ((qp->service != WEFT_RC && qp->service != WEFT_ISCSI) || qp->is_xrc)
		return WEFT_R_WR_SERVICE;
	if (qp->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	return old && old->phase != LINK_ENDED ? WEFT_R_QP_CONNECTED : WEFT_OK;
}

/* ---- Questions ----------------------------------------------------------------------------- */

static uint32_t depth_clamp(uint16_t depth)
{
	return depth == MPA_DEPTH_UNKNOWN ? WEFT_DEPTH_NONE : depth;
}

void link_peer(const struct link *link, struct weft_peer *peer)
{
	*peer = (struct weft_peer){
		.local = link->local,
		.remote = link->remote,
		.private_bytes = link->private_bytes,
		.ird = depth_clamp(link->peer_ird),
		.ord = depth_clamp(link->peer_ord),
		.agreed_ird = link->terms.ird,
		.agreed_ord = link->terms.ord,
		.has_crc = link->terms.has_crc && !link_near_runs(link),
		.is_near = link_near_runs(link),
		.sends_markers = link->terms.sends_markers,
		.takes_markers = link->terms.takes_markers,
		.mpa_revision = link->mpa_revision,
	};
	if (link->private_bytes > 0)
		memcpy(peer->private_data, link->private_data, link->private_bytes);
}

void link_traffic(const struct link *link, struct weft_traffic *t)
{
	struct weft_traffic v = link->traffic;

	if (link->stream)
		link->core->count(link, &v);
	*t = v;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

/* Whether fault injection will cut the connection off. */
static bool is_cut_off(const struct link *link)
{
	const struct fault_plan *plan = link->net->adapter->core.faults;

	return plan && plan->disconnect_after > 0;
}

/* All bytes before the cut move, so that it is always at the same byte. */
static bool clip(struct link *link, struct span_list *l, bool is_outgoing)
{
	struct adapter *core = &link->net->adapter->core;
	uint64_t left = core->faults->disconnect_after - link->moved[is_outgoing];

	if (left == 0) {
		adapter_fault_made(core, FAULT_DISCONNECT_AFTER, link->qp_number);
		if (link->qp)
			qp_record(link->qp, WEFT_R_FAULT_INJECTED);
		return false;
	}
	if (l->length <= left)
		return true;
	l->length = (size_t)left;
	for (uint32_t i = 0; left > 0; i++) {
		if (l->spans[i].length > left)
			l->spans[i].length = (size_t)left;
		left -= l->spans[i].length;
		l->count = i + 1;
	}
	return true;
}

/* All of it is what was registered, or of ours, at the same time. */
static bool enter(struct mem_watch *w, const struct span_list *l)
{
	uint64_t before;

	if (mem_watch_enter_same(w))
		return true;
	do {
		before = atomic_load(w->changes);
		for (uint32_t i = 0; i < l->count; i++) {
			if (!mem_watch_enter(w, l->spans[i].bytes, l->spans[i].length))
				return false;
		}
	} while (atomic_load(w->changes) != before);
	return true;
}

/* One call that receives or sends. */
static enum socket_result move(struct link *link, const struct span_list *l, size_t *n,
			       bool is_outgoing)
{
	enum socket_result (*call)(int, const struct span_list *,
				   size_t *) = is_outgoing ? socket_send : socket_recv;
	bool is_near = link_near_runs(link);
	struct mem_watch *watch = l->may_go ? link->net->adapter->core.mem.watch : NULL;
	struct span_list clipped;
	enum socket_result r;

	if (is_cut_off(link)) {
		clipped = *l;
		if (!clip(link, &clipped, is_outgoing))
			return SOCKET_LOST;
		l = &clipped;
	}
	if (!enter(watch, l))
		r = SOCKET_MISSING;
	else if (is_near)
		r = is_outgoing ? link_near_send(link, l, n) : link_near_recv(link, l, n);
	else
		r = call(link->watch.fd, l, n);
	mem_watch_leave(watch);
	if (r == SOCKET_MOVED)
		link->moved[is_outgoing] += *n;
	return r;
}

enum socket_result link_socket_recv(struct link *link, const struct span_list *l, size_t *n)
{
	enum socket_result r = move(link, l, n, false);

	if (!link_near_runs(link)) {
		link->traffic.calls_in++;
		link->traffic.calls_empty += r == SOCKET_WAIT;
	}
	if (r == SOCKET_WAIT || r == SOCKET_MISSING)
		return r;
	net_look_at_clock(link->net);
	if (!link->record.recording)
		return r;
	if (r == SOCKET_MOVED)
		record_bytes(&link->record, l, *n, false);
	else
		record_end(&link->record, false, r == SOCKET_LOST);
	return r;
}

enum socket_result link_socket_send(struct link *link, const struct span_list *l, size_t *n)
{
	enum socket_result r = move(link, l, n, true);

	if (!link_near_runs(link)) {
		link->traffic.calls_out++;
		link->traffic.calls_empty += r == SOCKET_WAIT;
	}
	if (link->record.recording && r == SOCKET_MOVED)
		record_bytes(&link->record, l, *n, true);
	return r;
}

/* ---- Both ----------------------------------------------------------------------------------- */

bool link_input(struct link *link)
{
	bool has_moved = false;

	if (link_has_stream(link)) {
		has_moved = link_stream_input(link);
		if (has_moved)
			hot_add(link->tcp, link);
		link_settle(link);
		return has_moved;
	}
	while (link->phase == LINK_SETUP && link_setup_input(link)) {
		link_setup_service(link);
		has_moved = true;
	}
	return has_moved;
}

bool link_service(struct link *link)
{
	if (link_has_stream(link))
		return link_stream_service(link);
	if (link->phase == LINK_SETUP)
		link_setup_service(link);
	return true;
}

/* ---- By shared memory ----------------------------------------------------------------------- */

void link_note_unread(struct link *link)
{
	list_remove(&link->unread_link);
	if (link_near_runs(link) && link->core->wants(link) && link_near_has_input(link))
		list_add_tail(&link->tcp->unread, &link->unread_link);
}

/* Marked first, then looked at: the peer sees the mark, or we see its bytes. */
void link_settle(struct link *link)
{
	if (!link_near_runs(link))
		return;
	link_near_mark(link, link->net->asleep > 0 || !hot_has(link->tcp, link));
	link_note_unread(link);
}

bool link_hear(struct link *link)
{
	bool has_moved;

	link_near_hear(link);
	link_block(link, false);
	has_moved = link_input(link);
	return link_service(link) || has_moved;
}

/* ---- Events --------------------------------------------------------------------------------- */

/* The TCP connect has ended: connected, or failed. */
static void connected(struct link *link)
{
	enum weft_reason r = socket_connected(link->watch.fd);

	if (r == WEFT_OK && link->qp && qp_fault_falls(link->qp, FAULT_CONNECT_REFUSED)) {
		link_failed(link, WEFT_R_CONNECT_REFUSED, true);
		return;
	}
	if (r == WEFT_R_CONNECT_REFUSED && link_refused(link))
		return;
	if (r != WEFT_OK) {
		link_failed(link, r, true);
		return;
	}
	socket_addresses(link->watch.fd, &link->local, &link->remote);
	if (link->qp)
		link->qp->ends.local = link->local;
	if (link->alive_ns > 0)
		socket_watch_peer(link->watch.fd, link->alive_ns);
	link_record(link, true);
	if (!link->core->has_setup) {
		link_begin_plain(link);
		return;
	}
	link_near_offer(link);
	link_move(link, LINK_SETUP);
	link_service(link);
}

static void link_ready(struct watch *w, uint32_t events)
{
	struct link *link = CONTAINER_OF(w, struct link, watch);

	if (link->phase == LINK_ENDED)
		return;
	if (link->phase == LINK_CONNECTING) {
		connected(link);
		return;
	}
	if (link->phase == LINK_SETUP) {
		/* While the program decides nothing is read: only a lost connection counts. */
		if (mpa_setup_want(link->setup).length == 0 &&
		    (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			mpa_setup_eof(link->setup);
		link_input(link);
		if (link->phase == LINK_SETUP)
			link_service(link);
		return;
	}
	if (link_near_runs(link)) {
		(void)link_hear(link);
		return;
	}
	if (events & EPOLLOUT)
		link_block(link, false);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		link_input(link);
	if (events & EPOLLERR)
		link_stream_lost(link);
	link_service(link);
}

void link_expire(struct link *link)
{
	uint64_t now_ns = link->net->now_ns;

	if (link_has_stream(link)) {
		if (link_near_is_stuck(link, now_ns))
			link_stream_lost(link);
		link->core->expire(link);
	} else if (link->phase == LINK_REFUSED && link_dial_due(link) > now_ns) {
		enum weft_reason r = link_connect(link);

		if (r != WEFT_OK)
			link_failed(link, r, true);
		return;
	} else if (!link->setup) {
		link_failed(link, WEFT_R_CONNECT_TIMEOUT, true);
		return;
	} else {
		mpa_setup_expire(link->setup, now_ns);
		if (link->phase < LINK_SETUP) /* from then on the set-up reports the failure */
			link_move(link, LINK_SETUP);
	}
	link_service(link);
}
