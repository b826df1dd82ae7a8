/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "driver/file/file_inside.h"

enum { RING_ENTRIES = 128 };

struct file_ring {
	struct io_uring ring;
	uint32_t in_flight;
	struct list waiting; /* requests beyond the ring's entries */
};

int file_ring_create(struct file_ring **out)
{
	struct file_ring *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	err = io_uring_queue_init(RING_ENTRIES, &g->ring, 0);
	if (err < 0) {
		free(g);
		return err;
	}
	list_init(&g->waiting);
	*out = g;
	return 0;
}

void file_ring_destroy(struct file_ring *g)
{
	io_uring_queue_exit(&g->ring);
	free(g);
}

int file_ring_descriptor(const struct file_ring *g)
{
	return g->ring.ring_fd;
}

static void prepare(struct file_store *f, struct store_request *r, struct io_uring_sqe *sqe)
{
	const struct iovec *iov = (const struct iovec *)(const void *)r->spans;
	int flags = r->flags & STORE_FUA ? RWF_DSYNC : 0;

	if (r->op == STORE_READ)
		io_uring_prep_readv(sqe, f->fd, iov, r->span_count, r->offset);
	else
		io_uring_prep_writev2(sqe, f->fd, iov, r->span_count, r->offset, flags);
	io_uring_sqe_set_data(sqe, r);
	f->ring->in_flight++;
}

void file_ring_put(struct file_store *f, struct store_request *r)
{
	struct io_uring_sqe *sqe = NULL;

	/* The completion queue must have room for every request in flight. */
	if (f->ring->in_flight < RING_ENTRIES && list_is_empty(&f->ring->waiting))
		sqe = io_uring_get_sqe(&f->ring->ring);
	if (sqe)
		prepare(f, r, sqe);
	else
		list_add_tail(&f->ring->waiting, &r->link);
}

/* True: the request has ended. False: a thread repeats it, and finds the error if there is one. */
static bool ended(struct file_store *f, struct store_request *r, int result)
{
	if (result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EINVAL ||
	    result == -EOPNOTSUPP)
		return false;
	if (result >= 0)
		return (uint64_t)result == r->length;
	file_write_failed(f, r, -result);
	file_fail(r, -result);
	return true;
}

static void waiting_go(struct file_store *f)
{
	struct file_ring *g = f->ring;
	struct io_uring_sqe *sqe;

	while (!list_is_empty(&g->waiting) && g->in_flight < RING_ENTRIES) {
		sqe = io_uring_get_sqe(&g->ring);
		if (!sqe)
			return;
		prepare(f, CONTAINER_OF(list_pop(&g->waiting), struct store_request, link), sqe);
	}
}

static bool take_done(struct file_store *f)
{
	struct file_ring *g = f->ring;
	struct io_uring_cqe *cqe;
	bool is_any = false;

	while (io_uring_peek_cqe(&g->ring, &cqe) == 0) {
		struct store_request *r = io_uring_cqe_get_data(cqe);
		int result = cqe->res;

		io_uring_cqe_seen(&g->ring, cqe);
		g->in_flight--;
		is_any = true;
		if (ended(f, r, result))
			list_add_tail(&f->done, &r->link);
		else
			file_pool_put(f, r);
	}
	return is_any;
}

void file_ring_take(struct file_store *f)
{
	struct file_ring *g = f->ring;

	do {
		waiting_go(f);
		/* If the kernel is short of memory, it takes them at the next call. */
		if (io_uring_sq_ready(&g->ring) > 0)
			(void)io_uring_submit(&g->ring);
	} while (take_done(f) && !list_is_empty(&g->waiting));
}
