/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/file/file_store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "driver/file/file_inside.h"

enum { DIRECT_ALIGN_SAFE = 4096, CLAIM_PAUSE_NS = 10000000 };

static struct file_store *file_of(struct store *s)
{
	return CONTAINER_OF(s, struct file_store, store);
}

/* ---- Calls ---------------------------------------------------------------------------------- */

/*
 * Requests that wait for the page cache to be written go to threads even if there is a ring: the
 * kernel would pass them to its own workers, one at a time for each file. Threads are two to five
 * times as fast (docs/store.md).
 */
static bool is_for_ring(const struct file_store *f, const struct store_request *r)
{
	if (!f->ring || (r->op != STORE_READ && r->op != STORE_WRITE))
		return false;
	if (f->is_direct)
		return file_is_aligned(f, r);
	return !(r->flags & STORE_FUA);
}

static void file_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct file_store *f = file_of(s);

	(void)now_ns;
	if (is_for_ring(f, r))
		file_ring_put(f, r);
	else
		file_pool_put(f, r);
}

static struct store_request *file_next_done(struct store *s, uint64_t now_ns)
{
	struct file_store *f = file_of(s);

	(void)now_ns;
	if (f->ring)
		file_ring_take(f);
	file_pool_take(&f->pool, &f->done);
	if (list_is_empty(&f->done))
		return NULL;
	return CONTAINER_OF(list_pop(&f->done), struct store_request, link);
}

static void file_destroy(struct store *s)
{
	struct file_store *f = file_of(s);

	file_pool_fini(&f->pool);
	if (f->ring)
		file_ring_destroy(f->ring);
	close(f->epoll_fd);
	file_sync_close(f);
	close(f->fd);
	free(f);
}

static const struct store_calls file_calls = {
	.submit = file_submit,
	.next_done = file_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = file_destroy,
};

const struct file_store *file_store_of(const struct store *s)
{
	CHECK(s->calls == &file_calls);
	return CONTAINER_OF(s, struct file_store, store);
}

struct file_store_facts file_store_facts(const struct store *s)
{
	const struct file_store *f = file_store_of(s);

	return (struct file_store_facts){ .is_block_device = f->is_block,
					  .is_direct = f->is_direct,
					  .is_uring = f->ring != NULL };
}

int file_store_descriptor(const struct store *s)
{
	return file_store_of(s)->epoll_fd;
}

/* ---- Opening: 0 or a negative errno --------------------------------------------------------- */

enum weft_reason file_open_reason(int error)
{
	switch (error) {
	case EBUSY:
	case EWOULDBLOCK:
	case ETXTBSY:
		return WEFT_R_STORE_IN_USE;
	case EMFILE:
	case ENFILE:
		return WEFT_R_DESCRIPTORS;
	case ENOMEM:
		return WEFT_R_NO_MEMORY;
	case EROFS:
		return WEFT_R_STORE_READONLY;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return WEFT_R_STORE_FULL;
	case EIO:
		return WEFT_R_STORE_IO;
	default:
		return WEFT_R_STORE_OPEN;
	}
}

/* stat() first: open() of a FIFO would block until another process opens its other end. */
static int open_claimed(const struct file_store_config *c, struct stat *st)
{
	int flags = (c->is_readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
	int fd, err;

	if (stat(c->path, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
		return -ENOTBLK;
	/* O_EXCL on a block device fails while it is mounted, or claimed by another user. */
	fd = open(c->path, flags | (S_ISBLK(st->st_mode) ? O_EXCL : 0));
	if (fd < 0)
		return -errno;
	if (flock(fd, (c->is_readonly ? LOCK_SH : LOCK_EX) | LOCK_NB) < 0 || fstat(fd, st) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/*
 * Requests of a killed process may go on after its end, and hold the lock on the file until they
 * are done. If the file were opened before, an old write could overwrite a new one.
 */
static int open_there(const struct file_store_config *c, struct stat *st)
{
	const struct timespec pause = { .tv_nsec = CLAIM_PAUSE_NS };
	uint64_t tries = c->wait_ns / CLAIM_PAUSE_NS;
	int fd = open_claimed(c, st);

	for (uint64_t i = 0; i < tries && (fd == -EWOULDBLOCK || fd == -EBUSY); i++) {
		(void)nanosleep(&pause, NULL);
		fd = open_claimed(c, st);
	}
	return fd;
}

/* If a crash removed the file's name, the flushed writes would be lost with it. */
static int sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd, err = 0;

	if (strlen(path) >= sizeof(copy))
		return -ENAMETOOLONG;
	memcpy(copy, path, strlen(path) + 1);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Some file systems do not support this, and need not. */
	if (fsync(fd) < 0 && errno != EINVAL)
		err = -errno;
	close(fd);
	return err;
}

/* A write past the limit raises a signal instead of an error: refuse it before. */
static int limit_check(uint64_t size_bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    size_bytes > limit.rlim_cur)
		return -EFBIG;
	return 0;
}

static int make_size(int fd, const struct file_store_config *c)
{
	int err = limit_check(c->size_bytes);

	if (err < 0)
		return err;
	if (c->size_bytes > INT64_MAX)
		return -EFBIG;
	if (ftruncate(fd, (off_t)c->size_bytes) < 0 || fsync(fd) < 0)
		return -errno;
	return sync_folder(c->path);
}

static int file_open(const struct file_store_config *c, struct stat *st)
{
	bool is_new = false;
	int fd = open_there(c, st), err;

	if (fd == -ENOENT && c->size_bytes > 0 && !c->is_readonly) {
		fd = open(c->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		close(fd);
		is_new = true;
		fd = open_there(c, st);
	}
	if (fd < 0)
		return fd;
	if (!S_ISREG(st->st_mode) || st->st_size > 0 || c->size_bytes == 0 || c->is_readonly)
		return fd;
	err = make_size(fd, c);
	if (err == 0 && fstat(fd, st) < 0)
		err = -errno;
	if (err == 0)
		return fd;
	if (is_new)
		(void)unlink(c->path);
	close(fd);
	return err;
}

/* ---- What it is ----------------------------------------------------------------------------- */

static enum weft_reason shape_find(struct file_store *f, const struct file_store_config *c,
				   const struct stat *st, int *error)
{
	struct store_shape *shape = &f->store.shape;
	int sector = 512;

	*shape = (struct store_shape){ .can = STORE_CAN_ALL,
				       .is_readonly = c->is_readonly,
				       .outlives_process = true };
	f->is_block = S_ISBLK(st->st_mode);
	shape->size_bytes = (uint64_t)st->st_size;
	if (f->is_block && (ioctl(f->fd, BLKGETSIZE64, &shape->size_bytes) < 0 ||
			    ioctl(f->fd, BLKSSZGET, &sector) < 0)) {
		*error = errno;
		return WEFT_R_STORE_OPEN;
	}
	shape->block_bytes = c->block_bytes ? c->block_bytes : (uint32_t)sector;
	if (shape->block_bytes < (uint32_t)sector)
		return WEFT_R_STORE_BLOCK;
	if (c->size_bytes > 0 && c->size_bytes != shape->size_bytes)
		return WEFT_R_STORE_SIZE;
	if (!f->is_block && !c->is_readonly && limit_check(shape->size_bytes) < 0) {
		*error = EFBIG;
		return WEFT_R_STORE_FULL;
	}
	return store_shape_check(shape);
}

static void direct_try(struct file_store *f)
{
	uint32_t memory_align = DIRECT_ALIGN_SAFE, offset_align = DIRECT_ALIGN_SAFE;
	int flags = fcntl(f->fd, F_GETFL), sector;

#ifdef STATX_DIOALIGN
	struct statx sx;

	if (statx(f->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
	    (sx.stx_mask & STATX_DIOALIGN)) {
		memory_align = sx.stx_dio_mem_align;
		offset_align = sx.stx_dio_offset_align;
	}
#endif
	if (f->is_block && ioctl(f->fd, BLKSSZGET, &sector) == 0)
		offset_align = (uint32_t)sector;
	/* 0: the kernel does not support direct I/O here. */
	if (memory_align == 0 || offset_align == 0 ||
	    f->store.shape.block_bytes % offset_align != 0)
		return;
	if (flags < 0 || fcntl(f->fd, F_SETFL, flags | O_DIRECT) < 0)
		return;
	f->memory_align = memory_align;
	f->is_direct = true;
}

/* ---- Putting it together -------------------------------------------------------------------- */

static int poll_add(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* The ring is optional unless it was asked for by name. */
static int engine_start(struct file_store *f, const struct file_store_config *c)
{
	int err;

	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (f->epoll_fd < 0)
		return -errno;
	err = poll_add(f->epoll_fd, f->pool.event_fd);
	if (err == 0 && c->engine != STORE_ENGINE_THREADS) {
		err = file_ring_create(&f->ring);
		if (err == 0)
			err = poll_add(f->epoll_fd, file_ring_descriptor(f->ring));
		else if (c->engine == STORE_ENGINE_AUTO)
			err = 0;
	}
	if (err < 0) {
		if (f->ring)
			file_ring_destroy(f->ring);
		close(f->epoll_fd);
	}
	return err;
}

static enum weft_reason start(struct file_store *f, const struct file_store_config *c, int *error)
{
	int err = file_sync_open(f, c);

	if (err < 0) {
		*error = -err;
		return file_open_reason(-err);
	}
	err = file_pool_init(&f->pool);
	if (err == 0) {
		err = engine_start(f, c);
		if (err < 0)
			file_pool_fini(&f->pool);
	}
	if (err == 0)
		return WEFT_OK;
	file_sync_close(f);
	*error = -err;
	return c->engine == STORE_ENGINE_URING ? WEFT_R_STORE_UNSUPPORTED : file_open_reason(-err);
}

enum weft_reason file_store_open(const struct file_store_config *c, struct store **out, int *error)
{
	struct file_store *f = calloc(1, sizeof(*f));
	enum weft_reason reason;
	struct stat st;

	*error = 0;
	if (!f)
		return WEFT_R_NO_MEMORY;
	f->store.calls = &file_calls;
	list_init(&f->done);
	f->fd = file_open(c, &st);
	if (f->fd < 0) {
		*error = -f->fd;
		free(f);
		return file_open_reason(*error);
	}
	reason = shape_find(f, c, &st, error);
	if (reason == WEFT_OK) {
		if (c->is_direct)
			direct_try(f);
		reason = start(f, c, error);
	}
	if (reason == WEFT_OK) {
		*out = &f->store;
		return WEFT_OK;
	}
	close(f->fd);
	free(f);
	return reason;
}
