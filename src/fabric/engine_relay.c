/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/deadline.h"
#include "fabric/engine.h"

static struct engine_end *end_at(struct fabric *f, const struct engine_node *n, uint32_t port)
{
	uint32_t end = n->ports[port].end;

	return end == ENGINE_NONE ? NULL : &f->ends[end];
}

static struct fabric_port_counts *counts_of(struct engine_node *n, uint32_t port)
{
	return &n->agents.ports[port].counts;
}

void engine_ports_learn(struct engine_node *n)
{
	struct fabric_node *a = &n->agents;

	for (uint64_t left = a->stale; left; left &= left - 1) {
		uint32_t port = (uint32_t)__builtin_ctzll(left);
		struct engine_port *p = &n->ports[port];

		p->lanes = (uint8_t)fabric_node_lanes(a, port);
		p->open_bytes = 0;
		if (fabric_node_is_open(a, port))
			p->open_bytes = (uint16_t)fabric_node_bytes_max(a, port);
	}
	a->stale = 0;
}

/* ---- Where to ------------------------------------------------------------------------------- */

bool engine_is_for_agents(const uint8_t *bytes, uint32_t length, const struct iba_lrh *h)
{
	enum { DEST_QP_AT = 5, AGENT_QP_MAX = 1 };
	uint32_t at = IBA_LRH_BYTES + (h->next == IBA_NEXT_GRH ? IBA_GRH_BYTES : 0) + DEST_QP_AT;

	if (h->lane == IBA_LANE_MANAGEMENT)
		return true;
	if (h->next < IBA_NEXT_BTH || at + 3 > length)
		return false;
	return bytes[at] == 0 && bytes[at + 1] == 0 && bytes[at + 2] <= AGENT_QP_MAX;
}

void engine_head_put(struct fabric_frame *fr, const struct iba_lrh *h)
{
	fr->has_head = true;
	fr->is_data = !engine_is_for_agents(fr->data->at, fr->bytes, h);
	fr->to = h->to;
	fr->level = h->level;
}

/* Nodes after the first one that a frame passes need not read it. False: it has no right head. */
static bool head_read(struct fabric_frame *fr)
{
	struct iba_lrh h;

	if (!fr->has_head && fabric_frame_lrh(fr, &h))
		engine_head_put(fr, &h);
	return fr->has_head;
}

struct iba_lrh engine_head_of(const struct fabric_frame *fr)
{
	return (struct iba_lrh){ .lane = fr->lane->number, .level = fr->level, .to = fr->to };
}

/* What is asked about a frame must see the lane that it is on: in its bytes any may be. */
static const uint8_t *bytes_on(struct fabric_frame *fr, uint8_t lane)
{
	iba_lane_put(fr->data->at, lane);
	return fr->data->at;
}

/* A port that looks at no data lets it pass: then the node need not be asked. */
static bool needs_no_look(struct engine_node *n, uint32_t port, const struct fabric_frame *fr)
{
	return fr->is_data && fr->bytes <= engine_port_look(n, port)->open_bytes;
}

static bool is_let_in(struct fabric *f, struct engine_node *n, uint32_t port,
		      struct fabric_frame *fr, const struct iba_lrh *h)
{
	bool is_in;

	if (needs_no_look(n, port, fr))
		return true;
	is_in = fabric_node_lets_in(&n->agents, f->now_ns, port, bytes_on(fr, h->lane), fr->bytes);
	if (n->agents.changed)
		engine_mark_node(f, (uint32_t)(n - f->nodes));
	return is_in;
}

static bool is_let_out(struct fabric *f, struct engine_node *n, uint32_t port,
		       struct fabric_frame *fr)
{
	bool is_out;

	if (!engine_is_switch(n) || needs_no_look(n, port, fr))
		return true;
	is_out = fabric_node_lets_out(&n->agents, f->now_ns, port, bytes_on(fr, fr->out_lane),
				      fr->bytes);
	if (n->agents.changed)
		engine_mark_node(f, (uint32_t)(n - f->nodes));
	return is_out;
}

/* The lane on which it leaves: that which its level has at the first of its ports. */
static void choose_lane(struct engine_node *n, uint32_t port, struct fabric_frame *fr,
			const struct iba_lrh *h)
{
	fr->out_lane = h->lane;
	if (h->lane == IBA_LANE_MANAGEMENT || fr->pending == 0)
		return;
	if (engine_lane_choose(n, port, fr->pending, h->level, &fr->out_lane))
		return;
	fr->pending = 0;
}

/* A frame at a switch that came by a port. */
static void route(struct fabric *f, struct engine_node *n, uint32_t port, struct fabric_frame *fr)
{
	struct iba_lrh h;

	if (fr->is_broken || !head_read(fr)) {
		counts_of(n, port)->receive_errors += !fr->is_broken;
		return;
	}
	h = engine_head_of(fr);
	if (fr->hops > ENGINE_HOPS_MAX) { /* its tables have a loop */
		counts_of(n, port)->transmit_discards++;
		return;
	}
	if (!is_let_in(f, n, port, fr, &h))
		return;
	fr->pending = fabric_node_outputs(&n->agents, port, &h);
	if (fr->pending == 0)
		counts_of(n, port)->relay_errors++;
	if (fr->pending & 1) {
		fr->pending &= ~UINT64_C(1);
		bytes_on(fr, h.lane);
		(void)engine_agent_recv(f, fr->lane->owner, port, fr);
	}
	choose_lane(n, port, fr, &h);
}

bool engine_lane_choose(struct engine_node *n, uint32_t port, uint64_t outputs, uint8_t level,
			uint8_t *lane)
{
	uint32_t out = (uint32_t)__builtin_ctzll(outputs);

	*lane = fabric_node_lane_set(&n->agents, port, out, level);
	if (*lane < engine_port_look(n, out)->lanes)
		return true;
	counts_of(n, out)->transmit_discards++;
	return false;
}

/* ---- The crossbar --------------------------------------------------------------------------- */

/* It has been in a switch for longer than that allows (IBA 18.2.5.4). */
static bool is_old(const struct fabric *f, const struct engine_node *n,
		   const struct fabric_frame *fr)
{
	return engine_is_switch(n) &&
	       deadline_after(fr->tail_ns, engine_life_ns(n->agents.switch_info.life_time)) <
		       f->now_ns;
}

/* True: the frame waits for this output no more. */
static bool give_to(struct fabric *f, struct engine_node *n, uint32_t port, struct fabric_frame *fr)
{
	struct engine_end *out = end_at(f, n, port);

	if (!out || !out->link.is_up || !(out->link.lanes >> fr->out_lane & 1) ||
	    is_old(f, n, fr)) {
		counts_of(n, port)->transmit_discards++;
		return true;
	}
	if (!fabric_link_is_free(&out->link, fr->out_lane))
		return false;
	if (!is_let_out(f, n, port, fr))
		return true;
	fabric_link_give(&out->link, fr->out_lane, fr);
	out->link.out[fr->out_lane].given_ns = f->now_ns;
	engine_mark_end(f, n->ports[port].end);
	return true;
}

/* Gives the frame to the outputs that are free. True: it has been given to all. */
static bool give(struct fabric *f, struct engine_node *n, struct fabric_frame *fr)
{
	for (uint64_t left = fr->pending; left; left &= left - 1) {
		uint32_t port = (uint32_t)__builtin_ctzll(left);

		if (give_to(f, n, port, fr))
			fr->pending &= ~(UINT64_C(1) << port);
	}
	return fr->pending == 0;
}

/* One that goes to several outputs waits for one after the other. */
void engine_relay(struct fabric *f, struct fabric_lane *in)
{
	struct engine_node *n = &f->nodes[in->owner];
	struct engine_end *out;
	struct fabric_frame *fr;

	while (!in->is_waiting && (fr = fabric_lane_head(in))) {
		if (!fr->is_routed) {
			fr->is_routed = true;
			route(f, n, in->port, fr);
		}
		if (give(f, n, fr)) {
			fabric_lane_pass(in);
			continue;
		}
		out = end_at(f, n, (uint32_t)__builtin_ctzll(fr->pending));
		fabric_waiting_add(&out->link.out[fr->out_lane].waiting, in);
	}
}

void engine_relay_freed(struct fabric *f, uint32_t end, uint32_t lane)
{
	struct engine_end *out = &f->ends[end];
	struct fabric_waiting *w = &out->link.out[lane].waiting;

	while (w->first && (!out->link.is_up || fabric_link_is_free(&out->link, (uint8_t)lane))) {
		struct fabric_lane *in = fabric_waiting_pop(w);

		engine_relay(f, in);
	}
}

/* ---- Endnodes ------------------------------------------------------------------------------- */

/*
 * The owner of a port may leave frames on lane 15 where they are. Others wait for that lane, which
 * has the only way to mend a fabric: the oldest one goes (IBA 7.6.3: it has no flow control).
 */
static void management_drop(struct engine_node *n, struct fabric_lane *in)
{
	if (in->number != IBA_LANE_MANAGEMENT || fabric_lane_room(in) >= FABRIC_FRAME_FLITS)
		return;
	counts_of(n, in->port)->vl15_dropped++;
	fabric_lane_pass(in);
}

/* What is for the agents they get at once, whatever waits before it for the owner. */
static void arrived_at_owner(struct fabric *f, struct engine_end *to, struct fabric_lane *in)
{
	struct engine_node *n = &f->nodes[to->node];
	struct fabric_frame *fr = in->last, *head;

	if (fr->is_routed)
		return;
	if (!head_read(fr)) {
		counts_of(n, to->port)->receive_errors++;
		fr->is_routed = fr->is_kept = true;
	} else if (!fr->is_broken && !fr->is_data) {
		fr->is_routed = true;
		bytes_on(fr, in->number);
		fr->is_kept = !engine_agent_recv(f, to->node, to->port, fr);
	}
	if (n->agents.cfg.type == SM_NODE_ROUTER) {
		engine_router_relay(f, in);
		return;
	}
	while ((head = fabric_lane_head(in)) && (head->is_kept || head->is_broken))
		fabric_lane_pass(in);
	if (!head)
		return;
	management_drop(n, in);
	engine_fetch_came(f, n->ports[to->port].owner, fr);
	engine_owner_tell(f, n->ports[to->port].owner);
}

void engine_relay_arrived(struct fabric *f, uint32_t end, uint32_t lane)
{
	struct engine_end *to = &f->ends[end];
	struct fabric_lane *in = &to->link.in[lane];

	if (!in->head || !in->last->is_whole)
		return;
	if (engine_is_switch(&f->nodes[to->node]))
		engine_relay(f, in);
	else
		arrived_at_owner(f, to, in);
}
