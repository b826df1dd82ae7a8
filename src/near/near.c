/* SPDX-License-Identifier: BSD-2-Clause */
#include "near/near.h"

#include <stdlib.h>

#include "near/near_parts.h"

struct near *near_create(const struct near_options *options)
{
	struct near *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->options = *options;
	n->system = options->system;
	list_init(&n->ins);
	list_init(&n->touched);
	list_init(&n->blocked);
	near_direct_open(n);
	return n;
}

void near_destroy(struct near *n)
{
	while (!list_is_empty(&n->ins)) {
		struct near_in *i = CONTAINER_OF(n->ins.next, struct near_in, listed);

		if (!n->is_forsaken && i->link)
			near_say(n, i->link, NEAR_LEFT);
		near_in_close(i);
	}
	for (uint32_t i = 1; i <= NEAR_SLOTS_MAX; i++) {
		if (n->outs[i])
			near_out_close(n->outs[i], NEAR_LEFT);
	}
	near_direct_close(n);
	free(n);
}

void *near_owner(const struct near *n)
{
	return n->options.owner;
}

/* Rings and boards are not mapped in a child. */
void near_forsake(struct near *n)
{
	n->is_forsaken = true;
	near_direct_close(n);
	for (struct list *at = n->ins.next; at != &n->ins; at = at->next) {
		struct near_in *i = CONTAINER_OF(at, struct near_in, listed);

		near_link_close(n, &i->link);
		i->ring.head = NULL;
	}
	for (uint32_t i = 1; i <= NEAR_SLOTS_MAX; i++) {
		if (n->outs[i]) {
			near_link_close(n, &n->outs[i]->link);
			n->outs[i]->ring.head = NULL;
			n->outs[i]->seen = (struct near_seen){ 0 };
		}
	}
}

void near_say(struct near *n, struct near_link *link, enum near_kind kind)
{
	const struct near_message m = { .kind = kind,
					.adapter_slot = n->options.adapter_slot,
					.adapter_id = n->options.adapter_id,
					.descriptors = { -1, -1 } };

	n->counts.wakes += kind == NEAR_WAKE;
	(void)n->system->send(link, &m);
}

void near_link_close(struct near *n, struct near_link **link)
{
	if (*link)
		n->system->close(*link);
	*link = NULL;
}

void near_refuse(struct near *n, struct near_link *link, bool is_foreign)
{
	if (is_foreign)
		n->counts.sent_away++;
	else
		n->counts.refused++;
	near_say(n, link, NEAR_REFUSED);
	n->system->close(link);
}

const struct near_counts *near_counts(const struct near *n)
{
	return &n->counts;
}
