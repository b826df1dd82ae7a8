/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that wait for their peer's Write in memory, and poll only for their own requests, as
 * perftest's ib_write_lat does. Polls that find acknowledgements are no proof that polls find what
 * the peer sends: the thread must look.
 */
#include <sched.h>

#include "driver/loop/net.h"
#include "live/roce/roce_way.h"
#include "live/verbs_fixture.h"
#include "own_network.h"

/* A thread may have to learn a few times; before it did so in most rounds. */
enum { ROUNDS = 400, BACKOFFS_MAX = 2 * ROUNDS / 20 };

struct spinner {
	struct weft_adapter *adapter;
	struct node node;
	const struct node *peer;
	bool is_first;
	uint64_t before; /* bytes that came in other ways */
};

static void spinner_open(struct spinner *s)
{
	s->adapter = roce_adapter_open();
	node_open(s->adapter, &s->node, NULL);
}

static void spinner_close(struct spinner *s)
{
	node_close(&s->node, NULL);
	MUST(weft_adapter_close(s->adapter));
}

/* How often a Write lay unread until the thread of this side no longer stood by. */
static uint32_t backoffs(const struct spinner *s)
{
	uint32_t count;

	adapter_enter(s->adapter);
	count = s->adapter->net->standby_backoffs;
	adapter_leave(s->adapter);
	return count;
}

/* Looks at what has come without a call that would help it to come. */
static bool await_write(const struct spinner *s, uint64_t bytes)
{
	uint64_t start = thread_now_ns();
	struct weft_traffic t;

	do {
		if (weft_qp_traffic(s->node.qp, &t) != WEFT_OK)
			return false;
		sched_yield();
	} while (t.payload_in < bytes && thread_now_ns() - start < PATIENCE_NS);
	return t.payload_in >= bytes;
}

/* Until the threads of both stand by, or leave it: both poll for Reads of the first. */
static void read_polling(struct spinner *first, struct spinner *second)
{
	const struct weft_sge seg = node_seg(&first->node, 0, 8);
	struct weft_send_wr read = node_wr(WEFT_OP_READ, 0, &seg, &second->node);
	uint64_t until = thread_now_ns() + 10 * 1000 * 1000;
	struct weft_completion c;
	bool has;

	while (thread_now_ns() < until) {
		REQUIRE(node_post(&first->node, &read));
		do {
			REQUIRE(node_poll(second->node.cq, &c, &has) && !has);
			REQUIRE(node_poll(first->node.cq, &c, &has));
		} while (!has);
		REQUIRE(c.status == WEFT_SUCCESS);
	}
}

/* Writes to each other in turn: half of a round each. */
static void *run(void *argument)
{
	struct spinner *s = argument;
	const struct weft_sge seg = node_seg(&s->node, 0, 8);
	struct weft_send_wr write = node_wr(WEFT_OP_WRITE, 0, &seg, s->peer);

	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct weft_completion c;

		HOLDS(await_write(s, s->before + 8 * (s->is_first ? i : i + 1)));
		HOLDS(node_post(&s->node, &write));
		HOLDS(node_take(s->node.cq, &c));
	}
	return NULL;
}

TEST(test_roce_a_program_that_polls_only_for_its_own_hears_of_its_peer)
{
	const char *why_not = own_network_enter();
	struct spinner sides[2] = { { .is_first = true }, { .is_first = false } };
	void *arguments[] = { &sides[0], &sides[1] };

	if (why_not)
		SKIP(why_not);
	spinner_open(&sides[0]);
	spinner_open(&sides[1]);
	sides[0].peer = &sides[1].node;
	sides[1].peer = &sides[0].node;
	roce_start_both(sides[0].node.qp, sides[1].node.qp);
	read_polling(&sides[0], &sides[1]);
	read_polling(&sides[1], &sides[0]);
	for (int i = 0; i < 2; i++) {
		struct weft_traffic t;

		MUST(weft_qp_traffic(sides[i].node.qp, &t));
		sides[i].before = t.payload_in;
	}
	threads_run(run, arguments, 2);
	EXPECT(backoffs(&sides[0]) + backoffs(&sides[1]) <= BACKOFFS_MAX);
	spinner_close(&sides[0]);
	spinner_close(&sides[1]);
}
