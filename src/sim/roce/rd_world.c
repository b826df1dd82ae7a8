/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of reliable datagrams between all queue pairs of three nodes, on a network that
 * loses, duplicates, reorders and corrupts packets, stands still and is cut (TRN-S2). Some requests
 * are refused, some find no receive, some queue pairs are reset while they work. rd_judge.c says
 * what must come of it.
 */
#include "sim/roce/rd_world.h"

#include <string.h>

#include "base/check.h"
#include "base/draw.h"

enum {
	GAP = 64, /* between registered memories */
	NODE_BYTES = GAP + RD_QPS * (RD_ACTOR_BYTES + GAP),
	Q_KEY = 0x500, /* and the actor's number */
	RDD = 3
};

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

/* ---- Life ----------------------------------------------------------------------------------- */

static void actor_open(struct rd_world *rd, uint32_t i)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct roce_node *n = rd_roce_of(rd, i);
	struct rd_actor *a = &rd->actors[i];

	a->index = i;
	a->at = GAP + i % RD_QPS * (RD_ACTOR_BYTES + GAP);
	roce_node_fill(n, a->at + RD_AT_SOURCE, RD_OF_SOURCE + i, RD_AREA);
	a->tag = roce_node_register(n, a->at, RD_ACTOR_BYTES);
	a->qp = roce_node_qp(n, WEFT_RD, RD_DEPTH, RD_RECEIVES);
	CHECK(qp_modify(a->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
}

static void actor_attach(struct rd_world *rd, struct rd_actor *a)
{
	const struct ib_config k = {
		.rnr_timer_code = (uint8_t)(1 + prng_below(&rd->prng, 12)),
		.reads_out = 4,
		.q_key = Q_KEY + a->index,
		.rdd = RDD,
	};

	CHECK(ib_mesh_attach(rd->mesh.net, a->qp, &k) == WEFT_OK);
}

static struct ib_ee_config draw_ee(struct prng *p)
{
	struct ib_ee_config k = {
		.rdd = RDD,
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
	};

	k.path.is_ipv6 = prng_below(p, 2);
	k.path.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(p, 5)));
	k.psn_send = roce_draw_psn(p);
	k.window_packets = (uint32_t)ANY_OF(p, 0, 1, 3, 32);
	k.ack_every = (uint32_t)ANY_OF(p, 0, 1, 5, 1000);
	return k;
}

static void nodes_join(struct rd_world *rd)
{
	for (int a = 0; a < RD_NODES; a++) {
		for (int b = a; b < RD_NODES; b++) {
			const struct ib_ee_config k = draw_ee(&rd->prng);

			CHECK(ib_mesh_join(rd->mesh.net, a, b, &k) == WEFT_OK);
		}
	}
}

static int rd_open(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);
	struct sim_faults faults;

	rd->prng.state = w->seed;
	rd->resets_left = prng_below(&rd->prng, 2) ? 0 : 4;
	faults = roce_draw_faults(&rd->prng);
	if (roce_mesh_open(&rd->mesh, w, &faults, NODE_BYTES) < 0)
		return -1;
	for (int n = 0; n < RD_NODES; n++)
		rd->word_tags[n] = roce_node_register(&rd->mesh.nodes[n], 0, ROCE_WORD_BYTES);
	nodes_join(rd);
	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		actor_open(rd, i);
		actor_attach(rd, &rd->actors[i]);
	}
	return 0;
}

static void rd_close(struct roce_world *w)
{
	roce_mesh_close(&rd_world_of(w)->mesh, w);
}

static struct world *rd_clock(struct roce_world *w)
{
	return ib_mesh_world(rd_world_of(w)->mesh.net);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static void draw_send(struct roce_node *n, const struct rd_actor *a, struct rd_op *op,
		      uint32_t local)
{
	const struct rd_letter head = { a->index, op->number };

	op->bytes += (uint32_t)sizeof(head);
	roce_node_fill(n, local, op->number, op->bytes);
	memcpy(n->memory + local, &head, sizeof(head));
	roce_node_accept(n, local, sizeof(head));
}

static struct weft_send_wr draw_op(struct rd_world *rd, struct rd_actor *a, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD, WEFT_OP_WRITE_IMM };
	struct rd_op *op = &a->ops[slot];
	const struct rd_actor *peer = &rd->actors[op->to];
	struct roce_node *n = rd_roce_of(rd, a->index), *other = rd_roce_of(rd, op->to);
	struct weft_send_wr wr = { .remote_addr = roce_node_addr(other,
								 rd_target_of(peer, a, slot)),
				   .remote_tag = peer->tag,
				   .imm = op->number };

	op->opcode = wr.opcode = opcodes[prng_below(&rd->prng, 5)];
	op->bytes = roce_draw_length(&rd->prng, 8000);
	if (op->opcode == WEFT_OP_SEND) {
		draw_send(n, a, op, rd_local_of(a, slot));
	} else if (op->opcode == WEFT_OP_READ) {
		wr.remote_addr = roce_node_addr(other, peer->at + RD_AT_SOURCE);
		roce_node_set(n, rd_local_of(a, slot), 0xcc, op->bytes);
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		op->bytes = 8;
		wr.compare_add = 1;
		wr.remote_addr = roce_node_addr(other, 0);
		wr.remote_tag = rd->word_tags[rd_node_of(op->to)];
	} else {
		roce_node_fill(n, rd_local_of(a, slot), op->number, op->bytes);
	}
	return wr;
}

/* Now and then one that the other end refuses. */
static void spoil(struct prng *p, struct rd_op *op, struct weft_send_wr *wr)
{
	if (prng_below(p, 20) != 0 || op->bytes == 0)
		return;
	op->is_bad = true;
	if (op->opcode == WEFT_OP_SEND)
		wr->remote_q_key ^= 0x100;
	else
		wr->remote_tag ^= 1;
}

static void begin(struct roce_world *w, struct rd_actor *a)
{
	struct rd_world *rd = rd_world_of(w);
	struct roce_node *n = rd_roce_of(rd, a->index);
	uint32_t slot = a->begun % RD_DEPTH;
	struct rd_op *op = &a->ops[slot];
	struct weft_sge s;
	struct weft_send_wr wr;

	*op = (struct rd_op){ .is_used = true,
			      .to = prng_below(&rd->prng, RD_ACTORS),
			      .number = a->begun };
	wr = draw_op(rd, a, slot);
	s = roce_node_sge(n, rd_local_of(a, slot), op->bytes, a->tag);
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	wr.ee = ib_ee_handle(ib_mesh_ee(rd->mesh.net, rd_node_of(a->index), rd_node_of(op->to)));
	wr.dest_qp_number = rd->actors[op->to].qp->number;
	wr.remote_q_key = Q_KEY + op->to;
	spoil(&rd->prng, op, &wr);
	roce_node_post_send(w, n, a->qp, &wr);
	a->begun++;
}

/* ---- Receives ------------------------------------------------------------------------------- */

static void post_receive(struct roce_world *w, struct rd_actor *a)
{
	struct roce_node *n = rd_roce_of(rd_world_of(w), a->index);
	struct weft_sge s;
	uint32_t slot = 0;

	while (a->is_posted[slot])
		slot++;
	a->is_posted[slot] = true;
	s = roce_node_sge(n, a->at + RD_AT_RECEIVE + slot * RD_SLOT, RD_SLOT, a->tag);
	roce_node_post_recv(w, n, a->qp, &s, slot);
	a->posted++;
}

/* ---- Actors --------------------------------------------------------------------------------- */

/* A queue pair whose request failed goes on when the rest was flushed. */
static void mend(struct roce_world *w, struct rd_actor *a)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_qp_attr attr;

	qp_query(a->qp, &attr);
	if (!a->is_stopped || a->begun != a->ended)
		return;
	if (attr.state != WEFT_QPS_SQE || ib_node_modify(rd_roce_of(rd_world_of(w), a->index)->ib,
							 a->qp, &rts, WEFT_QP_STATE) != WEFT_OK)
		roce_fail(w, "actor %u: after a failure its queue pair is in %s, not SQE", a->index,
			  weft_qp_state_name(attr.state));
	a->is_stopped = false;
}

/* In the middle of whatever it does. */
static void reset(struct roce_world *w, struct rd_actor *a)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_RESET };
	struct rd_world *rd = rd_world_of(w);

	rd->resets_left--;
	rd_judge_poll(w, rd_node_of(a->index));
	a->was_reset = true;
	a->is_stopped = a->is_resetting = true;
	CHECK(ib_node_modify(rd_roce_of(rd, a->index)->ib, a->qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	rd_judge_poll(w, rd_node_of(a->index));
	if (a->begun != a->ended || a->posted != a->received)
		roce_fail(w, "actor %u: %u requests and %u receives did not end by its reset",
			  a->index, a->begun - a->ended, a->posted - a->received);
	a->is_stopped = a->is_resetting = false;
	if (!roce_has_failed(w))
		actor_attach(rd, a);
}

static void act(struct roce_world *w, struct rd_actor *a)
{
	struct rd_world *rd = rd_world_of(w);

	if (rd->resets_left > 0 && a->begun > 10 && prng_below(&rd->prng, 500) == 0)
		reset(w, a);
	mend(w, a);
	while (!roce_has_failed(w) && !a->is_stopped && a->begun < RD_OPS &&
	       a->begun - a->ended < RD_DEPTH && prng_below(&rd->prng, 3) > 0)
		begin(w, a);
	while (!roce_has_failed(w) && a->posted - a->received < RD_RECEIVES &&
	       prng_below(&rd->prng, 20) == 0)
		post_receive(w, a);
}

/* ---- The end -------------------------------------------------------------------------------- */

static void finish(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	rd_judge_end(w);
	for (uint32_t i = 0; i < RD_ACTORS && !roce_has_failed(w); i++)
		roce_node_drop(rd_roce_of(rd, i), rd->actors[i].qp, rd->actors[i].tag);
	for (int n = 0; n < RD_NODES && !roce_has_failed(w); n++) {
		roce_node_drop(&rd->mesh.nodes[n], NULL, rd->word_tags[n]);
		roce_node_shut(&rd->mesh.nodes[n], w);
	}
}

static bool rd_step(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);
	bool is_done = true;
	int who;

	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		struct rd_actor *a = &rd->actors[i];

		act(w, a);
		is_done &= a->ended == RD_OPS && !a->is_stopped;
	}
	if (is_done && !roce_has_failed(w)) {
		finish(w);
		return false;
	}
	who = ib_mesh_step(rd->mesh.net);
	for (int n = 0; n < RD_NODES; n++) {
		if (who < 0 || who == n)
			rd_judge_poll(w, n);
	}
	if (ib_mesh_world(rd->mesh.net)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_rd = {
	.state_bytes = sizeof(struct rd_world),
	.open = rd_open,
	.step = rd_step,
	.close = rd_close,
	.clock = rd_clock,
};
