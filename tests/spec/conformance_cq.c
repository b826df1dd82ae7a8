/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: identity of completions, arming, overrun. */
#include "conformance.h"

/* One CQ for many queue pairs: each completion tells which queue pair and which request (QP-S1). */
TEST(test_qp_10_qp_s1_one_queue_for_many_queue_pairs)
{
	enum { PAIRS = 8, EACH = 6 };
	static struct pair p[PAIRS];
	uint32_t sent[PAIRS] = { 0 }, received[PAIRS] = { 0 };

	pair_open(&p[0], &(struct pair_options){ .has_one_cq = true });
	for (int i = 1; i < PAIRS; i++)
		pair_open(&p[i], &(struct pair_options){ .beside = &p[0] });
	for (uint64_t n = 0; n < EACH; n++) {
		for (uint64_t i = 0; i < PAIRS; i++) {
			struct pair_end *a = &p[i].ends[0];
			const struct weft_sge s = end_seg(a, SRC, 8);
			struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, 100 * i + n, &s, 0);

			end_post_recv(a->peer, 1000 + 100 * i + n, DST, 8);
			end_post(a, &wr);
		}
	}
	for (uint64_t i = 0; i < PAIRS * EACH; i++) {
		struct pair_end *a = &p[0].ends[0];
		struct weft_completion c = end_take(a, a->send_cq);
		uint64_t who = c.id / 100;

		EXPECT(who < PAIRS);
		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.opcode, WEFT_OP_SEND);
		EXPECT_EQ(c.qp_number, weft_qp_number(p[who].ends[0].qp));
		EXPECT_EQ(c.id % 100, sent[who]++); /* in order, each once */
		c = end_take(a->peer, a->peer->recv_cq);
		who = (c.id - 1000) / 100;
		EXPECT(who < PAIRS);
		EXPECT_EQ(c.opcode, WEFT_OP_RECV);
		EXPECT_EQ(c.qp_number, weft_qp_number(p[who].ends[1].qp));
		EXPECT_EQ((c.id - 1000) % 100, received[who]++);
	}
	for (int i = PAIRS - 1; i >= 0; i--)
		pair_close(&p[i]);
}

/* Both queues of both kinds of end complete into one, in the order in which things ended. */
TEST(test_qp_10_one_queue_for_both_sides_of_a_queue_pair)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint32_t seen = 0;

	pair_open(&p, &(struct pair_options){ .has_one_cq = true });
	s = end_seg(a, SRC, 8);
	end_post_recv(a, 1, DST, 8);
	wr = end_wr(a->peer, WEFT_OP_SEND, 2, NULL, 0);
	end_succeeds(a->peer, &wr);
	wr = end_wr(a, WEFT_OP_WRITE, 3, &s, DST);
	end_post(a, &wr);
	for (int i = 0; i < 2; i++)
		seen |= 1U << end_take(a, a->send_cq).id;
	EXPECT_EQ(seen, 1U << 1 | 1U << 3);
	pair_close(&p);
}

TEST(test_qp_10_polling_takes_at_most_what_is_asked_for)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	const struct weft_sge nothing = { 0 };
	struct weft_completion c[8] = { { .id = 99 } };
	uint32_t count = 7, got = 0;
	uint64_t since;

	pair_open(&p, NULL);
	MUST(weft_cq_poll(a->send_cq, c, 8, &count));
	EXPECT_EQ(count, 0);
	EXPECT_EQ(c[0].id, 99);
	for (uint64_t id = 0; id < 10; id++) {
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, id, &nothing, 0);

		end_post(a, &wr);
	}
	MUST_EQ(end_take(a, a->send_cq).id, 0);
	since = pair_maker.now_ns(&p);
	for (got = 1; got < 10; got += count) {
		REQUIRE(pair_wait(&p, since));
		MUST(weft_cq_poll(a->send_cq, c, 4, &count));
		EXPECT(count <= 4);
		for (uint32_t i = 0; i < count; i++)
			EXPECT_EQ(c[i].id, got + i);
	}
	EXPECT_EQ(got, 10);
	MUST(weft_cq_poll(a->send_cq, NULL, 0, &count));
	EXPECT_EQ(count, 0);
	pair_close(&p);
}

/* ---- Arming --------------------------------------------------------------------------------- */

static bool has_completion_event(struct pair_end *e, struct weft_cq *cq)
{
	return end_has_event(e, WEFT_EVENT_COMPLETION, weft_cq_number(cq));
}

/* A message to b, solicited or not, seen to have arrived. */
static void send_to(struct pair_end *b, uint32_t flags)
{
	struct weft_send_wr wr = end_wr(b->peer, WEFT_OP_SEND, 1, NULL, 0);

	wr.flags |= flags;
	end_post_recv(b, 2, DST, 8);
	end_succeeds(b->peer, &wr);
	end_received(b, 2);
}

TEST(test_qp_10_arm_for_the_next_completion)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	struct weft_event event;

	pair_open(&p, NULL);
	send_to(b, WEFT_SOLICITED);
	EXPECT(!has_completion_event(b, b->recv_cq)); /* it was not armed */
	MUST(weft_cq_arm(b->recv_cq, WEFT_ARM_NEXT));
	EXPECT(!has_completion_event(b, b->recv_cq)); /* what is past does not count */
	send_to(b, 0);
	event = end_event(b, WEFT_EVENT_COMPLETION, weft_cq_number(b->recv_cq));
	EXPECT_EQ(event.reason, WEFT_OK);
	send_to(b, WEFT_SOLICITED);
	EXPECT(!has_completion_event(b, b->recv_cq)); /* one arm, one event */
	EXPECT(!has_completion_event(b, b->send_cq));
	pair_close(&p);
}

TEST(test_qp_10_arm_for_solicited_completions)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	MUST(weft_cq_arm(b->recv_cq, WEFT_ARM_SOLICITED));
	send_to(b, 0);
	EXPECT(!has_completion_event(b, b->recv_cq));
	send_to(b, WEFT_SOLICITED);
	end_event(b, WEFT_EVENT_COMPLETION, weft_cq_number(b->recv_cq));
	/* The immediate of a Write solicits too. */
	MUST(weft_cq_arm(b->recv_cq, WEFT_ARM_SOLICITED));
	wr = end_wr(a, WEFT_OP_WRITE_IMM, 1, NULL, DST);
	wr.flags |= WEFT_SOLICITED;
	end_post_recv(b, 2, DST, 8);
	end_succeeds(a, &wr);
	end_received(b, 2);
	end_event(b, WEFT_EVENT_COMPLETION, weft_cq_number(b->recv_cq));
	/* A failure always does. */
	MUST(weft_cq_arm(b->recv_cq, WEFT_ARM_SOLICITED));
	end_post_recv(b, 3, DST, 8);
	end_modify(b, WEFT_QPS_ERROR);
	end_recvs_flushed(b, 3, 3);
	end_event(b, WEFT_EVENT_COMPLETION, weft_cq_number(b->recv_cq));
	pair_close(&p);
}

TEST(test_qp_10_the_wider_arm_wins)
{
	static const enum weft_arm orders[2][2] = { { WEFT_ARM_NEXT, WEFT_ARM_SOLICITED },
						    { WEFT_ARM_SOLICITED, WEFT_ARM_NEXT } };
	struct pair p;
	struct pair_end *b = &p.ends[1];

	pair_open(&p, NULL);
	for (int i = 0; i < 2; i++) {
		MUST(weft_cq_arm(b->recv_cq, orders[i][0]));
		MUST(weft_cq_arm(b->recv_cq, orders[i][1]));
		send_to(b, 0);
		end_event(b, WEFT_EVENT_COMPLETION, weft_cq_number(b->recv_cq));
	}
	EXPECT_EQ(weft_cq_arm(b->recv_cq, (enum weft_arm)2), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_cq_arm(b->recv_cq, (enum weft_arm) - 1), WEFT_R_BAD_ARGUMENT);
	send_to(b, WEFT_SOLICITED);
	EXPECT(!has_completion_event(b, b->recv_cq));
	pair_close(&p);
}

/* ---- Overrun -------------------------------------------------------------------------------- */

enum { ENTRIES = 4, REQUESTS = 10 };

/* Posts more than the queue holds; polls what came through. */
static void overrun(struct pair_end *a)
{
	const struct weft_sge nothing = { 0 };
	struct weft_send_wr wrs[REQUESTS];
	struct weft_completion c;
	uint32_t count;

	for (uint64_t i = 0; i < REQUESTS; i++)
		wrs[i] = end_wr(a, WEFT_OP_WRITE, i, &nothing, 0);
	MUST(weft_qp_post_send(a->qp, wrs, REQUESTS, NULL));
	MUST_EQ(end_event(a, WEFT_EVENT_CQ_OVERRUN, weft_cq_number(a->send_cq)).reason,
		WEFT_R_CQ_OVERRUN);
	end_await(a, WEFT_QPS_ERROR);
	MUST_EQ(end_query(a).reason, WEFT_R_CQ_OVERRUN);
	for (uint64_t id = 0; id < ENTRIES; id++)
		end_sent(a, id);
	MUST_EQ(weft_cq_poll(a->send_cq, &c, 1, &count), WEFT_R_CQ_OVERRUN);
	MUST_EQ(count, 0);
	a->pair->is_overrun = true;
}

TEST(test_qp_10_overrun_is_reported_and_stops_its_queue_pairs)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, &(struct pair_options){ .cq_entries = ENTRIES });
	overrun(a);
	EXPECT_EQ(end_event(a, WEFT_EVENT_QP_ERROR, weft_qp_number(a->qp)).reason,
		  WEFT_R_CQ_OVERRUN);
	end_await(b, WEFT_QPS_ERROR);
	pair_close(&p);
}

/* Queue pairs that share the CQ stop, the others continue. */
TEST(test_qp_10_overrun_stops_whose_completion_was_lost_and_no_other)
{
	static struct pair p, q;
	struct weft_qp *bystander;
	struct weft_qp_attr attr;
	struct weft_cq *other;
	struct weft_qp_options o = { 0 };

	pair_open(&p, &(struct pair_options){ .cq_entries = ENTRIES });
	pair_open(&q, &(struct pair_options){ .beside = &p });
	MUST(weft_cq_create(p.ends[0].adapter, NULL, &other));
	o.send_cq = o.recv_cq = other;
	MUST(weft_qp_create(p.ends[0].pd, &o, &bystander));
	MUST(weft_qp_modify(bystander, &(struct weft_qp_attr){ .state = WEFT_QPS_INIT },
			    WEFT_QP_STATE));
	overrun(&p.ends[0]);
	EXPECT_EQ(end_query(&p.ends[0]).reason, WEFT_R_CQ_OVERRUN);
	EXPECT_EQ(end_query(&q.ends[0]).state, WEFT_QPS_RTS); /* shares the queue, lost nothing */
	MUST(weft_qp_query(bystander, &attr));
	EXPECT_EQ(attr.state, WEFT_QPS_INIT);
	MUST(weft_qp_destroy(bystander));
	MUST(weft_cq_destroy(other));
	q.is_overrun = true;
	pair_close(&q);
	pair_close(&p);
}

/* A queue just large enough is not overrun, again and again. */
TEST(test_qp_10_a_full_queue_is_no_overrun)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	const struct weft_sge nothing = { 0 };

	pair_open(&p, &(struct pair_options){ .cq_entries = 7 });
	for (int round = 0; round < 5; round++) {
		for (uint64_t id = 0; id < 7; id++) {
			struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, id, &nothing, 0);

			end_post(a, &wr);
		}
		for (uint64_t id = 0; id < 7; id++)
			end_sent(a, id);
	}
	EXPECT(!end_has_event(a, WEFT_EVENT_CQ_OVERRUN, weft_cq_number(a->send_cq)));
	EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
	pair_close(&p);
}

/* Of two queue pairs on one queue, one is forgotten; the other's completions keep their order. */
TEST(test_qp_10_a_queue_forgets_one_queue_pair)
{
	static struct pair p, q;
	struct pair_end *a = &p.ends[0], *b = &q.ends[0];
	const struct weft_sge nothing = { 0 };
	uint64_t since;

	pair_open(&p, &(struct pair_options){ .cq_entries = 7 });
	pair_open(&q, &(struct pair_options){ .beside = &p });
	for (uint64_t id = 0; id < 6; id++) {
		struct pair_end *e = id % 2 ? b : a;
		struct weft_send_wr wr = end_wr(e, WEFT_OP_WRITE, id, &nothing, 0);

		end_post(e, &wr);
		since = pair_maker.now_ns(&p);
		while (end_query(e).send_queued > 0)
			REQUIRE(pair_wait(&p, since));
	}
	EXPECT_EQ(weft_cq_forget(NULL, 1), WEFT_R_NULL_ARGUMENT);
	MUST(weft_cq_forget(a->send_cq, weft_qp_number(a->qp)));
	MUST(weft_cq_forget(a->send_cq, weft_qp_number(a->qp))); /* nothing is left of it */
	for (uint64_t id = 1; id < 6; id += 2)
		EXPECT_EQ(end_take(b, b->send_cq).id, id);
	pair_close(&q);
	pair_close(&p);
}

/* What is in the queue survives, in order, wherever in the ring it lay. */
TEST(test_qp_10_a_queue_changes_its_room)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	const struct weft_sge nothing = { 0 };
	struct weft_completion c;
	uint64_t since;
	uint32_t count;

	pair_open(&p, &(struct pair_options){ .cq_entries = 7 });
	for (uint64_t id = 0; id < 10; id++) {
		struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, id, &nothing, 0);

		if (id == 5) { /* the rest wraps around the end of the ring */
			for (uint64_t done = 0; done < 5; done++)
				end_sent(a, done);
		}
		end_post(a, &wr);
	}
	MUST_EQ(end_take(a, a->send_cq).id, 5);
	since = pair_maker.now_ns(&p);
	while (end_query(a).send_queued > 0)
		REQUIRE(pair_wait(&p, since));
	EXPECT_EQ(weft_cq_resize(a->send_cq, 3), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_cq_resize(a->send_cq, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_cq_resize(a->send_cq, UINT32_MAX), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(weft_cq_resize(NULL, 8), WEFT_R_NULL_ARGUMENT);
	MUST(weft_cq_resize(a->send_cq, 4)); /* just what is there */
	MUST(weft_cq_poll(a->send_cq, &c, 1, &count));
	EXPECT_EQ(c.id, 6);
	MUST(weft_cq_resize(a->send_cq, 100));
	for (uint64_t id = 7; id < 10; id++)
		end_sent(a, id);
	EXPECT_EQ(weft_cq_resize(a->send_cq, 0), WEFT_R_BAD_ARGUMENT); /* though it is empty */
	pair_close(&p);
}

/* The same on the receiving side: the stream of the receive that could not be told ends. */
TEST(test_qp_10_overrun_by_receives)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_completion c;
	uint32_t count;

	pair_open(&p, &(struct pair_options){ .cq_entries = ENTRIES });
	for (uint64_t id = 0; id < REQUESTS; id++)
		end_post_recv(b, id, DST, 8);
	for (uint64_t id = 0; id <= ENTRIES; id++) {
		struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, id, NULL, 0);

		wr.flags = 0;
		end_post(a, &wr);
	}
	EXPECT_EQ(end_event(b, WEFT_EVENT_CQ_OVERRUN, weft_cq_number(b->recv_cq)).reason,
		  WEFT_R_CQ_OVERRUN);
	end_await(b, WEFT_QPS_ERROR);
	EXPECT_EQ(end_query(b).reason, WEFT_R_CQ_OVERRUN);
	end_await(a, WEFT_QPS_ERROR);
	for (uint64_t id = 0; id < ENTRIES; id++)
		end_received(b, id);
	EXPECT_EQ(weft_cq_poll(b->recv_cq, &c, 1, &count), WEFT_R_CQ_OVERRUN);
	MUST(weft_cq_poll(b->recv_cq, &c, 1, &count)); /* said once */
	EXPECT_EQ(count, 0);
	p.is_overrun = true;
	pair_close(&p);
}
