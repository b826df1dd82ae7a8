/* SPDX-License-Identifier: BSD-2-Clause */
/* On-demand memory that another thread takes away and gives back, all the time. */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* In how many ways a request meets it: writing or reading, as the peer's memory or as its own. */
enum { RESTLESS_WAYS = 4, RESTLESS_ENOUGH = 10 };

struct restless {
	pthread_t thread;
	uint8_t *page;
	atomic_bool is_over;
	int done, refused; /* requests */
};

void restless_begin(struct restless *r);
void restless_end(struct restless *r);

/* Both have been seen often enough. */
bool restless_is_enough(const struct restless *r);

/* Requests to a peer of the same domain, until one is refused or many are done. */
void restless_meet(struct restless *r, struct ibv_qp *qp, int way);
