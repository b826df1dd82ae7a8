/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The near path (near/near.h) on Linux: an adapter listens at a unix socket of its slot, rings and
 * boards are memory files, and memory of other processes is accessed by system calls.
 *
 * Both ends check the user of the other, as everywhere between processes of a host (unix_names.h):
 * a ring reaches no process that UDP packets would not reach.
 */
#pragma once

#include "driver/loop/watch.h"
#include "near/near.h"

struct near_config {
	/* Watches a descriptor for these events, 0: no longer; calls its ready(). */
	void (*watch)(void *owner, struct watch *w, uint32_t events);
	void *owner;
	uint8_t adapter_slot;  /* our own */
	struct mem_table *mem; /* its regions; NULL: they are not shown to other processes */
	bool takes_runs;       /* else every packet comes alone: see struct ib_in */
	/*
	 * A thread of the process, by the kernel's number, that lives as long and executes no other
	 * program. 0: no process accesses our memory.
	 */
	int thread_number;
};

/* WEFT_OK, or why there is no near path. */
enum weft_reason near_open(const struct near_config *config, struct near **near);
void near_close(struct near *near);

/* In a child of fork(): closes its copies of the descriptors. Only near_close() may follow. */
void near_abandon(struct near *near);

/*
 * Whether the listener paused, because descriptors were short for adapters that connect. Resume it
 * periodically.
 */
bool near_is_paused(const struct near *near);
void near_resume(struct near *near);
