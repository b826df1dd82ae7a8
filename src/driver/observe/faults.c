/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults injected by WEFT_FAULTS: docs/faults.md. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/observe/observe.h"

/* Reported when the process ends; guarded by observe_lock(). */
static struct {
	bool is_on, has_complained;
	struct list adapters; /* open ones */
	uint64_t happened[FAULT_COUNT];
} process = { .adapters = { &process.adapters, &process.adapters } };

/* Complains once: a program may open one device after the other. */
static void complain(const struct fault_complaint *c)
{
	observe_lock();
	if (!process.has_complained)
		fprintf(stderr, "weft[%ld]: WEFT_FAULTS: %.*s: %s\n", (long)getpid(),
			(int)c->length, c->at, c->why);
	process.has_complained = true;
	observe_unlock();
}

enum weft_reason faults_open(struct observed *o, struct fault_plan **plan)
{
	const char *text = observe_wish("WEFT_FAULTS");
	struct fault_complaint complaint;

	*plan = NULL;
	list_init(&o->faults_link);
	if (!text)
		return WEFT_OK;
	if (!fault_plan_read(&o->faults, text, &complaint)) {
		complain(&complaint);
		return WEFT_R_BAD_ARGUMENT;
	}
	fprintf(stderr, "weft[%ld]: failures are made on purpose, by WEFT_FAULTS=%s\n",
		(long)getpid(), text);
	*plan = &o->faults;
	observe_lock();
	process.is_on = true;
	list_add_tail(&process.adapters, &o->faults_link);
	observe_unlock();
	return WEFT_OK;
}

static void add_up(const struct observed *o)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		process.happened[i] += o->faults.happened[i];
}

void faults_close(struct observed *o)
{
	observe_lock();
	add_up(o);
	list_remove(&o->faults_link);
	observe_unlock();
}

void faults_forget(void)
{
	process.is_on = false;
	while (!list_is_empty(&process.adapters)) {
		struct observed *o = CONTAINER_OF(list_pop(&process.adapters), struct observed,
						  faults_link);

		memset(o->faults.happened, 0, sizeof(o->faults.happened));
	}
	memset(process.happened, 0, sizeof(process.happened));
}

/*
 * exit() may run inside a call of ours, in a signal handler, which never leaves the lock. The
 * adapter's thread does.
 */
static bool lock_soon(pthread_mutex_t *lock)
{
	enum { TRIES = 1000 };

	for (int i = 0; i < TRIES; i++) {
		if (pthread_mutex_trylock(lock) == 0)
			return true;
		sched_yield();
	}
	return false;
}

void faults_tell(void)
{
	char text[512] = "";
	size_t used = 0;

	if (!process.is_on)
		return;
	observe_lock();
	while (!list_is_empty(&process.adapters)) {
		struct observed *o = CONTAINER_OF(list_pop(&process.adapters), struct observed,
						  faults_link);

		if (!lock_soon(o->lock))
			continue;
		add_up(o);
		pthread_mutex_unlock(o->lock);
	}
	process.happened[FAULT_WC_DELAY] += process.happened[FAULT_WC_DELAY_RECV];
	process.happened[FAULT_WC_DELAY_RECV] = 0;
	for (enum fault i = 0; i < FAULT_COUNT; i++) {
		if (process.happened[i] > 0)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %llu",
						 used ? ", " : "", fault_name(i),
						 (unsigned long long)process.happened[i]);
	}
	fprintf(stderr, "weft[%ld]: made by WEFT_FAULTS: %s\n", (long)getpid(),
		used ? text : "nothing");
	observe_unlock();
}
