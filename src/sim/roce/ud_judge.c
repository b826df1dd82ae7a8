/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What unreliable datagrams promise (IBA 9.8.3, 10.5). One that is delivered is one that was sent,
 * with its bytes, source, immediate and route (annex A17), to an actor that it is for: the queue
 * pair or group that it names, of the same partition and Q_Key. It comes once, and again only as
 * often as the network doubled packets on that way. Where nothing is lost, it comes.
 */
#include "sim/roce/ud_world.h"

#include <string.h>

enum { NUMBER_BASE = 1000, IPV4_VERSION = 0x45, P_KEY_FULL = 0x8000 };

/* What a datagram begins with, if it has room for it. */
struct letter {
	uint32_t from, number;
};

static uint32_t bytes_number(uint32_t from, uint32_t number)
{
	return from * NUMBER_BASE + number;
}

uint32_t ud_judge_imm(const struct ud_actor *a, const struct ud_op *op)
{
	return a->index << 16 | op->number;
}

void ud_judge_fill(struct roce_world *w, const struct ud_actor *a, const struct ud_op *op)
{
	struct roce_node *n = ud_roce_of(ud_world_of(w), a->index);
	uint32_t at = a->at + UD_AT_LOCAL + op->number * UD_MTU_MAX;
	const struct letter head = { a->index, op->number };

	roce_node_fill(n, at, bytes_number(a->index, op->number), op->bytes);
	if (op->bytes < sizeof(head))
		return;
	memcpy(n->memory + at, &head, sizeof(head));
	roce_node_accept(n, at, sizeof(head));
}

/* ---- For whom ------------------------------------------------------------------------------- */

/* IBA 10.9.3: the same partition, and one of the two is a full member. */
static bool is_same_partition(uint16_t a, uint16_t b)
{
	return ((a ^ b) & ~P_KEY_FULL) == 0 && ((a | b) & P_KEY_FULL);
}

/* As the actor is now. */
static bool is_for(const struct ud_op *op, const struct ud_actor *a)
{
	if (op->q_key != a->q_key || !is_same_partition(op->p_key, a->p_key))
		return false;
	if (op->to == UD_TO_ACTOR)
		return op->target == a->index && op->dest_qp == a->qp_number;
	return op->to == UD_TO_GROUP && a->is_member[op->target][op->is_ipv6];
}

/* ---- Receives ------------------------------------------------------------------------------- */

/* Which datagram it says to be; NULL: none that was posted. */
static struct ud_op *op_of(struct ud_world *ud, const struct ud_actor *a, uint32_t at,
			   const struct weft_completion *c, struct ud_actor **from)
{
	struct letter head = { c->imm >> 16, c->imm & 0xffff };

	if (c->byte_count - UD_ROUTE >= sizeof(head))
		memcpy(&head, ud_roce_of(ud, a->index)->memory + at + UD_ROUTE, sizeof(head));
	else if (!c->has_imm)
		return NULL;
	if (head.from >= UD_ACTORS || head.number >= ud->actors[head.from].begun)
		return NULL;
	*from = &ud->actors[head.from];
	return &(*from)->ops[head.number];
}

/* Annex A17.4.5.2: the addresses of both ends, as the IP header had them. */
static bool is_route_right(const struct ud_actor *from, const struct ud_op *op,
			   const struct ud_actor *a, const uint8_t *route)
{
	struct inet_end source[2] = { 0 }, sink[2] = { 0 };
	const uint8_t *to = sink[op->is_ipv6].address;
	struct ib_group group;

	ib_node_addresses(ud_node_of(from->index), source);
	ib_node_addresses(ud_node_of(a->index), sink);
	if (op->to == UD_TO_GROUP) {
		group = ib_node_group(op->is_ipv6, (uint8_t)(1 + op->target));
		to = group.address;
	}
	if (op->is_ipv6)
		return route[0] >> 4 == 6 && memcmp(route + 8, source[1].address, 16) == 0 &&
		       memcmp(route + 24, to, 16) == 0;
	return route[20] == IPV4_VERSION && memcmp(route + 32, source[0].address, 4) == 0 &&
	       memcmp(route + 36, to, 4) == 0;
}

static bool is_whole(struct ud_world *ud, const struct ud_actor *from, const struct ud_op *op,
		     const struct ud_actor *a, uint32_t at)
{
	uint32_t head = op->bytes < sizeof(struct letter) ? 0 : (uint32_t)sizeof(struct letter);

	return roce_node_holds(ud_roce_of(ud, a->index), at + UD_ROUTE,
			       bytes_number(from->index, op->number), head, op->bytes);
}

static bool is_told_right(const struct ud_actor *from, const struct ud_op *op,
			  const struct weft_completion *c)
{
	bool has_imm = op->opcode == WEFT_OP_SEND_IMM;

	return c->opcode == WEFT_OP_RECV && c->src_qp_number == op->from_qp &&
	       c->byte_count == UD_ROUTE + op->bytes && c->has_imm == has_imm &&
	       (!has_imm || c->imm == ud_judge_imm(from, op)) && c->has_route &&
	       c->has_ipv4_route == !op->is_ipv6;
}

/* The network has doubled at least as many packets on the way between the two nodes. */
static void copy_judge(struct roce_world *w, const struct ud_actor *from, const struct ud_op *op,
		       struct ud_actor *a)
{
	struct ud_world *ud = ud_world_of(w);
	int source = ud_node_of(from->index), sink = ud_node_of(a->index);

	if (++a->copies_from[source] > ud->net->doubled(ud, source, sink))
		roce_fail(w, "actor %u: datagram %u of actor %u came %u times", a->index,
			  op->number, from->index, op->got[a->index]);
}

static void datagram_judge(struct roce_world *w, struct ud_actor *a, uint32_t at,
			   const struct weft_completion *c)
{
	struct ud_world *ud = ud_world_of(w);
	struct ud_actor *from;
	struct ud_op *op = op_of(ud, a, at, c, &from);

	if (!op || op->opcode == WEFT_OP_DELAY || op->state == UD_UNSENT)
		roce_fail(w, "actor %u: a datagram came that was not sent", a->index);
	else if (!is_told_right(from, op, c))
		roce_fail(w, "actor %u: the completion of datagram %u of actor %u is wrong",
			  a->index, op->number, from->index);
	else if (!is_whole(ud, from, op, a, at))
		roce_fail(w, "actor %u: datagram %u of actor %u has other bytes", a->index,
			  op->number, from->index);
	else if (!is_route_right(from, op, a, ud_roce_of(ud, a->index)->memory + at))
		roce_fail(w, "actor %u: datagram %u of actor %u came by another route", a->index,
			  op->number, from->index);
	else if (!is_for(op, a))
		roce_fail(w, "actor %u: datagram %u of actor %u was not for it", a->index,
			  op->number, from->index);
	else if (++op->got[a->index] > 1)
		copy_judge(w, from, op, a);
}

static void received(struct roce_world *w, struct ud_actor *a, const struct weft_completion *c)
{
	struct roce_node *n = ud_roce_of(ud_world_of(w), a->index);
	uint32_t slot = a->received % UD_RECEIVES;
	uint32_t at = a->at + UD_AT_RECEIVE + slot * UD_ROOM;

	if (a->received == a->posted || c->id != slot) {
		roce_fail(w, "actor %u: a receive ended twice, or out of order", a->index);
		return;
	}
	a->received++;
	if (c->status == WEFT_ERR_FLUSHED && a->is_resetting)
		return;
	if (c->status != WEFT_SUCCESS)
		roce_fail(w, "actor %u: a receive failed: %s, %s", a->index,
			  weft_status_name(c->status), weft_reason_name(c->reason));
	else if (c->byte_count < UD_ROUTE || c->byte_count > a->rooms[slot])
		roce_fail(w, "actor %u: a receive of %u bytes has %u", a->index, a->rooms[slot],
			  c->byte_count);
	else
		datagram_judge(w, a, at, c);
	if (!roce_has_failed(w))
		roce_node_accept(n, at, c->byte_count);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/*
 * By shared memory a datagram may wait for room. Meanwhile a delay behind it may pass, or a request
 * be found to have no address handle: this is told when those before it have ended, by a failure or
 * a reset.
 */
static bool may_be_over(const struct ud_world *ud, const struct ud_actor *a, const struct ud_op *op)
{
	return ud->is_one_host &&
	       (op->opcode == WEFT_OP_DELAY || op->is_handle_gone || a->is_resetting);
}

/* One fails only if its address handle is gone; then the rest of the queue is flushed. */
static bool has_cause(const struct ud_world *ud, const struct ud_actor *a, const struct ud_op *op,
		      const struct weft_completion *c)
{
	switch (c->status) {
	case WEFT_SUCCESS:
		return !op->is_handle_gone && (!a->is_stopped || may_be_over(ud, a, op));
	case WEFT_ERR_FLUSHED:
		return a->is_stopped || a->is_resetting;
	default:
		return op->is_handle_gone && (!a->is_stopped || may_be_over(ud, a, op)) &&
		       c->status == WEFT_ERR_LOCAL_ACCESS && c->reason == WEFT_R_PEER_UNKNOWN;
	}
}

static void ended(struct roce_world *w, struct ud_actor *a, const struct weft_completion *c)
{
	struct ud_op *op = &a->ops[a->ended % UD_OPS];

	w->requests++;
	if (a->ended == a->begun || c->id != a->ended) {
		roce_fail(w, "actor %u: request %u ended twice, or out of order", a->index,
			  a->ended);
		return;
	}
	a->ended++;
	if (!has_cause(ud_world_of(w), a, op, c))
		roce_fail(w, "actor %u: request %u ended with %s, %s, and had no cause to",
			  a->index, op->number, weft_status_name(c->status),
			  weft_reason_name(c->reason));
	if (c->status != WEFT_SUCCESS) {
		op->state = UD_UNSENT;
		a->is_stopped = true;
		return;
	}
	op->state = UD_SENT;
	w->succeeded++;
	w->bytes += op->bytes;
}

static struct ud_actor *actor_of(struct roce_world *w, int node, uint32_t number)
{
	struct ud_world *ud = ud_world_of(w);

	for (uint32_t i = 0; i < UD_ACTORS; i++) {
		if (ud_node_of(i) == node && ud->actors[i].qp_number == number)
			return &ud->actors[i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", node, number);
	return NULL;
}

/* One look at what has arrived, so that what an actor changes afterwards holds for all the rest. */
bool ud_judge_poll(struct roce_world *w, int node)
{
	struct ud_world *ud = ud_world_of(w);
	struct roce_node *n = ud->nodes[node];
	struct weft_completion c;
	bool has_some = false;
	struct ud_actor *a;

	ib_node_look(n->ib);
	while (roce_node_next(w, n->recv_cq, &c)) {
		has_some = true;
		a = actor_of(w, node, c.qp_number);
		if (a)
			received(w, a, &c);
	}
	while (roce_node_next(w, n->send_cq, &c)) {
		has_some = true;
		a = actor_of(w, node, c.qp_number);
		if (a)
			ended(w, a, &c);
	}
	for (uint32_t i = 0; i < UD_ACTORS; i++) {
		a = &ud->actors[i];
		if (ud_node_of(i) == node && a->posted == a->received)
			a->excuse_ns = ud->clock->now_ns;
	}
	return has_some;
}

/* ---- The end -------------------------------------------------------------------------------- */

/* Whether a datagram had to come: since it was posted the actor was ready for it. */
static bool was_due(const struct ud_world *ud, const struct ud_actor *from, const struct ud_op *op,
		    const struct ud_actor *a)
{
	if (op->opcode == WEFT_OP_DELAY || op->state != UD_SENT || !a->is_rich ||
	    op->posted_ns <= a->excuse_ns || !is_for(op, a) ||
	    op->posted_ns <= ud->way_excuse_ns[ud_node_of(from->index)][ud_node_of(a->index)])
		return false;
	return op->to == UD_TO_ACTOR || op->posted_ns > a->group_excuse_ns[op->target][op->is_ipv6];
}

static void lost_judge(struct roce_world *w, const struct ud_actor *from)
{
	const struct ud_world *ud = ud_world_of(w);

	for (uint32_t i = 0; i < UD_OPS; i++) {
		const struct ud_op *op = &from->ops[i];

		for (uint32_t to = 0; to < UD_ACTORS; to++) {
			if (op->got[to] > 0 && op->state != UD_SENT && op->state != UD_PERHAPS)
				roce_fail(w, "actor %u: datagram %u came, and was not sent",
					  from->index, i);
			if (op->got[to] == 0 && ud->is_lossless &&
			    was_due(ud, from, op, &ud->actors[to]))
				roce_fail(w, "actor %u: datagram %u did not come to actor %u",
					  from->index, i, to);
		}
	}
}

void ud_judge_end(struct roce_world *w)
{
	struct ud_world *ud = ud_world_of(w);

	for (uint32_t i = 0; i < UD_ACTORS; i++)
		lost_judge(w, &ud->actors[i]);
}
