/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBA annex A14). One that is opened with a file is the same for all of this process
 * who open it with that file. Another process has one of its own: the queues of an adapter are its
 * process's.
 */
#include "compat/ibverbs/xrc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/list.h"
#include "compat/ibverbs/context.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/say.h"
#include "compat/ibverbs/translate.h"

/* The list of devices' lock guards it. */
static struct {
	struct list open; /* struct xrcd */
	uint32_t last;	  /* number */
} all;

/* Locked. One that was opened with the same file, or NULL. */
static const struct xrcd *find(const struct stat *file)
{
	for (struct list *at = all.open.next; at != &all.open; at = at->next) {
		const struct xrcd *x = CONTAINER_OF(at, struct xrcd, link);

		if (x->has_file && x->device == file->st_dev && x->inode == file->st_ino)
			return x;
	}
	return NULL;
}

/* man ibv_open_xrcd: as open() does it with files. Locked. 0 or errno. */
static int enlist(struct xrcd *x, const struct ibv_xrcd_init_attr *attr)
{
	const struct xrcd *other = NULL;
	struct stat file;

	if (!all.open.next)
		list_init(&all.open);
	x->has_file = attr->fd >= 0;
	if (x->has_file) {
		if (fstat(attr->fd, &file) < 0)
			return errno;
		x->device = file.st_dev;
		x->inode = file.st_ino;
		other = find(&file);
	}
	if (x->has_file && !other && !(attr->oflags & O_CREAT)) {
		say("this process has opened no XRC domain with that file: one of another process "
		    "cannot be shared here, see the limits in docs/programs.md");
		return EAGAIN;
	}
	if (other && (attr->oflags & O_CREAT) && (attr->oflags & O_EXCL))
		return EINVAL;
	if (!other && ++all.last == 0)
		all.last = 1;
	x->number = other ? other->number : all.last;
	list_add_tail(&all.open, &x->link);
	return 0;
}

static void xrcd_free(struct xrcd *x)
{
	if (x->weft_cq)
		(void)weft_cq_destroy(x->weft_cq);
	if (x->weft_pd)
		(void)weft_pd_destroy(x->weft_pd);
	free(x);
}

/* Queue pairs that only receive have no domain and no completion queue: those of this are empty. */
static struct xrcd *xrcd_make(struct ibv_context *context)
{
	const struct weft_cq_options one = { .entries_max = 1 };
	struct xrcd *x = calloc(1, sizeof(*x));
	enum weft_reason r;

	if (!x)
		return refused(WEFT_R_NO_MEMORY);
	x->ibv.context = context;
	r = weft_pd_create(weftv_adapter(), NULL, &x->weft_pd);
	if (r == WEFT_OK)
		r = weft_cq_create(weftv_adapter(), &one, &x->weft_cq);
	if (r == WEFT_OK)
		return x;
	xrcd_free(x);
	return refused(r);
}

struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t both = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct xrcd *x;
	int error;

	if (attr->comp_mask != both)
		return refused(WEFT_R_BAD_ARGUMENT);
	x = xrcd_make(context);
	if (!x)
		return NULL;
	device_list_lock();
	error = enlist(x, attr);
	device_list_put();
	if (error) {
		xrcd_free(x);
		errno = error;
		return NULL;
	}
	context_get(context);
	return &x->ibv;
}

int close_xrcd(struct ibv_xrcd *ibv)
{
	struct xrcd *x = CONTAINER_OF(ibv, struct xrcd, ibv);

	if (atomic_load(&x->users) > 0)
		return EBUSY;
	device_list_lock();
	list_remove(&x->link);
	device_list_put();
	context_put(ibv->context);
	xrcd_free(x);
	return 0;
}
