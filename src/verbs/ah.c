/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/ah.h"

#include <stdlib.h>

#include "wire/iba_frame.h"

enum { FLOW_LABEL_MAX = 0xfffff };

/* Through a fabric with GIDs or without, through an IP network with addresses. */
bool path_has_ends(const struct weft_path *path)
{
	uint8_t other = path->to_lid != 0 ? 0 : 4;

	return (path->from.family == 6 || path->from.family == other) &&
	       path->from.family == path->to.family && path->to_lid <= UINT16_MAX &&
	       path->from_lid <= UINT16_MAX && path->service_level < IBA_LANES;
}

static bool path_is_good(const struct weft_path *path)
{
	return path_has_ends(path) && path->flow_label <= FLOW_LABEL_MAX;
}

enum weft_reason ah_create(struct weft_pd *pd, const struct weft_path *path, struct weft_ah **ah)
{
	struct weft_ah *h;

	if (!path_is_good(path))
		return WEFT_R_BAD_ARGUMENT;
	h = calloc(1, sizeof(*h));
	if (!h)
		return WEFT_R_NO_MEMORY;
	h->number = id_table_add(&pd->adapter->ahs, h);
	if (h->number == 0) {
		free(h);
		return WEFT_R_LIMIT;
	}
	h->pd = pd;
	h->path = *path;
	pd->users++;
	*ah = h;
	return WEFT_OK;
}

void ah_destroy(struct weft_ah *ah)
{
	id_table_remove(&ah->pd->adapter->ahs, ah->number);
	ah->pd->users--;
	free(ah);
}
