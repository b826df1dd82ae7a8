/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const uint64_t wait_max_ns = UINT64_C(10) * 1000 * 1000 * 1000;
static const uint64_t turn_ns = 1000 * 1000;
/*
 * Between sending its MPA reply and listening to the stream siw is deaf: what arrives then is not
 * looked at before something else arrives. The first request of a fast program would lie there.
 */
static const struct timespec settle = { .tv_nsec = 300 * 1000 * 1000 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 * 1000 * 1000 + (uint64_t)t.tv_nsec;
}

void peer_must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	printf("failed %s: %s\n", what, weft_reason_name(r));
	exit(1);
}

static void memory_make(struct peer *p, struct peer_memory *m, size_t bytes)
{
	struct weft_region_options options = {
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_BIND,
	};

	m->bytes = calloc(1, bytes);
	peer_must(m->bytes ? WEFT_OK : WEFT_R_NO_MEMORY, "memory");
	options.addr = (uintptr_t)m->bytes;
	peer_must(weft_region_register(p->pd, &options, &m->tag), "register");
}

static void memory_drop(struct peer *p, struct peer_memory *m)
{
	peer_must(weft_region_deregister(p->pd, m->tag), "deregister");
	free(m->bytes);
}

void peer_open(struct peer *p)
{
	struct weft_qp_options options = { 0 };

	setvbuf(stdout, NULL, _IOLBF, 0);
	*p = (struct peer){ .recv_bytes = PEER_MESSAGE_MAX };
	peer_must(weft_adapter_open(NULL, &p->adapter), "adapter");
	peer_must(weft_pd_create(p->adapter, NULL, &p->pd), "protection domain");
	peer_must(weft_cq_create(p->adapter, NULL, &p->send_cq), "completion queue");
	peer_must(weft_cq_create(p->adapter, NULL, &p->recv_cq), "completion queue");
	options.send_cq = p->send_cq;
	options.recv_cq = p->recv_cq;
	peer_must(weft_qp_create(p->pd, &options, &p->qp), "queue pair");
	/* Receives may be posted before there is a connection. */
	peer_must(weft_qp_modify(p->qp, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
				 WEFT_QP_STATE),
		  "to INIT");
	memory_make(p, &p->region, PEER_REGION_BYTES);
	memory_make(p, &p->local, PEER_MESSAGE_MAX);
	memory_make(p, &p->recvs, (size_t)PEER_RECVS_MAX * PEER_MESSAGE_MAX);
}

void peer_close(struct peer *p)
{
	peer_must(weft_qp_destroy(p->qp), "destroy queue pair");
	memory_drop(p, &p->region);
	memory_drop(p, &p->local);
	memory_drop(p, &p->recvs);
	peer_must(weft_cq_destroy(p->send_cq), "destroy completion queue");
	peer_must(weft_cq_destroy(p->recv_cq), "destroy completion queue");
	peer_must(weft_pd_destroy(p->pd), "destroy protection domain");
	peer_must(weft_adapter_close(p->adapter), "close adapter");
}

void peer_recv_post(struct peer *p, uint64_t slot)
{
	const struct weft_sge segment = {
		.addr = (uintptr_t)p->recvs.bytes + slot * PEER_MESSAGE_MAX,
		.length = p->recv_bytes,
		.tag = p->recvs.tag,
	};
	const struct weft_recv_wr wr = { .id = slot, .sges = &segment, .sge_count = 1 };

	peer_must(weft_qp_post_recv(p->qp, &wr, 1, NULL), "post receive");
}

/* ---- Connections ---------------------------------------------------------------------------- */

/* Waits for an event of these kinds; false if none comes in time. */
static bool event_await(struct peer *p, uint32_t kinds, struct weft_event *event)
{
	uint64_t end_ns = now_ns() + wait_max_ns;
	bool has_event;

	while (now_ns() < end_ns) {
		peer_must(weft_event_next(p->adapter, turn_ns, event, &has_event), "event");
		if (has_event && kinds & 1U << event->kind)
			return true;
		if (has_event)
			printf("event %s %s\n", weft_event_name(event->kind),
			       weft_reason_name(event->reason));
	}
	printf("no event came\n");
	p->is_bad = true;
	return false;
}

static enum weft_reason outcome_await(struct peer *p)
{
	uint32_t kinds = 1U << WEFT_EVENT_CONNECTED | 1U << WEFT_EVENT_CONNECT_FAILED;
	struct weft_event event;

	if (!event_await(p, kinds, &event))
		return WEFT_R_CONNECT_TIMEOUT;
	return event.kind == WEFT_EVENT_CONNECTED ? WEFT_OK : event.reason;
}

enum weft_reason peer_dial(struct peer *p, const char *to,
			   const struct weft_connect_options *options)
{
	struct weft_address address;
	enum weft_reason r;

	peer_must(weft_address_parse(to, &address), "address");
	peer_must(weft_qp_dial(p->qp, &address, options), "dial");
	r = outcome_await(p);
	if (r == WEFT_OK)
		nanosleep(&settle, NULL);
	return r;
}

struct weft_request *peer_listen(struct peer *p, const char *at)
{
	struct weft_request *request = NULL;
	struct weft_listener *listener;
	struct weft_address address;
	struct weft_event event;

	peer_must(weft_address_parse(at, &address), "address");
	peer_must(weft_listener_open(p->adapter, &address, NULL, &listener), "listen");
	printf("listening\n");
	if (event_await(p, 1U << WEFT_EVENT_REQUEST, &event))
		peer_must(weft_listener_next(listener, &request), "request");
	if (!request) {
		printf("no request came\n");
		exit(1);
	}
	peer_must(weft_listener_close(listener), "close listener");
	return request;
}

enum weft_reason peer_accept(struct peer *p, struct weft_request *request,
			     const struct weft_connect_options *options)
{
	peer_must(weft_request_accept(request, p->qp, options), "accept");
	return outcome_await(p);
}

void peer_print_terms(struct peer *p)
{
	struct weft_peer terms;

	peer_must(weft_qp_peer(p->qp, &terms), "peer");
	printf("connected crc %s rev %u ird %" PRIu32 " ord %" PRIu32 "\n",
	       terms.has_crc ? "on" : "off", terms.mpa_revision, terms.agreed_ird,
	       terms.agreed_ord);
}

/* ---- Requests and completions --------------------------------------------------------------- */

static bool is_over(struct peer *p)
{
	struct weft_qp_attr attr;

	peer_must(weft_qp_query(p->qp, &attr), "query");
	return attr.state == WEFT_QPS_ERROR;
}

/* Waits for one completion; has_end: it may be that none comes because all is over. */
static bool completion_await(struct peer *p, struct weft_cq *cq, bool has_end,
			     struct weft_completion *done)
{
	uint64_t end_ns = now_ns() + wait_max_ns;
	uint32_t count = 0;

	while (count == 0 && now_ns() < end_ns) {
		bool was_over = has_end && is_over(p);

		peer_must(weft_cq_poll(cq, done, 1, &count), "poll");
		if (count == 0 && was_over)
			return false;
	}
	if (count == 0) {
		printf("no completion came\n");
		p->is_bad = true;
	}
	return count > 0;
}

bool peer_do(struct peer *p, struct weft_send_wr *wr, struct weft_completion *done)
{
	enum weft_reason r;

	wr->flags |= WEFT_SIGNALLED;
	r = weft_qp_post_send(p->qp, wr, 1, NULL);
	if (r != WEFT_OK) {
		printf("not posted: %s\n", weft_reason_name(r));
		p->is_bad = true;
		return false;
	}
	return completion_await(p, p->send_cq, false, done);
}

bool peer_await_recv(struct peer *p, struct weft_completion *done)
{
	return completion_await(p, p->recv_cq, true, done);
}

void peer_await_end(struct peer *p)
{
	uint64_t end_ns = now_ns() + wait_max_ns;
	struct weft_qp_attr attr = { 0 };
	struct weft_event event;
	bool has_event = false;

	while (!is_over(p) && now_ns() < end_ns) {
		peer_must(weft_event_next(p->adapter, turn_ns, &event, &has_event), "event");
		if (has_event)
			printf("event %s %s\n", weft_event_name(event.kind),
			       weft_reason_name(event.reason));
	}
	if (!is_over(p)) {
		printf("no end came\n");
		p->is_bad = true;
	}
	do {
		peer_must(weft_event_next(p->adapter, 0, &event, &has_event), "event");
		if (has_event)
			printf("event %s %s\n", weft_event_name(event.kind),
			       weft_reason_name(event.reason));
	} while (has_event);
	peer_must(weft_qp_query(p->qp, &attr), "query");
	printf("end %s\n", weft_reason_name(attr.reason));
}
