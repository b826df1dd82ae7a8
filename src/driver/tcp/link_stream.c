/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

#include <sys/epoll.h>

#include "base/least.h"

enum {
	ROUNDS_IN = 32, /* of receiving, before it is another link's turn */
	ROUNDS_OUT = 4	/* of sending: 256 KiB each at most */
};

void link_stream_lost(struct link *link)
{
	if (link->record.recording)
		record_end(&link->record, false, true);
	iwarp_lost(link->stream);
}

bool link_stream_input(struct link *link)
{
	struct span_list l;
	bool has_moved = false;

	for (int round = 0; round < ROUNDS_IN; round++) {
		uint64_t asked = iwarp_counts(link->stream)->requests_in;
		size_t n;

		iwarp_want(link->stream, link->net->now_ns, &l);
		if (l.count == 0)
			return has_moved;
		switch (link_socket_recv(link, &l, &n)) {
		case SOCKET_MOVED:
			iwarp_got(link->stream, link->net->now_ns, &l, n);
			if (link->qp)
				link->qp->ends.peer_words = iwarp_peer_words(link->stream);
			link->net->asked += iwarp_counts(link->stream)->requests_in - asked;
			has_moved = true;
			if (n < l.length)
				return true;
			break;
		case SOCKET_WAIT:
			return has_moved;
		case SOCKET_END:
			iwarp_eof(link->stream, link->net->now_ns);
			return true;
		case SOCKET_MISSING:
			iwarp_sink_gone(link->stream);
			return true;
		case SOCKET_LOST:
			link_stream_lost(link);
			return true;
		}
	}
	return has_moved;
}

/* After it took less than it was given: whether it will tell of room. */
static bool link_is_full(const struct link *link)
{
	return !link_near_runs(link) || link_near_is_full(link);
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
		switch (link_socket_send(link, &l, &n)) {
		case SOCKET_MOVED:
			iwarp_sent(link->stream, link->net->now_ns, n);
			has_moved = true;
			if (n == l.length || !link_is_full(link))
				break;
			link_block(link, true);
			return true;
		case SOCKET_WAIT:
			link_block(link, true);
			return has_moved;
		case SOCKET_MISSING:
			iwarp_source_gone(link->stream);
			break; /* what says so goes out */
		default:
			/* Unread bytes may tell why: a Terminate before the peer's reset. */
			(void)link_stream_input(link);
			link_stream_lost(link);
			return true;
		}
	}
	iwarp_again(link->stream); /* the other streams first */
	return has_moved;
}

/* The first FPDU of the peer connects a responder; a timeout or loss fails it. */
static void await_rtr(struct link *link)
{
	if (iwarp_is_ready(link->stream)) {
		link_move(link, LINK_STREAM);
		link_connected(link);
	} else if (!iwarp_is_open(link->stream)) {
		link_move(link, LINK_STREAM);
		link_raise(link, WEFT_EVENT_CONNECT_FAILED,
			   link->qp ? link->qp->reason : WEFT_R_CONNECT_CLOSED);
	}
}

static void stream_set_timer(struct link *link)
{
	uint64_t due_ns = iwarp_due(link->stream);

	if (link->phase == LINK_AWAITING_RTR && link->ready_ns < due_ns)
		due_ns = link->ready_ns;
	due_ns = least(due_ns, link_near_due(link));
	if (due_ns == UINT64_MAX) {
		timer_queue_cancel(&link->tcp->timers, &link->timer);
		return;
	}
	timer_queue_set(&link->tcp->timers, &link->timer, due_ns);
	progress_notice(link->net);
}

bool link_stream_service(struct link *link)
{
	bool has_moved;
	uint32_t interest = EPOLLIN;

	if (iwarp_is_cramped(link->stream))
		buffers_lend(link->tcp, link);
	has_moved = !link->is_sending_blocked && stream_output(link);
	if (link->phase == LINK_AWAITING_RTR)
		await_rtr(link);
	switch (iwarp_action(link->stream)) {
	case IWARP_NOTHING:
		break;
	case IWARP_SHUT:
		if (link_near_runs(link))
			link_near_shut(link);
		else
			socket_shut(link->watch.fd);
		if (link->record.recording)
			record_end(&link->record, true, false);
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
	/* Without any event a lost connection would go unnoticed. */
	link_watch(link, interest ? interest : (uint32_t)EPOLLERR);
	link_settle(link);
	stream_set_timer(link);
	return has_moved;
}
