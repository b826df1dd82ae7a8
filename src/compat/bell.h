/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What waits to be told to a program, and a descriptor that is readable exactly while something
 * does: for poll, select and epoll. Whoever has one guards it with a lock of its own, which is held
 * in every call but bell_wait().
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"

struct bell {
	struct list waiting;
	int fd;
	_Atomic uint32_t rings;
	uint32_t forks; /* how often the process had been forked when it was made */
};

/* 0 or a negative errno. */
int bell_init(struct bell *b);
void bell_fini(struct bell *b);

/* One more thing to tell, after all others unless it is in already; takes it out, if it is in. */
void bell_add(struct bell *b, struct list *link);
void bell_remove(struct bell *b, struct list *link);

/* What somebody needs to hear of the next thing, who has found that there is none. */
struct bell_snapshot {
	_Atomic uint32_t *rings; /* of the bell, which may be gone when he waits */
	uint32_t heard;
	int why_not; /* what bell_wait() will say at once, or 0 */
};

struct bell_snapshot bell_listen(struct bell *b);

/*
 * Waits until something may be there. -EAGAIN if the program made the descriptor non-blocking;
 * -EINTR if a signal came whose handler does not have the call restarted. The thread may be
 * cancelled here.
 */
int bell_wait(const struct bell_snapshot *snapshot);

/*
 * In the child of a fork: a descriptor of its own under the same number; or, of all that there are,
 * the descriptors stay the parent's and are not rung any more.
 */
void bell_forked(struct bell *b);
void bells_abandon(void);
