/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The adapter's own thread, over real connections: it goes on where the program's calls stop, and
 * is in time. The program's own part is in these tests to make no call that would do the work.
 */
#include <sched.h>
#include <stdlib.h>

#include "driver/tcp/link.h"
#include "live/verbs_fixture.h"

enum { MANY = 8000, POLLS = 200, TRIES = 10 };

static const uint64_t ms = 1000000;

/* The program has other things to do, for so long. */
static void compute(uint64_t ns)
{
	uint64_t start = thread_now_ns();

	while (thread_now_ns() - start < ns)
		sched_yield();
}

/* Reads with both ends polling, for so long that their threads stand by. */
static void read_polling(struct node *near, struct node *far)
{
	const struct weft_sge s = node_seg(near, 0, 8);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 0, &s, far);
	uint64_t until = thread_now_ns() + 10 * ms;
	struct weft_completion c;
	bool has;

	while (thread_now_ns() < until) {
		REQUIRE(node_post(near, &read));
		do {
			REQUIRE(node_poll(far->cq, &c, &has) && !has);
			REQUIRE(node_poll(near->cq, &c, &has));
		} while (!has);
		REQUIRE(c.status == WEFT_SUCCESS);
	}
}

/* How long until the send queue is empty, seen without making progress. */
static uint64_t time_to_empty(const struct node *n)
{
	uint64_t start = thread_now_ns();
	struct weft_qp_attr attr;

	do {
		MUST(weft_qp_query(n->qp, &attr));
		sched_yield();
	} while (attr.send_queued > 0 && thread_now_ns() - start < PATIENCE_NS);
	return thread_now_ns() - start;
}

/* ---- What a call could not finish ----------------------------------------------------------- */

static void make_deep(struct node *n)
{
	const struct weft_qp_options deep = {
		.send_cq = n->cq,
		.recv_cq = n->cq,
		.send_max = MANY,
	};

	MUST(weft_qp_destroy(n->qp));
	MUST(weft_qp_create(n->pd, &deep, &n->qp));
}

static void post_many(struct node *n, const struct node *to)
{
	const struct weft_sge s = node_seg(n, 0, 8);
	struct weft_send_wr *wrs = calloc(MANY, sizeof(*wrs));

	REQUIRE(wrs);
	for (uint32_t i = 0; i < MANY; i++) {
		wrs[i] = node_wr(WEFT_OP_WRITE, i, &s, to);
		wrs[i].flags = i + 1 == MANY ? WEFT_SIGNALLED : 0;
	}
	MUST(weft_qp_post_send(n->qp, wrs, MANY, NULL));
	free(wrs);
}

/* How long it takes a program that polls. */
static uint64_t time_polled(struct tcp_end *near, const struct tcp_end *far)
{
	uint64_t start = thread_now_ns();
	struct weft_completion c;

	post_many(&near->node, &far->node);
	REQUIRE(node_take(near->node.cq, &c));
	return thread_now_ns() - start;
}

/* How long until one who sleeps hears that all was sent. */
static uint64_t time_to_event(struct tcp_end *near, const struct tcp_end *far)
{
	struct weft_completion c;
	struct weft_event event;
	uint64_t start, took;
	bool has_event;

	compute(20 * ms); /* the thread sleeps */
	MUST(weft_cq_arm(near->node.cq, WEFT_ARM_NEXT));
	start = thread_now_ns();
	post_many(&near->node, &far->node);
	MUST(weft_event_next(near->adapter, PATIENCE_NS, &event, &has_event));
	took = thread_now_ns() - start;
	REQUIRE(has_event && event.kind == WEFT_EVENT_COMPLETION);
	REQUIRE(node_take(near->node.cq, &c));
	return took;
}

/*
 * More than one call sends: the rest goes without another one. By itself the thread would look once
 * in a second. The machine may be slow, but not each time.
 */
TEST(test_qp_07c_requests_that_a_call_left_go_on)
{
	bool is_heard = false, is_empty = false;
	struct weft_completion c;
	struct tcp_end near, far;

	tcp_end_open(&near);
	tcp_end_open(&far);
	make_deep(&near.node);
	tcp_ends_connect(&near, &far, NULL);
	for (int i = 0; i < TRIES && !is_heard; i++) {
		uint64_t soon = 800 * ms + 2 * time_polled(&near, &far);

		is_heard = time_to_event(&near, &far) < soon;
	}
	EXPECT(is_heard);
	/* And with no waiting thread, after a poll. */
	for (int i = 0; i < TRIES && !is_empty; i++) {
		uint64_t soon = 800 * ms + 2 * time_polled(&near, &far);

		read_polling(&near.node, &far.node);
		post_many(&near.node, &far.node);
		is_empty = time_to_empty(&near.node) < soon;
		REQUIRE(node_take(near.node.cq, &c));
	}
	EXPECT(is_empty);
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* ---- Requests that wait for each other ------------------------------------------------------ */

enum { BURST = 20, BURSTS = 50 };

static void post_writes(struct node *near, struct node *far, int count)
{
	const struct weft_sge s = node_seg(near, 0, 8);
	struct weft_send_wr write = node_wr(WEFT_OP_WRITE, 0, &s, far);

	for (int i = 0; i < count; i++)
		REQUIRE(node_post(near, &write));
}

/* System calls that so many bursts take, each followed by polls. */
static uint64_t calls_of_bursts(struct tcp_end *near, struct tcp_end *far)
{
	struct weft_traffic before, after;
	struct weft_completion c;
	bool has;

	read_polling(&near->node, &far->node); /* the thread leaves it to the program */
	MUST(weft_qp_traffic(near->node.qp, &before));
	for (int i = 0; i < BURSTS; i++) {
		post_writes(&near->node, &far->node, BURST);
		for (int ended = 0; ended < BURST; ended += has)
			REQUIRE(node_poll(near->node.cq, &c, &has));
	}
	MUST(weft_qp_traffic(near->node.qp, &after));
	REQUIRE(after.messages_out - before.messages_out == BURST * BURSTS);
	return after.calls_out - before.calls_out;
}

/* A program that is kept from running does not poll, and the thread helps out: then once more. */
TEST(test_qp_07b_small_requests_posted_one_by_one_are_sent_together)
{
	uint64_t until = thread_now_ns() + PATIENCE_NS, calls;
	struct tcp_end near, far;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	do
		calls = calls_of_bursts(&near, &far);
	while (calls >= BURST * BURSTS / 2 && thread_now_ns() < until);
	EXPECT(calls < BURST * BURSTS / 2);
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* The last of them has no poll to follow it. */
TEST(test_qp_07b_requests_that_wait_for_others_go_without_polls)
{
	struct tcp_end near, far;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	for (int i = 1; i <= BURSTS; i++) {
		struct weft_completion c;
		bool has;

		read_polling(&near.node, &far.node);
		post_writes(&near.node, &far.node, 1 + i % BURST);
		EXPECT(time_to_empty(&near.node) < PATIENCE_NS);
		for (int ended = 0; ended < 1 + i % BURST; ended += has)
			REQUIRE(node_poll(near.node.cq, &c, &has));
	}
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* They were posted before: so they are sent before. */
TEST(test_qp_07b_requests_that_wait_for_others_go_before_the_end)
{
	for (int how = 0; how < 3; how++) {
		const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
		struct weft_traffic before, after;
		struct tcp_end near, far;

		tcp_end_open(&near);
		tcp_end_open(&far);
		tcp_ends_connect(&near, &far, NULL);
		read_polling(&near.node, &far.node);
		MUST(weft_qp_traffic(far.node.qp, &before));
		post_writes(&near.node, &far.node, BURST);
		if (how == 0)
			MUST(weft_qp_disconnect(near.node.qp));
		else if (how == 1)
			MUST(weft_qp_modify(near.node.qp, &error, WEFT_QP_STATE));
		else
			MUST(weft_qp_destroy(near.node.qp));
		(void)tcp_end_await(&far, WEFT_EVENT_QP_ERROR);
		MUST(weft_qp_traffic(far.node.qp, &after));
		EXPECT(after.messages_in - before.messages_in >= BURST);
		if (how == 2)
			MUST(weft_qp_create(near.node.pd,
					    &(struct weft_qp_options){ .send_cq = near.node.cq,
								       .recv_cq = near.node.cq },
					    &near.node.qp));
		tcp_end_close(&near);
		tcp_end_close(&far);
	}
}

/* ---- Deadlines ------------------------------------------------------------------------------ */

/* Whether the thread will look in time: it stands by and looks soon, or sleeps no longer. */
static bool is_deadline_known(struct tcp_end *e)
{
	const struct net *net = e->adapter->net;
	bool is;

	adapter_enter(e->adapter);
	is = progress_is_aside(net) || net->is_woken ||
	     net->due_seen <= adapter_due(&e->adapter->core);
	adapter_leave(e->adapter);
	return is;
}

/* A poll right after the call that made a deadline must not keep the thread from knowing of it. */
TEST(test_qp_07f_a_delay_ends_though_polling_stopped)
{
	struct tcp_end e;
	struct node peer;
	struct weft_send_wr delay = { .opcode = WEFT_OP_DELAY, .delay_ns = 20 * ms };

	tcp_end_open(&e);
	node_open(e.adapter, &peer, &e.node);
	nodes_connect(&e.node, &peer);
	for (int i = 0; i < 4; i++) {
		struct weft_completion c;
		bool has;

		compute(20 * ms); /* the thread sleeps: there is nothing to come */
		MUST(weft_qp_post_send(e.node.qp, &delay, 1, NULL));
		for (int k = 0; k < POLLS; k++)
			REQUIRE(node_poll(e.node.cq, &c, &has) && !has);
		EXPECT(is_deadline_known(&e));
		EXPECT(time_to_empty(&e.node) < PATIENCE_NS);
	}
	node_close(&peer, &e.node);
	tcp_end_close(&e);
}

/* RFC 6581 section 9: the time that the first message may take, if it may take any. */
TEST(test_rfc6581_9_a_set_up_may_take_for_ever)
{
	const struct weft_connect_options patient = { .timeout_ns = UINT64_MAX };
	struct tcp_end near, far;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, &patient);
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* ---- Peers of a program that computes ------------------------------------------------------- */

/* Awaits that the thread has taken over, without a call that would help it. */
static bool thread_takes_over(struct tcp_end *e, bool *is_watched)
{
	uint64_t start = thread_now_ns();
	bool is_standing_by = true;

	while (is_standing_by && thread_now_ns() - start < PATIENCE_NS) {
		const struct net *net = e->adapter->net;

		adapter_enter(e->adapter);
		is_standing_by = progress_is_aside(net);
		*is_watched = true;
		for (struct list *l = tcp_of(net)->links.next; l != &tcp_of(net)->links;
		     l = l->next)
			*is_watched &= CONTAINER_OF(l, struct link, all_link)->watch.interest != 0;
		adapter_leave(e->adapter);
		sched_yield();
	}
	return !is_standing_by;
}

/* A busy connection is not watched while the program polls; it is when the program has stopped. */
TEST(test_iwarp_07_a_read_is_answered_while_the_program_computes)
{
	struct tcp_end near, far;
	struct weft_sge s;
	struct weft_send_wr read;
	bool is_watched = false;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	s = node_seg(&near.node, 0, 8);
	read = node_wr(WEFT_OP_READ, 0, &s, &far.node);
	for (int i = 0; i < 20; i++) {
		struct weft_completion c;

		read_polling(&near.node, &far.node);
		/* Now only the near end. */
		REQUIRE(node_post(&near.node, &read));
		REQUIRE(node_take(near.node.cq, &c));
		EXPECT(thread_takes_over(&far, &is_watched));
		EXPECT(is_watched);
	}
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* It finds what it wants at every poll; what its peer writes to its memory comes all the same. */
TEST(test_iwarp_07_who_finds_all_it_wants_still_hears_of_its_peer)
{
	enum { WRITES = 3200, ASKED = WRITES / 64 };
	struct weft_traffic before, after;
	struct tcp_end near, far;

	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
	read_polling(&near.node, &far.node); /* the thread leaves it to the program */
	MUST(weft_qp_traffic(near.node.qp, &before));
	for (int i = 0; i < WRITES; i++) {
		struct weft_completion c;

		post_writes(&near.node, &far.node, 1);
		REQUIRE(node_take(near.node.cq, &c));
	}
	MUST(weft_qp_traffic(near.node.qp, &after));
	EXPECT(after.calls_in - before.calls_in >= ASKED);
	tcp_end_close(&near);
	tcp_end_close(&far);
}

/* How often the far end polls, every 3 ms, until the Read has ended. */
static uint32_t polls_until_read(struct node *near, struct node *far)
{
	const struct weft_sge s = node_seg(near, 0, 8);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 0, &s, far);
	struct weft_completion c;
	uint32_t polls = 0;
	bool has = false;

	REQUIRE(node_post(near, &read));
	while (!has && polls < POLLS) {
		uint64_t until = thread_now_ns() + 3 * ms;

		REQUIRE(node_poll(far->cq, &c, &has) && !has);
		polls++;
		while (!has && thread_now_ns() < until)
			REQUIRE(node_poll(near->cq, &c, &has));
	}
	REQUIRE(has && c.status == WEFT_SUCCESS);
	return polls;
}

/* One that was busy once is asked at every poll; the others are not to wait for many of them. */
TEST(test_iwarp_07_a_read_is_answered_by_a_program_that_polls_seldom)
{
	enum { PAIRS = 6 };
	struct tcp_end near, far;
	struct node a[PAIRS], b[PAIRS];
	uint32_t polls = 0;

	tcp_end_open(&near);
	tcp_end_open(&far);
	for (int i = 0; i < PAIRS; i++) {
		struct tcp_end x = near, y = far;

		node_open(near.adapter, &a[i], &near.node);
		node_open(far.adapter, &b[i], &far.node);
		x.node = a[i];
		y.node = b[i];
		tcp_ends_connect(&x, &y, NULL);
	}
	/* Each reads for the first time. */
	for (int i = 0; i < PAIRS; i++)
		polls += polls_until_read(&a[i], &b[i]);
	EXPECT(polls < 5 * PAIRS);
	for (int i = 0; i < PAIRS; i++) {
		node_close(&a[i], &near.node);
		node_close(&b[i], &far.node);
	}
	tcp_end_close(&near);
	tcp_end_close(&far);
}
