/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

#include <sys/epoll.h>

#include "base/least.h"

enum { ROUNDS_OUT = 4 /* of sending: 256 KiB each at most */ };

void link_stream_lost(struct link *link)
{
	if (link->record.recording)
		record_end(&link->record, false, true);
	link->core->lost(link);
}

bool link_stream_input(struct link *link)
{
	struct span_list l;
	bool has_moved = false;

	for (int round = 0; round < link->core->rounds_in; round++) {
		size_t n;

		link->core->want(link, &l);
		if (l.count == 0)
			return has_moved;
		switch (link_socket_recv(link, &l, &n)) {
		case SOCKET_MOVED:
			link->core->got(link, &l, n);
			has_moved = true;
			if (n < l.length)
				return true;
			break;
		case SOCKET_WAIT:
			return has_moved;
		case SOCKET_END:
			link->core->eof(link);
			return true;
		case SOCKET_MISSING:
			link->core->sink_gone(link);
			return true;
		case SOCKET_LOST:
		case SOCKET_SILENT:
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

		link->core->have(link, &l);
		if (l.count == 0)
			return has_moved;
		switch (link_socket_send(link, &l, &n)) {
		case SOCKET_MOVED:
			link->core->sent(link, n);
			has_moved = true;
			if (n == l.length || !link_is_full(link))
				break;
			link_block(link, true);
			return true;
		case SOCKET_WAIT:
			link_block(link, true);
			return has_moved;
		case SOCKET_MISSING:
			link->core->source_gone(link);
			break; /* what says so goes out */
		case SOCKET_SILENT:
			link_stream_lost(link);
			return true;
		default:
			/* Unread bytes may tell why: a Terminate before the peer's reset. */
			(void)link_stream_input(link);
			link_stream_lost(link);
			return true;
		}
	}
	link->core->again(link); /* the other streams first */
	return has_moved;
}

static void stream_set_timer(struct link *link)
{
	uint64_t due_ns = least(link->core->due(link), link_near_due(link));

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

	link->core->prepare(link);
	has_moved = !link->is_sending_blocked && stream_output(link);
	switch (link->core->action(link)) {
	case STREAM_NOTHING:
		break;
	case STREAM_SHUT:
		if (link_near_runs(link))
			link_near_shut(link);
		else
			socket_shut(link->watch.fd);
		if (link->record.recording)
			record_end(&link->record, true, false);
		break;
	case STREAM_CLOSE:
		link_end(link, WEFT_OK, false);
		return true;
	case STREAM_ABORT:
		link_end(link, WEFT_OK, true);
		return true;
	}
	if (!link->core->wants(link))
		interest = 0;
	if (link->is_sending_blocked)
		interest |= EPOLLOUT;
	/* Without any event a lost connection would go unnoticed. */
	link_watch(link, interest ? interest : (uint32_t)EPOLLERR);
	link_settle(link);
	stream_set_timer(link);
	return has_moved;
}
