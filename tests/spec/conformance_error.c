/* SPDX-License-Identifier: BSD-2-Clause */
/* What goes wrong between two ends: receives that do not fit or are not there, peers that go. */
#include "conformance.h"

/* Three ids in a's send queue: a Send that the case knows, and two Writes that must be flushed. */
static void post_three(struct pair_end *a, uint32_t length)
{
	const struct weft_sge s = end_seg(a, SRC, length), t = end_seg(a, SRC, 8);
	struct weft_send_wr wrs[3] = {
		end_wr(a, WEFT_OP_SEND, 1, &s, 0),
		end_wr(a, WEFT_OP_WRITE, 2, &t, DST + 4096),
		end_wr(a, WEFT_OP_WRITE, 3, &t, DST + 4096),
	};

	MUST(weft_qp_post_send(a->qp, wrs, 3, NULL));
}

static void set_wait(struct pair_end *e, uint64_t wait_ns)
{
	const struct weft_qp_attr attr = { .receiver_wait_ns = wait_ns };

	MUST(weft_qp_modify(e->qp, &attr, WEFT_QP_RECEIVER_WAIT));
	MUST_EQ(end_query(e).receiver_wait_ns, wait_ns);
}

TEST(test_qp_08_a_message_longer_than_its_receive)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	for (uint32_t over = 1; over <= 4096; over *= 64) {
		pair_blank(&p);
		end_fill(a, SRC, 100 + over, 1);
		end_post_recv(b, 10, DST, 100);
		end_post_recv(b, 11, DST, 8192);
		post_three(a, 100 + over);
		end_recv_failed(b, 10, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
		end_recvs_flushed(b, 11, 11);
		end_await(a, WEFT_QPS_ERROR);
		end_sends_refused(a, 1, 3, WEFT_ERR_REMOTE_REQUEST, WEFT_R_RECEIVE_TOO_SHORT);
		end_is_blank(b, DST, 8192);
		end_refused_for(a, WEFT_R_RECEIVE_TOO_SHORT);
		EXPECT_EQ(end_query(b).reason, WEFT_R_RECEIVE_TOO_SHORT);
		pair_revive(&p);
	}
	pair_close(&p);
}

TEST(test_qp_08_a_receive_of_no_room)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	const struct weft_recv_wr empty = { .id = 10 };
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	MUST(weft_qp_post_recv(b->qp, &empty, 1, NULL));
	wr = end_wr(a, WEFT_OP_SEND, 1, NULL, 0);
	end_succeeds(a, &wr);
	EXPECT_EQ(end_received(b, 10).byte_count, 0);
	MUST(weft_qp_post_recv(b->qp, &empty, 1, NULL));
	post_three(a, 1);
	end_recv_failed(b, 10, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
	end_await(a, WEFT_QPS_ERROR);
	pair_revive(&p);
	pair_close(&p);
}

TEST(test_qp_08_no_receive_and_no_patience)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	set_wait(a, 0);
	set_wait(b, 0);
	post_three(a, 8);
	end_await(a, WEFT_QPS_ERROR);
	end_await(b, WEFT_QPS_ERROR);
	end_sends_refused(a, 1, 3, WEFT_ERR_RECEIVER_NOT_READY, WEFT_R_RECEIVER_NOT_READY);
	EXPECT_EQ(end_query(a).reason, WEFT_R_RECEIVER_NOT_READY);
	end_is_blank(b, DST + 4096, 8);
	pair_revive(&p);
	/* With a receive there is nothing to wait for. */
	end_post_recv(b, 10, DST, 8);
	post_three(a, 8);
	end_received(b, 10);
	for (uint64_t id = 1; id <= 3; id++)
		end_sent(a, id);
	pair_close(&p);
}

TEST(test_qp_08_patience_ends_after_its_time)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_WRITE_IMM };
	const uint64_t wait_ns = 5 * 1000 * 1000;
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	set_wait(a, wait_ns); /* which end counts the time is the transport's affair */
	set_wait(b, wait_ns);
	for (int i = 0; i < 2; i++) {
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, opcodes[i], 1, &s, DST);
		uint64_t start = pair_maker.now_ns(&p);

		end_post(a, &wr);
		end_await(a, WEFT_QPS_ERROR);
		EXPECT(pair_maker.now_ns(&p) - start >= wait_ns);
		end_sends_refused(a, 1, 1, WEFT_ERR_RECEIVER_NOT_READY, WEFT_R_RECEIVER_NOT_READY);
		EXPECT_EQ(end_query(a).reason, WEFT_R_RECEIVER_NOT_READY);
		end_await(b, WEFT_QPS_ERROR);
		pair_revive(&p);
	}
	pair_close(&p);
}

TEST(test_qp_08_a_receive_posted_in_time)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_WRITE_IMM,
						    WEFT_OP_SEND_IMM };
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	set_wait(a, UINT64_MAX); /* waits for ever */
	set_wait(b, UINT64_MAX);
	for (int i = 0; i < 3; i++) {
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, opcodes[i], 1, &s, DST);
		uint64_t waiting;

		if (opcodes[i] == WEFT_OP_SEND_IMM && !pair_can(PAIR_SEND_IMM))
			continue;
		end_fill(a, SRC, 8, (uint32_t)i);
		end_post(a, &wr);
		waiting = end_waiting(a, 1, 1);
		pair_quiet(&p);
		end_post_recv(b, 2, DST, 8);
		end_received(b, 2);
		end_all_sent(a, waiting, 1);
		end_holds(b, DST, 8, (uint32_t)i);
	}
	pair_close(&p);
}

/* Requests behind one that waits keep their order, and other queue pairs do not wait with it. */
TEST(test_qp_08_a_waiting_send_holds_its_own_queue_only)
{
	static struct pair p, q;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint64_t waiting;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .beside = &p });
	end_fill(a, SRC, 8, 5);
	post_three(a, 8);
	waiting = end_waiting(a, 1, 3);
	s = end_seg(&q.ends[0], SRC, 8);
	for (uint64_t id = 20; id < 40; id++) {
		wr = end_wr(&q.ends[0], WEFT_OP_WRITE, id, &s, DST);
		end_succeeds(&q.ends[0], &wr);
	}
	end_holds(b, DST, 8, 5);
	pair_settle(&p);
	end_is_blank(b, DST + 4096, 8);
	EXPECT_EQ(end_query(a).send_queued, 4 - waiting);
	end_post_recv(b, 10, DST, 8);
	end_all_sent(a, waiting, 3);
	end_received(b, 10);
	end_holds(b, DST + 4096, 8, 5);
	pair_close(&q);
	pair_close(&p);
}

/* ---- Peers that go -------------------------------------------------------------------------- */

TEST(test_rkey_09_the_peer_is_destroyed_in_the_middle)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wr;
	uint64_t waiting;

	pair_open(&p, NULL);
	end_post_recv(a, 10, DST, 8);
	post_three(a, 8); /* the first waits for a receive of the peer */
	s = end_seg(a, DST, 8);
	wr = end_wr(a, WEFT_OP_READ, 4, &s, DST);
	end_post(a, &wr); /* and this for what is before it, whatever ends early */
	waiting = end_waiting(a, 1, 3);
	MUST(weft_qp_destroy(b->qp));
	b->qp = NULL;
	end_await(a, WEFT_QPS_ERROR);
	EXPECT_EQ(end_query(a).reason, WEFT_R_PEER_GONE);
	EXPECT_EQ(end_event(a, WEFT_EVENT_QP_ERROR, weft_qp_number(a->qp)).reason,
		  WEFT_R_PEER_GONE);
	end_sends_cut(a, waiting, 3);
	end_sends_flushed(a, 4, 4);
	end_recvs_flushed(a, 10, 10);
	pair_close(&p);
}

TEST(test_qp_14_an_idle_end_learns_that_its_peer_is_gone)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	pair_open(&p, NULL);
	if (pair_can(PAIR_ONE_ADAPTER)) {
		EXPECT_EQ(end_query(a).peer_number, weft_qp_number(b->qp));
		EXPECT_EQ(end_query(b).peer_number, weft_qp_number(a->qp));
	}
	MUST(weft_qp_destroy(b->qp));
	b->qp = NULL;
	EXPECT_EQ(end_event(a, WEFT_EVENT_QP_ERROR, weft_qp_number(a->qp)).reason,
		  WEFT_R_PEER_GONE);
	end_await(a, WEFT_QPS_ERROR);
	pair_close(&p);
}

/* One stream fails, the others of the same adapter, domain and queues do not notice. */
TEST(test_qp_14_other_queue_pairs_are_undisturbed)
{
	static struct pair p, q;
	struct weft_sge s;
	struct weft_send_wr wr;

	pair_open(&p, NULL);
	pair_open(&q, &(struct pair_options){ .beside = &p });
	end_post_recv(&q.ends[0], 30, DST, 8);
	s = end_seg(&p.ends[0], SRC, 8);
	wr = end_wr(&p.ends[0], WEFT_OP_WRITE, 1, &s, DST);
	wr.remote_tag ^= 0x10;
	end_refused(&p.ends[0], &wr, WEFT_R_TAG_INSTANCE);
	pair_settle(&q);
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(end_query(&q.ends[i]).state, WEFT_QPS_RTS);
		wr = end_wr(&q.ends[i], WEFT_OP_WRITE, 2, &s, DST);
		wr.sges = &(struct weft_sge){ 0 };
		end_succeeds(&q.ends[i], &wr);
	}
	EXPECT_EQ(end_query(&q.ends[0]).recv_queued, 1);
	pair_close(&q);
	pair_close(&p);
}

/* The first error is the one that is reported, at both ends. */
TEST(test_rkey_09_the_first_error_is_kept)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];
	struct weft_sge s;
	struct weft_send_wr wrs[2];
	struct weft_event event;

	pair_open(&p, NULL);
	s = end_seg(a, SRC, 8);
	wrs[0] = end_wr(a, WEFT_OP_WRITE, 1, &s, END_BYTES - 7);
	wrs[1] = end_wr(a, WEFT_OP_WRITE, 2, &s, DST);
	wrs[1].remote_tag ^= 1;
	MUST(weft_qp_post_send(a->qp, wrs, 2, NULL));
	event = end_event(b, WEFT_EVENT_QP_REFUSED, weft_qp_number(b->qp));
	EXPECT_EQ(event.reason, WEFT_R_RANGE_BOUNDS);
	end_await(a, WEFT_QPS_ERROR);
	end_sends_refused(a, 1, 2, WEFT_ERR_REMOTE_ACCESS, WEFT_R_RANGE_BOUNDS);
	end_refused_for(a, WEFT_R_RANGE_BOUNDS);
	end_await(b, WEFT_QPS_ERROR);
	EXPECT_EQ(end_query(b).reason, WEFT_R_RANGE_BOUNDS);
	pair_revive(&p);
	pair_close(&p);
}
