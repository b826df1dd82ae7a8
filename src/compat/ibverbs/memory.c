/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions and windows. */
#include "compat/ibverbs/memory.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/translate.h"
#include "driver/sys/pages.h"

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

/* Without options: a null region. With another region: the memory of that. */
static struct mr *mr_open(struct ibv_pd *pd, const struct weft_region_options *o,
			  const struct ibv_mr *of)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	enum weft_reason r;

	if (!mr)
		return refused(WEFT_R_NO_MEMORY);
	mr->weft_pd = pd_of(pd)->weft;
	if (of)
		r = weft_region_share(mr->weft_pd, of->lkey, o, &mr->ibv.lkey);
	else if (o)
		r = weft_region_register(mr->weft_pd, o, &mr->ibv.lkey);
	else
		r = weft_region_register_null(mr->weft_pd, &mr->ibv.lkey);
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

static struct ibv_mr *mr_note(struct mr *mr, void *addr, size_t length, uint64_t iova,
			      unsigned int access)
{
	mr->memory = addr;
	mr->length = length;
	mr->iova = iova;
	mr->access = access;
	mr->ibv.rkey = mr->ibv.lkey;
	mr->ibv.addr = addr;
	mr->ibv.length = length;
	return &mr->ibv;
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
	mr = mr_open(pd, &o, NULL);
	return mr ? mr_note(mr, addr, length, iova, access) : NULL;
}

/* What is refused for a region anew is refused for a share. */
struct ibv_mr *mr_share(struct ibv_pd *pd, struct ibv_mr *of, uint64_t iova, unsigned int access,
			bool is_one_touch)
{
	const struct mr *old = CONTAINER_OF(of, struct mr, ibv);
	struct weft_region_options o;
	struct ibv_mr *shared;
	struct mr *mr;

	access |= old->access & IBV_ACCESS_ON_DEMAND;
	errno = old->is_null ? EINVAL : region_options(old->memory, old->length, iova, access, &o);
	if (errno)
		return NULL;
	o.is_one_touch = is_one_touch;
	mr = mr_open(pd, &o, of);
	if (!mr)
		return NULL;
	shared = mr_note(mr, old->memory, old->length, iova, access);
	shared->addr = of->addr;
	shared->length = of->length; /* device memory may hide both */
	mr->device_memory = old->device_memory;
	if (mr->device_memory)
		atomic_fetch_add(mr->device_memory, 1);
	return shared;
}

/* man ibv_alloc_null_mr: it has the maximum length, and no key for peers. */
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct mr *mr = mr_open(pd, NULL, NULL);

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
	bool is_same = !(flags & IBV_REREG_MR_CHANGE_TRANSLATION);

	if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) || mr->is_null ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && !pd) ||
	    ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || length == 0))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (is_same) {
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
	/* What was mapped there since is not the region's, unless its accesses are to find out. */
	if (is_same && !(((unsigned int)access ^ mr->access) & IBV_ACCESS_ON_DEMAND))
		o.length = 0;
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
 * The advice is carried out at once, even if the program asked not to wait. As man ibv_advise_mr
 * has it, everything that an access would be refused for is EFAULT.
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
