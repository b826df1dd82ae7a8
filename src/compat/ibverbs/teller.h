/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of event queues. */
#pragma once

#include <pthread.h>

#include "base/list.h"
#include "compat/bell.h"

/* The lock may be taken while the engine's is held, never the other way round. */
struct teller {
	pthread_mutex_t lock; /* guards the bell and all queued events */
	struct bell bell;
};

/* 0 or errno. */
int teller_init(struct teller *t);
void teller_fini(struct teller *t);

/*
 * Takes the first event; waits for one, unless the program made the descriptor non-blocking. 0 with
 * the lock held, or errno.
 */
int teller_take(struct teller *t, struct list **link);
