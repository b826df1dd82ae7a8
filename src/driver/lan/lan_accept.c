/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports at which a peer connects, one at a time. */
#include <errno.h>
#include <sys/epoll.h>

#include "driver/lan/lan_inside.h"
#include "driver/sys/calls.h"

static const uint64_t again_ns = 200 * 1000000;

bool lan_accept_open(struct lan_port *port, struct lan_listener *l)
{
	lan_watch(port, &l->listener, EPOLLIN);
	return lan_timer_open(port, &l->timer);
}

void lan_accept_close(struct lan_port *port, struct lan_listener *l)
{
	lan_watch_close(port, &l->listener);
	lan_watch_close(port, &l->timer);
}

void lan_accept_again(struct lan_port *port, struct lan_listener *l)
{
	uint64_t times;

	(void)call_read(l->timer.fd, &times, sizeof(times));
	lan_watch(port, &l->listener, EPOLLIN);
}

/*
 * Without descriptors for it a peer waits in the kernel's queue, where it makes the listener
 * readable all the time: so that is not looked at for a while.
 */
int lan_accept(struct lan_port *port, struct lan_listener *l, bool has_peer)
{
	int fd = call_accept(l->listener.fd);

	if (fd >= 0 && has_peer) {
		call_close(fd); /* it sees its connection end */
		return -1;
	}
	if (fd >= 0 || errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
		return fd;
	if (!has_peer)
		lan_link_is(port, false, lan_reason_of(errno));
	lan_watch(port, &l->listener, 0);
	lan_timer_set(&l->timer, again_ns);
	return -1;
}
