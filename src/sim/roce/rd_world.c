/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of reliable datagrams between all queue pairs of three nodes, on a network that
 * loses, duplicates, reorders and corrupts packets, stands still and is cut (TRN-S2). Some requests
 * are refused, some find no receive, some queue pairs are reset while they work. When a request
 * completes, the judge looks at the memory of both ends: a Write is there, a Read is right, Sends
 * of one queue pair to another come in order and once, and every addition is counted once (QP-S3).
 */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/ib_mesh.h"
#include "sim/roce/roce_judge.h"

enum {
	NODES = 3,
	QPS = 2,
	ACTORS = NODES * QPS,
	DEPTH = 4,
	OPS = 60, /* of each */
	SLOT = 9000,
	AREA = SLOT * DEPTH,
	RECEIVES = 8,
	Q_KEY = 0x500, /* and the actor's number */
	RDD = 3,
	OF_SOURCE = 1000000 /* number of bytes that are read, and the actor's */
};

/* Of an actor's memory; and of a node's, which begins with the word that is added to. */
enum {
	AT_LOCAL = 0,
	AT_SOURCE = AREA,
	AT_RECEIVE = 2 * AREA,
	AT_TARGET = AT_RECEIVE + RECEIVES * SLOT, /* one for each actor */
	ACTOR_BYTES = AT_TARGET + ACTORS * AREA,
	GAP = 64, /* between registered memories */
	NODE_BYTES = GAP + QPS * (ACTOR_BYTES + GAP)
};

static const uint64_t end_max_ns = UINT64_C(500) * 1000000000;

struct op {
	enum weft_opcode opcode;
	uint32_t number, bytes, to;
	bool is_used, is_bad;
};

/* A queue pair and its consumer. */
struct actor {
	uint32_t index;
	uint32_t at; /* of its memory */
	struct weft_qp *qp;
	uint32_t tag;
	struct op ops[DEPTH];
	uint32_t begun, ended;
	bool is_posted[RECEIVES];
	uint32_t posted, received; /* receives */
	uint32_t got;		   /* of those that took a message */
	bool is_stopped;	   /* a request has failed: the rest is flushed */
	/* By the other's index: Sends that ended well; those that came, and the latest. */
	uint32_t sent_to[ACTORS], came_from[ACTORS], latest_from[ACTORS];
	bool was_reset, is_resetting;
	/* By the other's index and the slot: bytes of a Write that a reset cut off may be there. */
	uint32_t may_have_written[ACTORS][DEPTH];
};

struct rd_world {
	struct prng prng;
	struct ib_mesh *mesh;
	struct roce_node nodes[NODES];
	uint32_t word_tags[NODES];
	struct actor actors[ACTORS];
	struct roce_adds adds[NODES];
	uint32_t lost_adds, lost_sends; /* perhaps carried out, and the consumer was not told */
	uint32_t resets_left;
};

static struct rd_world *rd_world_of(const struct roce_world *w)
{
	return w->state;
}

static int node_of(uint32_t actor)
{
	return (int)(actor / QPS);
}

static struct roce_node *roce_of(struct rd_world *rd, uint32_t actor)
{
	return &rd->nodes[node_of(actor)];
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void actor_open(struct rd_world *rd, uint32_t i)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct roce_node *n = roce_of(rd, i);
	struct actor *a = &rd->actors[i];

	a->index = i;
	a->at = GAP + i % QPS * (ACTOR_BYTES + GAP);
	roce_node_fill(n, a->at + AT_SOURCE, OF_SOURCE + i, AREA);
	a->tag = roce_node_register(n, a->at, ACTOR_BYTES);
	a->qp = roce_node_qp(n, WEFT_RD, DEPTH, RECEIVES);
	CHECK(qp_modify(a->qp, &patient, WEFT_QP_RECEIVER_WAIT) == WEFT_OK);
}

static void actor_attach(struct rd_world *rd, struct actor *a)
{
	const struct ib_config k = {
		.rnr_timer_code = (uint8_t)(1 + prng_below(&rd->prng, 12)),
		.reads_out = 4,
		.q_key = Q_KEY + a->index,
		.rdd = RDD,
	};

	CHECK(ib_mesh_attach(rd->mesh, a->qp, &k) == WEFT_OK);
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
	for (int a = 0; a < NODES; a++) {
		for (int b = a; b < NODES; b++) {
			const struct ib_ee_config k = draw_ee(&rd->prng);

			CHECK(ib_mesh_join(rd->mesh, a, b, &k) == WEFT_OK);
		}
	}
}

static int rd_open(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);
	struct ib_mesh_options o = { .seed = w->seed,
				     .nodes = NODES,
				     .trace_max = ROCE_TRACE_EVENTS };
	struct adapter *adapters[NODES];

	rd->prng.state = w->seed;
	rd->resets_left = prng_below(&rd->prng, 2) ? 0 : 4;
	for (int n = 0; n < NODES; n++) {
		if (roce_node_init(&rd->nodes[n], w, (uint32_t)n) < 0)
			return -1;
		adapters[n] = &rd->nodes[n].adapter;
	}
	o.faults = roce_draw_faults(&rd->prng);
	rd->mesh = ib_mesh_open(&o, adapters);
	if (!rd->mesh)
		return -1;
	for (int n = 0; n < NODES; n++) {
		struct roce_node *node = &rd->nodes[n];

		if (roce_node_open(node, ib_mesh_node(rd->mesh, n), NODE_BYTES) < 0)
			return -1;
		rd->word_tags[n] = roce_node_register(node, 0, ROCE_WORD_BYTES);
	}
	nodes_join(rd);
	for (uint32_t i = 0; i < ACTORS; i++) {
		actor_open(rd, i);
		actor_attach(rd, &rd->actors[i]);
	}
	return 0;
}

static void rd_close(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	if (roce_has_failed(w))
		world_fini(ib_mesh_world(rd->mesh));
	else
		ib_mesh_close(rd->mesh);
	for (int n = 0; n < NODES; n++)
		roce_node_fini(&rd->nodes[n], w);
}

static struct world *rd_clock(struct roce_world *w)
{
	return ib_mesh_world(rd_world_of(w)->mesh);
}

/* ---- Requests ------------------------------------------------------------------------------- */

/* What a Send begins with. */
struct letter {
	uint32_t from, number;
};

static uint32_t local_of(const struct actor *a, uint32_t slot)
{
	return a->at + AT_LOCAL + slot * SLOT;
}

/* Where an actor writes at its peer. */
static uint32_t target_of(const struct actor *peer, const struct actor *a, uint32_t slot)
{
	return peer->at + AT_TARGET + a->index * AREA + slot * SLOT;
}

static void draw_send(struct roce_node *n, const struct actor *a, struct op *op, uint32_t local)
{
	const struct letter head = { a->index, op->number };

	op->bytes += (uint32_t)sizeof(head);
	roce_node_fill(n, local, op->number, op->bytes);
	memcpy(n->memory + local, &head, sizeof(head));
	roce_node_accept(n, local, sizeof(head));
}

static struct weft_send_wr draw_op(struct rd_world *rd, struct actor *a, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD, WEFT_OP_WRITE_IMM };
	struct op *op = &a->ops[slot];
	const struct actor *peer = &rd->actors[op->to];
	struct roce_node *n = roce_of(rd, a->index), *other = roce_of(rd, op->to);
	struct weft_send_wr wr = { .remote_addr = roce_node_addr(other, target_of(peer, a, slot)),
				   .remote_tag = peer->tag,
				   .imm = op->number };

	op->opcode = wr.opcode = opcodes[prng_below(&rd->prng, 5)];
	op->bytes = roce_draw_length(&rd->prng, 8000);
	if (op->opcode == WEFT_OP_SEND) {
		draw_send(n, a, op, local_of(a, slot));
	} else if (op->opcode == WEFT_OP_READ) {
		wr.remote_addr = roce_node_addr(other, peer->at + AT_SOURCE);
		roce_node_set(n, local_of(a, slot), 0xcc, op->bytes);
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		op->bytes = 8;
		wr.compare_add = 1;
		wr.remote_addr = roce_node_addr(other, 0);
		wr.remote_tag = rd->word_tags[node_of(op->to)];
	} else {
		roce_node_fill(n, local_of(a, slot), op->number, op->bytes);
	}
	return wr;
}

/* Now and then one that the other end refuses. */
static void spoil(struct prng *p, struct op *op, struct weft_send_wr *wr)
{
	if (prng_below(p, 20) != 0 || op->bytes == 0)
		return;
	op->is_bad = true;
	if (op->opcode == WEFT_OP_SEND)
		wr->remote_q_key ^= 0x100;
	else
		wr->remote_tag ^= 1;
}

static void begin(struct roce_world *w, struct actor *a)
{
	struct rd_world *rd = rd_world_of(w);
	struct roce_node *n = roce_of(rd, a->index);
	uint32_t slot = a->begun % DEPTH;
	struct op *op = &a->ops[slot];
	struct weft_sge s;
	struct weft_send_wr wr;

	*op = (struct op){ .is_used = true,
			   .to = prng_below(&rd->prng, ACTORS),
			   .number = a->begun };
	wr = draw_op(rd, a, slot);
	s = roce_node_sge(n, local_of(a, slot), op->bytes, a->tag);
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	wr.ee = ib_ee_handle(ib_mesh_ee(rd->mesh, node_of(a->index), node_of(op->to)));
	wr.dest_qp_number = rd->actors[op->to].qp->number;
	wr.remote_q_key = Q_KEY + op->to;
	spoil(&rd->prng, op, &wr);
	roce_node_post_send(w, n, a->qp, &wr);
	a->begun++;
}

/* ---- Completions ---------------------------------------------------------------------------- */

/* A request was cut off by a reset: its bytes may be where they were to go, or some of them. */
static void bytes_lost(struct rd_world *rd, struct actor *a, uint32_t slot)
{
	const struct op *op = &a->ops[slot];
	uint32_t *bytes = &a->may_have_written[op->to][slot];

	if (op->opcode == WEFT_OP_READ || op->opcode == WEFT_OP_FETCH_ADD)
		roce_node_accept(roce_of(rd, a->index), local_of(a, slot), op->bytes);
	else if (op->opcode != WEFT_OP_SEND && op->bytes > *bytes)
		*bytes = op->bytes;
}

static void ended_well(struct roce_world *w, struct actor *a, uint32_t slot)
{
	struct rd_world *rd = rd_world_of(w);
	const struct op *op = &a->ops[slot];

	if (op->is_bad) {
		roce_fail(w, "actor %u: request %u had to be refused and ended well", a->index,
			  op->number);
		return;
	}
	roce_judge_done(
		w, &(struct roce_done){
			   .who = "actor",
			   .index = a->index,
			   .request = op->number,
			   .opcode = op->opcode,
			   .number = op->opcode == WEFT_OP_READ ? OF_SOURCE + op->to : op->number,
			   .bytes = op->bytes,
			   .node = roce_of(rd, a->index),
			   .other = roce_of(rd, op->to),
			   .local = local_of(a, slot),
			   .target = target_of(&rd->actors[op->to], a, slot),
			   .adds = &rd->adds[node_of(op->to)],
		   });
	a->sent_to[op->to] += op->opcode == WEFT_OP_WRITE_IMM || op->opcode == WEFT_OP_SEND;
	w->succeeded++;
	w->bytes += op->bytes;
}

/* What was under way when its queue pair was reset may have been carried out, or not. */
static void ended_flushed(struct roce_world *w, struct actor *a, uint32_t slot)
{
	struct rd_world *rd = rd_world_of(w);
	const struct op *op = &a->ops[slot];

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
static void ended_badly(struct roce_world *w, struct actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct op *op = &a->ops[c->id];
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

static void ended(struct roce_world *w, struct actor *a, const struct weft_completion *c)
{
	struct op *op = &a->ops[c->id % DEPTH];

	w->requests++;
	if (c->id != a->ended % DEPTH || !op->is_used) {
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

static void post_receive(struct roce_world *w, struct actor *a)
{
	struct roce_node *n = roce_of(rd_world_of(w), a->index);
	struct weft_sge s;
	uint32_t slot = 0;

	while (a->is_posted[slot])
		slot++;
	a->is_posted[slot] = true;
	s = roce_node_sge(n, a->at + AT_RECEIVE + slot * SLOT, SLOT, a->tag);
	roce_node_post_recv(w, n, a->qp, &s, slot);
	a->posted++;
}

/* A Send names its sender, and comes after those that the sender had sent before. */
static void letter_judge(struct roce_world *w, struct actor *a, const struct weft_completion *c)
{
	struct rd_world *rd = rd_world_of(w);
	const struct roce_node *n = roce_of(rd, a->index);
	uint32_t at = a->at + AT_RECEIVE + (uint32_t)c->id * SLOT;
	struct letter head;

	memcpy(&head, n->memory + at, sizeof(head));
	if (head.from >= ACTORS || c->src_qp_number != rd->actors[head.from].qp->number ||
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
static void received(struct roce_world *w, struct actor *a, const struct weft_completion *c)
{
	uint32_t at = a->at + AT_RECEIVE + (uint32_t)c->id % RECEIVES * SLOT;

	if (c->id >= RECEIVES || !a->is_posted[c->id]) {
		roce_fail(w, "actor %u: a receive ended that was not posted", a->index);
		return;
	}
	a->received++;
	a->is_posted[c->id] = false;
	/* Part of a message may be in one that was flushed, and in one that took the next. */
	roce_node_accept(roce_of(rd_world_of(w), a->index), at, SLOT);
	if (c->status == WEFT_ERR_FLUSHED)
		return;
	if (c->status != WEFT_SUCCESS)
		roce_fail(w, "actor %u: a receive failed: %s", a->index,
			  weft_status_name(c->status));
	a->got++;
	if (c->opcode != WEFT_OP_RECV_WRITE_IMM && !roce_has_failed(w))
		letter_judge(w, a, c);
}

static struct actor *actor_of(struct roce_world *w, int node, uint32_t number)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t i = 0; i < ACTORS; i++) {
		if (node_of(i) == node && rd->actors[i].qp->number == number)
			return &rd->actors[i];
	}
	roce_fail(w, "node %d: a completion of QP %06x, which is not there", node, number);
	return NULL;
}

static void poll(struct roce_world *w, int node)
{
	struct roce_node *n = &rd_world_of(w)->nodes[node];
	struct weft_completion c;
	struct actor *a;

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

/* ---- Actors --------------------------------------------------------------------------------- */

/* A queue pair whose request failed goes on when the rest was flushed. */
static void mend(struct roce_world *w, struct actor *a)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_qp_attr attr;

	qp_query(a->qp, &attr);
	if (!a->is_stopped || a->begun != a->ended)
		return;
	if (attr.state != WEFT_QPS_SQE || ib_node_modify(roce_of(rd_world_of(w), a->index)->ib,
							 a->qp, &rts, WEFT_QP_STATE) != WEFT_OK)
		roce_fail(w, "actor %u: after a failure its queue pair is in %s, not SQE", a->index,
			  weft_qp_state_name(attr.state));
	a->is_stopped = false;
}

/* In the middle of whatever it does. */
static void reset(struct roce_world *w, struct actor *a)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_RESET };
	struct rd_world *rd = rd_world_of(w);

	rd->resets_left--;
	poll(w, node_of(a->index));
	a->was_reset = true;
	a->is_stopped = a->is_resetting = true;
	CHECK(ib_node_modify(roce_of(rd, a->index)->ib, a->qp, &attr, WEFT_QP_STATE) == WEFT_OK);
	poll(w, node_of(a->index));
	if (a->begun != a->ended || a->posted != a->received)
		roce_fail(w, "actor %u: %u requests and %u receives did not end by its reset",
			  a->index, a->begun - a->ended, a->posted - a->received);
	a->is_stopped = a->is_resetting = false;
	if (!roce_has_failed(w))
		actor_attach(rd, a);
}

static void act(struct roce_world *w, struct actor *a)
{
	struct rd_world *rd = rd_world_of(w);

	if (rd->resets_left > 0 && a->begun > 10 && prng_below(&rd->prng, 500) == 0)
		reset(w, a);
	mend(w, a);
	while (!roce_has_failed(w) && !a->is_stopped && a->begun < OPS &&
	       a->begun - a->ended < DEPTH && prng_below(&rd->prng, 3) > 0)
		begin(w, a);
	while (!roce_has_failed(w) && a->posted - a->received < RECEIVES &&
	       prng_below(&rd->prng, 20) == 0)
		post_receive(w, a);
}

/* ---- The end -------------------------------------------------------------------------------- */

/*
 * Every message that ended well came, once. What was flushed had not begun, but for what was under
 * way when its queue pair was reset.
 */
static void counts_judge(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t to = 0; to < ACTORS; to++) {
		uint32_t sent = 0, got = rd->actors[to].got;

		for (uint32_t from = 0; from < ACTORS; from++)
			sent += rd->actors[from].sent_to[to];
		if (got < sent || got > sent + rd->lost_sends)
			roce_fail(w, "actor %u got %u messages of %u", to, got, sent);
	}
	for (int n = 0; n < NODES; n++)
		roce_judge_word(w, &rd->nodes[n], 0, &rd->adds[n], rd->lost_adds);
}

/* Of requests that a reset cut off: parts of Writes, and of Sends in receives that wait on. */
static void lost_bytes_accept(struct rd_world *rd, const struct actor *a)
{
	for (uint32_t slot = 0; slot < RECEIVES; slot++) {
		if (a->is_posted[slot])
			roce_node_accept(roce_of(rd, a->index), a->at + AT_RECEIVE + slot * SLOT,
					 SLOT);
	}
	for (uint32_t to = 0; to < ACTORS; to++) {
		for (uint32_t slot = 0; slot < DEPTH; slot++)
			roce_node_accept(roce_of(rd, to), target_of(&rd->actors[to], a, slot),
					 a->may_have_written[to][slot]);
	}
}

static void memory_judge(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	for (uint32_t i = 0; i < ACTORS; i++)
		lost_bytes_accept(rd, &rd->actors[i]);
	for (int n = 0; n < NODES; n++)
		roce_node_judge(w, &rd->nodes[n]);
	for (int a = 0; a < NODES; a++) {
		for (int b = 0; b < NODES; b++) {
			if (ib_ee_why(ib_mesh_ee(rd->mesh, a, b)) != WEFT_OK)
				roce_fail(w, "the context of node %d for node %d failed", a, b);
			roce_count_packets(w, ib_mesh_pipe(rd->mesh, a, b));
		}
	}
}

static void finish(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);

	counts_judge(w);
	memory_judge(w);
	for (uint32_t i = 0; i < ACTORS && !roce_has_failed(w); i++)
		roce_node_drop(roce_of(rd, i), rd->actors[i].qp, rd->actors[i].tag);
	for (int n = 0; n < NODES && !roce_has_failed(w); n++) {
		roce_node_drop(&rd->nodes[n], NULL, rd->word_tags[n]);
		roce_node_shut(&rd->nodes[n], w);
	}
}

static bool rd_step(struct roce_world *w)
{
	struct rd_world *rd = rd_world_of(w);
	bool is_done = true;
	int who;

	for (uint32_t i = 0; i < ACTORS; i++) {
		struct actor *a = &rd->actors[i];

		act(w, a);
		is_done &= a->ended == OPS && !a->is_stopped;
	}
	if (is_done && !roce_has_failed(w)) {
		finish(w);
		return false;
	}
	who = ib_mesh_step(rd->mesh);
	for (int n = 0; n < NODES; n++) {
		if (who < 0 || who == n)
			poll(w, n);
	}
	if (ib_mesh_world(rd->mesh)->now_ns >= end_max_ns)
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
