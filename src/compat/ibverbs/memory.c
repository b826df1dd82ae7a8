/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains, memory regions and windows. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "compat/ibverbs/object.h"
#include "driver/sys/pages.h"

/* ---- Protection domains --------------------------------------------------------------------- */

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

/* ---- Regions -------------------------------------------------------------------------------- */

enum {
	/* Hints, which change nothing here. */
	ACCESS_HINTS = IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE,
	ACCESS_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	ACCESS_KNOWN = IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE | IBV_ACCESS_MW_BIND |
		       IBV_ACCESS_ZERO_BASED
};

int rights_of(unsigned int access, uint32_t *rights)
{
	static const struct {
		unsigned int flag;
		uint32_t right;
	} table[] = {
		{ IBV_ACCESS_LOCAL_WRITE, WEFT_LOCAL_WRITE },
		{ IBV_ACCESS_REMOTE_WRITE, WEFT_REMOTE_WRITE },
		{ IBV_ACCESS_REMOTE_READ, WEFT_REMOTE_READ },
		{ IBV_ACCESS_REMOTE_ATOMIC, WEFT_REMOTE_ATOMIC },
		{ IBV_ACCESS_MW_BIND, WEFT_BIND },
	};

	*rights = 0;
	if (access & ~(unsigned int)(ACCESS_KNOWN | ACCESS_HINTS)) {
		say("access to memory is refused: of %#x the flags %#x are of no device of weft's",
		    access, access & ~(unsigned int)(ACCESS_KNOWN | ACCESS_HINTS));
		return EOPNOTSUPP;
	}
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		if (access & table[i].flag)
			*rights |= table[i].right;
	}
	return 0;
}

/*
 * Linux refuses no flag of a queue pair's, and drivers look at those that they have: a program that
 * allows its peer what no device of the kind can do (FLUSH) has its queue pair all the same.
 */
uint32_t qp_rights_of(unsigned int access)
{
	uint32_t rights;

	(void)rights_of(access & ACCESS_REMOTE, &rights);
	return rights;
}

/* man ibv_reg_mr: so the whole address space is asked for, on demand only. */
static bool is_all(const void *addr, size_t length)
{
	return !addr && length == SIZE_MAX;
}

int region_options(void *addr, size_t length, uint64_t iova, unsigned int access,
		   struct weft_region_options *o)
{
	uint32_t rights;
	int error = rights_of(access & ~(unsigned int)IBV_ACCESS_ON_DEMAND, &rights);

	if (error)
		return error;
	/* man ibv_reg_mr: who lets others write must be able to write. */
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	if (length == 0 || (is_all(addr, length) && !(access & IBV_ACCESS_ON_DEMAND)))
		return EINVAL;
	/* A peer would have our tables too, and meet memory that is given back meanwhile. */
	if (is_all(addr, length) && (access & ACCESS_REMOTE))
		return EOPNOTSUPP;
	/* What will be there on demand, its accesses find out. */
	if (!(access & IBV_ACCESS_ON_DEMAND) && /* most mistakes show at one of the ends */
	    !pages_at_ends_are_there((uintptr_t)addr, length, access & IBV_ACCESS_LOCAL_WRITE))
		return EFAULT;
	*o = (struct weft_region_options){
		.addr = (uintptr_t)addr,
		.length = length,
		.va = iova,
		.rights = rights | WEFT_LOCAL_READ,
		.is_zero_based = (access & IBV_ACCESS_ZERO_BASED) || iova == 0,
		.is_on_demand = access & IBV_ACCESS_ON_DEMAND,
	};
	return 0;
}

/* Without options: a null region. */
static struct mr *mr_open(struct ibv_pd *pd, const struct weft_region_options *o)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	enum weft_reason r;

	if (!mr)
		return refused(WEFT_R_NO_MEMORY);
	mr->weft_pd = pd_of(pd)->weft;
	r = o ? weft_region_register(mr->weft_pd, o, &mr->ibv.lkey)
	      : weft_region_register_null(mr->weft_pd, &mr->ibv.lkey);
	if (r != WEFT_OK) {
		free(mr);
		return refused(r);
	}
	mr->ibv.handle = weft_tag_index(mr->ibv.lkey);
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	pd_get(pd);
	offer_make(&mr->offer, OFFER_MR, pd->context, mr->ibv.handle);
	return mr;
}

static struct ibv_mr *mr_create(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	struct weft_region_options o;
	int error = region_options(addr, length, iova, access, &o);
	struct mr *mr;

	if (error) {
		errno = error;
		return NULL;
	}
	mr = mr_open(pd, &o);
	if (!mr)
		return NULL;
	mr->memory = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;
	mr->ibv.rkey = mr->ibv.lkey;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	return &mr->ibv;
}

/* man ibv_alloc_null_mr: it has the maximum length, and no key for peers. */
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr = mr_open(pd, NULL);

	if (!mr)
		return NULL;
	mr->is_null = true;
	mr->ibv.length = SIZE_MAX;
	return &mr->ibv;
}

/* The header has macros of these names. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return mr_create(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			       int access)
{
	return mr_create(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				unsigned int access)
{
	return mr_create(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP; /* device memory of others is not mapped here */
	return NULL;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct mr *mr = CONTAINER_OF(ibv, struct mr, ibv);
	enum weft_reason r = weft_region_deregister(mr->weft_pd, ibv->lkey);

	if (r != WEFT_OK)
		return weftv_errno(r);
	ibv_unimport_mr(ibv); /* what is left of it is only the struct */
	return 0;
}

/* The keys stay: peers go on using them. */
int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		 int access)
{
	struct mr *mr = CONTAINER_OF(ibv, struct mr, ibv);
	struct weft_pd *weft_pd = mr->weft_pd;
	struct weft_region_options o;
	uint64_t iova = (uintptr_t)addr;

	if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || mr->is_null ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !pd) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || length == 0))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_TRANSLATION)) {
		addr = mr->memory;
		length = mr->length;
		iova = mr->iova;
	}
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = (int)mr->access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		weft_pd = pd_of(pd)->weft;
	errno = region_options(addr, length, iova, (unsigned int)access, &o);
	if (errno)
		return IBV_REREG_MR_ERR_INPUT;
	errno = weftv_errno(weft_region_change(mr->weft_pd, ibv->lkey, weft_pd, &o));
	if (errno) /* windows are bound to it, perhaps: it stays as it was */
		return IBV_REREG_MR_ERR_CMD;
	mr->weft_pd = weft_pd;
	mr->memory = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = (unsigned int)access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		ibv->addr = addr;
		ibv->length = length;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		pd_get(pd);
		pd_put(ibv->pd);
		ibv->pd = pd;
	}
	return 0;
}

/*
 * Who asks not to wait finds it done all the same. Everything that an access would be refused for
 * is EFAULT, as man ibv_advise_mr has it.
 */
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      struct ibv_sge *list, uint32_t count)
{
	static const uint32_t rights[] = {
		[IBV_ADVISE_MR_ADVICE_PREFETCH] = WEFT_LOCAL_READ,
		[IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE] = WEFT_LOCAL_WRITE,
		[IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT] = 0,
	};

	if ((unsigned int)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) || count == 0)
		return EINVAL;
	for (uint32_t i = 0; i < count; i++) {
		struct weft_sge range = { list[i].addr, list[i].length, list[i].lkey };

		if (weft_region_prefetch(pd_of(pd)->weft, &range, rights[advice]) != WEFT_OK)
			return EFAULT;
	}
	return 0;
}

/* ---- Windows -------------------------------------------------------------------------------- */

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mw *mw;
	enum weft_reason r;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
		errno = EINVAL;
		return NULL;
	}
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return refused(WEFT_R_NO_MEMORY);
	mw->weft_pd = pd_of(pd)->weft;
	r = weft_window_alloc(mw->weft_pd, &mw->tag);
	if (r != WEFT_OK) {
		free(mw);
		return refused(r);
	}
	mw->ibv.context = pd->context;
	mw->ibv.pd = pd;
	mw->ibv.type = type;
	mw->ibv.rkey = mw->tag;
	mw->ibv.handle = weft_tag_index(mw->tag);
	pd_get(pd);
	return &mw->ibv;
}

/* man ibv_alloc_mw: one that is bound may go. A program need not note the key of its last bind. */
int dealloc_mw(struct ibv_mw *ibv)
{
	struct mw *mw = CONTAINER_OF(ibv, struct mw, ibv);
	enum weft_reason r = weft_window_discard(mw->weft_pd, mw->tag);

	if (r != WEFT_OK)
		return weftv_errno(r);
	pd_put(ibv->pd);
	free(mw);
	return 0;
}
