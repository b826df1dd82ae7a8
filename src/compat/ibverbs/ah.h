/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles. */
#pragma once

#include <infiniband/verbs.h>

#include <weft/roce.h>

#include "base/check.h"

enum { HANDLES_MAX = 1 << 14 };

struct ah {
	struct ibv_ah ibv;
	struct weft_ah *weft;
};

static inline struct ah *ah_of(struct ibv_ah *a)
{
	return CONTAINER_OF(a, struct ah, ibv);
}
