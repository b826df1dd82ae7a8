/* SPDX-License-Identifier: BSD-2-Clause */
#include "sim/roce/near_pairs.h"

#include "base/check.h"

/* So long the requests of a connection may take to end, after it broke. */
static const uint64_t excuse_ns = UINT64_C(30) * 1000000000;

static struct nw_end *end_of(const struct nw_process *p, uint32_t pair)
{
	return nw_pairs_of(p)->service->end((struct nw_process *)(uintptr_t)p, pair);
}

static struct nw_end *other_end(const struct nw_process *p, uint32_t pair)
{
	const struct nw_process *other = nw_other(p);

	return other ? end_of(other, pair) : NULL;
}

void nw_pair_excuse(struct nw_pairs *w, struct nw_pair *pair)
{
	if (!pair->is_excused)
		pair->excused_ns = w->near.world.now_ns;
	pair->is_excused = true;
}

void nw_excuse(struct nw_pairs *w, struct nw_pair *pair)
{
	nw_pair_excuse(w, pair);
	pair->is_ending = true;
	nw_poke_all(&w->near);
}

static void excuse_all(struct nw_process *p)
{
	struct nw_pairs *w = nw_pairs_of(p);

	for (uint32_t i = 0; i < w->service->pairs; i++)
		nw_excuse(w, &w->pairs[i]);
}

/* The process was killed, and the other hears of it if it sends to it by shared memory. */
static void pairs_tell(struct nw_process *p)
{
	struct nw_pairs *w = nw_pairs_of(p);

	for (uint32_t i = 0; i < w->service->pairs; i++) {
		const struct nw_end *other = other_end(p, i);

		w->pairs[i].is_told = other && other->phase == NW_UP && !w->pairs[i].is_excused &&
				      near_is_taken(nw_other(p)->near->process.near,
						    other->near_number);
	}
}

static void pairs_ended(struct nw_process *p)
{
	const struct nw_more *more = nw_pairs_of(p)->service->more;

	if (more)
		more->ended(p);
	if (p->near->process.is_dead)
		pairs_tell(p);
	excuse_all(p);
}

/* ---- Connections ---------------------------------------------------------------------------- */

static void end_make(struct nw_process *p, uint32_t pair)
{
	const struct nw_service *s = nw_pairs_of(p)->service;
	struct nw_end *e = end_of(p, pair);

	e->at = NW_GAP + pair * (s->end_bytes + NW_GAP);
	s->make(p, e);
	e->qp_number = e->qp->number;
	e->is_open = true;
	e->phase = NW_MADE;
	nw_poke_others(p);
}

static void end_connect(struct nw_process *p, uint32_t pair, const struct nw_end *other)
{
	struct nw_end *e = end_of(p, pair);
	const struct ib_wire_options *o = &nw_pairs_of(p)->pairs[pair].wire;
	int i = (int)nw_node_of(p);
	struct ib_config k = ib_wire_config(o, i, other->qp_number);
	struct inet_end at[2][2] = { 0 };

	for (int n = 0; n < 2; n++)
		ib_node_addresses(n, at[n]);
	k.path.from = at[i][o->is_ipv6];
	k.path.to = at[!i][o->is_ipv6];
	k.path.flow_label = iba_flow_label(e->qp->number, k.peer_qp);
	k.path.from.port = iba_udp_port(k.path.flow_label);
	e->peer = nw_other(p)->near;
	e->phase = NW_UP;
	near_node_connect(p->near, e->qp, &k, (uint32_t)!i);
	e->near_number = k.path.near_number;
	nw_poke_others(p);
}

static void end_drop(struct nw_process *p, uint32_t pair)
{
	struct nw_end *e = end_of(p, pair);
	struct roce_node *node = &p->near->node;

	if (e->phase == NW_DOWN)
		return;
	p->near->process.masks++;
	if (nw_pairs_of(p)->service->forget)
		nw_pairs_of(p)->service->forget(p, e);
	qp_destroy(e->qp);
	ib_node_work(&p->near->ib);
	if (e->tag)
		CHECK(mem_region_deregister(&node->adapter.mem, node->pd->number, e->tag) ==
		      WEFT_OK);
	e->is_open = false;
	p->near->process.masks--;
	nw_pairs_of(p)->pairs[pair].ended[nw_node_of(p)] += e->ended;
	e->phase = NW_DOWN;
	nw_poke_others(p);
}

/* ---- Turns ---------------------------------------------------------------------------------- */

static bool has_ended(const struct nw_pairs *w, const struct nw_pair *pair)
{
	return (pair->ended[0] >= w->service->ops && pair->ended[1] >= w->service->ops) ||
	       roce_has_failed(w->near.judged);
}

static bool work_down(struct nw_process *p, uint32_t i)
{
	struct nw_pairs *w = nw_pairs_of(p);
	struct nw_pair *pair = &w->pairs[i];
	const struct nw_end *other = other_end(p, i);

	if (pair->is_done || !other)
		return false;
	if (other->phase == NW_DOWN && has_ended(w, pair)) {
		pair->is_done = true;
		nw_poke_others(p);
		return true;
	}
	if (other->phase == NW_DOWN) {
		pair->generation++;
		pair->is_ending = pair->is_excused = pair->is_told = false;
		w->service->draw(&w->near.prng, &pair->wire);
	} else if (other->phase != NW_MADE || pair->is_excused) {
		return false;
	}
	end_make(p, i);
	return true;
}

static bool work_made(struct nw_process *p, uint32_t i)
{
	const struct nw_end *other = other_end(p, i);

	if (nw_pairs_of(p)->pairs[i].is_excused)
		end_drop(p, i);
	else if (other && other->phase != NW_DOWN)
		end_connect(p, i, other);
	else
		return false;
	return true;
}

/* Its requests have all ended, or cannot: the connection ends. True: it has. */
static bool end_if_over(struct nw_process *p, uint32_t i)
{
	struct nw_pairs *w = nw_pairs_of(p);
	struct nw_end *e = end_of(p, i), *other = other_end(p, i);
	struct nw_pair *pair = &w->pairs[i];

	if (pair->is_excused &&
	    w->near.world.now_ns - pair->excused_ns > (pair->is_told ? NEAR_GIVE_UP_NS : excuse_ns))
		roce_fail(w->near.judged, "node %u: requests of a connection that broke do not end",
			  nw_node_of(p));
	if (!pair->is_ending || nw_in_flight(e) > 0)
		return false;
	if (pair->is_excused)
		other = NULL;
	if (other && (other->phase == NW_MADE || nw_in_flight(other) > 0 ||
		      !w->service->has_come(p, e, other)))
		return false;
	w->service->judge(p, e, other);
	end_drop(p, i);
	return true;
}

static bool end_work(struct nw_process *p, uint32_t i)
{
	struct nw_end *e = end_of(p, i);

	switch (e->phase) {
	case NW_DOWN:
		return work_down(p, i);
	case NW_MADE:
		return work_made(p, i);
	default:
		return end_if_over(p, i) || nw_pairs_of(p)->service->work(p, e, i);
	}
}

/* ---- The program ---------------------------------------------------------------------------- */

static const struct nw_more *more_of(const struct nw_process *p)
{
	return nw_pairs_of(p)->service->more;
}

static void pairs_begin(struct nw_process *p)
{
	if (more_of(p))
		more_of(p)->begin(p);
}

static bool pairs_work(struct nw_process *p)
{
	bool has_more = more_of(p) && more_of(p)->work(p);

	for (uint32_t i = 0; i < nw_pairs_of(p)->service->pairs; i++)
		has_more |= end_work(p, i);
	return has_more;
}

/* NULL: of a queue pair that has gone. */
static struct nw_end *end_by_number(struct nw_process *p, uint32_t number)
{
	for (uint32_t i = 0; i < nw_pairs_of(p)->service->pairs; i++) {
		struct nw_end *e = end_of(p, i);

		if (e->phase != NW_DOWN && e->qp_number == number)
			return e;
	}
	return NULL;
}

static bool pairs_poll(struct nw_process *p)
{
	const struct nw_service *s = nw_pairs_of(p)->service;
	const struct roce_node *node = &p->near->node;
	struct weft_completion c;
	bool has_some = false;
	struct nw_end *e;

	if (s->more)
		return s->more->poll(p);
	while (roce_node_next(p->world->judged, node->send_cq, &c)) {
		has_some = true;
		e = end_by_number(p, c.qp_number);
		if (e)
			s->sent(p, e, &c);
	}
	while (roce_node_next(p->world->judged, node->recv_cq, &c)) {
		has_some = true;
		e = end_by_number(p, c.qp_number);
		if (e)
			s->came(p, e, &c);
	}
	return has_some;
}

static uint64_t pairs_due(const struct nw_process *p)
{
	const struct nw_pairs *w = nw_pairs_of(p);
	uint64_t due_ns = UINT64_MAX;

	for (uint32_t i = 0; i < w->service->pairs; i++) {
		if (w->service->tick_ns > 0 && w->pairs[i].is_ending)
			due_ns = w->near.world.now_ns + w->service->tick_ns;
	}
	return due_ns;
}

static bool pairs_is_finished(const struct nw_process *p)
{
	const struct nw_pairs *w = nw_pairs_of(p);

	for (uint32_t i = 0; i < w->service->pairs; i++) {
		if (end_of(p, i)->phase != NW_DOWN ||
		    (!w->pairs[i].is_done && !w->near.nodes[!nw_node_of(p)].is_gone))
			return false;
	}
	return true;
}

static void pairs_drop(struct nw_process *p)
{
	for (uint32_t i = 0; i < nw_pairs_of(p)->service->pairs; i++)
		end_drop(p, i);
	if (more_of(p))
		more_of(p)->drop(p);
}

static bool pairs_is_open(const struct nw_process *p, uint64_t at, uint64_t bytes)
{
	const struct nw_service *s = nw_pairs_of(p)->service;

	for (uint32_t i = 0; i < s->pairs; i++) {
		const struct nw_end *e = end_of(p, i);

		if (at >= e->at && at + bytes <= e->at + s->end_bytes && e->is_open)
			return true;
	}
	return false;
}

/* Each connection was judged when it ended. */
static void pairs_judge(struct near_world *w)
{
	const struct nw_pairs *pairs = CONTAINER_OF(w, struct nw_pairs, near);

	if (pairs->service->more)
		pairs->service->more->judge(w);
}

/* ---- The scenario --------------------------------------------------------------------------- */

int nw_pairs_init(struct nw_pairs *pairs, struct roce_world *w, const struct nw_service *service,
		  size_t process_bytes)
{
	pairs->service = service;
	pairs->program = (struct near_program){
		.nodes = 2,
		.memory_bytes = NW_GAP + service->pairs * (service->end_bytes + NW_GAP) +
				service->more_bytes,
		.process_bytes = process_bytes,
		.qps_max = service->qps_max,
		.begin = pairs_begin,
		.work = pairs_work,
		.poll = pairs_poll,
		.due = pairs_due,
		.is_finished = pairs_is_finished,
		.drop = pairs_drop,
		.ended = pairs_ended,
		.broke = excuse_all,
		.is_open = pairs_is_open,
		.judge = pairs_judge,
	};
	return near_world_open(&pairs->near, w, &pairs->program);
}

int nw_pairs_open(struct roce_world *w, const struct nw_service *service, size_t process_bytes)
{
	return nw_pairs_init(w->state, w, service, process_bytes);
}
