/* SPDX-License-Identifier: BSD-2-Clause */
/* The processes of a node, and the consumers of its connections (xrc_world.h). */
#include "base/check.h"
#include "sim/roce/xrc_world.h"

enum { CQ_ENTRIES = 256, DOMAIN = 5, OTHER_DOMAIN = 6, NO_QUEUE = 0xfedcba };

/* ---- Processes ------------------------------------------------------------------------------ */

/* Others see it when all of it is there. */
void xrc_process_begin(struct xrc_world *x, int node, struct xrc_process *p)
{
	const bool is_other = p->index == XRC_PROCESSES - 1;
	struct roce_node *n = x->nodes[node];
	const struct weft_pd_options po = { .space = n->space };
	const struct weft_cq_options co = { .entries_max = CQ_ENTRIES };
	struct weft_srq_options so = { .recv_max = XRC_RECEIVES };
	struct weft_srq *srq;

	CHECK(pd_create(&n->adapter, &po, &p->pd) == WEFT_OK);
	CHECK(cq_create(&n->adapter, &co, &p->cq) == WEFT_OK);
	so.xrc_domain = is_other ? OTHER_DOMAIN : DOMAIN;
	so.xrc_cq = p->cq;
	CHECK(srq_create(p->pd, &so, &srq) == WEFT_OK);
	p->tag = roce_node_register_in(n, p->pd, p->at, XRC_PROCESS_BYTES);
	roce_node_set(n, p->at + XRC_AT_WORD, 0, ROCE_WORD_BYTES);
	roce_node_fill(n, p->at + XRC_AT_SOURCE, XRC_OF_SOURCE + p->index, XRC_SLOT);
	p->srq = srq;
	p->srq_number = srq->number;
	p->epoch++;
	p->posted = p->received = p->lost_adds = 0;
	p->adds = (struct roce_adds){ .count = 0 };
	for (uint32_t i = 0; i < XRC_RECEIVES; i++)
		p->is_posted[i] = false;
}

bool xrc_process_drop(struct roce_node *n, struct xrc_process *p)
{
	return srq_destroy(p->srq) == WEFT_OK && cq_destroy(p->cq) == WEFT_OK &&
	       mem_region_deregister(&n->adapter.mem, p->pd->number, p->tag) == WEFT_OK &&
	       pd_destroy(p->pd) == WEFT_OK;
}

/* Nothing keeps its objects, least of all a message that is arriving. */
void xrc_process_end(struct roce_world *w, int node, struct xrc_process *p)
{
	struct roce_node *n = xrc_world_of(w)->nodes[node];

	xrc_judge_death(w, node, p);
	if (!xrc_process_drop(n, p))
		roce_fail(w, "node %d: process %u cannot end", node, p->index);
	p->srq = NULL;
	ib_node_work(n->ib);
}

static void post_receive(struct roce_world *w, int node, struct xrc_process *p)
{
	struct roce_node *n = xrc_world_of(w)->nodes[node];
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

void xrc_process_act(struct roce_world *w, int node, struct xrc_process *p)
{
	struct xrc_world *x = xrc_world_of(w);

	while (!roce_has_failed(w) && p->posted - p->received < XRC_RECEIVES &&
	       prng_below(&x->prng, 8) == 0)
		post_receive(w, node, p);
}

bool xrc_process_is_over(struct xrc_world *x, const struct xrc_process *p)
{
	return prng_below(&x->prng, p->srq ? 3000 : 100) == 0;
}

/* ---- Connections ---------------------------------------------------------------------------- */

void xrc_conn_make(struct xrc_world *x, struct xrc_conn *c, int node)
{
	const struct weft_qp_options o = {
		.service = WEFT_RC,
		.is_xrc = true,
		.send_max = XRC_DEPTH,
		.xrc_domain = node == xrc_to(c) ? DOMAIN : 0,
	};

	c->qps[node] = roce_node_qp_of(x->nodes[node], &o);
	c->numbers[node] = c->qps[node]->number;
}

bool xrc_conn_wants_reset(struct xrc_world *x, const struct xrc_conn *c)
{
	return c->resets_left > 0 && c->begun > c->ended && prng_below(&x->prng, 300) == 0;
}

void xrc_conn_reset(struct roce_world *w, struct xrc_conn *c)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct xrc_world *x = xrc_world_of(w);
	int from = xrc_from(c);

	c->resets_left--;
	xrc_judge_poll(w, from);
	if (c->is_broken || roce_has_failed(w))
		return;
	c->is_resetting = true;
	CHECK(ib_node_modify(x->nodes[from]->ib, c->qps[from], &attr, WEFT_QP_STATE) == WEFT_OK);
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
	struct roce_node *other = x->nodes[xrc_to(c)];
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

void xrc_conn_begin(struct roce_world *w, struct xrc_conn *c)
{
	struct xrc_world *x = xrc_world_of(w);
	struct roce_node *n = x->nodes[xrc_from(c)];
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

bool xrc_conn_wants_request(const struct roce_world *w, const struct xrc_conn *c)
{
	return !roce_has_failed(w) && !c->is_broken && c->qps[xrc_from(c)]->state == WEFT_QPS_RTS &&
	       c->begun < XRC_OPS && c->begun - c->ended < XRC_DEPTH;
}
