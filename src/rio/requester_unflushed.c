/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tracks devices with writes of this requester that were acknowledged but not covered by a flush:
 * docs/rio.md, "What a write promises", rules 4 and 5. When such a device comes back as another
 * instance, the writes may be lost. The first request that flushes it then fails, and so do the
 * flushes that were outstanding when that request failed.
 *
 * Losses are numbered, for requesters with several users: each user must hear of each loss, but the
 * requester reports it once. So the number of a loss outlives the other data on its device.
 *
 * The data on a device outlives its I/O unit's connection and its owner. Devices are identified by
 * I/O unit and name, because device numbers are the owner's.
 */
#include <string.h>

#include "rio/requester_parts.h"

static bool is_of(const struct unflushed *u, struct platform iounit, const struct rio_device *d)
{
	return u->name_bytes == d->name.length && platform_is_same(u->iounit, iounit) &&
	       memcmp(u->name, d->name.bytes, u->name_bytes) == 0;
}

static bool is_offered(const struct rio_requester *q, const struct unflushed *u)
{
	for (uint32_t i = 0; i < q->offer_count; i++) {
		if (q->offers[i].unflushed == u)
			return true;
	}
	return false;
}

static bool has_unflushed(const struct unflushed *u)
{
	return u->written > u->flushed;
}

static bool is_lost(const struct unflushed *u)
{
	return u->loss > u->reported;
}

static void lose(struct rio_requester *q, struct unflushed *u)
{
	u->loss = ++q->write_losses;
}

/* Nothing but the number of its last loss needs to be kept. */
static bool is_spare(const struct rio_requester *q, const struct unflushed *u)
{
	return u->name_bytes == 0 ||
	       (!has_unflushed(u) && !is_lost(u) && u->uses == 0 && !is_offered(q, u));
}

static struct unflushed *find(struct rio_requester *q, struct platform iounit,
			      const struct rio_device *d)
{
	for (uint32_t i = 0; i < q->unflushed_max; i++) {
		if (is_of(&q->unflushed[i], iounit, d))
			return &q->unflushed[i];
	}
	return NULL;
}

/* Evicts the device that was withdrawn first. If it comes back, its writes count as lost. */
static struct unflushed *forget_oldest(struct rio_requester *q)
{
	struct unflushed *oldest = NULL;

	for (uint32_t i = 0; i < q->unflushed_max; i++) {
		struct unflushed *u = &q->unflushed[i];

		if (u->uses == 0 && (!oldest || u->left < oldest->left) && !is_offered(q, u))
			oldest = u;
	}
	q->has_forgotten = q->has_forgotten || oldest;
	return oldest;
}

static struct unflushed *make(struct rio_requester *q, struct platform iounit,
			      const struct rio_device *d)
{
	struct unflushed *u = NULL;

	for (uint32_t i = 0; i < q->unflushed_max && !u; i++) {
		if (is_spare(q, &q->unflushed[i]))
			u = &q->unflushed[i];
	}
	if (!u)
		u = forget_oldest(q);
	if (!u)
		return NULL;
	if (u->loss > q->forgotten_loss)
		q->forgotten_loss = u->loss;
	*u = (struct unflushed){ .iounit = iounit,
				 .name_bytes = (uint32_t)d->name.length,
				 .instance = d->instance,
				 .loss = q->forgotten_loss, /* it may have been this device's */
				 .reported = q->forgotten_loss };
	memcpy(u->name, d->name.bytes, d->name.length);
	if (q->has_forgotten)
		lose(q, u);
	return u;
}

static void touch_bind(struct touch *t, struct unflushed *u)
{
	t->unflushed = u;
	t->instance = u->instance;
	t->reported = u->reported;
	u->uses++;
}

/* Requests made before the device was offered refer to this instance of it. */
static void bind_early_touches(struct rio_requester *q, uint32_t device, struct unflushed *u)
{
	for (uint32_t i = 0; i < q->config.requests_max; i++) {
		struct request *r = &q->requests[i];

		for (uint32_t k = 0; k < r->touch_count; k++) {
			if (!r->touches[k].unflushed && r->touches[k].device == device)
				touch_bind(&r->touches[k], u);
		}
	}
}

static struct unflushed *find_or_make(struct rio_requester *q, struct platform iounit,
				      const struct rio_device *d)
{
	struct unflushed *u = find(q, iounit, d);

	if (!u)
		return make(q, iounit, d);
	if (u->instance != d->instance) {
		if (has_unflushed(u))
			lose(q, u);
		u->written = u->flushed = 0;
		u->instance = d->instance;
	}
	return u;
}

struct unflushed *unflushed_offer(struct rio_requester *q, struct platform iounit,
				  const struct rio_device *d)
{
	struct unflushed *u = find_or_make(q, iounit, d);

	if (u)
		bind_early_touches(q, d->number, u);
	return u;
}

void unflushed_left(struct rio_requester *q, struct unflushed *u)
{
	u->left = ++q->leaves;
}

static struct unflushed *by_number(const struct rio_requester *q, uint32_t device)
{
	for (uint32_t i = 0; i < q->offer_count; i++) {
		if (q->offers[i].device.number == device)
			return q->offers[i].unflushed;
	}
	return NULL;
}

uint64_t rio_requester_loss(const struct rio_requester *q, uint32_t device)
{
	const struct unflushed *u = by_number(q, device);

	return u ? u->loss : 0;
}

/* Reports each loss once. */
enum weft_reason unflushed_take_loss(struct rio_requester *q, const struct rio_ask *ask)
{
	bool is_reported = false;

	for (uint32_t i = 0; i < ask->count; i++) {
		const struct sgl_transaction *t = &ask->wanted[i].is;
		struct unflushed *u = t->operation == SGL_FLUSH ? by_number(q, t->device) : NULL;

		if (!u || !is_lost(u))
			continue;
		u->reported = u->loss;
		is_reported = true;
	}
	return is_reported ? WEFT_R_RIO_WRITES_LOST : WEFT_OK;
}

/* ---- Requests ------------------------------------------------------------------------------- */

static struct touch *touch_of(struct rio_requester *q, struct request *r, uint32_t device)
{
	struct unflushed *u = by_number(q, device);
	struct touch *t;

	for (uint32_t i = 0; i < r->touch_count; i++) {
		if (r->touches[i].device == device)
			return &r->touches[i];
	}
	CHECK(r->touch_count < RIO_LIST_TRANSACTIONS_MAX); /* list_check() limits the count */
	t = &r->touches[r->touch_count++];
	*t = (struct touch){ .device = device, .written = q->writes };
	if (u)
		touch_bind(t, u);
	return t;
}

void unflushed_begin(struct rio_requester *q, struct request *r, const struct rio_ask *ask)
{
	for (uint32_t i = 0; i < ask->count; i++) {
		const struct sgl_transaction *t = &ask->wanted[i].is;

		if (t->operation == SGL_FLUSH) {
			struct touch *at = touch_of(q, r, t->device);

			at->is_flushed = true;
			at->is_written = false; /* covers the earlier writes of the request */
		} else if (t->operation != SGL_READ && !t->is_fua) {
			touch_of(q, r, t->device)->is_written = true;
		}
	}
}

/*
 * Accounts for an acknowledged request. A write acknowledged by a former instance counts as lost at
 * once. A failed request acknowledges no write, even if part of it was carried out, and its flush
 * covers nothing.
 */
static void account(struct rio_requester *q, const struct touch *t, struct unflushed *u)
{
	bool is_past = t->instance != u->instance;

	if (t->is_flushed && !is_past && t->written > u->flushed)
		u->flushed = t->written;
	if (!t->is_written)
		return;
	if (is_past)
		lose(q, u);
	else
		u->written = ++q->writes;
}

uint32_t unflushed_end(struct rio_requester *q, struct request *r, uint32_t reason)
{
	bool was_asked = r->state == REQUEST_ASKED, is_reported = false;

	for (uint32_t i = 0; i < r->touch_count; i++) {
		struct touch *t = &r->touches[i];
		struct unflushed *u = t->unflushed;

		if (!u)
			continue;
		u->uses--;
		if (!was_asked || reason != WEFT_OK)
			continue;
		account(q, t, u);
		if (!t->is_flushed)
			continue;
		if (u->loss > r->end.loss)
			r->end.loss = u->loss;
		if (u->loss <= t->reported)
			continue;
		u->reported = u->loss;
		is_reported = true;
	}
	r->touch_count = 0;
	return is_reported ? (uint32_t)WEFT_R_RIO_WRITES_LOST : reason;
}
