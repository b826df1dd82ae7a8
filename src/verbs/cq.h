/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a ring of completions, an arm, and what happens when the ring is full. */
#pragma once

#include "verbs/adapter.h"

enum cq_arm { CQ_UNARMED = 0, CQ_ARMED_NEXT, CQ_ARMED_SOLICITED };

struct weft_cq {
	struct adapter *adapter;
	struct event_source events;
	struct weft_completion *entries;
	uint32_t number;
	uint32_t users; /* queue pairs, counted once for each of their queues */
	uint32_t max, head, count;
	enum cq_arm arm;
	uint64_t lost;	 /* completions that found no room */
	bool is_overrun; /* one was lost since poll last said so */
	/* While it is held: the latest of them are not seen until then, 0: not known yet. */
	struct list held_link;
	uint32_t hidden;
	bool has_hidden_waker; /* one that whoever armed for solicited ones waits for */
	uint64_t release_ns;
};

enum weft_reason cq_create(struct adapter *a, const struct weft_cq_options *options,
			   struct weft_cq **cq);
enum weft_reason cq_destroy(struct weft_cq *cq);

/* What is in it stays: WEFT_R_BAD_ARGUMENT if there is no room for that. */
enum weft_reason cq_resize(struct weft_cq *cq, uint32_t max);

/* Adds a completion. False: there was no room, it is lost, and its queue pair must fail. */
bool cq_push(struct weft_cq *cq, const struct weft_completion *completion, bool is_solicited);

/*
 * A fault on purpose: what is added from now on is not seen for the time that the plan says. False:
 * so it was already.
 */
bool cq_hold(struct weft_cq *cq);

/* When the first that is held is due; lets those that are due now show what they have. */
uint64_t cqs_due(const struct adapter *a);
void cqs_release(struct adapter *a, uint64_t now_ns);

/* Takes up to max; says WEFT_R_CQ_OVERRUN once, when the queue has been emptied after a loss. */
enum weft_reason cq_poll(struct weft_cq *cq, struct weft_completion *completions, uint32_t max,
			 uint32_t *count);
enum weft_reason cq_arm(struct weft_cq *cq, enum weft_arm arm);

/* Takes out what is there of one queue pair. */
void cq_forget(struct weft_cq *cq, uint32_t qp_number);
