/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/engine.h"

#include <pthread.h>
#include <stdatomic.h>

#include "compat/ibverbs/ibverbs.h"

enum { TAGS = 1 << 18, TRANSLATIONS = 1 << 12, QUEUES = 1 << 14 };

static struct {
	pthread_mutex_t lock;
	uint32_t users;
	struct weft_adapter *_Atomic adapter;
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Every object that has events was created with its sink as context. */
static void dispatch(void *context, const struct weft_event *event)
{
	struct weftv_sink *sink = event->context;

	(void)context;
	if (sink)
		sink->take(sink, event);
}

enum weft_reason engine_get(void)
{
	const struct weft_adapter_options options = {
		.tags_max = TAGS,
		.translations_max = TRANSLATIONS,
		.qps_max = QUEUES,
		.cqs_max = QUEUES,
		.srqs_max = QUEUES,
		.pds_max = QUEUES,
		.on_event = dispatch,
	};
	struct weft_adapter *adapter;
	enum weft_reason r = WEFT_OK;

	pthread_mutex_lock(&engine.lock);
	if (engine.users == 0) {
		r = weft_adapter_open(&options, &adapter);
		if (r == WEFT_OK)
			atomic_store(&engine.adapter, adapter);
	}
	engine.users += r == WEFT_OK;
	pthread_mutex_unlock(&engine.lock);
	return r;
}

void engine_put(void)
{
	pthread_mutex_lock(&engine.lock);
	/* What a program left behind stays, and the adapter with it, until the process ends. */
	if (engine.users == 1 && weft_adapter_close(atomic_load(&engine.adapter)) == WEFT_OK) {
		atomic_store(&engine.adapter, NULL);
		engine.users = 0;
	} else if (engine.users > 1) {
		engine.users--;
	}
	pthread_mutex_unlock(&engine.lock);
}

struct weft_adapter *weftv_adapter(void)
{
	return atomic_load(&engine.adapter);
}
