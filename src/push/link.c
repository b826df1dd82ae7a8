/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "push/link_inside.h"

enum { FRAME_HEADERS = PUSH_FRAME_MIN + 4 /* one VLAN tag */ };

static const char *const state_names[PUSH_STATES] = {
	[PUSH_DOWN] = "down",	  [PUSH_GREETING] = "greeting", [PUSH_OPEN] = "open",
	[PUSH_ENDING] = "ending", [PUSH_ENDED] = "ended",
};

static const uint32_t moves[PUSH_STATES] = {
	[PUSH_DOWN] = 1U << PUSH_GREETING | 1U << PUSH_ENDING,
	[PUSH_GREETING] = 1U << PUSH_OPEN | 1U << PUSH_ENDING,
	[PUSH_OPEN] = 1U << PUSH_ENDING,
	[PUSH_ENDING] = 1U << PUSH_ENDED,
};

const char *push_state_name(enum push_state state)
{
	return (unsigned int)state < PUSH_STATES ? state_names[state] : "unknown state";
}

enum push_state push_link_state(const struct push_link *l)
{
	return l->state;
}

void push_link_move(struct push_link *l, enum push_state to)
{
	CHECK(moves[l->state] & 1U << to);
	l->state = to;
}

/* ---- Life ----------------------------------------------------------------------------------- */

void push_config_init(struct push_config *c, enum push_role role, enum push_mode mode)
{
	static const uint8_t mac[PUSH_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };

	*c = (struct push_config){
		.hello = { .role = role,
			   .mode = mode,
			   .is_link_up = true,
			   .mtu = 1500,
			   .queues = 1,
			   .pools_max = 16,
			   .elements_max = 4096,
			   .message_bytes_max = PUSH_MSG_BYTES_MAX },
		.has_immediate = true,
		.own_pools_max = 16,
		.own_elements_max = 4096,
		.packets_max = 1024,
		.writes_max = 256,
		.sends_max = 16,
		.pulls_max = 1,
		.refusals_max = 1000,
		.answer_wait_ns = 500 * 1000 * 1000,
		.answer_tries = 6,
		.ping_after_ns = 2000 * 1000 * 1000,
		.get_again_ns = 1000 * 1000,
	};
	memcpy(c->hello.mac, mac, sizeof(mac));
}

/* The hello is one that the other end can decode. */
static bool hello_is_good(const struct push_hello *hello)
{
	const struct push_msg m = { .function = PUSH_CFG_REQUEST,
				    .cfg = { .kind = PUSH_HELLO, .hello = *hello } };
	uint8_t bytes[PUSH_MSG_BYTES_MAX];
	struct wr w = wr_of(bytes, sizeof(bytes));
	struct push_msg back;

	push_msg_encode(&m, &w);
	return !w.is_short && push_msg_decode(&back, bytes, (size_t)(w.at - bytes)) == WEFT_OK;
}

static bool config_is_good(const struct push_config *c)
{
	return hello_is_good(&c->hello) && c->packets_max > 0 && c->writes_max > 0 &&
	       c->sends_max >= 2 && c->messages && c->inline_bytes <= PUSH_INLINE_MAX &&
	       c->answer_wait_ns > 0 && c->answer_tries > 0 && c->ping_after_ns > 0 &&
	       c->get_again_ns > 0 && c->pulls_max > 0 &&
	       (c->own_pools_max == 0) == (c->own_elements_max == 0) &&
	       c->own_pools_max <= UINT32_MAX / 4 && c->hello.pools_max <= UINT32_MAX / 4;
}

static bool elements_init(struct push_elements *e, uint32_t max)
{
	e->max = max;
	e->states = calloc((size_t)max + 1, sizeof(*e->states));
	e->queue = calloc((size_t)max + 1, sizeof(*e->queue));
	return e->states && e->queue;
}

static bool parts_create(struct push_link *l)
{
	const struct push_config *c = &l->config;
	uint32_t peers = c->hello.pools_max;

	/* A request may be owed for each pool of either end. */
	l->replies_max = c->own_pools_max + peers + 1;
	l->own = calloc((size_t)c->own_pools_max + 1, sizeof(*l->own));
	l->full = calloc((size_t)c->own_elements_max + 1, sizeof(*l->full));
	l->peers = calloc((size_t)peers + 1, sizeof(*l->peers));
	l->order = calloc((size_t)peers + 1, sizeof(*l->order));
	l->untold = calloc((size_t)c->hello.elements_max + 1, sizeof(*l->untold));
	l->flushes = calloc((size_t)peers + 1, sizeof(*l->flushes));
	l->packets = calloc(c->packets_max, sizeof(*l->packets));
	l->uses = calloc(c->sends_max, sizeof(*l->uses));
	l->replies = calloc(l->replies_max, sizeof(*l->replies));
	return l->own && l->full && l->peers && l->order && l->untold && l->flushes && l->packets &&
	       l->uses && l->replies && elements_init(&l->own_elements, c->own_elements_max) &&
	       elements_init(&l->peer_elements, c->hello.elements_max);
}

enum weft_reason push_link_create(const struct push_config *c, struct push_link **out)
{
	struct push_link *l;

	if (!config_is_good(c))
		return WEFT_R_BAD_ARGUMENT;
	l = calloc(1, sizeof(*l));
	if (!l)
		return WEFT_R_NO_MEMORY;
	l->config = *c;
	if (!parts_create(l)) {
		push_link_destroy(l);
		return WEFT_R_NO_MEMORY;
	}
	list_init(&l->free_packets);
	list_init(&l->waiting);
	list_init(&l->over);
	for (uint32_t i = 0; i < c->packets_max; i++)
		list_add_tail(&l->free_packets, &l->packets[i].link);
	l->get_at_ns = UINT64_MAX;
	*out = l;
	return WEFT_OK;
}

void push_link_destroy(struct push_link *l)
{
	free(l->own);
	free(l->full);
	free(l->own_elements.states);
	free(l->own_elements.queue);
	free(l->peers);
	free(l->order);
	free(l->untold);
	free(l->peer_elements.states);
	free(l->peer_elements.queue);
	free(l->flushes);
	free(l->packets);
	free(l->uses);
	free(l->replies);
	free(l);
}

void push_up(struct push_link *l, uint64_t now_ns)
{
	CHECK(l->state == PUSH_DOWN);
	push_link_move(l, PUSH_GREETING);
	l->heard_ns = now_ns;
	cfg_greet(l);
}

void link_opened(struct push_link *l)
{
	push_link_move(l, PUSH_OPEN);
	l->is_opened = true;
	own_pools_opened(l);
}

/* Packets that wait are not sent any more. */
static void waiting_end(struct push_link *l, enum weft_reason reason)
{
	while (!list_is_empty(&l->waiting)) {
		struct push_out *o = CONTAINER_OF(list_pop(&l->waiting), struct push_out, link);

		o->reason = reason;
		list_add_tail(&l->over, &o->link);
	}
	l->waiting_count = 0;
	l->get_at_ns = UINT64_MAX;
}

void push_end(struct push_link *l, uint64_t now_ns)
{
	(void)now_ns;
	if (l->state == PUSH_DOWN || l->state == PUSH_GREETING) {
		push_lost(l, WEFT_OK);
		return;
	}
	if (l->state != PUSH_OPEN)
		return;
	push_link_move(l, PUSH_ENDING);
	waiting_end(l, WEFT_R_PUSH_FLUSHED);
	peer_pools_end(l);
	own_pools_end(l);
}

void push_lost(struct push_link *l, enum weft_reason reason)
{
	if (l->is_lost || l->state == PUSH_ENDED)
		return;
	if (l->state != PUSH_ENDING)
		push_link_move(l, PUSH_ENDING);
	l->is_lost = true;
	l->end_reason = reason;
	waiting_end(l, reason == WEFT_OK ? WEFT_R_PUSH_FLUSHED : reason);
	peer_pools_lost(l);
	own_pools_lost(l);
	for (int i = 0; i < ASKINGS; i++)
		l->asked[i].state = ASK_IDLE;
}

void link_break(struct push_link *l, enum weft_reason reason)
{
	if (l->is_lost || l->state == PUSH_ENDED)
		return;
	l->is_broken = true;
	push_lost(l, reason);
}

enum weft_reason link_refuse(struct push_link *l, enum weft_reason reason)
{
	l->counts.refused++;
	l->refused_for = reason;
	if (++l->refusals == l->config.refusals_max)
		link_break(l, WEFT_R_PUSH_REFUSALS);
	return reason;
}

/* Nothing is left: no act under way, no pool, no event, and in order no reply that is owed. */
static bool is_over(const struct push_link *l)
{
	return l->state == PUSH_ENDING && l->sends == 0 && l->writes == 0 && l->own_used == 0 &&
	       (l->is_lost ||
		(l->peer_used == 0 && l->replies_due.count == 0 && l->untolds.count == 0));
}

/* ---- Packets -------------------------------------------------------------------------------- */

/* What this end asks for, it keeps to before the answer: the other end may have it already. */
static struct push_agreed agreed_for(const struct push_link *l, bool is_out)
{
	const struct push_asked *a = &l->asked[ASKING_OWNER];
	struct push_agreed g = l->agreed;

	if (!is_out || a->state == ASK_IDLE)
		return g;
	if (a->cfg.kind == PUSH_SET_MTU && a->cfg.mtu < g.mtu)
		g.mtu = a->cfg.mtu;
	if (a->cfg.kind == PUSH_SET_OFFERS)
		g.features &= a->cfg.offers.features;
	return g;
}

uint32_t push_packet_max(const struct push_link *l, bool is_out)
{
	bool is_to_host = (l->config.hello.role == PUSH_UNIT) == is_out;
	const struct push_agreed g = agreed_for(l, is_out);
	uint64_t large = is_to_host ? PUSH_FEATURE_GUEST_TSO4 | PUSH_FEATURE_GUEST_TSO6 |
					      PUSH_FEATURE_GUEST_USO4 | PUSH_FEATURE_GUEST_USO6
				    : PUSH_FEATURE_HOST_TSO4 | PUSH_FEATURE_HOST_TSO6 |
					      PUSH_FEATURE_HOST_USO;
	uint32_t frame = g.features & large ? PUSH_FRAME_MAX : (uint32_t)g.mtu + FRAME_HEADERS;

	return frame + (g.features & PUSH_FEATURE_NET_HEADER ? PUSH_NET_HEADER_BYTES : 0);
}

bool link_length_is_good(const struct push_link *l, uint64_t length, bool is_out)
{
	uint32_t least = PUSH_FRAME_MIN +
			 (l->agreed.features & PUSH_FEATURE_NET_HEADER ? PUSH_NET_HEADER_BYTES : 0);

	return length >= least && length <= push_packet_max(l, is_out);
}

enum weft_reason push_packet(struct push_link *l, const struct push_packet *p, uint64_t now_ns)
{
	struct push_out *o;

	(void)now_ns;
	if (l->state != PUSH_OPEN)
		return WEFT_R_PUSH_STATE;
	if (!link_length_is_good(l, p->length, true))
		return WEFT_R_PUSH_FRAME;
	if (list_is_empty(&l->free_packets)) {
		l->counts.dropped++;
		return WEFT_R_PUSH_CROWDED;
	}
	o = CONTAINER_OF(list_pop(&l->free_packets), struct push_out, link);
	o->is = *p;
	o->has_waited = false;
	o->reason = WEFT_OK;
	list_add_tail(&l->waiting, &o->link);
	l->waiting_count++;
	return WEFT_OK;
}

static void packet_done(struct push_link *l, struct push_out *o, enum weft_reason reason)
{
	CHECK(l->writes > 0 && !list_is_linked(&o->link));
	l->writes--;
	o->reason = reason;
	list_add_tail(&l->over, &o->link);
	if (link_is_rdma(l))
		peer_written(l, o->pool, o->element);
}

void push_done(struct push_link *l, uint64_t id, enum weft_reason reason, uint64_t now_ns)
{
	enum push_act_kind kind = (enum push_act_kind)(id >> 32);
	uint32_t slot = (uint32_t)id;

	(void)now_ns;
	switch (kind) {
	case PUSH_ACT_SEND:
		CHECK(slot < l->config.sends_max && l->uses[slot] != PUSH_USE_NONE);
		l->uses_under_way[l->uses[slot]]--;
		l->uses[slot] = PUSH_USE_NONE;
		l->sends--;
		break;
	case PUSH_ACT_WRITE:
	case PUSH_ACT_SEND_PACKET:
		CHECK(slot < l->config.packets_max);
		packet_done(l, &l->packets[slot], reason);
		break;
	case PUSH_ACT_DEREGISTER:
		CHECK(slot < l->config.own_pools_max);
		own_pool_move(l, &l->own[slot], OWN_POOL_CLOSED);
		return;
	case PUSH_ACT_REGISTER:
		CHECK(false);
	}
	if (reason != WEFT_OK && link_is_rdma(l))
		link_break(l, reason);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* When to ask for elements is a deadline only while a message can be sent. */
uint64_t push_due(const struct push_link *l)
{
	uint64_t due = cfg_due(l);

	if (l->state == PUSH_ENDED)
		return UINT64_MAX;
	return l->get_at_ns < due && l->sends < l->config.sends_max ? l->get_at_ns : due;
}

void push_expire(struct push_link *l, uint64_t now_ns)
{
	if (l->state != PUSH_ENDED)
		cfg_expire(l, now_ns);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* A packet that the consumer has not been told of: in an element, or in the message taken last. */
static bool packet_event(struct push_link *l, struct push_event *e)
{
	const struct push_full *f;
	const struct own_pool *p;

	if (l->fulls.count > 0) {
		f = &l->full[queue_take(&l->fulls, l->own_elements.max)];
		p = &l->own[f->pool];
		*e = (struct push_event){ .kind = PUSH_EVENT_PACKET,
					  .bytes = p->config.memory +
						   (size_t)f->element * p->config.element_bytes,
					  .length = f->bytes,
					  .is_returned = true,
					  .pool = f->pool,
					  .element = f->element };
		return true;
	}
	if (l->inlined.length == 0)
		return false;
	*e = (struct push_event){ .kind = PUSH_EVENT_PACKET,
				  .bytes = l->inlined.bytes,
				  .length = l->inlined.length };
	l->inlined.length = 0;
	return true;
}

static bool sent_event(struct push_link *l, struct push_event *e)
{
	struct push_out *o;

	if (list_is_empty(&l->over))
		return false;
	o = CONTAINER_OF(list_pop(&l->over), struct push_out, link);
	*e = (struct push_event){ .kind = PUSH_EVENT_SENT,
				  .reason = o->reason,
				  .cookie = o->is.cookie };
	list_add_tail(&l->free_packets, &o->link);
	return true;
}

static bool pool_event(struct push_link *l, struct push_event *e)
{
	for (uint32_t i = 0; i < l->config.own_pools_max && l->own_due > 0; i++) {
		if (l->own[i].state != OWN_POOL_CLOSED)
			continue;
		*e = (struct push_event){ .kind = PUSH_EVENT_POOL_CLOSED,
					  .reason = l->own[i].reason,
					  .pool = i };
		own_pool_free(l, i);
		return true;
	}
	return false;
}

static bool take_flag(bool *flag, struct push_event *e, enum push_event_kind kind)
{
	if (!*flag)
		return false;
	*flag = false;
	*e = (struct push_event){ .kind = kind };
	return true;
}

static bool asked_event(struct push_link *l, struct push_event *e)
{
	if (take_flag(&l->is_owner_asked, e, PUSH_EVENT_ASKED_CFG)) {
		e->cfg = &l->owed[ASKING_OWNER].cfg;
		return true;
	}
	if (take_flag(&l->is_answered, e, PUSH_EVENT_ANSWER)) {
		e->cfg = &l->answer;
		e->reason = (enum weft_reason)l->answer.reason;
		return true;
	}
	if (take_flag(&l->is_asked_pools, e, PUSH_EVENT_ASKED_POOLS)) {
		e->get = l->asked_pools;
		return true;
	}
	return false;
}

bool push_event(struct push_link *l, struct push_event *event)
{
	if (take_flag(&l->is_opened, event, PUSH_EVENT_OPEN) || packet_event(l, event) ||
	    sent_event(l, event) || asked_event(l, event) || pool_event(l, event))
		return true;
	if (take_flag(&l->is_broken, event, PUSH_EVENT_BROKEN)) {
		event->reason = l->end_reason;
		return true;
	}
	if (!is_over(l))
		return false;
	push_link_move(l, PUSH_ENDED);
	*event = (struct push_event){ .kind = PUSH_EVENT_ENDED, .reason = l->end_reason };
	return true;
}

/* ---- Looking -------------------------------------------------------------------------------- */

void push_statistics(const struct push_link *l, struct push_statistics *s)
{
	*s = l->counts;
}

const struct push_agreed *push_agreed(const struct push_link *l)
{
	return &l->agreed;
}

uint64_t push_waits_since(const struct push_link *l)
{
	if (list_is_empty(&l->waiting) ||
	    !CONTAINER_OF(l->waiting.next, struct push_out, link)->has_waited)
		return UINT64_MAX;
	return l->waits_ns;
}

void push_view(const struct push_link *l, struct push_view *v)
{
	uint32_t own[OWN_ELEMENT_STATES] = { 0 }, peer[PEER_ELEMENT_STATES] = { 0 };

	for (uint32_t i = 0; i < l->own_elements.used; i++)
		own[l->own_elements.states[i]]++;
	for (uint32_t i = 0; i < l->peer_elements.used; i++)
		peer[l->peer_elements.states[i]]++;
	*v = (struct push_view){ .state = l->state,
				 .own_pools = l->own_used,
				 .peer_pools = l->peer_used,
				 .theirs = own[OWN_THEIRS],
				 .full = own[OWN_FULL],
				 .ready = own[OWN_READY],
				 .free = peer[PEER_FREE],
				 .writing = peer[PEER_WRITING],
				 .used = peer[PEER_USED],
				 .waiting = l->waiting_count,
				 .refused_for = l->refused_for };
}
