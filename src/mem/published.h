/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Entries that other processes of this host check by themselves, to access the memory by system
 * calls without a thread of its owner. They lie in memory that the others can only read.
 *
 * A published entry stands still: before it changes it is withdrawn, and accesses of others that
 * have begun end. So a process that has announced its access (struct mem_peer of watch.h) reads an
 * entry that nothing changes.
 */
#pragma once

#include <stdatomic.h>

#include "mem/mem.h"

enum { MEM_PUBLISHED_MAX = 1024 };

struct mem_published {
	_Atomic uint32_t tag;	/* 0: none */
	struct mem_entry entry; /* without pointers: its origin is an address of the process */
};

struct mem_publisher {
	struct mem_published *entries; /* MEM_PUBLISHED_MAX, of 0 */
	/* Returns when no access of another process is under way that began before. */
	void (*await)(void *owner);
	void *owner;
};

/* Publishes entries as long as they are valid; NULL: no longer. */
void mem_table_publish(struct mem_table *t, const struct mem_publisher *p);

/*
 * mem_access_check() of another process, with entries that it can read. WEFT_R_TAG_INDEX also if
 * the entry is not published. *addr: where the memory is in the process of its owner.
 */
enum weft_reason mem_published_check(const struct mem_published *entries, enum weft_policy policy,
				     const struct mem_access *access, uint64_t *addr);

/* The place of the entry of that index; NULL: it is not published. */
const struct mem_published *mem_published_find(const struct mem_published *entries, uint32_t index);
