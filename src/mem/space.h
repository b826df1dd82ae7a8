/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address spaces: translate a consumer's address to a real address, and a real address to a byte of
 * this process. The process space is flat: every address is its own real address. The space of
 * on-demand regions is flat too, but every access checks that the memory is mapped. An endless
 * space has a page at every address, in memory that repeats. Any other space has a table of
 * mappings in ascending order, the segment table of D3. Real addresses are those of its own memory,
 * or of the process: then the kernel has the page table, and a pager says what is in memory. Not
 * here: the right to use a space (region.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

#include "base/list.h"
#include "mem/pin.h"

struct mem_mapping {
	uint64_t addr, length;
	uint64_t real;	/* WEFT_REAL_NONE: no page is present */
	uint64_t begun; /* as of struct mem_watch; 0: the memory is not watched */
};

/*
 * Whether a whole range of the process can be read, or written, now; brings in missing pages.
 * Provided by the owner of the adapter.
 */
typedef bool mem_probe(uint64_t addr, uint64_t length, bool is_written);

/* Whether pages of the process are in memory. */
enum mem_presence {
	MEM_HERE = 0,
	MEM_AWAY,    /* they are being brought in; adapter_memory_changed() follows */
	MEM_NOWHERE, /* none is mapped there, or none that may be used so */
};

/* The default handler of page faults (VMM-10). Provided by the owner of the adapter. */
struct mem_pager {
	/* qp: the number of the queue pair that will ask again; 0: none waits for the pages. */
	enum mem_presence (*ask)(void *context, uint64_t addr, uint64_t length, bool is_written,
				 uint32_t qp);
	void *context;
};

struct weft_space {
	uintptr_t memory; /* real address 0 */
	uint64_t size;	  /* real addresses are less than this */
	struct mem_mapping *mappings;
	uint32_t mapping_count, mappings_max;
	uint32_t users; /* protection domains and table entries that point here */
	bool is_flat, is_virtual, is_endless;
	mem_probe *is_there;	       /* of the on-demand space; NULL: any other space */
	bool is_process;	       /* real addresses are those of the process */
	const struct mem_pager *pager; /* of such a space; NULL: an access waits in the kernel */
	struct mem_paging *paging;     /* NULL: pages never move */
	void *owner;		       /* the adapter, for callers that have only the space */
	struct list link;	       /* of the adapter's spaces */
};

/* The whole process. Needs no fini. */
void mem_space_init_process(struct weft_space *s);

/* The whole process, where each access checks that memory is mapped. Needs no fini. */
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
 * WEFT_R_SPACE_MAPPING, and WEFT_R_SPACE_UNMAPPED, which gives the *run without pages.
 */
enum weft_reason mem_space_translate(const struct weft_space *s, uint64_t addr, uint64_t length,
				     uint64_t *real, uint64_t *run);

/* Whether all of the range has mappings and, if needs_pages, pages. */
enum weft_reason mem_space_check(const struct weft_space *s, uint64_t addr, uint64_t length,
				 bool needs_pages);

/* Whether the pages of a range, which all has mappings, are in memory: see struct mem_pager. */
enum mem_presence mem_space_presence(const struct weft_space *s, uint64_t addr, uint64_t length,
				     bool is_written, uint32_t qp);

/* The first address of the range without a page; there must be one. */
uint64_t mem_space_fault(const struct weft_space *s, uint64_t addr, uint64_t length);

/* The byte of this process at a real address, which is below the space's size. */
static inline uint8_t *mem_space_byte(const struct weft_space *s, uint64_t real)
{
	return (uint8_t *)(s->memory + (uintptr_t)real);
}
