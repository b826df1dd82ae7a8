/* SPDX-License-Identifier: BSD-2-Clause */
#include "rio/owner.h"

#include <sodium/utils.h>
#include <stdlib.h>

#include "rio/owner_parts.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static bool config_is_good(const struct rio_owner_config *c)
{
	return !platform_is_none(c->self) && c->requesters_max > 0 && c->iounits_max > 0 &&
	       c->requests_max > 0 && c->lists_max > 0 && c->lists && c->timeout_ns > 0 &&
	       c->iounits_max <= OWNER_PLACES_MAX &&
	       c->requests_max <= UINT32_MAX / c->requesters_max;
}

static bool slots_create(struct rio_owner *o)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	const struct rio_owner_config *c = &o->config;
	uint32_t requests = c->requesters_max * c->requests_max;

	/* There are never more commands than requests. */
	o->commands_each = requests < OWNER_COMMANDS_MAX ? requests : OWNER_COMMANDS_MAX;
	o->requesters = calloc(c->requesters_max, sizeof(*o->requesters));
	o->units = calloc(c->iounits_max, sizeof(*o->units));
	o->pairs = calloc((size_t)c->requesters_max * c->iounits_max, sizeof(*o->pairs));
	o->requests = calloc(requests, sizeof(*o->requests));
	o->request_lists = calloc(requests, RIO_REQUEST_LIST_MAX);
	o->commands = calloc((size_t)c->iounits_max * o->commands_each, sizeof(*o->commands));
	o->devices = calloc((size_t)c->iounits_max * OWNER_DEVICES_MAX, sizeof(*o->devices));
	o->slots = calloc(c->lists_max, sizeof(*o->slots));
	o->scratch = rio_list_create(&limits);
	if (!o->requesters || !o->units || !o->pairs || !o->requests || !o->request_lists ||
	    !o->commands || !o->devices || !o->slots || !o->scratch ||
	    timer_queue_init(&o->timers, requests) < 0 ||
	    timer_queue_init(&o->fetch_timers, c->lists_max) < 0)
		return false;
	for (uint32_t i = 0; i < c->lists_max; i++) {
		o->slots[i].parts = rio_list_create(&limits);
		if (!o->slots[i].parts)
			return false;
	}
	return true;
}

static void peer_init(struct owner_peer *p, uint32_t number)
{
	p->number = number;
	list_init(&p->notable.link);
	list_init(&p->pong_link);
	list_init(&p->away_link);
}

static void requester_init(struct rio_owner *o, uint32_t i)
{
	struct owner_requester *q = &o->requesters[i];
	size_t first = (size_t)i * o->config.requests_max;

	peer_init(&q->peer, i);
	list_init(&q->free_requests);
	list_init(&q->wanting);
	list_init(&q->hungry_link);
	list_init(&q->inquiry_link);
	q->requests = &o->requests[first];
	for (size_t k = 0; k < o->config.requests_max; k++) {
		struct owner_request *r = &q->requests[k];

		r->notable.is_request = true;
		list_init(&r->notable.link);
		r->list = o->request_lists + (first + k) * RIO_REQUEST_LIST_MAX;
		r->requester = q;
		list_add_tail(&q->free_requests, &r->link);
	}
	for (uint32_t k = 0; k < o->config.iounits_max; k++) {
		struct owner_pair *p = owner_pair_of(o, q, &o->units[k]);

		p->requester = q;
		p->unit = &o->units[k];
		list_init(&p->meet_link);
		list_init(&p->part_link);
		list_init(&p->waiting);
		list_init(&p->ready_link);
	}
}

static void unit_init(struct rio_owner *o, uint32_t i)
{
	struct owner_unit *u = &o->units[i];

	peer_init(&u->peer, o->config.requesters_max + i);
	list_init(&u->free_commands);
	list_init(&u->ready);
	list_init(&u->ready_link);
	u->last_count = UINT32_MAX;
	u->devices = o->devices + (size_t)i * OWNER_DEVICES_MAX;
	u->commands = o->commands + (size_t)i * o->commands_each;
	for (uint32_t k = 0; k < o->commands_each; k++) {
		u->commands[k].unit = u;
		list_add_tail(&u->free_commands, &u->commands[k].link);
	}
}

static void lists_init(struct rio_owner *o)
{
	struct list *const heads[] = { &o->free_slots, &o->hungry,  &o->noting, &o->away,
				       &o->parting,    &o->meeting, &o->pongs,	&o->cancels,
				       &o->saying,     &o->telling, &o->ready,	&o->to_fetch,
				       &o->inquiries,  &o->to_close };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		list_init(heads[i]);
	for (uint32_t i = 0; i < o->config.requesters_max; i++)
		requester_init(o, i);
	for (uint32_t i = 0; i < o->config.iounits_max; i++)
		unit_init(o, i);
	for (uint32_t i = 0; i < o->config.lists_max; i++) {
		o->slots[i].bytes = o->config.lists + (size_t)i * RIO_LIST_BYTES_MAX;
		list_add_tail(&o->free_slots, &o->slots[i].link);
	}
}

enum weft_reason rio_owner_create(const struct rio_owner_config *config,
				  const struct rio_policy *policy, struct rio_owner **owner)
{
	struct rio_owner *o;

	if (!config_is_good(config))
		return WEFT_R_BAD_ARGUMENT;
	o = calloc(1, sizeof(*o));
	if (!o)
		return WEFT_R_NO_MEMORY;
	o->config = *config;
	o->policy = policy;
	if (!slots_create(o)) {
		rio_owner_destroy(o);
		return WEFT_R_NO_MEMORY;
	}
	lists_init(o);
	*owner = o;
	return WEFT_OK;
}

void rio_owner_destroy(struct rio_owner *o)
{
	for (uint32_t i = 0; o->slots && i < o->config.lists_max; i++)
		rio_list_destroy(o->slots[i].parts);
	for (uint32_t i = 0; o->requesters && i < o->config.requesters_max; i++)
		sodium_memzero(&o->requesters[i].peer.session, sizeof(struct rio_session));
	for (uint32_t i = 0; o->units && i < o->config.iounits_max; i++)
		sodium_memzero(&o->units[i].peer.session, sizeof(struct rio_session));
	rio_list_destroy(o->scratch);
	timer_queue_fini(&o->timers);
	timer_queue_fini(&o->fetch_timers);
	free(o->requesters);
	free(o->units);
	free(o->pairs);
	free(o->requests);
	free(o->request_lists);
	free(o->commands);
	free(o->devices);
	free(o->slots);
	sodium_memzero(o, sizeof(*o));
	free(o);
}

/* ---- What has come -------------------------------------------------------------------------- */

/* One PONG answers all PINGs. */
static void take_ping(struct rio_owner *o, struct owner_peer *p, uint64_t id)
{
	p->pong_id = id;
	if (!list_is_linked(&p->pong_link))
		list_add_tail(&o->pongs, &p->pong_link);
}

static enum weft_reason take_of_requester(struct rio_owner *o, struct owner_requester *q,
					  const struct rio_msg *m)
{
	switch (m->type) {
	case RIO_REQUEST:
		return owner_request_take(o, q, m);
	case RIO_CANCEL:
		owner_request_cancel(o, q, m->id);
		return WEFT_OK;
	case RIO_PING:
		take_ping(o, &q->peer, m->id);
		return WEFT_OK;
	case RIO_INQUIRE:
		owner_inquire_take(o, q, m);
		return WEFT_OK;
	default:
		return WEFT_R_RIO_UNEXPECTED;
	}
}

static enum weft_reason take_of_unit(struct rio_owner *o, struct owner_unit *u,
				     const struct rio_msg *m)
{
	switch (m->type) {
	case RIO_DEVICES:
		return owner_devices_take(o, u, &m->devices);
	case RIO_STATUS:
		return owner_status_take(o, u, m);
	case RIO_NOTIFIED:
		return owner_notified_take(o, u, &m->notified);
	case RIO_PING:
		take_ping(o, &u->peer, m->id);
		return WEFT_OK;
	default:
		return WEFT_R_RIO_UNEXPECTED;
	}
}

enum weft_reason rio_owner_take(struct rio_owner *o, uint32_t number, const uint8_t *bytes,
				size_t length, uint64_t now_ns)
{
	bool is_requester = number < o->config.requesters_max;
	uint32_t place = number - o->config.requesters_max;
	struct owner_peer *p = is_requester ? &o->requesters[number].peer : &o->units[place].peer;
	enum weft_reason r;
	struct rio_msg m;

	CHECK(p->state == PEER_HERE);
	o->now_ns = now_ns;
	if (p->is_refused)
		return WEFT_R_RIO_UNEXPECTED;
	r = rio_session_open(&p->session, bytes, length, &m);
	if (r == WEFT_OK && is_requester)
		r = take_of_requester(o, &o->requesters[number], &m);
	else if (r == WEFT_OK)
		r = take_of_unit(o, &o->units[place], &m);
	p->is_refused = r != WEFT_OK;
	return r;
}

static void request_late(struct rio_owner *o, struct owner_request *r)
{
	if (r->state == REQUEST_COMMANDED)
		owner_command_cancel(o, r->command);
	owner_request_fail(o, r, WEFT_R_RIO_TIMEOUT);
}

/* A requester whose memory cannot be read in time holds a slot that others may need: drop it. */
static void fetch_late(struct rio_owner *o, const struct owner_slot *s)
{
	if (s->requester && !list_is_linked(&s->requester->peer.away_link))
		list_add_tail(&o->away, &s->requester->peer.away_link);
}

void rio_owner_expire(struct rio_owner *o, uint64_t now_ns)
{
	struct timer *t;

	o->now_ns = now_ns;
	while ((t = timer_queue_expire(&o->timers, now_ns)) != NULL)
		request_late(o, CONTAINER_OF(t, struct owner_request, timer));
	while ((t = timer_queue_expire(&o->fetch_timers, now_ns)) != NULL)
		fetch_late(o, CONTAINER_OF(t, struct owner_slot, timer));
}

uint64_t rio_owner_due(const struct rio_owner *o)
{
	uint64_t due = timer_queue_due(&o->timers), fetch_due = timer_queue_due(&o->fetch_timers);

	if (!list_is_empty(&o->telling) && o->telling_ns < due)
		due = o->telling_ns;
	return fetch_due < due ? fetch_due : due;
}

/* ---- What is to be done --------------------------------------------------------------------- */

void owner_say(struct rio_owner *o, struct owner_peer *p, const struct rio_msg *m,
	       struct rio_owner_act *act)
{
	*act = (struct rio_owner_act){
		.kind = RIO_OWNER_SAY,
		.number = p->number,
		.bytes = o->message,
		.length = rio_session_close(&p->session, m, o->message, sizeof(o->message)),
	};
	CHECK(act->length > 0);
}

void owner_note(struct rio_owner *o, struct owner_notable *n)
{
	if (!list_is_linked(&n->link))
		list_add_tail(&o->noting, &n->link);
}

static void note_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_notable *n = CONTAINER_OF(o->noting.next, struct owner_notable, link);

	*act = (struct rio_owner_act){ .kind = RIO_OWNER_NOTE };
	if (n->is_request)
		owner_request_note(o, CONTAINER_OF(n, struct owner_request, notable), &act->note);
	else
		owner_peer_note(o, CONTAINER_OF(n, struct owner_peer, notable), &act->note);
}

static void away_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_peer *p = CONTAINER_OF(list_pop(&o->away), struct owner_peer, away_link);

	p->is_refused = true;
	*act = (struct rio_owner_act){ .kind = RIO_OWNER_SEND_AWAY, .number = p->number };
}

static void pong_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_peer *p = CONTAINER_OF(list_pop(&o->pongs), struct owner_peer, pong_link);

	owner_say(o, p, &(struct rio_msg){ .type = RIO_PONG, .id = p->pong_id }, act);
}

/*
 * Decisions are logged before they take effect. Grants and announcements go out before commands and
 * statuses that depend on them.
 */
bool rio_owner_act(struct rio_owner *o, struct rio_owner_act *act)
{
	static const struct {
		size_t due; /* a struct list, in struct rio_owner */
		void (*act)(struct rio_owner *o, struct rio_owner_act *act);
	} acts[] = {
		{ offsetof(struct rio_owner, to_close), owner_close_act },
		{ offsetof(struct rio_owner, noting), note_act },
		{ offsetof(struct rio_owner, away), away_act },
		{ offsetof(struct rio_owner, parting), owner_part_act },
		{ offsetof(struct rio_owner, meeting), owner_meet_act },
		{ offsetof(struct rio_owner, pongs), pong_act },
		{ offsetof(struct rio_owner, cancels), owner_cancel_act },
		{ offsetof(struct rio_owner, saying), owner_status_act },
		{ offsetof(struct rio_owner, ready), owner_command_act },
		{ offsetof(struct rio_owner, to_fetch), owner_fetch_act },
		{ offsetof(struct rio_owner, telling), owner_notify_act },
		{ offsetof(struct rio_owner, inquiries), owner_inquire_act },
	};

	CHECK(!o->exposing);
	owner_close_done(o);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		const struct list *due = (const void *)((const uint8_t *)o + acts[i].due);

		if (list_is_empty(due) || (due == &o->telling && o->telling_ns > o->now_ns))
			continue;
		acts[i].act(o, act);
		return true;
	}
	return false;
}
