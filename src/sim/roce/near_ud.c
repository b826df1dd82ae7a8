/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams between queue pairs of three nodes of one host, and to groups. A datagram goes by
 * shared memory once the receiver's adapter has taken the ring, else by the network, as do those to
 * groups. It is lost with the process that it is for, and if that process is stopped for long with
 * a full ring; else all come for which there are receives, those of a killed process too. None
 * comes to the process that has the slot of another one by then.
 */
#include <string.h>

#include "base/draw.h"
#include "sim/roce/near_world.h"
#include "sim/roce/ud_world.h"

_Static_assert((int)UD_NODES == (int)NEAR_NODES_MAX, "each node has actors");

static const uint64_t tick_ns = 1000 * 1000;

struct near_ud {
	struct ud_world ud;
	struct near_world near;
	bool has_broken; /* a process has broken a rule: rings go, with what is in them */
	/*
	 * The process of the second node has ended, and that of the first may still send to it;
	 * it had when the turn of the first began.
	 */
	bool is_stale[UD_NODES][UD_NODES], was_stale[UD_NODES][UD_NODES];
};

struct nud_process {
	struct ud_actor actors[UD_QPS]; /* as it left them */
	bool has_left, has_dropped;
	uint64_t lost; /* datagrams, as last seen */
};

static struct near_ud *near_ud_of(const struct nw_process *p)
{
	return CONTAINER_OF(p->world, struct near_ud, near);
}

static struct ud_actor *actor_of(struct near_ud *w, uint32_t node, uint32_t i)
{
	return &w->ud.actors[node * UD_QPS + i];
}

/* ---- The network ---------------------------------------------------------------------------- */

static struct near_node *node_of(struct ud_world *ud, int node)
{
	return CONTAINER_OF(ud->nodes[node], struct near_node, node);
}

static void attach(struct ud_world *ud, int node, struct weft_qp *qp, const struct ib_config *k)
{
	near_node_attach(node_of(ud, node), qp, k);
}

static void address(struct ud_world *ud, int node, struct weft_ah *ah)
{
	near_node_address(node_of(ud, node), ah);
}

static uint64_t doubled(struct ud_world *ud, int from, int to)
{
	return CONTAINER_OF(ud, struct near_ud, ud)->near.pipes[from][to].counts.duplicated;
}

/* ---- The program ---------------------------------------------------------------------------- */

static void begin(struct nw_process *p)
{
	struct near_ud *w = near_ud_of(p);

	w->ud.nodes[nw_node_of(p)] = &p->near->node;
	for (uint32_t i = 0; i < UD_QPS; i++)
		ud_actor_open(&w->ud, nw_node_of(p) * UD_QPS + i);
}

static bool wants_more(const struct ud_actor *a)
{
	return (a->begun < UD_OPS && a->begun - a->ended < UD_DEPTH && !a->is_stopped) ||
	       a->posted - a->received < UD_RECEIVES;
}

static bool work(struct nw_process *p)
{
	struct near_ud *w = near_ud_of(p);
	uint32_t node = nw_node_of(p);
	bool has_more = false;

	memcpy(w->was_stale[node], w->is_stale[node], sizeof(w->was_stale[node]));
	for (uint32_t i = 0; i < UD_QPS; i++) {
		ud_actor_act(w->near.judged, actor_of(w, node, i));
		has_more |= wants_more(actor_of(w, node, i));
	}
	return has_more;
}

/* Datagrams that were posted until now may be lost: for an end that is noticed now, or for want of
 * room. */
static void excuse_ways(struct nw_process *p)
{
	struct near_ud *w = near_ud_of(p);
	struct nud_process *own = p->state;
	uint32_t node = nw_node_of(p);
	uint64_t lost = near_counts(p->near->process.near)->lost;

	for (uint32_t to = 0; to < UD_NODES; to++) {
		if (w->was_stale[node][to] || lost != own->lost)
			w->ud.way_excuse_ns[node][to] = w->ud.clock->now_ns;
		if (w->was_stale[node][to])
			w->is_stale[node][to] = w->was_stale[node][to] = false;
	}
	own->lost = lost;
}

static bool poll(struct nw_process *p)
{
	bool has_some = ud_judge_poll(p->world->judged, (int)nw_node_of(p));

	excuse_ways(p);
	return has_some;
}

static uint64_t due(const struct nw_process *p)
{
	return p->world->world.now_ns + tick_ns;
}

/* All that was sent has arrived, too. */
static bool is_finished(const struct nw_process *p)
{
	const struct near_ud *w = near_ud_of(p);

	for (uint32_t i = 0; i < UD_ACTORS; i++) {
		const struct nw_node *n = &w->near.nodes[ud_node_of(i)];

		if (!n->is_gone && (!n->now || !ud_is_done(&w->ud.actors[i])))
			return false;
	}
	return !nw_is_flowing(&w->near);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Others learn of it later; another process may have the actors by then. */
static void ended(struct nw_process *p)
{
	struct near_ud *w = near_ud_of(p);
	struct nud_process *own = p->state;
	uint32_t node = nw_node_of(p);

	if (own->has_left)
		return;
	own->has_left = true;
	for (uint32_t i = 0; i < UD_QPS; i++) {
		own->actors[i] = *actor_of(w, node, i);
		ud_actor_lose(actor_of(w, node, i));
	}
	for (uint32_t from = 0; from < UD_NODES; from++) {
		w->is_stale[from][node] = from != node;
		w->ud.way_excuse_ns[from][node] = w->ud.clock->now_ns;
	}
}

static void drop(struct nw_process *p)
{
	struct near_ud *w = near_ud_of(p);
	struct nud_process *own = p->state;
	struct roce_node *n = &p->near->node;

	if (own->has_dropped)
		return;
	own->has_dropped = true;
	if (p->is_finished)
		roce_node_judge(w->near.judged, n);
	p->near->process.masks++;
	for (uint32_t i = 0; i < UD_QPS; i++)
		ud_actor_drop(n, own->has_left ? &own->actors[i] : actor_of(w, nw_node_of(p), i));
	p->near->process.masks--;
}

static void broke(struct nw_process *p)
{
	near_ud_of(p)->has_broken = true;
}

static void judge(struct near_world *near)
{
	struct near_ud *w = CONTAINER_OF(near, struct near_ud, near);

	w->ud.is_lossless = near->is_lossless && !w->has_broken;
	for (int from = 0; from < UD_NODES; from++) {
		for (int to = 0; to < UD_NODES; to++)
			w->ud.is_lossless &= near->pipes[from][to].counts.dropped_full == 0;
	}
	ud_judge_end(near->judged);
}

/* ---- The scenario --------------------------------------------------------------------------- */

static int ud_open(struct roce_world *judged)
{
	static const struct ud_net net = { attach, address, doubled };
	static const struct near_program program = {
		.nodes = UD_NODES,
		.memory_bytes = UD_NODE_BYTES,
		.process_bytes = sizeof(struct nud_process),
		.qps_max = ROCE_NODE_QPS,
		.begin = begin,
		.work = work,
		.poll = poll,
		.due = due,
		.is_finished = is_finished,
		.drop = drop,
		.ended = ended,
		.broke = broke,
		.judge = judge,
	};
	struct near_ud *w = judged->state;

	w->ud.prng.state = prng_mix(~judged->seed);
	w->ud.net = &net;
	w->ud.clock = &w->near.world;
	w->ud.is_one_host = true;
	/* Datagrams do not wait for answers: a ring fills up when its receiver is stopped. */
	w->ud.are_long = prng_below(&w->ud.prng, 2);
	w->ud.mtu_bytes = w->ud.are_long ? UD_MTU_MAX
					 : iba_mtu_bytes((uint8_t)(1 + prng_below(&w->ud.prng, 5)));
	if (near_world_open(&w->near, judged, &program) < 0)
		return -1;
	w->near.kernel.options.stop_ppm = (uint32_t)ANY_OF(&w->ud.prng, 0, 3000, 50000);
	return 0;
}

const struct roce_scenario roce_near_ud = {
	.state_bytes = sizeof(struct near_ud),
	.open = ud_open,
	.step = near_world_step,
	.close = near_world_close,
	.clock = near_world_clock,
};
