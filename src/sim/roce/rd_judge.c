/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What reliable datagrams promise. When a request completes, the judge looks at the memory of both
 * ends: a Write is there, a Read is right, Sends of one queue pair to another come in order and
 * once, and every addition is counted once (QP-S3).
 */
#include "sim/roce/rd_world.h"

#include <string.h>

/* ---- Requests ------------------------------------------------------------------------------- */

/* A request was cut off by a reset: its bytes may be where they were to go, or some of them. */
static void bytes_lost(struct rd_world *rd, struct rd_actor *a, uint32_t slot)
{
	const struct rd_op *op = &a->ops[slot];
	uint32_t *bytes = &a->may_have_written[op->to][slot];

	if (op->opcode == WEFT_OP_READ || op->opcode == WEFT_OP_FETCH_ADD)
		roce_node_accept(rd_roce_of(rd, a->index), rd_local_of(a, slot), op->bytes);
	else if (op->opcode != WEFT_OP_SEND && op->bytes > *bytes)
		*bytes = op->bytes;
}

static void ended_well(struct roce_world *w, struct rd_actor *a, uint32_t slot)
{
	struct rd_world *rd = rd_world_of(w);
	const struct rd_op *op = &a->ops[slot];

	if (op->is_bad) {
		roce_fail(w, "actor %u: request %u had to be refused and ended well", a->index,
			  op->number);
		return;
	}
	roce_judge_done(w, &(struct roce_done){
				   .who = "actor",
				   .index = a->index,
				   .request = op->number,
				   .opcode = op->opcode,
				   .number = op->opcode == WEFT_OP_READ ? RD_OF_SOURCE + op->to
									: op->number,
				   .bytes = op->bytes,
				   .node = rd_roce_of(rd, a->index),
				   .other = rd_roce_of(rd, op->to),
				   .local = rd_local_of(a, slot),
				   .target = rd_target_of(&rd->actors[op->to], a, slot),
				   .adds = &rd->adds[rd_node_of(op->to)],
			   });
	a->sent_to[op->to] += op->opcode == WEFT_OP_WRITE_IMM || op->opcode == WEFT_OP_SEND;
	w->succeeded++;
	w->bytes += op->bytes;
}

/* What was under way when its queue pair was reset may have been carried out, or not. */
static void ended_flushed(struct roce_world *w, struct rd_actor *a, uint32_t slot)
{
	struct rd_world *rd = rd_world_of(w);
	const struct rd_op *op = &a->ops[slot];

	if (!a->is_stopped)
		roce_fail(w, "actor %u: request %u was flushed without a failure before it",
			  a->index, op->number);
	if (!a->is_resetting)
		return;
	if (op->opcode == WEFT_OP_FETCH_ADD)
		rd->lost_adds++;
	else
		rd->lost_sends++;
	bytes_lost(rd, a, slot);
}

/*
 * The other was away, if the request was good. A poll for receives may have brought the failure
 * just before the reset: then it is found behind it.
 */
static void ended_badly(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct rd_op *op = &a->ops[c->id];
	bool was_away = rd->actors[op->to].was_reset;

	if ((a->is_stopped && !a->is_resetting) || (!op->is_bad && !was_away) ||
	    !(c->status == WEFT_ERR_REMOTE_ACCESS || c->status == WEFT_ERR_PEER_GONE ||
	      (c->status == WEFT_ERR_REMOTE_REQUEST && was_away)))
		roce_fail(w, "actor %u: request %u to actor %u failed without a cause: %s, %s",
			  a->index, op->number, op->to, weft_status_name(c->status),
			  weft_reason_name(c->reason));
	if (!op->is_bad)
		bytes_lost(rd, a, (uint32_t)c->id);
	a->is_stopped = true;
}

static void ended(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	struct rd_op *op = &a->ops[c->id % RD_DEPTH];

	w->requests++;
	if (c->id != a->ended % RD_DEPTH || !op->is_used) {
		roce_fail(w, "actor %u: request %u ended twice, or out of order", a->index,
			  a->ended);
		return;
	}
	if (c->status == WEFT_SUCCESS)
		ended_well(w, a, (uint32_t)c->id);
	else if (c->status == WEFT_ERR_FLUSHED)
		ended_flushed(w, a, (uint32_t)c->id);
	else
		ended_badly(w, a, c);
	op->is_used = false;
	a->ended++;
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* RD-04: a node has one context towards each other. */
static uint32_t context_towards(const struct rd_world *rd, uint32_t actor, uint32_t other)
{
	return ib_ee_number(ib_mesh_ee(rd->mesh.net, rd_node_of(actor), rd_node_of(other)));
}

/* A Send names its sender, and comes after those that the sender had sent before. */
static void letter_judge(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct roce_node *n = rd_roce_of(rd, a->index);
	uint32_t at = a->at + RD_AT_RECEIVE + (uint32_t)c->id * RD_SLOT;
	struct rd_letter head;

	memcpy(&head, n->memory + at, sizeof(head));
	if (head.from >= RD_ACTORS || c->src_qp_number != rd->actors[head.from].qp->number ||
	    c->src_ee_number != context_towards(rd, a->index, head.from) ||
	    !roce_node_holds(n, at, head.number, sizeof(head), c->byte_count)) {
		roce_fail(w, "actor %u: a message is not what its sender sent", a->index);
		return;
	}
	if (a->came_from[head.from] > 0 && head.number <= a->latest_from[head.from])
		roce_fail(w, "actor %u: message %u of actor %u came twice or late", a->index,
			  head.number, head.from);
	a->latest_from[head.from] = head.number;
	a->came_from[head.from]++;
}

/* Receives end in any order, as messages of several nodes may arrive at a time. */
static void received(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	uint32_t at = a->at + RD_AT_RECEIVE + (uint32_t)c->id % RD_RECEIVES * RD_SLOT;

	if (c->id >= RD_RECEIVES || !a->is_posted[c->id]) {
		roce_fail(w, "actor %u: a receive ended that was not posted", a->index);
		return;
	}
	a->received++;
	a->is_posted[c->id] = false;
	/* Part of a message may be in one that was flushed, and in one that took the next. */
	roce_node_accept(rd_roce_of(rd_world_of(w), a->index), at, RD_SLOT);
	if (c->status == WEFT_ERR_FLUSHED)
		return;
	if (c->status != WEFT_SUCCESS)
		roce_fail(w, "actor %u: a receive failed: %s", a->index,
			  weft_status_name(c->status));
	a->got++;
	if (c->opcode != WEFT_OP_RECV_WRITE_IMM && !roce_has_failed(w))
		letter_judge(w, a, c);
}

static struct rd_actor *actor_of(struct roce_world *w, int node, uint32_t number)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		if (rd_node_of(i) == node && rd->actors[i].qp->number == number)
			return &rd->actors[i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", node, number);
	return NULL;
}

void rd_judge_poll(struct roce_world *w, int node)
{
	struct roce_node *n = &rd_world_of(w)->mesh.nodes[node];
	struct weft_completion c;
	struct rd_actor *a;

	while (!roce_has_failed(w) && ib_node_cq_poll(n->ib, n->send_cq, &c)) {
		a = actor_of(w, node, c.qp_number);
		if (a)
			ended(w, a, &c);
	}
	while (!roce_has_failed(w) && ib_node_cq_poll(n->ib, n->recv_cq, &c)) {
		a = actor_of(w, node, c.qp_number);
		if (a)
			received(w, a, &c);
	}
}

/* ---- The end -------------------------------------------------------------------------------- */

/*
 * Every message that ended well came, once. What was flushed had not begun, but for what was under
 * way when its queue pair was reset.
 */
static void counts_judge(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t to = 0; to < RD_ACTORS; to++) {
		uint32_t sent = 0, got = rd->actors[to].got;

		for (uint32_t from = 0; from < RD_ACTORS; from++)
			sent += rd->actors[from].sent_to[to];
		if (got < sent || got > sent + rd->lost_sends)
			roce_fail(w, "actor %u got %u messages of %u", to, got, sent);
	}
	for (int n = 0; n < RD_NODES; n++)
		roce_judge_word(w, &rd->mesh.nodes[n], 0, &rd->adds[n], rd->lost_adds);
}

/* Of requests that a reset cut off: parts of Writes, and of Sends in receives that wait on. */
static void lost_bytes_accept(struct rd_world *rd, const struct rd_actor *a)
{
	for (uint32_t slot = 0; slot < RD_RECEIVES; slot++) {
		if (a->is_posted[slot])
			roce_node_accept(rd_roce_of(rd, a->index),
					 a->at + RD_AT_RECEIVE + slot * RD_SLOT, RD_SLOT);
	}
	for (uint32_t to = 0; to < RD_ACTORS; to++) {
		for (uint32_t slot = 0; slot < RD_DEPTH; slot++)
			roce_node_accept(rd_roce_of(rd, to), rd_target_of(&rd->actors[to], a, slot),
					 a->may_have_written[to][slot]);
	}
}

static void memory_judge(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t i = 0; i < RD_ACTORS; i++)
		lost_bytes_accept(rd, &rd->actors[i]);
	for (int n = 0; n < RD_NODES; n++)
		roce_node_judge(w, &rd->mesh.nodes[n]);
	for (int a = 0; a < RD_NODES; a++) {
		for (int b = 0; b < RD_NODES; b++) {
			if (ib_ee_why(ib_mesh_ee(rd->mesh.net, a, b)) != WEFT_OK)
				roce_fail(w, "the context of node %d for node %d failed", a, b);
			roce_count_packets(w, ib_mesh_pipe(rd->mesh.net, a, b));
		}
	}
}

void rd_judge_end(struct roce_world *w)
{
	counts_judge(w);
	memory_judge(w);
}
