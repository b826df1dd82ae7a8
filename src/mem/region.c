/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

#include "base/check.h"

enum { REGION_RIGHTS = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | MEM_REMOTE_RIGHTS | WEFT_BIND };

/* What a registration will put into its entry, worked out before anything is changed. */
struct region_plan {
	uint64_t start, origin;
	struct weft_space *space;
	bool is_own; /* that space is the one of the domain */
};

static enum weft_reason plan_pages(const struct weft_region_options *o, struct region_plan *plan)
{
	const struct weft_page_list *list = o->pages;
	uint64_t size = list->page_size_bytes;
	uint8_t shift = att_page_shift(size);

	if (shift == 0)
		return WEFT_R_REG_PAGE_SIZE;
	if (list->count > 0 && !list->pages)
		return WEFT_R_NULL_ARGUMENT;
	if (list->first_offset >= size || o->length > UINT64_MAX - list->first_offset)
		return WEFT_R_REG_PAGE_COUNT;
	if (list->count != ((list->first_offset + o->length - 1) >> shift) + 1)
		return WEFT_R_REG_PAGE_COUNT;
	plan->origin = list->first_offset;
	return WEFT_OK;
}

static enum weft_reason plan_rights(const struct weft_region_options *o)
{
	if (o->rights & ~(uint32_t)REGION_RIGHTS)
		return WEFT_R_REG_RIGHTS;
	if (o->is_one_touch && (o->rights & WEFT_BIND))
		return WEFT_R_REG_TOUCH;
	return WEFT_OK;
}

/*
 * An on-demand region lies in the process, and may be all of it: what is there, its accesses find
 * out.
 */
static enum weft_reason plan_on_demand(struct mem_table *t, const struct mem_owner *owner,
				       const struct weft_region_options *o,
				       struct region_plan *plan)
{
	if (!t->on_demand.is_there || !owner->space->is_flat || o->space || o->pages)
		return WEFT_R_BAD_ARGUMENT;
	plan->space = &t->on_demand;
	return WEFT_OK;
}

/* RKEY-02b, RKEY-03: is the caller authorised for all of the range? */
static enum weft_reason plan_make(struct mem_table *t, const struct mem_owner *owner,
				  const struct weft_region_options *o, struct region_plan *plan)
{
	enum weft_reason r = plan_rights(o);

	if (r != WEFT_OK)
		return r;
	if (o->length == 0)
		return WEFT_R_REG_LENGTH;
	plan->space = o->space ? o->space : owner->space;
	plan->is_own = plan->space == owner->space && !o->is_on_demand;
	if (plan->space->owner != owner->space->owner)
		return WEFT_R_BAD_ARGUMENT;
	if (plan->space != owner->space && !(plan->space->is_virtual && owner->is_privileged))
		return WEFT_R_REG_VIRTUAL;
	/*
	 * AMB-08: in the process's own space real addresses are its own; elsewhere they are frames.
	 */
	if (o->pages && !plan->space->is_flat && !owner->is_privileged)
		return WEFT_R_REG_FRAMES;
	plan->start = o->va || o->pages ? o->va : o->addr;
	if (o->is_zero_based)
		plan->start = 0;
	if (plan->start + (o->length - 1) < plan->start)
		return WEFT_R_REG_WRAP;
	if (o->pages && !o->is_on_demand)
		return plan_pages(o, plan);
	plan->origin = o->addr;
	if (o->addr + (o->length - 1) < o->addr)
		return WEFT_R_REG_WRAP;
	if (o->is_on_demand)
		return plan_on_demand(t, owner, o, plan);
	/*
	 * A segment whose pages are not there yet may be offered: the access will fault (RKEY-08d).
	 */
	r = mem_space_check(plan->space, o->addr, o->length, false);
	return r == WEFT_OK ? WEFT_OK : WEFT_R_REG_SPACE;
}

/* All but the memory, which the entry has. */
static void region_name(struct mem_entry *e, const struct region_plan *plan,
			const struct weft_region_options *o)
{
	e->is_own = plan->is_own && !e->att;
	e->start = plan->start;
	e->rights = (uint8_t)o->rights;
	e->touch = o->is_one_touch ? MEM_ONE_TOUCH : 0;
}

/* Fills a reserved entry and makes it valid. att may be NULL. */
static void region_open(struct mem_table *t, struct mem_entry *e, const struct region_plan *plan,
			const struct weft_region_options *o, struct att *att)
{
	e->length = o->length;
	e->origin = plan->origin;
	e->space = plan->space;
	e->space->users++;
	e->att = att;
	e->windows = 0;
	region_name(e, plan, o);
	if (t->watch && e->space->is_flat && !att)
		t->begun[e - t->entries] = mem_watch_begin(t->watch, e->origin, e->length);
	table_set_valid(t, e, true);
}

enum weft_reason mem_region_register(struct mem_table *t, const struct mem_owner *owner,
				     const struct weft_region_options *options, uint32_t *tag)
{
	struct region_plan plan;
	struct att *att = NULL;
	uint32_t index;
	enum weft_reason r = plan_make(t, owner, options, &plan);

	if (r == WEFT_OK && options->pages)
		r = att_create(&t->atts, options->pages, plan.space->size, &att);
	if (r != WEFT_OK)
		return r;
	r = table_take(t, MEM_REGION, owner->pd, &index);
	if (r != WEFT_OK) {
		if (att)
			att_put(&t->atts, att);
		return r;
	}
	region_open(t, &t->entries[index], &plan, options, att);
	*tag = table_tag(t, &t->entries[index]);
	return WEFT_OK;
}

enum weft_reason mem_region_register_null(struct mem_table *t, uint32_t pd, uint32_t *tag)
{
	const struct weft_region_options options = {
		.length = UINT64_MAX,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE,
	};
	const struct region_plan plan = { .space = &t->zeroes };
	uint32_t index;
	enum weft_reason r = table_take(t, MEM_REGION, pd, &index);

	if (r != WEFT_OK)
		return r;
	region_open(t, &t->entries[index], &plan, &options, NULL);
	*tag = table_tag(t, &t->entries[index]);
	return WEFT_OK;
}

/*
 * The memory of an entry for this owner, as if it were registered anew: common translation entries
 * mean a common address space. Fills in o->length.
 */
static enum weft_reason plan_same(const struct mem_table *t, const struct mem_owner *owner,
				  const struct mem_entry *old, struct weft_region_options *o,
				  struct region_plan *plan)
{
	enum weft_reason r = plan_rights(o);

	if (r != WEFT_OK)
		return r;
	if (!(old->space == &t->on_demand && owner->space->is_flat) && old->space != owner->space &&
	    !(old->space->is_virtual && owner->is_privileged))
		return WEFT_R_REG_VIRTUAL;
	if (old->att && !old->space->is_flat && !owner->is_privileged)
		return WEFT_R_REG_FRAMES;
	o->length = old->length;
	plan->space = old->space;
	plan->is_own = plan->space == owner->space;
	plan->origin = old->origin;
	plan->start = o->is_zero_based ? 0 : o->va ? o->va : old->start;
	return plan->start + (o->length - 1) < plan->start ? WEFT_R_REG_WRAP : WEFT_OK;
}

enum weft_reason mem_region_share(struct mem_table *t, const struct mem_owner *owner, uint32_t tag,
				  const struct weft_region_options *options, uint32_t *shared_tag)
{
	const struct mem_entry *old = table_find(t, tag);
	struct weft_region_options o = *options;
	struct region_plan plan;
	uint32_t index;
	enum weft_reason r;

	if (weft_tag_index(tag) >= t->tags_max)
		return WEFT_R_TAG_INDEX;
	if (!old || old->state != MEM_VALID)
		return WEFT_R_TAG_INVALID;
	if (old->type != MEM_REGION)
		return WEFT_R_TAG_TYPE;
	if (old->instance != weft_tag_instance(tag))
		return WEFT_R_TAG_INSTANCE;
	r = plan_same(t, owner, old, &o, &plan);
	if (r != WEFT_OK)
		return r;
	r = table_take(t, MEM_REGION, owner->pd, &index);
	if (r != WEFT_OK)
		return r;
	if (old->att)
		att_get(old->att);
	region_open(t, &t->entries[index], &plan, &o, old->att);
	/* Of the memory that was registered first: what it has lost this one lacks, too. */
	if (t->begun[index] && t->begun[old - t->entries])
		t->begun[index] = t->begun[old - t->entries];
	*shared_tag = table_tag(t, &t->entries[index]);
	return WEFT_OK;
}

/* Ends an entry that its owner may end: the memory, if it still has some, then the index. */
static enum weft_reason region_end(struct mem_table *t, struct mem_entry *e)
{
	if (e->state == MEM_VALID) {
		if (e->windows > 0)
			return WEFT_R_REGION_HAS_WINDOWS;
		table_close(t, e);
	}
	e->touch = 0; /* from here on the owner has taken the memory back */
	table_give(t, (uint32_t)(e - t->entries));
	return WEFT_OK;
}

enum weft_reason mem_region_deregister(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_REGION, &e);

	if (r != WEFT_OK)
		return r;
	/* A reserved tag has a call of its own; a spent one-touch region has no memory left. */
	if (e->state != MEM_VALID && !(e->touch & MEM_SPENT))
		return WEFT_R_TAG_INVALID;
	return region_end(t, e);
}

/* The memory stays, and what has gone of it stays refused. */
static enum weft_reason change_kept(struct mem_table *t, struct mem_entry *e,
				    const struct mem_owner *owner,
				    const struct weft_region_options *options)
{
	struct weft_region_options o = *options;
	struct region_plan plan;
	enum weft_reason r = plan_same(t, owner, e, &o, &plan);

	if (r != WEFT_OK)
		return r;
	table_withdraw(t, e);
	table_set_pd(t, e, owner->pd);
	region_name(e, &plan, &o);
	table_publish(t, e);
	return WEFT_OK;
}

enum weft_reason mem_region_change(struct mem_table *t, uint32_t pd, uint32_t tag,
				   const struct mem_owner *owner,
				   const struct weft_region_options *options)
{
	struct region_plan plan;
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_REGION, &e);

	if (r != WEFT_OK)
		return r;
	if (e->state != MEM_VALID)
		return WEFT_R_TAG_INVALID;
	if (e->windows > 0)
		return WEFT_R_REGION_HAS_WINDOWS;
	if (e->is_by_queue || e->space == &t->zeroes || options->pages)
		return WEFT_R_BAD_ARGUMENT;
	if (options->length == 0)
		return change_kept(t, e, owner, options);
	r = plan_make(t, owner, options, &plan);
	if (r != WEFT_OK)
		return r;
	table_close(t, e);
	table_set_pd(t, e, owner->pd);
	region_open(t, e, &plan, options, NULL);
	return WEFT_OK;
}

enum weft_reason mem_tag_reserve(struct mem_table *t, uint32_t pd, uint32_t *tag)
{
	uint32_t index;
	enum weft_reason r = table_take(t, MEM_REGION, pd, &index);

	if (r != WEFT_OK)
		return r;
	t->entries[index].is_by_queue = 1;
	*tag = table_tag(t, &t->entries[index]);
	return WEFT_OK;
}

enum weft_reason mem_tag_release(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_REGION, &e);

	if (r != WEFT_OK)
		return r;
	return e->is_by_queue ? region_end(t, e) : WEFT_R_INVALIDATE_REGION;
}

enum weft_reason mem_region_register_reserved(struct mem_table *t, const struct mem_owner *owner,
					      const struct weft_region_options *options,
					      uint32_t tag)
{
	struct mem_entry *e = table_find(t, tag);
	struct region_plan plan;
	struct att *att = NULL;
	enum weft_reason r;

	if (!e || e->type != MEM_REGION || e->pd != owner->pd || !e->is_by_queue)
		return WEFT_R_SQR_ENTRY;
	if (e->instance != weft_tag_instance(tag))
		return WEFT_R_SQR_INSTANCE;
	if (e->state != MEM_RESERVED)
		return WEFT_R_SQR_ENTRY;
	r = plan_make(t, owner, options, &plan);
	if (r == WEFT_OK && options->pages)
		r = att_create(&t->atts, options->pages, plan.space->size, &att);
	if (r != WEFT_OK)
		return r == WEFT_R_TRANSLATIONS_FULL ? WEFT_R_SQR_SPACE : r;
	region_open(t, e, &plan, options, att);
	return WEFT_OK;
}

void mem_region_unregister_reserved(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;

	if (table_own(t, pd, tag, MEM_REGION, &e) == WEFT_OK && e->is_by_queue &&
	    e->state == MEM_VALID && e->windows == 0)
		table_close(t, e);
}
