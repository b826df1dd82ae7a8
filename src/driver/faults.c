/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures on purpose, for who asked for them by WEFT_FAULTS: docs/faults.md. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/tcp.h"

/* What the process has to tell when it ends; observe_lock() guards it. */
static struct {
	bool is_on, has_complained;
	struct list adapters; /* that are open */
	uint64_t happened[FAULT_COUNT];
} process = { .adapters = { &process.adapters, &process.adapters } };

/* Once: a program may try one device after the other. */
static void complain(const struct fault_complaint *c)
{
	observe_lock();
	if (!process.has_complained)
		fprintf(stderr, "weft[%ld]: WEFT_FAULTS: %.*s: %s\n", (long)getpid(),
			(int)c->length, c->at, c->why);
	process.has_complained = true;
	observe_unlock();
}

enum weft_reason faults_open(struct weft_adapter *a, struct fault_plan **plan)
{
	const char *text = observe_wish("WEFT_FAULTS");
	struct fault_complaint complaint;

	*plan = NULL;
	list_init(&a->faults_link);
	if (!text)
		return WEFT_OK;
	if (!fault_plan_read(&a->faults, text, &complaint)) {
		complain(&complaint);
		return WEFT_R_BAD_ARGUMENT;
	}
	fprintf(stderr, "weft[%ld]: failures are made on purpose, by WEFT_FAULTS=%s\n",
		(long)getpid(), text);
	*plan = &a->faults;
	observe_lock();
	process.is_on = true;
	list_add_tail(&process.adapters, &a->faults_link);
	observe_unlock();
	return WEFT_OK;
}

static void add_up(const struct weft_adapter *a)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		process.happened[i] += a->faults.happened[i];
}

void faults_close(struct weft_adapter *a)
{
	observe_lock();
	add_up(a);
	list_remove(&a->faults_link);
	observe_unlock();
}

void faults_forget(void)
{
	process.is_on = false;
	while (!list_is_empty(&process.adapters)) {
		struct weft_adapter *a = CONTAINER_OF(list_pop(&process.adapters),
						      struct weft_adapter, faults_link);

		memset(a->faults.happened, 0, sizeof(a->faults.happened));
	}
	memset(process.happened, 0, sizeof(process.happened));
}

void faults_tell(void)
{
	char text[512] = "";
	size_t used = 0;

	if (!process.is_on)
		return;
	observe_lock();
	while (!list_is_empty(&process.adapters)) {
		struct weft_adapter *a = CONTAINER_OF(list_pop(&process.adapters),
						      struct weft_adapter, faults_link);

		/* Who ends a program in the midst of a call of ours waits for nobody. */
		if (pthread_mutex_trylock(&a->lock) != 0)
			continue;
		add_up(a);
		pthread_mutex_unlock(&a->lock);
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

/* Every byte up to the last one moves, so that it is the same one each time. */
bool faults_clip(struct link *link, struct span_list *l, bool is_outgoing)
{
	struct adapter *core = &link->net->adapter->core;
	uint64_t left = core->faults->disconnect_after - link->moved[is_outgoing];

	if (left == 0) {
		adapter_fault_made(core, FAULT_DISCONNECT_AFTER, link->qp_number);
		if (link->qp)
			qp_record(link->qp, WEFT_R_FAULT_INJECTED);
		return false;
	}
	if (l->length <= left)
		return true;
	l->length = (size_t)left;
	for (uint32_t i = 0; left > 0; i++) {
		if (l->spans[i].length > left)
			l->spans[i].length = (size_t)left;
		left -= l->spans[i].length;
		l->count = i + 1;
	}
	return true;
}
