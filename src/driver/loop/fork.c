/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exit(): deferred requests (progress.c) are sent, as a hardware adapter would have done. Carriers
 * whose sockets do not tell the peer when they close tell it that the process ends.
 *
 * fork(): an adapter stays with the process that opened it. The child closes its copies of the
 * sockets, so that a peer notices when the parent ends; it can only destroy its copies of the
 * adapter's objects. A child made without fork() does the same at its first call into weft, and
 * nothing at all if it just exits.
 */
#include "driver/loop/fork.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/loop/net.h"
#include "driver/sys/guard.h"
#include "driver/sys/notice.h"

/*
 * How often exit() tries to take an adapter's lock. The holder may be the thread that called exit()
 * itself, from a signal handler: then it would never be released.
 */
enum { EXIT_TRIES = 10000 };

/* The lock is taken before an adapter's. */
static struct {
	pthread_mutex_t lock;
	bool has_handlers;
	const struct fork_part *part;
	struct list adapters;
} process = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.adapters = { &process.adapters, &process.adapters },
};

static const bool is_not_known = true;
_Atomic(const volatile bool *) fork_mark = &is_not_known;

static volatile bool *mark; /* the page; NULL: there is none */
static pid_t owner;	    /* has the adapters; a vfork() child shares memory but not the pid */

/* Kernels before 4.14 lack MADV_WIPEONFORK: then only the pid tells, and only at exit(). */
static void mark_process(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *page;

	owner = getpid();
	if (!mark) {
		page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		if (page == MAP_FAILED)
			return;
		if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
			munmap(page, bytes);
			return;
		}
		mark = page;
	}
	*mark = true;
	atomic_store_explicit(&fork_mark, mark, memory_order_release);
}

void fork_delist(struct weft_adapter *a)
{
	pthread_mutex_lock(&process.lock);
	list_remove(&a->fork_link);
	pthread_mutex_unlock(&process.lock);
}

static struct weft_adapter *adapter_at(struct list *at)
{
	return CONTAINER_OF(at, struct weft_adapter, fork_link);
}

static bool lock_soon(pthread_mutex_t *lock)
{
	int tries = 0;

	while (pthread_mutex_trylock(lock) != 0) {
		if (++tries == EXIT_TRIES)
			return false;
		sched_yield();
	}
	return true;
}

static void send_what_waits(void)
{
	if (!lock_soon(&process.lock))
		return;
	for (struct list *at = process.adapters.next; at != &process.adapters; at = at->next) {
		struct weft_adapter *a = adapter_at(at);

		if (!lock_soon(&a->lock))
			continue;
		a->on_event = NULL; /* the handler's state may be destroyed already */
		if (a->net)
			net_exit(a->net);
		adapter_unlock(a);
	}
	pthread_mutex_unlock(&process.lock);
}

__attribute__((destructor)) static void process_ends(void)
{
	if (fork_is_child())
		return; /* everything belongs to the parent */
	if (owner == getpid())
		send_what_waits();
	recordings_flush();
	faults_tell();
}

/* ---- fork() --------------------------------------------------------------------------------- */

/* Takes all locks: no other thread is in the middle of a change that the child would inherit. */
static void before_fork(void)
{
	if (fork_is_child())
		fork_notice();
	pthread_mutex_lock(&process.lock);
	for (struct list *at = process.adapters.next; at != &process.adapters; at = at->next)
		pthread_mutex_lock(&adapter_at(at)->lock);
	observe_lock();
	notice_lock();
	guard_lock();
	process.part->lock();
}

static void after_fork(void)
{
	process.part->unlock();
	guard_unlock();
	notice_unlock();
	observe_unlock();
	for (struct list *at = process.adapters.next; at != &process.adapters; at = at->next)
		pthread_mutex_unlock(&adapter_at(at)->lock);
	pthread_mutex_unlock(&process.lock);
}

/* The child has none of its parent's adapters; it may open its own. All locks are held. */
static void forked(void)
{
	observe_forget();
	process.part->forget();
	process.part->unlock();
	guard_unlock();
	notice_forget();
	notice_unlock();
	observe_unlock();
	mark_process();
	while (!list_is_empty(&process.adapters)) {
		struct weft_adapter *a = adapter_at(list_pop(&process.adapters));

		/* Event handlers, the event descriptor, traces and captures are the parent's. */
		a->on_event = NULL;
		a->wakes = 0;
		if (a->event_fd >= 0)
			close(a->event_fd);
		a->event_fd = -1;
		a->observed.observer = NULL;
		a->observed.recording = NULL;
		a->core.trace = NULL;
		a->core.mem.trace = NULL;
		pager_abandon(a);
		if (a->net)
			net_abandon(a->net);
		pthread_mutex_unlock(&a->lock);
	}
	pthread_mutex_unlock(&process.lock);
}

static void lock_reset(pthread_mutex_t *lock)
{
	pthread_mutex_init(lock, NULL);
	pthread_mutex_lock(lock);
}

void fork_notice(void)
{
	lock_reset(&process.lock);
	for (struct list *at = process.adapters.next; at != &process.adapters; at = at->next)
		lock_reset(&adapter_at(at)->lock);
	observe_lock_reset();
	notice_lock_reset();
	guard_lock_reset();
	process.part->lock_reset();
	forked();
}

void fork_enlist(struct weft_adapter *a, const struct fork_part *part)
{
	pthread_mutex_lock(&process.lock);
	process.part = part;
	if (!process.has_handlers)
		process.has_handlers = pthread_atfork(before_fork, after_fork, forked) == 0;
	if (owner != getpid() || !mark)
		mark_process();
	list_add_tail(&process.adapters, &a->fork_link);
	pthread_mutex_unlock(&process.lock);
}
