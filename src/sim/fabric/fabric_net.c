/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/fabric/fabric_net.h"

#include <string.h>

#include "base/check.h"

enum net_event { NET_ARRIVED, NET_FREE, NET_DUE };

enum { TRACE_EVENTS = 1 << 12, FLYING_MAX = 256 };

/* ---- Life ----------------------------------------------------------------------------------- */

int fabric_net_init(struct fabric_net *n, uint64_t seed)
{
	const struct world_options options = {
		.seed = seed,
		.events_max = 3 * 2 * FABRIC_NET_CABLES,
		.trace_max = TRACE_EVENTS,
	};

	n->node_count = n->cable_count = 0;
	fabric_pool_init(&n->pool);
	return world_init(&n->world, &options);
}

void fabric_net_fini(struct fabric_net *n)
{
	for (uint32_t i = 0; i < 2 * n->cable_count; i++)
		sim_datagram_fini(&n->ways[i].pipe);
	for (uint32_t i = 0; i < n->node_count; i++) {
		if (n->nodes[i].is_switch)
			fabric_switch_fini(&n->nodes[i].sw);
	}
	fabric_pool_fini(&n->pool);
	world_fini(&n->world);
}

uint32_t fabric_net_add_end(struct fabric_net *n, const struct fabric_link_cfg *cfg)
{
	struct fabric_net_node *node = &n->nodes[n->node_count];

	CHECK(n->node_count < FABRIC_NET_NODES);
	node->is_switch = false;
	fabric_end_init(&node->end, cfg, &n->pool);
	return n->node_count++;
}

int fabric_net_add_switch(struct fabric_net *n, const struct fabric_switch_cfg *cfg)
{
	struct fabric_net_node *node = &n->nodes[n->node_count];

	CHECK(n->node_count < FABRIC_NET_NODES);
	node->is_switch = true;
	return fabric_switch_init(&node->sw, cfg, &n->pool) < 0 ? -1 : (int)n->node_count++;
}

struct fabric_link *fabric_net_link(struct fabric_net *n, struct fabric_net_port p)
{
	struct fabric_net_node *node = &n->nodes[p.node];

	CHECK(p.node < n->node_count && p.port > 0);
	if (!node->is_switch)
		return &node->end.link;
	CHECK(p.port <= node->sw.cfg.ports);
	return &node->sw.ports[p.port].link;
}

/* ---- Moving --------------------------------------------------------------------------------- */

static struct fabric_link *sender_of(struct fabric_net *n, const struct fabric_net_way *way)
{
	return fabric_net_link(n, (struct fabric_net_port){ way->from, way->from_port });
}

static void forward(struct fabric_net_node *node)
{
	if (node->is_switch)
		fabric_switch_forward(&node->sw);
	else
		fabric_end_forward(&node->end);
}

/* True: a run has left. As long as its bytes take, nothing else does. */
static bool way_send(struct fabric_net *n, struct fabric_net_way *way)
{
	struct fabric_link *link = sender_of(n, way);
	uint8_t bytes[FLIT_BYTES_MAX];
	struct fabric_run run;
	bool has_sent = false;

	if (way->pipe.line.idle_ns <= n->world.now_ns)
		has_sent = fabric_link_send(link, n->world.now_ns, &run);
	for (uint32_t i = 0; has_sent && i < run.flits; i++)
		sim_datagram_send(&way->pipe, bytes, fabric_run_encode(&run, i, bytes));
	if (way->pipe.line.idle_ns > n->world.now_ns)
		world_alarm_set(&n->world, &way->free, way->pipe.line.idle_ns);
	world_alarm_set(&n->world, &way->due, fabric_link_due(link));
	return has_sent;
}

/* Until the node has nothing more to hand on or to send. */
static void stir(struct fabric_net *n, uint32_t node)
{
	bool has_sent;

	do {
		has_sent = false;
		forward(&n->nodes[node]);
		for (uint32_t i = 0; i < 2 * n->cable_count; i++)
			if (n->ways[i].from == node)
				has_sent |= way_send(n, &n->ways[i]);
	} while (has_sent);
}

bool fabric_net_post(struct fabric_net *n, uint32_t end, uint8_t *bytes, uint32_t length)
{
	bool is_posted = fabric_end_post(&n->nodes[end].end, bytes, length);

	stir(n, end);
	return is_posted;
}

uint32_t fabric_net_take(struct fabric_net *n, uint32_t end, uint8_t bytes[IBA_FRAME_MAX])
{
	uint32_t length = fabric_end_take(&n->nodes[end].end, bytes);

	if (length > 0)
		stir(n, end); /* there is room, of which the other end may have to be told */
	return length;
}

static void arrive(struct fabric_net *n, struct fabric_net_way *way)
{
	struct fabric_link *link = fabric_net_link(
		n, (struct fabric_net_port){ way->to, way->to_port });
	uint8_t bytes[FLIT_BYTES_MAX];
	size_t length;

	while (sim_datagram_recv(&way->pipe, bytes, sizeof(bytes), &length))
		fabric_link_recv(link, n->world.now_ns, bytes, length);
	stir(n, way->to);
}

bool fabric_net_step(struct fabric_net *n)
{
	struct fabric_net_way *way;
	struct world_event event;

	if (!world_next(&n->world, &event))
		return false;
	way = &n->ways[event.node];
	if (event.kind == NET_ARRIVED) {
		arrive(n, way);
		return true;
	}
	if (event.kind == NET_DUE)
		fabric_link_expire(sender_of(n, way), n->world.now_ns);
	stir(n, way->from);
	return true;
}

/* ---- Cables --------------------------------------------------------------------------------- */

static int way_init(struct fabric_net *n, uint32_t number, const struct sim_faults *faults)
{
	struct fabric_net_way *way = &n->ways[number];
	const struct sim_datagram_options options = {
		.id = number,
		.arrived = { .node = number, .kind = NET_ARRIVED },
		.faults = *faults,
		.datagrams_max = FLYING_MAX,
		.bytes_max = FLIT_BYTES_MAX,
	};

	way->free = (struct world_alarm){ .event = { .node = number, .kind = NET_FREE } };
	way->due = (struct world_alarm){ .event = { .node = number, .kind = NET_DUE } };
	return sim_datagram_init(&way->pipe, &n->world, &options);
}

int fabric_net_join(struct fabric_net *n, struct fabric_net_port a, struct fabric_net_port b,
		    const struct sim_faults *faults)
{
	uint32_t there = 2 * n->cable_count, back = there + 1;

	CHECK(n->cable_count < FABRIC_NET_CABLES);
	if (way_init(n, there, faults) < 0)
		return -1;
	if (way_init(n, back, faults) < 0) {
		sim_datagram_fini(&n->ways[there].pipe);
		return -1;
	}
	n->ways[there].from = n->ways[back].to = a.node;
	n->ways[there].from_port = n->ways[back].to_port = a.port;
	n->ways[there].to = n->ways[back].from = b.node;
	n->ways[there].to_port = n->ways[back].from_port = b.port;
	fabric_net_plug(n, n->cable_count++);
	return (int)(n->cable_count - 1);
}

/* Nor does what has arrived and was not taken: it would be a flit of a link that is no more. */
static void drain(struct fabric_net_way *way)
{
	uint8_t bytes[FLIT_BYTES_MAX];
	size_t length;

	while (sim_datagram_recv(&way->pipe, bytes, sizeof(bytes), &length))
		continue;
}

void fabric_net_pull(struct fabric_net *n, uint32_t cable)
{
	for (uint32_t i = 2 * cable; i < 2 * cable + 2; i++) {
		sim_datagram_cut(&n->ways[i].pipe);
		drain(&n->ways[i]);
		fabric_link_down(sender_of(n, &n->ways[i]));
	}
	for (uint32_t i = 2 * cable; i < 2 * cable + 2; i++)
		stir(n, n->ways[i].from);
}

void fabric_net_plug(struct fabric_net *n, uint32_t cable)
{
	for (uint32_t i = 2 * cable; i < 2 * cable + 2; i++) {
		sim_datagram_heal(&n->ways[i].pipe);
		fabric_link_up(sender_of(n, &n->ways[i]));
	}
	for (uint32_t i = 2 * cable; i < 2 * cable + 2; i++)
		stir(n, n->ways[i].from);
}

void fabric_net_meddle(struct fabric_net *n, struct prng *prng)
{
	uint32_t cable = prng_below(prng, n->cable_count);

	if (n->is_pulled[cable]) {
		fabric_net_plug(n, cable);
	} else if (n->pulls_left > 0) {
		n->pulls_left--;
		n->pulls++;
		fabric_net_pull(n, cable);
	} else {
		return;
	}
	n->is_pulled[cable] = !n->is_pulled[cable];
}

bool fabric_net_plug_all(struct fabric_net *n)
{
	bool has_plugged = false;

	for (uint32_t cable = 0; cable < n->cable_count; cable++) {
		if (!n->is_pulled[cable])
			continue;
		fabric_net_plug(n, cable);
		n->is_pulled[cable] = false;
		has_plugged = true;
	}
	return has_plugged;
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* Nodes in the order of their distance; each switch leads to where it was found from. */
void fabric_net_route(struct fabric_net *n, uint32_t end, uint16_t lid)
{
	uint32_t queue[FABRIC_NET_NODES], count = 0;
	bool is_found[FABRIC_NET_NODES] = { false };

	queue[count++] = end;
	is_found[end] = true;
	for (uint32_t at = 0; at < count; at++) {
		for (uint32_t i = 0; i < 2 * n->cable_count; i++) {
			const struct fabric_net_way *way = &n->ways[i];
			struct fabric_net_node *node = &n->nodes[way->from];

			if (way->to != queue[at] || is_found[way->from] || !node->is_switch)
				continue;
			is_found[way->from] = true;
			node->sw.linear[lid] = (uint8_t)way->from_port;
			queue[count++] = way->from;
		}
	}
}
