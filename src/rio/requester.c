/* SPDX-License-Identifier: BSD-2-Clause */
#include <sodium/utils.h>
#include <stdlib.h>

#include "rio/requester_parts.h"

/* ---- Life ----------------------------------------------------------------------------------- */

static bool config_is_good(const struct rio_requester_config *c)
{
	return !platform_is_none(c->self) && c->requests_max > 0 && c->sges_max > 0 &&
	       c->iounits_max > 0 && c->iounits_max <= UINT32_MAX / 2 && c->devices_max > 0 &&
	       c->devices_max <= UINT32_MAX / 2 && c->lists_max > 0 && c->lists &&
	       c->timeout_ns > 0 &&
	       (c->attributes.address_bytes == 0 || sgl_attributes_are_good(&c->attributes));
}

static bool slots_create(struct rio_requester *q)
{
	const struct rio_list_limits limits = rio_list_limits_default();
	const struct rio_requester_config *c = &q->config;

	/* A new announcement may need a slot while a former unit's HANG_UP is still due. */
	q->unit_count = 2 * c->iounits_max;
	q->requests = calloc(c->requests_max, sizeof(*q->requests));
	q->windows = calloc(c->sges_max, sizeof(*q->windows));
	/* The owner learns of completions later than the requester: debts outnumber requests. */
	q->debts_max = c->requests_max + 4 * RIO_NOTIFY_BATCH;
	q->debts = calloc(q->debts_max, sizeof(*q->debts));
	q->units = calloc(q->unit_count, sizeof(*q->units));
	q->offers = calloc(c->devices_max, sizeof(*q->offers));
	q->unflushed_max = 2 * c->devices_max;
	q->unflushed = calloc(q->unflushed_max, sizeof(*q->unflushed));
	q->free_lists = calloc(c->lists_max, sizeof(*q->free_lists));
	q->check = rio_list_create(&limits);
	return q->requests && q->windows && q->debts && q->units && q->offers && q->unflushed &&
	       q->free_lists && q->check && timer_queue_init(&q->timers, c->requests_max) == 0;
}

static void lists_init(struct rio_requester *q)
{
	struct list *const heads[] = { &q->free_requests, &q->free_windows, &q->free_debts,
				       &q->waiting,	  &q->ended,	    &q->exposing,
				       &q->leaving,	  &q->cancelling,   &q->units_leaving,
				       &q->owing };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		list_init(heads[i]);
	for (uint32_t i = 0; i < q->config.requests_max; i++) {
		list_init(&q->requests[i].windows);
		list_add_tail(&q->free_requests, &q->requests[i].link);
	}
	for (uint32_t i = 0; i < q->debts_max; i++) {
		q->debts[i].list = LIST_NONE;
		list_init(&q->debts[i].owing_link);
		list_add_tail(&q->free_debts, &q->debts[i].link);
	}
	for (uint32_t i = 0; i < q->config.sges_max; i++) {
		list_init(&q->windows[i].due);
		list_add_tail(&q->free_windows, &q->windows[i].link);
	}
	for (uint32_t i = 0; i < q->unit_count; i++)
		list_init(&q->units[i].link);
	for (uint32_t i = 0; i < q->config.lists_max; i++)
		q->free_lists[i] = q->config.lists_max - 1 - i;
	q->free_list_count = q->config.lists_max;
	q->free_window_count = q->config.sges_max;
}

enum weft_reason rio_requester_create(const struct rio_requester_config *config,
				      struct rio_requester **requester)
{
	struct rio_requester *q;

	if (!config_is_good(config))
		return WEFT_R_BAD_ARGUMENT;
	q = calloc(1, sizeof(*q));
	if (!q)
		return WEFT_R_NO_MEMORY;
	q->config = *config;
	if (q->config.attributes.address_bytes == 0)
		q->config.attributes = sgl_attributes_default();
	if (!slots_create(q)) {
		rio_requester_destroy(q);
		return WEFT_R_NO_MEMORY;
	}
	lists_init(q);
	*requester = q;
	return WEFT_OK;
}

/* Wipes tokens and keys before freeing the memory. */
void rio_requester_destroy(struct rio_requester *q)
{
	timer_queue_fini(&q->timers);
	rio_list_destroy(q->check);
	if (q->units)
		sodium_memzero(q->units, q->unit_count * sizeof(*q->units));
	free(q->requests);
	free(q->windows);
	free(q->debts);
	free(q->units);
	free(q->offers);
	free(q->unflushed);
	free(q->free_lists);
	sodium_memzero(q, sizeof(*q));
	free(q);
}

bool rio_requester_is_idle(const struct rio_requester *q)
{
	return q->request_count == 0 && q->debt_count == 0 &&
	       q->free_window_count == q->config.sges_max &&
	       q->free_list_count == q->config.lists_max;
}

bool rio_requester_is_owed(const struct rio_requester *q)
{
	return !list_is_empty(&q->owing);
}

/* ---- The owner ------------------------------------------------------------------------------ */

bool rio_requester_has_owner(const struct rio_requester *q)
{
	return q->has_owner;
}

void rio_requester_owner_came(struct rio_requester *q, const struct rio_handshake *handshake)
{
	rio_requester_owner_left(q);
	q->has_owner = true;
	q->session = handshake->greet.session;
	q->owner_requests_max = handshake->requests_max;
	q->owner_list_max = handshake->list_max;
}

void rio_requester_owner_left(struct rio_requester *q)
{
	q->has_owner = false;
	q->is_pong_due = false;
	sodium_memzero(&q->session, sizeof(q->session));
	for (uint32_t i = 0; i < q->config.requests_max; i++) {
		if (q->requests[i].state != REQUEST_FREE)
			request_end(q, &q->requests[i], WEFT_R_RIO_OWNER_LEFT);
	}
	debts_forget(q);
	inquiry_forget(q);
	/* The owner's announcements end with it. */
	units_forget(q);
}

void rio_requester_lists(struct rio_requester *q, uint32_t handle)
{
	q->config.lists_handle = handle;
}

static enum weft_reason take(struct rio_requester *q, const struct rio_msg *m)
{
	switch (m->type) {
	case RIO_STATUS:
		return inquiry_take_status(q, m) ? WEFT_OK
						 : request_take_status(q, m->id, &m->status);
	case RIO_REPORT:
		return inquiry_take_report(q, m);
	case RIO_NOTIFIED:
		return requests_take_notified(q, &m->notified);
	case RIO_ANNOUNCE:
		return unit_announce(q, &m->announce);
	case RIO_REVOKE:
		unit_revoke(q, m->revoked);
		return WEFT_OK;
	case RIO_PING:
		q->is_pong_due = true; /* one PONG answers all PINGs */
		q->pong_id = m->id;
		return WEFT_OK;
	case RIO_PONG:
		return WEFT_OK;
	case RIO_BYE:
		return WEFT_R_RIO_OWNER_LEFT;
	default:
		return WEFT_R_RIO_UNEXPECTED;
	}
}

enum weft_reason rio_requester_take(struct rio_requester *q, const uint8_t *bytes, size_t length,
				    uint64_t now_ns)
{
	struct rio_msg m;
	enum weft_reason r;

	q->now_ns = now_ns;
	if (!q->has_owner)
		return WEFT_R_RIO_UNEXPECTED;
	r = rio_session_open(&q->session, bytes, length, &m);
	if (r == WEFT_OK)
		r = take(q, &m);
	sodium_memzero(&m, sizeof(m)); /* it may hold a token */
	return r;
}

void rio_requester_expire(struct rio_requester *q, uint64_t now_ns)
{
	struct timer *t;

	q->now_ns = now_ns;
	while ((t = timer_queue_expire(&q->timers, now_ns)) != NULL)
		request_late(q, CONTAINER_OF(t, struct request, timer));
}

uint64_t rio_requester_due(const struct rio_requester *q)
{
	uint64_t due = timer_queue_due(&q->timers);

	if (!list_is_empty(&q->waiting) && requests_are_held(q) && q->held_ns < due)
		due = q->held_ns;
	return due;
}

/* ---- What is to be done --------------------------------------------------------------------- */

void requester_say(struct rio_requester *q, const struct rio_msg *m, struct rio_requester_act *act)
{
	*act = (struct rio_requester_act){
		.kind = RIO_REQUESTER_SAY,
		.bytes = q->message,
		.length = rio_session_close(&q->session, m, q->message, sizeof(q->message)),
	};
	CHECK(act->length > 0);
}

static bool pong_act(struct rio_requester *q, struct rio_requester_act *act)
{
	if (!q->is_pong_due)
		return false;
	q->is_pong_due = false;
	requester_say(q, &(struct rio_msg){ .type = RIO_PONG, .id = q->pong_id }, act);
	return true;
}

/* CANCEL goes out before the windows of the request are closed. */
bool rio_requester_act(struct rio_requester *q, struct rio_requester_act *act)
{
	window_act_done(q);
	return cancel_act(q, act) || unit_act(q, act) || window_act(q, act) || pong_act(q, act) ||
	       request_act(q, act) || inquiry_act(q, act);
}
