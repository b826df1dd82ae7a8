/* SPDX-License-Identifier: BSD-2-Clause */
/* UC and UD: what is not acknowledged. */
#include <string.h>

#include "ib_bed.h"
#include "verbs/ah.h"

enum { MTU = 256, P0 = PSN_PEERS, Q_KEY = 0x1234567, GRH = 40 };

static uint8_t data[MTU + 4];

static struct iba_packet uc_op(struct ib_bed *b, enum iba_op op, uint32_t psn)
{
	struct iba_packet p = peer_reth(b, op, psn, 0, 3 * MTU);

	p.opcode = iba_opcode(IBA_UC, op);
	return p;
}

/* QP-11: a request completes when it is on the wire; IBA 9.8.2: there is no answer. */
TEST(test_qp_11_uc_completes_on_the_wire)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);

	b->is_held = true;
	bed_post(b, (struct weft_send_wr){ .id = 1, .opcode = WEFT_OP_WRITE }, 0, MTU + 1);
	bed_post(b, (struct weft_send_wr){ .id = 2, .opcode = WEFT_OP_SEND }, 0, 4);
	bed_incomplete(b);
	b->is_held = false;
	bed_run(b);
	bed_expect(b, IBA_WRITE_FIRST, PSN_OURS);
	EXPECT_EQ(bed_expect(b, IBA_WRITE_LAST, PSN_OURS + 1)->p.payload_bytes, 1);
	bed_expect(b, IBA_SEND_ONLY, 0);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(ib_port_due(b->port), UINT64_MAX);
	bed_close(b);
}

/* LOC-02: a Write meanwhile says nothing of the receive that a lost message has left. */
TEST(test_loc_02_uc_receive_of_a_lost_message_is_not_used_when_its_memory_has_gone)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);
	const struct mem_owner owner = pd_owner(b->pd);
	const struct weft_region_options o = { .addr = (uintptr_t)b->memory,
					       .length = MTU,
					       .rights = WEFT_LOCAL_WRITE };
	struct weft_sge sge = { .addr = o.addr, .length = MTU };
	const struct weft_recv_wr wr = { .id = 1, .sges = &sge, .sge_count = 1 };
	struct iba_packet write = uc_op(b, IBA_WRITE_ONLY, P0 + 2);
	uint32_t posted;

	MUST(mem_region_register(&b->adapter.mem, &owner, &o, &sge.tag));
	MUST(qp_post_recv(b->qp, &wr, 1, &posted));
	b->posted++;
	MUST(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0), data, MTU));
	MUST(mem_region_deregister(&b->adapter.mem, b->pd->number, sge.tag));
	write.va = (uintptr_t)b->memory + 4 * MTU;
	write.r_key = b->tag;
	write.dma_bytes = 4;
	MUST(bed_put(b, write, data, 4));
	bed_note(b);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 3), data, 4), WEFT_R_TAG_INVALID);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	bed_unchanged(b);
	bed_close(b);
}

/* IBA 9.8.2.2.2: a gap loses the message, and the next one is whole again. */
TEST(test_iba_9_8_2_uc_loses_what_has_a_gap)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);

	memset(data, 0x3c, sizeof(data));
	bed_recv(b, 1, 1024, 3 * MTU);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_LAST, P0 + 2), data, 4), WEFT_R_IB_PSN);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_MIDDLE, P0 + 3), data, MTU), WEFT_R_IB_PSN);
	EXPECT_EQ(b->adapter.messages_dropped, 1);
	bed_incomplete(b);
	/* The next takes the same receive, and may be cut short by another. */
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0 + 9), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 10), data, 4), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	/* No receive, no right: not a word, and the connection lives. */
	bed_note(b);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 11), data, 4), WEFT_R_RECEIVER_NOT_READY);
	b->qp->remote_rights = 0;
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_WRITE_FIRST, P0 + 12), data, MTU),
		  WEFT_R_QP_REMOTE_RIGHTS);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_WRITE_MIDDLE, P0 + 13), data, MTU), WEFT_R_IB_PSN);
	bed_unchanged(b);
	bed_silent(b);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	/* A receive that is too short fails, and there it ends. */
	bed_recv(b, 2, 1024, 3);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 14), data, 4), WEFT_R_RECEIVE_TOO_SHORT);
	bed_completed(b, 2, WEFT_ERR_LOCAL_LENGTH);
	EXPECT_EQ(b->qp->state, WEFT_QPS_ERROR);
	bed_close(b);
}

/* IBA 9.8.2.2.2: so one that the network doubles, or lets others overtake, is delivered so. */
TEST(test_iba_9_8_2_uc_a_message_begins_with_any_number)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);

	for (uint64_t id = 1; id <= 3; id++)
		bed_recv(b, id, 1024, 3 * MTU);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 1), data, 4), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 1), data, 4), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0), data, 4), WEFT_OK);
	for (uint64_t id = 1; id <= 3; id++)
		bed_completed(b, id, WEFT_SUCCESS);
	/* Of a longer one no part comes twice, but it ends. */
	bed_recv(b, 4, 1024, 3 * MTU);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0 + 2), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_MIDDLE, P0 + 3), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_MIDDLE, P0 + 3), data, MTU), WEFT_R_IB_PSN);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_LAST, P0 + 4), data, 4), WEFT_R_IB_PSN);
	bed_incomplete(b);
	EXPECT_EQ(b->adapter.messages_dropped, 1);
	/* A whole one that comes late takes its place. */
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0 + 5), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 1), data, 4), WEFT_OK);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_LAST, P0 + 6), data, 4), WEFT_R_IB_PSN);
	bed_completed(b, 4, WEFT_SUCCESS);
	EXPECT_EQ(b->adapter.messages_dropped, 2);
	bed_close(b);
}

/* The receive of a Send that was cut short serves whatever comes next. */
TEST(test_iba_9_8_2_uc_write_after_a_send_that_has_a_gap)
{
	struct ib_bed *b = bed_open(NULL, WEFT_UC);
	struct iba_packet write = peer_reth(b, IBA_WRITE_ONLY_IMM, P0 + 2, 4096, 4);

	write.opcode = iba_opcode(IBA_UC, IBA_WRITE_ONLY_IMM);
	bed_recv(b, 1, 1024, 3 * MTU);
	bed_recv(b, 2, 2048, 3 * MTU);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_FIRST, P0), data, MTU), WEFT_OK);
	EXPECT_EQ(bed_put(b, write, data, 4), WEFT_OK);
	bed_completed(b, 1, WEFT_SUCCESS);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_SEND_ONLY, P0 + 3), data, 4), WEFT_OK);
	bed_completed(b, 2, WEFT_SUCCESS);
	EXPECT_EQ(b->adapter.messages_dropped, 1);
	bed_close(b);
}

static struct ib_bed *open_ud(void)
{
	struct ib_config config = bed_config();

	config.q_key = Q_KEY;
	memset(data, 0x3c, sizeof(data));
	return bed_open(&config, WEFT_UD);
}

static struct iba_packet datagram(uint32_t psn)
{
	return (struct iba_packet){
		.opcode = IBA_UD_SEND_IMM, .psn = psn, .q_key = Q_KEY, .src_qp = 0x99, .imm = 7
	};
}

TEST(test_ud_01_ud_03_one_packet_is_one_message)
{
	struct ib_bed *b = open_ud();
	struct weft_sge s = { (uintptr_t)b->memory, MTU + 1, b->tag };
	struct weft_send_wr wr = {
		.id = 1, .opcode = WEFT_OP_SEND, .dest_qp_number = 0x77, .sges = &s, .sge_count = 1
	};
	struct bed_packet *p;
	uint32_t posted;

	EXPECT_EQ(qp_post_send(b->qp, &wr, 1, &posted), WEFT_R_WR_LENGTH);
	s.length = MTU;
	bed_post(b, wr, 0, 0);
	bed_completed(b, 1, WEFT_SUCCESS);
	p = bed_next(b);
	EXPECT_EQ(p->p.opcode, IBA_UD_SEND);
	EXPECT_EQ(p->p.dest_qp, 0x77);
	EXPECT_EQ(p->p.src_qp, b->qp->number);
	EXPECT_EQ(p->p.q_key, Q_KEY);
	EXPECT_EQ(p->p.payload_bytes, MTU);
	bed_silent(b);
	bed_close(b);
}

TEST(test_ud_01_iba_9_8_3_what_a_datagram_delivers)
{
	struct ib_bed *b = open_ud();
	struct iba_packet p = datagram(5);
	struct weft_completion c;
	uint32_t count;

	/* An unknown queue pair; a wrong Q_Key; too long for the receive, which stays. */
	EXPECT_EQ(bed_put(b, p, data, 8), WEFT_R_RECEIVER_NOT_READY);
	bed_recv(b, 1, 512, GRH + 8);
	bed_note(b);
	p.q_key++;
	EXPECT_EQ(bed_put(b, p, data, 8), WEFT_R_IB_QKEY);
	p.q_key--;
	EXPECT_EQ(bed_put(b, p, data, 9), WEFT_R_RECEIVE_TOO_SHORT);
	EXPECT_EQ(bed_put(b, p, data, MTU + 4), WEFT_R_IB_LENGTH);
	bed_unchanged(b);
	bed_incomplete(b);
	/* In any order, from any sender. */
	p.psn = 3;
	EXPECT_EQ(bed_put(b, p, data, 8), WEFT_OK);
	MUST(cq_poll(b->cq, &c, 1, &count));
	EXPECT_EQ(count, 1);
	b->completed++;
	EXPECT_EQ(c.byte_count, GRH + 8);
	EXPECT_EQ(c.src_qp_number, 0x99);
	EXPECT(c.has_imm && c.imm == 7);
	EXPECT_MEM(b->memory + 512 + GRH, data, 8);
	/* 20 bytes of nothing, and the IPv4 header with its addresses. */
	EXPECT_EQ(b->memory[512 + 20], 0x45);
	EXPECT_MEM(b->memory + 512 + 32, b->config.path.to.address, 4);
	EXPECT_MEM(b->memory + 512 + 36, b->config.path.from.address, 4);
	bed_silent(b);
	bed_close(b);
}

/* IBA 10.3.1.7: what comes in the state ERROR is dropped. */
TEST(test_qp_14_iba_10_3_1_uc_and_ud_take_nothing_in_error)
{
	const struct weft_qp_attr error = { .state = WEFT_QPS_ERROR };
	struct ib_bed *b = bed_open(NULL, WEFT_UC);

	MUST(qp_modify(b->qp, &error, WEFT_QP_STATE));
	bed_note(b);
	EXPECT_EQ(bed_put(b, uc_op(b, IBA_WRITE_FIRST, P0), data, MTU), WEFT_R_QP_STATE);
	bed_unchanged(b);
	bed_close(b);
	b = open_ud();
	MUST(qp_modify(b->qp, &error, WEFT_QP_STATE));
	EXPECT_EQ(bed_put(b, datagram(5), data, 8), WEFT_R_QP_STATE);
	bed_close(b);
}

/* ---- Receivers on the same host ------------------------------------------------------------- */

enum { SLOT = 5, OTHER_SLOT = 6, TO = SLOT << 16 | 0x77, TO_OTHER = OTHER_SLOT << 16 | 0x77 };

/* Posts a datagram of four bytes, that no packet is made of yet. */
static void post_to(struct ib_bed *b, struct weft_ah *ah, uint64_t id, uint32_t number)
{
	struct weft_sge s = { (uintptr_t)b->memory, 4, b->tag };
	struct weft_send_wr wr = { .id = id,
				   .opcode = WEFT_OP_SEND,
				   .flags = WEFT_SIGNALLED,
				   .ah = ah,
				   .dest_qp_number = number,
				   .remote_q_key = Q_KEY,
				   .sges = &s,
				   .sge_count = 1 };

	b->is_held = true;
	bed_post(b, wr, 0, 0);
}

/* The next packet goes by this number, and by no other. */
static void expect_near(struct ib_bed *b, uint32_t number, uint32_t to)
{
	static uint8_t room[IBA_PACKET_MAX];
	struct ib_out out = { .room = room, .near_number = number + 1 };
	struct iba_packet p;

	MUST_EQ(ib_port_near_next(b->port), number);
	REQUIRE(!ib_port_send(b->port, b->now_ns, &out));
	out.near_number = number;
	REQUIRE(ib_port_send(b->port, b->now_ns, &out));
	MUST_EQ(out.path->near_number, number);
	MUST_EQ(out.has_icrc, number == 0);
	MUST(iba_decode(&p, room, out.spans.length));
	MUST_EQ(p.dest_qp, to);
	MUST_EQ(ib_is_near(b->conn), number != 0);
}

static struct weft_ah *ah_open(struct ib_bed *b, bool is_on_host)
{
	const struct weft_path path = { .from.family = 4, .to.family = 4 };
	struct weft_ah *ah;

	MUST(ah_create(b->pd, &path, &ah));
	ah->is_on_host = is_on_host;
	return ah;
}

TEST(test_ud_01_datagram_goes_by_the_memory_of_its_receivers_adapter)
{
	struct ib_bed *b = open_ud();
	struct weft_ah *near = ah_open(b, true), *far = ah_open(b, false);

	/* Before the owner has told of shared memory, there is none. */
	post_to(b, near, 1, TO);
	expect_near(b, 0, TO);
	ib_port_near_forget(b->port);
	post_to(b, near, 2, TO);
	post_to(b, far, 3, TO);
	post_to(b, near, 4, IBA_QPN_MULTICAST);
	post_to(b, near, 5, TO_OTHER);
	post_to(b, near, 6, TO);
	EXPECT_EQ(ib_port_near_next(b->port), IB_NEAR_UNKNOWN);
	EXPECT_EQ(ib_port_near_asked(b->port), SLOT);
	EXPECT(ib_port_near_may_lose(b->port));
	ib_port_near_set(b->port, SLOT, 0x105);
	expect_near(b, 0x105, TO);
	expect_near(b, 0, TO);
	expect_near(b, 0, IBA_QPN_MULTICAST);
	EXPECT_EQ(ib_port_near_next(b->port), IB_NEAR_UNKNOWN);
	EXPECT_EQ(ib_port_near_asked(b->port), OTHER_SLOT);
	ib_port_near_set(b->port, OTHER_SLOT, 0);
	expect_near(b, 0, TO_OTHER);
	expect_near(b, 0x105, TO);
	bed_run(b);
	for (uint64_t id = 1; id <= 6; id++)
		bed_completed(b, id, WEFT_SUCCESS);
	/* With nothing to send it does not wait for room. */
	EXPECT_EQ(ib_port_near_next(b->port), 0x105);
	ib_port_near_hold(b->port, b->now_ns, false);
	EXPECT(!ib_port_has_output(b->port) && !ib_is_busy(b->conn));
	ib_port_near_ended(b->port, b->now_ns, 0x105);
	EXPECT_EQ(b->qp->state, WEFT_QPS_RTS);
	b->is_held = false;
	ah_destroy(near);
	ah_destroy(far);
	bed_close(b);
}

/* It waits for room, with what is behind it. */
TEST(test_ud_01_datagram_without_room_waits)
{
	struct ib_bed *b = open_ud();
	struct weft_ah *near = ah_open(b, true);

	ib_port_near_set(b->port, SLOT, 0x105);
	post_to(b, near, 1, TO);
	post_to(b, near, 2, TO_OTHER);
	ib_port_near_hold(b->port, b->now_ns, true);
	EXPECT(!ib_port_has_output(b->port));
	EXPECT(!ib_port_near_may_lose(b->port));
	EXPECT_EQ(ib_port_near_next(b->port), 0);
	bed_incomplete(b);
	ib_port_near_release(b->port);
	/* Meanwhile the adapter has refused: its datagrams have a path of their own. */
	EXPECT(!ib_port_near_refused(b->port, 0x105));
	ib_port_near_set(b->port, SLOT, 0);
	expect_near(b, 0, TO);
	expect_near(b, 0, TO_OTHER);
	bed_run(b);
	bed_completed(b, 1, WEFT_SUCCESS);
	bed_completed(b, 2, WEFT_SUCCESS);
	ah_destroy(near);
	bed_close(b);
}

/* IBA 11.2.2.1: the request of an address handle that was destroyed fails, held or not. */
TEST(test_ud_01_datagram_that_waits_fails_without_its_address_handle)
{
	struct ib_bed *b = open_ud();
	struct weft_ah *near = ah_open(b, true);
	struct ib_out out = { .near_number = 0 };

	ib_port_near_set(b->port, SLOT, 0x105);
	post_to(b, near, 1, TO);
	ib_port_near_hold(b->port, b->now_ns, false);
	ah_destroy(near);
	ib_port_near_release(b->port);
	EXPECT_EQ(ib_port_near_next(b->port), 0);
	EXPECT(!ib_port_send(b->port, b->now_ns, &out));
	bed_run(b);
	bed_completed(b, 1, WEFT_ERR_LOCAL_ACCESS);
	bed_close(b);
}
