/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of contexts: rung by the engine, taken and acknowledged by the program. */
#include "compat/ibverbs/async.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/bell.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/cq.h"
#include "compat/ibverbs/qp.h"
#include "compat/ibverbs/srq.h"
#include "compat/ibverbs/teller.h"

void async_raise(struct context *c, struct async_record *record)
{
	pthread_mutex_lock(&c->async.lock);
	if (!list_is_linked(&record->link))
		bell_add(&c->async.bell, &record->link);
	pthread_mutex_unlock(&c->async.lock);
}

/* Where the object that an event is about counts those taken and those acknowledged. */
struct tally {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *taken, *acknowledged;
};

static struct tally tally_of(const struct ibv_async_event *event)
{
	struct qp *qp = qp_of(event->element.qp);
	struct cq *cq = cq_of(event->element.cq);
	struct srq *srq = srq_of(event->element.srq);

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return (struct tally){ &cq->ibv.mutex, &cq->ibv.cond, &cq->async_taken,
				       &cq->ibv.async_events_completed };
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return (struct tally){ &srq->ibv.mutex, &srq->ibv.cond, &srq->events_taken,
				       &srq->ibv.events_completed };
	default:
		return (struct tally){ &qp->ibv.mutex, &qp->ibv.cond, &qp->events_taken,
				       &qp->ibv.events_completed };
	}
}

/* Nothing that a program can destroy waits for those of a port. */
static bool is_of_port(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return true;
	default:
		return false;
	}
}

static void count(const struct ibv_async_event *event, bool is_taken)
{
	struct tally t;

	if (is_of_port(event))
		return;
	t = tally_of(event);

	pthread_mutex_lock(t.mutex);
	++*(is_taken ? t.taken : t.acknowledged);
	pthread_cond_signal(t.cond);
	pthread_mutex_unlock(t.mutex);
}

bool async_is_taken(const struct async_record *record)
{
	struct tally t = tally_of(&record->event);
	bool is_any;

	pthread_mutex_lock(t.mutex);
	is_any = *t.taken != *t.acknowledged;
	pthread_mutex_unlock(t.mutex);
	return is_any;
}

void async_settle(struct context *c, struct async_record *records, uint32_t count)
{
	struct tally t = tally_of(&records[0].event);

	pthread_mutex_lock(&c->async.lock);
	for (uint32_t i = 0; i < count; i++)
		bell_remove(&c->async.bell, &records[i].link);
	pthread_mutex_unlock(&c->async.lock);
	pthread_mutex_lock(t.mutex);
	while (*t.taken != *t.acknowledged)
		pthread_cond_wait(t.cond, t.mutex);
	pthread_mutex_unlock(t.mutex);
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
