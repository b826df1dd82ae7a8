/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of XRC between two nodes, on a network that loses, duplicates, reorders and corrupts
 * packets, stands still and is cut (TRN-S2). xrc_judge.c says what must come of it.
 */
#include "sim/roce/xrc_world.h"

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/roce_pair.h"

enum {
	RESETS = 2,
	TIMEOUT_CODE = 14 /* 67 ms: a few of them, before an end is told that the other has left */
};

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

struct xrc_far {
	struct xrc_world xrc;
	struct roce_pair pair;
};

static struct xrc_far *far_of(struct xrc_world *x)
{
	return CONTAINER_OF(x, struct xrc_far, xrc);
}

/* ---- What happens --------------------------------------------------------------------------- */

static void process_act(struct roce_world *w, int node, struct xrc_process *p)
{
	struct xrc_world *x = xrc_world_of(w);

	if (p->srq)
		xrc_process_act(w, node, p);
	if (!xrc_process_is_over(x, p))
		return;
	if (!p->srq) {
		xrc_process_begin(x, node, p);
		return;
	}
	(void)xrc_judge_poll(w, node);
	xrc_process_end(w, node, p);
}

static void conn_connect(struct xrc_world *x, struct xrc_conn *c)
{
	struct ib_wire_options wire;

	roce_draw_wire(&x->prng, &wire);
	wire.timeout_code = TIMEOUT_CODE;
	wire.rnr_retries = IB_RNR_RETRY_FOREVER; /* a shared queue gives no credits */
	for (int n = 0; n < 2; n++)
		xrc_conn_make(x, c, n);
	CHECK(ib_net_connect(far_of(x)->pair.net, c->qps, &wire) == WEFT_OK);
	c->is_broken = c->is_cut = false;
}

/* By new queue pairs: packets on their way to the old ones are for those. */
static void conn_mend(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);

	if (!c->is_broken || c->begun != c->ended || c->qps[xrc_to(c)]->state != WEFT_QPS_ERROR)
		return;
	for (int n = 0; n < 2; n++)
		(void)xrc_judge_poll(w, n);
	if (roce_has_failed(w))
		return;
	xrc_judge_broken(w, c);
	for (int n = 0; n < 2; n++)
		roce_node_drop(x->nodes[n], c->qps[n], 0);
	conn_connect(x, c);
}

static void conn_act(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);

	if (xrc_conn_wants_reset(x, c))
		xrc_conn_reset(w, c);
	conn_mend(w, c);
	while (xrc_conn_wants_request(w, c) && prng_below(&x->prng, 3) > 0)
		xrc_conn_begin(w, c);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static int node_open(struct xrc_world *x, int n)
{
	struct roce_pair *pair = &far_of(x)->pair;

	x->nodes[n] = &pair->nodes[n];
	if (roce_node_open(x->nodes[n], ib_net_node(pair->net, n), XRC_NODE_BYTES) < 0)
		return -1;
	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		struct xrc_process *p = &x->processes[n][i];

		p->index = i;
		p->at = XRC_AT_PROCESSES + i * XRC_PROCESS_STEP;
		xrc_process_begin(x, n, p);
	}
	return 0;
}

static void conn_open(struct xrc_world *x, struct xrc_conn *c, uint32_t index)
{
	static const bool never = false;

	c->index = index;
	c->at = XRC_GAP + index * XRC_CONN_STEP;
	c->resets_left = prng_below(&x->prng, 2) ? 0 : RESETS;
	c->is_excused = &never;
	c->tag = roce_node_register(x->nodes[xrc_from(c)], c->at, XRC_CONN_BYTES);
	conn_connect(x, c);
}

static int xrc_open(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);
	struct sim_faults faults[2];

	x->prng.state = prng_mix(w->seed);
	for (int n = 0; n < 2; n++)
		faults[n] = roce_draw_faults(&x->prng);
	if (roce_pair_open(&far_of(x)->pair, w, faults) < 0 || node_open(x, 0) < 0 ||
	    node_open(x, 1) < 0)
		return -1;
	for (uint32_t i = 0; i < XRC_CONNS; i++)
		conn_open(x, &x->conns[i], i);
	return 0;
}

static void xrc_close(struct roce_world *w)
{
	roce_pair_close(&far_of(xrc_world_of(w))->pair, w);
}

static struct world *xrc_clock(struct roce_world *w)
{
	return ib_net_world(far_of(xrc_world_of(w))->pair.net);
}

static void node_finish(struct roce_world *w, int n)
{
	struct xrc_world *x = xrc_world_of(w);

	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		if (x->processes[n][i].srq)
			xrc_process_end(w, n, &x->processes[n][i]);
	}
	roce_node_shut(x->nodes[n], w);
}

static void finish(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);

	for (int n = 0; n < 2; n++)
		(void)xrc_judge_poll(w, n);
	xrc_judge_conns(w);
	for (int n = 0; n < 2; n++) {
		xrc_judge_node(w, n);
		roce_count_packets(w, ib_net_pipe(far_of(x)->pair.net, n));
	}
	for (uint32_t i = 0; i < XRC_CONNS && !roce_has_failed(w); i++) {
		struct xrc_conn *c = &x->conns[i];

		roce_node_drop(x->nodes[0], c->qps[0], 0);
		roce_node_drop(x->nodes[1], c->qps[1], 0);
		roce_node_drop(x->nodes[xrc_from(c)], NULL, c->tag);
	}
	for (int n = 0; n < 2 && !roce_has_failed(w); n++)
		node_finish(w, n);
}

static bool xrc_step(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);
	bool is_done = true;
	int who;

	for (int n = 0; n < 2; n++) {
		for (uint32_t i = 0; i < XRC_PROCESSES && !roce_has_failed(w); i++)
			process_act(w, n, &x->processes[n][i]);
	}
	for (uint32_t i = 0; i < XRC_CONNS; i++) {
		conn_act(w, &x->conns[i]);
		is_done &= x->conns[i].ended == XRC_OPS && !x->conns[i].is_broken;
	}
	if (is_done && !roce_has_failed(w)) {
		finish(w);
		return false;
	}
	who = ib_net_step(far_of(x)->pair.net);
	for (int n = 0; n < 2; n++) {
		if (who < 0 || who == n)
			(void)xrc_judge_poll(w, n);
	}
	if (xrc_clock(w)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_xrc = {
	.state_bytes = sizeof(struct xrc_far),
	.open = xrc_open,
	.step = xrc_step,
	.close = xrc_close,
	.clock = xrc_clock,
};
