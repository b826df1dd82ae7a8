/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: the path of a datagram to its destination. */
#pragma once

#include <weft/roce.h>

#include "verbs/pd.h"

struct weft_ah {
	struct weft_pd *pd;
	uint32_t number;
	struct weft_path path;
	bool is_on_host; /* both ends of the path are this host; its maker sets it */
};

/* Whether both ends of a path are named, in one of the forms that there are. */
bool path_has_ends(const struct weft_path *path);

enum weft_reason ah_create(struct weft_pd *pd, const struct weft_path *path, struct weft_ah **ah);
void ah_destroy(struct weft_ah *ah);

/* NULL: it was destroyed. */
static inline const struct weft_ah *ah_find(const struct adapter *a, uint32_t number)
{
	return id_table_find(&a->ahs, number);
}
