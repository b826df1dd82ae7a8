/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events of ports of a fabric: each context of its adapter gets them. */
#pragma once

#include <infiniband/verbs.h>

#include "compat/ibverbs/async.h"

struct context;

enum { PORT_EVENTS = 7 };

/* What a context needs for the events of its ports. */
struct port_events {
	struct list link; /* of all contexts that get them */
	uint32_t ports;
	struct async_record (*records)[PORT_EVENTS];
};

/* From now on the context gets them. 0 or errno. */
int port_events_begin(struct context *c);
void port_events_end(struct context *c);

/* In a child of fork(): all contexts are the parent's. */
void port_events_forked(void);
