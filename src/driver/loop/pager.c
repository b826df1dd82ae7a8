/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/loop/pager.h"

#include <signal.h>
#include <unistd.h>

#include "driver/loop/adapter_lock.h"
#include "driver/sys/pages.h"

/* Whether a page that comes for the outer range comes for the inner one as well. */
static bool is_within(const struct page_range *inner, const struct page_range *outer)
{
	return inner->addr >= outer->addr && inner->addr - outer->addr <= outer->length &&
	       inner->length <= outer->length - (inner->addr - outer->addr) &&
	       (outer->is_written || !inner->is_written);
}

/* ---- The thread ----------------------------------------------------------------------------- */

/* Brings in the pages one by one. False: *failing is the first that cannot be had. */
static bool bring_singly(const struct page_range *range, struct page_range *failing)
{
	uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE), end = range->addr + range->length;

	*failing = *range;
	failing->addr &= ~(size - 1);
	failing->length = size;
	for (; failing->addr < end; failing->addr += size) {
		if (!pages_are_there(failing->addr, size, range->is_written))
			return false;
	}
	return true;
}

static void note_failure(struct pager *p, const struct page_range *page)
{
	p->failed[p->failed_count++ % PAGER_FAILED_MAX] = *page;
}

static void *pager_run(void *argument)
{
	struct weft_adapter *a = argument;
	struct pager *p = &a->pager;

	pthread_mutex_lock(&a->lock);
	while (!p->is_ending) {
		struct page_range range = p->wanted[p->first], failing;
		bool is_there;

		if (p->count == 0) {
			adapter_wake_now(a);
			pthread_cond_wait(&p->wake, &a->lock);
			continue;
		}
		adapter_unlock(a);
		is_there = pages_are_there(range.addr, range.length, range.is_written) ||
			   bring_singly(&range, &failing);
		pthread_mutex_lock(&a->lock);
		failing.qp = p->wanted[p->first].qp; /* which may have ended meanwhile */
		p->first = (p->first + 1) % PAGER_WANTED_MAX;
		p->count--;
		if (!is_there)
			note_failure(p, &failing);
		adapter_memory_changed(&a->core);
		adapter_work(a);
	}
	adapter_leave(a);
	return NULL;
}

static bool start(struct weft_adapter *a)
{
	struct pager *p = &a->pager;
	sigset_t all, old;

	if (p->is_running)
		return true;
	if (pthread_cond_init(&p->wake, NULL) != 0)
		return false;
	/* The program's signals are for its own threads. A fault is this thread's own: it works. */
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	p->is_running = pthread_create(&p->thread, NULL, pager_run, a) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!p->is_running)
		pthread_cond_destroy(&p->wake);
	return p->is_running;
}

void pager_stop(struct weft_adapter *a)
{
	struct pager *p = &a->pager;

	if (!p->is_running)
		return;
	p->is_ending = true;
	pthread_cond_signal(&p->wake);
	adapter_unlock(a);
	pthread_join(p->thread, NULL);
	pthread_mutex_lock(&a->lock);
	pthread_cond_destroy(&p->wake);
	p->is_running = p->is_ending = false;
}

void pager_abandon(struct weft_adapter *a)
{
	a->pager.is_running = false;
	a->pager.count = 0;
}

void pager_forget_qp(struct weft_adapter *a, uint32_t qp)
{
	struct pager *p = &a->pager;

	for (uint32_t i = 0; i < PAGER_WANTED_MAX; i++) {
		if (p->wanted[i].qp == qp)
			p->wanted[i].qp = 0;
	}
	for (uint32_t i = 0; i < PAGER_FAILED_MAX; i++) {
		if (p->failed[i].qp == qp)
			p->failed[i].qp = 0;
	}
}

void pager_forget_failures(struct weft_adapter *a)
{
	a->pager.failed_count = 0;
}

/* ---- What the core asks --------------------------------------------------------------------- */

static bool is_failed(const struct page_range *page, const struct page_range *range)
{
	return page->qp == range->qp && page->addr < range->addr + range->length &&
	       range->addr < page->addr + page->length && (range->is_written || !page->is_written);
}

/* Forgets what it tells: the program may undo what was in the way, and need not say so. */
static bool take_failure(struct pager *p, const struct page_range *range)
{
	uint32_t count = p->failed_count < PAGER_FAILED_MAX ? p->failed_count : PAGER_FAILED_MAX;

	if (range->qp == 0) /* a prefetch: only an access is denied */
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (is_failed(&p->failed[i], range)) {
			p->failed[i].qp = 0;
			return true;
		}
	}
	return false;
}

static void want(struct pager *p, const struct page_range *range)
{
	for (uint32_t i = 0; i < p->count; i++) {
		if (is_within(range, &p->wanted[(p->first + i) % PAGER_WANTED_MAX]))
			return;
	}
	if (p->count == PAGER_WANTED_MAX)
		return;
	p->wanted[(p->first + p->count++) % PAGER_WANTED_MAX] = *range;
	pthread_cond_signal(&p->wake);
}

static enum mem_presence pager_ask(void *context, uint64_t addr, uint64_t length, bool is_written,
				   uint32_t qp)
{
	struct weft_adapter *a = context;
	const struct page_range range = { addr, length, is_written, qp };

	switch (pages_look(addr, length)) {
	case PAGES_RESIDENT:
		(void)take_failure(&a->pager, &range); /* undone meanwhile */
		return MEM_HERE;
	case PAGES_UNMAPPED:
		return MEM_NOWHERE;
	case PAGES_AWAY:
		break;
	}
	if (take_failure(&a->pager, &range))
		return MEM_NOWHERE;
	if (!start(a))
		return MEM_HERE; /* the access waits in the kernel */
	want(&a->pager, &range);
	return MEM_AWAY;
}

const struct mem_pager *pager_init(struct weft_adapter *a)
{
	a->pager = (struct pager){ .for_core = { .ask = pager_ask, .context = a } };
	return pages_can_be_asked() ? &a->pager.for_core : NULL;
}
