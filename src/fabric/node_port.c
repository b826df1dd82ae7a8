/* SPDX-License-Identifier: BSD-2-Clause */
/* PortInfo (IBA 14.2.5.6): what a port is, and what a subnet manager sets of it. */
#include "fabric/node_inside.h"

enum {
	CAN_TRAP = 1 << 3,
	CAN_MIGRATE = 1 << 5,
	CAN_MAP_LEVELS = 1 << 6,
	CAN_SYSTEM_GUID = 1 << 11,
	CAN_PKEY_TRAP = 1 << 12, /* of ports of a switch */
	CAN_CAPABILITIES_2 = 1 << 15,
	CAN_CM = 1 << 16,
	CAN_NOTICE_CAPABILITIES = 1 << 22,
	CAN_REREGISTER = 1 << 25,
	CAN_NOTICE_OTHER = 1 << 26,
	CAN_MULTICAST_TOP = 1 << 30,
	CAN_2_SET_DESCRIPTION = 1 << 0,
	WIDTH_ALL = 255, /* that are supported */
	SPEED_ALL = 15,
	RESPONSE_TIME = 16, /* 4.096 us times 2^16 */
	SUBNET_TIMEOUT = 18,
	LOCAL_ERRORS = 8,
	HEAD_OF_QUEUE_LIFE = 16,
	STALL_COUNT = 7
};

/* ---- At the beginning ----------------------------------------------------------------------- */

static uint8_t lanes_code(uint32_t lanes)
{
	uint8_t code = 1;

	while (code < 5 && (1U << code) / 2 < lanes)
		code++;
	return code;
}

static uint32_t capabilities(const struct fabric_node *n)
{
	uint32_t can = CAN_TRAP | CAN_MAP_LEVELS | CAN_SYSTEM_GUID | CAN_CAPABILITIES_2 |
		       CAN_NOTICE_CAPABILITIES | CAN_NOTICE_OTHER | CAN_REREGISTER;

	return can | (node_is_switch(n) ? CAN_PKEY_TRAP | CAN_MULTICAST_TOP : CAN_MIGRATE | CAN_CM);
}

/* A link that is down has the width and speed that it may have: programs know no width of 0. */
void node_port_init(struct fabric_node *n, uint32_t port)
{
	struct fabric_node_port *p = &n->ports[port];
	bool is_inner = port == 0;
	uint8_t lanes = lanes_code(n->cfg.lanes);

	p->info = (struct sm_port_info){
		.subnet_prefix = UINT64_C(0xfe80000000000000),
		.width_enabled = n->cfg.widths,
		.width_supported = n->cfg.widths,
		.width_active = is_inner ? n->cfg.widths & -n->cfg.widths
					 : node_highest(n->cfg.widths),
		.speed_supported = n->cfg.speeds,
		.speed_active = is_inner ? n->cfg.speeds & -n->cfg.speeds
					 : node_highest(n->cfg.speeds),
		.speed_enabled = n->cfg.speeds,
		.state = is_inner ? SM_PORT_ACTIVE : SM_PORT_DOWN,
		.phys_state = is_inner ? SM_PHYS_LINK_UP : SM_PHYS_POLLING,
		.down_default = SM_PHYS_POLLING,
		.mtu = n->cfg.mtu,
		.mtu_cap = n->cfg.mtu,
		.lane_cap = lanes,
		.lanes = lanes,
		.arbitration_high_cap = FABRIC_ARBITER_ENTRIES,
		.arbitration_low_cap = FABRIC_ARBITER_ENTRIES,
		.stall_count = STALL_COUNT,
		.head_of_queue_life = HEAD_OF_QUEUE_LIFE,
		.subnet_timeout = SUBNET_TIMEOUT,
		.response_time = RESPONSE_TIME,
		.local_errors = LOCAL_ERRORS,
		.overrun_errors = LOCAL_ERRORS,
	};
	p->wants_link = !is_inner;
	p->pkeys[0] = IBA_PKEY_DEFAULT;
	p->lease_ns = UINT64_MAX;
	fabric_arbiter_init(&p->arbiter);
	p->arbiter.high_limit = 0;
	if (node_endport(n, port) != port)
		return;
	p->info.capabilities = capabilities(n);
	p->info.capabilities_2 = CAN_2_SET_DESCRIPTION;
	p->info.guid_cap = FABRIC_GUIDS;
	p->guids[0] = n->cfg.guid + port;
}

/* ---- What may be set ------------------------------------------------------------------------ */

static bool is_some_of(uint8_t bits, uint8_t of, uint8_t all)
{
	return bits == all || (bits & ~of) == 0;
}

static bool is_unicast(uint16_t lid)
{
	return lid < IBA_LID_MULTICAST_MIN;
}

/* IBA 7.2.7: to be armed it must be in Init, to be active it must be armed. */
static bool is_move_good(const struct sm_port_info *now, const struct sm_port_info *to)
{
	switch (to->state) {
	case SM_PORT_NO_CHANGE:
		return to->phys_state == SM_PHYS_NO_CHANGE || now->state == SM_PORT_DOWN;
	case SM_PORT_DOWN:
		return true;
	case SM_PORT_ARMED:
		return to->phys_state == SM_PHYS_NO_CHANGE &&
		       (now->state == SM_PORT_INIT || now->state == SM_PORT_ARMED);
	case SM_PORT_ACTIVE:
		return to->phys_state == SM_PHYS_NO_CHANGE &&
		       (now->state == SM_PORT_ARMED || now->state == SM_PORT_ACTIVE);
	default:
		return false;
	}
}

static bool is_link_good(const struct sm_port_info *now, const struct sm_port_info *to)
{
	return is_move_good(now, to) && to->phys_state <= SM_PHYS_DISABLED &&
	       to->down_default <= SM_PHYS_POLLING &&
	       is_some_of(to->width_enabled, now->width_supported, WIDTH_ALL) &&
	       is_some_of(to->speed_enabled, now->speed_supported, SPEED_ALL) &&
	       to->mtu <= now->mtu_cap && to->lanes <= now->lane_cap;
}

/* The lowest bits of a base LID, which its LMC leaves open, are 0. */
static bool is_address_good(const struct fabric_node *n, const struct sm_port_info *to)
{
	return is_unicast(to->lid) && is_unicast(to->sm_lid) &&
	       (to->lid & ((1U << to->lmc) - 1)) == 0 && (!node_is_switch(n) || to->lmc == 0);
}

/* ---- Setting -------------------------------------------------------------------------------- */

static bool differs_in_address(const struct sm_port_info *a, const struct sm_port_info *b)
{
	return a->lid != b->lid || a->lmc != b->lmc || a->subnet_prefix != b->subnet_prefix ||
	       a->sm_lid != b->sm_lid || a->sm_level != b->sm_level ||
	       a->subnet_timeout != b->subnet_timeout;
}

/* Of a CA's or router's port, or of port 0 of a switch. A count is only ever set to 0. */
static uint32_t address_set(struct fabric_node_port *p, const struct sm_port_info *to)
{
	struct sm_port_info was = p->info;
	struct sm_port_info *info = &p->info;

	info->m_key = to->m_key;
	info->m_key_lease = to->m_key_lease;
	info->m_key_protection = to->m_key_protection;
	info->subnet_prefix = to->subnet_prefix;
	info->lid = to->lid;
	info->lmc = to->lmc;
	info->sm_lid = to->sm_lid;
	info->sm_level = to->sm_level;
	info->subnet_timeout = to->subnet_timeout;
	info->multicast_trap_off = to->multicast_trap_off;
	if (to->m_key_violations == 0)
		info->m_key_violations = 0;
	if (to->q_key_violations == 0)
		info->q_key_violations = 0;
	p->lease_ns = UINT64_MAX;
	return (differs_in_address(&was, info) ? FABRIC_CHANGE_ADDRESS : 0) |
	       (to->client_reregister ? FABRIC_CHANGE_REREGISTER : 0);
}

/* Of any port that has a link. */
static uint32_t link_set(struct fabric_node_port *p, const struct sm_port_info *to, bool is_switch)
{
	struct sm_port_info *info = &p->info;
	uint8_t lanes = to->lanes ? to->lanes : info->lanes;
	bool is_lanes = lanes != info->lanes || to->high_limit != info->high_limit;

	if (to->width_enabled)
		info->width_enabled = to->width_enabled == WIDTH_ALL ? info->width_supported
								     : to->width_enabled;
	if (to->speed_enabled)
		info->speed_enabled = to->speed_enabled == SPEED_ALL ? info->speed_supported
								     : to->speed_enabled;
	info->down_default = to->down_default ? to->down_default : info->down_default;
	info->mtu = to->mtu ? to->mtu : info->mtu;
	info->lanes = lanes;
	info->high_limit = p->arbiter.high_limit = to->high_limit;
	info->stall_count = to->stall_count;
	info->head_of_queue_life = to->head_of_queue_life;
	info->local_errors = to->local_errors;
	info->overrun_errors = to->overrun_errors;
	if (to->p_key_violations == 0)
		info->p_key_violations = 0;
	if (is_switch) {
		info->enforces_in = to->enforces_in;
		info->enforces_out = to->enforces_out;
		info->filters_raw_in = to->filters_raw_in;
		info->filters_raw_out = to->filters_raw_out;
	}
	return is_lanes ? FABRIC_CHANGE_LANES : 0;
}

/* Down: it trains again at once, unless it is to sleep or is disabled. */
static uint32_t down_set(struct fabric_node_port *p, uint8_t phys_state)
{
	uint8_t phys = phys_state ? phys_state : p->info.down_default;
	bool was_down = p->info.state == SM_PORT_DOWN;

	if (was_down && phys_state == SM_PHYS_NO_CHANGE)
		return 0;
	p->info.state = SM_PORT_DOWN;
	p->info.phys_state = phys;
	p->wants_link = phys == SM_PHYS_POLLING;
	return FABRIC_CHANGE_LINK | (was_down ? 0 : FABRIC_CHANGE_STATE);
}

static uint32_t state_set(struct fabric_node_port *p, const struct sm_port_info *to)
{
	if (to->state == SM_PORT_DOWN || to->phys_state != SM_PHYS_NO_CHANGE)
		return down_set(p, to->phys_state);
	if (to->state == SM_PORT_NO_CHANGE || to->state == p->info.state)
		return 0;
	p->info.state = to->state;
	return FABRIC_CHANGE_STATE;
}

bool node_port_set(struct fabric_node *n, uint32_t port, const struct sm_port_info *to)
{
	struct fabric_node_port *p = &n->ports[port];
	bool is_endport = node_endport(n, port) == port;
	uint32_t changes = 0;

	if (port > 0 && !is_link_good(&p->info, to))
		return false;
	if (is_endport && !is_address_good(n, to))
		return false;
	if (is_endport)
		changes |= address_set(p, to);
	if (port > 0) {
		changes |= link_set(p, to, node_is_switch(n));
		changes |= state_set(p, to);
	}
	node_change(n, port, changes);
	return true;
}
