/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of data that cross a fabric where nothing waits: their way is found, and their bytes need
 * not be on it. What a link, a switch and an endnode would ask about such a frame is asked here,
 * and what they would count is counted; credits, numbers and acknowledgements of links stay as they
 * are at both ends, as if the frame had not been there.
 */
#include "base/least.h"
#include "fabric/engine.h"

/* A port that lets the frame pass, if it is not too long. */
static bool passes(const struct engine_node *n, uint32_t port, bool is_out,
		   const struct iba_glance *g, struct fabric_crossing *c)
{
	c->bytes_max = (uint32_t)least(c->bytes_max, fabric_node_bytes_max(&n->agents, port));
	return fabric_node_would_pass(&n->agents, port, is_out, g);
}

/* Nothing is under way or waits, at either end, that comes before the next frame of this lane. */
static bool is_clear(const struct fabric *f, uint32_t end, uint8_t lane)
{
	const struct engine_end *from = &f->ends[end], *to = &f->ends[end ^ 1];

	return fabric_link_is_free(&from->link, lane) && from->link.next == from->link.end &&
	       to->link.is_up && !from->link.out[lane].waiting.first && !to->link.in[lane].head;
}

/* A cable between two nodes here, which neither damages nor delays, nor did so lately. */
static bool is_plain(const struct fabric *f, uint32_t end)
{
	const struct engine_end *from = &f->ends[end];

	return !f->cables[end / 2].is_trunk && !from->is_lossy && from->flit_x16 == 0;
}

/* The output of a switch, and the lane on which the frame leaves there. False: not one alone. */
static bool leave(const struct engine_node *n, uint32_t in, const struct iba_lrh *h, uint32_t *port,
		  uint8_t *lane)
{
	uint64_t outputs = fabric_node_outputs(&n->agents, in, h);

	if (outputs == 0 || outputs & 1 || outputs & (outputs - 1))
		return false;
	*port = (uint32_t)__builtin_ctzll(outputs);
	*lane = fabric_node_lane(&n->agents, in, *port, h->level);
	return *lane != IBA_LANE_MANAGEMENT;
}

static bool has_lid(const struct sm_port_info *info, uint16_t lid)
{
	return info->lid != IBA_LID_NONE && lid >> info->lmc == info->lid >> info->lmc;
}

/* From link to link. False: the frame has to be posted. */
static bool cross(const struct fabric *f, const struct engine_node *n, uint32_t port,
		  const struct iba_glance *g, struct fabric_crossing *c)
{
	while (c->count < FABRIC_CROSSING_LINKS) {
		uint32_t end = n->ports[port].end;
		const struct engine_end *to;

		if (end == ENGINE_NONE || !passes(n, port, true, g, c) || !is_plain(f, end) ||
		    !is_clear(f, end, c->lane))
			return false;
		c->ends[c->count++] = end;
		to = &f->ends[end ^ 1];
		n = &f->nodes[to->node];
		if (!passes(n, to->port, false, g, c) ||
		    c->lane >= fabric_node_lanes(&n->agents, to->port))
			return false;
		c->node = to->node;
		c->port = to->port;
		if (!engine_is_switch(n))
			return n->agents.cfg.type == SM_NODE_CA &&
			       has_lid(&n->agents.ports[to->port].info, g->lrh.to);
		if (!leave(n, to->port, &g->lrh, &port, &c->lane))
			return false;
	}
	return false;
}

bool fabric_crossing_find(const struct fabric *f, const uint8_t *bytes, uint32_t length,
			  struct fabric_crossing *c)
{
	const struct engine_node *n = &f->nodes[c->node];
	const uint32_t port = c->port;
	struct iba_glance g;

	c->bytes_max = UINT32_MAX;
	c->count = 0;
	if (f->seen || f->cfg.cable_ns > 0 || f->cfg.has_vcrc || n->agents.cfg.type != SM_NODE_CA)
		return false;
	if (iba_frame_glance(&g, bytes, length) != WEFT_OK || !g.has_bth ||
	    g.lrh.to >= IBA_LID_MULTICAST_MIN || engine_is_for_agents(bytes, length, &g.lrh))
		return false;
	c->lane = fabric_node_lane(&n->agents, 0, port, g.lrh.level);
	return c->lane != IBA_LANE_MANAGEMENT && cross(f, n, port, &g, c) && length <= c->bytes_max;
}

void fabric_crossing_count(struct fabric *f, const struct fabric_crossing *c, uint64_t frames,
			   uint64_t words, uint64_t flits)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct fabric_link_counts *from = &f->ends[c->ends[i]].link.counts;
		struct fabric_link_counts *to = &f->ends[c->ends[i] ^ 1].link.counts;

		from->frames_sent += frames;
		from->words_sent += words;
		from->flits_sent += flits;
		to->frames_taken += frames;
		to->words_taken += words;
		to->flits_taken += flits;
	}
}
