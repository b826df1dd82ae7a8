/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The links that had input lately. A poll asks their sockets directly: that is the question which
 * is most often answered with bytes. One that was asked for a while is not watched any more, for
 * the kernel does work for epoll with every packet, between the peer's bytes and us.
 */
#include "driver/link.h"
#include "driver/roce.h"

static void watch_again(struct link *link)
{
	link->times_asked = 0;
	link_watch(link, link->interest);
}

void hot_remove(struct net *net, struct link *link)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < net->hot_count; i++) {
		if (net->hot[i] != link)
			net->hot[kept++] = net->hot[i];
	}
	net->hot_count = kept;
}

void hot_add(struct net *net, struct link *link)
{
	for (uint32_t i = 0; i < net->hot_count; i++) {
		if (net->hot[i] == link)
			return;
	}
	if (net->hot_count == HOT_MAX) {
		struct link *oldest = net->hot[0];

		hot_remove(net, oldest);
		watch_again(oldest);
	}
	net->hot[net->hot_count++] = link;
	link->times_asked = 0;
}

static bool ask(struct net *net, struct link *link)
{
	if (net->is_standing_by && link->times_asked < HOT_ASKED && link_has_stream(link) &&
	    ++link->times_asked == HOT_ASKED)
		link_watch(link, link->interest);
	return link_input(link);
}

static bool is_roce_hot(const struct net *net)
{
	return net->roce && udp_is_hot(net->roce->udp);
}

static bool ask_roce(struct net *net)
{
	udp_stand_by(net->roce->udp, net->is_standing_by);
	return roce_input(net->roce, true);
}

bool hot_is_any(const struct net *net)
{
	return net->hot_count > 0 || is_roce_hot(net);
}

bool hot_ask_next(struct net *net)
{
	uint32_t turns = net->hot_count + (is_roce_hot(net) ? 1 : 0);
	uint32_t turn = net->hot_turn < turns ? net->hot_turn : 0;

	net->hot_turn = turn + 1;
	return turn < net->hot_count ? ask(net, net->hot[turn]) : ask_roce(net);
}

/* One that has gone meanwhile has left the list. */
static bool ask_if_hot(struct net *net, struct link *link)
{
	for (uint32_t i = 0; i < net->hot_count; i++) {
		if (net->hot[i] == link)
			return ask(net, link);
	}
	return false;
}

bool hot_ask_all(struct net *net)
{
	struct link *hot[HOT_MAX];
	uint32_t count = net->hot_count;
	bool has_moved = false;

	for (uint32_t i = 0; i < count; i++)
		hot[i] = net->hot[i];
	for (uint32_t i = 0; i < count; i++)
		has_moved |= ask_if_hot(net, hot[i]);
	if (is_roce_hot(net))
		has_moved |= ask_roce(net);
	return has_moved;
}

void hot_unwatched(struct net *net, struct hot_ones *ones)
{
	ones->count = 0;
	for (uint32_t i = 0; i < net->hot_count; i++) {
		struct link *link = net->hot[i];

		if (link->watch.interest != 0)
			continue;
		ones->links[ones->count] = link;
		ones->fds[ones->count++] = (struct pollfd){ .fd = link->watch.fd,
							    .events = POLLIN };
	}
}

bool hot_ask_ready(struct net *net, const struct hot_ones *ones)
{
	bool has_moved = false;

	for (uint32_t i = 0; i < ones->count; i++) {
		if (ones->fds[i].revents != 0)
			has_moved |= ask_if_hot(net, ones->links[i]);
	}
	return has_moved;
}

void hot_watch(struct net *net)
{
	for (uint32_t i = 0; i < net->hot_count; i++)
		watch_again(net->hot[i]);
	if (net->roce)
		udp_stand_by(net->roce->udp, false);
}
