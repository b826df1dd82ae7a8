/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parts tell each other of ports that have addresses: LIDs, GIDs and P_Keys, by which programs find
 * nodes of other parts. Each tells of its own nodes, and passes on what it hears. The serial number
 * of what is told begins with the time, so that a part that begins anew is believed.
 */
#include <stdlib.h>

#include "driver/sys/clock.h"
#include "fabric/node.h"
#include "roles/fabric_trunks_inside.h"

static bool has_address(const struct fabric *f, uint32_t node, uint32_t port)
{
	const struct fabric_node_cfg *cfg = &fabric_node_look(f, node)->cfg;

	return cfg->type == SM_NODE_SWITCH ? port == 0 : port > 0 && port <= cfg->ports;
}

static struct trunk_known *known_at(const struct fabric_trunks *t, uint32_t node, uint32_t port)
{
	return &t->known[t->first_port[node] + port];
}

static uint64_t bit(uint32_t part)
{
	return UINT64_C(1) << part;
}

/* To all parts that are joined but one. */
static void spread(struct fabric_trunks *t, struct trunk_known *k, uint32_t but)
{
	for (uint32_t part = 0; part < t->config.cut->parts->part_count; part++) {
		struct trunk_peer *p = &t->peers[part];

		if (part == but || !p->line || p->line->state != TRUNK_UP)
			continue;
		k->pending |= bit(part);
		p->has_news = true;
	}
}

bool trunk_ports_open(struct fabric_trunks *t)
{
	const struct fabric *f = t->config.fabric;
	uint32_t nodes = fabric_node_count(f), ports = 0;

	t->first_port = calloc(nodes + 1U, sizeof(*t->first_port));
	for (uint32_t node = 0; t->first_port && node < nodes; node++) {
		t->first_port[node] = ports;
		ports += fabric_node_look(f, node)->cfg.ports + 1;
	}
	t->known = calloc(ports + 1U, sizeof(*t->known));
	if (!t->first_port || !t->known)
		return false;
	for (uint32_t node = 0; node < nodes; node++) {
		for (uint32_t port = 0; port <= fabric_node_look(f, node)->cfg.ports; port++) {
			if (fabric_is_here(f, node) && has_address(f, node, port))
				known_at(t, node, port)->serial = time_of_day_ns();
		}
	}
	return true;
}

void fabric_trunks_changed(struct fabric_trunks *t, uint32_t node, uint32_t port)
{
	struct trunk_known *k = known_at(t, node, port);
	uint64_t now = time_of_day_ns();

	if (!has_address(t->config.fabric, node, port))
		return;
	k->serial = now > k->serial ? now : k->serial + 1;
	spread(t, k, FABRIC_PART_NONE);
}

bool fabric_trunks_knows(const struct fabric_trunks *t, uint32_t node, uint32_t port)
{
	return known_at(t, node, port)->serial > 0;
}

void trunk_ports_joined(struct fabric_trunks *t, uint32_t part)
{
	const struct fabric *f = t->config.fabric;

	for (uint32_t node = 0; node < fabric_node_count(f); node++) {
		for (uint32_t port = 0; port <= fabric_node_look(f, node)->cfg.ports; port++) {
			if (known_at(t, node, port)->serial > 0)
				known_at(t, node, port)->pending |= bit(part);
		}
	}
	t->peers[part].has_news = true;
}

/* From others: of a part that is joined with this one none but itself is believed. */
static bool is_heard_of(const struct fabric_trunks *t, uint32_t node)
{
	uint32_t of = t->config.cut->part_of[node];

	return of != t->config.cut->self &&
	       (!t->peers[of].line || t->peers[of].line->state != TRUNK_UP);
}

enum weft_reason trunk_port_take(struct fabric_trunks *t, uint32_t part,
				 const struct trunk_message *m)
{
	uint32_t node = m->cable;
	struct trunk_known *k;

	if (node >= fabric_node_count(t->config.fabric) ||
	    !has_address(t->config.fabric, node, m->port.port))
		return WEFT_R_TRUNK_FORM;
	k = known_at(t, node, m->port.port);
	/* A part tells of its own nodes in order; what another one passes on may be late. */
	if (t->config.cut->part_of[node] != part &&
	    (m->port.serial <= k->serial || !is_heard_of(t, node)))
		return WEFT_OK;
	k->serial = m->port.serial;
	fabric_port_hear(t->config.fabric, node, &m->port);
	spread(t, k, part);
	return WEFT_OK;
}

/* The next port of a node that is to be told. */
static bool port_next(struct fabric_trunks *t, uint32_t part, uint32_t node,
		      struct trunk_message *m)
{
	const struct fabric *f = t->config.fabric;

	for (uint32_t port = 0; port <= fabric_node_look(f, node)->cfg.ports; port++) {
		struct trunk_known *k = known_at(t, node, port);

		if (!(k->pending & bit(part)))
			continue;
		k->pending &= ~bit(part);
		m->kind = TRUNK_PORT;
		m->cable = node;
		m->port.serial = k->serial;
		m->port.port = (uint8_t)port;
		fabric_port_tell(f, node, &m->port);
		return true;
	}
	return false;
}

bool trunk_port_next(struct fabric_trunks *t, uint32_t part, struct trunk_message *m)
{
	struct trunk_peer *p = &t->peers[part];
	uint32_t nodes = fabric_node_count(t->config.fabric);

	if (!p->has_news)
		return false;
	for (uint32_t i = 0; i < nodes; i++) {
		if (port_next(t, part, p->news_at, m))
			return true;
		p->news_at = (p->news_at + 1) % nodes;
	}
	p->has_news = false;
	return false;
}
