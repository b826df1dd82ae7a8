/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The four kinds of channel (QP-11 to QP-13): acknowledged or not, connected or not. Each shows
 * itself by when its sends complete, where they arrive, and what becomes of those that cannot.
 */
#include "conformance.h"

static const enum weft_qp_service all[] = { WEFT_RC, WEFT_UC, WEFT_RD, WEFT_UD };
enum { KINDS = 4 };

static bool is_acknowledged(enum weft_qp_service service)
{
	return service == WEFT_RC || service == WEFT_RD;
}

static bool is_connected(enum weft_qp_service service)
{
	return service == WEFT_RC || service == WEFT_UC;
}

/* A pair of the i-th kind; false if the transport has none. */
static bool open_kind(struct pair *p, int i)
{
	if (!pair_has_service(all[i]))
		return false;
	pair_open(p, &(struct pair_options){ .service = all[i] });
	return true;
}

static struct weft_send_wr send_wr(struct pair_end *e, uint64_t id, const struct weft_sge *s)
{
	return end_wr(e, WEFT_OP_SEND, id, s, 0);
}

TEST(test_qp_13_qp_s4_every_kind_carries_messages_both_ways)
{
	struct pair p;

	for (int i = 0; i < KINDS; i++) {
		if (!open_kind(&p, i))
			continue;
		for (int from = 0; from < 2; from++) {
			struct pair_end *a = &p.ends[from], *b = &p.ends[!from];
			const struct weft_sge s = end_seg(a, SRC, 1000);
			struct weft_send_wr wr = send_wr(a, 1, &s);
			struct weft_completion c;

			end_fill(a, SRC, 1000, (uint32_t)i);
			end_post_recv(b, 2, DST, 1000);
			end_succeeds(a, &wr);
			c = end_received(b, 2);
			EXPECT_EQ(c.byte_count, 1000);
			if (!is_connected(all[i]))
				EXPECT_EQ(c.src_qp_number, weft_qp_number(a->qp));
			end_holds(b, DST, 1000, (uint32_t)i);
			if (!pair_can(PAIR_SEND_IMM))
				continue;
			wr.opcode = WEFT_OP_SEND_IMM;
			wr.imm = 5;
			end_post_recv(b, 3, DST, 1000);
			end_succeeds(a, &wr);
			c = end_received(b, 3);
			EXPECT(c.has_imm && c.imm == 5);
		}
		pair_close(&p);
	}
}

/*
 * When: an acknowledged Send completes once it was received, another one once it has left. On a
 * reliable stream it has left early too, but is not lost: it waits for its receive over there.
 */
TEST(test_qp_11_qp_s4_completion_waits_for_the_receiver_or_not)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < KINDS; i++) {
		struct weft_sge s;
		struct weft_send_wr wr;

		if (!open_kind(&p, i))
			continue;
		s = end_seg(a, SRC, 16);
		wr = send_wr(a, 1, &s);
		end_fill(a, SRC, 16, 1);
		end_post(a, &wr);
		if (is_acknowledged(all[i])) {
			uint64_t waiting = end_waiting(a, 1, 1);

			pair_quiet(&p);
			end_post_recv(b, 2, DST, 16);
			end_received(b, 2);
			end_all_sent(a, waiting, 1);
			end_holds(b, DST, 16, 1);
		} else {
			end_sent(a, 1); /* and was lost: there was no receive for it */
			pair_settle(&p);
			end_post_recv(b, 2, DST, 16);
			pair_quiet(&p);
			end_is_blank(b, DST, 16);
			EXPECT_EQ(end_query(b).recv_queued, 1);
		}
		EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
		EXPECT_EQ(end_query(b).state, WEFT_QPS_RTS);
		pair_close(&p);
	}
}

/* Where: a connected queue pair sends to its peer, whatever the request says; another as told. */
TEST(test_qp_12_qp_s4_the_peer_or_the_named_destination)
{
	struct pair p, q;

	for (int i = 0; i < KINDS; i++) {
		struct pair_end *a = &p.ends[0], *named = &q.ends[1], *to;
		struct weft_sge s;
		struct weft_send_wr wr;

		if (!open_kind(&p, i))
			continue;
		pair_open(&q, &(struct pair_options){ .service = all[i], .beside = &p });
		s = end_seg(a, SRC, 8);
		end_post_recv(&p.ends[1], 1, DST, 8);
		end_post_recv(named, 2, DST, 8);
		wr = send_wr(a, 3, &s);
		end_aim(a, &wr, named, named->qp);
		end_succeeds(a, &wr);
		to = is_connected(all[i]) ? &p.ends[1] : named;
		EXPECT_EQ(end_take(to, to->recv_cq).qp_number, weft_qp_number(to->qp));
		EXPECT_EQ(end_query(to).recv_queued, 0);
		EXPECT_EQ(end_query(to == named ? &p.ends[1] : named).recv_queued, 1);
		pair_close(&q);
		pair_close(&p);
	}
}

TEST(test_qp_11_qp_12_no_queue_pair_of_that_number)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < KINDS; i++) {
		struct weft_sge s;
		struct weft_send_wr wr;

		if (is_connected(all[i]) || !open_kind(&p, i))
			continue;
		s = end_seg(a, SRC, 8);
		wr = send_wr(a, 1, &s);
		wr.dest_qp_number = 0xfffffe;
		end_post(a, &wr);
		if (is_acknowledged(all[i])) {
			end_send_failed(a, 1, WEFT_ERR_PEER_GONE, WEFT_R_PEER_UNKNOWN);
			end_await(a, WEFT_QPS_SQE); /* other destinations may still be reached */
			end_modify(a, WEFT_QPS_RTS);
		} else {
			end_sent(a, 1);
		}
		end_post_recv(b, 2, DST, 8);
		wr = send_wr(a, 3, &s);
		end_succeeds(a, &wr);
		end_received(b, 2);
		pair_close(&p);
	}
}

/* A queue pair of the end in some state, with a receive where it may have one. */
static struct weft_qp *qp_in(struct pair_end *e, enum weft_qp_service service,
			     enum weft_qp_state state)
{
	const struct weft_recv_wr recv = { .id = 9 };
	struct weft_qp_attr attr = { .state = state };
	struct weft_qp *qp = end_qp_create(e, service);

	if (state == WEFT_QPS_ERROR)
		MUST(weft_qp_modify(qp, &attr, WEFT_QP_STATE));
	for (int s = WEFT_QPS_INIT; state <= WEFT_QPS_RTS && s <= (int)state; s++) {
		attr.state = (enum weft_qp_state)s;
		MUST(weft_qp_modify(qp, &attr, WEFT_QP_STATE));
		if (s == WEFT_QPS_INIT)
			MUST(weft_qp_post_recv(qp, &recv, 1, NULL));
	}
	return qp;
}

/* A message to that queue pair comes to nothing. */
static void goes_nowhere(struct pair_end *a, struct weft_qp *to, bool has_receive)
{
	struct weft_send_wr wr = send_wr(a, 1, NULL);

	end_aim(a, &wr, a, to);
	end_post(a, &wr);
	if (is_acknowledged(a->pair->options.service))
		end_send_failed(a, 1, WEFT_ERR_PEER_GONE, WEFT_R_PEER_UNKNOWN);
	else
		end_sent(a, 1);
	pair_quiet(a->pair);
	MUST(weft_qp_destroy(to));
	if (has_receive)
		MUST_EQ(end_take(a, a->recv_cq).status, WEFT_ERR_FLUSHED);
}

/* A destination must be of the same kind, and be ready to receive. */
TEST(test_qp_12_a_destination_that_takes_no_messages)
{
	static const enum weft_qp_state deaf[] = { WEFT_QPS_RESET, WEFT_QPS_INIT, WEFT_QPS_ERROR };
	struct pair p;
	struct pair_end *a = &p.ends[0];

	for (int i = 0; i < KINDS; i++) {
		if (is_connected(all[i]) || !open_kind(&p, i))
			continue;
		for (int k = 0; k < 3; k++) {
			goes_nowhere(a, qp_in(a, all[i], deaf[k]), deaf[k] == WEFT_QPS_INIT);
			if (is_acknowledged(all[i]))
				end_modify(a, WEFT_QPS_RTS);
		}
		goes_nowhere(a, qp_in(a, all[i] == WEFT_RD ? WEFT_UD : WEFT_RD, WEFT_QPS_RTS),
			     true);
		pair_close(&p);
	}
}

/* QP-07 by service: what a kind does not have is refused at once, the rest works. */
TEST(test_qp_03_qp_13_operations_of_each_kind)
{
	enum { RC = 1 << WEFT_RC, UC = 1 << WEFT_UC, RD = 1 << WEFT_RD, UD = 1 << WEFT_UD };
	static const uint32_t has[WEFT_OP_SEND_COUNT] = {
		[WEFT_OP_SEND] = RC | UC | RD | UD,  [WEFT_OP_SEND_IMM] = RC | UC | RD | UD,
		[WEFT_OP_SEND_INVALIDATE] = RC | RD, [WEFT_OP_WRITE] = RC | UC | RD,
		[WEFT_OP_WRITE_IMM] = RC | UC | RD,  [WEFT_OP_READ] = RC | RD,
		[WEFT_OP_COMPARE_SWAP] = RC | RD,    [WEFT_OP_FETCH_ADD] = RC | RD,
		[WEFT_OP_BIND] = RC | UC | RD,	     [WEFT_OP_INVALIDATE] = RC | UC | RD,
		[WEFT_OP_REGISTER] = RC | UC | RD,   [WEFT_OP_REGISTER_SEND] = RC | UC | RD,
		[WEFT_OP_DELAY] = RC | UC | RD | UD,
	};
	struct pair p;
	struct pair_end *a = &p.ends[0];

	for (int i = 0; i < KINDS; i++) {
		if (!open_kind(&p, i))
			continue;
		for (int op = 0; op < WEFT_OP_SEND_COUNT; op++) {
			struct weft_send_wr wr = wr_make((enum weft_opcode)op, 1, NULL, 0);
			uint32_t posted = 9;

			if (has[op] & 1U << all[i])
				continue;
			EXPECT_EQ(weft_qp_post_send(a->qp, &wr, 1, &posted), WEFT_R_WR_SERVICE);
			EXPECT_EQ(posted, 0);
		}
		EXPECT_EQ(end_query(a).send_queued, 0);
		if (all[i] != WEFT_UD) {
			const struct weft_sge s = end_seg(a, SRC, 8);
			struct weft_send_wr wr = end_wr(a, WEFT_OP_WRITE, 2, &s, DST);

			end_fill(a, SRC, 8, 3);
			end_succeeds(a, &wr);
			end_holds(&p.ends[1], DST, 8, 3);
		}
		pair_close(&p);
	}
}

/* A refused Write: silence and a dropped message without acknowledgement, a reason with it. */
TEST(test_qp_11_rkey_09_a_refusal_by_kind)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < KINDS; i++) {
		struct weft_sge s;
		struct weft_send_wr wr;

		if (all[i] == WEFT_RC || all[i] == WEFT_UD || !open_kind(&p, i))
			continue;
		s = end_seg(a, SRC, 8);
		wr = end_wr(a, WEFT_OP_WRITE, 1, &s, DST);
		wr.remote_tag ^= 1;
		end_post(a, &wr);
		if (is_acknowledged(all[i])) {
			end_send_failed(a, 1, WEFT_ERR_REMOTE_ACCESS, WEFT_R_TAG_INSTANCE);
			end_await(a, WEFT_QPS_SQE);
		} else {
			end_sent(a, 1);
		}
		EXPECT_EQ(end_event(b, WEFT_EVENT_QP_REFUSED, weft_qp_number(b->qp)).reason,
			  WEFT_R_TAG_INSTANCE);
		end_is_blank(b, DST, 8);
		EXPECT_EQ(end_query(b).state, WEFT_QPS_RTS);
		pair_close(&p);
	}
}

/* A receive that is too short fails its owner where there is a stream or no acknowledgement. */
TEST(test_qp_08_qp_11_a_short_receive_by_kind)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < KINDS; i++) {
		struct weft_sge s;
		struct weft_send_wr wr;

		if (all[i] == WEFT_RC || !open_kind(&p, i))
			continue;
		s = end_seg(a, SRC, 16);
		wr = send_wr(a, 1, &s);
		end_post_recv(b, 2, DST, 15);
		end_post(a, &wr);
		end_recv_failed(b, 2, WEFT_ERR_LOCAL_LENGTH, WEFT_R_RECEIVE_TOO_SHORT);
		end_is_blank(b, DST, 16);
		if (is_acknowledged(all[i])) {
			end_send_failed(a, 1, WEFT_ERR_REMOTE_REQUEST, WEFT_R_RECEIVE_TOO_SHORT);
			end_await(a, WEFT_QPS_SQE);
			EXPECT_EQ(end_query(b).state, WEFT_QPS_RTS);
		} else {
			end_sent(a, 1);
			end_await(b, WEFT_QPS_ERROR);
			EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
		}
		pair_close(&p);
	}
}

/* The end of a peer without acknowledgements goes unnoticed; messages to it are lost. */
TEST(test_qp_11_an_unacknowledged_peer_goes_unnoticed)
{
	struct pair p;
	struct pair_end *a = &p.ends[0], *b = &p.ends[1];

	for (int i = 0; i < KINDS; i++) {
		struct weft_sge s;
		struct weft_send_wr wr;

		if (is_acknowledged(all[i]) || !open_kind(&p, i))
			continue;
		s = end_seg(a, SRC, 8);
		wr = send_wr(a, 1, &s);
		MUST(weft_qp_destroy(b->qp));
		b->qp = NULL;
		end_succeeds(a, &wr);
		EXPECT_EQ(end_query(a).state, WEFT_QPS_RTS);
		pair_close(&p);
	}
}

/* RKEY-07: through a datagram queue pair that allows it, any node that has the key. */
TEST(test_rkey_07_qp_07d_one_reliable_datagram_queue_pair_for_many_peers)
{
	static struct pair p, q;
	struct pair_end *b = &p.ends[1];
	uint32_t tag;

	if (!pair_has_service(WEFT_RD) || !pair_can(PAIR_ATOMICS))
		SKIP("this transport has no reliable datagrams, or no atomics");
	pair_open(&p, &(struct pair_options){ .service = WEFT_RD });
	pair_open(&q, &(struct pair_options){ .service = WEFT_RD, .beside = &p });
	tag = end_bind(b, DST, 64, WEFT_REMOTE_READ | WEFT_REMOTE_ATOMIC | WEFT_REMOTE_WRITE);
	for (uint64_t k = 0; k < 8; k++)
		b->memory[DST + k] = 0;
	for (int i = 0; i < 3; i++) {
		struct pair_end *peers[] = { &p.ends[0], &q.ends[0], &q.ends[1] };
		struct pair_end *a = peers[i];
		const struct weft_sge s = end_seg(a, SRC, 8);
		struct weft_send_wr wr = end_wr(a, WEFT_OP_FETCH_ADD, 1, &s, DST);

		end_aim(a, &wr, b, b->qp);
		wr.remote_addr = b->addr + DST;
		wr.remote_tag = tag;
		wr.compare_add = UINT64_C(0x0101010101010101);
		end_succeeds(a, &wr);
	}
	for (uint64_t k = 0; k < 8; k++)
		EXPECT_EQ(b->memory[DST + k], 3);
	end_unbind(b, tag);
	pair_close(&q);
	pair_close(&p);
}
