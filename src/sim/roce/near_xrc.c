/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC connections between two adapters of one host: an initiator of one reaches the shared queues
 * of all processes of the other through one connection. What xrc_world.h calls a process is one of
 * several programs of an adapter: a domain with memory and a shared queue. They end and begin anew
 * while the adapters' own processes (near_world.h) are stopped, leave and are killed.
 *
 * The judge is that of the network. In addition a connection ends by itself only if a request had
 * to be refused, or the initiator cut it off; else only when a process has ended or broken a rule.
 * Then nothing is known of requests under way, but what was told to have ended well was carried
 * out, once, and nothing else is written to the memory of a process that lives.
 */
#include "base/check.h"
#include "base/draw.h"
#include "sim/roce/near_pairs.h"
#include "sim/roce/xrc_world.h"

enum { RESETS = 2, QPS_MAX = 8 * 64 };

_Static_assert((int)XRC_CONNS == (int)NW_PAIRS_MAX && (int)XRC_GAP == (int)NW_GAP,
	       "connections are pairs, and have their memory");

struct near_xrc {
	struct xrc_world xrc;
	struct nw_pairs pairs;
};

struct nxrc_process {
	struct nw_end ends[XRC_CONNS];
	struct xrc_process left[XRC_PROCESSES]; /* as it left them */
	uint32_t base[XRC_CONNS];		/* requests before this connection */
	uint32_t life[XRC_CONNS];		/* requests of this one */
	bool has_left, has_dropped;
};

static struct near_xrc *near_xrc_of(const struct nw_process *p)
{
	return CONTAINER_OF(nw_pairs_of(p), struct near_xrc, pairs);
}

static struct nw_end *end_of(struct nw_process *p, uint32_t pair)
{
	struct nxrc_process *own = p->state;

	return &own->ends[pair];
}

static struct xrc_conn *conn_of(const struct nw_process *p, const struct nw_end *e)
{
	const struct nxrc_process *own = p->state;

	return &near_xrc_of(p)->xrc.conns[e - own->ends];
}

static bool is_initiator(const struct nw_process *p, const struct xrc_conn *c)
{
	return xrc_from(c) == (int)nw_node_of(p);
}

/* The end in the pair's terms. */
static void count(struct nw_process *p, uint32_t pair)
{
	const struct nxrc_process *own = p->state;
	const struct xrc_conn *c = &near_xrc_of(p)->xrc.conns[pair];
	struct nw_end *e = end_of(p, pair);

	if (e->phase == NW_DOWN || !is_initiator(p, c))
		return;
	e->begun = c->begun - own->base[pair];
	e->ended = c->ended - own->base[pair];
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void draw(struct prng *prng, struct ib_wire_options *wire)
{
	roce_draw_wire(prng, wire);
	wire->rnr_retries = IB_RNR_RETRY_FOREVER; /* a shared queue gives no credits */
}

static void make(struct nw_process *p, struct nw_end *e)
{
	struct xrc_world *x = &near_xrc_of(p)->xrc;
	struct xrc_conn *c = conn_of(p, e);
	struct nxrc_process *own = p->state;

	*e = (struct nw_end){ .at = e->at };
	if (is_initiator(p, c)) {
		e->tag = roce_node_register(&p->near->node, e->at, XRC_CONN_BYTES);
		c->tag = e->tag;
		c->is_broken = c->is_cut = false;
		own->base[c->index] = c->begun;
		own->life[c->index] = (uint32_t)ANY_OF(&x->prng, 5, 20, XRC_OPS);
	}
	xrc_conn_make(x, c, (int)nw_node_of(p));
	e->qp = c->qps[nw_node_of(p)];
}

/* It has had its requests, or there are no more. */
static bool is_old(const struct nw_process *p, const struct xrc_conn *c)
{
	const struct nxrc_process *own = p->state;

	return c->begun == XRC_OPS || c->begun - own->base[c->index] >= own->life[c->index];
}

static bool initiator_work(struct nw_process *p, struct xrc_conn *c, struct nw_pair *pair)
{
	struct roce_world *w = p->world->judged;
	struct xrc_world *x = &near_xrc_of(p)->xrc;

	if (!pair->is_ending && xrc_conn_wants_reset(x, c))
		xrc_conn_reset(w, c);
	while (!pair->is_ending && xrc_conn_wants_request(w, c) && prng_below(&x->prng, 3) > 0)
		xrc_conn_begin(w, c);
	if (c->is_broken && c->begun == c->ended && !pair->is_excused)
		nw_excuse(nw_pairs_of(p), pair);
	if (is_old(p, c) && !pair->is_ending) {
		pair->is_ending = true;
		nw_poke_others(p);
	}
	return !pair->is_ending && xrc_conn_wants_request(w, c);
}

static bool work(struct nw_process *p, struct nw_end *e, uint32_t i)
{
	struct xrc_conn *c = conn_of(p, e);
	bool has_more;

	if (!is_initiator(p, c))
		return false;
	has_more = initiator_work(p, c, &nw_pairs_of(p)->pairs[i]);
	count(p, i);
	return has_more;
}

/* The target takes a receive before it acknowledges it. */
static bool has_come(const struct nw_process *p, struct nw_end *e, struct nw_end *other)
{
	(void)p;
	(void)e;
	(void)other;
	return true;
}

/* Its queue pair goes. What it is in the middle of ends before, and is seen. */
static void judge(struct nw_process *p, struct nw_end *e, struct nw_end *other)
{
	const struct weft_qp_attr attr = { .state = WEFT_QPS_ERROR };
	struct roce_world *w = p->world->judged;
	struct xrc_conn *c = conn_of(p, e);

	(void)other;
	if (!is_initiator(p, c)) {
		CHECK(ib_node_modify(&p->near->ib, e->qp, &attr, WEFT_QP_STATE) == WEFT_OK);
		(void)xrc_judge_poll(w, (int)nw_node_of(p));
		xrc_judge_broken(w, c);
	}
}

static void forget(struct nw_process *p, struct nw_end *e)
{
	conn_of(p, e)->qps[nw_node_of(p)] = NULL;
}

/* ---- Processes ------------------------------------------------------------------------------ */

static void begin(struct nw_process *p)
{
	struct xrc_world *x = &near_xrc_of(p)->xrc;
	int node = (int)nw_node_of(p);

	x->nodes[node] = &p->near->node;
	for (uint32_t i = 0; i < XRC_PROCESSES; i++)
		xrc_process_begin(x, node, &x->processes[node][i]);
}

/* One that is killed while its objects come or go leaves them in doubt: it is not. */
static void life(struct nw_process *p, struct xrc_process *of)
{
	struct xrc_world *x = &near_xrc_of(p)->xrc;
	int node = (int)nw_node_of(p);

	if (!xrc_process_is_over(x, of))
		return;
	if (of->srq)
		(void)xrc_judge_poll(p->world->judged, node);
	p->near->process.masks++;
	if (of->srq)
		xrc_process_end(p->world->judged, node, of);
	else
		xrc_process_begin(x, node, of);
	p->near->process.masks--;
}

static bool processes_work(struct nw_process *p)
{
	struct xrc_world *x = &near_xrc_of(p)->xrc;
	int node = (int)nw_node_of(p);
	bool has_more = false;

	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		struct xrc_process *of = &x->processes[node][i];

		if (of->srq)
			xrc_process_act(p->world->judged, node, of);
		life(p, of);
		has_more |= !of->srq || of->posted - of->received < XRC_RECEIVES;
	}
	return has_more;
}

static bool poll(struct nw_process *p)
{
	bool has_some = xrc_judge_poll(p->world->judged, (int)nw_node_of(p));

	for (uint32_t i = 0; i < XRC_CONNS; i++)
		count(p, i);
	return has_some;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Requests of this connection may have come, and not been seen; or they are not known to end. */
static void conn_lose(struct nw_process *p, struct xrc_conn *c)
{
	struct nw_pairs *w = nw_pairs_of(p);
	struct nw_end *e = end_of(p, c->index);

	if (e->phase == NW_DOWN)
		return;
	c->qps[nw_node_of(p)] = NULL;
	if (is_initiator(p, c)) {
		xrc_judge_lost(w->near.judged, c);
		w->pairs[c->index].ended[nw_node_of(p)] = c->ended;
		e->begun = e->ended = 0;
		return;
	}
	for (uint32_t i = c->settled; i < c->begun; i++)
		c->ops[i].is_untold = true;
	xrc_judge_broken(w->near.judged, c);
}

/* Another one may have its place by the time that its objects go. */
static void ended(struct nw_process *p)
{
	struct xrc_world *x = &near_xrc_of(p)->xrc;
	struct nxrc_process *own = p->state;
	uint32_t node = nw_node_of(p);

	if (own->has_left)
		return;
	own->has_left = true;
	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		own->left[i] = x->processes[node][i];
		x->processes[node][i].srq = NULL;
	}
	for (uint32_t i = 0; i < XRC_CONNS; i++)
		conn_lose(p, &x->conns[i]);
}

static void drop(struct nw_process *p)
{
	struct nxrc_process *own = p->state;
	uint32_t node = nw_node_of(p);

	if (own->has_dropped)
		return;
	own->has_dropped = true;
	if (!own->has_left)
		xrc_judge_node(p->world->judged, (int)node);
	ended(p);
	p->near->process.masks++;
	for (uint32_t i = 0; i < XRC_PROCESSES; i++) {
		if (own->left[i].srq && !xrc_process_drop(&p->near->node, &own->left[i]))
			roce_fail(p->world->judged, "node %u: process %u cannot end", node, i);
	}
	p->near->process.masks--;
}

static void judge_all(struct near_world *near)
{
	xrc_judge_conns(near->judged);
}

/* ---- The scenario --------------------------------------------------------------------------- */

static void conn_init(struct near_xrc *w, uint32_t i)
{
	struct xrc_conn *c = &w->xrc.conns[i];

	c->index = i;
	c->at = XRC_GAP + i * XRC_CONN_STEP;
	c->resets_left = prng_below(&w->xrc.prng, 2) ? 0 : RESETS;
	c->is_excused = &w->pairs.pairs[i].is_excused;
	w->pairs.pairs[i].ended[xrc_to(c)] = XRC_OPS; /* it has none */
}

static int xrc_open(struct roce_world *judged)
{
	static const struct nw_more more = { begin, processes_work, poll, ended, drop, judge_all };
	static const struct nw_service service = {
		.pairs = XRC_CONNS,
		.end_bytes = XRC_CONN_BYTES,
		.more_bytes = XRC_NODE_BYTES - (XRC_GAP + XRC_CONNS * XRC_CONN_STEP),
		.qps_max = QPS_MAX,
		.ops = XRC_OPS,
		.end = end_of,
		.draw = draw,
		.make = make,
		.work = work,
		.has_come = has_come,
		.judge = judge,
		.forget = forget,
		.more = &more,
	};
	struct near_xrc *w = judged->state;

	w->xrc.prng.state = prng_mix(~judged->seed);
	for (uint32_t i = 0; i < XRC_CONNS; i++)
		conn_init(w, i);
	for (uint32_t i = 0; i < 2 * XRC_PROCESSES; i++) {
		struct xrc_process *p = &w->xrc.processes[i % 2][i / 2];

		p->index = i / 2;
		p->at = XRC_AT_PROCESSES + p->index * XRC_PROCESS_STEP;
	}
	return nw_pairs_init(&w->pairs, judged, &service, sizeof(struct nxrc_process));
}

const struct roce_scenario roce_near_xrc = {
	.state_bytes = sizeof(struct near_xrc),
	.open = xrc_open,
	.step = near_world_step,
	.close = near_world_close,
	.clock = near_world_clock,
};
