/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two nodes on one host, whose packets go by the real near path: its rings, its messages and its
 * access to the memory of the other process, on a simulated kernel (near_kernel.h) that lets the
 * other process run between any two steps. Rings are small and fill up; receivers rest, and are
 * woken; processes are stopped, refuse rings, break rules, end, are killed at any step and begin
 * anew; memory is deregistered and invalidated while it is accessed.
 *
 * The judges hold that packets leave a ring as they went in, in order and once; that no process
 * sleeps while a packet or room waits for it; that requests end once, in order, and well unless
 * their connection broke, and end soon if it did; that Writes, Reads, Sends and additions did what
 * they say; and that no byte of a region is reached after the call that ended it has returned.
 */
#include "sim/roce/near_world.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/draw.h"

enum { PIPE_PACKETS = 4096, EVENTS_MAX = 64, EVENT_RUN = 16, EVENT_BORN };

static const uint64_t end_max_ns = UINT64_C(1000) * 1000000000, us = 1000, ms = 1000 * 1000;

static struct near_world *near_world_of(const struct roce_world *w)
{
	return w->state;
}

static struct nw_process *process_of(struct near_process *p)
{
	struct near_node *n = p->owner;

	return n->scenario;
}

/* ---- Processes ------------------------------------------------------------------------------ */

static bool is_finished(const struct nw_process *p)
{
	const struct near_world *w = p->world;

	for (uint32_t i = 0; i < NW_PAIRS; i++) {
		if (p->ends[i].phase != NW_DOWN ||
		    (!w->pairs[i].is_done && !w->is_gone[!p->near->process.node]))
			return false;
	}
	return true;
}

static void leave(struct nw_process *p)
{
	for (uint32_t i = 0; i < NW_PAIRS; i++)
		nw_end_drop(p, i);
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

/* One turn of the process. True: it goes on without being woken. */
static bool turn(struct nw_process *p)
{
	bool has_more = false;

	for (uint32_t i = 0; i < NW_PAIRS; i++)
		has_more |= nw_end_work(p, i);
	has_more |= near_node_look(p->near);
	has_more |= nw_poll(p);
	if (prng_chance(&p->world->prng, p->world->shut_ppm))
		change_shut(p);
	return has_more;
}

static void excuse_all(struct near_world *w)
{
	for (uint32_t i = 0; i < NW_PAIRS; i++)
		nw_excuse(w, i);
}

static void process_run(void *owner)
{
	struct near_node *n = owner;
	struct nw_process *p = n->scenario;
	struct near_world *w = p->world;

	while (!is_finished(p) && !roce_has_failed(w->judged)) {
		near_yield(&n->process);
		if (w->is_busy[n->process.node])
			near_pause(&n->process, sim_draw(&w->prng, 1, 300 * us));
		if (prng_chance(&w->prng, w->leave_ppm)) {
			excuse_all(w);
			leave(p);
			return;
		}
		near_node_rest(n, turn(p) ? w->world.now_ns + prng_below(&w->prng, 20000)
					  : UINT64_MAX);
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

static void process_born(struct near_world *w, uint32_t node)
{
	const struct near_node_options o = {
		.kernel = &w->kernel,
		.index = node,
		.instance = w->instances[node]++,
		.memory_bytes = NW_NODE_BYTES,
		.takes_runs = w->takes_runs[node],
		.out = &w->pipes[node],
		.in = &w->pipes[!node],
		.event = { .node = node, .kind = EVENT_RUN },
		.run = process_run,
		.scenario = calloc(1, sizeof(struct nw_process)),
	};
	struct nw_process *p = o.scenario;

	CHECK(p);
	p->world = w;
	p->near = near_node_open(&o);
	CHECK(p->near);
	p->near->process.has_packets = true;
	w->all[w->count++] = p;
	w->now[node] = p;
	if (prng_below(&w->prng, 4) == 0)
		p->near->process.dies_at = draw_step(&w->prng);
	if (prng_below(&w->prng, 4) == 0)
		p->near->process.dies_accessing_at = 1 + prng_below(&w->prng, 200);
	if (prng_below(&w->prng, 4) == 0)
		p->near->process.breaks_at = draw_step(&w->prng);
	if (w->now[!node])
		near_poke(&w->now[!node]->near->process);
}

/* It has ended, or was killed; another one may have its slot soon. */
static void process_died(struct near_process *dead)
{
	struct nw_process *p = process_of(dead);
	struct near_world *w = p->world;

	if (!p->is_finished)
		excuse_all(w);
	w->now[dead->node] = NULL;
	w->is_gone[dead->node] = p->is_finished || w->instances[dead->node] == NW_INSTANCES ||
				 prng_below(&w->prng, 3) == 0;
	if (!w->is_gone[dead->node])
		world_schedule(&w->world,
			       prng_below(&w->prng, (uint32_t)ANY_OF(&w->prng, us, 50 * ms)),
			       (struct world_event){ .node = dead->node, .kind = EVENT_BORN });
	if (w->now[!dead->node])
		near_poke(&w->now[!dead->node]->near->process);
}

static void process_broke(struct near_process *p)
{
	excuse_all(process_of(p)->world);
}

/* Before each part of a direct access. */
static void memory_accessed(struct near_process *target, uint64_t addr, uint64_t bytes)
{
	const struct nw_process *p = process_of(target);
	uint64_t at = addr - target->memory_addr;

	if (p->is_shut)
		roce_fail(p->world->judged, "node %u: accessed while all must go by packets",
			  target->node);
	for (uint32_t i = 0; i < NW_PAIRS; i++) {
		const struct nw_end *e = &p->ends[i];

		if (at >= e->at && at + bytes <= e->at + NW_END_BYTES && e->is_open)
			return;
	}
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
	for (int n = 0; n < 2; n++) {
		w->takes_runs[n] = prng_below(p, 2);
		w->is_busy[n] = prng_below(p, 3) == 0;
	}
}

/* The network that packets go by if the near path does not take them. */
static int pipe_open(struct near_world *w, uint32_t node)
{
	struct sim_datagram_options pipe = {
		.id = node,
		.arrived = { .node = !node, .kind = EVENT_ARRIVED },
		.datagrams_max = PIPE_PACKETS,
		.bytes_max = IB_NODE_BYTES_MAX,
	};

	pipe.faults.delay_max_ns = ANY_OF(&w->prng, 0, us, 300 * us);
	pipe.faults.loss_ppm = (uint32_t)ANY_OF(&w->prng, 0, 0, 5000);
	return sim_datagram_init(&w->pipes[node], &w->world, &pipe);
}

static int near_open(struct roce_world *judged)
{
	struct near_world *w = near_world_of(judged);
	const struct world_options o = { .seed = judged->seed,
					 .events_max = EVENTS_MAX,
					 .trace_max = ROCE_TRACE_EVENTS };

	w->judged = judged;
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
	if (pipe_open(w, 0) < 0 || pipe_open(w, 1) < 0)
		return -1;
	process_born(w, 0);
	process_born(w, 1);
	return 0;
}

/* What a killed process left is freed: as nothing of it runs, it is of no consequence. */
static void process_free(struct nw_process *p)
{
	struct roce_node *node = &p->near->node;

	for (uint32_t i = 0; i < NW_PAIRS; i++)
		nw_end_drop(p, i);
	near_node_close(p->near);
	roce_node_shut(node, p->world->judged);
}

static void near_close(struct roce_world *judged)
{
	struct near_world *w = near_world_of(judged);

	for (uint32_t i = 0; i < w->count; i++) {
		roce_node_fini(&w->all[i]->near->node, judged);
		free(w->all[i]->near);
		free(w->all[i]);
	}
	for (int n = 0; n < 2; n++)
		sim_datagram_fini(&w->pipes[n]);
	world_fini(&w->world);
}

static void finish(struct near_world *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		process_free(w->all[i]);
	near_kernel_fini(&w->kernel);
	for (int n = 0; n < 2; n++)
		roce_count_packets(w->judged, &w->pipes[n]);
}

static bool near_step(struct roce_world *judged)
{
	struct near_world *w = near_world_of(judged);
	struct world_event event;
	struct nw_process *p;

	if (w->is_gone[0] && w->is_gone[1] && !w->now[0] && !w->now[1]) {
		finish(w);
		return false;
	}
	if (!world_next(&w->world, &event)) {
		roce_fail(judged, "processes sleep, and nothing will wake them");
		return true;
	}
	p = w->now[event.node];
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
		roce_fail(judged, "it does not come to rest");
	return true;
}

static struct world *near_clock(struct roce_world *w)
{
	return &near_world_of(w)->world;
}

const struct roce_scenario roce_near = {
	.state_bytes = sizeof(struct near_world),
	.open = near_open,
	.step = near_step,
	.close = near_close,
	.clock = near_clock,
};
