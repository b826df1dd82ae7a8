/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists that do not fit into one message. A list fetched from a requester goes into a slot, part by
 * part. A list passed on to an I/O unit stays in a slot until its command ends, and the unit can
 * read it for that time. Requesters take turns for slots and none may hold them all. Each fetches
 * one list at a time, so a requester that does not respond delays only itself.
 */
#include "base/deadline.h"
#include "rio/owner_parts.h"

static struct owner_request *first_wanting(const struct owner_requester *q)
{
	return CONTAINER_OF(q->wanting.next, struct owner_request, link);
}

static bool is_hungry(const struct rio_owner *o, const struct owner_requester *q)
{
	if (q->peer.state != PEER_HERE || list_is_empty(&q->wanting) ||
	    q->slots >= owner_share(o, o->config.lists_max))
		return false;
	return first_wanting(q)->state != REQUEST_FETCHING || !q->fetch;
}

static void hunger_update(struct rio_owner *o, struct owner_requester *q)
{
	if (!is_hungry(o, q))
		list_remove(&q->hungry_link);
	else if (!list_is_linked(&q->hungry_link))
		list_add_tail(&o->hungry, &q->hungry_link);
}

/* Fetches the next part of the list. It must lie in the requester's own memory. */
static enum weft_reason fetch_next(struct rio_owner *o, struct owner_slot *s)
{
	CHECK(rio_list_wants(s->parts, &s->chain) && s->chain.length <= RIO_LIST_BYTES_MAX);
	if (!platform_is_same(s->chain.platform, s->requester->peer.is.platform))
		return WEFT_R_RIO_CHAIN;
	s->state = SLOT_WANTED;
	list_add_tail(&o->to_fetch, &s->link);
	return WEFT_OK;
}

/* The first part was checked when it came; taking it again cannot fail. */
static void fetch_begin(struct rio_owner *o, struct owner_slot *s, struct owner_request *r)
{
	s->request = r;
	s->requester->fetch = s;
	rio_list_clear(s->parts);
	CHECK(rio_list_take(s->parts, r->list, r->list_bytes) == WEFT_OK);
	CHECK(fetch_next(o, s) == WEFT_OK);
}

static void give(struct rio_owner *o, struct owner_requester *q)
{
	struct owner_request *r = CONTAINER_OF(list_pop(&q->wanting), struct owner_request, link);
	struct owner_slot *s = CONTAINER_OF(list_pop(&o->free_slots), struct owner_slot, link);

	s->state = SLOT_HELD;
	s->requester = q;
	q->slots++;
	r->slot = s;
	if (r->state == REQUEST_FETCHING)
		fetch_begin(o, s, r);
	else
		owner_request_chain(o, r);
	hunger_update(o, q);
}

/* Bound: each iteration hands out a slot. */
void owner_slots_turn(struct rio_owner *o, struct owner_requester *q)
{
	if (q)
		hunger_update(o, q);
	while (!list_is_empty(&o->hungry) && !list_is_empty(&o->free_slots)) {
		struct owner_requester *next = CONTAINER_OF(list_pop(&o->hungry),
							    struct owner_requester, hungry_link);

		give(o, next);
	}
}

void owner_slot_free(struct rio_owner *o, struct owner_slot *s)
{
	struct owner_requester *q = s->requester;

	if (s->is_exposed) { /* the unit can still read it: close the window before reuse */
		s->state = SLOT_CLOSING;
		list_add_tail(&o->to_close, &s->link);
		return;
	}
	timer_queue_cancel(&o->fetch_timers, &s->timer);
	if (q) {
		q->slots--;
		if (q->fetch == s)
			q->fetch = NULL;
	}
	s->state = SLOT_FREE;
	s->requester = NULL;
	s->request = NULL;
	list_remove(&s->link);
	list_push(&o->free_slots, &s->link);
	owner_slots_turn(o, q);
}

/* An RDMA Read in progress still needs the slot. */
void owner_slot_leave(struct rio_owner *o, struct owner_slot *s)
{
	s->request = NULL;
	if (s->state != SLOT_FETCHING)
		owner_slot_free(o, s);
}

void owner_slots_forget(struct rio_owner *o, const struct owner_requester *q)
{
	for (uint32_t i = 0; i < o->config.lists_max; i++) {
		if (o->slots[i].requester == q)
			o->slots[i].requester = NULL;
	}
}

/* The list is complete, needs another part, or is refused. */
static void fetched(struct rio_owner *o, struct owner_slot *s, enum weft_reason reason)
{
	struct owner_request *r = s->request;

	if (reason == WEFT_OK)
		reason = rio_list_take(s->parts, s->bytes, s->chain.length);
	if (reason == WEFT_OK && !rio_list_is_whole(s->parts))
		reason = fetch_next(o, s);
	if (reason != WEFT_OK) {
		owner_request_fail(o, r, reason);
	} else if (s->state == SLOT_HELD) {
		s->request = NULL;
		s->requester->fetch = NULL;
		owner_request_judge(o, r, s->parts);
	}
}

void rio_owner_fetched(struct rio_owner *o, uint32_t id, enum weft_reason reason)
{
	struct owner_slot *s = &o->slots[id];
	struct owner_requester *q = s->requester;

	CHECK(id < o->config.lists_max && s->state == SLOT_FETCHING);
	timer_queue_cancel(&o->fetch_timers, &s->timer);
	s->state = SLOT_HELD;
	if (s->request)
		fetched(o, s, reason);
	else
		owner_slot_free(o, s);
	owner_slots_turn(o, q);
}

void owner_fetch_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_slot *s = CONTAINER_OF(list_pop(&o->to_fetch), struct owner_slot, link);
	uint64_t late_ns = deadline_after(o->now_ns, o->config.timeout_ns);

	s->state = SLOT_FETCHING;
	timer_queue_set(&o->fetch_timers, &s->timer, late_ns);
	*act = (struct rio_owner_act){
		.kind = RIO_OWNER_FETCH,
		.number = s->requester->peer.number,
		.bytes = s->bytes,
		.length = s->chain.length,
		.id = (uint32_t)(s - o->slots),
		.handle = s->chain.handle,
		.remote = s->chain.address,
	};
}

/* ---- Who can read it ------------------------------------------------------------------------ */

void owner_expose_act(struct rio_owner *o, struct owner_request *r, struct rio_owner_act *act)
{
	const struct owner_slot *s = r->slot;

	o->exposing = r;
	*act = (struct rio_owner_act){
		.kind = RIO_OWNER_EXPOSE,
		.number = r->pair->unit->peer.number,
		.bytes = s->bytes,
		.length = s->length,
		.id = (uint32_t)(s - o->slots),
	};
}

void rio_owner_exposed(struct rio_owner *o, uint32_t id, enum weft_reason reason, uint32_t handle)
{
	struct owner_request *r = o->exposing;

	CHECK(r && r->slot == &o->slots[id]);
	o->exposing = NULL;
	if (reason != WEFT_OK) {
		owner_request_fail(o, r, reason);
		return;
	}
	r->slot->is_exposed = true;
	r->slot->handle = handle;
	owner_request_point(o, r);
}

void owner_close_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_slot *s = CONTAINER_OF(list_pop(&o->to_close), struct owner_slot, link);

	o->closed = s;
	*act = (struct rio_owner_act){ .kind = RIO_OWNER_CLOSE, .id = (uint32_t)(s - o->slots) };
}

void owner_close_done(struct rio_owner *o)
{
	struct owner_slot *s = o->closed;

	if (!s)
		return;
	o->closed = NULL;
	s->is_exposed = false;
	owner_slot_free(o, s);
}
