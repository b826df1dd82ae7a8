/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/rio_store.h"
#include "driver/sys/system_reason.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/rio.h>

#include "base/check.h"
#include "roles/rio_config.h"
#include "roles/rio_device.h"
#include "roles/rio_loop.h"

enum { REQUESTS = 256, SEGMENTS = 8192, BATCH = 32, NS_PER_MS = 1000000 };

static const uint64_t wait_ns = UINT64_C(10000) * NS_PER_MS, turn_ns = UINT64_C(250) * NS_PER_MS;

struct rio_store {
	struct store store;
	struct weft_rio_requester *requester;
	struct weft_rio_device device;
	uint32_t tag; /* of all memory; only the parts that requests name are exposed */
	int event_fd; /* readable exactly while `done` is not empty */
	pthread_mutex_t lock;
	struct list done; /* struct store_request; guarded by the lock */
	struct list todo; /* the same: waiting for a free request slot */
	bool is_lost;	  /* the same: writes were lost, every flush fails */
	pthread_t thread; /* collects completions while other threads use the store */
	bool has_thread;
	atomic_bool is_ending;
};

static struct rio_store *rio_of(struct store *s)
{
	return CONTAINER_OF(s, struct rio_store, store);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static enum weft_rio_operation operation_of(enum store_op op)
{
	static const enum weft_rio_operation operations[STORE_OP_COUNT] = {
		[STORE_READ] = WEFT_RIO_READ,	    [STORE_WRITE] = WEFT_RIO_WRITE,
		[STORE_FLUSH] = WEFT_RIO_FLUSH,	    [STORE_WRITE_ZEROES] = WEFT_RIO_WRITE_ZEROES,
		[STORE_DISCARD] = WEFT_RIO_DISCARD,
	};

	return operations[op];
}

/* A list has 32-bit segment lengths. */
enum { SEGMENT_BYTES_MAX = 1 << 30, SEGMENTS_EACH = 64 };

/* 0: too many segments. */
static uint32_t segments_of(const struct rio_store *s, const struct store_request *r,
			    struct weft_rio_sge *segments)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->span_count; i++) {
		for (uint64_t at = 0; at < r->spans[i].length; at += segments[count++].length) {
			uint64_t left = r->spans[i].length - at;

			if (count == SEGMENTS_EACH)
				return 0;
			segments[count] = (struct weft_rio_sge){
				.memory = (uint8_t *)r->spans[i].bytes + at,
				.length = (uint32_t)(left < SEGMENT_BYTES_MAX ? left
									      : SEGMENT_BYTES_MAX),
				.tag = s->tag,
			};
		}
	}
	return count;
}

static enum weft_reason ask(struct rio_store *s, struct store_request *r)
{
	struct weft_rio_sge segments[SEGMENTS_EACH];
	struct weft_rio_transaction t = { .operation = operation_of(r->op),
					  .is_fua = r->flags & STORE_FUA,
					  .offset = r->offset,
					  .length = r->length,
					  .sges = segments };
	struct weft_rio_device now;
	enum weft_reason reason;

	/* Look the device up by name each time: its number may belong to another device by now. */
	reason = weft_rio_device_find(s->requester, s->device.name, 0, &now);
	if (reason != WEFT_OK)
		return reason;
	if (!rio_device_is_same(&now, &s->device))
		return WEFT_R_RIO_DEVICE;
	/* A new instance may have lost acknowledged writes: a mirror must drop this member. */
	if (now.instance != s->device.instance)
		return WEFT_R_STORE_LOST;
	t.device = now.number;
	if (r->op == STORE_READ || r->op == STORE_WRITE) {
		t.sge_count = segments_of(s, r, segments);
		if (t.sge_count == 0)
			return WEFT_R_STORE_SPANS;
	}
	return weft_rio_request_submit(
		s->requester, &(struct weft_rio_request){
				      .transactions = &t, .transaction_count = 1, .context = r });
}

/* Called with the lock held. */
static void done_add(struct rio_store *s, struct store_request *r, enum weft_reason reason)
{
	const uint64_t one = 1;

	store_request_end(r, reason, 0);
	if (list_is_empty(&s->done))
		CHECK(write(s->event_fd, &one, sizeof(one)) == sizeof(one));
	list_add_tail(&s->done, &r->link);
}

/* Called with the lock held. */
static void begin(struct rio_store *s, struct store_request *r)
{
	bool is_vain = s->is_lost && r->op == STORE_FLUSH;
	enum weft_reason reason = is_vain ? WEFT_R_STORE_LOST : ask(s, r);

	if (reason == WEFT_R_BUSY)
		list_add_tail(&s->todo, &r->link);
	else if (reason != WEFT_OK)
		done_add(s, r, reason);
}

static void rio_submit(struct store *store, struct store_request *r, uint64_t now_ns)
{
	struct rio_store *s = rio_of(store);

	(void)now_ns;
	list_init(&r->link);
	pthread_mutex_lock(&s->lock);
	begin(s, r);
	pthread_mutex_unlock(&s->lock);
}

static struct store_request *rio_next_done(struct store *store, uint64_t now_ns)
{
	struct rio_store *s = rio_of(store);
	struct store_request *r = NULL;
	uint64_t signs;

	(void)now_ns;
	pthread_mutex_lock(&s->lock);
	if (!list_is_empty(&s->done)) {
		r = CONTAINER_OF(list_pop(&s->done), struct store_request, link);
		if (list_is_empty(&s->done))
			CHECK(read(s->event_fd, &signs, sizeof(signs)) == sizeof(signs));
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Called with the lock held. A successful flush counts as failed if earlier writes were lost. */
static void ended_add(struct rio_store *s, const struct weft_rio_result *e)
{
	struct store_request *r = e->context;

	s->is_lost |= rio_device_is_lost(e->reason);
	done_add(s, r,
		 s->is_lost && r->op == STORE_FLUSH && e->reason == WEFT_OK ? WEFT_R_STORE_LOST
									    : e->reason);
}

static void *gather(void *context)
{
	struct rio_store *s = context;
	struct weft_rio_result ended[BATCH];

	while (!atomic_load(&s->is_ending)) {
		uint32_t count = 0;

		(void)weft_rio_request_wait(s->requester, turn_ns, ended, BATCH, &count);
		pthread_mutex_lock(&s->lock);
		for (uint32_t i = 0; i < count; i++)
			ended_add(s, &ended[i]);
		for (uint32_t i = 0; i < count && !list_is_empty(&s->todo); i++)
			begin(s, CONTAINER_OF(list_pop(&s->todo), struct store_request, link));
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void rio_destroy(struct store *store)
{
	struct rio_store *s = rio_of(store);

	atomic_store(&s->is_ending, true);
	if (s->has_thread)
		pthread_join(s->thread, NULL);
	if (s->tag)
		weft_rio_memory_remove(s->requester, s->tag);
	if (s->requester)
		weft_rio_requester_close(s->requester);
	if (s->event_fd >= 0)
		close(s->event_fd);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static const struct store_calls rio_calls = {
	.submit = rio_submit,
	.next_done = rio_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = rio_destroy,
};

int rio_store_descriptor(const struct store *s)
{
	CHECK(s->calls == &rio_calls);
	return CONTAINER_OF(s, struct rio_store, store)->event_fd;
}

static struct store_shape shape_of(const struct weft_rio_device *d)
{
	return (struct store_shape){
		.size_bytes = d->size_bytes,
		.block_bytes = d->block_bytes,
		.can = (d->can_flush ? STORE_CAN_FLUSH : 0U) | (d->can_fua ? STORE_CAN_FUA : 0U) |
		       (d->can_discard ? STORE_CAN_DISCARD : 0U) |
		       (d->can_write_zeroes ? STORE_CAN_WRITE_ZEROES : 0U),
		.is_readonly = d->is_readonly,
	};
}

static enum weft_reason requester_open(struct rio_store *s, const struct rio_store_config *c,
				       char why[RIO_STORE_WHY])
{
	struct weft_rio_requester_options options = { .requests_max = REQUESTS,
						      .sges_max = SEGMENTS };
	struct weft_rio_peer peers[RIO_CONFIG_PEERS_MAX];
	struct weft_rio_self self;
	char text[RIO_HOST_WHY] = "";
	struct rio_host *host;
	enum weft_reason r;

	if (!rio_host_open(c->path, RIO_REQUESTER, &host, text)) {
		snprintf(why, RIO_STORE_WHY, "%s", text);
		return WEFT_R_STORE_OPEN;
	}
	rio_host_self(host, &self, peers);
	options.timeout_ns = host->config->timeout_ns;
	r = weft_rio_requester_open(&self, &options, &s->requester);
	rio_host_self_wipe(&self);
	rio_host_close(host);
	if (r == WEFT_OK)
		r = weft_rio_device_find(s->requester, c->device, wait_ns, &s->device);
	return r;
}

static enum weft_reason thread_start(struct rio_store *s)
{
	sigset_t all, before;
	int error;

	/* The thread blocks all signals: they are for the program's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&s->thread, NULL, gather, s);
	s->has_thread = error == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return s->has_thread ? WEFT_OK : system_reason(error);
}

enum weft_reason rio_store_open(const struct rio_store_config *c, struct store **out,
				char why[RIO_STORE_WHY])
{
	struct rio_store *s = calloc(1, sizeof(*s));
	enum weft_reason r;

	if (!s)
		return WEFT_R_NO_MEMORY;
	pthread_mutex_init(&s->lock, NULL);
	list_init(&s->done);
	list_init(&s->todo);
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = s->event_fd < 0 ? WEFT_R_DESCRIPTORS : requester_open(s, c, why);
	if (r == WEFT_OK)
		r = weft_rio_memory_add(s->requester, (void *)PROCESS_FIRST, PROCESS_BYTES,
					&s->tag);
	if (r == WEFT_OK) {
		s->store = (struct store){ .calls = &rio_calls, .shape = shape_of(&s->device) };
		r = store_shape_check(&s->store.shape);
	}
	if (r == WEFT_OK)
		r = thread_start(s);
	if (r != WEFT_OK) {
		rio_destroy(&s->store);
		return r;
	}
	*out = &s->store;
	return WEFT_OK;
}
