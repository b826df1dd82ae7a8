/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/setup.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/node.h"

static const uint64_t prefix_first = UINT64_C(0xfe80000000000000);

enum { FAR = UINT16_MAX, LIFE_TIME = 18 /* 1 s */ };

/* The other end of a switch's cable; node SETUP_NONE: there is none that is up. */
struct beyond {
	uint32_t node, port;
};

enum { SETUP_NONE = UINT32_MAX };

struct setup {
	struct fabric *f;
	uint32_t count;
	struct fabric_node **nodes;
	uint32_t *first;       /* of a node's ports, in the next ones */
	struct beyond *beyond; /* by port */
	uint32_t *load;	       /* LIDs that leave by a port */
	uint32_t *subnet;      /* of a port */
	uint32_t *lids;	       /* of a subnet: the next one */
	uint16_t *rank;	       /* of switches: 0 at the top */
	uint16_t *hops,
		*down; /* of a switch to where a LID is; the same by ways that only go down */
	uint32_t *queue;
};

static struct fabric_node *node_at(const struct setup *s, uint32_t node)
{
	return s->nodes[node];
}

static bool is_switch(const struct setup *s, uint32_t node)
{
	return node_at(s, node)->cfg.type == SM_NODE_SWITCH;
}

static const struct beyond *beyond_at(const struct setup *s, uint32_t node, uint32_t port)
{
	return &s->beyond[s->first[node] + port];
}

/* ---- Cables --------------------------------------------------------------------------------- */

static void cables_read(struct setup *s)
{
	for (uint32_t cable = 0; cable < fabric_cable_count(s->f); cable++) {
		uint32_t node[2], port[2];

		fabric_cable_ends(s->f, cable, node, port);
		if (!node_at(s, node[0])->ports[port[0]].is_joined)
			continue;
		for (uint32_t i = 0; i < 2; i++)
			s->beyond[s->first[node[i]] + port[i]] = (struct beyond){ node[i ^ 1],
										  port[i ^ 1] };
	}
}

static bool setup_begin(struct setup *s, struct fabric *f)
{
	uint32_t ports = 0;

	*s = (struct setup){ .f = f, .count = fabric_node_count(f) };
	s->first = calloc(s->count + 1U, sizeof(*s->first));
	s->nodes = calloc(s->count + 1U, sizeof(struct fabric_node *));
	if (!s->first || !s->nodes)
		return false;
	for (uint32_t node = 0; node < s->count; node++) {
		s->nodes[node] = fabric_node_at(f, node);
		s->first[node] = ports;
		ports += node_at(s, node)->cfg.ports + 1;
	}
	s->beyond = malloc((ports + 1U) * sizeof(*s->beyond));
	s->load = calloc(ports + 1U, sizeof(*s->load));
	s->subnet = calloc(ports + 1U, sizeof(*s->subnet));
	s->lids = calloc(ports + 1U, sizeof(*s->lids));
	s->rank = calloc(s->count + 1U, sizeof(*s->rank));
	s->hops = calloc(s->count + 1U, sizeof(*s->hops));
	s->down = calloc(s->count + 1U, sizeof(*s->down));
	s->queue = calloc(s->count + 1U, sizeof(*s->queue));
	if (!s->beyond || !s->load || !s->subnet || !s->lids || !s->rank || !s->hops || !s->down ||
	    !s->queue)
		return false;
	for (uint32_t i = 0; i < ports; i++)
		s->beyond[i].node = SETUP_NONE;
	cables_read(s);
	return true;
}

static void setup_end(struct setup *s)
{
	free(s->first);
	free(s->nodes);
	free(s->beyond);
	free(s->load);
	free(s->subnet);
	free(s->lids);
	free(s->rank);
	free(s->hops);
	free(s->down);
	free(s->queue);
}

/* ---- Subnets -------------------------------------------------------------------------------- */

/* What switches join; an endnode's and a router's ports are where their cables lead. */
static void subnet_mark(struct setup *s, uint32_t node, uint32_t port, uint32_t subnet)
{
	struct fabric_node *n = node_at(s, node);
	bool is_new = s->subnet[s->first[node] + port] == 0;

	s->subnet[s->first[node] + port] = subnet;
	if (is_new && n->cfg.type == SM_NODE_SWITCH)
		for (uint32_t i = 0; i <= n->cfg.ports; i++)
			s->subnet[s->first[node] + i] = subnet;
}

static uint32_t subnet_spread(struct setup *s, uint32_t node, uint32_t subnet)
{
	uint32_t count = 0;

	subnet_mark(s, node, 0, subnet);
	s->queue[count++] = node;
	for (uint32_t at = 0; at < count; at++)
		for (uint32_t port = 1; port <= node_at(s, s->queue[at])->cfg.ports; port++) {
			const struct beyond *b = beyond_at(s, s->queue[at], port);

			if (b->node == SETUP_NONE || s->subnet[s->first[b->node] + b->port] > 0)
				continue;
			subnet_mark(s, b->node, b->port, subnet);
			if (is_switch(s, b->node))
				s->queue[count++] = b->node;
		}
	return subnet + 1;
}

/* Subnets are numbered from 1; ports that are joined by no switch have one for each cable. */
static void subnets_find(struct setup *s)
{
	uint32_t next = 1;

	for (uint32_t node = 0; node < s->count; node++)
		if (is_switch(s, node) && s->subnet[s->first[node]] == 0)
			next = subnet_spread(s, node, next);
	for (uint32_t node = 0; node < s->count; node++)
		for (uint32_t port = 1; port <= node_at(s, node)->cfg.ports; port++) {
			const struct beyond *b = beyond_at(s, node, port);

			if (b->node == SETUP_NONE || s->subnet[s->first[node] + port] > 0)
				continue;
			subnet_mark(s, node, port, next);
			subnet_mark(s, b->node, b->port, next++);
		}
}

/* ---- Distances ------------------------------------------------------------------------------ */

/* A way up: to a lower rank; of one rank, to a lower number. */
static bool is_up(const struct setup *s, uint32_t from, uint32_t to)
{
	return s->rank[to] != s->rank[from] ? s->rank[to] < s->rank[from] : to < from;
}

/* From the switches in the queue outwards: by all cables, or only by those that go up. */
static void spread(const struct setup *s, uint16_t *hops, uint32_t count, bool goes_up)
{
	for (uint32_t at = 0; at < count; at++) {
		uint32_t node = s->queue[at], ports = node_at(s, node)->cfg.ports;

		for (uint32_t port = 1; port <= ports; port++) {
			uint32_t next = beyond_at(s, node, port)->node;

			if (next == SETUP_NONE || hops[next] != FAR || !is_switch(s, next) ||
			    (goes_up && !is_up(s, node, next)))
				continue;
			hops[next] = (uint16_t)(hops[node] + 1);
			s->queue[count++] = next;
		}
	}
}

static void hops_clear(const struct setup *s, uint16_t *hops)
{
	for (uint32_t node = 0; node < s->count; node++)
		hops[node] = FAR;
}

static bool has_endnode(const struct setup *s, uint32_t node)
{
	for (uint32_t port = 1; port <= node_at(s, node)->cfg.ports; port++) {
		uint32_t next = beyond_at(s, node, port)->node;

		if (next != SETUP_NONE && !is_switch(s, next))
			return true;
	}
	return false;
}

/* The switches that are farthest from endnodes are at the top; if all have some, the first one. */
static void ranks_find(struct setup *s)
{
	uint32_t count = 0, first = SETUP_NONE;
	uint16_t top = 0;

	hops_clear(s, s->hops);
	for (uint32_t node = 0; node < s->count; node++) {
		if (!is_switch(s, node))
			continue;
		first = first == SETUP_NONE ? node : first;
		if (!has_endnode(s, node))
			continue;
		s->hops[node] = 0;
		s->queue[count++] = node;
	}
	spread(s, s->hops, count, false);
	for (uint32_t node = 0; node < s->count; node++)
		if (s->hops[node] != FAR && s->hops[node] > top)
			top = s->hops[node];
	hops_clear(s, s->rank);
	count = 0;
	for (uint32_t node = 0; node < s->count; node++) {
		if (!is_switch(s, node) || (top > 0 ? s->hops[node] != top : node != first))
			continue;
		s->rank[node] = 0;
		s->queue[count++] = node;
	}
	spread(s, s->rank, count, false);
}

/*
 * Switches in the order of their ranks: what has no way that only goes down goes up to the next
 * that is nearest. After the first round all that can be reached from above have a distance.
 */
static void hops_from_above(struct setup *s)
{
	bool has_changed = true;

	for (uint32_t round = 0; has_changed && round < s->count; round++) {
		has_changed = false;
		for (uint32_t node = 0; node < s->count; node++) {
			uint16_t best = s->hops[node];

			if (!is_switch(s, node) || s->down[node] != FAR)
				continue;
			for (uint32_t port = 1; port <= node_at(s, node)->cfg.ports; port++) {
				uint32_t next = beyond_at(s, node, port)->node;

				if (next != SETUP_NONE && is_switch(s, next) &&
				    is_up(s, node, next) && s->hops[next] < FAR - 1 &&
				    s->hops[next] + 1 < best)
					best = (uint16_t)(s->hops[next] + 1);
			}
			has_changed |= best != s->hops[node];
			s->hops[node] = best;
		}
	}
}

/* Of all switches to the one at which a LID is. */
static void hops_find(struct setup *s, uint32_t to, enum fabric_routing routing)
{
	hops_clear(s, s->hops);
	s->queue[0] = to;
	s->hops[to] = 0;
	if (routing == FABRIC_MIN_HOP) {
		spread(s, s->hops, 1, false);
		return;
	}
	spread(s, s->hops, 1, true);
	memcpy(s->down, s->hops, s->count * sizeof(*s->hops));
	hops_from_above(s);
}

/* ---- Tables --------------------------------------------------------------------------------- */

/* Whether a way to the LID leaves by a cable. */
static bool is_next(const struct setup *s, uint32_t node, uint32_t next,
		    enum fabric_routing routing)
{
	if (next == SETUP_NONE || !is_switch(s, next))
		return false;
	if (routing == FABRIC_MIN_HOP)
		return s->hops[next] != FAR && s->hops[next] + 1 == s->hops[node];
	if (s->down[node] != FAR)
		return s->down[next] != FAR && s->down[next] + 1 == s->down[node] &&
		       is_up(s, next, node);
	return s->hops[next] != FAR && s->hops[next] + 1 == s->hops[node] && is_up(s, node, next);
}

static void lid_route(struct setup *s, uint16_t lid, enum fabric_routing routing)
{
	for (uint32_t node = 0; node < s->count; node++) {
		struct fabric_node *n = node_at(s, node);
		uint32_t best = 0;

		if (n->cfg.type != SM_NODE_SWITCH || s->hops[node] == 0 || s->hops[node] == FAR)
			continue;
		for (uint32_t port = 1; port <= n->cfg.ports; port++) {
			if (is_next(s, node, beyond_at(s, node, port)->node, routing) &&
			    (best == 0 ||
			     s->load[s->first[node] + port] < s->load[s->first[node] + best]))
				best = port;
		}
		if (best == 0)
			continue;
		n->linear[lid] = (uint8_t)best;
		s->load[s->first[node] + best]++;
	}
}

/* The LIDs of a switch, and of what is at its ports. */
static void switch_route(struct setup *s, uint32_t node, enum fabric_routing routing)
{
	struct fabric_node *n = node_at(s, node);

	hops_find(s, node, routing);
	n->linear[n->ports[0].info.lid] = 0;
	lid_route(s, n->ports[0].info.lid, routing);
	for (uint32_t port = 1; port <= n->cfg.ports; port++) {
		const struct beyond *b = beyond_at(s, node, port);
		uint16_t lid;

		if (b->node == SETUP_NONE || is_switch(s, b->node))
			continue;
		lid = node_at(s, b->node)->ports[b->port].info.lid;
		n->linear[lid] = (uint8_t)port;
		lid_route(s, lid, routing);
	}
}

/* ---- Ports ---------------------------------------------------------------------------------- */

/* The first subnet has the default prefix. */
static void lid_give(struct setup *s, uint32_t node, uint32_t port)
{
	struct fabric_node_port *p = &node_at(s, node)->ports[port];
	uint32_t subnet = s->subnet[s->first[node] + port];

	p->info.lid = (uint16_t)++s->lids[subnet];
	p->info.sm_lid = 1;
	p->info.subnet_prefix = prefix_first + (subnet - 1);
}

/* False: LIDs have come to an end. */
static bool node_bring_up(struct setup *s, uint32_t node)
{
	struct fabric_node *n = node_at(s, node);
	bool has_table = n->cfg.type == SM_NODE_SWITCH;

	if (has_table) {
		memset(n->linear, FABRIC_NO_PORT, n->cfg.linear_max);
		lid_give(s, node, 0);
	}
	for (uint32_t port = 1; port <= n->cfg.ports; port++) {
		if (!n->ports[port].is_joined)
			continue;
		if (!has_table)
			lid_give(s, node, port);
		if (s->lids[s->subnet[s->first[node] + port]] >= IBA_LID_MULTICAST_MIN)
			return false;
		n->ports[port].info.state = SM_PORT_ACTIVE;
	}
	fabric_touch(s->f, node);
	return true;
}

static bool tables_fill(struct setup *s, enum fabric_routing routing)
{
	if (routing == FABRIC_UP_DOWN)
		ranks_find(s);
	for (uint32_t node = 0; node < s->count; node++) {
		struct fabric_node *n = node_at(s, node);
		uint32_t top = s->lids[s->subnet[s->first[node]]];

		if (!is_switch(s, node))
			continue;
		if (top >= n->cfg.linear_max)
			return false;
		n->switch_info.life_time = LIFE_TIME;
		n->switch_info.linear_top = (uint16_t)top;
		switch_route(s, node, routing);
	}
	return true;
}

int fabric_setup(struct fabric *f, enum fabric_routing routing)
{
	struct setup s;
	bool is_good = setup_begin(&s, f);

	if (is_good)
		subnets_find(&s);
	for (uint32_t node = 0; is_good && node < s.count; node++)
		is_good = node_bring_up(&s, node);
	is_good = is_good && tables_fill(&s, routing);
	setup_end(&s);
	return is_good ? 0 : -1;
}
