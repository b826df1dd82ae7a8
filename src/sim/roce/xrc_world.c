/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of XRC between two nodes, on a network that loses, duplicates, reorders and corrupts
 * packets, stands still and is cut (TRN-S2). xrc_judge.c says what must come of it.
 */
#include "sim/roce/xrc_world.h"

#include "base/check.h"
#include "base/draw.h"

enum {
	GAP = 64, /* between registered memories */
	CONN_BYTES = XRC_DEPTH * XRC_SLOT,
	AT_PROCESSES = GAP + XRC_CONNS * (CONN_BYTES + GAP),
	PROCESS_STEP = (XRC_PROCESS_BYTES + GAP + 7) / 8 * 8, /* words are aligned */
	NODE_BYTES = AT_PROCESSES + XRC_PROCESSES * PROCESS_STEP,
	CQ_ENTRIES = 256,
	DOMAIN = 5,
	OTHER_DOMAIN = 6,
	NO_QUEUE = 0xfedcba,
	RESETS = 2,
	TIMEOUT_CODE = 14 /* 67 ms: a few of them, before an end is told that the other has left */
};

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

/* ---- Processes ------------------------------------------------------------------------------ */

static void process_begin(struct roce_node *n, struct xrc_process *p)
{
	const bool is_other = p->index == XRC_PROCESSES - 1;
	const struct weft_pd_options po = { .space = n->space };
	const struct weft_cq_options co = { .entries_max = CQ_ENTRIES };
	struct weft_srq_options so = { .recv_max = XRC_RECEIVES };

	CHECK(pd_create(&n->adapter, &po, &p->pd) == WEFT_OK);
	CHECK(cq_create(&n->adapter, &co, &p->cq) == WEFT_OK);
	so.xrc_domain = is_other ? OTHER_DOMAIN : DOMAIN;
	so.xrc_cq = p->cq;
	CHECK(srq_create(p->pd, &so, &p->srq) == WEFT_OK);
	p->srq_number = p->srq->number;
	p->tag = roce_node_register_in(n, p->pd, p->at, XRC_PROCESS_BYTES);
	roce_node_set(n, p->at + XRC_AT_WORD, 0, ROCE_WORD_BYTES);
	roce_node_fill(n, p->at + XRC_AT_SOURCE, XRC_OF_SOURCE + p->index, XRC_SLOT);
	p->epoch++;
	p->posted = p->received = p->lost_adds = 0;
	p->adds = (struct roce_adds){ .count = 0 };
	for (uint32_t i = 0; i < XRC_RECEIVES; i++)
		p->is_posted[i] = false;
}

/* Nothing keeps its objects, least of all a message that is arriving. */
static void process_end(struct roce_world *w, int node, struct xrc_process *p)
{
	struct roce_node *n = &xrc_world_of(w)->pair.nodes[node];

	xrc_judge_death(w, node, p);
	if (srq_destroy(p->srq) != WEFT_OK || cq_destroy(p->cq) != WEFT_OK ||
	    mem_region_deregister(&n->adapter.mem, p->pd->number, p->tag) != WEFT_OK ||
	    pd_destroy(p->pd) != WEFT_OK)
		roce_fail(w, "node %d: process %u cannot end", node, p->index);
	p->srq = NULL;
	ib_node_work(n->ib);
}

static void post_receive(struct roce_world *w, int node, struct xrc_process *p)
{
	struct roce_node *n = &xrc_world_of(w)->pair.nodes[node];
	struct weft_recv_wr wr = { .sge_count = 1 };
	struct weft_sge s;
	uint32_t posted;

	while (p->is_posted[wr.id])
		wr.id++;
	p->is_posted[wr.id] = true;
	s = roce_node_sge(n, p->at + XRC_AT_RECEIVE + (uint32_t)wr.id * XRC_SLOT, XRC_SLOT, p->tag);
	wr.sges = &s;
	if (srq_post(p->srq, &wr, 1, &posted) != WEFT_OK)
		roce_fail(w, "node %d: process %u: its queue does not take a receive", node,
			  p->index);
	p->posted++;
	ib_node_work(n->ib);
}

static void process_act(struct roce_world *w, int node, struct xrc_process *p)
{
	struct xrc_world *x = xrc_world_of(w);

	if (!p->srq) {
		if (prng_below(&x->prng, 100) == 0)
			process_begin(&x->pair.nodes[node], p);
		return;
	}
	while (!roce_has_failed(w) && p->posted - p->received < XRC_RECEIVES &&
	       prng_below(&x->prng, 8) == 0)
		post_receive(w, node, p);
	if (prng_below(&x->prng, 3000) == 0) {
		xrc_judge_poll(w, node);
		process_end(w, node, p);
	}
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void conn_connect(struct xrc_world *x, struct xrc_conn *c)
{
	struct weft_qp_options o = { .service = WEFT_RC, .is_xrc = true, .send_max = XRC_DEPTH };
	struct ib_wire_options wire;

	roce_draw_wire(&x->prng, &wire);
	wire.timeout_code = TIMEOUT_CODE;
	wire.rnr_retries = IB_RNR_RETRY_FOREVER; /* a shared queue gives no credits */
	for (int n = 0; n < 2; n++) {
		o.xrc_domain = n == xrc_to(c) ? DOMAIN : 0;
		c->qps[n] = roce_node_qp_of(&x->pair.nodes[n], &o);
	}
	CHECK(ib_net_connect(x->pair.net, c->qps, &wire) == WEFT_OK);
	c->is_broken = c->is_cut = false;
}

/* By new queue pairs: packets on their way to the old ones are for those. */
static void conn_mend(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);

	if (!c->is_broken || c->begun != c->ended || c->qps[xrc_to(c)]->state != WEFT_QPS_ERROR)
		return;
	for (int n = 0; n < 2; n++)
		xrc_judge_poll(w, n);
	if (roce_has_failed(w))
		return;
	xrc_judge_broken(w, c);
	for (int n = 0; n < 2; n++)
		roce_node_drop(&x->pair.nodes[n], c->qps[n], 0);
	conn_connect(x, c);
}

/* In the middle of whatever it does. The target is told of it later. */
static void conn_reset(struct roce_world *w, struct xrc_conn *c)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct xrc_world *x = xrc_world_of(w);
	int from = xrc_from(c);

	c->resets_left--;
	xrc_judge_poll(w, from);
	if (c->is_broken || roce_has_failed(w))
		return;
	c->is_resetting = true;
	CHECK(ib_node_modify(x->pair.nodes[from].ib, c->qps[from], &attr, WEFT_QP_STATE) ==
	      WEFT_OK);
	xrc_judge_poll(w, from);
	if (c->begun != c->ended)
		roce_fail(w, "connection %u: %u requests did not end with it", c->index,
			  c->begun - c->ended);
	c->is_resetting = false;
	c->is_broken = c->is_cut = true;
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Now and then one that the target must refuse. */
static void spoil(struct xrc_world *x, const struct xrc_conn *c, struct xrc_op *op,
		  struct weft_send_wr *wr)
{
	const struct xrc_process *all = x->processes[xrc_to(c)];
	const struct xrc_process *other = &all[(op->to + 1) % XRC_PROCESSES];
	bool is_remote = op->opcode != WEFT_OP_SEND && op->opcode != WEFT_OP_SEND_IMM;

	if (op->to == XRC_PROCESSES - 1 || !all[op->to].srq)
		op->fault = XRC_NO_QUEUE;
	if (prng_below(&x->prng, 60) != 0)
		return;
	if (op->fault == XRC_GOOD && is_remote && op->bytes > 0 && other->srq &&
	    prng_below(&x->prng, 2)) {
		op->fault = XRC_NO_RIGHT;
		wr->remote_addr += (uint64_t)other->at - all[op->to].at;
		wr->remote_tag = other->tag;
		return;
	}
	op->fault = XRC_NO_QUEUE;
	wr->dest_qp_number = NO_QUEUE;
}

static struct weft_send_wr draw_op(struct xrc_world *x, const struct xrc_conn *c, struct xrc_op *op)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND,     WEFT_OP_SEND,
						    WEFT_OP_SEND_IMM, WEFT_OP_WRITE,
						    WEFT_OP_READ,     WEFT_OP_FETCH_ADD,
						    WEFT_OP_WRITE_IMM };
	struct roce_node *other = &x->pair.nodes[xrc_to(c)];
	const struct xrc_process *p;
	struct weft_send_wr wr = { .id = op->number, .imm = op->number, .compare_add = 1 };
	uint32_t at;

	/* One in eighty to the process of another domain. */
	op->to = prng_below(&x->prng, 80) ? prng_below(&x->prng, XRC_PROCESSES - 1)
					  : XRC_PROCESSES - 1;
	p = &x->processes[xrc_to(c)][op->to];
	op->epoch = p->epoch;
	op->opcode = wr.opcode = opcodes[prng_below(&x->prng, 7)];
	op->bytes = roce_draw_length(&x->prng, 4000);
	at = xrc_target_at(p, c, op);
	if (op->opcode == WEFT_OP_SEND || op->opcode == WEFT_OP_SEND_IMM) {
		op->bytes += XRC_LETTER_BYTES;
	} else if (op->opcode == WEFT_OP_READ) {
		at = p->at + XRC_AT_SOURCE;
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		at = p->at + XRC_AT_WORD;
		op->bytes = ROCE_WORD_BYTES;
	}
	wr.remote_addr = roce_node_addr(other, at);
	wr.remote_tag = p->tag;
	wr.dest_qp_number = p->srq_number;
	return wr;
}

static void begin(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);
	struct roce_node *n = &x->pair.nodes[xrc_from(c)];
	struct xrc_op *op = &c->ops[c->begun];
	struct weft_send_wr wr;
	struct weft_sge s;

	*op = (struct xrc_op){ .number = c->begun++ };
	wr = draw_op(x, c, op);
	spoil(x, c, op, &wr);
	xrc_judge_fill(w, c, op);
	s = roce_node_sge(n, xrc_local_at(c, op), op->bytes, c->tag);
	wr.sges = &s;
	wr.sge_count = 1;
	roce_node_post_send(w, n, c->qps[xrc_from(c)], &wr);
}

static void conn_act(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);

	if (c->resets_left > 0 && c->begun > c->ended && prng_below(&x->prng, 300) == 0)
		conn_reset(w, c);
	conn_mend(w, c);
	while (!roce_has_failed(w) && !c->is_broken && c->qps[xrc_from(c)]->state == WEFT_QPS_RTS &&
	       c->begun < XRC_OPS && c->begun - c->ended < XRC_DEPTH && prng_below(&x->prng, 3) > 0)
		begin(w, c);
}

/* ---- Life ----------------------------------------------------------------------------------- */

static int node_open(struct xrc_world *x, int n)
{
	struct roce_node *node = &x->pair.nodes[n];

	if (roce_node_open(node, ib_net_node(x->pair.net, n), NODE_BYTES) < 0)
		return -1;
	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		struct xrc_process *p = &x->processes[n][i];

		p->index = i;
		p->at = (AT_PROCESSES + 7) / 8 * 8 + i * PROCESS_STEP;
		process_begin(node, p);
	}
	return 0;
}

static int xrc_open(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);
	struct sim_faults faults[2];

	x->prng.state = prng_mix(w->seed);
	for (int n = 0; n < 2; n++)
		faults[n] = roce_draw_faults(&x->prng);
	if (roce_pair_open(&x->pair, w, faults) < 0 || node_open(x, 0) < 0 || node_open(x, 1) < 0)
		return -1;
	for (uint32_t i = 0; i < XRC_CONNS; i++) {
		struct xrc_conn *c = &x->conns[i];

		c->index = i;
		c->at = GAP + i * (CONN_BYTES + GAP);
		c->resets_left = prng_below(&x->prng, 2) ? 0 : RESETS;
		c->tag = roce_node_register(&x->pair.nodes[xrc_from(c)], c->at, CONN_BYTES);
		conn_connect(x, c);
	}
	return 0;
}

static void xrc_close(struct roce_world *w)
{
	roce_pair_close(&xrc_world_of(w)->pair, w);
}

static struct world *xrc_clock(struct roce_world *w)
{
	return ib_net_world(xrc_world_of(w)->pair.net);
}

static void finish(struct roce_world *w)
{
	struct xrc_world *x = xrc_world_of(w);

	for (int n = 0; n < 2; n++)
		xrc_judge_poll(w, n);
	xrc_judge_end(w);
	for (uint32_t i = 0; i < XRC_CONNS && !roce_has_failed(w); i++) {
		struct xrc_conn *c = &x->conns[i];

		roce_node_drop(&x->pair.nodes[0], c->qps[0], 0);
		roce_node_drop(&x->pair.nodes[1], c->qps[1], 0);
		roce_node_drop(&x->pair.nodes[xrc_from(c)], NULL, c->tag);
	}
	for (int n = 0; n < 2 && !roce_has_failed(w); n++) {
		for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
			if (x->processes[n][i].srq)
				process_end(w, n, &x->processes[n][i]);
		}
		roce_node_shut(&x->pair.nodes[n], w);
	}
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
	who = ib_net_step(x->pair.net);
	for (int n = 0; n < 2; n++) {
		if (who < 0 || who == n)
			xrc_judge_poll(w, n);
	}
	if (xrc_clock(w)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_xrc = {
	.state_bytes = sizeof(struct xrc_world),
	.open = xrc_open,
	.step = xrc_step,
	.close = xrc_close,
	.clock = xrc_clock,
};
