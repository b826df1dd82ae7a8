/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that wait by themselves: weft_adapter_fd(), weft_cq_wait(), weft_event_take(). */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "live/verbs_fixture.h"

enum { ROUNDS = 200, SECOND_MS = 1000, PATIENCE_MS = 30 * SECOND_MS };

static struct tcp_end near, far;

static void open_both(void)
{
	tcp_end_open(&near);
	tcp_end_open(&far);
	tcp_ends_connect(&near, &far, NULL);
}

static void close_both(void)
{
	tcp_end_close(&near);
	tcp_end_close(&far);
}

static bool is_readable(int fd, int timeout_ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, timeout_ms) == 1;
}

/* Sends when it is told to, by a byte on a pipe. */
static void *sender_run(void *argument)
{
	int *turns = argument;
	char byte;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct weft_send_wr wr = node_wr(WEFT_OP_SEND, i, NULL, &near.node);
		struct weft_completion c;

		HOLDS(read(turns[0], &byte, 1) == 1);
		HOLDS(node_post(&far.node, &wr) && node_take(far.node.cq, &c));
	}
	return NULL;
}

struct waiter {
	int turns[2];
	bool (*wait)(void);
};

static bool wait_by_poll(void)
{
	struct weft_event event;
	bool has_event = true;
	int fd;

	return weft_adapter_fd(near.adapter, &fd) == WEFT_OK && is_readable(fd, PATIENCE_MS) &&
	       weft_event_take(near.adapter, &event, &has_event) == WEFT_OK && has_event &&
	       event.kind == WEFT_EVENT_COMPLETION && !is_readable(fd, 0);
}

static bool wait_by_call(void)
{
	return weft_cq_wait(near.node.cq, -1, PATIENCE_NS, NULL) == WEFT_OK;
}

static void *waiter_run(void *argument)
{
	struct waiter *w = argument;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		const struct weft_recv_wr recv = { .id = i };
		struct weft_completion c;
		bool has = false;

		HOLDS(weft_qp_post_recv(near.node.qp, &recv, 1, NULL) == WEFT_OK);
		/* An event that was not taken would end the wait. */
		if (w->wait == wait_by_poll)
			HOLDS(weft_cq_arm(near.node.cq, WEFT_ARM_NEXT) == WEFT_OK);
		HOLDS(node_poll(near.node.cq, &c, &has) && !has);
		HOLDS(write(w->turns[1], "", 1) == 1);
		HOLDS(w->wait());
		HOLDS(node_poll(near.node.cq, &c, &has) && has && c.id == i);
	}
	return NULL;
}

static void *either_run(void *argument)
{
	void **of = argument;

	return ((void *(*)(void *))of[0])(of[1]);
}

static void wait_and_send(bool (*wait)(void))
{
	struct waiter w = { .wait = wait };
	void *waits[] = { (void *)waiter_run, &w }, *sends[] = { (void *)sender_run, w.turns };

	open_both();
	REQUIRE(pipe(w.turns) == 0);
	threads_run(either_run, (void *[]){ waits, sends }, 2);
	close(w.turns[0]);
	close(w.turns[1]);
	close_both();
}

TEST(test_qp_10_the_adapters_descriptor_is_readable_while_an_event_waits)
{
	wait_and_send(wait_by_poll);
}

TEST(test_qp_10_a_thread_that_waits_for_a_queue_is_woken_by_its_completion)
{
	wait_and_send(wait_by_call);
}

TEST(test_qp_10_a_wait_for_a_queue_ends_by_another_descriptor_or_by_time)
{
	const uint64_t short_ns = 5 * 1000 * 1000;
	uint64_t before;
	bool is_ready = true;
	int fds[2];

	open_both();
	REQUIRE(pipe(fds) == 0);
	before = thread_now_ns();
	MUST(weft_cq_wait(near.node.cq, fds[0], short_ns, &is_ready));
	EXPECT(!is_ready && thread_now_ns() - before >= short_ns);
	REQUIRE(write(fds[1], "", 1) == 1);
	MUST(weft_cq_wait(near.node.cq, fds[0], PATIENCE_NS, &is_ready));
	EXPECT(is_ready);
	EXPECT_EQ(weft_cq_wait(NULL, -1, 0, NULL), WEFT_R_NULL_ARGUMENT);
	close(fds[0]);
	close(fds[1]);
	close_both();
}

/* What is there before the wait begins makes no socket ready. */
TEST(test_qp_10_a_wait_does_not_sleep_over_what_is_there)
{
	struct weft_send_wr wr = node_wr(WEFT_OP_SEND, 0, NULL, &near.node);
	const struct weft_recv_wr recv = { .id = 1 };
	struct weft_event event;
	bool has_event;

	open_both();
	MUST(weft_qp_post_recv(near.node.qp, &recv, 1, NULL));
	MUST(weft_cq_arm(near.node.cq, WEFT_ARM_NEXT));
	REQUIRE(node_post(&far.node, &wr));
	/* The thread takes it: the completion and its event lie there when the wait begins. */
	do
		MUST(weft_event_take(near.adapter, &event, &has_event));
	while (!has_event);
	MUST(weft_cq_wait(near.node.cq, -1, UINT64_MAX, NULL));
	close_both();
}

static void on_event(void *context, const struct weft_event *event)
{
	(void)context;
	(void)event;
}

TEST(test_qp_10_events_go_to_a_descriptor_or_to_a_call)
{
	const struct weft_adapter_options options = { .on_event = on_event };
	struct weft_adapter *a;
	int fd;

	MUST(weft_adapter_open(&options, &a));
	EXPECT_EQ(weft_adapter_fd(a, &fd), WEFT_R_BUSY);
	EXPECT_EQ(weft_adapter_fd(a, NULL), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(weft_adapter_fd(NULL, &fd), WEFT_R_NULL_ARGUMENT);
	MUST(weft_adapter_close(a));
}
