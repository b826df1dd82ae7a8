/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues: scatter lists for one incoming message each (QP-08), owned by one queue pair or
 * shared by many (struct weft_srq).
 */
#pragma once

#include <stddef.h>

#include "verbs/pd.h"

/* One posted receive: a slot of its queue. */
struct recv_wqe {
	uint64_t id;
	uint32_t next; /* slot, counted from 1; 0: none. While it is claimed: its own */
	uint32_t sge_count;
	struct weft_sge sges[]; /* sges_max of them */
};

/*
 * Slots are claimed in the order they were posted, and freed in any order: a queue pair keeps the
 * slot that it claimed until its message is complete, and others of an SRQ may be faster.
 */
struct recv_queue {
	uint8_t *slots;
	size_t slot_bytes;
	uint32_t max, sges_max;
	uint32_t first, last;	/* posted, not yet claimed: slots, counted from 1 */
	uint32_t free, touched; /* list of freed slots; number of slots ever used */
	uint32_t posted;	/* not yet claimed */
	uint32_t used;		/* posted, or claimed and not yet freed */
	struct list senders;	/* queue pairs that wait for a receive in this queue */
};

/* 0, or -1 when memory is short. */
int recv_queue_init(struct recv_queue *q, uint32_t max, uint32_t sges_max);
void recv_queue_fini(struct recv_queue *q);

enum weft_reason recv_queue_post(struct recv_queue *q, const struct weft_recv_wr *wr);

/* Claims the oldest receive; there must be one. */
struct recv_wqe *recv_queue_claim(struct recv_queue *q);

/* Undoes a claim: the receive is the oldest of the queue again. */
void recv_queue_return(struct recv_queue *q, struct recv_wqe *wqe);

/* Frees the slot of a claimed receive. */
void recv_queue_release(struct recv_queue *q, struct recv_wqe *wqe);

struct weft_srq {
	struct adapter *adapter;
	struct weft_pd *pd;
	struct event_source events;
	struct recv_queue queue;
	uint32_t number;
	uint32_t users; /* queue pairs; XRC: those that have claimed one of its receives */
	uint32_t limit; /* 0: not armed */
	uint32_t xrc_domain;
	struct weft_cq *xrc_cq; /* or NULL */
};

enum weft_reason srq_create(struct weft_pd *pd, const struct weft_srq_options *options,
			    struct weft_srq **srq);
enum weft_reason srq_destroy(struct weft_srq *srq);
enum weft_reason srq_post(struct weft_srq *srq, const struct weft_recv_wr *wrs, uint32_t count,
			  uint32_t *posted);
enum weft_reason srq_arm(struct weft_srq *srq, uint32_t limit);

/* A receive was claimed: raises the limit event if that is due. */
void srq_taken(struct weft_srq *srq);
