/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/card/card_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/roce_node.h"
#include "sim/world/swarm.h"

enum {
	US = 1000,
	MS = 1000 * US,
	EVENTS_MAX = 4096,
	TRACE_EVENTS = 1 << 16,
	STEPS_MAX = 3000000,
	REST_GAP_NS = 2 * MS,
	POOL_GRAIN = 64,
	PACKET_PIECES = 32,
	PACKET_LEAST = 64
};

/* To come to rest: a peer that died is missed by a PING, sent again and again. */
static const uint64_t rest_max_ns = UINT64_C(60) * 1000 * MS;
static const uint64_t settle_ns = 20 * MS;
static const uint64_t idle_ns = UINT64_C(3) * 1000 * MS;

void cdw_fail(struct card_world *w, const char *format, ...)
{
	va_list args;

	if (w->failure[0])
		return;
	va_start(args, format);
	vsnprintf(w->failure, sizeof(w->failure), format, args);
	va_end(args);
}

void cdw_trace(struct card_world *w, enum cdw_trace kind, uint32_t who, uint64_t a, uint64_t b)
{
	trace_add(&w->world.trace,
		  (struct trace_event){ .kind = (uint16_t)kind, .who = who, .a = a, .b = b });
}

void cdw_trace_reason(const struct cdw_end *e, enum cdw_trace kind, uint64_t a,
		      enum weft_reason reason)
{
	trace_add(&e->world->world.trace, (struct trace_event){ .kind = (uint16_t)kind,
								.who = e->index,
								.a = a,
								.reason = (uint16_t)reason });
}

/* ---- What the seed draws --------------------------------------------------------------------- */

static void wire_draw(struct card_world *w, const struct cdw_choice *c)
{
	struct prng *p = &w->world.prng;
	struct cdw_limits *l = &w->limits;
	uint32_t kind = cdw_draw(w, 10);

	l->wire = kind < 6 ? CDW_ROCE : CDW_IWARP;
	l->mode = kind < 2 ? PUSH_MODE_SEND : PUSH_MODE_RDMA;
	l->model = (enum cdw_model)ANY_OF(p, CDW_PUSH_PUSH, CDW_PUSH_PUSH, CDW_PUSH_PUSH,
					  CDW_PUSH_PULL, CDW_PULL_PULL);
	l->is_calm = cdw_draw(w, 8) == 0;
	if (c && c->has_wire)
		l->wire = c->wire;
	if (c && c->has_mode)
		l->mode = c->mode;
	if (c && c->has_model)
		l->model = c->model;
	l->is_plain = c && c->is_plain;
	l->is_hostile = c && c->is_hostile;
	l->is_calm |= l->is_plain || (c && c->is_calm);
	if (l->mode == PUSH_MODE_SEND)
		l->model = CDW_PUSH_PUSH; /* there are no elements to ask for */
	if (l->wire == CDW_ROCE)
		l->faults = roce_draw_faults(p);
	else
		sim_faults_draw(p, &l->faults);
	l->corrupt_ppm = cdw_draw(w, 3) == 0 ? (uint32_t)ANY_OF(p, 100, 1000, 10000) : 0;
	l->pipe_bytes = (uint32_t)ANY_OF(p, 2048, 65536, 262144);
	l->mtu_bytes = (uint32_t)ANY_OF(p, 256, 1024, 4096);
	l->timeout_code = (uint8_t)ANY_OF(p, 12, 14, 16);
}

static void card_draw(struct card_world *w)
{
	struct prng *p = &w->world.prng;
	struct cdw_limits *l = &w->limits;

	l->features = ANY_OF(p, 0, PUSH_FEATURE_NET_HEADER, PUSH_FEATURES);
	l->mtu = (uint16_t)ANY_OF(p, PUSH_MTU_MIN, 1500, 1500, PUSH_MTU_MAX);
	l->inline_bytes = (uint32_t)ANY_OF(p, 0, 0, 64, 256, PUSH_INLINE_MAX);
	l->writes = (uint32_t)ANY_OF(p, 1, 4, CDW_PACKETS);
	l->pulls = (uint32_t)ANY_OF(p, 1, 4);
	l->pools = (uint32_t)ANY_OF(p, 2, 4, 8, 8, CDW_POOLS_MAX);
	l->pool_bytes = CDW_POOL_BYTES / l->pools / POOL_GRAIN * POOL_GRAIN;
	l->packet_bytes = l->model == CDW_PUSH_PUSH ? l->pool_bytes : l->pool_bytes / 4;
	/* With small pieces every byte costs an event. */
	if (l->wire == CDW_IWARP && l->faults.chunk_max_bytes > 0 &&
	    l->packet_bytes > PACKET_PIECES * l->faults.chunk_max_bytes + PACKET_LEAST)
		l->packet_bytes = PACKET_PIECES * l->faults.chunk_max_bytes + PACKET_LEAST;
	l->hold_percent = (uint32_t)ANY_OF(p, 0, 30, 80, 100);
	l->pool_weight = (uint32_t)ANY_OF(p, 0, 2, 10, 40);
	l->has_immediate = cdw_draw(w, 4) > 0;
	l->ping_after_ns = ANY_OF(p, 100 * MS, 2000 * UINT64_C(1000000));
}

/* Bursts of packets of one length each way, and a wire that takes its time. */
static void plain_set(struct card_world *w)
{
	struct cdw_limits *l = &w->limits;

	l->features = 0;
	l->mtu = 1500;
	l->inline_bytes = 0;
	l->writes = CDW_PACKETS;
	l->pulls = 1;
	l->pools = 2;
	l->packet_bytes = 1024;
	l->pool_bytes = CDW_POOL_BYTES / l->pools;
	l->hold_percent = l->pool_weight = 0;
	l->has_immediate = true;
	l->run_ns = 20 * MS;
	l->gap_ns = 400 * US;
	l->burst = 4;
	l->faults = (struct sim_faults){ .delay_min_ns = 20 * US, .delay_max_ns = 20 * US };
	l->pipe_bytes = 262144;
}

static void faults_draw(struct card_world *w)
{
	struct prng *p = &w->world.prng;
	struct cdw_limits *l = &w->limits;

	l->run_ns = ANY_OF(p, 5 * MS, 50 * MS, 300 * MS);
	l->gap_ns = l->run_ns / ANY_OF(p, 20, 100, 300);
	l->burst = (uint32_t)ANY_OF(p, 1, 4, 16);
	l->fault_gap_ns = l->run_ns / ANY_OF(p, 2, 6, 20);
	l->away_ns = ANY_OF(p, 1 * MS, 50 * MS);
	l->end_weight = (uint32_t)ANY_OF(p, 0, 1, 3);
	if (l->is_calm) {
		l->faults = (struct sim_faults){ .delay_max_ns = l->faults.delay_max_ns,
						 .rate_bytes_per_s = l->faults.rate_bytes_per_s };
		l->corrupt_ppm = 0;
		l->end_weight = 0;
		if (l->is_plain)
			plain_set(w);
		return;
	}
	l->kill_weight = (uint32_t)ANY_OF(p, 0, 1, 3);
	l->reset_weight = (uint32_t)ANY_OF(p, 0, 1, 3);
	l->leave_weight = (uint32_t)ANY_OF(p, 0, 1);
	l->step_ppm = (uint32_t)ANY_OF(p, 0, 0, 500000);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static int parts_open(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		struct cdw_end *e = &w->ends[i];

		e->world = w;
		e->index = i;
		e->node = cdw_is_unit(e) ? 0 : 1 + i / 2;
		e->base = cdw_is_unit(e) ? i / 2 * CDW_END_BYTES : 0;
		if (cdw_book_open(e) < 0)
			return -1;
	}
	if (cdw_net_open(w) < 0)
		return -1;
	for (uint32_t i = 0; i < CDW_NODES; i++) {
		struct cdw_node *n = &w->nodes[i];

		n->world = w;
		n->index = i;
		n->turn.event = (struct world_event){ .node = i, .kind = CDW_TURN };
		n->memory = calloc(i == 0 ? CDW_HOSTS : 1, CDW_END_BYTES);
		if (!n->memory || cdw_node_start(n) < 0)
			return -1;
		world_schedule(&w->world, cdw_draw(w, (uint32_t)w->limits.gap_ns),
			       (struct world_event){ .node = i, .kind = CDW_ACT });
		if (i > 0)
			world_schedule(&w->world, 0,
				       (struct world_event){ .node = i, .kind = CDW_DIAL });
	}
	return 0;
}

int card_world_open(struct card_world *w, uint64_t seed, const struct cdw_choice *choice)
{
	const struct world_options o = { .seed = seed,
					 .events_max = EVENTS_MAX,
					 .trace_max = TRACE_EVENTS };

	memset(w, 0, sizeof(*w));
	if (world_init(&w->world, &o) < 0)
		return -1;
	wire_draw(w, choice);
	card_draw(w);
	faults_draw(w);
	if (parts_open(w) < 0)
		return -1;
	world_schedule(&w->world, w->limits.fault_gap_ns,
		       (struct world_event){ .kind = CDW_FAULT });
	world_schedule(&w->world, w->limits.run_ns, (struct world_event){ .kind = CDW_PHASE });
	return 0;
}

void card_world_close(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++)
		cdw_book_close(&w->ends[i]);
	for (uint32_t i = 0; i < CDW_NODES; i++)
		free(w->nodes[i].memory);
	world_fini(&w->world);
}

const char *card_world_failure(const struct card_world *w)
{
	return w->failure;
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void node_restart(struct cdw_node *n)
{
	struct card_world *w = n->world;

	if (n->is_up)
		return;
	CHECK(cdw_node_start(n) == 0);
	if (w->phase == CDW_RUN && prng_chance(&w->world.prng, w->limits.step_ppm))
		n->acts_left = 1 + cdw_draw(w, 200);
}

/* What stopped comes back after a while. */
static void starts_plan(struct card_world *w, struct cdw_node *n)
{
	w->stops++;
	world_schedule(&w->world, 1 + cdw_draw(w, (uint32_t)w->limits.away_ns),
		       (struct world_event){ .node = n->index, .kind = CDW_START });
}

static void turn(struct cdw_node *n)
{
	bool was_up = n->is_up;

	cdw_node_turn(n);
	if (was_up && !n->is_up)
		starts_plan(n->world, n);
}

static void end_in_order(struct cdw_end *e)
{
	if (e->state != CDW_UP)
		return;
	cdw_trace(e->world, CDW_TRACE_ENDING, e->index, e->serial, 0);
	push_end(e->link, e->world->world.now_ns);
	turn(cdw_node_of(e));
}

static void fault(struct card_world *w)
{
	const struct cdw_limits *l = &w->limits;
	uint32_t sum = l->kill_weight + l->reset_weight + l->leave_weight + l->end_weight;
	uint32_t pick = sum > 0 ? cdw_draw(w, sum) : 0;
	struct cdw_end *e = &w->ends[cdw_draw(w, CDW_ENDS)];
	struct cdw_node *n = cdw_node_of(e);

	if (sum == 0 || !n->is_up)
		return;
	if (pick < l->kill_weight) {
		cdw_node_stop(n);
		starts_plan(w, n);
	} else if (pick < l->kill_weight + l->reset_weight && l->wire == CDW_IWARP) {
		w->resets++;
		tcp_link_reset(&w->links[e->index / 2]);
	} else if (pick < l->kill_weight + l->reset_weight + l->leave_weight) {
		cdw_end_over(e, WEFT_R_FLUSHED);
		turn(n);
	} else {
		end_in_order(e);
	}
}

/* A host dials as long as it runs; the unit gives up what it still has of the host's last life. */
static void dial(struct card_world *w, uint32_t node)
{
	uint32_t host = node - 1;
	struct cdw_end *e = &w->ends[2 * host], *unit = &w->ends[2 * host + 1];

	if (w->phase > CDW_REST)
		return;
	if (e->state == CDW_FREE && !cdw_connect(w, host) && unit->state != CDW_FREE &&
	    cdw_draw(w, 2) == 0)
		cdw_end_over(unit, WEFT_R_RIO_TWICE);
	world_schedule(&w->world, 1 * MS + cdw_draw(w, 20 * MS),
		       (struct world_event){ .node = node, .kind = CDW_DIAL });
	turn(&w->nodes[0]);
	turn(&w->nodes[node]);
}

/* ---- Phases ---------------------------------------------------------------------------------- */

static bool end_is_at_rest(struct cdw_end *e)
{
	const struct card_world *w = e->world;
	struct push_view v;

	if (e->state != CDW_UP || push_link_state(e->link) != PUSH_OPEN || e->busy > 0 ||
	    e->kept_count > 0 || e->is_asking)
		return false;
	push_view(e->link, &v);
	return v.waiting == 0 && v.writing == 0 &&
	       (w->limits.mode == PUSH_MODE_SEND ||
		e->book.got == cdw_peer(e)->book.sent - cdw_peer(e)->book.voids);
}

/* Both ends of a link have the same idea of it. */
static void agreed_judge(struct cdw_end *e)
{
	const struct push_agreed *a = push_agreed(e->link), *b = push_agreed(cdw_peer(e)->link);

	if (a->features != b->features || a->mtu != b->mtu || a->queues != b->queues ||
	    a->is_link_up != b->is_link_up || memcmp(a->mac, b->mac, PUSH_MAC_BYTES) != 0)
		cdw_fail(e->world, "the ends of connection %u do not agree: MTU %u and %u",
			 e->serial, a->mtu, b->mtu);
}

static bool is_at_rest(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (!end_is_at_rest(&w->ends[i]))
			return false;
	}
	return true;
}

/* What stopped at one of its last acts comes back: what is in its adapter then is looked at. */
static bool is_all_closed(const struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (w->ends[i].state != CDW_FREE)
			return false;
	}
	for (uint32_t i = 0; i < CDW_NODES; i++) {
		if (!w->nodes[i].is_up)
			return false;
	}
	return true;
}

static void phase_begin(struct card_world *w, enum cdw_phase phase)
{
	w->phase = phase;
	w->phase_ns = w->world.now_ns;
	cdw_trace(w, CDW_TRACE_PHASE, 0, phase, 0);
}

/* A link that has nothing to do sends PINGs only. */
static void idle_judge(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		if (w->ends[i].book.messages > 0)
			cdw_fail(w, "end %u says %llu messages when there is nothing to do", i,
				 (unsigned long long)w->ends[i].book.messages);
	}
}

static void why_restless(struct card_world *w)
{
	for (uint32_t i = 0; i < CDW_ENDS; i++) {
		struct cdw_end *e = &w->ends[i];

		if (w->phase == CDW_REST ? !end_is_at_rest(e) : e->state != CDW_FREE)
			cdw_fail(w,
				 "end %u does not come to rest in phase %d: %d, %s, %u packets of "
				 "its own, %llu of %llu came",
				 i, (int)w->phase, (int)e->state,
				 e->link ? push_state_name(push_link_state(e->link)) : "no link",
				 e->busy, (unsigned long long)e->book.got,
				 (unsigned long long)cdw_peer(e)->book.sent);
	}
}

/* Looks whether the phase is over. Returns when to look again. */
static uint64_t phase_look(struct card_world *w)
{
	uint64_t past_ns = w->world.now_ns - w->phase_ns;

	switch (w->phase) {
	case CDW_RUN:
		cdw_net_calm(w);
		phase_begin(w, CDW_REST);
		return settle_ns;
	case CDW_REST:
		if (!is_at_rest(w))
			break;
		for (uint32_t i = 0; i < CDW_ENDS; i++) {
			agreed_judge(&w->ends[i]);
			w->ends[i].book.messages = 0;
		}
		phase_begin(w, CDW_IDLE);
		return idle_ns;
	case CDW_IDLE:
		idle_judge(w);
		phase_begin(w, CDW_CLOSE);
		for (uint32_t i = 0; i < CDW_HOSTS && !w->failure[0]; i++)
			end_in_order(&w->ends[2 * i + cdw_draw(w, 2)]);
		break;
	case CDW_CLOSE:
		if (is_all_closed(w))
			phase_begin(w, CDW_OVER);
		break;
	case CDW_OVER:
		break;
	}
	if (past_ns > rest_max_ns && w->phase != CDW_IDLE)
		why_restless(w);
	return settle_ns;
}

static void finish(struct card_world *w)
{
	w->is_over = true;
	for (uint32_t i = 0; i < CDW_NODES && !w->failure[0]; i++) {
		cdw_memory_judge(&w->nodes[i]);
		world_alarm_cancel(&w->world, &w->nodes[i].turn);
		if (!w->failure[0])
			cdw_adapter_close(&w->nodes[i]);
	}
	if (!w->failure[0])
		cdw_net_close(w);
}

/* ---- The loop -------------------------------------------------------------------------------- */

static void act(struct cdw_node *n)
{
	struct card_world *w = n->world;
	bool was_up = n->is_up;
	uint64_t gap_ns = w->phase == CDW_RUN ? w->limits.gap_ns : REST_GAP_NS;

	if (w->phase > CDW_REST)
		return;
	cdw_act(n);
	if (was_up && !n->is_up)
		starts_plan(w, n);
	world_schedule(&w->world, 1 + cdw_draw(w, (uint32_t)gap_ns),
		       (struct world_event){ .node = n->index, .kind = CDW_ACT });
}

static void wire_event(struct card_world *w, const struct world_event *event)
{
	uint32_t node = event->kind == CDW_ARRIVED ? event->node : w->ends[event->node].node;

	cdw_net_event(w, event);
	turn(&w->nodes[node]);
}

static void event_do(struct card_world *w, const struct world_event *event)
{
	switch (event->kind) {
	case CDW_TURN:
		turn(&w->nodes[event->node]);
		break;
	case CDW_ACT:
		act(&w->nodes[event->node]);
		break;
	case CDW_DIAL:
		dial(w, event->node);
		break;
	case CDW_START:
		node_restart(&w->nodes[event->node]);
		break;
	case CDW_FAULT:
		if (w->phase != CDW_RUN)
			break;
		fault(w);
		world_schedule(&w->world, 1 + cdw_draw(w, (uint32_t)w->limits.fault_gap_ns),
			       *event);
		break;
	case CDW_PHASE:
		world_schedule(&w->world, phase_look(w), *event);
		break;
	default:
		wire_event(w, event);
		break;
	}
}

bool card_world_step(struct card_world *w)
{
	struct world_event event;

	if (w->is_over || w->failure[0])
		return false;
	CHECK(world_next(&w->world, &event));
	event_do(w, &event);
	if (w->steps++ > STEPS_MAX)
		cdw_fail(w, "it does not come to an end");
	if (w->phase == CDW_OVER && !w->failure[0])
		finish(w);
	return !w->failure[0] && !w->is_over;
}
