/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's netlink interface to RDMA devices (<rdma/rdma_netlink.h>, RDMA_NL_NLDEV), for weft's
 * devices: bytes of a request in, bytes of the answers out. It has no descriptor and no state.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "compat/ibverbs/link.h"

enum {
	/* Size of a datagram of answers: the kernel's limit, which readers provide for. */
	NLDEV_ANSWER = 3776,
	/* Of requests: far more than any needs. */
	NLDEV_REQUEST = 8192
};

struct nldev {
	const struct weftv_link *links;
	size_t count;
	uint32_t port; /* the requester's netlink port id */
	/* Called for each datagram of answers. 0, or -errno, after which it is not called again. */
	int (*put)(struct nldev *n, const void *datagram, size_t bytes);
};

/*
 * Answers a datagram of requests. 0, or what put() said.
 *
 * Serves requests for devices, ports and the mode of the system. Malformed attributes and unknown
 * devices get -EINVAL, other requests -EOPNOTSUPP. A message whose length is below that of its
 * header, or beyond the datagram, gets no answer, and nothing after it is read, as in Linux.
 */
int nldev_answer(struct nldev *n, const void *requests, size_t bytes);
