/* SPDX-License-Identifier: BSD-2-Clause */
/* Direct verbs: whether an object is weft's, or another provider's; its context tells. */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>

#include "compat/ibverbs/memory.h"

static inline bool is_ours(const struct ibv_context *context)
{
	return context && context->ops.alloc_mw == alloc_mw;
}

static inline bool is_our_qp(const struct ibv_qp *qp)
{
	return qp && is_ours(qp->context);
}
