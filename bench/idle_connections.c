/* SPDX-License-Identifier: BSD-2-Clause */
/* What connections cost that are there and do nothing. */
#include "idle_connections.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <weft/weft.h>

#include "child.h"

enum { WARM = 32, CONNECTIONS = 968, ALL = WARM + CONNECTIONS, POLLS = 100000, ROUNDS = 5 };

static const uint64_t run_ns_max = UINT64_C(20000000000);

struct side {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qps[ALL];
	int address[2]; /* a pipe: where the child listens */
};

static bool side_open(struct side *s)
{
	return weft_adapter_open(NULL, &s->adapter) == WEFT_OK &&
	       weft_pd_create(s->adapter, NULL, &s->pd) == WEFT_OK &&
	       weft_cq_create(s->adapter, NULL, &s->cq) == WEFT_OK;
}

static struct weft_qp *qp_open(struct side *s)
{
	const struct weft_qp_options options = { .send_cq = s->cq, .recv_cq = s->cq };
	struct weft_qp *qp = NULL;

	(void)weft_qp_create(s->pd, &options, &qp);
	return qp;
}

/* Waits until count queue pairs have been connected. */
static bool await(struct side *s, int count)
{
	struct weft_event event;
	bool has_event;

	while (count > 0) {
		if (weft_event_next(s->adapter, run_ns_max, &event, &has_event) != WEFT_OK ||
		    !has_event || event.kind == WEFT_EVENT_CONNECT_FAILED)
			return false;
		count -= event.kind == WEFT_EVENT_CONNECTED;
	}
	return true;
}

static bool take(struct side *s, struct weft_listener *listener)
{
	struct weft_request *request = NULL;
	struct weft_event event;
	struct weft_qp *qp = qp_open(s);
	bool has_event;

	while (qp && !request) {
		if (weft_listener_next(listener, &request) != WEFT_OK)
			return false;
		if (!request)
			(void)weft_event_next(s->adapter, 1000000, &event, &has_event);
	}
	return qp && weft_request_accept(request, qp, NULL) == WEFT_OK;
}

/* The other end: takes all of them, and stays until it is killed. */
static int serve(void *context)
{
	struct side *s = context;
	struct weft_address at = { .family = 4, .ip = { 127, 0, 0, 1 } };
	struct weft_listener *listener;

	if (!side_open(s) || weft_listener_open(s->adapter, &at, NULL, &listener) != WEFT_OK ||
	    weft_listener_address(listener, &at) != WEFT_OK ||
	    write(s->address[1], &at, sizeof(at)) != sizeof(at))
		return 1;
	for (int i = 0; i < ALL; i++) {
		if (!take(s, listener))
			return 1;
	}
	for (;;)
		pause();
}

double resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long all, resident = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%lu %lu", &all, &resident) != 2)
		resident = 0;
	fclose(f);
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static bool dial(struct side *s, const struct weft_address *to, int first, int count)
{
	for (int i = first; i < first + count; i++) {
		s->qps[i] = qp_open(s);
		if (!s->qps[i] || weft_qp_dial(s->qps[i], to, NULL) != WEFT_OK || !await(s, 1))
			return false;
	}
	return true;
}

static void side_close(struct side *s)
{
	for (int i = 0; i < ALL; i++) {
		if (s->qps[i])
			(void)weft_qp_destroy(s->qps[i]);
	}
	(void)weft_cq_destroy(s->cq);
	(void)weft_pd_destroy(s->pd);
	(void)weft_adapter_close(s->adapter);
}

static double bytes_each(struct side *s, const struct weft_address *at)
{
	double before;

	if (!dial(s, at, 0, WARM))
		return 0;
	before = resident_bytes();
	return dial(s, at, WARM, CONNECTIONS) ? (resident_bytes() - before) / CONNECTIONS : 0;
}

static double poll_ns(struct side *s)
{
	uint64_t start_ns = child_clock_ns();
	struct weft_completion c;
	uint32_t count;

	for (int i = 0; i < POLLS; i++)
		(void)weft_cq_poll(s->cq, &c, 1, &count);
	return (double)(child_clock_ns() - start_ns) / POLLS;
}

/* The best of each: others can only make it slower. */
static double poll_ratio(struct side *s, const struct weft_address *at)
{
	double one = 1e9, all = 1e9;

	if (!dial(s, at, 0, 1))
		return 0;
	for (int i = 0; i < ROUNDS; i++) {
		double ns = poll_ns(s);

		one = ns < one ? ns : one;
	}
	if (!dial(s, at, 1, ALL - 1))
		return 0;
	for (int i = 0; i < ROUNDS; i++) {
		double ns = poll_ns(s);

		all = ns < all ? ns : all;
	}
	return all / one;
}

/* Each connection takes a descriptor at both ends. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* With a process at the other end that accepts every connection. 0: it failed. */
static double with_peer(double (*measure)(struct side *s, const struct weft_address *at))
{
	struct side *s = calloc(1, sizeof(*s));
	struct weft_address at;
	struct child child;
	double value = 0;

	allow_descriptors();
	if (s && pipe(s->address) == 0) {
		if (child_fork(&child, serve, s) == 0) {
			if (read(s->address[0], &at, sizeof(at)) == sizeof(at) && side_open(s)) {
				value = measure(s, &at);
				side_close(s);
			}
			child_kill(&child);
		}
		close(s->address[0]);
		close(s->address[1]);
	}
	free(s);
	return value;
}

double idle_connection_bytes(void)
{
	return with_peer(bytes_each);
}

double idle_poll_ratio(void)
{
	return with_peer(poll_ratio);
}
