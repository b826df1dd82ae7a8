/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/node_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
	LANES_MAX = 15,
	PKEY_NUMBER = 0x7fff, /* without the bit of full members */
	SMP_BYTES = IBA_LRH_BYTES + IBA_BTH_BYTES + 8 + MAD_BYTES + IBA_ICRC_BYTES + IBA_VCRC_BYTES
};

/* ---- Life ----------------------------------------------------------------------------------- */

static struct fabric_node_cfg complete(const struct fabric_node_cfg *cfg)
{
	struct fabric_node_cfg c = *cfg;

	c.mtu = c.mtu ? c.mtu : 5;
	c.widths = c.widths ? c.widths : 1 | 2;
	c.speeds = c.speeds ? c.speeds : 1;
	c.trap_ns = c.trap_ns ? c.trap_ns : UINT64_C(100000000);
	return c;
}

static void switch_init(struct fabric_node *n)
{
	n->switch_info = (struct sm_switch_info){
		.linear_cap = (uint16_t)n->cfg.linear_max,
		.multicast_cap = (uint16_t)n->cfg.multicast_max,
		.enforcement_cap = FABRIC_PKEYS,
		.enforces_in = 1,
		.enforces_out = 1,
		.filters_raw_in = 1,
		.filters_raw_out = 1,
	};
	memset(n->linear, FABRIC_NO_PORT, n->cfg.linear_max);
}

static void *take(const struct fabric_node *n, size_t count, size_t bytes)
{
	return n->cfg.store ? fabric_store_clear(n->cfg.store, count, bytes) : calloc(count, bytes);
}

static bool allocate(struct fabric_node *n)
{
	size_t ports = n->cfg.ports + 1;

	n->ports = take(n, ports, sizeof(*n->ports));
	n->lane_of = take(n, ports * ports, SM_LEVELS);
	if (!n->ports || !n->lane_of || node_traps_init(n) != 0)
		return false;
	if (!node_is_switch(n))
		return true;
	n->linear = take(n, n->cfg.linear_max + 1, 1);
	n->multicast = take(n, n->cfg.multicast_max + 1, sizeof(*n->multicast));
	return n->linear && n->multicast;
}

int fabric_node_init(struct fabric_node *n, const struct fabric_node_cfg *cfg)
{
	size_t length = cfg->description ? strlen(cfg->description) : 0;
	size_t ports = cfg->ports + 1;

	CHECK(cfg->ports > 0 && cfg->ports <= FABRIC_PORTS_MAX);
	CHECK(cfg->lanes > 0 && cfg->lanes <= LANES_MAX);
	CHECK(cfg->linear_max <= IBA_LID_MULTICAST_MIN);
	CHECK(cfg->multicast_max < IBA_LID_PERMISSIVE - IBA_LID_MULTICAST_MIN);
	*n = (struct fabric_node){ .cfg = complete(cfg), .tid = 1 };
	if (!allocate(n)) {
		fabric_node_fini(n);
		return -1;
	}
	if (length > 0)
		memcpy(n->description, cfg->description,
		       length < SM_DESCRIPTION_BYTES ? length : SM_DESCRIPTION_BYTES);
	n->cfg.description = NULL;
	for (size_t i = 0; i < ports * ports * SM_LEVELS; i++)
		n->lane_of[i] = (uint8_t)(i % SM_LEVELS % cfg->lanes);
	for (uint32_t port = 0; port < ports; port++)
		node_port_init(n, port);
	if (node_is_switch(n))
		switch_init(n);
	return 0;
}

void fabric_node_fini(struct fabric_node *n)
{
	if (!n->cfg.store) {
		free(n->ports);
		free(n->lane_of);
		free(n->linear);
		free(n->multicast);
	}
	free(n->traps);
	*n = (struct fabric_node){ .tid = 0 };
}

/* ---- Changes -------------------------------------------------------------------------------- */

void node_change(struct fabric_node *n, uint32_t port, uint32_t changes)
{
	n->stale |= UINT64_C(1) << port;
	n->ports[port].changes |= changes;
	n->changed |= changes ? UINT64_C(1) << port : 0;
}

uint32_t fabric_node_changes(struct fabric_node *n, uint32_t *port)
{
	uint32_t changes;

	if (n->changed == 0)
		return 0;
	*port = (uint32_t)__builtin_ctzll(n->changed);
	changes = n->ports[*port].changes;
	n->ports[*port].changes = 0;
	n->changed &= n->changed - 1;
	return changes;
}

struct fabric_way node_refuse(struct fabric_node *n, enum weft_reason reason)
{
	n->refusals++;
	n->refusal = reason;
	return (struct fabric_way){ .to = FABRIC_TO_NOWHERE };
}

/* ---- Links ---------------------------------------------------------------------------------- */

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void port_up(struct fabric_node *n, uint32_t port, const struct sm_port_info *other)
{
	struct fabric_node_port *p = &n->ports[port];

	p->is_joined = true;
	p->info.state = SM_PORT_INIT;
	p->info.phys_state = SM_PHYS_LINK_UP;
	p->info.width_active = node_highest(p->info.width_enabled & other->width_enabled);
	p->info.speed_active = node_highest(p->info.speed_enabled & other->speed_enabled);
	p->info.mtu = least(p->info.mtu_cap, other->mtu_cap);
	p->info.lanes = least(p->info.lane_cap, other->lane_cap);
	node_change(n, port, FABRIC_CHANGE_STATE | FABRIC_CHANGE_LANES);
	node_trap_link(n);
	node_traps_look(n);
}

bool fabric_node_join(struct fabric_node *a, uint32_t port_a, struct fabric_node *b,
		      uint32_t port_b, uint64_t now_ns)
{
	const struct sm_port_info *of_a = &a->ports[port_a].info, *of_b = &b->ports[port_b].info;

	(void)now_ns;
	CHECK(port_a > 0 && port_a <= a->cfg.ports && port_b > 0 && port_b <= b->cfg.ports);
	if (!a->ports[port_a].wants_link || !b->ports[port_b].wants_link)
		return false;
	if (!(of_a->width_enabled & of_b->width_enabled) ||
	    !(of_a->speed_enabled & of_b->speed_enabled))
		return false;
	port_up(a, port_a, of_b);
	port_up(b, port_b, of_a);
	return true;
}

void fabric_node_part(struct fabric_node *n, uint32_t port, uint64_t now_ns)
{
	struct fabric_node_port *p = &n->ports[port];
	bool was_set_down = p->info.state == SM_PORT_DOWN;

	(void)now_ns;
	CHECK(port > 0 && port <= n->cfg.ports);
	if (!p->is_joined)
		return;
	p->is_joined = false;
	p->info.state = SM_PORT_DOWN;
	if (p->info.phys_state == SM_PHYS_LINK_UP)
		p->info.phys_state = SM_PHYS_POLLING;
	p->counts.link_downed++;
	node_change(n, port, FABRIC_CHANGE_STATE);
	if (!was_set_down)
		node_trap_link(n);
	node_traps_look(n);
}

/* ---- Frames that pass ----------------------------------------------------------------------- */

static bool refuse_in(struct fabric_node *n, uint64_t *count, enum weft_reason reason)
{
	(*count)++;
	(void)node_refuse(n, reason);
	return false;
}

/* QP 0, lane 15, a datagram of 256 bytes without a global header. */
static bool is_management_good(const struct iba_glance *g, uint32_t length)
{
	return g->lrh.lane == IBA_LANE_MANAGEMENT && g->has_bth && g->dest_qp == 0 &&
	       g->lrh.next == IBA_NEXT_BTH && g->opcode == IBA_UD_SEND && length == SMP_BYTES;
}

uint16_t node_pkey_find(const struct fabric_node_port *p, uint16_t p_key)
{
	for (uint32_t i = 0; i < FABRIC_PKEYS; i++)
		if ((p->pkeys[i] & PKEY_NUMBER) != 0 && iba_pkey_match(p->pkeys[i], p_key))
			return p->pkeys[i];
	return 0;
}

/*
 * Where packets of an endnode come in: the table has the keys that the endnode sends with, and that
 * of a limited member is one of these.
 */
static bool is_sender_pkey(const struct fabric_node_port *p, uint16_t p_key)
{
	for (uint32_t i = 0; i < FABRIC_PKEYS; i++)
		if ((p->pkeys[i] & PKEY_NUMBER) != 0 && ((p->pkeys[i] ^ p_key) & PKEY_NUMBER) == 0)
			return true;
	return false;
}

static bool is_raw(const struct iba_glance *g)
{
	return g->lrh.next == IBA_NEXT_RAW || g->lrh.next == IBA_NEXT_IPV6;
}

/* P_Keys and raw packets, at a port of a switch that enforces partitions (IBA 10.9.6). */
static bool may_enter(const struct fabric_node_port *p, const struct iba_glance *g)
{
	if (is_raw(g))
		return !p->info.filters_raw_in;
	return !p->info.enforces_in || is_sender_pkey(p, g->p_key);
}

static bool may_leave(const struct fabric_node_port *p, const struct iba_glance *g)
{
	if (is_raw(g))
		return !p->info.filters_raw_out;
	return !p->info.enforces_out || node_pkey_find(p, g->p_key) != 0;
}

bool fabric_node_would_pass(const struct fabric_node *n, uint32_t port, bool is_out,
			    const struct iba_glance *g)
{
	const struct fabric_node_port *p = &n->ports[port];

	return p->info.state == SM_PORT_ACTIVE && (is_out ? may_leave(p, g) : may_enter(p, g));
}

/* Of raw packets there is no notice. */
static bool refuse_key(struct fabric_node *n, uint32_t port, uint64_t *count, const uint8_t *bytes,
		       uint32_t length)
{
	struct sm_port_info *info = &n->ports[port].info;
	struct iba_glance g;

	if (iba_frame_glance(&g, bytes, length) != WEFT_OK || !g.has_bth)
		return refuse_in(n, count, WEFT_R_NODE_RAW);
	info->p_key_violations += info->p_key_violations < UINT16_MAX;
	node_trap_switch_key(n, port, bytes, length);
	return refuse_in(n, count, WEFT_R_NODE_P_KEY);
}

/* IBA 7.2.7: data that comes makes an Armed port Active. */
bool node_data_in(struct fabric_node *n, uint32_t port, const struct iba_glance *g)
{
	struct fabric_node_port *p = &n->ports[port];

	if (p->info.state != SM_PORT_ARMED && p->info.state != SM_PORT_ACTIVE)
		return refuse_in(n, &p->counts.inactive, WEFT_R_NODE_STATE);
	if (g->lrh.bytes + IBA_VCRC_BYTES > fabric_node_bytes_max(n, port))
		return refuse_in(n, &p->counts.receive_errors, WEFT_R_NODE_LENGTH);
	if (g->lrh.lane >= fabric_node_lanes(n, port))
		return refuse_in(n, &p->counts.receive_errors, WEFT_R_NODE_LANE);
	if (p->info.state == SM_PORT_ARMED) {
		p->info.state = SM_PORT_ACTIVE;
		node_change(n, port, FABRIC_CHANGE_STATE);
	}
	return true;
}

bool node_data_out(struct fabric_node *n, uint32_t port, const struct iba_glance *g)
{
	struct fabric_node_port *p = &n->ports[port];

	if (p->info.state != SM_PORT_ACTIVE)
		return refuse_in(n, &p->counts.transmit_discards, WEFT_R_NODE_STATE);
	if (g->lrh.bytes + IBA_VCRC_BYTES > fabric_node_bytes_max(n, port))
		return refuse_in(n, &p->counts.transmit_discards, WEFT_R_NODE_LENGTH);
	return true;
}

bool fabric_node_lets_in(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			 const uint8_t *bytes, uint32_t length)
{
	struct fabric_node_port *p = &n->ports[port];
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	(void)now_ns;
	if (reason != WEFT_OK)
		return refuse_in(n, &p->counts.receive_errors, reason);
	if (node_is_management(&g))
		return is_management_good(&g, length) ||
		       refuse_in(n, &p->counts.receive_errors, WEFT_R_NODE_MANAGEMENT);
	if (!node_data_in(n, port, &g))
		return false;
	if (!may_enter(p, &g))
		return refuse_key(n, port, &p->counts.receive_constraint_errors, bytes, length);
	return true;
}

bool fabric_node_lets_out(struct fabric_node *n, uint64_t now_ns, uint32_t port,
			  const uint8_t *bytes, uint32_t length)
{
	struct fabric_node_port *p = &n->ports[port];
	struct iba_glance g;
	enum weft_reason reason = iba_frame_glance(&g, bytes, length);

	(void)now_ns;
	if (reason != WEFT_OK)
		return refuse_in(n, &p->counts.transmit_discards, reason);
	if (node_is_management(&g))
		return p->is_joined ||
		       refuse_in(n, &p->counts.transmit_discards, WEFT_R_NODE_STATE);
	if (!node_data_out(n, port, &g))
		return false;
	if (!may_leave(p, &g))
		return refuse_key(n, port, &p->counts.transmit_constraint_errors, bytes, length);
	return true;
}

/* ---- Where to ------------------------------------------------------------------------------- */

/* A switch has its LID before its table says so. */
static uint64_t linear_outputs(const struct fabric_node *n, uint16_t to)
{
	uint8_t port;

	if (to == IBA_LID_PERMISSIVE || node_has_lid(&n->ports[0], to))
		return 1;
	if (to > n->switch_info.linear_top || to >= n->cfg.linear_max)
		return 0;
	port = n->linear[to];
	return port <= n->cfg.ports ? UINT64_C(1) << port : 0;
}

static uint64_t multicast_outputs(const struct fabric_node *n, uint16_t to)
{
	uint32_t group = to - (uint32_t)IBA_LID_MULTICAST_MIN;
	uint16_t top = n->switch_info.multicast_top;

	/* 0: the subnet manager does not use it. */
	if (group >= n->cfg.multicast_max || (top != 0 && to > top))
		return 0;
	return n->multicast[group];
}

uint64_t fabric_node_outputs(const struct fabric_node *n, uint32_t port, const struct iba_lrh *h)
{
	bool is_multicast = h->to >= IBA_LID_MULTICAST_MIN && h->to != IBA_LID_PERMISSIVE;
	uint64_t all = is_multicast ? multicast_outputs(n, h->to) : linear_outputs(n, h->to);

	return all & ~(UINT64_C(1) << port);
}
