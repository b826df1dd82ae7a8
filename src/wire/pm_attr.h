/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attributes of performance management (IBA 16.1): the counters of a port. As sm_attr.h.
 */
#pragma once

#include <stdint.h>

#include "wire/mad_layout.h"

enum {
	PM_CLASS_VERSION = 1,
	PM_DATA_AT = 64 /* in the MAD; before it 40 reserved bytes */
};

enum pm_attribute {
	PM_CLASS_PORT_INFO = 0x0001,
	PM_PORT_COUNTERS = 0x0012,
	PM_PORT_COUNTERS_EXTENDED = 0x001d
};

enum { PM_GID_BYTES = 16 };

/* Where to ask instead, and where to send traps: both unused here. */
struct pm_class_port_info {
	uint8_t base_version, class_version;
	uint16_t capabilities;
	uint32_t capabilities_2;
	uint8_t response_time;
	uint8_t redirect_gid[PM_GID_BYTES], redirect_class, redirect_level;
	uint32_t redirect_flow;
	uint16_t redirect_lid, redirect_pkey;
	uint32_t redirect_qp, redirect_qkey;
	uint8_t trap_gid[PM_GID_BYTES], trap_class, trap_level;
	uint32_t trap_flow;
	uint16_t trap_lid, trap_pkey;
	uint8_t trap_hop_limit;
	uint32_t trap_qp, trap_qkey;
};

/* They stay at their greatest value. Data counts words of 4 bytes. */
struct pm_port_counters {
	uint8_t port;
	uint16_t select; /* a bit for each that a Set writes, from symbol_errors on */
	uint16_t symbol_errors;
	uint8_t link_recoveries, link_downed;
	uint16_t receive_errors, remote_errors, relay_errors, transmit_discards;
	uint8_t transmit_constraint_errors, receive_constraint_errors;
	uint8_t select_2;
	uint8_t integrity_errors, overrun_errors;
	uint16_t qp1_dropped, vl15_dropped;
	uint32_t transmit_data, receive_data, transmit_packets, receive_packets, transmit_wait;
};

struct pm_port_counters_extended {
	uint8_t port;
	uint16_t select;
	uint32_t select_2;
	uint64_t transmit_data, receive_data, transmit_packets, receive_packets;
	uint64_t unicast_transmit, unicast_receive, multicast_transmit, multicast_receive;
	uint64_t symbol_errors, link_recoveries, link_downed;
	uint64_t receive_errors, remote_errors, relay_errors, transmit_discards;
	uint64_t transmit_constraint_errors, receive_constraint_errors;
	uint64_t integrity_errors, overrun_errors, vl15_dropped, transmit_wait, qp1_dropped;
};

union pm_value {
	struct pm_class_port_info class_port_info;
	struct pm_port_counters port_counters;
	struct pm_port_counters_extended port_counters_extended;
};

/* Its struct is the member of union pm_value of that name. NULL: not one of these. */
const struct mad_layout *pm_layout(uint16_t attribute);
