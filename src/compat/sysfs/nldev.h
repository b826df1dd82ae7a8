/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's interface to RDMA devices by netlink (<rdma/rdma_netlink.h>, RDMA_NL_NLDEV), told of
 * weft's devices: bytes of a request in, bytes of the answers out. It knows no descriptor and keeps
 * nothing.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compat/ibverbs/link.h"

enum {
	/* A datagram of answers: what the kernel puts in one, which readers have room for. */
	NLDEV_ANSWER = 3776,
	/* And of requests: far more than any has. */
	NLDEV_REQUEST = 8192
};

struct nldev {
	const struct weftv_link *links;
	size_t count;
	uint32_t port; /* the number that netlink knows the asker by */
	/* Gets the answers, a datagram each. 0 or -errno, after which nothing more is put. */
	int (*put)(struct nldev *n, const void *datagram, size_t bytes);
};

/*
 * Answers a datagram of requests. 0, or what put() said.
 *
 * Devices, ports and the mode of the system can be asked for. A request whose attributes are not
 * well-formed, or that is for a device that there is not, gets -EINVAL; one that is not served
 * -EOPNOTSUPP. A message whose length is below that of its header, or beyond the datagram, gets no
 * answer, and nothing behind it is read: so does Linux.
 */
int nldev_answer(struct nldev *n, const void *requests, size_t bytes);
