/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/srq.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/cq.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/translate.h"
#include "compat/ibverbs/xrc.h"

static void take_event(struct weftv_sink *sink, const struct weft_event *event)
{
	struct srq *srq = CONTAINER_OF(sink, struct srq, sink);

	if (event->kind == WEFT_EVENT_SRQ_LIMIT) {
		atomic_store(&srq->limit, 0); /* one event for each time it was armed */
		async_raise(context_of(srq->ibv.context), &srq->events[SRQ_LIMIT_REACHED]);
	}
}

static void srq_init(struct srq *srq, struct ibv_pd *pd, void *srq_context)
{
	srq->sink.take = take_event;
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = srq_context;
	srq->ibv.pd = pd;
	list_init(&srq->events[SRQ_LIMIT_REACHED].link);
	srq->events[SRQ_LIMIT_REACHED].event = (struct ibv_async_event){
		.element.srq = &srq->ibv,
		.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
	};
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
}

static void srq_free(struct srq *srq)
{
	pthread_mutex_destroy(&srq->ibv.mutex);
	pthread_cond_destroy(&srq->ibv.cond);
	pd_memory_give(srq->ibv.pd, PD_SRQ, &(struct pd_memory){ srq, srq->memory.is_programs });
}

/* Of XRC with a domain and a completion queue, or without both. */
static struct ibv_srq *srq_open(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
				struct xrcd *xrcd, struct cq *cq)
{
	struct weft_srq_options o = {
		.recv_max = attr->attr.max_wr,
		.sges_max = attr->attr.max_sge ? attr->attr.max_sge : 1,
		.xrc_domain = xrcd ? xrcd->number : 0,
		.xrc_cq = cq ? cq->weft : NULL,
	};
	struct pd_memory memory;
	struct srq *srq;
	enum weft_reason r;

	if (o.recv_max == 0)
		return refused(WEFT_R_BAD_ARGUMENT);
	if (!pd_memory_take(pd, sizeof(*srq), PD_SRQ, &memory))
		return refused(WEFT_R_NO_MEMORY);
	srq = memory.bytes;
	srq->memory = memory;
	srq_init(srq, pd, attr->srq_context);
	o.context = &srq->sink;
	r = weft_srq_create(pd_of(pd)->weft, &o, &srq->weft);
	if (r != WEFT_OK) {
		srq_free(srq);
		return refused(r);
	}
	srq->max = o.recv_max;
	srq->sges_max = o.sges_max;
	attr->attr.max_sge = o.sges_max;
	context_get(pd->context);
	pd_get(pd);
	srq->xrcd = xrcd;
	srq->cq = cq;
	if (xrcd) {
		atomic_fetch_add(&xrcd->users, 1);
		atomic_fetch_add(&cq->users, 1);
	}
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return srq_open(pd, attr, NULL, NULL);
}

static struct ibv_srq *create_xrc(struct ibv_srq_init_attr_ex *attr,
				  struct ibv_srq_init_attr *basic)
{
	const uint32_t both = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;

	if ((attr->comp_mask & both) != both || !attr->xrcd || !attr->cq)
		return refused(WEFT_R_BAD_ARGUMENT);
	return srq_open(attr->pd, basic, xrcd_of(attr->xrcd), cq_of(attr->cq));
}

int get_srq_num(struct ibv_srq *ibv, uint32_t *number)
{
	*number = weft_srq_number(srq_of(ibv)->weft);
	return srq_of(ibv)->xrcd ? 0 : EINVAL;
}

struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr basic = { .srq_context = attr->srq_context, .attr = attr->attr };
	enum ibv_srq_type type = attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type
									  : IBV_SRQT_BASIC;
	bool is_xrc = type == IBV_SRQT_XRC && is_ib(context);
	struct ibv_srq *srq;

	if ((type != IBV_SRQT_BASIC && !is_xrc) || (attr->comp_mask & IBV_SRQ_INIT_ATTR_TM) ||
	    (!is_xrc && (attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD))
		return refused(WEFT_R_BAD_ARGUMENT);
	srq = is_xrc ? create_xrc(attr, &basic) : ibv_create_srq(attr->pd, &basic);
	if (srq)
		attr->attr = basic.attr;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr, int mask)
{
	struct srq *srq = srq_of(ibv);
	enum weft_reason r;

	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP; /* and the capability says so */
	if (!(mask & IBV_SRQ_LIMIT))
		return mask ? EINVAL : 0;
	if (attr->srq_limit > srq->max)
		return EINVAL;
	/* Before it is armed: it may be reached, and be 0 again, before that call returns. */
	atomic_store(&srq->limit, attr->srq_limit);
	r = weft_srq_arm(srq->weft, attr->srq_limit);
	return weftv_errno(r);
}

int ibv_query_srq(struct ibv_srq *ibv, struct ibv_srq_attr *attr)
{
	const struct srq *srq = srq_of(ibv);

	*attr = (struct ibv_srq_attr){
		.max_wr = srq->max,
		.max_sge = srq->sges_max,
		.srq_limit = atomic_load(&srq->limit),
	};
	return 0;
}

/* A thread that took an event may post to the queue until it acknowledges: destroy it after. */
int ibv_destroy_srq(struct ibv_srq *ibv)
{
	struct srq *srq = srq_of(ibv);
	struct context *c = context_of(ibv->context);
	struct ibv_pd *pd = ibv->pd;
	enum weft_reason r;

	if (atomic_load(&srq->users) > 0)
		return EBUSY;
	async_settle(c, srq->events, SRQ_EVENTS);
	r = weft_srq_destroy(srq->weft);
	if (r != WEFT_OK)
		return weftv_errno(r);
	async_settle(c, srq->events, SRQ_EVENTS); /* of what happened meanwhile */
	context_put(ibv->context);
	if (srq->xrcd) {
		atomic_fetch_sub(&srq->xrcd->users, 1);
		atomic_fetch_sub(&srq->cq->users, 1);
	}
	srq_free(srq);
	pd_put(pd);
	return 0;
}
