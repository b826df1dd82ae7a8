/* SPDX-License-Identifier: BSD-2-Clause */
/* What a subnet manager gets and sets (IBA 14.2.5), but for PortInfo: node_port.c. */
#include "fabric/node_inside.h"

#include <string.h>

enum {
	REVISION = 0xa1,
	VENDOR = 0x626d74, /* as other software adapters have it: no hardware vendor */
	CLASS_VERSION = 1,
	TABLE_PORT_SHIFT = 16,
	GROUP_BLOCK_MASK = 0x1ff,
	GROUP_POSITION_SHIFT = 28,
	GROUP_POSITION_PORTS = 16,
	PORT_EXTENDED_SPEEDS = 31 /* bit: the manager knows extended speeds */
};

/* A request for one attribute, and where its value goes. */
struct ask {
	struct node_visit *v;
	uint32_t modifier;
	union sm_value *value; /* of a Set: as it came */
	bool is_set;
};

/* ---- M_Key (IBA 14.2.4) --------------------------------------------------------------------- */

static void lease_look(struct fabric_node_port *p, uint64_t now_ns)
{
	if (now_ns < p->lease_ns)
		return;
	p->lease_ns = UINT64_MAX;
	p->info.m_key_protection = 0;
}

static bool has_key_of(const struct node_visit *v, const struct sm_port_info *info)
{
	return info->m_key == 0 || v->m_key == info->m_key;
}

bool node_m_key_is_good(struct node_visit *v, const struct smp *s)
{
	struct fabric_node_port *p = &v->n->ports[node_endport(v->n, v->port)];
	struct sm_port_info *info = &p->info;

	lease_look(p, v->now_ns);
	v->m_key = s->m_key;
	v->has_m_key = has_key_of(v, info);
	if (v->has_m_key) {
		p->lease_ns = UINT64_MAX;
		return true;
	}
	if (s->mad.method == MAD_GET && info->m_key_protection <= 1)
		return true;
	info->m_key_violations += info->m_key_violations < UINT16_MAX;
	if (p->lease_ns == UINT64_MAX && info->m_key_lease > 0)
		p->lease_ns = v->now_ns + info->m_key_lease * UINT64_C(1000000000);
	node_trap_m_key(v, s);
	return false;
}

/* ---- The node ------------------------------------------------------------------------------- */

struct sm_node_info fabric_node_info(const struct fabric_node *n, uint32_t port)
{
	return (struct sm_node_info){
		.base_version = MAD_BASE_VERSION,
		.class_version = CLASS_VERSION,
		.node_type = (uint8_t)n->cfg.type,
		.ports = (uint8_t)n->cfg.ports,
		.system_guid = n->cfg.guid,
		.node_guid = n->cfg.guid,
		.port_guid = n->ports[node_endport(n, port)].guids[0],
		.pkeys = FABRIC_PKEYS,
		.revision = REVISION,
		.vendor = VENDOR,
		.local_port = (uint8_t)port,
	};
}

static uint16_t node_info(struct ask *a)
{
	if (a->is_set)
		return SMP_STATUS_UNSUPPORTED_ATTRIBUTE;
	a->value->node_info = fabric_node_info(a->v->n, a->v->port);
	return 0;
}

static uint16_t node_description(struct ask *a)
{
	struct fabric_node *n = a->v->n;

	if (a->is_set) {
		memcpy(n->description, a->value->node_description.text, SM_DESCRIPTION_BYTES);
		for (uint32_t port = 0; port <= n->cfg.ports; port++)
			if (node_has_port(n, port) && node_endport(n, port) == port)
				node_trap_capability(n, port, true);
	}
	memcpy(a->value->node_description.text, n->description, SM_DESCRIPTION_BYTES);
	return 0;
}

static uint16_t switch_info(struct ask *a)
{
	struct sm_switch_info *to = &a->value->switch_info, *now = &a->v->n->switch_info;

	if (a->is_set) {
		if (to->linear_top >= now->linear_cap)
			return SMP_STATUS_INVALID_VALUE;
		now->linear_top = to->linear_top;
		now->default_port = to->default_port;
		now->default_multicast_primary = to->default_multicast_primary;
		now->default_multicast_other = to->default_multicast_other;
		now->life_time = to->life_time;
		now->multicast_top = to->multicast_top;
		/* A 1 that is written takes the 1 back. */
		now->port_state_change &= !to->port_state_change;
		node_change(a->v->n, 0, FABRIC_CHANGE_TABLES);
	}
	*to = *now;
	return 0;
}

/* ---- Ports ---------------------------------------------------------------------------------- */

/*
 * The port that a modifier names: of an endnode 0 is the one by which it came. Another one of an
 * endnode or router may be in another subnet: it is for managers that have its M_Key, too.
 */
static bool named_port(const struct node_visit *v, uint32_t modifier, uint32_t *port)
{
	struct sm_port_info *info;

	*port = modifier == 0 && !node_is_switch(v->n) ? v->port : modifier;
	if (!node_has_port(v->n, *port))
		return false;
	info = &v->n->ports[*port].info;
	if (node_is_switch(v->n) || *port == v->port || has_key_of(v, info))
		return true;
	info->m_key_violations += info->m_key_violations < UINT16_MAX;
	return false;
}

/* From protection 1 on, the M_Key is shown to requests that have it. */
static uint16_t port_info(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	struct sm_port_info *to = &a->value->port_info;
	uint8_t reregister = to->client_reregister;
	uint32_t port;

	if (!named_port(a->v, a->modifier & ~(UINT32_C(1) << PORT_EXTENDED_SPEEDS), &port))
		return SMP_STATUS_INVALID_VALUE;
	if (a->is_set && !node_port_set(n, port, to))
		return SMP_STATUS_INVALID_VALUE;
	lease_look(&n->ports[port], a->v->now_ns);
	*to = n->ports[port].info;
	if (!a->v->has_m_key && to->m_key_protection > 0)
		to->m_key = 0;
	to->local_port = (uint8_t)a->v->port;
	to->client_reregister = a->is_set ? reregister : 0;
	return 0;
}

static uint16_t guid_info(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	uint32_t port = node_endport(n, a->v->port);
	uint64_t *guids = n->ports[port].guids, first = guids[0];

	if (a->modifier != 0)
		return SMP_STATUS_INVALID_VALUE;
	if (a->is_set) {
		memcpy(guids, a->value->guid_info.guids, sizeof(n->ports[port].guids));
		guids[0] = first;
		node_change(n, port, FABRIC_CHANGE_ADDRESS);
	}
	memcpy(a->value->guid_info.guids, guids, sizeof(n->ports[port].guids));
	return 0;
}

static uint16_t pkey_table(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	uint32_t port;
	uint16_t *pkeys;

	if (!named_port(a->v, a->modifier >> TABLE_PORT_SHIFT, &port) ||
	    (a->modifier & UINT16_MAX) != 0)
		return SMP_STATUS_INVALID_VALUE;
	pkeys = n->ports[port].pkeys;
	if (a->is_set) {
		memcpy(pkeys, a->value->pkey_table.pkeys, sizeof(n->ports[port].pkeys));
		node_change(n, port, FABRIC_CHANGE_PKEYS);
	}
	memcpy(a->value->pkey_table.pkeys, pkeys, sizeof(n->ports[port].pkeys));
	return 0;
}

/* ---- Lanes ---------------------------------------------------------------------------------- */

/* Of a switch there is one table for each pair of ports; an endnode has one. */
static uint16_t sl_to_vl(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	uint32_t out, in = node_is_switch(n) ? a->modifier >> 8 & UINT8_MAX : 0;
	uint8_t *lanes;

	if (a->modifier > UINT16_MAX || !named_port(a->v, a->modifier & UINT8_MAX, &out) ||
	    in > n->cfg.ports)
		return SMP_STATUS_INVALID_VALUE;
	lanes = &n->lane_of[(out * (n->cfg.ports + 1) + in) * SM_LEVELS];
	if (a->is_set) {
		memcpy(lanes, a->value->sl_to_vl.lanes, SM_LEVELS);
		node_change(n, out, FABRIC_CHANGE_LANES);
	}
	memcpy(a->value->sl_to_vl.lanes, lanes, SM_LEVELS);
	return 0;
}

/* Blocks 1 and 2 are of low priority, 3 and 4 of high. */
static uint16_t vl_arbitration(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	struct sm_vl_arbitration *to = &a->value->vl_arbitration;
	uint32_t port, block = a->modifier >> TABLE_PORT_SHIFT;
	uint32_t at = (block - 1) % 2 * SM_ARBITRATION_PAIRS;
	struct fabric_turns *turns;

	if (block < 1 || block > 4 || !named_port(a->v, a->modifier & UINT16_MAX, &port))
		return SMP_STATUS_INVALID_VALUE;
	turns = block > 2 ? &n->ports[port].arbiter.high : &n->ports[port].arbiter.low;
	if (a->is_set) {
		memcpy(turns->lanes + at, to->lanes, sizeof(to->lanes));
		memcpy(turns->weights + at, to->weights, sizeof(to->weights));
		fabric_arbiter_settle(&n->ports[port].arbiter);
		node_change(n, port, FABRIC_CHANGE_LANES);
	}
	memcpy(to->lanes, turns->lanes + at, sizeof(to->lanes));
	memcpy(to->weights, turns->weights + at, sizeof(to->weights));
	return 0;
}

/* ---- Tables of forwarding ------------------------------------------------------------------- */

static uint16_t linear_table(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	uint8_t *ports = a->value->linear_table.ports;
	uint32_t at = a->modifier * SM_LINEAR_PORTS;

	if (a->modifier > UINT16_MAX / SM_LINEAR_PORTS || at >= n->cfg.linear_max)
		return SMP_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SM_LINEAR_PORTS; i++) {
		bool is_there = at + i < n->cfg.linear_max;

		if (is_there && a->is_set)
			n->linear[at + i] = ports[i];
		ports[i] = is_there ? n->linear[at + i] : FABRIC_NO_PORT;
	}
	if (a->is_set)
		node_change(n, 0, FABRIC_CHANGE_TABLES);
	return 0;
}

/* 16 ports of 32 LIDs. Bits of ports that the switch does not have are not kept. */
static uint16_t multicast_table(struct ask *a)
{
	struct fabric_node *n = a->v->n;
	const uint64_t ports = UINT64_MAX >> (FABRIC_PORTS_MAX - n->cfg.ports);
	uint16_t *masks = a->value->multicast_table.masks;
	uint32_t position = a->modifier >> GROUP_POSITION_SHIFT;
	uint32_t at = (a->modifier & GROUP_BLOCK_MASK) * SM_MULTICAST_MASKS;
	uint32_t shift = position * GROUP_POSITION_PORTS;

	if (at >= n->cfg.multicast_max || shift > n->cfg.ports)
		return SMP_STATUS_INVALID_VALUE;
	for (uint32_t i = 0; i < SM_MULTICAST_MASKS; i++) {
		bool is_there = at + i < n->cfg.multicast_max;
		uint64_t *group = &n->multicast[is_there ? at + i : 0];

		if (is_there && a->is_set)
			*group = (*group & ~((uint64_t)UINT16_MAX << shift)) |
				 ((uint64_t)masks[i] << shift & ports);
		masks[i] = is_there ? (uint16_t)(*group >> shift) : 0;
	}
	if (a->is_set)
		node_change(n, 0, FABRIC_CHANGE_TABLES);
	return 0;
}

/* ---- All ------------------------------------------------------------------------------------ */

struct served {
	uint16_t attribute;
	bool is_of_switch;
	uint16_t (*serve)(struct ask *a);
};

static const struct served all_served[] = {
	{ SM_NODE_DESCRIPTION, false, node_description },
	{ SM_NODE_INFO, false, node_info },
	{ SM_SWITCH_INFO, true, switch_info },
	{ SM_GUID_INFO, false, guid_info },
	{ SM_PORT_INFO, false, port_info },
	{ SM_PKEY_TABLE, false, pkey_table },
	{ SM_SL_TO_VL, false, sl_to_vl },
	{ SM_VL_ARBITRATION, false, vl_arbitration },
	{ SM_LINEAR_TABLE, true, linear_table },
	{ SM_MULTICAST_TABLE, true, multicast_table },
};

static const struct served *served_find(const struct fabric_node *n, uint16_t attribute)
{
	for (size_t i = 0; i < sizeof(all_served) / sizeof(all_served[0]); i++)
		if (all_served[i].attribute == attribute)
			return all_served[i].is_of_switch && !node_is_switch(n) ? NULL
										: &all_served[i];
	return NULL;
}

static uint16_t serve(struct node_visit *v, struct smp *s)
{
	const struct served *served = served_find(v->n, s->mad.attribute);
	union sm_value value;
	struct ask a = { .v = v, .modifier = s->mad.modifier, .value = &value };
	const struct mad_layout *layout;
	uint16_t status;

	if (s->mad.class_version != SMP_CLASS_VERSION)
		return SMP_STATUS_UNSUPPORTED_VERSION;
	if (s->mad.method != MAD_GET && s->mad.method != MAD_SET)
		return SMP_STATUS_UNSUPPORTED_METHOD;
	if (!served)
		return SMP_STATUS_UNSUPPORTED_ATTRIBUTE;
	layout = sm_layout(s->mad.attribute);
	memset(&value, 0, sizeof(value));
	a.is_set = s->mad.method == MAD_SET;
	if (a.is_set && mad_layout_decode(layout, &value, s->data) != WEFT_OK)
		return SMP_STATUS_INVALID_VALUE;
	status = served->serve(&a);
	if (status != 0)
		return status;
	memset(s->data, 0, sizeof(s->data));
	mad_layout_encode(layout, &value, s->data);
	return 0;
}

void node_sma_serve(struct node_visit *v, struct smp *s)
{
	if (s->mad.method == MAD_TRAP_REPRESS) {
		node_trap_repress(v->n, node_endport(v->n, v->port), s->mad.tid);
		return;
	}
	s->mad.status = serve(v, s);
	s->mad.method = MAD_GET_RESPONSE;
}
