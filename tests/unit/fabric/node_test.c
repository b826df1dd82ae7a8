/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents of nodes: discovery along directed routes, addresses, states, tables, and data. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

static const uint8_t by_1[] = { 1 }, to_far[] = { 1, 2 };

static struct smp get_at(uint16_t attribute, uint32_t modifier, uint32_t hops, const uint8_t *ports)
{
	return node_bed_route(node_bed_smp(MAD_GET, attribute, modifier), hops, ports);
}

TEST(test_iba_14_2_2_a_directed_route_finds_each_node)
{
	struct node_bed *b = node_bed_star();
	union sm_value v;

	EXPECT_EQ(node_bed_get(b, get_at(SM_NODE_INFO, 0, 0, NULL), &v), 0);
	EXPECT(v.node_info.node_type == SM_NODE_CA && v.node_info.node_guid == 0x1000);
	EXPECT(v.node_info.port_guid == 0x1001 && v.node_info.local_port == 1);
	EXPECT_EQ(node_bed_get(b, get_at(SM_NODE_INFO, 0, 1, by_1), &v), 0);
	EXPECT(v.node_info.node_type == SM_NODE_SWITCH && v.node_info.ports == 4);
	EXPECT(v.node_info.port_guid == 0x1100 && v.node_info.local_port == 1);
	EXPECT_EQ(node_bed_get(b, get_at(SM_NODE_INFO, 0, 2, to_far), &v), 0);
	EXPECT(v.node_info.node_type == SM_NODE_CA && v.node_info.node_guid == 0x1200);
	EXPECT_EQ(node_bed_get(b, get_at(SM_NODE_DESCRIPTION, 0, 2, to_far), &v), 0);
	EXPECT_STR((const char *)v.node_description.text, "a node");
	node_bed_close(b);
}

/* IBA C14-9, C14-13: the way back is written on the way there. */
TEST(test_iba_14_2_2_the_route_back_is_that_of_the_ports_where_it_came_in)
{
	struct node_bed *b = node_bed_star();
	struct smp answer = node_bed_ask(b, 0, 1, get_at(SM_NODE_INFO, 0, 2, to_far));

	EXPECT(answer.back[1] == 1 && answer.back[2] == 1);
	EXPECT(answer.hop_count == 2 && answer.from == IBA_LID_PERMISSIVE);
	node_bed_close(b);
}

TEST(test_iba_7_2_7_a_port_goes_from_init_over_armed_to_active)
{
	struct node_bed *b = node_bed_star();
	struct smp s = get_at(SM_PORT_INFO, 1, 2, to_far);
	union sm_value v;

	EXPECT_EQ(node_bed_get(b, s, &v), 0);
	EXPECT(v.port_info.state == SM_PORT_INIT && v.port_info.phys_state == SM_PHYS_LINK_UP);
	EXPECT(v.port_info.width_active == 2 && v.port_info.speed_active == 1);
	v.port_info.phys_state = 0;
	v.port_info.state = SM_PORT_ACTIVE;
	EXPECT_EQ(node_bed_set(b, s, &v), SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(b->nodes[2].ports[1].info.state, SM_PORT_INIT);
	v.port_info.state = SM_PORT_ARMED;
	EXPECT_EQ(node_bed_set(b, s, &v), 0);
	EXPECT(v.port_info.state == SM_PORT_ARMED && v.port_info.phys_state == SM_PHYS_LINK_UP);
	v.port_info.phys_state = 0;
	v.port_info.state = SM_PORT_ACTIVE;
	EXPECT_EQ(node_bed_set(b, s, &v), 0);
	v.port_info.state = SM_PORT_INIT;
	EXPECT_EQ(node_bed_set(b, s, &v), SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(b->nodes[2].ports[1].info.state, SM_PORT_ACTIVE);
	node_bed_close(b);
}

TEST(test_fab_15_a_managed_subnet_carries_data_by_lid)
{
	struct node_bed *b = node_bed_star();
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = node_bed_data(bytes, 1, 3, 256);

	node_bed_post(b, 0, 1, bytes, length);
	EXPECT_EQ(b->came_count, 0);
	EXPECT_EQ(b->nodes[0].ports[1].counts.transmit_discards, 1);
	node_bed_manage(b);
	for (uint32_t port = 1; port <= 2; port++)
		EXPECT_EQ(b->nodes[1].ports[port].info.state, SM_PORT_ACTIVE);
	EXPECT(fabric_node_is_open(&b->nodes[1], 1));
	node_bed_post(b, 0, 1, bytes, length);
	EXPECT(b->came_count == 1 && b->came[0].node == 2 && b->came[0].port == 1);
	EXPECT_MEM(b->came[0].bytes, bytes, length);
	length = node_bed_data(bytes, 1, 9, 256); /* in no table */
	node_bed_post(b, 0, 1, bytes, length);
	EXPECT_EQ(b->came_count, 1);
	node_bed_close(b);
}

TEST(test_iba_14_2_1_a_managed_node_answers_by_its_lid)
{
	struct node_bed *b = node_bed_star();
	struct smp s = node_bed_smp(MAD_GET, SM_NODE_INFO, 0), answer;
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	for (uint16_t lid = 1; lid <= 3; lid++) {
		struct iba_lrh h;

		b->came_count = 0;
		node_bed_post(b, 0, 1, bytes, node_bed_frame(bytes, &s, 1, lid));
		EXPECT(b->came_count == 1 && b->came[0].node == 0);
		answer = node_bed_last(b);
		EXPECT(answer.mad.method == MAD_GET_RESPONSE && answer.mad.status == 0);
		EXPECT_EQ(iba_lrh_decode(&h, b->came[0].bytes, b->came[0].length), WEFT_OK);
		EXPECT(h.from == lid && h.to == 1);
	}
	node_bed_close(b);
}

TEST(test_iba_14_2_2_routes_by_lid_and_by_ports_mix)
{
	struct node_bed *b = node_bed_star();
	struct smp s = get_at(SM_NODE_INFO, 0, 1, (const uint8_t[]){ 2 });
	uint8_t bytes[IBA_FRAME_MAX];
	union sm_value v;

	node_bed_manage(b);
	s.from = 1; /* by LID to the switch, from there by its port 2 */
	node_bed_post(b, 0, 1, bytes, node_bed_frame(bytes, &s, 1, 2));
	EXPECT_EQ(b->came_count, 1);
	s = node_bed_last(b);
	EXPECT_EQ(mad_layout_decode(sm_layout(SM_NODE_INFO), &v, s.data), WEFT_OK);
	EXPECT(v.node_info.node_guid == 0x1200 && s.hop_pointer == 0 && s.is_returning);
	s = get_at(SM_NODE_INFO, 0, 1, by_1); /* by port 1 to the switch, from there by LID */
	s.to = 3;
	node_bed_post(b, 0, 1, bytes,
		      node_bed_frame(bytes, &s, IBA_LID_PERMISSIVE, IBA_LID_PERMISSIVE));
	EXPECT_EQ(b->came_count, 2);
	s = node_bed_last(b);
	EXPECT_EQ(mad_layout_decode(sm_layout(SM_NODE_INFO), &v, s.data), WEFT_OK);
	EXPECT(v.node_info.node_guid == 0x1200 && s.hop_pointer == 0 && s.is_returning);
	node_bed_close(b);
}

TEST(test_iba_14_2_5_what_is_unknown_is_answered_with_a_status)
{
	struct node_bed *b = node_bed_star();
	struct smp s = get_at(SM_NODE_INFO, 0, 1, by_1);

	s.mad.class_version = 2;
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_UNSUPPORTED_VERSION);
	s = get_at(SM_NODE_INFO, 0, 1, by_1);
	s.mad.method = 0x15;
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_UNSUPPORTED_METHOD);
	s = get_at(0x77, 0, 1, by_1);
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_UNSUPPORTED_ATTRIBUTE);
	s = get_at(SM_LINEAR_TABLE, 0, 0, NULL); /* at a CA */
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_UNSUPPORTED_ATTRIBUTE);
	s = get_at(SM_PORT_INFO, 5, 1, by_1);
	EXPECT_EQ(node_bed_ask(b, 0, 1, s).mad.status, SMP_STATUS_INVALID_VALUE);
	node_bed_close(b);
}

TEST(test_iba_16_1_performance_management_answers)
{
	struct node_bed *b = node_bed_star();
	struct mad m = { .mgmt_class = MAD_PERFORMANCE,
			 .class_version = PM_CLASS_VERSION,
			 .method = MAD_GET,
			 .tid = 5,
			 .attribute = PM_PORT_COUNTERS };
	union pm_value v = { .port_counters = { .port = 2 } };
	uint8_t mad[MAD_BYTES] = { 0 }, bytes[IBA_FRAME_MAX];
	struct iba_frame f = {
		.lrh = { .from = 1, .to = 2 },
		.packet = { .opcode = IBA_UD_SEND,
			    .p_key = IBA_PKEY_DEFAULT,
			    .dest_qp = 1,
			    .src_qp = 1,
			    .q_key = IBA_QKEY_GSI,
			    .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};

	node_bed_manage(b);
	b->nodes[1].ports[2].counts.symbol_errors = 70000;
	b->nodes[1].ports[2].counts.transmit_packets = 7;
	mad_encode(&m, mad);
	mad_layout_encode(pm_layout(PM_PORT_COUNTERS), &v, mad + PM_DATA_AT);
	node_bed_post(b, 0, 1, bytes, iba_frame_encode(&f, bytes));
	EXPECT_EQ(b->came_count, 1);
	EXPECT_EQ(iba_frame_decode(&f, b->came[0].bytes, b->came[0].length), WEFT_OK);
	EXPECT(f.packet.dest_qp == 1 && f.packet.src_qp == 1 && f.lrh.from == 2);
	EXPECT_EQ(mad_decode(&m, f.packet.payload, f.packet.payload_bytes), WEFT_OK);
	EXPECT(m.method == MAD_GET_RESPONSE && m.status == 0 && m.tid == 5);
	EXPECT_EQ(mad_layout_decode(pm_layout(PM_PORT_COUNTERS), &v, f.packet.payload + PM_DATA_AT),
		  WEFT_OK);
	EXPECT(v.port_counters.port == 2 && v.port_counters.symbol_errors == 0xffff);
	EXPECT_EQ(v.port_counters.transmit_packets, 7);
	node_bed_close(b);
}
