/* SPDX-License-Identifier: BSD-2-Clause */
#include "store/store.h"

#include <stdlib.h>

struct delay_store {
	struct store store;
	struct store *below;
	uint64_t delay_ns;
	struct list held; /* sorted by deadline: the delay is the same for all */
};

static struct delay_store *delay_of(struct store *s)
{
	return CONTAINER_OF(s, struct delay_store, store);
}

static struct store_request *first_held(const struct delay_store *d)
{
	return CONTAINER_OF(d->held.next, struct store_request, link);
}

static void delay_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct delay_store *d = delay_of(s);

	r->due_ns = now_ns > STORE_NEVER - d->delay_ns ? STORE_NEVER : now_ns + d->delay_ns;
	list_add_tail(&d->held, &r->link);
}

static struct store_request *delay_next_done(struct store *s, uint64_t now_ns)
{
	return store_next_done(delay_of(s)->below, now_ns);
}

static uint64_t delay_due(const struct store *s)
{
	const struct delay_store *d = CONTAINER_OF(s, struct delay_store, store);
	uint64_t below_ns = store_due(d->below);

	if (list_is_empty(&d->held))
		return below_ns;
	return first_held(d)->due_ns < below_ns ? first_held(d)->due_ns : below_ns;
}

static void delay_expire(struct store *s, uint64_t now_ns)
{
	struct delay_store *d = delay_of(s);

	while (!list_is_empty(&d->held) && first_held(d)->due_ns <= now_ns) {
		struct store_request *r = first_held(d);

		list_remove(&r->link);
		/* The device below has the same shape, so it accepts the request too. */
		CHECK(store_submit(d->below, r, now_ns) == WEFT_OK);
	}
	store_expire(d->below, now_ns);
}

static bool delay_event(struct store *s, struct store_event *event)
{
	return store_event(delay_of(s)->below, event);
}

static void delay_destroy(struct store *s)
{
	free(delay_of(s));
}

static const struct store_calls delay_calls = {
	.submit = delay_submit,
	.next_done = delay_next_done,
	.due = delay_due,
	.expire = delay_expire,
	.memory = store_no_memory,
	.event = delay_event,
	.destroy = delay_destroy,
};

enum weft_reason delay_store_create(struct store *below, uint64_t delay_ns, struct store **out)
{
	struct delay_store *d = malloc(sizeof(*d));

	if (!d)
		return WEFT_R_NO_MEMORY;
	*d = (struct delay_store){ .store = { .calls = &delay_calls, .shape = below->shape },
				   .below = below,
				   .delay_ns = delay_ns };
	list_init(&d->held);
	*out = &d->store;
	return WEFT_OK;
}
