/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Trunks: cables of which one end is in another process. What the end here sends leaves as messages
 * (wire/trunk.h), which the caller carries; what comes is taken as if it had come by the cable.
 *
 * Each end counts its lives, and tells which one of the other end it has seen. It is up when the
 * other one has seen its life: then whatever the other end still sent to an earlier one lies before
 * that message, and what it sends now behind.
 */
#include <string.h>

#include "base/check.h"
#include "fabric/engine.h"

static uint32_t end_of(const struct fabric *f, uint32_t cable)
{
	return 2 * cable + f->cables[cable].here;
}

static struct fabric_node_port *port_of(struct fabric *f, uint32_t end)
{
	return &f->nodes[f->ends[end].node].agents.ports[f->ends[end].port];
}

/* ---- Up and down ---------------------------------------------------------------------------- */

static bool wants_link(struct fabric *f, uint32_t cable)
{
	return !f->cables[cable].is_cut && port_of(f, end_of(f, cable))->wants_link;
}

static void down(struct fabric *f, uint32_t end)
{
	if (!f->ends[end].link.is_up)
		return;
	engine_end_down(f, end);
	fabric_node_part(&f->nodes[f->ends[end ^ 1].node].agents, f->ends[end ^ 1].port, f->now_ns);
	engine_waiting_drop(f, end);
}

/* The other end has what it told of itself. */
static void up(struct fabric *f, uint32_t end)
{
	const struct engine_end *here = &f->ends[end], *away = &f->ends[end ^ 1];

	if (fabric_node_join(&f->nodes[here->node].agents, here->port, &f->nodes[away->node].agents,
			     away->port, f->now_ns))
		engine_end_up(f, end);
	f->ends[end].is_lossy |= f->cables[end / 2].peer_damages;
}

static void settle(struct fabric *f, uint32_t cable)
{
	const struct engine_cable *c = &f->cables[cable];
	uint32_t end = end_of(f, cable);
	bool may_be_up = c->is_joined && wants_link(f, cable) && c->peer_wants &&
			 c->peer_seen == c->life;

	if (!may_be_up)
		down(f, end);
	else if (!f->ends[end].link.is_up)
		up(f, end);
}

void engine_trunk_renew(struct fabric *f, uint32_t cable)
{
	struct engine_cable *c = &f->cables[cable];

	c->life++;
	c->owes_link = c->is_joined;
	down(f, end_of(f, cable));
	settle(f, cable);
}

bool fabric_is_here(const struct fabric *f, uint32_t node)
{
	CHECK(node < f->node_count);
	return !f->nodes[node].is_away;
}

bool fabric_is_trunk(const struct fabric *f, uint32_t cable)
{
	CHECK(cable < f->cable_count);
	return f->cables[cable].is_trunk;
}

void fabric_trunk_join(struct fabric *f, uint32_t cable, bool is_joined)
{
	struct engine_cable *c = &f->cables[cable];

	CHECK(fabric_is_trunk(f, cable));
	c->is_joined = is_joined;
	c->peer_wants = false;
	c->peer_life = c->peer_seen = 0;
	engine_trunk_renew(f, cable);
}

/* ---- Out ------------------------------------------------------------------------------------ */

static void link_tell(struct fabric *f, uint32_t cable, struct trunk_message *m)
{
	struct engine_cable *c = &f->cables[cable];
	const struct sm_port_info *info = &port_of(f, end_of(f, cable))->info;

	c->owes_link = false;
	m->kind = TRUNK_LINK;
	m->link = (struct trunk_link){
		.life = c->life,
		.seen = c->peer_life,
		.wants = wants_link(f, cable),
		.damages = f->ends[end_of(f, cable)].one_in_bits > 0,
		.widths = info->width_enabled,
		.speeds = info->speed_enabled,
		.mtu = info->mtu_cap,
		.lanes = info->lane_cap,
	};
}

static void run_tell(const struct fabric_run *r, struct trunk_message *m)
{
	const struct fabric_frame *fr = r->frame;
	struct trunk_run *to = &m->run;
	uint32_t at, end;

	*to = (struct trunk_run){
		.wants_resend = r->wants_resend,
		.wants_ack = r->wants_ack,
		.sequence = r->sequence,
		.credit_lane = r->credit_lane,
		.lane = r->lane,
		.index = r->index,
	};
	m->kind = r->kind == FLIT_ACK ? TRUNK_ACK : TRUNK_RUN;
	if (r->kind == FLIT_ACK) {
		memcpy(to->limits, r->limits, sizeof(to->limits));
		return;
	}
	to->limits[r->credit_lane] = r->limit;
	at = r->index * FLIT_DATA;
	end = at + r->flits * FLIT_DATA;
	to->is_last = fr->is_whole && r->index + r->flits == fr->flits;
	to->hops = fr->hops;
	to->data = fr->data->at + at;
	to->length = (uint16_t)((to->is_last ? fr->bytes : end) - at);
}

bool fabric_trunk_next(struct fabric *f, uint32_t cable, struct trunk_message *m)
{
	struct engine_cable *c = &f->cables[cable];
	uint32_t end = end_of(f, cable);
	struct fabric_run run;

	m->cable = cable;
	if (c->owes_link) {
		link_tell(f, cable, m);
		return true;
	}
	if (!c->has_more)
		return false;
	c->has_more = engine_line_next(f, end, &run);
	if (!c->has_more) {
		engine_line_rest(f, end);
		return false;
	}
	run_tell(&run, m);
	engine_line_sent(f, end, &run);
	return true;
}

/* ---- In ------------------------------------------------------------------------------------- */

static void link_take(struct fabric *f, uint32_t cable, const struct trunk_link *l)
{
	struct engine_cable *c = &f->cables[cable];
	uint32_t end = end_of(f, cable);
	struct sm_port_info *away = &port_of(f, end ^ 1)->info;

	if (l->life != c->peer_life) {
		down(f, end); /* the other end has begun anew */
		c->owes_link = true;
	}
	c->peer_life = l->life;
	c->peer_seen = l->seen;
	c->peer_wants = l->wants;
	c->peer_damages = l->damages;
	f->ends[end].is_lossy |= l->damages;
	engine_mark_end(f, end);
	away->width_enabled = l->widths;
	away->speed_enabled = l->speeds;
	away->mtu_cap = l->mtu;
	away->lane_cap = l->lanes;
	settle(f, cable);
}

static void ack_take(struct fabric *f, uint32_t end, const struct trunk_run *r)
{
	uint64_t one_in_bits = f->ends[end ^ 1].one_in_bits;
	bool is_damaged = engine_line_damages(f, one_in_bits);
	struct fabric_run run = {
		.kind = FLIT_ACK,
		.wants_resend = r->wants_resend,
		.wants_ack = r->wants_ack,
		.sequence = r->sequence,
		.flits = 1,
	};

	memcpy(run.limits, r->limits, sizeof(run.limits));
	if (one_in_bits > 0)
		engine_line_damaged(f, end, 1, is_damaged);
	if (is_damaged)
		engine_line_spoil(f, end);
	else
		fabric_link_take(&f->ends[end].link, f->now_ns, &run);
}

static void run_take(struct fabric *f, uint32_t end, const struct trunk_run *r)
{
	struct fabric_link *l = &f->ends[end].link;
	struct fabric_lane *in = &l->in[r->lane];
	uint32_t flits = flits_of(r->length), damaged = 0;
	uint64_t one_in_bits = f->ends[end ^ 1].one_in_bits;

	for (uint32_t i = 0; i < flits; i++) {
		uint32_t at = i * FLIT_DATA, rest = r->length - at;
		struct flit piece = {
			.kind = FLIT_FRAME,
			.lane = r->lane,
			.credit_lane = r->credit_lane,
			.is_first = r->index + i == 0,
			.is_last = r->is_last && i + 1 == flits,
			.sequence = (uint16_t)(r->sequence + i),
			.data = r->data + at,
			.data_bytes = (uint8_t)(rest < FLIT_DATA ? rest : FLIT_DATA),
		};

		piece.limits[r->credit_lane] = r->limits[r->credit_lane];
		if (engine_line_damages(f, one_in_bits)) {
			engine_line_spoil(f, end);
			damaged++;
			continue;
		}
		fabric_link_take_flit(l, f->now_ns, &piece);
	}
	if (one_in_bits > 0)
		engine_line_damaged(f, end, flits, damaged);
	if (!in->head)
		return;
	in->last->hops = r->hops < UINT8_MAX ? (uint8_t)(r->hops + 1) : UINT8_MAX;
	in->last->tail_ns = f->now_ns;
	engine_relay_arrived(f, end, r->lane);
}

/* A frame that begins to come is shown at this end. */
static void show(struct fabric *f, uint32_t end, const struct trunk_run *r)
{
	uint8_t bytes[IBA_FRAME_MAX];
	struct fabric_seen seen = { .node = f->ends[end].node,
				    .port = f->ends[end].port,
				    .bytes = bytes,
				    .length = r->length };

	if (!f->seen || r->index > 0 || !r->is_last || r->length < IBA_VCRC_BYTES)
		return;
	memcpy(bytes, r->data, r->length);
	iba_lane_put(bytes, r->lane);
	iba_vcrc_put(bytes, r->length);
	f->seen(f->seen_of, &seen);
}

void fabric_trunk_take(struct fabric *f, const struct trunk_message *m)
{
	uint32_t end;

	CHECK(fabric_is_trunk(f, m->cable));
	end = end_of(f, m->cable);
	if (m->kind == TRUNK_LINK) {
		link_take(f, m->cable, &m->link);
		return;
	}
	if (!f->ends[end].link.is_up)
		return;
	if (m->kind == TRUNK_ACK) {
		ack_take(f, end, &m->run);
	} else {
		show(f, end, &m->run);
		run_take(f, end, &m->run);
	}
	engine_mark_end(f, end);
}

/* ---- Ports ---------------------------------------------------------------------------------- */

void fabric_port_tell(const struct fabric *f, uint32_t node, struct trunk_port *p)
{
	const struct fabric_node_port *from = &fabric_node_look(f, node)->ports[p->port];

	p->info = from->info;
	p->info.m_key = 0;
	memcpy(p->guids.guids, from->guids, sizeof(p->guids.guids));
	memcpy(p->pkeys.pkeys, from->pkeys, sizeof(p->pkeys.pkeys));
}

/* Its GUID is that of the topology; what its link can have its end of the cable tells. */
void fabric_port_hear(struct fabric *f, uint32_t node, const struct trunk_port *p)
{
	struct fabric_node_port *to = &f->nodes[node].agents.ports[p->port];
	const struct sm_port_info was = to->info;

	CHECK(!fabric_is_here(f, node) && p->port <= f->nodes[node].agents.cfg.ports);
	to->info = p->info;
	to->info.width_enabled = was.width_enabled;
	to->info.speed_enabled = was.speed_enabled;
	to->info.mtu_cap = was.mtu_cap;
	to->info.lane_cap = was.lane_cap;
	memcpy(to->guids + 1, p->guids.guids + 1, sizeof(to->guids) - sizeof(to->guids[0]));
	memcpy(to->pkeys, p->pkeys.pkeys, sizeof(p->pkeys.pkeys));
}
