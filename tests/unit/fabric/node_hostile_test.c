/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames that no good node sends: dropped, counted at the port where they came, and no more. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

static const uint8_t by_1[] = { 1 }, to_far[] = { 1, 2 };

static void arrive_at_switch(struct node_bed *b, const uint8_t *bytes, uint32_t length)
{
	b->came_count = 0;
	node_bed_arrive(b, 1, 1, bytes, length);
}

static struct fabric_port_counts *counts_of(struct node_bed *b)
{
	return &b->nodes[1].ports[1].counts;
}

/* IBA 7.7, 7.8: which port counts what. */
TEST(test_fab_02_malformed_frames_are_counted_where_they_came_in)
{
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length;

	node_bed_manage(b);
	length = node_bed_data(bytes, 1, 3, 256);
	arrive_at_switch(b, bytes, length - 4);
	EXPECT(b->nodes[1].refusal == WEFT_R_FRAME_LENGTH && counts_of(b)->receive_errors == 1);
	arrive_at_switch(b, bytes, IBA_FRAME_MIN - 1);
	EXPECT(b->nodes[1].refusal == WEFT_R_FRAME_SHORT && counts_of(b)->receive_errors == 2);
	bytes[0] |= 1;
	arrive_at_switch(b, bytes, length);
	EXPECT(b->nodes[1].refusal == WEFT_R_FRAME_VERSION && counts_of(b)->receive_errors == 3);
	EXPECT_EQ(b->came_count, 0);
	node_bed_close(b);
}

TEST(test_fab_10_a_lane_that_is_not_in_use_carries_nothing)
{
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length;

	node_bed_manage(b);
	length = node_bed_data(bytes, 1, 3, 256);
	bytes[0] = 3 << 4;
	arrive_at_switch(b, bytes, length);
	EXPECT_EQ(b->came_count, 1);
	bytes[0] = 4 << 4;
	arrive_at_switch(b, bytes, length);
	EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_NODE_LANE);
	EXPECT_EQ(counts_of(b)->receive_errors, 1);
	node_bed_close(b);
}

TEST(test_iba_7_8_what_is_longer_than_the_mtu_goes_no_further)
{
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length;

	node_bed_manage(b);
	b->nodes[1].ports[1].info.mtu = 1;
	length = node_bed_data(bytes, 1, 3, 256);
	arrive_at_switch(b, bytes, length);
	EXPECT_EQ(b->came_count, 1);
	length = node_bed_data(bytes, 1, 3, 512);
	arrive_at_switch(b, bytes, length);
	EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_NODE_LENGTH);
	EXPECT_EQ(counts_of(b)->receive_errors, 1);
	b->nodes[1].ports[1].info.mtu = 5;
	b->nodes[1].ports[2].info.mtu = 1; /* where it would leave */
	arrive_at_switch(b, bytes, length);
	EXPECT_EQ(b->came_count, 0);
	EXPECT_EQ(b->nodes[1].ports[2].counts.transmit_discards, 1);
	node_bed_close(b);
}

TEST(test_fab_15_an_endnode_takes_only_what_has_its_lid)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node_port *p = &b->nodes[2].ports[1];
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	node_bed_arrive(b, 2, 1, bytes, node_bed_data(bytes, 1, 2, 64));
	EXPECT(b->came_count == 0 && p->counts.misrouted == 1);
	EXPECT_EQ(b->nodes[2].refusal, WEFT_R_NODE_LID);
	node_bed_arrive(b, 2, 1, bytes, node_bed_data(bytes, 1, IBA_LID_PERMISSIVE, 64));
	EXPECT(b->came_count == 0 && p->counts.misrouted == 2);
	node_bed_arrive(b, 2, 1, bytes, node_bed_data(bytes, 1, 3, 64));
	node_bed_arrive(b, 2, 1, bytes, node_bed_data(bytes, 1, 0xc123, 64));
	EXPECT_EQ(b->came_count, 2);
	node_bed_close(b);
}

/* AMB-24: a base LID and those that the LMC adds. */
TEST(test_fab_22c_a_port_has_as_many_lids_as_its_lmc_says)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node_port *p = &b->nodes[2].ports[1];
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	p->info.lid = 8;
	p->info.lmc = 2;
	for (uint16_t lid = 4; lid < 16; lid++)
		node_bed_arrive(b, 2, 1, bytes, node_bed_data(bytes, 1, lid, 64));
	EXPECT(b->came_count == 4 && p->counts.misrouted == 8);
	node_bed_close(b);
}

static uint32_t smp_frame(uint8_t bytes[IBA_FRAME_MAX], struct iba_frame *f, const uint8_t *mad)
{
	f->packet.payload = mad;
	f->packet.payload_bytes = f->packet.payload_bytes ? f->packet.payload_bytes : MAD_BYTES;
	return iba_frame_encode(f, bytes);
}

/* IBA 9.6.1, 13.5.3: lane 15 is for QP 0, and QP 0 for lane 15. */
TEST(test_iba_13_5_3_lane_15_and_qp_0_carry_nothing_but_smps)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_smp(MAD_GET, SM_NODE_INFO, 0);
	uint8_t mad[2 * MAD_BYTES] = { 0 }, bytes[IBA_FRAME_MAX];
	const struct iba_frame good = { .lrh = { .lane = IBA_LANE_MANAGEMENT, .from = 1, .to = 3 },
					.packet = { .opcode = IBA_UD_SEND,
						    .p_key = IBA_PKEY_DEFAULT } };
	struct iba_frame bad[6];

	smp_encode(&s, mad);
	for (uint32_t i = 0; i < 6; i++)
		bad[i] = good;
	bad[0].lrh.lane = 0;
	bad[1].packet.dest_qp = 1;
	bad[2].has_grh = true;
	bad[3].packet.opcode = IBA_UD_SEND_IMM;
	bad[4].packet.opcode = iba_opcode(IBA_RC, IBA_SEND_ONLY);
	bad[5].packet.payload_bytes = 2 * MAD_BYTES;
	node_bed_manage(b);
	for (uint32_t i = 0; i < 6; i++) {
		uint32_t length = smp_frame(bytes, &bad[i], mad);
		uint64_t had = counts_of(b)->receive_errors;

		arrive_at_switch(b, bytes, length);
		EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_NODE_MANAGEMENT);
		EXPECT_EQ(counts_of(b)->receive_errors, had + 1);
		had = b->nodes[2].ports[1].counts.receive_errors;
		node_bed_arrive(b, 2, 1, bytes, length);
		EXPECT(b->came_count == 0 && b->nodes[2].ports[1].counts.receive_errors == had + 1);
		node_bed_post(b, 0, 1, bytes, length);
		EXPECT_EQ(b->came_count, 0);
	}
	node_bed_close(b);
}

/* IBA 14.2.2: hop pointers, ports and directions that do not fit are dropped in silence. */
TEST(test_iba_14_2_2_routes_that_lead_nowhere_end)
{
	static const uint8_t paths[][3] = { { 1, 9, 0 }, { 1, 0, 0 }, { 2, 1, 0 }, { 1, 3, 0 } };
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	struct smp s;

	for (uint32_t i = 0; i < 4; i++) {
		s = node_bed_route(node_bed_smp(MAD_GET, SM_NODE_INFO, 0), 2, paths[i]);
		node_bed_post(b, 0, 1, bytes,
			      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
		EXPECT_EQ(b->came_count, 0);
	}
	EXPECT_EQ(b->nodes[1].refusal, WEFT_R_NODE_STATE); /* port 3 has no link */
	EXPECT_EQ(b->nodes[1].ports[3].counts.transmit_discards, 1);
	EXPECT_EQ(b->nodes[0].refusal, WEFT_R_NODE_ROUTE); /* it has no port 2 */
	for (uint8_t pointer = 0; pointer < 5; pointer++) {
		uint64_t had = b->nodes[2].refusals;

		s = node_bed_route(node_bed_smp(MAD_GET, SM_NODE_INFO, 0), 3, paths[0]);
		s.hop_pointer = pointer;
		s.back[3] = 1;
		node_bed_arrive(b, 2, 1, bytes,
				node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
		/* At an endnode it may only be at its end. */
		EXPECT_EQ(b->nodes[2].refusals > had, pointer < 3);
	}
	node_bed_close(b);
}

/* IBA C14-13: only switches are between the ends of a route, on the way back, too. */
TEST(test_iba_14_2_2_an_endnode_hands_no_response_on)
{
	static const uint8_t path[] = { 1, 1, 1 };
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	struct smp s = node_bed_route(node_bed_smp(MAD_GET_RESPONSE, SM_NODE_INFO, 0), 3, path);

	s.is_returning = true;
	s.hop_pointer = 3;
	s.back[1] = s.back[2] = s.back[3] = 1;
	node_bed_arrive(b, 2, 1, bytes,
			node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 0 && b->nodes[2].refusal == WEFT_R_NODE_ROUTE);
	EXPECT(b->nodes[2].refusals == 1 && b->nodes[1].refusals == 0);
	node_bed_close(b);
}

/* A request that says it returns would be answered to whatever its way back says. */
TEST(test_iba_14_2_2_a_request_goes_out_and_a_response_back)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_NODE_INFO, 0), 0, NULL);
	uint8_t bytes[IBA_FRAME_MAX];

	s.is_returning = true;
	node_bed_arrive(b, 2, 1, bytes,
			node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 0 && b->nodes[2].refusal == WEFT_R_NODE_ROUTE);
	s.is_returning = false;
	s.mad.method = MAD_GET_RESPONSE;
	node_bed_arrive(b, 2, 1, bytes,
			node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 0 && b->nodes[2].refusals == 2);
	s.is_returning = true;
	node_bed_arrive(b, 2, 1, bytes,
			node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 1 && b->came[0].node == 2);
	node_bed_close(b);
}

TEST(test_iba_14_4_only_a_subnet_manager_gets_what_is_for_one)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_smp(MAD_TRAP, SM_NOTICE, 0);
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	node_bed_post(b, 0, 1, bytes, node_bed_frame(bytes, &s, 1, 3));
	EXPECT(b->came_count == 0 && b->nodes[2].refusal == WEFT_R_NODE_SM);
	s = node_bed_route(node_bed_smp(MAD_GET, SM_SM_INFO, 0), 2, to_far);
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_UNSUPPORTED_ATTRIBUTE);
	fabric_node_set_sm(&b->nodes[2], 1, true, b->now_ns);
	node_bed_settle(b); /* its trap */
	b->came_count = 0;
	node_bed_post(b, 0, 1, bytes,
		      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 1 && b->came[0].node == 2);
	/* The subnet manager there answers along the way back. */
	s = node_bed_last(b);
	EXPECT(s.hop_pointer == 3 && s.back[1] == 1 && s.back[2] == 1);
	s.is_returning = true;
	s.mad.method = MAD_GET_RESPONSE;
	node_bed_post(b, 2, 1, bytes,
		      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 2 && b->came[1].node == 0);
	EXPECT_EQ(node_bed_last(b).hop_pointer, 0);
	node_bed_close(b);
}

/* What is damaged in a node, not on a link, keeps its VCRC; a VCRC is not looked at here. */
TEST(test_fab_07_a_datagram_of_management_that_was_damaged_is_dropped)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_route(node_bed_smp(MAD_SET, SM_NODE_DESCRIPTION, 0), 1, by_1);
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE);

	bytes[100] ^= 1;
	arrive_at_switch(b, bytes, length);
	EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_FRAME_ICRC);
	EXPECT_EQ(counts_of(b)->receive_errors, 1);
	EXPECT_EQ(b->nodes[1].description[0], 'a');
	node_bed_close(b);
}

/* IBA 7.2.7: only SMPs pass a port that is in Init. */
TEST(test_iba_7_2_7_a_port_that_is_not_active_lets_no_data_in)
{
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];

	arrive_at_switch(b, bytes, node_bed_data(bytes, 1, 3, 256));
	EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_NODE_STATE);
	EXPECT_EQ(counts_of(b)->inactive, 1);
	node_bed_close(b);
}

TEST(test_iba_7_2_7_no_datagram_of_management_leaves_by_a_port_without_a_link)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_smp(MAD_GET, SM_NODE_INFO, 0);
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = node_bed_frame(bytes, &s, 1, 3);

	EXPECT(fabric_node_lets_out(&b->nodes[1], 0, 2, bytes, length));
	EXPECT(!fabric_node_lets_out(&b->nodes[1], 0, 3, bytes, length));
	EXPECT_EQ(b->nodes[1].refusal, WEFT_R_NODE_STATE);
	EXPECT_EQ(b->nodes[1].ports[3].counts.transmit_discards, 1);
	node_bed_close(b);
}

/* IBA C14-9: each port of an endnode is an end of its own. */
TEST(test_iba_14_2_2_a_route_of_an_endnode_begins_at_its_own_port)
{
	struct node_bed *b = node_bed_open();
	uint32_t end = node_bed_add(b, SM_NODE_CA, 2), far = node_bed_add(b, SM_NODE_CA, 1);
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_cable(b, end, 2, far, 1);
	for (uint8_t port = 1; port <= 2; port++) {
		struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_NODE_INFO, 0), 1,
					      (const uint8_t[]){ 2 });
		uint32_t length = node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE);

		b->came_count = 0;
		node_bed_post(b, end, port, bytes, length);
		EXPECT_EQ(b->came_count, port == 2); /* the answer */
	}
	EXPECT_EQ(b->nodes[end].refusal, WEFT_R_NODE_ROUTE);
	node_bed_close(b);
}

/* A request that is at its end already: what it says of its way back is its sender's word. */
TEST(test_iba_14_2_2_an_answer_without_a_way_back_ends)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_route(node_bed_smp(MAD_GET, SM_NODE_INFO, 0), 1,
				      (const uint8_t[]){ 1 });
	uint8_t bytes[IBA_FRAME_MAX];

	s.hop_pointer = 2;
	for (uint8_t back = 0; back < 10; back += 9) {
		s.back[1] = back;
		node_bed_arrive(b, 2, 1, bytes,
				node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
		EXPECT(b->came_count == 0 && b->nodes[2].refusal == WEFT_R_NODE_ROUTE);
	}
	node_bed_close(b);
}

TEST(test_iba_14_2_1_an_smp_for_another_lid_ends)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_smp(MAD_GET, SM_NODE_INFO, 0);
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	node_bed_arrive(b, 2, 1, bytes, node_bed_frame(bytes, &s, 1, 5));
	EXPECT(b->came_count == 0 && b->nodes[2].refusal == WEFT_R_NODE_ROUTE);
	/* From a switch to whatever there is: by which port? */
	node_bed_post(b, 1, 0, bytes, node_bed_frame(bytes, &s, 2, IBA_LID_PERMISSIVE));
	EXPECT(b->came_count == 0 && b->nodes[1].refusal == WEFT_R_NODE_ROUTE);
	node_bed_close(b);
}
