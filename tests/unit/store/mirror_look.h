/* SPDX-License-Identifier: BSD-2-Clause */
/* What tests see of a mirror that nothing else needs. */
#pragma once

#include "store/mirror_inside.h"

/* False: after a crash or a failed write members may differ in some region, for now. */
static inline bool mirror_is_equal(const struct store *mirror)
{
	return region_none(&CONTAINER_OF(mirror, struct mirror_store, store)->sync.unequal);
}

/* Bit n is set if member n does not have all the data. */
static inline uint32_t mirror_out(const struct store *mirror)
{
	const struct mirror_store *mi = CONTAINER_OF(mirror, struct mirror_store, store);

	return (set_of(mi->joint.count) - 1) & ~mi->current;
}
