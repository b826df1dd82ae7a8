/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { DEPTH_DEFAULT = 16, DEPTH_MAX = MPA_DEPTH_MAX };

/* Between two tries to connect, while no listener answers yet. */
static const uint64_t redial_ns = 5 * 1000 * 1000;

/* ---- Terms ---------------------------------------------------------------------------------- */

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

static enum weft_reason config_of(const struct tcp *tcp, const struct weft_connect_options *o,
				  const struct weft_qp *qp, struct mpa_config *c)
{
	enum weft_reason r;

	*c = (struct mpa_config){
		.wants_crc = !o->is_crc_off && !tcp->is_crc_off,
		.wants_markers = o->wants_markers,
		.revision = o->mpa_revision ? o->mpa_revision : 2,
		.timeout_ns = setup_timeout_ns(o->timeout_ns),
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

/* Keeps what the peer sent, beyond the set-up. */
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

/* ---- Beginnings ----------------------------------------------------------------------------- */

bool link_refused(struct link *link)
{
	struct net *net = link->net;

	if (net_look_at_clock(net) >= link->redial_until_ns)
		return false;
	if (link->phase == LINK_CONNECTING)
		link_move(link, LINK_REFUSED);
	net_watch(net, &link->watch, 0);
	if (link->watch.fd >= 0)
		socket_close(link->watch.fd, false);
	link->watch.fd = -1;
	timer_queue_set(&link->tcp->timers, &link->timer, net->now_ns + redial_ns);
	progress_notice(net);
	return true;
}

uint64_t link_dial_due(const struct link *link)
{
	return link->setup ? mpa_setup_due(link->setup) : link->dial_due_ns;
}

enum weft_reason link_connect(struct link *link)
{
	struct net *net = link->net;
	enum weft_reason r = socket_connect(&link->remote, link->from.family ? &link->from : NULL,
					    &link->watch.fd);

	if (r == WEFT_R_CONNECT_REFUSED && link_refused(link))
		return WEFT_OK;
	if (r != WEFT_OK)
		return r;
	if (link->phase == LINK_REFUSED)
		link_move(link, LINK_CONNECTING);
	timer_queue_set(&link->tcp->timers, &link->timer, link_dial_due(link));
	net_watch(net, &link->watch, EPOLLOUT);
	progress_notice(net);
	return WEFT_OK;
}

/* What comes before the stream: MPA, or (ISCSI) nothing. */
static enum weft_reason prepare(struct link *link, const struct weft_qp *qp,
				const struct weft_connect_options *o)
{
	struct mpa_config config;
	enum weft_reason r;

	if (!link->core->has_setup) {
		link->dial_due_ns = deadline_after(link->net->now_ns,
						   setup_timeout_ns(o->timeout_ns));
		return WEFT_OK;
	}
	r = config_of(link->tcp, o, qp, &config);
	if (r != WEFT_OK)
		return r;
	link->wants_near = o->near;
	return mpa_setup_init_initiator(link->setup, &config, private_of(o), link->net->now_ns);
}

enum weft_reason link_dial(struct tcp *tcp, struct weft_qp *qp, const struct weft_address *to,
			   const struct weft_connect_options *options)
{
	const struct stream_core *core = qp->service == WEFT_ISCSI ? &stream_iscsi : &stream_iwarp;
	struct trace_event e = { .who = qp->number, .kind = TRACE_DIALLED };
	enum weft_reason r = link_check_qp(qp);
	struct link *link;

	if (r == WEFT_OK && to->family != 4 && to->family != 6)
		r = WEFT_R_ADDRESS;
	if (r != WEFT_OK)
		return r;
	link = link_create(tcp, -1, LINK_CONNECTING, core);
	if (!link)
		return WEFT_R_NO_MEMORY;
	link->remote = *to;
	link->qp_number = qp->number;
	link->alive_ns = options->alive_ns;
	if (options->from)
		link->from = *options->from;
	link->redial_until_ns = deadline_after(net_look_at_clock(tcp->net),
					       options->refused_wait_ns);
	r = prepare(link, qp, options);
	if (r == WEFT_OK) {
		observe_address(&tcp->net->adapter->observed, to, e);
		r = link_connect(link);
	}
	if (r != WEFT_OK) {
		link_end(link, r, true);
		return r;
	}
	link_own(link, qp);
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
	struct link *link = link_create(listener->tcp, fd, LINK_SETUP, &stream_iwarp);

	if (!link) {
		socket_close(fd, true);
		return WEFT_R_NO_MEMORY;
	}
	socket_addresses(fd, &link->local, &link->remote);
	listener_has_link(listener, link);
	link_record(link, false);
	link_trace(link, TRACE_ARRIVED, WEFT_OK);
	mpa_setup_init_responder(link->setup, &config, net_look_at_clock(net));
	timer_queue_set(&link->tcp->timers, &link->timer, mpa_setup_due(link->setup));
	net_watch(net, &link->watch, EPOLLIN | EPOLLRDHUP);
	link_input(link);
	return WEFT_OK;
}

/* The program's request handle ends. */
static void request_answered(struct link *link)
{
	link->tcp->requests_taken -= link->request.is_taken;
	link->request.is_taken = false;
}

enum weft_reason link_accept(struct link *link, struct weft_qp *qp,
			     const struct weft_connect_options *options)
{
	struct mpa_config config;
	struct mpa_answer answer = { .private_data = private_of(options) };
	enum weft_reason r = qp->service == WEFT_RC ? link_check_qp(qp) : WEFT_R_WR_SERVICE;

	if (r == WEFT_OK)
		r = config_of(link->tcp, options, qp, &config);
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
	link->first_wait_ns = options->first_wait_ns;
	link->alive_ns = options->alive_ns;
	link->wants_near = options->near;
	if (options->alive_ns > 0)
		socket_watch_peer(link->watch.fd, options->alive_ns);
	link_near_take(link);
	mpa_setup_wish(link->setup, config.wants_crc, config.wants_markers);
	r = mpa_setup_accept(link->setup, &answer, net_look_at_clock(link->net));
	if (r != WEFT_OK)
		return r;
	request_answered(link);
	if (link->listener)
		listener_release(link);
	link_own(link, qp);
	link_trace(link, TRACE_ACCEPTED, WEFT_OK);
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
	link_trace(link, TRACE_REJECTED, WEFT_OK);
	request_answered(link);
	if (link->listener)
		listener_release(link);
	link_service(link);
	return WEFT_OK;
}

/* ---- Set-up --------------------------------------------------------------------------------- */

/* Both ends agree: the stream begins. */
static void begin_stream(struct link *link)
{
	enum weft_reason r = link_near_begin(link);
	enum weft_reason failure = mpa_setup_must_terminate(link->setup)
					   ? mpa_setup_reason(link->setup)
					   : WEFT_OK;

	link->terms = *mpa_setup_terms(link->setup);
	if (r == WEFT_OK)
		r = link->core->begin(link);
	if (r != WEFT_OK) { /* the queue pair was moved meanwhile, or memory is short */
		link_failed(link, r, true);
		return;
	}
	free(link->setup);
	link->setup = NULL;
	link_trace_terms(link);
	timer_queue_cancel(&link->tcp->timers, &link->timer);
	if (failure == WEFT_OK && link->terms.rtr != IWARP_RTR_NONE && !link->terms.is_initiator) {
		link->ready_ns = deadline_after(link->net->now_ns, link->ready_wait_ns);
		link_move(link, LINK_AWAITING_RTR);
		return;
	}
	link_move(link, LINK_STREAM);
	if (failure == WEFT_OK) {
		link_connected(link);
	} else {
		link_raise(link, WEFT_EVENT_CONNECT_FAILED, failure);
		iwarp_refuse(link->stream, failure);
	}
}

void link_begin_plain(struct link *link)
{
	enum weft_reason r = link->core->begin(link);

	if (r != WEFT_OK) { /* as above */
		link_failed(link, r, true);
		return;
	}
	timer_queue_cancel(&link->tcp->timers, &link->timer);
	link_move(link, LINK_STREAM);
	link_connected(link);
	link_service(link);
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
			if (link->qp) /* the peer rejected; without a queue pair we did */
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

bool link_setup_input(struct link *link)
{
	struct span want = mpa_setup_want(link->setup);
	struct span_list l = { .spans = { want }, .count = 1, .length = want.length };
	size_t n;

	if (want.length == 0)
		return false;
	switch (link_socket_recv(link, &l, &n)) {
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

		/* Sending only reads: the cast is safe. */
		l.spans[0] = (struct span){ (uint8_t *)(uintptr_t)have.bytes, have.length };
		switch (link_socket_send(link, &l, &n)) {
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

void link_setup_service(struct link *link)
{
	setup_output(link);
	setup_events(link);
	if (link->phase == LINK_SETUP)
		timer_queue_set(&link->tcp->timers, &link->timer, mpa_setup_due(link->setup));
	else if (link_has_stream(link))
		net_watch(link->net, &link->watch, EPOLLIN);
}
