/* SPDX-License-Identifier: BSD-2-Clause */
/* The states of a queue pair (QP-14): every move, what is flushed, and the pause (SQD). */
#include "conformance.h"

#define TO(state) (1U << WEFT_QPS_##state)

/* What the consumer may ask for, from each state. SQE is never asked for. */
static const uint32_t legal[WEFT_QPS_COUNT] = {
	[WEFT_QPS_RESET] = TO(RESET) | TO(INIT) | TO(ERROR),
	[WEFT_QPS_INIT] = TO(RESET) | TO(INIT) | TO(RTR) | TO(ERROR),
	[WEFT_QPS_RTR] = TO(RESET) | TO(RTS) | TO(ERROR),
	[WEFT_QPS_RTS] = TO(RESET) | TO(RTS) | TO(SQD) | TO(ERROR),
	[WEFT_QPS_SQD] = TO(RESET) | TO(RTS) | TO(SQD) | TO(ERROR),
	[WEFT_QPS_SQE] = TO(RESET) | TO(RTS) | TO(ERROR),
	[WEFT_QPS_ERROR] = TO(RESET) | TO(ERROR),
};

enum { BAD_ID = 77 };
static const uint64_t for_ever = UINT64_MAX;

static enum weft_reason ask(struct pair_end *e, enum weft_qp_state state)
{
	const struct weft_qp_attr attr = { .state = state };

	return weft_qp_modify(e->qp, &attr, WEFT_QP_STATE);
}

/* A request that fails on this side: an operational queue pair goes to SQE, given option 1. */
static void fail_locally(struct pair_end *e)
{
	const struct weft_sge bad = { .addr = 8, .length = 8, .tag = 0xffffff00 };
	struct weft_send_wr wr = end_wr(e, WEFT_OP_SEND, BAD_ID, &bad, 0);

	end_post(e, &wr);
	end_send_failed(e, BAD_ID, WEFT_ERR_LOCAL_ACCESS, WEFT_R_TAG_INDEX);
	end_await(e, WEFT_QPS_SQE);
}

/* From RESET to the state, on the ways of a datagram service, which needs no peer. */
static void walk_to(struct pair_end *e, enum weft_qp_state state)
{
	static const enum weft_qp_state way[] = { WEFT_QPS_INIT, WEFT_QPS_RTR, WEFT_QPS_RTS };

	end_modify(e, WEFT_QPS_RESET);
	if (state == WEFT_QPS_RESET)
		return;
	if (state == WEFT_QPS_ERROR) {
		end_modify(e, state);
		return;
	}
	for (int i = 0; i < 3; i++) {
		end_modify(e, way[i]);
		if (way[i] == state)
			return;
	}
	if (state == WEFT_QPS_SQE)
		fail_locally(e);
	else
		end_modify(e, state);
}

/* The states that a connected service has without a peer; the others have a test of their own. */
static void moves_without_a_peer(void)
{
	static const enum weft_qp_state reachable[] = { WEFT_QPS_RESET, WEFT_QPS_INIT,
							WEFT_QPS_ERROR };
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	for (int i = 0; i < 3; i++) {
		for (int to = -1; to <= WEFT_QPS_COUNT; to++) {
			bool is_state = to >= 0 && to < WEFT_QPS_COUNT;
			bool is_legal = is_state && (legal[reachable[i]] & 1U << to);
			enum weft_reason want = is_legal ? WEFT_OK : WEFT_R_QP_STATE;

			if (reachable[i] == WEFT_QPS_INIT && to == WEFT_QPS_RTR)
				want = WEFT_R_QP_UNCONNECTED;
			walk_to(a, reachable[i]);
			MUST_EQ(ask(a, (enum weft_qp_state)to), want);
			MUST_EQ((int)end_query(a).state, want == WEFT_OK ? to : (int)reachable[i]);
		}
	}
	pair_close(&p);
}

TEST(test_qp_14_every_move_is_legal_or_refused)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	if (!pair_has_service(WEFT_UD)) {
		moves_without_a_peer();
		return;
	}
	pair_open(&p, &(struct pair_options){ .service = WEFT_UD, .on_failure = WEFT_FAIL_DRAIN });
	for (int from = 0; from < WEFT_QPS_COUNT; from++) {
		for (int to = 0; to < WEFT_QPS_COUNT; to++) {
			bool is_legal = legal[from] & 1U << to;

			walk_to(a, (enum weft_qp_state)from);
			EXPECT_EQ(ask(a, (enum weft_qp_state)to),
				  is_legal ? WEFT_OK : WEFT_R_QP_STATE);
			EXPECT_EQ((int)end_query(a).state, is_legal ? to : (int)from);
		}
		walk_to(a, (enum weft_qp_state)from);
		EXPECT_EQ(ask(a, WEFT_QPS_COUNT), WEFT_R_QP_STATE);
		EXPECT_EQ(ask(a, (enum weft_qp_state) - 1), WEFT_R_QP_STATE);
		EXPECT_EQ(ask(a, (enum weft_qp_state)(32 + WEFT_QPS_ERROR)), WEFT_R_QP_STATE);
		EXPECT_EQ(end_query(a).state, from);
	}
	pair_close(&p);
}

static void stays_operational(struct pair_end *e)
{
	pair_settle(e->pair);
	MUST_EQ(end_query(e).state, WEFT_QPS_RTS);
}

TEST(test_qp_14_moves_of_a_connected_queue_pair)
{
	static const enum weft_qp_state reachable[] = { WEFT_QPS_RTS, WEFT_QPS_SQD, WEFT_QPS_SQE,
							WEFT_QPS_ERROR };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < 4; i++) {
		for (int to = 0; to < WEFT_QPS_COUNT; to++) {
			enum weft_qp_state from = reachable[i];
			bool is_legal = legal[from] & 1U << to;

			pair_open(&p, &(struct pair_options){ .on_failure = WEFT_FAIL_DRAIN });
			if (from == WEFT_QPS_SQE)
				fail_locally(a);
			else
				end_modify(a, from);
			EXPECT_EQ(ask(a, (enum weft_qp_state)to),
				  is_legal ? WEFT_OK : WEFT_R_QP_STATE);
			EXPECT_EQ((int)end_query(a).state, is_legal ? to : (int)from);
			/* The stream lasts as long as this end serves it. */
			if (is_legal && (to == WEFT_QPS_RESET || to == WEFT_QPS_ERROR))
				end_await(b, WEFT_QPS_ERROR);
			else if (from != WEFT_QPS_ERROR)
				stays_operational(b);
			pair_close(&p);
		}
	}
}

/* Without a peer a connected service does not get ready. */
TEST(test_qp_12_qp_14_no_peer_no_rtr)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	end_modify(a, WEFT_QPS_RESET);
	EXPECT_EQ(end_query(a).peer_number, 0);
	end_modify(a, WEFT_QPS_INIT);
	EXPECT_EQ(ask(a, WEFT_QPS_RTR), WEFT_R_QP_UNCONNECTED);
	EXPECT_EQ(end_query(a).state, WEFT_QPS_INIT);
	pair_close(&p);
}

TEST(test_qp_03_modify_changes_all_or_nothing)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_qp_attr was, attr, now;

	pair_open(&p, NULL);
	was = end_query(a);
	attr = (struct weft_qp_attr){
		.state = WEFT_QPS_SQD,
		.remote_rights = WEFT_REMOTE_READ,
		.on_failure = WEFT_FAIL_DRAIN,
		.receiver_wait_ns = 5,
	};
	uint32_t good = WEFT_QP_STATE | WEFT_QP_REMOTE_RIGHTS | WEFT_QP_ON_FAILURE |
			WEFT_QP_RECEIVER_WAIT;

	EXPECT_EQ(weft_qp_modify(a->qp, &attr, good | 1U << 20), WEFT_R_BAD_ARGUMENT);
	attr.remote_rights = WEFT_LOCAL_READ;
	EXPECT_EQ(weft_qp_modify(a->qp, &attr, good), WEFT_R_REG_RIGHTS);
	attr.remote_rights = WEFT_REMOTE_READ;
	attr.on_failure = (enum weft_failure)9;
	EXPECT_EQ(weft_qp_modify(a->qp, &attr, good), WEFT_R_BAD_ARGUMENT);
	attr.on_failure = WEFT_FAIL_DRAIN;
	attr.state = WEFT_QPS_INIT;
	EXPECT_EQ(weft_qp_modify(a->qp, &attr, good), WEFT_R_QP_STATE);
	attr.state = WEFT_QPS_SQD;
	attr.is_register_enabled = true;
	EXPECT_EQ(weft_qp_modify(a->qp, &attr, good | WEFT_QP_REGISTER), WEFT_R_SQR_PRIVILEGE);
	now = end_query(a);
	EXPECT_EQ(now.state, was.state);
	EXPECT_EQ(now.remote_rights, was.remote_rights);
	EXPECT_EQ(now.on_failure, was.on_failure);
	EXPECT_EQ(now.receiver_wait_ns, was.receiver_wait_ns);
	MUST(weft_qp_modify(a->qp, &attr, good));
	now = end_query(a);
	EXPECT_EQ(now.state, WEFT_QPS_SQD);
	EXPECT_EQ(now.remote_rights, WEFT_REMOTE_READ);
	EXPECT_EQ(now.on_failure, WEFT_FAIL_DRAIN);
	EXPECT_EQ(now.receiver_wait_ns, 5);
	pair_close(&p);
}

/* ---- What is flushed ------------------------------------------------------------------------ */

/* Ids 1 to 4 in the send queue, held back; 10 to 12 in the receive queue. */
static void load(struct pair_end *e)
{
	const struct weft_sge s = end_seg(e, SRC, 8);
	struct weft_send_wr wrs[4];

	for (uint64_t i = 0; i < 4; i++)
		wrs[i] = end_wr(e, WEFT_OP_WRITE, 1 + i, &s, DST);
	wrs[0] = wr_make(WEFT_OP_DELAY, 1, NULL, 0);
	wrs[0].delay_ns = for_ever;
	wrs[2].flags = 0;
	MUST(weft_qp_post_send(e->qp, wrs, 4, NULL));
	for (uint64_t id = 10; id <= 12; id++)
		end_post_recv(e, id, DST, 8);
	MUST_EQ(end_query(e).send_queued, 4);
	MUST_EQ(end_query(e).recv_queued, 3);
}

TEST(test_qp_14_error_flushes_everything_at_both_ends)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	load(a);
	load(b);
	end_modify(a, WEFT_QPS_ERROR);
	end_sends_flushed(a, 1, 4);
	end_recvs_flushed(a, 10, 12);
	end_await(b, WEFT_QPS_ERROR);
	end_sends_flushed(b, 1, 4);
	end_recvs_flushed(b, 10, 12);
	end_is_blank(a, DST, 8);
	end_is_blank(b, DST, 8);
	EXPECT_EQ(end_query(a).reason, WEFT_R_FLUSHED);
	EXPECT_EQ(end_query(b).reason, WEFT_R_PEER_TERMINATED);
	EXPECT_EQ(end_event(b, WEFT_EVENT_QP_ERROR, weft_qp_number(b->qp)).reason,
		  WEFT_R_PEER_TERMINATED);
	/* What is posted afterwards is flushed as well. */
	wr = end_wr(b, WEFT_OP_WRITE, 20, NULL, DST);
	end_post(b, &wr);
	end_post_recv(b, 21, DST, 8);
	end_sends_flushed(b, 20, 20);
	end_recvs_flushed(b, 21, 21);
	pair_close(&p);
}

TEST(test_qp_14_reset_flushes_and_forgets)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_sge nothing = { 0 };
	struct weft_send_wr wr;
	struct weft_recv_wr recv = { .id = 5 };

	pair_open(&p, NULL);
	load(a);
	load(b);
	end_modify(a, WEFT_QPS_RESET);
	end_sends_flushed(a, 1, 4);
	end_recvs_flushed(a, 10, 12);
	end_await(b, WEFT_QPS_ERROR);
	EXPECT_EQ(end_query(b).reason, WEFT_R_PEER_GONE);
	end_sends_flushed(b, 1, 4);
	end_recvs_flushed(b, 10, 12);
	EXPECT_EQ(end_query(a).reason, WEFT_OK);
	wr = end_wr(a, WEFT_OP_WRITE, 5, &nothing, DST);
	EXPECT_EQ(weft_qp_post_send(a->qp, &wr, 1, NULL), WEFT_R_WR_STATE);
	EXPECT_EQ(weft_qp_post_recv(a->qp, &recv, 1, NULL), WEFT_R_WR_STATE);
	end_modify(b, WEFT_QPS_RESET);
	pair_maker.connect(&p);
	end_succeeds(a, &wr);
	wr = end_wr(b, WEFT_OP_WRITE, 6, &nothing, DST);
	end_succeeds(b, &wr);
	pair_close(&p);
}

/* Receives may be posted before the connection, sends may not; they are served after it. */
TEST(test_qp_14_init_takes_receives_only)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	end_modify(b, WEFT_QPS_RESET);
	end_await(a, WEFT_QPS_ERROR);
	end_modify(a, WEFT_QPS_RESET);
	end_modify(b, WEFT_QPS_INIT);
	s = end_seg(b, SRC, 8);
	wr = end_wr(b, WEFT_OP_SEND, 1, &s, 0);
	EXPECT_EQ(weft_qp_post_send(b->qp, &wr, 1, NULL), WEFT_R_WR_STATE);
	end_post_recv(b, 2, DST, 8);
	EXPECT_EQ(end_query(b).recv_queued, 1);
	pair_maker.connect(&p);
	s = end_seg(a, SRC, 8);
	wr = end_wr(a, WEFT_OP_SEND, 3, &s, 0);
	end_succeeds(a, &wr);
	end_received(b, 2);
	pair_close(&p);
}

TEST(test_qp_14_destroying_flushes_what_is_queued)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	uint32_t number;

	pair_open(&p, NULL);
	load(a);
	load(b);
	number = weft_qp_number(a->qp);
	MUST(weft_qp_destroy(a->qp));
	a->qp = NULL;
	for (uint64_t id = 1; id <= 4; id++) {
		struct weft_completion c = end_take(a, a->send_cq);

		EXPECT_EQ(c.id, id);
		EXPECT_EQ(c.status, WEFT_ERR_FLUSHED);
		EXPECT_EQ(c.qp_number, number);
	}
	for (uint64_t id = 10; id <= 12; id++)
		EXPECT_EQ(end_take(a, a->recv_cq).id, id);
	end_await(b, WEFT_QPS_ERROR);
	EXPECT_EQ(end_event(b, WEFT_EVENT_QP_ERROR, weft_qp_number(b->qp)).reason,
		  WEFT_R_PEER_GONE);
	end_sends_flushed(b, 1, 4);
	end_recvs_flushed(b, 10, 12);
	pair_close(&p);
}

/* ---- The pause ------------------------------------------------------------------------------ */

static bool is_drained(struct pair_end *e)
{
	return end_has_event(e, WEFT_EVENT_QP_DRAINED, weft_qp_number(e->qp));
}

/*
 * A request that has begun and cannot end before the peer has posted a receive: a Send if it is
 * acknowledged and holds up what follows, else a Read behind a Send.
 */
static void begin_waiting(struct pair_end *a, uint64_t id)
{
	const struct weft_sge s = end_seg(a, SRC, 64), sink = end_seg(a, DST, 8);
	struct weft_send_wr wr = end_wr(a, WEFT_OP_SEND, id, &s, 0);

	pair_settle(a->pair); /* nothing of before is in the way of its beginning */
	if (!pair_can(PAIR_ACKNOWLEDGES) || pair_can(PAIR_PIPELINES)) {
		wr.flags = 0;
		end_post(a, &wr);
		wr = end_wr(a, WEFT_OP_READ, id, &sink, SRC);
	}
	end_post(a, &wr);
}

TEST(test_qp_14_sqd_finishes_what_has_begun_and_holds_the_rest)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wrs[4];

	pair_open(&p, NULL);
	s = end_seg(a, SRC, 64);
	end_fill(a, SRC, 64, 1);
	begin_waiting(a, 1);
	wrs[1] = end_wr(a, WEFT_OP_WRITE, 2, &s, DST);
	wrs[1].flags |= WEFT_FENCE; /* does not begin together with it */
	wrs[2] = end_wr(a, WEFT_OP_SEND, 3, &s, 0);
	MUST(weft_qp_post_send(a->qp, &wrs[1], 2, NULL));
	end_modify(a, WEFT_QPS_SQD);
	EXPECT(!is_drained(a));
	end_post_recv(b, 10, DST + 1024, 64);
	end_received(b, 10);
	end_sent(a, 1);
	EXPECT_EQ(end_event(a, WEFT_EVENT_QP_DRAINED, weft_qp_number(a->qp)).reason, WEFT_OK);
	EXPECT_EQ(end_query(a).state, WEFT_QPS_SQD);
	EXPECT_EQ(end_query(a).send_queued, 2);
	wrs[3] = end_wr(a, WEFT_OP_WRITE, 4, &s, DST + 64); /* accepted, and held too */
	end_post(a, &wrs[3]);
	end_post_recv(b, 11, DST + 2048, 64);
	pair_quiet(&p);
	end_is_blank(b, DST, 128);
	EXPECT_EQ(end_query(a).send_queued, 3);
	end_modify(a, WEFT_QPS_RTS);
	end_sent(a, 2);
	end_sent(a, 3);
	end_sent(a, 4);
	end_received(b, 11);
	end_holds(b, DST, 64, 1);
	end_holds(b, DST + 64, 64, 1);
	EXPECT(!is_drained(a)); /* told once */
	pair_close(&p);
}

TEST(test_qp_14_sqd_keeps_serving_the_peer)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	end_modify(a, WEFT_QPS_SQD);
	end_event(a, WEFT_EVENT_QP_DRAINED, weft_qp_number(a->qp)); /* nothing had begun */
	end_fill(b, SRC, 64, 2);
	s = end_seg(b, SRC, 64);
	wr = end_wr(b, WEFT_OP_WRITE, 1, &s, DST);
	end_succeeds(b, &wr);
	end_holds(a, DST, 64, 2);
	end_post_recv(a, 2, DST + 64, 64);
	wr = end_wr(b, WEFT_OP_SEND, 3, &s, 0);
	end_succeeds(b, &wr);
	end_received(a, 2);
	s = end_seg(b, DST, 64);
	wr = end_wr(b, WEFT_OP_READ, 4, &s, DST);
	end_succeeds(b, &wr);
	end_holds(b, DST, 64, 2);
	pair_close(&p);
}

TEST(test_qp_14_sqd_taken_back_before_it_was_reached)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	begin_waiting(a, 1);
	s = end_seg(a, SRC, 8);
	wr = end_wr(a, WEFT_OP_WRITE, 2, &s, DST);
	wr.flags |= WEFT_FENCE;
	end_post(a, &wr);
	end_modify(a, WEFT_QPS_SQD);
	end_modify(a, WEFT_QPS_RTS);
	pair_quiet(&p);
	end_post_recv(b, 3, DST + 64, 64);
	end_sent(a, 1);
	end_sent(a, 2);
	end_received(b, 3);
	EXPECT(!is_drained(a));
	pair_close(&p);
}

TEST(test_qp_14_sqd_to_error_flushes)
{
	struct pair p;
	struct pair_end *a = &p.ends[0];

	pair_open(&p, NULL);
	load(a);
	end_modify(a, WEFT_QPS_SQD);
	end_modify(a, WEFT_QPS_ERROR);
	end_sends_flushed(a, 1, 4);
	end_recvs_flushed(a, 10, 12);
	EXPECT(!is_drained(a));
	pair_close(&p);
}

/* A request that had begun and fails while the queue drains ends the pause like any failure. */
TEST(test_qp_14_sqd_failing_meanwhile)
{
	const struct weft_qp_attr wait = { .receiver_wait_ns = 1000 * 1000 };
	struct pair p;
	struct pair_end *a = &p.ends[0];
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	for (int i = 0; i < 2; i++)
		MUST(weft_qp_modify(p.ends[i].qp, &wait, WEFT_QP_RECEIVER_WAIT));
	begin_waiting(a, 1);
	s = end_seg(a, SRC, 8);
	wr = end_wr(a, WEFT_OP_WRITE, 2, &s, DST);
	wr.flags |= WEFT_FENCE;
	end_post(a, &wr);
	ask(a, WEFT_QPS_SQD); /* comes late if the time is over already */
	end_await(a, WEFT_QPS_ERROR);
	EXPECT_EQ(end_query(a).reason, WEFT_R_RECEIVER_NOT_READY);
	if (pair_can(PAIR_ACKNOWLEDGES))
		end_send_failed(a, 1, WEFT_ERR_RECEIVER_NOT_READY, WEFT_R_RECEIVER_NOT_READY);
	if (!pair_can(PAIR_ACKNOWLEDGES) || pair_can(PAIR_PIPELINES))
		end_sends_flushed(a, 1, 1); /* the Read: it was the Send that found no queue pair */
	end_sends_flushed(a, 2, 2);
	EXPECT(!is_drained(a));
	pair_close(&p);
}
