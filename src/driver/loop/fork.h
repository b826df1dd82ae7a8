/* SPDX-License-Identifier: BSD-2-Clause */
/* What becomes of an adapter when its process forks. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct weft_adapter;

/*
 * A child created by the clone system call directly, not by fork(), has run no atfork handler and
 * holds copies of its parent's sockets. It detects this by a page that the kernel zeroes in
 * children (MADV_WIPEONFORK). The check is cheap.
 */
extern _Atomic(const volatile bool *) fork_mark;

static inline bool fork_is_child(void)
{
	return !*atomic_load_explicit(&fork_mark, memory_order_acquire);
}

/* In such a child: does what the atfork handlers would have done, as far as still possible. */
void fork_notice(void);

/*
 * Other state that the adapters of a process share and that must be consistent at a fork. Its lock
 * is taken after the adapters' locks. lock_reset: in a child made without fork() no other thread
 * exists that could hold the lock, so the child takes it unconditionally. forget: in a child, with
 * the lock held.
 */
struct fork_part {
	void (*lock)(void);
	void (*unlock)(void);
	void (*lock_reset)(void);
	void (*forget)(void);
};

/* The adapter has been opened, and the process shares `part`; the adapter is about to be closed. */
void fork_enlist(struct weft_adapter *a, const struct fork_part *part);
void fork_delist(struct weft_adapter *a);
