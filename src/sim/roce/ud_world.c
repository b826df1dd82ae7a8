/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random datagrams between queue pairs of three nodes and to multicast groups, on a network that
 * loses, duplicates, reorders and corrupts packets, stands still and is cut.
 */
#include "sim/roce/ud_world.h"

#include "base/check.h"
#include "sim/roce/roce_mesh.h"

_Static_assert((int)UD_NODES == (int)ROCE_MESH_NODES, "each node has actors");

struct ud_far {
	struct ud_world ud;
	struct roce_mesh mesh;
};

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

static struct ud_far *far_of(struct ud_world *ud)
{
	return CONTAINER_OF(ud, struct ud_far, ud);
}

/* ---- The network ---------------------------------------------------------------------------- */

static void attach(struct ud_world *ud, int node, struct weft_qp *qp, const struct ib_config *k)
{
	(void)node;
	CHECK(ib_mesh_attach(far_of(ud)->mesh.net, qp, k) == WEFT_OK);
}

static void address(struct ud_world *ud, int node, struct weft_ah *ah)
{
	(void)ud;
	(void)node;
	(void)ah;
}

static uint64_t doubled(struct ud_world *ud, int from, int to)
{
	return ib_mesh_pipe(far_of(ud)->mesh.net, from, to)->counts.duplicated;
}

static const struct ud_net net = { attach, address, doubled };

/* ---- Life ----------------------------------------------------------------------------------- */

static int ud_open(struct roce_world *w)
{
	struct ud_world *ud = ud_world_of(w);
	struct roce_mesh *mesh = &far_of(ud)->mesh;
	struct sim_faults faults;

	ud->prng.state = prng_mix(w->seed);
	faults = roce_draw_faults(&ud->prng);
	if (prng_below(&ud->prng, 3) == 0)
		faults.loss_ppm = faults.corrupt_ppm = faults.cut_ppm = 0;
	ud->is_lossless = !faults.loss_ppm && !faults.corrupt_ppm && !faults.cut_ppm;
	ud->mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&ud->prng, 5)));
	if (roce_mesh_open(mesh, w, &faults, UD_NODE_BYTES) < 0)
		return -1;
	ud->net = &net;
	ud->clock = ib_mesh_world(mesh->net);
	for (int n = 0; n < UD_NODES; n++)
		ud->nodes[n] = &mesh->nodes[n];
	for (uint32_t i = 0; i < UD_ACTORS; i++)
		ud_actor_open(ud, i);
	return 0;
}

static void ud_close(struct roce_world *w)
{
	roce_mesh_close(&far_of(ud_world_of(w))->mesh, w);
}

static struct world *ud_clock(struct roce_world *w)
{
	return ib_mesh_world(far_of(ud_world_of(w))->mesh.net);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void pipes_count(struct roce_world *w, struct ud_world *ud)
{
	for (int a = 0; a < UD_NODES; a++) {
		for (int b = 0; b < UD_NODES; b++) {
			const struct sim_datagram *pipe = ib_mesh_pipe(far_of(ud)->mesh.net, a, b);

			ud->is_lossless &= pipe->counts.dropped_full == 0;
			roce_count_packets(w, pipe);
		}
	}
}

static void finish(struct roce_world *w)
{
	struct ud_world *ud = ud_world_of(w);

	pipes_count(w, ud);
	ud_judge_end(w);
	for (int n = 0; n < UD_NODES; n++)
		roce_node_judge(w, ud->nodes[n]);
	for (uint32_t i = 0; i < UD_ACTORS && !roce_has_failed(w); i++)
		ud_actor_drop(ud_roce_of(ud, i), &ud->actors[i]);
	for (int n = 0; n < UD_NODES && !roce_has_failed(w); n++)
		roce_node_shut(ud->nodes[n], w);
}

/* Until all has been sent, and what is under way has arrived. */
static bool ud_step(struct roce_world *w)
{
	struct ud_world *ud = ud_world_of(w);
	struct ib_mesh *mesh = far_of(ud)->mesh.net;
	bool is_done = true;
	int who;

	for (uint32_t i = 0; i < UD_ACTORS; i++) {
		struct ud_actor *a = &ud->actors[i];

		ud_actor_act(w, a);
		is_done &= ud_is_done(a);
	}
	if (is_done && !roce_has_failed(w) && !ib_mesh_is_flowing(mesh)) {
		finish(w);
		return false;
	}
	who = ib_mesh_step(mesh);
	for (int n = 0; n < UD_NODES; n++) {
		if (who < 0 || who == n)
			(void)ud_judge_poll(w, n);
	}
	if (ud->clock->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_ud = {
	.state_bytes = sizeof(struct ud_far),
	.open = ud_open,
	.step = ud_step,
	.close = ud_close,
	.clock = ud_clock,
};
