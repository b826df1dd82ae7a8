/* SPDX-License-Identifier: BSD-2-Clause */
#include <malloc.h>
#include <stdlib.h>

#include "base/prng.h"
#include "mem/mem.h"
#include "subjects.h"

enum {
	PD = 1,
	RANGE_BYTES = 64 << 10,
	PAGE_BYTES = 4096,
	PAGES = 256,
	REGION_BYTES = PAGES * PAGE_BYTES,
	SPANS_MAX = RANGE_BYTES / PAGE_BYTES + 1,
	STEPS = 64, /* different ranges within a region */
	STEP_BYTES = 5 * 64,
	CROWD = 1000000,
};

_Static_assert(STEPS *STEP_BYTES + RANGE_BYTES <= REGION_BYTES, "every range is in the region");

/* One table, and one access to it. */
struct gate {
	struct mem_table table;
	struct weft_space space;
	struct mem_owner owner;
	struct mem_access access;
	struct weft_bind bind;
	uint8_t *memory;
};

static void gate_open(struct gate *g, uint32_t tags_max)
{
	const struct mem_limits limits = {
		.tags_max = tags_max,
		.translations_max = 1 << 16,
		.pds_max = 16,
		.qps_max = 16,
		.secret = { 1, 2 },
	};

	must_be(mem_table_init(&g->table, &limits) == 0, "memory for a table");
	mem_space_init_process(&g->space);
	g->owner = (struct mem_owner){ .pd = PD, .space = &g->space };
	g->memory = aligned_alloc(PAGE_BYTES, REGION_BYTES);
	must_be(g->memory != NULL, "memory for a region");
	g->access = (struct mem_access){
		.addr = (uintptr_t)g->memory,
		.length = RANGE_BYTES,
		.pd = PD,
		.kind = MEM_REMOTE_WRITE,
	};
}

static void gate_close(void *context)
{
	struct gate *g = context;

	mem_table_fini(&g->table);
	free(g->memory);
	free(g);
}

static struct weft_region_options gate_region(const struct gate *g)
{
	return (struct weft_region_options){
		.addr = (uintptr_t)g->memory,
		.va = (uintptr_t)g->memory,
		.length = REGION_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE | WEFT_BIND,
	};
}

static struct gate *gate_new(void)
{
	struct gate *g = calloc(1, sizeof(*g));

	must_be(g != NULL, "memory for a table");
	gate_open(g, 65536);
	return g;
}

/* ---- Access check and translation, always the same tag --------------------------------------- */

static void *region_open(const struct subject *s)
{
	struct gate *g = gate_new();
	struct weft_region_options region = gate_region(g);

	(void)s;
	must(mem_region_register(&g->table, &g->owner, &region, &g->access.tag), "registration");
	return g;
}

static void *pages_open(const struct subject *s)
{
	struct gate *g = gate_new();
	struct weft_region_options region = gate_region(g);
	struct prng prng = { 1 };
	uint64_t pages[PAGES];
	const struct weft_page_list list = {
		.pages = pages,
		.count = PAGES,
		.page_size_bytes = PAGE_BYTES,
	};

	(void)s;
	for (uint32_t i = 0; i < PAGES; i++) {
		uint32_t j = prng_below(&prng, i + 1);

		pages[i] = pages[j];
		pages[j] = (uintptr_t)g->memory + (uint64_t)i * PAGE_BYTES;
	}
	region.pages = &list;
	must(mem_region_register(&g->table, &g->owner, &region, &g->access.tag), "registration");
	return g;
}

/* A region, and a window ready to be bound to all of it. */
static void *window_open(const struct subject *s)
{
	struct gate *g = region_open(s);

	g->bind = (struct weft_bind){
		.region_tag = g->access.tag,
		.addr = (uintptr_t)g->memory,
		.length = REGION_BYTES,
		.rights = WEFT_REMOTE_WRITE,
	};
	must(mem_window_alloc(&g->table, PD, &g->bind.window_tag), "window");
	return g;
}

static void *bound_open(const struct subject *s)
{
	struct gate *g = window_open(s);

	must(mem_window_promise(&g->table, PD, &g->bind), "promise");
	must(mem_window_bind(&g->table, PD, 0, &g->bind), "bind");
	g->access.tag = g->bind.tag;
	return g;
}

/* The ranges differ, so nothing can be kept from one access to the next but what caches keep. */
static void check_run(void *context, uint64_t count)
{
	struct gate *g = context;
	struct mem_access access = g->access;
	struct mem_span spans[SPANS_MAX];
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		struct mem_grant grant;
		uint32_t n;

		access.addr = g->access.addr + i % STEPS * STEP_BYTES;
		must(mem_access_check(&g->table, &access, &grant), "access check");
		n = mem_grant_spans(&grant, spans, SPANS_MAX);
		must_be(n > 0 && grant.length == 0, "translation");
		sum += (uintptr_t)spans[n - 1].bytes;
	}
	measure_sink += sum;
}

/* ---- The same in a full table, tags in random order ------------------------------------------ */

struct crowd {
	struct gate gate;
	uint32_t *tags; /* every tag once, so none is in a cache because it was used lately */
	uint32_t at;
};

static void *crowd_open(const struct subject *s)
{
	struct crowd *c = calloc(1, sizeof(*c));
	struct weft_region_options region;
	struct prng prng = { 2 };

	(void)s;
	must_be(c != NULL, "memory for a crowd");
	gate_open(&c->gate, CROWD);
	region = gate_region(&c->gate);
	c->tags = calloc(CROWD, sizeof(*c->tags));
	must_be(c->tags != NULL, "memory for a million tags");
	for (uint32_t i = 0; i < CROWD; i++) {
		uint32_t j = prng_below(&prng, i + 1);

		c->tags[i] = c->tags[j];
		must(mem_region_register(&c->gate.table, &c->gate.owner, &region, &c->tags[j]),
		     "registration");
	}
	return c;
}

static void crowd_close(void *context)
{
	struct crowd *c = context;

	mem_table_fini(&c->gate.table);
	free(c->gate.memory);
	free(c->tags);
	free(c);
}

/* Where the range of this tag begins: an address that is known when the entry has been read. */
static uint64_t crowd_look(struct crowd *c, uint32_t tag)
{
	struct mem_access access = c->gate.access;
	struct mem_grant grant;
	struct mem_span span;

	access.tag = tag;
	must(mem_access_check(&c->gate.table, &access, &grant), "access check");
	must_be(mem_grant_spans(&grant, &span, 1) == 1 && grant.length == 0, "translation");
	return (uintptr_t)span.bytes;
}

static void crowd_run(void *context, uint64_t count)
{
	struct crowd *c = context;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		sum += crowd_look(c, c->tags[c->at]);
		c->at = c->at + 1 < CROWD ? c->at + 1 : 0;
	}
	measure_sink += sum;
}

/* The next tag is read at a place that depends on the last result (even, so nothing is added). */
static void crowd_run_chained(void *context, uint64_t count)
{
	struct crowd *c = context;
	uint64_t odd = 0;

	for (uint64_t i = 0; i < count; i++) {
		odd = crowd_look(c, c->tags[c->at + odd]) & 1;
		c->at = c->at + 1 < CROWD ? c->at + 1 : 0;
	}
	measure_sink += odd;
}

/* ---- Windows --------------------------------------------------------------------------------- */

static void bind_run(void *context, uint64_t count)
{
	struct gate *g = context;

	for (uint64_t i = 0; i < count; i++) {
		struct weft_bind bind = g->bind;

		must(mem_window_promise(&g->table, PD, &bind), "promise");
		must(mem_window_bind(&g->table, PD, 0, &bind), "bind");
		must(mem_invalidate(&g->table, PD, 0, bind.tag), "invalidate");
	}
}

const struct subject mem_subjects[MEM_SUBJECTS] = {
	{ "access_check_64k_region", "access check + translation of 64 KiB, region", 0.5, 0,
	  region_open, check_run, gate_close },
	{ "access_check_64k_window", "  the same, window", 0.5, 0, bound_open, check_run,
	  gate_close },
	{ "access_check_64k_pages", "  the same, 4 KiB pages, shuffled", 0.5, 0, pages_open,
	  check_run, gate_close },
	{ "access_check_1m_independent", "  region, 1,000,000 random tags, independent", 2, 0,
	  crowd_open, crowd_run, crowd_close },
	{ "access_check_1m_dependent", "  region, 1,000,000 random tags, each after the last", 2, 0,
	  crowd_open, crowd_run_chained, crowd_close },
	{ "bind_invalidate", "bind + invalidate of a window", 2, 0, window_open, bind_run,
	  gate_close },
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static size_t bytes_in_use(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static size_t table_bytes(uint32_t tags_max)
{
	const struct mem_limits limits = {
		.tags_max = tags_max,
		.translations_max = 1 << 16,
		.pds_max = 16,
		.qps_max = 16,
	};
	struct mem_table table;
	size_t before = bytes_in_use(), after;

	must_be(mem_table_init(&table, &limits) == 0, "memory for a table");
	after = bytes_in_use();
	mem_table_fini(&table);
	return after - before;
}

double mem_bytes_per_tag(void)
{
	/* The difference leaves out what does not grow with the tags, translation entries first. */
	return (double)(table_bytes(2 * CROWD) - table_bytes(CROWD)) / CROWD;
}
