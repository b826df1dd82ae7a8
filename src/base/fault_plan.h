/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose, for people who test what their programs do about them. A plan says which and
 * how often; dice decide when. Every object has dice of its own, one for each kind, so that what
 * happens to it depends on the seed, on when it was made among its like and on what was asked of
 * it, and neither on other objects nor on threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

enum fault {
	FAULT_QP_ERROR,		/* a request of a send queue fails, and its queue pair */
	FAULT_POST_FULL,	/* a send queue says that it is full */
	FAULT_RNR,		/* a receiver is not ready for a while */
	FAULT_WC_DELAY,		/* a completion comes late */
	FAULT_WC_DELAY_RECV,	/* the same, of receives: not a kind of its own for people */
	FAULT_NO_MEMORY,	/* an object cannot be made */
	FAULT_CONNECT_REFUSED,	/* a connection */
	FAULT_DISCONNECT_AFTER, /* a connection is lost after so many bytes */
	/* Of packets. New kinds come last: the dice of the others stay as they are. */
	FAULT_LOSS,
	FAULT_DUPLICATE,
	FAULT_CORRUPT,
	FAULT_REORDER, /* the next one comes first */
	FAULT_DELAY,   /* it comes late, and others do not wait for it */
	FAULT_COUNT
};

struct fault_plan {
	uint64_t seed;
	uint32_t chances[FAULT_COUNT]; /* in 10^9 */
	uint64_t rnr_ns, wc_delay_ns, delay_ns;
	uint64_t disconnect_after;	/* bytes in either direction; 0: never */
	uint64_t happened[FAULT_COUNT]; /* counted when it was made, not when it was drawn */
};

/* What a text has that cannot be read, and why not. */
struct fault_complaint {
	const char *at, *why;
	uint32_t length;
};

/*
 * Reads "seed=7,qp_error=0.001,wc_delay=0.01:5ms,disconnect_after=100MB,..." (docs/faults.md).
 * False: *complaint says what is wrong with it.
 */
bool fault_plan_read(struct fault_plan *plan, const char *text, struct fault_complaint *complaint);

const char *fault_name(enum fault fault);

/* Whether packets are to be met by any. */
bool fault_plan_has_packets(const struct fault_plan *plan);

struct fault_dice {
	struct prng of[FAULT_COUNT];
};

/* Of the n-th object of its kind. */
void fault_dice_init(struct fault_dice *dice, const struct fault_plan *plan, uint64_t n);

/* Whether this one is to happen, now that it could. Who makes it counts it. */
bool fault_falls(const struct fault_plan *plan, struct fault_dice *dice, enum fault fault);
