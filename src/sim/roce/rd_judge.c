/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What reliable datagrams promise. When a request completes, the judge looks at the memory of both
 * ends: a Write is there, a Read is right, Sends of one queue pair to another come in order and
 * once, and every addition is counted once (QP-S3).
 */
#include "sim/roce/rd_world.h"

#include <string.h>

/* ---- Requests ------------------------------------------------------------------------------- */

/* The node that the request is for has not ended since. */
static bool is_alive(const struct rd_world *rd, const struct rd_op *op)
{
	return op->epoch == rd->epochs[rd_node_of(op->to)];
}

/* A request was cut off by a reset: its bytes may be where they were to go, or some of them. */
static void bytes_lost(struct rd_world *rd, struct rd_actor *a, uint32_t slot)
{
	const struct rd_op *op = &a->ops[slot];
	uint32_t *bytes = &a->may_have_written[op->to][slot];

	if (op->opcode == WEFT_OP_READ || op->opcode == WEFT_OP_FETCH_ADD)
		roce_node_accept(rd_roce_of(rd, a->index), rd_local_of(a, slot), op->bytes);
	else if (op->opcode != WEFT_OP_SEND && op->bytes > *bytes && is_alive(rd, op))
		*bytes = op->bytes;
}

/* Not known: it may have been carried out, and may still be. */
static void ended_perhaps(struct rd_world *rd, struct rd_actor *a, uint32_t slot)
{
	const struct rd_op *op = &a->ops[slot];

	bytes_lost(rd, a, slot);
	if (!is_alive(rd, op))
		return;
	if (op->opcode == WEFT_OP_FETCH_ADD)
		rd->lost_adds[rd_node_of(op->to)]++;
	else
		rd->lost_sends[op->to]++;
}

static bool is_excused(struct rd_world *rd, const struct rd_actor *a, const struct rd_op *op)
{
	const struct rd_way *way = rd_way_of(rd, rd_node_of(a->index), rd_node_of(op->to));

	return way->is_broken || way->generation != op->generation;
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
	w->succeeded++;
	w->bytes += op->bytes;
	if (!is_alive(rd, op)) { /* the memory is that of another by now */
		bytes_lost(rd, a, slot);
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
}

/* What was under way when its queue pair was reset may have been carried out, or not. */
static void ended_flushed(struct roce_world *w, struct rd_actor *a, uint32_t slot)
{
	struct rd_world *rd = rd_world_of(w);
	const struct rd_op *op = &a->ops[slot];

	if (!a->is_stopped)
		roce_fail(w, "actor %u: request %u was flushed without a failure before it",
			  a->index, op->number);
	if (a->is_resetting)
		ended_perhaps(rd, a, slot);
}

/*
 * The other was away, if the request was good. A poll for receives may have brought the failure
 * just before the reset: then it is found behind it.
 */
static void ended_badly(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct rd_op *op = &a->ops[c->id];
	bool was_away = rd->actors[op->to].was_reset || is_excused(rd, a, op);

	if ((a->is_stopped && !a->is_resetting) || (!op->is_bad && !was_away) ||
	    !(c->status == WEFT_ERR_REMOTE_ACCESS || c->status == WEFT_ERR_PEER_GONE ||
	      (c->status == WEFT_ERR_REMOTE_REQUEST && was_away)))
		roce_fail(w, "actor %u: request %u to actor %u failed without a cause: %s, %s",
			  a->index, op->number, op->to, weft_status_name(c->status),
			  weft_reason_name(c->reason));
	if (is_excused(rd, a, op))
		ended_perhaps(rd, a, (uint32_t)c->id);
	else if (!op->is_bad)
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
static uint32_t context_towards(struct rd_world *rd, uint32_t actor, uint32_t other)
{
	const struct ib_ee *ee = rd->net->ee(rd, rd_node_of(actor), rd_node_of(other));

	return ee ? ib_ee_number(ee) : 0;
}

/* The queue pair by which it sent that request. */
static uint32_t source_of(const struct rd_actor *a, uint32_t number)
{
	uint32_t i = a->life_count - 1;

	while (i > 0 && a->lives[i].first > number)
		i--;
	return a->lives[i].qp_number;
}

/* A Send names its sender, and comes after those that the sender had sent before. */
static void letter_judge(struct roce_world *w, struct rd_actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct roce_node *n = rd_roce_of(rd, a->index);
	uint32_t at = a->at + RD_AT_RECEIVE + (uint32_t)c->id * RD_SLOT;
	struct rd_letter head;

	memcpy(&head, n->memory + at, sizeof(head));
	if (head.from >= RD_ACTORS ||
	    c->src_qp_number != source_of(&rd->actors[head.from], head.number) ||
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
		if (rd_node_of(i) == node && rd_qp_number(&rd->actors[i]) == number)
			return &rd->actors[i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", node, number);
	return NULL;
}

bool rd_judge_poll(struct roce_world *w, int node)
{
	struct roce_node *n = rd_world_of(w)->nodes[node];
	struct weft_completion c;
	bool has_some = false;
	struct rd_actor *a;

	while (!roce_has_failed(w) && ib_node_cq_poll(n->ib, n->send_cq, &c)) {
		has_some = true;
		a = actor_of(w, node, c.qp_number);
		if (a)
			ended(w, a, &c);
	}
	while (!roce_has_failed(w) && ib_node_cq_poll(n->ib, n->recv_cq, &c)) {
		has_some = true;
		a = actor_of(w, node, c.qp_number);
		if (a)
			received(w, a, &c);
	}
	return has_some;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void actor_lose(struct rd_world *rd, struct rd_actor *a)
{
	while (a->ended < a->begun) {
		uint32_t slot = a->ended++ % RD_DEPTH;

		if (!a->ops[slot].is_bad)
			ended_perhaps(rd, a, slot);
		a->ops[slot].is_used = false;
	}
	a->posted = a->received = a->got = 0;
	memset(a->is_posted, 0, sizeof(a->is_posted));
	memset(a->came_from, 0, sizeof(a->came_from));
	a->is_stopped = a->is_resetting = a->was_reset = false;
	rd->lost_sends[a->index] = 0;
	for (uint32_t from = 0; from < RD_ACTORS; from++) {
		rd->actors[from].sent_to[a->index] = 0;
		memset(rd->actors[from].may_have_written[a->index], 0,
		       sizeof(rd->actors[from].may_have_written[a->index]));
	}
}

/* Of requests to it those are not known any more that are on their way, too. */
void rd_judge_lost(struct rd_world *rd, int node)
{
	rd->epochs[node]++;
	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		if (rd_node_of(i) == node)
			actor_lose(rd, &rd->actors[i]);
	}
	rd->adds[node] = (struct roce_adds){ .count = 0 };
	rd->lost_adds[node] = 0;
}

/*
 * Every message that ended well came, once. What was flushed had not begun, but for what was under
 * way when its queue pair was reset.
 */
static void count_judge(struct roce_world *w, uint32_t to)
{
	struct rd_world *rd = rd_world_of(w);
	uint32_t sent = 0, got = rd->actors[to].got;

	for (uint32_t from = 0; from < RD_ACTORS; from++)
		sent += rd->actors[from].sent_to[to];
	if (got < sent || got > sent + rd->lost_sends[to])
		roce_fail(w, "actor %u got %u messages of %u", to, got, sent);
}

/* Of requests that were cut off: parts of Writes, and of Sends in receives that wait on. */
static void lost_bytes_accept(struct rd_world *rd, const struct rd_actor *a)
{
	struct roce_node *n = rd_roce_of(rd, a->index);

	for (uint32_t slot = 0; slot < RD_RECEIVES; slot++) {
		if (a->is_posted[slot])
			roce_node_accept(n, a->at + RD_AT_RECEIVE + slot * RD_SLOT, RD_SLOT);
	}
	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		const struct rd_actor *from = &rd->actors[i];

		for (uint32_t slot = 0; slot < RD_DEPTH; slot++)
			roce_node_accept(n, rd_target_of(a, from, slot),
					 from->may_have_written[a->index][slot]);
	}
}

void rd_judge_node(struct roce_world *w, int node)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		if (rd_node_of(i) != node)
			continue;
		count_judge(w, i);
		lost_bytes_accept(rd, &rd->actors[i]);
	}
	roce_judge_word(w, rd->nodes[node], 0, &rd->adds[node], rd->lost_adds[node]);
	roce_node_judge(w, rd->nodes[node]);
}
