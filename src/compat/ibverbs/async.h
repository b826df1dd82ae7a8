/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of objects. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct context;

/* An asynchronous event of an object; at most one of a kind is queued or unacknowledged. */
struct async_record {
	struct list link;
	struct ibv_async_event event;
};

/* Raises an event, unless it is pending already. Called with the engine locked. */
void async_raise(struct context *c, struct async_record *record);

/* Whether the program took one of the object's events, and has not acknowledged it yet. */
bool async_is_taken(const struct async_record *record);

/* Before the object is destroyed: removes its queued events, waits for taken ones to be acked. */
void async_settle(struct context *c, struct async_record *records, uint32_t count);
