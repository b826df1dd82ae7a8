/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables that a subnet manager sets, and what PortInfo takes and refuses. */
#include "unit/fabric/node_bed.h"

#include <string.h>

#include "test.h"

static const uint8_t by_1[] = { 1 }, to_far[] = { 1, 2 };

static struct smp at_switch(uint16_t attribute, uint32_t modifier)
{
	return node_bed_route(node_bed_smp(MAD_GET, attribute, modifier), 1, by_1);
}

static struct smp at_far(uint16_t attribute, uint32_t modifier)
{
	return node_bed_route(node_bed_smp(MAD_GET, attribute, modifier), 2, to_far);
}

static struct iba_lrh to(uint16_t lid)
{
	return (struct iba_lrh){ .to = lid };
}

TEST(test_fab_18_a_linear_table_is_set_by_blocks_of_64)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[1];
	struct iba_lrh h = to(BED_TABLE - 1);
	union sm_value v;

	memset(&v, 2, sizeof(v));
	EXPECT_EQ(node_bed_set(b, at_switch(SM_LINEAR_TABLE, 1), &v), 0);
	EXPECT_EQ(fabric_node_outputs(n, 1, &h), 0); /* above the top */
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SWITCH_INFO, 0), &v), 0);
	EXPECT(v.switch_info.linear_cap == BED_TABLE && v.switch_info.multicast_cap == BED_TABLE);
	v.switch_info.linear_top = BED_TABLE - 1;
	EXPECT_EQ(node_bed_set(b, at_switch(SM_SWITCH_INFO, 0), &v), 0);
	EXPECT_EQ(fabric_node_outputs(n, 1, &h), 1 << 2);
	EXPECT_EQ(fabric_node_outputs(n, 2, &h), 0); /* not back */
	h.to = BED_TABLE - 65;
	EXPECT_EQ(fabric_node_outputs(n, 1, &h), 0);
	h.to = BED_TABLE;
	EXPECT_EQ(fabric_node_outputs(n, 1, &h), 0);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_LINEAR_TABLE, 1), &v), 0);
	EXPECT(v.linear_table.ports[0] == 2 && v.linear_table.ports[63] == 2);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_LINEAR_TABLE, 2), &v), SMP_STATUS_INVALID_VALUE);
	v.switch_info.linear_top = BED_TABLE;
	EXPECT_EQ(node_bed_set(b, at_switch(SM_SWITCH_INFO, 0), &v), SMP_STATUS_INVALID_VALUE);
	node_bed_close(b);
}

TEST(test_fab_15_a_multicast_table_is_set_by_blocks_of_32_lids_and_16_ports)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[1];
	struct iba_lrh h = to(IBA_LID_MULTICAST_MIN + 33);
	union sm_value v = { .multicast_table = { .masks = { 0, 0x16 } } };

	EXPECT_EQ(node_bed_set(b, at_switch(SM_MULTICAST_TABLE, 1), &v), 0);
	EXPECT_EQ(fabric_node_outputs(n, 3, &h), 0x16);
	EXPECT_EQ(fabric_node_outputs(n, 1, &h), 0x14);
	EXPECT_EQ(fabric_node_outputs(n, 0, &h), 0x16);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_MULTICAST_TABLE, 1), &v), 0);
	EXPECT(v.multicast_table.masks[0] == 0 && v.multicast_table.masks[1] == 0x16);
	h.to--;
	EXPECT_EQ(fabric_node_outputs(n, 3, &h), 0);
	/* It has no ports from 16 on, and no LIDs behind its table. */
	EXPECT_EQ(node_bed_get(b, at_switch(SM_MULTICAST_TABLE, UINT32_C(1) << 28), &v),
		  SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_MULTICAST_TABLE, BED_TABLE / 32), &v),
		  SMP_STATUS_INVALID_VALUE);
	/* Above the top of the table nothing is looked up. */
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SWITCH_INFO, 0), &v), 0);
	v.switch_info.multicast_top = IBA_LID_MULTICAST_MIN + 32;
	EXPECT_EQ(node_bed_set(b, at_switch(SM_SWITCH_INFO, 0), &v), 0);
	h.to++;
	EXPECT_EQ(fabric_node_outputs(n, 3, &h), 0);
	node_bed_close(b);
}

TEST(test_fab_15_a_multicast_table_keeps_no_ports_that_the_switch_does_not_have)
{
	struct node_bed *b = node_bed_star();
	struct iba_lrh h = to(IBA_LID_MULTICAST_MIN);
	const uint32_t ports = b->nodes[1].cfg.ports;
	union sm_value v = { .multicast_table = { .masks = { UINT16_MAX } } };

	EXPECT_EQ(node_bed_set(b, at_switch(SM_MULTICAST_TABLE, 0), &v), 0);
	EXPECT_EQ(v.multicast_table.masks[0], (UINT32_C(2) << ports) - 1);
	EXPECT_EQ(fabric_node_outputs(&b->nodes[1], 0, &h), (UINT64_C(2) << ports) - 2);
	node_bed_close(b);
}

TEST(test_fab_15_a_multicast_datagram_reaches_each_member_but_its_sender)
{
	struct node_bed *b = node_bed_star();
	union sm_value v = { .multicast_table = { .masks = { 0x6 } } };
	uint8_t bytes[IBA_FRAME_MAX];

	node_bed_manage(b);
	EXPECT_EQ(node_bed_set(b, at_switch(SM_MULTICAST_TABLE, 0), &v), 0);
	node_bed_post(b, 0, 1, bytes, node_bed_data(bytes, 1, IBA_LID_MULTICAST_MIN, 100));
	EXPECT(b->came_count == 1 && b->came[0].node == 2);
	node_bed_post(b, 2, 1, bytes, node_bed_data(bytes, 3, IBA_LID_MULTICAST_MIN, 100));
	EXPECT(b->came_count == 2 && b->came[1].node == 0);
	node_bed_close(b);
}

/* A level has a lane for each pair of ports; one that has no lane in use goes no further. */
TEST(test_fab_11_levels_have_lanes_by_input_and_output)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node *n = &b->nodes[1];
	union sm_value v = { .sl_to_vl = { .lanes = { 3, 2, 1, 0, 4, 15 } } };

	EXPECT_EQ(node_bed_set(b, at_switch(SM_SL_TO_VL, 1 << 8 | 2), &v), 0);
	for (uint8_t level = 0; level < 4; level++) {
		EXPECT_EQ(fabric_node_lane(n, 1, 2, level), 3 - level);
		EXPECT_EQ(fabric_node_lane(n, 2, 1, level), level);
	}
	EXPECT_EQ(fabric_node_lane(n, 1, 2, 4), IBA_LANE_MANAGEMENT);
	EXPECT_EQ(fabric_node_lane(n, 1, 2, 5), IBA_LANE_MANAGEMENT);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SL_TO_VL, 1 << 8 | 2), &v), 0);
	EXPECT(v.sl_to_vl.lanes[0] == 3 && v.sl_to_vl.lanes[4] == 4);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SL_TO_VL, 5 << 8 | 2), &v),
		  SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SL_TO_VL, 1 << 8 | 5), &v),
		  SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_SL_TO_VL, 1 << 16), &v), SMP_STATUS_INVALID_VALUE);
	v.sl_to_vl.lanes[0] = 2;
	EXPECT_EQ(node_bed_set(b, at_far(SM_SL_TO_VL, 0), &v), 0);
	EXPECT_EQ(fabric_node_lane(&b->nodes[2], 0, 1, 0), 2);
	node_bed_close(b);
}

TEST(test_fab_12_arbitration_is_set_by_halves_of_two_tables)
{
	struct node_bed *b = node_bed_star();
	struct fabric_arbiter *a = &b->nodes[1].ports[2].arbiter;
	union sm_value v = { 0 };
	uint32_t port;

	(void)fabric_node_changes(&b->nodes[1], &port);
	for (uint32_t block = 1; block <= 4; block++) {
		v.vl_arbitration.lanes[1] = 2;
		v.vl_arbitration.weights[1] = (uint8_t)(block * 10);
		EXPECT_EQ(node_bed_set(b, at_switch(SM_VL_ARBITRATION, block << 16 | 2), &v), 0);
		EXPECT_EQ(v.vl_arbitration.weights[1], block * 10);
	}
	EXPECT(a->low.weights[1] == 10 && a->low.weights[33] == 20);
	EXPECT(a->high.weights[1] == 30 && a->high.weights[33] == 40);
	EXPECT(a->high_lanes == 1 << 2 && a->low_lanes == 1 << 2);
	EXPECT(b->nodes[1].ports[2].changes & FABRIC_CHANGE_LANES);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_VL_ARBITRATION, 5 << 16 | 2), &v),
		  SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_VL_ARBITRATION, 2), &v), SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_PORT_INFO, 2), &v), 0);
	v.port_info.high_limit = 7;
	v.port_info.state = v.port_info.phys_state = 0;
	EXPECT_EQ(node_bed_set(b, at_switch(SM_PORT_INFO, 2), &v), 0);
	EXPECT_EQ(a->high_limit, 7);
	node_bed_close(b);
}

TEST(test_fab_22f_a_port_has_several_gids_of_which_the_first_is_fixed)
{
	struct node_bed *b = node_bed_star();
	union sm_value v;

	EXPECT_EQ(node_bed_get(b, at_far(SM_GUID_INFO, 0), &v), 0);
	EXPECT(v.guid_info.guids[0] == 0x1201 && v.guid_info.guids[1] == 0);
	v.guid_info.guids[0] = v.guid_info.guids[1] = 77;
	EXPECT_EQ(node_bed_set(b, at_far(SM_GUID_INFO, 0), &v), 0);
	EXPECT(v.guid_info.guids[0] == 0x1201 && v.guid_info.guids[1] == 77);
	EXPECT(b->nodes[2].ports[1].changes & FABRIC_CHANGE_ADDRESS);
	EXPECT_EQ(node_bed_get(b, at_far(SM_GUID_INFO, 1), &v), SMP_STATUS_INVALID_VALUE);
	node_bed_close(b);
}

TEST(test_fab_22f_p_keys_are_those_of_a_port)
{
	struct node_bed *b = node_bed_star();
	union sm_value v;

	EXPECT_EQ(node_bed_get(b, at_far(SM_PKEY_TABLE, 0), &v), 0);
	EXPECT(v.pkey_table.pkeys[0] == IBA_PKEY_DEFAULT && v.pkey_table.pkeys[1] == 0);
	v.pkey_table.pkeys[1] = 0x8005;
	EXPECT_EQ(node_bed_set(b, at_far(SM_PKEY_TABLE, 0), &v), 0);
	EXPECT_EQ(b->nodes[2].ports[1].pkeys[1], 0x8005);
	EXPECT(b->nodes[2].ports[1].changes & FABRIC_CHANGE_PKEYS);
	EXPECT_EQ(node_bed_get(b, at_far(SM_PKEY_TABLE, 1), &v), SMP_STATUS_INVALID_VALUE);
	EXPECT_EQ(node_bed_get(b, at_switch(SM_PKEY_TABLE, 9 << 16), &v), SMP_STATUS_INVALID_VALUE);
	node_bed_close(b);
}

/* ---- PortInfo ------------------------------------------------------------------------------- */

TEST(test_iba_14_2_5_6_values_that_no_port_may_have_change_nothing)
{
	struct node_bed *b = node_bed_star();
	const struct sm_port_info *info = &b->nodes[2].ports[1].info;
	union sm_value good, v;

	node_bed_manage(b);
	EXPECT_EQ(node_bed_get(b, at_far(SM_PORT_INFO, 0), &good), 0);
	good.port_info.state = good.port_info.phys_state = 0;
	for (int i = 0; i < 9; i++) {
		v = good;
		v.port_info.sm_lid = 9; /* would change, were the rest good */
		if (i == 0)
			v.port_info.lid = IBA_LID_MULTICAST_MIN;
		else if (i == 1)
			v.port_info.lmc = 1; /* the LID is 3 */
		else if (i == 2)
			v.port_info.width_enabled = 8;
		else if (i == 3)
			v.port_info.speed_enabled = 2;
		else if (i == 4)
			v.port_info.lanes = 4;
		else if (i == 5)
			v.port_info.down_default = 3;
		else if (i == 6)
			v.port_info.phys_state = SM_PHYS_LINK_UP;
		else if (i == 7)
			v.port_info.state = SM_PORT_INIT;
		else
			v.port_info.sm_lid = IBA_LID_PERMISSIVE;
		EXPECT_EQ(node_bed_set(b, at_far(SM_PORT_INFO, 0), &v), SMP_STATUS_INVALID_VALUE);
		EXPECT(info->sm_lid == 1 && info->lid == 3 && info->lmc == 0);
	}
	v = good;
	v.port_info.width_enabled = 255;
	v.port_info.speed_enabled = 15;
	v.port_info.client_reregister = 1;
	EXPECT_EQ(node_bed_set(b, at_far(SM_PORT_INFO, 0), &v), 0);
	EXPECT(info->width_enabled == 3 && info->speed_enabled == 1);
	EXPECT(b->nodes[2].ports[1].changes & FABRIC_CHANGE_REREGISTER);
	node_bed_close(b);
}

static void state_at_switch(struct node_bed *b, uint8_t state, uint8_t phys_state)
{
	union sm_value v;

	REQUIRE(node_bed_get(b, at_switch(SM_PORT_INFO, 2), &v) == 0);
	v.port_info.state = state;
	v.port_info.phys_state = phys_state;
	REQUIRE(node_bed_set(b, at_switch(SM_PORT_INFO, 2), &v) == 0);
	node_bed_settle(b);
}

/* As ibportstate disables, enables and resets a port. */
TEST(test_iba_7_2_7_a_port_is_disabled_and_enabled)
{
	struct node_bed *b = node_bed_star();
	const struct sm_port_info *here = &b->nodes[1].ports[2].info;
	const struct sm_port_info *there = &b->nodes[2].ports[1].info;

	node_bed_manage(b);
	state_at_switch(b, SM_PORT_DOWN, SM_PHYS_DISABLED);
	EXPECT(here->state == SM_PORT_DOWN && here->phys_state == SM_PHYS_DISABLED);
	EXPECT(there->state == SM_PORT_DOWN && there->phys_state == SM_PHYS_POLLING);
	EXPECT(!b->nodes[1].ports[2].wants_link && b->nodes[2].ports[1].wants_link);
	state_at_switch(b, SM_PORT_DOWN, SM_PHYS_POLLING);
	EXPECT(here->state == SM_PORT_INIT && here->phys_state == SM_PHYS_LINK_UP);
	EXPECT(there->state == SM_PORT_INIT && there->lid == 3);
	state_at_switch(b, SM_PORT_DOWN, SM_PHYS_NO_CHANGE); /* trains again at once */
	EXPECT(here->state == SM_PORT_INIT && b->nodes[1].ports[2].counts.link_downed == 2);
	node_bed_close(b);
}

TEST(test_iba_7_2_7_a_frame_of_data_makes_an_armed_port_active)
{
	struct node_bed *b = node_bed_star();
	struct fabric_node_port *p = &b->nodes[1].ports[1];
	uint8_t bytes[IBA_FRAME_MAX];
	uint32_t length = node_bed_data(bytes, 1, 3, 64);

	node_bed_manage(b);
	p->info.state = SM_PORT_INIT;
	node_bed_post(b, 0, 1, bytes, length);
	EXPECT(b->came_count == 0 && p->counts.inactive == 1);
	p->info.state = SM_PORT_ARMED;
	p->changes = 0;
	node_bed_post(b, 0, 1, bytes, length);
	EXPECT(b->came_count == 1 && p->info.state == SM_PORT_ACTIVE);
	EXPECT_EQ(p->changes, FABRIC_CHANGE_STATE);
	node_bed_close(b);
}

TEST(test_iba_7_2_6_a_link_has_the_width_and_speed_that_both_ends_have)
{
	struct fabric_node_cfg cfg = { .type = SM_NODE_CA,
				       .ports = 1,
				       .guid = 1,
				       .lanes = 2,
				       .widths = 1 | 2,
				       .speeds = 1 | 2 | 4,
				       .mtu = 4 };
	struct fabric_node a, c;
	const struct sm_port_info *info;

	EXPECT_EQ(fabric_node_init(&a, &cfg), 0);
	cfg.widths = 1;
	cfg.speeds = 1 | 2;
	cfg.lanes = 4;
	cfg.mtu = 5;
	EXPECT_EQ(fabric_node_init(&c, &cfg), 0);
	info = &a.ports[1].info; /* without a cable: the best that it could have */
	EXPECT(info->width_active == 2 && info->speed_active == 4);
	EXPECT(fabric_node_join(&a, 1, &c, 1, 0));
	info = &c.ports[1].info;
	EXPECT(info->width_active == 1 && info->speed_active == 2);
	EXPECT(info->mtu == 4 && fabric_node_lanes(&c, 1) == 2);
	fabric_node_part(&a, 1, 0);
	fabric_node_part(&c, 1, 0);
	a.ports[1].info.speed_enabled = 4;
	EXPECT(!fabric_node_join(&a, 1, &c, 1, 0));
	EXPECT_EQ(a.ports[1].info.state, SM_PORT_DOWN);
	fabric_node_fini(&a);
	fabric_node_fini(&c);
}
