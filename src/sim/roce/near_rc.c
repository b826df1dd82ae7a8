/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three reliable connections between two nodes of one host: Sends, Writes, Reads and additions both
 * ways, many of which access the memory of the other process. Memory is deregistered and
 * invalidated while it is accessed.
 *
 * The judges hold that requests end once, in order, and well unless their connection broke, and end
 * soon if it did; that they did what they say; and that no byte of a region is reached after the
 * call that ended it has returned.
 */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/near_pairs.h"
#include "sim/roce/roce_judge.h"

enum {
	PAIRS = 3,
	DEPTH = 4,
	OPS = 40, /* of an end, of all its connections */
	SLOT = 20000,
	AREA = SLOT * DEPTH
};

/* Of an end's memory. */
enum {
	AT_LOCAL = 0,
	AT_TARGET = AREA,
	AT_RECEIVE = 2 * AREA,
	AT_SOURCE = 3 * AREA, /* all Reads are of this */
	AT_WORD = AT_SOURCE + SLOT,
	END_BYTES = AT_WORD + 64
};

struct op {
	enum weft_opcode opcode;
	uint32_t number, bytes, order;
	bool is_used;
};

struct rc_end {
	struct nw_end end;
	struct op ops[DEPTH];
	uint32_t send_orders[2 * OPS]; /* by the number of a Send: which request it was */
	uint32_t sent, received, posted;
	uint32_t depth, life; /* requests in flight, and of this connection */
	struct roce_adds adds;
};

struct rc_process {
	struct rc_end ends[PAIRS];
};

enum { OF_WRITE = 100000, OF_SOURCE = 1000000 }; /* numbers of bytes; of Sends: from 0 on */

static struct rc_end *rc_of(struct nw_end *e)
{
	return CONTAINER_OF(e, struct rc_end, end);
}

static struct nw_end *rc_end(struct nw_process *p, uint32_t pair)
{
	struct rc_process *rc = p->state;

	return &rc->ends[pair].end;
}

static struct nw_pair *pair_of(const struct nw_process *p, const struct rc_end *e)
{
	const struct rc_process *rc = p->state;

	return &nw_pairs_of(p)->pairs[e - rc->ends];
}

/* The same end, of the process that it is connected to. */
static struct rc_end *peer_of(const struct nw_process *p, const struct rc_end *e)
{
	const struct nw_process *peer = e->end.peer->scenario;
	const struct rc_process *rc = p->state;
	struct rc_process *other = peer->state;

	return &other->ends[e - rc->ends];
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void rc_draw(struct prng *prng, struct ib_wire_options *wire)
{
	roce_draw_wire(prng, wire);
	wire->rnr_retries = IB_RNR_RETRY_FOREVER;
}

static void rc_make(struct nw_process *p, struct nw_end *end)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct prng *prng = &p->world->prng;
	struct roce_node *node = &p->near->node;
	struct rc_end *e = rc_of(end);

	*e = (struct rc_end){ .end.at = end->at };
	e->depth = 1 + prng_below(prng, DEPTH);
	e->life = (uint32_t)ANY_OF(prng, 3, 10, OPS);
	roce_node_set(node, end->at, 0, END_BYTES);
	roce_node_fill(node, end->at + AT_SOURCE, OF_SOURCE, SLOT);
	end->tag = roce_node_register(node, end->at, END_BYTES);
	end->qp = roce_node_qp(node, WEFT_RC, DEPTH, DEPTH);
	CHECK(qp_modify(end->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* Of the end, at a slot of its memory. */
static struct weft_send_wr draw_op(struct nw_process *p, struct rc_end *e, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = {
		WEFT_OP_WRITE,	   WEFT_OP_READ,  WEFT_OP_SEND,
		WEFT_OP_FETCH_ADD, WEFT_OP_WRITE, WEFT_OP_READ
	};
	struct prng *prng = &p->world->prng;
	const struct nw_end *other = &peer_of(p, e)->end;
	struct roce_node *node = &p->near->node;
	struct op *op = &e->ops[slot];
	uint32_t at = slot * SLOT, target = AT_TARGET + at;

	op->opcode = opcodes[prng_below(prng, 6)];
	op->bytes = prng_below(prng, 4) == 0 ? SLOT : roce_draw_length(prng, SLOT);
	op->number = OF_WRITE + e->end.begun;
	op->order = e->end.begun;
	if (op->opcode == WEFT_OP_SEND) {
		e->send_orders[e->sent] = e->end.begun;
		op->number = e->sent++;
	}
	if (op->opcode == WEFT_OP_FETCH_ADD) {
		op->bytes = ROCE_WORD_BYTES;
		target = AT_WORD;
	}
	if (op->opcode == WEFT_OP_SEND || op->opcode == WEFT_OP_WRITE)
		roce_node_fill(node, e->end.at + AT_LOCAL + at, op->number, op->bytes);
	else
		roce_node_set(node, e->end.at + AT_LOCAL + at, 0xcc, op->bytes);
	if (op->opcode == WEFT_OP_READ)
		target = AT_SOURCE;
	return (struct weft_send_wr){
		.opcode = op->opcode,
		.compare_add = op->opcode == WEFT_OP_FETCH_ADD,
		.remote_addr = roce_node_addr(&e->end.peer->node, other->at + target),
		.remote_tag = other->tag,
	};
}

static void begin(struct nw_process *p, struct rc_end *e)
{
	struct roce_node *node = &p->near->node;
	uint32_t slot = e->end.begun % DEPTH;
	struct weft_send_wr wr = draw_op(p, e, slot);
	struct weft_sge s = roce_node_sge(node, e->end.at + AT_LOCAL + slot * SLOT,
					  e->ops[slot].bytes, e->end.tag);

	e->ops[slot].is_used = true;
	e->end.begun++;
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	roce_node_post_send(p->world->judged, node, e->end.qp, &wr);
}

static void post_receive(struct nw_process *p, struct rc_end *e)
{
	struct roce_node *node = &p->near->node;
	uint32_t slot = e->posted % DEPTH;
	const struct weft_sge s = roce_node_sge(node, e->end.at + AT_RECEIVE + slot * SLOT, SLOT,
						e->end.tag);

	e->posted++;
	roce_node_post_recv(p->world->judged, node, e->end.qp, &s, slot);
}

/* ---- The judge ------------------------------------------------------------------------------ */

/* A request ended well: what it was to do is done. */
static void ended_well(struct nw_process *p, struct rc_end *e, const struct op *op)
{
	struct roce_world *w = p->world->judged;
	uint32_t slot = (uint32_t)(op - e->ops);

	roce_judge_done(w, &(struct roce_done){
				   .who = "node",
				   .index = nw_node_of(p),
				   .request = e->end.ended,
				   .opcode = op->opcode,
				   .number = op->opcode == WEFT_OP_READ ? OF_SOURCE : op->number,
				   .bytes = op->bytes,
				   .node = &p->near->node,
				   .other = &e->end.peer->node,
				   .local = e->end.at + AT_LOCAL + slot * SLOT,
				   .target = e->end.at + AT_TARGET + slot * SLOT,
				   .adds = &peer_of(p, e)->adds,
			   });
	w->succeeded++;
	w->bytes += op->bytes;
}

static void rc_sent(struct nw_process *p, struct nw_end *end, const struct weft_completion *c)
{
	struct roce_world *w = p->world->judged;
	struct rc_end *e = rc_of(end);
	struct op *op = &e->ops[c->id];

	w->requests++;
	if (c->id != e->end.ended % DEPTH || !op->is_used)
		roce_fail(w, "node %u: request %u of QP %06x ended twice, or out of order",
			  nw_node_of(p), e->end.ended, c->qp_number);
	else if (c->status == WEFT_SUCCESS)
		ended_well(p, e, op);
	else if (!pair_of(p, e)->is_excused)
		roce_fail(w, "node %u: request %u of QP %06x failed: %s, %s", nw_node_of(p),
			  e->end.ended, c->qp_number, weft_status_name(c->status),
			  weft_reason_name(c->reason));
	op->is_used = false;
	e->end.ended++;
}

/* A Send that has come comes behind the Writes before it. */
static void judge_order(struct nw_process *p, const struct rc_end *e, uint32_t order)
{
	const struct rc_end *from = peer_of(p, e);

	for (uint32_t i = 0; i < DEPTH; i++) {
		const struct op *op = &from->ops[i];

		if (op->is_used && op->opcode == WEFT_OP_WRITE && op->order < order &&
		    !roce_node_holds(&p->near->node, e->end.at + AT_TARGET + i * SLOT, op->number,
				     0, op->bytes))
			roce_fail(p->world->judged, "node %u: a Send overtook a Write",
				  nw_node_of(p));
	}
}

static void rc_came(struct nw_process *p, struct nw_end *end, const struct weft_completion *c)
{
	struct roce_world *w = p->world->judged;
	struct roce_node *node = &p->near->node;
	struct rc_end *e = rc_of(end);
	uint32_t at = e->end.at + AT_RECEIVE + e->received % DEPTH * SLOT;

	if (c->status != WEFT_SUCCESS)
		return;
	if (c->id != e->received % DEPTH)
		roce_fail(w, "node %u: receive %u of QP %06x was out of order", node->index,
			  e->received, c->qp_number);
	else if (!roce_node_holds(node, at, e->received, 0, c->byte_count))
		roce_fail(w, "node %u: receive %u of QP %06x has not the message that was due",
			  node->index, e->received, c->qp_number);
	else if (!pair_of(p, e)->is_excused)
		judge_order(p, e, peer_of(p, e)->send_orders[e->received]);
	roce_node_accept(node, at, c->byte_count);
	e->received++;
}

/* Every byte is what requests that ended well made of it. */
static void judge_end(struct nw_process *p, const struct rc_end *e, const struct rc_end *other)
{
	struct roce_world *w = p->world->judged;
	struct roce_node *node = &p->near->node;

	if (e->received != other->sent)
		roce_fail(w, "node %u: received %u of %u Sends", node->index, e->received,
			  other->sent);
	roce_judge_word(w, node, e->end.at + AT_WORD, &e->adds, 0);
	if (memcmp(node->memory + e->end.at, node->shadow + e->end.at, END_BYTES) != 0)
		roce_fail(w, "node %u: memory has changed, and no request wrote it", node->index);
}

/* ---- The end of a registration -------------------------------------------------------------- */

static void registration_end(struct nw_process *p, struct rc_end *e)
{
	struct roce_node *node = &p->near->node;
	struct mem_table *t = &node->adapter.mem;

	if (prng_below(&p->world->prng, 2) &&
	    mem_invalidate(t, node->pd->number, e->end.qp->number, e->end.tag) == WEFT_OK)
		return;
	CHECK(mem_region_deregister(t, node->pd->number, e->end.tag) == WEFT_OK);
	e->end.tag = 0;
}

/*
 * While the peer accesses the memory, and begins to: when the call has returned no byte of it
 * changes.
 */
static void region_end(struct nw_process *p, struct rc_end *e)
{
	struct nw_pairs *w = nw_pairs_of(p);

	nw_pair_excuse(w, pair_of(p, e));
	registration_end(p, e);
	e->end.is_open = false;
	roce_node_accept(&p->near->node, e->end.at, END_BYTES);
	nw_excuse(w, pair_of(p, e));
}

static void judge_closed(struct nw_process *p, const struct rc_end *e)
{
	struct roce_node *node = &p->near->node;

	if (!e->end.is_open &&
	    memcmp(node->memory + e->end.at, node->shadow + e->end.at, END_BYTES) != 0)
		roce_fail(p->world->judged, "node %u: memory changed after its registration ended",
			  node->index);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

static bool rc_has_come(const struct nw_process *p, struct nw_end *e, struct nw_end *other)
{
	(void)p;
	return rc_of(e)->received == rc_of(other)->sent;
}

static void rc_judge(struct nw_process *p, struct nw_end *e, struct nw_end *other)
{
	if (other)
		judge_end(p, rc_of(e), rc_of(other));
	judge_closed(p, rc_of(e));
}

static bool wants_receive(const struct rc_end *e)
{
	return e->posted - e->received < DEPTH && e->end.tag && e->end.qp->state != WEFT_QPS_ERROR;
}

static bool wants_request(const struct nw_process *p, const struct rc_end *e)
{
	return !pair_of(p, e)->is_ending && nw_in_flight(&e->end) < e->depth &&
	       e->end.qp->state != WEFT_QPS_ERROR && !roce_has_failed(p->world->judged);
}

/* The other process accesses memory of this one now: a good moment to end its registration. */
static bool is_accessed(const struct nw_process *p)
{
	const struct near_marks *marks = p->near->process.marks;

	return atomic_load(&marks->peers[!nw_node_of(p) + 1].is_accessing) &&
	       prng_below(&p->world->prng, 8) == 0;
}

static bool rc_work(struct nw_process *p, struct nw_end *end, uint32_t i)
{
	struct near_world *w = p->world;
	struct rc_end *e = rc_of(end);
	struct nw_pair *pair = &nw_pairs_of(p)->pairs[i];

	while (wants_receive(e) && prng_below(&w->prng, 3) == 0)
		post_receive(p, e);
	while (wants_request(p, e) && prng_below(&w->prng, 3) > 0)
		begin(p, e);
	if (end->begun >= e->life && !pair->is_ending) {
		pair->is_ending = true;
		nw_poke_others(p);
	}
	if (!pair->is_ending && end->is_open && w->drop_ppm > 0 &&
	    (prng_chance(&w->prng, w->drop_ppm) || is_accessed(p)))
		region_end(p, e);
	return wants_receive(e) || wants_request(p, e);
}

/* ---- The world ------------------------------------------------------------------------------ */

static int rc_open(struct roce_world *judged)
{
	static const struct nw_service service = {
		.pairs = PAIRS,
		.end_bytes = END_BYTES,
		.qps_max = ROCE_NODE_QPS,
		.ops = OPS,
		.end = rc_end,
		.draw = rc_draw,
		.make = rc_make,
		.work = rc_work,
		.has_come = rc_has_come,
		.judge = rc_judge,
		.sent = rc_sent,
		.came = rc_came,
	};

	return nw_pairs_open(judged, &service, sizeof(struct rc_process));
}

const struct roce_scenario roce_near = {
	.state_bytes = sizeof(struct nw_pairs),
	.open = rc_open,
	.step = near_world_step,
	.close = near_world_close,
	.clock = near_world_clock,
};
