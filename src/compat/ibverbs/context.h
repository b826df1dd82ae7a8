/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The context of an open device. As every object of verbs programs it is the public struct, which
 * comes first, followed by our own fields. Numbers, states and rights belong to the engine and are
 * only translated.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/check.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/port_events.h"
#include "compat/ibverbs/teller.h"

struct device;

struct context {
	struct verbs_context verbs; /* its last member is the struct ibv_context */
	struct teller async;	    /* queues struct async_record */
	struct offer offer;
	uint64_t number;   /* its own, or of the context that it was imported from */
	atomic_uint users; /* the program, until it closes it, and objects that raise events */
	bool is_shared;	   /* librdmacm's: never closed */
	struct port_events port_events; /* in a fabric */
	struct weft_adapter *adapter;	/* in a child of fork() still the parent's */
};

static inline struct context *context_of(struct ibv_context *c)
{
	return CONTAINER_OF(c, struct context, verbs.context);
}

/* The adapter is under this policy, or a stricter one. NULL and errno. */
struct context *context_open(struct device *device, enum weft_policy policy);

/* A reference for an object that uses the context: programs may close the context first. */
void context_get(struct ibv_context *context);
void context_put(struct ibv_context *context);
