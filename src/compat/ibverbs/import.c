/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contexts and objects used by another context of the same process, for example by a library that
 * was given a descriptor and handles. The objects live in this process, so another process cannot
 * import them.
 *
 * An import of a domain or of device memory stands for the owner's, which stays until the import is
 * released. An imported region has the keys of the original: deregistering either ends both.
 */
#include "compat/ibverbs/import.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/dm.h"
#include "compat/ibverbs/memory.h"
#include "compat/ibverbs/pd.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/translate.h"

/* The lock is the last that is taken: nothing that takes another is called with it. */
static struct {
	pthread_mutex_t lock;
	struct list offers;
	uint32_t handles;
} all = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.offers = { &all.offers, &all.offers },
};

/* ---- Offers --------------------------------------------------------------------------------- */

void offers_lock(void)
{
	pthread_mutex_lock(&all.lock);
}

void offers_unlock(void)
{
	pthread_mutex_unlock(&all.lock);
}

void offers_forked(void)
{
	while (!list_is_empty(&all.offers))
		(void)list_pop(&all.offers);
}

void offer_make(struct offer *o, enum offer_kind kind, struct ibv_context *context, uint32_t handle)
{
	*o = (struct offer){ .kind = kind,
			     .context = context_of(context)->number,
			     .handle = handle };
	offers_lock();
	list_push(&all.offers, &o->link);
	offers_unlock();
}

void offer_withdraw(struct offer *o)
{
	offers_lock();
	list_remove(&o->link);
	offers_unlock();
}

bool offer_end(struct offer *o, const atomic_uint *users, unsigned int most)
{
	bool is_unused;

	offers_lock();
	is_unused = atomic_load(users) <= most;
	if (is_unused)
		list_remove(&o->link);
	offers_unlock();
	return is_unused;
}

uint32_t offer_handle(void)
{
	uint32_t handle;

	offers_lock();
	handle = ++all.handles;
	offers_unlock();
	return handle;
}

/* Locked. NULL and errno: a context has none of that handle. */
static struct offer *find(enum offer_kind kind, struct ibv_context *context, uint32_t handle)
{
	uint64_t number = context_of(context)->number;

	for (struct list *at = all.offers.next; at != &all.offers; at = at->next) {
		struct offer *o = CONTAINER_OF(at, struct offer, link);

		if (o->kind == kind && o->context == number && o->handle == handle)
			return o;
	}
	errno = ENOENT;
	return NULL;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* The device of a context that the descriptor is a copy of, and its number; or NULL. */
static struct device *device_behind(int cmd_fd, uint64_t *number)
{
	struct device *device = NULL;

	offers_lock();
	for (struct list *at = all.offers.next; !device && at != &all.offers; at = at->next) {
		struct offer *o = CONTAINER_OF(at, struct offer, link);
		struct context *c;

		if (o->kind != OFFER_CONTEXT)
			continue;
		c = CONTAINER_OF(o, struct context, offer);
		*number = c->number;
		if (is_same_file(c->verbs.context.cmd_fd, cmd_fd))
			device = device_of(c->verbs.context.device);
	}
	offers_unlock();
	return device;
}

/* The descriptor is the new context's, and closed with it. */
struct ibv_context *ibv_import_device(int cmd_fd)
{
	uint64_t number;
	struct device *device = device_behind(cmd_fd, &number);
	struct context *c;

	if (!device) {
		say("ibv_import_device: descriptor %d is of no context of this process, and another "
		    "cannot have its objects",
		    cmd_fd);
		errno = EOPNOTSUPP;
		return NULL;
	}
	c = context_open(device, WEFT_POLICY_OPEN);
	if (!c)
		return NULL;
	offers_lock();
	if (c->verbs.context.cmd_fd >= 0)
		close(c->verbs.context.cmd_fd);
	c->verbs.context.cmd_fd = cmd_fd;
	c->number = number;
	offers_unlock();
	return &c->verbs.context;
}

/* ---- Objects -------------------------------------------------------------------------------- */

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct offer *o;
	struct pd *pd = NULL;

	offers_lock();
	o = find(OFFER_PD, context, handle);
	if (o)
		pd = pd_stand_for(context, CONTAINER_OF(o, struct pd, offer));
	if (pd) {
		pd->is_import = true;
		pd_get(&pd->ibv);
	}
	offers_unlock();
	return pd ? &pd->ibv : NULL;
}

/* What was made with it need not have gone before. */
void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (pd_of(pd)->is_import)
		pd_put(pd);
	else
		(void)ibv_dealloc_pd(pd);
}

/* man ibv_import_mr: it has no address. */
struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct mr *mr = calloc(1, sizeof(*mr));
	struct offer *o;

	if (!mr)
		return refused(WEFT_R_NO_MEMORY);
	offers_lock();
	o = find(OFFER_MR, pd->context, handle);
	if (o && CONTAINER_OF(o, struct mr, offer)->weft_pd != pd_of(pd)->weft) {
		errno = EINVAL;
		o = NULL;
	}
	if (!o) {
		offers_unlock();
		free(mr);
		return NULL;
	}
	*mr = *CONTAINER_OF(o, struct mr, offer);
	list_init(&mr->offer.link);
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	mr->ibv.addr = NULL;
	if (mr->device_memory)
		atomic_fetch_add(mr->device_memory, 1);
	pd_get(pd);
	offers_unlock();
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *ibv)
{
	struct mr *mr = CONTAINER_OF(ibv, struct mr, ibv);

	offer_withdraw(&mr->offer);
	if (mr->device_memory)
		atomic_fetch_sub(mr->device_memory, 1);
	pd_put(ibv->pd);
	free(mr);
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct dm *dm = calloc(1, sizeof(*dm)), *owner;
	struct offer *o;

	if (!dm)
		return refused(WEFT_R_NO_MEMORY);
	offers_lock();
	o = find(OFFER_DM, context, handle);
	if (!o) {
		offers_unlock();
		free(dm);
		return NULL;
	}
	owner = CONTAINER_OF(o, struct dm, offer);
	dm->ibv = owner->ibv;
	dm->ibv.context = context;
	list_init(&dm->offer.link);
	dm->owner = owner;
	dm->memory = owner->memory;
	dm->length = owner->length;
	atomic_fetch_add(&owner->users, 1);
	offers_unlock();
	return &dm->ibv;
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	(void)free_dm(dm);
}
