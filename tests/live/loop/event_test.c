/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that wait for events while others cause them: no event is lost, none comes twice. */
#include <stdlib.h>
#include <string.h>

#include "live/verbs_fixture.h"

enum { ROUNDS = 300, SENDERS = 3, RECEIVES = SENDERS * ROUNDS, DEADLINES = 100 };

struct world {
	struct weft_adapter *adapter;
	struct node a[SENDERS], b[SENDERS];
	struct weft_srq *srq;
	atomic_uint turn, received, sent;
};

struct worker {
	struct world *world;
	uint32_t number;
};

static void world_run(struct world *w, void *(*run)(void *), uint32_t count)
{
	struct worker workers[THREADS_MAX];
	void *arguments[THREADS_MAX];

	for (uint32_t i = 0; i < count; i++) {
		workers[i] = (struct worker){ .world = w, .number = i };
		arguments[i] = &workers[i];
	}
	threads_run(run, arguments, count);
}

/* ---- One side sleeps in weft_event_next() until the other has sent -------------------------- */

/* Arms, polls once more (see weft_cq_arm), then sleeps: the way a program waits without polling. */
static void *sleeper_run(struct world *w)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct weft_completion c;
		struct weft_event event;
		bool has = false, has_event = true;

		while (!has) {
			HOLDS(weft_cq_arm(w->b[0].cq, WEFT_ARM_NEXT) == WEFT_OK);
			HOLDS(node_poll(w->b[0].cq, &c, &has));
			if (has)
				break;
			HOLDS(weft_event_next(w->adapter, PATIENCE_NS, &event, &has_event) ==
			      WEFT_OK);
			HOLDS(has_event && event.kind == WEFT_EVENT_COMPLETION);
			HOLDS(event.number == weft_cq_number(w->b[0].cq));
			HOLDS(node_poll(w->b[0].cq, &c, &has));
		}
		HOLDS(c.id == i && c.status == WEFT_SUCCESS && c.has_imm && c.imm == i);
		atomic_store(&w->turn, i + 1);
	}
	return NULL;
}

static void *waker_run(struct world *w)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND_IMM, i, NULL, &w->b[0]);
		struct weft_completion c;

		wr.imm = i;
		HOLDS(node_post(&w->a[0], &wr) && node_take(w->a[0].cq, &c) && c.id == i);
		while (i % 2 && atomic_load(&w->turn) <= i) /* every other time it races ahead */
			HOLDS(true);
	}
	return NULL;
}

static void *sleep_and_wake_run(void *argument)
{
	struct worker *me = argument;

	return me->number == 0 ? sleeper_run(me->world) : waker_run(me->world);
}

TEST(test_qp_10_a_sleeping_thread_is_woken_by_each_completion)
{
	static struct world w;
	struct weft_recv_wr recv = { 0 };
	struct weft_qp_options o = { .recv_max = ROUNDS };

	memset(&w, 0, sizeof(w));
	MUST(weft_adapter_open(NULL, &w.adapter));
	node_open(w.adapter, &w.a[0], NULL);
	node_open(w.adapter, &w.b[0], NULL);
	MUST(weft_qp_destroy(w.b[0].qp)); /* another one, with room for all receives */
	o.send_cq = o.recv_cq = w.b[0].cq;
	MUST(weft_qp_create(w.b[0].pd, &o, &w.b[0].qp));
	nodes_connect(&w.a[0], &w.b[0]);
	for (recv.id = 0; recv.id < ROUNDS; recv.id++)
		MUST(weft_qp_post_recv(w.b[0].qp, &recv, 1, NULL));
	world_run(&w, sleep_and_wake_run, 2);
	node_close(&w.a[0], NULL);
	node_close(&w.b[0], NULL);
	MUST(weft_adapter_close(w.adapter));
}

/* ---- Time passes while all threads sleep ---------------------------------------------------- */

/* The only thread there is waits for a Delay to end: the wait itself must make the progress. */
TEST(test_qp_07f_waiting_for_events_makes_progress)
{
	struct weft_adapter *adapter;
	struct node a, b;
	struct weft_send_wr wr;
	struct weft_event event;
	struct weft_completion c;
	bool has = false;

	MUST(weft_adapter_open(NULL, &adapter));
	node_open(adapter, &a, NULL);
	node_open(adapter, &b, NULL);
	nodes_connect(&a, &b);
	MUST(weft_event_next(adapter, 0, &event, &has));
	EXPECT(!has);
	MUST(weft_event_next(adapter, 1000, &event, &has)); /* nothing comes, and it returns */
	EXPECT(!has);
	for (uint64_t id = 0; id < 5; id++) {
		uint64_t start = thread_now_ns();

		wr = node_wr(WEFT_OP_DELAY, id, NULL, &b);
		wr.delay_ns = 2 * 1000 * 1000;
		MUST(weft_cq_arm(a.cq, WEFT_ARM_NEXT));
		MUST(weft_qp_post_send(a.qp, &wr, 1, NULL));
		MUST(weft_event_next(adapter, PATIENCE_NS, &event, &has));
		EXPECT(has && event.kind == WEFT_EVENT_COMPLETION);
		EXPECT(thread_now_ns() - start < PATIENCE_NS); /* not by giving up */
		REQUIRE(node_poll(a.cq, &c, &has));
		EXPECT(has && c.id == id);
	}
	node_close(&a, NULL);
	node_close(&b, NULL);
	MUST(weft_adapter_close(adapter));
}

/* The waiter is asleep, with nothing to wait for, when another thread gives it a deadline. */
static void *deadline_run(void *argument)
{
	struct worker *me = argument;
	struct world *w = me->world;

	for (uint32_t i = 0; i < DEADLINES; i++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_DELAY, i, NULL, &w->b[0]);
		struct weft_completion c;
		struct weft_event event;
		uint64_t start = thread_now_ns();
		bool has = false;

		if (me->number == 1) {
			while (atomic_load(&w->turn) < 2 * i + 1)
				HOLDS(true);
			wr.delay_ns = 100 * 1000;
			HOLDS(node_post(&w->a[0], &wr));
			while (atomic_load(&w->turn) < 2 * i + 2)
				HOLDS(true);
			continue;
		}
		HOLDS(weft_cq_arm(w->a[0].cq, WEFT_ARM_NEXT) == WEFT_OK);
		atomic_store(&w->turn, 2 * i + 1);
		HOLDS(weft_event_next(w->adapter, PATIENCE_NS, &event, &has) == WEFT_OK && has);
		HOLDS(thread_now_ns() - start < PATIENCE_NS); /* woken by its event */
		HOLDS(node_poll(w->a[0].cq, &c, &has) && has && c.id == i);
		atomic_store(&w->turn, 2 * i + 2);
	}
	return NULL;
}

TEST(test_qp_07f_a_sleeping_thread_learns_of_a_new_deadline)
{
	static struct world w;

	memset(&w, 0, sizeof(w));
	MUST(weft_adapter_open(NULL, &w.adapter));
	node_open(w.adapter, &w.a[0], NULL);
	node_open(w.adapter, &w.b[0], NULL);
	nodes_connect(&w.a[0], &w.b[0]);
	world_run(&w, deadline_run, 2);
	node_close(&w.a[0], NULL);
	node_close(&w.b[0], NULL);
	MUST(weft_adapter_close(w.adapter));
}

/* ---- Several senders, one shared receive queue, several who fill and empty it --------------- */

static void *srq_send(struct world *w, uint32_t number)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND_IMM, i, NULL, &w->b[number]);
		struct weft_completion c;

		wr.imm = number;
		HOLDS(node_post(&w->a[number], &wr));
		HOLDS(node_take(w->a[number].cq, &c) && c.id == i);
		atomic_fetch_add(&w->sent, 1);
	}
	return NULL;
}

/* Each posts one receive for each completion that it takes. */
static void *srq_receive(struct world *w)
{
	while (atomic_load(&w->received) < RECEIVES) {
		const struct weft_recv_wr recv = { .id = 1 };
		struct weft_completion c;
		bool has;

		HOLDS(node_poll(w->b[0].cq, &c, &has));
		if (!has)
			continue;
		HOLDS(c.status == WEFT_SUCCESS && c.has_imm && c.imm < SENDERS);
		HOLDS(c.qp_number == weft_qp_number(w->b[c.imm].qp));
		HOLDS(weft_srq_post_recv(w->srq, &recv, 1, NULL) == WEFT_OK);
		atomic_fetch_add(&w->received, 1);
	}
	return NULL;
}

static void *srq_run(void *argument)
{
	struct worker *me = argument;

	if (me->number < SENDERS)
		return srq_send(me->world, me->number);
	return srq_receive(me->world);
}

static void srq_world_open(struct world *w)
{
	memset(w, 0, sizeof(*w));
	MUST(weft_adapter_open(NULL, &w->adapter));
	for (int i = 0; i < SENDERS; i++) {
		struct weft_qp_options o = { 0 };

		node_open(w->adapter, &w->a[i], NULL);
		node_open(w->adapter, &w->b[i], i > 0 ? &w->b[0] : NULL);
		if (i == 0)
			MUST(weft_srq_create(w->b[0].pd, NULL, &w->srq));
		MUST(weft_qp_destroy(w->b[i].qp));
		o.send_cq = o.recv_cq = w->b[0].cq;
		o.srq = w->srq;
		MUST(weft_qp_create(w->b[0].pd, &o, &w->b[i].qp));
		nodes_connect(&w->a[i], &w->b[i]);
	}
}

TEST(test_qp_08_threads_share_a_receive_queue)
{
	static struct world w;
	const struct weft_recv_wr recv = { .id = 1 };

	srq_world_open(&w);
	MUST(weft_srq_post_recv(w.srq, &recv, 1, NULL)); /* one for all: they must wait for it */
	MUST(weft_srq_post_recv(w.srq, &recv, 1, NULL));
	world_run(&w, srq_run, SENDERS + 2);
	EXPECT_EQ(atomic_load(&w.sent), RECEIVES);
	EXPECT_EQ(atomic_load(&w.received), RECEIVES);
	for (int i = SENDERS; i-- > 0;) {
		node_close(&w.a[i], NULL);
		if (i > 0)
			node_close(&w.b[i], &w.b[0]);
	}
	MUST(weft_qp_destroy(w.b[0].qp));
	MUST(weft_srq_destroy(w.srq));
	w.b[0].qp = NULL;
	MUST(weft_region_deregister(w.b[0].pd, w.b[0].tag));
	MUST(weft_cq_destroy(w.b[0].cq));
	MUST(weft_pd_destroy(w.b[0].pd));
	free(w.b[0].memory);
	MUST(weft_adapter_close(w.adapter));
}
