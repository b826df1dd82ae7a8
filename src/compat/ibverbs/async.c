/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of contexts: rung by the engine, taken and acknowledged by the program. */
#include <errno.h>
#include <string.h>

#include "compat/ibverbs/object.h"

void async_raise(struct context *c, struct async_record *record)
{
	pthread_mutex_lock(&c->async.lock);
	if (!list_is_linked(&record->link)) {
		list_add_tail(&c->async.waiting, &record->link);
		bell_ring(&c->async);
	}
	pthread_mutex_unlock(&c->async.lock);
}

void async_forget(struct context *c, struct async_record *records, uint32_t count)
{
	pthread_mutex_lock(&c->async.lock);
	for (uint32_t i = 0; i < count; i++)
		list_remove(&records[i].link);
	pthread_mutex_unlock(&c->async.lock);
}

/* Counts an event as taken, or as acknowledged, at the object that it is about. */
static void count(const struct ibv_async_event *event, bool is_taken)
{
	struct qp *qp;
	struct cq *cq;
	struct srq *srq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		cq = cq_of(event->element.cq);
		pthread_mutex_lock(&cq->ibv.mutex);
		if (is_taken)
			cq->async_taken++;
		else
			cq->ibv.async_events_completed++;
		pthread_cond_signal(&cq->ibv.cond);
		pthread_mutex_unlock(&cq->ibv.mutex);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		srq = srq_of(event->element.srq);
		pthread_mutex_lock(&srq->ibv.mutex);
		if (is_taken)
			srq->events_taken++;
		else
			srq->ibv.events_completed++;
		pthread_cond_signal(&srq->ibv.cond);
		pthread_mutex_unlock(&srq->ibv.mutex);
		break;
	default:
		qp = qp_of(event->element.qp);
		pthread_mutex_lock(&qp->ibv.mutex);
		if (is_taken)
			qp->events_taken++;
		else
			qp->ibv.events_completed++;
		pthread_cond_signal(&qp->ibv.cond);
		pthread_mutex_unlock(&qp->ibv.mutex);
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = context_of(context);

	for (;;) {
		int error = bell_await(&c->async);
		struct async_record *record = NULL;

		if (error) {
			errno = error;
			return -1;
		}
		pthread_mutex_lock(&c->async.lock);
		if (!list_is_empty(&c->async.waiting)) {
			record = CONTAINER_OF(list_pop(&c->async.waiting), struct async_record,
					      link);
			*event = record->event;
			count(event, true);
		}
		pthread_mutex_unlock(&c->async.lock);
		if (record)
			return 0;
		/* Its object has gone meanwhile; the next one, then. */
	}
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	count(event, false);
}
