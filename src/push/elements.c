/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "push/link_inside.h"

uint32_t elements_add(struct push_elements *e, uint32_t count, uint8_t state)
{
	uint32_t base = e->used;

	CHECK(count <= e->max - e->used);
	memset(e->states + base, state, count);
	e->used += count;
	return base;
}

/* What is behind it moves up: the caller lowers the bases of those pools. */
void elements_remove(struct push_elements *e, uint32_t base, uint32_t count)
{
	uint32_t behind = base + count;

	memmove(e->states + base, e->states + behind, (e->used - behind) * sizeof(*e->states));
	memmove(e->queue + base, e->queue + behind, (e->used - behind) * sizeof(*e->queue));
	e->used -= count;
}
