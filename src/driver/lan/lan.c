/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/lan/lan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "driver/lan/lan_inside.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/system_reason.h"

enum { TURN_EVERY = 16 };

static const struct lan_calls *const kinds[LAN_KINDS] = {
	[LAN_KIND_PACKET] = &lan_packet_calls,
	[LAN_KIND_SOCKET] = &lan_socket_calls,
	[LAN_KIND_TAP] = &lan_tap_calls,
	[LAN_KIND_VHOST_USER] = &lan_vhost_calls,
};

enum weft_reason lan_reason_of(int error)
{
	switch (error) {
	case EPERM:
	case EACCES:
		return WEFT_R_LAN_RIGHTS;
	case EBUSY:
	case EADDRINUSE:
		return WEFT_R_LAN_TAKEN;
	case ENOENT:
	case ENXIO:
	case ENODEV:
		return WEFT_R_LAN_NONE;
	case EMFILE:
	case ENFILE:
		return WEFT_R_DESCRIPTORS;
	default:
		return system_reason(error);
	}
}

enum weft_reason lan_failed(char *why, const char *what, int error)
{
	snprintf(why, LAN_WHY, "%s: %s", what, strerror(error));
	return lan_reason_of(error);
}

void lan_watch(struct lan_port *port, struct lan_watch *w, uint32_t interest)
{
	struct epoll_event e = { .events = interest, .data.ptr = w };
	int what = w->interest == 0 ? EPOLL_CTL_ADD
				    : (interest == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD);

	if (interest == w->interest)
		return;
	CHECK(epoll_ctl(port->epoll, what, w->fd, &e) == 0);
	w->interest = interest;
}

bool lan_watch_begin(struct lan_port *port, struct lan_watch *w, int fd, uint32_t interest)
{
	struct epoll_event e = { .events = interest, .data.ptr = w };

	if (epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		return false;
	w->fd = fd;
	w->interest = interest;
	return true;
}

void lan_watch_close(struct lan_port *port, struct lan_watch *w)
{
	if (w->fd < 0)
		return;
	lan_watch(port, w, 0);
	call_close(w->fd);
	w->fd = -1;
}

bool lan_timer_open(struct lan_port *port, struct lan_watch *timer)
{
	timer->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (timer->fd < 0)
		return false;
	lan_watch(port, timer, EPOLLIN);
	return true;
}

void lan_timer_set(struct lan_watch *timer, uint64_t in_ns)
{
	const struct itimerspec at = { .it_value = to_timespec(in_ns) };

	(void)timerfd_settime(timer->fd, 0, &at, NULL);
}

void lan_link_is(struct lan_port *port, bool is_up, enum weft_reason why)
{
	if (port->is.is_up != is_up || (!is_up && port->is.why != why))
		port->news |= LAN_NEWS_LINK;
	port->is.is_up = is_up;
	port->is.why = is_up ? WEFT_OK : why;
}

void lan_mac_is(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES])
{
	if (port->is.has_mac && memcmp(port->is.mac, mac, LAN_MAC_BYTES) == 0)
		return;
	port->news |= LAN_NEWS_MAC;
	port->is.has_mac = true;
	memcpy(port->is.mac, mac, LAN_MAC_BYTES);
}

void lan_mtu_is(struct lan_port *port, uint32_t mtu)
{
	if (port->is.mtu == mtu)
		return;
	port->news |= LAN_NEWS_MTU;
	port->is.mtu = mtu;
}

void lan_filters_are(struct lan_port *port, const struct lan_filters *filters)
{
	if (memcmp(&port->is.filters, filters, sizeof(*filters)) == 0)
		return;
	port->news |= LAN_NEWS_FILTERS;
	port->is.filters = *filters;
}

static enum weft_reason open_port(const struct lan_plan *plan, struct lan_port *port, char *why)
{
	enum weft_reason r;

	port->calls = kinds[plan->kind];
	port->is.why = WEFT_R_LAN_DOWN;
	port->is.mtu = plan->mtu;
	/* Interfaces say which groups they want. The peer of a socket and a guest do not. */
	port->is.filters.is_all_multicast = plan->kind == LAN_KIND_SOCKET ||
					    plan->kind == LAN_KIND_VHOST_USER;
	port->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (port->epoll < 0)
		return lan_failed(why, "a descriptor to poll", errno);
	r = port->calls->open(port, plan, why);
	if (r != WEFT_OK) {
		call_close(port->epoll);
		return r;
	}
	if (plan->mtu)
		r = lan_set_mtu(port, plan->mtu);
	if (r == WEFT_OK && plan->has_mac)
		r = lan_set_mac(port, plan->mac);
	if (r == WEFT_OK)
		return WEFT_OK;
	snprintf(why, LAN_WHY, "MAC address or MTU: %s", weft_reason_text(r));
	port->calls->close(port);
	call_close(port->epoll);
	return r;
}

enum weft_reason lan_open(const char *text, struct lan_port **opened, char why[LAN_WHY])
{
	struct lan_port *port;
	struct lan_plan plan;
	const char *complaint;
	enum weft_reason r;

	if (!lan_plan_parse(text, &plan, &complaint)) {
		snprintf(why, LAN_WHY, "%s", complaint);
		return WEFT_R_LAN_TEXT;
	}
	snprintf(why, LAN_WHY, "no memory");
	port = calloc(1, kinds[plan.kind]->bytes);
	if (!port)
		return WEFT_R_NO_MEMORY;
	r = open_port(&plan, port, why);
	if (r != WEFT_OK) {
		free(port);
		return r;
	}
	*opened = port;
	return WEFT_OK;
}

void lan_close(struct lan_port *port)
{
	port->calls->close(port);
	call_close(port->epoll);
	free(port->cutting);
	free(port);
}

int lan_descriptor(const struct lan_port *port)
{
	return port->epoll;
}

/* What the port's own descriptors have to say. */
static void turn(struct lan_port *port)
{
	enum { EVENTS = 16 };
	struct epoll_event events[EVENTS];
	int count = call_epoll_wait(port->epoll, events, EVENTS, 0);

	for (int i = 0; i < count; i++) {
		struct lan_watch *w = events[i].data.ptr;

		/* One of those before it may have closed it. */
		if (w->fd >= 0)
			w->ready(port, events[i].events);
	}
}

/* Takes out what is no good; the buffers of the others stay in order. Returns how many are good. */
static uint32_t keep_good(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	uint32_t good = 0;

	for (uint32_t i = 0; i < count; i++) {
		enum weft_reason r = lan_frame_check(&frames[i]);
		struct lan_frame f = frames[i];

		if (r != WEFT_OK) {
			lan_drop(&port->counts.in, r);
			continue;
		}
		port->counts.in.frames++;
		port->counts.in.bytes += f.length;
		frames[i] = frames[good]; /* no buffer is there twice */
		frames[good++] = f;
	}
	return good;
}

uint32_t lan_receive(struct lan_port *port, struct lan_frame *frames, uint32_t count)
{
	/* Where frames are known to wait, a look at the descriptors would tell no more. */
	if (!port->has_input || count == 0 || ++port->receives % TURN_EVERY == 0)
		turn(port);
	(void)lan_send_cut(port);
	if (!port->has_input || count == 0)
		return 0;
	if (count > LAN_BATCH_MAX)
		count = LAN_BATCH_MAX;
	return keep_good(port, frames, port->calls->receive(port, frames, count));
}

bool lan_has_more(const struct lan_port *port)
{
	return port->has_input;
}

void lan_expect(struct lan_port *port)
{
	port->has_input |= port->calls->is_level && port->is.is_up;
}

uint32_t lan_news(struct lan_port *port)
{
	uint32_t news = port->news;

	port->news = 0;
	return news;
}

const struct lan_properties *lan_properties(const struct lan_port *port)
{
	return &port->is;
}

const struct lan_counts *lan_counts(struct lan_port *port)
{
	if (port->calls->count)
		port->calls->count(port);
	return &port->counts;
}

enum weft_reason lan_set_mac(struct lan_port *port, const uint8_t mac[LAN_MAC_BYTES])
{
	return port->calls->set_mac ? port->calls->set_mac(port, mac) : WEFT_R_LAN_UNSUPPORTED;
}

enum weft_reason lan_set_mtu(struct lan_port *port, uint32_t mtu)
{
	if (mtu < LAN_MTU_MIN || mtu > LAN_MTU_MAX)
		return WEFT_R_LAN_LONG;
	return port->calls->set_mtu(port, mtu);
}

enum weft_reason lan_set_link(struct lan_port *port, bool is_up)
{
	return port->calls->set_link ? port->calls->set_link(port, is_up) : WEFT_R_LAN_UNSUPPORTED;
}

enum weft_reason lan_set_filters(struct lan_port *port, const struct lan_filters *filters)
{
	return port->calls->set_filters ? port->calls->set_filters(port, filters)
					: WEFT_R_LAN_UNSUPPORTED;
}
