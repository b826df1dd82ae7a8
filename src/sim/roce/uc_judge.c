/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/uc_world.h"

#include <string.h>

enum { NUMBER_BYTES = 4 }; /* ahead of a Send without immediate */

/* ---- Work ----------------------------------------------------------------------------------- */

void uc_post_receives(struct roce_world *w, struct uc_end *e, uint32_t count)
{
	while (e->posted < count) {
		uint32_t i = e->posted++;
		const struct weft_sge s = roce_node_sge(
			e->node, e->at + UC_AT_RECEIVE + i * UC_SLOT, UC_SLOT, e->tag);

		roce_node_post_recv(w, e->node, e->qp, &s, i);
	}
}

static uint32_t draw_length(struct prng *p)
{
	static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 4096 };
	const uint32_t count = sizeof(lengths) / sizeof(lengths[0]);
	uint32_t any = prng_below(p, UC_SLOT), pick = prng_below(p, count + 1);

	return pick < count ? lengths[pick] : any;
}

void uc_begin(struct roce_world *w, struct prng *prng, struct uc_end *e, const struct uc_end *peer)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_SEND_IMM,
						    WEFT_OP_WRITE_IMM };
	struct roce_node *node = e->node;
	uint32_t number = e->begun++, at = number * UC_SLOT, local = e->at + UC_AT_LOCAL + at;
	struct uc_op *op = &e->ops[number];
	struct weft_sge s;
	struct weft_send_wr wr = {
		.id = number,
		.sges = &s,
		.sge_count = 1,
		.imm = number,
		.remote_addr = roce_node_addr(peer->node, peer->at + UC_AT_TARGET + at),
		.remote_tag = peer->tag,
	};

	op->opcode = wr.opcode = opcodes[prng_below(prng, 3)];
	op->bytes = draw_length(prng);
	if (op->opcode == WEFT_OP_SEND && op->bytes < NUMBER_BYTES)
		op->bytes = NUMBER_BYTES;
	s = roce_node_sge(node, local, op->bytes, e->tag);
	roce_node_fill(node, local, number, op->bytes);
	if (op->opcode == WEFT_OP_SEND) {
		memcpy(node->memory + local, &number, NUMBER_BYTES);
		roce_node_accept(node, local, NUMBER_BYTES);
	}
	roce_node_post_send(w, node, e->qp, &wr);
}

/* ---- The judge ------------------------------------------------------------------------------ */

void uc_judge_ended(struct roce_world *w, struct uc_end *e, const struct weft_completion *c)
{
	if (c->status != WEFT_SUCCESS || c->id != e->ended)
		roce_fail(w, "node %u: request %u failed or ended out of order: %s", e->node->index,
			  e->ended, weft_status_name(c->status));
	w->requests++;
	w->succeeded++;
	w->bytes += e->ops[e->ended % UC_OPS].bytes;
	e->ended++;
}

/* Whether a message is one that was sent, and later than the last. */
static bool is_due(const struct uc_end *e, const struct uc_end *peer, uint32_t number,
		   const struct weft_completion *c)
{
	const struct uc_op *op = &peer->ops[number];

	return number >= e->next && number < peer->begun &&
	       c->has_imm == (op->opcode != WEFT_OP_SEND) && c->byte_count == op->bytes &&
	       (c->opcode == WEFT_OP_RECV_WRITE_IMM) == (op->opcode == WEFT_OP_WRITE_IMM);
}

/* A message must be one that was due, and all of it be there. */
void uc_judge_came(struct roce_world *w, struct uc_end *e, const struct uc_end *peer,
		   const struct weft_completion *c)
{
	struct roce_node *node = e->node;
	uint32_t at = e->at + UC_AT_RECEIVE + e->received * UC_SLOT, number = c->imm, skip = 0;

	if (c->status != WEFT_SUCCESS || c->id != e->received) {
		roce_fail(w, "node %u: receive %u failed or was out of order: %s", node->index,
			  e->received, weft_status_name(c->status));
		return;
	}
	if (!c->has_imm) {
		memcpy(&number, node->memory + at, NUMBER_BYTES);
		skip = NUMBER_BYTES;
	}
	if (number >= UC_OPS || !is_due(e, peer, number, c)) {
		roce_fail(w, "node %u: receive %u has message %u, which was not due", node->index,
			  e->received, number);
		return;
	}
	if (peer->ops[number].opcode == WEFT_OP_WRITE_IMM)
		at = e->at + UC_AT_TARGET + number * UC_SLOT;
	if (!roce_node_holds(node, at, number, skip, c->byte_count))
		roce_fail(w, "node %u: message %u is not what was sent", node->index, number);
	roce_node_accept(node, at, c->byte_count);
	e->received++;
	e->next = number + 1;
}

/*
 * A message of which a packet was lost may have written what came before it, up to its length; and
 * so into the receive that the next message then took.
 */
void uc_judge_end(struct roce_world *w, struct uc_end *e, const struct uc_end *peer)
{
	uint32_t due = e->posted < peer->begun ? e->posted : peer->begun;

	if (e->ended != e->begun)
		roce_fail(w, "node %u: %u of %u requests ended", e->node->index, e->ended,
			  e->begun);
	if (!e->is_lossy && e->received != due)
		roce_fail(w, "node %u: %u of %u messages came, and none was lost", e->node->index,
			  e->received, due);
	for (uint32_t i = 0; i < peer->begun; i++) {
		if (peer->ops[i].opcode == WEFT_OP_WRITE_IMM)
			roce_node_accept(e->node, e->at + UC_AT_TARGET + i * UC_SLOT,
					 peer->ops[i].bytes);
	}
	if (e->is_lossy)
		roce_node_accept(e->node, e->at + UC_AT_RECEIVE, e->posted * UC_SLOT);
	roce_node_judge(w, e->node);
}
