/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Number of calls of bells_abandon(). */
static _Atomic uint32_t forks;

/* Threads that wait at any bell; mostly 0, so that ringing needs no system call. */
static _Atomic uint32_t waiters;

/*
 * bell->writes. One write is owed for each event, and made by a thread that need not hold the
 * bell's lock: by one at a time. Who takes the last event forgives what is owed, and empties the
 * descriptor. tests/unit/compat/bell_model_test.c goes through all histories.
 */
enum {
	WRITES_RUNNING = 1, /* a thread writes now */
	WRITES_SEEN = 2,    /* the descriptor is readable */
	WRITES_OWED = 4	    /* and its multiples: how many */
};

/* In a child of fork() the descriptor is its parent's, and so were the threads that write. */
static bool is_parents(const struct bell *b)
{
	return b->forks != atomic_load_explicit(&forks, memory_order_relaxed);
}

/* Bells to which this thread has added events since bells_defer(). */
enum { DEFERRED_MAX = 8 };
static _Thread_local struct {
	bool is_on;
	uint32_t count;
	struct bell *bells[DEFERRED_MAX];
} deferred;

/*
 * The eventfd count is above 0 while an event waits, and never full, so neither read() nor write()
 * blocks. Both are cancellation points, and a thread cancelled here would leave its locks held, the
 * engine's among them.
 */
static void set_readable(const struct bell *b, bool is_readable)
{
	uint64_t count = 1;
	int cancel;

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
	while (atomic_load(&b->ringers) > 0 && !is_parents(b))
		sched_yield();
	close(b->fd);
}

/* Bound: the writes that are owed. While another thread writes, it makes this thread's, too. */
static void write_owed(struct bell *b)
{
	uint32_t seen = atomic_load(&b->writes);

	while (seen >= WRITES_OWED && !(seen & WRITES_RUNNING) && !is_parents(b)) {
		uint32_t running = (seen - WRITES_OWED) | WRITES_RUNNING;

		if (!atomic_compare_exchange_weak(&b->writes, &seen, running))
			continue;
		set_readable(b, true);
		/* Only this thread changes the two bits. */
		running = running & WRITES_SEEN ? WRITES_RUNNING : WRITES_RUNNING - WRITES_SEEN;
		seen = atomic_fetch_sub(&b->writes, running) - running;
	}
}

/* The bell's lock is held. */
static void forgive_owed(struct bell *b)
{
	uint32_t seen = atomic_load(&b->writes);

	if (is_parents(b))
		return;
	/* Bound: the write() of another thread, which does not block. */
	while ((seen & WRITES_RUNNING) || !atomic_compare_exchange_weak(&b->writes, &seen, 0)) {
		if (seen & WRITES_RUNNING)
			sched_yield();
		seen = atomic_load(&b->writes);
	}
	if (seen & WRITES_SEEN)
		set_readable(b, false);
}

/*
 * Threads in bell_wait() first: if one takes the event at once, nothing need be written. The lock
 * is perhaps not held.
 */
static void ring(struct bell *b)
{
	if (atomic_load(&waiters) > 0)
		(void)syscall(SYS_futex, &b->rings, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	write_owed(b);
}

/* False: the bell has to ring now. */
static bool defer(struct bell *b)
{
	for (uint32_t i = 0; i < deferred.count; i++) {
		if (deferred.bells[i] == b)
			return true;
	}
	if (!deferred.is_on || deferred.count == DEFERRED_MAX)
		return false;
	atomic_fetch_add(&b->ringers, 1);
	deferred.bells[deferred.count++] = b;
	return true;
}

void bells_defer(void)
{
	deferred.is_on = true;
}

void bells_ring(void)
{
	deferred.is_on = false;
	/* Bound: DEFERRED_MAX. */
	while (deferred.count > 0) {
		struct bell *b = deferred.bells[--deferred.count];

		ring(b);
		atomic_fetch_sub(&b->ringers, 1); /* it may be gone from here on */
	}
}

void bell_add(struct bell *b, struct list *link)
{
	if (!list_is_linked(link))
		list_add_tail(&b->waiting, link);
	/* Each time: a program with EPOLLET takes one event per edge, as with the kernel. */
	atomic_fetch_add(&b->writes, WRITES_OWED);
	atomic_fetch_add(&b->rings, 1);
	if (!defer(b))
		ring(b);
}

void bell_remove(struct bell *b, struct list *link)
{
	if (!list_is_linked(link))
		return;
	list_remove(link);
	if (list_is_empty(&b->waiting))
		forgive_owed(b);
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
