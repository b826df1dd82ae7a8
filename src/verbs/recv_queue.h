/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues: scatter lists waiting for one incoming message each (QP-08), owned by one queue
 * pair or shared by many (struct weft_srq).
 */
#pragma once

#include "verbs/pd.h"

struct recv_wqe {
	uint64_t id;
	const struct weft_segment *segments;
	uint32_t segment_count;
};

struct recv_queue {
	struct recv_wqe *wqes;
	struct weft_segment *segments; /* segments_max for each wqe */
	uint32_t max, segments_max, head, count;
	struct list senders; /* queue pairs that wait for a receive to appear here */
};

/* 0, or -1 when memory is short. */
int recv_queue_init(struct recv_queue *q, uint32_t max, uint32_t segments_max);
void recv_queue_fini(struct recv_queue *q);

enum weft_reason recv_queue_post(struct recv_queue *q, const struct weft_recv_wr *wr);

/* The oldest receive, or NULL. It stays until popped. */
static inline struct recv_wqe *recv_queue_head(struct recv_queue *q)
{
	return q->count > 0 ? &q->wqes[q->head] : NULL;
}

void recv_queue_pop(struct recv_queue *q);

struct weft_srq {
	struct adapter *adapter;
	struct weft_pd *pd;
	struct event_source events;
	struct recv_queue queue;
	uint32_t number;
	uint32_t users; /* queue pairs */
	uint32_t limit; /* 0: not armed */
};

enum weft_reason srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
			    struct weft_srq **srq);
enum weft_reason srq_destroy(struct weft_srq *srq);
enum weft_reason srq_post(struct weft_srq *srq, const struct weft_recv_wr *wrs, uint32_t count,
			  uint32_t *posted);
enum weft_reason srq_arm(struct weft_srq *srq, uint32_t limit);

/* A receive was taken: raises the limit event if that is due. */
void srq_taken(struct weft_srq *srq);
