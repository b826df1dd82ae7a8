/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/sm_attr.h"

enum {
	NODE_TYPE_MAX = SM_NODE_ROUTER,
	STATE_MAX = SM_PORT_ACTIVE,
	PHYS_STATE_MAX = 7,
	MTU_MAX = 5,
	LANE_CAP_MAX = 5,
	SM_STATE_MAX = 3
};

#define DESCRIPTION(member, bit, bits, stride)                                                     \
	MAD_ARRAY(sm_node_description, member, bit, bits, stride)
#define NODE(member, bit, bits) MAD_FIELD(sm_node_info, member, bit, bits)
#define SWITCH(member, bit, bits) MAD_FIELD(sm_switch_info, member, bit, bits)
#define PORT(member, bit, bits) MAD_FIELD(sm_port_info, member, bit, bits)
#define PORT_MAX(member, bit, bits, max) MAD_FIELD_MAX(sm_port_info, member, bit, bits, max)
#define NOTICE(member, bit, bits) MAD_FIELD(sm_notice, member, bit, bits)

static const struct mad_field node_description[] = { DESCRIPTION(text, 0, 8, 8) };

static const struct mad_field node_info[] = {
	NODE(base_version, 0, 8),
	NODE(class_version, 8, 8),
	MAD_FIELD_MAX(sm_node_info, node_type, 16, 8, NODE_TYPE_MAX),
	NODE(ports, 24, 8),
	NODE(system_guid, 32, 64),
	NODE(node_guid, 96, 64),
	NODE(port_guid, 160, 64),
	NODE(pkeys, 224, 16),
	NODE(device, 240, 16),
	NODE(revision, 256, 32),
	NODE(local_port, 288, 8),
	NODE(vendor, 296, 24),
};

static const struct mad_field switch_info[] = {
	SWITCH(linear_cap, 0, 16),
	SWITCH(random_cap, 16, 16),
	SWITCH(multicast_cap, 32, 16),
	SWITCH(linear_top, 48, 16),
	SWITCH(default_port, 64, 8),
	SWITCH(default_multicast_primary, 72, 8),
	SWITCH(default_multicast_other, 80, 8),
	SWITCH(life_time, 88, 5),
	SWITCH(port_state_change, 93, 1),
	SWITCH(sl_to_vl_optimised, 94, 2),
	SWITCH(lids_per_port, 96, 16),
	SWITCH(enforcement_cap, 112, 16),
	SWITCH(enforces_in, 128, 1),
	SWITCH(enforces_out, 129, 1),
	SWITCH(filters_raw_in, 130, 1),
	SWITCH(filters_raw_out, 131, 1),
	SWITCH(enhanced_port_0, 132, 1),
	SWITCH(multicast_top, 144, 16),
};

static const struct mad_field guid_info[] = { MAD_ARRAY(sm_guid_info, guids, 0, 64, 64) };

static const struct mad_field port_info[] = {
	PORT(m_key, 0, 64),
	PORT(subnet_prefix, 64, 64),
	PORT(lid, 128, 16),
	PORT(sm_lid, 144, 16),
	PORT(capabilities, 160, 32),
	PORT(diagnostics, 192, 16),
	PORT(m_key_lease, 208, 16),
	PORT(local_port, 224, 8),
	PORT(width_enabled, 232, 8),
	PORT(width_supported, 240, 8),
	PORT(width_active, 248, 8),
	PORT(speed_supported, 256, 4),
	PORT_MAX(state, 260, 4, STATE_MAX),
	PORT_MAX(phys_state, 264, 4, PHYS_STATE_MAX),
	PORT(down_default, 268, 4),
	PORT(m_key_protection, 272, 2),
	PORT(lmc, 277, 3),
	PORT(speed_active, 280, 4),
	PORT(speed_enabled, 284, 4),
	PORT_MAX(mtu, 288, 4, MTU_MAX),
	PORT(sm_level, 292, 4),
	PORT_MAX(lane_cap, 296, 4, LANE_CAP_MAX),
	PORT(init_type, 300, 4),
	PORT(high_limit, 304, 8),
	PORT(arbitration_high_cap, 312, 8),
	PORT(arbitration_low_cap, 320, 8),
	PORT(init_type_reply, 328, 4),
	PORT_MAX(mtu_cap, 332, 4, MTU_MAX),
	PORT(stall_count, 336, 3),
	PORT(head_of_queue_life, 339, 5),
	PORT_MAX(lanes, 344, 4, LANE_CAP_MAX),
	PORT(enforces_in, 348, 1),
	PORT(enforces_out, 349, 1),
	PORT(filters_raw_in, 350, 1),
	PORT(filters_raw_out, 351, 1),
	PORT(m_key_violations, 352, 16),
	PORT(p_key_violations, 368, 16),
	PORT(q_key_violations, 384, 16),
	PORT(guid_cap, 400, 8),
	PORT(client_reregister, 408, 1),
	PORT(multicast_trap_off, 409, 2),
	PORT(subnet_timeout, 411, 5),
	PORT(response_time, 419, 5),
	PORT(local_errors, 424, 4),
	PORT(overrun_errors, 428, 4),
	PORT(credit_hint, 432, 16),
	PORT(round_trip, 456, 24),
	PORT(capabilities_2, 480, 16),
	PORT(extended_active, 496, 4),
	PORT(extended_supported, 500, 4),
	PORT(extended_enabled, 507, 5),
};

static const struct mad_field pkey_table[] = { MAD_ARRAY(sm_pkey_table, pkeys, 0, 16, 16) };

static const struct mad_field sl_to_vl[] = { MAD_ARRAY(sm_sl_to_vl, lanes, 0, 4, 4) };

static const struct mad_field vl_arbitration[] = {
	MAD_ARRAY(sm_vl_arbitration, lanes, 4, 4, 16),
	MAD_ARRAY(sm_vl_arbitration, weights, 8, 8, 16),
};

static const struct mad_field linear_table[] = { MAD_ARRAY(sm_linear_table, ports, 0, 8, 8) };

static const struct mad_field multicast_table[] = {
	MAD_ARRAY(sm_multicast_table, masks, 0, 16, 16),
};

static const struct mad_field sm_info[] = {
	MAD_FIELD(sm_sm_info, guid, 0, 64),
	MAD_FIELD(sm_sm_info, sm_key, 64, 64),
	MAD_FIELD(sm_sm_info, activity, 128, 32),
	MAD_FIELD(sm_sm_info, priority, 160, 4),
	MAD_FIELD_MAX(sm_sm_info, state, 164, 4, SM_STATE_MAX),
};

static const struct mad_field notice[] = {
	NOTICE(is_generic, 0, 1), NOTICE(type, 1, 7),
	NOTICE(producer, 8, 24),  NOTICE(trap, 32, 16),
	NOTICE(issuer, 48, 16),	  NOTICE(toggle, 64, 1),
	NOTICE(count, 65, 15),	  MAD_ARRAY(sm_notice, details, 80, 8, 8),
};

static const struct mad_layout layouts[] = {
	MAD_LAYOUT("Notice", SM_NOTICE, 64, notice),
	MAD_LAYOUT("NodeDescription", SM_NODE_DESCRIPTION, 64, node_description),
	MAD_LAYOUT("NodeInfo", SM_NODE_INFO, 40, node_info),
	MAD_LAYOUT("SwitchInfo", SM_SWITCH_INFO, 20, switch_info),
	MAD_LAYOUT("GUIDInfo", SM_GUID_INFO, 64, guid_info),
	MAD_LAYOUT("PortInfo", SM_PORT_INFO, 64, port_info),
	MAD_LAYOUT("P_KeyTable", SM_PKEY_TABLE, 64, pkey_table),
	MAD_LAYOUT("SLtoVLMappingTable", SM_SL_TO_VL, 8, sl_to_vl),
	MAD_LAYOUT("VLArbitrationTable", SM_VL_ARBITRATION, 64, vl_arbitration),
	MAD_LAYOUT("LinearForwardingTable", SM_LINEAR_TABLE, 64, linear_table),
	MAD_LAYOUT("MulticastForwardingTable", SM_MULTICAST_TABLE, 64, multicast_table),
	MAD_LAYOUT("SMInfo", SM_SM_INFO, 21, sm_info),
};

const struct mad_layout *sm_layout(uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].attribute == attribute)
			return &layouts[i];
	return NULL;
}

void sm_attribute_put(struct wr *w, uint16_t attribute, const void *from)
{
	uint8_t bytes[SM_ATTRIBUTE_BYTES] = { 0 };

	mad_layout_encode(sm_layout(attribute), from, bytes);
	wr_bytes(w, bytes, sizeof(bytes));
}

bool sm_attribute_get(struct rd *r, uint16_t attribute, void *into)
{
	uint8_t bytes[SM_ATTRIBUTE_BYTES];

	rd_bytes(r, bytes, sizeof(bytes));
	return mad_layout_decode(sm_layout(attribute), into, bytes) == WEFT_OK;
}
