/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues. In these pairs end 1 takes its receives from one. */
#include "conformance.h"

enum { PAIRS = 3, EACH = 4, SRQ_MAX = 64 /* the default */ };

static const struct pair_options shared = { .has_srq = true };

static void open_all(struct pair *p)
{
	pair_open(&p[0], &shared);
	for (int i = 1; i < PAIRS; i++)
		pair_open(&p[i], &(struct pair_options){ .beside = &p[0] });
}

static void close_all(struct pair *p)
{
	for (int i = PAIRS - 1; i >= 0; i--)
		pair_close(&p[i]);
}

static void send_byte(struct pair_end *a, uint64_t id, uint8_t value)
{
	const struct weft_sge s = { .addr = (uintptr_t)&value, .length = 1 };
	struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, id, &s, 0);

	wr.flags |= WEFT_INLINE;
	end_post(a, &wr);
}

TEST(test_qp_08_several_queue_pairs_share_receives)
{
	static struct pair p[PAIRS];
	struct pair_end *b = &p[0].ends[1];
	uint32_t from[PAIRS] = { 0 };

	open_all(p);
	for (uint64_t id = 0; id < PAIRS * EACH; id++)
		end_post_recv(b, id, DST + id, 1);
	for (uint64_t n = 0; n < EACH; n++) {
		for (int i = 0; i < PAIRS; i++) {
			send_byte(&p[i].ends[0], n, (uint8_t)(16 * i));
			end_sent(&p[i].ends[0], n);
		}
	}
	for (uint64_t id = 0; id < PAIRS * EACH; id++) {
		struct weft_completion c = end_take(b, b->recv_cq);
		uint32_t who = b->memory[DST + c.id] / 16;

		EXPECT_EQ(c.id, id); /* each receive once, oldest first */
		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT(who < PAIRS);
		EXPECT_EQ(c.qp_number, weft_qp_number(p[who].ends[1].qp));
		from[who]++;
	}
	for (int i = 0; i < PAIRS; i++)
		EXPECT_EQ(from[i], EACH);
	close_all(p);
}

TEST(test_qp_08_a_queue_pair_with_a_shared_queue_has_none_of_its_own)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	const struct weft_recv_wr recv = { .id = 1 };
	uint32_t posted = 9;

	pair_open(&p, &shared);
	EXPECT_EQ(weft_qp_post_recv(b->qp, &recv, 1, &posted), WEFT_R_QUEUE_SHARED);
	EXPECT_EQ(posted, 0);
	EXPECT_EQ(weft_srq_destroy(b->srq), WEFT_R_BUSY);
	pair_close(&p);
}

TEST(test_qp_02_qp_03_a_shared_queue_has_its_limits)
{
	struct pair p;
	struct pair_end *b = &p.ends[1];
	struct weft_recv_wr wrs[SRQ_MAX + 5] = { { 0 } };
	struct weft_sge five[5] = { { 0 } };
	uint32_t posted = 0;

	pair_open(&p, &shared);
	for (uint64_t i = 0; i < SRQ_MAX + 5; i++)
		wrs[i].id = i;
	wrs[3].sge_count = 1; /* and no segments */
	EXPECT_EQ(weft_srq_post_recv(b->srq, wrs, SRQ_MAX, &posted), WEFT_R_NULL_ARGUMENT);
	EXPECT_EQ(posted, 3);
	wrs[3].sges = five;
	wrs[3].sge_count = 5;
	EXPECT_EQ(weft_srq_post_recv(b->srq, &wrs[3], SRQ_MAX, &posted), WEFT_R_WR_SGES);
	EXPECT_EQ(posted, 0);
	wrs[3].sge_count = 4;
	EXPECT_EQ(weft_srq_post_recv(b->srq, &wrs[3], SRQ_MAX + 2, &posted), WEFT_R_QUEUE_FULL);
	EXPECT_EQ(posted, SRQ_MAX - 3);
	for (uint64_t id = 0; id < SRQ_MAX; id++) {
		struct weft_send_wr wr = end_wr(&p.ends[0], WEFT_OP_SEND, id, NULL, 0);

		end_succeeds(&p.ends[0], &wr);
		end_received(b, id);
	}
	pair_close(&p);
}

TEST(test_qp_08_the_limit_event_comes_once)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t number = 0;
	struct weft_event event;
	bool has_event = false;

	pair_open(&p, &shared);
	EXPECT_EQ(weft_srq_arm(b->srq, SRQ_MAX + 1), WEFT_R_BAD_ARGUMENT);
	for (uint64_t id = 0; id < 5; id++)
		end_post_recv(b, id, DST, 1);
	MUST(weft_srq_arm(b->srq, 3));
	for (uint64_t id = 0; id < 5; id++) {
		send_byte(a, id, 1);
		end_sent(a, id);
		end_received(b, id);
		MUST(weft_event_next(b->adapter, 0, &event, &has_event));
		EXPECT_EQ(has_event, id == 2); /* 5 - 3 = 2 left: fewer than 3, told once */
		if (has_event) {
			EXPECT_EQ(event.kind, WEFT_EVENT_SRQ_LIMIT);
			number = event.number;
		}
	}
	MUST(weft_srq_arm(b->srq, 1)); /* it is empty already */
	end_event(b, WEFT_EVENT_SRQ_LIMIT, number);
	MUST(weft_srq_arm(b->srq, 0));
	end_post_recv(b, 9, DST, 1);
	send_byte(a, 9, 1);
	end_sent(a, 9);
	end_received(b, 9);
	EXPECT(!end_has_event(b, WEFT_EVENT_SRQ_LIMIT, number));
	pair_close(&p);
}

static void all_quiet(struct pair *p)
{
	for (int i = 0; i < PAIRS; i++)
		pair_quiet(&p[i]);
}

static uint32_t all_queued(struct pair *p)
{
	uint32_t queued = 0;

	for (int i = 0; i < PAIRS; i++)
		queued += end_query(&p[i].ends[0]).send_queued;
	return queued;
}

/* Several senders wait for one empty queue: each receive wakes one of them. */
TEST(test_qp_08_waiting_senders_are_served_one_by_one)
{
	static struct pair p[PAIRS];
	struct pair_end *b = &p[0].ends[1];
	uint32_t left = PAIRS, seen = 0;

	open_all(p);
	for (int i = 0; i < PAIRS; i++)
		send_byte(&p[i].ends[0], 1, (uint8_t)i);
	for (int i = 0; i < PAIRS; i++)
		pair_settle(&p[i]);
	if (!pair_can(PAIR_ACKNOWLEDGES)) /* some may have ended, for all that they wait */
		left = all_queued(p);
	for (uint32_t i = left; i < PAIRS; i++)
		EXPECT_EQ(end_take(&p[0].ends[0], p[0].ends[0].send_cq).status, WEFT_SUCCESS);
	all_quiet(p);
	for (uint64_t id = 0; id < PAIRS; id++) {
		end_post_recv(b, id, DST + id, 1);
		EXPECT_EQ(end_take(b, b->recv_cq).id, id);
		seen |= 1U << b->memory[DST + id];
		pair_settle(&p[b->memory[DST + id] % PAIRS]);
		for (; left > 0 && all_queued(p) < left; left--)
			EXPECT_EQ(end_take(&p[0].ends[0], p[0].ends[0].send_cq).status,
				  WEFT_SUCCESS);
		all_quiet(p);
		if (pair_can(PAIR_ACKNOWLEDGES))
			EXPECT_EQ(left, PAIRS - 1 - id);
	}
	EXPECT_EQ(seen, (1U << PAIRS) - 1);
	EXPECT_EQ(left, 0);
	close_all(p);
}

/* A queue pair that fails leaves the shared receives to the others. */
TEST(test_qp_14_shared_receives_outlive_a_failed_queue_pair)
{
	static struct pair p[PAIRS];
	struct pair_end *b = &p[0].ends[1];

	open_all(p);
	for (uint64_t id = 0; id < 2; id++)
		end_post_recv(b, id, DST + id, 1);
	end_modify(&p[1].ends[1], WEFT_QPS_ERROR);
	end_await(&p[1].ends[0], WEFT_QPS_ERROR);
	all_quiet(p); /* none was flushed */
	send_byte(&p[0].ends[0], 5, 50);
	end_sent(&p[0].ends[0], 5);
	end_received(b, 0);
	send_byte(&p[2].ends[0], 6, 60);
	end_sent(&p[2].ends[0], 6);
	end_received(&p[2].ends[1], 1);
	EXPECT_EQ(b->memory[DST], 50);
	EXPECT_EQ(b->memory[DST + 1], 60);
	close_all(p);
}

/* The receiver goes while senders wait for its queue: its own peer fails, the other waits on. */
TEST(test_qp_14_destroying_a_receiver_that_is_waited_for)
{
	static struct pair p[PAIRS];
	struct pair_end *b = &p[0].ends[1];
	uint64_t gone, waiting;

	open_all(p);
	send_byte(&p[2].ends[0], 1, 10);
	gone = end_waiting(&p[2].ends[0], 1, 1);
	send_byte(&p[1].ends[0], 2, 20);
	waiting = end_waiting(&p[1].ends[0], 2, 2);
	MUST(weft_qp_destroy(p[2].ends[1].qp));
	p[2].ends[1].qp = NULL;
	end_await(&p[2].ends[0], WEFT_QPS_ERROR);
	end_sends_cut(&p[2].ends[0], gone, 1);
	EXPECT_EQ(end_query(&p[2].ends[0]).reason, WEFT_R_PEER_GONE);
	EXPECT_EQ(end_query(&p[1].ends[0]).send_queued, 3 - waiting);
	end_post_recv(b, 3, DST, 1);
	end_received(&p[1].ends[1], 3);
	end_all_sent(&p[1].ends[0], waiting, 2);
	EXPECT_EQ(b->memory[DST], 20);
	close_all(p);
}

/* A bad receive of the shared queue ends the stream that met it. */
TEST(test_loc_06_a_bad_shared_receive)
{
	static struct pair p[PAIRS];
	struct pair_end *b = &p[0].ends[1];
	struct weft_sge s;
	const struct weft_recv_wr recv = { .id = 1, .sges = &s, .sge_count = 1 };

	open_all(p);
	s = end_seg(b, DST, 8);
	s.tag ^= 1;
	MUST(weft_srq_post_recv(b->srq, &recv, 1, NULL));
	end_post_recv(b, 2, DST, 8);
	send_byte(&p[1].ends[0], 5, 9);
	end_recv_failed(&p[1].ends[1], 1, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INSTANCE);
	end_await(&p[1].ends[0], WEFT_QPS_ERROR);
	end_await(&p[1].ends[1], WEFT_QPS_ERROR);
	end_sends_refused(&p[1].ends[0], 5, 5, WEFT_ERR_REMOTE_OPERATION, WEFT_R_PEER_RECEIVE);
	send_byte(&p[2].ends[0], 6, 9);
	end_received(&p[2].ends[1], 2);
	end_sent(&p[2].ends[0], 6);
	close_all(p);
}
