/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * weft: address spaces. The conventions of <weft/weft.h> hold, which includes this.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/reason.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_adapter;
struct weft_space;

/*
 * A real address is a 64-bit frame address of an address space. The default space is the process
 * itself: every address is its own real address. Registering looks at no page; an access to memory
 * that is not there, or no longer, is refused (WEFT_R_MEMORY_GONE). A space of its own has a
 * segment table, of mappings (start, length, real address): an address without a mapping cannot be
 * reached, nor registered. A page list names real addresses directly, past the mappings, and is for
 * privileged domains there. docs/spaces.md has the tables.
 */
enum weft_space_kind {
	/* Real addresses are offsets in memory of the space: a page table of its own (VMM-08). */
	WEFT_SPACE_MEMORY = 0,
	/*
	 * Real addresses are those of the process: the page table is the kernel's. Nothing is
	 * pinned. A request that needs a page which is swapped out, or was never touched, waits
	 * until a thread of weft has brought it in (VMM-09); other requests go on. That holds for
	 * RC, for iWARP, and for sources of UC, UD and raw packets; other accesses wait in the
	 * kernel. Memory that is not mapped, or not for such an access, is denied as
	 * WEFT_R_SPACE_MAPPING.
	 */
	WEFT_SPACE_PROCESS
};

struct weft_space_options {
	void *memory;	     /* real address 0; must be aligned to 8 bytes and outlive the space */
	uint64_t size_bytes; /* of that memory. Both are 0 with WEFT_SPACE_PROCESS */
	uint32_t mappings_max; /* 1 to 2^20 */
	bool is_virtual; /* system-wide virtual addresses: for privileged domains only (RKEY-03) */
	/*
	 * The program brings back pages that are away (WEFT_REAL_NONE): a request on RC or iWARP
	 * that needs them raises WEFT_EVENT_FAULT and waits for weft_space_move().
	 */
	bool has_pager;
	bool is_handing; /* SEND-04: data to be sent is copied out, and nothing ever pinned */
	enum weft_space_kind kind;
	uint64_t reserved[3]; /* zero */
};

enum weft_reason weft_space_create(struct weft_adapter *adapter,
				   const struct weft_space_options *options,
				   struct weft_space **space);
enum weft_reason weft_space_destroy(struct weft_space *space);

/*
 * The mapping is known but no page is behind it: an access is denied and raises WEFT_EVENT_FAULT,
 * or waits (has_pager).
 */
#define WEFT_REAL_NONE UINT64_MAX

/*
 * The three forms of D3's SegmentTableUpdate. Each holds at once, for all queue pairs of all
 * domains of the space: they share its table, and look there for every packet.
 *
 * Adds a mapping. Mappings do not overlap.
 */
enum weft_reason weft_space_map(struct weft_space *space, uint64_t addr, uint64_t length,
				uint64_t real);

/* Removes the mapping that starts at addr; from then on accesses to it are denied (RKEY-08c). */
enum weft_reason weft_space_unmap(struct weft_space *space, uint64_t addr);

/*
 * The mapping that starts at addr lies at another real address from now on (D3's MapLocalPage), or
 * (WEFT_REAL_NONE) nowhere: its data is copied, written out or read in by the caller. This call and
 * the one above give WEFT_R_BUSY while something is just being sent from there (SEND-05).
 */
enum weft_reason weft_space_move(struct weft_space *space, uint64_t addr, uint64_t real);

/* What is, or was, pinned because it was being sent from the space; and what was not there. */
struct weft_pins {
	uint64_t count, bytes;	       /* now */
	uint64_t count_max, bytes_max; /* at one time */
	uint64_t pinned;	       /* stretches, so far */
	uint64_t bytes_handed;	       /* that were copied out instead, so far */
	uint64_t byte_ns;	       /* bytes, times the nanoseconds that they were pinned */
	uint64_t faults;	       /* accesses that had to wait for a page of the process */
	uint64_t reserved[3];	       /* zero */
};

enum weft_reason weft_space_query(struct weft_space *space, struct weft_pins *pins);

#ifdef __cplusplus
}
#endif
