/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that bind, invalidate, register and create while others move bytes. */
#include <sched.h>
#include <string.h>

#include "live/verbs_fixture.h"

enum { THREADS = 4, ROUNDS = 200 };

/* One connection, whose target's table is churned by all threads. */
struct world {
	struct weft_adapter *adapter;
	struct node a[THREADS], b[THREADS]; /* b share one domain, queue and memory */
};

struct worker {
	struct world *world;
	uint32_t number;
};

static void world_open(struct world *w)
{
	MUST(weft_adapter_open(NULL, &w->adapter));
	for (uint32_t i = 0; i < THREADS; i++) {
		node_open(w->adapter, &w->a[i], NULL);
		node_open(w->adapter, &w->b[i], i > 0 ? &w->b[0] : NULL);
		nodes_connect(&w->a[i], &w->b[i]);
	}
}

static void world_close(struct world *w)
{
	struct weft_usage usage;

	for (uint32_t i = THREADS; i-- > 0;) {
		node_close(&w->a[i], NULL);
		node_close(&w->b[i], i > 0 ? &w->b[0] : NULL);
	}
	MUST(weft_adapter_query(w->adapter, &usage));
	REQUIRE(usage.regions == 0 && usage.windows == 0 && usage.tags_reserved == 0);
	REQUIRE(usage.pds == 0 && usage.cqs == 0 && usage.qps == 0 && usage.translations == 0);
	MUST(weft_adapter_close(w->adapter));
}

static void world_run(struct world *w, void *(*run)(void *))
{
	struct worker workers[THREADS];
	void *arguments[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .world = w, .number = i };
		arguments[i] = &workers[i];
	}
	threads_run(run, arguments, THREADS);
}

/* Binds a window without a queue, has it written through, unbinds; each over bytes of its own. */
static void *bind_run(void *argument)
{
	struct worker *me = argument;
	struct node *a = &me->world->a[me->number], *b = &me->world->b[me->number];
	uint64_t offset = me->number * 1024;
	struct weft_bind bind = {
		.region_tag = b->tag,
		.addr = (uintptr_t)b->memory + offset,
		.length = 256,
		.rights = WEFT_REMOTE_WRITE,
	};

	HOLDS(weft_window_alloc(b->pd, &bind.window_tag) == WEFT_OK);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct weft_sge s = node_seg(a, 0, 256);
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, i, &s, b);
		struct weft_completion c;
		struct weft_usage usage;

		memset(a->memory, (int)(i + me->number), 256);
		HOLDS(weft_window_bind(b->pd, &bind) == WEFT_OK);
		wr.remote_tag = bind.tag;
		wr.remote_addr = bind.addr;
		HOLDS(node_post(a, &wr) && node_take(a->cq, &c) && c.id == i);
		HOLDS(memcmp(a->memory, b->memory + offset, 256) == 0);
		HOLDS(weft_adapter_query(me->world->adapter, &usage) == WEFT_OK);
		HOLDS(usage.windows >= 1 && usage.windows <= THREADS);
		HOLDS(weft_window_unbind(b->pd, bind.tag) == WEFT_OK);
	}
	HOLDS(weft_window_free(b->pd, bind.tag) == WEFT_OK);
	return NULL;
}

TEST(test_rkey_05_threads_bind_windows_of_one_domain)
{
	static struct world w;

	world_open(&w);
	world_run(&w, bind_run);
	world_close(&w);
}

/* The same through the send queue of one's own end, invalidated by the peer's Send. */
static void *queue_bind_run(void *argument)
{
	struct worker *me = argument;
	struct node *a = &me->world->a[me->number], *b = &me->world->b[me->number];
	struct weft_send_wr wr = { 0 };
	uint32_t window, tag;

	HOLDS(weft_window_alloc(a->pd, &window) == WEFT_OK);
	tag = window;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct weft_recv_wr recv = { .id = 1000 + i };
		struct weft_completion c;

		wr = node_wr(WEFT_OP_BIND, i, NULL, a);
		wr.bind = (struct weft_bind){
			.window_tag = window,
			.region_tag = a->tag,
			.addr = (uintptr_t)a->memory,
			.length = 64,
			.rights = WEFT_REMOTE_READ,
			.is_qp_bound = true,
		};
		HOLDS(node_post(a, &wr) && node_take(a->cq, &c) && c.id == i);
		HOLDS(wr.bind.tag != tag);
		tag = wr.bind.tag;
		HOLDS(weft_qp_post_recv(a->qp, &recv, 1, NULL) == WEFT_OK);
		wr = node_wr(WEFT_OP_SEND_INVALIDATE, i, NULL, a);
		wr.invalidate_tag = tag;
		wr.flags = 0; /* b's completion queue is shared by all threads */
		HOLDS(node_post(b, &wr) && node_take(a->cq, &c));
		HOLDS(c.id == 1000 + i && c.has_invalidated && c.invalidated_tag == tag);
		HOLDS(weft_window_unbind(a->pd, tag) == WEFT_R_WINDOW_UNBOUND);
	}
	HOLDS(weft_window_free(a->pd, tag) == WEFT_OK);
	return NULL;
}

TEST(test_sqr_09_threads_bind_and_invalidate_through_queues)
{
	static struct world w;

	world_open(&w);
	world_run(&w, queue_bind_run);
	world_close(&w);
}

/* Objects come and go while the other threads' connections carry on. */
static void *create_run(void *argument)
{
	struct worker *me = argument;
	struct world *w = me->world;
	struct node *a = &w->a[me->number], *b = &w->b[me->number];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		const struct weft_sge s = node_seg(a, 0, 8);
		const struct weft_qp_options o = { .send_cq = a->cq, .recv_cq = a->cq };
		struct weft_send_wr wr = node_wr(WEFT_OP_WRITE, i, &s, b);
		struct weft_region_options region = { .length = 100, .rights = WEFT_LOCAL_READ };
		struct weft_completion c;
		struct weft_qp *x, *y;
		uint32_t tag;

		wr.remote_addr += 8 * me->number;
		region.addr = (uintptr_t)a->memory;
		HOLDS(weft_region_register(a->pd, &region, &tag) == WEFT_OK);
		HOLDS(weft_qp_create(a->pd, &o, &x) == WEFT_OK);
		HOLDS(weft_qp_create(a->pd, &o, &y) == WEFT_OK);
		HOLDS(weft_qp_connect(x, y) == WEFT_OK);
		HOLDS(node_post(a, &wr) && node_take(a->cq, &c) && c.id == i);
		wr = node_wr(WEFT_OP_DELAY, 5, NULL, b);
		wr.delay_ns = UINT64_MAX; /* for ever: it is flushed when the peer goes */
		HOLDS(weft_qp_post_send(x, &wr, 1, NULL) == WEFT_OK);
		HOLDS(weft_qp_destroy(y) == WEFT_OK);
		HOLDS(!node_take(a->cq, &c) && c.id == 5 && c.status == WEFT_ERR_FLUSHED);
		HOLDS(weft_qp_destroy(x) == WEFT_OK);
		HOLDS(weft_region_deregister(a->pd, tag) == WEFT_OK);
	}
	return NULL;
}

TEST(test_qp_18_threads_create_and_destroy_beside_each_other)
{
	static struct world w;

	world_open(&w);
	world_run(&w, create_run);
	world_close(&w);
}
