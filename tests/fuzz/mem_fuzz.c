/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The input is a list of calls on a small memory table. After each, the table must agree with
 * itself; whatever an access is granted must be what the entry says, inside the memory that the
 * space has; and when everything is given back, nothing is in use.
 */
#include <string.h>

#include "base/check.h"
#include "base/cursor.h"
#include "mem/table.h"

enum {
	TAGS = 10,
	BLOCKS = 12,
	PAGE = 4096,
	BYTES = 8 * PAGE,
	ADDR = 0x10000, /* of the mapped segment; the one after it has no pages */
	NAMES = 24,
	OPS_MAX = 400
};

static _Alignas(PAGE) uint8_t memory[BYTES];

struct state {
	struct rd in;
	struct mem_table t;
	struct weft_space space;
	uint32_t names[NAMES]; /* tags that were given out, dead ones too */
	uint32_t names_count;
};

static void name_add(struct state *s, uint32_t tag)
{
	s->names[s->names_count++ % NAMES] = tag;
}

/* A tag that was given out, or any number. */
static uint32_t name_draw(struct state *s)
{
	uint8_t at = rd_u8(&s->in);

	return at == 0xff ? rd_u32(&s->in) : s->names[at % NAMES];
}

static struct mem_owner owner_draw(struct state *s)
{
	return (struct mem_owner){ .pd = 1 + rd_u8(&s->in) % 2, .space = &s->space };
}

static uint64_t addr_draw(struct state *s)
{
	uint16_t at = rd_u16(&s->in);

	return at == 0xffff ? rd_u64(&s->in) : ADDR - 16 + (uint64_t)at % (3 * BYTES);
}

static uint64_t length_draw(struct state *s)
{
	uint16_t n = rd_u16(&s->in);

	return n == 0xffff ? rd_u64(&s->in) : n % (2 * BYTES);
}

/* ---- Calls ------------------------------------------------------------------------------- */

/* Options of a registration; with a page list in half of the cases. */
static struct weft_region_options options_draw(struct state *s, struct weft_page_list *list,
					       uint64_t *pages)
{
	uint8_t flags = rd_u8(&s->in);
	struct weft_region_options o = { .is_zero_based = flags & 1, .is_one_touch = flags & 2 };

	o.addr = addr_draw(s);
	o.length = length_draw(s);
	o.rights = rd_u8(&s->in) & 0x7f;
	if (flags & 4)
		o.va = addr_draw(s);
	if (!(flags & 8))
		return o;
	*list = (struct weft_page_list){ .pages = pages, .page_size_bytes = PAGE };
	if (flags & 16)
		list->page_size_bytes = 2 * PAGE;
	list->first_offset = rd_u16(&s->in) % (PAGE + 8);
	list->order = rd_u8(&s->in) % 5;
	o.length %= BYTES;
	list->count = (uint32_t)((list->first_offset + o.length) / list->page_size_bytes + 1);
	if (flags & 32)
		list->count = rd_u8(&s->in) % 16;
	for (uint32_t i = 0; i < list->count; i++)
		pages[i] = rd_u8(&s->in) % 9 * UINT64_C(4096);
	o.pages = list;
	return o;
}

static void call_register(struct state *s, uint8_t how)
{
	const struct mem_owner owner = owner_draw(s);
	struct weft_page_list list;
	uint64_t pages[16];
	const struct weft_region_options o = options_draw(s, &list, pages);
	uint32_t tag = 0;

	if (how == 0 && mem_region_register(&s->t, &owner, &o, &tag) == WEFT_OK)
		name_add(s, tag);
	if (how == 1 && mem_region_share(&s->t, &owner, name_draw(s), &o, &tag) == WEFT_OK)
		name_add(s, tag);
	if (how == 2)
		(void)mem_region_register_reserved(&s->t, &owner, &o, name_draw(s));
}

static void call_take(struct state *s, uint8_t how)
{
	uint32_t pd = owner_draw(s).pd, tag;
	enum weft_reason r = how ? mem_tag_reserve(&s->t, pd, &tag)
				 : mem_window_alloc(&s->t, pd, &tag);

	if (r == WEFT_OK)
		name_add(s, tag);
	else
		CHECK(r == WEFT_R_TABLE_FULL && s->t.free_count == 0);
}

static void call_bind(struct state *s)
{
	uint8_t flags = rd_u8(&s->in);
	uint32_t pd = owner_draw(s).pd;
	struct weft_bind bind = { .is_zero_based = flags & 1, .is_one_touch = flags & 2 };

	bind.window_tag = name_draw(s);
	bind.region_tag = name_draw(s);
	bind.addr = addr_draw(s);
	bind.length = length_draw(s);
	bind.rights = rd_u8(&s->in);
	if (flags & 4)
		bind.tag = name_draw(s);
	if (mem_window_promise(&s->t, pd, &bind) != WEFT_OK)
		return;
	name_add(s, bind.tag);
	(void)mem_window_bind(&s->t, pd, flags & 8 ? 7 : 0, &bind);
}

static void call_end(struct state *s, uint8_t how)
{
	uint32_t pd = owner_draw(s).pd, tag = name_draw(s);

	switch (how) {
	case 0:
		(void)mem_region_deregister(&s->t, pd, tag);
		break;
	case 1:
		(void)mem_tag_release(&s->t, pd, tag);
		break;
	case 2:
		(void)mem_window_unbind(&s->t, pd, tag);
		break;
	case 3:
		(void)mem_window_free(&s->t, pd, tag);
		break;
	default:
		(void)mem_invalidate(&s->t, pd, rd_u8(&s->in) & 1 ? 7 : 8, tag);
	}
}

static void call_touch(struct state *s)
{
	uint8_t flags = rd_u8(&s->in);
	uint32_t tag = name_draw(s);
	struct touch_stream tcp = { .window = 32 };
	bool is_placed;

	tcp.end_sn = rd_u8(&s->in);
	tcp.expected_sn = rd_u8(&s->in);
	tcp.next_sn = rd_u8(&s->in);
	if (flags & 2)
		mem_touch_message(&s->t, tag);
	else if (flags & 4)
		mem_touch_advance(&s->t, tag, tcp.next_sn);
	else
		(void)mem_touch_segment(&s->t, tag, flags & 1, &tcp, &is_placed);
}

/* What was granted is what the entry says, and lies in the space's memory. */
static void call_access(struct state *s)
{
	struct mem_access a = { .tag = name_draw(s) };
	struct mem_grant grant;
	struct mem_span span;
	uint64_t sum = 0;

	a.addr = addr_draw(s);
	a.length = length_draw(s);
	a.pd = owner_draw(s).pd;
	a.qp = 7 + rd_u8(&s->in) % 2;
	a.kind = rd_u8(&s->in) % MEM_TASK_KINDS;
	if (mem_access_check(&s->t, &a, &grant) != WEFT_OK || a.length == 0)
		return;
	const struct mem_entry *e = &s->t.entries[weft_tag_index(a.tag)];

	CHECK(e->state == MEM_VALID && e->instance == weft_tag_instance(a.tag));
	CHECK(e->pd == a.pd && (e->qp == 0 || e->qp == a.qp));
	CHECK(a.addr >= e->start && a.length <= e->length);
	CHECK(a.addr - e->start <= e->length - a.length);
	if (a.kind == MEM_BIND)
		return; /* to pages that may not be there */
	while (mem_grant_spans(&grant, &span, 1)) {
		CHECK(span.length > 0 && span.length <= BYTES && span.real <= BYTES - span.length);
		CHECK(span.bytes == memory + span.real);
		sum += span.length;
		memset(span.bytes, 1, span.length);
	}
	CHECK(sum == a.length);
}

/* ---- What must hold ---------------------------------------------------------------------- */

static void check_window(const struct mem_table *t, const struct mem_entry *e)
{
	const struct mem_entry *region = &t->entries[e->region];

	CHECK(region->state == MEM_VALID && region->type == MEM_REGION && region->windows > 0);
	CHECK(region->pd == e->pd && (region->rights & WEFT_BIND));
	CHECK(e->space == region->space && e->att == region->att);
	CHECK((e->rights & ~MEM_REMOTE_RIGHTS) == 0 && e->length > 0);
	CHECK(e->origin >= region->origin && e->length <= region->length);
	CHECK(e->origin - region->origin <= region->length - e->length);
}

static void check_table(const struct state *s)
{
	const struct mem_table *t = &s->t;
	uint32_t by_type[2][3] = { 0 }, by_pd[3] = { 0 }, free_count = 0, bound = 0, windows = 0;
	uint32_t att_users[BLOCKS] = { 0 };

	for (uint32_t i = 1; i <= TAGS; i++) {
		const struct mem_entry *e = &t->entries[i];

		free_count += e->state == MEM_FREE;
		if (e->state == MEM_FREE)
			continue;
		by_type[e->state == MEM_VALID][e->type]++;
		by_pd[e->pd]++;
		if (e->state == MEM_VALID && e->type == MEM_WINDOW) {
			check_window(t, e);
			bound++;
		} else if (e->state == MEM_VALID) {
			CHECK(e->start + (e->length - 1) >= e->start);
			windows += e->windows;
			if (e->att)
				att_users[e->att - t->atts.roots]++;
		}
	}
	CHECK(free_count == t->free_count && bound == windows);
	CHECK(memcmp(by_type, t->by_type, sizeof(by_type)) == 0);
	CHECK(by_pd[1] == mem_table_pd_tags(t, 1) && by_pd[2] == mem_table_pd_tags(t, 2));
	CHECK(s->space.users == by_type[1][MEM_REGION]);
	for (uint32_t i = 0; i < BLOCKS; i++)
		CHECK(att_users[i] == 0 || att_users[i] == t->atts.roots[i].users);
	CHECK(t->entries[0].state == MEM_FREE && t->atts.used <= BLOCKS);
}

/* Windows first, then regions: nothing stays in use. */
static void give_all_back(struct state *s)
{
	for (int type = MEM_WINDOW; type >= MEM_REGION; type--) {
		for (uint32_t i = 1; i <= TAGS; i++) {
			const struct mem_entry *e = &s->t.entries[i];
			uint32_t tag = mem_tag(i, e->instance);
			enum weft_reason r;

			if (e->state == MEM_FREE || e->type != type)
				continue;
			if (type == MEM_WINDOW && e->state == MEM_VALID)
				CHECK(mem_window_unbind(&s->t, e->pd, tag) == WEFT_OK);
			r = type == MEM_WINDOW ? mem_window_free(&s->t, e->pd, tag)
			    : e->is_by_queue   ? mem_tag_release(&s->t, e->pd, tag)
					       : mem_region_deregister(&s->t, e->pd, tag);
			CHECK(r == WEFT_OK);
		}
	}
	CHECK(s->t.free_count == TAGS && s->t.atts.used == 0 && s->space.users == 0);
}

static void call(struct state *s)
{
	uint8_t op = rd_u8(&s->in) % 16;

	if (op < 3)
		call_register(s, op);
	else if (op < 5)
		call_take(s, op - 3);
	else if (op < 7)
		call_bind(s);
	else if (op < 12)
		call_end(s, op - 7);
	else if (op < 13)
		call_touch(s);
	else
		call_access(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct weft_space_options space_options = { .memory = memory,
							  .size_bytes = BYTES,
							  .mappings_max = 4 };
	struct mem_limits limits = { .tags_max = TAGS,
				     .translations_max = BLOCKS * ATT_BLOCK_ENTRIES,
				     .pds_max = 3,
				     .qps_max = 65535 };
	struct state s = { .names_count = 0 };

	if (size == 0)
		return 0;
	s.in = rd_of(data, size);
	limits.policy = rd_u8(&s.in) & 1 ? WEFT_POLICY_STRICT : WEFT_POLICY_OPEN;
	CHECK(mem_table_init(&s.t, &limits) == 0);
	CHECK(mem_space_init(&s.space, &space_options) == WEFT_OK);
	CHECK(mem_space_map(&s.space, ADDR, BYTES / 2, BYTES / 2) == WEFT_OK);
	CHECK(mem_space_map(&s.space, ADDR + BYTES / 2, BYTES / 2, 0) == WEFT_OK);
	CHECK(mem_space_map(&s.space, ADDR + BYTES, BYTES, WEFT_REAL_NONE) == WEFT_OK);
	for (int i = 0; i < OPS_MAX && !s.in.is_short; i++) {
		call(&s);
		check_table(&s);
	}
	give_all_back(&s);
	mem_space_fini(&s.space);
	mem_table_fini(&s.t);
	return 0;
}
