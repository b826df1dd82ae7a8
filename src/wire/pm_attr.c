/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/pm_attr.h"

#define CLASS(member, bit, bits) MAD_FIELD(pm_class_port_info, member, bit, bits)
#define COUNT(member, bit, bits) MAD_FIELD(pm_port_counters, member, bit, bits)
#define EXTENDED(member, bit, bits) MAD_FIELD(pm_port_counters_extended, member, bit, bits)

static const struct mad_field class_port_info[] = {
	CLASS(base_version, 0, 8),     CLASS(class_version, 8, 8),
	CLASS(capabilities, 16, 16),   CLASS(capabilities_2, 32, 27),
	CLASS(response_time, 59, 5),   MAD_ARRAY(pm_class_port_info, redirect_gid, 64, 8, 8),
	CLASS(redirect_class, 192, 8), CLASS(redirect_level, 200, 4),
	CLASS(redirect_flow, 204, 20), CLASS(redirect_lid, 224, 16),
	CLASS(redirect_pkey, 240, 16), CLASS(redirect_qp, 264, 24),
	CLASS(redirect_qkey, 288, 32), MAD_ARRAY(pm_class_port_info, trap_gid, 320, 8, 8),
	CLASS(trap_class, 448, 8),     CLASS(trap_level, 456, 4),
	CLASS(trap_flow, 460, 20),     CLASS(trap_lid, 480, 16),
	CLASS(trap_pkey, 496, 16),     CLASS(trap_hop_limit, 512, 8),
	CLASS(trap_qp, 520, 24),       CLASS(trap_qkey, 544, 32),
};

static const struct mad_field port_counters[] = {
	COUNT(port, 8, 8),
	COUNT(select, 16, 16),
	COUNT(symbol_errors, 32, 16),
	COUNT(link_recoveries, 48, 8),
	COUNT(link_downed, 56, 8),
	COUNT(receive_errors, 64, 16),
	COUNT(remote_errors, 80, 16),
	COUNT(relay_errors, 96, 16),
	COUNT(transmit_discards, 112, 16),
	COUNT(transmit_constraint_errors, 128, 8),
	COUNT(receive_constraint_errors, 136, 8),
	COUNT(select_2, 144, 8),
	COUNT(integrity_errors, 152, 4),
	COUNT(overrun_errors, 156, 4),
	COUNT(qp1_dropped, 160, 16),
	COUNT(vl15_dropped, 176, 16),
	COUNT(transmit_data, 192, 32),
	COUNT(receive_data, 224, 32),
	COUNT(transmit_packets, 256, 32),
	COUNT(receive_packets, 288, 32),
	COUNT(transmit_wait, 320, 32),
};

static const struct mad_field port_counters_extended[] = {
	EXTENDED(port, 8, 8),
	EXTENDED(select, 16, 16),
	EXTENDED(select_2, 32, 32),
	EXTENDED(transmit_data, 64, 64),
	EXTENDED(receive_data, 128, 64),
	EXTENDED(transmit_packets, 192, 64),
	EXTENDED(receive_packets, 256, 64),
	EXTENDED(unicast_transmit, 320, 64),
	EXTENDED(unicast_receive, 384, 64),
	EXTENDED(multicast_transmit, 448, 64),
	EXTENDED(multicast_receive, 512, 64),
	EXTENDED(symbol_errors, 576, 64),
	EXTENDED(link_recoveries, 640, 64),
	EXTENDED(link_downed, 704, 64),
	EXTENDED(receive_errors, 768, 64),
	EXTENDED(remote_errors, 832, 64),
	EXTENDED(relay_errors, 896, 64),
	EXTENDED(transmit_discards, 960, 64),
	EXTENDED(transmit_constraint_errors, 1024, 64),
	EXTENDED(receive_constraint_errors, 1088, 64),
	EXTENDED(integrity_errors, 1152, 64),
	EXTENDED(overrun_errors, 1216, 64),
	EXTENDED(vl15_dropped, 1280, 64),
	EXTENDED(transmit_wait, 1344, 64),
	EXTENDED(qp1_dropped, 1408, 64),
};

static const struct mad_layout layouts[] = {
	MAD_LAYOUT("ClassPortInfo", PM_CLASS_PORT_INFO, 72, class_port_info),
	MAD_LAYOUT("PortCounters", PM_PORT_COUNTERS, 44, port_counters),
	MAD_LAYOUT("PortCountersExtended", PM_PORT_COUNTERS_EXTENDED, 184, port_counters_extended),
};

const struct mad_layout *pm_layout(uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].attribute == attribute)
			return &layouts[i];
	return NULL;
}
