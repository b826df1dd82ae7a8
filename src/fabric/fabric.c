/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/fabric.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "fabric/engine.h"

struct fabric_cfg fabric_cfg_live(void)
{
	return (struct fabric_cfg){
		.link = { .lanes = 4, .lane_blocks = 256, .resend_ns = 10000000 },
		.slow_ns_x16 = 1126, /* 4 x 2.5 Gbit/s, as ports say that they have */
		.linear_max = IBA_LID_MULTICAST_MIN,
		.multicast_max = 1024,
	};
}

enum { LARGE_CABLES = 1000 };

/* ---- Life ----------------------------------------------------------------------------------- */

/* Texts without GUIDs get these. */
static uint64_t guid_of(const struct topology *t, uint32_t node)
{
	enum { GUID_FIRST = 0x200000, GUID_STEP = 256 }; /* those of ports lie between */

	return t->nodes[node].guid > 0 ? t->nodes[node].guid
				       : GUID_FIRST + (uint64_t)node * GUID_STEP;
}

static int agents_init(struct fabric *f, const struct topology *t, uint32_t node)
{
	const struct topology_node *from = &t->nodes[node];
	const struct fabric_node_cfg cfg = {
		.type = from->type,
		.ports = from->ports,
		.guid = guid_of(t, node),
		.description = from->name,
		.lanes = f->cfg.link.lanes,
		.mtu = f->cfg.mtu,
		.linear_max = f->cfg.linear_max,
		.multicast_max = f->cfg.multicast_max,
		.store = &f->store,
	};

	return fabric_node_init(&f->nodes[node].agents, &cfg);
}

static void lane_init(struct fabric *f, struct fabric_lane *l, enum engine_lane kind, uint32_t node,
		      uint32_t port)
{
	fabric_lane_init(l, &f->pool, f->cfg.link.lane_blocks);
	l->number = FLIT_LANES;
	l->kind = kind;
	l->owner = node;
	l->port = (uint16_t)port;
}

static void owner_init(struct fabric *f, struct engine_owner *o, uint32_t node, uint32_t port)
{
	o->node = node;
	o->port = port;
	lane_init(f, &o->local, ENGINE_LOCAL, node, port);
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		if (lane >= f->cfg.link.lanes && lane != IBA_LANE_MANAGEMENT)
			continue;
		lane_init(f, &o->posts[lane], ENGINE_POST, node, port);
		o->posts[lane].number = (uint8_t)lane;
	}
	f->nodes[node].ports[port].owner = o;
}

static bool has_owner(const struct topology *t, uint32_t node, uint32_t port)
{
	return (t->nodes[node].type == SM_NODE_SWITCH) == (port == 0);
}

/* Both ends of a cable; the first one is looked at first. */
static bool is_first_end(const struct topology *t, uint32_t node, uint32_t port)
{
	const struct topology_port *p = &t->nodes[node].port[port];

	return port > 0 && p->node != TOPOLOGY_NONE &&
	       (node < p->node || (node == p->node && port < p->port));
}

static void end_init(struct fabric *f, uint32_t end, uint32_t node, uint32_t port)
{
	struct engine_end *e = &f->ends[end];

	fabric_link_init(&e->link, &f->cfg.link, &f->pool);
	e->node = node;
	e->port = port;
	e->flit_x16 = f->cfg.flit_ns_x16;
	e->free.kind = ENGINE_FREE;
	e->due.kind = ENGINE_LINK;
	e->age.kind = ENGINE_AGE;
	e->free.of = e->due.of = e->age.of = end;
	for (uint32_t lane = 0; lane < FLIT_LANES; lane++) {
		e->link.in[lane].kind = ENGINE_IN;
		e->link.in[lane].owner = node;
		e->link.in[lane].port = (uint16_t)port;
		e->link.in[lane].is_watched = true;
	}
	f->nodes[node].ports[port].end = end;
}

static void cable_place(struct fabric *f, uint32_t cable)
{
	struct engine_cable *c = &f->cables[cable];
	bool is_here[2];

	for (uint32_t i = 0; i < 2; i++) {
		struct engine_end *e = &f->ends[2 * cable + i];

		is_here[i] = !f->cfg.are_here || f->cfg.are_here[e->node];
		e->is_away = !is_here[i];
	}
	c->is_away = !is_here[0] && !is_here[1];
	c->is_trunk = is_here[0] != is_here[1];
	for (uint32_t i = 0; i < 2; i++) {
		const struct engine_node *other = &f->nodes[f->ends[2 * cable + 1 - i].node];

		f->ends[2 * cable + i].is_trunks = c->is_trunk;
		f->ends[2 * cable + i].is_before_ca = other->agents.cfg.type == SM_NODE_CA;
	}
	c->here = is_here[1];
}

/* How many ports, cables and owners there are; false: a node has too many. */
static bool measure(struct fabric *f, const struct topology *t, uint32_t *ports)
{
	f->node_count = t->node_count;
	for (uint32_t node = 0; node < t->node_count; node++) {
		if (t->nodes[node].ports > FABRIC_PORTS_MAX || t->nodes[node].ports == 0)
			return false;
		*ports += t->nodes[node].ports + 1;
		for (uint32_t port = 0; port <= t->nodes[node].ports; port++) {
			f->cable_count += is_first_end(t, node, port);
			f->owner_count += has_owner(t, node, port);
		}
	}
	return true;
}

static bool memory_get(struct fabric *f, uint32_t ports)
{
	struct fabric_store *s = &f->store;

	f->wheel = wheel_open(0);
	f->nodes = fabric_store_clear(s, f->node_count, sizeof(*f->nodes));
	f->ports = fabric_store_clear(s, ports, sizeof(*f->ports));
	f->cables = fabric_store_clear(s, f->cable_count, sizeof(*f->cables));
	f->ends = fabric_store_clear(s, 2 * (size_t)f->cable_count, sizeof(*f->ends));
	f->owners = fabric_store_clear(s, f->owner_count, sizeof(*f->owners));
	return f->wheel && f->nodes && f->ports && f->cables && f->ends && f->owners;
}

/* All nodes, and the owners of their ports. False: memory is short. */
static bool nodes_init(struct fabric *f, const struct topology *t)
{
	uint32_t owner = 0, ports = 0;

	for (uint32_t node = 0; node < t->node_count; node++) {
		struct engine_node *n = &f->nodes[node];

		if (agents_init(f, t, node) < 0)
			return false;
		n->ports = &f->ports[ports];
		n->due.kind = ENGINE_NODE;
		n->due.of = node;
		lane_init(f, &n->lane, ENGINE_AGENT, node, 0);
		ports += t->nodes[node].ports + 1;
		for (uint32_t port = 0; port <= t->nodes[node].ports; port++) {
			n->ports[port].end = ENGINE_NONE;
			n->agents.stale |= UINT64_C(1) << port;
			if (has_owner(t, node, port))
				owner_init(f, &f->owners[owner++], node, port);
		}
	}
	return true;
}

static void cables_init(struct fabric *f, const struct topology *t)
{
	uint32_t cable = 0;

	for (uint32_t node = 0; node < t->node_count; node++)
		for (uint32_t port = 1; port <= t->nodes[node].ports; port++) {
			const struct topology_port *p = &t->nodes[node].port[port];

			if (!is_first_end(t, node, port))
				continue;
			end_init(f, 2 * cable, node, port);
			end_init(f, 2 * cable + 1, p->node, p->port);
			cable_place(f, cable);
			cable++;
		}
	for (cable = 0; cable < f->cable_count; cable++)
		engine_link_renew(f, cable);
}

enum weft_reason fabric_open(const struct topology *t, const struct fabric_cfg *cfg,
			     struct fabric **f)
{
	struct fabric *own = calloc(1, sizeof(*own));
	uint32_t ports = 0;

	*f = NULL;
	if (!own)
		return WEFT_R_NO_MEMORY;
	own->cfg = *cfg;
	own->prng.state = cfg->seed;
	own->ends_marked[0] = own->nodes_marked[0] = ENGINE_NONE;
	fabric_store_init(&own->store, cfg->memory_told);
	fabric_pool_init(&own->pool);
	own->pool.store = &own->store;
	if (!measure(own, t, &ports)) {
		fabric_close(own);
		return WEFT_R_TOPOLOGY_LIMIT;
	}
	if (!memory_get(own, ports) || !nodes_init(own, t)) {
		fabric_close(own);
		return WEFT_R_NO_MEMORY;
	}
	for (uint32_t node = 0; node < t->node_count; node++)
		own->nodes[node].is_away = cfg->are_here && !cfg->are_here[node];
	cables_init(own, t);
	own->is_large = own->cable_count >= LARGE_CABLES;
	own->cfg.are_here = NULL;
	*f = own;
	return WEFT_OK;
}

void fabric_close(struct fabric *own_f)
{
	if (!own_f)
		return;
	for (uint32_t node = 0; own_f->nodes && node < own_f->node_count; node++)
		if (own_f->nodes[node].agents.ports) /* it was initialised */
			fabric_node_fini(&own_f->nodes[node].agents);
	wheel_close(own_f->wheel);
	fabric_store_fini(&own_f->store);
	free(own_f);
}

/* ---- Work ----------------------------------------------------------------------------------- */

void engine_mark_end(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	if (e->is_marked)
		return;
	e->is_marked = true;
	e->next_marked = ENGINE_NONE;
	if (f->ends_marked[0] == ENGINE_NONE)
		f->ends_marked[0] = end;
	else
		f->ends[f->ends_marked[1]].next_marked = end;
	f->ends_marked[1] = end;
}

void engine_mark_node(struct fabric *f, uint32_t node)
{
	struct engine_node *n = &f->nodes[node];

	if (n->is_marked)
		return;
	n->is_marked = true;
	n->next_marked = ENGINE_NONE;
	if (f->nodes_marked[0] == ENGINE_NONE)
		f->nodes_marked[0] = node;
	else
		f->nodes[f->nodes_marked[1]].next_marked = node;
	f->nodes_marked[1] = node;
}

/* True: there was one of them. */
static bool node_work(struct fabric *f)
{
	uint32_t node = f->nodes_marked[0];

	if (node == ENGINE_NONE)
		return false;
	f->nodes_marked[0] = f->nodes[node].next_marked;
	f->nodes[node].is_marked = false;
	engine_agent_work(f, node);
	return true;
}

static bool end_work(struct fabric *f)
{
	uint32_t end = f->ends_marked[0];

	if (end == ENGINE_NONE)
		return false;
	f->ends_marked[0] = f->ends[end].next_marked;
	f->ends[end].is_marked = false;
	engine_line_send(f, end);
	return true;
}

/* Room in a lane of a link is told by that link; in one of an owner, to the owner. */
static bool room_work(struct fabric *f)
{
	struct fabric_lane *lane = fabric_pool_released(&f->pool);

	if (!lane)
		return false;
	if (lane->kind == ENGINE_IN)
		engine_line_stir(f, (uint32_t)(engine_end_with(lane) - f->ends));
	else
		engine_owner_room(f, lane);
	return true;
}

/*
 * What is left after so much work waits for the next run: where tables have loops, frames without
 * delay may go on for long.
 */
static void settle(struct fabric *f)
{
	enum { STEPS_MAX = 1 << 20 };
	uint32_t steps = 0;

	while (steps < STEPS_MAX && (end_work(f) || room_work(f) || node_work(f)))
		steps++;
}

static void timer_work(struct fabric *f, struct wheel_timer *t)
{
	switch ((enum engine_timer)t->kind) {
	case ENGINE_FLIGHT:
	case ENGINE_ACK:
		engine_line_arrive(f, CONTAINER_OF(t, struct engine_flight, timer));
		break;
	case ENGINE_FREE:
		engine_mark_end(f, t->of);
		break;
	case ENGINE_LINK:
		engine_line_expire(f, t->of);
		break;
	case ENGINE_AGE:
		engine_line_age(f, t->of);
		break;
	case ENGINE_NODE:
		engine_mark_node(f, t->of);
		break;
	}
}

void fabric_run(struct fabric *f, uint64_t now_ns)
{
	struct wheel_timer *t;

	while ((t = wheel_expire(f->wheel, now_ns))) {
		f->now_ns = f->wheel->now_ns;
		engine_look_ahead(f);
		timer_work(f, t);
		settle(f);
	}
	f->now_ns = now_ns;
	settle(f);
}

uint64_t fabric_due(const struct fabric *f)
{
	if (f->ends_marked[0] != ENGINE_NONE || f->nodes_marked[0] != ENGINE_NONE ||
	    f->pool.released)
		return f->now_ns;
	return wheel_due(f->wheel);
}

/* ---- Looking -------------------------------------------------------------------------------- */

uint32_t fabric_node_count(const struct fabric *f)
{
	return f->node_count;
}

/* A caller that has got a node may have set anything. */
static void touched(struct engine_node *n)
{
	n->agents.stale = UINT64_MAX >> (FABRIC_PORTS_MAX - n->agents.cfg.ports);
}

struct fabric_node *fabric_node_at(struct fabric *f, uint32_t node)
{
	CHECK(node < f->node_count);
	engine_counts_settle(f, node);
	touched(&f->nodes[node]);
	return &f->nodes[node].agents;
}

const struct fabric_node *fabric_node_look(const struct fabric *f, uint32_t node)
{
	CHECK(node < f->node_count);
	return &f->nodes[node].agents;
}

void fabric_touch(struct fabric *f, uint32_t node)
{
	CHECK(node < f->node_count);
	engine_mark_node(f, node);
	touched(&f->nodes[node]);
	for (uint32_t port = 1; port <= f->nodes[node].agents.cfg.ports; port++) {
		uint32_t end = f->nodes[node].ports[port].end;

		if (end == ENGINE_NONE)
			continue;
		engine_arbiter_set(f, end);
		engine_mark_end(f, end);
	}
}

uint32_t fabric_cable_count(const struct fabric *f)
{
	return f->cable_count;
}

uint32_t fabric_cable_at(const struct fabric *f, uint32_t node, uint32_t port)
{
	uint32_t end;

	CHECK(node < f->node_count && port <= f->nodes[node].agents.cfg.ports);
	end = f->nodes[node].ports[port].end;
	return end == ENGINE_NONE ? (uint32_t)FABRIC_NO_CABLE : end / 2;
}

void fabric_cable_ends(const struct fabric *f, uint32_t cable, uint32_t node[2], uint32_t port[2])
{
	CHECK(cable < f->cable_count);
	for (uint32_t i = 0; i < 2; i++) {
		node[i] = f->ends[2 * cable + i].node;
		port[i] = f->ends[2 * cable + i].port;
	}
}

const struct fabric_link *fabric_link_at(const struct fabric *f, uint32_t node, uint32_t port)
{
	uint32_t end;

	CHECK(node < f->node_count && port <= f->nodes[node].agents.cfg.ports);
	end = f->nodes[node].ports[port].end;
	return end == ENGINE_NONE ? NULL : &f->ends[end].link;
}
