/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two agents of InfiniBand's CM and their consumers on a network that loses, duplicates and delays
 * messages. Consumers connect, accept, reject, disconnect and forget as they like; in some worlds
 * an agent crashes, and another takes its place.
 *
 * Then all is left alone until nothing moves, and the judge looks (cm_judge.c). Then all
 * disconnect, and it looks again.
 */
#include "sim/roce/cm_world.h"

#include <string.h>

#include "base/check.h"
#include "sim/world/sim_trace.h"

enum {
	SERVICE_PORT = 7471,
	REQUESTS_MAX = 24,
	MS = 1000000,
	ROUNDS_MAX = 200000,
	PRIVATE_BYTES = 4 /* the number of a queue pair */
};

static const uint64_t S = 1000 * (uint64_t)MS;

static uint32_t below(struct cm_world *w, uint32_t n)
{
	return prng_below(&w->world.prng, n);
}

static struct ibcm_ip ip_between(int from, int to)
{
	struct ibcm_ip ip = { .is_ipv6 = false };

	memcpy(ip.from.address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + from) }, 4);
	memcpy(ip.to.address, (uint8_t[]){ 10, 0, 0, (uint8_t)(1 + to) }, 4);
	return ip;
}

static struct ib_cm *agent_new(struct cm_world *w, int side)
{
	struct ib_cm_config config = {
		.ca_guid = 0x100 + (uint64_t)side,
		.cm_ids_max = CM_LEGS_MAX,
		.trace = &w->world.trace,
	};

	config.adapter_slot = (uint8_t)(1 + below(w, 254));
	config.key[0] = prng_next(&w->world.prng);
	config.key[1] = prng_next(&w->world.prng);
	config.response_code = (uint8_t)(14 + below(w, 8));
	config.first_retry_ns = (1 + below(w, 200)) * (uint64_t)MS;
	config.mra_code = (uint8_t)(20 + below(w, 5));
	return ib_cm_create(&config);
}

static struct cm_leg *leg_of(struct cm_side *s, uint32_t id)
{
	for (uint32_t i = s->leg_count; i-- > 0;) {
		if (s->legs[i].id == id)
			return &s->legs[i];
	}
	return NULL;
}

static struct cm_leg *leg_new(struct cm_side *s, uint32_t id)
{
	struct cm_leg *l = &s->legs[s->leg_count++];

	CHECK(s->leg_count <= CM_LEGS_MAX);
	*l = (struct cm_leg){ .id = id, .decide_ns = UINT64_MAX };
	return l;
}

static uint64_t later(struct cm_world *w)
{
	switch (below(w, 4)) {
	case 0:
		return w->world.now_ns;
	case 1:
		return w->world.now_ns + below(w, 500) * (uint64_t)MS;
	case 2:
		return w->world.now_ns + below(w, 10000) * (uint64_t)MS;
	default:
		return w->world.now_ns + below(w, 300) * S;
	}
}

/* ---- The network ---------------------------------------------------------------------------- */

static void flight_trace(struct cm_world *w, uint16_t kind, int from, int to, uint64_t b)
{
	trace_add(&w->world.trace, (struct trace_event){ .kind = kind,
							 .who = (uint32_t)(from * CM_SIDES + to),
							 .a = MAD_BYTES,
							 .b = b });
}

static void flight_add(struct cm_world *w, int from, int to, const uint8_t *bytes)
{
	uint64_t delay = below(w, 20 * MS);
	struct cm_flight *f = w->flights;

	w->roce->packets.sent++;
	if (prng_chance(&w->world.prng, w->loss)) {
		w->roce->packets.lost++;
		flight_trace(w, SIM_TRACE_LOST, from, to, 0);
		return;
	}
	if (prng_chance(&w->world.prng, w->slow)) {
		delay = below(w, 20000) * (uint64_t)MS;
		w->roce->packets.reordered++;
		flight_trace(w, SIM_TRACE_REORDERED, from, to, delay);
	}
	while (f->is_used)
		CHECK(++f < w->flights + CM_FLIGHTS_MAX);
	*f = (struct cm_flight){
		.at_ns = w->world.now_ns + delay,
		.to = (uint8_t)to,
		.from = (uint8_t)from,
		.is_used = true,
	};
	memcpy(f->bytes, bytes, MAD_BYTES);
}

static void side_send(struct cm_world *w, int from)
{
	struct ib_cm_out out;

	while (ib_cm_send(w->sides[from].cm, w->world.now_ns, &out)) {
		int to = out.ip.to.address[3] - 1;

		if (!cm_must(w, to >= 0 && to < CM_SIDES && out.ip.from.address[3] == from + 1,
			     "a message has an address that no agent has"))
			return;
		flight_add(w, from, to, out.bytes);
		if (prng_chance(&w->world.prng, w->doubling)) {
			w->roce->packets.duplicated++;
			flight_trace(w, SIM_TRACE_DUPLICATED, from, to, 0);
			flight_add(w, from, to, out.bytes);
		}
	}
}

static void flight_land(struct cm_world *w, struct cm_flight *f)
{
	struct ibcm_ip ip = ip_between(f->from, f->to);

	f->is_used = false;
	w->roce->packets.delivered++;
	flight_trace(w, SIM_TRACE_DELIVERED, f->from, f->to, 0);
	(void)ib_cm_recv(w->sides[f->to].cm, w->world.now_ns, &ip, f->bytes, MAD_BYTES);
}

/* ---- Consumers ------------------------------------------------------------------------------ */

static struct ibcm_bytes private_of(uint32_t *number)
{
	return (struct ibcm_bytes){ (const uint8_t *)number, PRIVATE_BYTES };
}

/* The number in the private data; 0: there is none. */
static uint32_t number_in(const struct ib_cm_event *e)
{
	uint32_t number = 0;

	if (e->private_bytes >= PRIVATE_BYTES)
		memcpy(&number, e->private_data, PRIVATE_BYTES);
	return number;
}

static void begin_connect(struct cm_world *w, int from, int to)
{
	struct cm_side *s = &w->sides[from];
	uint32_t qpn = w->qpn_next++, id;
	struct ib_cm_connect c = {
		.ip = ip_between(from, to),
		.service_id = ibcm_service_id(IBCM_PS_TCP, SERVICE_PORT),
		.end = { .qpn = qpn, .reads_in = 1, .reads_out = 1 },
		.mtu_bytes = 1024,
		.private_data = private_of(&qpn),
		.owner = s,
	};
	struct cm_leg *l;

	c.end.psn = below(w, 1 << 24);
	c.ack_code = (uint8_t)(14 + below(w, 8));
	c.timeout_ns = below(w, 3) ? 0 : below(w, 60) * S + 1;
	if (!cm_must(w, ib_cm_connect(s->cm, w->world.now_ns, &c, &id) == WEFT_OK,
		     "the agent does not take a request to connect"))
		return;
	l = leg_of(s, id);
	cm_must(w, !l || l->is_released || l->is_left, "an id is given twice");
	l = leg_new(s, id);
	l->is_active = true;
	l->qpn = qpn;
	/* It may lose patience. */
	if (below(w, 8) == 0)
		l->decide_ns = later(w);
}

static void begin_resolve(struct cm_world *w, int from, int to)
{
	struct cm_side *s = &w->sides[from];
	uint32_t number = w->qpn_next++, id;
	struct ib_cm_resolve r = {
		.ip = ip_between(from, to),
		.service_id = ibcm_service_id(IBCM_PS_UDP, SERVICE_PORT),
		.private_data = private_of(&number),
		.owner = s,
	};
	struct cm_leg *l;

	if (!cm_must(w, ib_cm_resolve(s->cm, w->world.now_ns, &r, &id) == WEFT_OK,
		     "the agent does not take a request to resolve"))
		return;
	l = leg_new(s, id);
	l->is_active = true;
	l->is_sidr = true;
	l->qpn = number;
	if (below(w, 8) == 0)
		l->decide_ns = later(w);
}

static void leg_forget(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	ib_cm_forget(s->cm, w->world.now_ns, l->id);
	l->is_left = true;
}

/* ---- What a consumer can do in the state that the agent is in -------------------------------- */

static void leg_reject(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	static const struct ib_cm_reject no = { .code = IBCM_REJECT_CONSUMER };

	cm_must(w, ib_cm_reject(s->cm, w->world.now_ns, l->id, &no) == WEFT_OK,
		"what waits for an answer cannot be rejected");
	l->is_left = true;
}

static void decide_request(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	struct ib_cm_accept a = { .end = { .qpn = w->qpn_next++, .psn = 5 }, .owner = s };

	if (below(w, 5) == 0) {
		leg_reject(w, s, l);
		return;
	}
	l->qpn = a.end.qpn;
	a.private_data = private_of(&l->qpn);
	cm_must(w, ib_cm_accept(s->cm, w->world.now_ns, l->id, &a) == WEFT_OK,
		"a request that waits for an answer cannot be accepted");
	if (below(w, 3) == 0)
		l->decide_ns = later(w);
}

static void decide_reply(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	if (below(w, 6) == 0) {
		leg_reject(w, s, l);
		return;
	}
	cm_must(w, ib_cm_ready(s->cm, w->world.now_ns, l->id, private_of(&l->qpn)) == WEFT_OK,
		"a reply cannot be taken");
	l->is_established = true;
	if (below(w, 2) == 0)
		l->decide_ns = later(w);
}

static void decide_sidr(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	const struct ib_cm_answer a = { .qpn = l->peer_qpn, .q_key = IBCM_QKEY_UDP };

	cm_must(w, ib_cm_answer(s->cm, w->world.now_ns, l->id, &a) == WEFT_OK,
		"a request to resolve cannot be answered");
	l->is_left = true;
}

static void decide_end(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	if (below(w, 3) == 0)
		leg_forget(w, s, l);
	else
		(void)ib_cm_disconnect(s->cm, w->world.now_ns, l->id, private_of(&l->qpn));
}

static void leg_decide(struct cm_world *w, struct cm_side *s, struct cm_leg *l)
{
	l->decide_ns = UINT64_MAX;
	if (l->is_left || l->is_released)
		return;
	if (below(w, 10) == 0) {
		leg_forget(w, s, l);
		return;
	}
	switch (ib_cm_state(s->cm, l->id)) {
	case IB_CM_REQ_RCVD:
	case IB_CM_MRA_REQ_SENT:
		decide_request(w, s, l);
		break;
	case IB_CM_REP_RCVD:
	case IB_CM_MRA_REP_SENT:
		decide_reply(w, s, l);
		break;
	case IB_CM_SIDR_RCVD:
		decide_sidr(w, s, l);
		break;
	case IB_CM_REP_SENT:
	case IB_CM_MRA_REP_RCVD:
	case IB_CM_CONNECTED:
		decide_end(w, s, l);
		break;
	default:
		break;
	}
}

/* ---- Events --------------------------------------------------------------------------------- */

static void event_begin(struct cm_world *w, struct cm_side *s, const struct ib_cm_event *e)
{
	struct cm_leg *l = leg_new(s, e->id);

	l->is_sidr = e->kind == IB_CM_SIDR_REQUESTED;
	l->peer_qpn = number_in(e);
	cm_must(w, l->is_sidr || l->peer_qpn == e->peer.qpn,
		"a request has another's private data");
	cm_must(w, e->ip.from.port == SERVICE_PORT && e->has_ip_header,
		"a request came to another service");
	l->decide_ns = l->is_sidr ? w->world.now_ns + below(w, 3000) * (uint64_t)MS : later(w);
}

static void event_of_leg(struct cm_world *w, struct cm_side *s, struct cm_leg *l,
			 const struct ib_cm_event *e)
{
	switch (e->kind) {
	case IB_CM_REPLIED:
		cm_must(w, l->is_active && !l->is_ended && number_in(e) == e->peer.qpn,
			"a reply came that was not due");
		l->peer_qpn = e->peer.qpn;
		l->decide_ns = later(w);
		break;
	case IB_CM_ESTABLISHED:
		cm_must(w, !l->is_active && !l->is_established && !l->is_ended,
			"one was established that could not be");
		l->is_established = true;
		if (below(w, 2) == 0)
			l->decide_ns = later(w);
		break;
	case IB_CM_DISCONNECTED:
		if (e->is_by_peer && below(w, 2))
			(void)ib_cm_disconnect(s->cm, w->world.now_ns, l->id, private_of(&l->qpn));
		cm_judge_ended(w, l, e);
		break;
	case IB_CM_RELEASED:
		cm_must(w, l->is_ended, "one was released before it ended");
		l->is_released = true;
		break;
	default:
		cm_judge_ended(w, l, e);
		break;
	}
}

static void side_events(struct cm_world *w, struct cm_side *s)
{
	struct ib_cm_event e;

	while (ib_cm_event(s->cm, &e)) {
		struct cm_leg *l = leg_of(s, e.id);

		if (e.kind == IB_CM_REQUESTED || e.kind == IB_CM_SIDR_REQUESTED)
			event_begin(w, s, &e);
		else if (cm_must(w,
				 l && !l->is_left && !l->is_released &&
					 (!l->is_active || e.owner == s),
				 "an event came for what its consumer had left"))
			event_of_leg(w, s, l, &e);
	}
}

/* ---- Time ----------------------------------------------------------------------------------- */

static uint64_t next_time(const struct cm_world *w)
{
	uint64_t at = UINT64_MAX;

	for (int i = 0; i < CM_FLIGHTS_MAX; i++) {
		if (w->flights[i].is_used && w->flights[i].at_ns < at)
			at = w->flights[i].at_ns;
	}
	for (int k = 0; k < CM_SIDES; k++) {
		const struct cm_side *s = &w->sides[k];
		uint64_t due = ib_cm_due(s->cm);

		at = due < at ? due : at;
		for (uint32_t i = 0; i < s->leg_count; i++)
			at = s->legs[i].decide_ns < at ? s->legs[i].decide_ns : at;
	}
	return at;
}

static void side_turn(struct cm_world *w, int k)
{
	struct cm_side *s = &w->sides[k];

	ib_cm_expire(s->cm, w->world.now_ns);
	side_events(w, s);
	for (uint32_t i = 0; i < s->leg_count; i++) {
		if (s->legs[i].decide_ns <= w->world.now_ns)
			leg_decide(w, s, &s->legs[i]);
	}
	side_events(w, s);
	side_send(w, k);
	cm_must(w, !ib_cm_has_output(s->cm), "an agent has something to send and does not");
	cm_must(w, ib_cm_due(s->cm) > w->world.now_ns, "a deadline stays where it is");
}

static void turn(struct cm_world *w)
{
	for (int i = 0; i < CM_FLIGHTS_MAX; i++) {
		struct cm_flight *f = &w->flights[i];

		if (f->is_used && f->at_ns <= w->world.now_ns) {
			flight_land(w, f);
			if (below(w, 2))
				side_events(w, &w->sides[f->to]);
		}
	}
	for (int k = 0; k < CM_SIDES; k++)
		side_turn(w, k);
}

static void now_set(struct cm_world *w, uint64_t now_ns)
{
	w->world.now_ns = w->world.trace.now_ns = now_ns;
}

/* False: nothing moves any more, or nothing by the time that was given. */
static bool time_pass(struct cm_world *w)
{
	uint64_t at = next_time(w);

	if (at > w->until_ns || at == UINT64_MAX)
		return false;
	if (at > w->world.now_ns)
		now_set(w, at);
	turn(w);
	cm_must(w, w->rounds++ < ROUNDS_MAX, "it does not come to rest");
	return true;
}

/* ---- The world ------------------------------------------------------------------------------ */

static void crash(struct cm_world *w, int k)
{
	struct cm_side *s = &w->sides[k];

	ib_cm_destroy(s->cm);
	s->cm = agent_new(w, k);
	CHECK(s->cm);
	s->leg_count = 0;
	w->had_crash = true;
}

static void ask(struct cm_world *w)
{
	int from = (int)below(w, CM_SIDES), to = (int)below(w, CM_SIDES);

	if (below(w, 5) == 0)
		begin_resolve(w, from, to);
	else
		begin_connect(w, from, to);
	side_send(w, from);
	if (w->asked++ == w->crash_at)
		crash(w, (int)below(w, CM_SIDES));
	w->until_ns = w->world.now_ns + below(w, 20000) * (uint64_t)MS;
}

/* Consumers of connected ends disconnect, or forget, soon; of two ends one at least. */
static void part(struct cm_world *w)
{
	for (int k = 0; k < CM_SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			struct cm_leg *l = &w->sides[k].legs[i];

			if (cm_is_connected(&w->sides[k], l) && (below(w, 2) || k == 0))
				l->decide_ns = w->world.now_ns + below(w, 100) * (uint64_t)MS;
		}
	}
}

/* Of ends whose peer crashed no peer would disconnect. */
static void forget_rest(struct cm_world *w)
{
	for (int k = 0; k < CM_SIDES; k++) {
		for (uint32_t i = 0; i < w->sides[k].leg_count; i++) {
			struct cm_leg *l = &w->sides[k].legs[i];

			if (cm_is_connected(&w->sides[k], l))
				leg_forget(w, &w->sides[k], l);
		}
		side_send(w, k);
	}
}

/* The time that was given has passed. False: the world is over. */
static bool phase_move(struct cm_world *w)
{
	w->rounds = 0;
	if (w->phase == CM_ASKING && w->asked < w->requests) {
		ask(w);
		return true;
	}
	w->until_ns = UINT64_MAX;
	switch (w->phase) {
	case CM_ASKING:
		w->phase = CM_RESTING;
		return true;
	case CM_RESTING:
		cm_judge_agreement(w);
		part(w);
		w->phase = CM_PARTING;
		return true;
	case CM_PARTING:
		forget_rest(w);
		w->phase = CM_ENDING;
		return true;
	default:
		cm_judge_end(w);
		return false;
	}
}

static bool cm_step(struct roce_world *roce)
{
	struct cm_world *w = roce->state;

	if (time_pass(w))
		return true;
	if (w->until_ns != UINT64_MAX)
		now_set(w, w->until_ns);
	return phase_move(w);
}

static int cm_open(struct roce_world *roce)
{
	const struct world_options o = { .seed = roce->seed, .trace_max = ROCE_TRACE_EVENTS };
	struct cm_world *w = roce->state;

	w->roce = roce;
	if (world_init(&w->world, &o) < 0)
		return -1;
	w->world.prng.state = roce->seed;
	w->until_ns = 5;
	now_set(w, w->until_ns);
	w->qpn_next = 100;
	w->loss = below(w, 2) ? below(w, 200000) : 0;
	w->doubling = below(w, 2) ? below(w, 300000) : 0;
	w->slow = below(w, 3) == 0 ? below(w, 200000) : 0;
	for (int k = 0; k < CM_SIDES; k++) {
		w->sides[k].cm = agent_new(w, k);
		if (!w->sides[k].cm)
			return -1;
	}
	w->requests = 1 + below(w, REQUESTS_MAX);
	w->crash_at = below(w, 8) == 0 ? below(w, w->requests) : UINT32_MAX;
	return 0;
}

static void cm_close(struct roce_world *roce)
{
	struct cm_world *w = roce->state;

	for (int k = 0; k < CM_SIDES && !roce_has_failed(roce); k++)
		ib_cm_destroy(w->sides[k].cm);
	world_fini(&w->world);
}

static struct world *cm_clock(struct roce_world *roce)
{
	return &((struct cm_world *)roce->state)->world;
}

const struct roce_scenario roce_cm = {
	.state_bytes = sizeof(struct cm_world),
	.open = cm_open,
	.step = cm_step,
	.close = cm_close,
	.clock = cm_clock,
};
