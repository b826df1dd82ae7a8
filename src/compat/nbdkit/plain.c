/* SPDX-License-Identifier: BSD-2-Clause */
#include "compat/nbdkit/plain.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "driver/sys/clock.h"

enum { NS_PER_MS = 1000000, WAIT_MS_MAX = 1000 };

/* A caller that waits. */
struct waiter {
	struct store_request request;
	pthread_cond_t done;
	bool is_done;
};

struct plain {
	struct device *device;
	struct store *store;
	pthread_mutex_t lock; /* the device has one user at a time */
	uint64_t due_ns;      /* guarded by it: until when the thread sleeps */
	int wake_fd;
	pthread_t thread;
	bool has_thread;
	atomic_bool is_ending;
};

static void wake(struct plain *p)
{
	const uint64_t one = 1;

	CHECK(write(p->wake_fd, &one, sizeof(one)) == sizeof(one));
}

/* ---- The device: with the lock held --------------------------------------------------------- */

/* A member of a mirror that was left out says so once. */
static void take_events(struct plain *p)
{
	char line[DEVICE_EVENT_TEXT];
	struct store_event e;

	while (store_event(p->store, &e)) {
		device_event_text("of nbdkit", &e, line);
		fprintf(stderr, "weft: %s\n", line);
	}
}

static void drain(struct plain *p)
{
	uint64_t now_ns = clock_ns();
	struct store_request *r;

	if (store_due(p->store) <= now_ns)
		store_expire(p->store, now_ns);
	while ((r = store_next_done(p->store, now_ns)) != NULL) {
		struct waiter *w = CONTAINER_OF(r, struct waiter, request);

		w->is_done = true;
		pthread_cond_signal(&w->done);
	}
	take_events(p);
}

/* ---- The thread: waits for the device while the callers wait for it ------------------------- */

static int wait_ms(uint64_t due_ns)
{
	uint64_t now_ns = clock_ns();

	if (due_ns <= now_ns)
		return 0;
	if ((due_ns - now_ns) / NS_PER_MS >= WAIT_MS_MAX)
		return WAIT_MS_MAX;
	return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
}

/* Also with no request under way: an iSCSI target wants to be answered. */
static void *serve(void *context)
{
	struct plain *p = context;
	struct pollfd fds[2] = { { .fd = device_descriptor(p->device), .events = POLLIN },
				 { .fd = p->wake_fd, .events = POLLIN } };
	uint64_t signs;

	while (!atomic_load(&p->is_ending)) {
		uint64_t due_ns;

		pthread_mutex_lock(&p->lock);
		drain(p);
		due_ns = p->due_ns = store_due(p->store);
		pthread_mutex_unlock(&p->lock);
		if (poll(fds, 2, wait_ms(due_ns)) > 0 && fds[1].revents)
			CHECK(read(p->wake_fd, &signs, sizeof(signs)) == sizeof(signs));
	}
	return NULL;
}

static enum weft_reason thread_start(struct plain *p)
{
	sigset_t all, before;

	/* Signals are for nbdkit's own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	p->has_thread = pthread_create(&p->thread, NULL, serve, p) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return p->has_thread ? WEFT_OK : WEFT_R_NO_MEMORY;
}

/* ---- Life ----------------------------------------------------------------------------------- */

void plain_close(struct plain *p)
{
	atomic_store(&p->is_ending, true);
	if (p->has_thread) {
		wake(p);
		pthread_join(p->thread, NULL);
	}
	if (p->device)
		device_close(p->device);
	if (p->wake_fd >= 0)
		close(p->wake_fd);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

enum weft_reason plain_open(const char *text, struct plain **plain, struct device_refusal *why)
{
	struct plain *p = calloc(1, sizeof(*p));
	enum weft_reason r;

	*why = (struct device_refusal){ .reason = WEFT_R_NO_MEMORY };
	if (!p)
		return WEFT_R_NO_MEMORY;
	pthread_mutex_init(&p->lock, NULL);
	p->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = p->wake_fd < 0 ? WEFT_R_DESCRIPTORS : device_open(text, &p->device, why);
	if (r == WEFT_OK) {
		p->store = device_store(p->device);
		r = thread_start(p);
	}
	if (r == WEFT_OK)
		*plain = p;
	else
		plain_close(p);
	return r;
}

const struct store_shape *plain_shape(const struct plain *p)
{
	return &p->store->shape;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* What is done at once needs no other thread. */
enum weft_reason plain_do(struct plain *p, const struct store_request *request)
{
	struct waiter w = { .request = *request };
	enum weft_reason reason;

	pthread_cond_init(&w.done, NULL);
	pthread_mutex_lock(&p->lock);
	reason = store_submit(p->store, &w.request, clock_ns());
	if (reason == WEFT_OK) {
		drain(p);
		if (!w.is_done && store_due(p->store) < p->due_ns)
			wake(p);
		while (!w.is_done)
			pthread_cond_wait(&w.done, &p->lock);
		reason = w.request.reason;
	}
	pthread_mutex_unlock(&p->lock);
	pthread_cond_destroy(&w.done);
	return reason;
}
