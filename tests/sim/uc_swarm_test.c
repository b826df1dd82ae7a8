/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random messages of unreliable connections on a network that loses and corrupts packets, stands
 * still and is cut (IBA 9.8.2): what arrives is whole, right and in order, and nobody is told of
 * the rest. Some seeds run out of receives. The network neither doubles packets nor lets them
 * overtake each other: by UC a message of one packet would come twice, or late.
 */
#include <stdlib.h>
#include <string.h>

#include "../spec/ib_net.h"
#include "ib_swarm.h"

enum {
	OPS = 60, /* of each direction */
	SLOT = 9000,
	NUMBER_BYTES = 4, /* ahead of a Send without immediate */
	AT_LOCAL = 0,
	AT_TARGET = OPS * SLOT,
	AT_RECEIVE = 2 * OPS * SLOT,
	END_BYTES = 3 * OPS * SLOT
};

struct op {
	enum weft_opcode opcode;
	uint32_t bytes;
};

struct end {
	struct weft_qp *qp;
	uint8_t *memory;
	uint32_t tag;
	struct op ops[OPS];
	uint32_t begun, ended, posted, received;
	uint32_t next; /* the lowest number that may come */
};

static struct node nodes[2];
static struct end ends[2];

static void end_open(struct node *n, struct end *e)
{
	*e = (struct end){ .memory = calloc(1, END_BYTES) };
	REQUIRE(e->memory);
	e->tag = memory_register(n, e->memory, END_BYTES);
	e->qp = qp_open(n, WEFT_UC, OPS, OPS);
}

static void end_close(struct node *n, struct end *e)
{
	MUST(weft_qp_destroy(e->qp));
	MUST(weft_region_deregister(n->pd, e->tag));
	free(e->memory);
}

static void post_receives(struct end *e, uint32_t count)
{
	while (e->posted < count) {
		uint32_t n = e->posted++;

		post_recv(e->qp, n,
			  (struct weft_sge){ (uintptr_t)e->memory + AT_RECEIVE + n * SLOT, SLOT,
					     e->tag });
	}
}

/* ---- Work ----------------------------------------------------------------------------------- */

static void begin(struct end *e, const struct end *peer)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_SEND_IMM,
						    WEFT_OP_WRITE_IMM };
	uint32_t n = e->begun++, at = n * SLOT;
	struct op *op = &e->ops[n];
	struct weft_sge s = { (uintptr_t)e->memory + AT_LOCAL + at, 0, e->tag };
	struct weft_send_wr wr = {
		.id = n,
		.sges = &s,
		.sge_count = 1,
		.imm = n,
		.remote_addr = (uintptr_t)peer->memory + AT_TARGET + at,
		.remote_tag = peer->tag,
	};

	op->opcode = wr.opcode = opcodes[prng_below(&prng, 3)];
	op->bytes = (uint32_t)ANY_OF(&prng, 0, 1, 255, 256, 257, 4096, prng_below(&prng, SLOT));
	if (op->opcode == WEFT_OP_SEND && op->bytes < NUMBER_BYTES)
		op->bytes = NUMBER_BYTES;
	s.length = op->bytes;
	fill(e->memory + AT_LOCAL + at, n, op->bytes);
	if (op->opcode == WEFT_OP_SEND)
		memcpy(e->memory + AT_LOCAL + at, &n, NUMBER_BYTES);
	MUST(weft_qp_post_send(e->qp, &wr, 1, NULL));
}

/* A message has come: it is one that was sent, later than the last, and all of it is there. */
static void came(struct end *e, const struct end *peer, const struct weft_completion *c)
{
	const uint8_t *at = e->memory + AT_RECEIVE + c->id * SLOT;
	uint32_t n = c->imm, skip = 0;
	const struct op *op;

	REQUIRE(c->status == WEFT_SUCCESS && c->id == e->received++);
	if (!c->has_imm) {
		memcpy(&n, at, NUMBER_BYTES);
		skip = NUMBER_BYTES;
	}
	REQUIRE(n >= e->next && n < peer->begun);
	op = &peer->ops[n];
	REQUIRE(c->has_imm == (op->opcode != WEFT_OP_SEND) && c->byte_count == op->bytes);
	REQUIRE((c->opcode == WEFT_OP_RECV_WRITE_IMM) == (op->opcode == WEFT_OP_WRITE_IMM));
	if (op->opcode == WEFT_OP_WRITE_IMM)
		at = e->memory + AT_TARGET + n * SLOT;
	holds(at, n, skip, op->bytes);
	e->next = n + 1;
}

static void poll(int n)
{
	struct end *e = &ends[n];
	struct weft_completion c;

	while (cq_next(nodes[n].send_cq, &c)) {
		REQUIRE(c.status == WEFT_SUCCESS && c.id == e->ended);
		e->ended++;
	}
	while (cq_next(nodes[n].recv_cq, &c))
		came(e, &ends[!n], &c);
}

/* Until all has been sent, and what is under way has had its time. */
static void run(struct ib_net *net)
{
	const uint64_t quiet_ns = UINT64_C(1000) * 1000000;
	uint64_t until_ns = quiet_ns;

	/* Bound: time passes, and there is an end to what is sent. */
	while (ib_net_world(net)->now_ns < until_ns) {
		for (int n = 0; n < 2; n++) {
			struct end *e = &ends[n];

			if (e->begun < OPS && prng_below(&prng, 3) == 0)
				begin(e, &ends[!n]);
			if (e->ended < OPS)
				until_ns = ib_net_world(net)->now_ns + quiet_ns;
		}
		(void)ib_net_step(net);
		poll(0);
		poll(1);
		REQUIRE(ib_net_world(net)->now_ns < UINT64_C(200) * 1000000000);
	}
}

TEST(test_trn_s2_qp_11_unreliable_messages_arrive_whole_or_not_at_all)
{
	struct ib_net_options o = { .seed = seed };
	struct ib_wire_options wire = { .reads = { 1, 1 } };
	struct weft_qp *qps[2];
	struct weft_adapter *adapters[2];
	uint32_t receives[2];
	struct ib_net *net;

	prng.state = prng_mix(seed);
	for (int n = 0; n < 2; n++) {
		struct sim_faults *f = &o.faults[n];

		node_open(&nodes[n]);
		end_open(&nodes[n], &ends[n]);
		adapters[n] = nodes[n].adapter;
		qps[n] = ends[n].qp;
		*f = draw_faults();
		f->duplicate_ppm = f->reorder_ppm = 0;
		receives[n] = (uint32_t)ANY_OF(&prng, OPS, OPS, OPS / 2);
		wire.psn[n] = (uint32_t)ANY_OF(&prng, 0, 0xffffff, 0xffffe0, 0x7fffff);
	}
	wire.is_ipv6 = prng_below(&prng, 2);
	wire.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&prng, 5)));
	net = ib_net_open(&o, adapters);
	MUST(ib_net_connect(net, qps, &wire));
	for (int n = 0; n < 2; n++)
		post_receives(&ends[n], receives[n]);
	run(net);
	for (int n = 0; n < 2; n++) {
		const struct sim_faults *f = &o.faults[!n];
		bool is_lossy = f->loss_ppm || f->corrupt_ppm || f->cut_ppm;

		EXPECT_EQ(ends[n].ended, OPS);
		if (!is_lossy)
			EXPECT_EQ(ends[n].received, receives[n]);
		end_close(&nodes[n], &ends[n]);
	}
	for (int n = 0; n < 2; n++)
		node_close(&nodes[n]);
	ib_net_close(net);
	for (int n = 0; n < 2; n++)
		MUST(weft_adapter_close(adapters[n]));
}
