/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a ring of completions, its arming, and its overrun. */
#pragma once

#include <stdatomic.h>

#include "verbs/adapter.h"

enum cq_arm { CQ_UNARMED = 0, CQ_ARMED_NEXT, CQ_ARMED_SOLICITED };

struct weft_cq {
	struct adapter *adapter;
	struct event_source events;
	struct weft_completion *entries;
	uint32_t number;
	uint32_t users; /* queue pairs, counted once for each of their queues */
	uint32_t max, head, count;
	uint32_t polls; /* calls of cq_poll() so far */
	enum cq_arm arm;
	uint64_t lost;	 /* completions lost for lack of room */
	bool is_overrun; /* one was lost since a poll last reported it */
	/* While held: the latest completions are hidden. */
	struct list held_link;
	uint32_t hidden;
	bool has_hidden_waker; /* one of them is solicited: it wakes CQ_ARMED_SOLICITED */
	uint64_t release_ns;   /* until then; 0: not set yet */
	/* For threads that do not hold the adapter's lock. */
	atomic_bool is_worth_polling; /* it has completions, or an overrun to report */
	atomic_uint polls_missed;     /* that found the lock taken, one after the other */
};

enum weft_reason cq_create(struct adapter *a, const struct weft_cq_options *options,
			   struct weft_cq **cq);
enum weft_reason cq_destroy(struct weft_cq *cq);

/* Keeps the completions in it: WEFT_R_BAD_ARGUMENT if the new size has no room for them. */
enum weft_reason cq_resize(struct weft_cq *cq, uint32_t max);

/* Adds a completion. False: there was no room, it is lost, and its queue pair must fail. */
bool cq_push(struct weft_cq *cq, const struct weft_completion *completion, bool is_solicited);

/*
 * An injected fault: hides completions added from now on, for the time that the plan says. False:
 * the queue is held already.
 */
bool cq_hold(struct weft_cq *cq);

/* When the first held queue is due; releases the queues that are due now. */
uint64_t cqs_due(const struct adapter *a);
void cqs_release(struct adapter *a, uint64_t now_ns);

/* Takes up to max; returns WEFT_R_CQ_OVERRUN once, when the queue is empty after a loss. */
enum weft_reason cq_poll(struct weft_cq *cq, struct weft_completion *completions, uint32_t max,
			 uint32_t *count);
enum weft_reason cq_arm(struct weft_cq *cq, enum weft_arm arm);

/* Removes the completions of one queue pair. */
void cq_forget(struct weft_cq *cq, uint32_t qp_number);
