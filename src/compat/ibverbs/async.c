/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of contexts: rung by the engine, taken and acknowledged by the program. */
#include <errno.h>
#include <string.h>

#include "compat/ibverbs/object.h"

void async_raise(struct context *c, struct async_record *record)
{
	pthread_mutex_lock(&c->async.lock);
	if (!list_is_linked(&record->link))
		bell_add(&c->async.bell, &record->link);
	pthread_mutex_unlock(&c->async.lock);
}

void async_forget(struct context *c, struct async_record *records, uint32_t count)
{
	pthread_mutex_lock(&c->async.lock);
	for (uint32_t i = 0; i < count; i++)
		bell_remove(&c->async.bell, &records[i].link);
	pthread_mutex_unlock(&c->async.lock);
}

/* Counts an event as taken, or as acknowledged, at the object that it is about. */
static void count(const struct ibv_async_event *event, bool is_taken)
{
	struct qp *qp = qp_of(event->element.qp);
	struct cq *cq = cq_of(event->element.cq);
	struct srq *srq = srq_of(event->element.srq);
	uint32_t *taken = &qp->events_taken, *acknowledged = &qp->ibv.events_completed;
	pthread_mutex_t *mutex = &qp->ibv.mutex;
	pthread_cond_t *cond = &qp->ibv.cond;

	if (event->event_type == IBV_EVENT_CQ_ERR) {
		taken = &cq->async_taken;
		acknowledged = &cq->ibv.async_events_completed;
		mutex = &cq->ibv.mutex;
		cond = &cq->ibv.cond;
	} else if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED) {
		taken = &srq->events_taken;
		acknowledged = &srq->ibv.events_completed;
		mutex = &srq->ibv.mutex;
		cond = &srq->ibv.cond;
	}
	pthread_mutex_lock(mutex);
	++*(is_taken ? taken : acknowledged);
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct context *c = context_of(context);
	struct list *link;
	int error = teller_take(&c->async, &link);

	if (error) {
		errno = error;
		return -1;
	}
	*event = CONTAINER_OF(link, struct async_record, link)->event;
	count(event, true);
	pthread_mutex_unlock(&c->async.lock);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	count(event, false);
}
