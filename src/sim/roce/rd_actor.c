/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue pairs of a node and their consumers (rd_world.h). */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/rd_world.h"

enum { Q_KEY = 0x500 /* and the actor's number */ };

/* ---- Life ----------------------------------------------------------------------------------- */

static void actor_open(struct rd_world *rd, uint32_t i)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct roce_node *n = rd_roce_of(rd, i);
	struct rd_actor *a = &rd->actors[i];

	a->index = i;
	a->at = RD_GAP + i % RD_QPS * (RD_ACTOR_BYTES + RD_GAP);
	roce_node_fill(n, a->at + RD_AT_SOURCE, RD_OF_SOURCE + i, RD_AREA);
	a->tag = roce_node_register(n, a->at, RD_ACTOR_BYTES);
	a->qp = roce_node_qp(n, WEFT_RD, RD_DEPTH, RD_RECEIVES);
	CHECK(qp_modify(a->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	CHECK(a->life_count < RD_LIVES);
	a->lives[a->life_count++] = (struct rd_life){ a->qp->number, a->begun };
}

static void actor_attach(struct rd_world *rd, struct rd_actor *a)
{
	const struct ib_config k = {
		.rnr_timer_code = (uint8_t)(1 + prng_below(&rd->prng, 12)),
		.reads_out = 4,
		.q_key = Q_KEY + a->index,
		.rdd = RD_DOMAIN,
	};

	rd->net->attach(rd, rd_node_of(a->index), a->qp, &k);
}

struct ib_ee_config rd_draw_ee(struct prng *p)
{
	struct ib_ee_config k = {
		.rdd = RD_DOMAIN,
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

void rd_word_begin(struct rd_world *rd, int node)
{
	rd->word_tags[node] = roce_node_register(rd->nodes[node], 0, ROCE_WORD_BYTES);
}

void rd_actors_begin(struct rd_world *rd, int node)
{
	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		if (rd_node_of(i) != node)
			continue;
		actor_open(rd, i);
		actor_attach(rd, &rd->actors[i]);
	}
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
	uint32_t to = prng_below(&rd->prng, RD_ACTORS);
	int at = rd_node_of(a->index), node = rd_node_of(to);
	struct ib_ee *ee = rd->net->ee(rd, at, node);
	struct rd_op *op = &a->ops[slot];
	struct weft_sge s;
	struct weft_send_wr wr;

	if (!ee)
		return;
	*op = (struct rd_op){ .is_used = true,
			      .to = to,
			      .number = a->begun,
			      .epoch = rd->epochs[node],
			      .generation = rd_way_of(rd, at, node)->generation };
	wr = draw_op(rd, a, slot);
	s = roce_node_sge(n, rd_local_of(a, slot), op->bytes, a->tag);
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	wr.ee = ib_ee_handle(ee);
	wr.dest_qp_number = rd_qp_number(&rd->actors[op->to]);
	wr.remote_q_key = Q_KEY + op->to;
	spoil(&rd->prng, op, &wr);
	a->begun++;
	roce_node_post_send(w, n, a->qp, &wr);
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
	(void)rd_judge_poll(w, rd_node_of(a->index));
	a->was_reset = true;
	a->is_stopped = a->is_resetting = true;
	CHECK(ib_node_modify(rd_roce_of(rd, a->index)->ib, a->qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	(void)rd_judge_poll(w, rd_node_of(a->index));
	if (a->begun != a->ended || a->posted != a->received)
		roce_fail(w, "actor %u: %u requests and %u receives did not end by its reset",
			  a->index, a->begun - a->ended, a->posted - a->received);
	a->is_stopped = a->is_resetting = false;
	if (!roce_has_failed(w))
		actor_attach(rd, a);
}

void rd_actor_act(struct roce_world *w, struct rd_actor *a)
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

bool rd_is_done(const struct rd_actor *a)
{
	return a->ended == RD_OPS && !a->is_stopped;
}
