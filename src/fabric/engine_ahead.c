/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the next events is fetched while those before them are worked off: no cache holds the
 * state of a large fabric, but it is known which timers are next. Each event is looked at a few
 * times, as it comes nearer: each look needs what the one before has fetched. Nothing changes here,
 * and a wrong guess costs only time.
 */
#include "fabric/engine.h"

/* A compiler may leave out functions that do nothing else: then it must not know that. */
static void fetch(const void *at)
{
	__builtin_prefetch(at, 1);
	__asm__ volatile("");
}

static void end_fetch(const struct engine_end *e)
{
	fetch(&e->link);
	fetch(e->link.sent);
	fetch(&e->link.counts);
	fetch(&e->node);
	fetch(&e->free);
}

/* By which a frame of the first lane is to leave. */
static void out_fetch(const struct engine_end *e)
{
	end_fetch(e);
	fetch(e->link.sending_at);
	fetch(e->link.out);
	fetch(e->link.window);
}

static void node_fetch(const struct engine_node *n)
{
	fetch(&n->agents);
	fetch(&n->agents.ports);
	fetch(&n->agents.linear);
	fetch(&n->agents.changed);
	fetch(&n->ports);
}

/* ---- Looks at an event, the earliest first -------------------------------------------------- */

enum look { LOOK_END, LOOK_FRAME, LOOK_TABLE, LOOK_PORT, LOOK_OUT, LOOKS };

/* The port by which a frame leaves a switch; 0: none is known, or it is at an endnode. */
static uint32_t out_of(const struct fabric_node *n, const struct fabric_frame *fr)
{
	uint8_t port = n->linear && fr->to < n->cfg.linear_max ? n->linear[fr->to] : 0;

	return port <= n->cfg.ports ? port : 0;
}

/* A frame comes, and goes on by a port that the table of a switch has. */
static void frame_look(const struct fabric *f, const struct engine_flight *flight, enum look look)
{
	const struct engine_end *e = &f->ends[flight->timer.of];
	const struct fabric_frame *fr = flight->run.frame;
	const struct engine_node *n;
	uint32_t out;

	if (look == LOOK_END) {
		end_fetch(e);
		fetch(fr);
		fetch(&e->link.in[flight->run.lane]);
		return;
	}
	n = &f->nodes[e->node];
	if (look == LOOK_FRAME) {
		fetch(fr->data);
		node_fetch(n);
	} else if (look == LOOK_TABLE) {
		fetch(&n->ports[e->port]);
		fetch(n->agents.ports); /* of a switch: its own LID */
		if (n->agents.linear && fr->to < n->agents.cfg.linear_max)
			fetch(&n->agents.linear[fr->to]);
	} else {
		out = out_of(&n->agents, fr);
		if (look == LOOK_PORT) {
			fetch(out > 0 ? (const void *)&n->ports[out] : n->ports[e->port].owner);
			fetch(&n->agents.lane_of[(out * (n->agents.cfg.ports + 1) + e->port) *
						 SM_LEVELS]);
		} else if (out > 0 && n->ports[out].end != ENGINE_NONE) {
			out_fetch(&f->ends[n->ports[out].end]);
		}
	}
}

/* Frames of an acknowledgement are given back, and leave room in the lanes where they came in. */
static void ack_look(const struct fabric *f, const struct engine_flight *flight, enum look look)
{
	const struct fabric_link *l = &f->ends[flight->timer.of].link;
	uint16_t count;

	if (look == LOOK_END)
		end_fetch(&f->ends[flight->timer.of]);
	if (look == LOOK_END)
		return;
	count = (uint16_t)(l->run_end - l->run_begin);
	count = count < FABRIC_ACK_FLITS ? count : FABRIC_ACK_FLITS;
	for (uint16_t i = 0; i < count; i++) {
		const struct fabric_sent *s = &l->window[(l->run_begin + i) % FABRIC_RUNS];

		if (look == LOOK_FRAME)
			fetch(s);
		else if (look == LOOK_TABLE)
			fetch(s->frame);
		else if (look == LOOK_PORT)
			fetch(s->frame->data);
		else if (s->frame->lane->kind == ENGINE_IN)
			end_fetch(engine_end_with(s->frame->lane));
		if (look == LOOK_PORT)
			fetch(s->frame->lane);
	}
}

/* A line is free for what waits for it. */
static void free_look(const struct engine_end *e, enum look look)
{
	const struct fabric_out *out;

	if (look == LOOK_END) {
		out_fetch(e);
		return;
	}
	if (!e->link.sending_lanes)
		return;
	out = &e->link.out[__builtin_ctz(e->link.sending_lanes)];
	if (look == LOOK_FRAME)
		fetch(out);
	else if (look == LOOK_TABLE)
		fetch(out->sending);
}

static void timer_look(const struct fabric *f, const struct wheel_timer *t, enum look look)
{
	switch ((enum engine_timer)t->kind) {
	case ENGINE_FLIGHT:
		frame_look(f, CONTAINER_OF(t, const struct engine_flight, timer), look);
		break;
	case ENGINE_ACK:
		ack_look(f, CONTAINER_OF(t, const struct engine_flight, timer), look);
		break;
	case ENGINE_FREE:
	case ENGINE_LINK:
		free_look(&f->ends[t->of], look);
		break;
	case ENGINE_AGE:
	case ENGINE_NODE:
		break;
	}
}

void engine_look_ahead(const struct fabric *f)
{
	const struct wheel_timer *t = wheel_next(f->wheel, f->is_large);

	for (uint32_t look = LOOKS; t && look > 0; look--) {
		timer_look(f, t, (enum look)(look - 1));
		t = f->is_large ? wheel_after(f->wheel, t) : t->next;
	}
	if (t)
		fetch(t);
}

/* ---- Owners --------------------------------------------------------------------------------- */

void engine_fetch_came(const struct fabric *f, const struct engine_owner *o,
		       const struct fabric_frame *fr)
{
	fetch(&f->nodes[o->node].agents.ports[o->port].info);
	fetch(&o->local);
	fetch(fr->data->at);
	fetch(fr->data->at + fr->bytes - 1);
}

/* The owner that is told next, and the one after that. */
void engine_fetch_ready(const struct fabric *f)
{
	const struct engine_owner *o = f->ready_first;
	const struct engine_node *n;

	if (!o)
		return;
	n = &f->nodes[o->node];
	fetch(&n->ports[o->port]);
	if (n->ports[o->port].end != ENGINE_NONE)
		end_fetch(&f->ends[n->ports[o->port].end]);
	if (!o->next_ready)
		return;
	fetch(o->next_ready);
	fetch(&o->next_ready->local);
}

void fabric_fetch(const struct fabric *f, uint32_t node, uint32_t port, bool is_near)
{
	const struct engine_node *n = &f->nodes[node];
	const struct engine_owner *o;

	if (!is_near) {
		node_fetch(n);
		return;
	}
	o = n->ports[port].owner;
	fetch(o);
	fetch(&o->local);
	fetch(o->posts);
	fetch(&n->agents.ports[port].info);
	fetch(n->agents.lane_of);
	if (n->ports[port].end != ENGINE_NONE)
		out_fetch(&f->ends[n->ports[port].end]);
}
