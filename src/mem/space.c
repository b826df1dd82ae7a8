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

/* Whether the options name memory as their kind of space does. */
static enum weft_reason check_memory(const struct weft_space_options *o)
{
	if (o->kind == WEFT_SPACE_PROCESS)
		return o->memory || o->size_bytes > 0 ? WEFT_R_BAD_ARGUMENT : WEFT_OK;
	if (o->kind != WEFT_SPACE_MEMORY)
		return WEFT_R_BAD_ARGUMENT;
	if (!o->memory)
		return WEFT_R_NULL_ARGUMENT;
	if ((uintptr_t)o->memory % 8 || o->size_bytes == 0 ||
	    (uintptr_t)o->memory + o->size_bytes < (uintptr_t)o->memory)
		return WEFT_R_BAD_ARGUMENT;
	return WEFT_OK;
}

enum weft_reason mem_space_init(struct weft_space *s, const struct weft_space_options *options)
{
	bool is_process = options->kind == WEFT_SPACE_PROCESS;
	enum weft_reason r = check_memory(options);

	if (r != WEFT_OK)
		return r;
	if (options->mappings_max == 0 || options->mappings_max > 1 << 20)
		return WEFT_R_BAD_ARGUMENT;
	*s = (struct weft_space){
		.memory = (uintptr_t)options->memory,
		.size = is_process ? PROCESS_HIGH : options->size_bytes,
		.mappings_max = options->mappings_max,
		.is_virtual = options->is_virtual,
		.is_process = is_process,
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

/* Memory of the process that is unmapped later is not what was mapped here (VMM-05d). */
static void mapping_watch(struct weft_space *s, struct mem_mapping *m)
{
	struct mem_watch *w = s->is_process ? s->paging->watch : NULL;

	m->begun = w && m->real != WEFT_REAL_NONE ? mem_watch_begin(w, m->real, m->length) : 0;
}

static void mapping_unwatch(struct weft_space *s, struct mem_mapping *m)
{
	if (m->begun)
		s->paging->watch->end(m->real, m->length);
	m->begun = 0;
}

void mem_space_fini(struct weft_space *s)
{
	for (uint32_t i = 0; i < s->mapping_count; i++)
		mapping_unwatch(s, &s->mappings[i]);
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
	if (real == WEFT_REAL_NONE)
		return true;
	return real >= (s->is_process ? PROCESS_LOW : 0) && real <= s->size &&
	       length <= s->size - real;
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
	mapping_watch(s, &s->mappings[at]);
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
	if (s->mappings[at].real == WEFT_REAL_NONE && real != WEFT_REAL_NONE)
		s->paging->brought++;
	mapping_unwatch(s, &s->mappings[at]);
	s->mappings[at].real = real;
	mapping_watch(s, &s->mappings[at]);
	return WEFT_OK;
}

enum weft_reason mem_space_unmap(struct weft_space *s, uint64_t addr)
{
	uint32_t at;
	enum weft_reason r = mapping_own(s, addr, &at);

	if (r != WEFT_OK)
		return r;
	mapping_unwatch(s, &s->mappings[at]);
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

/* Whether the memory of a mapping is still the one that was mapped. */
static bool is_whole(const struct weft_space *s, uint64_t addr, uint64_t real, uint64_t length)
{
	const struct mem_watch *w = s->is_process ? s->paging->watch : NULL;
	const struct mem_mapping *m;

	if (!w || atomic_load(w->unmapped) == 0)
		return true;
	m = &s->mappings[segments_up_to(s, addr) - 1];
	return m->begun == 0 || !w->were_unmapped(real, length, m->begun);
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
		if (r == WEFT_OK && !is_whole(s, addr + done, real, run))
			return WEFT_R_SPACE_MAPPING;
	}
	return WEFT_OK;
}

enum mem_presence mem_space_presence(const struct weft_space *s, uint64_t addr, uint64_t length,
				     bool is_written, uint32_t qp)
{
	enum mem_presence presence = MEM_HERE;
	uint64_t real, run;

	/* Bound: every round uses up at least one mapping. */
	for (uint64_t done = 0; done < length && presence != MEM_NOWHERE; done += run) {
		enum mem_presence part;

		if (mem_space_translate(s, addr + done, length - done, &real, &run) != WEFT_OK)
			return MEM_NOWHERE;
		part = s->pager->ask(s->pager->context, real, run, is_written, qp);
		presence = part != MEM_HERE ? part : presence;
	}
	return presence;
}

uint64_t mem_space_fault(const struct weft_space *s, uint64_t addr, uint64_t length)
{
	uint64_t end = addr + (length - 1), real, run;

	while (addr < end && mem_space_translate(s, addr, end - addr + 1, &real, &run) == WEFT_OK)
		addr += run;
	return addr;
}
