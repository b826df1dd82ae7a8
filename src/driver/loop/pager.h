/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The handler of page faults in spaces over the process (VMM-09, VMM-10): a thread brings pages
 * into memory, so that only the requests that need them wait, and not the adapter's work for all
 * peers. It pins nothing: a page may go again before it is used. Then the access itself waits in
 * the kernel for it.
 *
 * The thread starts with the first page that is missed. A kernel before 5.14 cannot be asked to
 * bring a page without a write to it: there is no pager then.
 */
#pragma once

#include <pthread.h>

#include "mem/space.h"

struct weft_adapter;

enum { PAGER_WANTED_MAX = 64, PAGER_FAILED_MAX = 16 };

struct page_range {
	uint64_t addr, length;
	bool is_written;
	uint32_t qp; /* the queue pair that waits for the pages; 0: none */
};

/* Guarded by the adapter's lock. */
struct pager {
	struct mem_pager for_core; /* its face to the core */
	pthread_t thread;
	pthread_cond_t wake;
	bool is_running, is_ending;
	/* A ring of ranges to bring in; the first is under way. More than these ask again. */
	struct page_range wanted[PAGER_WANTED_MAX];
	uint32_t first, count;
	/*
	 * The pages that could not be brought in lately, a ring: each denies one access of the
	 * queue pair that waited for it, and is forgotten (its qp is 0). So are all when the
	 * program changes a space, and those of a queue pair that ends.
	 */
	struct page_range failed[PAGER_FAILED_MAX];
	uint32_t failed_count;
};

/* NULL: there is none on this kernel. */
const struct mem_pager *pager_init(struct weft_adapter *a);

/* Ends the thread. The adapter's lock is held, and released meanwhile. */
void pager_stop(struct weft_adapter *a);

/* In a child: the thread is the parent's. */
void pager_abandon(struct weft_adapter *a);

/* The queue pair is reset or destroyed: it waits for no pages, and its number may return. */
void pager_forget_qp(struct weft_adapter *a, uint32_t qp);

/* The program has changed a space: what failed before may succeed now. */
void pager_forget_failures(struct weft_adapter *a);
