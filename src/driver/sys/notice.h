/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel tells of registered memory that the program unmaps or moves: a userfaultfd for
 * the process, and a thread that reads its events. Pages are watched for write protection, which
 * none of them has, so no access ever faults; munmap(), mremap(), brk() and mmap() over them return
 * only after the thread has read the event. MADV_DONTNEED is no event: a peer reads what the
 * program itself would read.
 *
 * Memory stays watched when its region ends, until it is unmapped or there is no room for more: to
 * stop watching costs a walk over all pages, and the next region there costs nothing.
 *
 * The thread and those that call here share one lock, under which no memory is allocated or freed
 * and no system call is made: a thread that unmaps memory, with whatever locks of its own, waits
 * for the thread that reads the events, and that thread must wait for none of them.
 *
 * Where the kernel refuses any of it, regions are not watched, and what the guard finds is all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mem/watch.h"

/* For the accesses of one adapter, from its opening to its closing. NULL: nothing is watched. */
struct mem_watch *notice_open(void);
void notice_close(struct mem_watch *w);

/*
 * Other processes access the memory of that adapter as well: a change waits for them, too. NULL:
 * no longer. w may be NULL.
 */
void notice_set_peers(struct mem_watch *w, struct mem_peers *peers);

/* Around fork(), and in the child, which has none of it: see struct fork_part. */
void notice_lock(void);
void notice_unlock(void);
void notice_lock_reset(void);
void notice_forget(void);

struct notice_counts {
	bool is_on;	    /* the kernel tells */
	uint64_t unmapped;  /* ranges of registered memory that were unmapped or moved away, ever */
	uint64_t unwatched; /* regions that the kernel could not watch, ever */
};

void notice_query(struct notice_counts *counts);
