/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/sys/notice.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/ranges.h"
#include "driver/sys/calls.h"
#include "driver/sys/clock.h"
#include "driver/sys/wait.h"

/*
 * Of each kind. Every watched range may cut a mapping of the program in three, of which a process
 * may have 65530.
 */
enum { RANGES_MAX = 8192, EVENTS_MAX = 16 };

static struct range live_room[RANGES_MAX], watched_room[RANGES_MAX], unmapped_room[RANGES_MAX];

/*
 * Written by one thread at a time, which has `opening`. It opens with the first region and closes
 * with the last adapter; a refusal counts for as long.
 */
enum state { IS_CLOSED = 0, IS_OPEN, IS_REFUSED };

static struct {
	pthread_mutex_t opening; /* taken before the lock */
	uint32_t users;
	_Atomic enum state state;
	int uffd, stop; /* while it is open */
	pthread_t thread;
} kernel = { .opening = PTHREAD_MUTEX_INITIALIZER };

static struct {
	pthread_mutex_t lock;
	struct ranges live;	/* regions; the number is how many */
	struct ranges watched;	/* pages that the kernel tells of */
	struct ranges unmapped; /* parts of regions; the number is the change that unmapped them */
	uint64_t ever_unmapped, ever_unwatched;
	uint64_t ever_ended; /* events by which pages may no longer be watched */
} noted = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.live = { live_room, 0, RANGES_MAX },
	.watched = { watched_room, 0, RANGES_MAX },
	.unmapped = { unmapped_room, 0, RANGES_MAX },
};

/* Of struct mem_watch. The thread that reads events writes `changes`; the lock guards the other. */
static atomic_uint_fast64_t changes = 2;
static atomic_uint unmapped_count;

/* Of all adapters, ever: what a closed one leaves the next one takes. */
struct slot {
	struct mem_watch watch;
	struct slot *next; /* fixed */
	bool is_used;	   /* guarded by `opening` */
};

static _Atomic(struct slot *) slots;

/*
 * A handler of a signal that unmapped memory here would wait for the thread that reads events, and
 * that thread for the lock: signals wait until the lock is released.
 */
static _Thread_local sigset_t mask_before __attribute__((tls_model("initial-exec")));

static void lock(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask_before);
	pthread_mutex_lock(&noted.lock);
}

static void unlock(void)
{
	sigset_t before = mask_before; /* a signal's handler may lock in turn */

	pthread_mutex_unlock(&noted.lock);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- What was unmapped ---------------------------------------------------------------------- */

/* The changes so far, when none is under way. */
static uint64_t settled(void)
{
	uint32_t rounds = 0;
	uint64_t now;

	while ((now = atomic_load(&changes)) % 2 != 0)
		wait_a_little(&rounds);
	return now;
}

/* As far as changes are noted. */
static bool is_noted(uint64_t addr, uint64_t length, uint64_t since)
{
	uint64_t latest;

	lock();
	latest = ranges_greatest(&noted.unmapped, addr, addr + length);
	unlock();
	return latest > since;
}

/* For the check before an access, which is not under way yet: a change waits for accesses. */
static bool were_unmapped(uint64_t addr, uint64_t length, uint64_t since)
{
	(void)settled();
	return is_noted(addr, length, since);
}

/* When nothing is noted any more, no change so far matters: the next access need not ask. */
static bool is_whole(struct mem_watch *w, const void *bytes, uint64_t length)
{
	uint64_t now;

	while ((now = atomic_load(&changes)) % 2 != 0) {
		mem_watch_leave(w);
		(void)settled();
		(void)mem_watch_enter_same(w);
	}
	if (atomic_load(&unmapped_count) == 0)
		w->since = now;
	return !is_noted((uintptr_t)bytes, length, w->since);
}

/*
 * With the lock. While a change is under way the check before an access has to wait for it; other
 * processes do not access the memory by themselves.
 */
static void count_unmapped(void)
{
	unsigned int count = noted.unmapped.count + (unsigned int)(atomic_load(&changes) % 2);

	atomic_store(&unmapped_count, count);
	for (struct slot *s = atomic_load(&slots); s; s = s->next) {
		struct mem_peers *peers = atomic_load(&s->watch.peers);

		if (peers)
			atomic_store(peers->unmapped, count);
	}
}

/* With the lock. Without room more is taken for unmapped than was. */
static void unmapped_set(uint64_t start, uint64_t end, uint64_t change)
{
	while (!ranges_set(&noted.unmapped, start, end, change))
		ranges_unite(&noted.unmapped);
	count_unmapped();
}

/* With the lock. Without room less is taken for watched than is: regions watch it again. */
static void watched_end(uint64_t start, uint64_t end)
{
	noted.ever_ended++;
	if (!ranges_set(&noted.watched, start, end, 0))
		noted.watched.count = 0;
}

/* With the lock. True: regions lay there. */
static bool note_unmapped(uint64_t start, uint64_t end, uint64_t change)
{
	bool is_live = false;

	watched_end(start, end);
	for (uint32_t i = ranges_find(&noted.live, start);
	     i < noted.live.count && noted.live.at[i].start < end; i++) {
		const struct range *l = &noted.live.at[i];

		unmapped_set(l->start > start ? l->start : start, l->end < end ? l->end : end,
			     change);
		noted.ever_unmapped++;
		is_live = true;
	}
	return is_live;
}

/* ---- The thread that reads events ----------------------------------------------------------- */

static bool fence_all(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void await_peers(const struct mem_peers *peers, uint64_t end_ns)
{
	uint32_t rounds = 0;

	for (uint32_t i = 0; i < MEM_PEERS_MAX; i++) {
		while (atomic_load(&peers->each[i].is_accessing) && !peers->has_ended(peers, i) &&
		       clock_ns() < end_ns)
			wait_a_little(&rounds);
	}
}

static void await_accesses(void)
{
	uint64_t end_ns = clock_ns() + access_wait_ns;
	uint32_t rounds = 0;

	for (struct slot *s = atomic_load(&slots); s; s = s->next) {
		struct mem_peers *peers = atomic_load(&s->watch.peers);

		while (atomic_load(&s->watch.is_accessing) && clock_ns() < end_ns)
			wait_a_little(&rounds);
		if (peers)
			await_peers(peers, end_ns);
	}
}

/* With the lock. True: regions lay there. */
static bool note_event(const struct uffd_msg *m, uint64_t change)
{
	switch (m->event) {
	case UFFD_EVENT_UNMAP:
		return note_unmapped(m->arg.remove.start, m->arg.remove.end, change);
	case UFFD_EVENT_REMAP: /* of no bytes: the memory is mapped a second time, and stays */
		return m->arg.remap.len > 0 &&
		       note_unmapped(m->arg.remap.from, m->arg.remap.from + m->arg.remap.len,
				     change);
	default:
		return false;
	}
}

/*
 * Reading an event lets the thread go on that unmapped the memory, and it may map other memory
 * there at once. So accesses stop before, and go on when the change is noted.
 */
static void take_events(int uffd)
{
	uint64_t before = atomic_load(&changes), change = before + 2;
	struct uffd_msg messages[EVENTS_MAX];
	bool is_live = false;
	ssize_t n;

	atomic_store(&changes, before + 1);
	lock();
	count_unmapped();
	unlock();
	(void)fence_all(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	await_accesses();
	n = read(uffd, messages, sizeof(messages));
	lock();
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(messages[0]); i++)
		is_live |= note_event(&messages[i], change);
	atomic_store(&changes, is_live ? change : before);
	count_unmapped();
	unlock();
}

/*
 * Whether memory has been unmapped or moved, and the thread that did it still waits: until its
 * event was read, and it runs. The kernel says so before it looks at the range.
 */
static bool is_changing(void)
{
	struct uffdio_writeprotect none = { 0 };

	return ioctl(kernel.uffd, UFFDIO_WRITEPROTECT, &none) < 0 && errno == EAGAIN;
}

/* Of the first watched range in the notes, which it leaves. False: there is none. */
static bool watch_end(int uffd)
{
	struct uffdio_range pages;
	bool is_found;

	lock();
	is_found = noted.watched.count > 0;
	if (is_found) {
		const struct range *first = &noted.watched.at[0];

		pages = (struct uffdio_range){ first->start, first->end - first->start };
		(void)ranges_set(&noted.watched, first->start, first->end, 0);
	}
	unlock();
	if (is_found)
		(void)ioctl(uffd, UFFDIO_UNREGISTER, &pages);
	return is_found;
}

/*
 * A process made without fork() has a copy of the descriptor: as long as it lives, the kernel would
 * watch, and have threads that unmap wait for a reader.
 */
static void watches_end(int uffd)
{
	struct pollfd events = { uffd, POLLIN, 0 };
	uint64_t end_ns = clock_ns() + access_wait_ns;
	uint32_t rounds = 0;

	while (watch_end(uffd))
		;
	while (is_changing() && clock_ns() < end_ns) {
		if (poll(&events, 1, 0) > 0)
			take_events(uffd);
		else
			wait_a_little(&rounds);
	}
}

/*
 * Closing ends watches that are not noted, and lets threads go on that wait for an event to be
 * read. It comes before the thread ends: the thread that joins it may unmap stacks that were
 * registered.
 */
static void *notice_run(void *argument)
{
	struct pollfd fds[] = { { kernel.uffd, POLLIN, 0 }, { kernel.stop, POLLIN, 0 } };

	(void)argument;
	while (fds[1].revents == 0) {
		if (poll(fds, 2, -1) > 0 && (fds[0].revents & POLLIN))
			take_events(fds[0].fd);
	}
	watches_end(fds[0].fd);
	call_close(fds[0].fd);
	return NULL;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

static int uffd_open(uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) < 0) {
		call_close(fd);
		return -1;
	}
	return fd;
}

/* It takes no signal of the program. */
static bool thread_start(void)
{
	sigset_t all, was;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	error = pthread_create(&kernel.thread, NULL, notice_run, NULL);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return error == 0;
}

static void close_files(void)
{
	if (kernel.uffd >= 0)
		call_close(kernel.uffd);
	if (kernel.stop >= 0)
		call_close(kernel.stop);
}

/* With `opening`. */
static enum state kernel_open(void)
{
	const uint64_t events = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
				UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	const char *wish = secure_getenv("WEFT_NOTICES");

	if ((wish && strcmp(wish, "off") == 0) ||
	    !fence_all(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED))
		return IS_REFUSED;
	kernel.uffd = uffd_open(events | UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	if (kernel.uffd < 0) /* kernels before 5.19 watch anonymous memory only */
		kernel.uffd = uffd_open(events);
	kernel.stop = eventfd(0, EFD_CLOEXEC);
	if (kernel.uffd >= 0 && kernel.stop >= 0 && thread_start())
		return IS_OPEN;
	close_files();
	return IS_REFUSED;
}

static bool is_open(void)
{
	if (atomic_load(&kernel.state) == IS_CLOSED) {
		pthread_mutex_lock(&kernel.opening);
		if (atomic_load(&kernel.state) == IS_CLOSED)
			atomic_store(&kernel.state, kernel_open());
		pthread_mutex_unlock(&kernel.opening);
	}
	return atomic_load(&kernel.state) == IS_OPEN;
}

/* With `opening`. */
static void kernel_close(void)
{
	const uint64_t one = 1;
	int cancel;

	if (atomic_load(&kernel.state) == IS_OPEN) {
		/* A thread that was cancelled here would leave the lock behind. */
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
		(void)!write(kernel.stop, &one, sizeof(one));
		pthread_join(kernel.thread, NULL);
		kernel.uffd = -1; /* which the thread has closed */
		pthread_setcancelstate(cancel, NULL);
		close_files();
		lock();
		noted.watched.count = 0;
		unlock();
	}
	atomic_store(&kernel.state, IS_CLOSED);
}

/* ---- Regions -------------------------------------------------------------------------------- */

/* The pages of a range. */
static struct uffdio_range pages_of(uint64_t addr, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & -page;

	return (struct uffdio_range){ start, ((addr + length + page - 1) & -page) - start };
}

/* Takes the next watched range that no region has off the notes. False: there is none. */
static bool spare_take(uint64_t from, struct uffdio_range *spare)
{
	const struct ranges *w = &noted.watched;
	uint32_t i;
	bool is_found;

	lock();
	i = ranges_find(w, from);
	while (i < w->count && ranges_greatest(&noted.live, w->at[i].start, w->at[i].end) > 0)
		i++;
	is_found = i < w->count;
	if (is_found) {
		*spare = (struct uffdio_range){ w->at[i].start, w->at[i].end - w->at[i].start };
		(void)ranges_set(&noted.watched, w->at[i].start, w->at[i].end, 0);
	}
	unlock();
	return is_found;
}

/*
 * With `opening`: a region that begins there has its pages watched again only after they are
 * watched no more.
 */
static void spares_end(void)
{
	struct uffdio_range spare = { 0 };

	while (spare_take(spare.start + spare.len, &spare))
		(void)ioctl(kernel.uffd, UFFDIO_UNREGISTER, &spare);
}

static bool has_room(void)
{
	enum { NEEDED = 3 }; /* two cuts and a range */
	bool is_enough;

	lock();
	is_enough = noted.watched.max - noted.watched.count >= NEEDED;
	unlock();
	return is_enough;
}

/*
 * Watches what is mapped there, which the kernel does although there are holes; msync() tells of
 * those. Twice: what another thread maps into a hole after the first call, the second one watches.
 */
static bool kernel_watches(struct uffdio_range pages, bool *has_holes)
{
	struct uffdio_register r = { .range = pages, .mode = UFFDIO_REGISTER_MODE_WP };

	*has_holes = false;
	for (int i = 0; i < 2; i++) {
		if (ioctl(kernel.uffd, UFFDIO_REGISTER, &r) != 0)
			return false;
		*has_holes |= msync((void *)(uintptr_t)pages.start, pages.len, MS_ASYNC) != 0;
	}
	return true;
}

/*
 * With `opening`. Pages are noted when the kernel watches them, so that no other region relies on
 * it before; unless some are not there, which may be mapped later, or an event came meanwhile,
 * which may be of them.
 */
static bool pages_register(struct uffdio_range pages)
{
	bool has_holes;
	uint64_t before;

	if (!has_room())
		spares_end();
	if (!has_room())
		return false;
	lock();
	before = noted.ever_ended;
	unlock();
	if (!kernel_watches(pages, &has_holes))
		return false;
	lock();
	if (noted.ever_ended == before && !has_holes)
		(void)ranges_set(&noted.watched, pages.start, pages.start + pages.len, 1);
	unlock();
	return true;
}

/*
 * Of a region that is live. Pages that are watched already stay so until they are unmapped, or
 * there is no room for others and no region has them. False: they are not watched.
 */
static bool pages_watch(struct uffdio_range pages)
{
	bool is_watched;

	lock();
	is_watched = ranges_cover(&noted.watched, pages.start, pages.start + pages.len);
	unlock();
	if (is_watched)
		return true;
	pthread_mutex_lock(&kernel.opening);
	is_watched = pages_register(pages);
	pthread_mutex_unlock(&kernel.opening);
	return is_watched;
}

/* What no region has is of no interest. Without room it stays noted, and does no harm. */
static void region_end(uint64_t addr, uint64_t length)
{
	uint64_t end = addr + length;

	lock();
	if (!ranges_subtract(&noted.live, addr, end)) {
		unlock();
		return;
	}
	while (addr < end) {
		uint32_t i = ranges_find(&noted.live, addr);
		bool is_next = i < noted.live.count && noted.live.at[i].start < end;
		uint64_t until = is_next ? noted.live.at[i].start : end;

		if (until > addr)
			unmapped_set(addr, until, 0);
		addr = is_next ? noted.live.at[i].end : end;
	}
	unlock();
}

/*
 * The changes so far, when the thread has read all of them. Addresses are free before the event of
 * their unmapping can be read: another thread may have been given them, and that event is not of
 * its memory.
 */
static uint64_t caught_up(void)
{
	uint64_t end_ns = 0;
	uint32_t rounds = 0;

	while (is_changing()) {
		uint64_t now_ns = clock_ns();

		if (end_ns == 0)
			end_ns = now_ns + access_wait_ns;
		if (now_ns >= end_ns) /* a debugger stopped the thread that unmaps */
			break;
		wait_a_little(&rounds);
	}
	return settled();
}

static uint64_t region_begin(uint64_t addr, uint64_t length)
{
	struct uffdio_range pages = pages_of(addr, length);
	uint64_t since;
	bool is_live;

	if (addr + length < addr || pages.len < length || !is_open())
		return 0;
	since = caught_up();
	lock();
	is_live = ranges_add(&noted.live, addr, addr + length);
	unlock();
	if (is_live && pages_watch(pages))
		return since;
	if (is_live)
		region_end(addr, length);
	lock();
	noted.ever_unwatched++;
	unlock();
	return 0;
}

/* ---- Adapters ------------------------------------------------------------------------------- */

/* With `opening`. */
static struct slot *slot_get(void)
{
	struct slot *s = atomic_load(&slots);

	while (s && s->is_used)
		s = s->next;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->watch = (struct mem_watch){
			.changes = &changes,
			.unmapped = &unmapped_count,
			.is_whole = is_whole,
			.begin = region_begin,
			.end = region_end,
			.were_unmapped = were_unmapped,
		};
		s->next = atomic_load(&slots);
		atomic_store(&slots, s);
	}
	s->is_used = true;
	s->watch.since = settled();
	return s;
}

struct mem_watch *notice_open(void)
{
	struct slot *s;

	pthread_mutex_lock(&kernel.opening);
	s = slot_get();
	if (s)
		kernel.users++;
	pthread_mutex_unlock(&kernel.opening);
	return s ? &s->watch : NULL;
}

void notice_close(struct mem_watch *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&kernel.opening);
	CONTAINER_OF(w, struct slot, watch)->is_used = false;
	if (--kernel.users == 0)
		kernel_close();
	pthread_mutex_unlock(&kernel.opening);
}

/* The thread that reads events uses them only while a change is under way, or with the lock. */
void notice_set_peers(struct mem_watch *w, struct mem_peers *peers)
{
	if (!w)
		return;
	lock();
	atomic_store(&w->peers, peers);
	count_unmapped();
	unlock();
	(void)settled();
}

void notice_query(struct notice_counts *counts)
{
	lock();
	*counts = (struct notice_counts){
		.is_on = atomic_load(&kernel.state) == IS_OPEN,
		.unmapped = noted.ever_unmapped,
		.unwatched = noted.ever_unwatched,
	};
	unlock();
}

/* ---- fork() --------------------------------------------------------------------------------- */

/*
 * Not the lock of the notes, which the thread that reads events needs: fork() also waits for the
 * locks of the heap, and a thread that has one of those may wait for that thread.
 */
void notice_lock(void)
{
	pthread_mutex_lock(&kernel.opening);
}

void notice_unlock(void)
{
	pthread_mutex_unlock(&kernel.opening);
}

void notice_lock_reset(void)
{
	pthread_mutex_init(&kernel.opening, NULL);
	notice_lock();
}

/*
 * The child has no such thread, no page of it is watched, and no adapter accesses its regions. The
 * notes may be those of the middle of a change.
 */
void notice_forget(void)
{
	if (atomic_load(&kernel.state) == IS_OPEN)
		close_files();
	atomic_store(&kernel.state, IS_CLOSED);
	pthread_mutex_init(&noted.lock, NULL);
	noted.live.count = noted.watched.count = noted.unmapped.count = 0;
	atomic_store(&changes, (atomic_load(&changes) + 1) & ~UINT64_C(1));
	for (struct slot *s = atomic_load(&slots); s; s = s->next) {
		mem_watch_leave(&s->watch);
		atomic_store(&s->watch.peers, NULL);
	}
	count_unmapped();
}
