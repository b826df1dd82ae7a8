/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose in the core, in virtual time: what a consumer meets, and what it never does. */
#include <stdio.h>

#include "loopback/loopback.h"
#include "test.h"
#include "verbs/verbs.h"

enum { US = 1000, MS = 1000 * US, TRACE_ROOM = 64 };

/* A connected pair, each with a completion queue of its own. */
struct bed {
	struct fault_plan plan;
	struct trace trace;
	struct adapter adapter;
	struct weft_pd *pd;
	struct weft_cq *cq[2];
	struct weft_qp *qp[2];
	uint64_t now_ns;
};

static void bed_open(struct bed *bed, const char *faults)
{
	struct adapter_config config = {
		.options = { .tags_max = 16, .translations_max = 128, .qps_max = 4 },
		.secret = { 1, 2 },
		.trace = &bed->trace,
		.faults = &bed->plan,
	};
	struct fault_complaint complaint;
	struct weft_qp_options qp = { .send_max = 256, .recv_max = 256 };
	const struct weft_cq_options cq = { .entries_max = 1024 };

	REQUIRE(fault_plan_read(&bed->plan, faults, &complaint));
	REQUIRE(trace_init(&bed->trace, TRACE_ROOM) == 0);
	bed->now_ns = 1;
	MUST(adapter_init(&bed->adapter, &config));
	MUST(pd_create(&bed->adapter, &(struct weft_pd_options){ 0 }, &bed->pd));
	for (int i = 0; i < 2; i++) {
		MUST(cq_create(&bed->adapter, &cq, &bed->cq[i]));
		qp.send_cq = qp.recv_cq = bed->cq[i];
		MUST(qp_create(bed->pd, &qp, &loopback_transport, &bed->qp[i]));
	}
	MUST(qp_connect(bed->qp[0], bed->qp[1]));
}

static void bed_close(struct bed *bed)
{
	for (int i = 0; i < 2; i++)
		qp_destroy(bed->qp[i]);
	for (int i = 0; i < 2; i++)
		MUST(cq_destroy(bed->cq[i]));
	MUST(pd_destroy(bed->pd));
	EXPECT_EQ(adapter_due(&bed->adapter), UINT64_MAX);
	MUST(adapter_fini(&bed->adapter));
	trace_fini(&bed->trace);
}

static void progress(struct bed *bed)
{
	while (adapter_progress(&bed->adapter, bed->now_ns))
		continue;
}

/* On to the next deadline, and what is due then. False: there is none. */
static bool wait_next(struct bed *bed)
{
	uint64_t due = adapter_due(&bed->adapter);

	if (due == UINT64_MAX)
		return false;
	if (due > bed->now_ns)
		bed->now_ns = due;
	progress(bed);
	return true;
}

static enum weft_reason post(struct bed *bed, enum weft_opcode opcode, uint64_t id)
{
	struct weft_send_wr wr = { .id = id, .opcode = opcode, .flags = WEFT_SIGNALLED };
	uint32_t posted;

	return qp_post_send(bed->qp[0], &wr, 1, &posted);
}

static void post_recv(struct bed *bed, uint64_t id)
{
	const struct weft_recv_wr wr = { .id = id };
	uint32_t posted;

	MUST(qp_post_recv(bed->qp[1], &wr, 1, &posted));
}

static uint32_t poll_one(struct bed *bed, int side, struct weft_completion *c)
{
	uint32_t count;

	*c = (struct weft_completion){ 0 };
	MUST(cq_poll(bed->cq[side], c, 1, &count));
	return count;
}

/* The next completion of a side. */
static void ended(struct bed *bed, int side, uint64_t id, enum weft_status status)
{
	struct weft_completion c;

	REQUIRE(poll_one(bed, side, &c) == 1);
	EXPECT_EQ(c.id, id);
	EXPECT_EQ(c.status, status);
}

TEST(test_faults_qp_error_fails_the_request_and_its_queue_pair)
{
	struct weft_completion c;
	struct weft_event e;
	struct bed bed;

	bed_open(&bed, "qp_error=1");
	MUST(post(&bed, WEFT_OP_WRITE, 1));
	MUST(post(&bed, WEFT_OP_WRITE, 2));
	progress(&bed);
	REQUIRE(poll_one(&bed, 0, &c) == 1);
	EXPECT_EQ(c.id, 1);
	EXPECT_EQ(c.status, WEFT_ERR_REMOTE_OPERATION);
	EXPECT_EQ(c.reason, WEFT_R_FAULT_INJECTED);
	ended(&bed, 0, 2, WEFT_ERR_FLUSHED);
	EXPECT_EQ(bed.qp[0]->state, WEFT_QPS_ERROR);
	EXPECT_EQ(bed.qp[0]->reason, WEFT_R_FAULT_INJECTED);
	EXPECT_EQ(bed.qp[1]->state, WEFT_QPS_ERROR); /* the peer learns of it */
	REQUIRE(event_pop(&bed.adapter.events, &e));
	EXPECT_EQ(e.kind, WEFT_EVENT_QP_ERROR);
	EXPECT_EQ(e.reason, WEFT_R_FAULT_INJECTED);
	bed_close(&bed);
}

TEST(test_faults_qp_error_spares_what_needs_no_peer)
{
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "qp_error=1");
	MUST(post(&bed, WEFT_OP_DELAY, 1));
	progress(&bed);
	REQUIRE(poll_one(&bed, 0, &c) == 1);
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	bed_close(&bed);
}

TEST(test_faults_rnr_holds_a_send_up_and_what_is_behind_it)
{
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "rnr=1:3ms");
	post_recv(&bed, 9);
	MUST(post(&bed, WEFT_OP_WRITE, 1)); /* needs no receive */
	MUST(post(&bed, WEFT_OP_SEND, 2));
	MUST(post(&bed, WEFT_OP_WRITE, 3));
	progress(&bed);
	ended(&bed, 0, 1, WEFT_SUCCESS);
	EXPECT_EQ(adapter_due(&bed.adapter), 1 + 3 * MS);
	bed.now_ns = 3 * MS;
	progress(&bed);
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	bed.now_ns = 1 + 3 * MS;
	progress(&bed);
	ended(&bed, 0, 2, WEFT_SUCCESS);
	ended(&bed, 0, 3, WEFT_SUCCESS);
	ended(&bed, 1, 9, WEFT_SUCCESS);
	bed_close(&bed);
}

TEST(test_faults_rnr_is_not_the_wait_for_a_receive)
{
	struct weft_qp_attr attr = { .receiver_wait_ns = 5 * MS };
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "rnr=1:3ms");
	MUST(qp_modify(bed.qp[0], &attr, WEFT_QP_RECEIVER_WAIT));
	MUST(post(&bed, WEFT_OP_SEND, 1));
	progress(&bed);
	while (wait_next(&bed))
		continue;
	EXPECT_EQ(bed.now_ns, 1 + 8 * MS);
	REQUIRE(poll_one(&bed, 0, &c) == 1);
	EXPECT_EQ(c.status, WEFT_ERR_RECEIVER_NOT_READY);
	bed_close(&bed);
}

TEST(test_faults_wc_delay_shows_completions_late_and_in_order)
{
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "wc_delay=1:2ms");
	MUST(post(&bed, WEFT_OP_WRITE, 1));
	MUST(post(&bed, WEFT_OP_WRITE, 2));
	progress(&bed);
	(void)wait_next(&bed); /* the time begins */
	EXPECT_EQ(bed.now_ns, 1);
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	EXPECT_EQ(adapter_due(&bed.adapter), 1 + 2 * MS);
	bed.now_ns = 2 * MS;
	progress(&bed);
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	bed.now_ns = 1 + 2 * MS;
	progress(&bed);
	ended(&bed, 0, 1, WEFT_SUCCESS);
	ended(&bed, 0, 2, WEFT_SUCCESS);
	EXPECT_EQ(adapter_due(&bed.adapter), UINT64_MAX);
	bed_close(&bed);
}

TEST(test_faults_wc_delay_notifies_when_the_completion_can_be_polled)
{
	struct weft_completion c;
	struct weft_event e;
	struct bed bed;

	bed_open(&bed, "wc_delay=1:2ms");
	MUST(cq_arm(bed.cq[0], WEFT_ARM_NEXT));
	MUST(cq_arm(bed.cq[1], WEFT_ARM_SOLICITED));
	post_recv(&bed, 9);
	MUST(post(&bed, WEFT_OP_SEND, 1));
	progress(&bed);
	(void)wait_next(&bed);
	EXPECT(!event_pop(&bed.adapter.events, &e));
	while (wait_next(&bed))
		continue;
	REQUIRE(event_pop(&bed.adapter.events, &e));
	EXPECT_EQ(e.kind, WEFT_EVENT_COMPLETION);
	EXPECT_EQ(e.number, bed.cq[0]->number);
	EXPECT_EQ(poll_one(&bed, 0, &c), 1);
	EXPECT(!event_pop(&bed.adapter.events, &e)); /* it was not solicited */
	EXPECT_EQ(poll_one(&bed, 1, &c), 1);
	bed_close(&bed);
}

TEST(test_faults_wc_delay_and_a_queue_that_forgets_or_goes)
{
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "wc_delay=1:2ms");
	MUST(post(&bed, WEFT_OP_WRITE, 1));
	progress(&bed);
	cq_forget(bed.cq[0], bed.qp[0]->number);
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	while (wait_next(&bed))
		continue;
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	MUST(post(&bed, WEFT_OP_WRITE, 2));
	progress(&bed);
	bed_close(&bed); /* while it is held */
}

TEST(test_faults_post_full_posts_nothing)
{
	struct weft_completion c;
	struct bed bed;

	bed_open(&bed, "post_full=1");
	EXPECT_EQ(post(&bed, WEFT_OP_WRITE, 1), WEFT_R_QUEUE_FULL);
	progress(&bed);
	EXPECT_EQ(poll_one(&bed, 0, &c), 0);
	EXPECT_EQ(bed.qp[0]->state, WEFT_QPS_RTS);
	bed_close(&bed);
}

/* Drawn when they are posted; what was flushed, or never was late, is not told at the end. */
TEST(test_faults_that_were_drawn_count_when_they_are_made)
{
	struct bed bed;

	bed_open(&bed, "qp_error=1");
	for (uint64_t i = 0; i < 3; i++)
		MUST(post(&bed, WEFT_OP_WRITE, i));
	EXPECT_EQ(bed.plan.happened[FAULT_QP_ERROR], 0);
	progress(&bed);
	EXPECT_EQ(bed.plan.happened[FAULT_QP_ERROR], 1);
	bed_close(&bed);

	bed_open(&bed, "rnr=1:3ms");
	MUST(post(&bed, WEFT_OP_WRITE, 0)); /* which takes time: the wait begins anew after it */
	for (uint64_t i = 1; i < 3; i++)
		MUST(post(&bed, WEFT_OP_SEND, i));
	EXPECT_EQ(bed.plan.happened[FAULT_RNR], 0);
	progress(&bed);
	progress(&bed);
	EXPECT_EQ(bed.plan.happened[FAULT_RNR], 1);
	qp_fail(bed.qp[0], WEFT_R_FLUSHED);
	EXPECT_EQ(bed.plan.happened[FAULT_RNR], 1);
	bed_close(&bed);

	bed_open(&bed, "wc_delay=1:2ms");
	for (uint64_t i = 0; i < 3; i++)
		MUST(post(&bed, WEFT_OP_WRITE, i));
	progress(&bed);
	EXPECT_EQ(bed.plan.happened[FAULT_WC_DELAY], 1); /* the others are behind it */
	bed_close(&bed);
}

enum { REQUESTS = 200 };

/* What came of a run: the hash of all that happened, and completions by request. */
struct story {
	uint64_t hash;
	uint32_t sends, receives, ended[REQUESTS + 1], received[REQUESTS + 1];
	uint64_t faults;
};

static void take_all(struct bed *bed, struct story *s)
{
	struct weft_completion c;

	while (poll_one(bed, 0, &c) == 1)
		s->ended[c.id]++;
	while (poll_one(bed, 1, &c) == 1)
		s->received[c.id]++;
}

static struct story live(const char *faults)
{
	struct story s = { 0 };
	struct bed bed;

	bed_open(&bed, faults);
	while (s.sends < REQUESTS) {
		post_recv(&bed, ++s.receives);
		if (post(&bed, s.sends % 2 ? WEFT_OP_SEND : WEFT_OP_WRITE, s.sends + 1) == WEFT_OK)
			s.sends++;
		progress(&bed);
		if (s.sends % 5 == 0)
			(void)wait_next(&bed);
		take_all(&bed, &s);
		if (s.receives == REQUESTS)
			break;
	}
	while (wait_next(&bed))
		take_all(&bed, &s);
	take_all(&bed, &s);
	for (int i = 0; i < FAULT_COUNT; i++)
		s.faults += bed.plan.happened[i];
	s.hash = bed.trace.hash;
	/* Whatever is still posted ends when the receiver does. */
	qp_fail(bed.qp[1], WEFT_R_FLUSHED);
	progress(&bed);
	while (wait_next(&bed))
		continue;
	take_all(&bed, &s);
	bed_close(&bed);
	return s;
}

TEST(test_faults_every_request_has_one_completion_whatever_happens)
{
	static const char *const plans[] = {
		"qp_error=0.01,rnr=0.1:1us,wc_delay=0.2:3us,post_full=0.05",
		"rnr=0.5:7us,wc_delay=0.5:2us",
		"qp_error=0.05,wc_delay=0.9:100us",
	};
	uint64_t faults = 0;

	for (int seed = 0; seed < 60; seed++) {
		char text[128];
		struct story s;

		snprintf(text, sizeof(text), "seed=%d,%s", seed, plans[seed % 3]);
		s = live(text);
		for (uint32_t i = 1; i <= REQUESTS; i++) {
			REQUIRE(s.ended[i] == (i <= s.sends));
			REQUIRE(s.received[i] == (i <= s.receives));
		}
		faults += s.faults;
	}
	EXPECT(faults > 1000);
}

TEST(test_faults_the_same_seed_tells_the_same_story)
{
	const char *text = "seed=5,qp_error=0.01,rnr=0.1:1us,wc_delay=0.2:3us,post_full=0.05";

	EXPECT_EQ(live(text).hash, live(text).hash);
	EXPECT(live(text).hash !=
	       live("seed=6,qp_error=0.01,rnr=0.1:1us,wc_delay=0.2:3us,post_full=0.05").hash);
}
