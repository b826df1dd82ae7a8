/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/reserved.h"
#include "driver/sys/clock.h"
#include "roles/rio_requester_inside.h"

enum { TRANSACTIONS = 64 };

/* ---- Asking --------------------------------------------------------------------------------- */

static enum weft_reason fragments_of(struct weft_rio_requester *q,
				     const struct weft_rio_transaction *t, uint32_t *used)
{
	if (!RESERVED_IS_ZERO(t))
		return WEFT_R_RESERVED;
	if (t->sge_count > 0 && !t->sges)
		return WEFT_R_NULL_ARGUMENT;
	if (t->sge_count > q->sges_max - *used)
		return WEFT_R_LIMIT;
	for (uint32_t i = 0; i < t->sge_count; i++) {
		const struct weft_rio_sge *s = &t->sges[i];

		q->fragments[*used + i] = (struct rio_fragment){
			.platform = { s->platform.unit, s->platform.process },
			.tag = s->tag,
			.length = s->length,
			.address = (uintptr_t)s->memory,
		};
	}
	*used += t->sge_count;
	return WEFT_OK;
}

/* The number of the last loss among the devices that the request flushes. */
static uint64_t loss_of(const struct weft_rio_requester *q, const struct weft_rio_request *request)
{
	uint64_t last = 0;

	for (uint32_t i = 0; i < request->transaction_count; i++) {
		const struct weft_rio_transaction *t = &request->transactions[i];
		uint64_t loss = t->operation == WEFT_RIO_FLUSH
					? rio_requester_loss(q->core, t->device)
					: 0;

		last = loss > last ? loss : last;
	}
	return last;
}

/* A request that fails at once because of a loss still ends like any other. */
static void end_lost(struct weft_rio_requester *q, const struct weft_rio_request *request,
		     struct ticket *t, struct waiter *waiter)
{
	const struct weft_rio_result ended = { .context = request->context,
					       .reason = WEFT_R_RIO_WRITES_LOST,
					       .loss = loss_of(q, request) };

	if (waiter) {
		waiter->ended = ended;
		waiter->has_ended = true;
		return;
	}
	t->ended = ended;
	list_remove(&t->link);
	list_add_tail(&q->ended, &t->link);
	requester_tell(q, WANTS_ALL);
}

/* WEFT_OK: the request has started or ended; the waiter or weft_rio_request_wait() hears. */
static enum weft_reason ask(struct weft_rio_requester *q, const struct weft_rio_request *request,
			    struct waiter *waiter)
{
	struct rio_wanted wanted[TRANSACTIONS];
	struct rio_ask a = { .wanted = wanted, .count = request->transaction_count };
	struct ticket *t;
	enum weft_reason r = WEFT_OK;
	uint32_t used = 0;
	uint64_t id;

	if (!RESERVED_IS_ZERO(request))
		return WEFT_R_RESERVED;
	if (request->transaction_count == 0 || !request->transactions)
		return WEFT_R_SGL_NO_TRANSACTION;
	if (request->transaction_count > TRANSACTIONS)
		return WEFT_R_SGL_TRANSACTIONS;
	for (uint32_t i = 0; i < request->transaction_count && r == WEFT_OK; i++) {
		const struct weft_rio_transaction *from = &request->transactions[i];

		wanted[i] = (struct rio_wanted){
			.is = { .operation = (enum sgl_operation)from->operation,
				.is_fua = from->is_fua,
				.device = from->device,
				.offset = from->offset,
				.length = from->length },
			.fragments = q->fragments + used,
			.fragment_count = from->sge_count,
			.buffers = from->buffers,
			.buffer_count = from->buffer_count,
			.immediate = from->data,
		};
		r = fragments_of(q, from, &used);
	}
	if (r == WEFT_OK && list_is_empty(&q->free_tickets))
		r = WEFT_R_BUSY;
	if (r != WEFT_OK)
		return r;
	t = CONTAINER_OF(q->free_tickets.next, struct ticket, link);
	a.timeout_ns = request->timeout_ns;
	a.context = t;
	r = rio_requester_ask(q->core, &a, clock_ns(), &id);
	if (r == WEFT_R_RIO_WRITES_LOST) {
		end_lost(q, request, t, waiter);
		return WEFT_OK;
	}
	if (r != WEFT_OK)
		return r;
	list_remove(&t->link);
	t->waiter = waiter;
	t->ended.context = request->context;
	requester_work(q);
	if (rio_requester_due(q->core) < q->loop.asleep_until_ns)
		rio_loop_wake(&q->loop);
	return WEFT_OK;
}

enum weft_reason weft_rio_request_submit(struct weft_rio_requester *q,
					 const struct weft_rio_request *request)
{
	enum weft_reason r;

	if (!q || !request)
		return WEFT_R_NULL_ARGUMENT;
	pthread_mutex_lock(&q->lock);
	r = ask(q, request, NULL);
	pthread_mutex_unlock(&q->lock);
	return r;
}

enum weft_reason weft_rio_request_wait(struct weft_rio_requester *q, uint64_t timeout,
				       struct weft_rio_result *ended, uint32_t max, uint32_t *count)
{
	struct follower self = { .wake = PTHREAD_COND_INITIALIZER, .wants = WANTS_ALL };
	uint64_t end_ns;

	if (!q || !count || (max > 0 && !ended))
		return WEFT_R_NULL_ARGUMENT;
	*count = 0;
	pthread_mutex_lock(&q->lock);
	end_ns = deadline_after(clock_ns(), timeout);
	while (list_is_empty(&q->ended) && clock_ns() < end_ns)
		requester_wait(q, &self, end_ns);
	if (list_is_empty(&q->ended) && !q->poller)
		rio_loop_turn(&q->loop);
	while (*count < max && !list_is_empty(&q->ended)) {
		struct ticket *t = CONTAINER_OF(list_pop(&q->ended), struct ticket, link);

		ended[(*count)++] = t->ended;
		list_push(&q->free_tickets, &t->link);
		requester_tell_room(q);
	}
	requester_hand_on(q);
	pthread_mutex_unlock(&q->lock);
	return WEFT_OK;
}

enum weft_reason weft_rio_request_do(struct weft_rio_requester *q,
				     const struct weft_rio_request *request,
				     struct weft_rio_result *ended)
{
	struct waiter w = { .thread = { .wake = PTHREAD_COND_INITIALIZER, .wants = WANTS_ROOM } };
	enum weft_reason r;

	if (!q || !request)
		return WEFT_R_NULL_ARGUMENT;
	pthread_mutex_lock(&q->lock);
	while ((r = ask(q, request, &w)) == WEFT_R_BUSY)
		requester_wait(q, &w.thread, UINT64_MAX);
	if (r != WEFT_OK)
		w.ended = (struct weft_rio_result){ .context = request->context, .reason = r };
	w.thread.wants = WANTS_OWN;
	requester_tell_room(q); /* a slot may be left for another thread */
	while (r == WEFT_OK && !w.has_ended)
		requester_wait(q, &w.thread, UINT64_MAX);
	requester_hand_on(q);
	pthread_mutex_unlock(&q->lock);
	if (ended)
		*ended = w.ended;
	return w.ended.reason;
}
