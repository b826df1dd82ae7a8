/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/near_world.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/draw.h"

enum { PIPE_PACKETS = 4096, EVENTS_MAX = 64, EVENT_RUN = 16, EVENT_BORN };

static const uint64_t end_max_ns = UINT64_C(1000) * 1000000000, us = 1000, ms = 1000 * 1000;

static struct nw_process *process_of(struct near_process *p)
{
	struct near_node *n = p->owner;

	return n->scenario;
}

void nw_poke_others(struct nw_process *p)
{
	for (uint32_t n = 0; n < p->world->program->nodes; n++) {
		if (p->world->nodes[n].now && p->world->nodes[n].now != p)
			near_poke(&p->world->nodes[n].now->near->process);
	}
}

void nw_poke_all(struct near_world *w)
{
	for (uint32_t n = 0; n < w->program->nodes; n++) {
		if (w->nodes[n].now)
			near_poke(&w->nodes[n].now->near->process);
	}
}

bool nw_is_flowing(const struct near_world *w)
{
	for (uint32_t from = 0; from < w->program->nodes; from++) {
		for (uint32_t to = 0; to < w->program->nodes; to++) {
			if (w->nodes[to].now && !sim_datagram_is_empty(&w->pipes[from][to]))
				return true;
		}
	}
	return near_kernel_is_flowing(&w->kernel);
}

/* ---- Processes ------------------------------------------------------------------------------ */

static void leave(struct nw_process *p)
{
	p->world->program->drop(p);
	near_node_leave(p->near);
}

/* A capture begins and ends: meanwhile all goes by packets. */
static void change_shut(struct nw_process *p)
{
	bool is_shut = !p->is_shut;

	p->is_shut = false;
	near_set_packets_only(p->near->process.near, is_shut);
	p->is_shut = is_shut;
}

/* One turn of the process. When it has another one, if nothing wakes it before. */
static uint64_t turn(struct nw_process *p)
{
	struct near_world *w = p->world;
	bool has_more = w->program->work(p);

	has_more |= near_node_look(p->near);
	has_more |= w->program->poll(p);
	if (prng_chance(&w->prng, w->shut_ppm))
		change_shut(p);
	return has_more ? w->world.now_ns + prng_below(&w->prng, 20000) : w->program->due(p);
}

static void process_run(void *owner)
{
	struct near_node *n = owner;
	struct nw_process *p = n->scenario;
	struct near_world *w = p->world;

	while (!w->program->is_finished(p) && !roce_has_failed(w->judged)) {
		near_yield(&n->process);
		if (w->nodes[nw_node_of(p)].is_busy)
			near_pause(&n->process, sim_draw(&w->prng, 1, 300 * us));
		if (prng_chance(&w->prng, w->leave_ppm)) {
			w->program->ended(p);
			leave(p);
			return;
		}
		near_node_rest(n, turn(p));
	}
	p->is_finished = true;
	leave(p);
}

/* ---- Life and death ------------------------------------------------------------------------- */

/* At a step of the process: early ones are as likely as late ones. */
static uint64_t draw_step(struct prng *prng)
{
	return 1 + prng_below(prng, (uint32_t)ANY_OF(prng, 30, 300, 3000, 30000));
}

static void draw_fate(struct prng *prng, struct near_process *p)
{
	if (prng_below(prng, 4) == 0)
		p->dies_at = draw_step(prng);
	if (prng_below(prng, 4) == 0)
		p->dies_accessing_at = 1 + prng_below(prng, 200);
	if (prng_below(prng, 4) == 0)
		p->breaks_at = draw_step(prng);
}

static void process_born(struct near_world *w, uint32_t node)
{
	struct nw_process *p = calloc(1, sizeof(*p));
	struct near_node_options o = {
		.kernel = &w->kernel,
		.index = node,
		.instance = w->nodes[node].instances++,
		.memory_bytes = w->program->memory_bytes,
		.qps_max = w->program->qps_max,
		.takes_runs = w->nodes[node].takes_runs,
		.event = { .node = node, .kind = EVENT_RUN },
		.run = process_run,
		.scenario = p,
	};

	for (uint32_t n = 0; n < w->program->nodes; n++) {
		o.out[n] = &w->pipes[node][n];
		o.in[n] = &w->pipes[n][node];
	}
	CHECK(p);
	p->world = w;
	p->state = calloc(1, w->program->process_bytes);
	p->near = near_node_open(&o);
	CHECK(p->state && p->near);
	p->near->process.has_packets = true;
	w->all[w->count++] = p;
	w->nodes[node].now = p;
	draw_fate(&w->prng, &p->near->process);
	w->program->begin(p);
	nw_poke_others(p);
}

/* It has ended, or was killed; another one may have its slot soon. */
static void process_died(struct near_process *dead)
{
	struct nw_process *p = process_of(dead);
	struct near_world *w = p->world;
	struct nw_node *n = &w->nodes[dead->node];

	if (!p->is_finished)
		w->program->ended(p);
	n->now = NULL;
	n->is_gone = p->is_finished || n->instances == NW_INSTANCES || prng_below(&w->prng, 3) == 0;
	if (!n->is_gone)
		world_schedule(&w->world,
			       prng_below(&w->prng, (uint32_t)ANY_OF(&w->prng, us, 50 * ms)),
			       (struct world_event){ .node = dead->node, .kind = EVENT_BORN });
	nw_poke_others(p);
}

static void process_broke(struct near_process *p)
{
	process_of(p)->world->program->broke(process_of(p));
}

/* Before each part of a direct access. */
static void memory_accessed(struct near_process *target, uint64_t addr, uint64_t bytes)
{
	const struct nw_process *p = process_of(target);
	const struct near_program *program = p->world->program;

	if (p->is_shut)
		roce_fail(p->world->judged, "node %u: accessed while all must go by packets",
			  target->node);
	if (!program->is_open || !program->is_open(p, addr - target->memory_addr, bytes))
		roce_fail(p->world->judged, "node %u: memory accessed whose registration had ended",
			  target->node);
}

/* ---- The world ------------------------------------------------------------------------------ */

static void draw_host(struct near_world *w)
{
	struct near_host_options *o = &w->kernel.options;
	struct prng *p = &w->prng;

	o->switch_ppm = (uint32_t)ANY_OF(p, 10000, 100000, 400000);
	o->stop_ppm = (uint32_t)ANY_OF(p, 0, 200, 3000);
	o->refuse_ppm = (uint32_t)ANY_OF(p, 0, 0, 50000, 300000);
	o->ring_bytes = (uint32_t)ANY_OF(p, RING_BYTES_MIN, RING_BYTES_MIN, 4 * RING_BYTES_MIN);
	o->can_access = prng_below(p, 8) > 0;
	w->drop_ppm = (uint32_t)ANY_OF(p, 0, 5000, 100000);
	w->shut_ppm = (uint32_t)ANY_OF(p, 0, 0, 5000);
	w->leave_ppm = (uint32_t)ANY_OF(p, 0, 0, 500);
	for (uint32_t n = 0; n < w->program->nodes; n++) {
		w->nodes[n].takes_runs = prng_below(p, 2);
		w->nodes[n].is_busy = prng_below(p, 3) == 0;
	}
}

/* The network that packets go by if the near path does not take them. The last hop is to itself. */
static int pipe_open(struct near_world *w, uint32_t from, uint32_t hop)
{
	const uint32_t nodes = w->program->nodes, to = (from + hop) % nodes;
	struct sim_datagram_options pipe = {
		.id = from + (hop - 1) * nodes,
		.arrived = { .node = to, .kind = EVENT_ARRIVED },
		.datagrams_max = PIPE_PACKETS,
		.bytes_max = IB_NODE_BYTES_MAX,
	};

	if (to != from) {
		pipe.faults.delay_max_ns = ANY_OF(&w->prng, 0, us, 300 * us);
		pipe.faults.loss_ppm = (uint32_t)ANY_OF(&w->prng, 0, 0, 5000);
	}
	w->is_lossless &= pipe.faults.loss_ppm == 0;
	return sim_datagram_init(&w->pipes[from][to], &w->world, &pipe);
}

static int pipes_open(struct near_world *w)
{
	w->is_lossless = true;
	for (uint32_t hop = 1; hop <= w->program->nodes; hop++) {
		for (uint32_t from = 0; from < w->program->nodes; from++) {
			if (pipe_open(w, from, hop) < 0)
				return -1;
		}
	}
	return 0;
}

int near_world_open(struct near_world *w, struct roce_world *judged,
		    const struct near_program *program)
{
	const struct world_options o = { .seed = judged->seed,
					 .events_max = EVENTS_MAX,
					 .trace_max = ROCE_TRACE_EVENTS };

	judged->near = w;
	w->judged = judged;
	w->program = program;
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->prng.state = prng_mix(judged->seed);
	w->kernel.failures = judged;
	w->kernel.world = &w->world;
	w->kernel.prng.state = prng_next(&w->prng);
	w->kernel.accessed = memory_accessed;
	w->kernel.died = process_died;
	w->kernel.broke = process_broke;
	draw_host(w);
	if (pipes_open(w) < 0)
		return -1;
	for (uint32_t n = 0; n < program->nodes; n++)
		process_born(w, n);
	return 0;
}

/* What a killed process left is freed: as nothing of it runs, it is of no consequence. */
static void process_free(struct nw_process *p)
{
	p->world->program->drop(p);
	near_node_close(p->near);
	roce_node_shut(&p->near->node, p->world->judged);
}

void near_world_close(struct roce_world *judged)
{
	struct near_world *w = judged->near;

	for (uint32_t i = 0; i < w->count; i++) {
		roce_node_fini(&w->all[i]->near->node, w->judged);
		free(w->all[i]->near);
		free(w->all[i]->state);
		free(w->all[i]);
	}
	for (uint32_t from = 0; from < w->program->nodes; from++) {
		for (uint32_t to = 0; to < w->program->nodes; to++)
			sim_datagram_fini(&w->pipes[from][to]);
	}
	world_fini(&w->world);
}

static void finish(struct near_world *w)
{
	if (w->program->judge)
		w->program->judge(w);
	for (uint32_t i = 0; i < w->count; i++)
		process_free(w->all[i]);
	near_kernel_fini(&w->kernel);
	for (uint32_t from = 0; from < w->program->nodes; from++) {
		for (uint32_t to = 0; to < w->program->nodes; to++)
			roce_count_packets(w->judged, &w->pipes[from][to]);
	}
}

static bool is_over(const struct near_world *w)
{
	for (uint32_t n = 0; n < w->program->nodes; n++) {
		if (!w->nodes[n].is_gone || w->nodes[n].now)
			return false;
	}
	return true;
}

bool near_world_step(struct roce_world *judged)
{
	struct near_world *w = judged->near;
	struct world_event event;
	struct nw_process *p;

	if (is_over(w)) {
		finish(w);
		return false;
	}
	if (!world_next(&w->world, &event)) {
		roce_fail(w->judged, "processes sleep, and nothing will wake them");
		return true;
	}
	p = w->nodes[event.node].now;
	if (event.kind == EVENT_BORN)
		process_born(w, event.node);
	else if (event.kind == EVENT_RUN && p)
		near_process_resume(&p->near->process);
	if (event.kind == EVENT_ARRIVED && p) {
		p->near->process.has_packets = true;
		near_wake(&p->near->process);
	}
	near_kernel_judge(&w->kernel);
	if (w->world.now_ns >= end_max_ns)
		roce_fail(w->judged, "it does not come to rest");
	return true;
}

struct world *near_world_clock(struct roce_world *judged)
{
	return &judged->near->world;
}
