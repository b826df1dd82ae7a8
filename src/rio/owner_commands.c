/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of commands at an I/O unit: requesters take turns, and the requests of one requester
 * keep their order. One requester never occupies all command slots of a unit that has more than
 * one.
 *
 * When a request ends before its command (timed out, cancelled, or its requester left), the owner
 * sends CANCEL to the unit before any later command; the unit then keeps later commands from
 * overtaking the cancelled one (docs/rio.md, "What a write promises").
 */
#include "rio/owner_parts.h"

enum { MS_NS = 1000 * 1000 };

/* ---- Turns ---------------------------------------------------------------------------------- */

static void unit_update(struct rio_owner *o, struct owner_unit *u)
{
	if (u->peer.state != PEER_HERE || list_is_empty(&u->ready) ||
	    u->peer.is.now >= u->commands_max)
		list_remove(&u->ready_link);
	else if (!list_is_linked(&u->ready_link))
		list_add_tail(&o->ready, &u->ready_link);
}

void owner_turn_update(struct rio_owner *o, struct owner_pair *p)
{
	if (list_is_empty(&p->waiting) || p->commands >= owner_share(o, p->unit->commands_max))
		list_remove(&p->ready_link);
	else if (!list_is_linked(&p->ready_link))
		list_add_tail(&p->unit->ready, &p->ready_link);
	unit_update(o, p->unit);
}

void owner_turn_wait(struct rio_owner *o, struct owner_request *r)
{
	list_add_tail(&r->pair->waiting, &r->link);
	owner_turn_update(o, r->pair);
}

/* ---- Commands ------------------------------------------------------------------------------- */

/*
 * Serial numbers are never reused, so neither are command ids; id modulo commands_each is the slot.
 */
static struct owner_command *command_begin(struct rio_owner *o, struct owner_request *r)
{
	struct owner_unit *u = r->pair->unit;
	struct owner_command *c = CONTAINER_OF(list_pop(&u->free_commands), struct owner_command,
					       link);

	c->id = ++o->serial * o->commands_each + (uint64_t)(c - u->commands);
	c->pair = r->pair;
	c->request = r;
	c->slot = r->slot;
	c->is_cancelled = false;
	c->pair->commands++;
	u->peer.is.now++;
	u->peer.is.requests++;
	r->command = c;
	r->state = REQUEST_COMMANDED;
	return c;
}

/* The request's remaining time, at least 1 ms: 0 would mean no timeout. */
static uint32_t left_ms(const struct rio_owner *o, const struct owner_request *r)
{
	uint64_t at = r->timer.deadline_ns;
	uint64_t left = at > o->now_ns ? (at - o->now_ns - 1) / MS_NS + 1 : 1;

	return left > UINT32_MAX ? UINT32_MAX : (uint32_t)left;
}

void owner_command_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_unit *u = CONTAINER_OF(o->ready.next, struct owner_unit, ready_link);
	struct owner_pair *p = CONTAINER_OF(u->ready.next, struct owner_pair, ready_link);
	struct owner_request *r = CONTAINER_OF(p->waiting.next, struct owner_request, link);
	const struct owner_command *c;

	if (r->slot && !r->slot->is_exposed) {
		owner_expose_act(o, r, act);
		return;
	}
	list_remove(&u->ready_link);
	list_remove(&p->ready_link);
	list_remove(&r->link);
	c = command_begin(o, r);
	owner_turn_update(o, p);
	owner_say(o, &u->peer,
		  &(struct rio_msg){ .type = RIO_COMMAND,
				     .id = c->id,
				     .request = { .requester = r->requester->peer.is.platform,
						  .asked = r->id,
						  .is_urgent = owner_is_short(o, r->requester),
						  .timeout_ms = left_ms(o, r),
						  .list = { r->list, r->list_bytes } } },
		  act);
}

void owner_command_cancel(struct rio_owner *o, struct owner_command *c)
{
	if (c->is_cancelled)
		return;
	c->is_cancelled = true;
	list_add_tail(&o->cancels, &c->link);
}

void owner_cancel_act(struct rio_owner *o, struct rio_owner_act *act)
{
	const struct owner_command *c = CONTAINER_OF(list_pop(&o->cancels), struct owner_command,
						     link);

	owner_say(o, &c->unit->peer, &(struct rio_msg){ .type = RIO_CANCEL, .id = c->id }, act);
}

void owner_commands_orphan(struct rio_owner *o, struct owner_pair *p)
{
	for (uint32_t i = 0; i < o->commands_each; i++) {
		struct owner_command *c = &p->unit->commands[i];

		if (c->pair == p)
			c->pair = NULL;
	}
	p->commands = 0;
}

void owner_command_free(struct rio_owner *o, struct owner_command *c)
{
	struct owner_pair *p = c->pair;

	CHECK(!c->request);
	c->id = 0;
	c->pair = NULL;
	list_remove(&c->link);
	list_push(&c->unit->free_commands, &c->link);
	c->unit->peer.is.now--;
	if (p) {
		p->commands--;
		owner_turn_update(o, p);
	}
	unit_update(o, c->unit);
	if (c->slot)
		owner_slot_free(o, c->slot);
	c->slot = NULL;
}

/* RIO-02i. If the request has ended, the status only frees the command slot. */
enum weft_reason owner_status_take(struct rio_owner *o, struct owner_unit *u,
				   const struct rio_msg *m)
{
	struct owner_command *c = &u->commands[m->id % o->commands_each];

	if (m->id == 0 || c->id != m->id)
		return WEFT_R_RIO_UNEXPECTED;
	if (m->status.reason != 0)
		u->peer.is.failed++;
	if (c->request)
		owner_request_end(o, c->request, &m->status);
	owner_command_free(o, c);
	return WEFT_OK;
}

/* A batch of commands that succeeded; the I/O unit has told their requesters. */
enum weft_reason owner_notified_take(struct rio_owner *o, struct owner_unit *u,
				     const struct rio_notified *notified)
{
	struct rd at = rd_of(notified->entries.bytes, notified->entries.length);

	for (uint32_t i = 0; i < notified->count; i++) {
		const struct rio_notified_entry e = rio_notified_next(&at);
		struct owner_command *c = &u->commands[e.id % o->commands_each];

		if (e.id == 0 || c->id != e.id)
			return WEFT_R_RIO_UNEXPECTED;
		if (c->request) {
			c->request->is_notified = true;
			owner_request_end(o, c->request,
					  &(struct rio_status){ .done_bytes = e.done_bytes });
		}
		owner_command_free(o, c);
	}
	return WEFT_OK;
}
