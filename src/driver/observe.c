/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/observe.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/net.h"

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	bool is_told; /* what could not be had */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

void observe_lock(void)
{
	pthread_mutex_lock(&process.lock);
}

void observe_unlock(void)
{
	pthread_mutex_unlock(&process.lock);
}

/* The child of a fork has none of its parent's adapters; it may open its own. */
static void forked(void)
{
	pthread_mutex_init(&process.lock, NULL);
	process.is_told = false;
	recordings_forget();
}

static void prepare(void)
{
	(void)pthread_atfork(NULL, NULL, forked);
}

void observe_complain(const char *variable, const char *value, int error)
{
	observe_lock();
	if (!process.is_told)
		fprintf(stderr, "weft[%ld]: %s=%s: %s\n", (long)getpid(), variable, value,
			strerror(-error));
	process.is_told = true;
	observe_unlock();
}

/* Not for programs that run with more rights than their user. */
static const char *wish(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

static void record_by_environment(struct weft_adapter *a)
{
	const char *path = wish("WEFT_PCAP");
	int err;

	if (!path)
		return;
	err = recording_get(path, true, &a->recording);
	if (err < 0)
		observe_complain("WEFT_PCAP", path, err);
	else
		a->is_recorded_by_environment = true;
}

void observe_open(struct weft_adapter *a)
{
	pthread_once(&process.once, prepare);
	record_by_environment(a);
}

void observe_close(struct weft_adapter *a)
{
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
	recordings_flush();
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
