/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/ibverbs/engine.h"

#include <pthread.h>
#include <stdatomic.h>

#include "compat/bell.h"
#include "compat/ibverbs/device.h"
#include "compat/ibverbs/ibverbs.h"
#include "compat/ibverbs/import.h"
#include "compat/ibverbs/port_events.h"
#include "compat/ibverbs/qp.h"
#include "driver/observe/observe.h"

static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	uint32_t users;
	enum weft_policy policy; /* while there are users */
	struct weft_adapter *_Atomic adapter;
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT };

/* Every object that has events was created with its sink as context. */
static void dispatch(void *context, const struct weft_event *event)
{
	struct weftv_sink *sink = event->context;

	(void)context;
	bells_defer();
	if (sink)
		sink->take(sink, event);
}

/* The adapter is not locked any more. */
static void ring_bells(void *context)
{
	(void)context;
	bells_ring();
}

/*
 * fork(): takes all locks, so that no other thread is in the middle of a change. They are taken
 * before an adapter's lock, so the driver's handlers must be registered first: the prepare handlers
 * run in reverse order.
 */
static void fork_prepare(void)
{
	device_list_lock();
	pthread_mutex_lock(&engine.lock);
	qps_lock();
	offers_lock();
}

static void fork_parent(void)
{
	offers_unlock();
	qps_unlock();
	pthread_mutex_unlock(&engine.lock);
	device_list_put();
}

/* The adapter, and all that was made with it, is the parent's: the next device opens another. */
static void fork_child(void)
{
	engine.users = 0;
	atomic_store(&engine.adapter, NULL);
	bells_abandon();
	devices_forked();
	qps_forked();
	offers_forked();
	port_events_forked();
	fork_parent();
}

static void register_fork(void)
{
	(void)pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* What the user has named wrongly opens nothing: no need to complain of it here. */
static enum weft_profile profile_of_user(void)
{
	enum weft_profile profile;

	(void)profile_wished(&profile);
	return profile;
}

uint32_t engine_qps_max(void)
{
	static const uint32_t qps[] = { [WEFT_PROFILE_NONE] = ENGINE_OBJECTS,
					[WEFT_PROFILE_HOST] = WEFT_HOST_QPS,
					[WEFT_PROFILE_IO] = WEFT_IO_QPS };

	return qps[profile_of_user()];
}

uint32_t engine_ports_max(void)
{
	static const uint32_t ports[] = { [WEFT_PROFILE_NONE] = UINT8_MAX,
					  [WEFT_PROFILE_HOST] = WEFT_HOST_PORTS,
					  [WEFT_PROFILE_IO] = WEFT_IO_PORTS };

	return ports[profile_of_user()];
}

static enum weft_reason open_adapter(enum weft_policy policy)
{
	const struct weft_adapter_options options = {
		.tags_max = ENGINE_TAGS,
		.translations_max = ENGINE_TRANSLATIONS,
		.qps_max = engine_qps_max(),
		.profile = profile_of_user(),
		.cqs_max = ENGINE_OBJECTS,
		.srqs_max = ENGINE_OBJECTS,
		.pds_max = ENGINE_OBJECTS,
		.policy = policy,
		.on_event = dispatch,
		.after_events = ring_bells,
	};
	struct weft_adapter *adapter;
	enum weft_reason r = weft_adapter_open(&options, &adapter);

	if (r == WEFT_OK && serve_wished()) {
		r = weft_adapter_serve(adapter, true);
		if (r != WEFT_OK)
			(void)weft_adapter_close(adapter);
	}
	if (r != WEFT_OK)
		return r;
	atomic_store(&engine.adapter, adapter);
	engine.policy = policy;
	return WEFT_OK;
}

enum weft_reason engine_get(enum weft_policy policy)
{
	enum weft_policy wished;
	enum weft_profile profile;
	enum weft_reason r = policy_wished(&wished);

	if (r == WEFT_OK)
		r = profile_wished(&profile);
	if (r != WEFT_OK)
		return r;
	pthread_mutex_lock(&engine.lock);
	if (engine.users == 0)
		r = open_adapter(policy > wished ? policy : wished);
	else if (policy > engine.policy)
		r = WEFT_R_BUSY;
	engine.users += r == WEFT_OK;
	pthread_mutex_unlock(&engine.lock);
	if (r == WEFT_OK)
		pthread_once(&engine.once, register_fork);
	return r;
}

void engine_put(const struct weft_adapter *adapter)
{
	pthread_mutex_lock(&engine.lock);
	if (adapter != atomic_load(&engine.adapter)) { /* that of a parent */
		pthread_mutex_unlock(&engine.lock);
		return;
	}
	/* What a program left behind stays, and the adapter with it, until the process ends. */
	if (engine.users == 1 && weft_adapter_close(atomic_load(&engine.adapter)) == WEFT_OK) {
		atomic_store(&engine.adapter, NULL);
		engine.users = 0;
	} else if (engine.users > 1) {
		engine.users--;
	}
	pthread_mutex_unlock(&engine.lock);
}

void engine_lock(void)
{
	pthread_mutex_lock(&engine.lock);
}

void engine_unlock(void)
{
	pthread_mutex_unlock(&engine.lock);
}

struct weft_adapter *weftv_adapter(void)
{
	return atomic_load(&engine.adapter);
}
