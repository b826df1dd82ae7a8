/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/pd.h"

#include <stdlib.h>

enum weft_reason pd_create(struct adapter *a, const struct weft_pd_options *options,
			   struct weft_pd **pd)
{
	struct weft_space *space = options->space ? options->space : &a->process;
	struct weft_pd *p;

	if (space->owner != a)
		return WEFT_R_BAD_ARGUMENT;
	if (space->is_virtual && !options->is_privileged)
		return WEFT_R_REG_VIRTUAL;
	/* VMM-04, SQR-07: privilege is the owner's to give. */
	if (options->is_privileged && options->authority != a->authority)
		return WEFT_R_NOT_OWNER;
	p = calloc(1, sizeof(*p));
	if (!p)
		return WEFT_R_NO_MEMORY;
	p->number = id_table_add(&a->pds, p);
	if (p->number == 0) {
		free(p);
		return WEFT_R_LIMIT;
	}
	p->adapter = a;
	p->space = space;
	p->is_privileged = options->is_privileged;
	space->users++;
	*pd = p;
	return WEFT_OK;
}

enum weft_reason pd_destroy(struct weft_pd *pd)
{
	struct adapter *a = pd->adapter;

	if (pd->users > 0 || mem_table_pd_tags(&a->mem, pd->number) > 0)
		return WEFT_R_BUSY;
	id_table_remove(&a->pds, pd->number);
	pd->space->users--;
	free(pd);
	return WEFT_OK;
}
