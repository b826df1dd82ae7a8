/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable datagrams between queue pairs of three nodes of one host. The queue pairs of a node
 * share its contexts, one for each node, itself too. A context fails when its peer's process has
 * ended, and only if a process ended or broke a rule; then the requests on it end, and both ends
 * make another one. Those of other nodes go on. The rest is judged as on the network.
 */
#include "base/check.h"
#include "sim/roce/near_world.h"
#include "sim/roce/rd_world.h"
#include "wire/iba_psn.h"

_Static_assert((int)RD_NODES == (int)NEAR_NODES_MAX && (int)NW_INSTANCES <= (int)RD_LIVES,
	       "each node has actors, and each process is a life of theirs");

enum { QPS_MAX = 8 * 64 };

static const uint64_t tick_ns = 1000 * 1000;

/* So long the requests of a context may take to end, after it broke. */
static const uint64_t excuse_ns = UINT64_C(30) * 1000000000;

struct near_rd {
	struct rd_world rd;
	struct near_world near;
	struct ib_ee_config configs[RD_NODES][RD_NODES]; /* of the ways */
	uint64_t broken_ns[RD_NODES][RD_NODES];
};

enum end_phase {
	END_DOWN, /* until the other end is, too */
	END_MADE, /* takes requests, and waits for the number of the other end */
	END_UP
};

/* A node's end of a way: its context. */
struct end {
	enum end_phase phase;
	struct ib_ee *ee;
	uint32_t number; /* of the way by shared memory */
	bool is_hasty;	 /* it goes before its requests have ended */
	bool is_told;	 /* the peer was killed, and has had our ring: that ends them at once */
};

struct nrd_process {
	struct end ends[RD_NODES];
	struct rd_actor actors[RD_QPS]; /* as it left them */
	uint32_t word_tag;
	bool has_left, has_dropped;
};

static struct near_rd *near_rd_of(const struct nw_process *p)
{
	return CONTAINER_OF(p->world, struct near_rd, near);
}

/* NULL: the node has no process now, or one that is about to end. */
static struct end *end_at(struct near_rd *w, uint32_t at, uint32_t to)
{
	struct nw_process *p = w->near.nodes[at].now;
	struct nrd_process *own = p ? p->state : NULL;

	return own && !own->has_left ? &own->ends[to] : NULL;
}

static uint32_t low(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t high(uint32_t a, uint32_t b)
{
	return a < b ? b : a;
}

/* ---- The network ---------------------------------------------------------------------------- */

/* It may have failed. */
static struct ib_ee *ee_at(struct rd_world *rd, int at, int to)
{
	struct near_rd *w = CONTAINER_OF(rd, struct near_rd, rd);
	const struct end *e = end_at(w, (uint32_t)at, (uint32_t)to);

	return e && e->phase != END_DOWN ? e->ee : NULL;
}

static void attach(struct rd_world *rd, int node, struct weft_qp *qp, const struct ib_config *k)
{
	near_node_attach(CONTAINER_OF(rd->nodes[node], struct near_node, node), qp, k);
}

/* ---- Contexts ------------------------------------------------------------------------------- */

static void way_break(struct near_rd *w, uint32_t a, uint32_t b)
{
	struct rd_way *way = rd_way_of(&w->rd, (int)a, (int)b);

	if (!way->is_broken)
		w->broken_ns[low(a, b)][high(a, b)] = w->near.world.now_ns;
	way->is_broken = true;
}

static void ways_break(struct nw_process *p)
{
	for (uint32_t to = 0; to < RD_NODES; to++)
		way_break(near_rd_of(p), nw_node_of(p), to);
	nw_poke_all(p->world);
}

/* The process was killed, and those that send to it by shared memory hear of it. */
static void tell(struct nw_process *p)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t to = nw_node_of(p);

	for (uint32_t at = 0; at < RD_NODES; at++) {
		struct end *e = at == to ? NULL : end_at(w, at, to);

		if (e && e->phase == END_UP && !rd_way_of(&w->rd, (int)at, (int)to)->is_broken)
			e->is_told = near_is_taken(w->near.nodes[at].now->near->process.near,
						   e->number);
	}
}

static void end_make(struct nw_process *p, uint32_t to)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t at = nw_node_of(p);
	struct end *e = end_at(w, at, to);
	struct ib_ee_config k = w->configs[low(at, to)][high(at, to)];
	struct inet_end from[2] = { 0 }, there[2] = { 0 };

	ib_node_addresses((int)at, from);
	ib_node_addresses((int)to, there);
	k.path.from = from[k.path.is_ipv6];
	k.path.to = there[k.path.is_ipv6];
	k.path.flow_label = iba_flow_label(at + 1, to + 1);
	k.path.from.port = iba_udp_port(k.path.flow_label);
	k.path.hop_limit = 64;
	k.psn_send = iba_psn_add(k.psn_send, at);
	CHECK(ib_ee_create(p->near->ib.port, &k, &e->ee) == WEFT_OK);
	e->is_told = false;
	e->is_hasty = prng_below(&w->rd.prng, 4) == 0;
	e->phase = END_MADE;
	nw_poke_others(p);
}

static void end_connect(struct nw_process *p, uint32_t to)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t at = nw_node_of(p), psn = w->configs[low(at, to)][high(at, to)].psn_send;
	struct end *e = end_at(w, at, to);
	uint32_t peer = ib_ee_number(end_at(w, to, at)->ee);

	e->phase = END_UP;
	e->number = near_node_reach(p->near, to);
	ib_ee_set_source(e->ee, iba_udp_port(iba_flow_label(at + 1, to + 1)), e->number);
	CHECK(ib_ee_connect(e->ee, peer, iba_psn_add(psn, to)) == WEFT_OK);
	ib_node_work(&p->near->ib);
	nw_poke_others(p);
}

/* Receives name the context by which they came: they are judged before it goes. */
static void end_drop(struct nw_process *p, uint32_t to)
{
	struct end *e = end_at(near_rd_of(p), nw_node_of(p), to);

	(void)rd_judge_poll(p->world->judged, (int)nw_node_of(p));
	p->near->process.masks++;
	ib_ee_destroy(e->ee);
	e->ee = NULL;
	e->phase = END_DOWN;
	p->near->process.masks--;
	ib_node_work(&p->near->ib);
	nw_poke_others(p);
}

/* Requests of this node on the context: those behind others in their queues are not. */
static bool is_used(struct nw_process *p, uint32_t to)
{
	struct rd_world *rd = &near_rd_of(p)->rd;

	for (uint32_t i = 0; i < RD_QPS; i++) {
		const struct rd_actor *a = &rd->actors[nw_node_of(p) * RD_QPS + i];
		const struct rd_op *op = &a->ops[a->ended % RD_DEPTH];

		if (a->begun > a->ended && rd_node_of(op->to) == (int)to)
			return true;
	}
	return false;
}

static bool work_down(struct nw_process *p, uint32_t to)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t at = nw_node_of(p);
	struct rd_way *way = rd_way_of(&w->rd, (int)at, (int)to);
	const struct end *other = end_at(w, to, at);

	if (!other)
		return false;
	if (other->phase == END_DOWN) {
		way->generation++;
		way->is_broken = false;
		w->configs[low(at, to)][high(at, to)] = rd_draw_ee(&w->rd.prng);
	} else if (other->phase != END_MADE || way->is_broken) {
		return false;
	}
	end_make(p, to);
	return true;
}

static bool work_broken(struct nw_process *p, uint32_t to)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t at = nw_node_of(p);
	const struct end *e = end_at(w, at, to);
	uint64_t since_ns = w->near.world.now_ns - w->broken_ns[low(at, to)][high(at, to)];

	if (since_ns > (e->is_told ? NEAR_GIVE_UP_NS : excuse_ns))
		roce_fail(w->near.judged, "node %u: requests on a context that broke do not end",
			  at);
	if (e->phase == END_UP && !e->is_hasty && is_used(p, to))
		return false;
	end_drop(p, to);
	return true;
}

static bool end_work(struct nw_process *p, uint32_t to)
{
	struct near_rd *w = near_rd_of(p);
	uint32_t at = nw_node_of(p);
	const struct end *e = end_at(w, at, to), *other = end_at(w, to, at);

	if (e->phase == END_DOWN)
		return work_down(p, to);
	if (rd_way_of(&w->rd, (int)at, (int)to)->is_broken)
		return work_broken(p, to);
	if (e->phase == END_UP || !other || other->phase == END_DOWN)
		return false;
	end_connect(p, to);
	return true;
}

static void take_failures(struct nw_process *p)
{
	struct near_rd *w = near_rd_of(p);
	const struct nrd_process *own = p->state;
	const struct ib_ee *ee;

	while ((ee = ib_port_ee_event(p->near->ib.port)) != NULL) {
		for (uint32_t to = 0; to < RD_NODES; to++) {
			if (own->ends[to].ee == ee &&
			    !rd_way_of(&w->rd, (int)nw_node_of(p), (int)to)->is_broken)
				roce_fail(w->near.judged,
					  "node %u: its context for node %u failed: %s",
					  nw_node_of(p), to, weft_reason_name(ib_ee_why(ee)));
		}
	}
}

/* ---- The program ---------------------------------------------------------------------------- */

static void begin(struct nw_process *p)
{
	struct near_rd *w = near_rd_of(p);
	struct nrd_process *own = p->state;
	int node = (int)nw_node_of(p);

	w->rd.nodes[node] = &p->near->node;
	rd_word_begin(&w->rd, node);
	rd_actors_begin(&w->rd, node);
	own->word_tag = w->rd.word_tags[node];
}

static bool wants_more(const struct rd_actor *a)
{
	return (a->begun < RD_OPS && a->begun - a->ended < RD_DEPTH && !a->is_stopped) ||
	       a->posted - a->received < RD_RECEIVES;
}

static bool work(struct nw_process *p)
{
	struct near_rd *w = near_rd_of(p);
	bool has_more = false;

	take_failures(p);
	for (uint32_t to = 0; to < RD_NODES; to++)
		has_more |= end_work(p, to);
	for (uint32_t i = 0; i < RD_QPS; i++) {
		struct rd_actor *a = &w->rd.actors[nw_node_of(p) * RD_QPS + i];

		rd_actor_act(p->world->judged, a);
		has_more |= wants_more(a);
	}
	return has_more;
}

static bool poll(struct nw_process *p)
{
	return rd_judge_poll(p->world->judged, (int)nw_node_of(p));
}

static uint64_t due(const struct nw_process *p)
{
	return p->world->world.now_ns + tick_ns;
}

static bool is_finished(const struct nw_process *p)
{
	const struct near_rd *w = near_rd_of(p);

	for (uint32_t i = 0; i < RD_ACTORS; i++) {
		const struct nw_node *n = &w->near.nodes[rd_node_of(i)];

		if (!n->is_gone && (!n->now || !rd_is_done(&w->rd.actors[i])))
			return false;
	}
	return true;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* Another process may have the actors by the time that its objects go. */
static void ended(struct nw_process *p)
{
	struct near_rd *w = near_rd_of(p);
	struct nrd_process *own = p->state;
	uint32_t node = nw_node_of(p);

	if (own->has_left)
		return;
	own->has_left = true;
	for (uint32_t i = 0; i < RD_QPS; i++)
		own->actors[i] = w->rd.actors[node * RD_QPS + i];
	rd_judge_lost(&w->rd, (int)node);
	if (p->near->process.is_dead)
		tell(p);
	ways_break(p);
}

static void objects_drop(struct nw_process *p)
{
	struct nrd_process *own = p->state;
	struct roce_node *n = &p->near->node;

	for (uint32_t i = 0; i < RD_QPS; i++)
		roce_node_drop(n, own->actors[i].qp, own->actors[i].tag);
	for (uint32_t to = 0; to < RD_NODES; to++) {
		if (own->ends[to].ee)
			ib_ee_destroy(own->ends[to].ee);
		own->ends[to] = (struct end){ .phase = END_DOWN };
	}
	roce_node_drop(n, NULL, own->word_tag);
}

static void drop(struct nw_process *p)
{
	struct nrd_process *own = p->state;

	if (own->has_dropped)
		return;
	own->has_dropped = true;
	p->near->process.masks++;
	if (p->is_finished) {
		(void)rd_judge_poll(p->world->judged, (int)nw_node_of(p));
		rd_judge_node(p->world->judged, (int)nw_node_of(p));
	}
	ended(p);
	objects_drop(p);
	p->near->process.masks--;
}

/* ---- The scenario --------------------------------------------------------------------------- */

static int rd_open(struct roce_world *judged)
{
	static const struct rd_net net = { ee_at, attach };
	static const struct near_program program = {
		.nodes = RD_NODES,
		.memory_bytes = RD_NODE_BYTES,
		.process_bytes = sizeof(struct nrd_process),
		.qps_max = QPS_MAX,
		.begin = begin,
		.work = work,
		.poll = poll,
		.due = due,
		.is_finished = is_finished,
		.drop = drop,
		.ended = ended,
		.broke = ways_break,
	};
	struct near_rd *w = judged->state;

	w->rd.net = &net;
	w->rd.prng.state = prng_mix(~judged->seed);
	w->rd.resets_left = prng_below(&w->rd.prng, 2) ? 0 : 4;
	return near_world_open(&w->near, judged, &program);
}

const struct roce_scenario roce_near_rd = {
	.state_bytes = sizeof(struct near_rd),
	.open = rd_open,
	.step = near_world_step,
	.close = near_world_close,
	.clock = near_world_clock,
};
