/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/cq.h"

#include <stdlib.h>

enum { ENTRIES_DEFAULT = 256, ENTRIES_MAX = 1 << 22 };

static void set_arm(struct weft_cq *cq, enum cq_arm arm)
{
	cq->adapter->cqs_armed += (arm != CQ_UNARMED) - (cq->arm != CQ_UNARMED);
	cq->arm = arm;
}

enum weft_reason cq_create(struct adapter *a, const struct weft_cq_options *options,
			   struct weft_cq **cq)
{
	struct weft_cq *c;

	if (options->entries_max > ENTRIES_MAX)
		return WEFT_R_BAD_ARGUMENT;
	c = calloc(1, sizeof(*c));
	if (!c)
		return WEFT_R_NO_MEMORY;
	c->adapter = a;
	c->max = options->entries_max ? options->entries_max : ENTRIES_DEFAULT;
	c->entries = calloc(c->max, sizeof(*c->entries));
	if (!c->entries) {
		free(c);
		return WEFT_R_NO_MEMORY;
	}
	c->number = id_table_add(&a->cqs, c);
	if (c->number == 0) {
		free(c->entries);
		free(c);
		return WEFT_R_LIMIT;
	}
	list_init(&c->held_link);
	event_source_init(&c->events, c->number, options->context);
	*cq = c;
	return WEFT_OK;
}

enum weft_reason cq_destroy(struct weft_cq *cq)
{
	if (cq->users > 0)
		return WEFT_R_BUSY;
	set_arm(cq, CQ_UNARMED);
	id_table_remove(&cq->adapter->cqs, cq->number);
	list_remove(&cq->events.link);
	list_remove(&cq->held_link);
	free(cq->entries);
	free(cq);
	return WEFT_OK;
}

enum weft_reason cq_resize(struct weft_cq *cq, uint32_t max)
{
	struct weft_completion *entries;
	uint32_t count = cq->count;

	if (max == 0 || max > ENTRIES_MAX || max < count)
		return WEFT_R_BAD_ARGUMENT;
	entries = calloc(max, sizeof(*entries));
	if (!entries)
		return WEFT_R_NO_MEMORY;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = cq->head + i;

		entries[i] = cq->entries[at < cq->max ? at : at - cq->max];
	}
	free(cq->entries);
	cq->entries = entries;
	cq->head = 0;
	cq->max = max;
	return WEFT_OK;
}

/* One more completion is visible: raises the event if the queue is armed for it. */
static void wake(struct weft_cq *cq, bool is_waker)
{
	if (cq->arm == CQ_ARMED_NEXT || (cq->arm == CQ_ARMED_SOLICITED && is_waker)) {
		set_arm(cq, CQ_UNARMED);
		event_raise(&cq->adapter->events, &cq->events, WEFT_EVENT_COMPLETION, WEFT_OK);
	}
}

bool cq_push(struct weft_cq *cq, const struct weft_completion *completion, bool is_solicited)
{
	uint32_t tail = cq->head + cq->count;
	bool is_waker = is_solicited || completion->status != WEFT_SUCCESS;

	atomic_store_explicit(&cq->is_worth_polling, true, memory_order_relaxed);
	if (cq->count == cq->max) {
		cq->lost++;
		cq->is_overrun = true;
		event_raise(&cq->adapter->events, &cq->events, WEFT_EVENT_CQ_OVERRUN,
			    WEFT_R_CQ_OVERRUN);
		return false;
	}
	cq->entries[tail < cq->max ? tail : tail - cq->max] = *completion;
	cq->count++;
	if (list_is_linked(&cq->held_link)) {
		cq->hidden++;
		cq->has_hidden_waker |= is_waker;
	} else if (cq->arm != CQ_UNARMED) {
		wake(cq, is_waker);
	}
	return true;
}

/* ---- Completions that come late ------------------------------------------------------------- */

bool cq_hold(struct weft_cq *cq)
{
	if (list_is_linked(&cq->held_link))
		return false;
	cq->release_ns = 0;
	list_add_tail(&cq->adapter->held, &cq->held_link);
	return true;
}

static struct weft_cq *held_at(const struct list *at)
{
	return CONTAINER_OF(at, struct weft_cq, held_link);
}

uint64_t cqs_due(const struct adapter *a)
{
	uint64_t due = UINT64_MAX;

	for (const struct list *at = a->held.next; at != &a->held; at = at->next) {
		if (held_at(at)->release_ns < due)
			due = held_at(at)->release_ns;
	}
	return due;
}

static void release(struct weft_cq *cq)
{
	bool is_waker = cq->has_hidden_waker, has_hidden = cq->hidden > 0;

	list_remove(&cq->held_link);
	cq->hidden = 0;
	cq->has_hidden_waker = false;
	if (has_hidden)
		wake(cq, is_waker);
}

void cqs_release(struct adapter *a, uint64_t now_ns)
{
	struct list *at = a->held.next;

	while (at != &a->held) {
		struct weft_cq *cq = held_at(at);

		at = at->next;
		if (cq->release_ns == 0)
			cq->release_ns = now_ns + a->faults->wc_delay_ns;
		if (cq->release_ns <= now_ns)
			release(cq);
	}
}

/* ---- Consumers ------------------------------------------------------------------------------ */

enum weft_reason cq_poll(struct weft_cq *cq, struct weft_completion *completions, uint32_t max,
			 uint32_t *count)
{
	uint32_t seen = cq->count - cq->hidden, n = seen < max ? seen : max;

	cq->polls++;
	*count = n;
	if (cq->count == 0 && max > 0 && cq->is_overrun) {
		cq->is_overrun = false;
		return WEFT_R_CQ_OVERRUN;
	}
	for (uint32_t i = 0; i < n; i++) {
		completions[i] = cq->entries[cq->head];
		cq->head = cq->head + 1 < cq->max ? cq->head + 1 : 0;
	}
	cq->count -= n;
	atomic_store_explicit(&cq->is_worth_polling, cq->count > 0 || cq->is_overrun,
			      memory_order_relaxed);
	return WEFT_OK;
}

enum weft_reason cq_arm(struct weft_cq *cq, enum weft_arm arm)
{
	if ((unsigned int)arm > WEFT_ARM_SOLICITED)
		return WEFT_R_BAD_ARGUMENT;
	/* An arm for every completion is not narrowed by a later one for solicited ones. */
	if (arm == WEFT_ARM_NEXT)
		set_arm(cq, CQ_ARMED_NEXT);
	else if (cq->arm == CQ_UNARMED)
		set_arm(cq, CQ_ARMED_SOLICITED);
	return WEFT_OK;
}

void cq_forget(struct weft_cq *cq, uint32_t qp_number)
{
	uint32_t kept = 0, seen = cq->count - cq->hidden;

	for (uint32_t i = 0; i < cq->count; i++) {
		uint32_t from = cq->head + i, to = cq->head + kept;
		const struct weft_completion *c = &cq->entries[from % cq->max];

		if (c->qp_number != qp_number) {
			cq->entries[to % cq->max] = *c;
			kept++;
		} else if (i >= seen) {
			cq->hidden--;
		}
	}
	cq->count = kept;
}
