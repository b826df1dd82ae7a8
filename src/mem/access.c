/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

#include <string.h>

#include "base/check.h"
#include "base/crc.h"
#include "mem/published.h"

/* What each kind of access needs. */
static const struct {
	bool is_remote;
	uint8_t right;	  /* 0: none */
	uint16_t refusal; /* when the right is missing */
} kinds[MEM_KIND_COUNT] = {
	[MEM_LOCAL_READ] = { false, WEFT_LOCAL_READ, WEFT_R_RIGHT_LOCAL_READ },
	[MEM_LOCAL_WRITE] = { false, WEFT_LOCAL_WRITE, WEFT_R_RIGHT_LOCAL_WRITE },
	[MEM_READ_SINK] = { true, WEFT_REMOTE_WRITE, WEFT_R_READ_SINK },
	[MEM_REMOTE_READ] = { true, WEFT_REMOTE_READ, WEFT_R_RIGHT_REMOTE_READ },
	[MEM_REMOTE_WRITE] = { true, WEFT_REMOTE_WRITE, WEFT_R_RIGHT_REMOTE_WRITE },
	[MEM_REMOTE_ATOMIC] = { true, WEFT_REMOTE_ATOMIC, WEFT_R_RIGHT_REMOTE_ATOMIC },
	[MEM_BIND] = { false, WEFT_BIND, WEFT_R_BIND_DISABLED },
	[MEM_DATA_IN] = { true, WEFT_REMOTE_WRITE, WEFT_R_ISCSI_ENTRY_RIGHT },
	[MEM_R2T] = { true, WEFT_REMOTE_READ, WEFT_R_ISCSI_ENTRY_RIGHT },
	[MEM_RESPONSE] = { true, 0, WEFT_R_ISCSI_ENTRY_RIGHT },
};

_Static_assert(WEFT_REASON_COUNT <= UINT16_MAX, "a refusal fits its field");

/* LOC-02b, IWARP-06b, IWARP-09b under the policy of AMB-12. */
static enum weft_reason check_type(enum weft_policy policy, const struct mem_entry *e,
				   enum mem_kind kind)
{
	if (kinds[kind].is_remote) {
		if (e->type == MEM_REGION && policy == WEFT_POLICY_STRICT)
			return kind == MEM_READ_SINK ? WEFT_R_READ_SINK : WEFT_R_TAG_REGION_REMOTE;
	} else if (e->type == MEM_WINDOW) {
		return WEFT_R_TAG_WINDOW_LOCAL;
	}
	return e->type <= MEM_WINDOW ? WEFT_OK : WEFT_R_TAG_TYPE;
}

/*
 * AMB-04: the sink of a Read is written by the peer's response, so it is a remote-write target;
 * under the open policy a region's own local write serves as well, as on the SAN side.
 */
static bool has_right(enum weft_policy policy, const struct mem_entry *e, enum mem_kind kind)
{
	if (e->rights & kinds[kind].right)
		return true;
	return kind == MEM_READ_SINK && policy == WEFT_POLICY_OPEN && e->type == MEM_REGION &&
	       (e->rights & WEFT_LOCAL_WRITE);
}

static enum weft_reason check_range(const struct mem_entry *e, const struct mem_access *a)
{
	uint64_t offset = a->addr - e->start;

	if (a->addr + (a->length - 1) < a->addr)
		return WEFT_R_RANGE_WRAP;
	if (a->addr < e->start || offset > e->length || a->length > e->length - offset)
		return WEFT_R_RANGE_BOUNDS;
	return WEFT_OK;
}

static bool is_by_task_tag(const struct mem_access *a)
{
	return a->kind >= MEM_TASK_KINDS;
}

/* 05g: the command of the entry is this queue pair's, and goes the way of the message. */
static bool is_of_command(const struct mem_entry *e, const struct mem_access *a)
{
	if (e->qp != a->qp)
		return false;
	return a->kind == MEM_RESPONSE ||
	       e->way == (a->kind == MEM_DATA_IN ? MEM_WAY_IN : MEM_WAY_OUT);
}

/* ISCSI-05; ISCSI-01i has those of them that need no range and no direction. */
static enum weft_reason check_command(const struct mem_entry *e, const struct mem_access *a)
{
	if (e->state != MEM_VALID)
		return WEFT_R_ISCSI_ENTRY_INVALID;
	if (e->type != MEM_ISCSI_REGION)
		return WEFT_R_ISCSI_ENTRY_TYPE;
	if (e->pd != a->pd)
		return WEFT_R_ISCSI_ENTRY_PD;
	if (e->instance != weft_tag_instance(a->tag))
		return WEFT_R_ISCSI_ENTRY_INSTANCE;
	if (a->addr > e->length || a->length > e->length - a->addr)
		return WEFT_R_ISCSI_ENTRY_RANGE;
	if (kinds[a->kind].right && !(e->rights & kinds[a->kind].right))
		return (enum weft_reason)kinds[a->kind].refusal;
	return is_of_command(e, a) ? WEFT_OK : WEFT_R_ISCSI_ENTRY_COMMAND;
}

static enum weft_reason check_entry(enum weft_policy policy, const struct mem_entry *e,
				    const struct mem_access *a)
{
	enum weft_reason r;

	if (is_by_task_tag(a))
		return check_command(e, a);
	if (e->state != MEM_VALID) {
		bool is_spent = e->state == MEM_RESERVED && (e->touch & MEM_SPENT) &&
				e->instance == weft_tag_instance(a->tag) && e->pd == a->pd;

		return is_spent ? WEFT_R_TAG_SPENT : WEFT_R_TAG_INVALID;
	}
	r = check_type(policy, e, a->kind);
	if (r != WEFT_OK)
		return r;
	if (e->pd != a->pd)
		return WEFT_R_TAG_PD;
	if (e->qp != 0 && e->qp != a->qp)
		return WEFT_R_TAG_QP;
	if (e->instance != weft_tag_instance(a->tag))
		return WEFT_R_TAG_INSTANCE;
	r = check_range(e, a);
	if (r != WEFT_OK)
		return r;
	if (!has_right(policy, e, a->kind))
		return (enum weft_reason)kinds[a->kind].refusal;
	return WEFT_OK;
}

static bool is_written(const struct mem_access *a)
{
	return a->kind != MEM_LOCAL_READ && a->kind != MEM_REMOTE_READ && a->kind != MEM_R2T;
}

/* What a range holds counts when it is used: binding a window to it uses nothing. */
static bool is_there(const struct mem_grant *g, const struct mem_access *a)
{
	return a->kind == MEM_BIND || a->is_ahead ||
	       g->space->is_there(g->origin, g->length, is_written(a));
}

/* Mappings, and the pages behind them as far as the access needs them now (VMM-05c, VMM-09). */
static enum weft_reason check_mappings(const struct mem_grant *g, const struct mem_access *a)
{
	bool is_later = a->kind == MEM_BIND || (a->is_ahead && g->space->paging->has_pager);
	enum weft_reason r = mem_space_check(g->space, g->origin, g->length, !is_later);

	if (r != WEFT_OK || is_later || a->is_ahead || !a->can_wait || !g->space->pager)
		return r;
	switch (mem_space_presence(g->space, g->origin, g->length, is_written(a), a->qp)) {
	case MEM_HERE:
		return WEFT_OK;
	case MEM_AWAY:
		g->space->paging->counts.faults++;
		return WEFT_R_SPACE_UNMAPPED;
	default:
		return WEFT_R_SPACE_MAPPING;
	}
}

/* What lies below the entry: is the memory there, and is it fit for an atomic? */
static enum weft_reason check_memory(const struct mem_table *t, const struct mem_access *a,
				     struct mem_grant *grant)
{
	enum weft_reason r = WEFT_OK;
	struct mem_grant g = *grant;
	struct mem_span span;

	if (g.space == &t->zeroes) { /* a null region: its rights are local reads and writes */
		if (a->kind != MEM_LOCAL_READ)
			grant->space = &t->discard;
		return WEFT_OK;
	}
	/* Binding to pages that are not there yet is allowed: the access will fault (RKEY-08d). */
	if (g.space->is_there)
		r = is_there(&g, a) ? WEFT_OK : WEFT_R_SPACE_MAPPING;
	else if (!g.att)
		r = check_mappings(&g, a);
	if (r != WEFT_OK || a->kind != MEM_REMOTE_ATOMIC)
		return r;
	if (a->length != 8 || a->addr % 8 || mem_grant_spans(&g, &span, 1) != 1)
		return WEFT_R_ATOMIC_ALIGN;
	return span.length == 8 && (uintptr_t)span.bytes % 8 == 0 ? WEFT_OK : WEFT_R_ATOMIC_ALIGN;
}

/* Whether the memory is still the one that was registered. */
static enum weft_reason check_whole(const struct mem_table *t, const struct mem_entry *e,
				    const struct mem_grant *g)
{
	uint32_t region = e->type == MEM_WINDOW ? e->region : (uint32_t)(e - t->entries);
	uint64_t begun = t->begun[region];

	if (begun == 0 || !t->watch->were_unmapped(g->origin, g->length, begun))
		return WEFT_OK;
	return WEFT_R_MEMORY_GONE;
}

/* Whether it only waits for its page, and comes again. */
static bool is_late(const struct mem_access *a, const struct mem_grant *g, enum weft_reason r)
{
	return r == WEFT_R_SPACE_UNMAPPED && a->can_wait && mem_grant_will_come(g);
}

/* The index of its tag is none of the table's. */
static enum weft_reason out_of_table(const struct mem_access *a)
{
	return is_by_task_tag(a) ? WEFT_R_ISCSI_ENTRY_INVALID : WEFT_R_TAG_INDEX;
}

/* MEM-12: addresses count from zero. */
static struct mem_grant command_grant(const struct mem_entry *e, const struct mem_access *a)
{
	return (struct mem_grant){
		.space = e->space,
		.att = e->att,
		.origin = e->origin + a->addr,
		.length = a->length,
	};
}

/* An entry that passed when the changes were these would pass now, but for the range. */
static bool is_as_before(const struct mem_table *t, const struct mem_entry *e, uint32_t changes)
{
	return t->changes == changes && e->space->is_flat && !e->att && e->touch == 0 &&
	       atomic_load_explicit(t->unmapped, memory_order_acquire) == 0;
}

bool mem_access_again(const struct mem_table *t, const struct mem_passed *passed,
		      const struct mem_access *a, struct mem_grant *grant)
{
	const struct mem_entry *e = &t->entries[weft_tag_index(a->tag)];

	if (a->tag != passed->tag || a->kind != passed->kind || a->tag == 0 ||
	    !is_as_before(t, e, passed->changes) || check_range(e, a) != WEFT_OK)
		return false;
	*grant = (struct mem_grant){
		.space = e->space,
		.origin = e->origin + (a->addr - e->start),
		.length = a->length,
	};
	return true;
}

enum weft_reason mem_access_check(struct mem_table *t, const struct mem_access *a,
				  struct mem_grant *grant)
{
	uint32_t index = weft_tag_index(a->tag);
	enum weft_reason r = out_of_table(a);

	if (a->length == 0 && !is_by_task_tag(a)) {
		*grant = (struct mem_grant){ 0 };
		return WEFT_OK;
	}
	if (index < t->tags_max)
		r = check_entry(t->policy, &t->entries[index], a);
	if (r == WEFT_OK && is_by_task_tag(a)) {
		*grant = command_grant(&t->entries[index], a);
	} else if (r == WEFT_OK) {
		const struct mem_entry *e = &t->entries[index];

		*grant = (struct mem_grant){
			.space = e->space,
			.att = e->att,
			.origin = e->origin + (a->addr - e->start),
			.length = a->length,
		};
		if (a->kind == MEM_REMOTE_ATOMIC || !e->space->is_flat)
			r = check_memory(t, a, grant);
		if (atomic_load_explicit(t->unmapped, memory_order_acquire) > 0 && r == WEFT_OK)
			r = check_whole(t, e, grant);
	}
	if (r != WEFT_OK && !is_late(a, grant, r))
		t->refused++;
	return r;
}

/* Whether the tag's own entry, which may be free by now and has kept its range, was retired. */
static bool is_retired(const struct mem_entry *e, const struct mem_access *a)
{
	uint8_t instance = weft_tag_instance(a->tag);

	if (e->type != MEM_REGION || !(e->touch & MEM_SPENT) || !e->is_own || e->pd != a->pd)
		return false;
	if (e->state == MEM_FREE)
		return e->instance == (uint8_t)(instance + 1);
	return e->state == MEM_RESERVED && e->instance == instance;
}

enum weft_reason mem_access_retired(const struct mem_table *t, const struct mem_access *a,
				    struct weft_space *space, struct mem_grant *grant)
{
	uint32_t index = weft_tag_index(a->tag);
	const struct mem_entry *e;
	enum weft_reason r;

	if (index >= t->tags_max || a->kind != MEM_LOCAL_READ)
		return WEFT_R_TAG_INVALID;
	e = &t->entries[index];
	if (!is_retired(e, a))
		return WEFT_R_TAG_INVALID;
	r = check_range(e, a);
	if (r != WEFT_OK)
		return r;
	if (!has_right(t->policy, e, a->kind))
		return (enum weft_reason)kinds[a->kind].refusal;
	*grant = (struct mem_grant){
		.space = space,
		.origin = e->origin + (a->addr - e->start),
		.length = a->length,
	};
	return space->is_flat ? WEFT_OK : check_memory(t, a, grant);
}

enum weft_reason mem_published_check(const struct mem_published *entries, enum weft_policy policy,
				     const struct mem_access *a, uint64_t *addr)
{
	const struct mem_published *p = mem_published_find(entries, weft_tag_index(a->tag));
	struct mem_entry e;
	enum weft_reason r;

	if (!p)
		return WEFT_R_TAG_INDEX;
	e = p->entry; /* a copy: the other process is not to be trusted */
	r = check_entry(policy, &e, a);
	*addr = e.origin + (a->addr - e.start);
	return r;
}

bool mem_grant_is_paging(const struct mem_grant *g)
{
	return g->space->pager && mem_space_check(g->space, g->origin, g->length, true) == WEFT_OK;
}

bool mem_grant_will_come(const struct mem_grant *g)
{
	return g->space->paging->has_pager || mem_grant_is_paging(g);
}

enum weft_reason mem_access_look(const struct mem_table *t, const struct mem_access *a)
{
	uint32_t index = weft_tag_index(a->tag);

	if (a->length == 0 && !is_by_task_tag(a))
		return WEFT_OK;
	return index < t->tags_max ? check_entry(t->policy, &t->entries[index], a)
				   : out_of_table(a);
}

struct mem_grant mem_grant_of(const void *bytes, uint64_t length)
{
	static const struct weft_space process = { .size = UINT64_MAX, .is_flat = true };

	return (struct mem_grant){
		.space = &process,
		.origin = (uintptr_t)bytes,
		.length = length,
	};
}

/*
 * Spans of a page list, at least one; pages that happen to follow each other make one span. Counts
 * in whole pages: what is too much is taken off the last span.
 */
static uint32_t spans_by_pages(struct mem_grant *g, struct mem_span *spans, uint32_t max)
{
	const struct weft_space space = *g->space; /* a copy, which no store below can change */
	const unsigned int shift = g->att->page_shift;
	const uint64_t size = UINT64_C(1) << shift, in_page = g->origin & (size - 1);
	const uint64_t last = (g->origin + g->length - 1) >> shift;
	uint64_t page = g->origin >> shift, taken;
	const uint64_t *leaf = att_leaf(g->att, page);
	uint64_t real = leaf[page % ATT_BLOCK_ENTRIES] + in_page;
	uint64_t next = real + (size - in_page); /* the page that would lengthen the span */
	struct mem_span *s = spans;

	*s = (struct mem_span){ real, mem_space_byte(&space, real), size - in_page, space.paging };
	/* Bound: the pages of the range. */
	while (++page <= last) {
		if (page % ATT_BLOCK_ENTRIES == 0)
			leaf = att_leaf(g->att, page);
		real = leaf[page % ATT_BLOCK_ENTRIES];
		if (real == next) {
			s->length += size;
		} else {
			if (s + 1 == spans + max)
				break;
			*++s = (struct mem_span){ real, mem_space_byte(&space, real), size,
						  space.paging };
		}
		next = real + size;
	}
	taken = (page << shift) - g->origin;
	if (taken > g->length) {
		s->length -= taken - g->length;
		taken = g->length;
	}
	g->origin += taken;
	g->length -= taken;
	return (uint32_t)(s - spans) + 1;
}

static uint32_t spans_by_space(struct mem_grant *g, struct mem_span *spans, uint32_t max)
{
	uint32_t count = 0;

	while (g->length > 0 && count < max) {
		struct mem_span *s = &spans[count++];
		enum weft_reason r = mem_space_translate(g->space, g->origin, g->length, &s->real,
							 &s->length);

		CHECK(r == WEFT_OK); /* the check that gave the grant saw all of it */
		s->bytes = mem_space_byte(g->space, s->real);
		s->paging = g->space->paging;
		g->origin += s->length;
		g->length -= s->length;
	}
	return count;
}

uint32_t mem_grant_spans(struct mem_grant *g, struct mem_span *spans, uint32_t max)
{
	if (g->length == 0 || max == 0)
		return 0;
	if (g->att)
		return spans_by_pages(g, spans, max);
	if (!g->space->is_flat)
		return spans_by_space(g, spans, max);
	spans[0] = (struct mem_span){ g->origin, mem_space_byte(g->space, g->origin), g->length,
				      g->space->paging };
	g->origin += g->length;
	g->length = 0;
	return 1;
}

bool mem_known_span(const struct mem_table *t, uint32_t changes, const struct weft_sge *range,
		    struct mem_span *span)
{
	const struct mem_entry *e = &t->entries[weft_tag_index(range->tag)];
	uint64_t real;

	if (!is_as_before(t, e, changes))
		return false;
	real = e->origin + (range->addr - e->start);
	*span = (struct mem_span){ real, mem_space_byte(e->space, real), range->length,
				   e->space->paging };
	return true;
}

/* The vec's next span, or an empty one at its end. */
static struct mem_span vec_next(struct mem_vec *v)
{
	struct mem_span span = { 0 };

	while (v->at < v->count && mem_grant_spans(&v->grants[v->at], &span, 1) == 0)
		v->at++;
	return span;
}

enum { CHUNK = 4096 };

static struct mem_watch *watch_of(const struct mem_span *s)
{
	return s->paging ? s->paging->watch : NULL;
}

/* At once. False: one of the two may be missing. */
static bool copy(const struct mem_span *to, const struct mem_span *from, uint64_t length)
{
	const struct mem_paging *paging = mem_span_may_go(to)	  ? to->paging
					  : mem_span_may_go(from) ? from->paging
								  : NULL;
	struct mem_watch *watch = watch_of(to) ? watch_of(to) : watch_of(from);
	bool is_there;

	if (!paging) {
		memmove(to->bytes, from->bytes, length);
		return true;
	}
	/* The two are of one adapter: what is watched has the same watch. */
	is_there = mem_watch_enter_same(watch) &&
		   paging->guard->copy(to->bytes, from->bytes, length);
	mem_watch_leave(watch);
	return is_there;
}

/* By way of memory of ours, to learn whether one of the two is missing, and which. */
static enum mem_gone carry(struct mem_span to, struct mem_span from, uint64_t length)
{
	uint8_t chunk[CHUNK];

	while (length > 0) {
		to.length = from.length = length < CHUNK ? length : CHUNK;
		if (!mem_span_read(&from, chunk))
			return MEM_FROM_GONE;
		if (!mem_span_write(&to, chunk))
			return MEM_TO_GONE;
		to.bytes += to.length;
		from.bytes += from.length;
		length -= from.length;
	}
	return MEM_NONE_GONE;
}

bool mem_run(const struct mem_paging *paging, const void *bytes, uint64_t length,
	     void (*work)(void *), void *argument)
{
	bool is_there;

	if (!paging || !paging->guard) {
		work(argument);
		return true;
	}
	is_there = mem_watch_enter(paging->watch, bytes, length) &&
		   paging->guard->run(bytes, length, work, argument);
	mem_watch_leave(paging->watch);
	return is_there;
}

static void look_at(void *argument)
{
	enum { PAGE_LEAST = 4096 };
	const struct mem_span *s = argument;
	const volatile uint8_t *bytes = s->bytes;

	for (uint64_t i = 0; i < s->length; i += PAGE_LEAST)
		(void)bytes[i];
	(void)bytes[s->length - 1];
}

bool mem_span_is_there(const struct mem_span *s)
{
	struct mem_span copy = *s;

	return !mem_span_may_go(s) || mem_run(s->paging, s->bytes, s->length, look_at, &copy);
}

struct sum {
	uint32_t crc;
	const uint8_t *bytes;
	size_t length;
};

static void sum_up(void *argument)
{
	struct sum *s = argument;

	s->crc = crc32c_add(s->crc, s->bytes, s->length);
}

bool mem_crc32c(const struct mem_paging *paging, uint32_t *crc, const uint8_t *bytes, size_t length)
{
	struct sum sum = { *crc, bytes, length };

	if (!mem_run(paging, bytes, length, sum_up, &sum))
		return false;
	*crc = sum.crc;
	return true;
}

enum mem_gone mem_vec_copy(struct mem_vec *to, struct mem_vec *from, uint64_t length)
{
	struct mem_span t = { 0 }, f = { 0 };
	enum mem_gone gone = MEM_NONE_GONE;

	while (length > 0) {
		uint64_t n;

		if (t.length == 0)
			t = vec_next(to);
		if (f.length == 0)
			f = vec_next(from);
		n = t.length < f.length ? t.length : f.length;
		n = n < length ? n : length;
		CHECK(n > 0);
		if (!copy(&t, &f, n))
			gone = carry(t, f, n);
		if (gone != MEM_NONE_GONE)
			return gone;
		t.bytes += n;
		t.length -= n;
		f.bytes += n;
		f.length -= n;
		length -= n;
	}
	return gone;
}
