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
 * itself: every address is its own real address, and registering memory costs the same whatever its
 * length; no call looks whether it is there, so it must be, for as long as it is registered. A
 * space of its own has memory behind it and a table of mappings (start, length, real address): an
 * address without a mapping cannot be reached, nor registered. A page list names real addresses
 * directly, past the mappings, and is for privileged domains there.
 */
struct weft_space_options {
	void *memory;	     /* real address 0; must be aligned to 8 bytes and outlive the space */
	uint64_t size_bytes; /* of that memory */
	uint32_t mappings_max; /* 1 to 2^20 */
	bool is_virtual; /* system-wide virtual addresses: for privileged domains only (RKEY-03) */
	/*
	 * The program brings back pages that are away (WEFT_REAL_NONE): a request of the InfiniBand
	 * transport whose data lies there raises WEFT_EVENT_FAULT and waits for weft_space_move().
	 */
	bool has_pager;
	bool is_handing;      /* SEND-04: data to be sent is copied out, and nothing ever pinned */
	uint64_t reserved[4]; /* zero */
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

/* Adds a mapping. Mappings do not overlap. */
enum weft_reason weft_space_map(struct weft_space *space, uint64_t addr, uint64_t length,
				uint64_t real);

/* Removes the mapping that starts at addr; from then on accesses to it are denied (RKEY-08c). */
enum weft_reason weft_space_unmap(struct weft_space *space, uint64_t addr);

/*
 * The mapping that starts at addr lies at another real address from now on, or (WEFT_REAL_NONE)
 * nowhere: its data is copied, written out or read in by the caller. This call and the one above
 * give WEFT_R_BUSY while something is just being sent from there (SEND-05).
 */
enum weft_reason weft_space_move(struct weft_space *space, uint64_t addr, uint64_t real);

/* What is, or was, pinned because it was being sent from the space. */
struct weft_pins {
	uint64_t count, bytes;	       /* now */
	uint64_t count_max, bytes_max; /* at one time */
	uint64_t pinned;	       /* stretches, so far */
	uint64_t bytes_handed;	       /* that were copied out instead, so far */
	uint64_t byte_ns;	       /* bytes, times the nanoseconds that they were pinned */
	uint64_t reserved[4];	       /* zero */
};

enum weft_reason weft_space_query(struct weft_space *space, struct weft_pins *pins);

#ifdef __cplusplus
}
#endif
