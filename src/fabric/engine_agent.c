/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "base/check.h"
#include "fabric/engine.h"

/* ---- Owners --------------------------------------------------------------------------------- */

static struct engine_owner *owner_of(const struct fabric *f, uint32_t node, uint32_t port)
{
	CHECK(node < f->node_count && port <= f->nodes[node].agents.cfg.ports);
	return f->nodes[node].ports[port].owner;
}

void engine_owner_tell(struct fabric *f, struct engine_owner *o)
{
	if (o->is_ready)
		return;
	o->is_ready = true;
	o->next_ready = NULL;
	if (f->ready_first)
		f->ready_last->next_ready = o;
	else
		f->ready_first = o;
	f->ready_last = o;
}

bool fabric_ready(struct fabric *f, uint32_t *node, uint32_t *port)
{
	struct engine_owner *o = f->ready_first;

	if (!o)
		return false;
	f->ready_first = o->next_ready;
	engine_fetch_ready(f);
	o->is_ready = false;
	*node = o->node;
	*port = o->port;
	return true;
}

void engine_owner_room(struct fabric *f, struct fabric_lane *lane)
{
	struct engine_owner *o = owner_of(f, lane->owner, lane->port);

	lane->is_watched = false;
	if (!o->wants_room)
		return;
	o->wants_room = false;
	engine_owner_tell(f, o);
	if (f->nodes[o->node].agents.cfg.type == SM_NODE_ROUTER)
		engine_router_resume(f, o->node);
}

/* ---- What agents and owners send ------------------------------------------------------------ */

static void drop_count(struct engine_node *n, uint32_t port, uint8_t lane)
{
	struct fabric_port_counts *c = &n->agents.ports[port].counts;

	if (lane == IBA_LANE_MANAGEMENT)
		c->vl15_dropped++;
	else
		c->qp1_dropped++;
}

/* False: dropped, as the owner leaves its frames where they are. */
static bool local_put(struct fabric *f, uint32_t node, uint32_t port, const uint8_t *bytes,
		      uint32_t length)
{
	struct engine_owner *o = owner_of(f, node, port);

	if (!o || !fabric_lane_put(&o->local, bytes, length))
		return false;
	o->local.last->is_routed = true; /* the agents have seen it */
	engine_owner_tell(f, o);
	return true;
}

static uint64_t bit(uint32_t port)
{
	return UINT64_C(1) << port;
}

/*
 * A frame of the node's, or of an owner, goes on from `lane`. False: there is no room in it, or no
 * such lane of the link.
 */
static bool send_from(struct fabric *f, uint32_t node, struct fabric_lane *lane,
		      const struct fabric_way *way, const uint8_t *bytes)
{
	struct engine_node *n = &f->nodes[node];
	struct fabric_frame *fr;
	uint64_t outputs = bit(way->port);
	uint8_t out_lane = IBA_LANE_MANAGEMENT;
	struct iba_lrh h;

	if (iba_lrh_decode(&h, bytes, way->length) != WEFT_OK)
		return false;
	if (way->to == FABRIC_TO_SUBNET && engine_is_switch(n))
		outputs = fabric_node_outputs(&n->agents, 0, &h);
	if ((outputs & 1) && !local_put(f, node, 0, bytes, way->length))
		drop_count(n, 0, h.lane);
	outputs &= ~UINT64_C(1);
	if (outputs == 0)
		return true;
	if (h.lane != IBA_LANE_MANAGEMENT && !engine_lane_choose(n, 0, outputs, h.level, &out_lane))
		return true;
	if (!fabric_lane_put(lane, bytes, way->length))
		return false;
	fr = lane->last;
	engine_head_put(fr, &h);
	fr->is_routed = true;
	fr->pending = outputs;
	fr->out_lane = out_lane;
	fr->tail_ns = f->now_ns;
	engine_relay(f, lane);
	return true;
}

/* What the node's agents have made of a frame, or send on their own, in `bytes`. */
static void agent_send(struct fabric *f, uint32_t node, const struct fabric_way *way,
		       const uint8_t *bytes)
{
	struct engine_node *n = &f->nodes[node];
	bool is_sent = true;

	if (way->to == FABRIC_TO_OWNER)
		is_sent = local_put(f, node, way->port, bytes, way->length);
	else if (way->to != FABRIC_TO_NOWHERE)
		is_sent = send_from(f, node, &n->lane, way, bytes);
	if (!is_sent)
		drop_count(n, way->port, iba_lane(bytes));
	engine_mark_node(f, node);
}

/* Subnet management does not: it looks at no counter, and a fabric of many ports has many. */
static bool needs_counts(const uint8_t *bytes)
{
	return iba_lane(bytes) != IBA_LANE_MANAGEMENT;
}

bool engine_agent_recv(struct fabric *f, uint32_t node, uint32_t port,
		       const struct fabric_frame *frame)
{
	bool is_endnode = !engine_is_switch(&f->nodes[node]);
	struct fabric_way way;

	memcpy(f->scratch, frame->data->at, frame->bytes);
	if (needs_counts(f->scratch))
		engine_counts_settle(f, node);
	way = fabric_node_recv(&f->nodes[node].agents, f->now_ns, port, f->scratch, frame->bytes);
	if (is_endnode && way.to == FABRIC_TO_OWNER && way.port == port &&
	    memcmp(f->scratch, frame->data->at, frame->bytes) == 0)
		return true;
	agent_send(f, node, &way, f->scratch);
	return false;
}

void engine_arbiter_set(struct fabric *f, uint32_t end)
{
	struct engine_end *e = &f->ends[end];

	fabric_arbiter_copy(&e->link.arbiter, &f->nodes[e->node].agents.ports[e->port].arbiter);
}

/* Agents send little on their own; what changes takes a link down, and nothing else. */
void engine_agent_work(struct fabric *f, uint32_t node)
{
	struct engine_node *n = &f->nodes[node];
	struct fabric_way way;
	uint32_t port, changes;
	uint64_t due_ns;

	while ((way = fabric_node_next(&n->agents, f->now_ns, f->scratch)).to != FABRIC_TO_NOWHERE)
		agent_send(f, node, &way, f->scratch);
	while ((changes = fabric_node_changes(&n->agents, &port))) {
		uint32_t end = n->ports[port].end;

		f->change_count += n->ports[port].changes == 0;
		n->ports[port].changes = (uint8_t)(n->ports[port].changes | changes);
		n->changed |= bit(port);
		if (end == ENGINE_NONE)
			continue;
		engine_mark_end(f, end);
		if (changes & FABRIC_CHANGE_LANES)
			engine_arbiter_set(f, end);
		if (changes & FABRIC_CHANGE_LINK)
			engine_link_renew(f, end / 2);
	}
	due_ns = fabric_node_due(&n->agents);
	if (due_ns == UINT64_MAX)
		wheel_cancel(f->wheel, &n->due);
	else
		wheel_set(f->wheel, &n->due, due_ns);
}

bool fabric_changed(struct fabric *f, uint32_t *node, uint32_t *port, uint32_t *changes)
{
	struct engine_node *n;

	if (f->change_count == 0)
		return false;
	while (f->nodes[f->change_at].changed == 0)
		f->change_at = (f->change_at + 1) % f->node_count;
	n = &f->nodes[f->change_at];
	*node = f->change_at;
	*port = (uint32_t)__builtin_ctzll(n->changed);
	*changes = n->ports[*port].changes;
	n->ports[*port].changes = 0;
	n->changed &= n->changed - 1;
	f->change_count--;
	return true;
}

/* ---- Posting -------------------------------------------------------------------------------- */

/* Whatever the agents make of it, there is room for it. */
static bool has_room(struct engine_owner *o, struct fabric_lane *lane, uint32_t flits)
{
	if (fabric_lane_room(lane) >= flits && fabric_lane_room(&o->local) >= flits)
		return true;
	lane->is_watched = o->local.is_watched = true;
	o->wants_room = true;
	return false;
}

/* What a node makes of a frame of an owner; agents write into a copy. */
static struct fabric_way node_post(struct fabric *f, const struct engine_owner *o,
				   const struct iba_lrh *h, const uint8_t **bytes, uint32_t length)
{
	struct engine_node *n = &f->nodes[o->node];
	uint32_t node = o->node, port = o->port;

	if (!engine_is_for_agents(*bytes, length, h))
		return fabric_node_post_data(&n->agents, port, *bytes, length);
	if (needs_counts(*bytes))
		engine_counts_settle(f, node);
	memcpy(f->scratch, *bytes, length);
	*bytes = f->scratch;
	return fabric_node_post(&n->agents, f->now_ns, port, f->scratch, length);
}

bool fabric_post(struct fabric *f, uint32_t node, uint32_t port, const uint8_t *bytes,
		 uint32_t length)
{
	struct engine_owner *o = owner_of(f, node, port);
	struct engine_node *n = &f->nodes[node];
	struct fabric_lane *lane;
	struct fabric_way way;
	struct iba_lrh h;
	uint8_t number;

	CHECK(o);
	if (iba_lrh_decode(&h, bytes, length) != WEFT_OK)
		return true;
	number = h.lane;
	if (number != IBA_LANE_MANAGEMENT && port > 0)
		number = fabric_node_lane(&n->agents, 0, port, h.level);
	lane = &o->posts[number];
	if (lane->blocks_max == 0)
		lane = &o->posts[0];
	if (!has_room(o, lane, flits_of(length)))
		return false;
	way = node_post(f, o, &h, &bytes, length);
	if (way.to == FABRIC_TO_OWNER)
		(void)local_put(f, node, way.port, bytes, way.length);
	else if (way.to != FABRIC_TO_NOWHERE)
		(void)send_from(f, node, lane, &way, bytes);
	if (n->agents.changed || way.to != FABRIC_TO_SUBNET)
		engine_mark_node(f, node);
	return true;
}

/* ---- Taking --------------------------------------------------------------------------------- */

/*
 * The next one that neither the agents kept nor a cable broke; of a router's, that is not on its
 * way to another subnet.
 */
static struct fabric_frame *next_of(const struct fabric *f, struct fabric_lane *lane)
{
	bool is_routers = f->nodes[lane->owner].agents.cfg.type == SM_NODE_ROUTER;
	struct fabric_frame *fr;

	while ((fr = fabric_lane_head(lane)) && (fr->is_kept || fr->is_broken))
		fabric_lane_pass(lane);
	return fr && is_routers && !fr->is_routed ? NULL : fr;
}

static struct fabric_frame *next_for(struct fabric *f, struct engine_owner *o)
{
	uint32_t end = f->nodes[o->node].ports[o->port].end;
	struct fabric_link *l = end == ENGINE_NONE || o->port == 0 ? NULL : &f->ends[end].link;
	uint32_t left = l ? l->used_lanes & ~(UINT32_C(1) << IBA_LANE_MANAGEMENT) : 0;
	struct fabric_frame *fr = NULL;

	if (l && l->used_lanes >> IBA_LANE_MANAGEMENT & 1)
		fr = next_of(f, &l->in[IBA_LANE_MANAGEMENT]);
	if (!fr)
		fr = next_of(f, &o->local);
	while (!fr && left) {
		uint32_t lane = 31 - (uint32_t)__builtin_clz(left);

		fr = next_of(f, &l->in[lane]);
		left &= ~(UINT32_C(1) << lane);
	}
	return fr;
}

/* What a node makes of a frame that has come; agents write into a copy. True: it is the owner's. */
static bool node_recv(struct fabric *f, uint32_t node, uint32_t port, const struct fabric_frame *fr)
{
	struct engine_node *n = &f->nodes[node];
	const uint8_t *bytes = fr->data->at;
	uint32_t length = fr->bytes;
	struct fabric_way way;
	struct iba_lrh h = engine_head_of(fr);

	if (fr->has_head && fr->is_data && fabric_node_is_owners(&n->agents, port, &h, length))
		return true;
	if (iba_lrh_decode(&h, bytes, length) == WEFT_OK &&
	    !engine_is_for_agents(bytes, length, &h)) {
		way = fabric_node_recv_data(&n->agents, port, bytes, length);
		if (n->agents.changed)
			engine_mark_node(f, node);
		return way.to == FABRIC_TO_OWNER;
	}
	memcpy(f->scratch, bytes, length);
	way = fabric_node_recv(&n->agents, f->now_ns, port, f->scratch, length);
	if (n->agents.changed)
		engine_mark_node(f, node);
	if (way.to == FABRIC_TO_OWNER && way.port == port)
		return true;
	agent_send(f, node, &way, f->scratch);
	return false;
}

static void take_last(struct fabric *f, struct fabric_lane *lane)
{
	fabric_lane_pass(lane);
	if (lane->kind == ENGINE_IN && f->nodes[lane->owner].agents.cfg.type == SM_NODE_ROUTER)
		engine_router_relay(f, lane); /* what waited behind it */
}

uint32_t fabric_peek(struct fabric *f, uint32_t node, uint32_t port, const uint8_t **bytes)
{
	struct engine_owner *o = owner_of(f, node, port);
	struct fabric_frame *fr;

	CHECK(o);
	while ((fr = next_for(f, o))) {
		*bytes = fabric_frame_bytes(fr, f->cfg.has_vcrc);
		o->peeked = fr->lane;
		if (fr->is_routed)
			return fr->bytes;
		fr->is_routed = true;
		if (node_recv(f, node, port, fr))
			return fr->bytes;
		take_last(f, fr->lane);
	}
	o->peeked = NULL;
	return 0;
}

void fabric_pass(struct fabric *f, uint32_t node, uint32_t port)
{
	struct engine_owner *o = owner_of(f, node, port);
	struct fabric_lane *lane = o->peeked;

	CHECK(lane);
	o->peeked = NULL;
	take_last(f, lane);
}

uint8_t *fabric_room(struct fabric *f)
{
	return fabric_pool_room(&f->pool);
}

/* ---- Counters ------------------------------------------------------------------------------- */

/* IBA 14.2.5.6, OverrunErrors: so many before they count as one error. */
static void overruns_settle(struct fabric_node *n, struct engine_end *e)
{
	uint64_t overruns = e->link.counts.overruns;

	if (overruns - e->overruns_settled <= n->ports[e->port].info.overrun_errors)
		return;
	e->overruns_settled = overruns;
	fabric_node_error(n, e->port, FABRIC_ERROR_OVERRUN);
}

static void counts_put(struct fabric_node *n, struct engine_end *e)
{
	const struct fabric_link_counts *from = &e->link.counts;
	struct fabric_port_counts *to = &n->ports[e->port].counts;
	uint64_t errors = from->malformed + from->broken;

	to->receive_errors += errors - e->errors_settled;
	to->transmit_discards += from->frames_lost - e->losses_settled;
	e->errors_settled = errors;
	e->losses_settled = from->frames_lost;
	overruns_settle(n, e);
	to->transmit_data = from->words_sent;
	to->receive_data = from->words_taken;
	to->transmit_packets = from->frames_sent;
	to->receive_packets = from->frames_taken;
	to->multicast_transmit = from->multicast_sent;
	to->multicast_receive = from->multicast_taken;
	to->unicast_transmit = from->frames_sent - from->multicast_sent;
	to->unicast_receive = from->frames_taken - from->multicast_taken;
	to->symbol_errors = from->damaged;
	to->link_recoveries = from->recovers;
	to->transmit_wait = from->waits;
}

void engine_counts_settle(struct fabric *f, uint32_t node)
{
	struct engine_node *n = &f->nodes[node];

	for (uint32_t port = 1; port <= n->agents.cfg.ports; port++)
		if (n->ports[port].end != ENGINE_NONE)
			counts_put(&n->agents, &f->ends[n->ports[port].end]);
}
