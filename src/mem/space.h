/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address spaces: from an address that a consumer uses to a real address, and from a real address
 * to a byte of this process. The process space is flat: every address is its own real address. So
 * is it in the space of on-demand regions, but there every access asks whether something is there.
 * An endless space has a page at every address, in memory that repeats. Any other space has a table
 * of segments in ascending order. Not here: who may use which space (region.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "mem/pin.h"

struct mem_segment {
	uint64_t addr, length;
	uint64_t real; /* WEFT_REAL_NONE: known, but no page behind it */
};

/*
 * Whether all of a range of the process can be read, or written, now: pages that are away come. The
 * owner of the adapter knows.
 */
typedef bool mem_probe(uint64_t addr, uint64_t length, bool is_written);

struct weft_space {
	uintptr_t memory; /* real address 0 */
	uint64_t size;	  /* real addresses are below */
	struct mem_segment *segments;
	uint32_t segment_count, segments_max;
	uint32_t users; /* protection domains and table entries that point here */
	bool is_flat, is_virtual, is_endless;
	mem_probe *is_there;	   /* of the process, on demand; NULL: any other space */
	struct mem_paging *paging; /* NULL: nothing moves here */
	void *owner;		   /* the adapter, for whoever holds only the space */
};

/* The whole process. Needs no fini. */
void mem_space_init_process(struct weft_space *s);

/* The whole process, of which nobody knows what is there before it is used. Needs no fini. */
void mem_space_init_on_demand(struct weft_space *s, mem_probe *is_there, struct mem_paging *paging);

/* Memory that repeats at all addresses. Needs no fini. */
void mem_space_init_endless(struct weft_space *s, void *memory, uint64_t size_bytes);
enum weft_reason mem_space_init(struct weft_space *s, const struct weft_space_options *options);
void mem_space_fini(struct weft_space *s);

enum weft_reason mem_space_map(struct weft_space *s, uint64_t addr, uint64_t length, uint64_t real);
enum weft_reason mem_space_unmap(struct weft_space *s, uint64_t addr);
enum weft_reason mem_space_move(struct weft_space *s, uint64_t addr, uint64_t real);

/*
 * The longest run of real addresses from addr on, at most length: *real and *run. Refusals:
 * WEFT_R_SPACE_SEGMENT, and WEFT_R_SPACE_UNMAPPED, which gives the *run without pages.
 */
enum weft_reason mem_space_translate(const struct weft_space *s, uint64_t addr, uint64_t length,
				     uint64_t *real, uint64_t *run);

/* Whether all of the range has segments and, if wanted, pages behind them. */
enum weft_reason mem_space_check(const struct weft_space *s, uint64_t addr, uint64_t length,
				 bool needs_pages);

/* The first address of the range that has no page behind it; there is one. */
uint64_t mem_space_fault(const struct weft_space *s, uint64_t addr, uint64_t length);

/* Where a real address below the space's size lies in this process. */
static inline uint8_t *mem_space_byte(const struct weft_space *s, uint64_t real)
{
	return (uint8_t *)(s->memory + (uintptr_t)real);
}
