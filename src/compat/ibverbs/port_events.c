/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/port_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <weft/roce.h>

#include "compat/ibverbs/context.h"
#include "compat/ibverbs/engine.h"
#include "compat/ibverbs/fabric_port.h"
#include "compat/ibverbs/ibverbs.h"

static void take(struct weftv_sink *sink, const struct weft_event *event);

/*
 * The lock may be taken while the engine's is held, never the other way round; and the list changes
 * only with engine_lock() held, so that fork() finds the lock free.
 */
static struct {
	pthread_mutex_t lock;
	struct list contexts;
	struct weftv_sink sink;
} all = { .lock = PTHREAD_MUTEX_INITIALIZER, .sink = { .take = take } };

/* In the order in which programs get those that came together. */
static const struct {
	uint32_t news;
	enum ibv_event_type type;
} kinds[PORT_EVENTS] = {
	{ WEFT_PORT_INACTIVE, IBV_EVENT_PORT_ERR },
	{ WEFT_PORT_LID, IBV_EVENT_LID_CHANGE },
	{ WEFT_PORT_P_KEYS, IBV_EVENT_PKEY_CHANGE },
	{ WEFT_PORT_GIDS, IBV_EVENT_GID_CHANGE },
	{ WEFT_PORT_SM, IBV_EVENT_SM_CHANGE },
	{ WEFT_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE },
	{ WEFT_PORT_REREGISTER, IBV_EVENT_CLIENT_REREGISTER },
};

static void tell(struct context *c, uint32_t port, uint32_t news)
{
	if (port < 1 || port > c->port_events.ports)
		return;
	for (uint32_t i = 0; i < PORT_EVENTS; i++) {
		if (news & kinds[i].news)
			async_raise(c, &c->port_events.records[port - 1][i]);
	}
}

static void take(struct weftv_sink *sink, const struct weft_event *event)
{
	(void)sink;
	if (event->kind != WEFT_EVENT_PORT)
		return;
	pthread_mutex_lock(&all.lock);
	for (struct list *at = all.contexts.next; at && at != &all.contexts; at = at->next)
		tell(CONTAINER_OF(at, struct context, port_events.link), event->number,
		     event->state);
	pthread_mutex_unlock(&all.lock);
}

static int records_make(struct port_events *p)
{
	p->ports = fabric_port_count();
	p->records = calloc(p->ports + 1U, sizeof(p->records[0]));
	if (!p->records)
		return ENOMEM;
	for (uint32_t port = 1; port <= p->ports; port++) {
		for (uint32_t i = 0; i < PORT_EVENTS; i++) {
			struct async_record *r = &p->records[port - 1][i];

			list_init(&r->link);
			r->event.event_type = kinds[i].type;
			r->event.element.port_num = (int)port;
		}
	}
	return 0;
}

int port_events_begin(struct context *c)
{
	int error = records_make(&c->port_events);

	if (!error)
		error = weftv_errno(weft_port_watch(c->adapter, &all.sink));
	if (error)
		return error;
	engine_lock();
	pthread_mutex_lock(&all.lock);
	if (!all.contexts.next)
		list_init(&all.contexts);
	list_add_tail(&all.contexts, &c->port_events.link);
	pthread_mutex_unlock(&all.lock);
	engine_unlock();
	return 0;
}

void port_events_end(struct context *c)
{
	engine_lock();
	pthread_mutex_lock(&all.lock);
	if (list_is_linked(&c->port_events.link))
		list_remove(&c->port_events.link);
	pthread_mutex_unlock(&all.lock);
	engine_unlock();
	free(c->port_events.records);
}

void port_events_forked(void)
{
	while (all.contexts.next && !list_is_empty(&all.contexts))
		(void)list_pop(&all.contexts);
}
