/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Number of calls of bells_abandon(). */
static _Atomic uint32_t forks;

/* Threads that wait at any bell; mostly 0, so that ringing needs no system call. */
static _Atomic uint32_t waiters;

/*
 * The eventfd count is above 0 while an event waits, and never full, so neither read() nor write()
 * blocks. Both are cancellation points, and a thread cancelled here would leave its locks held, the
 * engine's among them.
 */
static void set_readable(const struct bell *b, bool is_readable)
{
	uint64_t count = 1;
	int cancel;

	if (b->forks != atomic_load_explicit(&forks, memory_order_relaxed))
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (is_readable)
		(void)!write(b->fd, &count, sizeof(count));
	else
		(void)!read(b->fd, &count, sizeof(count));
	pthread_setcancelstate(cancel, NULL);
}

int bell_init(struct bell *b)
{
	list_init(&b->waiting);
	b->forks = atomic_load(&forks);
	b->fd = eventfd(0, EFD_CLOEXEC);
	return b->fd < 0 ? -errno : 0;
}

void bell_fini(struct bell *b)
{
	close(b->fd);
}

void bell_add(struct bell *b, struct list *link)
{
	if (!list_is_linked(link))
		list_add_tail(&b->waiting, link);
	/* Each time: a program with EPOLLET takes one event per edge, as with the kernel. */
	set_readable(b, true);
	atomic_fetch_add(&b->rings, 1);
	if (atomic_load(&waiters) > 0)
		(void)syscall(SYS_futex, &b->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void bell_remove(struct bell *b, struct list *link)
{
	if (!list_is_linked(link))
		return;
	list_remove(link);
	if (list_is_empty(&b->waiting))
		set_readable(b, false);
}

static void leave(void *unused)
{
	(void)unused;
	atomic_fetch_sub(&waiters, 1);
}

/* The descriptor is looked at here: of a bell that goes, its number may be another's soon. */
struct bell_snapshot bell_listen(struct bell *b)
{
	struct bell_snapshot snapshot = { .rings = &b->rings, .heard = atomic_load(&b->rings) };
	int flags = fcntl(b->fd, F_GETFL);

	if (flags < 0)
		snapshot.why_not = -errno;
	else if (flags & O_NONBLOCK)
		snapshot.why_not = -EAGAIN;
	return snapshot;
}

/*
 * Not poll(), which is never restarted after a signal. Only the kernel reads the bell's memory
 * during the wait, and this function does not read it afterwards.
 */
int bell_wait(const struct bell_snapshot *snapshot)
{
	int type, error;

	if (snapshot->why_not != 0)
		return snapshot->why_not;
	atomic_fetch_add(&waiters, 1);
	pthread_cleanup_push(leave, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	error = (int)syscall(SYS_futex, snapshot->rings, FUTEX_WAIT_PRIVATE, snapshot->heard, NULL,
			     NULL, 0);
	error = error < 0 && errno == EINTR ? -EINTR : 0;
	pthread_setcanceltype(type, NULL);
	pthread_cleanup_pop(1);
	return error;
}

void bell_forked(struct bell *b)
{
	int flags = fcntl(b->fd, F_GETFL);
	int fd = eventfd(!list_is_empty(&b->waiting), flags & O_NONBLOCK ? EFD_NONBLOCK : 0);

	if (fd < 0)
		return;
	(void)dup3(fd, b->fd, O_CLOEXEC);
	close(fd);
}

void bells_abandon(void)
{
	atomic_fetch_add(&forks, 1);
}
