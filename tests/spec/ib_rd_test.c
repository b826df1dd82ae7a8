/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams over the InfiniBand transport: what they cost (TRN-S1), and that queue pairs
 * which share an end-to-end context do not suffer for each other.
 */
#include <string.h>

#include "ib/ee.h"
#include "rd_world.h"
#include "test.h"

enum { N = WORLD_NODES, M = 3 };

/* ---- What it costs -------------------------------------------------------------------------- */

static const struct sim_faults bad_network = {
	.delay_max_ns = 20000,
	.loss_ppm = 30000,
	.duplicate_ppm = 20000,
	.reorder_ppm = 20000,
	.reorder_max_ns = 50000,
	.corrupt_ppm = 20000,
};

/* Sends of every process to every process of other nodes, each numbered by its sender. */
static uint32_t exchange_rd(void)
{
	uint32_t messages = 0;

	for (int from = 0; from < N; from++) {
		for (int to = 0; to < N; to++) {
			for (int k = 0; k < M * M && from != to; k++) {
				struct weft_qp *dest = nodes[to].qps[k % M];

				receive(to, dest, 1, BYTES / 2, 1024);
				post(from, nodes[from].qps[k / M], to, dest,
				     request(WEFT_OP_SEND, 1, 1000));
				messages++;
			}
		}
	}
	return messages;
}

static uint32_t exchange_rc(void)
{
	uint32_t messages = 0;

	for (int i = 0; i < N; i++) {
		for (uint32_t k = 0; k < nodes[i].qp_count; k++) {
			struct weft_sge s = { (uintptr_t)nodes[i].memory, 1000, nodes[i].tag };
			struct weft_send_wr wr = { .opcode = WEFT_OP_SEND,
						   .sges = &s,
						   .sge_count = 1 };

			receive(i, nodes[i].qps[k], 1, BYTES / 2, 1024);
			MUST(weft_qp_post_send(nodes[i].qps[k], &wr, 1, NULL));
			messages++;
		}
	}
	return messages;
}

static void all_arrive(uint32_t messages)
{
	uint32_t ended = 0, arrived = 0;

	while (ended < messages || arrived < messages) {
		step();
		for (int i = 0; i < N; i++) {
			struct weft_completion c;
			uint32_t taken;

			MUST(weft_cq_poll(nodes[i].send_cq, &c, 1, &taken));
			REQUIRE(taken == 0 || c.status == WEFT_SUCCESS);
			ended += taken;
			MUST(weft_cq_poll(nodes[i].recv_cq, &c, 1, &taken));
			REQUIRE(taken == 0 || c.status == WEFT_SUCCESS);
			arrived += taken;
		}
	}
	EXPECT_EQ(arrived, messages);
}

TEST(test_trn_s1_rc_05_all_to_all_by_connections_takes_27_queue_pairs)
{
	const struct ib_config k = { .path = { .mtu_bytes = MTU },
				     .timeout_code = 12,
				     .retries = 7,
				     .rnr_retries = IB_RNR_RETRY_FOREVER,
				     .rnr_timer_code = 10 };
	struct weft_usage usage;

	world_open(N, &bad_network);
	for (int a = 0; a < N; a++) {
		for (int b = a + 1; b < N; b++) {
			for (int i = 0; i < M * M; i++) {
				struct weft_qp *const qps[2] = { qp_open(a, WEFT_RC),
								 qp_open(b, WEFT_RC) };

				MUST(ib_mesh_connect(mesh, (int[]){ a, b }, qps, &k));
			}
		}
	}
	MUST(weft_adapter_query(nodes[0].adapter, &usage));
	EXPECT_EQ(usage.qps, M * M * (N - 1));
	EXPECT_EQ(usage.qps, 27);
	EXPECT_EQ(nodes[0].adapter->core.ees.used, 0);
	all_arrive(exchange_rc());
	world_close();
}

TEST(test_trn_s1_rd_03_all_to_all_by_datagrams_takes_3_and_3_contexts)
{
	const struct ib_ee_config k = ee_config();
	struct weft_usage usage;

	world_open(N, &bad_network);
	for (int a = 0; a < N; a++) {
		for (int b = a + 1; b < N; b++)
			MUST(ib_mesh_join(mesh, a, b, &k));
		for (int i = 0; i < M; i++)
			rd_open(a, Q_KEY, RDD);
	}
	for (int i = 0; i < N; i++) {
		MUST(weft_adapter_query(nodes[i].adapter, &usage));
		EXPECT_EQ(usage.qps, M);
		EXPECT_EQ(nodes[i].adapter->core.ees.used, N - 1);
	}
	all_arrive(exchange_rd());
	for (int a = 0; a < N; a++) {
		for (int b = 0; b < N; b++)
			EXPECT(a == b || ib_ee_why(ib_mesh_ee(mesh, a, b)) == WEFT_OK);
	}
	world_close();
}

/* It is one allocation, and its slot in the table of the adapter is 13 bytes. */
TEST(test_rd_02_a_context_costs_no_more_than_4_kib)
{
	EXPECT(sizeof(struct ib_ee) <= 4096 - 64);
	EXPECT(sizeof(struct ib_ee) > sizeof(struct ib_ee_config));
}

/* ---- Who shares a context ------------------------------------------------------------------- */

/* One has much to do, the other little: they take turns. */
TEST(test_rd_02_queue_pairs_of_a_context_take_turns)
{
	struct weft_qp *a, *b, *dest;
	uint32_t of_a = 0;

	two_nodes();
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	for (uint64_t i = 0; i < 20; i++)
		post(0, a, 1, dest, request(WEFT_OP_WRITE, i, 2000));
	for (uint64_t i = 0; i < 3; i++)
		post(0, b, 1, dest, request(WEFT_OP_WRITE, 100 + i, 2000));
	for (uint64_t of_b = 0; of_b < 3;) {
		struct weft_completion c = take(nodes[0].send_cq);

		REQUIRE(c.status == WEFT_SUCCESS);
		of_b += c.qp_number == weft_qp_number(b);
		of_a += c.qp_number == weft_qp_number(a);
	}
	EXPECT(of_a <= 4);
	for (; of_a < 20; of_a++)
		REQUIRE(take(nodes[0].send_cq).status == WEFT_SUCCESS);
	world_close();
}

/* RNR NAK: the one waits, and is served when there is a receive; the other is served meanwhile. */
TEST(test_rd_02_a_missing_receive_delays_no_other_queue_pair)
{
	struct weft_qp *a, *b, *empty, *dest;
	uint64_t began;

	two_nodes();
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(0, Q_KEY, RDD);
	empty = rd_open(1, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	post(0, a, 1, empty, request(WEFT_OP_SEND, 1, 1000));
	for (int i = 0; i < 20; i++)
		step();
	began = ib_mesh_world(mesh)->now_ns;
	for (uint64_t i = 0; i < 50; i++) {
		post(0, b, 1, dest, request(WEFT_OP_WRITE, 10 + i, 1000));
		sent(0, 10 + i, WEFT_SUCCESS);
	}
	EXPECT(ib_mesh_world(mesh)->now_ns - began < 50 * 1000 * 1000);
	EXPECT(ib_port_counts(port_of(1))->rnrs_out > 0);
	receive(1, empty, 7, BYTES / 2, 1000);
	sent(0, 1, WEFT_SUCCESS);
	EXPECT_EQ(take(nodes[1].recv_cq).id, 7);
	world_close();
}

/* Refused for each of the reasons: its queue pair stops, the context and the others go on. */
TEST(test_rd_01_an_error_of_one_is_not_one_of_the_context)
{
	/* 0: not dropped but refused, for what it asks. */
	static const enum weft_reason dropped[] = {
		WEFT_R_IB_QKEY, WEFT_R_IB_RDD, 0, 0, 0, 0, WEFT_R_PEER_UNKNOWN, WEFT_R_PEER_UNKNOWN
	};
	const struct ib_config ud = { .path = { .mtu_bytes = 1024 }, .q_key = Q_KEY, .rdd = RDD };
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS },
				  error = { .state = WEFT_QPS_ERROR };
	struct weft_qp *a, *b, *dest, *foreign, *datagram, *dead;
	struct weft_send_wr bad;

	two_nodes();
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	foreign = rd_open(1, Q_KEY, RDD + 1);
	datagram = qp_open(1, WEFT_UD);
	MUST(ib_mesh_attach(mesh, datagram, &ud));
	dead = rd_open(1, Q_KEY, RDD);
	MUST(weft_qp_modify(dead, &error, WEFT_QP_STATE));
	for (int i = 0; i < 8; i++) {
		struct weft_qp *to[] = { [1] = foreign, [6] = datagram, [7] = dead };

		bad = request(i == 3 ? WEFT_OP_READ : WEFT_OP_WRITE, 1, 2000);
		bad.remote_q_key = i == 0 ? Q_KEY + 1 : 0;
		bad.remote_tag = i >= 2 && i < 4 ? nodes[1].tag ^ 1 : 0;
		if (i == 4) { /* too long for its receive */
			bad.opcode = WEFT_OP_SEND;
			receive(1, dest, 9, BYTES / 2, 1500);
		}
		bad.sge_count = i == 5 ? BYTES / 2 + 1 : 2000;
		post(0, a, 1, to[i] ? to[i] : dest, bad);
		post(0, a, 1, dest, request(WEFT_OP_WRITE, 2, 100));
		post(0, b, 1, dest, request(WEFT_OP_WRITE, 3, 3000));
		for (int k = 0; k < 3; k++) {
			struct weft_completion c = take(nodes[0].send_cq);

			EXPECT_EQ(c.status == WEFT_SUCCESS, c.id == 3);
			EXPECT_EQ(c.status == WEFT_ERR_FLUSHED, c.id == 2);
			if (c.id == 1)
				EXPECT_EQ(c.status, dropped[i] ? WEFT_ERR_PEER_GONE
						    : i == 4   ? WEFT_ERR_REMOTE_REQUEST
							       : WEFT_ERR_REMOTE_ACCESS);
		}
		if (i == 4)
			EXPECT_EQ(take(nodes[1].recv_cq).status, WEFT_ERR_LOCAL_LENGTH);
		if (dropped[i])
			EXPECT_EQ(ib_port_counts(port_of(1))->dropped_for, dropped[i]);
		EXPECT_EQ(state_of(a), WEFT_QPS_SQE);
		EXPECT_EQ(state_of(b), WEFT_QPS_RTS);
		EXPECT_EQ(state_of(dest), WEFT_QPS_RTS);
		MUST(weft_qp_modify(a, &rts, WEFT_QP_STATE));
		post(0, a, 1, dest, request(WEFT_OP_READ, 4, 3000));
		sent(0, 4, WEFT_SUCCESS);
	}
	EXPECT_EQ(ib_ee_why(ib_mesh_ee(mesh, 0, 1)), WEFT_OK);
	world_close();
}

/* The peer is silent: what has its turn, what waits and what comes later fails, here alone. */
TEST(test_rd_02_a_context_that_fails_ends_what_is_on_it)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	const struct ib_ee_config k = ee_config();
	struct weft_qp *a, *b, *dest, *other;

	world_open(3, NULL);
	MUST(ib_mesh_join(mesh, 0, 1, &k));
	MUST(ib_mesh_join(mesh, 0, 2, &k));
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	other = rd_open(2, Q_KEY, RDD);
	sim_datagram_cut(ib_mesh_pipe(mesh, 0, 1));
	post(0, a, 1, dest, request(WEFT_OP_WRITE, 1, 100));
	post(0, b, 1, dest, request(WEFT_OP_WRITE, 1, 100));
	for (int i = 0; i < 2; i++)
		sent(0, 1, WEFT_ERR_PEER_GONE);
	EXPECT_EQ(state_of(a), WEFT_QPS_SQE);
	EXPECT_EQ(state_of(b), WEFT_QPS_SQE);
	EXPECT(ib_port_ee_event(port_of(0)) == ib_mesh_ee(mesh, 0, 1));
	EXPECT(!ib_port_ee_event(port_of(0)));
	EXPECT_EQ(ib_ee_why(ib_mesh_ee(mesh, 0, 1)), WEFT_R_PEER_GONE);
	MUST(weft_qp_modify(a, &rts, WEFT_QP_STATE));
	post(0, a, 2, other, request(WEFT_OP_WRITE, 2, 100));
	sent(0, 2, WEFT_SUCCESS);
	post(0, a, 1, dest, request(WEFT_OP_WRITE, 3, 100));
	sent(0, 3, WEFT_ERR_PEER_GONE);
	world_close();
}

/* Messages of two nodes, several packets each, arrive at one queue pair at a time. */
TEST(test_rd_01_rd_04_messages_of_two_nodes_at_a_time_each_have_their_receive)
{
	const struct ib_ee_config k = ee_config();
	struct weft_qp *a, *b, *dest;

	world_open(3, &(struct sim_faults){ .delay_max_ns = 3000, .delay_min_ns = 1000 });
	MUST(ib_mesh_join(mesh, 0, 2, &k));
	MUST(ib_mesh_join(mesh, 1, 2, &k));
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(1, Q_KEY, RDD);
	dest = rd_open(2, Q_KEY, RDD);
	memset(nodes[0].memory, 'a', 8000);
	memset(nodes[1].memory, 'b', 8000);
	receive(2, dest, 0, 0, 8000);
	receive(2, dest, 1, 8000, 8000);
	post(0, a, 2, dest, request(WEFT_OP_SEND, 1, 8000));
	post(1, b, 2, dest, request(WEFT_OP_SEND, 1, 8000));
	for (int i = 0; i < 2; i++) {
		struct weft_completion c = take(nodes[2].recv_cq);
		const uint8_t *at = nodes[2].memory + c.id * 8000;

		EXPECT_EQ(c.status, WEFT_SUCCESS);
		EXPECT_EQ(c.byte_count, 8000);
		for (int n = 1; n < 8000; n++)
			REQUIRE(at[n] == at[0]);
		EXPECT_EQ(c.src_qp_number, weft_qp_number(at[0] == 'a' ? a : b));
	}
	EXPECT(nodes[2].memory[0] != nodes[2].memory[8000]);
	world_close();
}

/*
 * RD-04: nodes number their queue pairs for themselves, so two senders may have one number. What
 * came from which is in the completion: the same bytes came from both.
 */
TEST(test_rd_04_two_senders_of_one_number_are_told_apart_by_their_node)
{
	enum { ROUNDS = 20 };
	const struct ib_ee_config k = ee_config();
	uint32_t came[2] = { 0 }, ees[2];
	struct weft_qp *from[2], *dest;

	world_open(3, &(struct sim_faults){ .delay_max_ns = 3000, .delay_min_ns = 1000 });
	for (int i = 0; i < 2; i++) {
		MUST(ib_mesh_join(mesh, i, 2, &k));
		from[i] = rd_open(i, Q_KEY, RDD);
		ees[i] = ib_ee_number(ib_mesh_ee(mesh, 2, i));
	}
	dest = rd_open(2, Q_KEY, RDD);
	REQUIRE(weft_qp_number(from[0]) == weft_qp_number(from[1]));
	REQUIRE(ees[0] != ees[1]);
	for (uint32_t n = 0; n < ROUNDS; n++) {
		/* Of a Send and of a Write with immediate data; each of its own node's length. */
		const enum weft_opcode opcode = n % 2 ? WEFT_OP_WRITE_IMM : WEFT_OP_SEND;

		for (int i = 0; i < 2; i++) {
			receive(2, dest, n, 0, 4000);
			post(i, from[i], 2, dest, request(opcode, n, 1000 * (uint32_t)(i + 1)));
		}
		for (int i = 0; i < 2; i++) {
			struct weft_completion c = take(nodes[2].recv_cq);
			int node = c.src_ee_number == ees[0] ? 0 : 1;

			EXPECT_EQ(c.status, WEFT_SUCCESS);
			EXPECT_EQ(c.src_qp_number, weft_qp_number(from[0]));
			REQUIRE(c.src_ee_number == ees[node]);
			EXPECT_EQ(c.byte_count, 1000 * (uint32_t)(node + 1));
			came[node]++;
		}
		for (int i = 0; i < 2; i++)
			sent(i, n, WEFT_SUCCESS);
	}
	EXPECT_EQ(came[0], ROUNDS);
	EXPECT_EQ(came[1], ROUNDS);
	world_close();
}

/* Its message is on its way when the sender's queue pair goes: the receive serves the next. */
TEST(test_rd_02_a_message_that_is_given_up_leaves_its_receive)
{
	struct weft_qp *a, *b, *dest;

	two_nodes();
	b = rd_open(0, Q_KEY, RDD);
	a = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	receive(1, dest, 5, BYTES / 2, 30000);
	/* More than the window: it cannot have gone at once. */
	sim_datagram_cut(ib_mesh_pipe(mesh, 1, 0));
	post(0, a, 1, dest, request(WEFT_OP_SEND, 1, 30000));
	for (int i = 0; i < 3; i++)
		step();
	MUST(weft_qp_destroy(a));
	nodes[0].qp_count--;
	sim_datagram_heal(ib_mesh_pipe(mesh, 1, 0));
	REQUIRE(take(nodes[0].send_cq).status == WEFT_ERR_FLUSHED);
	post(0, b, 1, dest, request(WEFT_OP_SEND, 2, 3000));
	for (int i = 0; i < 1; i++) {
		struct weft_completion c = take(nodes[1].recv_cq);

		/* If the first had come whole, it has the receive. */
		EXPECT(c.byte_count == 3000 || c.byte_count == 30000);
		if (c.byte_count == 30000)
			receive(1, dest, 6, BYTES / 2, 30000);
	}
	sent(0, 2, WEFT_SUCCESS);
	world_close();
}

TEST(test_rd_02_a_context_is_made_of_good_values)
{
	static const struct ib_ee_config bad[] = {
		{ .path.mtu_bytes = 0 },
		{ .path.mtu_bytes = 1000 },
		{ .path.mtu_bytes = 8192 },
		{ .path.mtu_bytes = MTU, .psn_send = 1 << 24 },
		{ .path.mtu_bytes = MTU, .timeout_code = 32 },
		{ .path.mtu_bytes = MTU, .retries = 8 },
		{ .path.mtu_bytes = MTU, .rnr_retries = 8 },
		{ .path.mtu_bytes = MTU, .window_packets = 1 << 22 },
	};
	const struct ib_ee_config good = ee_config();
	struct ib_ee *ee = NULL;

	world_open(1, NULL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_EQ(ib_ee_create(port_of(0), &bad[i], &ee), WEFT_R_BAD_ARGUMENT);
	EXPECT(!ee);
	MUST(ib_ee_create(port_of(0), &good, &ee));
	EXPECT_EQ(ib_ee_connect(ee, 0, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(ib_ee_connect(ee, 1 << 24, 0), WEFT_R_BAD_ARGUMENT);
	EXPECT_EQ(ib_ee_connect(ee, 1, 1 << 24), WEFT_R_BAD_ARGUMENT);
	MUST(ib_ee_connect(ee, 1, 0));
	EXPECT_EQ(ib_ee_connect(ee, 1, 0), WEFT_R_QP_CONNECTED);
	ib_ee_destroy(ee);
	world_close();
}

static struct ib_ee *near_ee(uint32_t near_number)
{
	const struct ib_ee_config k = ee_config();
	struct ib_ee *ee;

	MUST(ib_ee_create(port_of(0), &k, &ee));
	ib_ee_set_source(ee, 1, near_number);
	MUST(ib_ee_connect(ee, 1, 0));
	return ee;
}

/* Contexts to adapters of the same host, of which one refuses shared memory, and one dies. */
TEST(test_rd_02_contexts_of_an_adapter_that_refuses_or_dies)
{
	struct ib_ee *refused, *dead, *living;

	world_open(1, NULL);
	refused = near_ee(0x105);
	dead = near_ee(0x206);
	living = near_ee(0x306);
	EXPECT(ib_port_near_refused(port_of(0), 0x105) == &refused->conn.path);
	EXPECT_EQ(refused->conn.path.near_number, 0);
	EXPECT(!ib_port_near_refused(port_of(0), 0x105));
	ib_port_near_ended(port_of(0), 0, 0x206);
	EXPECT_EQ(ib_ee_why(dead), WEFT_R_PEER_GONE);
	EXPECT(ib_port_ee_event(port_of(0)) == dead);
	EXPECT(!ib_port_ee_event(port_of(0)));
	EXPECT_EQ(ib_ee_why(refused), WEFT_OK);
	EXPECT_EQ(ib_ee_why(living), WEFT_OK);
	ib_ee_destroy(refused);
	ib_ee_destroy(dead);
	ib_ee_destroy(living);
	world_close();
}

/* It does not end where a receiver is stopped, as a connection does whose queue pair has left. */
TEST(test_rd_02_context_without_room_waits)
{
	struct ib_ee *ee;

	world_open(1, NULL);
	ee = near_ee(0x105);
	EXPECT_EQ(ib_port_near_next(port_of(0)), 0x105);
	ib_port_near_hold(port_of(0), 0, true);
	EXPECT(!ib_port_has_output(port_of(0)) && ib_ee_is_busy(ee));
	ib_port_near_release(port_of(0));
	EXPECT_EQ(ib_port_near_next(port_of(0)), 0x105);
	ib_ee_destroy(ee);
	world_close();
}

TEST(test_rd_02_contexts_of_an_adapter_are_bounded)
{
	enum { EES_MOST = 1 << 16 };
	static struct ib_ee *ees[EES_MOST];
	const struct ib_ee_config k = ee_config();
	enum weft_reason r = WEFT_OK;
	uint32_t count = 0;

	world_open(1, NULL);
	while (r == WEFT_OK) {
		REQUIRE(count < EES_MOST);
		r = ib_ee_create(port_of(0), &k, &ees[count]);
		count += r == WEFT_OK;
	}
	EXPECT_EQ(r, WEFT_R_LIMIT);
	REQUIRE(count > 1);
	ib_ee_destroy(ees[--count]);
	MUST(ib_ee_create(port_of(0), &k, &ees[count++]));
	while (count > 0)
		ib_ee_destroy(ees[--count]);
	world_close();
}

/* A request without a wire message, or to an unknown context, is refused when it is posted. */
TEST(test_rd_04_a_request_names_a_context)
{
	const struct weft_sge s = { .length = (MTU << 22) + 1 };
	struct weft_send_wr wr = { .opcode = WEFT_OP_SEND };
	struct weft_qp *a, *alien;

	two_nodes();
	a = rd_open(0, Q_KEY, RDD);
	alien = rd_open(0, Q_KEY, RDD + 1);
	EXPECT_EQ(weft_qp_post_send(a, &wr, 1, NULL), WEFT_R_NULL_ARGUMENT);
	wr.ee = ib_ee_handle(ib_mesh_ee(mesh, 1, 0));
	EXPECT_EQ(weft_qp_post_send(a, &wr, 1, NULL), WEFT_R_BAD_ARGUMENT);
	wr.ee = ib_ee_handle(ib_mesh_ee(mesh, 0, 1));
	EXPECT_EQ(weft_qp_post_send(alien, &wr, 1, NULL), WEFT_R_IB_RDD);
	wr.opcode = WEFT_OP_SEND_INVALIDATE;
	EXPECT_EQ(weft_qp_post_send(a, &wr, 1, NULL), WEFT_R_WR_WIRE);
	/* Longer than the numbers go. */
	wr = (struct weft_send_wr){
		.opcode = WEFT_OP_WRITE, .sges = &s, .sge_count = 1, .ee = wr.ee
	};
	EXPECT_EQ(weft_qp_post_send(a, &wr, 1, NULL), WEFT_R_WR_LENGTH);
	world_close();
}
