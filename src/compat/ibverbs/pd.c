/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, parent domains and thread domains. */
#include "compat/ibverbs/pd.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/translate.h"

struct ibv_pd *pd_open(struct ibv_context *context, const struct weft_pd_options *options)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	enum weft_reason r;

	if (!pd)
		return refused(WEFT_R_NO_MEMORY);
	r = weft_pd_create(weftv_adapter(), options, &pd->weft);
	if (r != WEFT_OK) {
		free(pd);
		return refused(r);
	}
	pd->ibv.context = context;
	pd->ibv.handle = offer_handle();
	offer_make(&pd->offer, OFFER_PD, context, pd->ibv.handle);
	return &pd->ibv;
}

struct pd *pd_stand_for(struct ibv_context *context, struct pd *real)
{
	struct pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return refused(WEFT_R_NO_MEMORY);
	list_init(&pd->offer.link);
	pd->parent = real;
	pd->weft = real->weft;
	pd->ibv.context = context;
	pd->ibv.handle = real->ibv.handle;
	pd_get(&real->ibv);
	return pd;
}

/* The last that used an import which is no longer one takes it along. */
void pd_put(struct ibv_pd *ibv)
{
	struct pd *pd = pd_of(ibv);

	/* Bound: an import stands for one that is none. Without users its owner may free it. */
	for (;;) {
		struct pd *real = pd->is_import ? pd->parent : NULL;

		if (atomic_fetch_sub(&pd->users, 1) > 1 || !real)
			return;
		free(pd);
		pd = real;
	}
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return pd_open(context, NULL);
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct pd *pd = pd_of(ibv);
	enum weft_reason r = WEFT_OK;

	if (!offer_end(&pd->offer, &pd->users, pd->is_import ? 1 : 0))
		return EBUSY;
	if (pd->is_import) {
		ibv_unimport_pd(ibv);
		return 0;
	}
	if (pd->parent)
		pd_put(&pd->parent->ibv);
	else
		r = weft_pd_destroy(pd->weft);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	if (r == WEFT_OK)
		free(pd);
	else
		offer_make(&pd->offer, OFFER_PD, ibv->context, ibv->handle);
	return weftv_errno(r);
}

struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr)
{
	bool has_allocators = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	struct pd *pd;

	if (!attr->pd || attr->pd->context != context || (attr->td && attr->td->context != context))
		return refused(WEFT_R_BAD_ARGUMENT);
	if ((attr->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |
					   IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS)) ||
	    (has_allocators && (!attr->alloc || !attr->free)))
		return refused(WEFT_R_BAD_ARGUMENT);
	pd = pd_stand_for(context, pd_real(attr->pd));
	if (!pd)
		return NULL;
	if (has_allocators) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	if (attr->td) {
		pd->td = CONTAINER_OF(attr->td, struct td, ibv);
		atomic_fetch_add(&pd->td->users, 1);
	}
	return &pd->ibv;
}

/* man ibv_alloc_parent_domain: the program's memory is zeros; not all of them know. */
bool pd_memory_take(struct ibv_pd *ibv, size_t size, enum pd_resource what, struct pd_memory *m)
{
	struct pd *pd = ibv ? pd_of(ibv) : NULL;

	*m = (struct pd_memory){ 0 };
	if (pd && pd->alloc) {
		m->bytes = pd->alloc(ibv, pd->pd_context, size, _Alignof(max_align_t), what);
		m->is_programs = m->bytes && m->bytes != IBV_ALLOCATOR_USE_DEFAULT;
	}
	if (m->is_programs)
		memset(m->bytes, 0, size);
	else if (!pd || !pd->alloc || m->bytes) /* else it has none to give */
		m->bytes = calloc(1, size);
	return m->bytes;
}

void pd_memory_give(struct ibv_pd *ibv, enum pd_resource what, const struct pd_memory *m)
{
	if (m->is_programs)
		pd_of(ibv)->free(ibv, pd_of(ibv)->pd_context, m->bytes, what);
	else
		free(m->bytes);
}

/* Threads lock nothing that a thread domain could spare them: it is only held. */
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return refused(WEFT_R_NO_MEMORY);
	td->ibv.context = context;
	return &td->ibv;
}

int dealloc_td(struct ibv_td *ibv)
{
	struct td *td = CONTAINER_OF(ibv, struct td, ibv);

	if (atomic_load(&td->users) > 0)
		return EBUSY;
	free(td);
	return 0;
}
