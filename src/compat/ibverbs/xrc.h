/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC domains. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/weft.h>

#include "base/check.h"
#include "base/list.h"

struct xrcd {
	struct ibv_xrcd ibv;
	struct list link;
	uint32_t number; /* the same for all that were opened with the same file */
	bool has_file;
	dev_t device;
	ino_t inode;
	/* For its queue pairs that only receive. */
	struct weft_pd *weft_pd;
	struct weft_cq *weft_cq;
	atomic_uint users; /* queue pairs, shared receive queues */
};

static inline struct xrcd *xrcd_of(struct ibv_xrcd *x)
{
	return CONTAINER_OF(x, struct xrcd, ibv);
}

/* Functions in the table of a context. */
struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int close_xrcd(struct ibv_xrcd *xrcd);
