/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues and their channels. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/teller.h"

struct channel {
	struct ibv_comp_channel ibv;
	struct teller teller; /* queues struct cq */
};

struct cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex; /* begins with the same fields */
	};
	struct weftv_sink sink;
	struct weft_cq *weft;
	struct ibv_pd *parent_domain; /* or NULL */
	struct pd_memory memory;      /* its own */
	atomic_uint users;	      /* queue pairs */
	/* Guarded by the channel's lock. */
	struct list waiting_link;
	uint32_t events_waiting, events_taken;
	bool is_going; /* being destroyed: queues no more events */
	struct async_record overrun;
	uint32_t async_taken;		   /* guarded by ibv.mutex, as in the other objects */
	atomic_bool is_overrun_unreported; /* the next poll reports it */
	/* Owned by the thread that polls with the iterators, from start_poll to end_poll. */
	struct weft_completion current;
};

static inline struct cq *cq_of(struct ibv_cq *c)
{
	return CONTAINER_OF(c, struct cq, ibv);
}

/* NULL and errno. */
struct cq *cq_open(struct ibv_context *context, struct ibv_pd *parent_domain, int cqe,
		   void *cq_context, struct ibv_comp_channel *channel);

/* Flags and service level of a completion. */
unsigned int wc_flags_of(const struct weft_completion *c);
uint8_t wc_sl_of(const struct ibv_context *context, const struct weft_completion *c);
uint32_t wc_slid_of(const struct ibv_context *context, const struct weft_completion *c);

/* Functions in the table of a context. */
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int is_solicited_only);
