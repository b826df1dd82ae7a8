/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/recv_queue.h"

#include <stdlib.h>
#include <string.h>

#include "verbs/qp.h"

enum { RECV_DEFAULT = 64, SEGMENTS_DEFAULT = 4 };

int recv_queue_init(struct recv_queue *q, uint32_t max, uint32_t segments_max)
{
	*q = (struct recv_queue){ .max = max, .segments_max = segments_max };
	list_init(&q->senders);
	q->wqes = calloc(max, sizeof(*q->wqes));
	q->segments = calloc((size_t)max * segments_max, sizeof(*q->segments));
	if (q->wqes && q->segments)
		return 0;
	recv_queue_fini(q);
	return -1;
}

void recv_queue_fini(struct recv_queue *q)
{
	free(q->wqes);
	free(q->segments);
	q->wqes = NULL;
	q->segments = NULL;
	q->max = 0;
}

enum weft_reason recv_queue_post(struct recv_queue *q, const struct weft_recv_wr *wr)
{
	uint64_t length = 0;
	uint32_t tail;
	struct weft_segment *segments;

	if (wr->segment_count > q->segments_max)
		return WEFT_R_WR_SEGMENTS;
	if (wr->segment_count > 0 && !wr->segments)
		return WEFT_R_NULL_ARGUMENT;
	for (uint32_t i = 0; i < wr->segment_count; i++)
		length += wr->segments[i].length;
	if (length > WEFT_MESSAGE_MAX)
		return WEFT_R_WR_LENGTH;
	if (q->count == q->max)
		return WEFT_R_QUEUE_FULL;
	tail = (q->head + q->count) % q->max;
	segments = &q->segments[(size_t)tail * q->segments_max];
	if (wr->segment_count > 0)
		memcpy(segments, wr->segments, wr->segment_count * sizeof(*segments));
	q->wqes[tail] = (struct recv_wqe){
		.id = wr->id,
		.segments = segments,
		.segment_count = wr->segment_count,
	};
	q->count++;
	return WEFT_OK;
}

void recv_queue_pop(struct recv_queue *q)
{
	CHECK(q->count > 0);
	q->head = q->head + 1 < q->max ? q->head + 1 : 0;
	q->count--;
}

enum weft_reason srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
			    struct weft_srq **srq)
{
	uint32_t max = options->recv_max ? options->recv_max : RECV_DEFAULT;
	uint32_t segments = options->segments_max ? options->segments_max : SEGMENTS_DEFAULT;
	struct adapter *a = pd->adapter;
	struct weft_srq *s;

	if (max > WEFT_QUEUE_MAX || segments > WEFT_SEGMENTS_MAX)
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
	event_source_init(&s->events, s->number, options->context);
	*srq = s;
	return WEFT_OK;
}

enum weft_reason srq_destroy(struct weft_srq *srq)
{
	if (srq->users > 0)
		return WEFT_R_BUSY;
	id_table_remove(&srq->adapter->srqs, srq->number);
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
	if (srq->queue.count >= srq->limit)
		return;
	srq->limit = 0;
	event_raise(&srq->adapter->events, &srq->events, WEFT_EVENT_SRQ_LIMIT, WEFT_OK);
}
