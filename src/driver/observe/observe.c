/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/observe/observe.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/sys/clock.h"
#include "driver/sys/output.h"

enum { VARIABLES = 8 };

static struct {
	pthread_mutex_t lock;
	const char *reported[VARIABLES]; /* variables whose file could not be opened */
	uint32_t adapters;		 /* opened so far */
} process = { .lock = PTHREAD_MUTEX_INITIALIZER };

void observe_lock(void)
{
	pthread_mutex_lock(&process.lock);
}

void observe_unlock(void)
{
	pthread_mutex_unlock(&process.lock);
}

void observe_lock_reset(void)
{
	pthread_mutex_init(&process.lock, NULL);
	observe_lock();
}

void observe_forget(void)
{
	memset(process.reported, 0, sizeof(process.reported));
	recordings_forget();
	traces_forget();
	faults_forget();
}

/* Whether the variable was reported before; marks it as reported. */
static bool is_reported(const char *variable)
{
	int i = 0;

	for (; i < VARIABLES && process.reported[i]; i++) {
		if (strcmp(process.reported[i], variable) == 0)
			return true;
	}
	if (i < VARIABLES)
		process.reported[i] = variable;
	return false;
}

void observe_complain(const char *variable, const char *value, const char *why)
{
	observe_lock();
	if (!is_reported(variable))
		fprintf(stderr, "weft[%ld]: %s=%s: %s\n", (long)getpid(), variable, value, why);
	observe_unlock();
}

/* Ignores the environment in setuid programs. */
const char *observe_wish(const char *variable)
{
	const char *value = secure_getenv(variable);

	return value && *value ? value : NULL;
}

static void record_by_environment(struct observed *o)
{
	const char *path = observe_wish("WEFT_PCAP");
	int err;

	if (!path)
		return;
	err = recording_get(path, true, &o->recording);
	if (err < 0)
		observe_complain("WEFT_PCAP", path, output_words(err));
	else
		o->is_recorded_by_environment = true;
}

const char log_level_unknown[] = "This is not off, error or info, and counts as error";

enum log_level log_level_named(const char *name)
{
	static const char *const names[] = {
		[LOG_OFF] = "off", [LOG_ERROR] = "error", [LOG_INFO] = "info"
	};

	for (int level = LOG_OFF; level <= LOG_INFO; level++) {
		if (strcmp(name, names[level]) == 0)
			return (enum log_level)level;
	}
	return LOG_UNSET;
}

enum log_level log_level_wished(void)
{
	const char *name = observe_wish("WEFT_LOG");
	enum log_level level = name ? log_level_named(name) : LOG_UNSET;

	if (!name || level != LOG_UNSET)
		return level;
	observe_complain("WEFT_LOG", name, log_level_unknown);
	return LOG_ERROR;
}

void observe_open(struct observed *o)
{
	const char *path = observe_wish("WEFT_TRACE");
	int err;

	observe_lock();
	o->number = ++process.adapters;
	observe_unlock();
	record_by_environment(o);
	err = observer_open(o, path, log_level_wished());
	if (err < 0)
		observe_complain("WEFT_TRACE", path ? path : "", output_words(err));
}

void observe_close(struct observed *o)
{
	observer_close(o);
	faults_close(o);
	if (o->recording)
		(void)recording_put(o->recording);
	o->recording = NULL;
}

void observe_tick(struct observed *o)
{
	if (o->recording)
		recording_flush(o->recording, clock_ns());
}
