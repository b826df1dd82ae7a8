/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose in the core, in virtual time: what a consumer meets, and what it never does. */
#include <stdio.h>

#include "test.h"
#include "unit/verbs/core_pair.h"

enum { US = 1000, MS = 1000 * US, TRACE_ROOM = 64 };

/* A connected pair, each with a completion queue of its own, on an adapter with faults. */
struct faulty_pair {
	struct fault_plan plan;
	struct trace trace;
	struct core_pair core;
	uint64_t now_ns;
};

static void pair_open(struct faulty_pair *pair, const char *faults)
{
	const struct core_pair_options o = { .trace = &pair->trace, .faults = &pair->plan };
	struct fault_complaint complaint;

	REQUIRE(fault_plan_read(&pair->plan, faults, &complaint));
	REQUIRE(trace_init(&pair->trace, TRACE_ROOM) == 0);
	pair->now_ns = 1;
	core_pair_open(&pair->core, &o);
}

static void pair_close(struct faulty_pair *pair)
{
	core_pair_close(&pair->core);
	trace_fini(&pair->trace);
}

static void progress(struct faulty_pair *pair)
{
	core_pair_run(&pair->core, pair->now_ns);
}

/* On to the next deadline, and what is due then. False: there is none. */
static bool wait_next(struct faulty_pair *pair)
{
	uint64_t due = adapter_due(&pair->core.adapter);

	if (due == UINT64_MAX)
		return false;
	if (due > pair->now_ns)
		pair->now_ns = due;
	progress(pair);
	return true;
}

static enum weft_reason post(struct faulty_pair *pair, enum weft_opcode opcode, uint64_t id)
{
	struct weft_send_wr wr = { .id = id, .opcode = opcode, .flags = WEFT_SIGNALLED };
	uint32_t posted;

	return qp_post_send(pair->core.qps[0], &wr, 1, &posted);
}

static void post_recv(struct faulty_pair *pair, uint64_t id)
{
	const struct weft_recv_wr wr = { .id = id };
	uint32_t posted;

	MUST(qp_post_recv(pair->core.qps[1], &wr, 1, &posted));
}

static uint32_t poll_one(struct faulty_pair *pair, int side, struct weft_completion *c)
{
	uint32_t count;

	*c = (struct weft_completion){ 0 };
	MUST(cq_poll(pair->core.cqs[side], c, 1, &count));
	return count;
}

/* The next completion of a side. */
static void ended(struct faulty_pair *pair, int side, uint64_t id, enum weft_status status)
{
	struct weft_completion c;

	REQUIRE(poll_one(pair, side, &c) == 1);
	EXPECT_EQ(c.id, id);
	EXPECT_EQ(c.status, status);
}

TEST(test_faults_qp_error_fails_the_request_and_its_queue_pair)
{
	struct weft_completion c;
	struct weft_event e;
	struct faulty_pair pair;

	pair_open(&pair, "qp_error=1");
	MUST(post(&pair, WEFT_OP_WRITE, 1));
	MUST(post(&pair, WEFT_OP_WRITE, 2));
	progress(&pair);
	REQUIRE(poll_one(&pair, 0, &c) == 1);
	EXPECT_EQ(c.id, 1);
	EXPECT_EQ(c.status, WEFT_ERR_REMOTE_OPERATION);
	EXPECT_EQ(c.reason, WEFT_R_FAULT_INJECTED);
	ended(&pair, 0, 2, WEFT_ERR_FLUSHED);
	EXPECT_EQ(pair.core.qps[0]->state, WEFT_QPS_ERROR);
	EXPECT_EQ(pair.core.qps[0]->reason, WEFT_R_FAULT_INJECTED);
	EXPECT_EQ(pair.core.qps[1]->state, WEFT_QPS_ERROR); /* the peer learns of it */
	REQUIRE(event_pop(&pair.core.adapter.events, &e));
	EXPECT_EQ(e.kind, WEFT_EVENT_QP_ERROR);
	EXPECT_EQ(e.reason, WEFT_R_FAULT_INJECTED);
	pair_close(&pair);
}

TEST(test_faults_qp_error_spares_what_needs_no_peer)
{
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "qp_error=1");
	MUST(post(&pair, WEFT_OP_DELAY, 1));
	progress(&pair);
	REQUIRE(poll_one(&pair, 0, &c) == 1);
	EXPECT_EQ(c.status, WEFT_SUCCESS);
	pair_close(&pair);
}

TEST(test_faults_rnr_holds_a_send_up_and_what_is_behind_it)
{
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "rnr=1:3ms");
	post_recv(&pair, 9);
	MUST(post(&pair, WEFT_OP_WRITE, 1)); /* needs no receive */
	MUST(post(&pair, WEFT_OP_SEND, 2));
	MUST(post(&pair, WEFT_OP_WRITE, 3));
	progress(&pair);
	ended(&pair, 0, 1, WEFT_SUCCESS);
	EXPECT_EQ(adapter_due(&pair.core.adapter), 1 + 3 * MS);
	pair.now_ns = 3 * MS;
	progress(&pair);
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	pair.now_ns = 1 + 3 * MS;
	progress(&pair);
	ended(&pair, 0, 2, WEFT_SUCCESS);
	ended(&pair, 0, 3, WEFT_SUCCESS);
	ended(&pair, 1, 9, WEFT_SUCCESS);
	pair_close(&pair);
}

TEST(test_faults_rnr_is_not_the_wait_for_a_receive)
{
	struct weft_qp_attr attr = { .receiver_wait_ns = 5 * MS };
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "rnr=1:3ms");
	MUST(qp_modify(pair.core.qps[0], &attr, WEFT_QP_RECEIVER_WAIT));
	MUST(post(&pair, WEFT_OP_SEND, 1));
	progress(&pair);
	while (wait_next(&pair))
		continue;
	EXPECT_EQ(pair.now_ns, 1 + 8 * MS);
	REQUIRE(poll_one(&pair, 0, &c) == 1);
	EXPECT_EQ(c.status, WEFT_ERR_RECEIVER_NOT_READY);
	pair_close(&pair);
}

TEST(test_faults_wc_delay_shows_completions_late_and_in_order)
{
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "wc_delay=1:2ms");
	MUST(post(&pair, WEFT_OP_WRITE, 1));
	MUST(post(&pair, WEFT_OP_WRITE, 2));
	progress(&pair);
	(void)wait_next(&pair); /* the time begins */
	EXPECT_EQ(pair.now_ns, 1);
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	EXPECT_EQ(adapter_due(&pair.core.adapter), 1 + 2 * MS);
	pair.now_ns = 2 * MS;
	progress(&pair);
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	pair.now_ns = 1 + 2 * MS;
	progress(&pair);
	ended(&pair, 0, 1, WEFT_SUCCESS);
	ended(&pair, 0, 2, WEFT_SUCCESS);
	EXPECT_EQ(adapter_due(&pair.core.adapter), UINT64_MAX);
	pair_close(&pair);
}

TEST(test_faults_wc_delay_notifies_when_the_completion_can_be_polled)
{
	struct weft_completion c;
	struct weft_event e;
	struct faulty_pair pair;

	pair_open(&pair, "wc_delay=1:2ms");
	MUST(cq_arm(pair.core.cqs[0], WEFT_ARM_NEXT));
	MUST(cq_arm(pair.core.cqs[1], WEFT_ARM_SOLICITED));
	post_recv(&pair, 9);
	MUST(post(&pair, WEFT_OP_SEND, 1));
	progress(&pair);
	(void)wait_next(&pair);
	EXPECT(!event_pop(&pair.core.adapter.events, &e));
	while (wait_next(&pair))
		continue;
	REQUIRE(event_pop(&pair.core.adapter.events, &e));
	EXPECT_EQ(e.kind, WEFT_EVENT_COMPLETION);
	EXPECT_EQ(e.number, pair.core.cqs[0]->number);
	EXPECT_EQ(poll_one(&pair, 0, &c), 1);
	EXPECT(!event_pop(&pair.core.adapter.events, &e)); /* it was not solicited */
	EXPECT_EQ(poll_one(&pair, 1, &c), 1);
	pair_close(&pair);
}

TEST(test_faults_wc_delay_and_a_queue_that_forgets_or_goes)
{
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "wc_delay=1:2ms");
	MUST(post(&pair, WEFT_OP_WRITE, 1));
	progress(&pair);
	cq_forget(pair.core.cqs[0], pair.core.qps[0]->number);
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	while (wait_next(&pair))
		continue;
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	MUST(post(&pair, WEFT_OP_WRITE, 2));
	progress(&pair);
	pair_close(&pair); /* while it is held */
}

TEST(test_faults_post_full_posts_nothing)
{
	struct weft_completion c;
	struct faulty_pair pair;

	pair_open(&pair, "post_full=1");
	EXPECT_EQ(post(&pair, WEFT_OP_WRITE, 1), WEFT_R_QUEUE_FULL);
	progress(&pair);
	EXPECT_EQ(poll_one(&pair, 0, &c), 0);
	EXPECT_EQ(pair.core.qps[0]->state, WEFT_QPS_RTS);
	pair_close(&pair);
}

/* Drawn when they are posted; what was flushed, or never was late, is not told at the end. */
TEST(test_faults_that_were_drawn_count_when_they_are_made)
{
	struct faulty_pair pair;

	pair_open(&pair, "qp_error=1");
	for (uint64_t i = 0; i < 3; i++)
		MUST(post(&pair, WEFT_OP_WRITE, i));
	EXPECT_EQ(pair.plan.happened[FAULT_QP_ERROR], 0);
	progress(&pair);
	EXPECT_EQ(pair.plan.happened[FAULT_QP_ERROR], 1);
	pair_close(&pair);

	pair_open(&pair, "rnr=1:3ms");
	MUST(post(&pair, WEFT_OP_WRITE, 0)); /* which takes time: the wait begins anew after it */
	for (uint64_t i = 1; i < 3; i++)
		MUST(post(&pair, WEFT_OP_SEND, i));
	EXPECT_EQ(pair.plan.happened[FAULT_RNR], 0);
	progress(&pair);
	progress(&pair);
	EXPECT_EQ(pair.plan.happened[FAULT_RNR], 1);
	qp_fail(pair.core.qps[0], WEFT_R_FLUSHED);
	EXPECT_EQ(pair.plan.happened[FAULT_RNR], 1);
	pair_close(&pair);

	pair_open(&pair, "wc_delay=1:2ms");
	for (uint64_t i = 0; i < 3; i++)
		MUST(post(&pair, WEFT_OP_WRITE, i));
	progress(&pair);
	EXPECT_EQ(pair.plan.happened[FAULT_WC_DELAY], 1); /* the others are behind it */
	pair_close(&pair);
}

enum { REQUESTS = 200 };

/* What came of a run: the hash of all that happened, and completions by request. */
struct story {
	uint64_t hash;
	uint32_t sends, receives, ended[REQUESTS + 1], received[REQUESTS + 1];
	uint64_t faults;
};

static void take_all(struct faulty_pair *pair, struct story *s)
{
	struct weft_completion c;

	while (poll_one(pair, 0, &c) == 1)
		s->ended[c.id]++;
	while (poll_one(pair, 1, &c) == 1)
		s->received[c.id]++;
}

static struct story live(const char *faults)
{
	struct story s = { 0 };
	struct faulty_pair pair;

	pair_open(&pair, faults);
	while (s.sends < REQUESTS) {
		post_recv(&pair, ++s.receives);
		if (post(&pair, s.sends % 2 ? WEFT_OP_SEND : WEFT_OP_WRITE, s.sends + 1) == WEFT_OK)
			s.sends++;
		progress(&pair);
		if (s.sends % 5 == 0)
			(void)wait_next(&pair);
		take_all(&pair, &s);
		if (s.receives == REQUESTS)
			break;
	}
	while (wait_next(&pair))
		take_all(&pair, &s);
	take_all(&pair, &s);
	for (int i = 0; i < FAULT_COUNT; i++)
		s.faults += pair.plan.happened[i];
	s.hash = pair.trace.hash;
	/* Whatever is still posted ends when the receiver does. */
	qp_fail(pair.core.qps[1], WEFT_R_FLUSHED);
	progress(&pair);
	while (wait_next(&pair))
		continue;
	take_all(&pair, &s);
	pair_close(&pair);
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
