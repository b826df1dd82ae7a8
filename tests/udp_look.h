/* SPDX-License-Identifier: BSD-2-Clause */
/* What only tests want to know of RoCE's sockets. */
#pragma once

#include <poll.h>

#include "driver/udp/udp_inside.h"

static inline bool udp_has_ipv6(const struct udp *u)
{
	return u->shared[1].watch.fd >= 0;
}

/* Those of which epoll does not tell. Returns how many, at most max. */
static inline uint32_t udp_unwatched(const struct udp *u, struct pollfd *fds, uint32_t max)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < u->hot_count && count < max; i++) {
		if (u->hot[i]->watch.interest == 0)
			fds[count++] = (struct pollfd){ .fd = u->hot[i]->watch.fd,
							.events = POLLIN };
	}
	return count;
}
