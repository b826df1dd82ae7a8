/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work on reliable connections between two nodes, on a network that loses, duplicates,
 * reorders and corrupts packets, stands still and is cut (TRN-S2). When a request completes, the
 * judge looks at the memory of both ends at once: a Write is there, a Read is right, Sends come in
 * order and once, and every addition is counted once (QP-S3). Some connections have no RNR retries:
 * where the first Sends find receives, credits see to it that none is sent in vain (IBA 9.7.7.2.5),
 * however late they come.
 */
#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/roce_judge.h"
#include "sim/roce/roce_pair.h"

enum {
	PAIRS = 3,
	DEPTH = 8,
	OPS = 120, /* of each direction */
	SLOT = 20000,
	AREA = SLOT * DEPTH,
	EMPTY_MAX = 16, /* steps without a receive: a peer is not asked for ever */
	OF_WRITE = 100000,
	OF_SOURCE = 1000000 /* numbers of bytes; of Sends: from 0 on */
};

/* Of an end's memory; and where it begins, after the word that is added to. */
enum {
	AT_LOCAL = 0,
	AT_TARGET = AREA,
	AT_RECEIVE = 2 * AREA,
	AT_SOURCE = 3 * AREA,
	END_BYTES = 4 * AREA,
	GAP = 64, /* between registered memories */
	NODE_BYTES = GAP + PAIRS * (END_BYTES + GAP)
};

static const uint64_t end_max_ns = UINT64_C(200) * 1000000000;

struct op {
	enum weft_opcode opcode;
	uint32_t number, bytes;
	bool is_used;
};

/* One end of a connection: a requester, and a responder to the other end. */
struct end {
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t tag;
	struct op ops[DEPTH];
	uint32_t begun, ended, sent, received, posted;
	uint32_t empty; /* steps for which it has had no receive */
};

struct rc_world {
	struct prng prng;
	struct roce_pair pair;
	uint32_t word_tags[2];
	struct end ends[2][PAIRS];
	struct roce_adds adds[2]; /* to the word of the node */
};

static struct rc_world *rc_world_of(const struct roce_world *w)
{
	return w->state;
}

/* ---- What the seed draws -------------------------------------------------------------------- */

/* Of the end, at a slot of its memory. */
static struct weft_send_wr draw_op(struct rc_world *rc, int n, struct end *e, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD };
	const struct end *peer = &rc->ends[!n][e - rc->ends[n]];
	struct roce_node *node = &rc->pair.nodes[n], *other = &rc->pair.nodes[!n];
	struct op *op = &e->ops[slot];
	uint32_t at = slot * SLOT;

	op->opcode = opcodes[prng_below(&rc->prng, 4)];
	op->bytes = roce_draw_length(&rc->prng, SLOT);
	if (op->opcode == WEFT_OP_SEND) {
		op->number = e->sent++;
		roce_node_fill(node, e->at + AT_LOCAL + at, op->number, op->bytes);
	} else if (op->opcode == WEFT_OP_WRITE) {
		roce_node_fill(node, e->at + AT_LOCAL + at, op->number, op->bytes);
	} else {
		op->bytes = op->opcode == WEFT_OP_FETCH_ADD ? 8 : op->bytes;
		roce_node_set(node, e->at + AT_LOCAL + at, 0xcc, op->bytes);
	}
	if (op->opcode == WEFT_OP_FETCH_ADD)
		return (struct weft_send_wr){ .opcode = op->opcode,
					      .compare_add = 1,
					      .remote_addr = roce_node_addr(other, 0),
					      .remote_tag = rc->word_tags[!n] };
	return (struct weft_send_wr){
		.opcode = op->opcode,
		.remote_addr = roce_node_addr(
			other,
			peer->at + (op->opcode == WEFT_OP_READ ? AT_SOURCE : AT_TARGET + at)),
		.remote_tag = peer->tag,
	};
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void end_open(struct roce_node *n, struct end *e, uint32_t at)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };

	e->at = at;
	roce_node_fill(n, at + AT_SOURCE, OF_SOURCE, AREA);
	e->tag = roce_node_register(n, at, END_BYTES);
	e->qp = roce_node_qp(n, WEFT_RC, DEPTH, DEPTH);
	CHECK(qp_modify(e->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
}

static void post_receive(struct roce_world *w, int n, struct end *e)
{
	struct roce_node *node = &rc_world_of(w)->pair.nodes[n];
	uint32_t slot = e->posted % DEPTH;
	const struct weft_sge s = roce_node_sge(node, e->at + AT_RECEIVE + slot * SLOT, SLOT,
						e->tag);

	roce_node_post_recv(w, node, e->qp, &s, slot);
	e->posted++;
	e->empty = 0;
}

static void pairs_connect(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);

	for (uint32_t i = 0; i < PAIRS; i++) {
		struct weft_qp *const qps[2] = { rc->ends[0][i].qp, rc->ends[1][i].qp };
		struct ib_wire_options wire;

		roce_draw_wire(&rc->prng, &wire);
		CHECK(ib_net_connect(rc->pair.net, qps, &wire) == WEFT_OK);
		/* Before the first answer nothing is known of credits. */
		for (uint32_t j = 0; j < 2 * DEPTH && wire.rnr_retries == 0; j++)
			post_receive(w, (int)(j % 2), &rc->ends[j % 2][i]);
	}
}

static int rc_open(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);
	struct sim_faults faults[2];

	rc->prng.state = w->seed;
	for (int n = 0; n < 2; n++)
		faults[n] = roce_draw_faults(&rc->prng);
	if (roce_pair_open(&rc->pair, w, faults) < 0)
		return -1;
	for (int n = 0; n < 2; n++) {
		struct roce_node *node = &rc->pair.nodes[n];

		if (roce_node_open(node, ib_net_node(rc->pair.net, n), NODE_BYTES) < 0)
			return -1;
		rc->word_tags[n] = roce_node_register(node, 0, ROCE_WORD_BYTES);
		for (uint32_t i = 0; i < PAIRS; i++)
			end_open(node, &rc->ends[n][i], GAP + i * (END_BYTES + GAP));
	}
	pairs_connect(w);
	return 0;
}

static void rc_close(struct roce_world *w)
{
	roce_pair_close(&rc_world_of(w)->pair, w);
}

static struct world *rc_clock(struct roce_world *w)
{
	return ib_net_world(rc_world_of(w)->pair.net);
}

/* ---- Work ----------------------------------------------------------------------------------- */

static void begin(struct roce_world *w, int n, struct end *e)
{
	struct rc_world *rc = rc_world_of(w);
	struct roce_node *node = &rc->pair.nodes[n];
	uint32_t slot = e->begun % DEPTH;
	struct op *op = &e->ops[slot];
	struct weft_send_wr wr;
	struct weft_sge s;

	op->is_used = true;
	op->number = OF_WRITE + e->begun;
	wr = draw_op(rc, n, e, slot);
	s = roce_node_sge(node, e->at + AT_LOCAL + slot * SLOT, op->bytes, e->tag);
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	roce_node_post_send(w, node, e->qp, &wr);
	e->begun++;
}

/* A request ended well: what it was to do is done. */
static void ended(struct roce_world *w, int n, struct end *e, uint32_t slot)
{
	struct rc_world *rc = rc_world_of(w);
	const struct end *peer = &rc->ends[!n][e - rc->ends[n]];
	struct op *op = &e->ops[slot];

	roce_judge_done(w, &(struct roce_done){
				   .who = "node",
				   .index = (uint32_t)n,
				   .request = e->ended,
				   .opcode = op->opcode,
				   .number = op->opcode == WEFT_OP_READ ? OF_SOURCE : op->number,
				   .bytes = op->bytes,
				   .node = &rc->pair.nodes[n],
				   .other = &rc->pair.nodes[!n],
				   .local = e->at + AT_LOCAL + slot * SLOT,
				   .target = peer->at + AT_TARGET + slot * SLOT,
				   .adds = &rc->adds[!n],
			   });
	op->is_used = false;
	e->ended++;
	w->succeeded++;
	w->bytes += op->bytes;
}

static struct end *end_of(struct roce_world *w, int n, uint32_t number)
{
	struct rc_world *rc = rc_world_of(w);

	for (uint32_t i = 0; i < PAIRS; i++) {
		if (rc->ends[n][i].qp->number == number)
			return &rc->ends[n][i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", n, number);
	return NULL;
}

static void take_send(struct roce_world *w, int n, const struct weft_completion *c)
{
	struct end *e = end_of(w, n, c->qp_number);

	w->requests++;
	if (!e)
		return;
	if (c->status != WEFT_SUCCESS)
		roce_fail(w, "node %d: request %u of QP %06x failed: %s, %s", n, e->ended,
			  c->qp_number, weft_status_name(c->status), weft_reason_name(c->reason));
	else if (c->id != e->ended % DEPTH || !e->ops[c->id].is_used)
		roce_fail(w, "node %d: request %u of QP %06x ended twice, or out of order", n,
			  e->ended, c->qp_number);
	else
		ended(w, n, e, (uint32_t)c->id);
}

static void take_recv(struct roce_world *w, int n, const struct weft_completion *c)
{
	struct roce_node *node = &rc_world_of(w)->pair.nodes[n];
	struct end *e = end_of(w, n, c->qp_number);
	uint32_t at;

	if (!e)
		return;
	at = e->at + AT_RECEIVE + e->received % DEPTH * SLOT;
	if (c->status != WEFT_SUCCESS || c->id != e->received % DEPTH)
		roce_fail(w, "node %d: receive %u of QP %06x failed or was out of order: %s", n,
			  e->received, c->qp_number, weft_status_name(c->status));
	else if (!roce_node_holds(node, at, e->received, 0, c->byte_count))
		roce_fail(w, "node %d: receive %u of QP %06x has not the message that was due", n,
			  e->received, c->qp_number);
	roce_node_accept(node, at, c->byte_count);
	e->received++;
}

static void poll(struct roce_world *w, int n)
{
	struct roce_node *node = &rc_world_of(w)->pair.nodes[n];
	struct weft_completion c;

	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->send_cq, &c))
		take_send(w, n, &c);
	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->recv_cq, &c))
		take_recv(w, n, &c);
}

static bool wants_receive(struct prng *p, struct end *e)
{
	if (e->posted - e->received == DEPTH)
		return false;
	return prng_below(p, 40) == 0 || (e->posted == e->received && ++e->empty > EMPTY_MAX);
}

/* Whether all is done; gives new work where there is room. */
static bool work(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);
	bool is_done = true;

	for (int n = 0; n < 2; n++) {
		for (uint32_t i = 0; i < PAIRS; i++) {
			struct end *e = &rc->ends[n][i];

			while (!roce_has_failed(w) && e->begun < OPS &&
			       e->begun - e->ended < DEPTH && prng_below(&rc->prng, 3) > 0)
				begin(w, n, e);
			while (!roce_has_failed(w) && wants_receive(&rc->prng, e))
				post_receive(w, n, e);
			is_done &= e->ended == OPS;
		}
	}
	return is_done;
}

/* ---- The end -------------------------------------------------------------------------------- */

static void node_judge(struct roce_world *w, int n)
{
	struct rc_world *rc = rc_world_of(w);
	struct roce_node *node = &rc->pair.nodes[n];

	roce_judge_word(w, node, 0, &rc->adds[n], 0);
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (rc->ends[n][i].received != rc->ends[!n][i].sent)
			roce_fail(w, "node %d: pair %u received %u of %u Sends", n, i,
				  rc->ends[n][i].received, rc->ends[!n][i].sent);
	}
	roce_node_judge(w, node);
	roce_count_packets(w, ib_net_pipe(rc->pair.net, n));
}

static void finish(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);

	for (int n = 0; n < 2; n++)
		node_judge(w, n);
	for (int n = 0; n < 2 && !roce_has_failed(w); n++) {
		struct roce_node *node = &rc->pair.nodes[n];

		for (uint32_t i = 0; i < PAIRS; i++)
			roce_node_drop(node, rc->ends[n][i].qp, rc->ends[n][i].tag);
		roce_node_drop(node, NULL, rc->word_tags[n]);
		roce_node_shut(node, w);
	}
}

static bool rc_step(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);
	int who;

	if (work(w)) {
		finish(w);
		return false;
	}
	who = ib_net_step(rc->pair.net);
	for (int n = 0; n < 2; n++) {
		if (who < 0 || who == n)
			poll(w, n);
	}
	if (ib_net_world(rc->pair.net)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

static int runs_open(struct roce_world *w)
{
	if (rc_open(w) < 0)
		return -1;
	for (int n = 0; n < 2; n++)
		ib_net_node(rc_world_of(w)->pair.net, n)->has_runs = true;
	return 0;
}

const struct roce_scenario roce_runs = {
	.state_bytes = sizeof(struct rc_world),
	.open = runs_open,
	.step = rc_step,
	.close = rc_close,
	.clock = rc_clock,
};

const struct roce_scenario roce_rc = {
	.state_bytes = sizeof(struct rc_world),
	.open = rc_open,
	.step = rc_step,
	.close = rc_close,
	.clock = rc_clock,
};
