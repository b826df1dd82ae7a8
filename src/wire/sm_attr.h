/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes of subnet management (IBA 14.2.5): what a subnet manager gets from a node and sets
 * there. Structs in host order; tables of mad_layout.h say where each member is on the wire.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "wire/mad_layout.h"

enum sm_attribute {
	SM_NOTICE = 0x0002,
	SM_NODE_DESCRIPTION = 0x0010,
	SM_NODE_INFO = 0x0011,
	SM_SWITCH_INFO = 0x0012,
	SM_GUID_INFO = 0x0014,
	SM_PORT_INFO = 0x0015,
	SM_PKEY_TABLE = 0x0016,
	SM_SL_TO_VL = 0x0017,
	SM_VL_ARBITRATION = 0x0018,
	SM_LINEAR_TABLE = 0x0019,
	SM_MULTICAST_TABLE = 0x001b,
	SM_SM_INFO = 0x0020
};

/* What fits into one packet; the attribute's modifier says which. */
enum {
	SM_ATTRIBUTE_BYTES = 64,
	SM_DESCRIPTION_BYTES = 64,
	SM_GUIDS = 8,
	SM_PKEYS = 32,
	SM_LEVELS = 16,
	SM_ARBITRATION_PAIRS = 32,
	SM_LINEAR_PORTS = 64,
	SM_MULTICAST_MASKS = 32, /* of 16 ports each */
	SM_NOTICE_DETAILS = 54
};

enum sm_node_type { SM_NODE_CA = 1, SM_NODE_SWITCH = 2, SM_NODE_ROUTER = 3 };

enum sm_port_state {
	SM_PORT_NO_CHANGE = 0,
	SM_PORT_DOWN = 1,
	SM_PORT_INIT = 2,
	SM_PORT_ARMED = 3,
	SM_PORT_ACTIVE = 4
};

enum sm_phys_state {
	SM_PHYS_NO_CHANGE = 0,
	SM_PHYS_SLEEP = 1,
	SM_PHYS_POLLING = 2,
	SM_PHYS_DISABLED = 3,
	SM_PHYS_TRAINING = 4,
	SM_PHYS_LINK_UP = 5,
	SM_PHYS_RECOVERY = 6
};

struct sm_node_description {
	uint8_t text[SM_DESCRIPTION_BYTES]; /* zeros behind it */
};

struct sm_node_info {
	uint8_t base_version, class_version;
	uint8_t node_type; /* enum sm_node_type */
	uint8_t ports;	   /* without port 0 */
	uint64_t system_guid, node_guid, port_guid;
	uint16_t pkeys; /* that the table has room for */
	uint16_t device;
	uint32_t revision;
	uint8_t local_port; /* by which the request came */
	uint32_t vendor;
};

struct sm_switch_info {
	uint16_t linear_cap, random_cap, multicast_cap;
	uint16_t linear_top; /* the highest LID that is looked up */
	uint8_t default_port, default_multicast_primary, default_multicast_other;
	uint8_t life_time;
	uint8_t port_state_change;
	uint8_t sl_to_vl_optimised;
	uint16_t lids_per_port, enforcement_cap;
	uint8_t enforces_in, enforces_out, filters_raw_in, filters_raw_out;
	uint8_t enhanced_port_0;
	uint16_t multicast_top;
};

struct sm_guid_info {
	uint64_t guids[SM_GUIDS];
};

struct sm_port_info {
	uint64_t m_key, subnet_prefix;
	uint16_t lid, sm_lid;
	uint32_t capabilities;
	uint16_t diagnostics, m_key_lease;
	uint8_t local_port;
	uint8_t width_enabled, width_supported, width_active;
	uint8_t speed_supported;
	uint8_t state;	    /* enum sm_port_state */
	uint8_t phys_state; /* enum sm_phys_state */
	uint8_t down_default;
	uint8_t m_key_protection, lmc;
	uint8_t speed_active, speed_enabled;
	uint8_t mtu, sm_level; /* MTUs: 1 is 256, 5 is 4096 */
	uint8_t lane_cap, init_type;
	uint8_t high_limit, arbitration_high_cap, arbitration_low_cap;
	uint8_t init_type_reply, mtu_cap;
	uint8_t stall_count, head_of_queue_life;
	uint8_t lanes; /* in use: 1 is lane 0, 5 is lanes 0 to 14 */
	uint8_t enforces_in, enforces_out, filters_raw_in, filters_raw_out;
	uint16_t m_key_violations, p_key_violations, q_key_violations;
	uint8_t guid_cap;
	uint8_t client_reregister, multicast_trap_off, subnet_timeout;
	uint8_t response_time;
	uint8_t local_errors, overrun_errors;
	uint16_t credit_hint;
	uint32_t round_trip;
	uint16_t capabilities_2;
	uint8_t extended_active, extended_supported, extended_enabled;
};

struct sm_pkey_table {
	uint16_t pkeys[SM_PKEYS];
};

struct sm_sl_to_vl {
	uint8_t lanes[SM_LEVELS];
};

struct sm_vl_arbitration {
	uint8_t lanes[SM_ARBITRATION_PAIRS], weights[SM_ARBITRATION_PAIRS];
};

struct sm_linear_table {
	uint8_t ports[SM_LINEAR_PORTS];
};

struct sm_multicast_table {
	uint16_t masks[SM_MULTICAST_MASKS];
};

struct sm_sm_info {
	uint64_t guid, sm_key;
	uint32_t activity;
	uint8_t priority, state;
};

struct sm_notice {
	uint8_t is_generic, type;
	uint32_t producer;
	uint16_t trap, issuer;
	uint8_t toggle;
	uint16_t count;
	uint8_t details[SM_NOTICE_DETAILS];
};

union sm_value {
	struct sm_node_description node_description;
	struct sm_node_info node_info;
	struct sm_switch_info switch_info;
	struct sm_guid_info guid_info;
	struct sm_port_info port_info;
	struct sm_pkey_table pkey_table;
	struct sm_sl_to_vl sl_to_vl;
	struct sm_vl_arbitration vl_arbitration;
	struct sm_linear_table linear_table;
	struct sm_multicast_table multicast_table;
	struct sm_sm_info sm_info;
	struct sm_notice notice;
};

/* Its struct is the member of union sm_value of that name. NULL: not one of these. */
const struct mad_layout *sm_layout(uint16_t attribute);

/* One of these in a message of weft's own, as it is in a datagram: SM_ATTRIBUTE_BYTES. */
void sm_attribute_put(struct wr *w, uint16_t attribute, const void *from);
/* False: a member has a value that it may not have. */
bool sm_attribute_get(struct rd *r, uint16_t attribute, void *into);
