/* SPDX-License-Identifier: BSD-2-Clause */
#include "live/verbs_fixture.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "driver/stat/stat_report.h"

static pthread_mutex_t failure_lock = PTHREAD_MUTEX_INITIALIZER;
static char failure[512];
static atomic_bool has_failed;

bool thread_holds(bool is_true, const char *file, int line, const char *what)
{
	if (is_true)
		return !atomic_load(&has_failed); /* when one has failed the others stop too */
	pthread_mutex_lock(&failure_lock);
	if (!atomic_exchange(&has_failed, true))
		snprintf(failure, sizeof(failure), "%s:%d: %s", file, line, what);
	pthread_mutex_unlock(&failure_lock);
	return false;
}

void threads_run(void *(*run)(void *), void **arguments, uint32_t count)
{
	pthread_t threads[THREADS_MAX];

	REQUIRE(count <= THREADS_MAX);
	atomic_store(&has_failed, false);
	for (uint32_t i = 0; i < count; i++)
		REQUIRE(pthread_create(&threads[i], NULL, run, arguments[i]) == 0);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	if (!harness_true(__FILE__, __LINE__, failure, !atomic_load(&has_failed)))
		harness_leave();
}

void node_be_patient(struct node *n)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = PATIENCE_NS };

	MUST(weft_qp_modify(n->qp, &attr, WEFT_QP_RECEIVER_WAIT));
}

/* The queue pair of a node that has all else. */
static void node_open_qp(struct node *n)
{
	const struct weft_qp_options qp = { .send_cq = n->cq, .recv_cq = n->cq };

	MUST(weft_qp_create(n->pd, &qp, &n->qp));
	node_be_patient(n);
}

void node_open_sized(struct weft_adapter *adapter, struct node *n, uint32_t bytes)
{
	struct weft_region_options region = {
		.length = bytes,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC | WEFT_BIND,
	};

	MUST(weft_pd_create(adapter, NULL, &n->pd));
	MUST(weft_cq_create(adapter, &(struct weft_cq_options){ .entries_max = 8192 }, &n->cq));
	n->memory = aligned_alloc(64, bytes);
	REQUIRE(n->memory);
	for (uint32_t i = 0; i < bytes; i++)
		n->memory[i] = 0;
	region.addr = (uintptr_t)n->memory;
	MUST(weft_region_register(n->pd, &region, &n->tag));
	node_open_qp(n);
}

void node_open(struct weft_adapter *adapter, struct node *n, const struct node *beside)
{
	if (!beside) {
		node_open_sized(adapter, n, NODE_BYTES);
		return;
	}
	*n = *beside;
	node_open_qp(n);
}

void nodes_connect(struct node *a, struct node *b)
{
	MUST(weft_qp_connect(a->qp, b->qp));
}

void node_close(struct node *n, const struct node *beside)
{
	MUST(weft_qp_destroy(n->qp));
	if (beside)
		return;
	MUST(weft_region_deregister(n->pd, n->tag));
	MUST(weft_cq_destroy(n->cq));
	MUST(weft_pd_destroy(n->pd));
	free(n->memory);
}

struct weft_sge node_seg(const struct node *n, uint64_t offset, uint32_t length)
{
	return (struct weft_sge){
		.addr = (uintptr_t)n->memory + offset,
		.length = length,
		.tag = n->tag,
	};
}

struct weft_send_wr node_wr(enum weft_opcode opcode, uint64_t id, const struct weft_sge *s,
			    const struct node *to)
{
	return (struct weft_send_wr){
		.id = id,
		.opcode = opcode,
		.flags = WEFT_SIGNALLED,
		.sges = s,
		.sge_count = s ? 1 : 0,
		.remote_tag = to->tag,
		.remote_addr = (uintptr_t)to->memory,
	};
}

uint64_t thread_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

bool node_post(struct node *n, struct weft_send_wr *wr)
{
	uint64_t start = thread_now_ns();
	enum weft_reason r;

	while ((r = weft_qp_post_send(n->qp, wr, 1, NULL)) == WEFT_R_QUEUE_FULL) {
		if (thread_now_ns() - start > PATIENCE_NS)
			return false;
		sched_yield();
	}
	return r == WEFT_OK;
}

bool node_poll(struct weft_cq *cq, struct weft_completion *c, bool *has_completion)
{
	uint32_t count = 0;
	enum weft_reason r = weft_cq_poll(cq, c, 1, &count);

	*has_completion = count == 1;
	return r == WEFT_OK;
}

struct weft_completion node_next(struct weft_cq *cq)
{
	uint64_t end_ns = thread_now_ns() + PATIENCE_NS;
	struct weft_completion c = { 0 };
	bool has = false;

	while (!has) {
		REQUIRE(thread_now_ns() < end_ns);
		REQUIRE(node_poll(cq, &c, &has));
	}
	return c;
}

bool node_take(struct weft_cq *cq, struct weft_completion *c)
{
	uint64_t start = thread_now_ns();
	bool has_completion = false;

	while (!has_completion) {
		if (!node_poll(cq, c, &has_completion) || thread_now_ns() - start > PATIENCE_NS) {
			harness_note("no completion came");
			return false;
		}
		if (!has_completion)
			sched_yield();
	}
	if (c->status == WEFT_SUCCESS)
		return true;
	harness_note("after %.3f s: %s, %s", (double)(thread_now_ns() - start) / 1e9,
		     weft_status_name(c->status), weft_reason_name(c->reason));
	return false;
}

/* ---- Two adapters, one connection ----------------------------------------------------------- */

const struct weft_adapter_options node_tables = { .tags_max = 4096, .translations_max = 1 << 16 };

void tcp_end_open_with(struct tcp_end *e, const struct weft_adapter_options *o, uint32_t bytes)
{
	const struct weft_address any = { .family = 4, .ip = { 127, 0, 0, 1 } };

	MUST(weft_adapter_open(o, &e->adapter));
	node_open_sized(e->adapter, &e->node, bytes);
	MUST(weft_listener_open(e->adapter, &any, NULL, &e->listener));
	MUST(weft_listener_address(e->listener, &e->at));
}

void tcp_end_open(struct tcp_end *e)
{
	tcp_end_open_with(e, &node_tables, NODE_BYTES);
}

void tcp_end_close(struct tcp_end *e)
{
	MUST(weft_listener_close(e->listener));
	node_close(&e->node, NULL);
	MUST(weft_adapter_close(e->adapter));
}

enum weft_reason tcp_end_await(struct tcp_end *e, enum weft_event_kind kind)
{
	struct weft_event event;
	bool has_event;

	for (;;) {
		MUST(weft_event_next(e->adapter, PATIENCE_NS, &event, &has_event));
		REQUIRE(has_event);
		if (event.kind == kind)
			return event.reason;
		REQUIRE(event.kind != WEFT_EVENT_CONNECT_FAILED);
	}
}

struct weft_request *tcp_end_request(struct tcp_end *e)
{
	struct weft_request *request;

	MUST(weft_listener_next(e->listener, &request));
	REQUIRE(request);
	return request;
}

void tcp_ends_connect(struct tcp_end *near, struct tcp_end *far,
		      const struct weft_connect_options *options)
{
	MUST(weft_qp_dial(near->node.qp, &far->at, options));
	tcp_end_await(far, WEFT_EVENT_REQUEST);
	MUST(weft_request_accept(tcp_end_request(far), far->node.qp, options));
	tcp_end_await(far, WEFT_EVENT_CONNECTED);
	tcp_end_await(near, WEFT_EVENT_CONNECTED);
}

char *report_of(struct weft_adapter *a)
{
	struct stat_adapter seen = { 0 };
	char *text = NULL;
	size_t length;
	FILE *to = open_memstream(&text, &length);

	REQUIRE(to);
	adapter_enter(a);
	REQUIRE(report_look(a, &seen));
	adapter_leave(a);
	report_adapter(to, &seen);
	report_free(&seen);
	REQUIRE(fclose(to) == 0);
	return text;
}
