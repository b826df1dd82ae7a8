/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: the device is this process, so it is ordinary memory with an address from 0 on. */
#include "compat/ibverbs/dm.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/translate.h"

enum { ALIGN_LOG_MAX = 20, WORD = 4 };

static bool is_inside(const struct dm *dm, uint64_t offset, size_t length)
{
	return offset <= dm->length && length <= dm->length - offset;
}

/* Device memory is reached by words. 0 or errno. */
static int check(const struct dm *dm, uint64_t offset, size_t length)
{
	if (offset % WORD || length % WORD)
		return EINVAL;
	return is_inside(dm, offset, length) ? 0 : EFAULT;
}

static int to_dm(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
	struct dm *dm = CONTAINER_OF(ibv, struct dm, ibv);
	int error = check(dm, offset, length);

	if (!error)
		memcpy(dm->memory + offset, from, length);
	return error;
}

static int from_dm(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
	const struct dm *dm = CONTAINER_OF(ibv, struct dm, ibv);
	int error = check(dm, offset, length);

	if (!error)
		memcpy(to, dm->memory + offset, length);
	return error;
}

struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct dm *dm;
	size_t align;

	if (attr->length == 0 || attr->length > DM_BYTES_MAX ||
	    attr->log_align_req > ALIGN_LOG_MAX || attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	align = (size_t)1 << attr->log_align_req;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return refused(WEFT_R_NO_MEMORY);
	if (posix_memalign((void **)&dm->memory, align < 64 ? 64 : align, attr->length + 1) != 0) {
		free(dm);
		return refused(WEFT_R_NO_MEMORY);
	}
	memset(dm->memory, 0, attr->length);
	dm->length = attr->length;
	dm->ibv.context = context;
	dm->ibv.handle = offer_handle();
	dm->ibv.memcpy_to_dm = to_dm;
	dm->ibv.memcpy_from_dm = from_dm;
	offer_make(&dm->offer, OFFER_DM, context, dm->ibv.handle);
	return &dm->ibv;
}

int free_dm(struct ibv_dm *ibv)
{
	struct dm *dm = CONTAINER_OF(ibv, struct dm, ibv);

	if (!offer_end(&dm->offer, &dm->users, 0))
		return EBUSY;
	if (dm->owner)
		atomic_fetch_sub(&dm->owner->users, 1);
	else
		free(dm->memory);
	free(dm);
	return 0;
}

struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length,
			 unsigned int access)
{
	struct dm *dm = CONTAINER_OF(ibv, struct dm, ibv);
	struct dm *owner = dm->owner ? dm->owner : dm;
	struct ibv_mr *mr;

	/* man ibv_alloc_dm: such regions are zero based. */
	if (!(access & IBV_ACCESS_ZERO_BASED) || !is_inside(dm, offset, length)) {
		errno = EINVAL;
		return NULL;
	}
	/* An empty region is allowed here: one byte is registered, none reported. */
	mr = ibv_reg_mr_iova2(pd, dm->memory + offset, length ? length : 1, 0, access);
	if (mr) {
		mr->length = length;
		CONTAINER_OF(mr, struct mr, ibv)->device_memory = &owner->users;
		atomic_fetch_add(&owner->users, 1);
		mr->addr = NULL;
	}
	return mr;
}
