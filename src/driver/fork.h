/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of an adapter when its process forks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct weft_adapter;

/*
 * A child that was made by the system call, past fork(), has run no handler, and holds copies of
 * its parent's sockets. It knows by a page that the kernel empties in children. Cheap.
 */
extern _Atomic(const volatile bool *) fork_mark;

static inline bool fork_is_child(void)
{
	return !*atomic_load_explicit(&fork_mark, memory_order_acquire);
}

/* In such a child: what pthread_atfork() would have done, as far as it still can be done. */
void fork_notice(void);

/* It has been opened; it is about to be closed. */
void fork_enlist(struct weft_adapter *a);
void fork_delist(struct weft_adapter *a);

/* In such a child no thread runs that could hold these locks: they are made anew, and taken. */
void fork_locks_reset(void);

/* For pthread_atfork(). */
void fork_prepare(void);
void fork_parent(void);
void fork_child(void);
