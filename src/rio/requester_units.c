/* SPDX-License-Identifier: BSD-2-Clause */
#include <sodium/utils.h>
#include <string.h>

#include "rio/requester_parts.h"

static struct unit *unit_find(struct rio_requester *q, struct platform name)
{
	for (uint32_t i = 0; i < q->unit_count; i++) {
		struct unit *u = &q->units[i];

		if ((u->is_announced || u->is_leaving) && platform_is_same(u->name, name))
			return u;
	}
	return NULL;
}

static bool is_token_of(const struct unit *u, const struct rio_announce *announce)
{
	return platform_is_same(u->name, announce->iounit) &&
	       sodium_memcmp(u->token, announce->token, sizeof(u->token)) == 0;
}

/*
 * Picks a free slot: one that last had this token, one never used, or else any. So the counter of a
 * token survives when the unit is revoked and announced again.
 */
static struct unit *unit_new(struct rio_requester *q, const struct rio_announce *announce)
{
	struct unit *found = NULL;

	for (uint32_t i = 0; i < q->unit_count; i++) {
		struct unit *u = &q->units[i];

		if (u->is_announced || u->is_leaving)
			continue;
		if (is_token_of(u, announce))
			return u;
		if (!found || (platform_is_none(u->name) && !platform_is_none(found->name)))
			found = u;
	}
	return found;
}

/* ---- Their devices -------------------------------------------------------------------------- */

static void offers_forget(struct rio_requester *q, struct platform iounit)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < q->offer_count; i++) {
		if (!platform_is_same(q->offers[i].iounit, iounit))
			q->offers[kept++] = q->offers[i];
		else
			unflushed_left(q, q->offers[i].unflushed);
	}
	q->offer_count = kept;
}

static uint32_t offers_of(const struct rio_requester *q, struct platform iounit)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < q->offer_count; i++)
		count += platform_is_same(q->offers[i].iounit, iounit);
	return count;
}

/* The entries were checked when the message was decoded. */
static enum weft_reason offers_add(struct rio_requester *q, const struct rio_announce *announce)
{
	const struct rio_bytes *entries = &announce->devices.entries;
	struct rd at = rd_of(entries->bytes, entries->length);

	for (uint32_t i = 0; i < announce->devices.count; i++) {
		struct offer *o = &q->offers[q->offer_count];

		CHECK(rio_device_next(&o->device, &at) == RIO_MSG_OK);
		memcpy(o->name, o->device.name.bytes, o->device.name.length);
		o->iounit = announce->iounit;
		o->unflushed = unflushed_offer(q, announce->iounit, &o->device);
		if (!o->unflushed)
			return WEFT_R_LIMIT;
		q->offer_count++;
	}
	return WEFT_OK;
}

uint32_t rio_requester_offers(const struct rio_requester *q)
{
	return q->offer_count;
}

struct rio_offer rio_requester_offer(const struct rio_requester *q, uint32_t nth)
{
	struct rio_offer offer;

	CHECK(nth < q->offer_count);
	offer = (struct rio_offer){ .device = q->offers[nth].device,
				    .iounit = q->offers[nth].iounit };
	offer.device.name.bytes = q->offers[nth].name;
	return offer;
}

/* ---- Coming and going ----------------------------------------------------------------------- */

enum weft_reason unit_announce(struct rio_requester *q, const struct rio_announce *announce)
{
	struct unit *u = unit_find(q, announce->iounit);
	bool is_new = !u || !u->is_announced;
	uint32_t others = q->offer_count - offers_of(q, announce->iounit);

	if (announce->devices.count > q->config.devices_max - others ||
	    (is_new && q->units_announced == q->config.iounits_max))
		return WEFT_R_LIMIT;
	if (!u)
		u = unit_new(q, announce);
	if (!u)
		return WEFT_R_LIMIT;
	/* The counter stays valid as long as the token does. */
	if (!is_token_of(u, announce))
		u->counter = 0;
	q->units_announced += is_new;
	u->name = announce->iounit;
	u->is_announced = true;
	memcpy(u->token, announce->token, sizeof(u->token));
	offers_forget(q, announce->iounit);
	return offers_add(q, announce);
}

static void unit_forget(struct rio_requester *q, struct unit *u)
{
	u->is_announced = false;
	q->units_announced--;
	offers_forget(q, u->name);
	if (!u->is_leaving)
		list_add_tail(&q->units_leaving, &u->link);
	u->is_leaving = true;
}

void unit_revoke(struct rio_requester *q, struct platform name)
{
	struct unit *u = unit_find(q, name);

	if (u && u->is_announced)
		unit_forget(q, u);
}

void units_forget(struct rio_requester *q)
{
	for (uint32_t i = 0; i < q->unit_count; i++) {
		if (q->units[i].is_announced)
			unit_forget(q, &q->units[i]);
	}
}

static void connection_end(struct rio_requester *q, struct unit *u)
{
	if (u->is_connected)
		u->lost = ++q->losses;
	u->is_connected = false;
}

bool unit_act(struct rio_requester *q, struct rio_requester_act *act)
{
	struct unit *u;

	if (list_is_empty(&q->units_leaving))
		return false;
	u = CONTAINER_OF(list_pop(&q->units_leaving), struct unit, link);
	u->is_leaving = false;
	connection_end(q, u); /* the slot may already belong to a new announcement */
	*act = (struct rio_requester_act){ .kind = RIO_REQUESTER_HANG_UP, .iounit = u->name };
	return true;
}

bool unit_is_connected(struct rio_requester *q, struct platform name)
{
	const struct unit *u = unit_find(q, name);

	return u && u->is_connected;
}

bool unit_was_lost(struct rio_requester *q, struct platform name, uint64_t losses)
{
	const struct unit *u = unit_find(q, name);

	return u && u->lost > losses;
}

struct platform unit_of_device(const struct rio_requester *q, uint32_t number)
{
	for (uint32_t i = 0; i < q->offer_count; i++) {
		if (q->offers[i].device.number == number)
			return q->offers[i].iounit;
	}
	return (struct platform){ 0 };
}

/* ---- Data connections (AMB-26) -------------------------------------------------------------- */

/* Check the seal before the counter: a peer without the token must learn nothing of the counter. */
static enum weft_reason question_check(const struct rio_requester *q, const struct rio_data *d,
				       const struct unit *u, const uint8_t *bytes)
{
	if (d->is_answer || !platform_is_same(d->to, q->config.self))
		return WEFT_R_RIO_UNEXPECTED;
	if (!u || !u->is_announced)
		return WEFT_R_RIO_UNKNOWN_PEER;
	if (!rio_seal_is_true(u->token, bytes, RIO_DATA_SEALED_BYTES, d->seal))
		return WEFT_R_RIO_FORGED;
	if (d->counter <= u->counter)
		return WEFT_R_RIO_REPLAYED;
	/* The former connection must be closed first, because acts name it by platform. */
	return u->is_leaving ? WEFT_R_BUSY : WEFT_OK;
}

enum weft_reason rio_requester_asked(struct rio_requester *q, const struct rio_bytes *question,
				     struct platform *iounit, uint8_t answer[RIO_DATA_BYTES])
{
	struct rio_data d = { 0 };
	struct unit *u = NULL;
	enum weft_reason reason = refusal_of_msg(
		rio_data_decode(&d, question->bytes, question->length));

	if (reason == WEFT_OK) {
		u = unit_find(q, d.from);
		reason = question_check(q, &d, u, question->bytes);
	}
	*iounit = d.from;
	d.is_answer = true;
	d.reason = (uint32_t)reason;
	d.to = d.from;
	d.from = q->config.self;
	memset(d.seal, 0,
	       sizeof(d.seal)); /* a rejection is not sealed: it is information, not proof */
	rio_data_encode(&d, answer);
	if (reason != WEFT_OK)
		return reason;
	u->counter = d.counter;
	/* Data and notices of the former connection that have not arrived never will. */
	connection_end(q, u);
	requests_end_unreported(q, u->name);
	u->is_connected = true;
	rio_session_of_data(&u->session, u->token, d.nonce);
	rio_seal(u->token, answer, RIO_DATA_SEALED_BYTES, answer + RIO_DATA_SEALED_BYTES);
	return WEFT_OK;
}

enum weft_reason rio_requester_unit_take(struct rio_requester *q, struct platform iounit,
					 const uint8_t *bytes, size_t length)
{
	struct unit *u = unit_find(q, iounit);
	struct rio_msg m;
	enum weft_reason r;

	if (!u || !u->is_connected)
		return WEFT_R_RIO_UNEXPECTED;
	r = rio_session_open(&u->session, bytes, length, &m);
	return r == WEFT_OK ? request_take_word(q, iounit, &m) : r;
}

void rio_requester_lost(struct rio_requester *q, struct platform iounit)
{
	struct unit *u = unit_find(q, iounit);

	if (u)
		connection_end(q, u);
	requests_end_unreported(q, iounit);
}
