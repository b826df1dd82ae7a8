/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes writes durable, for any number of threads, and never reports success for writes that may be
 * lost.
 *
 * The kernel reports lost pages once for each open file description, to the next call that asks,
 * and treats them as written from then on. So:
 *  - Syncs have a file description of their own. A FUA write, which gets errors on that of the
 *    data, cannot take away the error that a flush must get, however late its own completion is
 *    handled.
 *  - One sync runs at a time, and its result is stored before the next begins. Two at once would
 *    share one report, and one of them would report success.
 *
 * Requests that come during a sync share the next one, so none waits for more than two.
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

/* The name may belong to another file by now, or to a FIFO: do not block on it. */
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

	/* Reopen the open file itself: its name may belong to another file by now. */
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

/* Called with the lock held, which is released meanwhile. */
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

/* A sync in progress may have passed this request's data already: wait for the next one. */
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
 * After a failure no later flush may succeed, of this process or the next. The mark that warns the
 * next process is changed before the caller gets the error.
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

/* The error may be that of an earlier write. */
void file_write_failed(struct file_store *f, const struct store_request *r, int error)
{
	if (error != EIO || !(r->flags & STORE_FUA))
		return;
	atomic_store(&f->lost, error);
	file_mark_anew(f);
}
