/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hot links had input lately. A poll reads their sockets directly, which most often finds bytes.
 * After a number of reads epoll no longer watches a hot link: the kernel's work for epoll with
 * every packet would delay the peer's bytes.
 */
#include "driver/tcp/link.h"

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

void hot_add(struct tcp *tcp, struct link *link)
{
	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		if (tcp->hot[i] == link)
			return;
	}
	if (tcp->hot_count == HOT_MAX) {
		struct link *oldest = tcp->hot[0];

		hot_remove(tcp, oldest);
		watch_again(oldest);
	}
	tcp->hot[tcp->hot_count++] = link;
	link->times_asked = 0;
}

static bool ask(struct link *link)
{
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
	for (uint32_t i = 0; i < tcp->hot_count; i++) {
		if (tcp->hot[i] == link)
			return ask(link);
	}
	return false;
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
		if (tcp->hot[i]->watch.interest == 0)
			sleep_set_add(set, c, &tcp->hot[i]->watch);
	}
}

bool hot_sleep_input(struct carrier *c, struct watch *w)
{
	return ask_if_hot(tcp_from(c), CONTAINER_OF(w, struct link, watch));
}

void hot_watch(struct carrier *c)
{
	struct tcp *tcp = tcp_from(c);

	for (uint32_t i = 0; i < tcp->hot_count; i++)
		watch_again(tcp->hot[i]);
}
