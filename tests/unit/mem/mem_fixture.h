/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small memory table with an owner, one that is not, and some memory, for the tests of this room.
 * Whatever a test does not expect to fail is REQUIREd here.
 */
#pragma once

#include "test.h"

#include <string.h>

#include "base/prng.h"
#include "mem/table.h"

enum {
	GATE_PAGE = 4096,
	GATE_BYTES = 16 * GATE_PAGE,
	GATE_TAGS = 64,
	GATE_TRANSLATIONS = 64 * ATT_BLOCK_ENTRIES,
	PD_OWN = 1,
	PD_OTHER = 2,
	PDS_MAX = 8,
	QPS_MAX = 65535, /* any number may be used */
	QP_OWN = 7,
	QP_OTHER = 8,
	RIGHTS_ALL = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | MEM_REMOTE_RIGHTS | WEFT_BIND
};

struct gate {
	struct mem_table table;
	struct weft_space process;
	struct mem_owner owner, other; /* of PD_OWN and PD_OTHER */
	_Alignas(GATE_PAGE) uint8_t memory[GATE_BYTES];
};

static inline void gate_init_limits(struct gate *g, const struct mem_limits *limits)
{
	memset(g->memory, 0, sizeof(g->memory));
	REQUIRE(mem_table_init(&g->table, limits) == 0);
	mem_space_init_process(&g->process);
	g->owner = (struct mem_owner){ .pd = PD_OWN, .space = &g->process };
	g->other = (struct mem_owner){ .pd = PD_OTHER, .space = &g->process };
}

static inline void gate_init(struct gate *g, enum weft_policy policy)
{
	const struct mem_limits limits = {
		.tags_max = GATE_TAGS,
		.translations_max = GATE_TRANSLATIONS,
		.pds_max = PDS_MAX,
		.qps_max = QPS_MAX,
		.policy = policy,
		.secret = { 11, 12 },
	};

	gate_init_limits(g, &limits);
}

static inline void gate_fini(struct gate *g)
{
	mem_table_fini(&g->table);
}

/* What is in use: two of these are compared to see that nothing leaked. */
struct gate_use {
	uint32_t tags, valid, blocks, space_users, own, other;
};

static inline struct gate_use gate_use(const struct gate *g)
{
	const struct mem_table *t = &g->table;

	return (struct gate_use){
		.tags = t->tags_max - 1 - t->free_count,
		.valid = t->by_type[1][MEM_REGION] + t->by_type[1][MEM_WINDOW],
		.blocks = t->atts.used,
		.space_users = g->process.users,
		.own = mem_table_pd_tags(t, PD_OWN),
		.other = mem_table_pd_tags(t, PD_OTHER),
	};
}

static inline bool gate_use_is(const struct gate *g, struct gate_use before)
{
	struct gate_use now = gate_use(g);

	return memcmp(&now, &before, sizeof(now)) == 0;
}

/* The address of a byte of the gate's memory. */
static inline uint64_t gate_addr(const struct gate *g, uint64_t offset)
{
	return (uintptr_t)g->memory + offset;
}

static inline struct mem_entry *gate_entry(const struct gate *g, uint32_t tag)
{
	return &g->table.entries[weft_tag_index(tag)];
}

/* A region of ordinary memory. */
static inline uint32_t gate_region(struct gate *g, uint64_t offset, uint64_t length,
				   uint32_t rights)
{
	const struct weft_region_options o = { .addr = gate_addr(g, offset),
					       .length = length,
					       .rights = rights };
	uint32_t tag;

	REQUIRE(mem_region_register(&g->table, &g->owner, &o, &tag) == WEFT_OK);
	return tag;
}

/* Binds as a work queue does it: the tag is promised first. */
static inline enum weft_reason gate_bind_qp(struct gate *g, uint32_t qp, struct weft_bind *bind)
{
	enum weft_reason r = mem_window_promise(&g->table, PD_OWN, bind);

	return r != WEFT_OK ? r : mem_window_bind(&g->table, PD_OWN, qp, bind);
}

static inline enum weft_reason gate_bind(struct gate *g, struct weft_bind *bind)
{
	return gate_bind_qp(g, 0, bind);
}

static inline uint32_t gate_window(struct gate *g)
{
	uint32_t tag;

	REQUIRE(mem_window_alloc(&g->table, PD_OWN, &tag) == WEFT_OK);
	return tag;
}

/* A new window, bound for the whole PD; returns its tag. */
static inline uint32_t gate_bound(struct gate *g, uint32_t region, uint64_t offset, uint64_t length,
				  uint32_t rights)
{
	struct weft_bind bind = {
		.window_tag = gate_window(g),
		.region_tag = region,
		.addr = gate_addr(g, offset),
		.length = length,
		.rights = rights,
	};

	REQUIRE(gate_bind(g, &bind) == WEFT_OK);
	return bind.tag;
}

/* A new one-touch window over a new region at the front of memory. */
static inline uint32_t gate_one_touch(struct gate *g, uint64_t length)
{
	struct weft_bind bind = {
		.window_tag = gate_window(g),
		.region_tag = gate_region(g, 0, length, RIGHTS_ALL),
		.addr = gate_addr(g, 0),
		.length = length,
		.rights = WEFT_REMOTE_READ | WEFT_REMOTE_WRITE,
		.is_one_touch = true,
	};

	REQUIRE(gate_bind(g, &bind) == WEFT_OK);
	return bind.tag;
}

/* An access by the owner's queue pair, at an offset of the gate's memory. */
static inline struct mem_access gate_ask(const struct gate *g, enum mem_kind kind, uint32_t tag,
					 uint64_t offset, uint64_t length)
{
	return (struct mem_access){
		.addr = gate_addr(g, offset),
		.length = length,
		.tag = tag,
		.pd = PD_OWN,
		.qp = QP_OWN,
		.kind = kind,
	};
}

static inline enum weft_reason gate_check(struct gate *g, struct mem_access a)
{
	struct mem_grant grant;

	return mem_access_check(&g->table, &a, &grant);
}

static inline enum weft_reason gate_access(struct gate *g, enum mem_kind kind, uint32_t tag,
					   uint64_t offset, uint64_t length)
{
	return gate_check(g, gate_ask(g, kind, tag, offset, length));
}

/* Whether the tag lets a peer write this range of the gate's memory. */
static inline bool gate_is_open(struct gate *g, uint32_t tag, uint64_t offset, uint64_t length)
{
	return gate_access(g, MEM_REMOTE_WRITE, tag, offset, length) == WEFT_OK;
}

/* The right that a kind of access asks for. */
static inline uint32_t kind_right(enum mem_kind kind)
{
	static const uint32_t rights[MEM_KIND_COUNT] = {
		[MEM_LOCAL_READ] = WEFT_LOCAL_READ,
		[MEM_LOCAL_WRITE] = WEFT_LOCAL_WRITE,
		[MEM_READ_SINK] = WEFT_REMOTE_WRITE,
		[MEM_REMOTE_READ] = WEFT_REMOTE_READ,
		[MEM_REMOTE_WRITE] = WEFT_REMOTE_WRITE,
		[MEM_REMOTE_ATOMIC] = WEFT_REMOTE_ATOMIC,
		[MEM_BIND] = WEFT_BIND,
	};

	return rights[kind];
}

/* The refusal when that right is missing. */
static inline enum weft_reason kind_refusal(enum mem_kind kind)
{
	static const enum weft_reason refusals[MEM_KIND_COUNT] = {
		[MEM_LOCAL_READ] = WEFT_R_RIGHT_LOCAL_READ,
		[MEM_LOCAL_WRITE] = WEFT_R_RIGHT_LOCAL_WRITE,
		[MEM_READ_SINK] = WEFT_R_READ_SINK,
		[MEM_REMOTE_READ] = WEFT_R_RIGHT_REMOTE_READ,
		[MEM_REMOTE_WRITE] = WEFT_R_RIGHT_REMOTE_WRITE,
		[MEM_REMOTE_ATOMIC] = WEFT_R_RIGHT_REMOTE_ATOMIC,
		[MEM_BIND] = WEFT_R_BIND_DISABLED,
	};

	return refusals[kind];
}

static inline bool kind_is_remote(enum mem_kind kind)
{
	return kind == MEM_READ_SINK || kind == MEM_REMOTE_READ || kind == MEM_REMOTE_WRITE ||
	       kind == MEM_REMOTE_ATOMIC;
}
