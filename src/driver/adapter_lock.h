/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter as this process runs it: the core behind one lock, with this machine's clock. Every
 * public call is the same three steps: lock, call the core, unlock; those that may have given work
 * make progress before they unlock.
 */
#pragma once

#include <pthread.h>

#include "base/check.h"
#include "verbs/verbs.h"

struct weft_adapter {
	pthread_mutex_t lock;	  /* guards everything below; the only lock */
	pthread_cond_t has_event; /* signalled when core.events may have become non-empty */
	uint32_t waiters;	  /* threads in weft_event_next() */
	uint64_t due_seen;	  /* the deadline that the latest of them sleeps to */
	struct adapter core;
};

uint64_t clock_now_ns(void);

static inline struct weft_adapter *adapter_of(struct adapter *core)
{
	return CONTAINER_OF(core, struct weft_adapter, core);
}

static inline struct adapter *adapter_enter(struct weft_adapter *a)
{
	pthread_mutex_lock(&a->lock);
	return &a->core;
}

/* Leaves without progress: the call cannot have given work. */
static inline void adapter_leave(struct weft_adapter *a)
{
	pthread_mutex_unlock(&a->lock);
}

/* Makes what progress is due and wakes whoever waits for events. The lock is held. */
void adapter_work(struct weft_adapter *a);

static inline void adapter_leave_working(struct weft_adapter *a)
{
	adapter_work(a);
	adapter_leave(a);
}
