/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/recv_queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/reserved.h"
#include "verbs/qp.h"

enum { RECV_DEFAULT = 64, SEGMENTS_DEFAULT = 4 };

static struct recv_wqe *slot_at(const struct recv_queue *q, uint32_t slot)
{
	return (struct recv_wqe *)(void *)(q->slots + (slot - 1) * q->slot_bytes);
}

int recv_queue_init(struct recv_queue *q, uint32_t max, uint32_t sges_max)
{
	*q = (struct recv_queue){ .max = max, .sges_max = sges_max };
	list_init(&q->senders);
	q->slot_bytes = sizeof(struct recv_wqe) + sges_max * sizeof(struct weft_sge);
	q->slots = malloc(max * q->slot_bytes);
	return q->slots ? 0 : -1;
}

void recv_queue_fini(struct recv_queue *q)
{
	free(q->slots);
	q->slots = NULL;
	q->max = 0;
}

static uint32_t slot_take(struct recv_queue *q)
{
	uint32_t slot = q->free;

	if (slot == 0)
		return ++q->touched;
	q->free = slot_at(q, slot)->next;
	return slot;
}

enum weft_reason recv_queue_post(struct recv_queue *q, const struct weft_recv_wr *wr)
{
	uint64_t length = 0;
	uint32_t slot;
	struct recv_wqe *wqe;

	if (!RESERVED_IS_ZERO(wr))
		return WEFT_R_RESERVED;
	if (wr->sge_count > q->sges_max)
		return WEFT_R_WR_SGES;
	if (wr->sge_count > 0 && !wr->sges)
		return WEFT_R_NULL_ARGUMENT;
	for (uint32_t i = 0; i < wr->sge_count; i++)
		length += wr->sges[i].length;
	if (length > WEFT_MESSAGE_MAX)
		return WEFT_R_WR_LENGTH;
	if (q->used == q->max)
		return WEFT_R_QUEUE_FULL;
	slot = slot_take(q);
	wqe = slot_at(q, slot);
	wqe->id = wr->id;
	wqe->next = 0;
	wqe->sge_count = wr->sge_count;
	if (wr->sge_count > 0)
		memcpy(wqe->sges, wr->sges, wr->sge_count * sizeof(*wqe->sges));
	if (q->posted == 0)
		q->first = slot;
	else
		slot_at(q, q->last)->next = slot;
	q->last = slot;
	q->posted++;
	q->used++;
	return WEFT_OK;
}

struct recv_wqe *recv_queue_claim(struct recv_queue *q)
{
	struct recv_wqe *wqe;
	uint32_t slot = q->first;

	CHECK(q->posted > 0);
	wqe = slot_at(q, slot);
	q->first = wqe->next;
	wqe->next = slot;
	q->posted--;
	return wqe;
}

void recv_queue_return(struct recv_queue *q, struct recv_wqe *wqe)
{
	uint32_t slot = wqe->next;

	CHECK(q->used > q->posted);
	wqe->next = q->first;
	q->first = slot;
	if (q->posted++ == 0)
		q->last = q->first;
}

void recv_queue_release(struct recv_queue *q, struct recv_wqe *wqe)
{
	uint32_t slot = wqe->next;

	CHECK(q->used > q->posted);
	wqe->next = q->free;
	q->free = slot;
	q->used--;
}

enum weft_reason srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
			    struct weft_srq **srq)
{
	uint32_t max = options->recv_max ? options->recv_max : RECV_DEFAULT;
	uint32_t segments = options->sges_max ? options->sges_max : SEGMENTS_DEFAULT;
	struct adapter *a = pd->adapter;
	struct weft_srq *s;

	if (max > WEFT_QUEUE_MAX || segments > WEFT_SGES_MAX ||
	    !options->xrc_domain != !options->xrc_cq ||
	    (options->xrc_cq && options->xrc_cq->adapter != a))
		return WEFT_R_BAD_ARGUMENT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return WEFT_R_NO_MEMORY;
	if (recv_queue_init(&s->queue, max, segments) < 0) {
		free(s);
		return WEFT_R_NO_MEMORY;
	}
	s->number = id_table_add(&a->srqs, s);
	if (s->number == 0) {
		recv_queue_fini(&s->queue);
		free(s);
		return WEFT_R_LIMIT;
	}
	s->adapter = a;
	s->pd = pd;
	pd->users++;
	s->xrc_domain = options->xrc_domain;
	s->xrc_cq = options->xrc_cq;
	if (s->xrc_cq)
		s->xrc_cq->users++;
	event_source_init(&s->events, s->number, options->context);
	*srq = s;
	return WEFT_OK;
}

/*
 * IBA annex A14: no queue pair is associated with a queue of XRC, so none keeps it, least of all by
 * a message that its peer does not end. The rest of that message names nothing that is there.
 */
static void cut_off(struct weft_srq *srq)
{
	const struct id_table *qps = &srq->adapter->qps;

	/* Bound: all queue pairs. */
	for (uint32_t i = 0; i < qps->slots_max && srq->users > 0; i++) {
		struct weft_qp *qp = qps->objects[i];

		if (qp && qp->is_xrc && qp->recv && qp->xrc_srq == srq->number) {
			qp->recv = NULL;
			qp->is_xrc_cut = true;
			srq->users--;
		}
	}
}

enum weft_reason srq_destroy(struct weft_srq *srq)
{
	if (srq->xrc_cq)
		cut_off(srq);
	if (srq->users > 0)
		return WEFT_R_BUSY;
	id_table_remove(&srq->adapter->srqs, srq->number);
	qp_wake_senders(&srq->queue); /* XRC: they find that it is gone */
	if (srq->xrc_cq)
		srq->xrc_cq->users--;
	list_remove(&srq->events.link);
	srq->pd->users--;
	recv_queue_fini(&srq->queue);
	free(srq);
	return WEFT_OK;
}

enum weft_reason srq_post(struct weft_srq *srq, const struct weft_recv_wr *wrs, uint32_t count,
			  uint32_t *posted)
{
	enum weft_reason r = WEFT_OK;
	uint32_t i;

	for (i = 0; i < count; i++) {
		r = recv_queue_post(&srq->queue, &wrs[i]);
		if (r != WEFT_OK)
			break;
	}
	*posted = i;
	qp_wake_senders(&srq->queue);
	return r;
}

enum weft_reason srq_arm(struct weft_srq *srq, uint32_t limit)
{
	if (limit > srq->queue.max)
		return WEFT_R_BAD_ARGUMENT;
	srq->limit = limit;
	srq_taken(srq);
	return WEFT_OK;
}

void srq_taken(struct weft_srq *srq)
{
	if (srq->queue.posted >= srq->limit)
		return;
	srq->limit = 0;
	event_raise(&srq->adapter->events, &srq->events, WEFT_EVENT_SRQ_LIMIT, WEFT_OK);
}
