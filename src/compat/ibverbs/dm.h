/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory. */
#pragma once

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "compat/ibverbs/import.h"

/* Device memory that can be allocated in one piece. */
#define DM_BYTES_MAX ((size_t)64 << 20)

struct dm {
	struct ibv_dm ibv;
	struct offer offer;
	struct dm *owner; /* of an import: the device memory it stands for; else NULL */
	uint8_t *memory;
	size_t length;
	atomic_uint users; /* regions, imports */
};

/* Functions in the table of a context. */
struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int free_dm(struct ibv_dm *dm);
struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			 unsigned int access);
