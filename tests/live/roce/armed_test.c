/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that keeps one completion queue armed and polls others, as UCX does: its thread stands
 * by while the polls are frequent, and watches where the program may sleep.
 */
#include <time.h>

#include "driver/loop/net.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

static struct weft_adapter *adapters[2];
static struct node nodes[2];
static struct weft_cq *armed;

static void open_both(void)
{
	int fd;

	for (int i = 0; i < 2; i++) {
		adapters[i] = roce_adapter_open();
		node_open(adapters[i], &nodes[i], NULL);
	}
	roce_start_both(nodes[0].qp, nodes[1].qp);
	MUST(weft_adapter_fd(adapters[0], &fd));
	MUST(weft_cq_create(adapters[0], NULL, &armed));
	MUST(weft_cq_arm(armed, WEFT_ARM_NEXT));
}

static void close_both(void)
{
	MUST(weft_cq_destroy(armed));
	for (int i = 0; i < 2; i++) {
		node_close(&nodes[i], NULL);
		MUST(weft_adapter_close(adapters[i]));
	}
}

static bool is_standing_by(void)
{
	bool is_aside;

	adapter_enter(adapters[0]);
	is_aside = progress_is_aside(adapters[0]->net);
	adapter_leave(adapters[0]);
	return is_aside;
}

/* That were counted: one that found a thread in the adapter counts with the next. */
static uint64_t polls(void)
{
	uint64_t count;

	adapter_enter(adapters[0]);
	count = adapters[0]->polls;
	adapter_leave(adapters[0]);
	return count;
}

static bool may_sleep(void)
{
	bool has_sleepers;

	adapter_enter(adapters[0]);
	has_sleepers = adapter_has_sleepers(adapters[0]);
	adapter_leave(adapters[0]);
	return has_sleepers;
}

/* The second writes to the first, so that there are arrivals; both poll. */
static void write_polling(void)
{
	const struct weft_sge seg = node_seg(&nodes[1], 0, 8);
	struct weft_send_wr write = node_wr(WEFT_OP_WRITE, 0, &seg, &nodes[0]);
	struct weft_completion c;
	bool has;

	REQUIRE(node_post(&nodes[1], &write));
	do {
		REQUIRE(node_poll(nodes[0].cq, &c, &has) && !has);
		REQUIRE(node_poll(nodes[1].cq, &c, &has));
	} while (!has);
	REQUIRE(c.status == WEFT_SUCCESS);
}

static void poll_until_thread_stands_by(void)
{
	uint64_t start = thread_now_ns();

	while (!is_standing_by()) {
		write_polling();
		REQUIRE(thread_now_ns() - start < PATIENCE_NS);
	}
}

TEST(test_qp_07_a_thread_stands_by_polls_though_an_idle_queue_is_armed)
{
	const char *why_not = own_network_enter();

	if (why_not)
		SKIP(why_not);
	open_both();
	poll_until_thread_stands_by();
	close_both();
}

TEST(test_qp_07_a_program_that_has_just_armed_a_queue_may_sleep)
{
	const char *why_not = own_network_enter();
	struct weft_completion c;
	bool has;

	if (why_not)
		SKIP(why_not);
	open_both();
	for (int round = 0; round < 2; round++) {
		EXPECT(may_sleep());
		for (uint64_t first = polls(); polls() - first < POLLS_AWAKE;)
			REQUIRE(node_poll(nodes[0].cq, &c, &has));
		EXPECT(!may_sleep());
		MUST(weft_cq_arm(armed, WEFT_ARM_NEXT));
	}
	close_both();
}

TEST(test_qp_07_rare_polls_beside_an_armed_queue_leave_arrivals_to_the_thread)
{
	const char *why_not = own_network_enter();
	const struct timespec pause = { .tv_nsec = 200 * 1000 };
	struct weft_completion c;
	uint64_t start;
	bool has;

	if (why_not)
		SKIP(why_not);
	open_both();
	start = thread_now_ns();
	do {
		if (!is_standing_by())
			poll_until_thread_stands_by();
		nanosleep(&pause,
			  NULL); /* the rate of these polls, often enough for no other queue */
		REQUIRE(node_poll(nodes[0].cq, &c, &has));
		REQUIRE(thread_now_ns() - start < PATIENCE_NS);
	} while (!may_sleep());
	close_both();
}
