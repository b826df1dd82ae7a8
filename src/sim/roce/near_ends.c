/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ends of connections between two processes of a host, their requests and their judge. The
 * processes know each other's numbers and states, as by a connection manager that loses nothing.
 */
#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/near_world.h"

#include <string.h>

enum { OF_WRITE = 100000, OF_SOURCE = 1000000 }; /* numbers of bytes; of Sends: from 0 on */

/* So long the requests of a connection may take to end, after it broke. */
static const uint64_t excuse_ns = UINT64_C(30) * 1000000000;

static struct nw_end *other_end(const struct nw_process *p, uint32_t pair)
{
	struct nw_process *other = p->world->now[!p->near->process.node];

	return other ? &other->ends[pair] : NULL;
}

static void other_poke(const struct nw_process *p)
{
	struct nw_process *other = p->world->now[!p->near->process.node];

	if (other)
		near_poke(&other->near->process);
}

static void excuse(struct near_world *w, struct nw_pair *pair)
{
	if (!pair->is_excused)
		pair->excused_ns = w->world.now_ns;
	pair->is_excused = true;
}

void nw_excuse(struct near_world *w, uint32_t pair)
{
	excuse(w, &w->pairs[pair]);
	w->pairs[pair].is_ending = true;
	for (int n = 0; n < 2; n++) {
		if (w->now[n])
			near_poke(&w->now[n]->near->process);
	}
}

static uint32_t in_flight(const struct nw_end *e)
{
	return e->begun - e->ended;
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void pair_begin(struct near_world *w, struct nw_pair *pair)
{
	pair->generation++;
	pair->is_ending = pair->is_excused = false;
	roce_draw_wire(&w->prng, &pair->wire);
	pair->wire.rnr_retries = IB_RNR_RETRY_FOREVER;
}

static void end_make(struct nw_process *p, uint32_t pair)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct near_world *w = p->world;
	struct roce_node *node = &p->near->node;
	struct nw_end *e = &p->ends[pair];

	*e = (struct nw_end){ .at = NW_GAP + pair * (NW_END_BYTES + NW_GAP), .phase = NW_MADE };
	e->depth = 1 + prng_below(&w->prng, NW_DEPTH);
	e->life = (uint32_t)ANY_OF(&w->prng, 3, 10, NW_OPS);
	roce_node_set(node, e->at, 0, NW_END_BYTES);
	roce_node_fill(node, e->at + NW_AT_SOURCE, OF_SOURCE, NW_SLOT);
	e->tag = roce_node_register(node, e->at, NW_END_BYTES);
	e->is_open = true;
	e->qp = roce_node_qp(node, WEFT_RC, NW_DEPTH, NW_DEPTH);
	e->qp_number = e->qp->number;
	CHECK(qp_modify(e->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
	other_poke(p);
}

static void end_connect(struct nw_process *p, uint32_t pair, const struct nw_end *other)
{
	struct near_world *w = p->world;
	struct nw_end *e = &p->ends[pair];
	const struct ib_wire_options *o = &w->pairs[pair].wire;
	int i = (int)p->near->process.node;
	struct ib_config k = ib_wire_config(o, i, other->qp_number);
	struct inet_end at[2][2] = { 0 };

	for (int n = 0; n < 2; n++)
		ib_node_addresses(n, at[n]);
	k.path.from = at[i][o->is_ipv6];
	k.path.to = at[!i][o->is_ipv6];
	k.path.flow_label = iba_flow_label(e->qp->number, k.peer_qp);
	k.path.from.port = iba_udp_port(k.path.flow_label);
	e->peer = w->now[!i]->near;
	e->phase = NW_UP;
	near_node_connect(p->near, e->qp, &k);
	other_poke(p);
}

void nw_end_drop(struct nw_process *p, uint32_t pair)
{
	struct near_world *w = p->world;
	struct nw_end *e = &p->ends[pair];
	struct roce_node *node = &p->near->node;

	if (e->phase == NW_DOWN)
		return;
	p->near->process.masks++;
	qp_destroy(e->qp);
	ib_node_work(&p->near->ib);
	if (e->tag)
		CHECK(mem_region_deregister(&node->adapter.mem, node->pd->number, e->tag) ==
		      WEFT_OK);
	e->is_open = false;
	p->near->process.masks--;
	w->pairs[pair].ended[p->near->process.node] += e->ended;
	e->phase = NW_DOWN;
	other_poke(p);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Of the end, at a slot of its memory. */
static struct weft_send_wr draw_op(struct nw_process *p, struct nw_end *e, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = {
		WEFT_OP_WRITE,	   WEFT_OP_READ,  WEFT_OP_SEND,
		WEFT_OP_FETCH_ADD, WEFT_OP_WRITE, WEFT_OP_READ
	};
	struct prng *prng = &p->world->prng;
	const struct nw_end *other = other_end(p, (uint32_t)(e - p->ends));
	struct roce_node *node = &p->near->node;
	struct nw_op *op = &e->ops[slot];
	uint32_t at = slot * NW_SLOT, target = NW_AT_TARGET + at;

	op->opcode = opcodes[prng_below(prng, 6)];
	op->bytes = prng_below(prng, 4) == 0 ? NW_SLOT : roce_draw_length(prng, NW_SLOT);
	op->number = OF_WRITE + e->begun;
	op->order = e->begun;
	if (op->opcode == WEFT_OP_SEND) {
		e->send_orders[e->sent] = e->begun;
		op->number = e->sent++;
	}
	if (op->opcode == WEFT_OP_FETCH_ADD) {
		op->bytes = ROCE_WORD_BYTES;
		target = NW_AT_WORD;
	}
	if (op->opcode == WEFT_OP_SEND || op->opcode == WEFT_OP_WRITE)
		roce_node_fill(node, e->at + NW_AT_LOCAL + at, op->number, op->bytes);
	else
		roce_node_set(node, e->at + NW_AT_LOCAL + at, 0xcc, op->bytes);
	if (op->opcode == WEFT_OP_READ)
		target = NW_AT_SOURCE;
	return (struct weft_send_wr){
		.opcode = op->opcode,
		.compare_add = op->opcode == WEFT_OP_FETCH_ADD,
		.remote_addr = roce_node_addr(&e->peer->node, other->at + target),
		.remote_tag = other->tag,
	};
}

static void begin(struct nw_process *p, struct nw_end *e)
{
	struct roce_node *node = &p->near->node;
	uint32_t slot = e->begun % NW_DEPTH;
	struct weft_send_wr wr = draw_op(p, e, slot);
	struct weft_sge s = roce_node_sge(node, e->at + NW_AT_LOCAL + slot * NW_SLOT,
					  e->ops[slot].bytes, e->tag);

	e->ops[slot].is_used = true;
	e->begun++;
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	roce_node_post_send(p->world->judged, node, e->qp, &wr);
}

static void post_receive(struct nw_process *p, struct nw_end *e)
{
	struct roce_node *node = &p->near->node;
	uint32_t slot = e->posted % NW_DEPTH;
	const struct weft_sge s = roce_node_sge(node, e->at + NW_AT_RECEIVE + slot * NW_SLOT,
						NW_SLOT, e->tag);

	e->posted++;
	roce_node_post_recv(p->world->judged, node, e->qp, &s, slot);
}

/* ---- The judge ------------------------------------------------------------------------------ */

/* A request ended well: what it was to do is done. */
static void ended_well(struct nw_process *p, struct nw_end *e, const struct nw_op *op)
{
	struct roce_world *w = p->world->judged;
	uint32_t slot = (uint32_t)(op - e->ops);
	struct nw_process *peer = e->peer->scenario;

	roce_judge_done(w, &(struct roce_done){
				   .who = "node",
				   .index = p->near->process.node,
				   .request = e->ended,
				   .opcode = op->opcode,
				   .number = op->opcode == WEFT_OP_READ ? OF_SOURCE : op->number,
				   .bytes = op->bytes,
				   .node = &p->near->node,
				   .other = &e->peer->node,
				   .local = e->at + NW_AT_LOCAL + slot * NW_SLOT,
				   .target = e->at + NW_AT_TARGET + slot * NW_SLOT,
				   .adds = &peer->ends[e - p->ends].adds,
			   });
	w->succeeded++;
	w->bytes += op->bytes;
}

static struct nw_end *end_of(struct nw_process *p, uint32_t number)
{
	for (uint32_t i = 0; i < NW_PAIRS; i++) {
		if (p->ends[i].phase != NW_DOWN && p->ends[i].qp_number == number)
			return &p->ends[i];
	}
	return NULL;
}

static void take_send(struct nw_process *p, const struct weft_completion *c)
{
	struct roce_world *w = p->world->judged;
	struct nw_end *e = end_of(p, c->qp_number);
	struct nw_op *op;

	if (!e) /* of a queue pair that has gone */
		return;
	w->requests++;
	op = &e->ops[c->id];
	if (c->id != e->ended % NW_DEPTH || !op->is_used)
		roce_fail(w, "node %u: request %u of QP %06x ended twice, or out of order",
			  p->near->process.node, e->ended, c->qp_number);
	else if (c->status == WEFT_SUCCESS)
		ended_well(p, e, op);
	else if (!p->world->pairs[e - p->ends].is_excused)
		roce_fail(w, "node %u: request %u of QP %06x failed: %s, %s", p->near->process.node,
			  e->ended, c->qp_number, weft_status_name(c->status),
			  weft_reason_name(c->reason));
	op->is_used = false;
	e->ended++;
}

/* A Send that has come comes behind the Writes before it. */
static void judge_order(struct nw_process *p, const struct nw_end *e, uint32_t order)
{
	const struct nw_process *peer = e->peer->scenario;
	const struct nw_end *from = &peer->ends[e - p->ends];

	for (uint32_t i = 0; i < NW_DEPTH; i++) {
		const struct nw_op *op = &from->ops[i];

		if (op->is_used && op->opcode == WEFT_OP_WRITE && op->order < order &&
		    !roce_node_holds(&p->near->node, e->at + NW_AT_TARGET + i * NW_SLOT, op->number,
				     0, op->bytes))
			roce_fail(p->world->judged, "node %u: a Send overtook a Write",
				  p->near->process.node);
	}
}

static void take_recv(struct nw_process *p, const struct weft_completion *c)
{
	struct roce_world *w = p->world->judged;
	struct roce_node *node = &p->near->node;
	struct nw_end *e = end_of(p, c->qp_number);
	const struct nw_process *peer;
	uint32_t at;

	if (!e || c->status != WEFT_SUCCESS)
		return;
	at = e->at + NW_AT_RECEIVE + e->received % NW_DEPTH * NW_SLOT;
	peer = e->peer->scenario;
	if (c->id != e->received % NW_DEPTH)
		roce_fail(w, "node %u: receive %u of QP %06x was out of order", node->index,
			  e->received, c->qp_number);
	else if (!roce_node_holds(node, at, e->received, 0, c->byte_count))
		roce_fail(w, "node %u: receive %u of QP %06x has not the message that was due",
			  node->index, e->received, c->qp_number);
	else if (!p->world->pairs[e - p->ends].is_excused)
		judge_order(p, e, peer->ends[e - p->ends].send_orders[e->received]);
	roce_node_accept(node, at, c->byte_count);
	e->received++;
}

bool nw_poll(struct nw_process *p)
{
	struct roce_node *node = &p->near->node;
	bool has_some = false;
	struct weft_completion c;

	while (roce_node_next(p->world->judged, node->send_cq, &c)) {
		take_send(p, &c);
		has_some = true;
	}
	while (roce_node_next(p->world->judged, node->recv_cq, &c)) {
		take_recv(p, &c);
		has_some = true;
	}
	return has_some;
}

/* Every byte is what requests that ended well made of it. */
static void judge_end(struct nw_process *p, const struct nw_end *e, const struct nw_end *other)
{
	struct roce_world *w = p->world->judged;
	struct roce_node *node = &p->near->node;

	if (e->received != other->sent)
		roce_fail(w, "node %u: received %u of %u Sends", node->index, e->received,
			  other->sent);
	roce_judge_word(w, node, e->at + NW_AT_WORD, &e->adds, 0);
	if (memcmp(node->memory + e->at, node->shadow + e->at, NW_END_BYTES) != 0)
		roce_fail(w, "node %u: memory has changed, and no request wrote it", node->index);
}

/* ---- The end of a registration -------------------------------------------------------------- */

static void registration_end(struct nw_process *p, struct nw_end *e)
{
	struct roce_node *node = &p->near->node;
	struct mem_table *t = &node->adapter.mem;

	if (prng_below(&p->world->prng, 2) &&
	    mem_invalidate(t, node->pd->number, e->qp->number, e->tag) == WEFT_OK)
		return;
	CHECK(mem_region_deregister(t, node->pd->number, e->tag) == WEFT_OK);
	e->tag = 0;
}

/*
 * While the peer accesses the memory, and begins to: when the call has returned no byte of it
 * changes.
 */
static void region_end(struct nw_process *p, struct nw_end *e)
{
	uint32_t pair = (uint32_t)(e - p->ends);

	excuse(p->world, &p->world->pairs[pair]);
	registration_end(p, e);
	e->is_open = false;
	roce_node_accept(&p->near->node, e->at, NW_END_BYTES);
	nw_excuse(p->world, pair);
}

static void judge_closed(struct nw_process *p, const struct nw_end *e)
{
	struct roce_node *node = &p->near->node;

	if (!e->is_open && memcmp(node->memory + e->at, node->shadow + e->at, NW_END_BYTES) != 0)
		roce_fail(p->world->judged, "node %u: memory changed after its registration ended",
			  node->index);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

static bool has_ended(const struct near_world *w, const struct nw_pair *pair)
{
	return (pair->ended[0] >= NW_OPS && pair->ended[1] >= NW_OPS) || roce_has_failed(w->judged);
}

static bool work_down(struct nw_process *p, uint32_t i)
{
	struct near_world *w = p->world;
	struct nw_pair *pair = &w->pairs[i];
	const struct nw_end *other = other_end(p, i);

	if (pair->is_done || !other)
		return false;
	if (other->phase == NW_DOWN && has_ended(w, pair)) {
		pair->is_done = true;
		other_poke(p);
		return true;
	}
	if (other->phase == NW_DOWN)
		pair_begin(w, pair);
	else if (other->phase != NW_MADE || pair->is_excused)
		return false;
	end_make(p, i);
	return true;
}

static bool work_made(struct nw_process *p, uint32_t i)
{
	const struct nw_end *other = other_end(p, i);

	if (p->world->pairs[i].is_excused)
		nw_end_drop(p, i);
	else if (other && other->phase != NW_DOWN)
		end_connect(p, i, other);
	else
		return false;
	return true;
}

/* Its requests have all ended, or cannot: the connection ends. True: it has. */
static bool end_if_over(struct nw_process *p, uint32_t i)
{
	struct near_world *w = p->world;
	struct nw_end *e = &p->ends[i], *other = other_end(p, i);
	struct nw_pair *pair = &w->pairs[i];

	if (pair->is_excused && w->world.now_ns - pair->excused_ns > excuse_ns)
		roce_fail(w->judged, "node %u: requests of a connection that broke do not end",
			  p->near->process.node);
	if (!pair->is_ending || in_flight(e) > 0)
		return false;
	if (!pair->is_excused && other && (other->phase == NW_MADE || in_flight(other) > 0))
		return false;
	if (!pair->is_excused && other && e->received != other->sent)
		return false;
	if (!pair->is_excused && other)
		judge_end(p, e, other);
	judge_closed(p, e);
	nw_end_drop(p, i);
	return true;
}

static bool wants_receive(const struct nw_end *e)
{
	return e->posted - e->received < NW_DEPTH && e->tag && e->qp->state != WEFT_QPS_ERROR;
}

static bool wants_request(const struct near_world *w, const struct nw_end *e, uint32_t pair)
{
	return !w->pairs[pair].is_ending && in_flight(e) < e->depth &&
	       e->qp->state != WEFT_QPS_ERROR && !roce_has_failed(w->judged);
}

/* The other process accesses memory of this one now: a good moment to end its registration. */
static bool is_accessed(const struct nw_process *p)
{
	const struct near_marks *marks = p->near->process.marks;

	return atomic_load(&marks->peers[!p->near->process.node + 1].is_accessing) &&
	       prng_below(&p->world->prng, 8) == 0;
}

static bool work_up(struct nw_process *p, uint32_t i)
{
	struct near_world *w = p->world;
	struct nw_end *e = &p->ends[i];
	struct nw_pair *pair = &w->pairs[i];

	if (end_if_over(p, i))
		return true;
	while (wants_receive(e) && prng_below(&w->prng, 3) == 0)
		post_receive(p, e);
	while (wants_request(w, e, i) && prng_below(&w->prng, 3) > 0)
		begin(p, e);
	if (e->begun >= e->life && !pair->is_ending) {
		pair->is_ending = true;
		other_poke(p);
	}
	if (!pair->is_ending && e->is_open && w->drop_ppm > 0 &&
	    (prng_chance(&w->prng, w->drop_ppm) || is_accessed(p)))
		region_end(p, e);
	return wants_receive(e) || wants_request(w, e, i);
}

bool nw_end_work(struct nw_process *p, uint32_t pair)
{
	switch (p->ends[pair].phase) {
	case NW_DOWN:
		return work_down(p, pair);
	case NW_MADE:
		return work_made(p, pair);
	default:
		return work_up(p, pair);
	}
}
