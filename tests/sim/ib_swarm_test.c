/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work on reliable connections between two nodes, on a network that loses, doubles, reorders
 * and corrupts packets, stands still and is cut (TRN-S2). Whoever completes a request looks at the
 * memory of both ends at once: a Write is there, a Read is right, Sends come in order and once, and
 * every addition is counted once (QP-S3). Some connections have no RNR retries: where the first
 * Sends find receives, credits see to it that none is sent in vain (IBA 9.7.7.2.5), however late
 * they come.
 *
 *	WEFT_SEEDS=FIRST:COUNT build/tests/ib_swarm
 */
#include <stdlib.h>
#include <string.h>

#include "../spec/ib_net.h"
#include "ib_swarm.h"

enum {
	PAIRS = 3,
	DEPTH = 8,
	OPS = 120, /* of each direction */
	SLOT = 20000,
	AREA = SLOT * DEPTH,
	ADDS_MAX = 2 * PAIRS * OPS,
	EMPTY_MAX = 16 /* steps without a receive: a peer is not asked for ever */
};

const uint64_t failed_once[] = { 0 };
const uint64_t failed_once_count = sizeof(failed_once) / sizeof(*failed_once);
const uint64_t seeds_count = IB_SEEDS;

/* ---- The world ------------------------------------------------------------------------------ */

struct op {
	enum weft_opcode opcode;
	uint32_t number, bytes;
	bool is_used;
};

/* One end of a connection: a requester, and a responder to the other end. */
struct end {
	struct weft_qp *qp;
	uint8_t *memory; /* sinks and sources, targets of the peer, receives, what the peer reads */
	uint32_t tag;
	struct op ops[DEPTH];
	uint32_t begun, ended, sent, received, posted;
	uint32_t empty; /* steps for which it has had no receive */
};

enum {
	AT_LOCAL = 0,
	AT_TARGET = AREA,
	AT_RECEIVE = 2 * AREA,
	AT_SOURCE = 3 * AREA,
	END_BYTES = 4 * AREA
};

static struct node nodes[2];
static struct end ends[2][PAIRS];
static bool seen[2][ADDS_MAX];
static uint32_t adds[2]; /* to the word of the node */

static void end_open(struct node *n, struct end *e)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };

	*e = (struct end){ .memory = calloc(1, END_BYTES) };
	REQUIRE(e->memory);
	fill(e->memory + AT_SOURCE, 1000000, AREA);
	e->tag = memory_register(n, e->memory, END_BYTES);
	e->qp = qp_open(n, WEFT_RC, DEPTH, DEPTH);
	MUST(weft_qp_modify(e->qp, &patient, WEFT_QP_RECEIVER_WAIT));
}

static void end_close(struct node *n, struct end *e)
{
	MUST(weft_qp_destroy(e->qp));
	MUST(weft_region_deregister(n->pd, e->tag));
	free(e->memory);
}

static void draw_wire(struct ib_wire_options *o)
{
	*o = (struct ib_wire_options){
		.is_ipv6 = prng_below(&prng, 2),
		.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&prng, 5))),
		.timeout_code = 16,
		.retries = 7,
		.rnr_retries = (uint8_t)ANY_OF(&prng, 0, IB_RNR_RETRY_FOREVER,
					       IB_RNR_RETRY_FOREVER),
		.rnr_timer_code = (uint8_t)(1 + prng_below(&prng, 12)),
	};
	for (int i = 0; i < 2; i++) {
		o->psn[i] = (uint32_t)ANY_OF(&prng, 0, 0xffffff, 0xffffe0, 0x7fffff);
		o->reads[i] = (uint8_t)ANY_OF(&prng, 1, 2, 5, 16);
		o->window[i] = (uint32_t)ANY_OF(&prng, 0, 1, 3, 32);
		o->ack_every[i] = (uint32_t)ANY_OF(&prng, 0, 1, 5, 1000);
	}
}

/* ---- Work ----------------------------------------------------------------------------------- */

static struct weft_send_wr draw_op(struct end *e, struct op *op, const struct end *peer,
				   uint32_t slot)
{
	const struct node *other = peer >= ends[1] && peer < ends[1] + PAIRS ? &nodes[1]
									     : &nodes[0];
	static const enum weft_opcode opcodes[] = { WEFT_OP_WRITE, WEFT_OP_READ, WEFT_OP_SEND,
						    WEFT_OP_FETCH_ADD };
	uint32_t at = slot * SLOT;

	op->opcode = opcodes[prng_below(&prng, 4)];
	op->bytes = (uint32_t)ANY_OF(&prng, 0, 1, 255, 256, 257, 4096, 5000,
				     prng_below(&prng, SLOT));
	if (op->opcode == WEFT_OP_SEND) {
		op->number = e->sent++;
		fill(e->memory + AT_LOCAL + at, op->number, op->bytes);
	} else if (op->opcode == WEFT_OP_WRITE) {
		fill(e->memory + AT_LOCAL + at, op->number, op->bytes);
	} else {
		op->bytes = op->opcode == WEFT_OP_FETCH_ADD ? 8 : op->bytes;
		memset(e->memory + AT_LOCAL + at, 0xcc, op->bytes);
	}
	if (op->opcode == WEFT_OP_FETCH_ADD)
		return (struct weft_send_wr){ .opcode = op->opcode,
					      .compare_add = 1,
					      .remote_addr = (uintptr_t)other->word,
					      .remote_tag = other->word_tag };
	return (struct weft_send_wr){
		.opcode = op->opcode,
		.remote_addr = (uintptr_t)peer->memory +
			       (op->opcode == WEFT_OP_READ ? AT_SOURCE : AT_TARGET + at),
		.remote_tag = peer->tag,
	};
}

static void begin(struct end *e, const struct end *peer)
{
	uint32_t slot = e->begun % DEPTH;
	struct op *op = &e->ops[slot];
	struct weft_sge s;
	struct weft_send_wr wr;

	REQUIRE(!op->is_used);
	op->is_used = true;
	op->number = 100000 + e->begun;
	wr = draw_op(e, op, peer, slot);
	s = (struct weft_sge){ (uintptr_t)e->memory + AT_LOCAL + slot * SLOT, op->bytes, e->tag };
	wr.id = slot;
	wr.sges = &s;
	wr.sge_count = 1;
	MUST(weft_qp_post_send(e->qp, &wr, 1, NULL));
	e->begun++;
}

static void ended(int n, uint32_t pair, uint32_t slot)
{
	struct end *e = &ends[n][pair], *peer = &ends[!n][pair];
	struct op *op = &e->ops[slot];
	const uint8_t *local = e->memory + AT_LOCAL + slot * SLOT;
	uint64_t old;

	REQUIRE(op->is_used && slot == e->ended % DEPTH);
	if (op->opcode == WEFT_OP_WRITE) {
		holds(peer->memory + AT_TARGET + slot * SLOT, op->number, 0, op->bytes);
	} else if (op->opcode == WEFT_OP_READ) {
		holds(local, 1000000, 0, op->bytes);
	} else if (op->opcode == WEFT_OP_FETCH_ADD) {
		memcpy(&old, local, sizeof(old));
		REQUIRE(old < ADDS_MAX && !seen[!n][old]);
		seen[!n][old] = true;
		adds[!n]++;
	}
	op->is_used = false;
	e->ended++;
}

static void post_receive(struct end *e)
{
	uint32_t slot = e->posted % DEPTH;

	post_recv(
		e->qp, slot,
		(struct weft_sge){ (uintptr_t)e->memory + AT_RECEIVE + slot * SLOT, SLOT, e->tag });
	e->posted++;
	e->empty = 0;
}

static bool wants_receive(struct end *e)
{
	if (e->posted - e->received == DEPTH)
		return false;
	return prng_below(&prng, 40) == 0 || (e->posted == e->received && ++e->empty > EMPTY_MAX);
}

static uint32_t pair_of(int n, uint32_t number)
{
	uint32_t i = 0;

	while (i < PAIRS && weft_qp_number(ends[n][i].qp) != number)
		i++;
	REQUIRE(i < PAIRS);
	return i;
}

static void poll(int n)
{
	struct weft_completion c;

	while (cq_next(nodes[n].send_cq, &c)) {
		REQUIRE(c.status == WEFT_SUCCESS);
		ended(n, pair_of(n, c.qp_number), (uint32_t)c.id);
	}
	while (cq_next(nodes[n].recv_cq, &c)) {
		struct end *e = &ends[n][pair_of(n, c.qp_number)];

		REQUIRE(c.status == WEFT_SUCCESS);
		REQUIRE(c.id == e->received % DEPTH);
		holds(e->memory + AT_RECEIVE + c.id * SLOT, e->received, 0, c.byte_count);
		e->received++;
	}
}

/* Whether all is done; gives new work where there is room. */
static bool work(void)
{
	bool is_done = true;

	for (int n = 0; n < 2; n++) {
		for (uint32_t i = 0; i < PAIRS; i++) {
			struct end *e = &ends[n][i];

			while (e->begun < OPS && e->begun - e->ended < DEPTH &&
			       prng_below(&prng, 3) > 0)
				begin(e, &ends[!n][i]);
			while (wants_receive(e))
				post_receive(e);
			is_done &= e->ended == OPS;
		}
	}
	return is_done;
}

TEST(test_trn_s2_rc_04_qp_s3_random_work_on_a_bad_network)
{
	struct ib_net_options o = { .seed = seed };
	struct weft_adapter *adapters[2];
	struct ib_wire_options wire;
	struct ib_net *net;

	prng.state = seed;
	memset(seen, 0, sizeof(seen));
	memset(adds, 0, sizeof(adds));
	for (int n = 0; n < 2; n++) {
		node_open(&nodes[n]);
		for (uint32_t i = 0; i < PAIRS; i++)
			end_open(&nodes[n], &ends[n][i]);
		adapters[n] = nodes[n].adapter;
		o.faults[n] = draw_faults();
	}
	net = ib_net_open(&o, adapters);
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct weft_qp *const qps[2] = { ends[0][i].qp, ends[1][i].qp };

		draw_wire(&wire);
		MUST(ib_net_connect(net, qps, &wire));
		/* Before the first answer nothing is known of credits. */
		for (uint32_t j = 0; j < 2 * DEPTH && wire.rnr_retries == 0; j++)
			post_receive(&ends[j % 2][i]);
	}
	while (!work()) {
		int who = ib_net_step(net);

		for (int n = 0; n < 2; n++) {
			if (who < 0 || who == n)
				poll(n);
		}
		REQUIRE(ib_net_world(net)->now_ns < UINT64_C(200) * 1000000000);
	}
	for (int n = 0; n < 2; n++) {
		EXPECT_EQ(*nodes[n].word, adds[n]);
		for (uint32_t i = 0; i < PAIRS; i++)
			EXPECT_EQ(ends[n][i].received, ends[!n][i].sent);
	}
	for (int n = 0; n < 2; n++) {
		for (uint32_t i = 0; i < PAIRS; i++)
			end_close(&nodes[n], &ends[n][i]);
		node_close(&nodes[n]);
	}
	ib_net_close(net);
	for (int n = 0; n < 2; n++)
		MUST(weft_adapter_close(adapters[n]));
}
