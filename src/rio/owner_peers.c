/* SPDX-License-Identifier: BSD-2-Clause */
#include <sodium/crypto_generichash_blake2b.h>
#include <sodium/utils.h>
#include <string.h>

#include "rio/owner_parts.h"

enum {
	TOKEN_LABEL_BYTES = 16,
	TOKEN_TEXT_BYTES = TOKEN_LABEL_BYTES + 2 * PLATFORM_BYTES + 8,
	/* Room for devices in an announcement: less than in the I/O unit's own message. */
	ANNOUNCED_BYTES_MAX = RIO_MSG_BYTES_MAX - RIO_MSG_HEADER_BYTES - PLATFORM_BYTES -
			      RIO_TOKEN_BYTES - 8 - RIO_SEAL_BYTES
};

struct owner_pair *owner_pair_of(struct rio_owner *o, const struct owner_requester *q,
				 const struct owner_unit *u)
{
	size_t row = (size_t)(q - o->requesters), column = (size_t)(u - o->units);

	return &o->pairs[row * o->config.iounits_max + column];
}

/* ---- Devices -------------------------------------------------------------------------------- */

static const struct rio_device *device_of(const struct owner_unit *u, uint32_t number)
{
	for (uint32_t i = 0; i < u->device_count; i++) {
		if (u->devices[i].is.number == number)
			return &u->devices[i].is;
	}
	return NULL;
}

uint32_t owner_device_number(const struct owner_unit *u, uint32_t number)
{
	return u->device_id_prefix << RIO_OWNER_UNIT_SHIFT | number;
}

/*
 * The I/O unit that the device number refers to; NULL: none, or the number is from before a change.
 */
static struct owner_unit *unit_of(const struct rio_owner *o, uint32_t number)
{
	uint32_t device_id_prefix = number >> RIO_OWNER_UNIT_SHIFT;
	struct owner_unit *u;

	if (device_id_prefix == 0)
		return NULL;
	u = &o->units[(device_id_prefix - 1) % o->config.iounits_max];
	return u->device_id_prefix == device_id_prefix ? u : NULL;
}

/*
 * The prefix starts as the unit's place and grows by the number of places, so that no two units
 * share one. With 32 places a prefix comes back only after two thousand changes.
 */
static void device_id_prefix_change(const struct rio_owner *o, struct owner_unit *u)
{
	if (u->device_id_prefix == 0 ||
	    u->device_id_prefix + o->config.iounits_max > OWNER_PLACES_MAX)
		u->device_id_prefix = u->peer.is.place;
	else
		u->device_id_prefix += o->config.iounits_max;
}

struct rio_target owner_target(const struct owner_unit *u, const struct rio_device *d)
{
	return (struct rio_target){ owner_device_number(u, d->number), u->peer.is.platform,
				    d->name };
}

const struct rio_device *owner_device_find(struct rio_owner *o, uint32_t number,
					   struct owner_unit **unit)
{
	struct owner_unit *u = unit_of(o, number);

	if (!u || u->peer.state != PEER_HERE || !u->has_devices)
		return NULL;
	*unit = u;
	return device_of(u, number & OWNER_DEVICE_MASK);
}

bool rio_owner_device(const struct rio_owner *o, uint32_t number, struct rio_device *device)
{
	const struct owner_unit *u = unit_of(o, number);
	const struct rio_device *d;

	/* A unit that has left has no devices. */
	d = u ? device_of(u, number & OWNER_DEVICE_MASK) : NULL;
	if (!d)
		return false;
	*device = *d;
	device->number = number;
	return true;
}

/* ---- Who is told of whom -------------------------------------------------------------------- */

static bool may_meet(const struct rio_owner *o, const struct owner_pair *p)
{
	for (uint32_t i = 0; i < p->unit->device_count; i++) {
		const struct rio_target target = owner_target(p->unit, &p->unit->devices[i].is);

		if (rio_policy_may_meet(o->policy, p->requester->peer.is.platform, &target))
			return true;
	}
	return false;
}

static void meet(struct rio_owner *o, struct owner_pair *p)
{
	if (p->requester->peer.state != PEER_HERE || p->unit->peer.state != PEER_HERE ||
	    !p->unit->has_devices)
		return;
	/* A requester that takes no data connections has no use for a token. */
	if (p->requester->address.family == 0 || !may_meet(o, p))
		return;
	p->serial = ++o->serial;
	p->of_requester = p->of_unit = NOTIFY_DUE;
	list_add_tail(&o->meeting, &p->meet_link);
}

/* One peer of a pair has left: revokes it at the other if it was announced there. */
static void part(struct rio_owner *o, struct owner_pair *p, bool is_gone_unit)
{
	enum notify_state was = is_gone_unit ? p->of_unit : p->of_requester;

	list_remove(&p->meet_link);
	p->of_requester = p->of_unit = NOTIFY_NONE;
	/* The leaving peer needs no revocation that is still due. */
	if (p->is_gone_unit != is_gone_unit)
		list_remove(&p->part_link);
	if (was != NOTIFIED)
		return;
	/* Revocations are sent before grants and announcements, so none is still due here. */
	CHECK(!list_is_linked(&p->part_link));
	p->is_gone_unit = is_gone_unit;
	p->gone = is_gone_unit ? p->unit->peer.is.platform : p->requester->peer.is.platform;
	list_add_tail(&o->parting, &p->part_link);
}

void owner_part_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_pair *p = CONTAINER_OF(list_pop(&o->parting), struct owner_pair, part_link);

	owner_say(o, p->is_gone_unit ? &p->requester->peer : &p->unit->peer,
		  &(struct rio_msg){ .type = RIO_REVOKE, .revoked = p->gone }, act);
}

/* The token is keyed with the owner's secret; its serial number makes it unique. */
static void make_token(const struct rio_owner *o, const struct owner_pair *p,
		       uint8_t token[RIO_TOKEN_BYTES])
{
	uint8_t text[TOKEN_TEXT_BYTES];
	struct wr w = wr_of(text, sizeof(text));

	wr_bytes(&w, "weft rio 1 token", TOKEN_LABEL_BYTES);
	platform_encode(p->requester->peer.is.platform, &w);
	platform_encode(p->unit->peer.is.platform, &w);
	wr_u64(&w, p->serial);
	CHECK(!w.is_short && w.at == w.end);
	(void)crypto_generichash_blake2b(token, RIO_TOKEN_BYTES, text, sizeof(text),
					 o->config.secret, sizeof(o->config.secret));
}

static void say_grant(struct rio_owner *o, struct owner_pair *p, struct rio_owner_act *act)
{
	struct rio_msg m = { .type = RIO_GRANT,
			     .grant = { .requester = p->requester->peer.is.platform,
					.address = p->requester->address } };

	make_token(o, p, m.grant.token);
	owner_say(o, &p->unit->peer, &m, act);
}

/*
 * Lists the devices that the requester may use: none, if only others may move data to its memory.
 */
static void say_announce(struct rio_owner *o, struct owner_pair *p, struct rio_owner_act *act)
{
	struct rio_msg m = { .type = RIO_ANNOUNCE,
			     .announce = { .iounit = p->unit->peer.is.platform } };
	struct wr w = wr_of(o->entries, ANNOUNCED_BYTES_MAX);

	for (uint32_t i = 0; i < p->unit->device_count; i++) {
		struct rio_device d = p->unit->devices[i].is;
		const struct rio_target target = owner_target(p->unit, &d);

		d.number = target.number;
		if (!rio_policy_may_touch(o->policy, p->requester->peer.is.platform, &target))
			continue;
		rio_device_put(&d, &w);
		m.announce.devices.count++;
	}
	CHECK(!w.is_short);
	m.announce.devices.entries = (struct rio_bytes){ o->entries, (size_t)(w.at - o->entries) };
	make_token(o, p, m.announce.token);
	owner_say(o, &p->requester->peer, &m, act);
}

/* GRANT goes to the unit before ANNOUNCE goes to the requester, which may send requests at once. */
void owner_meet_act(struct rio_owner *o, struct rio_owner_act *act)
{
	struct owner_pair *p = CONTAINER_OF(o->meeting.next, struct owner_pair, meet_link);

	if (p->of_requester == NOTIFY_DUE) {
		p->of_requester = NOTIFIED;
		say_grant(o, p, act);
		return;
	}
	p->of_unit = NOTIFIED;
	list_remove(&p->meet_link);
	say_announce(o, p, act);
}

bool owner_have_met(struct rio_owner *o, const struct owner_unit *u, struct platform platform)
{
	for (uint32_t i = 0; i < o->config.requesters_max; i++) {
		const struct owner_requester *q = &o->requesters[i];

		if (q->peer.state == PEER_HERE && platform_is_same(q->peer.is.platform, platform))
			return owner_pair_of(o, q, u)->of_requester != NOTIFY_NONE;
	}
	return false;
}

/* ---- An I/O unit tells what it has ---------------------------------------------------------- */

static bool is_same(const struct rio_device *a, const struct rio_device *b)
{
	return a->number == b->number && a->block_bytes == b->block_bytes && a->flags == b->flags &&
	       a->size_bytes == b->size_bytes && a->instance == b->instance &&
	       a->name.length == b->name.length &&
	       memcmp(a->name.bytes, b->name.bytes, b->name.length) == 0;
}

static enum weft_reason device_add(struct owner_unit *u, const struct rio_device *is)
{
	struct owner_device *d = &u->devices[u->device_count];

	if (u->device_count == OWNER_DEVICES_MAX || is->number > OWNER_DEVICE_MASK ||
	    device_of(u, is->number))
		return WEFT_R_RIO_UNEXPECTED;
	d->is = *is;
	memcpy(d->name, is->name.bytes, is->name.length);
	d->is.name.bytes = d->name;
	u->device_count++;
	return WEFT_OK;
}

enum weft_reason owner_devices_take(struct rio_owner *o, struct owner_unit *u,
				    const struct rio_devices *devices)
{
	struct rd at = rd_of(devices->entries.bytes, devices->entries.length);
	bool has_changed = u->last_count != devices->count;

	if (u->has_devices || devices->entries.length > ANNOUNCED_BYTES_MAX)
		return WEFT_R_RIO_UNEXPECTED;
	u->last_count = UINT32_MAX; /* until all devices are accepted */
	for (uint32_t i = 0; i < devices->count; i++) {
		struct rio_device d;
		enum weft_reason r;

		CHECK(rio_device_next(&d, &at) == RIO_MSG_OK); /* decoded before */
		/* devices[i] still holds the former announcement. */
		has_changed = has_changed || !is_same(&d, &u->devices[i].is);
		r = device_add(u, &d);
		if (r != WEFT_OK) {
			u->device_count = 0;
			return r;
		}
	}
	if (has_changed)
		device_id_prefix_change(o, u);
	u->has_devices = true;
	u->last_count = u->device_count;
	for (uint32_t i = 0; i < o->config.requesters_max; i++)
		meet(o, owner_pair_of(o, &o->requesters[i], u));
	return WEFT_OK;
}

/* ---- They come ------------------------------------------------------------------------------ */

static bool is_here(const struct rio_owner *o, struct platform platform)
{
	uint32_t number = rio_owner_next(o, 0);

	for (; number != UINT32_MAX; number = rio_owner_next(o, number + 1)) {
		struct rio_owner_peer p;

		rio_owner_query(o, number, &p);
		if (platform_is_same(p.platform, platform))
			return true;
	}
	return platform_is_same(o->config.self, platform);
}

static void peer_begin(struct rio_owner *o, struct owner_peer *p,
		       const struct rio_handshake *handshake, uint32_t place)
{
	p->state = PEER_HERE;
	p->is = (struct rio_owner_peer){
		.platform = handshake->greet.peer.platform,
		.role = handshake->greet.peer.role,
		.place = place,
	};
	p->session = handshake->greet.session;
	p->is_refused = false;
	p->is_came_due = true;
	owner_note(o, &p->notable);
}

static enum weft_reason requester_came(struct rio_owner *o, const struct rio_handshake *handshake,
				       uint32_t *number)
{
	struct owner_requester *q = NULL;

	for (uint32_t i = 0; i < o->config.requesters_max && !q; i++) {
		if (o->requesters[i].peer.state == PEER_FREE)
			q = &o->requesters[i];
	}
	if (!q)
		return WEFT_R_LIMIT;
	peer_begin(o, &q->peer, handshake, 0);
	q->address = handshake->address;
	q->is_watching = false;
	for (uint32_t i = 0; i < o->config.iounits_max; i++)
		meet(o, owner_pair_of(o, q, &o->units[i]));
	*number = q->peer.number;
	return WEFT_OK;
}

static enum weft_reason unit_came(struct rio_owner *o, const struct rio_handshake *handshake,
				  uint32_t place, uint32_t *number)
{
	struct owner_unit *u = &o->units[place - 1];

	if (u->peer.state == PEER_HERE)
		return WEFT_R_RIO_TWICE;
	if (u->peer.state != PEER_FREE)
		return WEFT_R_LIMIT;
	/* Such a unit could take no command. */
	if (handshake->requests_max == 0 || handshake->list_max < OWNER_LIST_LEAST)
		return WEFT_R_RIO_UNEXPECTED;
	peer_begin(o, &u->peer, handshake, place);
	u->commands_max = handshake->requests_max < o->commands_each ? handshake->requests_max
								     : o->commands_each;
	u->list_max = handshake->list_max < RIO_COMMAND_LIST_MAX ? handshake->list_max
								 : RIO_COMMAND_LIST_MAX;
	u->has_devices = false;
	u->device_count = 0;
	*number = u->peer.number;
	return WEFT_OK;
}

enum weft_reason rio_owner_came(struct rio_owner *o, const struct rio_handshake *handshake,
				uint32_t place, uint32_t *number)
{
	enum rio_role role = handshake->greet.peer.role;

	if (place > o->config.iounits_max)
		return WEFT_R_BAD_ARGUMENT;
	if (role != (place > 0 ? RIO_IOUNIT : RIO_REQUESTER))
		return WEFT_R_RIO_UNKNOWN_PEER;
	if (is_here(o, handshake->greet.peer.platform))
		return WEFT_R_RIO_TWICE;
	return role == RIO_REQUESTER ? requester_came(o, handshake, number)
				     : unit_came(o, handshake, place, number);
}

/* ---- They leave ----------------------------------------------------------------------------- */

static void requester_left(struct rio_owner *o, struct owner_requester *q)
{
	for (uint32_t i = 0; i < o->config.requests_max; i++)
		owner_request_drop(o, &q->requests[i]);
	owner_slots_forget(o, q);
	list_remove(&q->inquiry_link);
	q->slots = 0;
	q->fetch = NULL;
	owner_slots_turn(o, q);
	for (uint32_t i = 0; i < o->config.iounits_max; i++) {
		struct owner_pair *p = owner_pair_of(o, q, &o->units[i]);

		owner_commands_orphan(o, p);
		part(o, p, false);
	}
}

/* It is unknown whether requests that are queued for or running at the unit were carried out. */
static void unit_left(struct rio_owner *o, struct owner_unit *u)
{
	for (uint32_t i = 0; i < o->config.requesters_max * o->config.requests_max; i++) {
		struct owner_request *r = &o->requests[i];
		bool is_due = r->state == REQUEST_WAITING || r->state == REQUEST_COMMANDED;

		if (is_due && r->pair->unit == u)
			owner_request_fail(o, r, WEFT_R_RIO_IOUNIT_LEFT);
	}
	for (uint32_t i = 0; i < o->commands_each; i++) {
		if (u->commands[i].id != 0)
			owner_command_free(o, &u->commands[i]);
	}
	for (uint32_t i = 0; i < o->config.requesters_max; i++)
		part(o, owner_pair_of(o, &o->requesters[i], u), true);
	u->device_count = 0;
	u->has_devices = false;
}

static struct owner_peer *peer_of(struct rio_owner *o, uint32_t number)
{
	return number < o->config.requesters_max
		       ? &o->requesters[number].peer
		       : &o->units[number - o->config.requesters_max].peer;
}

void rio_owner_left(struct rio_owner *o, uint32_t number, enum weft_reason why)
{
	struct owner_peer *p = peer_of(o, number);

	CHECK(p->state == PEER_HERE);
	p->state = PEER_GONE;
	list_remove(&p->pong_link);
	list_remove(&p->away_link);
	sodium_memzero(&p->session, sizeof(p->session));
	if (p->is.role == RIO_REQUESTER)
		requester_left(o, CONTAINER_OF(p, struct owner_requester, peer));
	else
		unit_left(o, CONTAINER_OF(p, struct owner_unit, peer));
	p->is_left_due = true;
	p->left_reason = why;
	owner_note(o, &p->notable);
}

/* Its other log entries come before its departure. */
void owner_peer_note(struct rio_owner *o, struct owner_peer *p, struct rio_note *note)
{
	*note = (struct rio_note){ .role = p->is.role, .who = p->is.platform };
	list_remove(&p->notable.link);
	if (p->is_came_due) {
		note->kind = RIO_NOTE_CAME;
		p->is_came_due = false;
	} else if (p->is_watch_due) {
		note->kind = RIO_NOTE_WATCH;
		note->reason = CONTAINER_OF(p, struct owner_requester, peer)->inquiry_reason;
		p->is_watch_due = false;
	} else {
		note->kind = RIO_NOTE_LEFT;
		note->reason = p->left_reason;
		CHECK(p->is.now == 0);
		p->is_left_due = false;
		p->state = PEER_FREE;
	}
	if (p->is_watch_due || p->is_left_due)
		owner_note(o, &p->notable);
}

/* ---- For people ----------------------------------------------------------------------------- */

uint32_t rio_owner_next(const struct rio_owner *o, uint32_t number)
{
	for (; number < o->config.requesters_max; number++) {
		if (o->requesters[number].peer.state == PEER_HERE)
			return number;
	}
	for (; number - o->config.requesters_max < o->config.iounits_max; number++) {
		if (o->units[number - o->config.requesters_max].peer.state == PEER_HERE)
			return number;
	}
	return UINT32_MAX;
}

void rio_owner_query(const struct rio_owner *o, uint32_t number, struct rio_owner_peer *peer)
{
	*peer = number < o->config.requesters_max
			? o->requesters[number].peer.is
			: o->units[number - o->config.requesters_max].peer.is;
}
