/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on completion queues, address handles, queue pairs and shared receive queues. */
#include <sched.h>

#include "base/reserved.h"
#include "driver/roce/roce_line.h"
#include "driver/roce/roce_near.h"
#include "driver/tcp/tcp.h"
#include "loopback/loopback.h"

enum weft_reason weft_cq_create(struct weft_adapter *adapter, const struct weft_cq_options *options,
				struct weft_cq **cq)
{
	static const struct weft_cq_options defaults;
	enum weft_reason r;

	if (!adapter || !cq)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	adapter_enter(adapter);
	r = adapter_is_short(adapter)
		    ? WEFT_R_NO_MEMORY
		    : cq_create(&adapter->core, options ? options : &defaults, cq);
	adapter_leave(adapter);
	return r;
}

/* Takes the lock of the completion queue's adapter. */
static struct weft_adapter *enter_cq(const struct weft_cq *cq)
{
	struct weft_adapter *a = adapter_of(cq->adapter);

	adapter_enter(a);
	return a;
}

enum weft_reason weft_cq_destroy(struct weft_cq *cq)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_cq(cq);
	r = cq_destroy(cq);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_ah_create(struct weft_pd *pd, const struct weft_path *path,
				struct weft_ah **ah)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !path || !ah)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(path))
		return WEFT_R_RESERVED;
	a = adapter_of(pd->adapter);
	adapter_enter(a);
	r = adapter_is_short(a) ? WEFT_R_NO_MEMORY : ah_create(pd, path, ah);
	if (r == WEFT_OK && !roce_line_has(a, path)) {
		ah_destroy(*ah);
		r = WEFT_R_ADDRESS;
	}
	if (r == WEFT_OK)
		(*ah)->is_on_host = roce_is_on_host(a, path);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_ah_destroy(struct weft_ah *ah)
{
	struct weft_adapter *a;

	if (!ah)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of(ah->pd->adapter);
	adapter_enter(a);
	ah_destroy(ah);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_cq_resize(struct weft_cq *cq, uint32_t entries_max)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_cq(cq);
	r = cq_resize(cq, entries_max);
	adapter_leave(a);
	return r;
}

uint32_t weft_cq_number(const struct weft_cq *cq)
{
	return cq ? cq->number : 0;
}

static bool has_work(const struct weft_adapter *a)
{
	return !list_is_empty(&a->core.ready) || (a->net && net_has_output(a->net));
}

/*
 * Consecutive polls that may read no socket because the CQ holds enough. Not more: peers may wait
 * for us to receive their RDMA Writes.
 */
enum { POLLS_CONTENT = 32 };

/* Every so many polls, or after a standby period if polls are rare. */
static bool is_look_due(const struct weft_adapter *a)
{
	return a->polls % POLLS_CONTENT == 0 || (a->net && a->net->is_all_due);
}

/* Polls the sockets unless the CQ already holds `max`, no work waits and no look is due. */
static void look_for_more(struct weft_adapter *a, const struct weft_cq *cq, uint32_t max)
{
	bool has_enough = max > 0 && cq->count - cq->hidden >= max && !has_work(a) &&
			  !is_look_due(a);
	bool is_read = a->net && a->net->is_read && cq->count > cq->hidden;

	if (a->net)
		a->net->is_read = false;
	if (is_read || has_enough) {
		a->polls++;
		return;
	}
	adapter_poll(a, cq);
	/* The caller may exit on this completion, unless it drives: send deferred work first. */
	if (a->net && a->net->is_waiting && !a->net->is_driven && cq->count > cq->hidden)
		adapter_work(a);
}

/* As many polls in a row may miss the lock: its holder may not be running, and wait for us. */
enum { POLLS_MISSED_MAX = 16 };

/*
 * False: another thread is in the adapter, and makes progress for this queue as well, which had
 * nothing when it was last looked at. To wait for that thread, and be woken, costs far more. Polls
 * that missed the lock count with the next one that has it.
 */
static bool enter_polling(struct weft_adapter *a, struct weft_cq *cq)
{
	uint32_t missed;

	if (!adapter_try_enter(a)) {
		if (!atomic_load_explicit(&cq->is_worth_polling, memory_order_relaxed) &&
		    atomic_fetch_add_explicit(&cq->polls_missed, 1, memory_order_relaxed) <
			    POLLS_MISSED_MAX)
			return false;
		adapter_enter(a);
	}
	missed = atomic_load_explicit(&cq->polls_missed, memory_order_relaxed);
	if (missed > 0)
		atomic_store_explicit(&cq->polls_missed, 0, memory_order_relaxed);
	a->polls += missed;
	return true;
}

enum weft_reason weft_cq_poll(struct weft_cq *cq, struct weft_completion *completions, uint32_t max,
			      uint32_t *count)
{
	struct weft_adapter *a;
	enum weft_reason r;
	bool is_patient;

	if (!cq || !count || (max > 0 && !completions))
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of(cq->adapter);
	if (!enter_polling(a, cq)) {
		*count = 0;
		return WEFT_OK;
	}
	is_patient = !adapter_is_served(a) && a->net && net_is_patient(a->net);
	if (!adapter_is_served(a))
		look_for_more(a, cq, max);
	r = cq_poll(cq, completions, max, count);
	adapter_leave(a);
	if (is_patient && *count == 0)
		sched_yield();
	return r;
}

enum weft_reason weft_cq_forget(struct weft_cq *cq, uint32_t qp_number)
{
	struct weft_adapter *a;

	if (!cq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_cq(cq);
	cq_forget(cq, qp_number);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_cq_arm(struct weft_cq *cq, enum weft_arm arm)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!cq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_cq(cq);
	r = cq_arm(cq, arm);
	a->polls_armed = a->polls;
	if (a->net && net_has_output(a->net))
		adapter_work(a);
	if (a->net)
		progress_notice(a->net); /* a program that arms is about to sleep */
	adapter_leave(a);
	return r;
}

enum weft_reason weft_qp_create(struct weft_pd *pd, const struct weft_qp_options *options,
				struct weft_qp **qp)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !options || !qp)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	a = adapter_of(pd->adapter);
	adapter_enter(a);
	r = adapter_is_short(a) ? WEFT_R_NO_MEMORY
				: qp_create(pd, options, &loopback_transport, qp);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_qp_destroy(struct weft_qp *qp)
{
	struct weft_adapter *a;

	if (!qp)
		return WEFT_R_NULL_ARGUMENT;
	a = net_enter_settled(qp);
	(void)adapter_now_ns(a); /* the time that closing may take begins */
	if (qp->link)
		link_qp_gone(qp->link);
	pager_forget_qp(a, qp->number);
	qp_destroy(qp);
	adapter_leave_working(a);
	return WEFT_OK;
}

uint32_t weft_qp_number(const struct weft_qp *qp)
{
	return qp ? qp->number : 0;
}

enum weft_reason weft_qp_modify(struct weft_qp *qp, const struct weft_qp_attr *attr,
				uint32_t fields)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !attr)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(attr))
		return WEFT_R_RESERVED;
	a = net_enter_settled(qp);
	(void)adapter_now_ns(a); /* the time that closing may take begins */
	r = qp_modify(qp, attr, fields);
	/* A queue pair that was reset is not connected any more. */
	if (r == WEFT_OK && qp->link && (fields & WEFT_QP_STATE) &&
	    (attr->state == WEFT_QPS_RESET || attr->state == WEFT_QPS_ERROR))
		link_qp_moved(qp->link, attr->state == WEFT_QPS_RESET);
	if (r == WEFT_OK && (fields & WEFT_QP_STATE) && attr->state == WEFT_QPS_RESET)
		pager_forget_qp(a, qp->number);
	adapter_leave_working(a);
	return r;
}

enum weft_reason weft_qp_query(struct weft_qp *qp, struct weft_qp_attr *attr)
{
	struct weft_adapter *a;

	if (!qp || !attr)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	qp_query(qp, attr);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_qp_connect(struct weft_qp *qp, struct weft_qp *peer)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !peer)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = qp_connect(qp, peer);
	adapter_leave_working(a);
	return r;
}

/* Sends posted requests, unless they may wait for more or the adapter's thread sends them. */
static void leave_posting(struct weft_adapter *a, const struct weft_qp *qp)
{
	if (adapter_is_served(a) ||
	    (qp->stream && a->net && progress_may_wait(a->net, send_queue_last_bytes(&qp->sq))))
		adapter_leave(a);
	else
		adapter_leave_working(a);
}

enum weft_reason weft_qp_post_send(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count,
				   uint32_t *posted)
{
	struct weft_adapter *a;
	uint32_t done;
	enum weft_reason r;

	if (!qp || (count > 0 && !wrs))
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = qp_post_send(qp, wrs, count, &done);
	leave_posting(a, qp);
	if (posted)
		*posted = done;
	return r;
}

enum weft_reason weft_qp_post_send_all(struct weft_qp *qp, struct weft_send_wr *wrs, uint32_t count)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || (count > 0 && !wrs))
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = qp_post_send_all(qp, wrs, count);
	leave_posting(a, qp);
	return r;
}

/* A receive creates work only if a sender waited for it, or if it was flushed. */
static void leave_receiving(struct weft_adapter *a)
{
	bool is_waiting = a->net && a->net->is_waiting;

	if (adapter_is_served(a) ||
	    (list_is_empty(&a->core.events) && (list_is_empty(&a->core.ready) || is_waiting)))
		adapter_leave(a);
	else
		adapter_leave_working(a);
}

enum weft_reason weft_qp_post_recv(struct weft_qp *qp, const struct weft_recv_wr *wrs,
				   uint32_t count, uint32_t *posted)
{
	struct weft_adapter *a;
	uint32_t done;
	enum weft_reason r;

	if (!qp || (count > 0 && !wrs))
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = qp_post_recv(qp, wrs, count, &done);
	leave_receiving(a);
	if (posted)
		*posted = done;
	return r;
}

enum weft_reason weft_srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
				 struct weft_srq **srq)
{
	static const struct weft_srq_options defaults;
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !srq)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	a = adapter_of(pd->adapter);
	adapter_enter(a);
	r = adapter_is_short(a) ? WEFT_R_NO_MEMORY
				: srq_create(pd, options ? options : &defaults, srq);
	adapter_leave(a);
	return r;
}

/* Takes the lock of the shared receive queue's adapter. */
static struct weft_adapter *enter_srq(const struct weft_srq *srq)
{
	struct weft_adapter *a = adapter_of(srq->adapter);

	adapter_enter(a);
	return a;
}

uint32_t weft_srq_number(const struct weft_srq *srq)
{
	return srq ? srq->number : 0;
}

enum weft_reason weft_srq_destroy(struct weft_srq *srq)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!srq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_srq(srq);
	r = srq_destroy(srq);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_srq_post_recv(struct weft_srq *srq, const struct weft_recv_wr *wrs,
				    uint32_t count, uint32_t *posted)
{
	struct weft_adapter *a;
	uint32_t done;
	enum weft_reason r;

	if (!srq || (count > 0 && !wrs))
		return WEFT_R_NULL_ARGUMENT;
	a = enter_srq(srq);
	r = srq_post(srq, wrs, count, &done);
	leave_receiving(a);
	if (posted)
		*posted = done;
	return r;
}

enum weft_reason weft_srq_arm(struct weft_srq *srq, uint32_t limit)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!srq)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_srq(srq);
	r = srq_arm(srq, limit);
	adapter_leave_working(a);
	return r;
}
