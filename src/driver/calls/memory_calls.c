/* SPDX-License-Identifier: BSD-2-Clause */
/* Public calls on address spaces, protection domains and tags. */
#include "base/reserved.h"
#include "driver/loop/adapter_lock.h"
#include "driver/sys/clock.h"
#include "driver/sys/guard.h"

enum weft_reason weft_space_create(struct weft_adapter *adapter,
				   const struct weft_space_options *options,
				   struct weft_space **space)
{
	enum weft_reason r;

	if (!adapter || !options || !space)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	r = space_create(adapter_enter(adapter), options, space);
	adapter_leave(adapter);
	return r;
}

static struct weft_adapter *adapter_of_space(const struct weft_space *space)
{
	return adapter_of(space->owner);
}

enum weft_reason weft_space_destroy(struct weft_space *space)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!space)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of_space(space);
	adapter_enter(a);
	r = space_destroy(space);
	adapter_leave(a);
	return r;
}

/* Requests that wait for a page continue, or end. */
static void leave_changed(struct weft_adapter *a)
{
	pager_forget_failures(a);
	if (list_is_empty(&a->core.absent)) {
		adapter_leave(a);
		return;
	}
	adapter_memory_changed(&a->core);
	adapter_leave_working(a);
}

enum weft_reason weft_space_map(struct weft_space *space, uint64_t addr, uint64_t length,
				uint64_t real)
{
	enum weft_reason r;

	if (!space)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter_of_space(space));
	r = mem_space_map(space, addr, length, real);
	leave_changed(adapter_of_space(space));
	return r;
}

enum weft_reason weft_space_unmap(struct weft_space *space, uint64_t addr)
{
	enum weft_reason r;

	if (!space)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter_of_space(space));
	r = mem_space_unmap(space, addr);
	leave_changed(adapter_of_space(space));
	return r;
}

enum weft_reason weft_space_move(struct weft_space *space, uint64_t addr, uint64_t real)
{
	enum weft_reason r;

	if (!space)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter_of_space(space));
	r = mem_space_move(space, addr, real);
	leave_changed(adapter_of_space(space));
	return r;
}

enum weft_reason weft_space_query(struct weft_space *space, struct weft_pins *pins)
{
	struct weft_adapter *a;

	if (!space || !pins)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_of_space(space);
	adapter_enter(a);
	mem_pins_query(space->paging, adapter_now_ns(a), pins);
	adapter_leave(a);
	return WEFT_OK;
}

enum weft_reason weft_pd_create(struct weft_adapter *adapter, const struct weft_pd_options *options,
				struct weft_pd **pd)
{
	static const struct weft_pd_options defaults;
	enum weft_reason r;

	if (!adapter || !pd)
		return WEFT_R_NULL_ARGUMENT;
	if (options && !RESERVED_IS_ZERO(options))
		return WEFT_R_RESERVED;
	r = pd_create(adapter_enter(adapter), options ? options : &defaults, pd);
	adapter_leave(adapter);
	return r;
}

static bool is_region_reserved(const struct weft_region_options *o)
{
	return !RESERVED_IS_ZERO(o) || (o->pages && !RESERVED_IS_ZERO(o->pages));
}

/* Takes the lock of the protection domain's adapter. */
static struct weft_adapter *enter_pd(const struct weft_pd *pd)
{
	struct weft_adapter *a = adapter_of(pd->adapter);

	adapter_enter(a);
	return a;
}

enum weft_reason weft_pd_destroy(struct weft_pd *pd)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_pd(pd);
	r = pd_destroy(pd);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_region_register(struct weft_pd *pd, const struct weft_region_options *options,
				      uint32_t *tag)
{
	struct weft_adapter *a;
	struct mem_owner owner;
	enum weft_reason r;

	if (!pd || !options || !tag)
		return WEFT_R_NULL_ARGUMENT;
	if (is_region_reserved(options))
		return WEFT_R_RESERVED;
	owner = pd_owner(pd);
	a = enter_pd(pd);
	guard_renew(clock_ns());
	r = adapter_is_short(a) ? WEFT_R_NO_MEMORY
				: mem_region_register(&a->core.mem, &owner, options, tag);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_region_share(struct weft_pd *pd, uint32_t tag,
				   const struct weft_region_options *options, uint32_t *shared_tag)
{
	struct weft_adapter *a;
	struct mem_owner owner;
	enum weft_reason r;

	if (!pd || !options || !shared_tag)
		return WEFT_R_NULL_ARGUMENT;
	if (is_region_reserved(options))
		return WEFT_R_RESERVED;
	owner = pd_owner(pd);
	a = enter_pd(pd);
	r = mem_region_share(&a->core.mem, &owner, tag, options, shared_tag);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_region_change(struct weft_pd *pd, uint32_t tag, struct weft_pd *new_pd,
				    const struct weft_region_options *options)
{
	struct weft_adapter *a;
	struct mem_owner owner;
	enum weft_reason r;

	if (!pd || !new_pd || !options)
		return WEFT_R_NULL_ARGUMENT;
	if (is_region_reserved(options))
		return WEFT_R_RESERVED;
	if (pd->adapter != new_pd->adapter)
		return WEFT_R_BAD_ARGUMENT;
	owner = pd_owner(new_pd);
	a = enter_pd(pd);
	r = mem_region_change(&a->core.mem, pd->number, tag, &owner, options);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_region_prefetch(struct weft_pd *pd, const struct weft_sge *range,
				      uint32_t right)
{
	struct mem_access access;
	struct mem_grant grant;
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !range)
		return WEFT_R_NULL_ARGUMENT;
	if (right && right != WEFT_LOCAL_READ && right != WEFT_LOCAL_WRITE)
		return WEFT_R_BAD_ARGUMENT;
	access = (struct mem_access){
		.addr = range->addr,
		.length = range->length,
		.tag = range->tag,
		.pd = pd->number,
		.kind = right == WEFT_LOCAL_WRITE ? MEM_LOCAL_WRITE : MEM_LOCAL_READ,
		.can_wait = true,
	};
	a = enter_pd(pd);
	if (right == 0)
		r = mem_access_look(&a->core.mem, &access);
	else
		r = mem_access_check(&a->core.mem, &access, &grant);
	if (r == WEFT_R_SPACE_UNMAPPED && mem_grant_is_paging(&grant))
		r = WEFT_OK; /* the pager has begun */
	adapter_leave(a);
	return r;
}

/* Common part of calls that allocate a tag in a protection domain. */
static enum weft_reason make_tag(struct weft_pd *pd, uint32_t *tag,
				 enum weft_reason (*make)(struct mem_table *, uint32_t, uint32_t *))
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !tag)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_pd(pd);
	r = make(&a->core.mem, pd->number, tag);
	adapter_leave(a);
	return r;
}

/* Common part of calls that free a tag. */
static enum weft_reason end_tag(struct weft_pd *pd, uint32_t tag,
				enum weft_reason (*end)(struct mem_table *, uint32_t, uint32_t))
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd)
		return WEFT_R_NULL_ARGUMENT;
	a = enter_pd(pd);
	r = end(&a->core.mem, pd->number, tag);
	leave_changed(a);
	return r;
}

enum weft_reason weft_region_deregister(struct weft_pd *pd, uint32_t tag)
{
	return end_tag(pd, tag, mem_region_deregister);
}

enum weft_reason weft_region_register_null(struct weft_pd *pd, uint32_t *tag)
{
	return make_tag(pd, tag, mem_region_register_null);
}

enum weft_reason weft_tag_reserve(struct weft_pd *pd, uint32_t *tag)
{
	return make_tag(pd, tag, mem_tag_reserve);
}

enum weft_reason weft_tag_release(struct weft_pd *pd, uint32_t tag)
{
	return end_tag(pd, tag, mem_tag_release);
}

enum weft_reason weft_window_alloc(struct weft_pd *pd, uint32_t *tag)
{
	return make_tag(pd, tag, mem_window_alloc);
}

enum weft_reason weft_window_free(struct weft_pd *pd, uint32_t tag)
{
	return end_tag(pd, tag, mem_window_free);
}

enum weft_reason weft_window_discard(struct weft_pd *pd, uint32_t tag)
{
	return end_tag(pd, tag, mem_window_discard);
}

enum weft_reason weft_window_unbind(struct weft_pd *pd, uint32_t tag)
{
	return end_tag(pd, tag, mem_window_unbind);
}

/* qp_number 0: all queue pairs of the domain. Called with the lock held. */
static enum weft_reason bind_now(struct weft_pd *pd, uint32_t qp_number, struct weft_bind *bind)
{
	struct mem_table *mem = &adapter_of(pd->adapter)->core.mem;
	struct weft_bind wanted = *bind;
	enum weft_reason r;

	wanted.tag = 0;
	r = mem_window_promise(mem, pd->number, &wanted);
	if (r == WEFT_OK)
		r = mem_window_bind(mem, pd->number, qp_number, &wanted);
	if (r == WEFT_OK)
		bind->tag = wanted.tag;
	return r;
}

enum weft_reason weft_window_bind(struct weft_pd *pd, struct weft_bind *bind)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!pd || !bind)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(bind))
		return WEFT_R_RESERVED;
	if (bind->is_qp_bound)
		return WEFT_R_BAD_ARGUMENT;
	a = enter_pd(pd);
	r = bind_now(pd, 0, bind);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_window_bind_to(struct weft_qp *qp, struct weft_bind *bind)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp || !bind)
		return WEFT_R_NULL_ARGUMENT;
	if (!RESERVED_IS_ZERO(bind))
		return WEFT_R_RESERVED;
	a = adapter_enter_qp(qp);
	r = bind_now(qp->pd, qp->number, bind);
	adapter_leave(a);
	return r;
}

enum weft_reason weft_window_give(struct weft_qp *qp, uint32_t tag)
{
	struct weft_adapter *a;
	enum weft_reason r;

	if (!qp)
		return WEFT_R_NULL_ARGUMENT;
	a = adapter_enter_qp(qp);
	r = mem_window_give(&a->core.mem, qp->pd->number, tag, qp->number);
	adapter_leave(a);
	return r;
}
