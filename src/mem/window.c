/* SPDX-License-Identifier: BSD-2-Clause */
#include "mem/table.h"

#include "base/check.h"
#include "base/id_table.h"

enum weft_reason mem_window_alloc(struct mem_table *t, uint32_t pd, uint32_t *tag)
{
	uint32_t index;
	enum weft_reason r = table_take(t, MEM_WINDOW, pd, &index);

	if (r == WEFT_OK)
		*tag = table_tag(t, &t->entries[index]);
	return r;
}

enum weft_reason mem_window_free(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_WINDOW, &e);

	if (r != WEFT_OK)
		return r;
	if (e->state == MEM_VALID)
		return WEFT_R_WINDOW_BOUND;
	if (e->promised > 0)
		return WEFT_R_BUSY;
	table_give(t, weft_tag_index(tag));
	return WEFT_OK;
}

/* The window that a tag names by its index alone: the instance may have moved on meanwhile. */
static enum weft_reason window_named(const struct mem_table *t, uint32_t pd, uint32_t tag,
				     struct mem_entry **window)
{
	struct mem_entry *e = table_find(t, tag);

	if (weft_tag_index(tag) >= t->tags_max)
		return WEFT_R_TAG_INDEX;
	if (!e)
		return WEFT_R_TAG_INVALID;
	if (e->type != MEM_WINDOW)
		return WEFT_R_TAG_TYPE;
	if (e->pd != pd)
		return WEFT_R_TAG_PD;
	*window = e;
	return WEFT_OK;
}

enum weft_reason mem_window_discard(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;
	enum weft_reason r = window_named(t, pd, tag, &e);

	if (r != WEFT_OK)
		return r;
	if (e->promised > 0)
		return WEFT_R_BUSY;
	if (e->state == MEM_VALID)
		table_close(t, e);
	table_give(t, weft_tag_index(tag));
	return WEFT_OK;
}

enum weft_reason mem_window_promise(struct mem_table *t, uint32_t pd, struct weft_bind *bind)
{
	struct mem_entry *window;
	enum weft_reason r = window_named(t, pd, bind->window_tag, &window);
	uint32_t index = weft_tag_index(bind->window_tag);

	if (r != WEFT_OK)
		return r;
	if (window->promised == UINT8_MAX)
		return WEFT_R_QUEUE_FULL;
	if (bind->tag == 0) {
		uint8_t next = (uint8_t)(window->instance_given + 1);

		/* Promises that came to nothing must not lead back to the tag in use. */
		if (next == window->instance)
			next++;
		bind->tag = mem_tag(index, next);
	} else if (weft_tag_index(bind->tag) != index) {
		return WEFT_R_TAG_INDEX;
	} else if (weft_tag_instance(bind->tag) == window->instance && window->state == MEM_VALID) {
		return WEFT_R_TAG_INSTANCE;
	}
	/* A chosen instance moves it forward, never back: see table_give(). */
	if ((uint8_t)(weft_tag_instance(bind->tag) - window->instance_given) <= INT8_MAX)
		window->instance_given = weft_tag_instance(bind->tag);
	window->promised++;
	return WEFT_OK;
}

void mem_window_forget(struct mem_table *t, const struct weft_bind *bind)
{
	struct mem_entry *window = table_find(t, bind->window_tag);

	CHECK(window && window->promised > 0);
	window->promised--;
}

/*
 * RKEY-11: a window grants no more than its region's remote rights. Under the open policy the
 * region's local rights are the ceiling too, as in today's verbs, where a region is often
 * registered for local use and opened to peers by windows alone.
 */
static bool rights_are_covered(const struct mem_table *t, uint32_t wanted, uint32_t region)
{
	uint32_t ceiling = region & MEM_REMOTE_RIGHTS;

	if (t->policy == WEFT_POLICY_OPEN) {
		if (region & WEFT_LOCAL_READ)
			ceiling |= WEFT_REMOTE_READ;
		if (region & WEFT_LOCAL_WRITE)
			ceiling |= WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC;
	}
	return (wanted & ~ceiling) == 0;
}

static enum weft_reason bind_check(struct mem_table *t, const struct mem_entry *window,
				   const struct weft_bind *bind)
{
	const struct mem_access access = {
		.addr = bind->addr,
		.length = bind->length,
		.tag = bind->region_tag,
		.pd = window->pd,
		.kind = MEM_BIND,
	};
	struct mem_grant grant;
	enum weft_reason r;

	if (bind->rights & ~(uint32_t)MEM_REMOTE_RIGHTS)
		return WEFT_R_REG_RIGHTS;
	r = mem_access_check(t, &access, &grant);
	if (r != WEFT_OK)
		return r;
	if (!rights_are_covered(t, bind->rights, table_find(t, bind->region_tag)->rights))
		return WEFT_R_BIND_RIGHTS;
	return WEFT_OK;
}

enum weft_reason mem_window_bind(struct mem_table *t, uint32_t pd, uint32_t qp,
				 const struct weft_bind *bind)
{
	struct mem_entry *window, *region;
	enum weft_reason r = window_named(t, pd, bind->window_tag, &window);

	if (r != WEFT_OK)
		return r;
	CHECK(window->promised > 0);
	window->promised--;
	/* A window of one QP is rebound only after that QP has invalidated it. */
	if (window->state == MEM_VALID && window->qp != 0)
		return WEFT_R_WINDOW_BOUND;
	if (bind->length == 0) {
		r = mem_window_unbind(t, pd, table_tag(t, window));
		if (r == WEFT_OK) /* the promised tag is the window's, as after every bind */
			window->instance = weft_tag_instance(bind->tag);
		return r;
	}
	r = bind_check(t, window, bind);
	if (r != WEFT_OK)
		return r;
	if (window->state == MEM_VALID)
		table_close(t, window);
	region = table_find(t, bind->region_tag);
	region->windows++;
	window->region = weft_tag_index(bind->region_tag);
	window->instance = weft_tag_instance(bind->tag);
	window->start = bind->is_zero_based ? 0 : bind->addr;
	window->length = bind->length;
	window->origin = region->origin + (bind->addr - region->start);
	window->space = region->space;
	window->att = region->att;
	table_set_qp(t, window, qp);
	window->rights = (uint8_t)bind->rights;
	window->touch = bind->is_one_touch ? MEM_ONE_TOUCH : 0;
	table_set_valid(t, window, true);
	return WEFT_OK;
}

enum weft_reason mem_window_unbind(struct mem_table *t, uint32_t pd, uint32_t tag)
{
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_WINDOW, &e);

	if (r != WEFT_OK)
		return r;
	if (e->state != MEM_VALID)
		return WEFT_R_WINDOW_UNBOUND;
	table_close(t, e);
	return WEFT_OK;
}

enum weft_reason mem_window_give(struct mem_table *t, uint32_t pd, uint32_t tag, uint32_t qp)
{
	struct mem_entry *e;
	enum weft_reason r = table_own(t, pd, tag, MEM_WINDOW, &e);

	if (r != WEFT_OK)
		return r;
	if (e->state != MEM_VALID)
		return WEFT_R_WINDOW_UNBOUND;
	table_withdraw(t, e);
	table_set_qp(t, e, qp);
	table_publish(t, e);
	return WEFT_OK;
}

void mem_qp_gone(struct mem_table *t, uint32_t qp)
{
	/* Bound: the table; looked through only if there is something to find. */
	for (uint32_t i = 1; i < t->tags_max && t->by_qp[id_slot(qp)] > 0; i++) {
		struct mem_entry *e = &t->entries[i];

		if (e->state != MEM_VALID || e->qp != qp)
			continue;
		if (e->type == MEM_WINDOW)
			table_close(t, e);
		else
			touch_close(t, e); /* its one message will never be whole */
	}
}

enum weft_reason mem_invalidate_check(const struct mem_table *t, uint32_t pd, uint32_t qp,
				      uint32_t tag)
{
	const struct mem_entry *e = table_find(t, tag);

	if (weft_tag_index(tag) >= t->tags_max)
		return WEFT_R_TAG_INDEX;
	if (!e || e->state != MEM_VALID)
		return WEFT_R_TAG_INVALID;
	if (e->pd != pd)
		return WEFT_R_TAG_PD;
	if (e->qp != 0 && e->qp != qp)
		return WEFT_R_TAG_QP;
	if (e->instance != weft_tag_instance(tag))
		return WEFT_R_TAG_INSTANCE;
	if (e->type == MEM_ISCSI_REGION)
		return WEFT_R_TAG_TYPE;
	if (e->type == MEM_REGION && !e->is_by_queue)
		return WEFT_R_INVALIDATE_REGION;
	if (e->type == MEM_REGION && e->windows > 0)
		return WEFT_R_REGION_HAS_WINDOWS;
	return WEFT_OK;
}

enum weft_reason mem_invalidate(struct mem_table *t, uint32_t pd, uint32_t qp, uint32_t tag)
{
	enum weft_reason r = mem_invalidate_check(t, pd, qp, tag);
	struct mem_entry *e;

	if (r != WEFT_OK)
		return r;
	e = table_find(t, tag);
	table_close(t, e);
	if (e->type == MEM_REGION)
		table_give(t, weft_tag_index(tag));
	return WEFT_OK;
}

enum weft_reason mem_invalidate_by_peer(struct mem_table *t, uint32_t pd, uint32_t qp, uint32_t tag)
{
	struct mem_entry *e = table_find(t, tag);
	enum weft_reason r = mem_invalidate(t, pd, qp, tag);

	if (r == WEFT_OK && e->type == MEM_REGION)
		e->touch |= MEM_SPENT;
	return r;
}
