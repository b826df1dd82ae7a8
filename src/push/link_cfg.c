/* SPDX-License-Identifier: BSD-2-Clause */
/* Configuration and statistics (PUSH-09, PUSH-16h): requests of both ends, and their replies. */
#include <string.h>

#include "push/link_inside.h"

/* Which end asks for each kind; 0: either. */
static const enum push_role askers[PUSH_KIND_COUNT] = {
	[PUSH_HELLO] = PUSH_HOST,      [PUSH_SET_MAC] = PUSH_HOST,    [PUSH_SET_MTU] = PUSH_HOST,
	[PUSH_SET_FILTER] = PUSH_HOST, [PUSH_SET_OFFERS] = PUSH_HOST, [PUSH_LINK] = PUSH_UNIT,
};

static bool may_ask(enum push_role role, enum push_kind kind)
{
	return askers[kind] == 0 || askers[kind] == role;
}

static enum push_role other_role(enum push_role role)
{
	return role == PUSH_HOST ? PUSH_UNIT : PUSH_HOST;
}

/* ---- What both ends agree on ----------------------------------------------------------------- */

static void agree_hello(struct push_link *l, const struct push_hello *host,
			const struct push_hello *unit)
{
	l->peer = l->config.hello.role == PUSH_HOST ? *unit : *host;
	l->agreed = (struct push_agreed){
		.features = host->features & unit->features,
		.mtu = host->mtu < unit->mtu ? host->mtu : unit->mtu,
		.queues = host->queues < unit->queues ? host->queues : unit->queues,
		.is_link_up = unit->is_link_up,
	};
	/* Every offload needs the header. */
	if (!(l->agreed.features & PUSH_FEATURE_NET_HEADER))
		l->agreed.features = 0;
	l->offered = l->agreed.features;
	memcpy(l->agreed.mac, unit->mac, PUSH_MAC_BYTES);
	link_opened(l);
}

/* What the greeting did not offer, nothing can turn on; virtio-net's header stays as it is. */
static bool is_offered(const struct push_link *l, const struct push_cfg *c)
{
	const struct push_hello *unit = l->config.hello.role == PUSH_UNIT ? &l->config.hello
									  : &l->peer;

	return c->kind != PUSH_SET_OFFERS ||
	       (!(c->offers.features & ~l->offered) && c->offers.queues <= unit->queues &&
		!((c->offers.features ^ l->offered) & PUSH_FEATURE_NET_HEADER));
}

/* The request was granted. */
static void agree(struct push_link *l, const struct push_cfg *c)
{
	switch (c->kind) {
	case PUSH_SET_MAC:
		memcpy(l->agreed.mac, c->mac, PUSH_MAC_BYTES);
		break;
	case PUSH_SET_MTU:
		l->agreed.mtu = c->mtu;
		break;
	case PUSH_SET_OFFERS:
		l->agreed.features = c->offers.features;
		l->agreed.queues = c->offers.queues;
		break;
	case PUSH_LINK:
		l->agreed.is_link_up = c->link.is_up;
		break;
	default:
		break;
	}
}

/* ---- Requests of this end -------------------------------------------------------------------- */

static void ask(struct push_link *l, enum push_asking which, const struct push_cfg *c)
{
	l->asked[which] = (struct push_asked){
		.state = ASK_DUE, .cfg = *c, .context = ++l->contexts, .again_ns = UINT64_MAX
	};
}

void cfg_greet(struct push_link *l)
{
	const struct push_cfg hello = { .kind = PUSH_HELLO, .hello = l->config.hello };

	if (l->config.hello.role == PUSH_HOST)
		ask(l, ASKING_OWNER, &hello);
}

enum weft_reason push_ask(struct push_link *l, const struct push_cfg *cfg, uint64_t now_ns)
{
	(void)now_ns;
	if (l->state != PUSH_OPEN)
		return WEFT_R_PUSH_STATE;
	if (cfg->kind == PUSH_HELLO || cfg->kind == PUSH_PING ||
	    !may_ask(l->config.hello.role, cfg->kind))
		return WEFT_R_PUSH_UNEXPECTED;
	if (!is_offered(l, cfg))
		return WEFT_R_PUSH_OFFER;
	if (l->asked[ASKING_OWNER].state != ASK_IDLE || l->is_answered)
		return WEFT_R_BUSY;
	ask(l, ASKING_OWNER, cfg);
	return WEFT_OK;
}

/* Packets on channel 1 that the other end sent, and that have not come: of Send mode (AMB-29). */
static void count_lost(struct push_link *l, uint64_t sent)
{
	if (!link_is_rdma(l))
		l->counts.lost = sent > l->counts.packets_in ? sent - l->counts.packets_in : 0;
}

static enum weft_reason take_hello_reply(struct push_link *l, const struct push_cfg *c)
{
	const struct push_hello *own = &l->config.hello;

	if (c->hello.role != PUSH_UNIT || c->hello.mode != own->mode) {
		link_break(l, WEFT_R_PUSH_MODE);
		return WEFT_R_PUSH_MODE;
	}
	agree_hello(l, own, &c->hello);
	return WEFT_OK;
}

static enum weft_reason take_owner_reply(struct push_link *l, const struct push_cfg *c)
{
	const struct push_cfg *asked = &l->asked[ASKING_OWNER].cfg;

	l->asked[ASKING_OWNER].state = ASK_IDLE;
	if (asked->kind == PUSH_HELLO) {
		if (c->reason == 0)
			return take_hello_reply(l, c);
		link_break(l, (enum weft_reason)c->reason);
		return WEFT_OK;
	}
	/* An end that often asks for statistics leaves no silence to ping in. */
	if (c->reason == 0 && asked->kind == PUSH_STATISTICS)
		count_lost(l, c->statistics.packets_out);
	else if (c->reason == 0)
		agree(l, asked);
	l->answer = *c;
	l->answer.kind = asked->kind;
	l->is_answered = true;
	return WEFT_OK;
}

/* In Send mode a request may have been sent twice, and then has two replies. */
enum weft_reason cfg_take_reply(struct push_link *l, const struct push_msg *m)
{
	for (int i = 0; i < ASKINGS; i++) {
		struct push_asked *a = &l->asked[i];

		if (a->state != ASK_SENT || a->context != m->context)
			continue;
		if (m->cfg.reason == 0 && m->cfg.kind != a->cfg.kind)
			return WEFT_R_PUSH_REPLY;
		if (i == ASKING_OWNER)
			return take_owner_reply(l, &m->cfg);
		a->state = ASK_IDLE;
		if (m->cfg.reason == 0)
			count_lost(l, m->cfg.ping.sent);
		return WEFT_OK;
	}
	return link_is_rdma(l) || m->context == 0 || m->context > l->contexts ? WEFT_R_PUSH_REPLY
									      : WEFT_OK;
}

/* ---- Requests of the other end --------------------------------------------------------------- */

static void reply(struct push_owed *o, const struct push_cfg *c)
{
	enum push_kind kind = o->cfg.kind;

	o->cfg = *c;
	o->cfg.kind = kind;
	o->state = OWED_DUE;
}

static void reply_reason(struct push_owed *o, enum weft_reason reason)
{
	reply(o, &(struct push_cfg){ .reason = reason });
}

void push_answer(struct push_link *l, const struct push_cfg *cfg)
{
	struct push_owed *o = &l->owed[ASKING_OWNER];
	struct push_hello unit = cfg->hello, host = o->cfg.hello;
	struct push_cfg hello = { .kind = PUSH_HELLO };

	if (l->is_lost || l->state == PUSH_ENDED)
		return;
	CHECK(o->state == OWED_OWNER && !l->is_owner_asked);
	if (cfg->reason != 0 || o->cfg.kind != PUSH_HELLO) {
		if (cfg->reason == 0)
			agree(l, &o->cfg);
		reply(o, cfg->reason != 0 ? cfg : &o->cfg);
		return;
	}
	/* What the owner gives, within what the link is. */
	unit.role = l->config.hello.role;
	unit.mode = l->config.hello.mode;
	unit.is_pull = l->config.hello.is_pull;
	unit.pools_max = l->config.hello.pools_max;
	unit.elements_max = l->config.hello.elements_max;
	unit.message_bytes_max = PUSH_MSG_BYTES_MAX;
	hello.hello = unit;
	reply(o, &hello);
	agree_hello(l, &host, &unit);
}

/* The state of the link, and the role and mode of the other end, allow it. */
static enum weft_reason request_check(const struct push_link *l, const struct push_cfg *c)
{
	const struct push_hello *own = &l->config.hello;

	if (!may_ask(other_role(own->role), c->kind))
		return WEFT_R_PUSH_UNEXPECTED;
	if ((c->kind == PUSH_HELLO) != (l->state == PUSH_GREETING))
		return WEFT_R_PUSH_UNEXPECTED;
	if (c->kind != PUSH_HELLO)
		return is_offered(l, c) ? WEFT_OK : WEFT_R_PUSH_OFFER;
	return c->hello.role == other_role(own->role) && c->hello.mode == own->mode
		       ? WEFT_OK
		       : WEFT_R_PUSH_MODE;
}

static void owed_take(struct push_link *l, struct push_owed *o)
{
	switch (o->cfg.kind) {
	case PUSH_PING:
		count_lost(l, o->cfg.ping.sent);
		o->cfg.ping = (struct push_ping){ l->counts.packets_out, l->counts.packets_in };
		o->state = OWED_DUE;
		break;
	case PUSH_STATISTICS:
		o->cfg.statistics = l->counts;
		o->state = OWED_DUE;
		break;
	default:
		o->state = OWED_OWNER;
		l->is_owner_asked = true;
		break;
	}
}

/* Send mode: older than the last request; or a request that overtook the reply to the greeting. */
static bool is_out_of_order(const struct push_link *l, const struct push_owed *o,
			    const struct push_msg *m)
{
	bool is_early = l->state == PUSH_GREETING && l->config.hello.role == PUSH_HOST;

	return is_early || (o->state != OWED_NONE && m->context < o->context);
}

/*
 * One request of each sort at a time. In Send mode the same may come again: the reply was lost, or
 * is not there yet. What comes out of order is passed over: it comes again, or is done.
 */
enum weft_reason cfg_take_request(struct push_link *l, const struct push_msg *m)
{
	struct push_owed *o = &l->owed[m->cfg.kind == PUSH_PING ? ASKING_PING : ASKING_OWNER];
	enum weft_reason reason;

	if (o->state != OWED_NONE && o->context == m->context && !link_is_rdma(l)) {
		if (o->state == OWED_SENT)
			o->state = OWED_DUE;
		return WEFT_OK;
	}
	if (!link_is_rdma(l) && is_out_of_order(l, o, m))
		return WEFT_OK;
	if (o->state == OWED_OWNER || o->state == OWED_DUE)
		return WEFT_R_PUSH_UNEXPECTED;
	o->context = m->context;
	o->cfg = m->cfg;
	reason = request_check(l, &m->cfg);
	if (reason != WEFT_OK)
		reply_reason(o, reason);
	else
		owed_take(l, o);
	return reason;
}

void cfg_refuse(struct push_link *l, uint64_t context, enum weft_reason reason)
{
	struct push_owed *o = &l->owed[ASKING_OWNER];

	if (o->state == OWED_OWNER || o->state == OWED_DUE)
		return;
	o->context = context;
	o->cfg.kind = (enum push_kind)0;
	reply_reason(o, reason);
}

/* ---- What goes, and when --------------------------------------------------------------------- */

static bool changes_length(enum push_kind kind)
{
	return kind == PUSH_SET_MTU || kind == PUSH_SET_OFFERS;
}

/* Packets that were written before the other end takes shorter ones only are told of before. */
static bool has_to_wait(const struct push_link *l, enum push_kind kind)
{
	return l->untolds.count > 0 && changes_length(kind);
}

bool cfg_holds_packets(const struct push_link *l)
{
	const struct push_owed *o = &l->owed[ASKING_OWNER];
	const struct push_asked *a = &l->asked[ASKING_OWNER];

	return (o->state == OWED_DUE && changes_length(o->cfg.kind)) ||
	       (a->state == ASK_DUE && changes_length(a->cfg.kind));
}

bool cfg_next(struct push_link *l, uint64_t now_ns, struct push_msg *m)
{
	for (int i = 0; i < ASKINGS; i++) {
		struct push_owed *o = &l->owed[i];

		if (o->state != OWED_DUE || has_to_wait(l, o->cfg.kind))
			continue;
		o->state = OWED_SENT;
		*m = (struct push_msg){ .function = PUSH_CFG_REPLY,
					.context = o->context,
					.cfg = o->cfg };
		return true;
	}
	for (int i = 0; i < ASKINGS; i++) {
		struct push_asked *a = &l->asked[i];

		if (a->state != ASK_DUE || has_to_wait(l, a->cfg.kind))
			continue;
		a->state = ASK_SENT;
		a->tries++;
		a->again_ns = now_ns + l->config.answer_wait_ns;
		*m = (struct push_msg){ .function = PUSH_CFG_REQUEST,
					.context = a->context,
					.cfg = a->cfg };
		if (a->cfg.kind == PUSH_PING)
			m->cfg.ping = (struct push_ping){ l->counts.packets_out,
							  l->counts.packets_in };
		return true;
	}
	return false;
}

static bool is_pinging(const struct push_link *l)
{
	return l->asked[ASKING_PING].state != ASK_IDLE;
}

static uint64_t later(uint64_t at_ns, uint64_t by_ns)
{
	return by_ns > UINT64_MAX - at_ns ? UINT64_MAX : at_ns + by_ns;
}

/* A host that has a connection greets, in the time that a reply has. */
static uint64_t greeting_due(const struct push_link *l)
{
	bool is_waiting = l->state == PUSH_GREETING && l->config.hello.role == PUSH_UNIT &&
			  l->owed[ASKING_OWNER].state == OWED_NONE;

	return is_waiting ? later(l->heard_ns, l->config.answer_wait_ns * l->config.answer_tries)
			  : UINT64_MAX;
}

uint64_t cfg_due(const struct push_link *l)
{
	uint64_t due = greeting_due(l);

	if (link_is_live(l) && !is_pinging(l))
		due = later(l->heard_ns, l->config.ping_after_ns);
	for (int i = 0; i < ASKINGS; i++) {
		const struct push_asked *a = &l->asked[i];

		if (a->state == ASK_SENT && a->again_ns < due)
			due = a->again_ns;
	}
	return due;
}

/* In RDMA mode the transport sends again; here the reply has as much time as all tries have. */
static void again(struct push_link *l, struct push_asked *a, uint64_t now_ns)
{
	if (a->tries >= l->config.answer_tries) {
		link_break(l, WEFT_R_PUSH_SILENT);
	} else if (link_is_rdma(l)) {
		a->tries++;
		a->again_ns = now_ns + l->config.answer_wait_ns;
	} else {
		a->state = ASK_DUE;
	}
}

void cfg_expire(struct push_link *l, uint64_t now_ns)
{
	static const struct push_cfg ping = { .kind = PUSH_PING };

	if (greeting_due(l) <= now_ns)
		link_break(l, WEFT_R_PUSH_SILENT);
	for (int i = 0; i < ASKINGS; i++) {
		struct push_asked *a = &l->asked[i];

		if (a->state == ASK_SENT && a->again_ns <= now_ns)
			again(l, a, now_ns);
	}
	if (link_is_live(l) && !is_pinging(l) &&
	    later(l->heard_ns, l->config.ping_after_ns) <= now_ns)
		ask(l, ASKING_PING, &ping);
}
