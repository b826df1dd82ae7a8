/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of events for a program, with a descriptor that is readable while the queue is not empty,
 * from the moment when the bell has rung: for poll, select and epoll. The owner guards it with a
 * lock of its own, held in every call but bell_wait(), bell_fini() and bells_ring().
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"

struct bell {
	struct list waiting;
	int fd;
	_Atomic uint32_t rings;
	uint32_t forks;		  /* count of forks when it was created */
	_Atomic uint32_t writes;  /* to the descriptor: see bell.c */
	_Atomic uint32_t ringers; /* threads that will ring it: bells_defer() */
};

/* 0 or a negative errno. */
int bell_init(struct bell *b);
void bell_fini(struct bell *b);

/* Appends an event unless it is queued already; removes it if it is queued. */
void bell_add(struct bell *b, struct list *link);
void bell_remove(struct bell *b, struct list *link);

/*
 * Between the two, bells to which this thread adds events do not ring yet, but in bells_ring(): a
 * thread that they wake does not wait for what is locked meanwhile. A bell lives until then.
 */
void bells_defer(void);
void bells_ring(void);

/* What a thread that found the queue empty needs to wait for the next event. */
struct bell_snapshot {
	_Atomic uint32_t *rings; /* of the bell, which may be freed while the thread waits */
	uint32_t heard;
	int why_not; /* what bell_wait() returns at once, or 0 */
};

struct bell_snapshot bell_listen(struct bell *b);

/*
 * Waits until an event may be queued. -EAGAIN: the program made the descriptor non-blocking;
 * -EINTR: a signal came whose handler was installed without SA_RESTART. A cancellation point.
 */
int bell_wait(const struct bell_snapshot *snapshot);

/*
 * In a child of fork(). bell_forked: gives the bell a new descriptor under the same number.
 * bells_abandon: leaves the descriptors of all bells to the parent; the child never writes to them.
 */
void bell_forked(struct bell *b);
void bells_abandon(void);
