/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, parent domains and thread domains; the memory of objects made with them. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weft/weft.h>

#include "base/check.h"
#include "compat/ibverbs/import.h"

struct td {
	struct ibv_td ibv;
	atomic_uint users; /* parent domains */
};

struct pd {
	struct ibv_pd ibv;
	struct offer offer;
	struct weft_pd *weft;
	struct pd *parent; /* of a parent domain or an import: the domain it stands for */
	bool is_import;	   /* counts as a user of the parent until it is unimported */
	struct td *td;	   /* of a parent domain, or NULL */
	/* Of a parent domain: the program's allocator for the memory of queues; or NULL. */
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
		       uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *memory, uint64_t resource_type);
	void *pd_context;
	atomic_uint users; /* objects made with it, including parent domains */
};

static inline struct pd *pd_of(struct ibv_pd *p)
{
	return CONTAINER_OF(p, struct pd, ibv);
}

/* A reference for an object that was made with the domain. */
static inline void pd_get(struct ibv_pd *p)
{
	atomic_fetch_add(&pd_of(p)->users, 1);
}

void pd_put(struct ibv_pd *p);

/* Resource types that the program's allocator is given. */
enum pd_resource { PD_CQ = 1, PD_SRQ, PD_QP, PD_SEND_QUEUE };

/* Memory of an object, or of a part of it. */
struct pd_memory {
	void *bytes;	  /* zeroed, aligned for any type; NULL: none */
	bool is_programs; /* from the program's allocator */
};

/* From the allocator of the domain; pd NULL: ours. False: out of memory. */
bool pd_memory_take(struct ibv_pd *pd, size_t size, enum pd_resource what, struct pd_memory *m);
void pd_memory_give(struct ibv_pd *pd, enum pd_resource what, const struct pd_memory *m);

/* The protection domain that a parent domain or an import stands for; else itself. */
static inline struct pd *pd_real(struct ibv_pd *p)
{
	struct pd *pd = pd_of(p);

	return pd->parent ? pd->parent : pd;
}

/* NULL and errno. */
struct ibv_pd *pd_open(struct ibv_context *context, const struct weft_pd_options *options);

/* A domain that stands for `real`, in this context or another one. NULL and errno. */
struct pd *pd_stand_for(struct ibv_context *context, struct pd *real);

/* Functions in the table of a context. */
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int dealloc_td(struct ibv_td *td);
struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr);
