/* SPDX-License-Identifier: BSD-2-Clause */
/* Reliable datagrams of a peer that is the test itself: which packets a context takes. */
#include <string.h>

#include "ib/ee.h"
#include "rd_world.h"
#include "test.h"
#include "wire/iba_aeth.h"
#include "wire/iba_psn.h"

enum { PEER_QP = 5 };

static uint8_t payload[MTU];

/* A packet of the other node's context. */
static enum weft_reason put(int at, struct iba_packet p, uint32_t bytes)
{
	struct ib_ee *ee = ib_mesh_ee(mesh, at, 1 - at);
	uint8_t packet[IBA_HEADERS_MAX + MTU + IBA_TRAILER_MAX];
	uint32_t headers;

	p.eec = ib_ee_number(ee);
	p.p_key = IBA_PKEY_DEFAULT;
	p.pad = iba_pad(bytes);
	headers = iba_encode(&p, packet);
	memcpy(packet + headers, payload, bytes);
	memset(packet + headers + bytes, 0, p.pad);
	return ib_port_recv(port_of(at), ib_mesh_world(mesh)->now_ns,
			    &(struct ib_in){
				    .bytes = packet,
				    .length = iba_packet_bytes(p.opcode, bytes),
				    .from = ee->conn.path.to,
				    .to = ee->conn.path.from,
				    .is_ipv6 = ee->conn.path.is_ipv6,
				    .has_no_icrc = true,
			    });
}

/* The packet that node 1 expects next. */
static struct iba_packet next(enum iba_op op, const struct weft_qp *dest)
{
	return (struct iba_packet){
		.opcode = iba_opcode(IBA_RD, op),
		.psn = ib_mesh_ee(mesh, 1, 0)->conn.resp.psn,
		.dest_qp = weft_qp_number(dest),
		.src_qp = PEER_QP,
		.q_key = Q_KEY,
	};
}

static struct iba_packet next_write(const struct weft_qp *dest, uint32_t bytes)
{
	struct iba_packet p = next(IBA_WRITE_ONLY, dest);

	p.va = (uintptr_t)nodes[1].memory;
	p.r_key = nodes[1].tag;
	p.dma_bytes = bytes;
	return p;
}

/* RD-01: what follows a first packet has its destination and its source. */
TEST(test_rd_01_message_goes_on_between_its_two_queue_pairs)
{
	struct weft_qp *dest, *other;

	for (int i = 0; i < 3; i++) {
		struct iba_packet p;

		two_nodes();
		dest = rd_open(1, Q_KEY, RDD);
		other = rd_open(1, Q_KEY, RDD);
		receive(1, dest, 1, 0, 2 * MTU);
		receive(1, other, 2, 0, 2 * MTU);
		MUST(put(1, next(IBA_SEND_FIRST, dest), MTU));
		p = next(IBA_SEND_LAST, i == 1 ? other : dest);
		p.src_qp += i == 2;
		EXPECT_EQ(put(1, p, MTU), i == 0 ? WEFT_OK : WEFT_R_IB_ORDER);
		if (i == 0)
			EXPECT_EQ(take(nodes[1].recv_cq).byte_count, 2 * MTU);
		world_close();
	}
}

/* IBA 9.6.1.5: the domain before the key, and the queue pair before both. */
TEST(test_rd_01_destination_is_checked_in_order)
{
	const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct weft_qp *dest, *foreign;
	struct iba_packet p;

	two_nodes();
	foreign = rd_open(1, Q_KEY, RDD + 1);
	p = next_write(foreign, 0);
	p.q_key++;
	EXPECT_EQ(put(1, p, 0), WEFT_R_IB_RDD);
	world_close();
	two_nodes();
	dest = rd_open(1, Q_KEY, RDD);
	p = next_write(dest, 0);
	p.dest_qp ^= 1 << 20;
	p.q_key++;
	EXPECT_EQ(put(1, p, 0), WEFT_R_PEER_UNKNOWN);
	world_close();
	/* One that has left, before the port has forgotten it. */
	two_nodes();
	dest = rd_open(1, Q_KEY, RDD);
	MUST(qp_modify(dest, &error, WEFT_QP_STATE));
	EXPECT_EQ(put(1, next_write(dest, 0), 0), WEFT_R_PEER_UNKNOWN);
	world_close();
}

/* IBA 9.7.5.2.8: what was refused for want of a receive is sent again under another number. */
TEST(test_rd_02_packet_that_had_its_last_answer_is_answered_by_that_again)
{
	const struct ib_ee *ee;
	struct iba_packet p;
	struct weft_qp *dest;
	uint8_t nak;

	two_nodes();
	dest = rd_open(1, Q_KEY, RDD);
	ee = ib_mesh_ee(mesh, 1, 0);
	p = next(IBA_SEND_ONLY, dest);
	MUST(put(1, p, MTU));
	nak = ee->conn.resp.nak;
	EXPECT_EQ(iba_syndrome(nak), IBA_SYNDROME_RNR);
	receive(1, dest, 1, 0, MTU);
	MUST(put(1, p, MTU));
	p.q_key++;
	MUST(put(1, p, MTU));
	EXPECT_EQ(ee->conn.resp.nak, nak);
	/* RESYNC ends that; the receive is for what follows. */
	p = next(IBA_RESYNC, dest);
	MUST(put(1, p, 0));
	MUST(put(1, next(IBA_SEND_ONLY, dest), 8));
	EXPECT_EQ(take(nodes[1].recv_cq).byte_count, 8);
	world_close();
}

/* IBA 9.7.8: one that was late on its way takes nothing away. */
TEST(test_rd_02_old_resync_ends_no_message)
{
	struct iba_packet resync;
	struct weft_qp *dest;

	two_nodes();
	dest = rd_open(1, Q_KEY, RDD);
	receive(1, dest, 1, 0, 2 * MTU);
	resync = next(IBA_RESYNC, dest);
	MUST(put(1, resync, 0));
	MUST(put(1, next(IBA_SEND_FIRST, dest), MTU));
	MUST(put(1, resync, 0));
	EXPECT_EQ(ib_port_counts(port_of(1))->duplicates, 1);
	MUST(put(1, next(IBA_SEND_LAST, dest), MTU));
	EXPECT_EQ(take(nodes[1].recv_cq).byte_count, 2 * MTU);
	world_close();
}

/* An answer is for the queue pair whose request is under way. */
TEST(test_rd_02_answer_to_another_queue_pair_is_dropped)
{
	struct iba_packet ack = {
		.opcode = iba_opcode(IBA_RD, IBA_ACKNOWLEDGE),
		.psn = ee_config().psn_send,
		.syndrome = 0x1f, /* ACK, without credits */
		.msn = 1,
	};
	struct weft_qp *a, *b, *dest;

	two_nodes();
	a = rd_open(0, Q_KEY, RDD);
	b = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	sim_datagram_cut(ib_mesh_pipe(mesh, 0, 1));
	post(0, a, 1, dest, request(WEFT_OP_WRITE, 1, 100));
	step();
	ack.dest_qp = weft_qp_number(b);
	EXPECT_EQ(put(0, ack, 0), WEFT_R_PEER_UNKNOWN);
	ack.dest_qp = weft_qp_number(a);
	MUST(put(0, ack, 0));
	sent(0, 1, WEFT_SUCCESS);
	world_close();
}

TEST(test_rd_02_context_that_failed_takes_no_packet)
{
	struct weft_qp *dest;
	struct iba_packet p;

	two_nodes();
	dest = rd_open(1, Q_KEY, RDD);
	memset(payload, 7, sizeof(payload));
	MUST(put(1, next_write(dest, 8), 8));
	EXPECT_EQ(nodes[1].memory[0], 7);
	p = next_write(dest, 8);
	p.va += 8;
	ee_fail(ib_mesh_ee(mesh, 1, 0), WEFT_R_PEER_GONE);
	EXPECT_EQ(put(1, p, 8), WEFT_R_PEER_GONE);
	EXPECT_EQ(nodes[1].memory[8], 0);
	world_close();
}

/* ---- Receives that never come --------------------------------------------------------------- */

static void join_impatient(uint8_t rnr_retries)
{
	struct ib_ee_config k = ee_config();

	k.rnr_retries = rnr_retries;
	world_open(2, NULL);
	MUST(ib_mesh_join(mesh, 0, 1, &k));
}

static void expect_not_ready(struct weft_qp *a, const struct weft_qp *dest, uint64_t id)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_completion c;

	post(0, a, 1, dest, request(WEFT_OP_SEND, id, 100));
	c = take(nodes[0].send_cq);
	EXPECT_EQ(c.id, id);
	EXPECT_EQ(c.status, WEFT_ERR_RECEIVER_NOT_READY);
	EXPECT_EQ(c.reason, WEFT_R_RECEIVER_NOT_READY);
	MUST(weft_qp_modify(a, &rts, WEFT_QP_STATE));
}

/* IBA 9.7.5.2.8: each request has the context's retries, and the context goes on. */
TEST(test_rd_02_send_without_a_receive_ends_after_its_retries)
{
	enum { RETRIES = 2 };
	struct weft_qp *a, *dest;

	join_impatient(RETRIES);
	a = rd_open(0, Q_KEY, RDD);
	dest = rd_open(1, Q_KEY, RDD);
	for (uint64_t i = 1; i <= 2; i++) {
		expect_not_ready(a, dest, i);
		EXPECT_EQ(ib_port_counts(port_of(1))->rnrs_out, i * (RETRIES + 1));
	}
	post(0, a, 1, dest, request(WEFT_OP_WRITE, 3, 100));
	sent(0, 3, WEFT_SUCCESS);
	world_close();
}

/* As long as the queue pair waits for receivers, each time. */
TEST(test_rd_02_send_without_a_receive_ends_after_its_time)
{
	const struct weft_qp_attr brief = { .receiver_wait_ns = 50 * 1000 * 1000 };
	struct weft_qp *a, *dest;

	join_impatient(IB_RNR_RETRY_FOREVER);
	a = rd_open(0, Q_KEY, RDD);
	MUST(weft_qp_modify(a, &brief, WEFT_QP_RECEIVER_WAIT));
	dest = rd_open(1, Q_KEY, RDD);
	for (uint64_t i = 1; i <= 2; i++) {
		uint64_t began = ib_mesh_world(mesh)->now_ns;

		expect_not_ready(a, dest, i);
		EXPECT(ib_mesh_world(mesh)->now_ns - began >= brief.receiver_wait_ns);
	}
	world_close();
}
