/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connections between two nodes of one host, one after the other. Messages that go by
 * shared memory are not lost but with their process, so all come for which there are receives: in
 * order and whole, also those of a process that is stopped, or lacks room. No request fails.
 */
#include "base/draw.h"
#include "sim/roce/near_pairs.h"
#include "sim/roce/uc_world.h"

enum {
	OPS = 90,  /* of an end, of all its connections */
	DEPTH = 8, /* in flight */
	TICK_NS = 1000 * 1000
};

/* An end is once in the pair's terms, and once in those of UC. */
struct nuc_end {
	struct nw_end end;
	struct uc_end uc;
	uint32_t receives, life; /* in all, and messages */
	bool is_ready;		 /* the receives are posted: the peer may send */
};

static struct nuc_end *uc_of(struct nw_end *e)
{
	return CONTAINER_OF(e, struct nuc_end, end);
}

static struct nw_end *end_of(struct nw_process *p, uint32_t pair)
{
	struct nuc_end *e = p->state;

	return &e[pair].end;
}

/* That of the process that it is connected to. */
static struct nuc_end *peer_of(const struct nw_end *e)
{
	const struct nw_process *peer = e->peer->scenario;

	return peer->state;
}

static void draw(struct prng *prng, struct ib_wire_options *wire)
{
	*wire = (struct ib_wire_options){ .reads = { 1, 1 } };
	for (int n = 0; n < 2; n++)
		wire->psn[n] = roce_draw_psn(prng);
	wire->is_ipv6 = prng_below(prng, 2);
	wire->mtu_bytes = iba_mtu_bytes((uint8_t)(1 + prng_below(prng, 5)));
}

static void make(struct nw_process *p, struct nw_end *end)
{
	struct prng *prng = &p->world->prng;
	struct roce_node *node = &p->near->node;
	struct nuc_end *e = uc_of(end);

	*e = (struct nuc_end){ .end.at = end->at };
	e->life = (uint32_t)ANY_OF(prng, 5, 20, UC_OPS);
	e->receives = (uint32_t)ANY_OF(prng, UC_OPS, UC_OPS, 10);
	roce_node_set(node, end->at, 0, UC_END_BYTES);
	end->tag = roce_node_register(node, end->at, UC_END_BYTES);
	end->qp = roce_node_qp(node, WEFT_UC, DEPTH, UC_OPS);
	e->uc = (struct uc_end){ .node = node, .at = end->at, .qp = end->qp, .tag = end->tag };
}

static bool wants_request(const struct nw_process *p, const struct nuc_end *e, uint32_t pair)
{
	return !nw_pairs_of(p)->pairs[pair].is_ending && peer_of(&e->end)->is_ready &&
	       e->end.begun < e->life && nw_in_flight(&e->end) < DEPTH &&
	       !roce_has_failed(p->world->judged);
}

static bool work(struct nw_process *p, struct nw_end *end, uint32_t i)
{
	struct near_world *w = p->world;
	struct nuc_end *e = uc_of(end);
	struct nw_pair *pair = &nw_pairs_of(p)->pairs[i];

	if (!e->is_ready) {
		uc_post_receives(w->judged, &e->uc, e->receives);
		e->is_ready = true;
		nw_poke_others(p);
	}
	while (wants_request(p, e, i) && prng_below(&w->prng, 3) > 0) {
		end->begun++;
		uc_begin(w->judged, &w->prng, &e->uc, &peer_of(end)->uc);
	}
	if (end->begun >= e->life && !pair->is_ending) {
		pair->is_ending = true;
		nw_poke_others(p);
	}
	return wants_request(p, e, i);
}

/* What is under way is taken before the connection ends. */
static bool has_come(const struct nw_process *p, struct nw_end *e, struct nw_end *other)
{
	(void)e;
	(void)other;
	return !nw_is_flowing(p->world);
}

static void sent(struct nw_process *p, struct nw_end *end, const struct weft_completion *c)
{
	uc_judge_ended(p->world->judged, &uc_of(end)->uc, c);
	end->ended++;
}

static void came(struct nw_process *p, struct nw_end *end, const struct weft_completion *c)
{
	uc_judge_came(p->world->judged, &uc_of(end)->uc, &peer_of(end)->uc, c);
}

static void judge(struct nw_process *p, struct nw_end *end, struct nw_end *other)
{
	struct uc_end *e = &uc_of(end)->uc;

	if (!other)
		return;
	e->is_lossy = !p->world->is_lossless || near_kernel_is_broken(&p->world->kernel);
	uc_judge_end(p->world->judged, e, &uc_of(other)->uc);
}

static int uc_open(struct roce_world *judged)
{
	static const struct nw_service service = {
		.pairs = 1,
		.end_bytes = UC_END_BYTES,
		.qps_max = ROCE_NODE_QPS,
		.ops = OPS,
		.tick_ns = TICK_NS,
		.end = end_of,
		.draw = draw,
		.make = make,
		.work = work,
		.has_come = has_come,
		.judge = judge,
		.sent = sent,
		.came = came,
	};

	return nw_pairs_open(judged, &service, sizeof(struct nuc_end));
}

const struct roce_scenario roce_near_uc = {
	.state_bytes = sizeof(struct nw_pairs),
	.open = uc_open,
	.step = near_world_step,
	.close = near_world_close,
	.clock = near_world_clock,
};
