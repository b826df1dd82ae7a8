/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work of reliable datagrams between all queue pairs of three nodes, on a network that
 * loses, doubles, reorders and corrupts packets, stands still and is cut (TRN-S2). Some requests
 * are refused, some find no receive, some queue pairs are reset while they work. Whoever completes
 * a request looks at the memory of both ends: a Write is there, a Read is right, Sends of one queue
 * pair to another come in order and once, and every addition is counted once (QP-S3).
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/rd_swarm
 */
#include <stdlib.h>
#include <string.h>

#include "../spec/ib_mesh.h"
#include "ib_swarm.h"

enum {
	NODES = 3,
	QPS = 2,
	ACTORS = NODES * QPS,
	DEPTH = 4,
	OPS = 60, /* of each */
	SLOT = 9000,
	AREA = SLOT * DEPTH,
	ADDS_MAX = ACTORS * OPS,
	RECEIVES = 8,
	Q_KEY = 0x500, /* and the actor's number */
	RDD = 3
};

const uint64_t failed_once[] = {
	172,  /* a NAK of an answer that had been asked for again was not believed */
	4790, /* a failure that a poll for receives had brought just before a reset */
};
const uint64_t failed_once_count = sizeof(failed_once) / sizeof(*failed_once);
const uint64_t seeds_count = IB_SEEDS;

/* ---- The world ------------------------------------------------------------------------------ */

struct op {
	enum weft_opcode opcode;
	uint32_t number, bytes, to;
	bool is_used, is_bad;
};

struct actor {
	uint32_t index;
	struct weft_qp *qp;
	uint8_t *memory;
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
};

enum {
	AT_LOCAL = 0,
	AT_SOURCE = AREA,
	AT_RECEIVE = 2 * AREA,
	AT_TARGET = AT_RECEIVE + RECEIVES * SLOT, /* one for each actor */
	MEMORY = AT_TARGET + ACTORS * AREA
};

static struct node nodes[NODES];
static struct actor actors[ACTORS];
static struct ib_mesh *mesh;
static bool seen[NODES][ADDS_MAX];
static uint32_t adds[NODES];
static uint32_t lost_adds, lost_sends; /* perhaps carried out, and nobody was told */
static uint32_t resets_left;

static int node_of(uint32_t actor)
{
	return (int)(actor / QPS);
}

static void actor_open(uint32_t i)
{
	struct node *n = &nodes[node_of(i)];
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct actor *a = &actors[i];

	*a = (struct actor){ .index = i, .memory = calloc(1, MEMORY) };
	REQUIRE(a->memory);
	fill(a->memory + AT_SOURCE, 1000000 + i, AREA);
	a->tag = memory_register(n, a->memory, MEMORY);
	a->qp = qp_open(n, WEFT_RD, DEPTH, RECEIVES);
	MUST(weft_qp_modify(a->qp, &patient, WEFT_QP_RECEIVER_WAIT));
}

static void actor_attach(struct actor *a)
{
	const struct ib_config k = {
		.rnr_timer_code = (uint8_t)(1 + prng_below(&prng, 12)),
		.reads_out = 4,
		.q_key = Q_KEY + a->index,
		.rdd = RDD,
	};

	MUST(ib_mesh_attach(mesh, a->qp, &k));
}

static struct ib_ee_config draw_ee(void)
{
	return (struct ib_ee_config){
		.path = { .is_ipv6 = prng_below(&prng, 2),
			  .mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&prng, 5))) },
		.rdd = RDD,
		.psn_send = (uint32_t)ANY_OF(&prng, 0, 0xffffff, 0xffffe0, 0x7fffff),
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
		.window_packets = (uint32_t)ANY_OF(&prng, 0, 1, 3, 32),
		.ack_every = (uint32_t)ANY_OF(&prng, 0, 1, 5, 1000),
	};
}

static void world_open(void)
{
	struct weft_adapter *adapters[NODES];
	struct ib_mesh_options o = { .seed = seed, .nodes = NODES };

	prng.state = seed;
	memset(seen, 0, sizeof(seen));
	memset(adds, 0, sizeof(adds));
	lost_adds = lost_sends = 0;
	resets_left = prng_below(&prng, 2) ? 0 : 4;
	for (int i = 0; i < NODES; i++) {
		node_open(&nodes[i]);
		adapters[i] = nodes[i].adapter;
	}
	o.faults = draw_faults();
	mesh = ib_mesh_open(&o, adapters);
	REQUIRE(mesh);
	for (int a = 0; a < NODES; a++) {
		for (int b = a; b < NODES; b++) {
			const struct ib_ee_config k = draw_ee();

			MUST(ib_mesh_join(mesh, a, b, &k));
		}
	}
	for (uint32_t i = 0; i < ACTORS; i++) {
		actor_open(i);
		actor_attach(&actors[i]);
	}
}

static void world_close(void)
{
	for (uint32_t i = 0; i < ACTORS; i++) {
		MUST(weft_qp_destroy(actors[i].qp));
		MUST(weft_region_deregister(nodes[node_of(i)].pd, actors[i].tag));
		free(actors[i].memory);
	}
	ib_mesh_close(mesh);
	for (int i = 0; i < NODES; i++) {
		node_close(&nodes[i]);
		MUST(weft_adapter_close(nodes[i].adapter));
	}
}

/* ---- Work ----------------------------------------------------------------------------------- */

/* What a Send begins with. */
struct letter {
	uint32_t from, number;
};

static void draw_send(struct actor *a, struct op *op, uint8_t *local)
{
	const struct letter head = { a->index, op->number };

	op->bytes += (uint32_t)sizeof(head);
	fill(local, op->number, op->bytes);
	memcpy(local, &head, sizeof(head));
}

static struct weft_send_wr draw_op(struct actor *a, struct op *op, uint32_t slot)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD, WEFT_OP_WRITE_IMM };
	uint8_t *local = a->memory + AT_LOCAL + slot * SLOT;
	const struct actor *peer = &actors[op->to];
	struct weft_send_wr wr = { .opcode = opcodes[prng_below(&prng, 5)],
				   .remote_addr = (uintptr_t)peer->memory + AT_TARGET +
						  a->index * AREA + slot * SLOT,
				   .remote_tag = peer->tag,
				   .imm = op->number };

	op->opcode = wr.opcode;
	op->bytes = (uint32_t)ANY_OF(&prng, 0, 1, 255, 256, 257, 4096, 5000,
				     prng_below(&prng, 8000));
	if (op->opcode == WEFT_OP_SEND) {
		draw_send(a, op, local);
	} else if (op->opcode == WEFT_OP_READ) {
		wr.remote_addr = (uintptr_t)peer->memory + AT_SOURCE;
		memset(local, 0xcc, op->bytes);
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		op->bytes = 8;
		wr.compare_add = 1;
		wr.remote_addr = (uintptr_t)nodes[node_of(op->to)].word;
		wr.remote_tag = nodes[node_of(op->to)].word_tag;
	} else {
		fill(local, op->number, op->bytes);
	}
	return wr;
}

/* Now and then one that the other end refuses. */
static void spoil(struct op *op, struct weft_send_wr *wr)
{
	if (prng_below(&prng, 20) != 0 || op->bytes == 0)
		return;
	op->is_bad = true;
	if (op->opcode == WEFT_OP_SEND)
		wr->remote_q_key ^= 0x100;
	else
		wr->remote_tag ^= 1;
}

static void begin(struct actor *a)
{
	uint32_t slot = a->begun % DEPTH;
	struct op *op = &a->ops[slot];
	struct weft_sge s;
	struct weft_send_wr wr;

	REQUIRE(!op->is_used);
	*op = (struct op){ .is_used = true, .to = prng_below(&prng, ACTORS), .number = a->begun };
	wr = draw_op(a, op, slot);
	s = (struct weft_sge){ (uintptr_t)a->memory + AT_LOCAL + slot * SLOT, op->bytes, a->tag };
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	wr.ee = ib_ee_handle(ib_mesh_ee(mesh, node_of(a->index), node_of(op->to)));
	wr.dest_qp_number = weft_qp_number(actors[op->to].qp);
	wr.remote_q_key = Q_KEY + op->to;
	spoil(op, &wr);
	MUST(weft_qp_post_send(a->qp, &wr, 1, NULL));
	a->begun++;
}

static void ended_well(struct actor *a, uint32_t slot)
{
	const struct op *op = &a->ops[slot];
	const uint8_t *local = a->memory + AT_LOCAL + slot * SLOT;
	struct actor *peer = &actors[op->to];
	int n = node_of(op->to);
	uint64_t old;

	REQUIRE(!op->is_bad);
	switch (op->opcode) {
	case WEFT_OP_WRITE_IMM:
	case WEFT_OP_WRITE:
		a->sent_to[op->to] += op->opcode == WEFT_OP_WRITE_IMM;
		holds(peer->memory + AT_TARGET + a->index * AREA + slot * SLOT, op->number, 0,
		      op->bytes);
		break;
	case WEFT_OP_READ:
		holds(local, 1000000 + op->to, 0, op->bytes);
		break;
	case WEFT_OP_FETCH_ADD:
		memcpy(&old, local, sizeof(old));
		REQUIRE(old < ADDS_MAX && !seen[n][old]);
		seen[n][old] = true;
		adds[n]++;
		break;
	default:
		a->sent_to[op->to]++;
	}
}

/* What was under way when its queue pair was reset may have been carried out, or not. */
static void ended(struct actor *a, const struct weft_completion *c)
{
	struct op *op = &a->ops[c->id];

	REQUIRE(op->is_used && c->id == a->ended % DEPTH);
	if (c->status == WEFT_SUCCESS) {
		ended_well(a, (uint32_t)c->id);
	} else if (c->status == WEFT_ERR_FLUSHED) {
		REQUIRE(a->is_stopped);
		if (a->is_resetting && op->opcode == WEFT_OP_FETCH_ADD)
			lost_adds++;
		else if (a->is_resetting)
			lost_sends++;
	} else {
		/*
		 * The other was away, if the request was good. A poll for receives may have brought
		 * the failure just before the reset: then it is found behind it.
		 */
		REQUIRE(!a->is_stopped || a->is_resetting);
		REQUIRE(op->is_bad || actors[op->to].was_reset);
		REQUIRE(c->status == WEFT_ERR_REMOTE_ACCESS || c->status == WEFT_ERR_PEER_GONE ||
			(c->status == WEFT_ERR_REMOTE_REQUEST && actors[op->to].was_reset));
		a->is_stopped = true;
	}
	op->is_used = false;
	a->ended++;
}

static void post_receive(struct actor *a)
{
	uint32_t slot = 0;

	while (a->is_posted[slot])
		slot++;
	a->is_posted[slot] = true;
	post_recv(
		a->qp, slot,
		(struct weft_sge){ (uintptr_t)a->memory + AT_RECEIVE + slot * SLOT, SLOT, a->tag });
	a->posted++;
}

/* Receives end in any order, as messages of several nodes may arrive at a time. */
static void received(struct actor *a, const struct weft_completion *c)
{
	const uint8_t *at = a->memory + AT_RECEIVE + c->id * SLOT;
	struct letter head = { 0, c->imm };

	a->received++;
	a->is_posted[c->id] = false;
	if (c->status == WEFT_ERR_FLUSHED)
		return;
	REQUIRE(c->status == WEFT_SUCCESS);
	a->got++;
	if (c->opcode == WEFT_OP_RECV_WRITE_IMM)
		return;
	memcpy(&head, at, sizeof(head));
	REQUIRE(head.from < ACTORS && c->src_qp_number == weft_qp_number(actors[head.from].qp));
	holds(at, head.number, sizeof(head), c->byte_count);
	REQUIRE(a->came_from[head.from] == 0 || head.number > a->latest_from[head.from]);
	a->latest_from[head.from] = head.number;
	a->came_from[head.from]++;
}

static struct actor *actor_of(int node, uint32_t number)
{
	for (uint32_t i = 0; i < ACTORS; i++) {
		if (node_of(i) == node && weft_qp_number(actors[i].qp) == number)
			return &actors[i];
	}
	REQUIRE(false);
	return NULL;
}

static void poll(int n)
{
	struct weft_completion c;

	while (cq_next(nodes[n].send_cq, &c))
		ended(actor_of(n, c.qp_number), &c);
	while (cq_next(nodes[n].recv_cq, &c))
		received(actor_of(n, c.qp_number), &c);
}

/* A queue pair whose request failed goes on when the rest was flushed. */
static void mend(struct actor *a)
{
	const struct weft_qp_attr rts = { .state = WEFT_QPS_RTS };
	struct weft_qp_attr attr;

	weft_qp_query(a->qp, &attr);
	if (!a->is_stopped || a->begun != a->ended)
		return;
	REQUIRE(attr.state == WEFT_QPS_SQE);
	MUST(weft_qp_modify(a->qp, &rts, WEFT_QP_STATE));
	a->is_stopped = false;
}

/* In the middle of whatever it does. */
static void reset(struct actor *a)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_RESET };

	resets_left--;
	poll(node_of(a->index));
	a->was_reset = true;
	a->is_stopped = a->is_resetting = true;
	MUST(weft_qp_modify(a->qp, &attr, WEFT_QP_STATE));
	poll(node_of(a->index));
	REQUIRE(a->begun == a->ended && a->posted == a->received);
	a->is_stopped = a->is_resetting = false;
	actor_attach(a);
}

/* Whether all is done; gives new work where there is room. */
static bool work(void)
{
	bool is_done = true;

	for (uint32_t i = 0; i < ACTORS; i++) {
		struct actor *a = &actors[i];

		if (resets_left > 0 && a->begun > 10 && prng_below(&prng, 500) == 0)
			reset(a);
		mend(a);
		while (!a->is_stopped && a->begun < OPS && a->begun - a->ended < DEPTH &&
		       prng_below(&prng, 3) > 0)
			begin(a);
		while (a->posted - a->received < RECEIVES && prng_below(&prng, 20) == 0)
			post_receive(a);
		is_done &= a->ended == OPS && !a->is_stopped;
	}
	return is_done;
}

/*
 * Every message that ended well came, once. What was flushed had not begun, but for what was under
 * way when its queue pair was reset.
 */
static void check_counts(void)
{
	for (uint32_t to = 0; to < ACTORS; to++) {
		uint32_t sent = 0;

		for (uint32_t from = 0; from < ACTORS; from++)
			sent += actors[from].sent_to[to];
		REQUIRE(actors[to].got >= sent && actors[to].got <= sent + lost_sends);
	}
	for (int n = 0; n < NODES; n++)
		REQUIRE(*nodes[n].word >= adds[n] && *nodes[n].word <= adds[n] + lost_adds);
}

TEST(test_trn_s2_rd_01_rd_02_random_datagrams_on_a_bad_network)
{
	world_open();
	while (!work()) {
		int who = ib_mesh_step(mesh);

		for (int n = 0; n < NODES; n++) {
			if (who < 0 || who == n)
				poll(n);
		}
		REQUIRE(ib_mesh_world(mesh)->now_ns < UINT64_C(500) * 1000000000);
	}
	check_counts();
	for (int a = 0; a < NODES; a++) {
		for (int b = 0; b < NODES; b++)
			REQUIRE(ib_ee_why(ib_mesh_ee(mesh, a, b)) == WEFT_OK);
	}
	world_close();
}
