/* SPDX-License-Identifier: BSD-2-Clause */
/* The core in virtual time: what is due when, and that nothing happens before; events. */
#include <string.h>

#include "loopback/loopback.h"
#include "test.h"
#include "verbs/verbs.h"

static const uint64_t never = UINT64_MAX;

/* A connected pair of one domain and one completion queue. */
struct bed {
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *a, *b;
};

/* All that can be done at this time. */
static void progress_all(struct adapter *a, uint64_t now_ns)
{
	while (adapter_progress(a, now_ns))
		continue;
}

static void bed_open(struct bed *bed)
{
	static int context_a, context_b, context_cq;
	const struct adapter_config config = {
		.options = { .tags_max = 16, .translations_max = 128, .qps_max = 4 },
		.secret = { 1, 2 },
	};
	const struct weft_cq_options cq = { .context = &context_cq };
	struct weft_qp_options qp = { 0 };

	MUST(adapter_init(&bed->adapter, &config));
	MUST(pd_create(&bed->adapter, &(struct weft_pd_options){ 0 }, &bed->pd));
	MUST(cq_create(&bed->adapter, &cq, &bed->cq));
	qp.send_cq = qp.recv_cq = bed->cq;
	qp.context = &context_a;
	MUST(qp_create(bed->pd, &qp, &loopback_transport, &bed->a));
	qp.context = &context_b;
	MUST(qp_create(bed->pd, &qp, &loopback_transport, &bed->b));
	MUST(qp_connect(bed->a, bed->b));
}

static void bed_close(struct bed *bed)
{
	qp_destroy(bed->a);
	qp_destroy(bed->b);
	MUST(cq_destroy(bed->cq));
	MUST(pd_destroy(bed->pd));
	EXPECT_EQ(adapter_due(&bed->adapter), never);
	MUST(adapter_fini(&bed->adapter));
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
static uint64_t next_id(struct bed *bed, enum weft_status *status)
{
	struct weft_completion c = { .id = 0 };
	uint32_t count;

	MUST(cq_poll(bed->cq, &c, 1, &count));
	if (status)
		*status = c.status;
	return count ? c.id : 0;
}

TEST(test_qp_07f_qp_s2_a_delay_ends_at_its_time)
{
	struct bed bed;

	bed_open(&bed);
	post(bed.a, WEFT_OP_DELAY, 1, 500);
	post(bed.a, WEFT_OP_DELAY, 2, 300);
	post(bed.a, WEFT_OP_WRITE, 3, 0);
	post(bed.b, WEFT_OP_WRITE, 9, 0);
	progress_all(&bed.adapter, 1000);
	EXPECT_EQ(next_id(&bed, NULL), 9); /* the other queue pair is not held */
	EXPECT_EQ(next_id(&bed, NULL), 0);
	EXPECT_EQ(adapter_due(&bed.adapter), 1500);
	progress_all(&bed.adapter, 1499);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	progress_all(&bed.adapter, 1500);
	EXPECT_EQ(next_id(&bed, NULL), 1);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	EXPECT_EQ(adapter_due(&bed.adapter), 1800); /* the second begins when the first has ended */
	post(bed.a, WEFT_OP_WRITE, 4, 0);	    /* a reason to look, none to go on */
	progress_all(&bed.adapter, 1799);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	progress_all(&bed.adapter, 5000);
	EXPECT_EQ(next_id(&bed, NULL), 2);
	EXPECT_EQ(next_id(&bed, NULL), 3);
	EXPECT_EQ(next_id(&bed, NULL), 4);
	EXPECT_EQ(adapter_due(&bed.adapter), never);
	bed_close(&bed);
}

/* What goes before a Delay may take its time; the Delay counts from when that has ended. */
TEST(test_qp_07f_a_delay_counts_from_its_own_beginning)
{
	struct bed bed;

	bed_open(&bed);
	post(bed.a, WEFT_OP_WRITE, 1, 0);
	post(bed.a, WEFT_OP_DELAY, 2, 50);
	post(bed.a, WEFT_OP_WRITE, 3, 0);
	EXPECT(adapter_progress(&bed.adapter, 100)); /* the Write took from 100 to 1000 */
	EXPECT_EQ(next_id(&bed, NULL), 1);
	EXPECT(!adapter_progress(&bed.adapter, 1000));
	EXPECT_EQ(adapter_due(&bed.adapter), 1050);
	progress_all(&bed.adapter, 1049);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	progress_all(&bed.adapter, 1050);
	EXPECT_EQ(next_id(&bed, NULL), 2);
	EXPECT_EQ(next_id(&bed, NULL), 3);
	bed_close(&bed);
}

/* So does the wait for a receive. */
TEST(test_qp_08_a_wait_for_a_receive_counts_from_its_own_beginning)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 50 };
	enum weft_status status;
	struct bed bed;

	bed_open(&bed);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_RECEIVER_WAIT));
	post(bed.a, WEFT_OP_WRITE, 1, 0);
	post(bed.a, WEFT_OP_SEND, 2, 0);
	EXPECT(adapter_progress(&bed.adapter, 100)); /* the Write took from 100 to 1000 */
	EXPECT_EQ(next_id(&bed, NULL), 1);
	EXPECT(!adapter_progress(&bed.adapter, 1000));
	EXPECT_EQ(adapter_due(&bed.adapter), 1050);
	progress_all(&bed.adapter, 1049);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	progress_all(&bed.adapter, 1050);
	EXPECT_EQ(next_id(&bed, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	bed_close(&bed);
}

TEST(test_qp_07f_a_delay_past_the_end_of_time)
{
	struct bed bed;

	bed_open(&bed);
	post(bed.a, WEFT_OP_DELAY, 1, UINT64_MAX);
	progress_all(&bed.adapter, 1000);
	EXPECT_EQ(adapter_due(&bed.adapter), never);
	progress_all(&bed.adapter, UINT64_MAX - 1);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	bed_close(&bed);
}

TEST(test_qp_08_the_wait_for_a_receive_ends_at_its_time)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	enum weft_status status;
	struct bed bed;

	bed_open(&bed);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_RECEIVER_WAIT));
	post(bed.a, WEFT_OP_SEND, 1, 0);
	post(bed.a, WEFT_OP_SEND, 2, 0);
	progress_all(&bed.adapter, 1000);
	EXPECT_EQ(adapter_due(&bed.adapter), 1700);
	progress_all(&bed.adapter, 1699);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	progress_all(&bed.adapter, 1700);
	EXPECT_EQ(next_id(&bed, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	EXPECT_EQ(next_id(&bed, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(adapter_due(&bed.adapter), never);
	bed_close(&bed);
}

/* Each message has the whole time: a receive for the first starts the clock of the second anew. */
TEST(test_qp_08_every_message_has_its_own_patience)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	const struct weft_recv_wr recv = { .id = 5 };
	struct bed bed;
	uint32_t posted;

	bed_open(&bed);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_RECEIVER_WAIT));
	post(bed.a, WEFT_OP_SEND, 1, 0);
	post(bed.a, WEFT_OP_SEND, 2, 0);
	progress_all(&bed.adapter, 1000);
	MUST(qp_post_recv(bed.b, &recv, 1, &posted));
	progress_all(&bed.adapter, 1600);
	EXPECT_EQ(next_id(&bed, NULL), 5);
	EXPECT_EQ(next_id(&bed, NULL), 1);
	EXPECT_EQ(adapter_due(&bed.adapter), 2300);
	progress_all(&bed.adapter, 1700);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	MUST(qp_post_recv(bed.b, &recv, 1, &posted));
	progress_all(&bed.adapter, 2299);
	EXPECT_EQ(next_id(&bed, NULL), 5);
	EXPECT_EQ(next_id(&bed, NULL), 2);
	EXPECT_EQ(adapter_due(&bed.adapter), never);
	bed_close(&bed);
}

/* A spurious wake-up (another queue pair took the receive) does not lengthen the wait. */
TEST(test_qp_08_waking_for_nothing_keeps_the_deadline)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = 700 };
	enum weft_status status;
	struct bed bed;

	bed_open(&bed);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_RECEIVER_WAIT));
	post(bed.a, WEFT_OP_SEND, 1, 0);
	progress_all(&bed.adapter, 1000);
	qp_wake_senders(&bed.b->rq);
	progress_all(&bed.adapter, 1500);
	EXPECT_EQ(adapter_due(&bed.adapter), 1700);
	progress_all(&bed.adapter, 1700);
	EXPECT_EQ(next_id(&bed, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_RECEIVER_NOT_READY);
	bed_close(&bed);
}

TEST(test_qp_14_a_pause_waits_for_the_delay_that_has_begun)
{
	struct weft_qp_attr attr = { .state = WEFT_QPS_SQD };
	struct weft_event event;
	struct bed bed;

	bed_open(&bed);
	post(bed.a, WEFT_OP_DELAY, 1, 500);
	post(bed.a, WEFT_OP_WRITE, 2, 0);
	progress_all(&bed.adapter, 1000);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_STATE));
	progress_all(&bed.adapter, 1499);
	EXPECT(!event_pop(&bed.adapter.events, &event));
	progress_all(&bed.adapter, 1500);
	EXPECT_EQ(next_id(&bed, NULL), 1);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	EXPECT(event_pop(&bed.adapter.events, &event));
	EXPECT_EQ(event.kind, WEFT_EVENT_QP_DRAINED);
	EXPECT_EQ(event.number, bed.a->number);
	progress_all(&bed.adapter, 9000);
	EXPECT_EQ(next_id(&bed, NULL), 0);
	attr.state = WEFT_QPS_RTS;
	MUST(qp_modify(bed.a, &attr, WEFT_QP_STATE));
	progress_all(&bed.adapter, 9001);
	EXPECT_EQ(next_id(&bed, NULL), 2);
	bed_close(&bed);
}

TEST(test_qp_14_leaving_the_state_ends_the_wait)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	enum weft_status status;
	struct bed bed;

	bed_open(&bed);
	post(bed.a, WEFT_OP_DELAY, 1, 500);
	post(bed.b, WEFT_OP_SEND, 2, 0);
	progress_all(&bed.adapter, 1000);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_STATE));
	progress_all(&bed.adapter, 1001);
	EXPECT_EQ(next_id(&bed, &status), 1);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(next_id(&bed, &status), 2);
	EXPECT_EQ(status, WEFT_ERR_FLUSHED);
	EXPECT_EQ(adapter_due(&bed.adapter), never);
	bed_close(&bed);
}

/* ---- Events --------------------------------------------------------------------------------- */

/* Both ends fail: each event names its own queue pair and returns what its consumer gave it. */
TEST(test_qp_14_events_carry_number_and_context)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct weft_event first, second, third;
	struct bed bed;

	bed_open(&bed);
	MUST(cq_arm(bed.cq, WEFT_ARM_NEXT));
	post(bed.a, WEFT_OP_WRITE, 1, 0);
	progress_all(&bed.adapter, 1);
	EXPECT(event_pop(&bed.adapter.events, &first));
	EXPECT_EQ(first.kind, WEFT_EVENT_COMPLETION);
	EXPECT_EQ(first.number, bed.cq->number);
	EXPECT(first.context == bed.cq->events.context && first.context);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_STATE));
	progress_all(&bed.adapter, 2);
	EXPECT(event_pop(&bed.adapter.events, &first));
	EXPECT(event_pop(&bed.adapter.events, &second));
	EXPECT(!event_pop(&bed.adapter.events, &third));
	EXPECT(first.kind == WEFT_EVENT_QP_ERROR && second.kind == WEFT_EVENT_QP_ERROR);
	EXPECT_EQ(first.number, bed.a->number);
	EXPECT_EQ(second.number, bed.b->number);
	EXPECT_EQ(second.reason, WEFT_R_PEER_TERMINATED);
	EXPECT(first.context != second.context && first.context && second.context);
	EXPECT_EQ(next_id(&bed, NULL), 1);
	bed_close(&bed);
}

TEST(test_events_of_an_object_vanish_with_it)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct weft_event event;
	struct bed bed;

	bed_open(&bed);
	MUST(qp_modify(bed.a, &attr, WEFT_QP_STATE));
	progress_all(&bed.adapter, 1);
	qp_destroy(bed.a);
	EXPECT(event_pop(&bed.adapter.events, &event));
	EXPECT_EQ(event.number, bed.b->number);
	EXPECT(!event_pop(&bed.adapter.events, &event));
	qp_destroy(bed.b);
	MUST(cq_destroy(bed.cq));
	MUST(pd_destroy(bed.pd));
	MUST(adapter_fini(&bed.adapter));
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
