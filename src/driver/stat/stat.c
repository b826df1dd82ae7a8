/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters for other processes. A thread, which exists while the process has adapters with a
 * network, listens at the abstract unix socket "weft/PID". A client of the same user is sent a
 * report, then the connection is closed; nothing is read from it. The thread copies the counters
 * while it holds the lock of one adapter after the other, and formats and sends the report without
 * any lock: no client can delay an adapter.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "driver/loop/net.h"
#include "driver/stat/stat.h"
#include "driver/stat/stat_report.h"
#include "driver/sys/clock.h"
#include "driver/sys/report_socket.h"

enum { CLIENTS_MAX = 8, NS_PER_S = 1000000000, NS_PER_MS = 1000000 };

/* How long a client may keep its place; the delay after running out of descriptors. */
static const uint64_t client_ns = NS_PER_S;
static const uint64_t retry_ns = 100 * (uint64_t)NS_PER_MS;

enum state { STAT_NONE = 0, STAT_RUNNING, STAT_STOPPING };

/* Taken after an adapter's lock, and never held while waiting for one. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct list adapters;
	struct weft_adapter *busy; /* the adapter that the thread reads */
	enum state state;
	pthread_t thread;
	int listener, wake;
} stat = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.adapters = { &stat.adapters, &stat.adapters },
	.listener = -1,
	.wake = -1,
};

/* ---- Reports -------------------------------------------------------------------------------- */

/* The adapter with the next higher number, locked and kept from closing; NULL: none. */
static struct weft_adapter *adapter_after(uint32_t number)
{
	struct weft_adapter *next = NULL;

	pthread_mutex_lock(&stat.lock);
	for (struct list *at = stat.adapters.next; at != &stat.adapters; at = at->next) {
		struct weft_adapter *a = CONTAINER_OF(at, struct weft_adapter, stat_link);

		if (a->observed.number > number &&
		    (!next || a->observed.number < next->observed.number))
			next = a;
	}
	stat.busy = next;
	pthread_mutex_unlock(&stat.lock);
	if (next)
		pthread_mutex_lock(&next->lock);
	return next;
}

static void adapter_done(struct weft_adapter *a)
{
	pthread_mutex_unlock(&a->lock);
	pthread_mutex_lock(&stat.lock);
	stat.busy = NULL;
	pthread_cond_broadcast(&stat.changed);
	pthread_mutex_unlock(&stat.lock);
}

/* Allocates the report; NULL: out of memory. */
static char *report(size_t *length)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, length);
	struct weft_adapter *a;
	uint32_t number = 0;

	if (!to)
		return NULL;
	report_begin(to);
	while ((a = adapter_after(number)) != NULL) {
		struct stat_adapter seen = { 0 };
		bool is_open = a->net && report_look(a, &seen);

		number = a->observed.number;
		adapter_done(a);
		if (is_open)
			report_adapter(to, &seen);
		report_free(&seen);
	}
	report_end(to);
	if (fclose(to) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- Clients -------------------------------------------------------------------------------- */

struct server {
	struct report_client clients[CLIENTS_MAX];
	uint32_t count;
	uint64_t accept_ns; /* accept no client before */
};

static void client_close(struct server *s, uint32_t i)
{
	report_client_close(&s->clients[i]);
	s->clients[i] = s->clients[--s->count];
}

static void serve_new(struct server *s)
{
	struct report_client c = { 0 };
	int err = report_client_accept(stat.listener, &c);

	if (err < 0) {
		if (err != -EAGAIN)
			s->accept_ns = clock_ns() + retry_ns;
		return;
	}
	if (c.is_same_user)
		c.text = report(&c.length);
	c.end_ns = clock_ns() + client_ns;
	s->clients[s->count++] = c;
	if (!c.text || !report_client_send(&s->clients[s->count - 1]))
		client_close(s, s->count - 1);
}

static void serve_old(struct server *s, const struct pollfd *fds)
{
	uint64_t now_ns = clock_ns();

	/* In reverse order: a closed client's place goes to the last one, which had its turn. */
	for (uint32_t i = s->count; i-- > 0;) {
		struct report_client *c = &s->clients[i];

		if (now_ns >= c->end_ns || (fds[i].revents && !report_client_send(c)))
			client_close(s, i);
	}
}

/* ---- The thread ----------------------------------------------------------------------------- */

static int timeout_ms(const struct server *s, bool is_accepting)
{
	uint64_t due = is_accepting || s->count == CLIENTS_MAX ? UINT64_MAX : s->accept_ns;
	uint64_t now_ns = clock_ns();

	for (uint32_t i = 0; i < s->count; i++)
		due = s->clients[i].end_ns < due ? s->clients[i].end_ns : due;
	if (due == UINT64_MAX)
		return -1;
	return due <= now_ns ? 0 : (int)((due - now_ns) / NS_PER_MS) + 1;
}

/* Waits and serves, once. False: the thread must stop. */
static bool serve(struct server *s)
{
	bool is_accepting = s->count < CLIENTS_MAX && clock_ns() >= s->accept_ns;
	struct pollfd fds[CLIENTS_MAX + 2];
	uint32_t count = s->count;

	for (uint32_t i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = s->clients[i].fd, .events = POLLOUT };
	fds[count] = (struct pollfd){ .fd = stat.wake, .events = POLLIN };
	fds[count + 1] = (struct pollfd){ .fd = is_accepting ? stat.listener : -1,
					  .events = POLLIN };
	if (poll(fds, count + 2, timeout_ms(s, is_accepting)) < 0)
		return true;
	if (fds[count].revents)
		return false;
	serve_old(s, fds);
	if (fds[count + 1].revents)
		serve_new(s);
	return true;
}

static void *stat_run(void *context)
{
	struct server s = { 0 };

	(void)context;
	while (serve(&s))
		;
	while (s.count > 0)
		client_close(&s, 0);
	return NULL;
}

static void close_sockets(void)
{
	if (stat.listener >= 0)
		close(stat.listener);
	if (stat.wake >= 0)
		close(stat.wake);
	stat.listener = -1;
	stat.wake = -1;
}

static bool open_sockets(void)
{
	char name[REPORT_NAME_MAX];

	snprintf(name, sizeof(name), "weft/%ld", (long)getpid());
	stat.wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	stat.listener = report_listen(name);
	return stat.wake >= 0 && stat.listener >= 0;
}

/* On failure the counters are not available; the program goes on. */
static void start(void)
{
	sigset_t all, old;
	int error = -1;

	if (open_sockets()) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		error = pthread_create(&stat.thread, NULL, stat_run, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (error == 0)
		stat.state = STAT_RUNNING;
	else
		close_sockets();
}

void stat_add(struct weft_adapter *a)
{
	const char *wish = observe_wish("WEFT_STAT");

	list_init(&a->stat_link);
	if (wish && strcmp(wish, "off") == 0)
		return;
	pthread_mutex_lock(&stat.lock);
	/* The stopping thread does not know this adapter yet, so it does not wait for it. */
	while (stat.state == STAT_STOPPING)
		pthread_cond_wait(&stat.changed, &stat.lock);
	list_add_tail(&stat.adapters, &a->stat_link);
	if (stat.state == STAT_NONE)
		start();
	pthread_mutex_unlock(&stat.lock);
}

static void stop(void)
{
	const uint64_t one = 1;

	stat.state = STAT_STOPPING;
	(void)!write(stat.wake, &one, sizeof(one));
	pthread_mutex_unlock(&stat.lock);
	pthread_join(stat.thread, NULL);
	pthread_mutex_lock(&stat.lock);
	close_sockets();
	stat.state = STAT_NONE;
	pthread_cond_broadcast(&stat.changed);
}

void stat_remove(struct weft_adapter *a)
{
	pthread_mutex_lock(&stat.lock);
	list_remove(&a->stat_link);
	while (stat.busy == a)
		pthread_cond_wait(&stat.changed, &stat.lock);
	if (stat.state == STAT_RUNNING && list_is_empty(&stat.adapters))
		stop();
	pthread_mutex_unlock(&stat.lock);
}

static void lock(void)
{
	pthread_mutex_lock(&stat.lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&stat.lock);
}

static void lock_reset(void)
{
	pthread_mutex_init(&stat.lock, NULL);
	pthread_mutex_lock(&stat.lock);
}

static void forget(void)
{
	/* The names belong to the parent; a copy held here would outlive it. */
	close_sockets();
	pthread_cond_init(&stat.changed, NULL);
	while (!list_is_empty(&stat.adapters))
		(void)list_pop(&stat.adapters);
	stat.busy = NULL;
	stat.state = STAT_NONE;
}

const struct fork_part stat_fork_part = {
	.lock = lock,
	.unlock = unlock,
	.lock_reset = lock_reset,
	.forget = forget,
};
