/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/qp.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/async.h"
#include "compat/ibverbs/builders.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/cq.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/group.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/qp_roce.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/srq.h"
#include "compat/ibverbs/translate.h"
#include "compat/ibverbs/xrc.h"

/* ---- Events --------------------------------------------------------------------------------- */

/* The stream ended as streams do: nothing went wrong that a program should be alarmed about. */
static bool is_ordinary_end(enum weft_reason reason)
{
	return reason == WEFT_R_PEER_GONE || reason == WEFT_R_FLUSHED || reason == WEFT_OK ||
	       reason == WEFT_R_STREAM_LOST;
}

/* IBA 11.6.3.2: which events there are. What a completion tells is no event, too. */
static void take_roce_error(struct qp *qp, enum weft_reason reason)
{
	struct context *c = context_of(qp->ibv.context);

	switch (reason) {
	case WEFT_R_IB_OPCODE:
	case WEFT_R_IB_LENGTH:
	case WEFT_R_IB_ORDER:
	case WEFT_R_READS_BEYOND:
	case WEFT_R_ATOMIC_ALIGN:
		async_raise(c, &qp->events[QP_REQUEST]);
		break;
	case WEFT_R_CQ_OVERRUN:
	case WEFT_R_NO_MEMORY:
	case WEFT_R_SYSTEM:
	case WEFT_R_FAULT_INJECTED:
		async_raise(c, &qp->events[QP_FATAL]);
		break;
	default:
		break;
	}
}

static void take_error(struct qp *qp, enum weft_reason reason)
{
	struct context *c = context_of(qp->ibv.context);

	if (is_ib(qp->ibv.context))
		take_roce_error(qp, reason);
	else if (!is_ordinary_end(reason))
		async_raise(c, &qp->events[QP_FATAL]);
	if (qp->ibv.srq)
		async_raise(c, &qp->events[QP_LAST_WQE]);
}

/* SQE: the completion tells of it. The connection and the receive queue go on. */
static void take_stopped(struct qp *qp, enum weft_reason reason)
{
	if (is_ib(qp->ibv.context))
		take_roce_error(qp, reason);
}

static void take_drained(struct qp *qp)
{
	atomic_store(&qp->is_drained, true);
	if (!is_ib(qp->ibv.context) || atomic_load(&qp->wants_drained))
		async_raise(context_of(qp->ibv.context), &qp->events[QP_DRAINED]);
}

static void take_event(struct weftv_sink *sink, const struct weft_event *event)
{
	struct qp *qp = CONTAINER_OF(sink, struct qp, sink);
	struct context *c = context_of(qp->ibv.context);
	struct weftv_sink *connection = atomic_load(&qp->connection_sink);

	switch (event->kind) {
	case WEFT_EVENT_QP_ERROR:
		if (event->state == WEFT_QPS_SQE) {
			take_stopped(qp, event->reason);
			return;
		}
		take_error(qp, event->reason);
		break;
	case WEFT_EVENT_QP_REFUSED:
		async_raise(c, &qp->events[QP_ACCESS]);
		break;
	case WEFT_EVENT_QP_DRAINED:
		take_drained(qp);
		break;
	case WEFT_EVENT_ESTABLISHED:
		async_raise(c, &qp->events[QP_ESTABLISHED]);
		break;
	case WEFT_EVENT_PATH_MIGRATED:
		async_raise(c, &qp->events[QP_MIGRATED]);
		break;
	case WEFT_EVENT_PATH_REFUSED:
		async_raise(c, &qp->events[QP_MIGRATION_REFUSED]);
		break;
	default:
		break;
	}
	if (connection)
		connection->take(connection, event);
}

struct weft_qp *weftv_qp(struct ibv_qp *qp)
{
	return qp_of(qp)->weft;
}

void weftv_qp_set_sink(struct ibv_qp *qp, struct weftv_sink *sink)
{
	atomic_store(&qp_of(qp)->connection_sink, sink);
}

/* ---- All of them ---------------------------------------------------------------------------- */

/* The lock is taken before the engine's: a queue pair found under it stays while it is held. */
static struct {
	pthread_mutex_t lock;
	struct list qps;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

void qps_lock(void)
{
	pthread_mutex_lock(&all.lock);
}

void qps_unlock(void)
{
	pthread_mutex_unlock(&all.lock);
}

void qps_forked(void)
{
	while (all.qps.next && !list_is_empty(&all.qps))
		(void)list_pop(&all.qps);
}

static void enlist(struct qp *qp)
{
	qps_lock();
	if (!all.qps.next)
		list_init(&all.qps);
	list_add_tail(&all.qps, &qp->link);
	qps_unlock();
}

static void delist(struct qp *qp)
{
	qps_lock();
	list_remove(&qp->link);
	qps_unlock();
}

/* Locked. */
static struct ibv_qp *find(const struct ibv_context *context, uint32_t number)
{
	for (struct list *at = all.qps.next; at && at != &all.qps; at = at->next) {
		struct qp *qp = CONTAINER_OF(at, struct qp, link);

		if ((!context || qp->ibv.context == context) && qp->ibv.qp_num == number)
			return &qp->ibv;
	}
	return NULL;
}

struct ibv_qp *weftv_qp_find(struct ibv_context *context, uint32_t number)
{
	struct ibv_qp *found;

	qps_lock();
	found = find(context, number);
	qps_unlock();
	return found;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static bool is_xrc(enum ibv_qp_type type)
{
	return type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

static uint32_t at_least_one(uint32_t n)
{
	return n ? n : 1;
}

static void init_public(struct qp *qp, struct ibv_context *context,
			const struct ibv_qp_init_attr_ex *attr)
{
	static const enum ibv_event_type types[QP_EVENTS] = {
		[QP_FATAL] = IBV_EVENT_QP_FATAL,
		[QP_ACCESS] = IBV_EVENT_QP_ACCESS_ERR,
		[QP_REQUEST] = IBV_EVENT_QP_REQ_ERR,
		[QP_ESTABLISHED] = IBV_EVENT_COMM_EST,
		[QP_DRAINED] = IBV_EVENT_SQ_DRAINED,
		[QP_LAST_WQE] = IBV_EVENT_QP_LAST_WQE_REACHED,
		[QP_MIGRATED] = IBV_EVENT_PATH_MIG,
		[QP_MIGRATION_REFUSED] = IBV_EVENT_PATH_MIG_ERR,
	};

	qp->sink.take = take_event;
	qp->ibv.context = context;
	qp->ibv.qp_context = attr->qp_context;
	if (attr->qp_type == IBV_QPT_XRC_RECV) {
		qp->xrcd = xrcd_of(attr->xrcd);
	} else {
		qp->ibv.pd = attr->pd;
		qp->ibv.send_cq = attr->send_cq;
		qp->ibv.recv_cq = is_xrc(attr->qp_type) ? attr->send_cq : attr->recv_cq;
		qp->ibv.srq = is_xrc(attr->qp_type) ? NULL : attr->srq;
	}
	qp->ibv.qp_type = attr->qp_type;
	qp->ibv.state = IBV_QPS_RESET;
	qp->sq_sig_all = attr->sq_sig_all;
	for (int i = 0; i < QP_EVENTS; i++) {
		list_init(&qp->events[i].link);
		qp->events[i].event.element.qp = &qp->ibv;
		qp->events[i].event.event_type = types[i];
	}
	pthread_mutex_init(&qp->ibv.mutex, NULL);
	pthread_cond_init(&qp->ibv.cond, NULL);
	pthread_mutex_init(&qp->attr_lock, NULL);
	list_init(&qp->groups);
}

static enum weft_qp_service service_of(enum ibv_qp_type type)
{
	if (type_is_rd(type))
		return WEFT_RD;
	return type == IBV_QPT_UD ? WEFT_UD : type == IBV_QPT_UC ? WEFT_UC : WEFT_RC;
}

/* Those of XRC have no receives, so the sizes of that do not count either. */
static enum weft_reason create_weft(struct qp *qp, const struct ibv_qp_cap *cap)
{
	bool has_recvs = !qp->ibv.srq && !is_xrc(qp->ibv.qp_type);
	uint32_t send_segments = at_least_one(cap->max_send_sge);
	uint32_t send_max = at_least_one(cap->max_send_wr);
	/* man ibv_create_qp: with a shared receive queue those of receiving are ignored. */
	uint32_t recv_segments = has_recvs ? at_least_one(cap->max_recv_sge) : 1;
	struct weft_qp_options o = {
		.send_cq = qp->xrcd ? qp->xrcd->weft_cq : cq_of(qp->ibv.send_cq)->weft,
		.recv_cq = qp->xrcd ? qp->xrcd->weft_cq : cq_of(qp->ibv.recv_cq)->weft,
		.is_xrc = is_xrc(qp->ibv.qp_type),
		.xrc_domain = qp->xrcd ? qp->xrcd->number : 0,
		.srq = qp->ibv.srq ? srq_of(qp->ibv.srq)->weft : NULL,
		.service = service_of(qp->ibv.qp_type),
		.send_max = send_max,
		.recv_max = has_recvs ? at_least_one(cap->max_recv_wr) : 1,
		.sges_max = send_segments > recv_segments ? send_segments : recv_segments,
		.inline_max_bytes = cap->max_inline_data,
		/* Verbs bound what is answered alone, and by what is agreed later. */
		.outstanding_max = send_max > READS_MAX ? send_max : READS_MAX,
		.is_every_send_signalled = qp->sq_sig_all,
		.context = &qp->sink,
	};
	enum weft_reason r = weft_qp_create(qp->xrcd ? qp->xrcd->weft_pd : pd_of(qp->ibv.pd)->weft,
					    &o, &qp->weft);

	qp->cap = (struct ibv_qp_cap){
		.max_send_wr = o.send_max,
		.max_recv_wr = has_recvs ? o.recv_max : 0,
		.max_send_sge = o.sges_max,
		.max_recv_sge = has_recvs ? o.sges_max : 0,
		.max_inline_data = o.inline_max_bytes,
	};
	return r;
}

static bool has_type(const struct ibv_context *context, enum ibv_qp_type type)
{
	if (type == IBV_QPT_RC ||
	    (is_ib(context) && (type == IBV_QPT_UC || type == IBV_QPT_UD || is_xrc(type))))
		return true;
	say("%s has no queue pairs of type %d: %s", context->device->name, (int)type,
	    is_ib(context) ? "they are of RC, UC, UD or XRC" : "they are of RC");
	return false;
}

/* What it is made of: one of XRC that receives has nothing but the domain. */
static bool has_its_objects(const struct ibv_qp_init_attr_ex *attr)
{
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) && attr->xrcd;
	return (attr->comp_mask & IBV_QP_INIT_ATTR_PD) && attr->pd && attr->send_cq &&
	       (attr->recv_cq || attr->qp_type == IBV_QPT_XRC_SEND);
}

static int check_sizes(const struct ibv_qp_init_attr_ex *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;
	bool has_receives = !attr->srq && !is_xrc(attr->qp_type);

	if (cap->max_inline_data <= WEFT_INLINE_MAX && cap->max_send_sge <= WEFT_SGES_MAX &&
	    cap->max_send_wr <= QUEUE_MAX &&
	    (!has_receives ||
	     (cap->max_recv_sge <= WEFT_SGES_MAX && cap->max_recv_wr <= QUEUE_MAX)))
		return 0;
	say("ibv_create_qp: %u bytes inline, %u and %u segments, %u and %u requests; %u, %u and %u "
	    "are all there are",
	    cap->max_inline_data, cap->max_send_sge, cap->max_recv_sge, cap->max_send_wr,
	    cap->max_recv_wr, (unsigned int)WEFT_INLINE_MAX, (unsigned int)WEFT_SGES_MAX,
	    (unsigned int)QUEUE_MAX);
	return EINVAL;
}

/* What is not there is refused by name, not by chance. */
static int check(const struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr,
		 bool is_rd)
{
	enum {
		KNOWN = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS |
			IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_XRCD
	};

	if (!has_its_objects(attr)) {
		say("ibv_create_qp: %s", "a domain or a completion queue is missing");
		return EINVAL;
	}
	if (!is_rd && !has_type(context, attr->qp_type)) {
		say("ibv_create_qp: %s has no queue pairs of type %d", context->device->name,
		    (int)attr->qp_type);
		return EOPNOTSUPP;
	}
	if ((attr->comp_mask & ~(uint32_t)KNOWN) ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags)) {
		say("ibv_create_qp: comp_mask %#x with create_flags %#x has what weft has not",
		    attr->comp_mask, attr->create_flags);
		return EOPNOTSUPP;
	}
	return check_sizes(attr);
}

/* Other queues and the context are in use by it. */
static void hold(struct qp *qp)
{
	context_get(qp->ibv.context);
	if (qp->xrcd) {
		atomic_fetch_add(&qp->xrcd->users, 1);
		return;
	}
	pd_get(qp->ibv.pd);
	atomic_fetch_add(&cq_of(qp->ibv.send_cq)->users, 1);
	atomic_fetch_add(&cq_of(qp->ibv.recv_cq)->users, 1);
	if (qp->ibv.srq)
		atomic_fetch_add(&srq_of(qp->ibv.srq)->users, 1);
}

static void release(struct qp *qp)
{
	context_put(qp->ibv.context);
	if (qp->xrcd) {
		atomic_fetch_sub(&qp->xrcd->users, 1);
		return;
	}
	if (qp->ibv.srq)
		atomic_fetch_sub(&srq_of(qp->ibv.srq)->users, 1);
	atomic_fetch_sub(&cq_of(qp->ibv.send_cq)->users, 1);
	atomic_fetch_sub(&cq_of(qp->ibv.recv_cq)->users, 1);
}

static void qp_free(struct qp *qp)
{
	pthread_mutex_destroy(&qp->ibv.mutex);
	pthread_cond_destroy(&qp->ibv.cond);
	groups_free(qp);
	pthread_mutex_destroy(&qp->attr_lock);
	pd_memory_give(qp->ibv.pd, PD_QP, &(struct pd_memory){ qp, qp->memory.is_programs });
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			     uint32_t rdd)
{
	struct pd_memory memory;
	struct qp *qp;
	enum weft_reason r;
	int error = 0;

	if (!pd_memory_take(attr->qp_type == IBV_QPT_XRC_RECV ? NULL : attr->pd, sizeof(*qp), PD_QP,
			    &memory))
		return refused(WEFT_R_NO_MEMORY);
	qp = memory.bytes;
	qp->memory = memory;
	init_public(qp, context, attr);
	qp->rdd = rdd;
	r = create_weft(qp, &attr->cap);
	if (r != WEFT_OK) {
		qp_free(qp);
		return refused(r);
	}
	/* An iWARP queue pair is born idle, which verbs call INIT; a peer may do nothing yet. */
	if (is_ib(context))
		qp_roce_init(qp);
	else
		(void)weft_qp_modify(qp->weft, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
				     WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS);
	qp->ibv.handle = qp->ibv.qp_num = weft_qp_number(qp->weft);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		error = builders_init(qp, attr->send_ops_flags);
	if (error) {
		(void)weft_qp_destroy(qp->weft);
		qp_free(qp);
		errno = error;
		return NULL;
	}
	attr->cap = qp->cap;
	hold(qp);
	enlist(qp);
	return &qp->ibv;
}

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	int error = check(context, attr, false);

	if (!error)
		return create(context, attr, 0);
	errno = error;
	return NULL;
}

struct ibv_qp *qp_create_rd(struct ibv_qp_init_attr_ex *attr, uint32_t rdd)
{
	int error = check(attr->pd->context, attr, true);

	if (!error)
		return create(attr->pd->context, attr, rdd);
	errno = error;
	return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = create_qp_ex(pd->context, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/* Events of an object vanish with it, but a connection that ends with it has an end to tell. */
static void tell_gone(const struct qp *qp)
{
	struct weftv_sink *connection = atomic_load(&qp->connection_sink);

	if (connection)
		connection->take(connection, &(struct weft_event){ .kind = WEFT_EVENT_QP_ERROR,
								   .reason = WEFT_R_FLUSHED,
								   .number = qp->ibv.qp_num });
}

/* A thread that took an event may query the queue pair until it acknowledges: destroy it after. */
int ibv_destroy_qp(struct ibv_qp *ibv)
{
	static const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct qp *qp = qp_of(ibv);
	struct context *c = context_of(ibv->context);
	struct ibv_pd *pd = ibv->pd;

	delist(qp);
	if (async_is_taken(&qp->events[0])) /* the peer need not wait for that */
		(void)weft_qp_modify(qp->weft, &error, WEFT_QP_STATE);
	async_settle(c, qp->events, QP_EVENTS);
	(void)weft_qp_destroy(qp->weft); /* it never fails */
	tell_gone(qp);
	async_settle(c, qp->events, QP_EVENTS); /* of what happened meanwhile */
	builders_fini(qp);
	release(qp);
	qp_free(qp);
	if (pd)
		pd_put(pd);
	return 0;
}

/* ---- States --------------------------------------------------------------------------------- */

static const enum ibv_qp_state states[WEFT_QPS_COUNT] = {
	[WEFT_QPS_RESET] = IBV_QPS_RESET, [WEFT_QPS_INIT] = IBV_QPS_INIT,
	[WEFT_QPS_RTR] = IBV_QPS_RTR,	  [WEFT_QPS_RTS] = IBV_QPS_RTS,
	[WEFT_QPS_SQD] = IBV_QPS_SQD,	  [WEFT_QPS_SQE] = IBV_QPS_SQE,
	[WEFT_QPS_ERROR] = IBV_QPS_ERR,
};

/*
 * The connection makes an iWARP queue pair operational, not the program. A move to RTR or RTS on
 * the way there, as for InfiniBand, succeeds: work that must wait for the connection is refused
 * when it is posted. A program that drives the states itself begins with INIT after librdmacm has
 * reported the peer's response: by then the queue pair is operational.
 */
static bool is_for_the_connection(const struct qp *qp, enum weft_qp_state now,
				  enum ibv_qp_state asked)
{
	if (asked == IBV_QPS_INIT)
		return now == WEFT_QPS_INIT ||
		       (now == WEFT_QPS_RTS && atomic_load(&qp->connection_sink));
	if (asked != IBV_QPS_RTR && asked != IBV_QPS_RTS)
		return false;
	return now == WEFT_QPS_INIT || now == WEFT_QPS_RTS;
}

enum ibv_qp_state qp_state_of(enum weft_qp_state state)
{
	return states[state];
}

int qp_to_weft_state(enum ibv_qp_state state, enum weft_qp_state *weft)
{
	for (int i = 0; i < WEFT_QPS_COUNT; i++) {
		if (states[i] == state) {
			*weft = (enum weft_qp_state)i;
			return 0;
		}
	}
	return EINVAL;
}

static enum weft_qp_state state_now(struct qp *qp)
{
	struct weft_qp_attr now;

	(void)weft_qp_query(qp->weft, &now);
	return now.state;
}

/* Locked, so that no other thread connects them or destroys the other. */
static int name(struct qp *qp, uint32_t number)
{
	struct ibv_qp *found = find(NULL, number);
	struct qp *peer = found ? qp_of(found) : NULL;

	if (!peer)
		return EINVAL;
	qp->named = number;
	if (peer->named != qp->ibv.qp_num || state_now(qp) != WEFT_QPS_INIT ||
	    state_now(peer) != WEFT_QPS_INIT)
		return 0; /* it will name this one, too */
	return weftv_errno(weft_qp_connect(qp->weft, peer->weft));
}

/*
 * Two queue pairs of this process may be connected by number, as in InfiniBand: once each has named
 * the other. Queue pairs of other processes can be reached through librdmacm alone.
 */
static int connect_by_number(struct qp *qp, uint32_t number)
{
	int error;

	qps_lock();
	error = name(qp, number);
	qps_unlock();
	return error;
}

void qp_forget_completions(struct qp *qp)
{
	if (qp->xrcd)
		return; /* it has none */
	(void)weft_cq_forget(cq_of(qp->ibv.send_cq)->weft, qp->ibv.qp_num);
	(void)weft_cq_forget(cq_of(qp->ibv.recv_cq)->weft, qp->ibv.qp_num);
}

static int change(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct weft_qp_attr now, next = { 0 };
	uint32_t fields = 0;
	int error;

	(void)weft_qp_query(qp->weft, &now);
	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != states[now.state])
		return EINVAL;
	if (mask & IBV_QP_ACCESS_FLAGS) {
		next.remote_rights = qp_rights_of(attr->qp_access_flags);
		fields |= WEFT_QP_REMOTE_RIGHTS;
	}
	if ((mask & IBV_QP_STATE) && !is_for_the_connection(qp, now.state, attr->qp_state)) {
		error = qp_to_weft_state(attr->qp_state, &next.state);
		if (error)
			return error;
		fields |= WEFT_QP_STATE;
	}
	error = fields ? weftv_errno(weft_qp_modify(qp->weft, &next, fields)) : 0;
	if (!error && (mask & IBV_QP_DEST_QPN) && (mask & IBV_QP_STATE) &&
	    attr->qp_state == IBV_QPS_RTR)
		error = connect_by_number(qp, attr->dest_qp_num);
	if (!error && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		qp->named = 0;
		qp_forget_completions(qp);
	}
	return error;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct qp *qp = qp_of(ibv);
	int error;

	if (is_ib(ibv->context))
		return qp_roce_modify(qp, attr, mask);
	if ((mask & IBV_QP_PORT) && attr->port_num != 1)
		return EINVAL;
	if ((mask & IBV_QP_PKEY_INDEX) && attr->pkey_index != 0)
		return EINVAL;
	error = change(qp, attr, mask);
	if (error)
		return error;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->access = attr->qp_access_flags;
	if (mask & IBV_QP_TIMEOUT)
		qp->timeout = attr->timeout;
	if (mask & IBV_QP_STATE)
		ibv->state = attr->qp_state;
	return 0;
}

static void query_iwarp(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp *ibv = &qp->ibv;
	struct weft_qp_attr now;
	struct weft_peer peer;

	(void)weft_qp_query(qp->weft, &now);
	ibv->state = states[now.state];
	*attr = (struct ibv_qp_attr){
		.qp_state = ibv->state,
		.cur_qp_state = ibv->state,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = qp->named,
		.qp_access_flags = qp->access,
		.cap = qp->cap,
		.sq_draining = now.state == WEFT_QPS_SQD && now.send_queued > 0,
		.max_rd_atomic = READS_MAX,
		.max_dest_rd_atomic = READS_MAX,
		.port_num = 1,
		.timeout = qp->timeout,
	};
	if (weft_qp_peer(qp->weft, &peer) == WEFT_OK && now.state >= WEFT_QPS_RTS) {
		attr->max_rd_atomic = (uint8_t)peer.agreed_ord;
		attr->max_dest_rd_atomic = (uint8_t)peer.agreed_ird;
	}
}

int ibv_query_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct qp *qp = qp_of(ibv);

	(void)mask; /* all known attributes are filled in */
	if (is_ib(ibv->context))
		qp_roce_query(qp, attr);
	else
		query_iwarp(qp, attr);
	*init = (struct ibv_qp_init_attr){
		.qp_context = ibv->qp_context,
		.send_cq = ibv->send_cq,
		.recv_cq = ibv->recv_cq,
		.srq = ibv->srq,
		.cap = qp->cap,
		.qp_type = ibv->qp_type,
		.sq_sig_all = qp->sq_sig_all,
	};
	return 0;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return qp_of(qp)->batch ? &qp_of(qp)->ex : NULL;
}

/*
 * Never: what arrives is taken in order, but neither memcpy() nor the kernel says in which order
 * another processor sees the bytes of one copy; on x86-64 the first may be the last, on arm64 any.
 */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp, (void)op, (void)flags;
	return 0;
}
