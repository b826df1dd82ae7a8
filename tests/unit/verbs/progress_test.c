/* SPDX-License-Identifier: BSD-2-Clause */
/* The core in virtual time: what is due when, and that nothing happens before; events. */
#include <string.h>

#include "test.h"
#include "unit/verbs/core_pair.h"

static const uint64_t never = UINT64_MAX;

static void pair_open(struct core_pair *pair)
{
	core_pair_open(pair, &(struct core_pair_options){ .has_one_cq = true });
}

static void post(struct weft_qp *qp, enum weft_opcode opcode, uint64_t id, uint64_t delay_ns)
{
	struct weft_send_wr wr = {
		.id = id,
		.opcode = opcode,
		.flags = WEFT_SIGNALLED,
		.delay_ns = delay_ns,
	};
	uint32_t posted;

	MUST(qp_post_send(qp, &wr, 1, &posted));
}

/* The id of the next completion, 0 if there is none; its status goes to *status if wanted. */
static uint64_t next_id(struct core_pair *pair, enum weft_status *status)
{
	struct weft_completion c = { .id = 0 };
	uint32_t count;

	MUST(cq_poll(pair->cqs[0], &c, 1, &count));
	if (status)
		*status = c.status;
	return count ? c.id : 0;
}

TEST(test_qp_07f_qp_s2_a_delay_ends_at_its_time)
{
	struct core_pair pair;

	pair_open(&pair);
	post(pair.qps[0], WEFT_OP_DELAY, 1, 500);
	post(pair.qps[0], WEFT_OP_DELAY, 2, 300);
	post(pair.qps[0], WEFT_OP_WRITE, 3, 0);
	post(pair.qps[1], WEFT_OP_WRITE, 9, 0);
	core_pair_run(&pair, 1000);
	EXPECT_EQ(next_id(&pair, NULL), 9); /* the other queue pair is not held */
	EXPECT_EQ(next_id(&pair, NULL), 0);
	EXPECT_EQ(adapter_due(&pair.adapter), 1500);
	core_pair_run(&pair, 1499);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_run(&pair, 1500);
	EXPECT_EQ(next_id(&pair, NULL), 1);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	EXPECT_EQ(adapter_due(&pair.adapter),
		  1800);			/* the second begins when the first has ended */
	post(pair.qps[0], WEFT_OP_WRITE, 4, 0); /* a reason to look, none to go on */
	core_pair_run(&pair, 1799);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_run(&pair, 5000);
	EXPECT_EQ(next_id(&pair, NULL), 2);
	EXPECT_EQ(next_id(&pair, NULL), 3);
	EXPECT_EQ(next_id(&pair, NULL), 4);
	EXPECT_EQ(adapter_due(&pair.adapter), never);
	core_pair_close(&pair);
}

/* What goes before a Delay may take its time; the Delay counts from when that has ended. */
TEST(test_qp_07f_a_delay_counts_from_its_own_beginning)
{
	struct core_pair pair;

	pair_open(&pair);
	post(pair.qps[0], WEFT_OP_WRITE, 1, 0);
	post(pair.qps[0], WEFT_OP_DELAY, 2, 50);
	post(pair.qps[0], WEFT_OP_WRITE, 3, 0);
	EXPECT(adapter_progress(&pair.adapter, 100)); /* the Write took from 100 to 1000 */
	EXPECT_EQ(next_id(&pair, NULL), 1);
	EXPECT(!adapter_progress(&pair.adapter, 1000));
	EXPECT_EQ(adapter_due(&pair.adapter), 1050);
	core_pair_run(&pair, 1049);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_run(&pair, 1050);
	EXPECT_EQ(next_id(&pair, NULL), 2);
	EXPECT_EQ(next_id(&pair, NULL), 3);
	core_pair_close(&pair);
}

/* So does the wait for a receive. */
TEST(test_qp_08_a_wait_for_a_receive_counts_from_its_own_beginning)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 50 };
	enum weft_status status;
	struct core_pair pair;

	pair_open(&pair);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_RECEIVER_WAIT));
	post(pair.qps[0], WEFT_OP_WRITE, 1, 0);
	post(pair.qps[0], WEFT_OP_SEND, 2, 0);
	EXPECT(adapter_progress(&pair.adapter, 100)); /* the Write took from 100 to 1000 */
	EXPECT_EQ(next_id(&pair, NULL), 1);
	EXPECT(!adapter_progress(&pair.adapter, 1000));
	EXPECT_EQ(adapter_due(&pair.adapter), 1050);
	core_pair_run(&pair, 1049);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_run(&pair, 1050);
	EXPECT_EQ(next_id(&pair, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	core_pair_close(&pair);
}

TEST(test_qp_07f_a_delay_past_the_end_of_time)
{
	struct core_pair pair;

	pair_open(&pair);
	post(pair.qps[0], WEFT_OP_DELAY, 1, UINT64_MAX);
	core_pair_run(&pair, 1000);
	EXPECT_EQ(adapter_due(&pair.adapter), never);
	core_pair_run(&pair, UINT64_MAX - 1);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_close(&pair);
}

TEST(test_qp_08_the_wait_for_a_receive_ends_at_its_time)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	enum weft_status status;
	struct core_pair pair;

	pair_open(&pair);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_RECEIVER_WAIT));
	post(pair.qps[0], WEFT_OP_SEND, 1, 0);
	post(pair.qps[0], WEFT_OP_SEND, 2, 0);
	core_pair_run(&pair, 1000);
	EXPECT_EQ(adapter_due(&pair.adapter), 1700);
	core_pair_run(&pair, 1699);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	core_pair_run(&pair, 1700);
	EXPECT_EQ(next_id(&pair, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	EXPECT_EQ(next_id(&pair, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(adapter_due(&pair.adapter), never);
	core_pair_close(&pair);
}

/* Each message has the whole time: a receive for the first starts the clock of the second anew. */
TEST(test_qp_08_every_message_has_its_own_patience)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	const struct weft_recv_wr recv = { .id = 5 };
	struct core_pair pair;
	uint32_t posted;

	pair_open(&pair);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_RECEIVER_WAIT));
	post(pair.qps[0], WEFT_OP_SEND, 1, 0);
	post(pair.qps[0], WEFT_OP_SEND, 2, 0);
	core_pair_run(&pair, 1000);
	MUST(qp_post_recv(pair.qps[1], &recv, 1, &posted));
	core_pair_run(&pair, 1600);
	EXPECT_EQ(next_id(&pair, NULL), 5);
	EXPECT_EQ(next_id(&pair, NULL), 1);
	EXPECT_EQ(adapter_due(&pair.adapter), 2300);
	core_pair_run(&pair, 1700);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	MUST(qp_post_recv(pair.qps[1], &recv, 1, &posted));
	core_pair_run(&pair, 2299);
	EXPECT_EQ(next_id(&pair, NULL), 5);
	EXPECT_EQ(next_id(&pair, NULL), 2);
	EXPECT_EQ(adapter_due(&pair.adapter), never);
	core_pair_close(&pair);
}

/* A spurious wake-up (another queue pair took the receive) does not lengthen the wait. */
TEST(test_qp_08_waking_for_nothing_keeps_the_deadline)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	enum weft_status status;
	struct core_pair pair;

	pair_open(&pair);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_RECEIVER_WAIT));
	post(pair.qps[0], WEFT_OP_SEND, 1, 0);
	core_pair_run(&pair, 1000);
	qp_wake_senders(&pair.qps[1]->rq);
	core_pair_run(&pair, 1500);
	EXPECT_EQ(adapter_due(&pair.adapter), 1700);
	core_pair_run(&pair, 1700);
	EXPECT_EQ(next_id(&pair, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	core_pair_close(&pair);
}

TEST(test_qp_14_a_pause_waits_for_the_delay_that_has_begun)
{
	struct weft_qp_attr attr = { .state = WEFT_QPS_SQD };
	struct weft_event event;
	struct core_pair pair;

	pair_open(&pair);
	post(pair.qps[0], WEFT_OP_DELAY, 1, 500);
	post(pair.qps[0], WEFT_OP_WRITE, 2, 0);
	core_pair_run(&pair, 1000);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_STATE));
	core_pair_run(&pair, 1499);
	EXPECT(!event_pop(&pair.adapter.events, &event));
	core_pair_run(&pair, 1500);
	EXPECT_EQ(next_id(&pair, NULL), 1);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	EXPECT(event_pop(&pair.adapter.events, &event));
	EXPECT_EQ(event.kind, WEFT_EVENT_QP_DRAINED);
	EXPECT_EQ(event.number, pair.qps[0]->number);
	core_pair_run(&pair, 9000);
	EXPECT_EQ(next_id(&pair, NULL), 0);
	attr.state = WEFT_QPS_RTS;
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_STATE));
	core_pair_run(&pair, 9001);
	EXPECT_EQ(next_id(&pair, NULL), 2);
	core_pair_close(&pair);
}

TEST(test_qp_14_leaving_the_state_ends_the_wait)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	enum weft_status status;
	struct core_pair pair;

	pair_open(&pair);
	post(pair.qps[0], WEFT_OP_DELAY, 1, 500);
	post(pair.qps[1], WEFT_OP_SEND, 2, 0);
	core_pair_run(&pair, 1000);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_STATE));
	core_pair_run(&pair, 1001);
	EXPECT_EQ(next_id(&pair, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(next_id(&pair, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(adapter_due(&pair.adapter), never);
	core_pair_close(&pair);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* Both ends fail: each event names its own queue pair and returns what its consumer gave it. */
TEST(test_qp_14_events_carry_number_and_context)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct weft_event first, second, third;
	struct core_pair pair;

	pair_open(&pair);
	MUST(cq_arm(pair.cqs[0], WEFT_ARM_NEXT));
	post(pair.qps[0], WEFT_OP_WRITE, 1, 0);
	core_pair_run(&pair, 1);
	EXPECT(event_pop(&pair.adapter.events, &first));
	EXPECT_EQ(first.kind, WEFT_EVENT_COMPLETION);
	EXPECT_EQ(first.number, pair.cqs[0]->number);
	EXPECT(first.context == pair.cqs[0]->events.context && first.context);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_STATE));
	core_pair_run(&pair, 2);
	EXPECT(event_pop(&pair.adapter.events, &first));
	EXPECT(event_pop(&pair.adapter.events, &second));
	EXPECT(!event_pop(&pair.adapter.events, &third));
	EXPECT(first.kind == WEFT_EVENT_QP_ERROR && second.kind == WEFT_EVENT_QP_ERROR);
	EXPECT_EQ(first.number, pair.qps[0]->number);
	EXPECT_EQ(second.number, pair.qps[1]->number);
	EXPECT_EQ(second.reason, WEFT_R_PEER_TERMINATED);
	EXPECT(first.context != second.context && first.context && second.context);
	EXPECT_EQ(next_id(&pair, NULL), 1);
	core_pair_close(&pair);
}

TEST(test_events_of_an_object_vanish_with_it)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct weft_event event;
	struct core_pair pair;

	pair_open(&pair);
	MUST(qp_modify(pair.qps[0], &attr, WEFT_QP_STATE));
	core_pair_run(&pair, 1);
	qp_destroy(pair.qps[0]);
	EXPECT(event_pop(&pair.adapter.events, &event));
	EXPECT_EQ(event.number, pair.qps[1]->number);
	EXPECT(!event_pop(&pair.adapter.events, &event));
	qp_destroy(pair.qps[1]);
	MUST(cq_destroy(pair.cqs[0]));
	MUST(pd_destroy(pair.pd));
	MUST(adapter_fini(&pair.adapter));
}

TEST(test_events_of_one_kind_merge_and_the_first_reason_wins)
{
	struct event_source x, y;
	struct weft_event event;
	struct list events;

	list_init(&events);
	event_source_init(&x, 1, NULL);
	event_source_init(&y, 2, NULL);
	event_raise(&events, &x, WEFT_EVENT_QP_REFUSED, WEFT_R_TAG_PD);
	event_raise(&events, &x, WEFT_EVENT_QP_REFUSED, WEFT_R_TAG_QP);
	event_raise(&events, &x, WEFT_EVENT_QP_ERROR, WEFT_R_FLUSHED);
	event_raise(&events, &y, WEFT_EVENT_SRQ_LIMIT, WEFT_OK);
	EXPECT(event_pop(&events, &event));
	EXPECT(event.number == 1 && event.kind == WEFT_EVENT_QP_ERROR);
	EXPECT(event_pop(&events, &event)); /* the sources take turns */
	EXPECT(event.number == 2 && event.kind == WEFT_EVENT_SRQ_LIMIT);
	EXPECT(event_pop(&events, &event));
	EXPECT(event.number == 1 && event.kind == WEFT_EVENT_QP_REFUSED);
	EXPECT_EQ(event.reason, WEFT_R_TAG_PD);
	EXPECT(!event_pop(&events, &event));
	event_raise(&events, &x, WEFT_EVENT_QP_REFUSED, WEFT_R_TAG_QP);
	EXPECT(event_pop(&events, &event));
	EXPECT_EQ(event.reason, WEFT_R_TAG_QP);
}

TEST(test_qp_16_core_of_an_adapter_in_use_is_busy)
{
	struct core_pair p;

	core_pair_open(&p, &(struct core_pair_options){ 0 });
	EXPECT_EQ(adapter_fini(&p.adapter), WEFT_R_BUSY);
	core_pair_close(&p);
}

TEST(test_qp_18_as_many_address_handles_as_there_is_room_for)
{
	enum { MANY = 1 << 17 };
	const struct weft_path path = { .from.family = 4, .to.family = 4 };
	static struct weft_ah *ahs[MANY];
	enum weft_reason reason = WEFT_OK;
	struct core_pair p;
	uint32_t count = 0;

	core_pair_open(&p, &(struct core_pair_options){ 0 });
	while (count < MANY && (reason = ah_create(p.pd, &path, &ahs[count])) == WEFT_OK)
		count++;
	EXPECT_EQ(reason, WEFT_R_LIMIT);
	EXPECT_EQ(p.adapter.ahs.used, count);
	while (count > 0)
		ah_destroy(ahs[--count]);
	core_pair_close(&p);
}
