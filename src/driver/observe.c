/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/observe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/fork.h"
#include "driver/net.h"
#include "driver/output.h"

enum { VARIABLES = 4 };

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	const char *told[VARIABLES]; /* that could not be had */
	uint32_t adapters;	     /* ever */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

void observe_lock(void)
{
	pthread_mutex_lock(&process.lock);
}

void observe_unlock(void)
{
	pthread_mutex_unlock(&process.lock);
}

/* A fork finds nothing half done, neither in adapters nor in what they share: all is locked. */
static void before_fork(void)
{
	if (fork_is_child())
		fork_notice();
	fork_prepare();
	observe_lock();
	stat_lock();
}

static void after_fork(void)
{
	stat_unlock();
	observe_unlock();
	fork_parent();
}

/* The child has none of its parent's adapters; it may open its own. */
static void forked(void)
{
	memset(process.told, 0, sizeof(process.told));
	recordings_forget();
	traces_forget();
	stat_forget();
	faults_forget();
	stat_unlock();
	observe_unlock();
	fork_child();
}

void fork_notice(void)
{
	fork_locks_reset();
	pthread_mutex_init(&process.lock, NULL);
	observe_lock();
	stat_lock_reset();
	forked();
}

static void prepare(void)
{
	(void)pthread_atfork(before_fork, after_fork, forked);
}

/* Whether it was; it is from now on. */
static bool is_told(const char *variable)
{
	int i = 0;

	for (; i < VARIABLES && process.told[i]; i++) {
		if (strcmp(process.told[i], variable) == 0)
			return true;
	}
	if (i < VARIABLES)
		process.told[i] = variable;
	return false;
}

void observe_complain(const char *variable, const char *value, int error)
{
	observe_lock();
	if (!is_told(variable))
		fprintf(stderr, "weft[%ld]: %s=%s: %s\n", (long)getpid(), variable, value,
			output_words(error));
	observe_unlock();
}

/* Not for programs that run with more rights than their user. */
const char *observe_wish(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

static void record_by_environment(struct weft_adapter *a)
{
	const char *path = observe_wish("WEFT_PCAP");
	int err;

	if (!path)
		return;
	err = recording_get(path, true, &a->recording);
	if (err < 0)
		observe_complain("WEFT_PCAP", path, err);
	else
		a->is_recorded_by_environment = true;
}

static enum log_level level_wished(void)
{
	const char *level = observe_wish("WEFT_LOG");

	if (!level || strcmp(level, "off") == 0)
		return LOG_OFF;
	if (strcmp(level, "info") == 0)
		return LOG_INFO;
	if (strcmp(level, "error") != 0)
		observe_complain("WEFT_LOG", level, -EINVAL);
	return LOG_ERROR;
}

void observe_open(struct weft_adapter *a)
{
	const char *path = observe_wish("WEFT_TRACE");
	int err;

	pthread_once(&process.once, prepare);
	observe_lock();
	a->number = ++process.adapters;
	observe_unlock();
	record_by_environment(a);
	err = observer_open(a, path, level_wished());
	if (err < 0)
		observe_complain("WEFT_TRACE", path ? path : "", err);
}

void observe_close(struct weft_adapter *a)
{
	observer_close(a);
	faults_close(a);
	if (a->recording)
		(void)recording_put(a->recording);
	a->recording = NULL;
}

void observe_tick(struct weft_adapter *a)
{
	if (a->recording)
		recording_flush(a->recording, adapter_now_ns(a));
}

__attribute__((destructor)) static void process_ends(void)
{
	if (fork_is_child())
		return; /* all of it is the parent's */
	recordings_flush();
	faults_tell();
}

/* ---- Public calls --------------------------------------------------------------------------- */

enum weft_reason weft_capture_start(struct weft_adapter *adapter, const char *path)
{
	enum weft_reason r = WEFT_R_BUSY;
	int err;

	if (!adapter || !path)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	if (!adapter->recording) {
		err = recording_get(path, false, &adapter->recording);
		r = err == 0 ? WEFT_OK : err == -EBUSY ? WEFT_R_BUSY : WEFT_R_SYSTEM;
	}
	adapter_leave(adapter);
	return r;
}

enum weft_reason weft_capture_stop(struct weft_adapter *adapter)
{
	enum weft_reason r = WEFT_R_BAD_ARGUMENT;

	if (!adapter)
		return WEFT_R_NULL_ARGUMENT;
	adapter_enter(adapter);
	if (adapter->recording && !adapter->is_recorded_by_environment) {
		if (adapter->net)
			record_leave_all(adapter->net);
		r = recording_put(adapter->recording) == 0 ? WEFT_OK : WEFT_R_SYSTEM;
		adapter->recording = NULL;
	}
	adapter_leave(adapter);
	return r;
}
