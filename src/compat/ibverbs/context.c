/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weft/roce.h>

#include "compat/ibverbs/attributes.h"
#include "compat/ibverbs/cq.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/dm.h"
#include "compat/ibverbs/engine.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/post.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/qp_roce.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/srq.h"
#include "compat/ibverbs/teller.h"
#include "compat/ibverbs/translate.h"
#include "compat/ibverbs/xrc.h"

/* What the inline functions of verbs.h call: a slot that is NULL they refuse themselves. */
static void ops_init(struct context *c)
{
	struct verbs_context *v = &c->verbs;
	struct ibv_context_ops *ops = &v->context.ops;

	ops->alloc_mw = alloc_mw;
	ops->bind_mw = bind_mw;
	ops->dealloc_mw = dealloc_mw;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_srq_recv = post_srq_recv;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	v->sz = sizeof(*v);
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->create_cq_ex = create_cq_ex;
	v->create_qp_ex = create_qp_ex;
	v->create_srq_ex = create_srq_ex;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
	v->alloc_null_mr = alloc_null_mr;
	v->advise_mr = advise_mr;
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
}

/* What only a channel adapter has. */
static void roce_ops_init(struct verbs_context *v)
{
	v->modify_qp_rate_limit = modify_qp_rate_limit;
	v->open_xrcd = open_xrcd;
	v->close_xrcd = close_xrcd;
	v->get_srq_num = get_srq_num;
}

/* A port on the network for a channel adapter, which all contexts of the process share. */
static enum weft_reason port_open(const struct device *d, enum weft_policy policy)
{
	enum weft_reason r = engine_get(policy);

	if (r != WEFT_OK || d->kind == DEVICE_IWARP)
		return r;
	r = weft_roce_open(weftv_adapter());
	if (r != WEFT_OK)
		engine_put(weftv_adapter());
	return r;
}

/*
 * The program has an errno, and mostly tells its user less than that. Once for a reason: it may try
 * one device after the other.
 */
static void say_refused(const struct device *d, enum weft_reason r)
{
	static atomic_bool is_reported[WEFT_REASON_COUNT];
	const char *why = r == WEFT_R_BUSY
				  ? "the process has devices open without the strict policy"
				  : weft_reason_text(r);

	if (!atomic_exchange(&is_reported[r], true))
		say_anyway("%s cannot be opened: %s: %s", d->ibv.name, weft_reason_name(r), why);
}

/* Of contexts, counted. */
static _Atomic uint64_t numbers = 1;

static void context_free(struct context *c)
{
	teller_fini(&c->async);
	free(c);
}

/* Opens its port. 0 or errno. */
static int context_connect(struct context *c, struct device *device, enum weft_policy policy)
{
	enum weft_reason r = port_open(device, policy);
	int error;

	if (r != WEFT_OK) {
		say_refused(device, r);
		return weftv_errno(r);
	}
	c->adapter = weftv_adapter();
	list_init(&c->port_events.link);
	error = device->kind == DEVICE_FABRIC ? port_events_begin(c) : 0;
	if (error)
		engine_put(c->adapter);
	return error;
}

struct context *context_open(struct device *device, enum weft_policy policy)
{
	struct context *c = calloc(1, sizeof(*c));
	struct ibv_context *ibv;
	int error;

	if (!c) {
		errno = ENOMEM;
		return NULL;
	}
	error = teller_init(&c->async);
	if (error) {
		free(c);
		errno = error;
		return NULL;
	}
	error = context_connect(c, device, policy);
	if (error) {
		context_free(c);
		errno = error;
		return NULL;
	}
	ibv = &c->verbs.context;
	ibv->device = &device->ibv;
	/* Of the context's own, and of nothing else: it can only be copied, and imported. */
	ibv->cmd_fd = memfd_create(device->ibv.name, MFD_CLOEXEC);
	ibv->async_fd = c->async.bell.fd;
	ibv->num_comp_vectors = 1;
	ibv->abi_compat = (void *)UINTPTR_MAX; /* there is a struct verbs_context around it */
	pthread_mutex_init(&ibv->mutex, NULL);
	ops_init(c);
	if (device->kind != DEVICE_IWARP)
		roce_ops_init(&c->verbs);
	c->number = atomic_fetch_add(&numbers, 1);
	context_get(ibv);
	offer_make(&c->offer, OFFER_CONTEXT, ibv, 0);
	return c;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct context *c = context_open(device_of(device), WEFT_POLICY_OPEN);

	return c ? &c->verbs.context : NULL;
}

void context_get(struct ibv_context *context)
{
	atomic_fetch_add(&context_of(context)->users, 1);
}

void context_put(struct ibv_context *context)
{
	struct context *c = context_of(context);

	if (atomic_fetch_sub(&c->users, 1) > 1)
		return;
	offer_withdraw(&c->offer);
	port_events_end(c);
	if (context->cmd_fd >= 0)
		close(context->cmd_fd);
	pthread_mutex_destroy(&context->mutex);
	engine_put(c->adapter);
	context_free(c);
}

int ibv_close_device(struct ibv_context *context)
{
	/* A program may close what its id has: others have it, too. */
	if (!context_of(context)->is_shared)
		context_put(context);
	return 0;
}
