/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/deadline.h"
#include "rio/requester_parts.h"

enum {
	NS_PER_MS = 1000 * 1000,
	/* See requests_are_held(). */
	HEAVY_BYTES = 256 << 10,
	ENOUGH_BYTES = 8 << 20,
	HELD_MANY = 4,
	HELD_MAX_NS = 4 * NS_PER_MS
};

/* ---- Slots ---------------------------------------------------------------------------------- */

static void list_slot_free(struct rio_requester *q, uint32_t *list)
{
	if (*list != LIST_NONE)
		q->free_lists[q->free_list_count++] = *list;
	*list = LIST_NONE;
}

struct window *window_new(struct rio_requester *q, struct request *r)
{
	struct window *w = CONTAINER_OF(list_pop(&q->free_windows), struct window, link);

	q->free_window_count--;
	w->state = WINDOW_WANTED;
	w->request = r;
	list_add_tail(&r->windows, &w->link);
	list_add_tail(&q->exposing, &w->due);
	r->unopened++;
	return w;
}

static void window_free(struct rio_requester *q, struct window *w)
{
	list_remove(&w->due);
	list_remove(&w->link);
	list_push(&q->free_windows, &w->link);
	q->free_window_count++;
	w->state = WINDOW_FREE;
}

static struct request *request_new(struct rio_requester *q)
{
	struct request *r = CONTAINER_OF(list_pop(&q->free_requests), struct request, link);

	q->request_count++;
	r->unopened = 0;
	r->list = LIST_NONE;
	r->debt = NULL;
	r->touch_count = 0;
	r->is_doubtful = false;
	r->end = (struct rio_ended){ 0 };
	return r;
}

static void request_free(struct rio_requester *q, struct request *r)
{
	list_remove(&r->link);
	list_push(&q->free_requests, &r->link);
	q->request_count--;
	r->state = REQUEST_FREE;
}

static void debt_free(struct rio_requester *q, struct debt *d)
{
	list_remove(&d->link);
	list_remove(&d->owing_link);
	list_push(&q->free_debts, &d->link);
	list_slot_free(q, &d->list);
	q->debt_count--;
	d->id = 0;
	d->request = NULL;
}

/* Ids are unique; id modulo requests_max is the slot. */
static struct request *request_find(struct rio_requester *q, uint64_t id)
{
	struct request *r = &q->requests[id % q->config.requests_max];

	return r->state != REQUEST_FREE && r->id == id ? r : NULL;
}

/* ---- Its end -------------------------------------------------------------------------------- */

static void request_close_windows(struct rio_requester *q, struct request *r)
{
	struct list *next;

	for (struct list *l = r->windows.next; l != &r->windows; l = next) {
		struct window *w = CONTAINER_OF(l, struct window, link);

		next = l->next;
		if (w->state == WINDOW_WANTED) {
			window_free(q, w);
		} else if (w->state == WINDOW_OPEN) {
			w->state = WINDOW_LEAVING;
			list_add_tail(&q->leaving, &w->due);
		}
	}
}

/* RIO-02i: a request ends after its windows are closed. */
static void request_try_end(struct rio_requester *q, struct request *r)
{
	if (!list_is_empty(&r->windows))
		return;
	r->state = REQUEST_ENDED;
	list_add_tail(&q->ended, &r->link);
}

void request_end(struct rio_requester *q, struct request *r, uint32_t reason)
{
	if (r->state >= REQUEST_CLOSING)
		return;
	if (r->state == REQUEST_ASKED)
		q->asked_weight -= r->weight;
	reason = unflushed_end(q, r, reason);
	r->state = REQUEST_CLOSING;
	r->end.reason = reason;
	timer_queue_cancel(&q->timers, &r->timer);
	list_remove(&r->link);
	if (r->debt)
		debt_free(q, r->debt);
	r->debt = NULL;
	list_slot_free(q, &r->list);
	request_close_windows(q, r);
	request_try_end(q, r);
}

static void debt_cancel(struct rio_requester *q, struct debt *d)
{
	if (!d->is_cancelled)
		list_add_tail(&q->cancelling, &d->link);
	d->is_cancelled = true;
}

/* The request ends before the owner has answered: until then the owner may still read its list. */
static void debt_leave(struct rio_requester *q, struct request *r)
{
	struct debt *d = r->debt;

	if (!d)
		return;
	d->request = NULL;
	list_add_tail(&q->owing, &d->owing_link);
	d->list = r->list;
	r->debt = NULL;
	r->list = LIST_NONE;
}

/* Abandons a request that timed out. */
void request_late(struct rio_requester *q, struct request *r)
{
	if (r->debt)
		debt_cancel(q, r->debt);
	debt_leave(q, r);
	request_end(q, r, r->is_doubtful ? WEFT_R_PEER_GONE : WEFT_R_RIO_TIMEOUT);
}

void rio_requester_cancel(struct rio_requester *q, uint64_t id)
{
	struct request *r = request_find(q, id);

	if (r && r->state == REQUEST_ASKED && r->debt)
		debt_cancel(q, r->debt);
	else if (r && r->state != REQUEST_ASKED)
		request_end(q, r, WEFT_R_RIO_CANCELLED);
}

/* A debt whose request has ended; the owner answers in much the same order. */
static struct debt *debt_find(struct rio_requester *q, uint64_t id)
{
	for (struct list *l = q->owing.next; l != &q->owing; l = l->next) {
		struct debt *d = CONTAINER_OF(l, struct debt, owing_link);

		if (d->id == id)
			return d;
	}
	return NULL;
}

static void end_with(struct rio_requester *q, struct request *r, const struct rio_status *status)
{
	r->end.transaction = status->transaction;
	r->end.done_bytes = status->done_bytes;
	if (status->text.length > 0)
		memcpy(r->end.text, status->text.bytes, status->text.length);
	request_end(q, r, status->reason);
}

/* The I/O unit of the request's device; it may have been announced after the request was made. */
static struct platform iounit_of(const struct rio_requester *q, struct request *r)
{
	if (platform_is_none(r->iounit))
		r->iounit = unit_of_device(q, r->device);
	return r->iounit;
}

/*
 * The owner has reported success, but only the I/O unit's own notice, sent behind the data on the
 * data connection, proves that the data is here. If that connection was replaced in the meantime,
 * the notice may be lost. The unit sent it before the owner's status, so it arrives soon or never.
 */
static void await_word(struct rio_requester *q, struct request *r)
{
	uint64_t soon_ns;

	debt_free(q, r->debt);
	r->debt = NULL;
	list_slot_free(q, &r->list);
	if (!unit_is_connected(q, iounit_of(q, r))) {
		request_end(q, r, WEFT_R_PEER_GONE);
	} else if (unit_was_lost(q, r->iounit, r->losses)) {
		r->is_doubtful = true;
		soon_ns = deadline_after(q->now_ns, q->config.grace_ns);
		if (soon_ns < r->timer.deadline_ns)
			timer_queue_set(&q->timers, &r->timer, soon_ns);
	}
}

void requests_end_unreported(struct rio_requester *q, struct platform iounit)
{
	for (uint32_t i = 0; i < q->config.requests_max; i++) {
		struct request *r = &q->requests[i];

		if (r->state == REQUEST_ASKED && !r->debt && platform_is_same(r->iounit, iounit))
			request_end(q, r, WEFT_R_PEER_GONE);
	}
}

enum weft_reason request_take_word(struct rio_requester *q, struct platform iounit,
				   const struct rio_msg *m)
{
	struct request *r = request_find(q, m->id);

	if (m->type != RIO_STATUS)
		return WEFT_R_RIO_UNEXPECTED;
	/* Ignore a notice for an ended request, or for a device of another I/O unit. */
	if (!r || r->state != REQUEST_ASKED || !platform_is_same(iounit_of(q, r), iounit))
		return WEFT_OK;
	debt_leave(q, r);
	end_with(q, r, &m->status);
	return WEFT_OK;
}

enum weft_reason request_take_status(struct rio_requester *q, uint64_t id,
				     const struct rio_status *status)
{
	struct request *r = request_find(q, id);
	struct debt *d;

	if (r && r->state == REQUEST_ASKED && r->debt) {
		end_with(q, r, status);
		return WEFT_OK;
	}
	d = id != 0 ? debt_find(q, id) : NULL;
	if (!d)
		return WEFT_R_RIO_UNEXPECTED;
	debt_free(q, d);
	return WEFT_OK;
}

enum weft_reason requests_take_notified(struct rio_requester *q,
					const struct rio_notified *notified)
{
	struct rd at = rd_of(notified->entries.bytes, notified->entries.length);

	for (uint32_t i = 0; i < notified->count; i++) {
		uint64_t id = rio_notified_next(&at).id;
		struct request *r = request_find(q, id);
		struct debt *d = r && r->state == REQUEST_ASKED ? r->debt : NULL;

		if (d) {
			await_word(q, r);
			continue;
		}
		d = id != 0 ? debt_find(q, id) : NULL;
		if (!d)
			return WEFT_R_RIO_UNEXPECTED;
		debt_free(q, d);
	}
	return WEFT_OK;
}

void debts_forget(struct rio_requester *q)
{
	for (uint32_t i = 0; i < q->debts_max; i++) {
		if (q->debts[i].id != 0)
			debt_free(q, &q->debts[i]);
	}
}

bool rio_requester_ended(struct rio_requester *q, struct rio_ended *ended)
{
	struct request *r;

	if (list_is_empty(&q->ended))
		return false;
	r = CONTAINER_OF(q->ended.next, struct request, link);
	*ended = r->end;
	request_free(q, r);
	return true;
}

/* ---- Its beginning -------------------------------------------------------------------------- */

/* RIO-02c: requests queue for the owner in the order in which their windows became open. */
static void request_try_wait(struct rio_requester *q, struct request *r)
{
	if (r->unopened > 0)
		return;
	r->state = REQUEST_WAITING;
	if (list_is_empty(&q->waiting)) {
		q->held_ns = deadline_after(q->now_ns, HELD_MAX_NS);
		q->held_count = 0;
	}
	if (r->weight < HEAVY_BYTES || ++q->held_count == HELD_MANY)
		q->held_ns = 0;
	list_add_tail(&q->waiting, &r->link);
}

/*
 * While the outstanding requests keep the I/O unit busy for milliseconds, large requests wait for
 * each other, so that the owner is woken once for several.
 */
bool requests_are_held(const struct rio_requester *q)
{
	return q->asked_weight >= ENOUGH_BYTES && q->now_ns < q->held_ns;
}

static uint64_t weight_of(const struct rio_ask *ask)
{
	uint64_t weight = 0;

	for (uint32_t i = 0; i < ask->count; i++) {
		const struct sgl_transaction *t = &ask->wanted[i].is;

		if (t->operation == SGL_READ || t->operation == SGL_WRITE)
			weight += t->length;
	}
	return weight;
}

static enum weft_reason room_check(const struct rio_requester *q, const struct list_size *size)
{
	if (size->windows > q->config.sges_max)
		return WEFT_R_LIMIT;
	if (list_is_empty(&q->free_requests) || size->windows > q->free_window_count ||
	    (size->is_long && q->free_list_count == 0))
		return WEFT_R_BUSY;
	return WEFT_OK;
}

/* Takes back a request that was refused before any act of it was pulled. */
static void request_undo(struct rio_requester *q, struct request *r)
{
	request_close_windows(q, r);
	list_slot_free(q, &r->list);
	request_free(q, r);
}

enum weft_reason rio_requester_ask(struct rio_requester *q, const struct rio_ask *ask,
				   uint64_t now_ns, uint64_t *id)
{
	struct list_size size;
	enum weft_reason reason;
	struct request *r;

	q->now_ns = now_ns;
	if (!q->has_owner)
		return WEFT_R_RIO_OWNER_LEFT;
	reason = list_measure(q, ask, &size);
	if (reason == WEFT_OK)
		reason = room_check(q, &size);
	if (reason != WEFT_OK)
		return reason;
	r = request_new(q);
	if (size.is_long)
		r->list = q->free_lists[--q->free_list_count];
	list_build(q, r, ask, &size);
	reason = list_check(q, r, &size);
	if (reason == WEFT_OK)
		reason = unflushed_take_loss(q, ask);
	if (reason != WEFT_OK) {
		request_undo(q, r);
		return reason;
	}
	unflushed_begin(q, r, ask);
	r->state = REQUEST_EXPOSING;
	r->id = ++q->serial * q->config.requests_max + (uint64_t)(r - q->requests);
	r->end.id = r->id;
	r->end.context = ask->context;
	r->device = ask->wanted[0].is.device;
	r->weight = weight_of(ask);
	r->iounit = unit_of_device(q, r->device);
	r->deadline_ns = deadline_after(now_ns,
					ask->timeout_ns ? ask->timeout_ns : q->config.timeout_ns);
	timer_queue_set(&q->timers, &r->timer, r->deadline_ns);
	request_try_wait(q, r);
	*id = r->id;
	return WEFT_OK;
}

void rio_requester_exposed(struct rio_requester *q, uint32_t id, enum weft_reason reason,
			   uint32_t handle)
{
	struct window *w;
	struct request *r;

	CHECK(id < q->config.sges_max && q->windows[id].state == WINDOW_EXPOSING);
	w = &q->windows[id];
	r = w->request;
	if (reason != WEFT_OK) {
		window_free(q, w);
		request_end(q, r, (uint32_t)reason);
	} else {
		w->state = WINDOW_OPEN;
		w->handle = handle;
		r->unopened--;
	}
	if (r->state == REQUEST_EXPOSING) {
		list_set_handle(q, w);
		request_try_wait(q, r);
	} else {
		/* The request has ended in the meantime, or the failure has ended it. */
		request_close_windows(q, r);
	}
	if (r->state == REQUEST_CLOSING)
		request_try_end(q, r);
}

/* ---- What is to be done --------------------------------------------------------------------- */

void window_act_done(struct rio_requester *q)
{
	struct window *w = q->closed;

	if (!w)
		return;
	q->closed = NULL;
	window_free(q, w);
	request_try_end(q, w->request);
}

bool window_act(struct rio_requester *q, struct rio_requester_act *act)
{
	bool is_close = !list_is_empty(&q->leaving);
	struct window *w;

	if (!is_close && list_is_empty(&q->exposing))
		return false;
	w = CONTAINER_OF(list_pop(is_close ? &q->leaving : &q->exposing), struct window, due);
	w->state = is_close ? WINDOW_CLOSED : WINDOW_EXPOSING;
	if (is_close)
		q->closed = w;
	*act = (struct rio_requester_act){
		.kind = is_close ? RIO_REQUESTER_CLOSE : RIO_REQUESTER_EXPOSE,
		.id = (uint32_t)(w - q->windows),
		.tag = w->tag,
		.address = w->address,
		.window_length = w->length,
		.is_written = w->is_written,
		.iounit = is_close ? (struct platform){ 0 } : iounit_of(q, w->request),
	};
	return true;
}

bool cancel_act(struct rio_requester *q, struct rio_requester_act *act)
{
	struct debt *d;

	if (list_is_empty(&q->cancelling))
		return false;
	d = CONTAINER_OF(list_pop(&q->cancelling), struct debt, link);
	requester_say(q, &(struct rio_msg){ .type = RIO_CANCEL, .id = d->id }, act);
	return true;
}

static uint32_t timeout_ms(const struct rio_requester *q, const struct request *r)
{
	uint64_t left_ns = r->deadline_ns > q->now_ns ? r->deadline_ns - q->now_ns : 0;
	uint64_t ms = left_ns / NS_PER_MS + (left_ns % NS_PER_MS > 0);

	if (ms == 0)
		return 1; /* 0 would mean the owner's default */
	return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

bool request_act(struct rio_requester *q, struct rio_requester_act *act)
{
	struct request *r;
	struct debt *d;

	if (list_is_empty(&q->waiting) || list_is_empty(&q->free_debts) ||
	    q->debt_count >= q->owner_requests_max || requests_are_held(q))
		return false;
	r = CONTAINER_OF(list_pop(&q->waiting), struct request, link);
	d = CONTAINER_OF(list_pop(&q->free_debts), struct debt, link);
	q->debt_count++;
	*d = (struct debt){ .request = r, .id = r->id, .list = LIST_NONE };
	list_init(&d->link);
	list_init(&d->owing_link);
	r->debt = d;
	r->state = REQUEST_ASKED;
	r->losses = q->losses;
	q->asked_weight += r->weight;
	q->held_ns = 0; /* nor hold back the others */
	timer_queue_set(&q->timers, &r->timer, deadline_after(r->deadline_ns, q->config.grace_ns));
	requester_say(q,
		      &(struct rio_msg){ .type = RIO_REQUEST,
					 .id = r->id,
					 .request = { .timeout_ms = timeout_ms(q, r),
						      .list = { r->bytes, r->length } } },
		      act);
	return true;
}
