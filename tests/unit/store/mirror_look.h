/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests see of a mirror that nothing else needs. */
#pragma once

#include "store/mirror_inside.h"

/* False: after a crash or a failed write members may differ in some region, for now. */
static inline bool mirror_is_equal(const struct store *mirror)
{
	return region_none(&CONTAINER_OF(mirror, struct mirror_store, store)->sync.unequal);
}
