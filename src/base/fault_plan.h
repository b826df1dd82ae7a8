/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Injected faults, to test how programs handle them. A plan says which faults and how often; dice
 * (random generators) decide when. Every object has its own dice, one for each kind of fault. So
 * the faults of an object depend on the seed, on its number among objects of its kind and on the
 * operations on it, but neither on other objects nor on threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

enum fault {
	FAULT_QP_ERROR,		/* a send request fails, and its queue pair with it */
	FAULT_POST_FULL,	/* a send queue reports that it is full */
	FAULT_RNR,		/* a receiver is not ready for a while */
	FAULT_WC_DELAY,		/* a completion is delayed */
	FAULT_WC_DELAY_RECV,	/* the same for receives; users see one kind */
	FAULT_NO_MEMORY,	/* an object cannot be created */
	FAULT_CONNECT_REFUSED,	/* a connection is refused */
	FAULT_DISCONNECT_AFTER, /* a connection is lost after so many bytes */
	/* Packets. New kinds come last, so that the dice of the others do not change. */
	FAULT_LOSS,
	FAULT_DUPLICATE,
	FAULT_CORRUPT,
	FAULT_REORDER, /* the next packet overtakes it */
	FAULT_DELAY,   /* it is delayed, and later packets overtake it */
	FAULT_COUNT
};

struct fault_plan {
	uint64_t seed;
	uint32_t chances[FAULT_COUNT]; /* in 10^9 */
	uint64_t rnr_ns, wc_delay_ns, delay_ns;
	uint64_t disconnect_after;	/* bytes in either direction; 0: never */
	uint64_t happened[FAULT_COUNT]; /* counted when injected, not when drawn */
};

/* The part of a text that cannot be parsed, and why. */
struct fault_complaint {
	const char *at, *why;
	uint32_t length;
};

/*
 * Reads "seed=7,qp_error=0.001,wc_delay=0.01:5ms,disconnect_after=100MB,..." (docs/faults.md).
 * False: *complaint says what is wrong.
 */
bool fault_plan_read(struct fault_plan *plan, const char *text, struct fault_complaint *complaint);

const char *fault_name(enum fault fault);

/* Whether the plan has faults of packets. */
bool fault_plan_has_packets(const struct fault_plan *plan);

struct fault_dice {
	struct prng of[FAULT_COUNT];
};

/* Dice of the n-th object of its kind. */
void fault_dice_init(struct fault_dice *dice, const struct fault_plan *plan, uint64_t n);

/* Draws whether the fault happens here. The caller that injects it counts it in happened[]. */
bool fault_falls(const struct fault_plan *plan, struct fault_dice *dice, enum fault fault);
