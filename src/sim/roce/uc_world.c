/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random messages of unreliable connections on a network that loses and corrupts packets, stands
 * still and is cut (IBA 9.8.2): what arrives is whole, right and in order, and neither end is told
 * of the rest. Some seeds run out of receives. The network neither duplicates packets nor lets them
 * overtake each other: by UC a message of one packet would come twice, or late.
 */
#include "sim/roce/uc_world.h"

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/roce_pair.h"

enum { GAP = 64, NODE_BYTES = UC_END_BYTES + GAP }; /* the gap is behind what is registered */

static const uint64_t quiet_ns = UINT64_C(1000) * 1000000;
static const uint64_t end_max_ns = UINT64_C(200) * 1000000000;

struct uc_world {
	struct prng prng;
	struct roce_pair pair;
	struct uc_end ends[2];
	uint64_t until_ns; /* when what is under way has had its time */
};

static struct uc_world *uc_world_of(const struct roce_world *w)
{
	return w->state;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static struct sim_faults draw_faults(struct uc_world *uc, int n)
{
	struct sim_faults f = roce_draw_faults(&uc->prng);

	f.duplicate_ppm = f.reorder_ppm = 0;
	uc->ends[!n].is_lossy = f.loss_ppm || f.corrupt_ppm || f.cut_ppm;
	return f;
}

static int ends_open(struct uc_world *uc)
{
	for (int n = 0; n < 2; n++) {
		struct roce_node *node = &uc->pair.nodes[n];
		struct uc_end *e = &uc->ends[n];

		if (roce_node_open(node, ib_net_node(uc->pair.net, n), NODE_BYTES) < 0)
			return -1;
		e->node = node;
		e->tag = roce_node_register(node, 0, UC_END_BYTES);
		e->qp = roce_node_qp(node, WEFT_UC, UC_OPS, UC_OPS);
	}
	return 0;
}

static int uc_open(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);
	struct ib_wire_options wire = { .reads = { 1, 1 } };
	struct sim_faults faults[2];
	struct weft_qp *qps[2];
	uint32_t receives[2];

	uc->prng.state = prng_mix(w->seed);
	for (int n = 0; n < 2; n++) {
		faults[n] = draw_faults(uc, n);
		receives[n] = (uint32_t)ANY_OF(&uc->prng, UC_OPS, UC_OPS, UC_OPS / 2);
		wire.psn[n] = roce_draw_psn(&uc->prng);
	}
	wire.is_ipv6 = prng_below(&uc->prng, 2);
	wire.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&uc->prng, 5)));
	if (roce_pair_open(&uc->pair, w, faults) < 0 || ends_open(uc) < 0)
		return -1;
	for (int n = 0; n < 2; n++)
		qps[n] = uc->ends[n].qp;
	CHECK(ib_net_connect(uc->pair.net, qps, &wire) == WEFT_OK);
	for (int n = 0; n < 2; n++)
		uc_post_receives(w, &uc->ends[n], receives[n]);
	uc->until_ns = quiet_ns;
	return 0;
}

static void uc_close(struct roce_world *w)
{
	roce_pair_close(&uc_world_of(w)->pair, w);
}

static struct world *uc_clock(struct roce_world *w)
{
	return ib_net_world(uc_world_of(w)->pair.net);
}

/* ---- Work ----------------------------------------------------------------------------------- */

static void poll(struct roce_world *w, int n)
{
	struct uc_world *uc = uc_world_of(w);
	struct roce_node *node = &uc->pair.nodes[n];
	struct weft_completion c;

	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->send_cq, &c))
		uc_judge_ended(w, &uc->ends[n], &c);
	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->recv_cq, &c))
		uc_judge_came(w, &uc->ends[n], &uc->ends[!n], &c);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void finish(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);

	for (int n = 0; n < 2; n++) {
		uc_judge_end(w, &uc->ends[n], &uc->ends[!n]);
		roce_count_packets(w, ib_net_pipe(uc->pair.net, n));
	}
	for (int n = 0; n < 2 && !roce_has_failed(w); n++) {
		roce_node_drop(&uc->pair.nodes[n], uc->ends[n].qp, uc->ends[n].tag);
		roce_node_shut(&uc->pair.nodes[n], w);
	}
}

/* Until all has been sent, and what is under way has had its time. */
static bool uc_step(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);
	const struct world *clock = ib_net_world(uc->pair.net);

	if (clock->now_ns >= uc->until_ns) {
		finish(w);
		return false;
	}
	for (int n = 0; n < 2; n++) {
		if (uc->ends[n].begun < UC_OPS && prng_below(&uc->prng, 3) == 0)
			uc_begin(w, &uc->prng, &uc->ends[n], &uc->ends[!n]);
		if (uc->ends[n].ended < UC_OPS)
			uc->until_ns = clock->now_ns + quiet_ns;
	}
	(void)ib_net_step(uc->pair.net);
	poll(w, 0);
	poll(w, 1);
	if (clock->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_uc = {
	.state_bytes = sizeof(struct uc_world),
	.open = uc_open,
	.step = uc_step,
	.close = uc_close,
	.clock = uc_clock,
};
