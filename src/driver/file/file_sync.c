/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Brings what was written to the disk, for any number of threads, and never says that it is there
 * when it may not be.
 *
 * The kernel reports that pages could not be written once for each open file description, to the
 * call that asks next, and then takes them for written. So
 *  - syncs have a description of their own: a FUA write, which is told on that of the data, cannot
 *    take away what a flush must be told, however late its own end is looked at;
 *  - one sync is under way at a time, and what it was told is written down before the next begins:
 *    two at once would share one report, and the other would say that all is well.
 * Requests that come while one is under way share the next, so none waits for more than two.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/file/file_inside.h"

static bool is_same_file(int a, int b)
{
	struct stat sa, sb;

	return fstat(a, &sa) == 0 && fstat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino && sa.st_rdev == sb.st_rdev;
}

static int open_flags(const struct file_store_config *c)
{
	return (c->is_readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
}

/* The name may have been given to another file meanwhile, or to a pipe: none is waited for. */
int file_sync_by_name(int fd, const struct file_store_config *c)
{
	int own = open(c->path, open_flags(c) | O_NONBLOCK);

	if (own < 0)
		return -errno;
	if (is_same_file(own, fd))
		return own;
	close(own);
	return -ESTALE;
}

int file_sync_open(struct file_store *f, const struct file_store_config *c)
{
	struct file_sync *s = &f->sync;
	char same[32];

	/* The file that is open, whatever is at its name by now. */
	snprintf(same, sizeof(same), "/proc/self/fd/%d", f->fd);
	s->fd = open(same, open_flags(c));
	if (s->fd < 0) /* there is no /proc here */
		s->fd = file_sync_by_name(f->fd, c);
	if (s->fd < 0)
		return s->fd;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->has_ended, NULL);
	return 0;
}

void file_sync_close(struct file_store *f)
{
	pthread_cond_destroy(&f->sync.has_ended);
	pthread_mutex_destroy(&f->sync.lock);
	close(f->sync.fd);
}

/* The lock is held, and released meanwhile. */
static void sync_once(struct file_store *f)
{
	struct file_sync *s = &f->sync;
	int err;

	s->begun++;
	pthread_mutex_unlock(&s->lock);
	err = fdatasync(s->fd) < 0 ? errno : 0;
	pthread_mutex_lock(&s->lock);
	if (err != 0)
		atomic_store(&f->lost, err);
	s->ended = s->begun;
	pthread_cond_broadcast(&s->has_ended);
}

/* The one that has begun may have looked already at what this request is about. */
static void sync_next(struct file_store *f)
{
	struct file_sync *s = &f->sync;
	uint64_t mine;

	pthread_mutex_lock(&s->lock);
	mine = s->begun + 1;
	while (s->ended < mine) {
		if (s->begun == s->ended) {
			sync_once(f);
			continue;
		}
		s->waiting++;
		pthread_cond_wait(&s->has_ended, &s->lock);
		s->waiting--;
	}
	pthread_mutex_unlock(&s->lock);
}

/*
 * After a failure a flush that goes well would be a lie, of this process or the next. The next one
 * is warned before the caller is told.
 */
void file_sync(struct file_store *f, struct store_request *r)
{
	int error;

	sync_next(f);
	error = atomic_load(&f->lost);
	if (error == 0)
		return;
	file_mark_anew(f);
	store_request_end(r, WEFT_R_STORE_LOST, error);
}

/* It may be the failure of an earlier write that this one was told. */
void file_write_failed(struct file_store *f, const struct store_request *r, int error)
{
	if (error != EIO || !(r->flags & STORE_FUA))
		return;
	atomic_store(&f->lost, error);
	file_mark_anew(f);
}

uint32_t file_sync_waiting(struct file_store *f)
{
	uint32_t waiting;

	pthread_mutex_lock(&f->sync.lock);
	waiting = f->sync.waiting;
	pthread_mutex_unlock(&f->sync.lock);
	return waiting;
}
