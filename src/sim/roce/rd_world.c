/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of reliable datagrams between all queue pairs of three nodes, on a network that
 * loses, duplicates, reorders and corrupts packets, stands still and is cut (TRN-S2). Some requests
 * are refused, some find no receive, some queue pairs are reset while they work. rd_judge.c says
 * what must come of it.
 */
#include "sim/roce/rd_world.h"

#include "base/check.h"
#include "sim/roce/roce_mesh.h"

_Static_assert((int)RD_NODES == (int)ROCE_MESH_NODES, "each node has actors");

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

struct rd_far {
	struct rd_world rd;
	struct roce_mesh mesh;
};

static struct rd_far *far_of(struct rd_world *rd)
{
	return CONTAINER_OF(rd, struct rd_far, rd);
}

static struct ib_mesh *mesh_of(const struct roce_world *w)
{
	return far_of(rd_world_of(w))->mesh.net;
}

/* ---- The network ---------------------------------------------------------------------------- */

static struct ib_ee *ee_at(struct rd_world *rd, int at, int to)
{
	return ib_mesh_ee(far_of(rd)->mesh.net, at, to);
}

static void attach(struct rd_world *rd, int node, struct weft_qp *qp, const struct ib_config *k)
{
	(void)node;
	CHECK(ib_mesh_attach(far_of(rd)->mesh.net, qp, k) == WEFT_OK);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void nodes_join(struct rd_world *rd)
{
	for (int a = 0; a < RD_NODES; a++) {
		for (int b = a; b < RD_NODES; b++) {
			const struct ib_ee_config k = rd_draw_ee(&rd->prng);

			CHECK(ib_mesh_join(far_of(rd)->mesh.net, a, b, &k) == WEFT_OK);
		}
	}
}

static int rd_open(struct roce_world *w)
{
	static const struct rd_net net = { ee_at, attach };
	struct rd_world *rd = rd_world_of(w);
	struct roce_mesh *mesh = &far_of(rd)->mesh;
	struct sim_faults faults;

	rd->net = &net;
	rd->prng.state = w->seed;
	rd->resets_left = prng_below(&rd->prng, 2) ? 0 : 4;
	faults = roce_draw_faults(&rd->prng);
	if (roce_mesh_open(mesh, w, &faults, RD_NODE_BYTES) < 0)
		return -1;
	for (int n = 0; n < RD_NODES; n++)
		rd->nodes[n] = &mesh->nodes[n];
	for (int n = 0; n < RD_NODES; n++)
		rd_word_begin(rd, n);
	nodes_join(rd);
	for (int n = 0; n < RD_NODES; n++)
		rd_actors_begin(rd, n);
	return 0;
}

static void rd_close(struct roce_world *w)
{
	roce_mesh_close(&far_of(rd_world_of(w))->mesh, w);
}

static struct world *rd_clock(struct roce_world *w)
{
	return ib_mesh_world(mesh_of(w));
}

/* ---- The end -------------------------------------------------------------------------------- */

static void way_judge(struct roce_world *w, int a, int b)
{
	if (ib_ee_why(ib_mesh_ee(mesh_of(w), a, b)) != WEFT_OK)
		roce_fail(w, "the context of node %d for node %d failed", a, b);
	roce_count_packets(w, ib_mesh_pipe(mesh_of(w), a, b));
}

static void finish(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	for (int a = 0; a < RD_NODES; a++) {
		rd_judge_node(w, a);
		for (int b = 0; b < RD_NODES; b++)
			way_judge(w, a, b);
	}
	for (uint32_t i = 0; i < RD_ACTORS && !roce_has_failed(w); i++)
		roce_node_drop(rd_roce_of(rd, i), rd->actors[i].qp, rd->actors[i].tag);
	for (int n = 0; n < RD_NODES && !roce_has_failed(w); n++) {
		roce_node_drop(rd->nodes[n], NULL, rd->word_tags[n]);
		roce_node_shut(rd->nodes[n], w);
	}
}

static bool rd_step(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);
	bool is_done = true;
	int who;

	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		struct rd_actor *a = &rd->actors[i];

		rd_actor_act(w, a);
		is_done &= rd_is_done(a);
	}
	if (is_done && !roce_has_failed(w)) {
		finish(w);
		return false;
	}
	who = ib_mesh_step(mesh_of(w));
	for (int n = 0; n < RD_NODES; n++) {
		if (who < 0 || who == n)
			(void)rd_judge_poll(w, n);
	}
	if (rd_clock(w)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_rd = {
	.state_bytes = sizeof(struct rd_far),
	.open = rd_open,
	.step = rd_step,
	.close = rd_close,
	.clock = rd_clock,
};
