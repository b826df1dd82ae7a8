/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random messages of unreliable connections on a network that loses and corrupts packets, stands
 * still and is cut (IBA 9.8.2): what arrives is whole, right and in order, and neither end is told
 * of the rest. Some seeds run out of receives. The network neither duplicates packets nor lets them
 * overtake each other: by UC a message of one packet would come twice, or late.
 */
#include <string.h>

#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/roce_pair.h"

enum {
	OPS = 60, /* of each direction */
	SLOT = 9000,
	NUMBER_BYTES = 4, /* ahead of a Send without immediate */
	AT_LOCAL = 0,
	AT_TARGET = OPS * SLOT,
	AT_RECEIVE = 2 * OPS * SLOT,
	END_BYTES = 3 * OPS * SLOT,
	GAP = 64, /* behind what is registered */
	NODE_BYTES = END_BYTES + GAP
};

static const uint64_t quiet_ns = UINT64_C(1000) * 1000000;
static const uint64_t end_max_ns = UINT64_C(200) * 1000000000;

struct op {
	enum weft_opcode opcode;
	uint32_t bytes;
};

struct end {
	struct weft_qp *qp;
	uint32_t tag;
	struct op ops[OPS];
	uint32_t begun, ended, posted, received;
	uint32_t next; /* the lowest number that may come */
	bool is_lossy; /* what its peer sends may be lost */
};

struct uc_world {
	struct prng prng;
	struct roce_pair pair;
	struct end ends[2];
	uint64_t until_ns; /* when what is under way has had its time */
};

static struct uc_world *uc_world_of(const struct roce_world *w)
{
	return w->state;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static void post_receives(struct roce_world *w, int n, uint32_t count)
{
	struct roce_node *node = &uc_world_of(w)->pair.nodes[n];
	struct end *e = &uc_world_of(w)->ends[n];

	while (e->posted < count) {
		uint32_t i = e->posted++;
		const struct weft_sge s = roce_node_sge(node, AT_RECEIVE + i * SLOT, SLOT, e->tag);

		roce_node_post_recv(w, node, e->qp, &s, i);
	}
}

static struct sim_faults draw_faults(struct uc_world *uc, int n)
{
	struct sim_faults f = roce_draw_faults(&uc->prng);

	f.duplicate_ppm = f.reorder_ppm = 0;
	uc->ends[!n].is_lossy = f.loss_ppm || f.corrupt_ppm || f.cut_ppm;
	return f;
}

static int ends_open(struct uc_world *uc)
{
	for (int n = 0; n < 2; n++) {
		struct roce_node *node = &uc->pair.nodes[n];
		struct end *e = &uc->ends[n];

		if (roce_node_open(node, ib_net_node(uc->pair.net, n), NODE_BYTES) < 0)
			return -1;
		e->tag = roce_node_register(node, 0, END_BYTES);
		e->qp = roce_node_qp(node, WEFT_UC, OPS, OPS);
	}
	return 0;
}

static int uc_open(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);
	struct ib_wire_options wire = { .reads = { 1, 1 } };
	struct sim_faults faults[2];
	struct weft_qp *qps[2];
	uint32_t receives[2];

	uc->prng.state = prng_mix(w->seed);
	for (int n = 0; n < 2; n++) {
		faults[n] = draw_faults(uc, n);
		receives[n] = (uint32_t)ANY_OF(&uc->prng, OPS, OPS, OPS / 2);
		wire.psn[n] = roce_draw_psn(&uc->prng);
	}
	wire.is_ipv6 = prng_below(&uc->prng, 2);
	wire.mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(&uc->prng, 5)));
	if (roce_pair_open(&uc->pair, w, faults) < 0 || ends_open(uc) < 0)
		return -1;
	for (int n = 0; n < 2; n++)
		qps[n] = uc->ends[n].qp;
	CHECK(ib_net_connect(uc->pair.net, qps, &wire) == WEFT_OK);
	for (int n = 0; n < 2; n++)
		post_receives(w, n, receives[n]);
	uc->until_ns = quiet_ns;
	return 0;
}

static void uc_close(struct roce_world *w)
{
	roce_pair_close(&uc_world_of(w)->pair, w);
}

static struct world *uc_clock(struct roce_world *w)
{
	return ib_net_world(uc_world_of(w)->pair.net);
}

/* ---- Work ----------------------------------------------------------------------------------- */

static uint32_t draw_length(struct prng *p)
{
	static const uint32_t lengths[] = { 0, 1, 255, 256, 257, 4096 };
	const uint32_t count = sizeof(lengths) / sizeof(lengths[0]);
	uint32_t any = prng_below(p, SLOT), pick = prng_below(p, count + 1);

	return pick < count ? lengths[pick] : any;
}

static void begin(struct roce_world *w, int n)
{
	static const enum weft_opcode opcodes[] = { WEFT_OP_SEND, WEFT_OP_SEND_IMM,
						    WEFT_OP_WRITE_IMM };
	struct uc_world *uc = uc_world_of(w);
	struct roce_node *node = &uc->pair.nodes[n];
	struct end *e = &uc->ends[n];
	uint32_t number = e->begun++, at = number * SLOT;
	struct op *op = &e->ops[number];
	struct weft_sge s;
	struct weft_send_wr wr = {
		.id = number,
		.sges = &s,
		.sge_count = 1,
		.imm = number,
		.remote_addr = roce_node_addr(&uc->pair.nodes[!n], AT_TARGET + at),
		.remote_tag = uc->ends[!n].tag,
	};

	op->opcode = wr.opcode = opcodes[prng_below(&uc->prng, 3)];
	op->bytes = draw_length(&uc->prng);
	if (op->opcode == WEFT_OP_SEND && op->bytes < NUMBER_BYTES)
		op->bytes = NUMBER_BYTES;
	s = roce_node_sge(node, AT_LOCAL + at, op->bytes, e->tag);
	roce_node_fill(node, AT_LOCAL + at, number, op->bytes);
	if (op->opcode == WEFT_OP_SEND) {
		memcpy(node->memory + AT_LOCAL + at, &number, NUMBER_BYTES);
		roce_node_accept(node, AT_LOCAL + at, NUMBER_BYTES);
	}
	roce_node_post_send(w, node, e->qp, &wr);
}

/* Whether a message is one that was sent, and later than the last. */
static bool is_due(const struct end *e, const struct end *peer, uint32_t number,
		   const struct weft_completion *c)
{
	const struct op *op = &peer->ops[number];

	return number >= e->next && number < peer->begun &&
	       c->has_imm == (op->opcode != WEFT_OP_SEND) && c->byte_count == op->bytes &&
	       (c->opcode == WEFT_OP_RECV_WRITE_IMM) == (op->opcode == WEFT_OP_WRITE_IMM);
}

/* A message has come: it must be one that was due, and all of it be there. */
static void came(struct roce_world *w, int n, const struct weft_completion *c)
{
	struct uc_world *uc = uc_world_of(w);
	struct roce_node *node = &uc->pair.nodes[n];
	struct end *e = &uc->ends[n], *peer = &uc->ends[!n];
	uint32_t at = AT_RECEIVE + e->received * SLOT, number = c->imm, skip = 0;

	if (c->status != WEFT_SUCCESS || c->id != e->received) {
		roce_fail(w, "node %d: receive %u failed or was out of order: %s", n, e->received,
			  weft_status_name(c->status));
		return;
	}
	if (!c->has_imm) {
		memcpy(&number, node->memory + at, NUMBER_BYTES);
		skip = NUMBER_BYTES;
	}
	if (number >= OPS || !is_due(e, peer, number, c)) {
		roce_fail(w, "node %d: receive %u has message %u, which was not due", n,
			  e->received, number);
		return;
	}
	if (peer->ops[number].opcode == WEFT_OP_WRITE_IMM)
		at = AT_TARGET + number * SLOT;
	if (!roce_node_holds(node, at, number, skip, c->byte_count))
		roce_fail(w, "node %d: message %u is not what was sent", n, number);
	roce_node_accept(node, at, c->byte_count);
	e->received++;
	e->next = number + 1;
}

static void poll(struct roce_world *w, int n)
{
	struct roce_node *node = &uc_world_of(w)->pair.nodes[n];
	struct end *e = &uc_world_of(w)->ends[n];
	struct weft_completion c;

	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->send_cq, &c)) {
		if (c.status != WEFT_SUCCESS || c.id != e->ended)
			roce_fail(w, "node %d: request %u failed or ended out of order: %s", n,
				  e->ended, weft_status_name(c.status));
		w->requests++;
		w->succeeded++;
		w->bytes += e->ops[e->ended % OPS].bytes;
		e->ended++;
	}
	while (!roce_has_failed(w) && ib_node_cq_poll(node->ib, node->recv_cq, &c))
		came(w, n, &c);
}

/* ---- The end -------------------------------------------------------------------------------- */

/*
 * A message of which a packet was lost may have written what came before it, up to its length; and
 * so into the receive that the next message then took.
 */
static void node_judge(struct roce_world *w, int n)
{
	struct uc_world *uc = uc_world_of(w);
	struct roce_node *node = &uc->pair.nodes[n];
	struct end *e = &uc->ends[n], *peer = &uc->ends[!n];

	if (e->ended != OPS)
		roce_fail(w, "node %d: %u of %u requests ended", n, e->ended, OPS);
	if (!e->is_lossy && e->received != e->posted)
		roce_fail(w, "node %d: %u of %u messages came, and none was lost", n, e->received,
			  e->posted);
	for (uint32_t i = 0; i < OPS; i++) {
		if (peer->ops[i].opcode == WEFT_OP_WRITE_IMM)
			roce_node_accept(node, AT_TARGET + i * SLOT, peer->ops[i].bytes);
	}
	if (e->is_lossy)
		roce_node_accept(node, AT_RECEIVE, e->posted * SLOT);
	roce_node_judge(w, node);
	roce_count_packets(w, ib_net_pipe(uc->pair.net, n));
}

static void finish(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);

	for (int n = 0; n < 2; n++)
		node_judge(w, n);
	for (int n = 0; n < 2 && !roce_has_failed(w); n++) {
		roce_node_drop(&uc->pair.nodes[n], uc->ends[n].qp, uc->ends[n].tag);
		roce_node_shut(&uc->pair.nodes[n], w);
	}
}

/* Until all has been sent, and what is under way has had its time. */
static bool uc_step(struct roce_world *w)
{
	struct uc_world *uc = uc_world_of(w);
	const struct world *clock = ib_net_world(uc->pair.net);

	if (clock->now_ns >= uc->until_ns) {
		finish(w);
		return false;
	}
	for (int n = 0; n < 2; n++) {
		if (uc->ends[n].begun < OPS && prng_below(&uc->prng, 3) == 0)
			begin(w, n);
		if (uc->ends[n].ended < OPS)
			uc->until_ns = clock->now_ns + quiet_ns;
	}
	(void)ib_net_step(uc->pair.net);
	poll(w, 0);
	poll(w, 1);
	if (clock->now_ns >= end_max_ns)
		roce_fail(w, "it does not come to rest");
	return true;
}

const struct roce_scenario roce_uc = {
	.state_bytes = sizeof(struct uc_world),
	.open = uc_open,
	.step = uc_step,
	.close = uc_close,
	.clock = uc_clock,
};
