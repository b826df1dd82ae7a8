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

/*
 * What else a process shares among its adapters, and a fork must find whole. Its lock is taken
 * after the adapters'. lock_reset: in a child that was made past fork() no other thread runs that
 * could hold the lock, so it is taken anyhow. forget: in a child, with the lock held.
 */
struct fork_part {
	void (*lock)(void);
	void (*unlock)(void);
	void (*lock_reset)(void);
	void (*forget)(void);
};

/* It has been opened, in a process that also shares this; it is about to be closed. */
void fork_enlist(struct weft_adapter *a, const struct fork_part *part);
void fork_delist(struct weft_adapter *a);
