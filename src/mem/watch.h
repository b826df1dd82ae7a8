/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the owner of an adapter knows of changes of the process's address space: memory that was
 * unmapped, or moved away, while it was registered. What is mapped there later is not what was
 * registered.
 *
 * A change happens between two accesses: its thread waits until none is under way, and accesses
 * wait until it is noted. An access to memory of which some was unmapped is refused.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mem_peers;

struct mem_watch {
	/* Changes of the process, counted in steps of 2; odd: one is under way. */
	const atomic_uint_fast64_t *changes;
	/* How many ranges were_unmapped() knows; 0: it need not be asked. */
	const atomic_uint *unmapped;
	/*
	 * The slow path of mem_watch_enter(): waits for a change that is under way. False: some of
	 * the bytes were unmapped after w->since.
	 */
	bool (*is_whole)(struct mem_watch *w, const void *bytes, uint64_t length);
	/* A region begins, and ends. begin returns the changes so far, or 0: it is not watched. */
	uint64_t (*begin)(uint64_t addr, uint64_t length);
	void (*end)(uint64_t addr, uint64_t length);
	/* Whether any of it was unmapped later than that. */
	bool (*were_unmapped)(uint64_t addr, uint64_t length, uint64_t since);
	/* The changes when the newest region began. Guarded by the adapter's lock. */
	uint64_t since;
	/* Written by the thread that has the adapter's lock. */
	atomic_bool is_accessing;
	/* Other processes that access the memory as well; NULL: none. */
	_Atomic(struct mem_peers *) peers;
};

/* Another process, alone in its cache line: whether it accesses memory of this one now. */
struct mem_peer {
	_Alignas(64) atomic_uint is_accessing;
};

enum { MEM_PEERS_MAX = 256 };

/* They access it only while no unmapped range is known: then they would have to ask. */
struct mem_peers {
	atomic_uint *unmapped; /* as that of the watch, for them to read */
	struct mem_peer *each; /* MEM_PEERS_MAX */
	/* Whether the process of each[index] has ended, its mark set. Any thread may ask. */
	bool (*has_ended)(const struct mem_peers *peers, uint32_t index);
};

/* A region begins, or a mapping: what was unmapped before is of no interest to it. */
static inline uint64_t mem_watch_begin(struct mem_watch *w, uint64_t addr, uint64_t length)
{
	uint64_t begun = w->begin(addr, length);

	if (begun)
		w->since = begun;
	return begun;
}

/*
 * Before an access to bytes that passed the check. It takes no lock, frees no memory, and soon ends
 * with mem_watch_leave(). False: the process has changed since the newest region began. w may be
 * NULL. The thread that notes a change makes every other thread pass a fence, so a compiler barrier
 * is enough here.
 */
static inline bool mem_watch_enter_same(struct mem_watch *w)
{
	if (!w)
		return true;
	atomic_store_explicit(&w->is_accessing, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return atomic_load_explicit(w->changes, memory_order_acquire) == w->since;
}

/* The same. False: some of the bytes are not what was registered. */
static inline bool mem_watch_enter(struct mem_watch *w, const void *bytes, uint64_t length)
{
	return mem_watch_enter_same(w) || w->is_whole(w, bytes, length);
}

static inline void mem_watch_leave(struct mem_watch *w)
{
	if (w)
		atomic_store_explicit(&w->is_accessing, false, memory_order_release);
}
