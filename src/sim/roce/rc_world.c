/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work on reliable connections between two nodes, on a network that loses, duplicates,
 * reorders and corrupts packets, stands still and is cut (TRN-S2). When a request completes, the
 * judge looks at the memory of both ends at once: a Write is there, a Read is right, Sends come in
 * order and once, and every addition is counted once (QP-S3). Some connections have no RNR retries:
 * where the first Sends find receives, credits see to it that none is sent in vain (IBA 9.7.7.2.5),
 * however late they come.
 */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/ib_net.h"
#include "sim/roce/roce_node.h"

enum {
	PAIRS = 3,
	DEPTH = 8,
	OPS = 120, /* of each direction */
	SLOT = 20000,
	AREA = SLOT * DEPTH,
	ADDS_MAX = 2 * PAIRS * OPS,
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
	WORD_BYTES = 8,
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
	struct ib_net *net;
	struct roce_node nodes[2];
	uint32_t word_tags[2];
	struct end ends[2][PAIRS];
	bool seen[2][ADDS_MAX]; /* old values that an addition brought */
	uint32_t adds[2];	/* to the word of the node */
};

static struct rc_world *rc_world_of(const struct roce_world *w)
{
	return w->state;
}

/* ---- What the seed draws -------------------------------------------------------------------- */

static void draw_wire(struct prng *p, struct ib_wire_options *o)
{
	*o = (struct ib_wire_options){ .timeout_code = 16, .retries = 7 };
	o->is_ipv6 = prng_below(p, 2);
	o->mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(p, 5)));
	o->rnr_retries = (uint8_t)ANY_OF(p, 0, IB_RNR_RETRY_FOREVER, IB_RNR_RETRY_FOREVER);
	o->rnr_timer_code = (uint8_t)(1 + prng_below(p, 12));
	for (int i = 0; i < 2; i++) {
		o->psn[i] = roce_draw_psn(p);
		o->reads[i] = (uint8_t)ANY_OF(p, 1, 2, 5, 16);
		o->window[i] = (uint32_t)ANY_OF(p, 0, 1, 3, 32);
		o->ack_every[i] = (uint32_t)ANY_OF(p, 0, 1, 5, 1000);
	}
}

/* Of the end, at a slot of its memory. */
static struct weft_send_wr draw_op(struct rc_world *rc, int n, struct end *e, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD };
	const struct end *peer = &rc->ends[!n][e - rc->ends[n]];
	struct roce_node *node = &rc->nodes[n], *other = &rc->nodes[!n];
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
	struct roce_node *node = &rc_world_of(w)->nodes[n];
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

		draw_wire(&rc->prng, &wire);
		CHECK(ib_net_connect(rc->net, qps, &wire) == WEFT_OK);
		/* Before the first answer nothing is known of credits. */
		for (uint32_t j = 0; j < 2 * DEPTH && wire.rnr_retries == 0; j++)
			post_receive(w, (int)(j % 2), &rc->ends[j % 2][i]);
	}
}

static int rc_open(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);
	struct ib_net_options o = { .seed = w->seed, .trace_max = ROCE_TRACE_EVENTS };
	struct adapter *const adapters[2] = { &rc->nodes[0].adapter, &rc->nodes[1].adapter };

	rc->prng.state = w->seed;
	for (uint32_t n = 0; n < 2; n++) {
		if (roce_node_init(&rc->nodes[n], w, n) < 0)
			return -1;
		o.faults[n] = roce_draw_faults(&rc->prng);
	}
	rc->net = ib_net_open(&o, adapters);
	if (!rc->net)
		return -1;
	for (int n = 0; n < 2; n++) {
		struct roce_node *node = &rc->nodes[n];

		if (roce_node_open(node, ib_net_node(rc->net, n), NODE_BYTES) < 0)
			return -1;
		rc->word_tags[n] = roce_node_register(node, 0, WORD_BYTES);
		for (uint32_t i = 0; i < PAIRS; i++)
			end_open(node, &rc->ends[n][i], GAP + i * (END_BYTES + GAP));
	}
	pairs_connect(w);
	return 0;
}

static void rc_close(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);

	if (roce_has_failed(w))
		world_fini(ib_net_world(rc->net));
	else
		ib_net_close(rc->net);
	for (int n = 0; n < 2; n++)
		roce_node_fini(&rc->nodes[n], w);
}

static struct world *rc_clock(struct roce_world *w)
{
	return ib_net_world(rc_world_of(w)->net);
}

/* ---- Work ----------------------------------------------------------------------------------- */

static void begin(struct roce_world *w, int n, struct end *e)
{
	struct rc_world *rc = rc_world_of(w);
	struct roce_node *node = &rc->nodes[n];
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

static void add_ended(struct roce_world *w, int n, uint32_t at)
{
	struct rc_world *rc = rc_world_of(w);
	uint64_t old;

	memcpy(&old, rc->nodes[n].memory + at, sizeof(old));
	if (old >= ADDS_MAX || rc->seen[!n][old]) {
		roce_fail(w,
			  "node %d: an addition brought %" PRIu64 ", as another did or none could",
			  n, old);
		return;
	}
	rc->seen[!n][old] = true;
	rc->adds[!n]++;
}

/* A request ended well: what it was to do is done. */
static void ended(struct roce_world *w, int n, struct end *e, uint32_t slot)
{
	struct rc_world *rc = rc_world_of(w);
	struct end *peer = &rc->ends[!n][e - rc->ends[n]];
	struct roce_node *node = &rc->nodes[n], *other = &rc->nodes[!n];
	uint32_t local = e->at + AT_LOCAL + slot * SLOT;
	uint32_t target = peer->at + AT_TARGET + slot * SLOT;
	struct op *op = &e->ops[slot];

	if (op->opcode == WEFT_OP_WRITE) {
		if (!roce_node_holds(other, target, op->number, 0, op->bytes))
			roce_fail(w, "node %d: request %u, a Write, ended and is not there", n,
				  e->ended);
		roce_node_accept(other, target, op->bytes);
	} else if (op->opcode == WEFT_OP_READ) {
		if (!roce_node_holds(node, local, OF_SOURCE, 0, op->bytes))
			roce_fail(w, "node %d: request %u, a Read, brought other bytes", n,
				  e->ended);
		roce_node_accept(node, local, op->bytes);
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		add_ended(w, n, local);
		roce_node_accept(node, local, op->bytes);
	}
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
	struct roce_node *node = &rc_world_of(w)->nodes[n];
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
	struct roce_node *node = &rc_world_of(w)->nodes[n];
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
	struct roce_node *node = &rc->nodes[n];
	uint64_t word;

	memcpy(&word, node->memory, sizeof(word));
	if (word != rc->adds[n])
		roce_fail(w, "node %d: its word is %" PRIu64 " after %u additions", n, word,
			  rc->adds[n]);
	roce_node_accept(node, 0, WORD_BYTES);
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (rc->ends[n][i].received != rc->ends[!n][i].sent)
			roce_fail(w, "node %d: pair %u received %u of %u Sends", n, i,
				  rc->ends[n][i].received, rc->ends[!n][i].sent);
	}
	roce_node_judge(w, node);
	roce_count_packets(w, ib_net_pipe(rc->net, n));
}

static void finish(struct roce_world *w)
{
	struct rc_world *rc = rc_world_of(w);

	for (int n = 0; n < 2; n++)
		node_judge(w, n);
	for (int n = 0; n < 2 && !roce_has_failed(w); n++) {
		struct roce_node *node = &rc->nodes[n];

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
	who = ib_net_step(rc->net);
	for (int n = 0; n < 2; n++) {
		if (who < 0 || who == n)
			poll(w, n);
	}
	if (ib_net_world(rc->net)->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_rc = {
	.state_bytes = sizeof(struct rc_world),
	.open = rc_open,
	.step = rc_step,
	.close = rc_close,
	.clock = rc_clock,
};
