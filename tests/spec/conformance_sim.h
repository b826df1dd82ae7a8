/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The conformance suite in virtual time, whatever the transport: every case is run once for each
 * seed. Here is which seed that is, what is drawn from it for all transports alike, and that the
 * same seed is the same run.
 */
#pragma once

#include "conformance.h"
#include "driver/loop/adapter_lock.h"

enum { SEED_PERFECT = 0 };

/* What the program of a transport brings. */
struct sim_kind {
	/* Seeds that failed once. They are run too whenever seed 0 is, without a sanitizer. */
	const uint64_t *failed_once;
	uint64_t failed_once_count;
	uint32_t request_bytes; /* of what is run twice */
	uint64_t (*hash)(const struct pair *p);
	void (*begin)(void); /* of each run; or NULL */
};
extern const struct sim_kind sim_kind;

/* The seed of the run that is going on. */
uint64_t sim_seed(void);

/* What the next pair draws from. */
struct prng sim_pair_prng(void);
void sim_adapter_open(struct pair *p, struct weft_adapter **adapter, struct prng *r);

/* The node moves; -1: both. */
void sim_move(struct pair *p, int who);

/* Until nothing is under way on either queue pair. */
void sim_settle_by(struct pair *p, bool (*is_flowing)(const struct weft_qp *qp));
