/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions and windows. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "compat/ibverbs/import.h"

struct mr {
	struct ibv_mr ibv;
	struct offer offer;
	struct weft_pd *weft_pd;
	/* As registered. */
	void *memory;
	size_t length;
	uint64_t iova;
	unsigned int access;
	atomic_uint *device_memory; /* the user count of its device memory, or NULL */
	bool is_null;
};

struct mw {
	struct ibv_mw ibv;
	struct weft_pd *weft_pd;
	uint32_t tag; /* the first one: programs may overwrite the rkey */
};

/* Options to register ordinary memory, from the arguments of ibv_reg_mr(). 0 or errno. */
int region_options(void *addr, size_t length, uint64_t iova, unsigned int access,
		   struct weft_region_options *o);

/* The engine's rights for verbs access flags. 0, or EOPNOTSUPP: flags that it does not support. */
int rights_of(unsigned int access, uint32_t *rights);

/* The same for a queue pair, where only remote rights count. */
uint32_t qp_rights_of(unsigned int access);

/*
 * Registers the memory of a region again, over the same translation entries; either of them goes
 * without the other. NULL and errno.
 */
struct ibv_mr *mr_share(struct ibv_pd *pd, struct ibv_mr *of, uint64_t iova, unsigned int access,
			bool is_one_touch);

/* Functions in the table of a context. */
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *list, uint32_t count);
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw *mw);
