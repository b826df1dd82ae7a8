/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/check.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"

struct cq;
struct xrcd;

enum srq_events { SRQ_LIMIT_REACHED, SRQ_EVENTS };

struct srq {
	struct ibv_srq ibv;
	struct weftv_sink sink;
	struct weft_srq *weft;
	struct pd_memory memory; /* its own */
	atomic_uint users;	 /* queue pairs */
	struct xrcd *xrcd;	 /* of XRC, with cq; or NULL */
	struct cq *cq;
	uint32_t max, sges_max;
	_Atomic uint32_t limit;
	struct async_record events[SRQ_EVENTS];
	uint32_t events_taken;
};

static inline struct srq *srq_of(struct ibv_srq *s)
{
	return CONTAINER_OF(s, struct srq, ibv);
}

/* Functions in the table of a context. */
struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int get_srq_num(struct ibv_srq *srq, uint32_t *number);
