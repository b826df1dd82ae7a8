/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hot links had input lately. A poll reads their sockets directly, which most often finds bytes.
 * After a number of reads epoll no longer watches a hot link: the kernel's work for epoll with
 * every packet would delay the peer's bytes.
 *
 * A link by shared memory (link_near.h) is marked as resting unless it is hot and no thread sleeps:
 * its peer rouses us for bytes that no poll would find. See link_settle().
 */
#include "driver/tcp/link.h"
#include "driver/tcp/link_near.h"

static void watch_again(struct link *link)
{
	link->times_asked = 0;
	link_watch(link, link->interest);
}

void hot_remove(struct tcp *tcp, struct link *link)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		if (tcp->hot[i] != link)
			tcp->hot[kept++] = tcp->hot[i];
	}
	tcp->hot_count = kept;
}

bool hot_has(const struct tcp *tcp, const struct link *link)
{
	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		if (tcp->hot[i] == link)
			return true;
	}
	return false;
}

void hot_add(struct tcp *tcp, struct link *link)
{
	if (hot_has(tcp, link))
		return;
	if (tcp->hot_count == HOT_MAX) {
		struct link *oldest = tcp->hot[0];

		hot_remove(tcp, oldest);
		watch_again(oldest);
		link_settle(oldest);
	}
	tcp->hot[tcp->hot_count++] = link;
	link->times_asked = 0;
}

/* Shared memory tells of bytes and room; of the peer's end its socket alone does. */
static bool ask_near(struct link *link)
{
	enum { LOOKS_EMPTY = 64 };

	if (link->is_sending_blocked && link_near_has_room(link)) {
		link_block(link, false);
		(void)link_service(link);
		if (!link_near_runs(link))
			return true; /* it has ended */
	}
	return !link_near_has_input(link) && ++link->looks_empty % LOOKS_EMPTY == 0 &&
	       link_hear(link);
}

static bool ask(struct link *link)
{
	if (link_near_runs(link) && ask_near(link))
		return true;
	if (progress_is_aside(link->net) && link->times_asked < HOT_ASKED &&
	    link_has_stream(link) && ++link->times_asked == HOT_ASKED)
		link_watch(link, link->interest);
	return link_input(link);
}

uint32_t hot_turns(const struct carrier *c)
{
	return tcp_from(c)->hot_count;
}

bool hot_input(struct carrier *c, uint32_t turn)
{
	return ask(tcp_from(c)->hot[turn]);
}

/* A link that has ended meanwhile is not in the list any more. */
static bool ask_if_hot(struct tcp *tcp, struct link *link)
{
	return hot_has(tcp, link) && ask(link);
}

bool hot_input_all(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);
	struct link *hot[HOT_MAX];
	uint32_t count = tcp->hot_count;
	bool has_moved = false;

	for (uint32_t i = 0; i < count; i++)
		hot[i] = tcp->hot[i];
	for (uint32_t i = 0; i < count; i++)
		has_moved |= ask_if_hot(tcp, hot[i]);
	return has_moved;
}

void hot_sleep_begin(struct carrier *c, struct sleep_set *set)
{
	struct tcp *tcp = tcp_from(c);

	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		if (tcp->hot[i]->watch.interest == 0 && !link_near_is_closed(tcp->hot[i]))
			sleep_set_add(set, c, &tcp->hot[i]->watch);
	}
}

bool hot_sleep_input(struct carrier *c, struct watch *w)
{
	struct tcp *tcp = tcp_from(c);
	struct link *link = CONTAINER_OF(w, struct link, watch);

	/* Left to epoll, if others have become hot: a message not taken is reported again. */
	if (!hot_has(tcp, link))
		return false;
	return link_near_runs(link) ? link_hear(link) : ask(link);
}

bool hot_rest(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);

	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		link_near_mark(tcp->hot[i], true);
		link_note_unread(tcp->hot[i]);
	}
	return list_is_empty(&tcp->unread);
}

enum carrier_memory hot_memory(const struct carrier *c)
{
	const struct tcp *tcp = tcp_from(c);
	const struct link *only = tcp->hot[0];

	if (tcp->hot_count == 0)
		return CARRIER_COLD;
	if (tcp->hot_count > 1 || !link_near_runs(only) || only->is_sending_blocked)
		return CARRIER_UNKNOWN;
	return link_near_has_input(only) ? CARRIER_INPUT : CARRIER_EMPTY;
}

void hot_watch(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);

	for (uint32_t i = 0; i < tcp->hot_count; i++)
		watch_again(tcp->hot[i]);
}
