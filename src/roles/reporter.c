/* SPDX-License-Identifier: BSD-2-Clause */
#include "roles/reporter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "driver/sys/report_socket.h"

enum { CLIENTS_MAX = 4 };

static const uint64_t client_ns = 1000000000, again_ns = 200 * 1000000;

struct reporter {
	char *(*text)(void *of, size_t *length);
	void *of;
	int listener, epoll;
	uint64_t again_ns; /* when it listens again; 0: it does */
	bool is_used[CLIENTS_MAX];
	struct report_client clients[CLIENTS_MAX];
};

static bool watch(const struct reporter *r, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events };

	return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e) == 0;
}

struct reporter *reporter_open(const char *service, char *(*text)(void *of, size_t *length),
			       void *of)
{
	struct reporter *r = calloc(1, sizeof(*r));
	char name[REPORT_NAME_MAX];

	if (!r)
		return NULL;
	*r = (struct reporter){ .text = text, .of = of, .listener = -1 };
	snprintf(name, sizeof(name), "weft/%s/%ld", service, (long)getpid());
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (r->epoll >= 0)
		r->listener = report_listen(name);
	if (r->listener >= 0 && watch(r, r->listener, EPOLLIN))
		return r;
	reporter_close(r);
	return NULL;
}

static void client_close(struct reporter *r, uint32_t n)
{
	report_client_close(&r->clients[n]);
	r->is_used[n] = false;
}

void reporter_close(struct reporter *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < CLIENTS_MAX; i++) {
		if (r->is_used[i])
			client_close(r, i);
	}
	if (r->listener >= 0)
		close(r->listener);
	if (r->epoll >= 0)
		close(r->epoll);
	free(r);
}

int reporter_descriptor(const struct reporter *r)
{
	return r->epoll;
}

static uint32_t place(struct reporter *r)
{
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < CLIENTS_MAX; i++) {
		if (!r->is_used[i])
			return i;
		if (r->clients[i].end_ns < r->clients[oldest].end_ns)
			oldest = i;
	}
	client_close(r, oldest);
	return oldest;
}

static void accept_all(struct reporter *r, uint64_t now_ns)
{
	struct report_client c;
	int error;

	/* Bound: the backlog. */
	while ((error = report_client_accept(r->listener, &c)) == 0) {
		uint32_t n = place(r);

		c.end_ns = now_ns + client_ns;
		if (c.is_same_user)
			c.text = r->text(r->of, &c.length);
		r->clients[n] = c;
		r->is_used[n] = true;
		if (!c.text || !report_client_send(&r->clients[n]) || !watch(r, c.fd, EPOLLOUT))
			client_close(r, n);
	}
	/* Without descriptors those that wait would keep the listener readable. */
	if (error != -EAGAIN && r->again_ns == 0) {
		(void)epoll_ctl(r->epoll, EPOLL_CTL_DEL, r->listener, NULL);
		r->again_ns = now_ns + again_ns;
	}
}

void reporter_serve(struct reporter *r, uint64_t now_ns)
{
	for (uint32_t i = 0; i < CLIENTS_MAX; i++) {
		if (r->is_used[i] && !report_client_send(&r->clients[i]))
			client_close(r, i);
	}
	accept_all(r, now_ns);
}

uint64_t reporter_expire(struct reporter *r, uint64_t now_ns)
{
	uint64_t due_ns = UINT64_MAX;

	if (r->again_ns != 0 && r->again_ns <= now_ns && watch(r, r->listener, EPOLLIN))
		r->again_ns = 0;
	if (r->again_ns != 0)
		due_ns = r->again_ns > now_ns ? r->again_ns : now_ns + again_ns;
	for (uint32_t i = 0; i < CLIENTS_MAX; i++) {
		uint64_t end_ns = r->clients[i].end_ns;

		if (!r->is_used[i])
			continue;
		if (end_ns <= now_ns)
			client_close(r, i);
		else if (end_ns < due_ns)
			due_ns = end_ns;
	}
	return due_ns;
}
