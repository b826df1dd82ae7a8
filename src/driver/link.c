/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/net.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum {
	DEPTH_DEFAULT = 16,
	DEPTH_MAX = MPA_DEPTH_MAX,
	ROUNDS_IN = 32, /* of receiving, before it is another link's turn */
	ROUNDS_OUT = 4	/* of sending: 256 KiB each at most */
};

static const uint64_t timeout_default_ns = UINT64_C(10) * 1000 * 1000 * 1000;
static const uint64_t close_wait_ns = UINT64_C(2) * 1000 * 1000 * 1000;

static void link_ready(struct watch *w, uint32_t events);

/* ---- Life ----------------------------------------------------------------------------------- */

static struct link *link_create(struct net *net, int fd, enum link_phase phase)
{
	struct link *link;

	if (net->link_count == net->links_max)
		return NULL;
	link = calloc(1, sizeof(*link));
	if (!link)
		return NULL;
	link->setup = calloc(1, sizeof(*link->setup));
	if (!link->setup) {
		free(link);
		return NULL;
	}
	link->watch = (struct watch){ .ready = link_ready, .fd = fd };
	link->net = net;
	link->phase = phase;
	list_init(&link->request.link);
	list_init(&link->all_link);
	list_init(&link->borrower_link);
	list_add_tail(&net->links, &link->all_link);
	net->link_count++;
	return link;
}

static void link_forget(struct net *net, const struct link *link)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < net->hot_count; i++) {
		if (net->hot[i] != link)
			net->hot[kept++] = net->hot[i];
	}
	net->hot_count = kept;
}

/* Whether the socket takes more, as far as is known. */
static void link_block(struct link *link, bool is_blocked)
{
	if (link->is_sending_blocked != is_blocked)
		link->net->blocked_count += is_blocked ? 1U : UINT32_MAX;
	link->is_sending_blocked = is_blocked;
}

void link_free(struct link *link)
{
	free(link->private_data);
	free(link);
}

/* Nobody can ask about it any more; but who works on it right now still looks at its phase. */
static void link_free_if_unused(struct link *link)
{
	if (link->phase != LINK_ENDED || link->qp || link->request.is_taken ||
	    list_is_linked(&link->all_link))
		return;
	list_add_tail(&link->net->ended, &link->all_link);
}

void link_end(struct link *link, enum weft_reason reason, bool is_reset)
{
	struct net *net = link->net;

	if (link->phase == LINK_ENDED)
		return;
	if (link->phase != LINK_STREAM && reason != WEFT_OK)
		observe_link(link, TRACE_CONNECT_FAILED, reason);
	else
		observe_link(link, is_reset ? TRACE_RESET : TRACE_ENDED, reason);
	link->phase = LINK_ENDED;
	link->reason = reason;
	link_block(link, false);
	net_watch(net, &link->watch, 0);
	if (link->record.recording)
		record_close(link, is_reset);
	socket_close(link->watch.fd, is_reset);
	timer_queue_cancel(&net->timers, &link->timer);
	link_forget(net, link);
	list_remove(&link->all_link);
	net->link_count--;
	if (link->listener)
		listener_release(link);
	if (link->stream) {
		link_traffic(link, &link->traffic);
		link->peer_words = iwarp_peer_words(link->stream);
		desks_return(net, link);
		iwarp_destroy(link->stream);
		link->stream = NULL;
	}
	net_link_ended(net, link);
	free(link->setup);
	link->setup = NULL;
	link_free_if_unused(link);
}

static void raise_event(struct link *link, enum weft_event_kind kind, enum weft_reason reason)
{
	if (link->qp)
		event_raise(&link->net->adapter->core.events, &link->qp->events, kind, reason);
}

/* It did not become a connection. */
static void link_failed(struct link *link, enum weft_reason reason, bool is_reset)
{
	raise_event(link, WEFT_EVENT_CONNECT_FAILED, reason);
	link_end(link, reason, is_reset);
}

void link_qp_gone(struct link *link)
{
	link->qp->link = NULL;
	link->qp = NULL;
	if (link->phase == LINK_CONNECTING || link->phase == LINK_SETUP)
		link_end(link, WEFT_R_FLUSHED, true);
	else
		link_free_if_unused(link);
}

void link_qp_moved(struct link *link, bool is_reset)
{
	if (is_reset || link->phase == LINK_CONNECTING || link->phase == LINK_SETUP)
		link_qp_gone(link);
}

/* What the queue pair had before makes place. */
static void link_own(struct link *link, struct weft_qp *qp)
{
	if (qp->link)
		link_qp_gone(qp->link);
	qp->link = link;
	link->qp = qp;
	link->qp_number = qp->number;
}

static enum weft_reason check_qp(const struct weft_qp *qp)
{
	const struct link *old = qp->link;

	if (qp->service != WEFT_RC)
		return WEFT_R_WR_SERVICE;
	if (qp->state > WEFT_QPS_INIT)
		return WEFT_R_QP_STATE;
	return old && old->phase != LINK_ENDED ? WEFT_R_QP_CONNECTED : WEFT_OK;
}

/* ---- What is agreed ------------------------------------------------------------------------- */

static enum weft_reason depth_of(uint32_t asked, uint16_t *depth)
{
	if (asked == 0)
		asked = DEPTH_DEFAULT;
	else if (asked == WEFT_DEPTH_NONE)
		asked = 0;
	if (asked > DEPTH_MAX)
		return WEFT_R_BAD_ARGUMENT;
	*depth = (uint16_t)asked;
	return WEFT_OK;
}

static enum weft_reason config_of(const struct weft_connect_options *o, const struct weft_qp *qp,
				  struct mpa_config *c)
{
	enum weft_reason r;

	*c = (struct mpa_config){
		.wants_crc = !o->is_crc_off,
		.wants_markers = o->wants_markers,
		.revision = o->mpa_revision ? o->mpa_revision : 2,
		.timeout_ns = o->timeout_ns ? o->timeout_ns : timeout_default_ns,
	};
	c->is_peer_to_peer = c->revision == 2 && !o->is_client_server;
	r = depth_of(o->ird, &c->ird);
	if (r == WEFT_OK)
		r = depth_of(o->ord, &c->ord);
	if (c->ord > qp->outstanding_max)
		c->ord = (uint16_t)qp->outstanding_max;
	return r;
}

static struct mpa_bytes private_of(const struct weft_connect_options *o)
{
	return (struct mpa_bytes){ o->private_data, o->private_bytes };
}

/* Remembers what the other end said, past the set-up. */
static void remember_peer(struct link *link)
{
	struct mpa_peer peer = mpa_setup_peer(link->setup);

	link->peer_ird = peer.ird;
	link->peer_ord = peer.ord;
	link->mpa_revision = peer.revision;
	free(link->private_data);
	link->private_data = NULL;
	link->private_bytes = 0;
	if (peer.private_data.length == 0)
		return;
	link->private_data = malloc(peer.private_data.length);
	if (!link->private_data)
		return;
	memcpy(link->private_data, peer.private_data.bytes, peer.private_data.length);
	link->private_bytes = (uint32_t)peer.private_data.length;
}

static uint32_t depth_told(uint16_t depth)
{
	return depth == MPA_DEPTH_UNKNOWN ? WEFT_DEPTH_NONE : depth;
}

void link_peer(const struct link *link, struct weft_peer *peer)
{
	*peer = (struct weft_peer){
		.local = link->local,
		.remote = link->remote,
		.private_bytes = link->private_bytes,
		.ird = depth_told(link->peer_ird),
		.ord = depth_told(link->peer_ord),
		.agreed_ird = link->terms.ird,
		.agreed_ord = link->terms.ord,
		.has_crc = link->terms.has_crc,
		.sends_markers = link->terms.sends_markers,
		.takes_markers = link->terms.takes_markers,
		.mpa_revision = link->mpa_revision,
	};
	if (link->private_bytes > 0)
		memcpy(peer->private_data, link->private_data, link->private_bytes);
}

const char *link_peer_words(const struct link *link)
{
	return link->stream ? iwarp_peer_words(link->stream) : link->peer_words;
}

void link_traffic(const struct link *link, struct weft_traffic *t)
{
	struct weft_traffic v = link->traffic;

	if (link->stream) {
		const struct iwarp_counts *c = iwarp_counts(link->stream);

		v.messages_in = c->messages_in;
		v.messages_out = c->messages_out;
		v.frames_in = c->fpdus_in;
		v.frames_out = c->fpdus_out;
		v.bytes_in += c->bytes_in;
		v.bytes_out += c->bytes_out;
		v.payload_in = c->payload_in;
		v.payload_out = c->payload_out;
		v.payload_copied = c->payload_copied;
	}
	*t = v;
}

/* ---- Beginnings ----------------------------------------------------------------------------- */

enum weft_reason link_dial(struct net *net, struct weft_qp *qp, const struct weft_address *to,
			   const struct weft_connect_options *options)
{
	struct mpa_config config;
	struct trace_event e = { .who = qp->number };
	enum weft_reason r = check_qp(qp);
	struct link *link;
	int fd;

	if (r == WEFT_OK)
		r = config_of(options, qp, &config);
	if (r == WEFT_OK && to->family != 4 && to->family != 6)
		r = WEFT_R_ADDRESS;
	if (r != WEFT_OK)
		return r;
	e.kind = TRACE_DIALLED;
	observe_address(net->adapter, to, e);
	r = socket_connect(to, &fd);
	if (r != WEFT_OK) {
		e.kind = TRACE_CONNECT_FAILED;
		e.reason = (uint16_t)r;
		observe_address(net->adapter, to, e);
		return r;
	}
	link = link_create(net, fd, LINK_CONNECTING);
	if (!link) {
		socket_close(fd, true);
		return WEFT_R_NO_MEMORY;
	}
	link->remote = *to;
	r = mpa_setup_init_initiator(link->setup, &config, private_of(options),
				     net_look_at_clock(net));
	if (r != WEFT_OK) {
		link_end(link, r, true);
		return r;
	}
	link_own(link, qp);
	timer_queue_set(&net->timers, &link->timer, mpa_setup_due(link->setup));
	net_watch(net, &link->watch, EPOLLOUT);
	progress_notice(net);
	return WEFT_OK;
}

enum weft_reason link_arrived(struct weft_listener *listener, int fd)
{
	struct net *net = listener->net;
	const struct mpa_config config = {
		.ird = DEPTH_MAX,
		.ord = DEPTH_MAX,
		.timeout_ns = listener->timeout_ns,
	};
	struct link *link = link_create(net, fd, LINK_SETUP);

	if (!link) {
		socket_close(fd, true);
		return WEFT_R_NO_MEMORY;
	}
	link->listener = listener;
	listener->unanswered++;
	socket_addresses(fd, &link->local, &link->remote);
	record_open(link, false);
	observe_link(link, TRACE_ARRIVED, WEFT_OK);
	mpa_setup_init_responder(link->setup, &config, net_look_at_clock(net));
	timer_queue_set(&net->timers, &link->timer, mpa_setup_due(link->setup));
	net_watch(net, &link->watch, EPOLLIN | EPOLLRDHUP);
	link_input(link);
	return WEFT_OK;
}

/* The program's handle is used up. */
static void request_answered(struct link *link)
{
	link->net->requests_taken -= link->request.is_taken;
	link->request.is_taken = false;
}

enum weft_reason link_accept(struct link *link, struct weft_qp *qp,
			     const struct weft_connect_options *options)
{
	struct mpa_config config;
	struct mpa_answer answer = { .private_data = private_of(options) };
	enum weft_reason r = check_qp(qp);

	if (r == WEFT_OK)
		r = config_of(options, qp, &config);
	if (r != WEFT_OK)
		return r;
	if (link->phase == LINK_ENDED) {
		request_answered(link);
		link_free_if_unused(link);
		return WEFT_R_CONNECT_CLOSED;
	}
	answer.ird = config.ird;
	answer.ord = config.ord;
	link->ready_wait_ns = config.timeout_ns;
	mpa_setup_wish(link->setup, config.wants_crc, config.wants_markers);
	r = mpa_setup_accept(link->setup, &answer, net_look_at_clock(link->net));
	if (r != WEFT_OK)
		return r;
	request_answered(link);
	if (link->listener)
		listener_release(link);
	link_own(link, qp);
	observe_link(link, TRACE_ACCEPTED, WEFT_OK);
	link_service(link);
	return WEFT_OK;
}

enum weft_reason link_reject(struct link *link, const struct weft_connect_options *options)
{
	enum weft_reason r;

	if (link->phase == LINK_ENDED) {
		request_answered(link);
		link_free_if_unused(link);
		return WEFT_OK;
	}
	r = mpa_setup_reject(link->setup, private_of(options), net_look_at_clock(link->net));
	if (r != WEFT_OK)
		return r;
	observe_link(link, TRACE_REJECTED, WEFT_OK);
	request_answered(link);
	if (link->listener)
		listener_release(link);
	link_service(link);
	return WEFT_OK;
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static enum socket_result link_recv(struct link *link, const struct span_list *l, size_t *n)
{
	enum socket_result r = socket_recv(link->watch.fd, l, n);

	link->traffic.calls_in++;
	link->traffic.calls_empty += r == SOCKET_WAIT;
	if (!link->record.recording || r == SOCKET_WAIT)
		return r;
	if (r == SOCKET_MOVED)
		record_bytes(link, l, *n, false);
	else
		record_end(link, false, r == SOCKET_LOST);
	return r;
}

static enum socket_result link_send(struct link *link, const struct span_list *l, size_t *n)
{
	enum socket_result r = socket_send(link->watch.fd, l, n);

	link->traffic.calls_out++;
	link->traffic.calls_empty += r == SOCKET_WAIT;
	if (link->record.recording && r == SOCKET_MOVED)
		record_bytes(link, l, *n, true);
	return r;
}

/* ---- Set-up --------------------------------------------------------------------------------- */

static void is_connected(struct link *link)
{
	observe_link(link, TRACE_CONNECTED, WEFT_OK);
	raise_event(link, WEFT_EVENT_CONNECTED, WEFT_OK);
}

/* Both ends agree: the stream begins. */
static void begin_stream(struct link *link)
{
	const struct iwarp_config config = {
		.terms = *mpa_setup_terms(link->setup),
		.close_wait_ns = close_wait_ns,
		.attention = &link->net->attention,
		.owner = link,
	};
	enum weft_reason failure = mpa_setup_must_terminate(link->setup)
					   ? mpa_setup_reason(link->setup)
					   : WEFT_OK;
	enum weft_reason r = iwarp_create(link->qp, &config, &link->stream);

	if (r != WEFT_OK) { /* the queue pair was moved meanwhile, or memory is short */
		link_failed(link, r, true);
		return;
	}
	link->terms = config.terms;
	free(link->setup);
	link->setup = NULL;
	link->phase = LINK_STREAM;
	observe_terms(link);
	timer_queue_cancel(&link->net->timers, &link->timer);
	if (failure != WEFT_OK) {
		raise_event(link, WEFT_EVENT_CONNECT_FAILED, failure);
		iwarp_refuse(link->stream, failure);
	} else if (config.terms.rtr != IWARP_RTR_NONE && !config.terms.is_initiator) {
		link->is_connected_due = true;
		link->ready_ns = link->net->now_ns + link->ready_wait_ns;
	} else {
		is_connected(link);
	}
}

static void setup_events(struct link *link)
{
	while (link->phase == LINK_SETUP) {
		switch (mpa_setup_event(link->setup)) {
		case MPA_SETUP_NONE:
			return;
		case MPA_SETUP_REQUEST:
			remember_peer(link);
			net_watch(link->net, &link->watch, EPOLLRDHUP);
			listener_has_request(link->listener, link);
			break;
		case MPA_SETUP_ESTABLISHED:
			if (mpa_setup_terms(link->setup)->is_initiator)
				remember_peer(link);
			begin_stream(link);
			break;
		case MPA_SETUP_REJECTED:
			if (link->qp) /* by the peer; else by us, who have no queue pair for it */
				remember_peer(link);
			link_failed(link, WEFT_R_CONNECT_REJECTED, false);
			break;
		case MPA_SETUP_FAILED:
			if (mpa_setup_must_terminate(link->setup) && link->qp)
				begin_stream(link);
			else
				link_failed(link, mpa_setup_reason(link->setup), true);
			break;
		}
	}
}

static bool setup_input(struct link *link)
{
	struct mpa_span want = mpa_setup_want(link->setup);
	struct span_list l = { .spans = { { want.bytes, want.length } }, .count = 1 };
	size_t n;

	if (want.length == 0)
		return false;
	l.length = want.length;
	switch (link_recv(link, &l, &n)) {
	case SOCKET_MOVED:
		link->traffic.bytes_in += n;
		mpa_setup_got(link->setup, n);
		return true;
	case SOCKET_WAIT:
		return false;
	default:
		mpa_setup_eof(link->setup);
		return true;
	}
}

static void setup_output(struct link *link)
{
	struct mpa_bytes have = mpa_setup_have(link->setup);
	uint32_t input = EPOLLIN | EPOLLRDHUP;

	while (have.length > 0) {
		struct span_list l = { .count = 1, .length = have.length };
		size_t n;

		/* What is sent is only read. */
		l.spans[0] = (struct span){ (uint8_t *)(uintptr_t)have.bytes, have.length };
		switch (link_send(link, &l, &n)) {
		case SOCKET_MOVED:
			link->traffic.bytes_out += n;
			mpa_setup_sent(link->setup, n);
			break;
		case SOCKET_WAIT:
			net_watch(link->net, &link->watch, EPOLLOUT | EPOLLRDHUP);
			return;
		default:
			mpa_setup_eof(link->setup);
			return;
		}
		have = mpa_setup_have(link->setup);
	}
	if (mpa_setup_want(link->setup).length > 0)
		net_watch(link->net, &link->watch, input);
}

static void setup_service(struct link *link)
{
	setup_output(link);
	setup_events(link);
	if (link->phase == LINK_SETUP)
		timer_queue_set(&link->net->timers, &link->timer, mpa_setup_due(link->setup));
	else if (link->phase == LINK_STREAM)
		net_watch(link->net, &link->watch, EPOLLIN);
}

/* ---- The stream ----------------------------------------------------------------------------- */

static void stream_lost(struct link *link)
{
	if (link->record.recording)
		record_end(link, false, true);
	iwarp_lost(link->stream);
}

static bool stream_input(struct link *link)
{
	struct span_list l;
	bool has_moved = false;

	for (int round = 0; round < ROUNDS_IN; round++) {
		size_t n;

		iwarp_want(link->stream, link->net->now_ns, &l);
		if (l.count == 0)
			return has_moved;
		switch (link_recv(link, &l, &n)) {
		case SOCKET_MOVED:
			iwarp_got(link->stream, link->net->now_ns, &l, n);
			has_moved = true;
			if (n < l.length)
				return true;
			break;
		case SOCKET_WAIT:
			return has_moved;
		case SOCKET_END:
			iwarp_eof(link->stream, link->net->now_ns);
			return true;
		case SOCKET_LOST:
			stream_lost(link);
			return true;
		}
	}
	return has_moved;
}

static bool stream_output(struct link *link)
{
	struct span_list l;
	bool has_moved = false;

	for (int round = 0; round < ROUNDS_OUT; round++) {
		size_t n;

		iwarp_have(link->stream, link->net->now_ns, &l);
		if (l.count == 0)
			return has_moved;
		switch (link_send(link, &l, &n)) {
		case SOCKET_MOVED:
			iwarp_sent(link->stream, link->net->now_ns, n);
			has_moved = true;
			if (n == l.length)
				break;
			link_block(link, true);
			return true;
		case SOCKET_WAIT:
			link_block(link, true);
			return has_moved;
		default:
			/* What has arrived may say why: a Terminate, before the peer's reset. */
			(void)stream_input(link);
			stream_lost(link);
			return true;
		}
	}
	iwarp_again(link->stream); /* the others first */
	return has_moved;
}

/* The peer has spoken for the first time: a responder is connected now. */
static void tell_connected(struct link *link)
{
	if (!link->is_connected_due)
		return;
	if (iwarp_is_ready(link->stream)) {
		link->is_connected_due = false;
		is_connected(link);
	} else if (!iwarp_is_open(link->stream)) {
		link->is_connected_due = false;
		raise_event(link, WEFT_EVENT_CONNECT_FAILED,
			    link->qp ? link->qp->reason : WEFT_R_CONNECT_CLOSED);
	}
}

static void stream_set_timer(struct link *link)
{
	uint64_t due_ns = iwarp_due(link->stream);

	if (link->is_connected_due && link->ready_ns < due_ns)
		due_ns = link->ready_ns;
	if (due_ns == UINT64_MAX) {
		timer_queue_cancel(&link->net->timers, &link->timer);
		return;
	}
	timer_queue_set(&link->net->timers, &link->timer, due_ns);
	progress_notice(link->net);
}

static bool stream_service(struct link *link)
{
	bool has_moved;
	uint32_t interest = EPOLLIN;

	if (iwarp_is_cramped(link->stream))
		desks_lend(link->net, link);
	has_moved = !link->is_sending_blocked && stream_output(link);
	tell_connected(link);
	switch (iwarp_action(link->stream)) {
	case IWARP_NOTHING:
		break;
	case IWARP_SHUT:
		socket_shut(link->watch.fd);
		if (link->record.recording)
			record_end(link, true, false);
		break;
	case IWARP_CLOSE:
		link_end(link, WEFT_OK, false);
		return true;
	case IWARP_ABORT:
		link_end(link, WEFT_OK, true);
		return true;
	}
	if (!iwarp_wants(link->stream))
		interest = 0;
	if (link->is_sending_blocked)
		interest |= EPOLLOUT;
	/* Not watched at all, a lost connection would go unseen. */
	net_watch(link->net, &link->watch, interest ? interest : (uint32_t)EPOLLERR);
	stream_set_timer(link);
	return has_moved;
}

/* ---- Both ----------------------------------------------------------------------------------- */

bool link_input(struct link *link)
{
	bool has_moved = false;

	if (link->phase == LINK_STREAM) {
		has_moved = stream_input(link);
		if (has_moved)
			net_is_hot(link->net, link);
		return has_moved;
	}
	while (link->phase == LINK_SETUP && setup_input(link)) {
		setup_service(link);
		has_moved = true;
	}
	return has_moved;
}

bool link_service(struct link *link)
{
	if (link->phase == LINK_STREAM)
		return stream_service(link);
	if (link->phase == LINK_SETUP)
		setup_service(link);
	return true;
}

/* TCP has decided: connected, or why not. */
static void connected(struct link *link)
{
	enum weft_reason r = socket_connected(link->watch.fd);

	if (r != WEFT_OK) {
		link_failed(link, r, true);
		return;
	}
	socket_addresses(link->watch.fd, &link->local, &link->remote);
	record_open(link, true);
	link->phase = LINK_SETUP;
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
		/* While the program decides nothing is read, and only the end of it all is seen. */
		if (mpa_setup_want(link->setup).length == 0 &&
		    (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
			mpa_setup_eof(link->setup);
		link_input(link);
		if (link->phase == LINK_SETUP)
			link_service(link);
		return;
	}
	if (events & EPOLLOUT)
		link_block(link, false);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		link_input(link);
	if (events & EPOLLERR)
		stream_lost(link);
	link_service(link);
}

void link_expire(struct link *link)
{
	uint64_t now_ns = link->net->now_ns;

	if (link->phase == LINK_STREAM) {
		if (link->is_connected_due && link->ready_ns <= now_ns)
			iwarp_refuse(link->stream, WEFT_R_CONNECT_TIMEOUT);
		iwarp_expire(link->stream, now_ns);
	} else {
		mpa_setup_expire(link->setup, now_ns);
		link->phase = LINK_SETUP;
	}
	link_service(link);
}
