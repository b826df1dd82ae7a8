/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routers (FAB-16): a frame that comes to a router's LID with a global header for another subnet
 * leaves by the port that is in that subnet, by a new local header and with one hop less. Which LID
 * a GID has, a router is not told by IBA; here all nodes are in one process, and are asked.
 */
#include <string.h>

#include "fabric/engine.h"

enum { HOP_LIMIT_AT = IBA_LRH_BYTES + 7 };

/* ---- Whose GID it is ------------------------------------------------------------------------ */

static uint64_t half_of(const uint8_t gid[IBA_GID_BYTES], uint32_t at)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < 8; i++)
		value = value << 8 | gid[at + i];
	return value;
}

static bool has_guid(const struct fabric_node_port *p, uint64_t guid)
{
	for (uint32_t i = 0; i < FABRIC_GUIDS; i++)
		if (p->guids[i] == guid)
			return true;
	return false;
}

static bool is_found(const struct fabric *f, const struct engine_found *found, uint64_t prefix,
		     uint64_t guid)
{
	const struct fabric_node_port *p = &f->nodes[found->node].agents.ports[found->port];

	return guid != 0 && found->guid == guid && p->info.subnet_prefix == prefix &&
	       has_guid(p, guid);
}

/* The LID of the port that has a GID; 0: none has it. */
static uint16_t lid_find(struct fabric *f, uint64_t prefix, uint64_t guid)
{
	struct engine_found *found = &f->found[prng_mix(guid) % ENGINE_FOUND];

	if (is_found(f, found, prefix, guid))
		return f->nodes[found->node].agents.ports[found->port].info.lid;
	for (uint32_t node = 0; node < f->node_count; node++) {
		uint32_t last = engine_is_switch(&f->nodes[node]) ? 0
								  : f->nodes[node].agents.cfg.ports;

		for (uint32_t port = last > 0; port <= last; port++) {
			*found = (struct engine_found){ .guid = guid, .node = node, .port = port };
			if (is_found(f, found, prefix, guid))
				return f->nodes[node].agents.ports[port].info.lid;
		}
	}
	found->guid = 0;
	return 0;
}

/* ---- Frames --------------------------------------------------------------------------------- */

enum verdict { PASSED, WAITS, FOR_OWNER };

/* The other port that is in a subnet; 0: none is. */
static uint32_t port_in(const struct engine_node *n, uint32_t from, uint64_t prefix)
{
	for (uint32_t port = 1; port <= n->agents.cfg.ports; port++)
		if (port != from && n->agents.ports[port].is_joined &&
		    n->agents.ports[port].info.subnet_prefix == prefix)
			return port;
	return 0;
}

static enum verdict drop(struct engine_node *n, uint32_t port)
{
	n->agents.ports[port].counts.relay_errors++;
	return PASSED;
}

/* Its bytes are in `transit`; what changes is not covered by its ICRC. */
static enum verdict forward(struct fabric *f, const struct fabric_lane *in, struct iba_lrh *h,
			    uint32_t length)
{
	struct engine_node *n = &f->nodes[in->owner];
	struct iba_grh grh;
	uint64_t prefix, guid;
	uint32_t out;

	if (h->next != IBA_NEXT_GRH || iba_grh_decode(&grh, f->transit + IBA_LRH_BYTES) != WEFT_OK)
		return FOR_OWNER;
	prefix = half_of(grh.to, 0);
	guid = half_of(grh.to, 8);
	if (prefix == n->agents.ports[in->port].info.subnet_prefix &&
	    has_guid(&n->agents.ports[in->port], guid))
		return FOR_OWNER;
	out = port_in(n, in->port, prefix);
	h->to = lid_find(f, prefix, guid);
	if (out == 0 || h->to == 0 || grh.hop_limit <= 1)
		return drop(n, in->port);
	h->from = n->agents.ports[out].info.lid;
	h->lane = 0;
	iba_lrh_encode(h, f->transit);
	f->transit[HOP_LIMIT_AT]--;
	return fabric_post(f, in->owner, out, f->transit, length) ? PASSED : WAITS;
}

static enum verdict judge(struct fabric *f, const struct fabric_lane *in, struct fabric_frame *fr)
{
	struct engine_node *n = &f->nodes[in->owner];
	struct fabric_way way;
	enum verdict verdict;
	struct iba_lrh h;

	if (fr->is_kept || fr->is_broken)
		return PASSED;
	if (fr->is_routed || !fabric_frame_lrh(fr, &h))
		return FOR_OWNER;
	fabric_frame_copy(fr, false, f->transit);
	way = fabric_node_recv(&n->agents, f->now_ns, in->port, f->transit, fr->bytes);
	if (n->agents.changed)
		engine_mark_node(f, in->owner);
	if (way.to != FABRIC_TO_OWNER)
		return PASSED;
	verdict = forward(f, in, &h, fr->bytes);
	fr->is_routed = verdict == FOR_OWNER;
	return verdict;
}

void engine_router_relay(struct fabric *f, struct fabric_lane *in)
{
	struct fabric_frame *fr;

	while ((fr = fabric_lane_head(in))) {
		enum verdict verdict = judge(f, in, fr);

		if (verdict == FOR_OWNER)
			engine_owner_tell(f, f->nodes[in->owner].ports[in->port].owner);
		if (verdict != PASSED)
			return;
		fabric_lane_pass(in);
	}
}

void engine_router_resume(struct fabric *f, uint32_t node)
{
	struct engine_node *n = &f->nodes[node];

	for (uint32_t port = 1; port <= n->agents.cfg.ports; port++)
		for (uint32_t lane = 0; n->ports[port].end != ENGINE_NONE && lane < FLIT_LANES;
		     lane++)
			engine_router_relay(f, &f->ends[n->ports[port].end].link.in[lane]);
}
