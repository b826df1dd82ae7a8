/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/space.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* No process has memory at NULL, nor beyond what 64-bit machines give to users. */
static const uint64_t PROCESS_LOW = 4096, PROCESS_HIGH = UINT64_C(1) << 56;

void mem_space_init_process(struct weft_space *s)
{
	*s = (struct weft_space){ .size = UINT64_MAX, .is_flat = true };
}

void mem_space_init_on_demand(struct weft_space *s, mem_probe *is_there, struct mem_paging *paging)
{
	*s = (struct weft_space){ .size = UINT64_MAX, .is_there = is_there, .paging = paging };
}

void mem_space_init_endless(struct weft_space *s, void *memory, uint64_t size_bytes)
{
	*s = (struct weft_space){
		.memory = (uintptr_t)memory,
		.size = size_bytes,
		.is_endless = true,
	};
}

enum weft_reason mem_space_init(struct weft_space *s, const struct weft_space_options *options)
{
	if (!options->memory)
		return WEFT_R_NULL_ARGUMENT;
	if ((uintptr_t)options->memory % 8 || options->size_bytes == 0 ||
	    options->mappings_max == 0 || options->mappings_max > 1 << 20 ||
	    (uintptr_t)options->memory + options->size_bytes < (uintptr_t)options->memory)
		return WEFT_R_BAD_ARGUMENT;
	*s = (struct weft_space){
		.memory = (uintptr_t)options->memory,
		.size = options->size_bytes,
		.mappings_max = options->mappings_max,
		.is_virtual = options->is_virtual,
	};
	s->mappings = calloc(options->mappings_max, sizeof(*s->mappings));
	s->paging = calloc(1, sizeof(*s->paging));
	if (!s->mappings || !s->paging) {
		mem_space_fini(s);
		return WEFT_R_NO_MEMORY;
	}
	s->paging->has_pager = options->has_pager;
	s->paging->is_handing = options->is_handing;
	return WEFT_OK;
}

void mem_space_fini(struct weft_space *s)
{
	free(s->mappings);
	free(s->paging);
	*s = (struct weft_space){ 0 };
}

/* The number of mappings that start at or before addr: the candidate is the one before. */
static uint32_t segments_up_to(const struct weft_space *s, uint64_t addr)
{
	uint32_t low = 0, high = s->mapping_count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (s->mappings[mid].addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Whether so much memory lies there, or none is meant to. */
static bool is_real(const struct weft_space *s, uint64_t length, uint64_t real)
{
	return real == WEFT_REAL_NONE || (real <= s->size && length <= s->size - real);
}

enum weft_reason mem_space_map(struct weft_space *s, uint64_t addr, uint64_t length, uint64_t real)
{
	uint32_t at = segments_up_to(s, addr);
	const struct mem_mapping *before = at > 0 ? &s->mappings[at - 1] : NULL;
	const struct mem_mapping *after = at < s->mapping_count ? &s->mappings[at] : NULL;

	if (s->is_flat || length == 0)
		return WEFT_R_BAD_ARGUMENT;
	if (addr + (length - 1) < addr)
		return WEFT_R_REG_WRAP;
	if (!is_real(s, length, real))
		return WEFT_R_BAD_ARGUMENT;
	if ((before && addr - before->addr < before->length) ||
	    (after && after->addr - addr < length))
		return WEFT_R_BAD_ARGUMENT;
	if (s->mapping_count == s->mappings_max)
		return WEFT_R_LIMIT;
	CHECK(s->mappings);
	memmove(&s->mappings[at + 1], &s->mappings[at],
		(s->mapping_count - at) * sizeof(*s->mappings));
	s->mappings[at] = (struct mem_mapping){ .addr = addr, .length = length, .real = real };
	s->mapping_count++;
	return WEFT_OK;
}

/* The mapping that starts there, if nothing is just being sent from it. */
static enum weft_reason mapping_own(const struct weft_space *s, uint64_t addr, uint32_t *at)
{
	uint32_t end = segments_up_to(s, addr);
	const struct mem_mapping *mapping;

	if (end == 0 || s->mappings[end - 1].addr != addr)
		return WEFT_R_SPACE_MAPPING;
	mapping = &s->mappings[end - 1];
	if (mapping->real != WEFT_REAL_NONE &&
	    mem_is_pinned(s->paging, mapping->real, mapping->length))
		return WEFT_R_BUSY;
	*at = end - 1;
	return WEFT_OK;
}

enum weft_reason mem_space_move(struct weft_space *s, uint64_t addr, uint64_t real)
{
	uint32_t at;
	enum weft_reason r = mapping_own(s, addr, &at);

	if (r != WEFT_OK)
		return r;
	if (!is_real(s, s->mappings[at].length, real))
		return WEFT_R_BAD_ARGUMENT;
	s->mappings[at].real = real;
	return WEFT_OK;
}

enum weft_reason mem_space_unmap(struct weft_space *s, uint64_t addr)
{
	uint32_t at;
	enum weft_reason r = mapping_own(s, addr, &at);

	if (r != WEFT_OK)
		return r;
	memmove(&s->mappings[at], &s->mappings[at + 1],
		(s->mapping_count - at - 1) * sizeof(*s->mappings));
	s->mapping_count--;
	return WEFT_OK;
}

enum weft_reason mem_space_translate(const struct weft_space *s, uint64_t addr, uint64_t length,
				     uint64_t *real, uint64_t *run)
{
	const struct mem_mapping *mapping;
	uint32_t at;
	uint64_t offset;

	if (s->is_flat || s->is_there) {
		*real = addr;
		*run = length;
		return WEFT_OK;
	}
	if (s->is_endless) {
		*real = addr % s->size;
		*run = s->size - *real < length ? s->size - *real : length;
		return WEFT_OK;
	}
	at = segments_up_to(s, addr);
	if (at == 0)
		return WEFT_R_SPACE_MAPPING;
	mapping = &s->mappings[at - 1];
	offset = addr - mapping->addr;
	if (offset >= mapping->length)
		return WEFT_R_SPACE_MAPPING;
	*run = mapping->length - offset < length ? mapping->length - offset : length;
	if (mapping->real == WEFT_REAL_NONE)
		return WEFT_R_SPACE_UNMAPPED;
	*real = mapping->real + offset;
	return WEFT_OK;
}

enum weft_reason mem_space_check(const struct weft_space *s, uint64_t addr, uint64_t length,
				 bool needs_pages)
{
	uint64_t real, run;

	if (s->is_flat)
		return addr >= PROCESS_LOW && addr < PROCESS_HIGH && length <= PROCESS_HIGH - addr
			       ? WEFT_OK
			       : WEFT_R_SPACE_MAPPING;
	/* Bound: every round uses up at least one mapping. */
	for (uint64_t done = 0; done < length; done += run) {
		enum weft_reason r = mem_space_translate(s, addr + done, length - done, &real,
							 &run);

		if (r == WEFT_R_SPACE_MAPPING || (r == WEFT_R_SPACE_UNMAPPED && needs_pages))
			return r;
	}
	return WEFT_OK;
}

uint64_t mem_space_fault(const struct weft_space *s, uint64_t addr, uint64_t length)
{
	uint64_t end = addr + (length - 1), real, run;

	while (addr < end && mem_space_translate(s, addr, end - addr + 1, &real, &run) == WEFT_OK)
		addr += run;
	return addr;
}
